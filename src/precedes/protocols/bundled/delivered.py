"""Which messages a process has delivered: a count for each source, and what came beyond a gap.

Source: Rodrigues et al. 2018, Algorithm 2, rcv_base and rcv_win (lines 12-13 and 18-31). The count
starts at 0, before the first message, so that a first message out of order is no special case: the
printed lines leave the window unread until the first message has come, and deliver it twice.
"""

from __future__ import annotations

from typing import NamedTuple

from precedes import compiled
from precedes.contract import Capacity, Int32s, Int64s
from precedes.parts import pool
from precedes.parts.pool import NONE


class Rows(NamedTuple):
    """Messages delivered beyond a gap."""

    sequence: Int32s
    link: Int32s
    mark: Int64s


class Sources(NamedTuple):
    """What a process has delivered of a source."""

    base: Int32s  # how many of its messages have been delivered without a gap
    early: Int32s  # rows of those delivered beyond the gap


@compiled.methods(apart=("is_new", "forget_early"))
class Delivered(NamedTuple):
    """Which messages each process has delivered."""

    source: Sources  # here, process
    rows: Rows

    def is_new(self, here: int, source: int, sequence: int) -> bool:
        """Whether the source's message has not been delivered; from now on it has."""
        base, early, rows = self.source.base[here], self.source.early[here], self.rows
        if sequence <= base[source]:
            return False
        row = early[source]
        while row != NONE:
            if rows.sequence[row] == sequence:
                return False
            row = rows.link[row]
        if sequence > base[source] + 1:
            added = pool.take(rows)
            rows.link[added] = early[source]
            rows.sequence[added] = sequence
            early[source] = added
            return True
        base[source] = sequence
        while early[source] != NONE and self._close_gap(here, source):
            base[source] += 1
        return True

    def _close_gap(self, here: int, source: int) -> bool:
        """Whether the message after those without a gap was early; its row is given back."""
        early, rows = self.source.early[here], self.rows
        row, before = int(early[source]), NONE
        while row != NONE and rows.sequence[row] != self.source.base[here, source] + 1:
            before, row = row, int(rows.link[row])
        if row == NONE:
            return False
        if before == NONE:
            early[source] = rows.link[row]
        else:
            rows.link[before] = rows.link[row]
        pool.give_back(rows, row)
        return True

    def forget_early(self, here: int, source: int) -> None:
        """Give the rows of a source back that will not be asked for again."""
        early = self.source.early[here]
        while early[source] != NONE:
            row = int(early[source])
            early[source] = self.rows.link[row]
            pool.give_back(self.rows, row)


def allocate(processes: int, nodes: int, capacity: Capacity) -> Delivered:
    """Nothing has been delivered."""
    source = pool.columns(Sources, processes, nodes)
    source.early[:] = NONE
    return Delivered(source=source, rows=pool.reserve(Rows, capacity.reserve_bytes))
