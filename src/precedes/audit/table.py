"""The table of every message's past, between the passes, and a node's frontier in it.

The list of a message is reduced to the entries that no other entry, nor its source's message before
it, already covers by its prefix. That entry keeps itself, since no prefix lies above its own
message, so the closure is the same. If all that is left lies below its message's place, places are
a topological order; if not, the messages without a cycle in their past are those that become
satisfied at a node which has them all, and the others are searched for cycles.

A message is *here* if the node delivered it, or has it otherwise, and *satisfied* if all its past
is here too. A source's broadcasts are in each other's past, so the satisfied ones are a prefix of
each source. Only the first message after such a prefix, its head, can follow; while the node has it
and lacks something of its past, it waits in the list of a source it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.order import BYTE, LOW_BYTE, NONE, ONE, Order, bit, has_bit, lowest
from precedes.audit.pasts import Pasts
from precedes.compiled.tiers import paced


class Table(NamedTuple):
    """Every message's place and the generators of its past, its source's message before it apart.

    A message's number is ``base[source] + seq - 1``. Of its generators, ``mask`` has those in the
    words of places from ``top`` downwards, and ``rest`` the others. Words are counted from the
    width of the mask, so that none is negative. The fields read for each delivery are indexed by
    place, since nodes deliver in about that order.
    """

    base: NDArray[np.int64]  # source; the last is the number of messages
    counts: NDArray[np.int32]  # source: its messages that are judged, a prefix
    place: NDArray[np.int32]  # message
    top: NDArray[np.int32]  # place
    mask: NDArray[np.uint64]  # place, word
    begin: NDArray[np.int64]  # place, and one more: its generators in ``rest``
    rest: NDArray[np.int32]
    place_source: NDArray[np.int32]  # place
    place_seq: NDArray[np.int32]  # place


class Frontier(NamedTuple):
    """The state of the node that is being read; all zero at the start, but lists of -1."""

    satisfied: NDArray[np.int32]  # source: number of satisfied messages
    covered: NDArray[np.int32]  # source: number of messages that are here without being delivered
    bits: NDArray[np.uint64]  # places of satisfied messages
    late: NDArray[np.uint64]  # message: here, and not satisfied when it came
    prefix: NDArray[np.int32]  # source: a lower bound of the messages that are here without a gap
    waiters: NDArray[np.int32]  # source: the first head that waits for a message of it, or -1
    following: NDArray[np.int32]  # source: the next head in the same list, or -1
    waits_for: NDArray[np.int32]  # source: the seq that its head waits for, or 0
    ready: NDArray[np.int32]  # stack of sources
    # Entries to clear for the next node, which may be few of all.
    is_touched: NDArray[np.uint8]  # source: it is in ``touched``
    touched: NDArray[np.int32]  # sources of which an entry above may have changed
    late_words: NDArray[np.int32]  # words of ``late`` with a bit, more than once if emptied between
    registers: NDArray[np.int64]


_TOUCHED: Final = 0
_LATE_WORDS: Final = 1  # above the length of ``late_words``, any word may have bits
_REGISTERS: Final = 2


def make_frontier(table: Table) -> Frontier:
    """The frontier of a node that has nothing."""
    nodes, messages = table.base.size - 1, table.place.size
    words = (messages >> 6) + 1
    return Frontier(
        satisfied=np.zeros(nodes, np.int32),
        covered=np.zeros(nodes, np.int32),
        bits=np.zeros(words + table.mask.shape[1], np.uint64),
        late=np.zeros(words, np.uint64),
        prefix=np.zeros(nodes, np.int32),
        waiters=np.full(nodes, -1, np.int32),
        following=np.full(nodes, -1, np.int32),
        waits_for=np.zeros(nodes, np.int32),
        ready=np.empty(nodes + 1, np.int32),
        is_touched=np.zeros(nodes, np.uint8),
        touched=np.empty(nodes, np.int32),
        late_words=np.empty(words, np.int32),
        registers=np.zeros(_REGISTERS, np.int64),
    )


@compiled.function()
def touch(frontier: Frontier, source: int) -> None:
    """Register a source whose entries change."""
    if frontier.is_touched[source] == 0:
        frontier.is_touched[source] = 1
        frontier.touched[frontier.registers[_TOUCHED]] = source
        frontier.registers[_TOUCHED] += 1


@compiled.function()
def mark_late(frontier: Frontier, message: int) -> None:
    """Mark a message that is here, without all of its past."""
    word = message >> 6
    if frontier.late[word] == NONE:
        count = frontier.registers[_LATE_WORDS]
        if count < frontier.late_words.size:
            frontier.late_words[count] = word
        frontier.registers[_LATE_WORDS] = count + 1
    frontier.late[word] |= bit(message)


@compiled.function(inline=False)
def overtakes(table: Table, frontier: Frontier, source: int, seq: int) -> bool:
    """Return whether an earlier message of its source is not here; a step per message in all."""
    touch(frontier, source)
    prefix = max(frontier.prefix[source], frontier.satisfied[source], frontier.covered[source])
    while prefix + 1 < seq and has_bit(frontier.late, table.base[source] + prefix):
        prefix += 1
    frontier.prefix[source] = prefix
    return bool(prefix + 1 < seq)


@compiled.function()
def missing(table: Table, frontier: Frontier, own: int) -> int:
    """The place of a generator of the message at this place that is not satisfied, or -1."""
    top = table.top[own]
    width = table.mask.shape[1]
    for i in range(width):
        wanted = table.mask[own, i]
        lacking = wanted & ~frontier.bits[top - i]
        if lacking != NONE:
            return int(((top - i - width) << 6) + lowest(lacking))
    for i in range(table.begin[own], table.begin[own + 1]):
        place = int(table.rest[i])
        if frontier.bits[(place >> 6) + width] & bit(place) == NONE:
            return place
    return -1


@compiled.function()
def satisfy(table: Table, frontier: Frontier, source: int, place: int) -> None:
    """Mark the head of a source, at this place, as satisfied."""
    if frontier.satisfied[source] == 0:
        touch(frontier, source)
    frontier.satisfied[source] += 1
    frontier.bits[(place >> 6) + table.mask.shape[1]] |= bit(place)


@compiled.function()
def wait(table: Table, frontier: Frontier, source: int, place: int) -> None:
    """Let the head of a source wait for the message at a place."""
    wanted = table.place_source[place]
    touch(frontier, source)
    touch(frontier, wanted)
    frontier.waits_for[source] = table.place_seq[place]
    frontier.following[source] = frontier.waiters[wanted]
    frontier.waiters[wanted] = source


@compiled.function(inline=False)
def settle(table: Table, frontier: Frontier, source: int) -> None:
    """Satisfy all heads that can be, beginning with this source's."""
    frontier.ready[0] = source
    depth = 1
    while depth > 0:
        depth -= 1
        s = frontier.ready[depth]
        while frontier.waits_for[s] == 0 and frontier.satisfied[s] < table.counts[s]:
            message = table.base[s] + frontier.satisfied[s]
            is_late = has_bit(frontier.late, message)
            if not is_late and frontier.covered[s] <= frontier.satisfied[s]:
                break
            own = table.place[message]
            place = missing(table, frontier, own)
            if place >= 0:
                wait(table, frontier, s, place)
                break
            satisfy(table, frontier, s, own)
            if is_late:
                frontier.late[message >> 6] &= ~bit(message)
        depth = _wake(frontier, s, depth)


