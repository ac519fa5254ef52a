"""Messages that wait at a node, in order of arrival: a pool shared by all hosted processes.

A waiting message remembers one entry of the clock that it misses and the value it waits for, so
that most re-examinations are a single comparison.
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

# Places in ``mark``.
FREE: Final = 0  # head of the list of free rows
HIGH: Final = 1  # words ever used
COUNT: Final = 2  # messages waiting, at all hosted processes together


class Held(NamedTuple):
    """One list per hosted process; ``first`` and ``last`` are its ends."""

    first: Int32s
    last: Int32s
    row: Int32s
    mark: Int32s


def allocate(processes: int, capacity: Capacity) -> Held:
    """Empty lists with room for ``capacity.held`` messages in all."""
    return Held(
        first=np.full(processes, NONE, np.int32),
        last=np.full(processes, NONE, np.int32),
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
    held.row[row + SLOT] = slot
    held.row[row + ENTRY] = entry
    held.row[row + VALUE] = value
    held.row[row + LINK] = NONE
    if held.last[here] == NONE:
        held.first[here] = row
    else:
        held.row[held.last[here] + LINK] = row
    held.last[here] = row


@compiled.function(inline=False)
def take_ready(held: Held, here: int, clock: Int32s, need: Int32s) -> int:
    """Remove the first message whose row of ``need`` the clock covers; its slot, or NONE."""
    row = held.first[here]
    before = NONE
    while row != NONE:
        if clock[held.row[row + ENTRY]] >= held.row[row + VALUE]:
            slot = held.row[row + SLOT]
            entry = clocks.first_missing(clock, need[slot])
            if entry < 0:
                _remove(held, here, row, before)
                return slot
            held.row[row + ENTRY] = entry
            held.row[row + VALUE] = need[slot, entry]
        before, row = row, held.row[row + LINK]
    return NONE


@compiled.function()
def _remove(held: Held, here: int, row: int, before: int) -> None:
    """Take a message out of the list; ``before`` is the one in front of it, or NONE."""
    following = held.row[row + LINK]
    if before == NONE:
        held.first[here] = following
    else:
        held.row[before + LINK] = following
    if held.last[here] == row:
        held.last[here] = before
    held.row[row + LINK] = held.mark[FREE]
    held.mark[FREE] = row
    held.mark[COUNT] -= 1
