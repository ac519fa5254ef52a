"""Traces and logs of other formats: waits, marks, and that all of them give the same events."""

import json
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.errors import UserError
from precedes.model import EventKind
from precedes.sim import Fault, Scenario, simulate
from precedes.trace import Dialect, event_batches, read_metadata
from precedes.trace.export import to_csv, to_jsonl
from precedes.trace.member_log import ENDED, OPEN, LogWriter, view_row
from precedes.viewer import html, window
from tests.support import live_logs, logs
from tests.support.unpacked import traces_of

B, R, D, C = EventKind.BROADCAST, EventKind.RECEIVE, EventKind.DELIVER, EventKind.CRASH
DISCARD, JOIN, LEAVE = EventKind.DISCARD, EventKind.JOIN, EventKind.LEAVE


def written(path, rows, *, nodes):
    """A trace of rows (node, kind, source, sequence), a millisecond apart."""
    logs.write(path, logs.events(rows), nodes=nodes)
    return path


def brute_waits(path):
    """Of a trace, (node, message) -> microseconds from its first arrival to its first delivery."""
    came, done = {}, {}
    for row in pq.read_table(path).to_pylist():
        pair = (str(row["node"]), f"{row['source']}:{row['seq']}")
        if row["kind"] == "receive":
            came[pair] = min(row["time_us"], came.get(pair, row["time_us"]))
        elif row["kind"] == "deliver":
            done[pair] = min(row["time_us"], done.get(pair, row["time_us"]))
    return {pair: done[pair] - came.get(pair, done[pair]) for pair in done}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The same load with causal order, without, and with all packets."""
    folder = tmp_path_factory.mktemp("traces")
    found = {}
    for name, protocol, packets in (
        ("vector", "vector", False),
        ("unordered", "unordered", False),
        ("packets", "vector", True),
    ):
        scenario = Scenario(protocol=protocol, nodes=6, seed=4, messages=120)
        found[name] = folder / f"{name}.parquet"
        simulate(scenario, trace=found[name], packets=packets, tier="interpreted")
    return found


@pytest.mark.parametrize("name", ["vector", "unordered", "packets"])
def test_waits_are_those_of_the_trace(simulated, name):
    (trace,) = traces_of(html(simulated[name]))
    waits = brute_waits(simulated[name])
    reported = {(e.lane, e.message): e.wait_us for e in trace.events if e.kind == "deliver"}
    assert reported == waits
    assert any(waits.values()) == (name != "unordered")
    assert trace.head["protocol"] == ("unordered" if name == "unordered" else "vector")


@pytest.mark.parametrize("name", ["vector", "packets"])
def test_waits_that_began_before_the_window_are_known(simulated, name):
    whole = brute_waits(simulated[name])
    longest = max(whole, key=whole.get)
    assert whole[longest] > 0
    (trace,) = traces_of(html(simulated[name]))
    (end,) = [
        e.time_us for e in trace.events if (e.lane, e.message, e.kind) == (*longest, "deliver")
    ]
    (cut,) = traces_of(html(simulated[name], from_us=int(end), to_us=int(end)))
    reported = {(e.lane, e.message): e.wait_us for e in cut.events if e.kind == "deliver"}
    assert reported[longest] == whole[longest]
    # A message that arrives in a window and is delivered after it does not count as undelivered.
    start = int(end) - whole[longest]
    (early,) = traces_of(html(simulated[name], from_us=start, to_us=int(end) - 1))
    assert [e for e in early.events if e.kind == "pending"] == []


def test_a_trace_by_row_groups_gives_the_same_page(simulated, monkeypatch):
    asked = [{}, {"events": 70}, {"around": "2:3", "events": 40}]
    whole = [html(simulated["unordered"], **one) for one in asked]
    monkeypatch.setattr("precedes.viewer.events.KEPT_ROWS", 0)
    monkeypatch.setattr("precedes.viewer.opened.HELD_ROWS", 0)
    monkeypatch.setattr("precedes.viewer.shown.LISTED_FROM_DISK_MAX", 1_000)
    monkeypatch.setattr("precedes.viewer.events.BATCH_ROWS", 17)
    monkeypatch.setattr(window, "SPARE_ROWS", 0)
    assert [html(simulated["unordered"], **one) for one in asked] == whole
    monkeypatch.setattr("precedes.viewer.shown.LISTED_FROM_DISK_MAX", 3)
    (trace,) = traces_of(html(simulated["unordered"]))
    every = sum(event.is_violation for event in trace.events)
    assert len(trace.head["violations"]) == 3
    assert trace.head["violations_more"] == every - 3 > 0


def test_no_more_is_held_than_is_kept(simulated, monkeypatch):
    most = []
    joined = window.joined

    def counted(chunks):
        found = joined(chunks)
        most.append(found.node.size)
        return found

    monkeypatch.setattr(window, "joined", counted)
    monkeypatch.setattr("precedes.viewer.events.KEPT_ROWS", 0)
    monkeypatch.setattr("precedes.viewer.events.BATCH_ROWS", 17)
    monkeypatch.setattr(window, "SPARE_ROWS", 0)
    (trace,) = traces_of(html(simulated["unordered"], events=50))
    assert len(trace.events) <= 50
    assert trace.head["left_out"]["events"] > 500
    assert max(most) <= 2 * 50 + 17 + 6  # and the path of the violation


def test_what_was_dropped_or_never_delivered_has_a_mark(tmp_path):
    rows = [(0, B, 0, 1), (0, B, 0, 2), (1, R, 0, 2), (2, R, 0, 2), (2, DISCARD, 0, 2)]
    rows += [(2, D, 0, 1)]
    (trace,) = traces_of(html(written(tmp_path / "t.parquet", rows, nodes=3)))
    reported = [(e.lane, e.kind, e.message, e.wait_us) for e in trace.events]
    assert ("1", "pending", "0:2", None) in reported
    assert ("2", "discard", "0:2", 1000) in reported
    assert ("2", "deliver", "0:1", 0) in reported
    assert len(reported) == 5


def test_marks_of_nodes(tmp_path):
    rows = [
        (0, JOIN, 0, 0),
        (0, B, 0, 1),
        (1, D, 0, 1),
        (2, LEAVE, 2, 0),
        (2, JOIN, 2, 0),
        (2, JOIN, 0, 1),
        (0, B, 0, 2),
        (2, D, 0, 2),
        (1, C, 1, 0),
        (0, B, 0, 3),
    ]
    columns = logs.events(rows)
    columns["time_ns"][5] = columns["time_ns"][4]  # a state of several rows is one join
    logs.write(tmp_path / "t.parquet", columns, nodes=3)
    (trace,) = traces_of(html(tmp_path / "t.parquet", nodes=("0", "1", "2")))
    marks = [(m["lane"], m["time_us"], m["kind"]) for m in trace.head["marks"]]
    assert marks == [(2, 3000, "leave"), (2, 4000, "recover"), (1, 8000, "crash")]
    text = trace.head["marks"][1]["text"]
    assert text.startswith("came back, beginning with 0:1")
    # That of node 0 lies before the first event, and is not on the page.
    assert trace.head["begin_us"] == 1000


def test_a_crash_without_a_time_stands_at_the_end_of_its_lane(tmp_path):
    lines = [
        {"node": "a", "kind": "broadcast", "message": "x", "time_us": 10},
        {"node": "b", "kind": "deliver", "message": "x", "time_us": 20},
        {"node": "b", "kind": "crash"},
        {"node": "a", "kind": "broadcast", "message": "y", "time_us": 40},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (trace,) = traces_of(html(path))
    (mark,) = trace.head["marks"]
    assert (mark["lane"], mark["time_us"], mark["kind"]) == (1, 20, "crash")


LINES = [
    ("n0", "broadcast", "a", 1000),
    ("n1", "receive", "b", 1500),
    ("n2", "deliver", "a", 2000),
    ("n2", "broadcast", "b", 3000),
    ("n1", "deliver", "a", 5000),
    ("n1", "deliver", "b", 5500),
    ("n0", "deliver", "b", 7000),
    ("n0", "discard", "c", 7500),
    ("n1", "broadcast", "c", 9000),
]
KEYS = ("node", "kind", "message", "time_us")


def as_lines(rows):
    return "\n".join(json.dumps(dict(zip(KEYS, row, strict=True))) for row in rows)


def test_formats_agree(tmp_path):
    columns = dict(zip(KEYS, map(list, zip(*LINES, strict=True)), strict=True))
    seq = {"local_seq": [*range(len(LINES))]}
    places = {}

    def put(name, content, **said):
        places[name] = (tmp_path / name, said)
        (tmp_path / name).write_bytes(content)

    put("plain.jsonl", as_lines(LINES).encode())
    put("odd.jsonl", ("\n" + as_lines(LINES)).encode())  # read line by line
    table = pa.table({**columns, **seq})
    order = random.Random(1).sample(range(len(LINES)), len(LINES))
    pq.write_table(table.take(pa.array(order)), tmp_path / "t.parquet")
    places["t.parquet"] = (tmp_path / "t.parquet", {})
    header = ",".join(KEYS)
    rows = "\n".join(",".join(map(str, row)) for row in LINES)
    put("t.csv", f"{header}\n{rows}\n".encode())
    theirs = f"{header}\n{rows}\n".replace("receive", "came")
    dialect = Dialect(kinds={"came": "receive"}, pictured=True)
    put("theirs.csv", theirs.encode(), dialect=dialect)
    text = "\n".join(f"{t} {node} {kind} {message}" for node, kind, message, t in LINES)
    parser = r"^(?<timestamp>\d+) (?<host>\S+) (?<kind>\w+) (?<message>\S+)$"
    put("t.txt", text.encode(), dialect=Dialect(parser=parser))
    reported = {}
    for name, (path, said) in places.items():
        (trace,) = traces_of(html(path, **said))
        reported[name] = [(e.lane, e.kind, e.message) for e in trace.events]
        if name == "t.txt":  # its times are nanoseconds, and waits not longer than one
            reported[name].sort()
            continue
        assert {(e.lane, e.message): e.wait_us for e in trace.events if e.wait_us} == {
            ("n1", "b"): 4000
        }, name
        assert ("n0", "discard", "c") in reported[name]
        reported[name].sort()
    assert all(rows == reported["plain.jsonl"] for rows in reported.values()), reported


def test_what_we_export_is_drawn_alike(simulated, tmp_path):
    path = simulated["unordered"]
    (own,) = traces_of(html(path))
    for name, write in (("log.jsonl", to_jsonl), ("log.csv", to_csv)):
        content = b"".join(write(event_batches(path), title="log"))
        (tmp_path / name).write_bytes(content)
        (trace,) = traces_of(html(tmp_path / name))
        fields = [(e.time_us, e.lane, e.kind, e.message, e.is_violation) for e in trace.events]
        assert fields == [
            (e.time_us, e.lane, e.kind, e.message, e.is_violation) for e in own.events
        ]
        assert trace.sequences == [own.sequences[own.names.index(n)] for n in trace.names]


def test_two_runs_of_one_log(tmp_path):
    lines = []
    for run, rows in ((1, LINES[:1] + LINES[2:4]), (2, LINES[:1])):
        lines += [{**dict(zip(KEYS, row, strict=True)), "run_id": run} for row in rows]
    wrong = [("n0", "broadcast", "a", 1), ("n0", "broadcast", "b", 2), ("n1", "deliver", "b", 3)]
    lines += [{**dict(zip(KEYS, row, strict=True)), "run_id": 7} for row in wrong]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (trace,) = traces_of(html(path))
    assert (trace.head["run"], trace.head["verdict"]) == ("7", "violated")
    (trace,) = traces_of(html(path, run="1"))
    assert [e.message for e in trace.events] == ["a", "a", "b"]
    with pytest.raises(UserError, match="no run '3': there are 1, 2, 7"):
        html(path, run="3")


def test_two_logs_of_one_scenario(simulated, tmp_path):
    page = html([simulated["unordered"], simulated["vector"]], events=300)
    one, other = traces_of(page)
    assert one.head["protocol"] == "unordered"
    span = (one.head["begin_us"], one.head["end_us"])
    assert span[0] <= other.head["begin_us"] <= other.head["end_us"] <= span[1]
    sent = [{(e.lane, e.message) for e in t.events if e.kind == "broadcast"} for t in (one, other)]
    assert sent[0] & sent[1]
    scenario = Scenario(protocol="vector", nodes=6, seed=5, messages=40)
    simulate(scenario, trace=tmp_path / "else.parquet", tier="interpreted")
    with pytest.raises(UserError, match="not of one scenario: seed is 4 in one and 5 in the other"):
        html([simulated["vector"], tmp_path / "else.parquet"])
    rows = [(0, B, 0, 1), (1, D, 0, 1)]
    few = written(tmp_path / "few.parquet", rows, nodes=2)
    with pytest.raises(UserError, match="not of one scenario: 6 and 2 nodes"):
        html([simulated["vector"], few])
    named = tmp_path / "named.jsonl"
    named.write_text(as_lines([(str(n), "broadcast", f"m{n}", n) for n in range(6)]))
    with pytest.raises(UserError, match="not of one scenario: node 0 broadcast 0:1 in one and m0"):
        html([simulated["vector"], named])


def test_hosts_that_move_and_come_back(tmp_path):
    parameters = {"mobility": "waypoint", "speed_m_per_s": 8.0}
    scenario = Scenario(
        protocol="mobile",
        nodes=6,
        seed=2,
        messages=100,
        rate=4.0,
        parameters=parameters,
        faults=(Fault(kind="pause", node=2, at_s=10.0, for_s=4.0),),
    )
    path = tmp_path / "mobile.parquet"
    result = simulate(scenario, trace=path, tier="interpreted")
    (trace,) = traces_of(html(path))
    begin, end = trace.head["begin_us"], trace.head["end_us"]
    reported = [m for m in read_metadata(path)["marks"] if begin <= m[0] <= end]
    moves = [m for m in trace.head["marks"] if m["kind"] == "handoff"]
    assert len(moves) == sum(what == "handoff" for _, _, what, _ in reported) > 3
    assert len(moves) <= result.extra["moves"]
    for mark in moves:
        (station,) = {
            s for t, host, _, s in reported if (t, host) == (mark["time_us"], mark["lane"])
        }
        words = "out of reach of all stations" if station is None else f"to station {station}"
        assert mark["text"].endswith(words)
    own = [(m["time_us"], m["kind"]) for m in trace.head["marks"] if m["lane"] == 2]
    assert (10_000_000, "crash") in own
    assert (14_000_000, "recover") in own
    # A radio's trace does not say when messages arrived.
    assert {e.wait_us for e in trace.events} == {None}


def write_members(folder, rows, views=()):
    """Logs of three members that began 1 ms after each other, of which the first was killed."""
    for member, own in rows.items():
        about = {"group": "g", "protocol": "vector", "started_unix_ns": 10**18 + member * 10**6}
        log = LogWriter(str(folder), member=member, members=3, about=about)
        packed = [
            struct.pack("<qQ", time_us * 1000, int(kind) << 56 | source << 32 | sequence)
            for time_us, kind, source, sequence in own
        ]
        log.append(packed, at_once=True)
        reported = [
            view_row(us * 1000, who, left=left) for m, us, who, left in views if m == member
        ]
        log.append(reported, at_once=True)
        log.close(OPEN if member == 0 else ENDED)


def test_logs_of_live_members(tmp_path):
    """Members that began at different times, of which one was killed."""
    rows = {
        0: [(1_000, B, 0, 1), (9_000, D, 1, 1)],
        1: [(2_000, D, 0, 1), (3_000, B, 1, 1)],
        2: [(500, R, 1, 1), (6_500, D, 0, 1), (6_500, D, 1, 1)],
    }
    write_members(tmp_path / "logs", rows)
    (trace,) = traces_of(html(tmp_path / "logs"))
    reported = {(e.lane, e.kind, e.message): (e.time_us, e.wait_us) for e in trace.events}
    assert reported == {
        ("0", "broadcast", "0:1"): (1_000, None),
        ("0", "deliver", "1:1"): (9_000, 0),
        ("1", "deliver", "0:1"): (3_000, 0),
        ("1", "broadcast", "1:1"): (4_000, None),
        ("2", "deliver", "0:1"): (8_500, 0),
        ("2", "deliver", "1:1"): (8_500, 6_000),
    }
    assert trace.head["protocol"] == "vector"
    assert [(m["lane"], m["kind"], m["time_us"]) for m in trace.head["marks"]] == [
        (0, "crash", 9_000)
    ]
    assert trace.lane("2") == [("deliver", "0:1"), ("deliver", "1:1")]


VIEWS = [(0, 9_500, 2, True), (1, 20_000, 0, False), (2, 3_000, 1, True), (1, 4_000, 7, False)]


def test_views_of_live_members(tmp_path):
    """After the last event too, unless a window ends before; of members of the group alone."""
    rows = {
        0: [(1_000, B, 0, 1)],
        1: [(2_000, D, 0, 1), (3_000, B, 1, 1)],
        2: [(6_500, D, 0, 1), (6_500, D, 1, 1)],
    }
    write_members(tmp_path / "logs", rows, VIEWS)
    write_members(tmp_path / "plain", rows)
    (trace,) = traces_of(html(tmp_path / "logs"))
    (plain,) = traces_of(html(tmp_path / "plain"))

    def reported(of):
        return [(m["lane"], m["kind"], m["time_us"], m["text"]) for m in of.head["marks"]]

    assert reported(trace) == [
        (2, "view", 5_000, "1 is out of the view (left)"),
        (0, "view", 9_500, "2 is out of the view (left)"),
        (0, "crash", 9_500, "crashed"),  # after all its rows
        (1, "view", 21_000, "0 is out of the view (excluded)"),
    ]
    assert reported(plain) == [(0, "crash", 1_000, "crashed")]
    assert (trace.head["end_us"], plain.head["end_us"]) == (21_000, 8_500)
    assert trace.events == plain.events
    assert trace.head["summary"] == plain.head["summary"]
    (cut,) = traces_of(html(tmp_path / "logs", to_us=4_000))
    assert (reported(cut), cut.head["end_us"]) == ([], 4_000)


def test_members_that_join(tmp_path):
    """Lanes have names, and numbers where these differ; marks say who joined."""
    group = live_logs.Group(7, founders=3)
    group.write(tmp_path / "logs")
    names = [life.name for life in group.lives]
    assert len(set(names)) < len(names) > 4
    (trace,) = traces_of(html(tmp_path / "logs"))
    assert trace.head["lanes"] == [f"{name} ({number})" for number, name in enumerate(names)]
    assert trace.head["verdict"] == "held"
    texts = {(m["lane"], m["text"].partition(",")[0]) for m in trace.head["marks"]}
    newcomers = [life for life in group.lives[3:] if life.items]
    for life in newcomers:
        began = any(item["kind"] == "state" for item in life.items if isinstance(item, dict))
        assert ((life.uid - 1, "joined") in texts) == began
    joined = {text for _, text in texts if text.endswith("is in the view (joined)")}
    assert f"{names[3]} (3) is in the view (joined)" in joined
    shown = {event.message.rpartition(":")[0] for event in trace.events}
    assert shown <= {str(number) for number in range(len(names))}


def test_names_that_are_numbers_are_lanes(tmp_path):
    group = live_logs.Group(1, founders=3, epochs=1)
    for life in group.lives:
        life.name = str(life.uid - 1)
    group.write(tmp_path / "logs")
    (trace,) = traces_of(html(tmp_path / "logs"))
    assert trace.head["lanes"] == ["0", "1", "2"]
