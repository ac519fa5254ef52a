"""Brings the rows of nodes together from all blocks, in each node's own order.

Positions are usually dense, so that rows are put straight into their places; others are sorted.
Memory holds ``CHUNK_ROWS`` rows, some 60 bytes each: of a node with more, a stretch of positions at
a time, for which its rows in all blocks that reach into the stretch are looked through.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.trace.arrays import forget
from precedes.trace.blocks.naming import PHANTOM, SEQ_BITS, Naming, Phantoms, Translation
from precedes.trace.blocks.pack import Block, run_title

CHUNK_ROWS: Final = 1 << 20
SPARSE: Final = 8  # places for each row, up to which no sort is needed

HELD_ROWS: Final = 4 << 20  # after so many, what is mapped of the blocks is let go

KIND_BITS: Final = 60  # a row is kind, source and seq in one number
SOURCE_MASK: Final = np.int64((1 << (KIND_BITS - SEQ_BITS)) - 1)
SEQ_MASK: Final = np.int64((1 << SEQ_BITS) - 1)
KIND_MASK: Final = np.int64(15)  # four bits, with that of the sign
NOTHING: Final = np.int64(-1)  # of no kind


class Columns(NamedTuple):
    """Rows of consecutive nodes, or some of one node's, in order; a phantom's source is -1."""

    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]


def unpacked(rows: NDArray[np.int64]) -> Columns:
    """Rows that are one number each as columns."""
    source = ((rows >> SEQ_BITS) & SOURCE_MASK).astype(np.int32)
    source[source == PHANTOM] = -1
    return Columns(
        ((rows >> KIND_BITS) & KIND_MASK).astype(np.int8),
        source,
        (rows & SEQ_MASK).astype(np.int32),
    )


class _Part(NamedTuple):
    """A block with the numbers of the whole log: its keys by node."""

    node: NDArray[np.int32]  # rising
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    block: Block
    pair: NDArray[np.int64]  # message; the last for rows without one, which find it at -1


class Merger:
    """All blocks of a log, ready to be merged node by node."""

    def __init__(
        self,
        naming: Naming,
        phantoms: Phantoms,
        blocks: Sequence[Block],
        translations: Sequence[Translation],
        *,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self._naming = naming
        self._chunk_rows = chunk_rows
        self._parts = [
            _part(naming, phantoms, number, block, translation)
            for number, (block, translation) in enumerate(zip(blocks, translations, strict=True))
        ]

    def merged(self, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        """The rows of nodes ``first`` up to and without ``last``, a chunk at a time.

        Each is one number, as ``unpacked`` takes it. Two rows of a node that share a position are a
        UserError.
        """
        ends = np.cumsum(self._naming.rows[first:last])
        at = first
        held = 0
        while at < last:
            before = int(ends[at - first - 1]) if at > first else 0
            until = first + int(np.searchsorted(ends, before + self._chunk_rows, side="right"))
            if until > at:
                yield self._nodes(at, until)
            else:
                until = at + 1
                yield from self._long_node(at)
            held += int(ends[until - first - 1]) - before
            at = until
            if held > HELD_ROWS:
                self._forget()
                held = 0

    def _forget(self) -> None:
        for part in self._parts:
            for mapped in (part.block.position, part.pair):
                forget(mapped)

    def _nodes(self, first: int, last: int) -> NDArray[np.int64]:
        naming = self._naming
        span = naming.high[first:last] - naming.low[first:last] + 1
        rows = int(naming.rows[first:last].sum())
        found = [_rows_of(part, keys, first) for part, keys in self._reaching(first, last)]
        node, position, row = (np.concatenate(column) for column in zip(*found, strict=True))
        low = naming.low[first:last]
        # A span wraps around if positions lie at both ends of int64.
        if span.min(initial=1) < 1 or float(span.sum(dtype=np.float64)) > SPARSE * rows + 1024:
            return self._sorted(first, node, position, row)
        base = np.cumsum(span) - span - low
        return self._placed(base[node] + position, row, size=int(span.sum()), node=first)

    def _reaching(self, first: int, last: int) -> Iterator[tuple[_Part, slice]]:
        """The blocks with rows of these nodes, and which of their keys these are."""
        for part in self._parts:
            begin, end = np.searchsorted(part.node, (first, last)).tolist()
            if begin < end:
                yield part, slice(begin, end)

    def _long_node(self, node: int) -> Iterator[NDArray[np.int64]]:
        """One node's rows by stretches of positions with about a chunk of rows each."""
        parts = [part for part, _ in self._reaching(node, node + 1)]
        bounds = self._stretches(parts, node)
        for low, high in itertools.pairwise(bounds):
            found = [_rows_between(part, node, low, high) for part in parts]
            position, row = (np.concatenate(column) for column in zip(*found, strict=True))
            if high - low <= SPARSE * position.size:
                yield self._placed(position - low, row, size=high - low, node=node)
            elif position.size:
                yield self._sorted(node, np.zeros(position.size, np.int32), position, row)

    def _stretches(self, parts: Sequence[_Part], node: int) -> list[int]:
        """Positions that cut a node's rows into chunks, from a sample of them."""
        sample = []
        for part in parts:
            position, _ = _positions(part, node)
            step = max(1, self._chunk_rows // (64 * len(parts)))
            sample.append(position[::step])
        ordered = np.sort(np.concatenate(sample))
        chunks = -(-int(self._naming.rows[node]) // self._chunk_rows)
        cuts = ordered[np.arange(1, chunks) * ordered.size // chunks]
        low, high = int(self._naming.low[node]), int(self._naming.high[node]) + 1
        return sorted({low, *(int(cut) for cut in cuts), high})

    def _placed(
        self, place: NDArray[np.int64], row: NDArray[np.int64], *, size: int, node: int
    ) -> NDArray[np.int64]:
        places = np.full(size, NOTHING)
        places[place] = row
        found = places if size == row.size else places[places != NOTHING]
        if found.size < row.size or (size == row.size and np.any(found == NOTHING)):
            raise self._shared(node)
        return found

    def _sorted(
        self,
        first: int,
        node: NDArray[np.int32],
        position: NDArray[np.int64],
        row: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        order = np.lexsort((position, node))
        node, position = node[order], position[order]
        if np.any((node[1:] == node[:-1]) & (position[1:] == position[:-1])):
            raise self._shared(first)
        return row[order]

    def _shared(self, node: int) -> UserError:
        run = int(np.searchsorted(self._naming.run_first, node, side="right")) - 1
        title = run_title(self._naming.runs[run])
        return UserError(
            f"{title}: two events of a node share a local_seq: each needs its own, and a node "
            "with events in several files needs that column"
        )


def _part(
    naming: Naming, phantoms: Phantoms, number: int, block: Block, translation: Translation
) -> _Part:
    keys = naming.key_node[naming.key_first[number] : naming.key_first[number + 1]]
    order = np.argsort(keys, kind="stable")
    pair = translation.pair
    if translation.unknown.size:
        pair = pair.copy()
        known = slice(int(phantoms.block_first[number]), int(phantoms.block_first[number + 1]))
        pair[translation.unknown] = (PHANTOM << SEQ_BITS) + phantoms.number[known]
    return _Part(
        node=keys[order],
        begin=block.bounds[:-1][order],
        end=block.bounds[1:][order],
        low=block.low[order],
        high=block.high[order],
        block=block,
        pair=pair,
    )


def _values(part: _Part, rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    kind = part.block.kind[rows].astype(np.int64) << KIND_BITS
    kind |= part.pair[part.block.message[rows]]
    return kind


def _rows_of(
    part: _Part, keys: slice, first: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A block's rows of some keys: node from ``first`` on, position, and the row."""
    begin, end = part.begin[keys], part.end[keys]
    counts = end - begin
    rows: slice | NDArray[np.int64]
    if np.array_equal(begin[1:], end[:-1]):
        rows = slice(int(begin[0]), int(end[-1]))
    else:
        ends = np.cumsum(counts)
        rows = np.repeat(begin - (ends - counts), counts) + np.arange(int(ends[-1]))
    node = np.repeat(part.node[keys].astype(np.int64) - first, counts)
    position = part.block.position[rows].astype(np.int64) + np.repeat(part.low[keys], counts)
    return node, position, _values(part, rows)


def _positions(part: _Part, node: int) -> tuple[NDArray[np.int64], int]:
    """A node's positions in a block, and where its rows begin there."""
    key = int(np.searchsorted(part.node, node))
    begin, end = int(part.begin[key]), int(part.end[key])
    return part.block.position[begin:end].astype(np.int64) + part.low[key], begin


def _rows_between(
    part: _Part, node: int, low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    key = int(np.searchsorted(part.node, node))
    if int(part.high[key]) < low or int(part.low[key]) >= high:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    position, begin = _positions(part, node)
    chosen = np.flatnonzero((position >= low) & (position < high))
    return position[chosen], _values(part, begin + chosen)
