"""What one node has, with all its past: the compiled core of the audit's second phase.

A message is *here* if the node delivered it, or has it otherwise, and *satisfied* if all its past
is here too. A source's broadcasts are in each other's past, so the satisfied ones are a prefix of
each source, ``sat``. Only the first message after such a prefix, its head, can follow; while the
node has it and lacks something of its past, it waits in the list of a source it lacks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.bits import NONE, bit, has_bit, lowest


class Table(NamedTuple):
    """Every message's place and what generates its past, its source's message before it apart.

    A message's number is ``base[source] + seq - 1``. Of its generators, ``mask`` has those in the
    words of places from ``top`` downwards, and ``rest`` the others. Words are counted from the
    width of the mask, so that none is negative. What is looked at for each delivery is by place,
    since nodes deliver in about that order.
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


class Seat(NamedTuple):
    """What the node has that is being read; all zero when it begins, but lists of -1."""

    sat: NDArray[np.int32]  # source: so many messages are satisfied
    covered: NDArray[np.int32]  # source: so many are here without being delivered
    bits: NDArray[np.uint64]  # places of satisfied messages
    late: NDArray[np.uint64]  # message: here, and not satisfied when it came
    waiters: NDArray[np.int32]  # source: the first head that waits for a message of it, or -1
    following: NDArray[np.int32]  # source: the next head in the same list, or -1
    waits_for: NDArray[np.int32]  # source: the seq that its head waits for, or 0
    ready: NDArray[np.int32]  # stack of sources
    # What has to be cleared for the next node, which may have little of what there is.
    is_touched: NDArray[np.uint8]  # source: it is in ``touched``
    touched: NDArray[np.int32]  # sources of which an entry above may have changed
    late_words: NDArray[np.int32]  # words of ``late`` with a bit, more than once if emptied between
    registers: NDArray[np.int64]


_TOUCHED: Final = 0
_LATE_WORDS: Final = 1  # if there are more than ``late_words`` has room for, any word may have bits
_REGISTERS: Final = 2


def make_seat(table: Table) -> Seat:
    """A node that has nothing."""
    nodes, messages = table.base.size - 1, table.place.size
    words = (messages >> 6) + 1
    return Seat(
        sat=np.zeros(nodes, np.int32),
        covered=np.zeros(nodes, np.int32),
        bits=np.zeros(words + table.mask.shape[1], np.uint64),
        late=np.zeros(words, np.uint64),
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
def touch(seat: Seat, source: int) -> None:
    """Note that entries of a source change."""
    if seat.is_touched[source] == 0:
        seat.is_touched[source] = 1
        seat.touched[seat.registers[_TOUCHED]] = source
        seat.registers[_TOUCHED] += 1


@compiled.function()
def mark_late(seat: Seat, message: int) -> None:
    """A message is here, and something of its past is not."""
    word = message >> 6
    if seat.late[word] == NONE:
        count = seat.registers[_LATE_WORDS]
        if count < seat.late_words.size:
            seat.late_words[count] = word
        seat.registers[_LATE_WORDS] = count + 1
    seat.late[word] |= bit(message)


@compiled.function()
def missing(table: Table, seat: Seat, own: int) -> int:
    """The place of a generator of the message at this place that is not satisfied, or -1."""
    top = table.top[own]
    width = table.mask.shape[1]
    for i in range(width):
        wanted = table.mask[own, i]
        lacking = wanted & ~seat.bits[top - i]
        if lacking != NONE:
            return int(((top - i - width) << 6) + lowest(lacking))
    for i in range(table.begin[own], table.begin[own + 1]):
        place = int(table.rest[i])
        if seat.bits[(place >> 6) + width] & bit(place) == NONE:
            return place
    return -1


@compiled.function()
def satisfy(table: Table, seat: Seat, source: int, place: int) -> None:
    """The head of a source, at this place, is satisfied."""
    if seat.sat[source] == 0:
        touch(seat, source)
    seat.sat[source] += 1
    seat.bits[(place >> 6) + table.mask.shape[1]] |= bit(place)


@compiled.function()
def wait(table: Table, seat: Seat, source: int, place: int) -> None:
    """The head of a source waits for the message at a place."""
    wanted = table.place_source[place]
    touch(seat, source)
    touch(seat, wanted)
    seat.waits_for[source] = table.place_seq[place]
    seat.following[source] = seat.waiters[wanted]
    seat.waiters[wanted] = source


@compiled.function(inline=False)
def settle(table: Table, seat: Seat, source: int) -> None:
    """Satisfy the heads that can be, beginning with this source's."""
    seat.ready[0] = source
    depth = 1
    while depth > 0:
        depth -= 1
        s = seat.ready[depth]
        while seat.waits_for[s] == 0 and seat.sat[s] < table.counts[s]:
            message = table.base[s] + seat.sat[s]
            is_late = has_bit(seat.late, message)
            if not is_late and seat.covered[s] <= seat.sat[s]:
                break
            own = table.place[message]
            place = missing(table, seat, own)
            if place >= 0:
                wait(table, seat, s, place)
                break
            satisfy(table, seat, s, own)
            if is_late:
                seat.late[message >> 6] &= ~bit(message)
        depth = _wake(seat, s, depth)


@compiled.function()
def _wake(seat: Seat, source: int, depth: int) -> int:
    """Make ready the heads that wait for what is satisfied of this source."""
    before = -1
    waiter = seat.waiters[source]
    while waiter >= 0:
        after = seat.following[waiter]
        if seat.waits_for[waiter] <= seat.sat[source]:
            seat.waits_for[waiter] = 0
            seat.ready[depth] = waiter
            depth += 1
            if before < 0:
                seat.waiters[source] = after
            else:
                seat.following[before] = after
        else:
            before = waiter
        waiter = after
    return depth


@compiled.function(inline=False)
def leave_seat(table: Table, seat: Seat) -> None:
    """Take everything from the node again; what it costs grows with what the node had."""
    width = table.mask.shape[1]
    touched = seat.registers[_TOUCHED]
    total = 0
    for i in range(touched):
        total += seat.sat[seat.touched[i]]
    if total >= seat.bits.size:
        for i in range(seat.bits.size):
            seat.bits[i] = NONE
        total = 0
    for i in range(touched):
        s = seat.touched[i]
        if total > 0:
            for message in range(table.base[s], table.base[s] + seat.sat[s]):
                seat.bits[(table.place[message] >> 6) + width] = NONE
        seat.sat[s] = 0
        seat.covered[s] = 0
        seat.waiters[s] = -1
        seat.waits_for[s] = 0
        seat.is_touched[s] = 0
    words = seat.registers[_LATE_WORDS]
    if words <= seat.late_words.size:
        for i in range(words):
            seat.late[seat.late_words[i]] = NONE
    else:
        for i in range(seat.late.size):
            seat.late[i] = NONE
    seat.registers[_TOUCHED] = 0
    seat.registers[_LATE_WORDS] = 0