@compiled.function()
def _wake(frontier: Frontier, source: int, depth: int) -> int:
    """Make ready the heads that wait for satisfied messages of this source."""
    before = -1
    waiter = frontier.waiters[source]
    while waiter >= 0:
        after = frontier.following[waiter]
        if frontier.waits_for[waiter] <= frontier.satisfied[source]:
            frontier.waits_for[waiter] = 0
            frontier.ready[depth] = waiter
            depth += 1
            if before < 0:
                frontier.waiters[source] = after
            else:
                frontier.following[before] = after
        else:
            before = waiter
        waiter = after
    return depth


@compiled.function(inline=False)
def clear_frontier(table: Table, frontier: Frontier) -> None:
    """Clear the frontier; the cost grows with the number of entries in use."""
    width = table.mask.shape[1]
    touched = frontier.registers[_TOUCHED]
    total = 0
    for i in range(touched):
        total += frontier.satisfied[frontier.touched[i]]
    if total >= frontier.bits.size:
        for i in range(frontier.bits.size):
            frontier.bits[i] = NONE
        total = 0
    for i in range(touched):
        s = frontier.touched[i]
        if total > 0:
            for message in range(table.base[s], table.base[s] + frontier.satisfied[s]):
                frontier.bits[(table.place[message] >> 6) + width] = NONE
        frontier.satisfied[s] = 0
        frontier.covered[s] = 0
        frontier.prefix[s] = 0
        frontier.waiters[s] = -1
        frontier.waits_for[s] = 0
        frontier.is_touched[s] = 0
    words = frontier.registers[_LATE_WORDS]
    if words <= frontier.late_words.size:
        for i in range(words):
            frontier.late[frontier.late_words[i]] = NONE
    else:
        for i in range(frontier.late.size):
            frontier.late[i] = NONE
    frontier.registers[_TOUCHED] = 0
    frontier.registers[_LATE_WORDS] = 0


