"""Numbers messages by places, in approximately the order in which the run made them.

Any numbering is correct; a good one lets the audit express most of a past in one number. So places
follow the node with most rows, and messages that it lacks are filled in from others. Groups that
exchange no messages have a block of places each: one node's rows say nothing about another group.

Sets of places are words of 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.compiled.tiers import paced
from precedes.trace.rows import BROADCAST, DELIVER, Chunk, Rows

WORD: Final = 6  # a word holds 2 ** WORD places
INSIDE: Final = 63
NONE: Final = np.uint64(0)
ONE: Final = np.uint64(1)
BYTE: Final = np.uint64(8)
LOW_BYTE: Final = np.uint64(255)


def words_for(places: int) -> int:
    """The number of words that hold this number of places."""
    return (places >> WORD) + 1


@compiled.function()
def bit(place: int) -> np.uint64:
    """The bit of a place in its word."""
    return ONE << np.uint64(place & INSIDE)


@compiled.function()
def has_bit(words: NDArray[np.uint64], at: int) -> bool:
    """Return whether a place is in the set."""
    return bool(words[at >> WORD] & bit(at) != NONE)


@compiled.function()
def lowest(word: np.uint64) -> int:
    """The position of the lowest bit of a word that has one."""
    at = 0
    while word & LOW_BYTE == NONE:
        word = word >> BYTE
        at += 8
    while word & ONE == NONE:
        word = word >> ONE
        at += 1
    return at


# Maximum nodes that are read for the order, and the gain that is required to read another.
REFERENCES_MAX: Final = 8
WORTH: Final = 0.001

# Maximum of a seq relative to the number of its source's messages: memory grows with it.
SPARSE: Final = 4
SPARSE_MORE: Final = 64


class Order(NamedTuple):
    """Places of messages: 0, 1, 2, ... for those in the order, -1 for others."""

    first: NDArray[np.int64]  # source s: (s, q) is at first[s] + q - 1, below first[s + 1]
    place: NDArray[np.int32]
    source: NDArray[np.int32]  # place
    seq: NDArray[np.int32]  # place
    block: NDArray[np.int32]  # source: its block of places, or -1
    bounds: NDArray[np.int64]  # blocks: places bounds[b] to bounds[b + 1]


class _Met(NamedTuple):
    """Messages that no earlier node had, each with the place that it follows."""

    source: NDArray[np.int32]
    seq: NDArray[np.int32]
    after: NDArray[np.int32]
    known: NDArray[np.uint8]  # source: the node has some of its messages
    registers: NDArray[np.int64]


_COUNT: Final = 0
_AFTER: Final = 1


def find_order(rows: Rows, *, references: Sequence[int] | None = None) -> Order:
    """Places from a few nodes' rows: those with most, or the ones named."""
    finder = _Finder(rows)
    if references is not None:
        for node in references:
            finder.read(node, sample=False)
        return finder.order()
    while (chosen := finder.next_node()) is not None:
        finder.read(chosen, sample=True)
    return finder.order()


def without_phantoms(order: Order, counts: NDArray[np.int64]) -> Order:
    """The same order of the messages that were broadcast."""
    real = order.seq <= counts[order.source]
    blocks = np.searchsorted(np.flatnonzero(real), order.bounds)
    return _order(order.source[real], order.seq[real], order.block, blocks)


