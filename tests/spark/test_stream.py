"""The audit of streams: what the audit of the whole finds, wherever batches and processes end."""

import os
import random
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.errors import UserError
from precedes.spark import causal_audit_stream
from precedes.spark.stream import STORE
from precedes.trace import Dialect, from_arrow
from tests.spark.test_transforms import configured
from tests.support import cuts, executions
from tests.support.chat import CHAT, table

EVENTS = "run_id string, node string, local_seq long, kind string, message string"
FLUSH = table([("ann", 0, "broadcast", "last")], run_id=["flush"])
PATIENCE_S = 300
SOON = 0.001  # seconds: a run ends with the first batch that has no rows of it


# One state store, and queries that do not look for timers forever.
SETTINGS = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(autouse=True)
def settings(spark):
    with configured(spark, SETTINGS):
        yield


class Stream:
    """A directory of files, and what a query over it has found so far."""

    def __init__(self, spark, folder, **options):
        self._spark, self._folder, self._options = spark, folder, options
        self._files = 0
        self.places = {name: str(folder / name) for name in ("in", "out", "checkpoint")}
        (folder / "in").mkdir(parents=True)

    def add(self, *tables):
        """Files of one batch each, the later ones newer."""
        for events in tables:
            path = self._folder / "in" / f"{self._files}.parquet"
            pq.write_table(events, path)
            os.utime(path, (1_000_000 + self._files,) * 2)
            self._files += 1

    def run(self):
        """Judge the files that were added; all findings so far, by run."""
        place = self.places
        reader = self._spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1)
        found = reader.parquet(place["in"]).transform(causal_audit_stream(**self._options))
        writer = found.writeStream.option("checkpointLocation", place["checkpoint"])
        query = writer.trigger(availableNow=True).start(place["out"])
        try:
            assert query.awaitTermination(PATIENCE_S), "the query does not end"
        finally:
            query.stop()
        rows = self._spark.read.parquet(place["out"]).toArrow().to_pylist()
        by_run = {}
        for row in sorted(rows, key=lambda row: (str(row["run_id"]), row["number"])):
            by_run.setdefault(row["run_id"], []).append(row)
        for findings in by_run.values():
            assert [row["number"] for row in findings] == [*range(len(findings))]
        return by_run


def dealt(seed, files):
    """The rows of random runs, in no order, some of each run in every file; and the whole runs."""
    rng = random.Random(seed)
    parts, runs = [[] for _ in range(files)], {}
    for number in range(8):
        order = ("causal", "fifo", "wild")[number % 3]
        found = executions.run(seed + number, nodes=4, messages=12, order=order, loss=0.05)
        rows = [
            (f"n{node}", at, kind, None if m is None else f"{m[0]}:{m[1]}")
            for node, log in enumerate(cuts.rows_of(found))
            for at, (kind, m) in enumerate(log)
        ]
        if number == 7:
            rows += [("n9", 0, "deliver", "nobody's"), ("n9", 1, "deliver", "0:1")]
        rng.shuffle(rows)
        name = f"run {number}"
        runs[name] = table(rows)
        for file, part in enumerate(parts):
            some = rows[file::files]
            part.append(table(some, run_id=[name] * len(some)))
    return [pa.concat_tables(part) for part in parts], runs


def pairs(findings, kind):
    """The nodes and messages in findings of a kind."""
    return sorted((row["node"], row["message"]) for row in findings if row["kind"] == kind)


def test_a_stream_finds_what_the_audit_of_the_whole_finds(spark, tmp_path):
    """Rows in no order inside and across batches, in a query that is restarted."""
    files, runs = dealt(3, files=3)
    stream = Stream(spark, tmp_path, idle_s=SOON, complete=True, witnesses=1000)
    stream.add(*files[:2])
    stream.run()
    stream.add(files[2], FLUSH)
    found = stream.run()
    violations = 0
    for name, whole in runs.items():
        (history,) = from_arrow(whole, dialect=Dialect(complete=True))
        report = audit(history, witnesses=10_000)
        violations += report.violations
        for kind in ("violation", "lost", "phantom"):
            expected = [w for w in report.witnesses if w.kind == kind]
            named = sorted((w.node_name, w.message_name) for w in expected)
            assert pairs(found[name], kind) == named, (name, kind)
        end = found[name][-1]
        assert end["kind"] == "end"
        assert end["sentence"].startswith(f"{report.verdict}: ")
    assert violations
    assert {len([row for row in rows if row["kind"] == "end"]) for rows in found.values()} == {1}


# A query whose session is killed in its second batch: with its first findings in the task, or
# when a file of that name is there.
KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from precedes.pipeline import open_session
from precedes.spark import causal_audit_stream

