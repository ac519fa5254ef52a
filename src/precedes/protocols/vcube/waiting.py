"""Messages that wait at a node of ``vcube``, each on the list of the one entry that it awaits.

The rows are shared by all hosted processes. A process has two lists for every source: rows that
wait until a number of messages of the source have been *received*, and rows that wait until a
number have been *delivered*. A row is on one list at a time, so an arrival or a delivery touches
only the messages that waited for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Capacity, Host, Int32s, Int64s
from precedes.parts import pool
from precedes.parts.pool import NONE

# Places in ``queue``: the ends of the queue of rows that may be deliverable.
FIRST: Final = 0
LAST: Final = 1


class Rows(NamedTuple):
    """Waiting messages."""

    slot: Int32s
    serial: Int32s  # in order of arrival at its process
    unserved: Int32s  # clusters 1..unserved have not been sent the message yet
    blocked: Int32s  # and clusters 1..blocked must not be: they lack something that comes by here
    entry: Int32s  # the source of what is awaited,
    value: Int32s  # and how many of its messages
    link: Int32s
    predecessor: Int32s  # the row of the source's message before, while that waits too
    # Not part of the record: [i] is the i-th row that this call of a handler looks at. There are
    # never more of them than rows, and as a column it is reserved with them.
    chosen: Int32s
    mark: Int64s


@compiled.methods(apart=("enter", "sort_by_sequence", "sort_by_arrival"))
class Waiting(NamedTuple):
    """The rows, and the queue of those that may be deliverable, linked as the lists are."""

    rows: Rows
    queue: Int32s

    def enter(self, slot: int, serial: int) -> int:
        """A row for a message that has just arrived."""
        row = pool.take(self.rows)
        self.rows.slot[row] = slot
        self.rows.serial[row] = serial
        self.rows.link[row] = NONE
        self.rows.predecessor[row] = NONE
        return row

    def leave(self, row: int) -> None:
        """The message waits no longer."""
        pool.give_back(self.rows, row)

    def await_entry(self, row: int, entry: int, value: int) -> None:
        """Note what a row waits for."""
        self.rows.entry[row] = entry
        self.rows.value[row] = value

    def put_on(self, heads: Int32s, entry: int, row: int) -> None:
        """Put a row on the list of an entry."""
        self.rows.link[row] = heads[entry]
        heads[entry] = row

    def take_off(self, heads: Int32s, entry: int, before: int, row: int) -> None:
        """Take a row from the list of an entry; ``before`` is the one in front of it, or NONE."""
        if before == NONE:
            heads[entry] = self.rows.link[row]
        else:
            self.rows.link[before] = self.rows.link[row]
        self.rows.link[row] = NONE

    def enqueue(self, row: int) -> None:
        """Put a row that is on no list behind the queue."""
        self.rows.link[row] = NONE
        if self.queue[FIRST] == NONE:
            self.queue[FIRST] = row
        else:
            self.rows.link[self.queue[LAST]] = row
        self.queue[LAST] = row

    def is_queue_empty(self) -> bool:
        """Whether no row is left that may be deliverable."""
        return self.queue[FIRST] == NONE

    def dequeue(self) -> int:
        """Take the first row of the queue, which must not be empty."""
        row = self.queue[FIRST]
        self.queue[FIRST] = self.rows.link[row]
        return int(row)

    def sort_by_sequence(self, count: int, host: Host) -> None:
        """Order the chosen rows so that a message comes after its source's earlier ones."""
        chosen, slot = self.rows.chosen, self.rows.slot
        for i in range(1, count):
            row = chosen[i]
            key = host.sequence_of(slot[row])
            at = i
            while at > 0 and host.sequence_of(slot[chosen[at - 1]]) > key:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = row

    def sort_by_arrival(self, count: int) -> None:
        """Order the chosen rows as their messages arrived."""
        chosen, serial = self.rows.chosen, self.rows.serial
        for i in range(1, count):
            row = chosen[i]
            key = serial[row]
            at = i
            while at > 0 and serial[chosen[at - 1]] > key:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = row


def make_waiting(capacity: Capacity) -> Waiting:
    """No message waits."""
    return Waiting(
        rows=pool.reserve(Rows, capacity.reserve_bytes),
        queue=np.full(2, NONE, np.int32),
    )
