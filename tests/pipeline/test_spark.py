"""Sweeps and audits on one Spark session of this process."""

import dataclasses
import json
import math
import re
import shutil
import statistics
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit, to_json
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline import output, read_traces, run_experiments, run_sweep
from precedes.pipeline.audit import audit_files, audit_tables
from precedes.pipeline.spark import jobs, session
from precedes.pipeline.spark.session import open_session
from precedes.sim import Scenario, simulate
from precedes.sim.experiment import Experiment
from precedes.trace import load
from tests.support import runs

TIMES = ("cpu_s", "wall_s", "tier")


def rows(directory, name):
    """A table of a sweep; the CSV says the same as the Parquet file."""
    table = pq.read_table(Path(directory) / f"{name}.parquet")
    assert table.num_rows == duckdb.read_csv(str(directory / f"{name}.csv")).shape[0]
    return table.to_pylist()


def test_results_are_those_of_single_runs(swept):
    directory, done = swept
    assert done.failures == []
    assert len(done.records) == runs.RUNS
    for run in done.runs[::5]:
        expected = simulate(run.scenario).as_dict()
        found = done.records[run.run_id]["result"]
        assert {k: v for k, v in found.items() if k not in TIMES} == json.loads(
            json.dumps({k: v for k, v in expected.items() if k not in TIMES})
        )
    table = rows(directory, "runs")
    assert [row["run_id"] for row in table] == [run.run_id for run in done.runs]
    assert {row["status"] for row in table} == {"finished"}


def test_summary_by_hand(swept):
    directory, done = swept
    values = [
        done.records[run.run_id]["result"]["violations"]["deliveries"]
        for run in done.runs
        if run.scenario.parameters.get("entries") == 40
    ]
    (row,) = (
        row
        for row in rows(directory, "protocol_summary")
        if row["params"] == "entries=40" and row["metric"] == "violating_deliveries"
    )
    half = 4.302652729911275 * statistics.stdev(values) / math.sqrt(3)
    assert (row["runs"], row["mean"]) == (3, pytest.approx(statistics.fmean(values)))
    assert row["high"] - row["mean"] == pytest.approx(half)
    assert row["mean"] - row["low"] == pytest.approx(half)


def test_audits_agree_with_the_oracle(swept):
    directory, done = swept
    verdicts = {row["run_id"]: row for row in rows(directory, "audit_runs")}
    for run in done.runs:
        found, row = done.records[run.run_id]["result"], verdicts[run.run_id]
        assert row["deliveries"] == found["deliveries"]
        assert row["violations"] == found["violations"]["deliveries"]
        assert row["verdict"] == ("violated" if row["violations"] else "held")
    per_run = {}
    for row in rows(directory, "violations"):
        per_run[row["run_id"]] = per_run.get(row["run_id"], 0) + 1
        assert (row["witness_source"], row["witness_seq"]) != (row["source"], row["seq"])
    assert set(per_run.values()) == {5}


LATENCY = """
    with events as (select * from read_parquet('{traces}')),
    born as (select run_id, source, seq, time_us from events where kind = 'broadcast'),
    latency as (
        select d.run_id, d.time_us - b.time_us as us from events d
        join born b using (run_id, source, seq) where d.kind = 'deliver' and d.node <> d.source)
"""


def test_latencies_by_duckdb(swept):
    """An independent recomputation from the same Parquet files."""
    directory, _ = swept
    query = LATENCY.format(traces=directory / "traces/*.parquet")
    expected = duckdb.sql(
        query
        + """select run_id, count(*), avg(us), quantile_disc(us, 0.5), quantile_disc(us, 0.9),
        quantile_disc(us, 0.99), quantile_disc(us, 0.999), max(us) from latency group by run_id"""
    ).fetchall()
    names = [f"latency_us_{name}" for name in ("mean", "p50", "p90", "p99", "p999", "max")]
    found = {row["run_id"]: row for row in rows(directory, "run_metrics")}
    assert len(expected) == runs.RUNS
    for run_id, count, *values in expected:
        assert found[run_id]["deliveries"] == count
        assert [found[run_id][name] for name in names] == pytest.approx(values, rel=1e-12)
    histogram = directory / "latency_hist.parquet"
    wrong = duckdb.sql(
        query
        + f"""select * from (
            select run_id, low_us, count(*) as n from latency join '{histogram}' h using (run_id)
            where us >= low_us and us < high_us group by all) c
        full join '{histogram}' h using (run_id, low_us) where n is distinct from deliveries"""
    )
    assert wrong.fetchall() == []
    summed = duckdb.sql(
        f"select sum(deliveries) from '{directory / 'latency_by_protocol.parquet'}'"
    )
    assert summed.fetchall()[0][0] == sum(count for _, count, *_ in expected)


