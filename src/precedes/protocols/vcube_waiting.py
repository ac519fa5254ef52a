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
from precedes.protocols.contract import Host, Int32s, sequence_of

NONE: Final = -1

# Words of a waiting message; it is named by where they begin.
SLOT: Final = 0
SERIAL: Final = 1  # in order of arrival at its process
UNSERVED: Final = 2  # clusters 1..UNSERVED have not been sent the message yet
BLOCKED: Final = 3  # and clusters 1..BLOCKED must not be: they lack something that comes by here
ENTRY: Final = 4  # the source of what is awaited,
VALUE: Final = 5  # and how many of its messages
LINK: Final = 6
PREDECESSOR: Final = 7  # the row of the source's message before, while that waits too
WORDS: Final = 8

# Places in ``mark``.
FREE: Final = 0  # head of the list of free rows
HIGH: Final = 1  # words ever used
COUNT: Final = 2  # rows in use
FIRST: Final = 3  # ends of the queue of rows that may be deliverable
LAST: Final = 4

# Words of a process and a source in ``clock``.
RECEIVED: Final = 0  # vector_max of the paper: messages received without a gap
DELIVERED: Final = 1  # vector_clock
FORWARDING: Final = 2  # head of the list of rows that wait for a reception
DELIVERING: Final = 3  # head of the list of rows that wait for a delivery
CLOCK_WORDS: Final = 4


class Waiting(NamedTuple):
    """The pool, and room to gather the rows that one call of a handler looks at."""

    row: Int32s
    mark: Int32s
    chosen: Int32s


def allocate(rows: int) -> Waiting:
    """A pool of that many rows."""
    return Waiting(
        row=np.zeros(WORDS * rows, np.int32),
        mark=np.array([NONE, 0, 0, NONE, NONE], np.int32),
        chosen=np.zeros(rows, np.int32),
    )


def allocate_clock(processes: int, nodes: int) -> Int32s:
    """Counts and lists of every hosted process and source, all empty."""
    clock = np.zeros((processes * nodes, CLOCK_WORDS), np.int32)
    clock[:, [FORWARDING, DELIVERING]] = NONE
    return clock.reshape(-1)


@compiled.function()
def has_room(waiting: Waiting, count: int) -> bool:
    """Whether that many more messages can wait."""
    return waiting.mark[COUNT] + count <= waiting.chosen.size


@compiled.function(inline=False)
def take(waiting: Waiting, slot: int, serial: int) -> int:
    """A row for a message that has just arrived; the caller has asked ``has_room``."""
    row = waiting.mark[FREE]
    if row != NONE:
        waiting.mark[FREE] = waiting.row[row + LINK]
    else:
        row = waiting.mark[HIGH]
        waiting.mark[HIGH] = row + WORDS
    waiting.mark[COUNT] += 1
    waiting.row[row + SLOT] = slot
    waiting.row[row + SERIAL] = serial
    waiting.row[row + LINK] = NONE
    waiting.row[row + PREDECESSOR] = NONE
    return int(row)


@compiled.function()
def free(waiting: Waiting, row: int) -> None:
    """The message waits no longer."""
    waiting.row[row + LINK] = waiting.mark[FREE]
    waiting.mark[FREE] = row
    waiting.mark[COUNT] -= 1


@compiled.function()
def await_entry(rows: Int32s, row: int, entry: int, value: int) -> None:
    """Note what a row waits for."""
    rows[row + ENTRY] = entry
    rows[row + VALUE] = value


@compiled.function()
def link(waiting: Waiting, clock: Int32s, head: int, row: int) -> None:
    """Put a row on the list whose head is at this place of the clock."""
    waiting.row[row + LINK] = clock[head]
    clock[head] = row


@compiled.function()
def unlink(waiting: Waiting, clock: Int32s, head: int, before: int, row: int) -> None:
    """Take a row from a list; ``before`` is the one in front of it, or NONE."""
    if before == NONE:
        clock[head] = waiting.row[row + LINK]
    else:
        waiting.row[before + LINK] = waiting.row[row + LINK]
    waiting.row[row + LINK] = NONE


@compiled.function()
def enqueue(waiting: Waiting, row: int) -> None:
    """Put a row that is on no list behind the queue."""
    waiting.row[row + LINK] = NONE
    if waiting.mark[FIRST] == NONE:
        waiting.mark[FIRST] = row
    else:
        waiting.row[waiting.mark[LAST] + LINK] = row
    waiting.mark[LAST] = row


@compiled.function()
def dequeue(waiting: Waiting) -> int:
    """Take the first row of the queue, which must not be empty."""
    row = waiting.mark[FIRST]
    waiting.mark[FIRST] = waiting.row[row + LINK]
    return int(row)


@compiled.function(inline=False)
def sort_by_sequence(waiting: Waiting, count: int, host: Host) -> None:
    """Order the chosen rows so that a message comes after its source's earlier ones."""
    chosen = waiting.chosen
    for i in range(1, count):
        row = chosen[i]
        key = sequence_of(host, waiting.row[row + SLOT])
        at = i
        while at > 0 and sequence_of(host, waiting.row[chosen[at - 1] + SLOT]) > key:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = row


@compiled.function(inline=False)
def sort_by_arrival(waiting: Waiting, count: int) -> None:
    """Order the chosen rows as their messages arrived."""
    chosen = waiting.chosen
    for i in range(1, count):
        row = chosen[i]
        key = waiting.row[row + SERIAL]
        at = i
        while at > 0 and waiting.row[chosen[at - 1] + SERIAL] > key:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = row
