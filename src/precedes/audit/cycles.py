"""Which messages lie in their own past? Only asked of logs that contradict themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.bits import NONE, bit, lowest
from precedes.audit.hear import Heard
from precedes.audit.table import Places
from precedes.compiled.tiers import paced


class Lists(NamedTuple):
    """The lists of all messages, as the first phase found them, by number."""

    source: NDArray[np.int32]  # message
    unit_begin: NDArray[np.int64]  # message, and one more
    unit_word: NDArray[np.int32]
    unit_bits: NDArray[np.uint64]
    pair_begin: NDArray[np.int64]  # message, and one more
    pair: NDArray[np.int64]  # the message of each pair


class Search(NamedTuple):
    """The arrays of Tarjan's algorithm; its vertices are messages."""

    reached: NDArray[np.int64]  # message: when it was reached, from 1; 0 for not yet
    low: NDArray[np.int64]  # message: the earliest it leads back to
    is_done: NDArray[np.uint8]  # message: its component is complete
    pair: NDArray[np.int64]  # message: the next of its pairs
    unit: NDArray[np.int64]  # message: the next of its units
    bits: NDArray[np.uint64]  # message: what is left of the unit before
    is_opened: NDArray[np.uint8]  # message: the edge to the one before it was taken
    calls: NDArray[np.int32]
    kept: NDArray[np.int32]  # reached, their component not complete


def cyclic_messages(
    heard: Sequence[Heard], places: Places, resolved: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The messages that lie in their own past, in order, among those that are not resolved."""
    lists = _joined(heard, places)
    messages = places.place.size
    search = Search(
        reached=np.zeros(messages, np.int64),
        low=np.zeros(messages, np.int64),
        is_done=np.zeros(messages, np.uint8),
        pair=lists.pair_begin[:-1].copy(),
        unit=lists.unit_begin[:-1].copy(),
        bits=np.zeros(messages, np.uint64),
        is_opened=np.zeros(messages, np.uint8),
        calls=np.empty(messages, np.int32),
        kept=np.empty(messages, np.int32),
    )
    cyclic = np.zeros(messages, np.uint8)
    paced(CYCLES)(lists, places, resolved, search, cyclic)
    return np.flatnonzero(cyclic)


def _joined(heard: Sequence[Heard], places: Places) -> Lists:
    units, pairs = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    unit_count = pair_count = 0
    for part in heard:
        units.append(part.unit_end + unit_count)
        pairs.append(part.pair_end + pair_count)
        unit_count += part.unit_word.size
        pair_count += part.pair_seq.size
    pair = [places.base[p.pair_source] + p.pair_seq - 1 for p in heard]
    return Lists(
        source=np.repeat(np.arange(places.base.size - 1, dtype=np.int32), np.diff(places.base)),
        unit_begin=np.concatenate(units),
        unit_word=np.concatenate([np.empty(0, np.int32), *(p.unit_word for p in heard)]),
        unit_bits=np.concatenate([np.empty(0, np.uint64), *(p.unit_bits for p in heard)]),
        pair_begin=np.concatenate(pairs),
        pair=np.concatenate([np.empty(0, np.int64), *pair]),
    )


def find_cycles(
    lists: Lists,
    places: Places,
    resolved: NDArray[np.int32],
    search: Search,
    cyclic: NDArray[np.uint8],
) -> None:
    """Mark the messages in components of several, and those that list themselves."""
    count = 0
    kept_count = 0
    for root in range(search.reached.size):
        source = lists.source[root]
        if root - places.base[source] < resolved[source] or search.reached[root] != 0:
            continue
        depth = 0
        visit = root
        while visit >= 0 or depth > 0:
            if visit >= 0:
                count += 1
                search.reached[visit] = count
                search.low[visit] = count
                search.calls[depth] = visit
                search.kept[kept_count] = visit
                depth += 1
                kept_count += 1
            m = search.calls[depth - 1]
            visit = -1
            cause = _next_cause(lists, places, search, m)
            if cause >= 0:
                s = lists.source[cause]
                if cause == m:
                    cyclic[m] = 1
                elif cause - places.base[s] < resolved[s]:
                    continue
                elif search.reached[cause] == 0:
                    visit = cause
                elif search.is_done[cause] == 0:
                    search.low[m] = min(search.low[m], search.reached[cause])
                continue
            depth -= 1
            if depth > 0:
                caller = search.calls[depth - 1]
                search.low[caller] = min(search.low[caller], search.low[m])
            if search.low[m] == search.reached[m]:
                kept_count = _close_component(search, m, kept_count, cyclic)


@compiled.function()
def _next_cause(lists: Lists, places: Places, search: Search, m: int) -> int:
    """The next message that a message's past is made of, or -1."""
    if search.is_opened[m] == 0:
        search.is_opened[m] = 1
        if m > places.base[lists.source[m]]:
            return m - 1
    if search.pair[m] < lists.pair_begin[m + 1]:
        search.pair[m] += 1
        return int(lists.pair[search.pair[m] - 1])
    if search.bits[m] == NONE:
        if search.unit[m] == lists.unit_begin[m + 1]:
            return -1
        search.bits[m] = lists.unit_bits[search.unit[m]]
        search.unit[m] += 1
    at = lowest(search.bits[m])
    search.bits[m] &= ~bit(at)
    place = (lists.unit_word[search.unit[m] - 1] << 6) + at
    return int(places.base[places.source[place]] + places.seq[place] - 1)


@compiled.function(inline=False)
def _close_component(search: Search, m: int, kept_count: int, cyclic: NDArray[np.uint8]) -> int:
    is_alone = search.kept[kept_count - 1] == m
    while True:
        kept_count -= 1
        member = search.kept[kept_count]
        search.is_done[member] = 1
        if not is_alone:
            cyclic[member] = 1
        if member == m:
            return kept_count


CYCLES: Final = compiled.Entry(find_cycles, label="the audit", job="audit")