HELD = """
    with events as (select * from read_parquet('{traces}')),
    finish as (select run_id, max(time_us) as end_us from events group by run_id),
    start as (select run_id, node, source, seq, min(local_seq) as first, min(time_us) as since
        from events where kind = 'receive' group by all),
    stop as (select run_id, node, source, seq, min(local_seq) as last, min(time_us) as until
        from events where kind in ('deliver', 'discard') group by all),
    held as (select run_id, since, coalesce(until, end_us) as until from start
        left join stop using (run_id, node, source, seq) join finish using (run_id)
        where last is null or last > first),
    change as (select run_id, since as moment, 1 as step from held
        union all select run_id, until, -1 from held),
    level as (select run_id, sum(sum(step)) over (partition by run_id order by moment) as held
        from change group by run_id, moment)
"""


def test_occupancy_by_duckdb(swept):
    directory, _ = swept
    query = HELD.format(traces=directory / "traces/*.parquet")
    whole = duckdb.sql(
        query
        + """select run_id, coalesce(sum(until - since), 0) / any_value(end_us),
        (select coalesce(max(held), 0) from level l where l.run_id = f.run_id)
        from finish f left join held using (run_id) group by run_id"""
    ).fetchall()
    found = {row["run_id"]: row for row in rows(directory, "run_metrics")}
    assert len(whole) == runs.RUNS
    assert max(most for _, _, most in whole) > 3
    for run_id, mean, most in whole:
        assert found[run_id]["held_max"] == most
        assert found[run_id]["held_mean"] == pytest.approx(mean, rel=1e-12)
    bins = duckdb.sql(
        query
        + f"""select b.run_id, b.start_us, any_value(held_mean),
        coalesce(sum(greatest(least(until, end_us) - greatest(since, start_us), 0))
            filter (where since is not null), 0) / any_value(end_us - start_us)
        from '{directory / "occupancy.parquet"}' b left join held h using (run_id)
        group by b.run_id, b.start_us"""
    ).fetchall()
    assert len(bins) == 100 * runs.RUNS
    for _, _, mean, expected in bins:
        assert mean == pytest.approx(expected, rel=1e-9, abs=1e-12)
    wrong = duckdb.sql(
        f"""select * from (
            select protocol, params, bin, avg(o.held_mean) as mean, max(o.held_max) as most
            from '{directory / "occupancy.parquet"}' o
            join '{directory / "runs.parquet"}' using (run_id) group by all) c
        full join '{directory / "occupancy_by_protocol.parquet"}' p using (protocol, params, bin)
        where most is distinct from held_max or runs <> 3
            or abs(mean - held_mean) > 1e-12 * greatest(mean, 1)"""
    )
    assert wrong.fetchall() == []


def test_spark_reads_the_traces(swept, spark):
    """Delta and dictionary encodings, the schema of traces, and every value."""
    directory, done = swept
    path = runs.trace_of(directory, done.runs[0].name)
    found = (
        read_traces(spark, str(path))
        .toArrow()
        .sort_by([("node", "ascending"), ("local_seq", "ascending")])
    )
    own = pq.read_table(path)
    assert found.column_names == own.column_names
    for name in own.column_names:
        column = own.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        assert found.column(name).combine_chunks() == column.combine_chunks(), name
    counts = read_traces(spark, str(directory / "traces")).groupBy("run_id", "kind").count()
    delivered = {row.run_id: row["count"] for row in counts.collect() if row.kind == "deliver"}
    assert delivered == {k: v["result"]["deliveries"] for k, v in done.records.items()}


