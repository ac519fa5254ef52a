"""Lazy audits of DataFrames: the verdicts of one process, one plan, and errors as rows."""

import contextlib
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException

from precedes import view
from precedes.audit import audit
from precedes.errors import UserError
from precedes.pipeline.audit import audit_tables_here
from precedes.pipeline.spark.java import java_home
from precedes.spark import audit_giant, causal_audit, causal_violations, register
from precedes.trace import Dialect, from_arrow
from tests.support import cuts, executions
from tests.support.chat import CHAT, changed, table
from tests.support.processes import printed

STEP = ("node", "kind", "message", "position")


def jobs_of(spark):
    """The number of jobs that a session has started."""
    return spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()


@contextlib.contextmanager
def configured(spark, settings):
    """A session with other settings for a block."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def rows_by_run(runs):
    """The rows of the transform, by run."""
    rows = runs.toArrow().to_pylist()
    found = {row.pop("run_id"): row for row in rows}
    assert len(found) == len(rows)
    return found


def judged(events, **options):
    """The report of one process on the only run in a table, or why there is none."""
    try:
        return audit(*from_arrow(events, dialect=Dialect(**options)))
    except UserError as error:
        return str(error)


def agree(found, report):
    """A row of the transform is the report of one process, or both refuse the rows."""
    witnesses = [dict(witness) for witness in found["witnesses"]]
    if isinstance(report, str):
        assert found["error"]  # in the words of another reader
        assert (found["verdict"], witnesses) == ("unknown", [])
        return
    assert found["error"] is None
    for name in found.keys() - {"error", "witnesses", "notes"}:
        assert found[name] == getattr(report, name), name
    assert found["notes"] == [*report.notes]
    assert [witness["number"] for witness in witnesses] == [*range(len(report.witnesses))]
    for row, witness in zip(witnesses, report.witnesses, strict=True):
        assert (row["kind"], row["sentence"]) == (witness.kind, witness.sentence)
        for name in ("node", "message", "earlier"):
            assert row[name] == getattr(witness, f"{name}_name")
        steps = [(s.node_name, s.kind, s.message_name, s.position) for s in witness.steps]
        assert [tuple(step[name] for name in STEP) for step in row["steps"]] == steps


def random_run(seed):
    """Rows of a random execution in no order, and its dialect's ``complete``."""
    rng = random.Random(seed)
    if seed % 3:
        order = rng.choice(("causal", "fifo", "wild"))
        own = rng.choice(("none", "now", "later"))
        found = executions.run(seed, nodes=4, messages=8, order=order, loss=0.1, own=own)
    else:
        found = executions.scramble(seed, nodes=4, messages=8, rows=20)
    if seed % 2:
        executions.with_members(found, rng)
    step, first = rng.choice(((1, 0), (1, 5), (900, -400)))
    rows = [
        (node, first + step * at, kind, m)
        for node, log in enumerate(cuts.rows_of(found))
        for at, (kind, m) in enumerate(log)
    ]
    rng.shuffle(rows)
    return rows


def named_table(rows):
    """Names with characters that formats trip over."""
    names = ["", "e\u0301", "\u00e9", "a\0b"]
    return table(
        [
            (f"n {names[node]}", at, kind, None if m is None else f"{names[m[0]]}:{m[1]}")
            for node, at, kind, m in rows
        ]
    )


def numbered_table(rows):
    """Whole numbers of several widths, and columns ``source`` and ``seq``."""
    source = [None if m is None else m[0] for *_, m in rows]
    seq = [None if m is None else m[1] for *_, m in rows]
    return pa.table(
        {
            "node": pa.array([node for node, *_ in rows], pa.int16()),
            "local_seq": pa.array([at for _, at, *_ in rows], pa.int32()),
            "kind": [kind for _, _, kind, _ in rows],
            "source": pa.array(source, pa.int8()),
            "seq": pa.array(seq, pa.int64()),
        }
    )


def timed_table(rows):
    """Instants as positions, and columns that Spark finds whatever their case is."""
    found = named_table(rows)
    instants = found.column("local_seq").cast(pa.timestamp("us", "UTC"))
    return found.set_column(1, "local_seq", instants)


BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
SETTINGS = [
    (named_table, {}),
    (numbered_table, {"spark.sql.ansi.enabled": "false", BATCH: "7"}),
    (timed_table, {"spark.sql.execution.arrow.pyspark.enabled": "false"}),
    (numbered_table, {"spark.sql.caseSensitive": "true"}),
    (named_table, {"spark.sql.adaptive.enabled": "true", BATCH: "1"}),
]


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_random_runs_are_judged_as_in_one_process(spark, number):
    make, settings = SETTINGS[number]
    complete = bool(number % 2)
    tables = {str(seed): make(random_run(seed)) for seed in range(12 * number, 12 * number + 12)}
    parts = [t.append_column("run_id", [[run] * t.num_rows]) for run, t in tables.items()]
    whole = pa.concat_tables(parts)
    whole = whole.take(pa.array(random.Random(number).sample(range(len(whole)), len(whole))))
    if settings.get("spark.sql.caseSensitive") != "true":
        whole = whole.rename_columns([name.title() for name in whole.column_names])
    events = spark.createDataFrame(whole)
    with configured(spark, settings):
        found = rows_by_run(events.transform(causal_audit(complete=complete)))
    assert found.keys() == {run for run, t in tables.items() if t.num_rows}
    assert any(row["violations"] for row in found.values())
    for run, row in found.items():
        agree(row, judged(tables[run], complete=complete))


def broadcasts(count, swapped=None, twice=False):
    """A node broadcasts, another one delivers, perhaps with two deliveries swapped."""
    got = [*range(count)]
    if swapped is not None:
        got[swapped : swapped + 2] = swapped + 1, swapped
    sent = [("ann", at, "broadcast", f"{at}") for at in range(count)]
    rows = [*sent, *(("bob", at, "deliver", f"{m}") for at, m in enumerate(got))]
    return [*rows, ("cid", 0, "broadcast", "0")] if twice else rows


def test_small_runs_are_judged_together_and_large_ones_alone(spark):
    """More rows than are judged together; a run that cannot be judged affects no other."""
    runs = {f"{number}": broadcasts(600) for number in range(50)}
    runs |= {"swapped": broadcasts(600, swapped=7), "twice": broadcasts(600, twice=True)}
    runs |= {"large": broadcasts(30_000, swapped=9)}
    parts = [table(rows, run_id=[name] * len(rows)) for name, rows in runs.items()]
    found = rows_by_run(spark.createDataFrame(pa.concat_tables(parts)).transform(causal_audit()))
    assert found.keys() == runs.keys()
    wrong = {name: row["verdict"] for name, row in found.items() if row["verdict"] != "held"}
    assert wrong == {"swapped": "violated", "large": "violated", "twice": "unknown"}
    for name in ("0", "swapped", "twice", "large"):
        agree(found[name], judged(table(runs[name])))


SOUND = [(node, at, kind, message) for node, at, kind, message in CHAT]
ODD = {
    "gaps": [(n, s * 1000 - 500, k, m) for n, s, k, m in SOUND],
    "both ends of 64 bits": [(n, [-(2**63), 2**63 - 1][s], k, m) for n, s, k, m in SOUND],
    "the same position": [*SOUND, ("eve", 1, "deliver", "answer")],
    "numbers as names": [(str("abe".index(n[0]) * 9 + 1), s, k, m) for n, s, k, m in SOUND],
    "null in a name": [(n, s, k, f"{m}\0x") for n, s, k, m in SOUND],
    "empty names": [("" if n == "ann" else n, s, k, m[:-8]) for n, s, k, m in SOUND],
    "no node": [*SOUND, (None, 0, "deliver", "question")],
    "no node in a row of no use": [*SOUND, (None, 0, "send", "question")],
    "no position": [*SOUND, ("zed", None, "deliver", "question")],
    "no message": [*SOUND, ("zed", 0, "deliver", None)],
    "no kind": changed(3, kind=None),
    "unknown kind": [*SOUND, ("zed", 0, "dlvr", "question")],
    "broadcast twice": [*SOUND, ("zed", 0, "broadcast", "question")],
    "phantoms": [*SOUND, ("zed", 0, "deliver", "zz"), ("zed", 1, "deliver", "yy")],
    "members": [
        *SOUND, ("zed", 0, "join", "question"), ("zed", 1, "deliver", "answer"),
        ("fay", 0, "join", None), ("bob", 2, "crash", None), ("ann", 1, "leave", None),
    ],
    "a crash with a message": [*SOUND, ("bob", 2, "crash", "zz")],
    "an own delivery": [*SOUND, ("ann", 1, "deliver", "question")],
    "only rows of no use": [("ann", 0, "send", "question")],
}  # fmt: skip


