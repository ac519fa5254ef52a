"""Members that join later, leave and come back: the audit against the literal definition."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import causal_order as audit
from precedes.model import EventKind
from precedes.trace import History, TraceWriter, read_trace
from tests.audit import executions
from tests.audit.executions import BROADCAST, DELIVER, NEVER


def positions(execution, joins, node, past):
    """Where each message stands at a node; a join before row k stands at k - 1/2."""
    place = {}
    for m in sorted(past, key=lambda m: (len(past[m]), m)):
        place[m] = executions.position(execution, node, m)
        if place[m] == NEVER:
            need = max((place[x] for x in past[m]), default=-1)
            later = [row - 0.5 for at, row in joins if at == node and row - 0.5 >= need]
            place[m] = min(later, default=NEVER)
    return place


def judge(execution, joins, departed):
    """Violations and losses, from the rules in words."""
    past = executions.pasts(execution)
    violations = set()
    lost = 0
    for node, log in enumerate(execution.logs):
        place = positions(execution, joins, node, past)
        delivered = {m for kind, m in log if kind == DELIVER}
        for m in delivered:
            if any(place[y] > place[m] for y in past[m]):
                violations.add((node, m))
        if node not in departed:
            lost += sum(place[m] == NEVER for m in past if m[0] != node)
    return violations, lost


def with_members(execution, joins, departed):
    history = execution.history()
    fields = {name: getattr(history, name) for name in History.__dataclass_fields__}
    fields["join_node"] = np.array([node for node, _ in joins], np.int32)
    fields["join_row"] = np.array([row for _, row in joins], np.int64)
    fields["departed"] = np.array(departed, np.int32)
    return History(**fields)


@st.composite
def histories(draw):
    """An execution, and joins and leaves somewhere in it."""
    execution = executions.run(
        draw(st.integers(0, 10**6)),
        nodes=draw(st.integers(2, 5)),
        messages=draw(st.integers(0, 14)),
        order=draw(st.sampled_from(("causal", "fifo", "wild"))),
        loss=draw(st.sampled_from((0.0, 0.3, 0.6))),
        own=draw(st.sampled_from(("none", "later"))),
    )
    rng = random.Random(draw(st.integers(0, 10**6)))
    joins = sorted(
        (node, rng.randrange(len(log) + 1))
        for node, log in enumerate(execution.logs)
        for _ in range(rng.choice((0, 1, 1, 2)))
    )
    departed = [node for node in range(len(execution.logs)) if rng.random() < 0.2]
    return execution, joins, departed


@given(histories())
@settings(max_examples=100)
def test_agrees_with_the_definition(drawn):
    execution, joins, departed = drawn
    history = with_members(execution, joins, departed)
    violations, lost = judge(execution, joins, departed)
    report = audit.audit(history)
    assert report.violations == len(violations)
    assert report.lost == (lost if execution.complete else 0)
    for witness in report.witnesses:
        if witness.steps:
            executions.check_path(execution, witness)


def late_joiner(*, dependent):
    """Node 1 joins late and delivers 0:3, or, dependent, 0:1 and 0:3 without 0:2 between them."""
    logs = [[(BROADCAST, (0, 1)), (BROADCAST, (0, 2)), (BROADCAST, (0, 3))], []]
    logs[1] = [(DELIVER, (0, 1)), (DELIVER, (0, 3))] if dependent else [(DELIVER, (0, 3))]
    return executions.Execution(logs)


def test_a_late_joiner_need_not_have_what_was_before():
    assert audit.audit(late_joiner(dependent=False).history()).verdict == "violated"
    report = audit.audit(with_members(late_joiner(dependent=False), [(1, 0)], []))
    assert (report.verdict, report.lost) == ("held", 0)


def test_a_late_joiner_must_have_what_follows_its_own_deliveries():
    report = audit.audit(with_members(late_joiner(dependent=True), [(1, 0)], []))
    assert report.verdict == "violated"
    assert "never delivered 0:2" in report.witnesses[0].sentence
    # Unless it joined a second time in between.
    report = audit.audit(with_members(late_joiner(dependent=True), [(1, 0), (1, 1)], []))
    assert report.verdict == "held"


@pytest.mark.parametrize("left", [False, True])
def test_traces_keep_joins_and_leaves(tmp_path, left):
    """What is missing at the end is lost, unless the member has left."""
    rows = [
        (0, EventKind.JOIN, 0, 0),
        (1, EventKind.JOIN, 1, 0),
        (0, EventKind.BROADCAST, 0, 1),
        (1, EventKind.DELIVER, 0, 1),
        *([(1, EventKind.LEAVE, 1, 0)] if left else []),
        (0, EventKind.BROADCAST, 0, 2),
    ]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    path = tmp_path / "t.parquet"
    with TraceWriter(path, nodes=2) as writer:
        times = np.arange(len(rows)) * 1000
        writer.write(times, *columns, np.full(len(rows), -1))
    history = read_trace(path)[0]
    assert history.join_node.tolist() == [0, 1]
    assert history.join_row.tolist() == [0, 0]
    assert history.departed.tolist() == ([1] if left else [])
    assert audit.audit(history).lost == (0 if left else 1)
