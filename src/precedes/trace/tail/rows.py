"""What a growing log is: its rows as numbers, its files, its end."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.trace.history import History

SHIFT: Final = 32
NO_MESSAGE: Final = -1

# So many bytes before the place up to which a file was read must still be what they were.
MARK_BYTES: Final = 256


class Rows(NamedTuple):
    """Rows of a log, each node's in its own order.

    A message is ``source << 32 | sequence``, NO_MESSAGE if a row has none, or -2 - label if its
    broadcast was not read so far.
    """

    node: NDArray[np.int32]
    kind: NDArray[np.int8]
    message: NDArray[np.int64]

    def at(self, index: NDArray[Any]) -> Rows:
        """The rows that an index chooses."""
        return Rows(self.node[index], self.kind[index], self.message[index])

    def then(self, others: Rows) -> Rows:
        """These rows and others behind them."""
        if not self.node.size:
            return others
        if not others.node.size:
            return self
        return Rows(
            np.concatenate((self.node, others.node)),
            np.concatenate((self.kind, others.kind)),
            np.concatenate((self.message, others.message)),
        )


NO_ROWS: Final = Rows(np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int64))


def message_of(source: int, sequence: int) -> int:
    """The number of a message in ``Rows``."""
    return (source << SHIFT) | sequence


def label_of(message: int) -> str:
    """What a message is called that has no name: its source and its sequence."""
    return f"{message >> SHIFT}:{message & (1 << SHIFT) - 1}"


class End(NamedTuple):
    """Whether what was not delivered is lost, and which nodes crashed."""

    complete: bool
    crashed: list[int]


class GrowingFile:
    """Reads on from where it was. A file that shrinks, or holds something else, is a UserError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._mark = b""

    def read(self, limit_bytes: int) -> bytes:
        """What comes next, at most so many bytes; nothing if the file did not grow."""
        begin = self.offset - len(self._mark)
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                data = os.pread(descriptor, len(self._mark) + limit_bytes, begin)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            raise UserError(f"{self.path} is gone: a log that is followed must stay") from None
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror}") from None
        if len(data) < len(self._mark):
            raise UserError(f"{self.path} has become shorter: a log that is followed only grows")
        if not data.startswith(self._mark):
            raise UserError(f"{self.path} was replaced by another file: follow it anew")
        return data[len(self._mark) :]

    def written_bytes(self) -> int:
        """Size of the file now; 0 if it cannot be found out, as the next ``read`` reports."""
        try:
            return os.path.getsize(self.path)
        except OSError:
            return 0

    def advance(self, data: bytes) -> None:
        """What ``read`` gave is used up to here: the next call begins behind it."""
        self.offset += len(data)
        self._mark = (self._mark + data[-MARK_BYTES:])[-MARK_BYTES:]

    def rewind(self) -> None:
        """Begin again."""
        self.offset, self._mark = 0, b""

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        return {"offset": self.offset, "mark": self._mark.hex()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        self.offset, self._mark = int(about["offset"]), bytes.fromhex(about["mark"])


class Tail(ABC):
    """A log that is read while it is written.

    ``options`` say how it is read: with others, what was read would have been something else.
    """

    title: str
    options: Mapping[str, Any]
    is_closed: bool  # all nodes are known before the first row
    nodes: int = 0  # how many are known

    @property
    def run_id(self) -> int | str:
        """The one run in it."""
        return 0

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return np.empty(0, np.int64)

    @abstractmethod
    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """Some new rows, or None if nothing new was written; those of nodes that rest may wait.

        Lines that are not judged are new too, so that there may be no rows.
        """

    def finish(self) -> Rows:
        """What is left when nothing more will be written."""
        return NO_ROWS

    @abstractmethod
    def written_bytes(self) -> int:
        """Size of the log now: it changes with every write."""

    def end(self) -> End:
        """How the log ends, if this is its end; unless it says so, rows may be missing."""
        return End(False, [])

    def is_over(self, *, quiet_s: float) -> bool:
        """Whether no more rows will come, after that time without a write."""
        return False

    def gone(self) -> list[int]:
        """Nodes that will have no more rows; a row of a crash or a leave says so by itself."""
        return []

    def node_label(self, node: int) -> str:
        """A node's name."""
        return str(node)

    def message_label(self, message: int) -> str:
        """The name of a message as ``Rows`` has it."""
        return label_of(message)

    def size_bytes(self) -> int:
        """What names take."""
        return 0

    @abstractmethod
    def rewind(self) -> None:
        """Read all again."""

    @abstractmethod
    def history(self) -> History:
        """What was read, as the batch audit reads it."""

    def node_in(self, history: History, node: int) -> int:
        """A node as that history numbers it."""
        return node

    @abstractmethod
    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""

    @abstractmethod
    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
