"""Messages that wait at a node, listed by the entry of the clock that they wait for.

A waiting message remembers one entry of the clock that it misses and the value it waits for.
When that entry has risen, only the messages listed by it are looked at: one list of all of them
would be walked at every delivery, and in a live group under load thousands may wait. Processes
with more entries than lists let several entries share one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import clocks, compiled
from precedes.protocols.contract import Capacity, Int32s

NONE: Final = -1

# Words of a waiting message; it is named by where they begin.
SLOT: Final = 0
ENTRY: Final = 1
VALUE: Final = 2
LINK: Final = 3
WORDS: Final = 4

# Lists of a process: by entry, and behind them the messages that can be delivered.
LISTS: Final = 64
READY: Final = LISTS

# Places in ``mark``.
FREE: Final = 0  # head of the list of free rows
HIGH: Final = 1  # words ever used
COUNT: Final = 2  # messages waiting, at all hosted processes together


class Held(NamedTuple):
    """The ends of each list of each hosted process, and a pool of rows for all of them."""

    first: Int32s  # process, list -> row
    last: Int32s
    waiting: Int32s  # process -> messages that wait at it
    row: Int32s
    mark: Int32s


def allocate(processes: int, capacity: Capacity) -> Held:
    """Empty lists with room for ``capacity.held`` messages in all."""
    return Held(
        first=np.full((processes, LISTS + 1), NONE, np.int32),
        last=np.full((processes, LISTS + 1), NONE, np.int32),
        waiting=np.zeros(processes, np.int32),
        row=np.zeros(WORDS * capacity.held, np.int32),
        mark=np.array([NONE, 0, 0], np.int32),
    )


@compiled.function()
def has_room(held: Held, count: int) -> bool:
    """Whether that many more messages can wait."""
    return WORDS * (held.mark[COUNT] + count) <= held.row.size


@compiled.function(inline=False)
def add(held: Held, here: int, slot: int, entry: int, value: int) -> None:
    """Let a message wait until ``entry`` of the clock has reached ``value``."""
    row = held.mark[FREE]
    if row != NONE:
        held.mark[FREE] = held.row[row + LINK]
    else:
        row = held.mark[HIGH]
        held.mark[HIGH] = row + WORDS
    held.mark[COUNT] += 1
    held.waiting[here] += 1
    held.row[row + SLOT] = slot
    held.row[row + ENTRY] = entry
    held.row[row + VALUE] = value
    _append(held, here, int(entry) % LISTS, row)


@compiled.function(inline=False)
def _append(held: Held, here: int, place: int, row: int) -> None:
    held.row[row + LINK] = NONE
    if held.last[here, place] == NONE:
        held.first[here, place] = row
    else:
        held.row[held.last[here, place] + LINK] = row
    held.last[here, place] = row


@compiled.function(inline=False)
def wake(held: Held, here: int, entry: int, clock: Int32s, need: Int32s) -> None:
    """An entry of the clock has risen: move what waited for it to those that can be delivered.

    What misses another entry, by its row of ``need``, waits for that one from now on.
    """
    place = entry % LISTS
    row = held.first[here, place]
    before = NONE
    while row != NONE:
        following = held.row[row + LINK]
        if held.row[row + ENTRY] == entry and clock[entry] >= held.row[row + VALUE]:
            if before == NONE:
                held.first[here, place] = following
            else:
                held.row[before + LINK] = following
            if following == NONE:
                held.last[here, place] = before
            slot = held.row[row + SLOT]
            missing = clocks.first_missing(clock, need[slot])
            if missing < 0:
                _append(held, here, READY, row)
            else:
                held.row[row + ENTRY] = missing
                held.row[row + VALUE] = need[slot, missing]
                _append(held, here, missing % LISTS, row)
        else:
            before = row
        row = following


@compiled.function(inline=False)
def take_ready(held: Held, here: int) -> int:
    """Remove a message that can be delivered; its slot, or NONE."""
    row = held.first[here, READY]
    if row == NONE:
        return NONE
    held.first[here, READY] = held.row[row + LINK]
    if held.first[here, READY] == NONE:
        held.last[here, READY] = NONE
    held.row[row + LINK] = held.mark[FREE]
    held.mark[FREE] = row
    held.mark[COUNT] -= 1
    held.waiting[here] -= 1
    return held.row[row + SLOT]
