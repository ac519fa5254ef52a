"""What a step of a live member leaves: bytes to send, rows to log, messages for the application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.live import arrays as a

# Up to so many messages are handled one by one.
FEW: Final = 16
ROW_BYTES: Final = 8 * a.DELIVERY_WORDS


class Message(NamedTuple):
    """A delivered message."""

    sender: int
    sequence: int
    payload: bytes


class Batch:
    """Messages delivered together, in order: iterate over them, or take a whole column.

    ``payloads``, ``senders`` and ``sequences`` are lists of all of them: a fraction of the time
    that an object for each message takes.
    """

    __slots__ = ("_data", "_first", "_size", "_words")

    def __init__(self, rows: bytes, data: bytes) -> None:
        self._size = len(rows) // ROW_BYTES
        # NumPy is faster for many, and much slower for a few.
        words = memoryview(rows).cast("q")
        self._words = np.frombuffer(words, np.int64) if self._size > FEW else words.tolist()
        self._data = data
        self._first = 0

    def __len__(self) -> int:
        return self._size - self._first

    def __iter__(self) -> Iterator[Message]:
        return map(Message, self.senders, self.sequences, self.payloads)

    def __getitem__(self, place: int) -> Message:
        at = a.DELIVERY_WORDS * (self._first + place)
        source, sequence, begin, end = map(int, self._words[at : at + a.DELIVERY_WORDS])
        return Message(source, sequence, self._data[begin:end])

    @property
    def senders(self) -> list[int]:
        """Who broadcast each of them."""
        return self._column(a.SOURCE)

    @property
    def sequences(self) -> list[int]:
        """Which of its sender's broadcasts each of them is, from 1."""
        return self._column(a.SEQUENCE)

    @property
    def payloads(self) -> list[bytes]:
        """What was broadcast."""
        data = self._data
        begins, ends = self._column(a.FIRST_BYTE), self._column(a.LAST_BYTE)
        return [data[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def _column(self, place: int) -> list[int]:
        found = self._words[place + a.DELIVERY_WORDS * self._first :: a.DELIVERY_WORDS]
        return found if isinstance(found, list) else found.tolist()

    def counts(self, members: int) -> NDArray[np.int64]:
        """How many there are of each sender."""
        return np.bincount(self.senders, minlength=members)

    def pop(self) -> Message:
        """Take the first of them away."""
        self._first += 1
        return self[-1]


class Output:
    """What a call of ``run`` asks for."""

    __slots__ = ("common", "deliveries", "evicted", "left", "malformed", "own", "trace")

    def __init__(self) -> None:
        self.common: list[bytes] = []  # records for every member in the view
        self.own: dict[int, list[bytes]] = {}  # records for single members, to follow those
        self.deliveries: list[Batch] = []
        self.trace: list[bytes] = []  # rows, to be written before anything is sent
        self.evicted: list[int] = []
        self.left: list[int] = []
        self.malformed: list[tuple[int, int]] = []  # peer, reason
