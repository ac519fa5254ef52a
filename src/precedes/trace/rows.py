"""``Rows``: one run of any size, read in chunks in bounded memory; the audit's input.

A run is the rows of its nodes, each node's in its own order, and a message is (source, seq) with
seq = 1, 2, ... in the order of its source's broadcasts. ``History`` has the rows in memory; rows
elsewhere (in files, in blocks of a sorted table) are subclasses of ``Rows``: six fields and
``chunks``, in a form that can be pickled, since tasks read them in processes of their own.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from precedes import frames
from precedes.errors import UserError
from precedes.model import EventKind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BROADCAST: Final = int(EventKind.BROADCAST)
DELIVER: Final = int(EventKind.DELIVER)
CRASH: Final = int(EventKind.CRASH)
JOIN: Final = int(EventKind.JOIN)
LEAVE: Final = int(EventKind.LEAVE)
KINDS: Final = {kind.name.lower(): int(kind) for kind in EventKind}
JUDGED: Final = {name: KINDS[name] for name in ("broadcast", "deliver", "crash", "join", "leave")}
NO_MESSAGE: Final = -1

# Rows of a chunk: a pass over them takes a small multiple of this in memory.
CHUNK_ROWS: Final = 1 << 17


class NoOrder(Exception):
    """The rows are not ordered by node and in each node's own order, or seq is not 1, 2, 3, ...

    They have to be sorted, or given numbers, before they can be read in chunks.
    """


class Chunk(NamedTuple):
    """Rows of consecutive nodes: those of node ``first + i`` are ``bounds[i]`` to ``bounds[i+1]``.

    A node's rows may continue in the next chunk. ``kind`` is that of ``EventKind``; rows of kinds
    other than broadcast, deliver, crash, join and leave are ignored. A join
    with seq 0 names no message. A delivery without a broadcast may name any pair; one
    without a pair has the source -1. The arrays are contiguous and writable, since
    compiled code distinguishes such from others.
    """

    first: int
    bounds: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]


class Rows(ABC):
    """One run: its nodes, the number of rows of each, and the rows themselves.

    ``counts`` may be too high, never too low: work is divided by it, and a seq above that
    of its source is known to be a phantom.
    """

    nodes: int
    counts: NDArray[np.int64]
    complete: bool  # the run ended by itself: undelivered messages are lost
    has_end: bool = False  # the log tells its end from a pause
    run_id: int | str
    origin: str
    skipped: int = 0  # lines of the log that could not be read as rows
    notes: tuple[str, ...] = ()  # doubts about the log
    address: str | None = None  # of the log that the rows are read from, piece by piece
    folder: object = None  # temporary, and removed when nothing refers to it

    @abstractmethod
    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """The rows of nodes ``first`` up to and without ``last``, at most this many at a time.

        Nodes without rows may be left out. With ``check``, which the first pass sets, rows
        that are not in their node's order raise ``NoOrder``.
        """

    def with_end(self, *, complete: bool) -> Self:
        """The same run, marked as complete or not."""
        run = copy.copy(self)
        for name, value in (("complete", complete), ("has_end", True)):
            object.__setattr__(run, name, value)  # a history is frozen
        return run

    def node_label(self, node: int) -> str:
        """A node's name for people."""
        return str(node)

    def pair_label(self, source: int, seq: int) -> str:
        """The name of the message (source, seq) for people."""
        return f"{self.node_label(source) if 0 <= source < self.nodes else source}:{seq}"

    def message_number(self, number: int, source: int, seq: int) -> int:
        """The number of a message in reports; ``number`` counts by (source, seq), phantoms last."""
        return number