class _Finder:
    """Blocks of messages in order, with the sources that each is made of."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._bound = np.minimum(rows.counts, np.iinfo(np.int32).max - 1)
        self._base = np.concatenate(([0], np.cumsum(self._bound)))
        self._seen = np.zeros(words_for(int(self._base[-1])), np.uint64)
        self._read: list[int] = []
        self._group = np.full(rows.nodes, -1, np.int32)  # source: its block
        self._blocks: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._stopped = False
        self._order = self._numbered()

    def next_node(self) -> int | None:
        """The next node to read: the largest of unknown groups, else of all."""
        left = self._rows.counts.copy()
        left[self._read] = 0
        unknown = np.where(self._group < 0, left, 0)
        if len(self._read) >= REFERENCES_MAX or not left.any():
            return None
        if self._read and unknown.any() and len(self._read) < REFERENCES_MAX // 2:
            return int(np.argmax(unknown))
        return None if self._stopped else int(np.argmax(left))

    def read(self, node: int, *, sample: bool) -> None:
        """Add a node's messages; with ``sample`` only its beginning if that adds little."""
        parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]] = []
        known = np.zeros(self._rows.nodes, np.uint8)
        registers = np.full(2, -1, np.int64)
        looked = added = 0
        for chunk in self._rows.chunks(node, node + 1):
            met = self._collect(chunk, known, registers)
            parts.append(met)
            looked += chunk.kind.size
            added += met[0].size
            if sample and self._read and added < WORTH * looked:
                break
        self._stopped = bool(self._read) and added < WORTH * max(looked, 1)
        self._read.append(node)
        known[node] = 1
        self._merge(np.flatnonzero(known), parts)

    def _collect(
        self, chunk: Chunk, known: NDArray[np.uint8], registers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        size = chunk.kind.size
        met = _Met(
            source=np.empty(size, np.int32),
            seq=np.empty(size, np.int32),
            after=np.empty(size, np.int32),
            known=known,
            registers=registers,
        )
        registers[_COUNT] = 0
        columns = (chunk.kind, chunk.source, chunk.seq)
        paced(COLLECT, rows=chunk.kind.size)(*columns, self._base, self._seen, self._order, met)
        count = int(registers[_COUNT])
        return met.source[:count].copy(), met.seq[:count].copy(), met.after[:count].copy()

    def _merge(
        self,
        known: NDArray[np.int64],
        parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]],
    ) -> None:
        """Insert the new messages of a node after their predecessors; join its sources' blocks."""
        groups = self._group[known]
        is_new = groups[0] < 0 or np.any(groups != groups[0])
        if not is_new and not any(part[0].size for part in parts):
            return
        order = self._order
        touched = np.unique(self._group[known])
        touched = touched[touched >= 0]
        block = int(touched[0]) if touched.size else len(self._blocks)
        self._group[known] = block
        if touched.size > 1:
            self._group[np.isin(self._group, touched)] = block
        joined = [self._blocks[b] for b in touched]
        old = [np.arange(order.bounds[b], order.bounds[b + 1]) for b in touched]
        sources = [pair[0] for pair in joined] + [part[0] for part in parts]
        seqs = [pair[1] for pair in joined] + [part[1] for part in parts]
        keys = [*old, *(part[2].astype(np.int64) for part in parts)]
        source = np.concatenate(sources) if sources else np.empty(0, np.int32)
        seq = np.concatenate(seqs) if seqs else np.empty(0, np.int32)
        where = np.argsort(np.concatenate(keys), kind="stable") if keys else np.empty(0, np.int64)
        kept = [pair for b, pair in enumerate(self._blocks) if b not in touched[1:]]
        if touched.size:
            kept[block] = (source[where], seq[where])
        else:
            kept.append((source[where], seq[where]))
        self._blocks = kept
        for gone in touched[:0:-1]:
            self._group[self._group > gone] -= 1
        self._order = self._numbered()

    def order(self) -> Order:
        """The places so far."""
        return self._order

    def _numbered(self) -> Order:
        source = np.concatenate([np.empty(0, np.int32), *(pair[0] for pair in self._blocks)])
        seq = np.concatenate([np.empty(0, np.int32), *(pair[1] for pair in self._blocks)])
        bounds = np.cumsum([0, *(pair[0].size for pair in self._blocks)], dtype=np.int64)
        return _order(source, seq, self._group, bounds)


def _order(
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    block: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> Order:
    """Places for messages in this order, but each source's own in theirs."""
    nodes = block.size
    met = np.bincount(source, minlength=nodes)
    dense = seq <= SPARSE * met[source] + SPARSE_MORE
    if not dense.all():
        bounds = np.searchsorted(np.flatnonzero(dense), bounds)
        source, seq = source[dense], seq[dense]
    slots = np.argsort(source, kind="stable")
    by_seq = np.lexsort((seq, source))
    ordered = np.empty_like(seq)
    ordered[slots] = seq[by_seq]
    met = np.bincount(source, minlength=nodes)
    highest = np.where(met > 0, np.append(seq[by_seq], 0)[np.cumsum(met) - 1], 0)
    first = np.concatenate(([0], np.cumsum(highest)))
    place = np.full(int(first[-1]), -1, np.int32)
    place[first[source] + ordered - 1] = np.arange(source.size, dtype=np.int32)
    return Order(first, place, source, ordered, block.copy(), bounds)


def collect(
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    base: NDArray[np.int64],
    seen: NDArray[np.uint64],
    order: Order,
    met: _Met,
) -> None:
    """Store the messages of these rows that are new; ``base`` bounds the valid ones."""
    count = met.registers[_COUNT]
    after = met.registers[_AFTER]
    for row in range(kind.size):
        if kind[row] != DELIVER and kind[row] != BROADCAST:
            continue
        s = source[row]
        q = seq[row]
        if s < 0 or s >= base.size - 1 or q < 1 or q > base[s + 1] - base[s]:
            continue
        met.known[s] = 1
        at = base[s] + q - 1
        if not has_bit(seen, at):
            seen[at >> 6] |= bit(at)
            met.source[count] = s
            met.seq[count] = q
            met.after[count] = after
            count += 1
        elif q <= order.first[s + 1] - order.first[s]:
            place = order.place[order.first[s] + q - 1]
            after = max(after, np.int64(place))
    met.registers[_COUNT] = count
    met.registers[_AFTER] = after


COLLECT: Final = compiled.Entry(collect, label="the audit", job="audit")