# Maximum words of places of a mask, and the number of generators outside it that is small.
WIDTH_MAX: Final = 8
FEW: Final = 0.25


class Places(NamedTuple):
    """The place of every message, in and out of the order that was found first."""

    base: NDArray[np.int64]  # source: the number of its first message
    place: NDArray[np.int32]  # message
    source: NDArray[np.int32]  # place
    seq: NDArray[np.int32]  # place
    bounds: NDArray[np.int64]  # blocks


class Pruned(NamedTuple):
    """The generators of the messages of nodes ``span[0]`` up to ``span[1]``, as places."""

    span: NDArray[np.int64]
    end: NDArray[np.int64]  # message
    generators: NDArray[np.int32]
    verified: NDArray[np.uint8]  # one: whether they all lie below their message


def number_places(order: Order, counts: NDArray[np.int64]) -> Places:
    """Places for all messages; those that the order lacks come last."""
    base = np.concatenate(([0], np.cumsum(counts)))
    place = np.full(int(base[-1]), -1, np.int32)
    place[base[order.source] + order.seq - 1] = np.arange(order.source.size, dtype=np.int32)
    left = np.flatnonzero(place < 0)
    place[left] = np.arange(order.source.size, place.size, dtype=np.int32)
    left_source = np.searchsorted(base, left, side="right") - 1
    return Places(
        base=base,
        place=place,
        source=np.concatenate((order.source, left_source.astype(np.int32))),
        seq=np.concatenate((order.seq, (left - base[left_source] + 1).astype(np.int32))),
        bounds=order.bounds,
    )


def prefixes_by_place(places: Places, pasts: Iterable[Pasts]) -> NDArray[np.int32]:
    """The prefix of the message at each place."""
    prefixes = np.zeros(places.place.size, np.int32)
    for part in pasts:
        first, last = places.base[part.span]
        prefixes[places.place[first:last]] = part.prefix
    return prefixes


def prune(part: Pasts, *, places: Places, prefixes: NDArray[np.int32]) -> Pruned:
    """The part of the same nodes with reduced lists."""
    first, last = places.base[part.span].tolist()
    room = np.empty(max(1024, 16 * (last - first)), np.int32)
    end = np.zeros(last - first, np.int64)
    low = np.zeros(places.bounds.size, np.int32)
    registers = np.array([0, 0, 1], np.int64)
    starts = np.zeros(last - first, np.uint8)
    own = places.base[part.span[0] : part.span[1]]
    starts[own[own < last] - first] = 1
    while not paced(PRUNE)(first, part, places, prefixes, starts, low, registers, end, room):
        wider = np.empty(2 * room.size, np.int32)
        wider[: registers[_LENGTH]] = room[: registers[_LENGTH]]
        room = wider
    return Pruned(
        span=part.span,
        end=end,
        generators=room[: registers[_LENGTH]].copy(),
        verified=registers[_VERIFIED:].astype(np.uint8),
    )


_MESSAGE: Final = 0
_LENGTH: Final = 1
_VERIFIED: Final = 2


