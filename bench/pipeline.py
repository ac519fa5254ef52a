"""The cost of Spark: `python bench/pipeline.py [--quick] [--json]`.

CPU seconds of all processes together (Java, Python workers, this one), which vary
less on a loaded machine than wall time:

- 16 runs with a million deliveries each, traced, audited and measured: as Spark tasks, and the
  same calls in one process without Spark;
- the audit of their 16 traces as Spark tasks, and in one process;
- 1,000 tiny runs as Spark tasks, and in one process;
- one run with 20 million deliveries by ranges of its nodes, and in one process;
- the same rows with names, in 16 files and no order, as Spark tasks, and in one process;
- DataFrames with names in no order: 10,000 runs of 100 rows and 64 runs with 20 million rows in
  ``causal_audit``, the one large run in ``audit_giant``; with peak memory, in one process, and by
  another commit if PRECEDES_BENCH_PEER names the Python of its environment;
- the 10,000 runs as a stream of four micro-batches: per key and batch, per row, and state per key.

And the memory of a sweep's driver, without Java: for each traced run, and for the maximum
number of runs of a sweep.

Starting the session is stated on its own: Java, a first job, and the Python workers of Spark, paid
once for any amount of work. Processes that do the work are fresh each time, so that all rows
include importing the package and loading compiled code.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
from processes import cpu_s_of_tree

LIMITS = {
    "audit_cpu_s": 10.0,
    "simulate_ratio": 1.25,
    "tiny_ratio": 3.0,
    "driver_gb": 3.0,
    "large_ratio": 2.5,
    "tables_ratio": 2.5,
}

# Runs in a process of its own: the work of a Spark task, without Spark.
ALONE = """
import json, sys
from pathlib import Path
what, directory, file = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
if what == "simulate":
    from precedes.pipeline.directory import hold
    from precedes.pipeline.execute import run_orders
    from precedes.stores import Address
    with hold(Address.of(directory)) as held:
        orders = json.loads(file.read_text())
        outcomes = list(run_orders(orders, directory=held.folder, here=directory))
    assert all(outcome.error is None for outcome in outcomes), outcomes
elif what == "tables":
    from precedes.pipeline.audit import audit_tables_here
    audit_tables_here([directory])
else:
    from precedes.audit import audit
    audit(sorted(directory.glob("*.parquet")))
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024)
"""


def runs(count, *, nodes, messages, trace):
    """Planned runs that differ in the seed."""
    from precedes.pipeline.plan import expand
    from precedes.sim import Scenario
    from precedes.sim.experiment import Experiment

    base = Scenario(
        protocol="probabilistic",
        nodes=nodes,
        messages=messages,
        parameters={"entries": 50, "per_process": 2},
    )
    scenarios = tuple(base.replace(seed=seed) for seed in range(1, count + 1))
    return expand([Experiment("bench", scenarios, trace=trace)])


def alone(what, directory, orders=()):
    """CPU seconds and peak memory of one process that does it all."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory.with_suffix(".orders")
    file.write_text(json.dumps(list(orders)))
    before_s = cpu_s_of_tree()
    line = [sys.executable, "-c", ALONE, what, str(directory), str(file)]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return {"cpu_s": cpu_s_of_tree() - before_s, "mib": float(done.stdout.split()[-1])}


def on_spark(work):
    """CPU seconds of a job and of starting its session; and the seconds both took."""
    from precedes.pipeline.spark.session import open_session

    begin_s, before_s = time.monotonic(), cpu_s_of_tree()
    with open_session() as spark:
        first_job(spark)
        session_s = cpu_s_of_tree() - before_s
        before_s = cpu_s_of_tree()
        work(spark)
        return {
            "cpu_s": cpu_s_of_tree() - before_s,
            "session_cpu_s": session_s,
            "wall_s": time.monotonic() - begin_s,
        }


def first_job(spark):
    """The start-up cost in the first job of a session."""
    from precedes.pipeline.spark import jobs

    tasks = [[str(number)] for number in range(2 * jobs.parallelism(spark))]
    jobs.packed(spark, tasks).mapInArrow(pass_on, "order string").toArrow()


def pass_on(batches):
    """A task that does nothing."""
    yield from batches


def simulate_on_spark(planned, directory):
    """The same runs as tasks."""
    from precedes.pipeline.directory import hold
    from precedes.pipeline.runner import SparkRunner
    from precedes.pipeline.sweep import simulate_runs
    from precedes.stores import Address

    def work(spark):
        with hold(Address.of(directory)) as held:
            outcomes = simulate_runs(SparkRunner(spark), planned, held=held)
        assert all(outcome.error is None for outcome in outcomes), outcomes

    return on_spark(work)