def moved(event_log, titles):
    """Data moved by the jobs of these titles: records and bytes shuffled, bytes of results."""
    (log,) = [path for path in event_log.rglob("*") if path.is_file()]
    events = [json.loads(line) for line in log.read_text().splitlines()]
    stages = set()
    for event in events:
        title = event.get("Properties", {}).get("spark.job.description", "")
        if event["Event"] == "SparkListenerJobStart" and title in titles:
            stages |= set(event["Stage IDs"])
    total = [0, 0, 0]
    for event in events:
        if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
            metrics = event["Task Metrics"]
            total[0] += metrics["Shuffle Write Metrics"]["Shuffle Records Written"]
            total[1] += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            total[2] += metrics["Result Size"]
    return total


def test_no_event_passes_through_spark(swept, spark, event_log):
    """Neither shuffled nor collected: an order a run in, a row a run out, of millions of events.

    The twin is the audit of a table of events, which must shuffle them all.
    """
    directory, done = swept
    manifest = rows(directory, "manifest")
    events = sum(row["rows"] for row in manifest)
    assert events > 1_000_000
    audit_files(spark, [runs.trace_of(directory, run.name) for run in done.runs])
    shuffled, _, results_bytes = moved(event_log, {"precedes: simulate"})
    assert 0 < shuffled < 100  # the orders, to their tasks
    assert results_bytes < 200_000
    shuffled, _, results_bytes = moved(event_log, {"precedes: audit files"})
    assert 0 < shuffled < 100
    assert results_bytes < 200_000
    audit_tables(spark, [runs.trace_of(directory, run.name) for run in done.runs])
    stages = ("pack events into blocks", "number the names of events", "audit events")
    shuffled, _, results_bytes = moved(event_log, {f"precedes: {title}" for title in stages})
    assert 0 < shuffled < 300
    assert results_bytes < 400_000
    one = read_traces(spark, str(directory / manifest[0]["path"]))
    one.repartition(3).write.format("noop").mode("overwrite").save()


def test_nothing_finished_is_redone(swept, spark, tmp_path):
    directory, done = swept
    before = runs.records(directory)
    expected = runs.tables(directory)
    again = run_sweep(runs.experiment(tmp_path), directory, session=spark)
    assert (again.kept, runs.records(directory)) == (runs.RUNS, before)
    assert runs.tables(directory) == expected
    assert again.to_arrow().num_rows == runs.RUNS
    assert again.to_pandas("protocol_summary").columns[0] == "experiment"
    assert f"{runs.RUNS} runs in {directory}, {runs.RUNS} of them kept" in again._repr_html_()
    with pytest.raises(UserError, match=r"has no table 'run' .did you mean 'runs'..: it has "):
        again.to_arrow("run")
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    before = runs.records(copy)
    runs.trace_of(copy, done.runs[3].name).unlink()
    runs.record_of(copy, done.runs[4].name).write_text("{")
    repaired = run_sweep(runs.experiment(tmp_path), copy, session=spark)
    assert repaired.kept == runs.RUNS - 2
    assert runs.tables(copy) == expected
    touched = {name for name, time in runs.records(copy).items() if before[name] != time}
    assert touched == {f"{done.runs[4].name}.json"} | {f"{done.runs[3].name}.json"}


def test_tables_do_not_depend_on_how_many_records_are_read_at_once(
    swept, spark, tmp_path, monkeypatch
):
    """Rows of many portions, in a directory whose name Spark would take for a pattern."""
    directory, _ = swept
    copy = tmp_path / "a[1]{2}*"
    shutil.copytree(directory, copy)
    monkeypatch.setattr(output, "RUNS_AT_ONCE", 5)
    run_sweep(runs.experiment(tmp_path), str(copy), session=spark)
    assert pq.read_metadata(copy / "latency_hist.parquet").num_row_groups == 3
    timings = {name for name in output.ORDER if name.startswith("timings")}
    for name in sorted(output.ORDER.keys() - timings | {"timings"}):
        one, many = (pq.read_table(place / f"{name}.parquet") for place in (directory, copy))
        assert one.equals(many), name
        assert (directory / f"{name}.csv").read_bytes() == (copy / f"{name}.csv").read_bytes()
    assert list(copy.glob(".*.tmp-*")) == []


