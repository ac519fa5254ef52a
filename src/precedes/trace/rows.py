"""``Rows``: one run of any size, read piece by piece in bounded memory; the audit's input.

A run is the rows of its nodes, each node's in its own order, and a message is (source, seq) with
seq = 1, 2, ... in the order of its source's broadcasts. Who has rows elsewhere (in files, in blocks
of a shuffled table) subclasses ``Rows``: six fields and ``chunks``, in a form that can be pickled,
since tasks read it in processes of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.model import EventKind
from precedes.trace.history import BROADCAST, History

CRASH: Final = int(EventKind.CRASH)
JOIN: Final = int(EventKind.JOIN)
LEAVE: Final = int(EventKind.LEAVE)

# Rows at a time: what a pass over them adds to the memory of a process is a small multiple.
CHUNK_ROWS: Final = 1 << 17


# Of a history with at most so many rows what was found out about them is kept: 8 bytes a row.
KEPT_ROWS: Final = 1 << 25


class NoOrder(Exception):
    """The rows do not come by node and in each node's own order, or seq is not 1, 2, 3, ...

    They have to be brought together, or given numbers, before they can be read piece by piece.
    """


class Chunk(NamedTuple):
    """Rows of consecutive nodes: those of node ``first + i`` are ``bounds[i]`` to ``bounds[i+1]``.

    A node's rows may go on in the next chunk. ``kind`` is that of ``EventKind``; rows of kinds
    other than broadcast, deliver, crash, join and leave mean nothing and may be there. A join
    with seq 0 names no message. A delivery of what nobody broadcast may name any pair; one
    without a pair has the source -1. The arrays are contiguous and can be written to, since
    compiled code tells such from others.
    """

    first: int
    bounds: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]


class Rows(ABC):
    """One run: its nodes, how many rows each has, and the rows themselves.

    ``counts`` may be too high, never too low: work is shared out by it, and a seq above that
    of its source is known to be a phantom.
    """

    nodes: int
    counts: NDArray[np.int64]
    complete: bool  # the run ended by itself: what was not delivered is lost
    run_id: int | str
    origin: str
    skipped: int = 0  # lines of the log that could not be read as rows
    notes: tuple[str, ...] = ()  # what is doubtful in the log

    @abstractmethod
    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """The rows of nodes ``first`` up to and without ``last``, at most so many at a time.

        Nodes without rows may be left out. With ``check``, which the first pass asks for, rows
        that do not stand in their node's order raise ``NoOrder``.
        """

    def gathered(self) -> Rows:
        """The same run after ``NoOrder``: brought together, in order, with numbers; in memory."""
        raise NotImplementedError

    def node_label(self, node: int) -> str:
        """A node's name for people."""
        return str(node)

    def message_label(self, source: int, seq: int) -> str:
        """A message's name for people."""
        return f"{self.node_label(source) if 0 <= source < self.nodes else source}:{seq}"

    def message_number(self, number: int, source: int, seq: int) -> int:
        """The number of a message in reports; ``number`` counts by (source, seq), phantoms last."""
        return number