def measure(*, quick):
    """Everything, as one object."""
    from precedes.pipeline.audit import audit_files

    large = runs(16, nodes=200, messages=500 if quick else 5_025, trace=True)
    tiny = runs(100 if quick else 1_000, nodes=5, messages=20, trace=False)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        # Compile and fill the caches before anything is measured.
        alone("simulate", place / "warm", orders([large[0]]))
        alone("audit", place / "warm" / "traces")
        report = {
            "deliveries": 16 * 199 * large[0].scenario.messages,
            "simulate": {
                "spark": simulate_on_spark(large, place / "spark"),
                "alone": alone("simulate", place / "alone", orders(large)),
            },
        }
        traces = sorted((place / "spark" / "traces").glob("*.parquet"))
        report["audit"] = {
            "spark": on_spark(lambda spark: audit_files(spark, traces)),
            "alone": alone("audit", place / "spark" / "traces"),
        }
        report["tiny"] = {
            "runs": len(tiny),
            "spark": simulate_on_spark(tiny, place / "tiny_spark"),
            "alone": alone("simulate", place / "tiny_alone", orders(tiny)),
        }
        report |= measure_large(place, quick=quick)
        report["frames"] = measure_frames(place, quick=quick)
        report["driver"] = driver_memory(place, quick=quick)
    report["limits"] = LIMITS
    report["measured"] = {
        "audit_cpu_s": report["audit"]["spark"]["cpu_s"],
        "simulate_ratio": report["simulate"]["spark"]["cpu_s"]
        / report["simulate"]["alone"]["cpu_s"],
        "tiny_ratio": report["tiny"]["spark"]["cpu_s"] / report["tiny"]["alone"]["cpu_s"],
        "driver_gb": report["driver"]["most_gb"],
        "large_ratio": report["large"]["spark"]["cpu_s"] / report["large"]["alone"]["cpu_s"],
        "tables_ratio": report["tables"]["spark"]["cpu_s"] / report["tables"]["alone"]["cpu_s"],
    }
    return report


def measure_large(place, *, quick):
    """One run that several tasks share, in order and in none."""
    from precedes.pipeline import audit, ranges
    from precedes.pipeline.audit import audit_files, audit_tables
    from precedes.sim import Scenario, simulate

    folder, tables = place / "large", place / "tables"
    folder.mkdir()
    scenario = Scenario(protocol="vector", nodes=200, messages=5_000 if quick else 100_000)
    simulate(scenario, trace=folder / "run.parquet")
    scatter(folder / "run.parquet", tables)
    audit.LARGE_ROWS = ranges.LARGE_ROWS = 1
    trace = [str(folder / "run.parquet")]
    return {
        "large": {
            "spark": on_spark(lambda spark: audit_files(spark, trace)),
            "alone": alone("audit", folder),
        },
        "tables": {
            "spark": on_spark(lambda spark: audit_tables(spark, [str(tables)])),
            "alone": alone("tables", tables),
        },
    }


def scatter(path, directory, files=16):
    """The rows of a trace with names, shuffled over files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    directory.mkdir()
    table = pq.read_table(path, columns=["node", "local_seq", "kind", "source", "seq"])
    mixed = np.random.default_rng(1).permutation(table.num_rows)
    for number, rows in enumerate(np.array_split(mixed, files)):
        part = table.take(pa.array(rows))
        texts = [part.column(name).cast(pa.string()) for name in ("node", "source", "seq")]
        columns = {
            "node": pc.binary_join_element_wise("server", texts[0], "-"),
            "local_seq": part.column("local_seq"),
            "kind": part.column("kind").cast(pa.string()),
            "message": pc.binary_join_element_wise(texts[1], texts[2], "/"),
        }
        pq.write_table(pa.table(columns), directory / f"part-{number:02d}.parquet")


# Audits a DataFrame in a session of its own, with this package or with that of another commit.
FRAME = """
import json, sys
sys.path.insert(0, sys.argv[1])
from processes import cpu_s_of_tree, peak_mib_of_tree
from precedes.pipeline import open_session
try:
    from precedes.spark import audit_giant, causal_audit
except ImportError:  # a commit before these
    from precedes.pipeline import audit_events
    causal_audit = None