def test_run_experiments(spark, tmp_path):
    base = Scenario(protocol="vector", nodes=4, messages=10)
    first = Experiment("first", (base, base.replace(seed=2)))
    second = Experiment("second", (base.replace(seed=2), base.replace(nodes=5)))
    shares = []
    found = run_experiments([first, second], tmp_path, session=spark, progress=shares.append)
    assert [result["seed"] for result in found["first"]] == [1, 2]
    assert [result["nodes"] for result in found["second"]] == [4, 5]
    assert found["first"][1] == found["second"][0]
    assert len(runs.records(tmp_path)) == 3
    assert shares == sorted(shares)
    before = runs.records(tmp_path)
    latencies = tmp_path / "latencies.txt"
    wanting = base.replace(delay=f"matrix:{latencies}", seed=7)
    worse = dataclasses.replace(second, scenarios=(wanting,))
    third = Experiment("third", (base.replace(seed=3),))
    with pytest.raises(UserError) as caught:
        run_experiments([first, worse, third], tmp_path, session=spark)
    reported = str(caught.value)
    assert "1 of 4 runs failed" in reported
    assert "vector, seed 7): cannot read the latencies" in reported
    (again,) = (tmp_path / "failed").iterdir()
    assert f"precedes simulate --scenario {again}" in reported
    assert main(["simulate", "--scenario", str(again)]) == 2
    after = runs.records(tmp_path)
    assert len(after) == 4
    assert before.items() <= after.items()
    latencies.write_text("0 1 1 1\n1 0 1 1\n1 1 0 1\n1 1 1 0\n")
    run_experiments([worse], tmp_path, session=spark)
    assert not again.exists(), "it has finished since"


def test_a_failed_run_is_in_the_tables(spark, tmp_path, capsys):
    text = runs.EXPERIMENT.replace("messages = 3_000", "messages = 50")
    text = text.replace("entries = [10, 40]", 'delay = ["constant:1", "matrix:/none"]')
    path = runs.write(tmp_path, text)
    out = tmp_path / "out"
    assert main(["sweep", str(path), "--out", str(out), "--json"]) == 3
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert "9 of 18 runs failed" in captured.err
    said = json.loads(captured.out)
    assert (said["runs"], said["finished"], len(said["failed"])) == (18, 9, 9)
    assert {failure["seed"] for failure in said["failed"]} == {1, 2, 3}
    states = [(row["params"], row["status"]) for row in rows(out, "runs")]
    assert set(states) == {("delay=constant:1", "finished"), ("delay=matrix:/none", "failed")}
    assert main(["sweep", str(path), "--out", str(out)]) == 3
    assert "18 runs, 9 of them finished before, 9 failed" in capsys.readouterr().out


