"""The cost of large audits: `python bench/audit.py [--quick] [--json]`.

Traces of 64 and of 512 nodes with 20 million deliveries each are audited in a process of their own,
range by range, and compared with the minimum work of any audit: reading the three columns that it
judges by, once. CPU seconds are those after the imports and after a small audit, which loads
compiled code; memory is what the process has at its peak beyond what it had then.

Chains of nodes, each of which delivers the message of the one before it and broadcasts its own, and
tables of many runs, of 100 rows each in no order, show what a node and a run cost: the ratios are
those of the largest to the smallest, per node or run, so that 1 is linear. Cycles are chains that
are closed, without witnesses.

`PRECEDES_BENCH_TRACE=FILE` adds an existing trace of any size.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness

SIZES = {"64 x 20 M": (64, 312_500), "512 x 20 M": (512, 39_100)}
SMALL = {"64 x 63 k": (64, 1_000)}
PEAK_MIB_MAX = 300.0
GROWING = {
    "chain": (100_000, 200_000, 400_000, 1_000_000),
    "cycle": (12_500, 25_000, 50_000),
    "runs": (1_000, 5_000, 10_000, 20_000),
}
GROWING_SMALL = {"chain": (1_000, 2_000), "cycle": (1_000, 2_000), "runs": (20, 40)}
# Maximum cost of a node or a run of the largest log as a multiple of one of the smallest.
GROWTH_MAX = 2.0


def chain(nodes, *, closed):
    """A history in which each node delivers from the one before; closed, also the first."""
    import numpy as np

    from precedes.trace.rows import BROADCAST, DELIVER, numbered_history

    kind = np.tile(np.array([DELIVER, BROADCAST], np.int8), nodes)
    source = np.empty(2 * nodes, np.int32)
    source[0::2], source[1::2] = (np.arange(nodes) - 1) % nodes, np.arange(nodes)
    first = 0 if closed else 1
    return numbered_history(
        nodes=nodes,
        offsets=np.maximum(np.arange(0, 2 * nodes + 1, 2) - first, 0),
        kind=kind[first:],
        source=source[first:],
        seq=np.ones(2 * nodes - first, np.int32),
        title="chain",
        complete=False,
    )


def write_runs(path, runs, *, nodes=5, rounds=4):
    """A table of runs in which all deliver everything, its rows in no order."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    one = [
        (node, message != node, message * rounds + number)
        for node in range(nodes)
        for number in range(rounds)
        for message in (node, *(other for other in range(nodes) if other != node))
    ]
    node, kind, message = np.tile(np.array(one), (runs, 1)).T
    columns = {
        "run_id": np.repeat(np.arange(runs), len(one)),
        "node": node,
        "local_seq": np.tile(np.arange(len(one)), runs),
        "kind": np.array(["broadcast", "deliver"])[kind],
        "message": np.char.add("m", message.astype(str)),
    }
    mixed = np.random.default_rng(1).permutation(node.size)
    parquet.write_table(pa.table({name: column[mixed] for name, column in columns.items()}), path)


def growing(task, size):
    """The cost of the audit of a chain, a cycle or a table of runs."""
    from precedes.audit import audit
    from precedes.pipeline.audit import audit_tables_here

    def work(size, path):
        if task == "runs":
            return lambda: audit_tables_here([path])
        history = chain(size, closed=task == "cycle")
        return lambda: audit(history, witnesses=5 if task == "chain" else 0)

    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory) / "runs.parquet"
        write_runs(table, 10)
        work(100, table)()
        if task == "runs":
            write_runs(table, size)
        return measured(work(size, table))


def measured(work):
    """CPU seconds and memory."""
    before_mib, begin_s = harness.peak_mib(), time.process_time()
    work()
    return {"cpu_s": time.process_time() - begin_s, "mib": harness.peak_mib() - before_mib}


