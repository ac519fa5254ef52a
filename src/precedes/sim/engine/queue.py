"""The event queue: a ring of short time buckets, exact in (time, order of insertion).

An event in the ring is one word: its time within the bucket, its node, and a number, which is the
slot of a message straight from its source, as nearly all events are, or an entry of a table for
other events. Eight of them share a cache line, and a bucket keeps its own in blocks of
two lines, so that a large group's events are written and read in streams.

Events beyond the ring wait in a coarse ring of linked entries, and the very late ones in a list. A
coarse slot is moved into the ring one slot before the cursor reaches it, so nearly all events are
touched once. A bucket is sorted when it opens. Lists are kept last-in-first-out and reversed when
read, and a slot is always moved before anything can be inserted directly into the time it covers:
ties therefore come out in order of insertion without a serial number being stored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.errors import UserError

BUCKET_BITS: Final = 18  # 0.26 ms: five events a bucket at 20,000 events a second
RING_BITS: Final = 11  # 0.54 s of buckets, so a delay of 100 ms needs no second touch
HALF_BITS: Final = BUCKET_BITS + RING_BITS - 1  # a coarse slot is half the ring
COARSE_BITS: Final = 12  # 18 minutes; beyond that, the list
FAR_BITS: Final = HALF_BITS + COARSE_BITS - 1  # half the coarse ring
NONE: Final = -1

# The word of an event, from the top: time within its bucket, node, whether the number is that of
# an entry, number.
NUMBER_BITS: Final = 28
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
OTHER: Final = 1 << NUMBER_BITS
NODE_SHIFT: Final = NUMBER_BITS + 1
NODE_MASK: Final = (1 << 16) - 1
TIME_SHIFT: Final = NODE_SHIFT + 16
TIME_MASK: Final = (1 << BUCKET_BITS) - 1

# Words of an entry. An entry is named by where its words begin: flat arrays save a multiplication
# on every hop of a list.
TIME: Final = 0
WHERE: Final = 1  # the node; above WHERE_BITS, the kind of event
ARGUMENT: Final = 2
LINK: Final = 3
WORDS: Final = 4

WHERE_BITS: Final = 24
WHERE_MASK: Final = (1 << WHERE_BITS) - 1

# Words of a block: where the block before it ends, then events. The first block is never used.
BLOCK: Final = 16

# Places in ``mark``.
BUCKET: Final = 0  # number of the open bucket since time 0
POSITION: Final = 1  # next event of the open bucket
COUNT: Final = 2  # events of the open bucket
FREE: Final = 3  # head of the list of free entries
HIGH: Final = 4  # words of entries ever used
SIZE: Final = 5  # events in the queue
LATE: Final = 6  # of them in the coarse ring and in the far list
FAR: Final = 7  # head of the far list
BLOCK_FREE: Final = 8  # head of the list of free blocks, or 0
BLOCK_HIGH: Final = 9  # words of blocks ever used
MARKS: Final = 10

RING_MASK: Final = (1 << RING_BITS) - 1
COARSE_MASK: Final = (1 << COARSE_BITS) - 1

# Digits of a time within its bucket, by which large buckets are sorted.
DIGIT_BITS: Final = 6
DIGITS: Final = BUCKET_BITS // DIGIT_BITS
DIGIT_MASK: Final = (1 << DIGIT_BITS) - 1


class Queue(NamedTuple):
    """Entries, the two rings, blocks of events, and the open bucket in order of time."""

    entry: NDArray[np.int64]
    ring: NDArray[np.int32]  # bucket -> end of its last block, or 0
    coarse: NDArray[np.int32]
    block: NDArray[np.int64]
    opened: NDArray[np.int64]
    spare: NDArray[np.int64]
    tally: NDArray[np.int32]  # how many events have each value of each digit
    mark: NDArray[np.int64]


def check_slots(slots: int) -> None:
    """Raise UserError if the word of an event cannot name this many."""
    _check(slots, f"{OTHER // 2:,} messages")


def _check(numbers: int, too_many: str) -> None:
    if numbers > OTHER:
        raise UserError(
            f"more than {too_many} are in flight at once: use fewer nodes, a lower rate or "
            "shorter delays"
        )


def allocate(capacity: int) -> Queue:
    """An empty queue for ``capacity`` events."""
    _check(WORDS * capacity, f"{OTHER // WORDS // 2:,} packets and timers")
    mark = np.zeros(MARKS, np.int64)
    mark[FREE] = mark[FAR] = NONE
    mark[BLOCK_HIGH] = BLOCK
    # Blocks that are full, and one that is not for each bucket.
    blocks = 1 + capacity // (BLOCK - 1) + min(capacity, 1 << RING_BITS)
    return Queue(
        entry=np.zeros(WORDS * capacity, np.int64),
        ring=np.zeros(1 << RING_BITS, np.int32),
        coarse=np.full(1 << COARSE_BITS, NONE, np.int32),
        block=np.zeros(BLOCK * blocks, np.int64),
        opened=np.zeros(capacity, np.int64),
        spare=np.zeros(capacity, np.int64),
        tally=np.zeros(DIGITS << DIGIT_BITS, np.int32),
        mark=mark,
    )


@compiled.function()
def has_room(queue: Queue, count: int) -> bool:
    """Return whether ``count`` more events fit; the engine checks before it starts to push."""
    return queue.mark[SIZE] + count <= queue.opened.size


@compiled.function()
def push(queue: Queue, time_ns: int, node: int, slot: int) -> None:
    """Push the arrival of a message from its source, no earlier than the last popped event.

    The caller has checked ``has_room``.
    """
    mark = queue.mark
    mark[SIZE] += 1
    event = (node << NODE_SHIFT) | slot
    if (time_ns >> HALF_BITS) - (mark[BUCKET] >> (RING_BITS - 1)) >= 2:
        _place_late(queue, _take_entry(queue, time_ns, node, ~slot))
    elif time_ns >> BUCKET_BITS == mark[BUCKET]:
        _insert_open(queue, ((time_ns & TIME_MASK) << TIME_SHIFT) | event)
    else:
        _append(queue, time_ns, event)


@compiled.function(inline=False)
def push_one(queue: Queue, time_ns: int, where: int, argument: int) -> None:
    """Push any event; a message straight from its source is ``argument = ~slot``."""
    if where <= WHERE_MASK and argument < 0:
        push(queue, time_ns, where, ~argument)
        return
    mark = queue.mark
    mark[SIZE] += 1
    entry = _take_entry(queue, time_ns, where, argument)
    event = _event_of(queue, entry)
    if (time_ns >> HALF_BITS) - (mark[BUCKET] >> (RING_BITS - 1)) >= 2:
        _place_late(queue, entry)
    elif time_ns >> BUCKET_BITS == mark[BUCKET]:
        _insert_open(queue, ((time_ns & TIME_MASK) << TIME_SHIFT) | event)
    else:
        _append(queue, time_ns, event)


@compiled.function(inline=False)
def _take_entry(queue: Queue, time_ns: int, where: int, argument: int) -> int:
    mark = queue.mark
    entry = mark[FREE]
    if entry == NONE:
        entry = mark[HIGH]
        mark[HIGH] = entry + WORDS
    else:
        mark[FREE] = queue.entry[entry + LINK]
    queue.entry[entry + TIME] = time_ns
    queue.entry[entry + WHERE] = where
    queue.entry[entry + ARGUMENT] = argument
    return entry


@compiled.function()
def _free_entry(queue: Queue, entry: int) -> None:
    queue.entry[entry + LINK] = queue.mark[FREE]
    queue.mark[FREE] = entry


@compiled.function()
def _event_of(queue: Queue, entry: int) -> int:
    """The word of the event of an entry, without its time."""
    return ((queue.entry[entry + WHERE] & WHERE_MASK) << NODE_SHIFT) | OTHER | entry


@compiled.function()
def _append(queue: Queue, time_ns: int, event: int) -> None:
    """Append an event to its bucket, which is in the ring and not open."""
    place = (time_ns >> BUCKET_BITS) & RING_MASK
    end = int(queue.ring[place]) + compiled.ZERO
    if end & (BLOCK - 1) == 0:
        end = _new_block(queue, end)
    queue.block[end] = ((time_ns & TIME_MASK) << TIME_SHIFT) | event
    queue.ring[place] = end + 1


@compiled.function()
def _new_block(queue: Queue, end: int) -> int:
    """Link a block after the one that ends there, or after none; return where its events begin."""
    mark = queue.mark
    block = mark[BLOCK_FREE]
    if block == 0:
        block = mark[BLOCK_HIGH]
        mark[BLOCK_HIGH] = block + BLOCK
    else:
        mark[BLOCK_FREE] = queue.block[block]
    queue.block[block] = end
    return block + 1


@compiled.function(inline=False)
def _place_late(queue: Queue, entry: int) -> None:
    mark = queue.mark
    mark[LATE] += 1
    time_ns = queue.entry[entry + TIME]
    if (time_ns >> FAR_BITS) - (mark[BUCKET] >> (FAR_BITS - BUCKET_BITS)) < 2:
        place = (time_ns >> HALF_BITS) & COARSE_MASK
        queue.entry[entry + LINK] = queue.coarse[place]
        queue.coarse[place] = entry
    else:
        queue.entry[entry + LINK] = mark[FAR]
        mark[FAR] = entry


@compiled.function(inline=False)
def _insert_open(queue: Queue, event: int) -> None:
    """Put an event into the open bucket, after all that are due at the same time."""
    opened = queue.opened
    if queue.mark[COUNT] == opened.size:
        _compact_open(queue)
    place = queue.mark[COUNT]
    time = event >> TIME_SHIFT
    while place > queue.mark[POSITION] and opened[place - 1] >> TIME_SHIFT > time:
        opened[place] = opened[place - 1]
        place -= 1
    opened[place] = event
    queue.mark[COUNT] += 1


@compiled.function(inline=False)
def _compact_open(queue: Queue) -> None:
    """Drop the popped events at the front: a bucket may refill itself without end."""
    position = queue.mark[POSITION]
    count = queue.mark[COUNT] - position
    for i in range(count):
        queue.opened[i] = queue.opened[position + i]
    queue.mark[POSITION] = 0
    queue.mark[COUNT] = count


@compiled.function()
def pop(queue: Queue) -> int:
    """The next event, or NONE; ``release`` it when nothing of it is needed any more."""
    mark = queue.mark
    if mark[POSITION] == mark[COUNT]:
        if mark[SIZE] == 0:
            return NONE
        _open_next(queue)
    event = queue.opened[mark[POSITION]]
    mark[POSITION] += 1
    return event


@compiled.function()
def unpop(queue: Queue) -> None:
    """Put the event popped last back; nothing may have been pushed or released since."""
    queue.mark[POSITION] -= 1


@compiled.function()
def release(queue: Queue, event: int) -> None:
    """Free a popped event."""
    queue.mark[SIZE] -= 1
    if event & OTHER != 0:
        _free_entry(queue, event & NUMBER_MASK)


@compiled.function()
def time_ns_of(queue: Queue, event: int) -> int:
    """The time of an event of the open bucket."""
    return (queue.mark[BUCKET] << BUCKET_BITS) | (event >> TIME_SHIFT)


@compiled.function()
def node_of(event: int) -> int:
    """The node of an event."""
    return (event >> NODE_SHIFT) & NODE_MASK


@compiled.function()
def kind_of(queue: Queue, event: int) -> int:
    """The kind of an event, above WHERE_BITS."""
    if event & OTHER == 0:
        return 0
    return queue.entry[(event & NUMBER_MASK) + WHERE] & ~WHERE_MASK


@compiled.function()
def argument_of(queue: Queue, event: int) -> int:
    """The number that was pushed with an event."""
    number = event & NUMBER_MASK
    return ~number if event & OTHER == 0 else queue.entry[number + ARGUMENT]


@compiled.function()
def _open_next(queue: Queue) -> None:
    """Move the cursor to the next bucket with events and sort it."""
    mark = queue.mark
    end = 0
    bucket = mark[BUCKET]
    while end == 0:
        if mark[SIZE] == mark[LATE]:
            bucket = _skip_to_late(queue, bucket)
        else:
            bucket += 1
        mark[BUCKET] = bucket
        if bucket & (RING_MASK >> 1) == 0:
            _refill(queue)
        end = int(queue.ring[bucket & RING_MASK]) + compiled.ZERO
    queue.ring[bucket & RING_MASK] = 0
    mark[POSITION] = 0
    first = ((end - 1) & ~(BLOCK - 1)) + 1
    if queue.block[first - 1] == 0:
        _sort_block(queue, first, end - first)
        queue.block[first - 1] = mark[BLOCK_FREE]
        mark[BLOCK_FREE] = first - 1
        mark[COUNT] = end - first
    else:
        _sort_blocks(queue, end)


@compiled.function()
def _sort_block(queue: Queue, first: int, count: int) -> None:
    """Open the events of one block: the place of each is the number of those before it.

    Counting is faster than sorting here: no branch depends on their times.
    """
    block = queue.block
    for i in range(count):
        event = block[first + i]
        time = event >> TIME_SHIFT
        place = 0
        for j in range(i):
            place += block[first + j] >> TIME_SHIFT <= time
        for j in range(i + 1, count):
            place += block[first + j] >> TIME_SHIFT < time
        queue.opened[place] = event


@compiled.function(inline=False)
def _sort_blocks(queue: Queue, end: int) -> None:
    """Open a bucket of several blocks: sort it by the digits of times, the lowest first."""
    spare = queue.spare
    start = spare.size
    for i in range(queue.tally.size):
        queue.tally[i] = 0
    while end != 0:
        block = (end - 1) & ~(BLOCK - 1)
        start -= end - 1 - block
        for i in range(end - 1 - block):
            event = queue.block[block + 1 + i]
            spare[start + i] = event
            for digit in range(DIGITS):
                value = (event >> (TIME_SHIFT + DIGIT_BITS * digit)) & DIGIT_MASK
                queue.tally[(digit << DIGIT_BITS) | value] += 1
        end = queue.block[block]
        queue.block[block] = queue.mark[BLOCK_FREE]
        queue.mark[BLOCK_FREE] = block
    count = spare.size - start
    queue.mark[COUNT] = count
    _spread(queue.tally, 0, spare, start, count, queue.opened)
    _spread(queue.tally, 1, queue.opened, 0, count, spare)
    _spread(queue.tally, 2, spare, 0, count, queue.opened)


@compiled.function(inline=False)
def _spread(
    tally: NDArray[np.int32],
    digit: int,
    source: NDArray[np.int64],
    first: int,
    count: int,
    target: NDArray[np.int64],
) -> None:
    """Copy events in the order of a digit of their times, and of the source among equals."""
    base = digit << DIGIT_BITS
    before = 0
    for value in range(1 << DIGIT_BITS):
        number = tally[base + value]
        tally[base + value] = before
        before += number
    for i in range(count):
        event = source[first + i]
        place = base + ((event >> (TIME_SHIFT + DIGIT_BITS * digit)) & DIGIT_MASK)
        target[tally[place]] = event
        tally[place] += 1


@compiled.function(inline=False)
def _skip_to_late(queue: Queue, bucket: int) -> int:
    """With an empty ring: go to the half-ring before the next late event."""
    earliest = 1 << 62
    for place in range(queue.coarse.size):
        entry = queue.coarse[place]
        while entry != NONE:
            earliest = min(earliest, queue.entry[entry + TIME])
            entry = queue.entry[entry + LINK]
    entry = queue.mark[FAR]
    while entry != NONE:
        earliest = min(earliest, queue.entry[entry + TIME])
        entry = queue.entry[entry + LINK]
    slot = bucket >> (RING_BITS - 1)
    target = (earliest >> HALF_BITS) - 1
    # Stop where the half of the coarse ring begins: there the far list is scanned.
    half = (target >> (COARSE_BITS - 1)) << (COARSE_BITS - 1)
    return (half if half > slot else max(target, slot + 1)) << (RING_BITS - 1)


@compiled.function(inline=False)
def _refill(queue: Queue) -> None:
    """Enter a half-ring: move the coarse slot after it into the ring."""
    slot = queue.mark[BUCKET] >> (RING_BITS - 1)
    if slot & (COARSE_MASK >> 1) == 0:
        first = queue.mark[FAR]
        queue.mark[FAR] = NONE
        _move(queue, first)
    # The slot now entered was moved one half-ring ago unless the cursor has jumped.
    for following in range(2):
        place = (slot + following) & COARSE_MASK
        first = int(queue.coarse[place]) + compiled.ZERO
        queue.coarse[place] = NONE
        _move(queue, first)


@compiled.function(inline=False)
def _move(queue: Queue, first: int) -> None:
    """Insert the events of a list again, in order of insertion."""
    mark = queue.mark
    count = 0
    while first != NONE:
        queue.spare[count] = first
        count += 1
        first = queue.entry[first + LINK]
    mark[LATE] -= count
    for i in range(count):
        entry = queue.spare[count - 1 - i]
        time_ns = queue.entry[entry + TIME]
        where, subject = queue.entry[entry + WHERE], queue.entry[entry + ARGUMENT]
        if (time_ns >> HALF_BITS) - (mark[BUCKET] >> (RING_BITS - 1)) >= 2:
            _place_late(queue, entry)
        elif where <= WHERE_MASK and subject < 0:
            _append(queue, time_ns, (where << NODE_SHIFT) | ~subject)
            _free_entry(queue, entry)
        else:
            _append(queue, time_ns, _event_of(queue, entry))
