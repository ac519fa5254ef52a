"""Output of a run of a live member: bytes to send, rows to log, messages for the application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from precedes.live.member import arrays

# Batches of at most this many messages are handled one by one.
FEW: Final = 16
ROW_BYTES: Final = 8 * arrays.DELIVERY_WORDS


class Message(NamedTuple):
    """A delivered message."""

    sender: int
    sequence: int
    payload: bytes


class Epoch(Protocol):
    """Names of messages outside of the node of an epoch."""

    is_first: bool  # they are those of the node

    def name(self, position: int, sequence: int) -> tuple[int, int]:
        """Sender and sequence number outside."""

    def named(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows that begin with position and sequence, with names instead."""


def table_of(rows: bytes) -> NDArray[np.int64]:
    """Rows of deliveries as a table."""
    return np.frombuffer(rows, np.int64).reshape(-1, arrays.DELIVERY_WORDS)


class Batch:
    """Messages delivered together, in order: iterate over them, or take a whole column.

    ``payloads``, ``senders`` and ``sequences`` are lists of all of them: a fraction of the time
    that an object for each message takes. All are of one epoch, which has their names; without
    one, the names are those of the node.
    """

    __slots__ = ("_data", "_few", "_first", "_rows", "_size", "epoch")

    def __init__(self, rows: memoryview, data: memoryview) -> None:
        self._size = len(rows) // ROW_BYTES
        self._first = 0
        self._rows = bytes(rows)
        self._data = bytes(data)
        self._few: list[Message] = []
        self.epoch: Epoch | None = None

    def __len__(self) -> int:
        return self._size - self._first

    def __iter__(self) -> Iterator[Message]:
        if self._size <= FEW:
            return iter(self._messages())
        return map(Message, self.senders, self.sequences, self.payloads)

    def __getitem__(self, place: int) -> Message:
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} messages, and none at {place}")
        if self._size <= FEW:
            return self._messages()[place]
        source, sequence, begin, end = self._named()[place].tolist()
        return Message(source, sequence, self._data[begin:end])

    @property
    def senders(self) -> list[int]:
        """The sender of each message."""
        if self._size <= FEW:
            return [message.sender for message in self]
        return cast(list[int], self._named()[:, arrays.SOURCE].tolist())

    @property
    def sequences(self) -> list[int]:
        """The sequence number of each message, from 1."""
        if self._size <= FEW:
            return [message.sequence for message in self]
        return cast(list[int], self._named()[:, arrays.SEQUENCE].tolist())

    @property
    def payloads(self) -> list[bytes]:
        """The payload of each message."""
        if self._size <= FEW:
            return [message.payload for message in self]
        data, table = self._data, self._table()
        begins, ends = table[:, arrays.FIRST_BYTE], table[:, arrays.LAST_BYTE]
        sizes = ends - begins
        # Usually all have one size: then NumPy cuts them in a quarter of the time.
        if len(sizes) and sizes[0] and (sizes == sizes[0]).all():
            cut = np.frombuffer(data, f"V{sizes[0]}", len(sizes), int(begins[0]))
            return cast(list[bytes], cut.tolist())
        places = zip(begins.tolist(), ends.tolist(), strict=True)
        return [data[begin:end] for begin, end in places]

    @property
    def content(self) -> tuple[bytes, bytes]:
        """Rows of all messages with positions and sequences, and the bytes of their payloads."""
        return self._rows, self._data

    def counts(self, members: int) -> NDArray[np.int64]:
        """The number of messages from each position."""
        return np.bincount(self._table()[:, arrays.SOURCE], minlength=members)

    def _table(self) -> NDArray[np.int64]:
        """The rows of the remaining messages."""
        return table_of(self._rows)[self._first :]

    def _named(self) -> NDArray[np.int64]:
        return self._table() if self.epoch is None else self.epoch.named(self._table())

    def _messages(self) -> list[Message]:
        """A few messages, made when they are first requested: frames are sent before."""
        if not self._few:
            words = iter(memoryview(self._rows).cast("q").tolist())
            self._few = [
                Message(source, sequence, self._data[begin:end])
                for source, sequence, begin, end in zip(words, words, words, words, strict=True)
            ]
            if self.epoch is not None and not self.epoch.is_first:
                name = self.epoch.name
                self._few = [Message(*name(m.sender, m.sequence), m.payload) for m in self._few]
        return self._few[self._first :] if self._first else self._few

    def pop(self) -> Message:
        """Remove and return the first message."""
        message = self[0]
        self._first += 1
        return message


class Output:
    """Output of one call of ``run``."""

    __slots__ = (
        "broadcasts", "deliveries", "frames", "malformed", "suspected", "trace"
    )  # fmt: skip

    def __init__(self) -> None:
        # For every frame: records for every member, those for single members to follow, and the
        # number of bytes of the latter that are messages.
        self.frames: list[tuple[bytes, dict[int, bytes], dict[int, int]]] = []
        self.deliveries: list[Batch] = []
        self.trace: list[bytes] = []  # rows, to be logged in this order
        self.broadcasts = False  # whether own messages are sent: after their rows are logged
        self.suspected: list[int] = []  # by the failure detector
        self.malformed: list[tuple[int, int]] = []  # peer, reason
