"""Messages that wait at a node for an entry of its clock: lists in a pool for all processes.

A waiting message remembers one entry of the clock that it misses and the value it waits for, so
that most re-examinations are a single comparison. A protocol chooses one of two forms:

- in one list, in order of arrival (``add_in_order``, ``take_first_ready``);
- in lists by entry (``add_by_entry``, ``wake``, ``take_ready``): when an entry has risen, only the
  messages listed by it are looked at. One list of all of them would be walked at every delivery,
  and in a live group under load thousands may wait. Processes with more entries than lists let
  several entries share one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Capacity, Int32s
from precedes.parts import clocks
from precedes.parts.pool import NONE, Pool, allocate_pool, free_row, has_rows, take_row

# Words of a waiting message.
SLOT: Final = 0
ENTRY: Final = 1
VALUE: Final = 2
LINK: Final = 3
ROW_WORDS: Final = 4

# Lists of a process: by entry, and behind them the messages that can be delivered.
BY_ENTRY: Final = 64
READY: Final = BY_ENTRY


class Held(NamedTuple):
    """The ends of each list of each hosted process, and a pool of rows for all of them."""

    first: Int32s  # process, list -> row
    last: Int32s
    waiting: Int32s  # process -> messages that wait at it
    pool: Pool


def allocate_in_order(processes: int, capacity: Capacity) -> Held:
    """An empty list for each process, with room for ``capacity.held`` messages in all."""
    return _allocate(processes, 1, capacity)


def allocate_by_entry(processes: int, capacity: Capacity) -> Held:
    """Empty lists by entry, with room for ``capacity.held`` messages in all."""
    return _allocate(processes, BY_ENTRY + 1, capacity)


def _allocate(processes: int, lists: int, capacity: Capacity) -> Held:
    return Held(
        first=np.full((processes, lists), NONE, np.int32),
        last=np.full((processes, lists), NONE, np.int32),
        waiting=np.zeros(processes, np.int32),
        pool=allocate_pool(rows=capacity.held, words=ROW_WORDS),
    )


@compiled.function()
def can_hold(held: Held, count: int) -> bool:
    """Whether that many more messages can wait."""
    return has_rows(held.pool, count)


@compiled.function()
def add_in_order(held: Held, here: int, slot: int, entry: int, value: int) -> None:
    """Let a message wait until ``entry`` of the clock has reached ``value``."""
    _add(held, here, 0, slot, entry, value)


@compiled.function()
def add_by_entry(held: Held, here: int, slot: int, entry: int, value: int) -> None:
    """Let a message wait until ``entry`` of the clock has reached ``value``."""
    _add(held, here, int(entry) % BY_ENTRY, slot, entry, value)


@compiled.function(inline=False)
def _add(held: Held, here: int, place: int, slot: int, entry: int, value: int) -> None:
    row = take_row(held.pool)
    held.waiting[here] += 1
    held.pool.row[row + SLOT] = slot
    held.pool.row[row + ENTRY] = entry
    held.pool.row[row + VALUE] = value
    _append(held, here, place, row)


@compiled.function(inline=False)
def _append(held: Held, here: int, place: int, row: int) -> None:
    held.pool.row[row + LINK] = NONE
    if held.last[here, place] == NONE:
        held.first[here, place] = row
    else:
        held.pool.row[held.last[here, place] + LINK] = row
    held.last[here, place] = row


@compiled.function()
def _unlink(held: Held, here: int, place: int, row: int, before: int) -> None:
    """Take a row out of its list; ``before`` is the one in front of it, or NONE."""
    following = held.pool.row[row + LINK]
    if before == NONE:
        held.first[here, place] = following
    else:
        held.pool.row[before + LINK] = following
    if following == NONE:
        held.last[here, place] = before


@compiled.function(inline=False)
def take_first_ready(held: Held, here: int, clock: Int32s, need: Int32s) -> int:
    """Remove the first message whose row of ``need`` the clock covers; its slot, or NONE."""
    rows = held.pool.row
    row = held.first[here, 0]
    before = NONE
    while row != NONE:
        if clock[rows[row + ENTRY]] >= rows[row + VALUE]:
            slot = rows[row + SLOT]
            entry = clocks.first_missing(clock, need[slot])
            if entry < 0:
                _unlink(held, here, 0, row, before)
                _end(held, here, row)
                return slot
            rows[row + ENTRY] = entry
            rows[row + VALUE] = need[slot, entry]
        before, row = row, rows[row + LINK]
    return NONE


@compiled.function(inline=False)
def wake(held: Held, here: int, entry: int, clock: Int32s, need: Int32s) -> None:
    """An entry of the clock has risen: move what waited for it to those that can be delivered.

    What misses another entry, by its row of ``need``, waits for that one from now on.
    """
    rows = held.pool.row
    place = entry % BY_ENTRY
    row = held.first[here, place]
    before = NONE
    while row != NONE:
        following = rows[row + LINK]
        if rows[row + ENTRY] == entry and clock[entry] >= rows[row + VALUE]:
            _unlink(held, here, place, row, before)
            slot = rows[row + SLOT]
            missing = clocks.first_missing(clock, need[slot])
            if missing < 0:
                _append(held, here, READY, row)
            else:
                rows[row + ENTRY] = missing
                rows[row + VALUE] = need[slot, missing]
                _append(held, here, missing % BY_ENTRY, row)
        else:
            before = row
        row = following


@compiled.function(inline=False)
def take_ready(held: Held, here: int) -> int:
    """Remove a message that can be delivered; its slot, or NONE."""
    row = held.first[here, READY]
    if row == NONE:
        return NONE
    slot = held.pool.row[row + SLOT]
    _unlink(held, here, READY, row, NONE)
    _end(held, here, row)
    return slot


@compiled.function()
def _end(held: Held, here: int, row: int) -> None:
    free_row(held.pool, row)
    held.waiting[here] -= 1