def prune_lists(
    first: int,
    part: Pasts,
    places: Places,
    prefixes: NDArray[np.int32],
    starts: NDArray[np.uint8],
    low: NDArray[np.int32],
    registers: NDArray[np.int64],
    end: NDArray[np.int64],
    kept: NDArray[np.int32],
) -> bool:
    """Reduce lists until all are done, or ``kept`` may be too short: then it is called again."""
    for i in range(registers[_MESSAGE], end.size):
        units = (part.unit_end[i - 1] if i > 0 else 0, part.unit_end[i])
        pairs = (part.pair_end[i - 1] if i > 0 else 0, part.pair_end[i])
        if registers[_LENGTH] + 64 * (units[1] - units[0]) + pairs[1] - pairs[0] > kept.size:
            registers[_MESSAGE] = i
            return False
        for b in range(low.size):
            low[b] = 0
        if starts[i] == 0:
            _raise(prefixes[places.place[first + i - 1]], places.bounds, low)
        for pair in range(pairs[0], pairs[1]):
            m = places.base[part.pair_source[pair]] + part.pair_seq[pair] - 1
            _raise(prefixes[places.place[m]], places.bounds, low)
        _raise_by_units(part, units[0], units[1], places.bounds, prefixes, low)
        length = registers[_LENGTH]
        for pair in range(pairs[0], pairs[1]):
            m = places.base[part.pair_source[pair]] + part.pair_seq[pair] - 1
            kept[length] = places.place[m]
            length += 1
        length = _keep_units(part, units[0], units[1], places.bounds, low, kept, length)
        own = places.place[first + i]
        for k in range(registers[_LENGTH], length):
            if kept[k] >= own:
                registers[_VERIFIED] = 0
        if starts[i] == 0 and places.place[first + i - 1] >= own:
            registers[_VERIFIED] = 0
        registers[_LENGTH] = length
        end[i] = length
    return True


@compiled.function()
def _block(place: int, bounds: NDArray[np.int64]) -> int:
    """The block of a place; the last number for places in none."""
    block = 0
    while block < bounds.size - 1 and place >= bounds[block + 1]:
        block += 1
    return block


@compiled.function()
def _raise(prefix: int, bounds: NDArray[np.int64], low: NDArray[np.int32]) -> None:
    """Raise the prefix of a block: all its places below are in the past."""
    if prefix > 0:
        block = _block(prefix - 1, bounds)
        low[block] = max(low[block], prefix)


@compiled.function(inline=False)
def _raise_by_units(
    part: Pasts,
    begin: int,
    stop: int,
    bounds: NDArray[np.int64],
    prefixes: NDArray[np.int32],
    low: NDArray[np.int32],
) -> None:
    """Raise the prefixes by those of all entries.

    No prefix lies above its place: with one block, what lies below the highest so far adds nothing,
    and the highest entries have the highest prefixes, mostly.
    """
    highest = begin
    for unit in range(begin + 1, stop):
        if part.unit_word[unit] > part.unit_word[highest]:
            highest = unit
    for turn in range(begin - 1, stop):
        unit = highest if turn < begin else turn
        if turn == highest or unit >= stop:
            continue
        place = part.unit_word[unit] << 6
        if bounds.size == 2 and place + 64 <= low[0]:
            continue
        word = part.unit_bits[unit]
        while word != NONE:
            if word & LOW_BYTE == NONE:
                word = word >> BYTE
                place += 8
                continue
            if word & ONE != NONE:
                _raise(prefixes[place], bounds, low)
            word = word >> ONE
            place += 1


@compiled.function(inline=False)
def _keep_units(
    part: Pasts,
    begin: int,
    stop: int,
    bounds: NDArray[np.int64],
    low: NDArray[np.int32],
    kept: NDArray[np.int32],
    length: int,
) -> int:
    """Keep the entries that no prefix of their block covers."""
    for unit in range(begin, stop):
        place = part.unit_word[unit] << 6
        if bounds.size == 2 and place + 64 <= low[0]:
            continue
        word = part.unit_bits[unit]
        while word != NONE:
            if word & LOW_BYTE == NONE:
                word = word >> BYTE
                place += 8
                continue
            if word & ONE != NONE and place >= low[_block(place, bounds)]:
                kept[length] = place
                length += 1
            word = word >> ONE
            place += 1
    return length


