"""The data of a page, compared with the log by brute force over lists of events."""

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.viewer import html, window
from tests.support import executions
from tests.support.executions import BROADCAST, DELIVER
from tests.support.unpacked import head_of, traces_of

SEEDS = st.integers(0, 2**32 - 1)


def write(path, rows, *, timed=True):
    lines = [
        {"node": node, "kind": kind, "message": message, **({"time_us": time_us} if timed else {})}
        for node, kind, message, time_us in rows
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def check(trace, execution, rows):
    """The whole of a log, event by event, and every violation of the definition."""
    assert [(e.lane, e.kind, e.message, e.time_us) for e in trace.events] == sorted(
        ((node, kind, message, time_us) for node, kind, message, time_us in rows),
        key=lambda row: (row[3], row[0]),
    )
    found = executions.judge(execution)
    wrong = {(f"n{node}", f"{m[0]}:{m[1]}") for node, m in found["pairs"]}
    assert {(e.lane, e.message) for e in trace.events if e.is_violation} == wrong
    assert trace.head["left_out"] is None
    assert trace.head["adjusted"] == 0
    listed = [v for v in trace.head["violations"] if v["kind"] == "violation"]
    assert len(listed) == len(wrong)
    for one in listed:
        check_path(trace, execution, one)


def check_path(trace, execution, one):
    """A path is a chain of happened-before from what was lacked to what came too early."""
    path = [trace.events[at] for at in one["path"]]
    for before, after in itertools.pairwise(one["path"]):
        a, b = trace.events[before], trace.events[after]
        if a.lane == b.lane:
            assert before < after
        else:
            assert (a.kind, b.kind, a.message) == ("broadcast", "deliver", b.message)
    names = trace.head["message_names"]
    first, last = path[0], path[-1]
    assert one["event"] == one["path"][-1]
    assert last.is_violation
    assert trace.head["lanes"][one["lane"]] == last.lane
    assert (names[one["message"]], names[one["lacked"]]) == (last.message, first.message)
    as_pair = [tuple(map(int, e.message.split(":"))) for e in (first, last)]
    assert as_pair[0] in executions.pasts(execution)[as_pair[1]]
    node = int(last.lane[1:])
    lacked, message = as_pair
    assert executions.position(execution, node, lacked) > executions.position(
        execution, node, message
    )


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_page_is_its_log(tmp_path_factory, seed):
    rng = random.Random(seed)
    order = rng.choice(("causal", "fifo", "wild"))
    execution = executions.run(
        seed, nodes=rng.randint(2, 5), messages=rng.randint(1, 12), order=order, drain=False
    )
    execution.complete = False
    rows = executions.timed_rows(execution, rng)
    lanes = {row[0] for row in rows}
    if len(lanes) < 2:
        return
    path = write(tmp_path_factory.mktemp("log") / "log.jsonl", rows)
    (trace,) = traces_of(html(path))
    # Nodes without a row are not in a log of lines.
    assert trace.head["lanes"] == sorted(lanes)
    check(trace, execution, rows)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_without_times_causes_stand_left_of_effects(tmp_path_factory, seed):
    rng = random.Random(seed)
    execution = executions.run(
        seed, nodes=rng.randint(2, 4), messages=rng.randint(1, 8), order="wild"
    )
    rows = executions.timed_rows(execution, rng)
    if len({row[0] for row in rows}) < 2:
        return
    path = write(tmp_path_factory.mktemp("log") / "log.jsonl", rows, timed=False)
    (trace,) = traces_of(html(path))
    assert trace.head["has_time"] is False
    depth = {}
    own = {}
    for node, kind, message, _ in rows:  # causes come first in this order
        sent = depth.get(("broadcast", message), 0) if kind == DELIVER else 0
        own[node] = max(own.get(node, 0), sent) + 1
        depth.setdefault((kind, message), own[node])
        depth[node, kind, message] = own[node]
    for event in trace.events:
        assert event.time_us == 1000 * depth[event.lane, event.kind, event.message]


@pytest.fixture
def long_log(tmp_path):
    """A run of 6 nodes that is cut everywhere below, and its rows."""
    execution = executions.run(11, nodes=6, messages=60, order="wild")
    rows = executions.timed_rows(execution, random.Random(3))
    return write(tmp_path / "log.jsonl", rows), rows, execution


def names(trace):
    return {(e.lane, e.kind, e.message) for e in trace.events}


def test_a_window(long_log):
    path, rows, _ = long_log
    times = sorted(row[3] for row in rows)
    first, last = times[50], times[200]
    (trace,) = traces_of(html(path, from_us=first, to_us=last))
    inside = {row[:3] for row in rows if first <= row[3] <= last}
    assert names(trace) == inside
    out = trace.head["left_out"]
    assert out["events"] == len(rows) - len(inside)
    assert (out["before_us"], out["after_us"]) == (first - times[0], times[-1] - last)
    assert f"{out['events']:,} of {len(rows):,} events are left out" in out["sentence"]
    assert (trace.head["begin_us"], trace.head["end_us"]) == (first, last)


def test_a_window_with_too_much_in_it_keeps_its_beginning(long_log):
    path, rows, _ = long_log
    times = sorted(row[3] for row in rows)
    (trace,) = traces_of(html(path, from_us=times[50], events=40))
    assert len(trace.events) == 40
    kept = [e.time_us for e in trace.events]
    assert kept == [time for time in times if time >= times[50]][:40]


def test_nodes(long_log):
    path, rows, _ = long_log
    (trace,) = traces_of(html(path, nodes=("n4", "n1")))
    assert trace.head["lanes"] == ["n1", "n4"]
    assert names(trace) == {row[:3] for row in rows if row[0] in ("n1", "n4")}
    assert trace.head["left_out"]["lanes"] == ["n0", "n2", "n3", "n5"]
    for name, source in zip(trace.head["message_names"], trace.sources, strict=True):
        assert source == (f"n{name[0]}" if name[0] in "14" else None)


def test_around_a_message_what_is_nearest_stays(long_log):
    path, rows, _ = long_log
    name = rows[len(rows) // 2][2]
    (sent,) = [row[3] for row in rows if row[1:3] == (BROADCAST, name)]
    page = html(path, around=name, events=80)
    (trace,) = traces_of(page)
    own = {row[:3] for row in rows if row[2] == name}
    assert own <= names(trace)
    assert len(trace.events) <= 80
    others = [abs(e.time_us - sent) for e in trace.events if e.message != name]
    away = [abs(row[3] - sent) for row in rows if row[:3] not in names(trace)]
    assert max(others) <= min(away)
    opening = head_of(page)["opening"]
    assert (opening["why"], opening["violation"]) == ("asked for", None)
    assert trace.head["message_names"][opening["message"]] == name
    for row in rows:
        if row[2] == name:
            assert opening["from_us"] < row[3] < opening["to_us"]


def test_the_path_of_a_violation_is_there_however_little_is_kept(long_log):
    path, _, execution = long_log
    (whole,) = traces_of(html(path))
    for number in (1, len(whole.head["violations"]) // 2, len(whole.head["violations"])):
        page = html(path, violation=number, events=12)
        (trace,) = traces_of(page)
        at = head_of(page)["opening"]["violation"]
        one = trace.head["violations"][at]
        assert one["number"] == number
        assert one["sentence"] == whole.head["violations"][number - 1]["sentence"]
        check_path(trace, execution, one)
        count = len(whole.head["violations"][number - 1]["path"])
        assert len(one["path"]) == count
        assert len(trace.events) <= max(12, count + 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_busiest_window_has_most_messages_from_node_to_node(tmp_path, seed):
    """Of all windows with eight events a node, by counting the messages in each of them."""
    execution = executions.run(seed, nodes=3, messages=40, order="causal")
    page = html(write(tmp_path / "log.jsonl", executions.timed_rows(execution, random.Random(8))))
    opening = head_of(page)["opening"]
    assert opening["why"] == "busiest window"
    (trace,) = traces_of(page)
    sent = {e.message: at for at, e in enumerate(trace.events) if e.kind == "broadcast"}
    flights = [(sent[e.message], at) for at, e in enumerate(trace.events) if e.kind == "deliver"]
    counts = [
        sum(first <= low and high < first + 24 for low, high in flights)
        for first in range(len(trace.events) - 23)
    ]
    first = counts.index(max(counts))
    assert counts[first] > 0
    low, high = (trace.events[at].time_us for at in (first, first + 23))
    margin = max(1.0, 0.08 * (high - low))
    assert (opening["from_us"], opening["to_us"]) == (low - margin, high + margin)


def test_a_window_for_messages_that_take_long(tmp_path):
    """No message arrives within a window of the usual size: the one that arrives first is shown."""
    rows = [("a", "broadcast", "x", 1), ("a", "broadcast", "y", 2)]
    rows += [("c", "broadcast", f"c{k}", 10 + k) for k in range(40)]
    rows += [("b", "deliver", "y", 60), ("b", "deliver", "x", 61)]
    opening = head_of(html(write(tmp_path / "log.jsonl", rows)))["opening"]
    assert opening["from_us"] < 2 < 60 < opening["to_us"]
    assert opening["from_us"] > -4


def test_piece_by_piece_gives_the_same_page(long_log, monkeypatch):
    path, _, _ = long_log
    asked = [{}, {"events": 50}, {"violation": 3, "events": 30}, {"from_us": 9_000, "events": 20}]
    whole = [html(path, **one) for one in asked]
    monkeypatch.setattr("precedes.viewer.events.KEPT_ROWS", 0)
    monkeypatch.setattr(window, "SPARE_ROWS", 0)
    assert [html(path, **one) for one in asked] == whole


def test_times_that_go_back_are_moved_and_counted(tmp_path):
    rows = [
        ("a", BROADCAST, "x", 100),
        ("b", DELIVER, "x", 90),  # another clock: nothing is wrong with that
        ("b", BROADCAST, "y", 50),
        ("b", BROADCAST, "z", 95),
        ("a", DELIVER, "y", 120),
    ]
    (trace,) = traces_of(html(write(tmp_path / "log.jsonl", rows)))
    assert [(e.message, e.time_us) for e in trace.events if e.lane == "b"] == [
        ("x", 90),
        ("y", 90),
        ("z", 95),
    ]
    assert trace.head["adjusted"] == 1
    assert [e.time_us for e in trace.events] == sorted(e.time_us for e in trace.events)