def test_audit_of_many_files(swept, spark, tmp_path, capsys):
    """The same reports as one file after the other, traces and logs, held and violated."""
    directory, done = swept
    paths = [runs.trace_of(directory, run.name) for run in done.runs[::3]]
    paths.append(Path("examples/chat.jsonl"))
    expected = [audit(history) for path in paths for history in load(path)]
    assert audit_files(spark, paths) == expected
    assert to_json(expected)["verdict"] == "violated"
    master = spark.conf.get("spark.master")
    assert main(["audit", str(directory), "--master", master, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert main(["audit", str(directory), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == said
    assert said["runs"] == runs.RUNS
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(paths[0].read_bytes()[:-9])
    assert main(["audit", str(paths[0]), str(damaged), "--master", master]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"precedes: {damaged} is cut short or damaged")
    assert main(["audit", "/none.parquet", "--master", master]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_audit_of_a_table_of_events(swept, spark, tmp_path, capsys):
    """Runs scattered over files in any order: the same counts as from the traces."""
    directory, done = swept
    chosen = done.runs[::9]
    paths = [str(runs.trace_of(directory, run.name)) for run in chosen]
    scattered = str(tmp_path / "events")
    read_traces(spark, *paths).repartition(3, "source").write.parquet(scattered)
    assert main(["audit", scattered, "--format", "events", "--json"]) == 1
    here = capsys.readouterr().out
    master = spark.conf.get("spark.master")
    assert main(["audit", scattered, "--format", "events", "--json", "--master", master]) == 1
    assert capsys.readouterr().out == here
    said = json.loads(here)
    expected = [done.records[run.run_id]["audit"] for run in chosen]
    assert {row["verdict"] for row in expected} == {"violated", "held"}
    for name in ("deliveries", "violations", "violating_messages", "lost", "duplicates"):
        assert said[name] == sum(row[name] for row in expected), name
    assert said["runs"] == len(chosen)


def failing_task(spark):
    """Its function goes to the workers as it is; one of a module would have them import that."""

    def fail(batches):
        yield from batches
        raise ValueError("no such thing")

    return spark.range(0, 1, 1, 1).mapInArrow(fail, "id long").toArrow()


def impossible_cast(spark):
    return spark.sql("select cast('x' as int)").toArrow()


def unknown_column(spark):
    return spark.range(3).select("none")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (failing_task, "ValueError: no such thing"),
        (impossible_cast, "'x' .* cannot be cast"),
        (unknown_column, "`none` cannot be resolved"),
    ],
)
def test_errors_of_spark_in_a_line(spark, capfd, job, said):
    """The cause, and where to read more; pages of Java reach neither the message nor stderr."""
    with open_session(session=spark), pytest.raises(jobs.SparkError, match=said) as caught:
        jobs.wait_for(spark, lambda: job(spark), title="fail")
    text = str(caught.value)
    assert text.startswith("Spark failed: ")
    assert text.endswith("(more in the log of your Spark session)")
    assert "Exception" not in text
    assert len(text) < 500
    assert capfd.readouterr().err == ""


def test_errors_name_the_log(spark, tmp_path, monkeypatch):
    monkeypatch.setitem(session._logs, spark, tmp_path / "spark.log")
    with pytest.raises(jobs.SparkError, match=f"more in {tmp_path / 'spark.log'}"):
        jobs.wait_for(spark, lambda: unknown_column(spark), title="fail")


def test_every_column_is_explained(swept):
    directory, _ = swept
    page = Path("docs/results.md").read_text()
    named = set(re.findall(r"`([\w.]+)`", page))
    for path in directory.glob("*.parquet"):
        assert f"**`{path.stem}`**" in page, path.stem
        # A parameter or counter has a column of its name behind a prefix.
        families = r"(param|extra)_\w+"
        columns = {re.sub(families, r"\1_", name) for name in pq.read_schema(path).names}
        assert columns - named - {"param_", "extra_"} == set(), path.stem
    assert "`param_<name>`" in page
    assert "`extra_<name>`" in page


@pytest.mark.usefixtures("spark")
def test_the_sweep_of_the_page(tmp_path, capsys):
    page = Path("docs/sweeps.md").read_text()
    line = "precedes sweep experiments/sweep.toml --out build/sweep"
    shown = page.partition(f"{line}\n```\n\n```text\n")[2].partition("```")[0]
    out = str(tmp_path / "out")
    assert main([*line.split()[1:-1], out]) == 0
    assert capsys.readouterr().out == shown.replace("build/sweep", out)


def test_a_session_of_another_master_is_not_replaced(spark):
    with open_session(session=spark) as same:
        assert same is spark
    with open_session() as active:
        assert active is spark
    with pytest.raises(UserError, match="is running in this process"), open_session(master="x"):
        pass
    assert spark.range(3).count() == 3


def test_a_call_that_java_died_in_is_reported_as_that():
    from py4j.protocol import Py4JError, Py4JNetworkError

    ended = "its Java process has ended, or was killed"
    assert jobs.cause_of(Py4JNetworkError("Answer from Java side is empty")) == ended
    assert jobs.cause_of(Py4JError("An error occurred while calling o7.collect")) == ended
    reported = Py4JError(
        "An error occurred while calling o7.x. Trace:\njava.lang.Exception: no x\n"
    )
    assert jobs.cause_of(reported) != ended


def test_an_executor_without_a_module_names_its_python():
    text = """Job aborted due to stage failure: Lost task 0.0: Traceback (most recent call last):
  File "/opt/other/lib/python3.11/site-packages/pyspark/worker.py", line 1100, in main
    func, profiler, deserializer, serializer = read_command(pickleSer, infile)
ModuleNotFoundError: No module named 'precedes'

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""
    cause = jobs.cause_of(RuntimeError(text), python="/opt/other/bin/python3")
    assert cause.startswith("ModuleNotFoundError: No module named 'precedes', in a task of ")
    assert "/opt/other/bin/python3 with the modules of /opt/other/lib/python3.11/site-p" in cause
    assert "PYSPARK_PYTHON" in cause
    assert "in a task of Python with the modules of /opt" in jobs.cause_of(RuntimeError(text))
