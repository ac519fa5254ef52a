"""Logs for other tools, as pieces of a file.

JSON lines and CSV are written batch by batch, in bounded memory. Tools
that draw a log get the events of a small one, or those near a spot:

- ShiViz, and all readers of its format, get vector clocks. Every row is an event of its host:
  ``deliver 0:1``, and below it the host and its clock. A delivery takes over the clock of the
  broadcast; other rows only count.
- Perfetto gets Chrome's JSON of traces: a run is a process, a node a thread. A delivery is bound to
  its broadcast by a flow, and the findings of an audit are on a track of their own.
"""

from __future__ import annotations

import csv
import io
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.dialect import ONE_RUN
from precedes.trace.rows import in_order
from precedes.trace.schema import EVENTS

COUNTED: Final = ("broadcast", "deliver")  # what a position in a report counts

SHIVIZ_EVENTS_MAX: Final = 100_000  # what a browser draws
ENTRIES_MAX: Final = 50_000_000  # of the clocks of undelivered messages, four bytes each
# The expression that parses the file; ShiViz's default works too, unless host names have blanks.
PARSER: Final = r"(?<event>(?<kind>\w+) ?(?<message>.*))\n(?<host>.+) (?<clock>\{.*\})"
DELIMITER: Final = r"^=== (?<trace>.*) ===$"
PERFETTO_EVENTS_MAX: Final = 1_000_000  # about 500 MB of JSON; browsers take no more
FINDINGS: Final = 1  # the thread of the audit's findings; Perfetto uses 0 for the idle one
STEP_US: Final = 0.001  # between events of a node that share their microsecond


class Row(NamedTuple):
    """An event at a node."""

    kind: str
    message: str | None
    time_us: int | None
    position: int  # among the node's broadcasts and deliveries; for others, the number before


class Spot(NamedTuple):
    """A broadcast or delivery to show."""

    node: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A finding of an audit, and its place; ``kind`` as in a report."""

    run_id: str
    kind: str
    sentence: str
    node: str
    message: str
    spots: tuple[Spot, ...] = ()


@dataclass(frozen=True)
class RunRows:
    """The rows of one run, each node's in its own order; nodes in the order of their names."""

    run_id: str
    nodes: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of rows."""
        return sum(map(len, self.nodes.values()))

    def near(self, spots: Iterable[Spot], *, rows: int) -> RunRows:
        """The rows at most this many positions from a spot, of its node."""
        wanted: dict[str, list[int]] = {}
        for spot in sorted(spots):
            wanted.setdefault(spot.node, []).append(spot.position)
        chosen = {}
        for node, positions in wanted.items():
            inside = []
            for row in self.nodes.get(node, []):
                at = bisect_left(positions, row.position - rows)
                if at < len(positions) and positions[at] <= row.position + rows:
                    inside.append(row)
            if inside:
                chosen[node] = inside
        return RunRows(self.run_id, {node: chosen[node] for node in self.nodes if node in chosen})


def table_of(
    batches: Iterable[pa.RecordBatch], *, title: str, rows_max: int | None
) -> list[pa.RecordBatch]:
    """The batches, unless they are too many rows to be shown."""
    table: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows_max is not None and rows > rows_max:
            raise UserError(
                f"{title} has more than {rows_max:,} events, too many to show: export the events "
                "near a finding with `around_witness` 1"
            )
        table.append(batch)
    return table


def runs_of(batches: Sequence[pa.RecordBatch]) -> list[RunRows]:
    """The rows by run and node."""
    runs: dict[str, dict[str, list[tuple[int, str, str | None, int | None]]]] = {}
    for batch in batches:
        for run_id, node, local_seq, time_us, kind, message in _rows(batch):
            nodes = runs.setdefault(run_id, {})
            nodes.setdefault(node, []).append((local_seq, kind, message, time_us))
    return [
        RunRows(run_id, {node: _in_order(runs[run_id][node]) for node in in_order([*runs[run_id]])})
        for run_id in in_order([*runs])
    ]


def _in_order(rows: list[tuple[int, str, str | None, int | None]]) -> list[Row]:
    rows.sort(key=lambda row: row[0])
    ordered = []
    position = 0
    for _, kind, message, time_us in rows:
        ordered.append(Row(kind, message, time_us, position))
        position += kind in COUNTED
    return ordered


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, str, int, int | None, str, str | None]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def causal_order(run: RunRows) -> list[tuple[str, int]]:
    """All rows (node, number in its list) in an order that extends causal order.

    A UserError names a message in its own past, if there is one.
    """
    sent = {row.message for rows in run.nodes.values() for row in rows if row.kind == "broadcast"}
    done: set[str | None] = set()
    waiting: dict[str | None, list[str]] = {}
    at = dict.fromkeys(run.nodes, 0)
    order: list[tuple[str, int]] = []
    ready = [*run.nodes][::-1]
    while ready:
        node = ready.pop()
        rows = run.nodes[node]
        while at[node] < len(rows):
            row = rows[at[node]]
            if row.kind == "deliver" and row.message in sent and row.message not in done:
                waiting.setdefault(row.message, []).append(node)
                break
            order.append((node, at[node]))
            at[node] += 1
            if row.kind == "broadcast":
                done.add(row.message)
                ready += waiting.pop(row.message, [])[::-1]
    if waiting:
        message = min(filter(None, waiting))
        raise UserError(
            f"the log contradicts itself around message {printable(message)}, which precedes what "
            "precedes it: it has no clocks"
        )
    return order


def to_jsonl(batches: Iterable[pa.RecordBatch], *, title: str) -> Iterator[bytes]:
    """An object a line; the order of a node's lines is its order, so its rows must come in it."""
    last: dict[tuple[str, str], int] = {}
    texts: dict[str, str] = {}

    def quoted(name: str) -> str:
        text = texts.get(name)
        if text is None:
            if len(texts) >= 1 << 20:  # messages have many names, most of which are close together
                texts.clear()
            text = texts[name] = json.dumps(name)
        return text

    for batch in batches:
        lines = []
        for run_id, node, local_seq, time_us, kind, message in _rows(batch):
            if last.get((run_id, node), local_seq - 1) >= local_seq:
                raise UserError(
                    f"{title}: the events of node {printable(node)} are not in their order, "
                    "which JSON lines cannot express: export csv"
                )
            last[run_id, node] = local_seq
            run = "" if run_id == ONE_RUN else f', "run_id": {quoted(run_id)}'
            named = "" if message is None else f', "message": {quoted(message)}'
            time = "" if time_us is None else f', "time_us": {time_us}'
            lines.append(f'{{"node": {quoted(node)}, "kind": "{kind}"{named}{time}{run}}}\n')
        yield "".join(lines).encode()