class HistoryRows(Rows):
    """The rows of a history, from memory."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.nodes = history.nodes
        self.complete = history.complete
        self.run_id = history.run_id
        self.origin = history.origin
        self.skipped = history.skipped
        self.notes = history.notes
        self._source = history.message_source
        self._seq = _ranks(history)
        self._about = _about(history, self._seq)
        self.counts = np.diff(history.offsets) + np.bincount(
            self._about.node, minlength=history.nodes
        )
        rows = np.flatnonzero(history.kind == BROADCAST)
        self._sent = history.message[rows]
        self._sent_first = np.searchsorted(rows, history.offsets)
        self._kept: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``."""
        history, about = self._history, self._about
        offsets = history.offsets
        begin, end = np.searchsorted(about.node, (first, last))
        if begin == end:
            yield from cut_chunks(first, offsets[first : last + 1], chunk_rows, self._rows)
            return
        # Rows about members go between the others.
        wide = offsets[first : last + 1] + np.concatenate(
            ([0], np.cumsum(np.bincount(about.node[begin:end] - first, minlength=last - first)))
        )
        before = about.row[begin:end] + offsets[about.node[begin:end]]
        low, high = int(offsets[first]), int(offsets[last])
        kind = np.insert(history.kind[low:high], before - low, about.kind[begin:end])
        source, seq = self._of_rows(low, high)
        source = np.insert(source, before - low, about.source[begin:end])
        seq = np.insert(seq, before - low, about.seq[begin:end])

        def rows(start: int, stop: int) -> tuple[NDArray[Any], ...]:
            part = slice(start - low, stop - low)
            return kind[part], source[part], seq[part]

        yield from cut_chunks(first, wide, chunk_rows, rows)

    def _rows(self, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        history = self._history
        return history.kind[start:stop], *self._of_rows(start, stop)

    def _pairs(self, message: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        source, seq = np.empty(message.size, np.int32), np.empty(message.size, np.int32)
        for start in range(0, message.size, CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            # NumPy would turn the numbers into its own kind of index for each of the two.
            index = message[part].astype(np.intp)
            self._source.take(index, mode="clip", out=source[part])
            self._seq.take(index, mode="clip", out=seq[part])
        return source, seq

    def _of_rows(self, start: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The pairs of some rows; those of a history that is not very large are kept."""
        history = self._history
        if self._kept is None:
            if history.message.size > KEPT_ROWS:
                return self._pairs(history.message[start:stop])
            self._kept = self._pairs(history.message)
        source, seq = self._kept
        return source[start:stop], seq[start:stop]

    def node_label(self, node: int) -> str:
        """See ``Rows``."""
        return self._history.node_label(node)

    def message_label(self, source: int, seq: int) -> str:
        """See ``Rows``."""
        return self._history.message_label(self._index(source, seq))

    def message_number(self, number: int, source: int, seq: int) -> int:
        """See ``Rows``."""
        return self._index(source, seq)

    def _index(self, source: int, seq: int) -> int:
        if source < 0:
            return seq - 1
        return int(self._sent[self._sent_first[source] + seq - 1])


class _About(NamedTuple):
    """Rows about members: at which node, and how many of its broadcasts and deliveries before."""

    node: NDArray[np.int32]
    row: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]


def _ranks(history: History) -> NDArray[np.int32]:
    """The seq of each message: by rows, since numbers of a caller are for display only.

    A phantom, whose source is -1, has the number of its message and one.
    """
    seq = np.arange(1, history.messages + 1, dtype=np.int32)
    rows = np.flatnonzero(history.kind == BROADCAST)
    sent = history.message[rows]
    first = np.searchsorted(rows, history.offsets)
    seq[sent] = np.arange(1, rows.size + 1) - first[history.message_source[sent]]
    return seq


def _about(history: History, ranks: NDArray[np.int32]) -> _About:
    """Joins where they stand, crashes and leaves at the end of their nodes."""
    lengths = np.diff(history.offsets)
    ends = np.concatenate((history.crashed, history.departed))
    node = np.concatenate((history.join_node, ends))
    kind = np.concatenate(
        (
            np.full(history.join_node.size, JOIN),
            np.full(history.crashed.size, CRASH),
            np.full(history.departed.size, LEAVE),
        )
    )
    # A join with nothing has the message -1: the last of these.
    source = np.append(history.message_source, -1)[history.join_message]
    seq = np.append(ranks, 0)[history.join_message]
    row = np.concatenate((history.join_row, lengths[ends]))
    order = np.lexsort((np.arange(node.size), row, node))
    none = np.zeros(ends.size, np.int32)
    return _About(
        node=node[order].astype(np.int32),
        row=row[order],
        kind=kind[order].astype(np.int8),
        source=np.concatenate((source, none - 1))[order].astype(np.int32),
        seq=np.concatenate((seq, none))[order].astype(np.int32),
    )


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