what, directory = sys.argv[2:]
with open_session(master="local[2]") as spark:
    spark.range(4, numPartitions=2).mapInArrow(lambda batches: batches, "id long").count()
    before_s = cpu_s_of_tree()
    events = spark.read.parquet(directory)
    found = {}
    if what == "giant" or causal_audit is None:
        rows = audit_giant(events) if causal_audit else audit_events(events).runs.collect()
        verdicts = [row.verdict for row in rows]
        found["verdicts"] = {verdict: verdicts.count(verdict) for verdict in verdicts}
    elif what == "stream":
        from precedes.spark import causal_audit_stream
        stream = spark.readStream.schema(events.schema).option("maxFilesPerTrigger", 1)
        rows = stream.parquet(directory).transform(causal_audit_stream()).writeStream
        place = directory + "-checkpoint"
        query = rows.option("checkpointLocation", place).format("noop").trigger(availableNow=True)
        query = query.start()
        query.awaitTermination()
        found["cpu_s"] = cpu_s_of_tree() - before_s
        found["batches"] = len(query.recentProgress)
        state = spark.read.format("statestore").option("stateVarName", "run").load(place)
        sizes = state.selectExpr("count(*) AS keys", "avg(length(value.content)) AS bytes")
        found |= sizes.collect()[0].asDict()
    else:
        counts = events.transform(causal_audit()).groupBy("verdict").count().collect()
        found["verdicts"] = {row["verdict"]: row["count"] for row in counts}
    taken = {"cpu_s": cpu_s_of_tree() - before_s, "mib": peak_mib_of_tree()}
    print(json.dumps({**taken, "session_cpu_s": before_s, **found}))
"""


def write_runs(directory, *, runs, nodes, messages, files):
    """The rows of many runs with names, in no order; each seventh run has one violation."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir()
    sent = np.arange(messages)
    node = np.tile(np.arange(nodes), messages)
    message = np.repeat(sent, nodes)
    position = np.repeat(sent, nodes)  # each node has each message, in the same order
    is_own = node == message % nodes
    size = node.size
    # Two deliveries in a row of the first node, neither of which it broadcast.
    swapped = [at for at in np.flatnonzero((node == 0) & ~is_own).tolist()[:2]]
    rng = np.random.default_rng(1)
    for number in range(files):
        chosen = np.arange(number, runs, files)
        run = np.repeat(chosen, size)
        places = np.tile(position, chosen.size)
        for at in np.flatnonzero(chosen % 7 == 0).tolist():
            first, second = (at * size + row for row in swapped)
            places[[first, second]] = places[[second, first]]
        columns = {
            "run_id": pa.array([f"run-{run_id}" for run_id in chosen]).take(
                pa.array(np.repeat(np.arange(chosen.size), size))
            ),
            "node": pa.array([f"host-{at}" for at in range(nodes)]).take(
                pa.array(np.tile(node, chosen.size))
            ),
            "local_seq": pa.array(places),
            "kind": pa.array(["deliver", "broadcast"]).take(
                pa.array(np.tile(is_own.astype(np.int8), chosen.size))
            ),
            "message": pa.array([f"message-{at}" for at in sent.tolist()]).take(
                pa.array(np.tile(message, chosen.size))
            ),
        }
        mixed = pa.array(rng.permutation(run.size))
        pq.write_table(pa.table(columns).take(mixed), directory / f"part-{number:02d}.parquet")


