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
from precedes.contract import Capacity, Host, Int32s, Int64s, sequence_of, source_of
from precedes.parts.pool import NONE, Pool, allocate_pool, free_row, has_rows, take_row

COUNTS: Final = 0
PREDECESSOR: Final = 1
SUSPECT: Final = 2
ASKED: Final = 3
ANSWERED: Final = 4

# Columns of ``ends``.
BEGIN: Final = 0
END: Final = 1
OTHERS: Final = 2  # 1 if a message may wait for something else than its clock, else 0

NEVER: Final = 2**31 - 1  # no count is larger

# Words of a waiting message.
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

# Words of a dependency.
NEXT: Final = 0
NAME: Final = 1
DEPENDENCY_WORDS: Final = 2

PER_ROW: Final = 4  # dependencies that there is room for, for each message that can wait


class Queue(NamedTuple):
    """One list per hosted process; ``ends`` are its first and its last row."""

    ends: Int64s
    least: Int32s  # process, entry -> no message in COUNTS waits for a lower value of the entry
    pool: Pool
    dependencies: Pool


def allocate(processes: int, capacity: Capacity, *, entries: int = 0) -> Queue:
    """Empty lists with room for ``capacity.held`` messages in all.

    With ``entries`` of a clock, ``releases`` knows whether an entry is waited for.
    """
    ends = np.full((processes, 3), NONE, np.int64)
    ends[:, OTHERS] = 0
    return Queue(
        ends=ends,
        least=np.full((processes, entries), NEVER, np.int32),
        pool=allocate_pool(rows=capacity.held, words=WORDS, dtype=np.int64),
        dependencies=allocate_pool(
            rows=PER_ROW * capacity.held, words=DEPENDENCY_WORDS, dtype=np.int64
        ),
    )


@compiled.function()
def has_room(held: Queue, count: int) -> bool:
    """Whether that many more messages and as many dependencies can be kept."""
    return has_rows(held.pool, count) and has_rows(held.dependencies, count)


@compiled.function(inline=False)
def holds(held: Queue, here: int, source: int, sequence: int, host: Host) -> bool:
    """Whether a message of this name waits."""
    row = held.ends[here, BEGIN]
    while row != NONE:
        slot = held.pool.row[row + SLOT]
        if sequence_of(host, slot) == sequence and source_of(host, slot) == source:
            return True
        row = held.pool.row[row + LINK]
    return False


@compiled.function(inline=False)
def add(held: Queue, here: int, slot: int, stage: int) -> int:
    """Let a message wait; its row."""
    row = take_row(held.pool)
    rows = held.pool.row
    rows[row + SLOT] = slot
    rows[row + STAGE] = stage
    rows[row + LINK] = NONE
    rows[row + ENTRY] = 0
    rows[row + VALUE] = 0
    rows[row + FIRST] = NONE
    rows[row + KNOWN] = 0
    rows[row + ANNOUNCED] = rows[row + FORM] = NONE
    if held.ends[here, END] == NONE:
        held.ends[here, BEGIN] = row
    else:
        rows[held.ends[here, END] + LINK] = row
    held.ends[here, END] = row
    return row


@compiled.function()
def await_entry(held: Queue, row: int, entry: int, need: Int32s) -> None:
    """Remember an entry of the clock that is too low: most examinations are one comparison."""
    held.pool.row[row + ENTRY] = entry
    held.pool.row[row + VALUE] = need[entry]


@compiled.function()
def note_waiting(held: Queue, here: int, row: int) -> None:
    """Enter what a message waits for, so that ``releases`` finds it."""
    rows = held.pool.row
    if rows[row + STAGE] != COUNTS:
        held.ends[here, OTHERS] = 1
    elif held.least.shape[1] != 0:
        entry = rows[row + ENTRY]
        held.least[here, entry] = min(held.least[here, entry], np.int32(rows[row + VALUE]))


@compiled.function()
def releases(held: Queue, here: int, clock: Int32s, entries: Int32s) -> bool:
    """Whether a message may go on, now that these entries of the clock have grown.

    If so, all are to be examined, which enters again what the rest waits for.
    """
    found = held.ends[here, OTHERS] != 0
    for i in range(entries.size):
        if clock[entries[i]] >= held.least[here, entries[i]]:
            held.least[here, entries[i]] = NEVER
            found = True
    return found


@compiled.function(inline=False)
def forget_entries(held: Queue, here: int) -> None:
    """Have all that waits for an entry examined again: entries have changed their meaning."""
    row = held.ends[here, BEGIN]
    while row != NONE:
        held.pool.row[row + ENTRY] = held.pool.row[row + VALUE] = 0
        row = held.pool.row[row + LINK]


@compiled.function(inline=False)
def remove(held: Queue, here: int, row: int, before: int) -> None:
    """Take a message out of the list; ``before`` is the one in front of it, or NONE."""
    while held.pool.row[row + FIRST] != NONE:
        drop_dependency(held, row)
    following = held.pool.row[row + LINK]
    if before == NONE:
        held.ends[here, BEGIN] = following
    else:
        held.pool.row[before + LINK] = following
    if held.ends[here, END] == row:
        held.ends[here, END] = before
    held.pool.row[row + GENERATION] += 1
    held.pool.row[row + STAGE] = COUNTS
    free_row(held.pool, row)


@compiled.function(inline=False)
def add_dependency(held: Queue, row: int, name: int) -> None:
    """Keep a dependency, also one that has come before."""
    at = take_row(held.dependencies)
    held.dependencies.row[at + NAME] = name
    held.dependencies.row[at + NEXT] = held.pool.row[row + FIRST]
    held.pool.row[row + FIRST] = at
    held.pool.row[row + KNOWN] += 1


@compiled.function(inline=False)
def drop_dependency(held: Queue, row: int) -> None:
    """Forget the first dependency of a message."""
    at = held.pool.row[row + FIRST]
    held.pool.row[row + FIRST] = held.dependencies.row[at + NEXT]
    free_row(held.dependencies, at)
