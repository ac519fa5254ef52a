"""Tables of events on Spark: what is judged, and what is refused."""

import json
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline import unordered
from precedes.pipeline.audit import audit_files, audit_tables, audit_tables_here
from precedes.pipeline.events import audit_events, read_events, register_source
from precedes.pipeline.runner import SparkRunner
from precedes.pipeline.spark import jobs
from precedes.sim import Scenario, simulate
from precedes.trace import Dialect, from_arrow, load
from precedes.trace.formats.tables import table_files
from precedes.trace.schema import EVENTS
from tests.support.chat import CHAT, changed, table


def test_a_mobile_trace_is_judged_as_the_trace_is(spark, tmp_path):
    """Joins with what they begin with, in columns source and seq."""
    scenario = Scenario(
        protocol="mobile", nodes=6, rate=10.0, duration_s=4.0, parameters={"joins_s": 3.0}
    )
    path = tmp_path / "[mobile] {1}.parquet"
    simulate(scenario, trace=path)
    (history,) = load(path)
    assert (history.join_message >= 0).any()
    expected = audit(history)
    assert expected.verdict == "held"
    (found,) = audit_tables(spark, [str(path)])
    assert (found.verdict, found.deliveries, found.violations) == ("held", expected.deliveries, 0)
    assert audit_files(spark, [str(path)]) == [expected]


def test_every_format_is_one_frame(spark, tmp_path):
    """The same events from a trace, from JSON lines and from a table with other names."""
    scenario = Scenario(protocol="unordered", nodes=5, messages=40, duration_s=4.0)
    trace = tmp_path / "run.parquet"
    simulate(scenario, trace=trace)
    events = read_events(spark, trace)
    assert events.schema.names == EVENTS.names
    found = events.toArrow().sort_by([("node", "ascending"), ("local_seq", "ascending")])
    rows = found.to_pylist()
    lines = [{name: row[name] for name in ("node", "kind", "message")} for row in rows]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pq.write_table(
        found.rename_columns({"node": "host"}), tmp_path / "table.parquet", row_group_size=99
    )
    dialect = Dialect(columns={"node": "host"})
    tabled = read_events(spark, str(tmp_path / "table.parquet"), "parquet", dialect=dialect)
    expected = audit(*load(trace))
    assert expected.violations
    register_source(spark)
    lined = spark.read.format("precedes").load(str(tmp_path / "log.jsonl"))
    for frame in (events, tabled.repartition(3), lined):
        runs, violations = audit_events(frame)
        (run,) = runs.toArrow().to_pylist()
        names = ("verdict", "nodes", "messages", "deliveries", "violations", "violating_messages")
        assert {n: run[n] for n in names} == {n: getattr(expected, n) for n in names}
        sentences = [row["sentence"] for row in violations.toArrow().to_pylist()]
        witnesses = [w.sentence for w in expected.witnesses if w.kind == "violation"]
        assert sentences[: len(witnesses)] == witnesses
    with pytest.raises(UserError, match="there is no log"):
        read_events(spark, tmp_path / "none")


def test_runs_may_have_names(spark):
    names = [str(uuid.UUID(int=number)) for number in (3, 1, 2)]
    parts = [table(CHAT, run_id=[name] * len(CHAT)) for name in names]
    parts[1] = parts[1].slice(0, 3)
    events = spark.createDataFrame(pa.concat_tables(parts)).repartition(3, "message")
    found = audit_events(events)
    runs = found.runs.toArrow().to_pylist()
    assert [run["run_id"] for run in runs] == sorted(names)
    assert [run["verdict"] for run in runs] == ["held", "violated", "violated"]
    first, second = found.violations.toArrow().to_pylist()
    assert (first["run_id"], second["run_id"]) == (names[2], names[0])
    assert (first["node"], first["message"], first["earlier"]) == ("eve", "answer", "question")
    assert "node eve delivered answer before question" in first["sentence"]
    assert [(step["node"], step["message"]) for step in first["steps"]] == [
        ("ann", "question"),
        ("bob", "question"),
        ("bob", "answer"),
    ]


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (table(changed(3, kind=None)), "node eve, local_seq 0: no kind"),
        (table(CHAT, run_id=pa.array([0.5] * 5)), "the column run_id holds double"),
        (table(CHAT).drop("local_seq"), "the table of events lacks local_seq"),
        (
            table(CHAT, local_seq=pa.array([0, 0, 1, 0, 0])),
            "events of node eve share the local_seq 0",
        ),
        (
            table(CHAT, source=pa.array([0, None, 1, 1, 0]), seq=[1, 1, 1, 1, 1]).drop("message"),
            "the column message has empty cells",
        ),
    ],
)
def test_mistakes_are_refused_on_spark(spark, events, wrong):
    with pytest.raises(UserError, match=wrong):
        audit_events(spark.createDataFrame(events))


