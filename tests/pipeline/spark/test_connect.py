"""A Spark Connect server on loopback: no context, tasks of another process's Java."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

from precedes.audit import audit, to_json
from precedes.trace import load
from tests.support import commands, daemons, runs
from tests.support.processes import python
from tests.support.signals import enable_interrupts


@contextlib.contextmanager
def server(directory):
    """A server with two tasks at once, and the address that it listens at."""
    options = ["--port", "0", "--master", "local[2]"]
    log = directory / "connect.log"
    with daemons.daemon(log, "connect", *options) as process:
        pattern = r"Spark Connect server started at: (127\.0\.0\.1:\d+)"
        yield f"sc://{daemons.wait_for_line(log, pattern, process)}"


CLIENT = """
import json, sys
from pathlib import Path
from precedes.audit import to_json
from precedes.pipeline import audit_files, run_sweep
from precedes.pipeline.spark import jobs
from precedes.pipeline.spark.session import open_session
from precedes.sim.experiment import from_file
from precedes.spark import causal_audit, causal_audit_stream, causal_violations, register

master, experiment, out = sys.argv[1:]
took, shares = [], []
with open_session(master=master) as spark, jobs.listening(took.append):
    cores = jobs.parallelism(spark)
    done = run_sweep(from_file(experiment), out, session=spark, progress=shares.append)
    traces = sorted(Path(out, "traces").iterdir())
    report = to_json(audit_files(spark, traces, progress=shares.append))
    found = spark.range(1).mapInArrow(lambda batches: batches, "id long").count()
    register(spark)
    events = spark.read.format("precedes").load([str(traces[0])])
    runs = events.transform(causal_audit())
    witnesses = runs.transform(causal_violations()).count()
    events.createOrReplaceTempView("events")
    in_sql = spark.sql("SELECT * FROM causal_audit(TABLE(events) PARTITION BY run_id)")
    assert in_sql.toArrow() == runs.toArrow()
    places = [out + "-" + name for name in ("events", "checkpoint", "findings")]
    events.write.parquet(places[0])
    stream = spark.readStream.schema(events.schema).parquet(places[0])
    writer = stream.transform(causal_audit_stream(gaps=True)).writeStream.trigger(availableNow=True)
    writer.option("checkpointLocation", places[1]).start(places[2]).awaitTermination()
    (run,) = runs.toArrow().to_pylist()
    judged = [run["violations"], spark.read.parquet(places[2]).count(), witnesses]
titles = [s.title for s in took]
print(json.dumps([cores, len(done.failures), shares, report, titles, found, judged]))
"""


@pytest.mark.gate
def test_a_sweep_and_an_audit(swept, tmp_path):
    """The same tables and reports as from a session of its own."""
    experiment, out = runs.write(tmp_path), tmp_path / "out"
    with server(tmp_path) as master:
        done = python("-c", CLIENT, master, experiment, out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    cores, failures, shares, reported, took, found, judged = json.loads(done.stdout)
    assert (cores, failures, found) == (2, 0, 1)
    assert 1.0 in shares
    violations, streamed, witnesses = judged
    assert (streamed, bool(witnesses)) == (violations, bool(violations))
    assert {"simulate", "audit files"} <= set(took)
    assert runs.tables(out) == runs.tables(swept[0])
    traces = sorted((out / "traces").iterdir())
    reports = [audit(history) for path in traces for history in load(path)]
    assert reported == json.loads(json.dumps(to_json(reports)))


@pytest.mark.swarm
def test_an_interrupt_is_the_clients_alone(swept, tmp_path):
    """Its tasks end, the server lives, and the same command resumes."""
    experiment, out = runs.write(tmp_path), tmp_path / "out"
    with server(tmp_path) as master:
        line = commands.command("sweep", experiment, "--out", out, "--master", master)
        with subprocess.Popen(
            line, stderr=subprocess.PIPE, text=True, preexec_fn=enable_interrupts
        ) as process:
            records = out / "records"
            daemons.wait_until(lambda: records.is_dir() and len(runs.records(out)) >= 2, process)
            os.kill(process.pid, signal.SIGINT)
            _, error = process.communicate(timeout=daemons.PATIENCE_S)
        assert process.returncode == 130, error
        assert error.splitlines()[-1].startswith("precedes: interrupted; finished runs are kept")
        finished = runs.records(out)
        assert 2 <= len(finished) < runs.RUNS
        done = commands.run("sweep", experiment, "--out", out, "--master", master)
    assert (done.returncode, done.stderr) == (0, "")
    assert finished.items() <= runs.records(out).items()
    assert runs.tables(out) == runs.tables(swept[0])


def test_nobody_and_nothing_at_the_address(tmp_path):
    for master in ("sc://127.0.0.1:9", "sc://127.0.0.1:9/;use_ssl=true"):
        done = commands.run("audit", "examples/chat.jsonl", "--master", master)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"precedes: no Spark Connect server at {master}")
        assert len(done.stderr.splitlines()) == 1