def make_table(places: Places, pruned: Iterable[Pruned]) -> tuple[Table, bool]:
    """The table of all messages, and whether places are a topological order."""
    parts = list(pruned)
    length = 0
    ends = []
    for part in parts:
        ends.append(part.end + length)
        length += part.generators.size
    begin = np.concatenate([np.zeros(1, np.int64), *ends])
    generators = np.concatenate([np.empty(0, np.int32), *(part.generators for part in parts)])
    verified = all(part.verified[0] for part in parts)
    messages = places.place.size
    distances = np.zeros(WIDTH_MAX + 1, np.int64)
    paced(MEASURE)(begin, generators, distances)
    outside = generators.size - np.cumsum(distances[:-1])
    width = int(np.argmax(np.append(outside <= FEW * messages, True))) + 1
    width = min(width, WIDTH_MAX)
    table = Table(
        base=places.base,
        counts=np.diff(places.base).astype(np.int32),
        place=places.place,
        top=np.zeros(messages, np.int32),
        mask=np.zeros((messages, width), np.uint64),
        begin=np.zeros(messages + 1, np.int64),
        rest=np.empty(int(generators.size - distances[:width].sum()), np.int32),
        place_source=places.source,
        place_seq=places.seq,
    )
    paced(FILL)(begin, generators, table)
    return table, verified


def measure(
    begin: NDArray[np.int64], generators: NDArray[np.int32], distances: NDArray[np.int64]
) -> None:
    """Count the distances in words between each generator and its message's highest."""
    for m in range(begin.size - 1):
        highest = _highest(begin, generators, m)
        for i in range(begin[m], begin[m + 1]):
            distances[min(highest - (generators[i] >> 6), distances.size - 1)] += 1


@compiled.function()
def _highest(begin: NDArray[np.int64], generators: NDArray[np.int32], message: int) -> int:
    """The highest word that a message has a generator in."""
    highest = 0
    for i in range(begin[message], begin[message + 1]):
        highest = max(highest, generators[i] >> 6)
    return highest


def fill(begin: NDArray[np.int64], generators: NDArray[np.int32], table: Table) -> None:
    """Put the generators into masks, and the others into ``rest``."""
    width = table.mask.shape[1]
    length = 0
    for own in range(table.top.size):
        m = table.base[table.place_source[own]] + table.place_seq[own] - 1
        top = _highest(begin, generators, m)
        table.begin[own] = length
        for i in range(begin[m], begin[m + 1]):
            place = generators[i]
            distance = top - (place >> 6)
            if distance < width:
                table.mask[own, distance] |= bit(place)
            else:
                table.rest[length] = place
                length += 1
        table.top[own] = top + width
    table.begin[table.top.size] = length


def resolved_counts(table: Table) -> NDArray[np.int32]:
    """The number of messages of each source without a cycle in their past, themselves included."""
    frontier = make_frontier(table)
    frontier.covered[:] = table.counts
    paced(RESOLVE)(table, frontier)
    return frontier.satisfied


def resolve(table: Table, frontier: Frontier) -> None:
    """Satisfy as much as possible at a node that has every message."""
    for source in range(frontier.satisfied.size):
        settle(table, frontier, source)


PRUNE: Final = compiled.Entry(prune_lists, label="the audit", job="audit")
MEASURE: Final = compiled.Entry(measure, label="the audit", job="audit")
FILL: Final = compiled.Entry(fill, label="the audit", job="audit")
RESOLVE: Final = compiled.Entry(resolve, label="the audit", job="audit")


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
    bits: NDArray[np.uint64]  # message: the rest of the unit before
    is_opened: NDArray[np.uint8]  # message: the edge to the one before it was taken
    calls: NDArray[np.int32]
    kept: NDArray[np.int32]  # reached, their component not complete


def cyclic_messages(
    pasts: Sequence[Pasts], places: Places, resolved: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The messages that lie in their own past, in order, among those that are not resolved."""
    lists = _joined(pasts, places)
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


def _joined(pasts: Sequence[Pasts], places: Places) -> Lists:
    units, pairs = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    unit_count = pair_count = 0
    for part in pasts:
        units.append(part.unit_end + unit_count)
        pairs.append(part.pair_end + pair_count)
        unit_count += part.unit_word.size
        pair_count += part.pair_seq.size
    pair = [places.base[p.pair_source] + p.pair_seq - 1 for p in pasts]
    return Lists(
        source=np.repeat(np.arange(places.base.size - 1, dtype=np.int32), np.diff(places.base)),
        unit_begin=np.concatenate(units),
        unit_word=np.concatenate([np.empty(0, np.int32), *(p.unit_word for p in pasts)]),
        unit_bits=np.concatenate([np.empty(0, np.uint64), *(p.unit_bits for p in pasts)]),
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
    """The next generator of a message's past, or -1."""
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
