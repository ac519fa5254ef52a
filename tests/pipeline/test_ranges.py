"""One large run on Spark: whatever the plan, and whoever is killed, the same report."""

import json
import os
import random
import shutil
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit, to_json
from precedes.audit.work import PartStore
from precedes.pipeline.audit import audit_files, audit_tables
from precedes.pipeline.events import read_events
from precedes.pipeline.ranges import audit_run
from precedes.pipeline.runner import SparkRunner
from precedes.spark import audit_giant
from precedes.stores import Address
from precedes.trace import History
from precedes.trace.opening import open_rows
from tests.support import executions, logs
from tests.support.processes import python

NODES = 8


@pytest.fixture
def everything_is_large(monkeypatch):
    for module in ("audit", "ranges"):
        monkeypatch.setattr(f"precedes.pipeline.{module}.LARGE_ROWS", 1)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace with violations, losses, a duplicate and a phantom."""
    path = tmp_path_factory.mktemp("trace") / "run.parquet"
    columns = logs.workload(nodes=NODES, messages=300, seed=3)
    rows = np.arange(columns["node"].size)
    lost = (columns["kind"] == logs.DELIVER) & (rows % 97 == 5)
    columns = {name: column[~lost] for name, column in columns.items()}
    last = {name: column[-1:].copy() for name, column in columns.items()}
    phantom = {**last, "sequence": last["sequence"] + 10_000}
    for more in (last, phantom):
        assert more["kind"][0] == logs.DELIVER
        columns = {name: np.concatenate((columns[name], more[name])) for name in columns}
    logs.write(path, columns, nodes=NODES, group_rows=500)
    return path


def said(reports):
    """The bytes that a command prints, and the witnesses in full."""
    return json.dumps(to_json(reports)), [report.witnesses for report in reports]


def test_plans_do_not_matter(spark, trace, tmp_path):
    (rows,) = open_rows(trace)
    expected = audit(rows)
    assert min(expected.violations, expected.lost) > 0
    assert expected.duplicates == expected.phantom == 1
    assert audit(rows, ranges=3) == expected
    for count in (1, 7):
        store = PartStore(Address.of(tmp_path / str(count)))
        found = audit_run(SparkRunner(spark), rows, store, witnesses=5, ranges=count)
        assert said([found]) == said([expected])
        assert len(os.listdir(tmp_path / str(count) / "b")) == count


def test_contradictions_are_reported_as_by_the_loop(spark, tmp_path):
    """Cycles, phantoms in the order, joins: what is asked for twice, and what is cut."""
    found = executions.scramble(11, nodes=6, messages=12, rows=90)
    rows = executions.with_members(found, random.Random(11)).history()
    expected = audit(rows)
    assert min(expected.cycles, expected.phantom) > 0
    store = PartStore(Address.of(tmp_path))
    assert audit_run(SparkRunner(spark), rows, store, witnesses=5, ranges=3) == expected


def test_tables_in_no_order(spark, trace, tmp_path, everything_is_large):
    """Names, shuffled over files: sorted by way of blocks, then judged by ranges."""
    (expected,) = audit([trace])
    table = read_events(spark, trace).toArrow()
    mixed = np.random.default_rng(7).permutation(table.num_rows)
    for part, rows in enumerate(np.array_split(mixed, 3)):
        pq.write_table(table.take(pa.array(rows)), tmp_path / f"{part}.parquet", row_group_size=500)
    by_files = audit_tables(spark, [tmp_path])
    frame = spark.read.parquet(str(tmp_path))
    assert [r.witnesses for r in audit_giant(frame)] == [r.witnesses for r in by_files]
    (found,) = by_files
    assert found.undelivered_at_end == expected.lost
    for name in ("nodes", "messages", "deliveries", "violations", "duplicates", "phantom"):
        assert getattr(found, name) == getattr(expected, name), name
    assert [w.sentence for w in found.witnesses if w.kind == "violation"] == [
        w.sentence for w in expected.witnesses if w.kind == "violation"
    ]


def test_a_trace_in_no_order(spark, trace, tmp_path, everything_is_large):
    """It is complete, and has the nodes that it says, as the trace in order."""
    table = pq.read_table(trace)
    rows = np.random.default_rng(8).permutation(table.num_rows)
    path = tmp_path / "mixed.parquet"
    pq.write_table(table.take(pa.array(rows)), path, row_group_size=500)
    (expected,), (found,) = audit([path]), audit_files(spark, [path])
    assert (found.lost, found.nodes, found.messages) == (expected.lost, NODES, expected.messages)
    assert said([found]) == said([expected])


def test_the_loop_goes_on_with_the_parts_of_spark(spark, trace, tmp_path, everything_is_large):
    """And Spark with those of the loop; what is there is not made again."""
    work = tmp_path / "work"
    expected = said(audit([trace]))
    assert said(audit_files(spark, [trace], work=work)) == expected
    parts = sorted((work / "run-0" / "a").iterdir())
    times = [part.stat().st_mtime_ns for part in parts]
    shutil.rmtree(work / "run-0" / "b")
    (work / "run-0" / "table").unlink()
    assert said(audit([trace], work=work)) == expected
    assert [part.stat().st_mtime_ns for part in parts] == times
    damaged = parts[0].read_bytes()
    parts[0].write_bytes(damaged[:-1])
    for name in ("prune", "b"):
        shutil.rmtree(work / "run-0" / name)
    (work / "run-0" / "table").unlink()
    assert said(audit_files(spark, [trace], work=work)) == expected
    assert parts[0].read_bytes() == damaged
    assert [part.stat().st_mtime_ns for part in parts[1:]] == times[1:]


class Deadly(History):
    """Rows whose first reader is killed."""

    def __init__(self, history, marker):
        vars(self).update(vars(history), marker=str(marker))

    def chunks(self, first, last, **options):
        if first > 0 and not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().chunks(first, last, **options)


def test_a_worker_is_killed(spark, tmp_path):
    found = executions.run(5, nodes=6, messages=40, order="wild", loss=0.1)
    expected = audit(found.history())
    assert expected.violations
    rows = Deadly(found.history(), tmp_path / "killed")
    store = PartStore(Address.of(tmp_path / "parts"))
    report = audit_run(SparkRunner(spark), rows, store, witnesses=5, ranges=3)
    assert (tmp_path / "killed").exists()
    assert report == expected


KILLED = """
import os, signal, sys
from precedes.pipeline import audit, ranges
from precedes.pipeline.spark.session import open_session
audit.LARGE_ROWS = ranges.LARGE_ROWS = 1
stage, trace, work = sys.argv[1:]

def killed(made, last):
    def call(*arguments):
        found = made(*arguments)
        if last(*arguments):
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call

runner = ranges.SharedStages
if stage == "table":
    runner.table = killed(runner.table, lambda *_: True)
else:
    runner._made = killed(runner._made, lambda _, kind, names, *rest: names[0].startswith(stage))
with open_session(master="local[2]") as spark:
    audit.audit_files(spark, [trace], work=work)
"""


@pytest.mark.swarm
@pytest.mark.parametrize("stage", ["order", "a", "prune", "table", "b"])
def test_the_driver_is_killed(spark, trace, tmp_path, everything_is_large, stage):
    done = python("-c", KILLED, stage, trace, tmp_path / "work")
    assert done.returncode == -signal.SIGKILL, done.stderr
    kept = sorted(p for p in (tmp_path / "work").rglob("*-*") if p.is_file())
    times = [part.stat().st_mtime_ns for part in kept if part.parent.name in ("a", "prune", "b")]
    assert said(audit_files(spark, [trace], work=tmp_path / "work")) == said(audit([trace]))
    again = [part.stat().st_mtime_ns for part in kept if part.parent.name in ("a", "prune", "b")]
    assert again == times
