"""The data source: options, folders and filters, and logs that grow, read as if they were whole."""

import json
import pickle
import random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import EqualTo, In, IsNotNull
from pyspark.sql.types import LongType, StringType, StructType

from precedes.errors import UserError
from precedes.pipeline.spark.jobs import RECORDS
from precedes.spark import causal_audit, causal_audit_stream, register
from precedes.spark.data_source import FILES_MAX, EventsSource
from precedes.trace import event_batches
from precedes.trace.member_log import BROKEN
from precedes.trace.schema import EVENTS
from tests.support import executions, growing
from tests.support.chat import CHAT, table

ORDER = [("run_id", "ascending"), ("node", "ascending"), ("local_seq", "ascending")]


def source(path, **options):
    return EventsSource({"path": str(path), **options})


def rows_of(reader, partitions):
    """The rows from the tasks of a reader, each with a copy of it."""
    batches = [b for part in partitions for b in pickle.loads(pickle.dumps(reader)).read(part)]
    return pa.Table.from_batches(batches) if batches else EVENTS.empty_table()


def read(path, *filters, **options):
    """The rows that a query asks for, and the filters that are left to Spark."""
    log = source(path, **options)
    reader = log.reader(log.schema())
    left = reader.pushFilters(list(filters))
    return rows_of(reader, reader.partitions()).sort_by(ORDER).to_pylist(), left


def write_runs(folder):
    """Runs in folders of days, some in one file by row groups; one file is not Parquet."""
    for day, runs in (("1", "ab"), ("2", "cd")):
        (folder / f"day={day}").mkdir(parents=True)
        parts = pa.concat_tables([table(CHAT, run_id=[run] * len(CHAT)) for run in runs])
        pq.write_table(parts, folder / f"day={day}" / "part.parquet", row_group_size=len(CHAT))
    (folder / "day=3" / "run_id=e").mkdir(parents=True)
    rows = [dict(zip(("node", "local_seq", "kind", "message"), row, strict=True)) for row in CHAT]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "day=3" / "run_id=e" / "log.jsonl").write_text(text)
    (folder / "day=4").mkdir()
    (folder / "day=4" / "part.parquet").write_bytes(b"PAR1 and nothing else PAR1")


def test_filters_are_taken_over_and_spare_files(tmp_path):
    write_runs(tmp_path)
    with pytest.raises(UserError, match=r"day=4/part\.parquet is cut short"):
        read(tmp_path)
    days = In(("day",), ("1", "2", "3"))
    whole, left = read(tmp_path, days)
    assert left == []
    assert [row["run_id"] for row in whole] == [run for run in "abcde" for _ in CHAT]
    assert {(row["run_id"], row["day"]) for row in whole} == {*zip("abcde", "11223", strict=True)}
    for filters, wanted in (
        ([EqualTo(("run_id",), "c")], lambda row: row["run_id"] == "c"),
        ([EqualTo(("run_id",), "e")], lambda row: row["run_id"] == "e"),
        ([In(("node",), ("ann", "eve"))], lambda row: row["node"] in ("ann", "eve")),
        ([EqualTo(("day",), "2"), In(("day",), ("1",))], lambda row: False),
    ):
        assert read(tmp_path, days, *filters) == ([row for row in whole if wanted(row)], [])
    others = [IsNotNull(("node",)), EqualTo(("kind",), "deliver"), EqualTo(("local_seq",), 0)]
    assert read(tmp_path, days, *others) == (whole, others)