events, settings, place, findings, point = eval(sys.argv[1])
with open_session(master="local[1]", settings=settings) as spark:
    victims = (spark.sparkContext._gateway.proc.pid, os.getpid())

    def kill():
        for victim in victims:
            os.kill(victim, signal.SIGKILL)

    def kill_in_task(batches):
        for batch in batches:
            yield batch
            if batch.num_rows and not point:
                kill()

    def watch():
        while not any(Path(place["checkpoint"]).parent.glob(point)):
            time.sleep(0.001)
        kill()

    if point:
        threading.Thread(target=watch, daemon=True).start()
    reader = spark.readStream.schema(events).option("maxFilesPerTrigger", 1)
    found = reader.parquet(place["in"]).transform(causal_audit_stream())
    writer = found.mapInArrow(kill_in_task, findings).writeStream
    writer = writer.option("checkpointLocation", place["checkpoint"]).trigger(availableNow=True)
    writer.start(place["out"]).awaitTermination()
    threading.Event().wait(60)  # a kill that comes after all batches
"""


@pytest.mark.parametrize(
    "point",
    [
        "",
        pytest.param("checkpoint/offsets/1", marks=pytest.mark.gate),
        pytest.param("checkpoint/state/0/0/2[._]*", marks=pytest.mark.gate),
        pytest.param("out/_spark_metadata/1", marks=pytest.mark.gate),
    ],
)
def test_killed_in_the_middle_of_a_batch(spark, tmp_path, point):
    """Nothing twice, nothing missing: the findings are those of a query that was not killed."""
    files, runs = dealt(30, files=3)
    stream, whole = Stream(spark, tmp_path / "a"), Stream(spark, tmp_path / "b")
    stream.add(files[0])
    before = sum(map(len, stream.run().values()))
    stream.add(*files[1:])
    schema = "run_id string, number long, kind string, node string, message string, "
    schema += "earlier string, sentence string"
    arguments = repr((EVENTS, SETTINGS, stream.places, schema, point))
    done = subprocess.run([sys.executable, "-c", KILLED, arguments], check=False)
    assert done.returncode == -signal.SIGKILL
    found = stream.run()
    whole.add(*files)
    assert found == whole.run()
    assert sum(map(len, found.values())) > before
    for name, events in runs.items():
        report = audit(*from_arrow(events), witnesses=10_000)
        expected = [w for w in report.witnesses if w.kind == "violation"]
        named = sorted((w.node_name, w.message_name) for w in expected)
        assert pairs(found.get(name, []), "violation") == named


def test_a_run_that_cannot_be_judged_is_a_row(spark, tmp_path):
    """Once; other runs go on, and find what they find."""
    many = [("ann", at, "broadcast", f"{at}") for at in range(100)]
    bad = {
        None: (CHAT, [], "the column run_id has empty cells"),
        "twice": ([*CHAT, ("zed", 0, "broadcast", "question")], CHAT, "is broadcast again"),
        "early": ([("ann", at, "deliver", "x") for at in range(1, 9)], [], "8 rows wait"),
        "late": (many, [("zed", 0, "deliver", "7")], "a node appears after messages were dropped"),
        "again": (CHAT, CHAT[:1], "row 0 of node ann comes twice"),
    }
    stream = Stream(spark, tmp_path, late_bytes=0, early_rows_max=5)
    good = {"good": (CHAT[1:], CHAT[:1], "node eve delivered answer before question")}
    for batch in range(2):
        parts = [
            table(rows[batch], run_id=pa.array([name] * len(rows[batch]), pa.string()))
            for name, rows in {**bad, **good}.items()
        ]
        stream.add(pa.concat_tables(parts))
    found = stream.run()
    assert found.keys() == {*bad, *good}
    for name, (*_, why) in {**bad, **good}.items():
        assert why in found[name][-1]["sentence"], name
        kinds = [row["kind"] for row in found[name]]
        expected = {"good": ["violation"], "again": ["violation", "error"]}
        assert kinds == expected.get(name, ["error"])


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"idle_s": 0}, "idle_s must be more than 0 seconds, not 0"),
        ({"witnesses": -1}, "witnesses must be 0 or more, not -1"),
        ({"columns": {"node": "host"}}, "has no column 'host'"),
        ({"columns": {"local_seq": "at"}}, "local_seq of a stream holds times"),
    ],
)
def test_what_a_definition_refuses(spark, options, wrong):
    at = pa.array([5, 5, 6, 5, 6]).cast(pa.timestamp("us"))
    with pytest.raises(UserError, match=wrong):
        spark.createDataFrame(table(CHAT, at=at)).transform(causal_audit_stream(**options))


def test_a_store_without_states_of_this_kind(spark):
    hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    events = spark.createDataFrame(table(CHAT))
    with (
        configured(spark, {STORE: hdfs}),
        pytest.raises(UserError, match=f"set {STORE} to org.*RocksDBStateStoreProvider"),
    ):
        events.transform(causal_audit_stream())
