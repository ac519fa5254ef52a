"""Who still has to answer for which message: ack_set of Rodrigues et al. 2018, Algorithm 2.

There it is a set of triples (parent, child, message). At any time a process has one child in
each of its clusters, so that a parent's triples of a message are one row: the clusters that have
not answered, as bits. The rows of a message are linked, and so are those of a process, in order
of their beginning, for the rare case that all have to be looked through.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Int32s
from precedes.parts.pool import NONE, Pool, free_row, take_row

# Words of a row in the pool.
SLOT: Final = 0  # the message
PARENT: Final = 1  # who is to be answered; the process itself if it is the source
CLUSTERS: Final = 2  # bit s: the child in cluster s has not answered
SAME: Final = 3  # next row of this message here
NEXT: Final = 4  # next and previous row of this process
PREVIOUS: Final = 5

# Words of ``ends[here]``.
FIRST: Final = 0
LAST: Final = 1
COUNT: Final = 2


class AckSet(NamedTuple):
    """The heads of the lists; the rows are in the protocol's pool."""

    first: Int32s  # here, slot -> the first row of the message, or NONE
    ends: Int32s  # here -> first and last row, and how many


def allocate(processes: int, slots: int) -> AckSet:
    """Nothing is awaited."""
    ends = np.full((processes, 3), NONE, np.int32)
    ends[:, COUNT] = 0
    return AckSet(first=np.full((processes, slots), NONE, np.int32), ends=ends)


@compiled.function()
def row_of(awaited: AckSet, pool: Pool, here: int, slot: int, parent: int) -> int:
    """The row in which this parent waits for this message, or NONE."""
    row = awaited.first[here, slot]
    while row != NONE and pool.row[row + PARENT] != parent:
        row = pool.row[row + SAME]
    return row


@compiled.function()
def clusters_of(awaited: AckSet, pool: Pool, here: int, slot: int) -> int:
    """The clusters that have not answered for this message, whoever of the parents asked."""
    clusters = 0
    row = awaited.first[here, slot]
    while row != NONE:
        clusters |= pool.row[row + CLUSTERS]
        row = pool.row[row + SAME]
    return clusters


@compiled.function()
def asks_first(awaited: AckSet, pool: Pool, here: int, row: int, s: int) -> bool:
    """Whether this row is the first of its message that waits for cluster s."""
    first = awaited.first[here, pool.row[row + SLOT]]
    while pool.row[first + CLUSTERS] & (1 << s) == 0:
        first = pool.row[first + SAME]
    return first == row


@compiled.function(inline=False)
def begin(awaited: AckSet, pool: Pool, here: int, slot: int, parent: int, clusters: int) -> None:
    """A row more: the parent waits for these clusters; the caller has room in the pool."""
    row = take_row(pool)
    word, ends = pool.row, awaited.ends[here]
    word[row + SLOT] = slot
    word[row + PARENT] = parent
    word[row + CLUSTERS] = clusters
    word[row + SAME] = awaited.first[here, slot]
    awaited.first[here, slot] = row
    word[row + NEXT] = NONE
    word[row + PREVIOUS] = ends[LAST]
    if ends[LAST] == NONE:
        ends[FIRST] = row
    else:
        word[ends[LAST] + NEXT] = row
    ends[LAST] = row
    ends[COUNT] += 1


@compiled.function(inline=False)
def end(awaited: AckSet, pool: Pool, here: int, row: int) -> None:
    """The row is over: take it out of both lists."""
    word, ends = pool.row, awaited.ends[here]
    slot = word[row + SLOT]
    if awaited.first[here, slot] == row:
        awaited.first[here, slot] = word[row + SAME]
    else:
        before = awaited.first[here, slot]
        while word[before + SAME] != row:
            before = word[before + SAME]
        word[before + SAME] = word[row + SAME]
    following, previous = word[row + NEXT], word[row + PREVIOUS]
    if previous == NONE:
        ends[FIRST] = following
    else:
        word[previous + NEXT] = following
    if following == NONE:
        ends[LAST] = previous
    else:
        word[following + PREVIOUS] = previous
    ends[COUNT] -= 1
    free_row(pool, row)
