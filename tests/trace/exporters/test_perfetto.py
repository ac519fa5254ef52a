"""Traces for Perfetto: valid JSON, a thread a node, flows from broadcasts to deliveries."""

import io
import itertools
import json

from precedes.trace import event_batches
from precedes.trace.exporters.perfetto import FINDINGS, to_perfetto
from precedes.trace.exporters.rows import Mark, Spot, runs_of

LINES = [
    {"node": "a", "kind": "broadcast", "message": "x"},
    {"node": "b", "kind": "deliver", "message": "x"},
    {"node": "b", "kind": "broadcast", "message": "y"},
    {"node": "c", "kind": "deliver", "message": "y"},
    {"node": "c", "kind": "deliver", "message": "x"},
    {"node": "c", "kind": "crash"},
]
MARK = Mark(run_id="0", kind="violation", sentence="c is late.", node="c", message="y")


def trace_of(lines, marks=()):
    content = "\n".join(map(json.dumps, lines)).encode()
    runs = runs_of(list(event_batches(io.BytesIO(content))))
    return json.loads(b"".join(to_perfetto(runs, marks)))["traceEvents"]


def test_a_node_is_a_thread_and_a_delivery_ends_a_flow():
    events = trace_of(LINES)
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["a", "b", "c", "violations"]
    slices = [e for e in events if e["ph"] == "X"]
    assert [(names[e["tid"]], e["name"]) for e in slices] == [
        ("a", "broadcast x"),
        ("b", "deliver x"),
        ("b", "broadcast y"),
        ("c", "deliver y"),
        ("c", "deliver x"),
        ("c", "crash"),
    ]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    flows = [(names[starts[n]["tid"]], names[ends[n]["tid"]]) for n in starts]
    assert sorted(flows) == [("a", "b"), ("a", "c"), ("b", "c")]
    places = {(e["tid"], e["ts"]) for e in slices}
    for number, end in ends.items():
        assert end["bp"] == "e"
        assert end["ts"] > starts[number]["ts"]
        # A flow binds to the slice that is there at its time.
        assert {(end["tid"], end["ts"]), (starts[number]["tid"], starts[number]["ts"])} <= places


def test_slices_of_a_thread_do_not_overlap():
    lines = [{**line, "time_us": 5 + number // 3} for number, line in enumerate(LINES)]
    for events in (trace_of(LINES), trace_of(lines)):
        by_thread = {}
        for event in (e for e in events if e["ph"] == "X"):
            by_thread.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
        for spans in by_thread.values():
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert min(e["ts"] for e in events if e["ph"] == "X") == 0


def test_findings_have_a_track_of_their_own():
    (mark,) = [e for e in trace_of(LINES, [MARK]) if e.get("tid") == FINDINGS and e["ph"] == "X"]
    (row,) = [e for e in trace_of(LINES) if e["name"] == "deliver y"]
    assert (mark["name"], mark["ts"], mark["args"]["sentence"]) == (
        "violation",
        row["ts"],
        "c is late.",
    )
    assert not [e for e in trace_of(LINES) if e.get("tid") == FINDINGS and e["ph"] == "X"]


def test_a_contradictory_log_stands_by_position():
    lines = [
        {"node": "a", "kind": "deliver", "message": "y"},
        {"node": "a", "kind": "broadcast", "message": "x"},
        {"node": "b", "kind": "deliver", "message": "x"},
        {"node": "b", "kind": "broadcast", "message": "y"},
    ]
    assert [e["ts"] for e in trace_of(lines) if e["ph"] == "X"] == [0, 1, 0, 1]


def test_rows_near_a_spot():
    content = "\n".join(map(json.dumps, LINES)).encode()
    (run,) = runs_of(list(event_batches(io.BytesIO(content))))
    near = run.near([Spot("c", 0), Spot("b", 1)], rows=0)
    assert {node: [row.kind for row in rows] for node, rows in near.nodes.items()} == {
        "b": ["broadcast"],
        "c": ["deliver"],
    }
    assert run.near([Spot("c", 1)], rows=1).size == 3