def test_receivers_and_two_columns_of_one_name_are_refused(spark):
    whole = table(CHAT, to=pa.array(["bob", None, None, None, None]))
    with pytest.raises(UserError, match="the DataFrame of events has a column 'to'"):
        audit_events(spark.createDataFrame(whole))
    twice = spark.createDataFrame(whole.drop("to")).selectExpr("*", "message as message")
    with pytest.raises(UserError, match="the DataFrame of events has two columns 'message'"):
        audit_events(twice)


RAW = {"names": ("node", "kind", "message"), "numbered": ("node", "kind", "message", "local_seq")}


def write_rows(path, rows, names):
    """Rows of the table as a file of the format that its name ends with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen = table(rows).select(names)
    if path.suffix == ".parquet":
        pq.write_table(chosen, path, row_group_size=1)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in chosen.to_pylist()))
    else:
        lines = [",".join(map(str, row.values())) for row in chosen.to_pylist()]
        header = [",".join(names)] if path.suffix == ".csv" else []
        path.write_text("\n".join([*header, *lines]))


def judged(frame):
    """The verdict on each run in a frame, or why there is none, without a second job."""
    rows = frame.toArrow()
    found = {}
    for run_id in set(rows.column("run_id").to_pylist()):
        try:
            (history,) = from_arrow(rows.filter(pc.equal(rows.column("run_id"), run_id)))
            found[run_id] = audit(history).verdict
        except UserError as error:
            found[run_id] = "refused" if "share the local_seq" in str(error) else str(error)
    return found


def test_folders_are_columns(spark, tmp_path, capsys):
    """Runs as Spark partitions them, in several formats."""
    held = [("ann", 0, "broadcast", "x"), ("bob", 0, "deliver", "x")]
    swapped = [("ann", 1, "broadcast", "y"), ("ann", 2, "broadcast", "z")]
    swapped += [("bob", 1, "deliver", "z"), ("bob", 2, "deliver", "y")]
    events = tmp_path / "events"
    parts = [table(held, run_id=["r1"] * 2), table(swapped, run_id=["r2"] * 4)]
    writer = spark.createDataFrame(pa.concat_tables(parts)).repartition(2).write
    writer.partitionBy("run_id").parquet(str(events))
    expected = {"r1": "held", "r2": "violated"}
    assert {r.run_id: r.verdict for r in audit_tables(spark, [events])} == expected
    assert main(["audit", str(events), "--format", "events"]) == 1
    # As a shell writes the folders out.
    folders = sorted(map(str, events.glob("run_id=*")))
    assert main(["audit", *folders, "--format", "events"]) == 1
    assert capsys.readouterr().out.count("run r2: violated") == 2
    for run_id, ending in (("r3", "jsonl"), ("r4", "csv")):
        write_rows(events / f"run_id={run_id}" / f"part.{ending}", swapped, RAW["numbered"])
        expected[run_id] = "violated"
    assert judged(read_events(spark, events)) == expected
    register_source(spark)
    assert judged(spark.read.format("precedes").load(str(events))) == expected


def test_a_node_in_two_files_needs_positions(spark, tmp_path):
    """By lines alone its rows would interleave: held for violated, and the reverse."""
    sent = [("ann", 0, "broadcast", "x"), ("ann", 1, "broadcast", "y")]
    late, early = ("bob", 1, "deliver", "x"), ("bob", 0, "deliver", "y")
    cases = {
        "two": ([[*sent, early], [late]], "names", "refused"),
        "numbered": ([[*sent, early], [late]], "numbered", "violated"),
        "own": ([sent, [early, late]], "names", "violated"),
        "swapped": ([sent, [late, early]], "names", "held"),
    }
    expected = {}
    for ending in ("jsonl", "csv", "parquet", "txt"):
        folder = tmp_path / ("text" if ending == "txt" else "tables")
        for case, (parts, columns, verdict) in cases.items():
            expected[f"{case}-{ending}"] = verdict
            for number, rows in enumerate(parts):
                path = folder / f"run_id={case}-{ending}" / f"{number}.{ending}"
                write_rows(path, rows, RAW[columns])
    found = judged(read_events(spark, tmp_path / "tables"))
    expression = r"^(?<host>\w+),(?<kind>\w+),(?<message>\w+)(,(?<local_seq>\w+))?$"
    text = read_events(spark, tmp_path / "text", dialect=Dialect(parser=expression))
    assert {**found, **judged(text)} == expected


def test_files_of_several_writers_are_judged_alike(spark, tmp_path):
    whole = table(CHAT)
    for number, kind in enumerate((pa.int32(), pa.int64(), pa.timestamp("s"), pa.timestamp("us"))):
        place = whole.column("local_seq").cast(kind)
        part = whole.set_column(1, "local_seq", place).append_column("run_id", [[f"{number}"] * 5])
        if number % 2:
            part = part.set_column(0, "node", part.column("node").cast(pa.large_string()))
        pq.write_table(part, tmp_path / f"{number}.parquet")
    found = audit_tables(spark, [tmp_path])
    assert [report.violations for report in found] == [1] * 4
    assert [r.witnesses for r in audit_tables_here([tmp_path])] == [r.witnesses for r in found]
    assert judged(read_events(spark, tmp_path)) == dict.fromkeys("0123", "violated")


def test_times_are_positions_in_a_frame(spark):
    """An instant, which Spark has as a type of its own."""
    for seconds, verdict in (([5, 5, 6, 5, 6], "violated"), ([5, 5, 6, 6, 5], "held")):
        at = pa.array(seconds).cast(pa.timestamp("s", "UTC"))
        runs, _ = audit_events(spark.createDataFrame(table(CHAT, local_seq=at)))
        assert [run["verdict"] for run in runs.toArrow().to_pylist()] == [verdict]


def test_only_parquet_is_handed_to_spark(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"node": "a", "kind": "crash"}))
    assert main(["audit", str(path), "--format", "events"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"precedes: {path} is no Parquet file")
    assert len(error.splitlines()) == 1
    pq.write_table(table(CHAT), tmp_path / "chat.parquet")
    with pytest.raises(UserError, match="is no Parquet file, as tables of events are"):
        table_files([tmp_path])
    path.rename(tmp_path / "_log.jsonl")
    table_files([tmp_path])
    with pytest.raises(UserError, match="there is no table"):
        table_files([tmp_path / "none"])


def test_spark_reads_no_pipes(spark):
    for path in ("-", "/dev/null", "/none"):
        with pytest.raises(UserError, match=f"there is no file {path}"):
            audit_files(spark, [path])


def test_small_tables_share_blocks(spark, tmp_path):
    """What a task packs goes into common blocks: files of a table may be thousands."""
    tables = tmp_path / "tables"
    tables.mkdir()
    for run in range(12):
        part = table(CHAT)
        part = part.append_column("run_id", pa.array([run] * part.num_rows))
        pq.write_table(part, tables / f"part-{run:02d}.parquet")
    files = table_files([tables])
    packed = unordered.pack_tables(SparkRunner(spark), files, tmp_path)
    assert len(packed.blocks) <= 2 * jobs.parallelism(spark) < len(files)
    reports = audit_tables(spark, [tables])
    assert [(report.run_id, report.violations) for report in reports] == [(r, 1) for r in range(12)]
