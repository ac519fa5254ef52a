"""Tables of events on Spark: what is judged, and what is refused."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline import unordered
from precedes.pipeline.audit import audit_files, audit_tables, audit_tables_here
from precedes.pipeline.events import read_events
from precedes.pipeline.runner import SparkRunner
from precedes.pipeline.spark import jobs
from precedes.sim import Scenario, simulate
from precedes.spark import causal_audit, causal_violations, register
from precedes.trace import Dialect, from_arrow, load
from precedes.trace.formats.tables import table_files
from precedes.trace.schema import EVENTS
from tests.support.chat import CHAT, table
from tests.support.processes import printed


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
    register(spark)
    lined = spark.read.format("precedes").load(str(tmp_path / "log.jsonl"))
    for frame in (events, tabled.repartition(3), lined):
        runs = frame.transform(causal_audit())
        violations = runs.transform(causal_violations())
        (run,) = runs.toArrow().to_pylist()
        names = ("verdict", "nodes", "messages", "deliveries", "violations", "violating_messages")
        assert {n: run[n] for n in names} == {n: getattr(expected, n) for n in names}
        sentences = [row["sentence"] for row in violations.toArrow().to_pylist()]
        witnesses = [w.sentence for w in expected.witnesses if w.kind == "violation"]
        assert sentences[: len(witnesses)] == witnesses
    with pytest.raises(UserError, match="there is no log"):
        read_events(spark, tmp_path / "none")


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
    register(spark)
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


def test_only_parquet_is_handed_to_spark(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"node": "a", "kind": "crash"}))
    assert main(["audit", str(path), "--format", "events"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"precedes: {path} is not a Parquet file")
    assert len(error.splitlines()) == 1
    pq.write_table(table(CHAT), tmp_path / "chat.parquet")
    with pytest.raises(UserError, match="is not a Parquet file, as tables of events are"):
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
    """A task packs many files into common blocks: a table may have thousands of files."""
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


# Audits tables with few file handles; prints violations and peak memory in MiB.
MANY_RUNS = """
import resource, sys
from pathlib import Path
from precedes.pipeline.audit import audit_tables_here

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
reports = audit_tables_here([sys.argv[1]])
print(len(reports), sum(report.violations for report in reports))
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) >> 10)
"""


def test_many_runs_share_handles_and_memory(tmp_path):
    """A run has no file and no copy of the names of its own; every third has a violation."""
    used_mib = []
    for count in (30, 3_000):
        runs = [(run, CHAT if run % 3 == 0 else CHAT[:3]) for run in range(count)]
        rows = [row for _, chat in runs for row in chat]
        events = table(rows, run_id=[f"run {run}" for run, chat in runs for _ in chat])
        path = tmp_path / f"{count}.parquet"
        pq.write_table(events, path)
        totals, mib = printed("-c", MANY_RUNS, path).splitlines()
        assert totals == f"{count} {count // 3}"
        used_mib.append(int(mib))
    assert used_mib[1] < used_mib[0] + 100
