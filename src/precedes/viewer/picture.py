"""The contents of a small picture of one finding, or of one message and the one it waited for."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from precedes.audit import Step, Witness
from precedes.audit.witness import tell
from precedes.errors import UserError
from precedes.viewer import window
from precedes.viewer.events import BROADCAST, DELIVER, RECEIVE, UNTIMED, Events
from precedes.viewer.opened import Judged, Opened
from precedes.viewer.page import DELIVERY, VIOLATION
from precedes.viewer.shown import show, spots_of
from precedes.viewer.waits import UNKNOWN_WAIT
from precedes.viewer.window import Asked, Spot

PATH_MAX: Final = 20  # events of a path that are drawn; the middle of a longer one is left out
LANES_MAX: Final = 4  # of the deliveries of one message
TRIED_MAX: Final = 50  # deliveries during a wait that are asked whether it was for them


@dataclass(frozen=True)
class Point:
    """An event on a lane; ``note`` is the text next to the message's name."""

    lane: str
    kind: int  # of EventKind
    message: str
    time_us: int
    local_seq: int
    note: str = ""


@dataclass(eq=False, kw_only=True)
class Picture:
    """Points from left to right, and the lines between them, as positions among them."""

    title: str
    sentence: str
    lanes: list[str]
    sources: dict[str, str]  # message -> lane
    points: list[Point]
    path: list[int] = field(default_factory=list)
    wrong: int | None = None  # the delivery that came too early
    absent: str | None = None  # what its lane never delivers

    def arrows(self) -> list[tuple[int, int]]:
        """From broadcasts to where their messages arrive, or are delivered if that is at once."""
        sent = {p.message: at for at, p in enumerate(self.points) if p.kind == BROADCAST}
        arrived = self._arrived()
        arrows = []
        for at, point in enumerate(self.points):
            waited = point.kind == DELIVER and (point.lane, point.message) in arrived
            origin = sent.get(point.message, at)
            if self.points[origin].lane != point.lane and not waited:
                arrows.append((origin, at))
        return arrows

    def waits(self) -> list[tuple[int, int]]:
        """From arrivals to deliveries."""
        arrived = self._arrived()
        return [
            (arrived[point.lane, point.message], at)
            for at, point in enumerate(self.points)
            if point.kind == DELIVER and (point.lane, point.message) in arrived
        ]

    def _arrived(self) -> dict[tuple[str, str], int]:
        return {(p.lane, p.message): at for at, p in enumerate(self.points) if p.kind == RECEIVE}


def picture_of(run: Opened, asked: Asked) -> Picture:
    """Picture of the requested finding or message; by default of the first violation.

    Without a violation it shows the message that waited longest.
    """
    events, judged = run
    shown = show(run, asked)  # refuses what is not there
    if asked.around is not None:
        return _Message(events, judged, asked.around).picture()
    if shown.opening.violation is not None:
        number = shown.packed.head["violations"][shown.opening.violation]["number"] - 1
        return _finding(events, judged.witness(number))
    packed = shown.packed
    known = (packed.wait_us != UNKNOWN_WAIT) & np.isin(packed.kind, (DELIVERY, VIOLATION))
    if not known.any() or not packed.wait_us[known].any():
        raise UserError(
            f"{events.title} has no violation to draw, and no message that is known to have "
            "waited: name a message with `around`"
        )
    longest = int(packed.message[np.argmax(np.where(known, packed.wait_us, 0))])
    names = packed.head["message_names"]
    name = names[longest] if names is not None else ""
    if not name:
        source, sequence = packed.message_source[longest], packed.message_sequence[longest]
        name = f"{packed.head['lanes'][source]}:{sequence}"
    return _Message(events, judged, name).picture()


