"""One epoch of a member: its node, the names of its members, and what is not stable yet.

Within an epoch members have positions and sequence numbers begin with 1. Outside, a member has the
number of its uid, and its messages are counted through all epochs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import InternalError
from precedes.live.member import arrays
from precedes.live.member.effects import KIND_SHIFT, SOURCE_SHIFT
from precedes.live.member.node import Node
from precedes.live.member.output import Batch, Output, table_of
from precedes.live.membership.agreement import Report
from precedes.live.membership.values import Id
from precedes.model import EventKind

# After this many more bytes of rows and payloads, those of stable messages are dropped. Memory that
# was used a moment ago is still in the processor's cache, which makes it faster to drop them often.
TRIM_BYTES: Final = 1 << 16
OWN_EVENTS: Final = (int(EventKind.BROADCAST), int(EventKind.DELIVER))
ROW: Final = 2  # words of a row: time, then kind, source and sequence


class _Turn(NamedTuple):
    """Output of a turn of the node, which is dropped as a whole."""

    delivered: NDArray[np.int64]  # by position, messages that were delivered up to its end
    rows: list[bytes]
    contents: list[tuple[bytes, bytes]]  # of its batches
    size_bytes: int


class Epoch:
    """A node and what a member needs to end its epoch.

    ``number`` is that of its DATA frames. ``members`` and ``bases`` are by position: who is there,
    and how many messages it has broadcast before. Messages that all have consumed are dropped from
    time to time; windows bound the rest. Without ``can_end`` nothing is kept: in an epoch that goes
    on after a crash, messages of the crashed member never become stable.
    """

    def __init__(
        self,
        node: Node,
        *,
        number: int,
        members: Sequence[int],
        bases: Sequence[int],
        can_end: bool = True,
        trim_bytes: int = TRIM_BYTES,
    ) -> None:
        self.node, self.number = node, number
        self.members, self.bases = tuple(members), tuple(bases)
        self.position_of = {member: at for at, member in enumerate(members)}
        # In the first epoch positions and numbers are the same.
        self.is_first = self.members == tuple(range(len(members))) and not any(bases)
        self._member_at = np.array(members, np.int64)
        self._base_at = np.array(bases, np.int64)
        self._can_end = can_end
        self._turns: deque[_Turn] = deque()
        self._size_bytes = 0
        self._trim_bytes = self._trim_at_bytes = trim_bytes

    # Names ----------------------------------------------------------------------------------

    def name(self, position: int, sequence: int) -> Id:
        """The member and its message, counted through all epochs."""
        return self.members[position], self.bases[position] + sequence

    def place(self, member: int, sequence: int) -> Id | None:
        """Position and sequence of a message in this epoch; None if it is not of this epoch."""
        at = self.position_of.get(member)
        if at is None or sequence <= self.bases[at]:
            return None
        return at, sequence - self.bases[at]

    def named(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows that begin with position and sequence, with names instead."""
        if self.is_first:
            return table
        table = table.copy()
        table[:, arrays.SEQUENCE] += self._base_at[table[:, arrays.SOURCE]]
        table[:, arrays.SOURCE] = self._member_at[table[:, arrays.SOURCE]]
        return table

    def logged(self, rows: bytes) -> bytes:
        """Rows of the trace, with names."""
        if self.is_first:
            return rows
        table = np.frombuffer(rows, np.int64).reshape(-1, ROW).copy()
        kind, source, sequence = _parts(table[:, 1])
        table[:, 1] = (
            kind << KIND_SHIFT
            | self._member_at[source] << SOURCE_SHIFT
            | (sequence + self._base_at[source])
        )
        return table.tobytes()

    # What is not stable ---------------------------------------------------------------------

    def keep(self, output: Output) -> None:
        """Keep what may be needed to end the epoch."""
        for batch in output.deliveries:
            batch.epoch = self
        if not (self._can_end and output.trace):  # every event has a row
            return
        contents = [batch.content for batch in output.deliveries]
        size_bytes = sum(map(len, output.trace)) + sum(len(data) for _, data in contents)
        delivered = self.node.member.known[:, arrays.DELIVERED].copy()
        self._turns.append(_Turn(delivered, output.trace, contents, size_bytes))
        self._size_bytes += size_bytes
        if self._size_bytes > self._trim_at_bytes:
            self._trim()

    def _trim(self) -> None:
        """Drop the oldest turns if all have consumed everything up to their ends."""
        stable = self.node.member.known[:, arrays.STABLE]
        while self._turns and (self._turns[0].delivered <= stable).all():
            self._size_bytes -= self._turns.popleft().size_bytes
        self._trim_at_bytes = self._size_bytes + self._trim_bytes

    def counts(self) -> dict[int, int]:
        """Messages of each uid that are delivered here, own ones included, through all epochs."""
        delivered = self.node.member.known[:, arrays.DELIVERED] + self._base_at
        return {
            member + 1: count
            for member, count in zip(self.members, delivered.tolist(), strict=True)
        }

    def report(self) -> Report:
        """The state of the node, which has stopped. InternalError if it skipped a message."""
        stable = self.node.member.known[:, arrays.STABLE].copy()
        chunks = [_words(rows) for turn in self._turns for rows in turn.rows]
        words = np.concatenate([np.zeros(0, np.int64), *chunks])
        kind, source, sequence = _parts(words)
        is_kept = np.isin(kind, OWN_EVENTS) & (sequence > stable[source])
        source, sequence = source[is_kept], sequence[is_kept]
        delivered = stable + np.bincount(source, minlength=stable.size)
        last = stable.copy()
        np.maximum.at(last, source, sequence)
        if not (last == delivered).all():
            name = self.node.protocol.name
            raise InternalError(f"protocol {name} delivered messages of one sender out of sequence")
        bodies: dict[Id, bytes] = {}
        for rows, data in (content for turn in self._turns for content in turn.contents):
            table = table_of(rows)
            is_unstable = table[:, arrays.SEQUENCE] > stable[table[:, arrays.SOURCE]]
            for at, number, first, end in table[is_unstable].tolist():
                bodies[at, number] = data[first:end]
        me = self.node.settings.member
        bodies |= {(me, number): payload for number, payload in self.node.unstable()}
        return Report(
            delivered=tuple(delivered.tolist()),
            stable=tuple(stable.tolist()),
            unstable=tuple(zip(source.tolist(), sequence.tolist(), strict=True)),
            bodies=bodies,
        )

    def flushed(self, messages: Iterable[tuple[Id, bytes]], now_ns: int) -> tuple[Batch, bytes]:
        """The messages that end the epoch, as a batch and as rows of the trace."""
        table, rows, data = list[list[int]](), list[list[int]](), bytearray()
        deliver = int(EventKind.DELIVER) << KIND_SHIFT
        for (source, sequence), payload in messages:
            table.append([source, sequence, len(data), len(data) + len(payload)])
            rows.append([now_ns, deliver | source << SOURCE_SHIFT | sequence])
            data += payload
        batch = Batch(np.array(table, np.int64).data.cast("B"), memoryview(data))
        batch.epoch = self
        return batch, self.logged(np.array(rows, np.int64).tobytes())


def above(rows: bytes, counts: Mapping[int, int]) -> bytes:
    """The rows of messages above these counts, of members by number."""
    table = np.frombuffer(rows, np.int64).reshape(-1, ROW)
    _, source, sequence = _parts(table[:, 1])
    size = max(int(source.max(initial=0)), *counts, 0) + 1
    limit = np.zeros(size, np.int64)
    limit[list(counts)] = list(counts.values())
    return table[sequence > limit[source]].tobytes()


def _words(rows: bytes) -> NDArray[np.int64]:
    return np.frombuffer(rows, np.int64)[1::ROW]


def _parts(words: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Kind, source and sequence of each row."""
    source = words >> SOURCE_SHIFT & (1 << KIND_SHIFT - SOURCE_SHIFT) - 1
    return words >> KIND_SHIFT, source, words & (1 << SOURCE_SHIFT) - 1