def to_csv(batches: Iterable[pa.RecordBatch], *, title: str) -> Iterator[bytes]:
    """A header and a row an event, in the order in which they come; ``local_seq`` is a column."""
    yield (",".join(EVENTS.names) + "\n").encode()
    for batch in batches:
        text = io.StringIO()
        rows = list(_rows(batch))
        # Python's writer does not quote this line ending, which its reader accepts as one.
        odd = any("\r" in (cell or "") for row in rows for cell in (row[0], row[1], row[5]))
        writer = csv.writer(
            text,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if odd else csv.QUOTE_MINIMAL,
        )
        for row in rows:
            if "" in row:
                raise UserError(f"{title}: a name is empty, which CSV cannot express: export jsonl")
            writer.writerow(row)
        yield text.getvalue().encode()


def to_shiviz(runs: Sequence[RunRows], *, title: str) -> Iterator[bytes]:
    """The events of the runs, in an order that extends causal order; a title before each run.

    A single run with the id 0 has no title. Contradictory runs have no clocks and are refused,
    and so are names with line ends or without letters.
    """
    for run in runs:
        _check(run, title)
    for run in runs:
        if len(runs) > 1 or run.run_id != "0":
            yield f"=== {run.run_id} ===\n".encode()
        try:
            yield from _events(run)
        except UserError as error:
            raise UserError(f"{title}: {error}") from None


def _check(run: RunRows, title: str) -> None:
    if run.size > SHIVIZ_EVENTS_MAX or run.size * len(run.nodes) > ENTRIES_MAX:
        raise UserError(
            f"{title} has {run.size:,} events of {len(run.nodes):,} nodes, too many for clocks: "
            "export the events near a finding with `around_witness` 1"
        )
    messages = {
        row.message for rows in run.nodes.values() for row in rows if row.message is not None
    }
    for name in (run.run_id, *run.nodes, *messages):
        if not name or len(name.splitlines()) > 1 or name != name.strip():
            raise UserError(
                f"{title}: ShiViz cannot read the name '{printable(name)}' from a line: rename it"
            )


def _events(run: RunRows) -> Iterator[bytes]:
    number = {node: at for at, node in enumerate(run.nodes)}
    # A clock contains no blank, so the last blank of a line is before it.
    names = [json.dumps(node).replace(" ", "\\u0020") for node in run.nodes]
    clocks = np.zeros((len(names), len(names)), np.int32)
    sent: dict[str | None, NDArray[np.int32]] = {}
    for node, at in causal_order(run):
        row = run.nodes[node][at]
        own = number[node]
        clock = clocks[own]
        if row.kind == "deliver" and row.message in sent:
            np.maximum(clock, sent[row.message], out=clock)
        clock[own] += 1
        if row.kind == "broadcast":
            sent[row.message] = clock.copy()
        entries = ",".join(f"{names[n]}:{clock[n]}" for n in np.flatnonzero(clock).tolist())
        event = row.kind if row.message is None else f"{row.kind} {row.message}"
        yield f"{event}\n{node} {{{entries}}}\n".encode()


def to_perfetto(runs: Sequence[RunRows], marks: Sequence[Mark]) -> Iterator[bytes]:
    """The events of the runs and the findings of an audit.

    Where every row has a time, events are placed by it, each clock as it is. Otherwise by the
    longest chain of events before them; in a log that contradicts itself, by their place at the
    node.
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
    """A finding, placed where its message was delivered (for a duplicate, the last time)."""
    rows = run.nodes.get(mark.node, [])
    kinds = ("broadcast",) if mark.kind == "cycle" else ("deliver", "join")
    hits = [at for at, row in enumerate(rows) if row.message == mark.message and row.kind in kinds]
    if hits:
        place = places[mark.node][hits[-1] if mark.kind == "duplicate" else hits[0]]
    else:  # no delivery: at the end of its node
        place = places[mark.node][-1] if rows else 0.0
    slot = {"pid": process, "tid": FINDINGS, "ts": place, "dur": 1}
    args = {"sentence": mark.sentence, "node": mark.node, "message": mark.message}
    return {"ph": "X", "name": mark.kind, "cat": "audit", **slot, "args": args}


def _room(places: list[float], at: int) -> float:
    """Maximum length of a drawn event: until the next of its node, at most a microsecond."""
    ahead = places[at + 1] - places[at] if at + 1 < len(places) else 1.0
    return round(min(1.0, ahead), 3)


def _places(run: RunRows) -> dict[str, list[float]]:
    """The place of each row on the time axis, in microseconds; a node's are ascending."""
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
