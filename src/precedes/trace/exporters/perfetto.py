"""Logs as Chrome's JSON of traces, which Perfetto shows: a run a process, a node a thread.

A delivery is bound to its broadcast by a flow. What an audit found stands on a track of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from precedes.errors import UserError
from precedes.trace.exporters.rows import Mark, Row, RunRows, causal_order

EVENTS_MAX: Final = 1_000_000  # about 500 MB of JSON; browsers take no more
FINDINGS: Final = 1  # the thread of what the audit found; Perfetto takes 0 for the idle one
STEP_US: Final = 0.001  # between events of a node that share their microsecond


def to_perfetto(runs: Sequence[RunRows], marks: Sequence[Mark]) -> Iterator[bytes]:
    """The events of the runs and what was found in them.

    Where every row has a time, that is where it stands, each clock as it is. Otherwise it is the
    longest chain of events before it; in a log that contradicts itself, its place at its node.
    """
    flow = 0
    yield b'{"displayTimeUnit": "ms", "traceEvents": ['
    before = ""
    for process, run in enumerate(runs, start=1):
        places = _places(run)
        for item in _names(run, process):
            yield f"{before}\n{json.dumps(item)}".encode()
            before = ","
        sent = {
            row.message: (thread, places[node][at])
            for thread, (node, rows) in enumerate(run.nodes.items(), start=FINDINGS + 1)
            for at, row in enumerate(rows)
            if row.kind == "broadcast"
        }
        for thread, (node, rows) in enumerate(run.nodes.items(), start=FINDINGS + 1):
            for at, row in enumerate(rows):
                slot = {"pid": process, "tid": thread, "ts": places[node][at]}
                items = [_slice(row, slot, _room(places[node], at))]
                source = sent.get(row.message) if row.kind == "deliver" else None
                if source is not None and source[0] != thread:
                    flow += 1
                    items += _flow(flow, process, source, slot)
                yield "".join(f",\n{json.dumps(item)}" for item in items).encode()
        for mark in marks:
            if mark.run_id == run.run_id:
                yield f",\n{json.dumps(_found(mark, run, places, process))}".encode()
    yield b"\n]}\n"


def _names(run: RunRows, process: int) -> Iterator[dict[str, Any]]:
    threads = {FINDINGS: "violations", **dict(enumerate(run.nodes, start=FINDINGS + 1))}
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": f"run {run.run_id}"}}
    for thread, name in threads.items():
        about = {"ph": "M", "pid": process, "tid": thread}
        yield {**about, "name": "thread_name", "args": {"name": name}}
        yield {**about, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _slice(row: Row, slot: dict[str, Any], duration_us: float) -> dict[str, Any]:
    name = row.kind if row.message is None else f"{row.kind} {row.message}"
    return {
        **{"ph": "X", "name": name, "cat": row.kind, **slot, "dur": duration_us},
        "args": {"message": row.message, "position": row.position},
    }


def _flow(
    number: int, process: int, source: tuple[int, float], slot: dict[str, Any]
) -> list[dict[str, Any]]:
    both = {"name": "message", "cat": "message", "id": number}
    return [
        {"ph": "s", **both, "pid": process, "tid": source[0], "ts": source[1]},
        {"ph": "f", "bp": "e", **both, **slot},
    ]


def _found(
    mark: Mark, run: RunRows, places: dict[str, list[float]], process: int
) -> dict[str, Any]:
    """A finding, where its message was delivered (of a duplicate, the last time)."""
    rows = run.nodes.get(mark.node, [])
    kinds = ("broadcast",) if mark.kind == "cycle" else ("deliver", "join")
    found = [at for at, row in enumerate(rows) if row.message == mark.message and row.kind in kinds]
    if found:
        place = places[mark.node][found[-1] if mark.kind == "duplicate" else found[0]]
    else:  # nothing was delivered: at the end of its node
        place = places[mark.node][-1] if rows else 0.0
    slot = {"pid": process, "tid": FINDINGS, "ts": place, "dur": 1}
    args = {"sentence": mark.sentence, "node": mark.node, "message": mark.message}
    return {"ph": "X", "name": mark.kind, "cat": "audit", **slot, "args": args}


def _room(places: list[float], at: int) -> float:
    """How long an event may be shown: until the next of its node, at most a microsecond."""
    ahead = places[at + 1] - places[at] if at + 1 < len(places) else 1.0
    return round(min(1.0, ahead), 3)


def _places(run: RunRows) -> dict[str, list[float]]:
    """Where each row stands on the axis of time, in microseconds; a node's rise."""
    times = [row.time_us for rows in run.nodes.values() for row in rows]
    if times and None not in times:
        start = min(time for time in times if time is not None)
        return {node: _rising(rows, start) for node, rows in run.nodes.items()}
    try:
        return _chains(run)
    except UserError:
        return {node: [float(at) for at in range(len(rows))] for node, rows in run.nodes.items()}


def _rising(rows: list[Row], start_us: int) -> list[float]:
    places: list[float] = []
    for row in rows:
        place = float((row.time_us or 0) - start_us)
        if places and place <= places[-1]:
            place = round(places[-1] + STEP_US, 3)
        places.append(place)
    return places


def _chains(run: RunRows) -> dict[str, list[float]]:
    places: dict[str, list[float]] = {node: [] for node in run.nodes}
    sent: dict[str | None, float] = {}
    for node, at in causal_order(run):
        row = run.nodes[node][at]
        place = places[node][-1] + 1 if places[node] else 0.0
        if row.kind == "deliver":
            place = max(place, sent.get(row.message, -1.0) + 1)
        elif row.kind == "broadcast":
            sent[row.message] = place
        places[node].append(place)
    return places
