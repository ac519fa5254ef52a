"""Which events of a run are shown: what was asked for, found in passes over rows of any number.

Memory holds the events that are kept, never those of a whole large log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.viewer.events import RECEIVE, SHOWN, UNTIMED, Chunk, Events, joined

EVENTS: Final = 100_000
EVENTS_MAX: Final = 20_000_000  # 400 MB before gzip: no browser takes more
SCREEN_EVENTS: Final = 2_000
BUCKETS: Final = 1 << 16
SPARE_ROWS: Final = 1 << 18  # sorting is put off until so many are held
TIME_US_MAX: Final = 2**53  # beyond, a float no longer tells microseconds apart


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What somebody wants to see; nothing: what is worth seeing."""

    around: str | None = None  # a message
    violation: int | None = None  # a finding of the audit, from 1
    from_us: int | None = None
    to_us: int | None = None
    nodes: tuple[str, ...] = ()
    events: int = EVENTS
    run: str | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        window = self.from_us is not None or self.to_us is not None
        if window + (self.around is not None) + (self.violation is not None) > 1:
            raise UserError("choose one: a message, a violation, or a window of time")
        if not 1 <= self.events <= EVENTS_MAX:
            raise UserError(f"events are 1 to {EVENTS_MAX:,}, not {self.events:,}")
        if self.from_us is not None and self.to_us is not None and self.from_us > self.to_us:
            raise UserError("a window begins before it ends: its beginning lies after its end")


class Extent(NamedTuple):
    """What there is in a run, before anything is left out."""

    events: int  # at all nodes
    chosen: int  # at those that are shown
    receptions: int
    untimed: int
    begin_us: int  # of those that are shown
    end_us: int


def extent_of(events: Events, shown: NDArray[np.bool_]) -> Extent:
    """Count a run; ``shown`` says which nodes are wanted."""
    total = chosen = receptions = untimed = 0
    begin, end = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for chunk in events.chunks():
        receptions += int(np.count_nonzero(chunk.kind == RECEIVE))
        is_event = np.isin(chunk.kind, SHOWN)
        total += int(np.count_nonzero(is_event))
        time_us = chunk.time_us[is_event & shown[chunk.node]]
        chosen += time_us.size
        untimed += int(np.count_nonzero(chunk.time_us[is_event] == UNTIMED))
        if time_us.size:
            begin, end = min(begin, int(time_us.min())), max(end, int(time_us.max()))
    return Extent(total, chosen, receptions, untimed, begin, end)


def nearest(
    events: Events,
    shown: NDArray[np.bool_],
    centre_us: int,
    limit: int,
    *,
    within_us: tuple[float, float] = (-np.inf, np.inf),
) -> Chunk:
    """The events of a window that are nearest in time to a point, at most so many."""
    kept: list[Chunk] = []
    rows = 0

    def cut() -> Chunk:
        whole = joined(kept)
        if whole.node.size <= limit:
            return whole
        distance = np.abs(whole.time_us - centre_us)
        return whole.at(np.lexsort((whole.local_seq, whole.node, distance))[:limit])

    for chunk in events.chunks():
        inside = (chunk.time_us >= within_us[0]) & (chunk.time_us <= within_us[1])
        kept.append(chunk.at(inside & np.isin(chunk.kind, SHOWN) & shown[chunk.node]))
        rows += kept[-1].node.size
        if rows > 2 * limit + SPARE_ROWS:
            kept[:] = [cut()]
            rows = limit
    return cut()


def busiest_us(events: Events, shown: NDArray[np.bool_], extent: Extent) -> int:
    """About the middle of the densest stretch of ``SCREEN_EVENTS`` events."""
    width = max(1, -(-(extent.end_us - extent.begin_us + 1) // BUCKETS))
    counts = np.zeros(BUCKETS + 1, np.int64)
    for chunk in events.chunks():
        time_us = chunk.time_us[np.isin(chunk.kind, SHOWN) & shown[chunk.node]]
        counts += np.bincount((time_us - extent.begin_us) // width, minlength=BUCKETS + 1)
    before = np.concatenate(([0], np.cumsum(counts)))
    first = np.arange(BUCKETS + 1)
    last = np.searchsorted(before, before[:-1] + SCREEN_EVENTS, side="left")
    length = np.where(last <= BUCKETS + 1, last - first, BUCKETS + 1)
    at = int(np.argmin(np.where(before[:-1] + SCREEN_EVENTS <= before[-1], length, BUCKETS + 2)))
    return extent.begin_us + (2 * at + int(length[at])) * width // 2


def busiest(time_us: NDArray[Any]) -> tuple[float, float]:
    """The shortest window with ``SCREEN_EVENTS`` of these rising times, or all of fewer."""
    if time_us.size <= SCREEN_EVENTS:
        return float(time_us[0]), float(time_us[-1])
    lengths = time_us[SCREEN_EVENTS - 1 :] - time_us[: time_us.size - SCREEN_EVENTS + 1]
    at = int(np.argmin(lengths))
    return float(time_us[at]), float(time_us[at + SCREEN_EVENTS - 1])


Spot = tuple[int, int, int]  # node, kind, message


def find(events: Events, spots: Iterable[Spot]) -> dict[Spot, Chunk]:
    """Where these events stand, the first of each by its node's order; what is not there is not."""
    wanted = set(spots)
    found: dict[Spot, Chunk] = {}
    if not wanted:
        return found
    messages = np.unique(np.array([message for _, _, message in wanted], np.int64))
    for chunk in events.chunks():
        for row in np.flatnonzero(np.isin(chunk.message, messages)).tolist():
            spot = (int(chunk.node[row]), int(chunk.kind[row]), int(chunk.message[row]))
            before = found.get(spot)
            if spot in wanted and (before is None or before.local_seq[0] > chunk.local_seq[row]):
                found[spot] = chunk.at(slice(row, row + 1))
    return found


def merged(rows: Chunk, more: Iterable[Chunk]) -> Chunk:
    """Rows with others that may be among them, by node and in each one's own order."""
    whole = joined([rows, *more])
    order = np.lexsort((whole.local_seq, whole.node))
    whole = whole.at(order)
    new = np.ones(whole.node.size, np.bool_)
    same_node = whole.node[1:] == whole.node[:-1]
    new[1:] = ~(same_node & (whole.local_seq[1:] == whole.local_seq[:-1]))
    return whole.at(new)
