"""Between the phases: short lists, and the table that says every message's past.

The list of a message is cut down to what no other entry, nor its source's message before it,
already says by its floor. That entry keeps itself, since no floor lies above its own message, so
the closure is the same. If all that is left lies below its message's place, places are a
topological order; if not, the messages without a cycle in their past are those that a node
satisfies which has them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.bits import BYTE, LOW_BYTE, NONE, ONE, bit
from precedes.audit.hear import Heard
from precedes.audit.order import Order
from precedes.audit.settle import Seat, Table, make_seat, settle
from precedes.compiled.tiers import paced

# Words of places that a mask may have, and how many generators a message outside it are few.
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


def floors_by_place(places: Places, heard: Iterable[Heard]) -> NDArray[np.int32]:
    """The floor of the message at each place."""
    floors = np.zeros(places.place.size, np.int32)
    for part in heard:
        first, last = places.base[part.span]
        floors[places.place[first:last]] = part.floor
    return floors


def prune(part: Heard, *, places: Places, floors: NDArray[np.int32]) -> Pruned:
    """The part of the same nodes with the lists cut down."""
    first, last = places.base[part.span].tolist()
    room = np.empty(max(1024, 16 * (last - first)), np.int32)
    end = np.zeros(last - first, np.int64)
    low = np.zeros(places.bounds.size, np.int32)
    registers = np.array([0, 0, 1], np.int64)
    starts = np.zeros(last - first, np.uint8)
    own = places.base[part.span[0] : part.span[1]]
    starts[own[own < last] - first] = 1
    while not paced(PRUNE)(first, part, places, floors, starts, low, registers, end, room):
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
    part: Heard,
    places: Places,
    floors: NDArray[np.int32],
    starts: NDArray[np.uint8],
    low: NDArray[np.int32],
    registers: NDArray[np.int64],
    end: NDArray[np.int64],
    kept: NDArray[np.int32],
) -> bool:
    """Cut lists down until all are done, or ``kept`` may be too short: then it is called again."""
    for i in range(registers[_MESSAGE], end.size):
        units = (part.unit_end[i - 1] if i > 0 else 0, part.unit_end[i])
        pairs = (part.pair_end[i - 1] if i > 0 else 0, part.pair_end[i])
        if registers[_LENGTH] + 64 * (units[1] - units[0]) + pairs[1] - pairs[0] > kept.size:
            registers[_MESSAGE] = i
            return False
        for b in range(low.size):
            low[b] = 0
        if starts[i] == 0:
            _raise(floors[places.place[first + i - 1]], places.bounds, low)
        for pair in range(pairs[0], pairs[1]):
            m = places.base[part.pair_source[pair]] + part.pair_seq[pair] - 1
            _raise(floors[places.place[m]], places.bounds, low)
        _raise_by_units(part, units[0], units[1], places.bounds, floors, low)
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
    """The block that a place lies in; the last number for places in none."""
    block = 0
    while block < bounds.size - 1 and place >= bounds[block + 1]:
        block += 1
    return block


@compiled.function()
def _raise(floor: int, bounds: NDArray[np.int64], low: NDArray[np.int32]) -> None:
    """A floor says that the places of its block below it are in the past."""
    if floor > 0:
        block = _block(floor - 1, bounds)
        low[block] = max(low[block], floor)


@compiled.function(inline=False)
def _raise_by_units(
    part: Heard,
    begin: int,
    stop: int,
    bounds: NDArray[np.int64],
    floors: NDArray[np.int32],
    low: NDArray[np.int32],
) -> None:
    """Raise what is said by the floors of all entries.

    No floor lies above its place: with one block, what lies below the highest so far adds nothing,
    and the highest entries have the highest floors, mostly.
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
                _raise(floors[place], bounds, low)
            word = word >> ONE
            place += 1


@compiled.function(inline=False)
def _keep_units(
    part: Heard,
    begin: int,
    stop: int,
    bounds: NDArray[np.int64],
    low: NDArray[np.int32],
    kept: NDArray[np.int32],
    length: int,
) -> int:
    """Keep the entries that no floor of their block covers."""
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
    """Count how many words below its message's highest each generator lies."""
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
    """How many messages of each source have no cycle in their past, and lie in none."""
    seat = make_seat(table)
    seat.covered[:] = table.counts
    paced(RESOLVE)(table, seat)
    return seat.sat


def resolve(table: Table, seat: Seat) -> None:
    """Satisfy all that a node can which has every message."""
    for source in range(seat.sat.size):
        settle(table, seat, source)


PRUNE: Final = compiled.Entry(prune_lists, label="the audit", job="audit")
MEASURE: Final = compiled.Entry(measure, label="the audit", job="audit")
FILL: Final = compiled.Entry(fill, label="the audit", job="audit")
RESOLVE: Final = compiled.Entry(resolve, label="the audit", job="audit")