def frame(what, directory, python=sys.executable):
    """The cost of a DataFrame's audit in a separate process."""
    line = [python, "-c", FRAME, str(Path(__file__).parent), what, str(directory)]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def measure_frames(place, *, quick):
    """Many small runs, some of a million rows, and one large run, as DataFrames."""
    part = 100 if quick else 1
    few = place / "few"
    write_runs(place / "many", runs=10_000 // part, nodes=4, messages=25, files=4)
    write_runs(few, runs=64, nodes=25, messages=12_500 // part, files=4)
    found = {}
    peer = os.environ.get("PRECEDES_BENCH_PEER")
    for name, folder in (("many", place / "many"), ("few", few), ("giant", place / "tables")):
        found[name] = {"spark": frame(name, folder), "alone": alone("tables", folder)}
        if peer:
            found[name]["peer"] = frame(name, folder, peer)
    found["stream"] = frame("stream", place / "many")
    found["stream"]["rows"] = 100 * (10_000 // part)
    return found


# The driver of a sweep whose runs are all finished, in a process of its own: its peak memory.
DRIVER = """
import pickle, sys
from pathlib import Path
from precedes.pipeline.sweep import run_sweep
done = run_sweep(pickle.loads(Path(sys.argv[2]).read_bytes()), Path(sys.argv[1]))
assert not done.failures, done.failures[:3]
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def driver_kb(directory, sample, count):
    """Kilobytes of a driver for this many runs with records like the sample's."""
    from precedes.pipeline.directory import hold, write_record
    from precedes.pipeline.plan import expand
    from precedes.sim import Scenario
    from precedes.sim.experiment import Experiment
    from precedes.stores import Address

    base = Scenario(protocol="probabilistic", nodes=200, messages=500)
    scenarios = tuple(base.replace(seed=seed) for seed in range(1, count + 1))
    experiment = Experiment("bench", scenarios)
    record = json.loads(sample.read_text())
    with hold(Address.of(directory)) as held:
        for run in expand([experiment]):
            own = {"run_id": run.run_id, "digest": run.digest, "code_version": run.code_version}
            write_record(held.folder, run.name, {**record, **own})
    file = directory.with_suffix(".experiment")
    file.write_bytes(pickle.dumps(experiment))
    line = [sys.executable, "-c", DRIVER, str(directory), str(file)]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return int(done.stdout)


def driver_memory(place, *, quick):
    """Memory of a driver for few runs and for many, and for the maximum number."""
    from precedes.pipeline.plan import RUNS_MAX

    sample = min((place / "spark" / "records").glob("*.json"))
    counts = (300, 900) if quick else (500, 4_000)
    few_kb, many_kb = (driver_kb(place / f"driver{n}", sample, n) for n in counts)
    run_kb = (many_kb - few_kb) / (counts[1] - counts[0])
    most_kb = few_kb + run_kb * (RUNS_MAX - counts[0])
    return {"run_kb": run_kb, "runs_max": RUNS_MAX, "most_gb": most_kb / 1e6}


def orders(planned):
    """Orders of a task for runs."""
    return [run.order() for run in planned]


def show(report):
    """The table."""
    print(f"\nSpark on all cores, {report['deliveries']:,} deliveries in 16 runs; CPU seconds\n")
    print(f"{'':<28}{'Spark':>10}{'one process':>14}{'ratio':>8}{'+ session':>12}")
    names = {
        "simulate": "simulate, audit, measure",
        "audit": "audit of the traces",
        "tiny": f"{report['tiny']['runs']:,} tiny runs",
        "large": "audit of one large run",
        "tables": "its rows in no order",
    }
    for key, name in names.items():
        spark, peer = report[key]["spark"], report[key]["alone"]["cpu_s"]
        print(
            f"{name:<28}{spark['cpu_s']:>10.1f}{peer:>14.1f}{spark['cpu_s'] / peer:>8.2f}"
            f"{spark['session_cpu_s']:>12.1f}"
        )
    show_frames(report["frames"])
    driver = report["driver"]
    print(
        f"\ndriver: {driver['run_kb']:.1f} kB a traced run, {driver['most_gb']:.1f} GB for "
        f"{driver['runs_max']:,}"
    )
    print()
    for name, limit in report["limits"].items():
        value = report["measured"][name]
        print(f"{name:<28}{value:>10.2f}   {'within' if value < limit else 'BEYOND'} {limit:g}")


def show_frames(frames):
    """DataFrames and streams."""
    print(f"\n{'DataFrames':<28}{'CPU-s':>10}{'MiB':>10}   (Spark beyond its session)")
    names = {"many": "10,000 runs", "few": "64 runs, 20 M rows", "giant": "one run, 20 M rows"}
    for key, name in names.items():
        for way, taken in frames[key].items():
            label = f"{name}: {way}"
            print(f"{label:<28}{taken['cpu_s']:>10.1f}{taken['mib']:>10,.0f}")
    stream = frames["stream"]
    turns = stream["keys"] * stream["batches"]
    print(
        f"stream: {1e3 * stream['cpu_s'] / turns:.1f} ms per key and batch, "
        f"{1e6 * stream['cpu_s'] / stream['rows']:.0f} us per row, "
        f"{stream['bytes']:,.0f} bytes of state per key, {stream['mib']:,.0f} MiB"
    )


def ratios(report):
    """CPU time on Spark as a multiple of that of one process."""
    keys = ("simulate", "audit", "tiny", "large", "tables")
    return {key: report[key]["spark"]["cpu_s"] / report[key]["alone"]["cpu_s"] for key in keys}


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios)