def _finding(events: Events, witness: Witness) -> Picture:
    """A path from cause to effect, with the event at its end that came too early or too late."""
    steps = spots_of(events, witness)
    more = ""
    if len(steps) > PATH_MAX:
        half = PATH_MAX // 2
        more = f" ({len(steps) - PATH_MAX:,} events of the path are not drawn.)"
        steps = [*steps[:half], *steps[-half:]]
    notes: dict[Spot, str] = {}
    late: list[Spot] = []
    if witness.earlier_name is not None:
        late = spots_of(events, witness, more=True)[-1:]
        notes[steps[-1]] = "too early"
        notes[late[0]] = "too late"
    points, path = _points(events, [*steps, *late], notes)
    lanes = [*dict.fromkeys(events.nodes[node] for node, _, _ in steps)]
    is_there = any(point.note == "too late" for point in points)
    wrong = [at for at, point in enumerate(points) if point.note == "too early"]
    return Picture(
        title=_TITLES[witness.kind].format(node=witness.node_name, message=witness.message_name),
        sentence=witness.sentence + more,
        lanes=lanes,
        sources=_sources(events, points),
        points=points,
        path=[path[spot] for spot in steps if spot in path],
        wrong=wrong[0] if wrong else None,
        absent=None if is_there else witness.earlier_name,
    )


_TITLES: Final = {
    "violation": "Out of causal order: node {node} delivers {message} too early",
    "lost": "Node {node} never delivers {message}",
    "duplicate": "Node {node} delivers {message} again",
    "phantom": "Node {node} delivers {message}, which nobody broadcast",
    "cycle": "{message} precedes itself",
}


class _Message:
    """A message at its source, where it waited, and the message that it waited for there."""

    def __init__(self, events: Events, judged: Judged, name: str) -> None:
        self._events = events
        self._judged = judged
        self._name = name
        key = events.key_of(name)
        assert key is not None, "what is drawn was found before"
        self._key = key

    def picture(self) -> Picture:
        events, key = self._events, self._key
        source = events.origin_of(key)[0]
        waits = self._waits()
        longest = sorted(waits, key=lambda node: (-waits[node], node))[:LANES_MAX]
        spots: list[Spot] = [(source, BROADCAST, key)] if source >= 0 else []
        path: list[Spot] = []
        sent = f"broadcast by node {events.nodes[source]}" if source >= 0 else "broadcast by nobody"
        drawn = f", {len(longest)} of which are drawn" if len(longest) < len(waits) else ""
        sentence = f"{self._name} was {sent} and delivered at {len(waits):,} nodes{drawn}."
        if longest and waits[longest[0]] > 0:
            node = longest[0]
            sentence, path = self._wait(node, waits[node])
            longest = [node]
        spots = [*path, *spots, *((node, DELIVER, key) for node in longest)]
        for _, _, message in path:  # what was waited for, where it was waited for
            spots.append((longest[0], DELIVER, message))
        points, places = _points(events, [*dict.fromkeys(spots)], {})
        points_of = {point.lane for point in points}
        return Picture(
            title=f"What {self._name} waited for" if path else f"The way of {self._name}",
            sentence=sentence,
            lanes=[name for name in events.nodes if name in points_of],
            sources=_sources(events, points),
            points=points,
            path=[places[spot] for spot in path if spot in places],
        )

    def _waits(self) -> dict[int, int]:
        """Waiting time at each node that delivered it; 0 where unknown."""
        came: dict[int, int] = {}
        done: dict[int, int] = {}
        for chunk in self._events.chunks():
            rows = chunk.at(chunk.message == self._key)
            columns = (rows.node.tolist(), rows.kind.tolist(), rows.time_us.tolist())
            for node, kind, time_us in zip(*columns, strict=True):
                if kind == RECEIVE:
                    came[node] = min(time_us, came.get(node, time_us))
                elif kind == DELIVER:
                    done[node] = min(time_us, done.get(node, time_us))
        source = self._events.origin_of(self._key)[0]
        return {
            node: max(0, done[node] - came[node]) if self._events.timed and node in came else 0
            for node in done
            if node != source
        }

    def _wait(self, node: int, wait_us: int) -> tuple[str, list[Spot]]:
        """Cause of the wait of the message at a node, as text and as a path to it."""
        events = self._events
        node_name, name = events.nodes[node], self._name
        waited = f"{name} waited {milliseconds(wait_us)} at node {node_name}"
        message = events.origin_of(self._key)
        for earlier in self._delivered_meanwhile(node):
            origin = events.origin_of(earlier)
            steps = self._judged.explain.precedence(origin, message) if origin[0] >= 0 else ()
            if steps:
                path = [_spot(events, step) for step in steps]
                first = events.name_of(earlier)
                return f"{waited} for {first}, which precedes it: {tell(steps)}.", path
        return f"{waited}.", []

    def _delivered_meanwhile(self, node: int) -> list[int]:
        """Deliveries of a node while the message waited there, latest first."""
        key = self._key
        ends = window.find(self._events, [(node, RECEIVE, key), (node, DELIVER, key)])
        first = int(ends[node, RECEIVE, key].local_seq[0])
        last = int(ends[node, DELIVER, key].local_seq[0])
        between: list[tuple[int, int]] = []
        for chunk in self._events.chunks():
            inside = (chunk.local_seq > first) & (chunk.local_seq < last) & (chunk.node == node)
            rows = chunk.at(inside & (chunk.kind == DELIVER))
            between += zip(rows.local_seq.tolist(), rows.message.tolist(), strict=True)
            between = sorted(between, reverse=True)[:TRIED_MAX]
        return [message for _, message in between]