def test_odd_tables(spark):
    """Each is a run of one table: what cannot be judged does not affect the others."""
    parts = [table(rows, run_id=[name] * len(rows)) for name, rows in ODD.items()]
    parts.append(table(SOUND, run_id=pa.array([None] * 5, pa.string())))
    whole = pa.concat_tables(parts)
    events = spark.createDataFrame(whole.take(pa.array([*range(whole.num_rows)][::-1])))
    found = rows_by_run(events.transform(causal_audit()))
    assert found.pop(None)["error"] == "the column run_id has empty cells"
    assert found.keys() == ODD.keys() - {"only rows of no use"}
    for name, row in found.items():
        agree(row, judged(table(ODD[name])))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("local_seq", pa.array([5, 5, 6, 5, 6]).cast(pa.timestamp("us"))),
        ("local_seq", pa.array([0, 0, 1, 0, 1], pa.int8())),
        ("node", pa.array([*"abbcc"]).cast(pa.large_string())),
        ("run_id", pa.array([10**12] * 5)),
        ("local_seq", pa.array([0.0, 0, 1, 0, 1])),
        ("local_seq", pa.array([0, 0, 1, 0, 1]).cast(pa.decimal128(20, 0))),
        ("node", pa.array([b"a", b"b", b"b", b"c", b"c"])),
        ("run_id", pa.array([0.5] * 5)),
    ],
)
def test_types(spark, column, values):
    """Types that one process takes are taken, others are refused when the plan is defined."""
    events = table(CHAT)
    if column in events.column_names:
        events = events.drop(column)
    events = events.append_column(column, values)
    try:
        (history,) = from_arrow(events)
    except UserError:
        with pytest.raises(UserError, match=f"the column {column} holds .*: cast it"):
            spark.createDataFrame(events).transform(causal_audit())
        return
    (found,) = rows_by_run(spark.createDataFrame(events).transform(causal_audit())).values()
    assert found["verdict"] == audit(history).verdict == "violated"


def filed(**columns):
    """The chat with other columns."""
    events = table(CHAT)
    for name, values in columns.items():
        events = events.set_column(events.column_names.index(name), name, values)
    return events


MESSAGES = table(CHAT).column("message")
NODES = table(CHAT).column("node")
FILES = {
    "dictionaries": filed(node=NODES.dictionary_encode(), message=MESSAGES.dictionary_encode()),
    "large strings": filed(message=MESSAGES.cast(pa.large_string())),
    "views of strings": filed(node=NODES.cast(pa.string_view())),
    "accents": filed(
        message=[["e\u0301" if m == "answer" else "\u00e9" for m in MESSAGES.to_pylist()]]
    ),
    "names that differ behind a zero byte": filed(message=[[f"m\0{m.as_py()}" for m in MESSAGES]]),
    "whole numbers as nodes": filed(node=pa.array([1, 10, 10, 19, 19], pa.int16())),
    "no rows": table([]),
}
REFUSED = {
    "unsigned": filed(local_seq=pa.array([0, 0, 1, 0, 1], pa.uint64())),  # a decimal in Spark
    "binary names": filed(node=NODES.cast(pa.binary())),
    "fractions": filed(local_seq=pa.array([0.0, 0, 1, 0, 1])),
}


