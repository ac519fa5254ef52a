"""Events on their way into a trace: sorted chunks on disk, merged node range by node range.

A run is recorded in order of time and stored in order of nodes. Each chunk is sorted by node
when it comes; merging then needs one contiguous piece of every chunk for each range of nodes,
so memory holds one chunk and one row group, however long the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.trace.blocks.arrays import mapped

# About 25 MB of spooled events; fewer, larger chunks make the pieces of the merge longer.
CHUNK_ROWS: Final = 1 << 20


class Chunk(NamedTuple):
    """Events sorted by node, each node's in order of time; arrays or views of a file."""

    bounds: NDArray[np.int64]  # node p's rows are bounds[p] to bounds[p + 1]
    time_us: NDArray[np.int64]
    packet: NDArray[np.int64]  # -1 for none; empty if there is none at all
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    kind: NDArray[np.int8]


class Group(NamedTuple):
    """Rows of the trace, sorted by (node, local_seq)."""

    node: NDArray[np.int32]
    local_seq: NDArray[np.int64]
    time_us: NDArray[np.int64]
    packet: NDArray[np.int64]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    kind: NDArray[np.int8]


class Spool:
    """Takes events in order of time and gives them back in order of nodes."""

    def __init__(self, directory: Path, *, nodes: int, chunk_rows: int = CHUNK_ROWS) -> None:
        self._directory = directory
        self._nodes = nodes
        self._chunk_rows = chunk_rows
        self._waiting: list[tuple[NDArray[Any], ...]] = []
        self._waiting_rows = 0
        self._chunks: list[Chunk] = []

    def add(
        self,
        *,
        time_us: NDArray[np.int64],
        packet: NDArray[np.int64],
        source: NDArray[np.int32],
        sequence: NDArray[np.int32],
        kind: NDArray[np.int8],
        node: NDArray[np.uint16],
    ) -> None:
        """Take a copy of these events; full chunks go to disk."""
        columns = (time_us, packet, source, sequence, kind, node)
        at = 0
        while at < node.size:
            taken = min(self._chunk_rows - self._waiting_rows, node.size - at)
            self._waiting.append(tuple(column[at : at + taken].copy() for column in columns))
            self._waiting_rows += taken
            at += taken
            if self._waiting_rows == self._chunk_rows:
                self._chunks.append(self._store(self._sorted()))

    def groups(self, *, group_rows: int) -> Iterator[Group]:
        """All the events, in groups of about ``group_rows`` rows."""
        if self._waiting_rows:
            self._chunks.append(self._sorted())
        totals = np.zeros(self._nodes, np.int64)
        for chunk in self._chunks:
            totals += np.diff(chunk.bounds)
        ends = np.cumsum(totals)
        first = 0
        while first < self._nodes:
            before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, before + group_rows, side="right"))
            last = max(last, first + 1)
            if last == first + 1:
                yield from self._one_node(first, group_rows)
            elif ends[last - 1] > before:
                yield self._several_nodes(first, last)
            first = last

    def _sorted(self) -> Chunk:
        """The waiting events as one chunk."""
        columns = [np.concatenate(parts) for parts in zip(*self._waiting, strict=True)]
        self._waiting = []
        self._waiting_rows = 0
        node = columns.pop()
        # Nodes fit 16 bits, for which NumPy's stable sort is a radix sort.
        order = np.argsort(node, kind="stable")
        bounds = np.zeros(self._nodes + 1, np.int64)
        np.cumsum(np.bincount(node, minlength=self._nodes), out=bounds[1:])
        if int(columns[1].max()) < 0:
            columns[1] = columns[1][:0]
        return Chunk(bounds, *(column[order] if column.size else column for column in columns))

    def _store(self, chunk: Chunk) -> Chunk:
        """The same chunk as views of a file, widest columns first so that all are aligned."""
        path = self._directory / f"chunk-{len(self._chunks):06d}"
        with path.open("wb") as file:
            for column in chunk:
                file.write(np.ascontiguousarray(column).data)
        stored = mapped(path)
        views = []
        at = 0
        for column in chunk:
            views.append(stored[at : at + column.nbytes].view(column.dtype))
            at += column.nbytes
        return Chunk(*views)

    def _several_nodes(self, first: int, last: int) -> Group:
        """One group of all the rows of nodes ``first`` up to and without ``last``."""
        pieces = [_piece(chunk, first, last) for chunk in self._chunks]
        columns = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        node = columns[0]
        if len(pieces) > 1:
            order = np.argsort(node, kind="stable")
            columns = [column[order] for column in columns]
            node = columns[0]
        starts = np.searchsorted(node, np.arange(first, last, dtype=np.uint16))
        local_seq = np.arange(node.size) - starts[node - np.uint16(first)]
        return Group(node.astype(np.int32), local_seq, *columns[1:])

    def _one_node(self, node: int, group_rows: int) -> Iterator[Group]:
        """The rows of one node, which may be more than a group holds."""
        waiting: list[tuple[NDArray[Any], ...]] = []
        rows = 0
        done = 0
        for i, chunk in enumerate(self._chunks):
            piece = _piece(chunk, node, node + 1)
            waiting.append(piece)
            rows += piece[0].size
            if rows >= group_rows or (rows > 0 and i == len(self._chunks) - 1):
                columns = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
                local_seq = np.arange(done, done + rows)
                yield Group(columns[0].astype(np.int32), local_seq, *columns[1:])
                waiting = []
                done += rows
                rows = 0


def _piece(chunk: Chunk, first: int, last: int) -> tuple[NDArray[Any], ...]:
    bounds = chunk.bounds[first : last + 1]
    nodes = np.arange(first, last, dtype=np.uint16)
    rows = slice(int(bounds[0]), int(bounds[-1]))
    if chunk.packet.size == 0:
        chunk = chunk._replace(packet=np.broadcast_to(np.int64(-1), chunk.time_us.shape))
    return (np.repeat(nodes, np.diff(bounds)), *(column[rows] for column in chunk[1:]))
