"""Selects the events of a run to show, by the request, in passes over any number of rows.

Memory holds the events that are kept, never those of a whole large log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.viewer.events import (
    BROADCAST,
    COUNTED,
    DELIVER,
    EDGE,
    RECEIVE,
    SHOWN,
    UNTIMED,
    Chunk,
    Events,
    joined,
)

EVENTS: Final = 100_000
EVENTS_MAX: Final = 20_000_000  # 400 MB before gzip: no browser takes more
SCREEN_EVENTS: Final = 2_000
LANE_EVENTS: Final = 8  # of a lane, about, in a window whose events have room for their texts
LANES_SEEN: Final = 32
BUCKETS: Final = 1 << 16
SPARE_ROWS: Final = 1 << 18  # rows that are held before they are sorted
TIME_US_MAX: Final = 2**53  # beyond, a float no longer tells microseconds apart


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Requested content of a page; by default the most relevant one."""

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
    """Extent of a whole run, before anything is left out."""

    events: int  # at all nodes
    chosen: int  # rows of events and edges at those that are shown
    receptions: int
    untimed: int
    ties: int  # events of a node with the time of the one before, in logs with edges
    begin_us: int  # of those that are shown
    end_us: int


def extent_of(events: Events, shown: NDArray[np.bool_]) -> Extent:
    """Count a run; ``shown`` says which nodes are wanted."""
    total = chosen = receptions = untimed = ties = 0
    begin, end = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for chunk in events.chunks():
        receptions += int(np.count_nonzero(chunk.kind == RECEIVE))
        is_event = np.isin(chunk.kind, COUNTED)
        total += int(np.count_nonzero(is_event))
        time_us = chunk.time_us[is_event & shown[chunk.node]]
        chosen += int(np.count_nonzero(np.isin(chunk.kind, SHOWN) & shown[chunk.node]))
        if np.any(chunk.kind == EDGE):
            own = chunk.at(
                np.flatnonzero(is_event)[np.argsort(chunk.node[is_event], kind="stable")]
            )
            ties += int(np.sum((np.diff(own.time_us) == 0) & (np.diff(own.node) == 0)))
        untimed += int(np.count_nonzero(chunk.time_us[is_event] == UNTIMED))
        if time_us.size:
            begin, end = min(begin, int(time_us.min())), max(end, int(time_us.max()))
    return Extent(total, chosen, receptions, untimed, ties, begin, end)


def nearest(
    events: Events,
    shown: NDArray[np.bool_],
    centre_us: int,
    limit: int,
    *,
    within_us: tuple[float, float] = (-np.inf, np.inf),
) -> Chunk:
    """The events of a window nearest in time to a point, up to a limit."""
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


def busiest(rows: Chunk, lanes: int) -> tuple[float, float]:
    """The first window of the readable size in which most messages both leave and come to a node.

    ``rows`` are in the order of time. If no message does within a window of that size, the window
    is that of the message that comes to another node after the fewest events.
    """
    is_event = rows.kind != EDGE
    events = rows.time_us[is_event]
    size = min(events.size, LANE_EVENTS * min(lanes, LANES_SEEN))
    rank = np.cumsum(is_event) - is_event  # of an edge: that of its event
    sent = np.flatnonzero(rows.kind == BROADCAST)
    sent = sent[np.argsort(rows.message[sent], kind="stable")]
    came = np.flatnonzero(np.isin(rows.kind, (DELIVER, EDGE)))
    if not sent.size or not came.size:
        return float(events[0]), float(events[size - 1])
    known = np.minimum(np.searchsorted(rows.message[sent], rows.message[came]), sent.size - 1)
    left = sent[known]
    crosses = (rows.message[left] == rows.message[came]) & (rows.node[left] != rows.node[came])
    ends = rank[np.array([left, came])[:, crosses]]
    low, high = ends.min(axis=0, initial=events.size), ends.max(axis=0, initial=0)
    starts = np.maximum(high - size + 1, 0)
    inside = starts <= np.minimum(low, events.size - size)
    if not inside.any():
        if not low.size:
            return float(events[0]), float(events[size - 1])
        nearest_one = int(np.argmin(high - low))
        return float(events[low[nearest_one]]), float(events[high[nearest_one]])
    change = np.bincount(starts[inside], minlength=events.size + 1)
    change = change - np.bincount(low[inside] + 1, minlength=events.size + 1)
    at = int(np.argmax(np.cumsum(change)[: events.size - size + 1]))
    return float(events[at]), float(events[at + size - 1])


Spot = tuple[int, int, int]  # node, kind, message


def find(events: Events, spots: Iterable[Spot]) -> dict[Spot, Chunk]:
    """Rows of these events, the first of each in its node's order; missing ones are skipped."""
    wanted = set(spots)
    rows: dict[Spot, Chunk] = {}
    if not wanted:
        return rows
    messages = np.unique(np.array([message for _, _, message in wanted], np.int64))
    for chunk in events.chunks():
        for row in np.flatnonzero(np.isin(chunk.message, messages)).tolist():
            kind = DELIVER if chunk.kind[row] == EDGE else int(chunk.kind[row])
            spot = (int(chunk.node[row]), kind, int(chunk.message[row]))
            before = rows.get(spot)
            if spot in wanted and (before is None or before.local_seq[0] > chunk.local_seq[row]):
                rows[spot] = chunk.at(slice(row, row + 1))
    return rows


def merged(rows: Chunk, more: Iterable[Chunk]) -> Chunk:
    """Rows with others that may be among them, by node and in each one's own order.

    Edges stand before the event that they belong to, and nowhere without it.
    """
    whole = joined([rows, *more])
    is_edge = whole.kind == EDGE
    order = np.lexsort((whole.message, ~is_edge, whole.local_seq, whole.node))
    whole, is_edge = whole.at(order), is_edge[order]
    goes_on = (np.diff(whole.node) == 0) & (np.diff(whole.local_seq) == 0)
    twice = goes_on & (is_edge[1:] == is_edge[:-1])
    twice &= ~is_edge[1:] | (np.diff(whole.message) == 0)
    event = np.cumsum(np.append(False, ~goes_on))[: whole.node.size]
    is_there = np.bincount(event, weights=~is_edge) > 0
    return whole.at(np.append(True, ~twice)[: whole.node.size] & is_there[event])
