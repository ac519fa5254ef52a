"""The audit agrees with the definitions on executions of every kind."""

import collections
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes import audit, waiting
from precedes.audit import judge
from precedes.compiled import compiler, tiers
from precedes.compiled.compiler import Code
from precedes.compiled.tiers import BEGIN_CPU_S, INTERPRETED_CPU_S, ROWS_MAX, paced
from precedes.errors import InternalError
from tests.audit.test_stages import kept_a_message
from tests.support import executions, small_loop
from tests.support.audits import pairs

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = executions.COUNTS


@st.composite
def honest(draw, own=("none", "now", "later")):
    """Executions in which every row is true: out of order and lossy perhaps."""
    nodes, messages = draw(st.sampled_from([(1, 6), (3, 30), (5, 30), (12, 14)]))
    return executions.run(
        draw(SEEDS),
        nodes=nodes,
        messages=messages,
        order=draw(st.sampled_from(["causal", "fifo", "wild"])),
        loss=draw(st.sampled_from([0.0, 0.1, 0.4])),
        own=draw(st.sampled_from(own)),
        drain=draw(st.booleans()),
    )


@st.composite
def scrambled(draw):
    return executions.scramble(
        draw(SEEDS),
        nodes=draw(st.integers(1, 5)),
        messages=draw(st.integers(0, 12)),
        rows=draw(st.integers(0, 40)),
    )


def agreed(execution):
    """The report of an audit that agrees with the definitions, and what they say."""
    history = execution.history()
    report = audit.audit(history)
    expected = executions.judge(execution)
    assert {name: getattr(report, name) for name in COUNTS} == {
        name: expected[name] for name in COUNTS
    }
    wrong = ("violations", "lost", "duplicates", "phantom", "cycles")
    held = "unknown" if expected["unjudged"] or not expected["deliveries"] else "held"
    assert report.verdict == ("violated" if any(map(expected.get, wrong)) else held)
    assert pairs(history) == expected["pairs"]
    for witness in report.witnesses:
        assert witness.sentence.endswith(".")
        assert "\n" not in witness.sentence
        if witness.steps:
            executions.check_path(execution, witness)
    fifo_comes_last(report, expected)
    return report, expected


def fifo_comes_last(report, expected):
    """Witnesses that cross nodes come first: what they lack is of another source."""
    shown = [witness for witness in report.witnesses if witness.kind == "violation"]
    names = [tuple(map(int, witness.message_name.split(":"))) for witness in shown]
    is_fifo = [
        (witness.node, name) in expected["fifo_pairs"]
        for witness, name in zip(shown, names, strict=True)
    ]
    crossing = expected["violations"] - expected["fifo_violations"]
    assert is_fifo == [number >= crossing for number in range(len(shown))]
    for witness, name in zip(shown[:crossing], names, strict=False):
        assert int(witness.earlier_name.split(":")[0]) != name[0]


@given(honest())
@settings(max_examples=150)
def test_agrees_with_the_definitions(execution):
    agreed(execution)


@given(scrambled())
@settings(max_examples=150)
def test_agrees_on_logs_that_contradict_themselves(execution):
    agreed(execution)


@given(scrambled(), st.randoms(use_true_random=False))
def test_numbers_of_nodes_do_not_matter(execution, rng):
    """Also where the log contradicts itself: which cycle is met first says nothing."""
    number = rng.sample(range(len(execution.logs)), len(execution.logs))
    renamed = [[] for _ in number]
    for node, log in enumerate(execution.logs):
        renamed[number[node]] = [(kind, (number[m[0]], m[1])) for kind, m in log]
    crashed = [number[node] for node in execution.crashed]
    again = executions.Execution(renamed, execution.complete, crashed)
    report, other = audit.audit(execution.history()), audit.audit(again.history())
    assert [getattr(report, n) for n in COUNTS] == [getattr(other, n) for n in COUNTS]


@given(st.one_of(honest(), scrambled()), SEEDS)
@settings(max_examples=20)
def test_any_mixture_of_forms(execution, seed):
    """A loop may become compiled between any two of its calls."""
    history = execution.history()
    expected = audit.audit(history)
    choose = random.Random(seed)
    mixed = []

    def form(entry, *, rows=0):
        mixed.append(choose.random() < 0.5)
        return entry.interpreted if mixed[-1] else paced(entry, rows=rows)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("judge", "order", "pasts", "table"):
            patch.setattr(f"precedes.audit.{name}.paced", form)
        assert audit.audit(history) == expected
    assert mixed