def child(what):
    """Audit or read a trace in this process."""
    task, small, path = what.split(":", 2)
    if task in GROWING:
        return growing(task, int(small))
    if task == "audit":
        from precedes.audit import audit

        work, warm_up = (lambda: audit(path)), (lambda: audit(small))
    else:
        work, warm_up = (lambda: read(path)), (lambda: read(small))
    warm_up()
    return measured(work)


def read(path):
    """Read the columns that an audit needs, a row group at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            file.read_row_group(group, columns=["kind", "source", "seq"], use_threads=False)


def made(directory, sizes):
    """Traces of these sizes, by name; the first is a small one."""
    from precedes.sim import Scenario, simulate

    found = {}
    for name, (nodes, messages) in {"small": (6, 100), **sizes}.items():
        found[name] = Path(directory) / f"{nodes}-{messages}.parquet"
        scenario = Scenario(
            protocol="vector", nodes=nodes, messages=messages, rate=100.0, oracle=False
        )
        simulate(scenario, trace=found[name])
    return found


def measure(*, quick):
    """Everything, as one object."""
    repeats = 1 if quick else 3
    report = {"repeats": repeats, "peak_mib_max": PEAK_MIB_MAX, "traces": {}}
    with tempfile.TemporaryDirectory() as directory:
        traces = made(directory, SMALL if quick else SIZES)
        small = traces.pop("small")
        if named := os.environ.get("PRECEDES_BENCH_TRACE"):
            traces[Path(named).name] = Path(named)
        for name, path in traces.items():
            rows = {
                task: lambda task=task, path=path: harness.alone(__file__, f"{task}:{small}:{path}")
                for task in ("audit", "read")
            }
            found = harness.interleaved(rows, repeats)
            cpu_s = {task: min(row["cpu_s"] for row in found[task]) for task in found}
            report["traces"][name] = {
                "audit_cpu_s": cpu_s["audit"],
                "read_cpu_s": cpu_s["read"],
                "ratio": cpu_s["audit"] / cpu_s["read"],
                "audit_mib": max(row["mib"] for row in found["audit"]),
            }
    report["growing"] = {
        task: {size: harness.alone(__file__, f"{task}:{size}:") for size in sizes}
        for task, sizes in (GROWING_SMALL if quick else GROWING).items()
    }
    return report


def show(report):
    """The table."""
    print(f"repeats interleaved: {report['repeats']}\n")
    print(f"{'nodes x deliveries':<24}{'audit, CPU-s':>14}{'reading':>10}{'ratio':>8}{'MiB':>8}")
    for name, row in report["traces"].items():
        print(
            f"{name:<24}{row['audit_cpu_s']:>14.2f}{row['read_cpu_s']:>10.2f}"
            f"{row['ratio']:>8.1f}{row['audit_mib']:>8.0f}"
        )
    print(f"\n{'':<8}{'nodes or runs':>16}{'audit, CPU-s':>14}{'MiB':>8}")
    for task, rows in report["growing"].items():
        for size, row in rows.items():
            print(f"{task:<8}{int(size):>16,}{row['cpu_s']:>14.2f}{row['mib']:>8.0f}")


def ratios(report):
    """The audit as a multiple of reading its columns once, and the cost of a node or a run."""
    found = {f"{name}, by reading": row["ratio"] for name, row in report["traces"].items()}
    return found | {f"{task}, growth": ratio for task, ratio in growth(report).items()}


def growth(report):
    """The cost of a node, or a run, of the largest log as a multiple of one of the smallest."""
    found = {}
    for task, rows in report["growing"].items():
        each = [row["cpu_s"] / int(size) for size, row in rows.items()]
        found[task] = each[-1] / each[0]
    return found


def holds(report):
    """Memory does not grow with rows, and time is linear in nodes and runs."""
    is_smoke_test = report["repeats"] == 1  # of logs so small that most is noise
    if not is_smoke_test and any(ratio > GROWTH_MAX for ratio in growth(report).values()):
        return False
    return all(row["audit_mib"] <= PEAK_MIB_MAX for row in report["traces"].values())


if __name__ == "__main__":
    harness.main(
        __file__, __doc__, measure=measure, show=show, ratios=ratios, child=child, holds=holds
    )
