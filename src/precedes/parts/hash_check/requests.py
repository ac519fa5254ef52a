"""Requests for the direct dependencies of a message, and the answers (Algorithm 2).

A request is one number, a sequence number of the requested process. The answer is what that
process delivered between the message and its own one before: a number for each, and their
count. They may arrive in several packets, in any order and more than once; an answer is
complete when the number of different ones equals the count.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Host, Int32s, Int64s
from precedes.parts import pool
from precedes.parts.pool import NONE

from . import log, queue
from .log import Log
from .queue import ANSWERED, ASKED, Queue
from .set_hash import packed, sequence_in, source_in

# Tags of items.
REQUEST: Final = 1  # sequence number of the requested message
ANNOUNCE: Final = 2  # which message, number of its dependencies
DEPENDENCY: Final = 3  # of which message, name

# A part of an answer has 32 bits of a sequence number, 16 of a source, one bit for the form of
# the answer, and the lower bits of the sequence number of its message: a
# packet would have to be 16,384 broadcasts late to be mistaken.
FORM_SHIFT: Final = 48
WHOLE: Final = 1  # all deliveries, not only those since the own message before
WHICH_SHIFT: Final = 49
WHICH_MASK: Final = (1 << 14) - 1
CONTENT_MASK: Final = (1 << FORM_SHIFT) - 1
FORGOTTEN: Final = CONTENT_MASK  # in place of a number of dependencies

# An answer has one part for each process at most; repeated parts are kept up to this multiple
# of that.
REPEATS_MAX: Final = 16

# Result of adding a part of an answer.
NOTHING: Final = -1
NO_ANSWER: Final = -2


class Counts(NamedTuple):
    """Tests, suspicions and requests so far, in row 0."""

    accepted: Int64s
    suspected: Int64s
    requests: Int64s
    requests_false: Int64s
    requests_withdrawn: Int64s
    requests_unanswered: Int64s


def allocate_counts() -> Counts:
    """Counts of zero."""
    return pool.columns(Counts, 1, dtype=np.int64)


def extra(counts: Counts, kept: Log) -> dict[str, float]:
    """All counts and the longest log, for the protocol's ``extra``."""
    numbers = {name: int(column[0]) for name, column in counts._asdict().items()}
    return {**numbers, "log_max": int(kept.longest[0])}


@compiled.function(inline=False)
def is_possible(delivered: Int32s, node: int, tag: int, value: int, host: Host) -> bool:
    """For ``admits``: whether a request is about a message of this node, or an answer about
    messages that can exist."""
    if tag == REQUEST:
        return bool(0 < value <= delivered[node])
    if value < 0:
        return False
    content = value & CONTENT_MASK
    if tag == ANNOUNCE:
        return content <= delivered.size or content == FORGOTTEN
    source = source_in(content)
    if source >= delivered.size:
        return False
    ahead = 0 if source == node else host.window()
    return bool(sequence_in(content) <= delivered[source] + ahead)


@compiled.function(inline=False)
def answer(
    kept: Log,
    scratch: Int64s,
    delivered: Int32s,
    here: int,
    node: int,
    asker: int,
    sequence: int,
    host: Host,
) -> None:
    """RSP (line 14): the direct dependencies, or else all counts as they were.

    Deliveries keep each source's order, so the last of each source is enough. If the log does
    not go back to the own message before this one, the rest is taken from the current
    counts: the message's whole past, one dependency for each source. If the message itself is too
    old, there is no answer. ``scratch`` marks sources and is all zeros before and after.
    """
    which = (sequence & WHICH_MASK) << WHICH_SHIFT
    position = log.find_own(kept, here, node, sequence)
    before = log.find_own(kept, here, node, sequence - 1)
    host.open_packet(asker)
    if position == NONE:
        host.put(ANNOUNCE, which | FORGOTTEN)
        return
    dependencies = 0
    if before != NONE:
        for back in range(1, position - before):
            name = log.name_at(kept, here, position - back)
            if scratch[source_in(name)] == 0:
                scratch[source_in(name)] = 1
                host.put(DEPENDENCY, which | name)
                dependencies += 1
        for back in range(1, position - before):
            scratch[source_in(log.name_at(kept, here, position - back))] = 0
    else:
        which |= WHOLE << FORM_SHIFT
        for later in range(position, kept.end.next[here]):
            scratch[source_in(log.name_at(kept, here, later))] += 1
        for source in range(scratch.size):
            count = delivered[source] - scratch[source]
            if count > 0 and source != node:
                host.put(DEPENDENCY, which | packed(source, count))
                dependencies += 1
            scratch[source] = 0
    host.put(ANNOUNCE, which | dependencies)


