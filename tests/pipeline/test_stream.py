"""Structured Streaming over a directory: killed before and after the write, and replayed."""

import json
import random
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from precedes.audit import audit
from precedes.audit.growing.batches import COLUMNS, BatchAuditor
from precedes.errors import UserError
from precedes.pipeline import (
    audit_events,
    follow_stream,
    open_stream,
    read_events,
    register_source,
)
from precedes.pipeline.spark import jobs
from tests.audit.growing.test_batches import rows_of
from tests.support import executions
from tests.support.executions import BROADCAST, DELIVER, Execution


def add_file(folder, number, rows):
    """A file as a writer leaves it: whole."""
    names = ("node", "local_seq", "kind", "message")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (folder / f".{number}.json").write_text("\n".join(lines) + "\n")
    (folder / f".{number}.json").rename(folder / f"{number}.json")


def run(spark, folder, work, told):
    """One run of the query over what is there; whether it ended well."""
    query = follow_stream(spark, folder, work, once=True, files=1, on_standing=told.append)
    try:
        query.awaitTermination(60)
    except StreamingQueryException as error:
        return "killed" not in str(error)
    finally:
        query.stop()
    return True


@pytest.mark.parametrize("order", ["causal", "fifo"])
def test_a_stream_that_is_killed(spark, tmp_path, monkeypatch, order):
    execution = executions.run(5, nodes=4, messages=25, order=order)
    rows, rng = rows_of(execution), random.Random(5)
    rng.shuffle(rows)
    folder, work, told = tmp_path / "in", tmp_path / "work", []
    folder.mkdir()
    keep, fates = BatchAuditor.keep, iter(["", "before", "", "after", "", "", ""])

    def kept(auditor):
        fate = next(fates)
        if fate == "before":
            raise RuntimeError("killed before the write")
        keep(auditor)
        if fate == "after":
            raise RuntimeError("killed after the write")

    monkeypatch.setattr(BatchAuditor, "keep", kept)
    for number in range(4):
        add_file(folder, number, rows[number::4])
    ended = [run(spark, folder, work, told) for _ in range(3)]
    assert ended == [False, False, True]
    assert told[-1].rows_judged == len(rows)
    found = open_stream(folder, work)
    assert found.batch == 3
    report = found.end(complete=True).report
    expected = audit(execution.history())
    assert expected.violations == (0 if order == "causal" else expected.violations)
    assert report == replace(expected, origin=str(folder), witnesses=report.witnesses)
    assert bool(report.witnesses) == bool(expected.violations) == (order == "fifo")


DRIVER = """
import os, signal, sys
from precedes.audit.growing.batches import BatchAuditor
from precedes.pipeline import follow_stream, open_session

folder, work, when, batch = sys.argv[1:]
keep = BatchAuditor.keep

def kept(auditor):
    due = auditor.batch == int(batch)
    if due and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    keep(auditor)
    if due and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)

BatchAuditor.keep = kept
with open_session(master="local[1]") as spark:
    follow_stream(spark, folder, work, once=True, files=1).awaitTermination()
"""


@pytest.mark.swarm
def test_a_driver_that_is_killed(tmp_path):
    """kill -9 before and after the write of two batches."""
    execution = executions.run(6, nodes=4, messages=25, order="fifo")
    rows = rows_of(execution)
    random.Random(6).shuffle(rows)
    folder, work = tmp_path / "in", tmp_path / "work"
    folder.mkdir()
    for number in range(3):
        add_file(folder, number, rows[number::3])
    for when, batch, status in (("before", 1, -9), ("after", 1, -9), ("never", 0, 0)):
        command = [sys.executable, "-c", DRIVER, str(folder), str(work), when, str(batch)]
        assert subprocess.run(command, timeout=240, check=False).returncode == status
    found = open_stream(folder, work)
    assert found.batch == 2
    report = found.end(complete=True).report
    assert report == replace(
        audit(execution.history()), origin=str(folder), witnesses=report.witnesses
    )
    assert report.violations


def example(*, swapped=False):
    """Rows of three nodes, the last of which may deliver 1:1 before 0:1, which precedes it."""
    a, b = (0, 1), (1, 1)
    logs = [[(BROADCAST, a), (DELIVER, b)], [(DELIVER, a), (BROADCAST, b)]]
    return rows_of(Execution([*logs, [(DELIVER, m) for m in ([b, a] if swapped else [a, b])]]))


