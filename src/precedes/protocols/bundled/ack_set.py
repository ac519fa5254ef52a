"""Who still has to answer for which message: ack_set of Rodrigues et al. 2018, Algorithm 2.

There it is a set of triples (parent, child, message). At any time a process has one child in
each of its clusters, so that a parent's triples of a message are one row: the clusters that have
not answered, as bits. The rows of a message are linked, and so are those of a process, in order
of their beginning, for the rare case that all have to be looked through.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Capacity, Int32s, Int64s
from precedes.parts import pool
from precedes.parts.pool import NONE


class Rows(NamedTuple):
    """Answers that a parent waits for."""

    slot: Int32s  # the message
    parent: Int32s  # who is to be answered; the process itself if it is the source
    clusters: Int32s  # bit s: the child in cluster s has not answered
    link: Int32s  # next row of this message here
    following: Int32s  # next and previous row of this process
    previous: Int32s
    mark: Int64s


class Ends(NamedTuple):
    """The list of all rows of a process."""

    first: Int32s
    last: Int32s


@compiled.methods(apart=("add_row", "remove_row"))
class AckSet(NamedTuple):
    """The heads of the lists, and rows for all of them."""

    first: Int32s  # here, slot -> the first row of the message, or NONE
    ends: Ends  # here
    rows: Rows

    def row_of(self, here: int, slot: int, parent: int) -> int:
        """The row in which this parent waits for this message, or NONE."""
        row = self.first[here, slot]
        while row != NONE and self.rows.parent[row] != parent:
            row = self.rows.link[row]
        return row

    def clusters_of(self, here: int, slot: int) -> int:
        """The clusters that have not answered for this message, whoever of the parents asked."""
        clusters = 0
        row = self.first[here, slot]
        while row != NONE:
            clusters |= self.rows.clusters[row]
            row = self.rows.link[row]
        return clusters

    def asks_first(self, here: int, row: int, s: int) -> bool:
        """Whether this row is the first of its message that waits for cluster s."""
        first = self.first[here, self.rows.slot[row]]
        while self.rows.clusters[first] & (1 << s) == 0:
            first = self.rows.link[first]
        return first == row

    def add_row(self, here: int, slot: int, parent: int, clusters: int) -> None:
        """A row more: the parent waits for these clusters."""
        rows, ends = self.rows, self.ends
        row = pool.take(rows)
        rows.slot[row] = slot
        rows.parent[row] = parent
        rows.clusters[row] = clusters
        rows.link[row] = self.first[here, slot]
        self.first[here, slot] = row
        rows.following[row] = NONE
        rows.previous[row] = ends.last[here]
        if ends.last[here] == NONE:
            ends.first[here] = row
        else:
            rows.following[ends.last[here]] = row
        ends.last[here] = row

    def remove_row(self, here: int, row: int) -> None:
        """The row is over: take it out of both lists."""
        rows, ends = self.rows, self.ends
        slot = rows.slot[row]
        if self.first[here, slot] == row:
            self.first[here, slot] = rows.link[row]
        else:
            before = self.first[here, slot]
            while rows.link[before] != row:
                before = rows.link[before]
            rows.link[before] = rows.link[row]
        following, previous = rows.following[row], rows.previous[row]
        if previous == NONE:
            ends.first[here] = following
        else:
            rows.following[previous] = following
        if following == NONE:
            ends.last[here] = previous
        else:
            rows.previous[following] = previous
        pool.give_back(rows, row)


def allocate(processes: int, capacity: Capacity) -> AckSet:
    """Nothing is awaited."""
    ends = pool.columns(Ends, processes)
    ends.first[:] = ends.last[:] = NONE
    return AckSet(
        first=np.full((processes, capacity.slots), NONE, np.int32),
        ends=ends,
        rows=pool.reserve(Rows, capacity.reserve_bytes),
    )
