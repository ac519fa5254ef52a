"""Logs for ShiViz, whose clocks are those of the definition, and for Perfetto."""

import io
import itertools
import json
import random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.trace import event_batches, load
from precedes.trace.export import FINDINGS, Mark, Spot, runs_of, to_perfetto, to_shiviz
from tests.support import executions


def lines_of(execution):
    nodes = range(len(execution.logs))
    return "\n".join(line for node in nodes for line in executions.as_lines(execution, node))


def exported(text):
    runs = runs_of(list(event_batches(io.BytesIO(text.encode()))))
    return b"".join(to_shiviz(runs, title="log"))


def below(rows):
    """Pairs of rows (node, place) in happened-before, by sets: program order and messages."""
    sent = {
        m: (n, at) for n, log in enumerate(rows) for at, (k, m) in enumerate(log) if k[0] == "b"
    }
    known = {}

    def past(row):
        if row not in known:
            node, at = row
            direct = [(node, at - 1)] if at else []
            kind, m = rows[node][at]
            if kind == "deliver" and m in sent:
                direct.append(sent[m])
            known[row] = set(direct).union(*map(past, direct)) if direct else set()
        return known[row]

    return {(n, at): past((n, at)) for n, log in enumerate(rows) for at in range(len(log))}


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_clocks_count_what_happened_before(seed):
    order = random.Random(seed).choice(["causal", "fifo", "wild"])
    execution = executions.run(seed, nodes=4, messages=7, order=order)
    expected = below(execution.logs)
    text = exported(lines_of(execution)).decode().splitlines()
    seen = dict.fromkeys(range(4), 0)
    for event, stamp in zip(text[::2], text[1::2], strict=True):
        host, _, clock = stamp.partition(" ")
        node = int(host[1:])
        at, seen[node] = seen[node], seen[node] + 1
        kind, (source, number) = execution.logs[node][at]
        assert event == f"{kind} {source}:{number}"
        counts = {f"n{n}": sum(1 for row in expected[node, at] if row[0] == n) for n in range(4)}
        counts[host] += 1
        assert json.loads(clock) == {name: count for name, count in counts.items() if count}
    assert list(seen.values()) == list(map(len, execution.logs))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_written_clocks_are_closed_and_a_spoilt_one_is_not(seed):
    execution = executions.run(seed, nodes=3, messages=6, order="wild")
    content = exported(lines_of(execution))
    (history,) = load(io.BytesIO(content))
    report = audit(history)
    assert report.verdict in ("held", "unknown")  # unknown: nothing was delivered
    assert report.messages == sum(map(len, execution.logs))
    assert report.phantom == report.violations == 0
    # Somebody knows an event whose past it does not know.
    stamps = content.decode().splitlines()[1::2]
    deepest = max(stamps, key=lambda stamp: len(json.loads(stamp.partition(" ")[2])))
    host, _, text = deepest.partition(" ")
    clock = json.loads(text)
    assume(len(clock) > 1)
    event = f'look\nnew {{"{host}":{clock[host]},"new":1}}\n'.encode()
    assert audit(load(io.BytesIO(content + event))[0]).violations


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