def test_files_of_odd_types(spark, tmp_path):
    """Read by Spark itself, in two parts, against the files in one process."""
    for name, events in {**FILES, **REFUSED}.items():
        directory = tmp_path / name
        directory.mkdir()
        for number, part in enumerate((events.slice(0, 2), events.slice(2))):
            pq.write_table(part, directory / f"{number}.parquet")
        frame = spark.read.parquet(str(directory))
        if name in REFUSED:
            with pytest.raises(UserError, match=r"the column .* holds .*: cast it"):
                frame.transform(causal_audit())
            continue
        reports = audit_tables_here([str(directory)])
        found = rows_by_run(frame.transform(causal_audit()))
        assert len(found) == len(reports) == bool(len(events)), name
        for row, report in zip(found.values(), reports, strict=True):
            agree(row, report)
            assert row["violations"] == 1


def test_what_a_definition_refuses(spark):
    def define(events, **options):
        return spark.createDataFrame(events).transform(causal_audit(**options))

    with pytest.raises(UserError, match="the DataFrame of events lacks local_seq"):
        define(table(CHAT).drop("local_seq"))
    whole = table(CHAT, to=pa.array(["bob", None, None, None, None]))
    with pytest.raises(UserError, match="the DataFrame of events has a column 'to'"):
        define(whole)
    twice = spark.createDataFrame(whole.drop("to")).selectExpr("*", "message as message")
    with pytest.raises(UserError, match="the DataFrame of events has two columns 'message'"):
        twice.transform(causal_audit())
    with pytest.raises(UserError, match="has no column 'host', which `columns` names for node"):
        define(table(CHAT), columns={"node": "host"})
    with pytest.raises(UserError, match="rows_max is 1 or more, not 0"):
        causal_audit(rows_max=0)
    with pytest.raises(UserError, match="the events are a stream: use causal_audit_stream"):
        spark.readStream.format("rate").load().transform(causal_audit())


def test_a_definition_starts_no_job(spark):
    spark.createDataFrame(table(CHAT)).createOrReplaceTempView("chat")
    before = jobs_of(spark)
    register(spark)
    runs = spark.table("chat").transform(causal_audit())
    violations = runs.transform(causal_violations())
    in_sql = spark.sql("SELECT * FROM causal_audit(TABLE(chat) WITH SINGLE PARTITION)")
    assert jobs_of(spark) == before
    (expected,) = audit(from_arrow(table(CHAT))[0]).witnesses
    (found,) = violations.toArrow().to_pylist()
    assert (found["sentence"], found["node"]) == (expected.sentence, "eve")
    assert in_sql.toArrow().to_pylist() == runs.toArrow().to_pylist()


def test_the_table_function(spark):
    """The rows of the transform; rows that are not where they belong are refused."""
    names = ("a", "b", None)
    parts = [table(CHAT, run_id=pa.array([name] * 5, pa.string())) for name in names]
    events = spark.createDataFrame(pa.concat_tables(parts)).repartition(2, "message")
    events.createOrReplaceTempView("events")
    register(spark)
    sql = "SELECT * FROM causal_audit(TABLE(events) PARTITION BY run_id, complete => true)"
    found = rows_by_run(spark.sql(sql))
    assert found == rows_by_run(events.transform(causal_audit(complete=True)))
    assert {name: row["lost"] for name, row in found.items()} == {"a": 1, "b": 1, None: 0}
    events.where("run_id = 'a'").createOrReplaceTempView("one")
    spark.table("one").drop("run_id").createOrReplaceTempView("bare")
    by_run, single = r"TABLE\(...\) PARTITION BY run_id", r"TABLE\(...\) WITH SINGLE PARTITION"
    for arguments, wrong in (
        ("TABLE(events)", by_run),
        ("TABLE(one)", by_run),  # each task would judge a part of the run
        ("TABLE(one) PARTITION BY node", by_run),
        ("TABLE(bare)", single),
        ("TABLE(bare) PARTITION BY node", single),
        ("TABLE(one) PARTITION BY run_id, complete => 'no'", "complete is true or false, not 'no'"),
    ):
        with pytest.raises(PythonException, match=wrong):
            spark.sql(f"SELECT * FROM causal_audit({arguments})").collect()
    for arguments in ("TABLE(one) PARTITION BY run_id", "TABLE(bare) WITH SINGLE PARTITION"):
        (row,) = spark.sql(f"SELECT * FROM causal_audit({arguments})").collect()
        assert (row["verdict"], row["violations"]) == ("violated", 1)


