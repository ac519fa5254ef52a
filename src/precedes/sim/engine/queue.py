"""The event queue: a ring of short time buckets, exact in (time, order of insertion).

Events that lie within the ring go straight to their bucket; later ones wait in a coarse ring,
and the very late ones in a list. A coarse slot is moved into the ring one slot before the cursor
reaches it, so nearly all events are touched once. A bucket is sorted when it opens. Lists are
kept last-in-first-out and reversed when read, and a slot is always moved before anything can be
inserted directly into the time it covers: ties therefore come out in order of insertion without
a serial number being stored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

BUCKET_BITS: Final = 16  # 65.5 us: about one event a bucket at 20,000 events a second
RING_BITS: Final = 13  # 0.54 s of buckets, so a delay of 100 ms needs no second touch
HALF_BITS: Final = BUCKET_BITS + RING_BITS - 1  # a coarse slot is half the ring
COARSE_BITS: Final = 12  # 18 minutes; beyond that, the list
FAR_BITS: Final = HALF_BITS + COARSE_BITS - 1  # half the coarse ring
NONE: Final = -1

# Words of an entry, side by side because an event is written and read as a whole. An entry is
# named by where its words begin: flat arrays save a multiplication on every hop of a list.
TIME: Final = 0
WHERE: Final = 1  # the node; above WHERE_BITS, the kind of event
WHAT: Final = 2
LINK: Final = 3
WORDS: Final = 4

# Words of ``opened`` and ``spare``, two an event.
AT: Final = 0
ENTRY: Final = 1

# Places in ``mark``.
BUCKET: Final = 0  # number of the open bucket since time 0
POSITION: Final = 1  # next event of the open bucket
COUNT: Final = 2  # events of the open bucket
FREE: Final = 3  # head of the list of free entries
HIGH: Final = 4  # words of entries ever used
SIZE: Final = 5  # events in the queue
LATE: Final = 6  # of them in the coarse ring and in the far list
FAR: Final = 7  # head of the far list
MARKS: Final = 8

WHERE_BITS: Final = 24
WHERE_MASK: Final = (1 << WHERE_BITS) - 1

RING_MASK: Final = (1 << RING_BITS) - 1
COARSE_MASK: Final = (1 << COARSE_BITS) - 1

# Runs up to this long are sorted by insertion, longer ones by merging.
INSERTION_MAX: Final = 24


class Queue(NamedTuple):
    """Entries, the two rings, and the open bucket in order of time."""

    entry: NDArray[np.int64]
    ring: NDArray[np.int32]
    coarse: NDArray[np.int32]
    opened: NDArray[np.int64]
    spare: NDArray[np.int64]
    mark: NDArray[np.int64]


def allocate(capacity: int) -> Queue:
    """An empty queue for ``capacity`` events."""
    mark = np.zeros(MARKS, np.int64)
    mark[FREE] = mark[FAR] = NONE
    return Queue(
        entry=np.zeros(WORDS * capacity, np.int64),
        ring=np.full(1 << RING_BITS, NONE, np.int32),
        coarse=np.full(1 << COARSE_BITS, NONE, np.int32),
        opened=np.zeros(2 * capacity, np.int64),
        spare=np.zeros(2 * capacity, np.int64),
        mark=mark,
    )


@compiled.function()
def has_room(queue: Queue, count: int) -> bool:
    """Whether ``count`` more events fit; the engine asks before it starts to push."""
    return WORDS * (queue.mark[SIZE] + count) <= queue.entry.size


@compiled.function()
def push(queue: Queue, time_ns: int, where: int, what: int) -> None:
    """Insert an event no earlier than the last one popped; the caller has asked ``has_room``."""
    mark = queue.mark
    entry = mark[FREE]
    if entry == NONE:
        entry = mark[HIGH]
        mark[HIGH] = entry + WORDS
    else:
        mark[FREE] = queue.entry[entry + LINK]
    mark[SIZE] += 1
    queue.entry[entry + TIME] = time_ns
    queue.entry[entry + WHERE] = where
    queue.entry[entry + WHAT] = what
    bucket = time_ns >> BUCKET_BITS
    if bucket == mark[BUCKET]:
        _insert_open(queue, entry, time_ns)
    elif (time_ns >> HALF_BITS) - (mark[BUCKET] >> (RING_BITS - 1)) < 2:
        place = bucket & RING_MASK
        queue.entry[entry + LINK] = queue.ring[place]
        queue.ring[place] = entry
    else:
        _place_late(queue, entry, time_ns)


@compiled.function(inline=False)
def push_one(queue: Queue, time_ns: int, where: int, what: int) -> None:
    """``push``, out of line: for callers that are not in the hot loop."""
    push(queue, time_ns, where, what)


@compiled.function(inline=False)
def _place_late(queue: Queue, entry: int, time_ns: int) -> None:
    mark = queue.mark
    mark[LATE] += 1
    if (time_ns >> FAR_BITS) - (mark[BUCKET] >> (FAR_BITS - BUCKET_BITS)) < 2:
        place = (time_ns >> HALF_BITS) & COARSE_MASK
        queue.entry[entry + LINK] = queue.coarse[place]
        queue.coarse[place] = entry
    else:
        queue.entry[entry + LINK] = mark[FAR]
        mark[FAR] = entry


@compiled.function(inline=False)
def _insert_open(queue: Queue, entry: int, time_ns: int) -> None:
    """Put an event into the open bucket, after all that are due at the same time."""
    opened = queue.opened
    if 2 * queue.mark[COUNT] == opened.size:
        _compact_open(queue)
    place = queue.mark[COUNT]
    while place > queue.mark[POSITION] and opened[2 * (place - 1) + AT] > time_ns:
        opened[2 * place + AT] = opened[2 * (place - 1) + AT]
        opened[2 * place + ENTRY] = opened[2 * (place - 1) + ENTRY]
        place -= 1
    opened[2 * place + AT] = time_ns
    opened[2 * place + ENTRY] = entry
    queue.mark[COUNT] += 1


@compiled.function(inline=False)
def _compact_open(queue: Queue) -> None:
    """Forget the popped events at the front: a bucket may refill itself without end."""
    position = queue.mark[POSITION]
    count = queue.mark[COUNT] - position
    for i in range(count):
        queue.opened[2 * i + AT] = queue.opened[2 * (position + i) + AT]
        queue.opened[2 * i + ENTRY] = queue.opened[2 * (position + i) + ENTRY]
    queue.mark[POSITION] = 0
    queue.mark[COUNT] = count


@compiled.function()
def pop(queue: Queue) -> int:
    """The entry that is due next, or NONE; ``release`` it when its fields have been read."""
    mark = queue.mark
    if mark[POSITION] == mark[COUNT]:
        if mark[SIZE] == 0:
            return NONE
        _open_next(queue)
    entry = queue.opened[2 * mark[POSITION] + ENTRY]
    mark[POSITION] += 1
    return entry


@compiled.function()
def release(queue: Queue, entry: int) -> None:
    """Give the popped entry back."""
    queue.entry[entry + LINK] = queue.mark[FREE]
    queue.mark[FREE] = entry
    queue.mark[SIZE] -= 1


@compiled.function()
def unpop(queue: Queue) -> None:
    """Put the entry popped last back; nothing may have been pushed or released since."""
    queue.mark[POSITION] -= 1


@compiled.function()
def _open_next(queue: Queue) -> None:
    """Move the cursor to the next bucket that holds anything and sort it."""
    mark = queue.mark
    entry = NONE
    bucket = mark[BUCKET]
    while entry == NONE:
        if mark[SIZE] == mark[LATE]:
            bucket = _skip_to_late(queue, bucket)
        else:
            bucket += 1
        mark[BUCKET] = bucket
        if bucket & (RING_MASK >> 1) == 0:
            _refill(queue)
        entry = queue.ring[bucket & RING_MASK]
    queue.ring[bucket & RING_MASK] = NONE
    mark[POSITION] = 0
    if queue.entry[entry + LINK] == NONE:
        queue.opened[AT] = queue.entry[entry + TIME]
        queue.opened[ENTRY] = entry
        mark[COUNT] = 1
    else:
        _open_list(queue, entry)


@compiled.function(inline=False)
def _open_list(queue: Queue, entry: int) -> None:
    """Read a bucket of several events in order of insertion and sort it."""
    count = _read_list(queue, entry + compiled.ZERO)
    for i in range(count):
        entry = queue.spare[2 * (count - 1 - i) + ENTRY]
        queue.opened[2 * i + AT] = queue.entry[entry + TIME]
        queue.opened[2 * i + ENTRY] = entry
    queue.mark[COUNT] = count
    for start in range(0, count, INSERTION_MAX):
        _sort_run(queue, start, min(start + INSERTION_MAX, count))
    width = INSERTION_MAX
    while width < count:
        _merge_runs(queue, count, width)
        width *= 2


@compiled.function()
def _read_list(queue: Queue, entry: int) -> int:
    """Write a linked list, last inserted first, into ``spare``; returns its length."""
    count = 0
    while entry != NONE:
        queue.spare[2 * count + ENTRY] = entry
        count += 1
        entry = queue.entry[entry + LINK]
    return count


@compiled.function(inline=False)
def _skip_to_late(queue: Queue, bucket: int) -> int:
    """Nothing waits in the ring: go to the half-ring before the next event that waits late."""
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
    # Stop where the half of the coarse ring begins: there the far list is looked through.
    half = (target >> (COARSE_BITS - 1)) << (COARSE_BITS - 1)
    return (half if half > slot else max(target, slot + 1)) << (RING_BITS - 1)


@compiled.function(inline=False)
def _refill(queue: Queue) -> None:
    """The cursor enters a half-ring: move the coarse slot after it into the ring."""
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
    """Place the events of a list again, in order of insertion."""
    mark = queue.mark
    count = _read_list(queue, first)
    mark[LATE] -= count
    for i in range(count):
        entry = queue.spare[2 * (count - 1 - i) + ENTRY]
        time_ns = queue.entry[entry + TIME]
        if (time_ns >> HALF_BITS) - (mark[BUCKET] >> (RING_BITS - 1)) < 2:
            place = (time_ns >> BUCKET_BITS) & RING_MASK
            queue.entry[entry + LINK] = queue.ring[place]
            queue.ring[place] = entry
        else:
            _place_late(queue, entry, time_ns)


@compiled.function()
def _sort_run(queue: Queue, start: int, end: int) -> None:
    """Stable insertion sort of a short run of the open bucket."""
    opened = queue.opened
    for i in range(start + 1, end):
        time_ns = opened[2 * i + AT]
        entry = opened[2 * i + ENTRY]
        place = i
        while place > start and opened[2 * (place - 1) + AT] > time_ns:
            opened[2 * place + AT] = opened[2 * (place - 1) + AT]
            opened[2 * place + ENTRY] = opened[2 * (place - 1) + ENTRY]
            place -= 1
        opened[2 * place + AT] = time_ns
        opened[2 * place + ENTRY] = entry


@compiled.function(inline=False)
def _merge_runs(queue: Queue, count: int, width: int) -> None:
    """Merge neighbouring sorted runs of ``width`` events, the left one first on ties."""
    opened = queue.opened
    for start in range(0, count, 2 * width):
        middle = min(start + width, count)
        end = min(start + 2 * width, count)
        left, right = start, middle
        for place in range(start, end):
            if right >= end or (left < middle and opened[2 * left + AT] <= opened[2 * right + AT]):
                taken = left
                left += 1
            else:
                taken = right
                right += 1
            queue.spare[2 * place + AT] = opened[2 * taken + AT]
            queue.spare[2 * place + ENTRY] = opened[2 * taken + ENTRY]
    for place in range(count):
        opened[2 * place + AT] = queue.spare[2 * place + AT]
        opened[2 * place + ENTRY] = queue.spare[2 * place + ENTRY]
