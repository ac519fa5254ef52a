"""``History``: what every node broadcast and delivered, in its own order; the audit's input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import EventKind

BROADCAST: Final = int(EventKind.BROADCAST)
DELIVER: Final = int(EventKind.DELIVER)

# The audit counts rows of a node and messages of a run in int32.
INDEX_MAX: Final = 2**31 - 2


@dataclass(frozen=True, eq=False, kw_only=True)
class History:
    """One run: rows ``offsets[p]`` to ``offsets[p + 1]`` are node p's, in p's own order.

    Only broadcasts and deliveries are kept. A message that somebody delivered and nobody
    broadcast has the source -1 and the sequence 0.
    """

    nodes: int
    offsets: NDArray[np.int64]  # nodes + 1
    kind: NDArray[np.int8]  # row: BROADCAST or DELIVER
    message: NDArray[np.int32]  # row: index of the message
    message_source: NDArray[np.int32]  # message: who broadcast it, or -1
    message_sequence: NDArray[np.int32]  # message: its source's first, second, ... broadcast
    complete: bool  # the run ended by itself: what was not delivered is lost
    crashed: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    # Joins: at which node, how many rows of it stand before, and what it begins with: a message
    # and the earlier ones of its source, or -1 for nothing. A state of several sources is as many
    # joins. Without any, a node is a member from the beginning.
    join_node: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    join_row: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    join_message: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    departed: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    node_names: list[str] | None = None
    message_names: list[str] | None = None
    phantom_names: dict[int, str] = field(default_factory=dict)
    time_us: NDArray[np.int64] | None = None  # row; never used to order anything
    run_id: int | str = 0
    origin: str = ""
    skipped: int = 0  # lines or records of the log that were not understood
    notes: tuple[str, ...] = ()  # what is doubtful about the log, for people

    def __post_init__(self) -> None:
        """Refuse what compiled code could not index safely."""
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, _owned(getattr(self, name), dtype))
        rows = self.message.size
        if self.offsets.size != self.nodes + 1 or self.kind.size != rows:
            raise UserError(f"{self._title()}: offsets, kind and message differ in length")
        if self.offsets[0] != 0 or self.offsets[-1] != rows or np.any(np.diff(self.offsets) < 0):
            raise UserError(f"{self._title()}: offsets do not cut the rows into nodes")
        if 2 * max(rows, self.nodes, self.messages) > INDEX_MAX and self._longest() > INDEX_MAX:
            raise UserError(f"{self._title()}: too large for one audit; split it into runs")
        _check_range(self.message, 0, self.messages, f"{self._title()}: a row's message")
        _check_range(self.message_source, -1, self.nodes, f"{self._title()}: a message's source")
        _check_range(self.crashed, 0, self.nodes, f"{self._title()}: a crashed node")
        _check_range(self.departed, 0, self.nodes, f"{self._title()}: a node that has left")
        _check_range(self.join_node, 0, self.nodes, f"{self._title()}: a node that joined")
        if not self.join_node.size == self.join_row.size == self.join_message.size:
            raise UserError(
                f"{self._title()}: join_node, join_row and join_message differ in length"
            )
        lengths = np.diff(self.offsets)[self.join_node]
        if np.any((self.join_row < 0) | (self.join_row > lengths)):
            raise UserError(f"{self._title()}: a join is outside the rows of its node")
        _check_range(self.join_message, -1, self.messages, f"{self._title()}: a join's message")
        self._check_broadcasts()

    def _title(self) -> str:
        return self.origin or "history"

    def _longest(self) -> int:
        # Positions at a node count its rows and the places between them.
        longest = 2 * int(np.diff(self.offsets).max()) + 2 if self.nodes else 0
        return max(longest, self.nodes, self.messages)

    def _check_broadcasts(self) -> None:
        """Every message with a source has one broadcast row, at that source."""
        rows = np.flatnonzero(self.kind == BROADCAST)
        messages = self.message[rows]
        node = np.searchsorted(self.offsets, rows, side="right") - 1
        counts = np.bincount(messages, minlength=self.messages)
        if np.any(counts != (self.message_source >= 0)):
            raise UserError(f"{self._title()}: a message with a source has no single broadcast")
        if np.any(self.message_source[messages] != node):
            raise UserError(f"{self._title()}: a broadcast is not at its message's source")

    @property
    def messages(self) -> int:
        """How many messages the table holds, phantoms included."""
        return int(self.message_source.size)

    def node_label(self, node: int) -> str:
        """A node's name for people."""
        return str(node) if self.node_names is None else self.node_names[node]

    def message_label(self, message: int) -> str:
        """A message's name for people: its own, or ``source:sequence``."""
        if self.message_names is not None:
            return self.message_names[message]
        if message in self.phantom_names:
            return self.phantom_names[message]
        source = int(self.message_source[message])
        return f"{self.node_label(source)}:{int(self.message_sequence[message])}"

    def rows_of(self, node: int) -> slice:
        """The rows of a node."""
        return slice(int(self.offsets[node]), int(self.offsets[node + 1]))


_DTYPES: Final[dict[str, type[np.signedinteger[Any]]]] = {
    "offsets": np.int64,
    "kind": np.int8,
    "message": np.int32,
    "message_source": np.int32,
    "message_sequence": np.int32,
    "crashed": np.int32,
    "join_node": np.int32,
    "join_row": np.int64,
    "join_message": np.int32,
    "departed": np.int32,
}


def _owned(array: NDArray[Any], dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    # One array type: read-only and strided arrays would each be compiled for separately.
    return np.require(array, dtype, ["C", "W"])


def _check_range(array: NDArray[Any], low: int, high: int, what: str) -> None:
    if array.size and (int(array.min()) < low or int(array.max()) >= high):
        raise UserError(f"{what} is outside {low}..{high - 1}")