def test_a_loop_that_judges_otherwise_is_seen():
    """A planted one, in one form alone."""
    history = executions.run(1, nodes=3, messages=30, order="wild", loss=0.0).history()
    assert audit.audit(history).violations
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge.JUDGE, "interpreted", lambda *arguments: None)
        patch.setenv("PRECEDES_TIER", "interpreted")
        assert not audit.audit(history).violations


@pytest.fixture
def fresh(monkeypatch, empty_cache):
    """Nothing is compiled, and nobody has said how code is to run."""
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    monkeypatch.setattr(tiers, "_compiled", {})
    monkeypatch.setattr(tiers, "_spent_s", collections.defaultdict(float))
    return empty_cache


def test_a_small_log_waits_for_no_compiler(fresh):
    history = executions.run(1, nodes=3, messages=30, order="wild", loss=0.0).history()
    assert audit.audit(history).violations
    assert not fresh.exists()


def test_when_a_loop_is_compiled(fresh, monkeypatch):
    """For many rows, or after long interpreted work; earlier for the next audit."""
    asked = []
    entry, other = small_loop.entry_of(""), small_loop.entry_of("")
    monkeypatch.setattr(Code, "begin", lambda code, **_: asked.append("begin"))
    monkeypatch.setattr(Code, "wait", lambda code, *_: asked.append("wait") or len)
    assert paced(entry, rows=ROWS_MAX)(np.arange(2)) == 2
    assert asked == []
    assert paced(entry, rows=ROWS_MAX + 1)([7]) == 1
    assert asked == ["wait"]
    assert paced(entry)([7]) == 1, "it stays compiled"
    seconds = iter((0.0, BEGIN_CPU_S + 0.1, 0.0, INTERPRETED_CPU_S + 0.1))
    monkeypatch.setattr("time.process_time", lambda: next(seconds))
    assert paced(other)(np.arange(2)) == 2
    assert paced(other)(np.arange(2)) == 2
    assert asked == ["wait", "begin", "begin"]
    assert paced(other)([7]) == 1
    assert asked == ["wait", "begin", "begin", "wait"]


def test_a_loop_that_cannot_be_compiled(fresh, monkeypatch, capfd):
    """It stays interpreted, unless it is to be compiled in any case."""
    monkeypatch.setattr(waiting, "_printed", set())
    monkeypatch.setitem(compiler.RECIPES, "small", "tests.support.small_loop:failing")
    entry = small_loop.entry_of("")
    assert paced(entry, rows=ROWS_MAX + 1)(np.arange(2)) == 2
    reason = "a small loop stays interpreted, which is slow: it does not compile"
    assert capfd.readouterr().err.splitlines()[1:] == [f"precedes: {reason}"]
    monkeypatch.setenv("PRECEDES_TIER", "compiled")
    with pytest.raises(InternalError, match="it does not compile"):
        paced(small_loop.entry_of(""))(np.arange(2))


def test_agrees_on_a_longer_run():
    """Long enough that most generators are dropped as implied by others."""
    execution = executions.run(7, nodes=10, messages=200, order="fifo", loss=0.02)
    assert kept_a_message(execution) < 6
    expected = executions.judge(execution)
    assert expected["violations"] > 100
    assert pairs(execution.history()) == expected["pairs"]


def test_message_order_of_the_table_does_not_matter():
    execution = executions.run(3, nodes=5, messages=60, order="wild")
    history = execution.history()
    shuffle = np.random.default_rng(1).permutation(history.messages)
    inverse = np.argsort(shuffle)
    names = [history.message_names[m] for m in shuffle]
    fields = {name: getattr(history, name) for name in ("nodes", "offsets", "kind", "complete")}
    shuffled = audit.audit(
        type(history)(
            **fields,
            message=inverse[history.message],
            message_source=history.message_source[shuffle],
            message_sequence=history.message_sequence[shuffle],
            message_names=names,
        )
    )
    report = audit.audit(history)
    assert report.violations > 0
    assert [getattr(shuffled, n) for n in COUNTS] == [getattr(report, n) for n in COUNTS]
