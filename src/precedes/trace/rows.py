"""``Rows``: one run of any size, read piece by piece in bounded memory; the audit's input.

A run is the rows of its nodes, each node's in its own order, and a message is (source, seq) with
seq = 1, 2, ... in the order of its source's broadcasts. ``History`` has the rows in memory; who has
them elsewhere (in files, in blocks of a shuffled table) subclasses ``Rows``: six fields and
``chunks``, in a form that can be pickled, since tasks read it in processes of their own.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from precedes.model import EventKind

BROADCAST: Final = int(EventKind.BROADCAST)
DELIVER: Final = int(EventKind.DELIVER)
CRASH: Final = int(EventKind.CRASH)
JOIN: Final = int(EventKind.JOIN)
LEAVE: Final = int(EventKind.LEAVE)
KINDS: Final = {kind.name.lower(): int(kind) for kind in EventKind}
JUDGED: Final = {name: KINDS[name] for name in ("broadcast", "deliver", "crash", "join", "leave")}
NO_MESSAGE: Final = -1

# Rows at a time: what a pass over them adds to the memory of a process is a small multiple.
CHUNK_ROWS: Final = 1 << 17


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
    address: str | None = None  # of the log that the rows are read from, piece by piece

    @abstractmethod
    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """The rows of nodes ``first`` up to and without ``last``, at most so many at a time.

        Nodes without rows may be left out. With ``check``, which the first pass asks for, rows
        that do not stand in their node's order raise ``NoOrder``.
        """

    def with_end(self, *, complete: bool) -> Self:
        """The same run, known to be complete or not."""
        found = copy.copy(self)
        object.__setattr__(found, "complete", complete)  # a history is frozen
        return found

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
