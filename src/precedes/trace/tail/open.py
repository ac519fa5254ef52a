"""Which kind of growing log is it?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.stores import Address, Place
from precedes.trace.dialect import Dialect
from precedes.trace.history import History
from precedes.trace.members import holds_member_logs
from precedes.trace.tail.end import End
from precedes.trace.tail.lines import SUFFIXES, LinesTail
from precedes.trace.tail.members import MemberTail
from precedes.trace.tail.rows import Rows

FORMATS: Final = ("auto", "members", "jsonl", "csv")
STOP_WITHIN_S: Final = 0.05


class Tail(Protocol):
    """A log that is read while it is written."""

    title: str

    @property
    def options(self) -> dict[str, Any]:
        """How it is read: with other options, what was read would have been something else."""

    @property
    def run_id(self) -> int | str:
        """The one run in it."""

    @property
    def is_closed(self) -> bool:
        """Whether all nodes are known before the first row."""

    @property
    def nodes(self) -> int:
        """How many nodes are known."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""

    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """Some new rows, or None if nothing new was written; those of nodes that rest may wait.

        Lines that are not judged are new too, so that there may be no rows.
        """

    def finish(self) -> Rows:
        """What is left when nothing more will be written."""

    def written_bytes(self) -> int:
        """Size of the log now: it changes with every write."""

    def end(self) -> End:
        """How the log ends, if this is its end."""

    def is_over(self, *, quiet_s: float) -> bool:
        """Whether no more rows will come, after that time without a write."""

    def gone(self) -> list[int]:
        """Nodes that will have no more rows."""

    def node_label(self, node: int) -> str:
        """A node's name."""

    def message_label(self, message: int) -> str:
        """The name of a message as ``Rows`` has it."""

    def size_bytes(self) -> int:
        """What is kept."""

    def rewind(self) -> None:
        """Read all again."""

    def history(self) -> History:
        """What was read, as the batch audit reads it."""

    def node_in(self, history: History, node: int) -> int:
        """A node as that history numbers it."""

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""


def open_tail(
    source: Place, format: str = "auto", *, dialect: Dialect | None = None
) -> Tail | None:
    """A log to follow; None for a directory in which there is nothing yet."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise UserError(f"cannot follow logs of format {format!r}: choose from {known}")
    address = Address.of(source)
    if not address.is_local:
        raise UserError(f"{address} cannot be followed: only files of this machine grow")
    path = address.local
    dialect = Dialect() if dialect is None else dialect
    if not path.exists():
        raise UserError(f"there is no log {path}: check the path")
    if not os.path.isdir(path):
        if format == "members":
            raise UserError(f"{path} is a file: name the directory of the members' logs")
        is_table = format == "csv" or (format == "auto" and path.suffix in SUFFIXES["csv"])
        return LinesTail(path, "csv" if is_table else "jsonl", dialect)
    if format == "members" or (format == "auto" and holds_member_logs(address)):
        return MemberTail(path)
    names = os.listdir(path)
    for one, suffixes in SUFFIXES.items():
        if format == one or (format == "auto" and any(name.endswith(suffixes) for name in names)):
            return LinesTail(path, one, dialect)
    return None


def ticks(every_s: float, is_stopped: Callable[[], bool]) -> Iterator[float]:
    """Seconds since the first call, again and again, with a pause in between, until stopped."""
    began_s = time.monotonic()
    while not is_stopped():
        yield (now_s := time.monotonic() - began_s)
        while (left_s := now_s + every_s - (time.monotonic() - began_s)) > 0 and not is_stopped():
            time.sleep(min(left_s, STOP_WITHIN_S))
