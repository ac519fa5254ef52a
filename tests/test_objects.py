"""Results, histories, tables and logs go into the audit and the viewer alike."""

import json
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest

import precedes
from precedes import Scenario, UserError, audit, load, simulate, view
from precedes.audit import Reports, Verdict, to_text
from tests.support.places import ROOT

CHAT = ROOT / "examples/chat.jsonl"
COUNTS = ("deliveries", "violations", "violating_messages", "lost", "duplicates", "nodes")


@pytest.fixture(scope="module")
def result():
    return simulate("unordered", nodes=5, messages=50, tier="interpreted")


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    path = tmp_path_factory.mktemp("objects") / "run.parquet"
    return simulate("unordered", nodes=5, messages=50, tier="interpreted", trace=path)


def counts(report):
    return {name: getattr(report, name) for name in COUNTS}


def test_a_result_without_a_trace_is_audited(result, traced):
    """The simulator's own oracle, and the trace of the same scenario, count the same."""
    assert result.trace is None
    report = result.audit()
    assert report.violations == result.violations.deliveries > 0
    assert counts(report) == counts(traced.audit())
    assert report.origin == "unordered: 5 nodes, seed 1"
    assert traced.audit().origin == traced.trace
    assert len(result.audit(witnesses=1).witnesses) == 1
    held = simulate("vector", nodes=4, messages=20, tier="interpreted")
    assert held.audit().verdict == "held"


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario("vcube", nodes=6, messages=40, faults=(precedes.Fault("crash", 1, at_s=0.1),)),
        Scenario("probabilistic", nodes=5, messages=60, parameters={"entries": 2}, loss=0.1),
        Scenario("mobile", nodes=6, messages=5, workload="poisson"),
    ],
    ids=lambda scenario: scenario.protocol,
)
def test_the_run_of_a_result_is_repeated(scenario, tmp_path):
    result = simulate(scenario, tier="interpreted")
    result.write_trace(tmp_path / "again.parquet")
    simulate(scenario, tier="interpreted", trace=tmp_path / "first.parquet")
    first, again = (
        load(tmp_path / name)[0].to_arrow() for name in ("first.parquet", "again.parquet")
    )
    assert again.equals(first)
    assert again.num_rows >= result.deliveries > 0


def test_an_audit_takes_whatever_has_events(traced):
    (history,) = load(traced.trace)
    table = history.to_arrow()
    many = [traced.trace, traced, history, table, history.to_pandas()]
    assert [counts(report) for report in audit(many)] == [counts(traced.audit())] * len(many)
    assert audit(history).verdict is Verdict.VIOLATED  # one run: a report
    assert isinstance(audit(table), Reports)
    assert load(traced)[0].to_arrow().equals(table)
    assert load(history) == [history]


def test_a_view_takes_whatever_has_events(result, traced):
    (history,) = load(traced.trace)
    many = [result, traced.trace, history, history.to_arrow(), history.to_pandas(), CHAT]
    for one in many:
        assert "out of causal order" in repr(view(one))
    assert repr(result.view(events=60)) == repr(view(result))
    assert len(view([result, traced]).page.traces) == 2 == len(view(result, traced).page.traces)


def test_a_history_as_a_table_is_that_history(tmp_path):
    """Joins, leaves, crashes and what nobody broadcast are rows too."""
    path = tmp_path / "log.jsonl"
    rows = [
        ("a", "broadcast", "m1"), ("b", "deliver", "m1"), ("b", "deliver", "ghost"),
        ("b", "crash", None), ("c", "join", "m1"), ("a", "broadcast", "m2"), ("c", "deliver", "m2"),
        ("c", "leave", None), ("d", "join", None), ("d", "deliver", "m1"), ("d", "deliver", "m2"),
    ]  # fmt: skip
    lines = [dict(zip(("node", "kind", "message"), row, strict=True)) for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (history,) = load(path)
    table = history.to_arrow()
    kept = table.select(["node", "kind", "message"]).to_pylist()
    assert sorted(kept, key=str) == sorted(lines, key=str)
    assert table.column("local_seq").to_pylist() == [0, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    (report,) = audit(table)
    assert counts(report) == counts(audit(history))
    assert report.phantom == 1
    pd.testing.assert_frame_equal(history.to_pandas(), table.to_pandas())


def test_reports_have_one_verdict_and_print_as_the_command_does():
    reports = audit([CHAT, ROOT / "examples/waits.jsonl"])
    assert [report.verdict for report in reports] == [Verdict.VIOLATED, Verdict.HELD]
    assert reports.verdict is Verdict.VIOLATED
    assert f"{reports.verdict}" == "violated" == Verdict.VIOLATED.value
    assert Reports().verdict is Verdict.UNKNOWN
    assert str(reports) + "\n" == to_text(reports)
    assert str(reports[0]).startswith("violated: 1 of 4 deliveries out of causal order\n")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: simulate("probabilistic", nodes=5, entries=3), "use parameters={'entries': 3}"),
        (lambda: simulate("vector", nodes=5, mesages=3), "(did you mean 'messages'?)"),
        (lambda: precedes.compare(nodes=5, rate=1, seed=2), "`seeds` is the number of seeds"),
        (lambda: precedes.compare(nodes=5, rate=1, protocol="vector"), "`protocols` is a list"),
        (lambda: precedes.compare(nodes=5, rate=1, dely="1"), "(did you mean 'delay'?)"),
        (lambda: audit(CHAT, columns={}), "use dialect=Dialect(columns=...)"),
        (lambda: audit(CHAT, witneses=1), "no argument 'witneses' (did you mean 'witnesses'?)"),
        (lambda: audit(3), "3 is not a log: use a path"),
        (lambda: audit([pa.table({})], work="w"), "`work` needs logs that can be read again"),
    ],
)
def test_a_mistake_names_the_right_place(call, text):
    with pytest.raises(UserError) as caught:
        call()
    assert text in str(caught.value)


def test_pandas_is_optional():
    """Without it results, audits and views work, and what needs it says so in a line."""
    code = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
sys.meta_path.insert(0, NoPandas())
from precedes import UserError, audit, load, simulate, view
result = simulate("unordered", nodes=4, messages=20, tier="interpreted")
print(result.audit().verdict, audit(load(result)[0].to_arrow()).verdict)
assert "violated" in repr(result.view())
for one in (result, audit(result), audit([result]), load(result)[0]):
    try:
        one.to_pandas()
    except UserError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    reported = "to_pandas needs pandas: pip install pandas; to_arrow does not\n"
    assert done.stdout == "violated violated\n" + reported * 4, done.stderr
