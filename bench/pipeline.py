"""What Spark costs: `python bench/pipeline.py [--quick] [--json]`.

CPU seconds of all processes together (Java, Python workers, this one), which a loaded machine
changes less than wall time:

- 16 runs with a million deliveries each, traced, audited and measured: as Spark tasks, and the
  same calls in one process without Spark;
- the audit of their 16 traces as Spark tasks, and in one process;
- 1,000 tiny runs as Spark tasks, and in one process;
- one run with 20 million deliveries by ranges of its nodes, and in one process;
- the same rows with names, in 16 files and no order, as Spark tasks, and in one process.

And the memory of a sweep's driver, which is not that of Java: for each traced run, and for as many
as a sweep may have.

Starting the session is stated on its own: Java, a first job, and the Python workers of Spark, paid
once however much work follows. Processes that do the work are fresh each time, so that all rows
include importing the package and loading compiled code.
"""

import json
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

# Runs in a process of its own: what a Spark task does, without Spark.
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
    """CPU seconds of one process that does it all."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory.with_suffix(".orders")
    file.write_text(json.dumps(list(orders)))
    before_s = cpu_s_of_tree()
    subprocess.run([sys.executable, "-c", ALONE, what, str(directory), str(file)], check=True)
    return cpu_s_of_tree() - before_s


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
    """What the first job of a session pays for all that follow."""
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
        report["driver"] = driver_memory(place, quick=quick)
    report["limits"] = LIMITS
    report["measured"] = {
        "audit_cpu_s": report["audit"]["spark"]["cpu_s"],
        "simulate_ratio": report["simulate"]["spark"]["cpu_s"] / report["simulate"]["alone"],
        "tiny_ratio": report["tiny"]["spark"]["cpu_s"] / report["tiny"]["alone"],
        "driver_gb": report["driver"]["most_gb"],
        "large_ratio": report["large"]["spark"]["cpu_s"] / report["large"]["alone"],
        "tables_ratio": report["tables"]["spark"]["cpu_s"] / report["tables"]["alone"],
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


# The driver of a sweep whose runs are all finished, in a process of its own: what it takes at most.
DRIVER = """
import pickle, resource, sys
from pathlib import Path
from precedes.pipeline.sweep import run_sweep
done = run_sweep(pickle.loads(Path(sys.argv[2]).read_bytes()), Path(sys.argv[1]))
assert not done.failures, done.failures[:3]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def driver_kb(directory, sample, count):
    """Kilobytes that a driver takes for so many runs with records like the sample's."""
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
    """What a driver takes for few runs and for many, and for as many as there may be."""
    from precedes.pipeline.plan import RUNS_MAX

    sample = min((place / "spark" / "records").glob("*.json"))
    counts = (300, 900) if quick else (500, 4_000)
    few_kb, many_kb = (driver_kb(place / f"driver{n}", sample, n) for n in counts)
    run_kb = (many_kb - few_kb) / (counts[1] - counts[0])
    most_kb = few_kb + run_kb * (RUNS_MAX - counts[0])
    return {"run_kb": run_kb, "runs_max": RUNS_MAX, "most_gb": most_kb / 1e6}


def orders(planned):
    """What a task is told about runs."""
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
        spark, peer = report[key]["spark"], report[key]["alone"]
        print(
            f"{name:<28}{spark['cpu_s']:>10.1f}{peer:>14.1f}{spark['cpu_s'] / peer:>8.2f}"
            f"{spark['session_cpu_s']:>12.1f}"
        )
    driver = report["driver"]
    print(
        f"\ndriver: {driver['run_kb']:.1f} kB a traced run, {driver['most_gb']:.1f} GB for "
        f"{driver['runs_max']:,}"
    )
    print()
    for name, limit in report["limits"].items():
        value = report["measured"][name]
        print(f"{name:<28}{value:>10.2f}   {'within' if value < limit else 'BEYOND'} {limit:g}")


def ratios(report):
    """CPU time on Spark by that of one process."""
    keys = ("simulate", "audit", "tiny", "large", "tables")
    return {key: report[key]["spark"]["cpu_s"] / report[key]["alone"] for key in keys}


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios)
