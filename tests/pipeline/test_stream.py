"""Structured Streaming over a directory: killed before and after the write, and replayed."""

import json
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException

from precedes.audit import audit
from precedes.audit.growing.batches import BatchAuditor
from precedes.pipeline import follow_stream, open_stream
from tests.audit.growing.test_batches import rows_of
from tests.support import executions


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
