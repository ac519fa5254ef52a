"""Members that join later, leave and come back: the audit against the literal definition."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes import audit
from precedes.errors import UserError
from precedes.model import EventKind, Events
from precedes.trace import TraceWriter, read_trace
from tests.audit.test_agreement import SEEDS, agreed, honest, scrambled
from tests.support import executions
from tests.support.executions import BROADCAST, DELIVER, Execution


@st.composite
def with_members(draw):
    """Executions of every kind, and joins and leaves somewhere in them."""
    execution = draw(honest() | scrambled())
    return executions.with_members(execution, random.Random(draw(SEEDS)))


@given(with_members())
@settings(max_examples=200)
def test_agrees_with_the_definition(execution):
    report, expected = agreed(execution)
    kinds = {"violation": "violations", "duplicate": "duplicates", "lost": "lost"}
    kinds |= {"phantom": "phantom", "cycle": "cycles"}
    assert {witness.kind for witness in report.witnesses} == {
        kind for kind, name in kinds.items() if expected[name]
    }


def late_joiner(*joins):
    """Node 1 delivers 0:1, then 0:3; it joins before a row with some state."""
    a, b, c = (0, 1), (0, 2), (0, 3)
    logs = [[(BROADCAST, a), (BROADCAST, b), (BROADCAST, c)], [(DELIVER, a), (DELIVER, c)]]
    return audit.audit(Execution(logs, joins=[(1, row, m) for row, m in joins]).history())


def test_a_join_excuses_what_its_node_begins_with_and_nothing_else():
    assert late_joiner().verdict == "violated"
    assert late_joiner((1, (0, 2))).verdict == "held"
    for join in [(0, None), (1, None), (1, (0, 1)), (2, None)]:
        report = late_joiner(join)
        assert (report.verdict, report.violations, report.lost) == ("violated", 1, 1), join
        assert "never delivered 0:2" in report.witnesses[0].sentence
    report = late_joiner((2, (0, 2)))
    assert (report.violations, report.lost) == (1, 0)
    assert "delivered 0:3 before it joined with 0:2" in report.witnesses[0].sentence


def test_what_a_node_began_with_is_not_delivered_again():
    report = late_joiner((0, (0, 2)))
    assert (report.violations, report.duplicates, report.lost) == (0, 1, 0)
    assert report.witnesses[0].sentence == "node 1 delivered 0:1, which it had joined with."


def test_nobody_begins_with_what_nobody_broadcast():
    report = late_joiner((1, (0, 2)), (1, (0, 9)))
    assert (report.verdict, report.phantom) == ("violated", 1)
    assert report.witnesses[0].sentence == "node 1 joined with 0:9, which nobody broadcast."


def test_founders_may_join_and_nothing_is_excused_by_it():
    """A join before every node's first row, with nothing: the report is that of before."""
    for seed in range(20):
        execution = executions.run(seed, nodes=4, messages=15, order="wild", loss=0.2)
        before = audit.audit(execution.history())
        assert before.verdict == "violated"
        execution.joins = [(node, 0, None) for node in range(4)]
        assert audit.audit(execution.history()) == before


def test_own_messages_are_due_where_sources_deliver_theirs():
    """If one source delivers a message of its own, every member owes itself its own."""
    a, b = (0, 1), (1, 1)
    logs = [
        [(BROADCAST, a), (DELIVER, a), (DELIVER, b)],
        [(DELIVER, a), (BROADCAST, b)],
    ]
    report = audit.audit(Execution(logs).history())
    assert (report.verdict, report.lost) == ("violated", 1)
    assert report.witnesses[0].sentence == (
        "node 1 never delivered 1:1, which it broadcast, though the run is complete, it did not "
        "crash, and in this run sources deliver their own messages."
    )
    assert audit.audit(Execution([[logs[0][0], logs[0][2]], logs[1]]).history()).verdict == "held"
    execution = Execution(logs, joins=[(1, 2, b)])
    assert audit.audit(execution.history()).verdict == "held"


@pytest.mark.parametrize("left", [False, True])
def test_traces_keep_joins_and_leaves(tmp_path, left):
    """A message missing at the end is lost, unless the member has left."""
    rows = [
        (0, EventKind.JOIN, 0, 0),
        (0, EventKind.BROADCAST, 0, 1),
        (1, EventKind.JOIN, 1, 0),
        (1, EventKind.JOIN, 0, 1),
        (0, EventKind.BROADCAST, 0, 2),
        (1, EventKind.DELIVER, 0, 2),
        *([(1, EventKind.LEAVE, 1, 0)] if left else []),
        (0, EventKind.BROADCAST, 0, 3),
    ]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    path = tmp_path / "t.parquet"
    with TraceWriter(path, nodes=2) as writer:
        times = np.arange(len(rows)) * 1000
        writer.write(Events(times, *columns, np.full(len(rows), -1)))
    history = read_trace(path)[0]
    assert history.join_node.tolist() == [0, 1, 1]
    assert history.join_row.tolist() == [0, 0, 0]
    assert history.join_message.tolist() == [-1, -1, 0]
    assert history.departed.tolist() == ([1] if left else [])
    report = audit.audit(history)
    assert (report.lost, report.violations) == (0 if left else 1, 0)


def test_a_join_that_compiled_code_could_not_index_is_refused():
    history = Execution([[(BROADCAST, (0, 1))], []], joins=[(1, 0, (0, 1))]).history()
    fields = {name: getattr(history, name) for name in history.__dataclass_fields__}
    wrong = [("join_message", [1]), ("join_message", [-2]), ("join_message", [0, 0])]
    for name, value in [*wrong, ("join_row", [1]), ("join_row", [-1]), ("join_node", [2])]:
        with pytest.raises(UserError, match="join"):
            type(history)(**{**fields, name: np.array(value)})


@pytest.mark.parametrize("row", [0, 1])
def test_a_join_with_an_own_message_only_excuses_its_delivery(row):
    """The node has it from its delivery or broadcast on, so a delivery is not a duplicate."""
    own, other = (0, 1), (1, 1)
    logs = [[(BROADCAST, own), (DELIVER, own)], [(BROADCAST, other), (DELIVER, other)]]
    logs[0] += [(DELIVER, other)]
    logs[1] += [(DELIVER, own)]
    report, _ = agreed(Execution(logs, joins=[(0, row, own)]))
    assert (report.verdict, report.duplicates) == ("held", 0)
    # The same with a message of another node.
    report, _ = agreed(Execution(logs, joins=[(0, row, other)]))
    assert (report.verdict, report.duplicates) == ("violated", 1)
    # Without its delivery, the join is what makes up for it.
    del logs[0][1]
    report, _ = agreed(Execution(logs, joins=[(0, row, own)]))
    assert (report.verdict, report.lost) == ("held", 0)
    report, _ = agreed(Execution(logs))
    assert (report.verdict, report.lost) == ("violated", 1)
