"""Waiting messages of all nodes, with what each of them waits for, in rows for all processes.

A message first waits for its clock (COUNTS) and for the message before it of the same sender
(PREDECESSOR). If its hash cannot be explained then, it is SUSPECT; after some time its sender is
ASKED for the direct dependencies; once they are known (ANSWERED) it waits for them. The lists keep
the order of arrival.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Capacity, Host, Int32s, Int64s
from precedes.parts import pool
from precedes.parts.pool import NONE

COUNTS: Final = 0
PREDECESSOR: Final = 1
SUSPECT: Final = 2
ASKED: Final = 3
ANSWERED: Final = 4

NEVER: Final = 2**31 - 1  # above all counts


class Ends(NamedTuple):
    """The list of each hosted process."""

    begin: Int64s  # the first row, or NONE
    end: Int64s  # the last
    others: Int64s  # 1 if a message may wait for something else than its clock, else 0


class Rows(NamedTuple):
    """Waiting messages."""

    slot: Int64s
    stage: Int64s
    link: Int64s
    entry: Int64s  # COUNTS: an entry of the clock that is too low,
    value: Int64s  # and the value that it waits for
    generation: Int64s  # of the row: a timer of an earlier message in it has another one
    first: Int64s  # ASKED, ANSWERED: the list of dependencies
    known: Int64s  # dependencies that have arrived, repeated ones included
    announced: Int64s  # number of dependencies; NONE until the sender has sent that number
    form: Int64s  # which of two forms of an answer; NONE until a part of one has arrived
    since: Int64s  # position in the own log when the sender was asked
    mark: Int64s


class Dependencies(NamedTuple):
    """Direct dependencies of waiting messages, in lists."""

    link: Int64s
    name: Int64s  # packed
    mark: Int64s


class Queue(NamedTuple):
    """One list per hosted process, and rows for all of them."""

    ends: Ends
    least: Int32s  # process, entry -> no message in COUNTS waits for a lower value of the entry
    rows: Rows
    dependencies: Dependencies


def allocate(processes: int, capacity: Capacity, *, entries: int = 0) -> Queue:
    """Empty lists. With ``entries`` of a clock, ``releases`` looks for messages waiting for one."""
    ends = pool.columns(Ends, processes, dtype=np.int64)
    ends.begin[:] = ends.end[:] = NONE
    return Queue(
        ends=ends,
        least=np.full((processes, entries), NEVER, np.int32),
        rows=pool.reserve(Rows, capacity.reserve_bytes, np.int64),
        dependencies=pool.reserve(Dependencies, capacity.reserve_bytes, np.int64),
    )


@compiled.function(inline=False)
def holds(held: Queue, here: int, source: int, sequence: int, host: Host) -> bool:
    """Return whether a message of this name waits."""
    row = held.ends.begin[here]
    while row != NONE:
        slot = held.rows.slot[row]
        if host.sequence_of(slot) == sequence and host.source_of(slot) == source:
            return True
        row = held.rows.link[row]
    return False


@compiled.function(inline=False)
def add(held: Queue, here: int, slot: int, stage: int) -> int:
    """Add a waiting message; return its row."""
    rows, ends = held.rows, held.ends
    row = pool.take(rows)
    rows.slot[row] = slot
    rows.stage[row] = stage
    rows.link[row] = NONE
    rows.entry[row] = 0
    rows.value[row] = 0
    rows.first[row] = NONE
    rows.known[row] = 0
    rows.announced[row] = rows.form[row] = NONE
    if ends.end[here] == NONE:
        ends.begin[here] = row
    else:
        rows.link[ends.end[here]] = row
    ends.end[here] = row
    return row


@compiled.function()
def await_entry(held: Queue, row: int, entry: int, need: Int32s) -> None:
    """Store an entry of the clock that is too low: most examinations are one comparison."""
    held.rows.entry[row] = entry
    held.rows.value[row] = need[entry]


@compiled.function()
def note_waiting(held: Queue, here: int, row: int) -> None:
    """Register what a message waits for, so that ``releases`` finds it."""
    if held.rows.stage[row] != COUNTS:
        held.ends.others[here] = 1
    elif held.least.shape[1] != 0:
        entry = held.rows.entry[row]
        held.least[here, entry] = min(held.least[here, entry], np.int32(held.rows.value[row]))


@compiled.function()
def releases(held: Queue, here: int, clock: Int32s, entries: Int32s) -> bool:
    """Return whether a message may proceed, now that these entries of the clock have grown.

    If so, all are to be examined, which registers again what the rest waits for.
    """
    may_proceed = held.ends.others[here] != 0
    for i in range(entries.size):
        if clock[entries[i]] >= held.least[here, entries[i]]:
            held.least[here, entries[i]] = NEVER
            may_proceed = True
    return may_proceed


@compiled.function(inline=False)
def forget_entries(held: Queue, here: int) -> None:
    """Examine all messages that wait for an entry again: entries have changed their meaning."""
    row = held.ends.begin[here]
    while row != NONE:
        held.rows.entry[row] = held.rows.value[row] = 0
        row = held.rows.link[row]


@compiled.function(inline=False)
def remove(held: Queue, here: int, row: int, before: int) -> None:
    """Remove a message from the list; ``before`` is the one in front of it, or NONE."""
    rows, ends = held.rows, held.ends
    while rows.first[row] != NONE:
        drop_dependency(held, row)
    following = rows.link[row]
    if before == NONE:
        ends.begin[here] = following
    else:
        rows.link[before] = following
    if ends.end[here] == row:
        ends.end[here] = before
    rows.generation[row] += 1
    rows.stage[row] = COUNTS
    pool.give_back(rows, row)


@compiled.function(inline=False)
def add_dependency(held: Queue, row: int, name: int) -> None:
    """Add a dependency, also one that has arrived before."""
    at = pool.take(held.dependencies)
    held.dependencies.name[at] = name
    held.dependencies.link[at] = held.rows.first[row]
    held.rows.first[row] = at
    held.rows.known[row] += 1


@compiled.function(inline=False)
def drop_dependency(held: Queue, row: int) -> None:
    """Remove the first dependency of a message."""
    at = held.rows.first[row]
    held.rows.first[row] = held.dependencies.link[at]
    pool.give_back(held.dependencies, at)