def cut_chunks(
    first: int,
    offsets: NDArray[np.int64],
    chunk_rows: int,
    rows: Callable[[int, int], tuple[NDArray[Any], ...]],
) -> Iterator[Chunk]:
    """Cut the rows of nodes into chunks; ``rows`` gives those from one number to another."""
    start, end = int(offsets[0]), int(offsets[-1])
    while start < end:
        stop = min(start + chunk_rows, end)
        low = int(np.searchsorted(offsets, start, side="right")) - 1
        high = int(np.searchsorted(offsets, stop, side="left"))
        bounds = np.clip(offsets[low : high + 1], start, stop) - start
        yield Chunk(first + low, bounds, *rows(start, stop))
        start = stop


# The audit counts rows of a node and messages of a run in int32.
INDEX_MAX: Final = 2**31 - 2

# For a history with at most this many rows, derived data are cached: 8 bytes a row.
KEPT_ROWS: Final = 1 << 25

# Rows at a time, so that intermediate arrays stay in the cache.
STRIDE: Final = 1 << 16

# Names that sort as numbers, which most traces and databases use for their nodes.
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, eq=False, kw_only=True)
class History(Rows):
    """One run: rows ``offsets[p]`` to ``offsets[p + 1]`` are node p's, in p's own order.

    Only broadcasts and deliveries are kept. A message that was delivered but never
    broadcast has the source -1 and the sequence 0.
    """

    nodes: int
    offsets: NDArray[np.int64]  # nodes + 1
    kind: NDArray[np.int8]  # row: BROADCAST or DELIVER
    message: NDArray[np.int32]  # row: index of the message
    message_source: NDArray[np.int32]  # message: its source, or -1
    message_sequence: NDArray[np.int32]  # message: its source's first, second, ... broadcast
    complete: bool  # the run ended by itself: undelivered messages are lost
    crashed: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    # Joins: at which node, after how many of its rows, and its initial state: a message
    # and the earlier ones of its source, or -1 for nothing. A state of several sources is that many
    # joins. Without any, a node is a member from the beginning.
    join_node: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    join_row: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    join_message: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    departed: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    node_names: list[str] | None = None
    message_names: list[str] | None = None
    phantom_names: dict[int, str] = field(default_factory=dict)
    time_us: NDArray[np.int64] | None = None  # row; never used to order anything
    has_end: bool = False
    run_id: int | str = 0
    origin: str = ""
    skipped: int = 0  # lines or records of the log that were not parsed
    notes: tuple[str, ...] = ()  # doubts about the log, for people

    def __post_init__(self) -> None:
        """Raise for rows that compiled code could not index safely."""
        for name, dtype in _DTYPES.items():
            # One array type: read-only and strided arrays would each be compiled for separately.
            array = np.require(getattr(self, name), dtype, ["C", "W"])
            object.__setattr__(self, name, array)
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
        about = np.concatenate((self.join_node, self.crashed, self.departed))
        counts = np.diff(self.offsets) + np.bincount(about, minlength=self.nodes)
        object.__setattr__(self, "counts", counts)

    def _title(self) -> str:
        return self.origin or "history"

    def _longest(self) -> int:
        # Positions at a node count its rows and the places between them.
        longest = 2 * int(np.diff(self.offsets).max()) + 2 if self.nodes else 0
        return max(longest, self.nodes, self.messages)

    def _check_broadcasts(self) -> None:
        """Check that every message with a source has one broadcast row, at that source."""
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
        """Number of messages in the table, phantoms included."""
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

    def to_arrow(self) -> pa.Table:
        """The events as a table: run_id, node, local_seq, time_us, kind, message.

        ``from_arrow`` makes the same history of it, without nodes that have no events.
        """
        import pyarrow as pa

        from precedes.trace.schema import EVENTS

        about = self._about
        at = about.row + self.offsets[about.node]
        node = np.repeat(np.arange(self.nodes), np.diff(self.offsets))
        sent, first = self._sent
        index = np.where(about.source < 0, -1, first[about.source] + about.seq - 1)
        named = np.where(about.source < 0, about.seq - 1, np.append(sent, NO_MESSAGE)[index])
        message = np.insert(self.message, at, named)
        node = np.insert(node, at, about.node)
        is_event = np.insert(np.ones(self.kind.size, np.bool_), at, False)
        first_row = np.searchsorted(node, np.arange(self.nodes))
        time = pa.nulls(node.size, pa.int64())
        if self.time_us is not None:
            time = pa.array(np.insert(self.time_us, at, 0), mask=~is_event)
        names = [self.node_label(number) for number in range(self.nodes)]
        labels = [self.message_label(number) for number in range(self.messages)]
        kind = pa.array([item.name.lower() for item in EventKind], pa.string())
        columns = [
            pa.array([str(self.run_id)], pa.string()).take(pa.array(np.zeros(node.size, np.int32))),
            pa.array(names, pa.string()).take(pa.array(node)),
            pa.array(np.arange(node.size) - first_row[node]),
            time,
            kind.take(pa.array(np.insert(self.kind, at, about.kind))),
            pa.array(labels, pa.string()).take(pa.array(message, mask=message < 0)),
        ]
        return pa.Table.from_arrays(columns, schema=EVENTS)

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a DataFrame of pandas."""
        return frames.pandas_of(self.to_arrow())

    def rows_of(self, node: int) -> slice:
        """The rows of a node."""
        return slice(int(self.offsets[node]), int(self.offsets[node + 1]))

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``."""
        offsets, about = self.offsets, self._about
        begin, end = np.searchsorted(about.node, (first, last))
        if begin == end:
            yield from cut_chunks(first, offsets[first : last + 1], chunk_rows, self._columns)
            return
        # Rows about members are inserted between the others.
        wide = offsets[first : last + 1] + np.concatenate(
            ([0], np.cumsum(np.bincount(about.node[begin:end] - first, minlength=last - first)))
        )
        low, high = int(offsets[first]), int(offsets[last])
        before = about.row[begin:end] + offsets[about.node[begin:end]] - low
        more: tuple[NDArray[Any], ...] = (about.kind, about.source, about.seq)
        kind, source, seq = (
            np.insert(column, before, rows[begin:end])
            for column, rows in zip(self._columns(low, high), more, strict=True)
        )

        def inside(start: int, stop: int) -> tuple[NDArray[Any], ...]:
            part = slice(start - low, stop - low)
            return kind[part], source[part], seq[part]

        yield from cut_chunks(first, wide, chunk_rows, inside)

    def _columns(self, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        """Kind, source and seq of some rows; pairs of a history that is not very large are kept."""
        if self.message.size > KEPT_ROWS:
            return self.kind[start:stop], *self._pairs(self.message[start:stop])
        source, seq = self._all_pairs
        return self.kind[start:stop], source[start:stop], seq[start:stop]

    @cached_property
    def _all_pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self._pairs(self.message)

    def _pairs(self, message: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        source, seq = np.empty(message.size, np.int32), np.empty(message.size, np.int32)
        for start in range(0, message.size, CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            # NumPy would convert the numbers into its own kind of index for each of the two.
            index = message[part].astype(np.intp)
            self.message_source.take(index, mode="clip", out=source[part])
            self._ranks.take(index, mode="clip", out=seq[part])
        return source, seq

    def pair_label(self, source: int, seq: int) -> str:
        """See ``Rows``."""
        return self.message_label(self._index(source, seq))

    def message_number(self, number: int, source: int, seq: int) -> int:
        """See ``Rows``."""
        return self._index(source, seq)

    def _index(self, source: int, seq: int) -> int:
        if source < 0:
            return seq - 1
        sent, first = self._sent
        return int(sent[first[source] + seq - 1])

    @cached_property
    def _sent(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The messages in the order of their broadcasts, and where those of each node begin."""
        rows = np.flatnonzero(self.kind == BROADCAST)
        return self.message[rows], np.searchsorted(rows, self.offsets)

    @cached_property
    def _ranks(self) -> NDArray[np.int32]:
        """The seq of each message: by rows, since numbers of a caller are for display only.

        A phantom, whose source is -1, has the number of its message and one.
        """
        seq = np.arange(1, self.messages + 1, dtype=np.int32)
        sent, first = self._sent
        seq[sent] = np.arange(1, sent.size + 1) - first[self.message_source[sent]]
        return seq

    @cached_property
    def _about(self) -> _About:
        """Joins at their places, crashes and leaves at the end of their nodes."""
        ends = np.concatenate((self.crashed, self.departed))
        node = np.concatenate((self.join_node, ends))
        sizes = (self.join_node.size, self.crashed.size, self.departed.size)
        # An empty join has the message -1: the last of these.
        source = np.append(self.message_source, -1)[self.join_message]
        seq = np.append(self._ranks, 0)[self.join_message]
        row = np.concatenate((self.join_row, np.diff(self.offsets)[ends]))
        order = np.lexsort((np.arange(node.size), row, node))
        none = np.zeros(ends.size, np.int32)
        return _About(
            node=node[order].astype(np.int32),
            row=row[order],
            kind=np.repeat((JOIN, CRASH, LEAVE), sizes)[order].astype(np.int8),
            source=np.concatenate((source, none - 1))[order].astype(np.int32),
            seq=np.concatenate((seq, none))[order].astype(np.int32),
        )


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


def _check_range(array: NDArray[Any], low: int, high: int, name: str) -> None:
    if array.size and (int(array.min()) < low or int(array.max()) >= high):
        raise UserError(f"{name} is outside {low}..{high - 1}")


class _About(NamedTuple):
    """Rows about members: at which node, and the number of its broadcasts and deliveries before."""

    node: NDArray[np.int32]
    row: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]


def numbered_history(
    *,
    offsets: NDArray[np.int64],
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    title: str,
    **fields: Any,
) -> History:
    """The history of rows whose messages are pairs (source, seq), sorted by node and its order.

    A seq of 0 in a row about a node names no message.
    """
    bare = (kind == CRASH) | (kind == LEAVE) | ((kind == JOIN) & (seq == 0))
    if not bare.any():
        table = _messages(offsets, kind, source, seq, title=title)
    else:
        kept = ~bare
        inside = offsets - np.searchsorted(np.flatnonzero(bare), offsets)
        table = _messages(inside, kind[kept], source[kept], seq[kept], title=title)
        message = np.full(kind.size, NO_MESSAGE, np.int32)
        message[kept] = table["message"]
        table["message"] = message
    return make_history(offsets=offsets, kind=kind, **table, **fields)


def in_order(names: list[str]) -> list[str]:
    """Names sorted, as numbers if all are."""
    if all(_NUMBER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def make_history(
    *,
    offsets: NDArray[np.int64],
    kind: NDArray[np.int8],
    message: NDArray[np.int32],
    time_us: NDArray[np.int64] | None = None,
    **fields: Any,
) -> History:
    """A history of these rows, with those about membership separated."""
    about = (kind != BROADCAST) & (kind != DELIVER)
    if about.any():
        rows = np.flatnonzero(about)
        fields |= _members(rows, kind[rows], message[rows], offsets)
        offsets = offsets - np.searchsorted(rows, offsets)
        kind, message = kind[~about], message[~about]
        time_us = time_us[~about] if time_us is not None else None
    return History(offsets=offsets, kind=kind, message=message, time_us=time_us, **fields)


def _members(
    rows: NDArray[np.int64],
    kind: NDArray[np.int8],
    message: NDArray[np.int32],
    offsets: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """Crashes, joins and leaves, from their rows."""
    node = (np.searchsorted(offsets, rows, side="right") - 1).astype(np.int32)
    # The number of broadcasts and deliveries of the same node before each.
    first = np.searchsorted(rows, offsets[node])
    own = rows - offsets[node] - (np.arange(rows.size) - first)
    joins = kind == JOIN
    last = {int(n): int(k) for n, k in zip(node[kind != CRASH], kind[kind != CRASH], strict=True)}
    departed = sorted(n for n, k in last.items() if k == LEAVE)
    return {
        "crashed": np.unique(node[kind == CRASH]),
        "join_node": node[joins],
        "join_row": own[joins],
        "join_message": message[joins],
        "departed": np.array(departed, np.int32),
    }


def _messages(
    offsets: NDArray[np.int64],
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    *,
    title: str,
) -> dict[str, Any]:
    """Number the broadcasts in the order of rows, and look them up for the deliveries.

    Phantoms come last. Names are kept only if a ``seq`` is not the position among its source's.
    """
    nodes = offsets.size - 1
    rows = np.flatnonzero(kind == BROADCAST)
    node = np.searchsorted(offsets, rows, side="right") - 1
    foreign = np.flatnonzero(source[rows] != node)
    if foreign.size:
        row = rows[foreign[0]]
        raise UserError(
            f"{title}: node {node[foreign[0]]} broadcasts {source[row]}:{seq[row]}, a message "
            "of another node: record the trace again"
        )
    first = np.searchsorted(node, np.arange(nodes + 1)).astype(np.int32)
    rank = (np.arange(rows.size) - first[node] + 1).astype(np.int32)
    names: list[str] | None = None
    if np.array_equal(seq[rows], rank):
        message = _by_rank(first, source, seq)
    else:
        message = _by_search(_keys(source, seq), rows, source, seq, title)
        pairs = zip(source[rows].tolist(), seq[rows].tolist(), strict=True)
        names = [f"{s}:{q}" for s, q in pairs]
    phantom = np.flatnonzero(message < 0)
    unknown, inverse = np.unique(_keys(source[phantom], seq[phantom]), return_inverse=True)
    message[phantom] = rows.size + inverse
    labels = [f"{key >> 32}:{(key & 0xFFFFFFFF) - 2**31}" for key in unknown.tolist()]
    return {
        "message": message,
        "message_source": np.concatenate((node, np.full(len(labels), -1))).astype(np.int32),
        "message_sequence": np.concatenate((rank, np.zeros(len(labels)))).astype(np.int32),
        "message_names": None if names is None else names + labels,
        "phantom_names": {rows.size + i: label for i, label in enumerate(labels)},
    }


def _by_rank(
    first: NDArray[np.int32], source: NDArray[np.int32], seq: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The usual trace: a source's messages are 1, 2, 3, ... and need no search."""
    message = np.empty(source.size, np.int32)
    nodes = first.size - 1
    counts = np.diff(first)
    for start in range(0, source.size, STRIDE):
        rows = slice(start, start + STRIDE)
        known = np.clip(source[rows], 0, nodes - 1)
        inside = (known == source[rows]) & (seq[rows] >= 1) & (seq[rows] <= counts[known])
        message[rows] = np.where(inside, first[known] + (seq[rows] - 1), -1)
    return message


def _by_search(
    keys: NDArray[np.int64],
    rows: NDArray[np.int64],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    title: str,
) -> NDArray[np.int32]:
    order = np.argsort(keys[rows], kind="stable")
    ordered = keys[rows][order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        row = rows[order[twice[0]]]
        raise UserError(
            f"{title}: {source[row]}:{seq[row]} is broadcast twice: record the trace again"
        )
    if rows.size == 0:
        return np.full(keys.size, -1, np.int32)
    at = np.minimum(np.searchsorted(ordered, keys), rows.size - 1)
    return np.where(ordered[at] == keys, order[at], -1).astype(np.int32)


def _keys(source: NDArray[np.int32], seq: NDArray[np.int32]) -> NDArray[np.int64]:
    return (source.astype(np.int64) << 32) + (seq.astype(np.int64) + 2**31)