def stream(spark, folder, *, work="work", **options):
    """The verdict of a stream over what is there, or the mistake that ended it, in a line."""
    standings = []
    query = follow_stream(
        spark, folder, folder.parent / work, once=True, on_standing=standings.append, **options
    )
    try:
        query.awaitTermination(60)
    except StreamingQueryException as error:
        found = [line for line in str(error).splitlines() if "precedes.errors." in line]
        return found[0].partition(": ")[2] if found else str(error)
    finally:
        query.stop()
    return standings[-1].report.verdict


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.mark.parametrize(("swapped", "verdict"), [(False, "held"), (True, "violated")])
def test_columns_of_csv_are_known_by_name(spark, folder, swapped, verdict):
    """In any order, in each file another one; rows of other kinds count for positions."""
    rows = [*example(swapped=swapped), ("2", 2, "send", None), ("2", 3, "deliver", '5" disk')]
    rows += [("0", 2, "broadcast", '5" disk')]
    for at, header in enumerate((COLUMNS, COLUMNS[::-1], ("message", "run_id", *COLUMNS[:3]))):
        lines = [header]
        for row in rows[at::3]:
            named = {**dict(zip(COLUMNS, row, strict=True)), "run_id": 0}
            lines.append([str(named[name]) if named[name] is not None else "" for name in header])
        (folder / f"{at}.csv").write_text("\n".join(map(",".join, lines)))
    assert stream(spark, folder, format="csv", files=1) == verdict
    report = open_stream(folder, folder.parent / "work").end(complete=True).report
    assert (report.nodes, report.violations) == (3, swapped)
    assert (report.deliveries, report.messages) == (5, 3)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("node,kind,message\n0,broadcast,x\n", "0.csv has no column 'local_seq'"),
        ("node,local_seq,kind,message\n0,0,broadcast\n", "0.csv, line 2: 3 cells, where"),
        ("node,local_seq,kind,message,to\n0,0,broadcast,x,1\n", "0.csv has a column 'to'"),
    ],
)  # fmt: skip
def test_mistakes_in_csv(spark, folder, text, what):
    (folder / "0.csv").write_text(text)
    assert what in stream(spark, folder, format="csv")


def test_runs_of_later_batches(spark, folder):
    """The same rows of one run are fine, those of another one are refused, after a restart too."""
    rows = example()
    for at, run in enumerate(("7", "7", "8")):
        named = [
            dict(zip(COLUMNS, row, strict=True), run_id=run) for row in rows[2 * at : 2 * at + 2]
        ]
        (folder / f"{at}.json").write_text("".join(json.dumps(row) + "\n" for row in named))
        found = stream(spark, folder, files=1)
        assert ("holds several runs, 7 and 8: one can be followed" in found) == (run == "8")
    assert open_stream(folder, folder.parent / "work").standing().report.run_id == 7


@pytest.mark.parametrize("format", ["json", "csv"])
def test_runs_that_folders_name(spark, folder, format):
    for at, run in enumerate("78"):
        home = folder / f"run_id={run}"
        home.mkdir()
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in example()[at::2]]
        lines = [",".join(COLUMNS), *(",".join(map(str, row.values())) for row in rows)]
        texts = map(json.dumps, rows) if format == "json" else lines
        (home / f"{at}.{format}").write_text("\n".join(texts))
    found = stream(spark, folder, format=format, files=1)
    assert "holds several runs, 7 and 8: one can be followed" in found


def test_receivers(spark, folder):
    """Of a broadcast they are refused; what a delivery says does not matter."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in example()]
    for kind in ("deliver", "broadcast"):
        texts = [json.dumps({**row, "to": ["1"]} if row["kind"] == kind else row) for row in rows]
        (folder / "0.json").write_text("\n".join(texts))
        refused = "to some nodes alone cannot be judged" in stream(spark, folder, work=kind)
        assert refused == (kind == "broadcast")
    (folder / "0.json").unlink()
    pq.write_table(pa.Table.from_pylist([{**row, "to": "1"} for row in rows]), folder / "0.parquet")
    found = stream(spark, folder, work="tables", format="parquet")
    assert "has a column 'to', and messages to some nodes alone cannot be judged" in found


@pytest.mark.parametrize("line", ['{"node": "0", "loc', '{"node": "2", "local_seq": "x"}', "\0"])
def test_lines_that_are_no_events(spark, folder, line):
    rows = [dict(zip(COLUMNS, row, strict=True), run_id="7") for row in example()]
    (folder / "0.json").write_text("\n".join([*map(json.dumps, rows), line]))
    assert f"{folder} has a line that is not an event: " in stream(spark, folder)


@pytest.mark.parametrize("records", [0, -1])
def test_a_session_without_a_bound_on_records(spark, folder, records):
    """Everything works but sources in Python, which are refused in a line."""
    before = spark.conf.get(jobs.RECORDS)
    add_file(folder, 0, example(swapped=True))
    spark.conf.set(jobs.RECORDS, records)
    try:
        assert stream(spark, folder) == "violated"
        (run,) = audit_events(read_events(spark, folder, "jsonl")).runs.toArrow().to_pylist()
        with pytest.raises(UserError, match=f"maxRecordsPerBatch is {records}, with which"):
            register_source(spark)
        assert (run["verdict"], spark.conf.get(jobs.RECORDS)) == ("violated", str(records))
    finally:
        spark.conf.set(jobs.RECORDS, before)
