"""Messages that wait at a node for an entry of its clock: lists in rows for all processes.

A waiting message stores one entry of the clock that it misses and the value it waits for, so
that most re-examinations are a single comparison. A protocol chooses one of two forms:

- in one list, in order of arrival (``make_in_order``, ``take_first_ready``);
- in lists by entry (``make_by_entry``, ``wake``, ``take_ready``): when an entry has risen, only the
  messages listed by it are examined. One list of all of them would be walked at every delivery,
  and in a live group under load thousands may wait. Processes with more entries than lists let
  several entries share one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Capacity, Int32s, Int64s
from precedes.parts import clocks, pool
from precedes.parts.pool import NONE

# Lists of a process: by entry, followed by the messages that can be delivered.
BY_ENTRY: Final = 64
READY: Final = BY_ENTRY


class Rows(NamedTuple):
    """Waiting messages."""

    slot: Int32s
    entry: Int32s  # of the clock, which must reach
    value: Int32s
    link: Int32s
    mark: Int64s


@compiled.methods(apart=("add", "_append", "take_first_ready", "wake", "take_ready"))
class Held(NamedTuple):
    """The ends of each list of each hosted process, and rows for all of them."""

    first: Int32s  # process, list -> row
    last: Int32s
    waiting: Int32s  # process -> messages that wait at it
    rows: Rows

    def add(self, here: int, place: int, slot: int, entry: int, value: int) -> None:
        """Add a message to this list until ``entry`` of the clock has reached ``value``."""
        row = pool.take(self.rows)
        self.waiting[here] += 1
        self.rows.slot[row] = slot
        self.rows.entry[row] = entry
        self.rows.value[row] = value
        self._append(here, place, row)

    def _append(self, here: int, place: int, row: int) -> None:
        self.rows.link[row] = NONE
        if self.last[here, place] == NONE:
            self.first[here, place] = row
        else:
            self.rows.link[self.last[here, place]] = row
        self.last[here, place] = row

    def _unlink(self, here: int, place: int, row: int, before: int) -> None:
        """Remove a row from its list; ``before`` is the one in front of it, or NONE."""
        following = self.rows.link[row]
        if before == NONE:
            self.first[here, place] = following
        else:
            self.rows.link[before] = following
        if following == NONE:
            self.last[here, place] = before

    def take_first_ready(self, here: int, clock: Int32s, need: Int32s) -> int:
        """Remove the first message whose row of ``need`` the clock covers; its slot, or NONE."""
        rows = self.rows
        row = self.first[here, 0]
        before = NONE
        while row != NONE:
            if clock[rows.entry[row]] >= rows.value[row]:
                slot = rows.slot[row]
                entry = clocks.first_missing(clock, need[slot])
                if entry < 0:
                    self._unlink(here, 0, row, before)
                    self._end(here, row)
                    return slot
                rows.entry[row] = entry
                rows.value[row] = need[slot, entry]
            before, row = row, rows.link[row]
        return NONE

    def wake(self, here: int, entry: int, clock: Int32s, need: Int32s) -> None:
        """After an entry of the clock has risen, move the messages that can be delivered.

        A message that misses another entry, by its row of ``need``, waits for that one from now on.
        """
        rows = self.rows
        place = entry % BY_ENTRY
        row = self.first[here, place]
        before = NONE
        while row != NONE:
            following = rows.link[row]
            if rows.entry[row] == entry and clock[entry] >= rows.value[row]:
                self._unlink(here, place, row, before)
                slot = rows.slot[row]
                missing = clocks.first_missing(clock, need[slot])
                if missing < 0:
                    self._append(here, READY, row)
                else:
                    rows.entry[row] = missing
                    rows.value[row] = need[slot, missing]
                    self._append(here, missing % BY_ENTRY, row)
            else:
                before = row
            row = following

    def take_ready(self, here: int) -> int:
        """Remove a message that can be delivered; its slot, or NONE."""
        row = self.first[here, READY]
        if row == NONE:
            return NONE
        self._unlink(here, READY, row, NONE)
        self._end(here, row)
        return self.rows.slot[row]

    def _end(self, here: int, row: int) -> None:
        pool.give_back(self.rows, row)
        self.waiting[here] -= 1


def make_in_order(processes: int, capacity: Capacity) -> Held:
    """An empty list for each process."""
    return _make(processes, 1, capacity)


def make_by_entry(processes: int, capacity: Capacity) -> Held:
    """Empty lists by entry for each process."""
    return _make(processes, BY_ENTRY + 1, capacity)


def _make(processes: int, lists: int, capacity: Capacity) -> Held:
    return Held(
        first=np.full((processes, lists), NONE, np.int32),
        last=np.full((processes, lists), NONE, np.int32),
        waiting=np.zeros(processes, np.int32),
        rows=pool.reserve(Rows, capacity.reserve_bytes),
    )
