"""Rows in numbered batches, in no order, killed and replayed anywhere: the audit of the whole."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from precedes.audit import audit
from precedes.audit.growing import batches
from precedes.audit.growing.batches import BatchAuditor
from precedes.errors import UserError
from tests.audit.growing.test_cuts import SEEDS, grown
from tests.support import cuts
from tests.support.executions import BROADCAST, DELIVER, Execution


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
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_no_order_killed_and_replayed(tmp_path_factory, execution, seed):
    place, rng = tmp_path_factory.mktemp("stream") / "state", random.Random(seed)
    given = {"title": "s", "first": rng.choice((0, 1))}
    rows = rows_of(execution, first=given["first"])
    rng.shuffle(rows)
    pieces = cut(rows, rng)
    found, at = BatchAuditor(place, **given), 0
    while at < len(pieces):
        fate = rng.choice(("", "", "before", "between", "after"))
        if fate != "before":
            standing = found.take(at, table(pieces[at]))
            assert standing is None or standing.rows_read == sum(map(len, pieces[: at + 1]))
        if fate in ("", "after"):
            found.keep()
        if fate:  # a process that is killed knows nothing more; the batch is handed over again
            found = BatchAuditor(place, **given) if rng.random() < 0.7 else found
        if not fate:
            at += 1
    found = BatchAuditor(place, **given)
    assert found.batch == len(pieces) - 1
    report = found.end(complete=execution.complete).report
    expected = replace(audit(execution.history()), origin="s", witnesses=report.witnesses)
    silent = sum(not log for log in cuts.rows_of(execution))  # no row names them
    if not silent:
        assert report == expected
    assert report.violations == expected.violations


def example(*, swapped=False):
    a, b = (0, 1), (1, 1)
    logs = [[(BROADCAST, a), (DELIVER, b)], [(DELIVER, a), (BROADCAST, b)]]
    return Execution([*logs, [(DELIVER, m) for m in ([b, a] if swapped else [a, b])]])


@pytest.mark.parametrize(("swapped", "verdict"), [(False, "held"), (True, "violated")])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_verdict(tmp_path, swapped, verdict, gaps):
    found = BatchAuditor(tmp_path / "state", gaps=gaps)
    rows = rows_of(example(swapped=swapped), step=3 if gaps else 1)
    found.take(0, table(rows[:3]))
    found.keep()
    found = BatchAuditor(tmp_path / "state", gaps=gaps)
    standing = found.take(1, table(rows[3:]))
    assert (standing.report.verdict, standing.rows_judged) == (verdict, 6)
    assert [w.sentence for w in standing.report.witnesses] == [
        "node 2 delivered 1:1 before 0:1, which precedes it."
    ] * swapped
    found.keep()
    assert found.take(1, table(rows)) is None


def test_what_is_refused(tmp_path):
    rows = rows_of(example())
    found = BatchAuditor(tmp_path / "state", title="s")
    found.take(0, table(rows))
    found.keep()
    with pytest.raises(UserError, match="row 0 of node 0 comes twice"):
        found.take(1, table(rows[:1]))
    for column, value in (("node", None), ("local_seq", None)):
        bad = table(rows).set_column(0 if column == "node" else 1, column, pa.array([value] * 6))
        with pytest.raises(UserError, match=f"a row without {column}"):
            BatchAuditor(tmp_path / "none", title="s").take(0, bad)
    with pytest.raises(UserError, match="no column 'kind'"):
        BatchAuditor(tmp_path / "none", title="s").take(0, table(rows).drop(["kind"]))
    runs = table(rows).append_column("run_id", pa.array([*"aaabbb"]))
    with pytest.raises(UserError, match="several runs"):
        BatchAuditor(tmp_path / "none", title="s").take(0, runs)
    with pytest.raises(UserError, match="written with other options"):
        BatchAuditor(tmp_path / "state", title="s", first=1)
    late = BatchAuditor(tmp_path / "late", title="s", gaps=True)
    late.take(0, table(rows[1:2]))
    late.keep()
    with pytest.raises(UserError, match="share a partition"):
        late.take(1, table(rows[:1]))
    waits = BatchAuditor(tmp_path / "none", title="s")
    waits.take(0, table([("0", 7, "deliver", "x")]))
    with pytest.raises(UserError, match="node 0 lacks its row 0"):
        waits.end()