def test_row_groups_without_the_run_are_not_read(tmp_path):
    path = tmp_path / "runs.parquet"
    numbers = [[7] * 5, [8] * 5, [9] * 5, [7] * 5]
    parts = table(CHAT * 4, run_id=[n for part in numbers for n in part])
    nodes = [f"{name}{row // 5}" for row, name in enumerate(parts.column("node").to_pylist())]
    pq.write_table(parts.set_column(0, "node", [nodes]), path, row_group_size=5)
    log = source(path)
    reader = log.reader(log.schema())
    reader.pushFilters([In(("run_id",), ("7", "x"))])
    orders = [json.loads(text) for part in reader.partitions() for text in part.value]
    assert sorted((order["first"], order["last"]) for order in orders) == [(0, 1), (3, 4)]
    assert [row["run_id"] for row in read(path, EqualTo(("run_id",), "8"))[0]] == ["8"] * 5
    assert read(path, EqualTo(("run_id",), "07"))[0] == []


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"kind": "deliver=recv"}, r"unknown option 'kind' \(did you mean 'kinds'\?\)"),
        ({"complete": "true"}, "pass complete=True to causal_audit"),
        ({"columns": "host"}, "`columns` takes OURS=THEIRS, not 'host'"),
        ({"logFormat": "text"}, "unknown format 'text'"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path, options, wrong):
    write_runs(tmp_path)
    with pytest.raises(UserError, match=wrong):
        read(tmp_path / "day=1", **options)


def test_a_schema_is_refused_with_the_reason(tmp_path):
    write_runs(tmp_path)
    schema = StructType().add("node", StringType()).add("local_seq", LongType())
    with pytest.raises(UserError, match=r"leave out schema\(\), map the names .* columns"):
        source(tmp_path).reader(schema)


def test_options_describe_the_log(tmp_path):
    rows = [("x", "sent", "m"), ("y", "ack", "m"), ("y", "got", "m")]
    text = "host;type;id\n" + "".join(";".join(row) + "\n" for row in rows)
    (tmp_path / "log.csv").write_text(text)
    (tmp_path / "log.txt").write_text("".join(" ".join(row) + "\n" for row in rows))
    kinds = "broadcast=sent,deliver=got,ignore=ack"
    tabled, _ = read(
        tmp_path / "log.csv", columns="node=host,kind=type,message=id", kinds=kinds, delimiter=";"
    )
    expression = r"^(?<host>\w+) (?<kind>\w+) (?<message>\w+)$"
    parsed, _ = read(tmp_path / "log.txt", parser=expression, kinds=kinds)
    for found in (tabled, parsed):
        assert [(r["node"], r["kind"]) for r in found] == [("x", "broadcast"), ("y", "deliver")]


def test_spark_reads_several_paths_with_filters(spark, tmp_path):
    register(spark)
    write_runs(tmp_path)
    paths = [str(tmp_path / "day=1"), str(tmp_path / "day=3" / "run_id=e")]
    events = spark.read.format("precedes").load(paths).where("run_id in ('a', 'e')")
    assert "Filter " not in events._jdf.queryExecution().executedPlan().toString()
    runs = events.transform(causal_audit()).toArrow().to_pylist()
    assert {run["run_id"]: run["violations"] for run in runs} == {"a": 1, "e": 1}


@pytest.mark.parametrize("records", ["0", "-1"])
def test_a_session_in_which_the_source_would_fail_is_refused(spark, records):
    before = spark.conf.get(RECORDS)
    spark.conf.set(RECORDS, records)
    try:
        with pytest.raises(UserError, match=f"maxRecordsPerBatch is {records}, with which"):
            register(spark)
    finally:
        spark.conf.set(RECORDS, before)


def read_growing(reader, start):
    """The rows of a batch, and the place up to which it reads, as a checkpoint keeps it."""
    end = json.loads(json.dumps(reader.latestOffset(start)))
    return rows_of(reader, reader.partitions(start, end)), end


def write_log(kind, folder, execution, rng):
    """Functions that each append some bytes to a growing log of an execution."""
    if kind == "members":
        logs = execution.logs
        members = [growing.Member(folder, m, len(logs), rows) for m, rows in enumerate(logs)]
        while left := [member for member in members if member.data]:
            yield rng.choice(left).write(rng.choice((1, 15, 16, 40, 400)))
        return
    data = {f"n{node}.{kind}": b"" for node in range(len(execution.logs))}
    for node, line in growing.lines(execution, rng.random()):
        row = json.loads(line)
        if kind == "csv":
            cells = (f'"{row.get(key, "")}"' for key in ("node", "kind", "message"))
            line = ",".join(cells) + "\n"
        data[f"n{node}.{kind}"] += line.encode()
    if kind == "csv":
        data = {name: b'node,kind,"message"\n' + rows for name, rows in data.items() if rows}
    while left := sorted(name for name, rows in data.items() if rows):
        name, count = rng.choice(left), rng.choice((1, 7, 40, 400))
        with (folder / name).open("ab") as file:
            file.write(data[name][:count])
        data[name] = data[name][count:]
        yield


