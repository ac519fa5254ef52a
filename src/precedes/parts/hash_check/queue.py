"""Messages that wait at a node, with what each of them waits for: a pool for all processes.

A message first waits for its clock (COUNTS) and for the message before it of the same sender
(PREDECESSOR). If its hash cannot be explained then, it is SUSPECT; after some time its sender is
ASKED for the direct dependencies; once they are known (ANSWERED) it waits for them. The lists keep
the order of arrival.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Capacity, Int32s, Int64s

NONE: Final = -1

COUNTS: Final = 0
PREDECESSOR: Final = 1
SUSPECT: Final = 2
ASKED: Final = 3
ANSWERED: Final = 4

# Columns of ``ends``.
BEGIN: Final = 0
END: Final = 1

# Words of a waiting message; it is named by the number of its row.
SLOT: Final = 0
STAGE: Final = 1
LINK: Final = 2
ENTRY: Final = 3  # COUNTS: an entry of the clock that is too low,
VALUE: Final = 4  # and the value that it waits for
GENERATION: Final = 5  # of the row: a timer of an earlier message in it has another one
FIRST: Final = 6  # ASKED, ANSWERED: the list of dependencies
KNOWN: Final = 7  # how many have come, repeated ones included
ANNOUNCED: Final = 8  # how many there are; NONE until the sender has said so
FORM: Final = 9  # which of two answers; NONE until a part of one has come
SINCE: Final = 10  # position in the own log when the sender was asked
WORDS: Final = 11

# Columns of ``dependency``.
NAME: Final = 0
NEXT: Final = 1

# Places in ``mark``.
FREE: Final = 0  # head of the list of free rows
HIGH: Final = 1  # rows ever used
COUNT: Final = 2  # messages waiting, at all hosted processes together
DEPENDENCY_FREE: Final = 3
DEPENDENCY_HIGH: Final = 4
DEPENDENCIES: Final = 5

PER_ROW: Final = 4  # dependencies that there is room for, for each message that can wait


class Queue(NamedTuple):
    """One list per hosted process; ``ends`` are its first and its last row."""

    ends: Int64s
    row: Int64s
    dependency: Int64s
    mark: Int64s


def allocate(processes: int, capacity: Capacity) -> Queue:
    """Empty lists with room for ``capacity.held`` messages in all."""
    return Queue(
        ends=np.full((processes, 2), NONE, np.int64),
        row=np.zeros((capacity.held, WORDS), np.int64),
        dependency=np.zeros((PER_ROW * capacity.held, 2), np.int64),
        mark=np.array([NONE, 0, 0, NONE, 0, 0], np.int64),
    )


@compiled.function()
def has_room(held: Queue, count: int) -> bool:
    """Whether that many more messages and as many dependencies can be kept."""
    rows = held.mark[COUNT] + count <= held.row.shape[0]
    return rows and held.mark[DEPENDENCIES] + count <= held.dependency.shape[0]


@compiled.function(inline=False)
def add(held: Queue, here: int, slot: int, stage: int) -> int:
    """Let a message wait; its row."""
    row = held.mark[FREE]
    if row != NONE:
        held.mark[FREE] = held.row[row, LINK]
    else:
        row = held.mark[HIGH]
        held.mark[HIGH] = row + 1
    held.mark[COUNT] += 1
    held.row[row, SLOT] = slot
    held.row[row, STAGE] = stage
    held.row[row, LINK] = NONE
    held.row[row, ENTRY] = 0
    held.row[row, VALUE] = 0
    held.row[row, FIRST] = NONE
    held.row[row, KNOWN] = 0
    held.row[row, ANNOUNCED] = held.row[row, FORM] = NONE
    if held.ends[here, END] == NONE:
        held.ends[here, BEGIN] = row
    else:
        held.row[held.ends[here, END], LINK] = row
    held.ends[here, END] = row
    return row


@compiled.function()
def await_entry(held: Queue, row: int, entry: int, need: Int32s) -> None:
    """Remember an entry of the clock that is too low: most examinations are one comparison."""
    held.row[row, ENTRY] = entry
    held.row[row, VALUE] = need[entry]


@compiled.function(inline=False)
def forget_entries(held: Queue, here: int) -> None:
    """Have everything that waits for an entry looked at again: entries have changed meaning."""
    row = held.ends[here, BEGIN]
    while row != NONE:
        held.row[row, ENTRY] = held.row[row, VALUE] = 0
        row = held.row[row, LINK]


@compiled.function(inline=False)
def remove(held: Queue, here: int, row: int, before: int) -> None:
    """Take a message out of the list; ``before`` is the one in front of it, or NONE."""
    while held.row[row, FIRST] != NONE:
        drop_dependency(held, row)
    following = held.row[row, LINK]
    if before == NONE:
        held.ends[here, BEGIN] = following
    else:
        held.row[before, LINK] = following
    if held.ends[here, END] == row:
        held.ends[here, END] = before
    held.row[row, GENERATION] += 1
    held.row[row, STAGE] = COUNTS
    held.row[row, LINK] = held.mark[FREE]
    held.mark[FREE] = row
    held.mark[COUNT] -= 1


@compiled.function(inline=False)
def add_dependency(held: Queue, row: int, name: int) -> None:
    """Keep a dependency, also one that has come before."""
    at = held.mark[DEPENDENCY_FREE]
    if at != NONE:
        held.mark[DEPENDENCY_FREE] = held.dependency[at, NEXT]
    else:
        at = held.mark[DEPENDENCY_HIGH]
        held.mark[DEPENDENCY_HIGH] = at + 1
    held.mark[DEPENDENCIES] += 1
    held.dependency[at, NAME] = name
    held.dependency[at, NEXT] = held.row[row, FIRST]
    held.row[row, FIRST] = at
    held.row[row, KNOWN] += 1


@compiled.function(inline=False)
def drop_dependency(held: Queue, row: int) -> None:
    """Forget the first dependency of a message."""
    at = held.row[row, FIRST]
    held.row[row, FIRST] = held.dependency[at, NEXT]
    held.dependency[at, NEXT] = held.mark[DEPENDENCY_FREE]
    held.mark[DEPENDENCY_FREE] = at
    held.mark[DEPENDENCIES] -= 1
