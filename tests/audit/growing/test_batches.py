"""Rows in numbered batches, in no order, killed and replayed anywhere: the audit of the whole."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings

from precedes.audit import audit
from precedes.audit.growing import batches
from precedes.audit.growing.batches import BatchAuditor
from precedes.errors import UserError
from tests.audit.growing.test_cuts import SEEDS, grown
from tests.support import cuts, executions
from tests.support.executions import BROADCAST, DELIVER, Execution

FINDINGS = ("violation", "lost", "phantom", "duplicate", "cycle")


def rows_of(execution, *, first=0, step=1):
    """All rows with their positions."""
    found = []
    for node, rows in enumerate(cuts.rows_of(execution)):
        for at, (kind, m) in enumerate(rows):
            message = None if m is None else f"{m[0]}:{m[1]}"
            found.append((str(node), first + step * at, kind, message))
    return found


def table(rows):
    columns = list(zip(*rows, strict=True)) or [[]] * 4
    return pa.table({n: list(c) for n, c in zip(batches.COLUMNS, columns, strict=True)})


def cut(rows, rng):
    """Batches of random sizes."""
    found = []
    while rows:
        count = rng.choice((1, 3, 10, 50))
        found.append(rows[:count])
        rows = rows[count:]
    return found


@given(grown(), SEEDS)
@settings(max_examples=25)
def test_in_no_order_killed_and_replayed(execution, seed):
    """The state stored with the findings of a batch suffices to resume, wherever it is killed."""
    rng = random.Random(seed)
    given = {"title": "s", "first": rng.choice((0, 1)), "witnesses": 1000}
    rows = rows_of(execution, first=given["first"])
    rng.shuffle(rows)
    pieces = cut(rows, rng)
    found, content, findings, at = BatchAuditor(**given), None, [], 0
    while at < len(pieces):
        if rng.random() < 0.3:  # killed before the batch is stored
            found.take(at, table(pieces[at]))
            found = BatchAuditor(content, **given)
        standing = found.take(at, table(pieces[at]))
        assert standing.rows_read == sum(map(len, pieces[: at + 1]))
        assert found.take(at, table(pieces[at])) is None
        content, at = found.content(), at + 1
        findings += found.findings
        found = BatchAuditor(content, **given) if rng.random() < 0.5 else found
    assert found.batch == len(pieces) - 1
    report = found.end(complete=execution.complete).report
    findings += found.findings
    expected = replace(audit(execution.history(), witnesses=1000), origin="s")
    silent = sum(not log for log in cuts.rows_of(execution))  # no row names them
    if not silent:
        assert report == replace(expected, witnesses=report.witnesses)
    assert report.violations == expected.violations
    pairs = executions.judge(execution)["pairs"]
    named = {(str(node), f"{source}:{number}") for node, (source, number) in pairs}
    of_kind = {kind: [f for f in findings if f.kind == kind] for kind in FINDINGS}
    assert sorted((f.node, f.message) for f in of_kind["violation"]) == sorted(named)
    if not silent:
        for kind in ("lost", "phantom"):
            assert len(of_kind[kind]) == getattr(report, kind)
        lost = {(w.node_name, w.message_name) for w in expected.witnesses if w.kind == "lost"}
        assert {(f.node, f.message) for f in of_kind["lost"]} == lost
    assert bool(of_kind["duplicate"]) == bool(report.duplicates)
    assert bool(of_kind["cycle"]) == bool(report.cycles)


def example(*, swapped=False):
    a, b = (0, 1), (1, 1)
    logs = [[(BROADCAST, a), (DELIVER, b)], [(DELIVER, a), (BROADCAST, b)]]
    return Execution([*logs, [(DELIVER, m) for m in ([b, a] if swapped else [a, b])]])


@pytest.mark.parametrize(("swapped", "verdict"), [(False, "held"), (True, "violated")])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_verdict(swapped, verdict, gaps):
    found = BatchAuditor(gaps=gaps)
    rows = rows_of(example(swapped=swapped), step=3 if gaps else 1)
    found.take(0, table(rows[:3]))
    found = BatchAuditor(found.content(), gaps=gaps)
    standing = found.take(1, table(rows[3:]))
    assert (standing.report.verdict, standing.rows_judged) == (verdict, 6)
    assert [w.sentence for w in standing.report.witnesses] == [
        "node 2 delivered 1:1 before 0:1, which precedes it."
    ] * swapped
    assert found.take(1, table(rows)) is None


def test_what_is_refused():
    rows = rows_of(example())
    found = BatchAuditor(title="s")
    found.take(0, table(rows))
    content = found.content()
    with pytest.raises(UserError, match="row 0 of node 0 comes twice"):
        found.take(1, table(rows[:1]))
    with pytest.raises(UserError, match="an earlier batch failed"):
        found.take(1, table(rows[:1]))
    for column, value in (("node", None), ("local_seq", None)):
        bad = table(rows).set_column(0 if column == "node" else 1, column, pa.array([value] * 6))
        with pytest.raises(UserError, match=f"a row without {column}"):
            BatchAuditor(title="s").take(0, bad)
    with pytest.raises(UserError, match="no column 'kind'"):
        BatchAuditor(title="s").take(0, table(rows).drop(["kind"]))
    runs = table(rows).append_column("run_id", pa.array([*"aaabbb"]))
    with pytest.raises(UserError, match="several runs"):
        BatchAuditor(title="s").take(0, runs)
    to = table(rows).append_column("to", pa.array(["1"] * 6))
    with pytest.raises(UserError, match="to some nodes alone cannot be judged"):
        BatchAuditor(title="s").take(0, to)
    with pytest.raises(UserError, match="written with other options"):
        BatchAuditor(content, title="s", first=1)
    with pytest.raises(UserError, match="the state of s, not of t"):
        BatchAuditor(content, title="t")
    with pytest.raises(UserError, match="the state of s is damaged"):
        BatchAuditor(content[:-9], title="s")
    late = BatchAuditor(title="s", gaps=True)
    late.take(0, table(rows[1:2]))
    with pytest.raises(UserError, match="share a partition"):
        late.take(1, table(rows[:1]))
    waits = BatchAuditor()
    waits.take(0, table([("0", 7, "deliver", "x")]))
    with pytest.raises(UserError, match="node 0 lacks its row 0"):
        waits.end()


def test_bounds():
    early = [("0", at, "deliver", f"{at}") for at in range(1, 12)]
    BatchAuditor(early_rows_max=11).take(0, table(early))
    with pytest.raises(UserError, match="11 rows wait, such as those of node 0 for its row 0"):
        BatchAuditor(early_rows_max=10).take(0, table(early))
    many = [("0", at, "broadcast", f"{at}") for at in range(10_000)]
    with pytest.raises(UserError, match="needs more than 1 MB, much of it for names"):
        BatchAuditor(bytes_max=1 << 20).take(0, table(many))
    late = BatchAuditor(open_bytes=0)
    late.take(0, table(many[:1000]))
    with pytest.raises(UserError, match="a node appears after messages were dropped"):
        late.take(1, table([("1", 0, "deliver", "1")]))


def test_the_state_of_a_short_run_is_small():
    found = BatchAuditor(title="s")
    found.take(0, table(rows_of(executions.run(1, nodes=4, messages=25, order="causal"))))
    assert found.standing().state_bytes < 81_000
    assert len(found.content()) < 4_000
