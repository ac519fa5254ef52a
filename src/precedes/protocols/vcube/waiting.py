"""Messages that wait at a node of ``vcube``, each on the list of the one entry that it awaits.

A pool of rows is shared by all hosted processes. A process has two lists for every source: rows
that wait until so many messages of the source have been *received*, and rows that wait until so
many have been *delivered*. A row is on one list at a time, so an arrival or a delivery touches
only the messages that waited for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Host, Int32s, sequence_of
from precedes.parts.pool import NONE, Pool, allocate_pool, free_row, has_rows, take_row

# Words of a waiting message.
SLOT: Final = 0
SERIAL: Final = 1  # in order of arrival at its process
UNSERVED: Final = 2  # clusters 1..UNSERVED have not been sent the message yet
BLOCKED: Final = 3  # and clusters 1..BLOCKED must not be: they lack something that comes by here
ENTRY: Final = 4  # the source of what is awaited,
VALUE: Final = 5  # and how many of its messages
LINK: Final = 6
PREDECESSOR: Final = 7  # the row of the source's message before, while that waits too
ROW_WORDS: Final = 8

# Places in ``queue``: the ends of the queue of rows that may be deliverable.
FIRST: Final = 0
LAST: Final = 1


class Waiting(NamedTuple):
    """The pool, and room to gather the rows that one call of a handler looks at."""

    pool: Pool
    queue: Int32s
    chosen: Int32s


def allocate_waiting(rows: int) -> Waiting:
    """Room for that many waiting messages."""
    return Waiting(
        pool=allocate_pool(rows=rows, words=ROW_WORDS),
        queue=np.full(2, NONE, np.int32),
        chosen=np.zeros(rows, np.int32),
    )


@compiled.function()
def can_wait(waiting: Waiting, count: int) -> bool:
    """Whether that many more messages can wait."""
    return has_rows(waiting.pool, count)


@compiled.function(inline=False)
def begin_waiting(waiting: Waiting, slot: int, serial: int) -> int:
    """A row for a message that has just arrived; the caller has asked ``can_wait``."""
    row = take_row(waiting.pool)
    rows = waiting.pool.row
    rows[row + SLOT] = slot
    rows[row + SERIAL] = serial
    rows[row + LINK] = NONE
    rows[row + PREDECESSOR] = NONE
    return row


@compiled.function()
def end_waiting(waiting: Waiting, row: int) -> None:
    """The message waits no longer."""
    free_row(waiting.pool, row)


@compiled.function()
def await_entry(rows: Int32s, row: int, entry: int, value: int) -> None:
    """Note what a row waits for."""
    rows[row + ENTRY] = entry
    rows[row + VALUE] = value


@compiled.function()
def link(waiting: Waiting, clock: Int32s, head: int, row: int) -> None:
    """Put a row on the list whose head is at this place of the clock."""
    waiting.pool.row[row + LINK] = clock[head]
    clock[head] = row


@compiled.function()
def unlink(waiting: Waiting, clock: Int32s, head: int, before: int, row: int) -> None:
    """Take a row from a list; ``before`` is the one in front of it, or NONE."""
    rows = waiting.pool.row
    if before == NONE:
        clock[head] = rows[row + LINK]
    else:
        rows[before + LINK] = rows[row + LINK]
    rows[row + LINK] = NONE


@compiled.function()
def enqueue(waiting: Waiting, row: int) -> None:
    """Put a row that is on no list behind the queue."""
    waiting.pool.row[row + LINK] = NONE
    if waiting.queue[FIRST] == NONE:
        waiting.queue[FIRST] = row
    else:
        waiting.pool.row[waiting.queue[LAST] + LINK] = row
    waiting.queue[LAST] = row


@compiled.function()
def is_queue_empty(waiting: Waiting) -> bool:
    """Whether no row is left that may be deliverable."""
    return waiting.queue[FIRST] == NONE


@compiled.function()
def dequeue(waiting: Waiting) -> int:
    """Take the first row of the queue, which must not be empty."""
    row = waiting.queue[FIRST]
    waiting.queue[FIRST] = waiting.pool.row[row + LINK]
    return int(row)


@compiled.function(inline=False)
def sort_by_sequence(waiting: Waiting, count: int, host: Host) -> None:
    """Order the chosen rows so that a message comes after its source's earlier ones."""
    chosen = waiting.chosen
    for i in range(1, count):
        row = chosen[i]
        key = sequence_of(host, waiting.pool.row[row + SLOT])
        at = i
        while at > 0 and sequence_of(host, waiting.pool.row[chosen[at - 1] + SLOT]) > key:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = row


@compiled.function(inline=False)
def sort_by_arrival(waiting: Waiting, count: int) -> None:
    """Order the chosen rows as their messages arrived."""
    chosen = waiting.chosen
    for i in range(1, count):
        row = chosen[i]
        key = waiting.pool.row[row + SERIAL]
        at = i
        while at > 0 and waiting.pool.row[chosen[at - 1] + SERIAL] > key:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = row