def _spot(events: Events, step: Step) -> Spot:
    node, key = events.node_of(step.node_name), events.key_of(step.message_name)
    assert node is not None, "the audit and the viewer read different logs"
    assert key is not None, "the audit and the viewer read different logs"
    return node, BROADCAST if step.kind == "broadcast" else DELIVER, key


def milliseconds(time_us: int) -> str:
    """A span for people."""
    return f"{time_us / 1000:,.1f}".removesuffix(".0") + " ms"


def _sources(events: Events, points: list[Point]) -> dict[str, str]:
    sources = {}
    for point in points:
        key = events.key_of(point.message)
        source = events.origin_of(key)[0] if key is not None else -1
        sources[point.message] = events.nodes[source] if source >= 0 else ""
    return sources


def _points(
    events: Events, spots: list[Spot], notes: dict[Spot, str]
) -> tuple[list[Point], dict[Spot, int]]:
    """The events of these spots that are in the log, with arrivals, from left to right."""
    arrivals = [(n, RECEIVE, m) for n, kind, m in spots if kind == DELIVER and events.timed]
    rows = window.find(events, [*spots, *arrivals])
    points = []
    for spot in dict.fromkeys([*spots, *arrivals]):
        if spot in rows:
            row = rows[spot]
            node, kind, message = spot
            delivered = rows.get((node, DELIVER, message))
            at_once = delivered is not None and delivered.time_us[0] <= row.time_us[0]
            if kind == RECEIVE and (at_once or row.time_us[0] == UNTIMED):
                continue
            points.append(
                (
                    spot,
                    Point(
                        lane=events.nodes[node],
                        kind=kind,
                        message=events.name_of(message),
                        time_us=int(row.time_us[0]),
                        local_seq=int(row.local_seq[0]),
                        note=notes.get(spot, ""),
                    ),
                )
            )
    order = _in_order([point for _, point in points])
    return [points[at][1] for at in order], {points[at][0]: n for n, at in enumerate(order)}


def _in_order(points: list[Point]) -> list[int]:
    """Points by time, causes before effects; those of a contradictory log in any order."""
    after: defaultdict[int, list[int]] = defaultdict(list)
    before = [0] * len(points)
    lanes: defaultdict[str, list[int]] = defaultdict(list)
    sent = {point.message: at for at, point in enumerate(points) if point.kind == BROADCAST}
    for at, point in enumerate(points):
        lanes[point.lane].append(at)
        origin = sent.get(point.message, at)
        if point.kind != BROADCAST and origin != at:
            after[origin].append(at)
            before[at] += 1
    for lane in lanes.values():
        lane.sort(key=lambda at: points[at].local_seq)
        for one, other in itertools.pairwise(lane):
            after[one].append(other)
            before[other] += 1
    rank = [(point.time_us, point.lane, point.local_seq, at) for at, point in enumerate(points)]
    ready = [rank[at] for at, count in enumerate(before) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    left = set(range(len(points)))
    while left:
        if not ready:
            heapq.heappush(ready, min(rank[at] for at in left))
        at = heapq.heappop(ready)[-1]
        if at not in left:
            continue
        left.discard(at)
        order.append(at)
        for other in after[at]:
            before[other] -= 1
            if before[other] == 0 and other in left:
                heapq.heappush(ready, rank[other])
    return order
