"""A correct history is held; spoilt in any one way it is convicted, with a true witness."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes import audit
from precedes.audit.report import combined_verdict
from precedes.errors import UserError
from precedes.trace import History
from tests.support import executions
from tests.support.executions import BROADCAST, DELIVER, Execution

SEEDS = st.integers(0, 2**32 - 1)


def correct(seed):
    return executions.run(seed, nodes=4, messages=12, order="causal")


def convicted(execution, kind):
    """The report on a spoilt execution, its witnesses checked."""
    report = audit.audit(execution.history())
    assert report.verdict == "violated"
    assert kind in {witness.kind for witness in report.witnesses}
    for witness in report.witnesses:
        assert witness.sentence.endswith(".")
        assert "\n" not in witness.sentence
        if witness.steps:
            executions.check_path(execution, witness)
    return report


@given(SEEDS)
def test_correct_is_held(seed):
    report = audit.audit(correct(seed).history())
    assert report.verdict == "held"
    assert report.deliveries == 12 * 3
    assert report.witnesses == ()


def test_crashed_nodes_lose_nothing():
    a, b = (0, 1), (1, 1)
    logs = [[(BROADCAST, a)], [(BROADCAST, b)], [(DELIVER, a), (DELIVER, b)]]
    assert audit.audit(Execution(logs).history()).lost == 2
    report = audit.audit(Execution(logs, crashed=[0]).history())
    assert (report.verdict, report.lost) == ("held", 0)


@pytest.mark.parametrize("logs", [[], [[], []], [[(BROADCAST, (0, 1))]]])
def test_nothing_delivered_is_unknown(logs):
    report = audit.audit(Execution(logs).history())
    assert report.verdict == "unknown"
    assert "nothing was delivered" in audit.to_text([report])


def test_nothing_delivered_of_what_was_due_is_lost():
    report = audit.audit(Execution([[(BROADCAST, (0, 1))], []]).history())
    assert (report.verdict, report.lost) == ("violated", 1)


def test_own_delivery_before_own_broadcast():
    a = (0, 1)
    execution = Execution([[(DELIVER, a), (BROADCAST, a)], [(DELIVER, a)]])
    report = convicted(execution, "cycle")
    assert (report.cycles, report.violations, report.duplicates) == (1, 0, 0)
    assert report.witnesses[0].sentence == "node 0 delivered 0:1 before it broadcast it."


def test_cycle_of_two_nodes():
    a, b = (0, 1), (1, 1)
    cycle = [[(DELIVER, b), (BROADCAST, a)], [(DELIVER, a), (BROADCAST, b)]]
    for order in ([a, b], [b, a]):
        report = convicted(Execution([*cycle, [(DELIVER, m) for m in order]]), "cycle")
        assert (report.cycles, report.violations, report.unjudged) == (2, 0, 4)
        assert "node 1 delivered 0:1 and then broadcast 1:1" in report.witnesses[0].sentence
        assert "  4 deliveries not judged" in audit.to_text([report])


def test_what_no_cycle_precedes_is_judged():
    """A violation next to a cycle is found; messages after the cycle are not judged."""
    a, b, c, d, e = (0, 1), (1, 1), (2, 1), (3, 1), (0, 2)
    logs = [
        [(DELIVER, b), (BROADCAST, a), (BROADCAST, e)],
        [(DELIVER, a), (BROADCAST, b)],
        [(BROADCAST, c)],
        [(DELIVER, c), (BROADCAST, d)],
        [(DELIVER, d), (DELIVER, c), (DELIVER, e)],
    ]
    report = convicted(Execution(logs, complete=False), "violation")
    assert (report.cycles, report.violations, report.unjudged) == (2, 1, 3)


def test_longest_paths_are_shortened_in_words_only():
    nodes = 20
    logs = [[(BROADCAST, (0, 1))]]
    for node in range(1, nodes):
        logs.append([(DELIVER, (node - 1, 1)), (BROADCAST, (node, 1))])
    execution = Execution([*logs, [(DELIVER, (nodes - 1, 1)), (DELIVER, (0, 1))]], False)
    report = audit.audit(execution.history(), witnesses=100)
    (witness,) = [w for w in report.witnesses if w.node == nodes]
    executions.check_path(execution, witness)
    assert len(witness.steps) == 3  # the message missed by the shortest path
    for node in range(1, nodes - 1):
        execution.logs[nodes].insert(node - 1, (DELIVER, (node, 1)))
    (witness,) = audit.audit(execution.history(), witnesses=1).witnesses
    assert witness.node == 2
    report = audit.audit(execution.history(), witnesses=100)
    last = [w for w in report.witnesses if w.node == nodes][-1]
    executions.check_path(execution, last)
    assert len(last.steps) == 2 * nodes - 1
    assert "... 16 more steps ..." in last.sentence
    assert len(last.sentence) < 300


def test_sentences():
    y, m = (1, 1), (0, 1)
    logs = [[(DELIVER, y), (BROADCAST, m)], [(BROADCAST, y)], [(DELIVER, m), (DELIVER, y)]]
    report = audit.audit(Execution(logs, False).history())
    assert [w.sentence for w in report.witnesses] == [
        "node 2 delivered 0:1 before 1:1, but 1:1 precedes 0:1: node 1 broadcast 1:1, node 0 "
        "delivered 1:1 and then broadcast 0:1."
    ]
    logs[2].pop()
    report = audit.audit(Execution(logs).history())
    assert [w.sentence for w in report.witnesses if w.kind == "violation"] == [
        "node 2 delivered 0:1 but never delivered 1:1, which precedes it: node 1 broadcast 1:1, "
        "node 0 delivered 1:1 and then broadcast 0:1."
    ]


def test_witnesses_are_capped_and_lowest_first():
    execution = executions.run(5, nodes=6, messages=80, order="wild")
    expected = executions.judge(execution)
    report = audit.audit(execution.history(), witnesses=3)

    def place(pair):
        is_fifo = pair in expected["fifo_pairs"]
        return is_fifo, pair[0], executions.position(execution, *pair)

    names = [(w.node, tuple(map(int, w.message_name.split(":")))) for w in report.witnesses]
    assert names == sorted(expected["pairs"], key=place)[:3]
    assert audit.audit(execution.history(), witnesses=0).witnesses == ()


def test_reports_are_combined():
    good = audit.audit(correct(1).history())
    none = audit.audit(Execution([[]]).history())
    execution = correct(2)
    execution.logs[0].append((DELIVER, (3, 50)))
    bad = audit.audit(execution.history())
    assert combined_verdict([good, good]) == "held"
    assert combined_verdict([good, none]) == "unknown"
    assert combined_verdict([none, bad, good]) == "violated"
    assert combined_verdict([]) == "unknown"
    found = audit.to_json([good, bad])
    assert (found["verdict"], found["runs"], found["phantom"]) == ("violated", 2, 1)
    assert found["deliveries"] == good.deliveries + bad.deliveries
    assert set(found) >= {"violations", "lost", "duplicates", "undelivered_at_end", "cycles"}
    assert found["witnesses"][0]["kind"] == "phantom"
    assert audit.to_text([good]) == "held: 36 deliveries\n"
    assert audit.to_text([good, bad]).startswith("violated: 2 runs, 73 deliveries\n")


@pytest.mark.parametrize(
    ("deliveries", "violations", "messages", "headline"),
    [
        (1, 0, 0, "violated: 1 delivery\n"),
        (1, 1, 1, "violated: 1 of 1 delivery out of causal order\n"),
        (4, 1, 1, "violated: 1 of 4 deliveries out of causal order\n"),
        (4000, 3, 1, "violated: 3 of 4,000 deliveries out of causal order\n  1 message affected\n"),
    ],
)
def test_the_headline_says_how_much_is_wrong(deliveries, violations, messages, headline):
    counts = {"violations": violations, "violating_messages": messages, "lost": 1}
    good = audit.audit(correct(1).history())
    report = replace(good, verdict="violated", deliveries=deliveries, **counts)
    assert audit.to_text([report]) == f"{headline}  1 delivery lost\n"
    first = headline.splitlines()[0].removeprefix("violated: ")
    assert f"{first}</p>" in report._repr_html_()
    both = audit.to_text([replace(report, notes=("odd",), origin="a"), good])
    assert f"\na: violated, {first}, 1 delivery lost\n" in both


def test_history_that_compiled_code_could_not_index_is_refused():
    history = correct(1).history()
    fields = {
        name: getattr(history, name)
        for name in ("nodes", "offsets", "kind", "message", "message_source", "complete")
    }
    fields["message_sequence"] = history.message_sequence
    for name, value in [
        ("message", np.full_like(history.message, 99)),
        ("offsets", history.offsets[:-1]),
        ("offsets", np.zeros_like(history.offsets)),
        ("message_source", np.full_like(history.message_source, 9)),
        ("message_source", np.roll(history.message_source, 1)),
        ("kind", np.full_like(history.kind, 3)),
    ]:
        with pytest.raises(UserError, match="history"):
            History(**{**fields, name: value})


@given(SEEDS)
def test_what_was_skipped_is_not_held(seed):
    """Anything may stand in a line that nobody understood, but what is wrong stays wrong."""
    history = replace(correct(seed).history(), skipped=2, notes=("line 7 is odd",))
    report = audit.audit(history)
    assert (report.verdict, report.skipped, report.violations) == ("unknown", 2, 0)
    text = audit.to_text([report])
    assert "  2 lines or records of the log skipped" in text
    assert "  line 7 is odd\n" in text
    assert audit.to_json([report])["skipped"] == 2
    assert [found["note"] for found in audit.to_json([report])["notes"]] == ["line 7 is odd"]
    execution = correct(seed)
    execution.logs[0].append((DELIVER, (1, 99)))
    assert audit.audit(replace(execution.history(), skipped=1)).verdict == "violated"
