"""Content of the page of a run: chosen, ordered and audited events, and the opening window."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.audit import Witness
from precedes.errors import UserError
from precedes.viewer import page, window
from precedes.viewer.events import (
    BROADCAST,
    DELIVER,
    DISCARD,
    EDGE,
    NO_MESSAGE,
    RECEIVE,
    STEP_US,
    Chunk,
    Events,
    give_depths,
    node_numbers,
)
from precedes.viewer.marks import marks_of
from precedes.viewer.opened import Judged, Opened
from precedes.viewer.waits import pending, waits_of
from precedes.viewer.window import Asked, Extent, Spot

LISTED_MAX: Final = 1_000  # violations with their sentences
LISTED_FROM_DISK_MAX: Final = 50
MARGIN: Final = 0.08  # of a frame, on either side


class Opening(NamedTuple):
    """Opening window of a page."""

    from_us: float
    to_us: float
    why: str  # first violation, busiest window, or asked for
    violation: int | None = None
    message: int | None = None


class Shown(NamedTuple):
    """A run as a page has it, and the window that it opens on."""

    packed: page.Packed
    opening: Opening


class _Aim(NamedTuple):
    """Subject of the picture: events that it must contain, and their place."""

    why: str
    rows: list[Chunk]
    centre_us: int | None = None
    number: int | None = None  # of a finding
    message: int = NO_MESSAGE


def show(run: Opened, asked: Asked, *, reference: Shown | None = None) -> Shown:
    """Choose the events of a run to show; a UserError if it lacks what was requested.

    ``reference`` is the first of two runs on a page: its window applies to both.
    """
    events, judged = run
    if reference is not None:
        asked = _as(reference, asked)
    lanes = node_numbers(events, list(asked.nodes)) if asked.nodes else [*range(len(events.nodes))]
    if len(lanes) > page.LANES_MAX:
        raise UserError(f"{events.title} has {len(lanes):,} nodes: name some of them")
    chosen = np.zeros(len(events.nodes), np.bool_)
    chosen[lanes] = True
    extent = window.extent_of(events, chosen)
    _check(events, extent, asked)
    time_note = None
    if extent.untimed:
        time_note = "This log has no times"
    elif extent.ties > extent.events / 2:
        time_note = "The times of this log are too coarse to tell its events apart"
    if time_note is not None:
        time_note += ": the axis is logical, by the length of the chain of events."
        give_depths(events)
        extent = window.extent_of(events, chosen)
    aim = _aim(events, judged, asked, chosen)
    rows = _rows(events, chosen, extent, asked, aim)
    implied = _implied(events, judged, aim) if np.any(rows.kind == EDGE) else []
    aim.rows.extend(implied)
    rows = window.merged(rows, [r for r in aim.rows if chosen[r.node[0]]])
    drawn = _Drawn(events, judged, rows, lanes, extent, time_note)
    return drawn.shown(aim, asked, chosen)


def _as(reference: Shown, asked: Asked) -> Asked:
    """The same window of the same nodes, whatever the duration of this run."""
    head = reference.packed.head
    window_us: tuple[int | None, int | None] = (None, None)
    if head["left_out"] is not None and head["has_time"]:
        window_us = (int(head["begin_us"]), int(head["end_us"]))
    return Asked(from_us=window_us[0], to_us=window_us[1], nodes=asked.nodes, events=asked.events)


def _check(events: Events, extent: Extent, asked: Asked) -> None:
    if not events.nodes or extent.events == 0:
        raise UserError(f"{events.title} holds no events: there is nothing to look at")
    if len(events.nodes) == 1:
        raise UserError(
            f"{events.title} has one node: a space-time diagram takes two, and nothing precedes "
            "anything elsewhere"
        )
    if extent.chosen == 0:
        raise UserError(f"{events.title} holds no events of {', '.join(asked.nodes)}")


def _aim(events: Events, judged: Judged, asked: Asked, chosen: NDArray[np.bool_]) -> _Aim:
    """Find the subject of the picture in the log."""
    if asked.around is not None:
        return _around(events, asked.around)
    if asked.violation is not None:
        if not 1 <= asked.violation <= judged.findings:
            there = {0: "there is none", 1: "there is one"}.get(
                judged.findings, f"there are {judged.findings:,}"
            )
            raise UserError(
                f"the audit of {events.title} has no violation {asked.violation}: {there}"
            )
        return _finding(events, judged, asked.violation - 1, "asked for")
    if asked.from_us is not None or asked.to_us is not None:
        return _Aim("asked for", [])
    if judged.findings:
        first = _finding(events, judged, 0, "first violation")
        if any(chosen[row.node[0]] for row in first.rows):
            return first
    return _Aim("busiest window", [])


def _around(events: Events, name: str) -> _Aim:
    key = events.key_of(name)
    sent: list[Chunk] = []
    if key is not None:
        sent = [chunk.at(chunk.message == key) for chunk in events.chunks()]
        sent = [c.at(np.isin(c.kind, (BROADCAST, DELIVER))) for c in sent]
        sent = [c.at(slice(i, i + 1)) for c in sent for i in range(c.node.size)]
    if key is None or not sent:
        raise UserError(f"{events.title} has no message {name!r}{events.names_like(name)}")
    began = [row for row in sent if row.kind[0] == BROADCAST] or sent
    centre = int(began[0].time_us[0])
    return _Aim("asked for", sent, centre, message=key)


def _finding(events: Events, judged: Judged, number: int, why: str) -> _Aim:
    witness = judged.witness(number)
    chunks = window.find(events, spots_of(events, witness, more=True))
    rows = [*chunks.values()]
    centre = int(rows[-1].time_us[0]) if rows else None
    if rows:
        times = [int(row.time_us[0]) for row in rows]
        centre = (min(times) + max(times)) // 2
    return _Aim(why, rows, centre, number=number)


def _implied(events: Events, judged: Judged, aim: _Aim) -> list[Chunk]:
    """Edges for deliveries of the findings that a log with edges only implies."""
    spots = spots_of(events, judged.witness(aim.number)) if aim.number is not None else []
    for number in range(min(len(judged.violations), LISTED_MAX)):
        name, message = judged.names(number)
        spots.append((_or(events.node_of(name)), DELIVER, _or(events.key_of(message))))
    wanted = {(node, key) for node, kind, key in spots if kind == DELIVER}
    wanted -= {(node, key) for node, _, key in window.find(events, spots)}
    owners = events.events_after(wanted)
    there = window.find(events, {(node, BROADCAST, key) for (node, _), key in owners.items()})
    edges = []
    for (node, key), owner in owners.items():
        row = there[node, BROADCAST, owner]
        edges.append(row._replace(kind=row.kind * 0 + EDGE, message=row.message * 0 + key))
    return edges


def spots_of(events: Events, witness: Witness, *, more: bool = False) -> list[Spot]:
    """The events of a finding, from cause to effect; ``more``: and where the cause came late."""

    def spot(node: str, kind: int, message: str) -> Spot:
        at, key = events.node_of(node), events.key_of(message)
        return (-1 if at is None else at, kind, NO_MESSAGE if key is None else key)

    kinds = {"broadcast": BROADCAST, "deliver": DELIVER}
    spots = [spot(s.node_name, kinds[s.kind], s.message_name) for s in witness.steps]
    if witness.kind in ("violation", "duplicate", "phantom"):
        spots.append(spot(witness.node_name, DELIVER, witness.message_name))
    if witness.kind == "lost":
        spots.append(spot(_source_name(events, witness), BROADCAST, witness.message_name))
    if more and witness.earlier_name is not None:
        spots.append(spot(witness.node_name, DELIVER, witness.earlier_name))
    return spots


def _source_name(events: Events, witness: Witness) -> str:
    key = events.key_of(witness.message_name)
    source = -1 if key is None else events.origin_of(key)[0]
    return events.nodes[source] if source >= 0 else witness.node_name


def _rows(
    events: Events, chosen: NDArray[np.bool_], extent: Extent, asked: Asked, aim: _Aim
) -> Chunk:
    if asked.from_us is not None or asked.to_us is not None:
        first = extent.begin_us if asked.from_us is None else asked.from_us
        last = extent.end_us if asked.to_us is None else asked.to_us
        within = (first, last)
        rows = window.nearest(events, chosen, first, asked.events, within_us=within)
        if not rows.node.size:
            span = f"{extent.begin_us / 1000:,.3f} to {extent.end_us / 1000:,.3f} ms"
            if not events.timed:
                span = f"step {extent.begin_us // STEP_US:,} to {extent.end_us // STEP_US:,}"
            raise UserError(f"{events.title} has no events in that window: it goes from {span}")
        return rows
    centre = aim.centre_us
    if extent.chosen > asked.events and centre is None:
        centre = window.busiest_us(events, chosen, extent)
    return window.nearest(events, chosen, centre or 0, max(1, asked.events - len(aim.rows)))


class _Drawn:
    """The rows of a picture, in order of time, with their description."""

    def __init__(
        self,
        events: Events,
        judged: Judged,
        rows: Chunk,
        lanes: list[int],
        extent: Extent,
        time_note: str | None,
    ) -> None:
        self._time_note = time_note
        self._events = events
        self._judged = judged
        self._lanes = lanes
        self._extent = extent
        self._lane_of = np.full(len(events.nodes) + 1, page.NO_LANE, np.int64)
        self._lane_of[lanes] = np.arange(len(lanes))
        self.rows = rows

    def shown(self, aim: _Aim, asked: Asked, chosen: NDArray[np.bool_]) -> Shown:
        events, extent = self._events, self._extent
        first, last = int(self.rows.time_us.min()), int(self.rows.time_us.max())
        counted = int(np.count_nonzero(self.rows.kind != EDGE))
        if extent.receptions:
            room = max(0, asked.events - counted)
            more = pending(events, chosen, from_us=first, to_us=last, limit=room)
            self.rows = window.merged(self.rows, [more])
        waits = waits_of(events, self.rows, receptions=extent.receptions)
        if not events.timed:
            waits[:] = 2**32 - 1
        # After the last event of a run there may be marks still: who is silent is excluded later.
        is_end = events.timed and asked.to_us is None and last == extent.end_us
        until = window.TIME_US_MAX if is_end else last
        marks = marks_of(events, chosen, self.rows, from_us=first, to_us=until)
        time_us, adjusted = _monotone(self.rows)
        order = np.lexsort((self.rows.local_seq, self.rows.node, time_us))
        self.rows, waits = self.rows.at(order), waits[order]
        self.time_us = time_us[order]
        self._index()
        listed, more_violations = self._violations(aim)
        head = {
            "title": events.title.rstrip("/").rpartition("/")[2],
            "origin": events.title,
            "run": str(events.run_id),
            "protocol": events.protocol,
            "lanes": [(events.labels or events.nodes)[node] for node in self._lanes],
            "has_time": events.timed,
            "time_note": self._time_note,
            "adjusted": adjusted,
            "begin_us": float(self.time_us[0]),
            "end_us": float(max([self.time_us[-1], *(mark["time_us"] for mark in marks)])),
            "events": int(self.time_us.size),
            "edges": int(np.count_nonzero(self.rows.kind == EDGE)),
            "messages": len(self._keys),
            "message_names": self._names(),
            "left_out": left_out(events, extent, self._lanes, self.time_us, counted),
            "verdict": self._judged.report.verdict,
            "summary": self._judged.summary,
            "violations": listed,
            "violations_more": more_violations,
            "marks": [{**mark, "lane": int(self._lane_of[mark["lane"]])} for mark in marks],
        }
        return Shown(self._packed(head, waits), self._opening(aim, listed, asked))

    def _index(self) -> None:
        """Number the messages, and note the place of each event."""
        rows = self.rows
        keys = np.unique(rows.message).tolist()
        self._keys: list[int] = keys
        self._numbers = {key: number for number, key in enumerate(keys)}
        self._places: dict[Spot, int] = {}
        kinds = np.where(rows.kind == EDGE, DELIVER, rows.kind)
        columns = (rows.node.tolist(), kinds.tolist(), rows.message.tolist())
        for at, spot in enumerate(zip(*columns, strict=True)):
            self._places.setdefault(spot, at)

    def _number(self, key: int | None) -> int | None:
        if key is None or key == NO_MESSAGE:
            return None
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def _violations(self, aim: _Aim) -> tuple[list[dict[str, Any]], int]:
        """The findings of which an event is shown, that of the aim among them, by number."""
        events, judged = self._events, self._judged
        self._wrong: list[int] = []
        inside = []
        for number in range(len(judged.violations)):
            node, message = judged.names(number)
            at = self._places.get((_or(events.node_of(node)), DELIVER, _or(events.key_of(message))))
            if at is not None:
                self._wrong.append(at)
                inside.append(number)
        inside += range(len(judged.violations), judged.findings)
        kept = inside[: LISTED_MAX if judged.is_held else LISTED_FROM_DISK_MAX]
        if aim.number is not None and aim.number in inside and aim.number not in kept:
            kept[-1] = aim.number
        listed = [entry for n in kept if (entry := self._entry(n)) is not None]
        total = judged.report.violations + len(judged.others)
        return listed, total - len(listed)

    def _entry(self, number: int) -> dict[str, Any] | None:
        events = self._events
        witness = self._judged.witness(number)
        path = [self._places.get(spot) for spot in spots_of(events, witness)]
        there = [at for at in path if at is not None]
        if not there:
            return None
        node = _or(events.node_of(witness.node_name))
        lacked = None if witness.earlier_name is None else events.key_of(witness.earlier_name)
        return {
            "number": number + 1,
            "kind": witness.kind,
            "sentence": witness.sentence,
            "lane": int(self._lane_of[node]),
            "message": self._number(events.key_of(witness.message_name)),
            "lacked": self._number(lacked),
            "event": there[-1],
            "path": there,
        }

    def _names(self) -> list[str] | None:
        events = self._events
        lanes = [int(self._lane_of[events.origin_of(key)[0]]) for key in self._keys]
        is_plain = not events.replaces_names and events.labels is None
        if is_plain and page.NO_LANE not in lanes:
            return None
        return [events.name_of(key) for key in self._keys]

    def _packed(self, head: dict[str, Any], waits: NDArray[np.uint32]) -> page.Packed:
        rows = self.rows
        kinds = {
            BROADCAST: page.BROADCAST,
            DELIVER: page.DELIVERY,
            RECEIVE: page.PENDING,
            DISCARD: page.DROPPED,
            EDGE: page.EDGE,
        }
        table = np.zeros(128, np.uint8)
        table[[*kinds]] = [*kinds.values()]
        kind = table[rows.kind]
        kind[self._wrong] = page.VIOLATION
        origins = [self._events.origin_of(key) for key in self._keys]
        return page.Packed(
            head=head,
            texts=self._events.texts_of(rows),
            time_us=self.time_us.astype(np.float64),
            message=np.searchsorted(np.unique(rows.message), rows.message).astype(np.uint32),
            wait_us=waits,
            lane=self._lane_of[rows.node].astype(np.uint16),
            kind=kind,
            message_source=self._lane_of[[source for source, _ in origins]].astype(np.uint16),
            message_sequence=np.array([sequence for _, sequence in origins], np.uint32),
        )

    def _opening(self, aim: _Aim, listed: list[dict[str, Any]], asked: Asked) -> Opening:
        numbers = [entry["number"] - 1 for entry in listed]
        if aim.number is not None and aim.number in numbers:
            at = numbers.index(aim.number)
            return _framed(self._times(aim), aim.why, violation=at)
        if aim.message != NO_MESSAGE:
            return _framed(self._times(aim), aim.why, message=self._numbers[aim.message])
        first, last = window.busiest(self.rows._replace(time_us=self.time_us), len(self._lanes))
        if asked.from_us is not None or asked.to_us is not None:
            first, last = float(self.time_us[0]), float(self.time_us[-1])
        return _framed([first, last], aim.why)

    def _times(self, aim: _Aim) -> list[float]:
        times = []
        for row in aim.rows:
            kind = DELIVER if row.kind[0] == EDGE else int(row.kind[0])
            at = self._places.get((int(row.node[0]), kind, int(row.message[0])))
            if at is not None:
                times.append(float(self.time_us[at]))
        return times


def _framed(times: list[float], why: str, **more: int) -> Opening:
    first, last = min(times), max(times)
    margin = max(1.0, (last - first) * MARGIN)
    return Opening(first - margin, last + margin, why, **more)


def _or(violations: int | None) -> int:
    return -1 if violations is None else violations


def _monotone(rows: Chunk) -> tuple[NDArray[np.int64], int]:
    """Times that never decrease at a node, of rows in its order, and the number that differ."""
    time_us = rows.time_us.copy()
    ends = np.flatnonzero(np.diff(rows.node)) + 1
    for part in np.split(np.arange(rows.node.size), ends):
        np.maximum.accumulate(time_us[part], out=time_us[part[0] : part[-1] + 1])
    return time_us, int(np.count_nonzero(time_us != rows.time_us))


def left_out(
    events: Events, extent: Extent, lanes: list[int], time_us: NDArray[np.int64], shown: int
) -> dict[str, Any] | None:
    """None if nothing is left out; ``before_us`` and ``after_us`` are the time missing there."""
    missing = extent.events - shown
    kept = set(lanes)
    absent = [name for node, name in enumerate(events.nodes) if node not in kept]
    if missing == 0 and not absent:
        return None
    before = max(0, int(time_us[0]) - extent.begin_us)
    after = max(0, extent.end_us - int(time_us[-1]))
    sentence = f"{missing:,} of {extent.events:,} events {'is' if missing == 1 else 'are'} left out"
    parts = []
    if before:
        parts.append(f"before {_moment(int(time_us[0]), timed=events.timed)}")
    if after:
        parts.append(f"after {_moment(int(time_us[-1]), timed=events.timed)}")
    if absent:
        more = ", ..." if len(absent) > 5 else ""
        nodes = "1 node" if len(absent) == 1 else f"{len(absent):,} nodes"
        parts.append(f"at {nodes} ({', '.join(absent[:5])}{more})")
    return {
        "events": missing,
        "lanes": absent,
        "before_us": before,
        "after_us": after,
        "sentence": f"{sentence}: {', '.join(parts)}." if parts else f"{sentence}.",
    }


def _moment(time_us: int, *, timed: bool) -> str:
    if not timed:
        return f"step {time_us // STEP_US:,}"
    return f"{time_us / 1000:,.3f}".rstrip("0").rstrip(".") + " ms"