# A session of the user's own, whose executors run another Python.
FOREIGN = """
from pyspark.sql import SparkSession
from precedes.spark import causal_audit, causal_audit_stream, register
from precedes.spark.stream import ROCKSDB, STORE

settings = {STORE: ROCKSDB, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
events = spark.createDataFrame(
    [("ann", 0, "broadcast", "m")], "node string, local_seq long, kind string, message string"
)
events.createOrReplaceTempView("events")
register(spark)
for query in (
    lambda: events.transform(causal_audit()),
    lambda: spark.sql("SELECT * FROM causal_audit(TABLE(events) WITH SINGLE PARTITION)"),
    lambda: events.transform(causal_audit_stream()),
    lambda: spark.read.format("precedes").load("log.jsonl"),
):
    try:
        query().collect()
    except Exception as error:
        lines = str(error).splitlines()
        print(*[line for line in lines if line.startswith("ModuleNotFoundError")])
"""
HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "precedes":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.gate
def test_the_python_of_executors_that_lack_this_package_is_named(tmp_path):
    """In the transform, the table function, the stream and the data source."""
    (tmp_path / "sitecustomize.py").write_text(HIDING)
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    places = {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": str(other)}
    lines = printed("-c", FOREIGN, env=places).splitlines()
    said = f"ModuleNotFoundError: No module named 'precedes', in a task of {sys.executable}: "
    assert [line[: len(said)] for line in lines] == [said] * 4


# The chat as somebody else logs it.
DIALECT = {
    "columns": {"node": "host", "run_id": "day"},
    "kinds": {"tx": "broadcast", "rx": "deliver", "*": "ignore"},
}


def foreign_chats(spark):
    """Two runs, one of them with a loss, in the words of ``DIALECT``."""
    words = {"broadcast": "tx", "deliver": "rx"}
    rows = [(node, at, words[kind], message) for node, at, kind, message in CHAT]
    rows.append(("eve", 2, "noise", None))
    parts = [table(rows, run_id=["whole"] * 6), table(rows[:3], run_id=["cut"] * 3)]
    names = ["host", "local_seq", "kind", "message", "day"]
    return spark.createDataFrame(pa.concat_tables(parts).rename_columns(names))


def test_dialects_and_completeness(spark):
    events = foreign_chats(spark)
    found = rows_by_run(events.transform(causal_audit(**DIALECT)))
    assert (found["whole"]["violations"], found["cut"]["undelivered_at_end"]) == (1, 1)
    found = rows_by_run(events.transform(causal_audit(**DIALECT, complete=True, witnesses=0)))
    assert (found["whole"]["lost"], found["cut"]["lost"]) == (1, 1)
    assert found["whole"]["witnesses"] == []
    giant = {str(r.run_id): r for r in audit_giant(events, **DIALECT, complete=True)}
    assert {run: (r.violations, r.lost) for run, r in giant.items()} == {
        run: (row["violations"], row["lost"]) for run, row in found.items()
    }


def test_a_run_that_is_too_large_for_a_task(spark):
    parts = [table(CHAT, run_id=["large"] * 5), table(CHAT[:3], run_id=["small"] * 3)]
    events = spark.createDataFrame(pa.concat_tables(parts))
    with configured(spark, {BATCH: "2"}):
        found = rows_by_run(events.transform(causal_audit(rows_max=4)))
    assert found["small"]["verdict"] == "held"
    assert found["large"]["error"] == (
        "run large has more than 4 rows, too many for one task: audit it with "
        "precedes.spark.audit_giant, or raise rows_max"
    )


def test_a_dataframe_goes_into_audit_and_view(spark):
    """Its rows are collected: the verdict is that of the same rows in this process."""
    events = spark.createDataFrame(table(CHAT))
    assert audit(events) == audit(table(CHAT))
    assert "violated: 1 of" in repr(view(events))