@compiled.function(inline=False)
def learn(
    held: Queue, scratch: Int64s, here: int, sender: int, tag: int, value: int, host: Host
) -> int:
    """Store a part of an answer; return the row of the message if its answer is complete.

    What no correct process would send, and an answer that no message waits for, is ignored. So is
    the other form of an answer that has partly arrived: a repeated request may have two.
    """
    rows = held.rows
    row = held.ends.begin[here]
    while row != NONE:
        slot = rows.slot[row]
        same = host.sequence_of(slot) & WHICH_MASK == value >> WHICH_SHIFT
        if rows.stage[row] == ASKED and host.source_of(slot) == sender and same:
            break
        row = rows.link[row]
    if row == NONE:
        return NOTHING
    content = value & CONTENT_MASK
    form = (value >> FORM_SHIFT) & 1
    if content == FORGOTTEN:
        return NO_ANSWER
    if rows.form[row] == NONE:
        rows.form[row] = form
    if rows.form[row] != form:
        return NOTHING
    if tag == ANNOUNCE:
        rows.announced[row] = content
    elif source_in(content) < scratch.size and rows.known[row] < REPEATS_MAX * scratch.size:
        queue.add_dependency(held, row, content)
    if not _is_complete(held, scratch, row):
        return NOTHING
    rows.stage[row] = ANSWERED
    return row


@compiled.function()
def _is_complete(held: Queue, scratch: Int64s, row: int) -> bool:
    """Return whether the announced number of dependencies has arrived, one for each source."""
    rows = held.rows
    announced = rows.announced[row]
    if announced == NONE or rows.known[row] < announced:
        return False
    different = 0
    at = rows.first[row]
    while at != NONE:
        source = source_in(held.dependencies.name[at])
        different += scratch[source] == 0
        scratch[source] = 1
        at = held.dependencies.link[at]
    at = rows.first[row]
    while at != NONE:
        scratch[source_in(held.dependencies.name[at])] = 0
        at = held.dependencies.link[at]
    return different == announced


@compiled.function()
def is_delivered(delivered: Int32s, name: int) -> bool:
    """Return whether a process with these deliveries of each source has delivered this message."""
    return sequence_in(name) <= delivered[source_in(name)]


@compiled.function(inline=False)
def all_delivered(held: Queue, delivered: Int32s, row: int) -> bool:
    """Return whether all named dependencies are delivered (line 15), and remove those that are."""
    rows = held.rows
    while rows.first[row] != NONE:
        name = held.dependencies.name[rows.first[row]]
        if not is_delivered(delivered, name):
            return False
        queue.drop_dependency(held, row)
    return True


@compiled.function(inline=False)
def was_needed(
    held: Queue, kept: Log, scratch: Int64s, delivered: Int32s, here: int, row: int, host: Host
) -> bool:
    """Return whether a dependency was undelivered at the time of the request."""
    rows = held.rows
    slot = rows.slot[row]
    source = host.source_of(slot)
    end = kept.end.next[here]
    begin = max(rows.since[row], end - kept.name.shape[1])
    for position in range(begin, end):
        scratch[source_in(log.name_at(kept, here, position))] += 1
    needed = host.sequence_of(slot) - 1 > delivered[source] - scratch[source]
    at = rows.first[row]
    while at != NONE:
        name = held.dependencies.name[at]
        needed = needed or sequence_in(name) > delivered[source_in(name)] - scratch[source_in(name)]
        at = held.dependencies.link[at]
    for position in range(begin, end):
        scratch[source_in(log.name_at(kept, here, position))] = 0
    return needed
