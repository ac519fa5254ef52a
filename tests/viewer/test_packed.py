"""What a page holds, against the log read by other means: brute force over lists of events."""

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


def timed_rows(execution, rng):
    """Rows (node, kind, message, time) in an order that keeps causes before effects, if it can."""
    left = [list(log) for log in execution.logs]
    sent = set()
    known = execution.broadcasts()
    rows = []
    time_us = 0
    while any(left):
        free = [
            node
            for node, log in enumerate(left)
            if log and (log[0][0] == BROADCAST or log[0][1] in sent or log[0][1] not in known)
        ]
        node = rng.choice(free or [node for node, log in enumerate(left) if log])
        kind, message = left[node].pop(0)
        if kind == BROADCAST:
            sent.add(message)
        time_us += rng.choice((0, 1, 700, 40_000))
        rows.append((f"n{node}", kind, f"{message[0]}:{message[1]}", time_us))
    return rows


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
    rows = timed_rows(execution, rng)
    lanes = {row[0] for row in rows}
    if len(lanes) < 2:
        return
    path = write(tmp_path_factory.mktemp("log") / "log.jsonl", rows)
    (trace,) = traces_of(html(path))
    # Nodes without a row are not in a log of lines.
    assert trace.head["lanes"] == sorted(lanes)
    check(trace, execution, rows)


def test_a_causal_run_has_no_violation_and_its_twin_has_one(tmp_path):
    execution = executions.run(5, nodes=4, messages=10, order="causal", drain=True)
    rows = timed_rows(execution, random.Random(5))
    (trace,) = traces_of(html(write(tmp_path / "held.jsonl", rows)))
    assert not any(event.is_violation for event in trace.events)
    for log in execution.logs:
        past = executions.pasts(execution)
        swapped = [
            at
            for at in range(len(log) - 1)
            if log[at][0] == log[at + 1][0] == DELIVER and log[at][1] in past[log[at + 1][1]]
        ]
        if swapped:
            at = swapped[0]
            log[at], log[at + 1] = log[at + 1], log[at]
            break
    rows = timed_rows(execution, random.Random(5))
    (trace,) = traces_of(html(write(tmp_path / "twin.jsonl", rows)))
    assert sum(event.is_violation for event in trace.events) >= 1
    check(trace, executions.Execution(execution.logs, complete=False), rows)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_without_times_causes_stand_left_of_effects(tmp_path_factory, seed):
    rng = random.Random(seed)
    execution = executions.run(
        seed, nodes=rng.randint(2, 4), messages=rng.randint(1, 8), order="wild"
    )
    rows = timed_rows(execution, rng)
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
    rows = timed_rows(execution, random.Random(3))
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


def test_the_busiest_window_is_the_shortest(tmp_path, monkeypatch):
    monkeypatch.setattr(window, "SCREEN_EVENTS", 5)
    execution = executions.run(2, nodes=3, messages=12, order="causal")
    rows = timed_rows(execution, random.Random(8))
    page = html(write(tmp_path / "log.jsonl", rows))
    opening = head_of(page)["opening"]
    assert opening["why"] == "busiest window"
    times = sorted(row[3] for row in rows)
    shortest = min(b - a for a, b in zip(times, times[4:], strict=False))
    span = opening["to_us"] - opening["from_us"]
    assert span == pytest.approx(shortest + 2 * max(1.0, 0.08 * shortest))


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