@pytest.mark.parametrize("kind", ["jsonl", "csv", "members"])
@pytest.mark.parametrize("seed", range(4))
def test_what_grows_is_read_as_if_it_were_whole(tmp_path, kind, seed):
    rng = random.Random(seed)
    execution = executions.run(seed, nodes=3, messages=12, order="wild")
    log = source(tmp_path)
    reader, place, parts = log.streamReader(log.schema()), {}, []
    for _ in write_log(kind, tmp_path, execution, rng):
        if rng.random() < 0.3:
            rows, place = read_growing(reader, place)
            parts.append(rows)
        if rng.random() < 0.1:  # a new driver goes on from the checkpoint
            reader = source(tmp_path).streamReader(log.schema())
    parts.append(read_growing(reader, place)[0])
    found = pa.concat_tables(parts).sort_by(ORDER)
    assert read_growing(reader, read_growing(reader, place)[1])[0].num_rows == 0
    if kind == "members":
        batches = list(event_batches(tmp_path, "members"))
    else:
        batches = [b for path in tmp_path.iterdir() for b in event_batches(path, kind)]
    whole = pa.Table.from_batches(batches).sort_by(ORDER)
    if kind == "members":  # these have not ended, which a reader of whole logs calls a crash
        whole = whole.filter(pc.not_equal(whole.column("kind"), "crash"))
    assert found.num_rows > 10
    assert found.equals(whole)


def test_a_violation_is_found_while_logs_grow(spark, tmp_path):
    register(spark)
    logs = tmp_path / "logs"
    logs.mkdir()
    events = spark.readStream.format("precedes").load(str(logs))
    findings = events.transform(causal_audit_stream(gaps=True))
    writer = findings.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    found = []
    for rows in (CHAT[:4], CHAT[4:]):
        for node, _, kind, message in rows:
            with (logs / f"{node}.jsonl").open("a") as file:
                file.write(json.dumps({"node": node, "kind": kind, "message": message}) + "\n")
        writer.start(str(tmp_path / "out")).awaitTermination()
        out = spark.read.schema(findings.schema).parquet(str(tmp_path / "out"))
        found.append([(row["node"], row["message"], row["earlier"]) for row in out.collect()])
    assert found[0] == found[1] == [("eve", "answer", "question")]


def test_logs_that_do_not_only_grow_are_refused(tmp_path):
    path = tmp_path / "n.jsonl"
    path.write_text('{"node": "n", "kind": "crash"}\n' * 2)
    log = source(path)
    reader = log.streamReader(log.schema())
    rows, place = read_growing(reader, {})
    assert rows.num_rows == 2
    path.write_text("short")
    with pytest.raises(UserError, match="has become shorter"):
        reader.latestOffset(place)
    member = growing.Member(tmp_path, 0, 1, [])
    member.end(BROKEN)
    path.unlink()
    with pytest.raises(UserError, match="lacks events"):
        source(tmp_path).streamReader(log.schema()).latestOffset({})
    for options, wrong in (
        ({"logFormat": "otel"}, "files of format 'otel' do not grow"),
        ({"parser": "x"}, "parser and nodeBy are for logs that do not grow"),
        ({"maxBytesPerTrigger": "1 GB"}, "is a number of bytes, not '1 GB'"),
    ):
        with pytest.raises(UserError, match=wrong):
            source(tmp_path, **options).streamReader(log.schema()).latestOffset({})
    many = tmp_path / "many"
    many.mkdir()
    for number in range(FILES_MAX + 1):
        (many / f"{number}.jsonl").touch()
    with pytest.raises(UserError, match="holds more than 1,000 files"):
        source(many).streamReader(log.schema()).latestOffset({})
