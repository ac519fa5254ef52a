"""What an audit at size costs: `python bench/audit.py [--quick] [--json]`.

Traces of 64 and of 512 nodes with 20 million deliveries each are audited in a process of their own,
range by range. Beside it stands what any audit of them has to do: reading the three columns that it
judges by, once. CPU seconds are those after the imports and after a small audit, which loads
compiled code; memory is what the process has at its peak beyond what it had then.

`PRECEDES_BENCH_TRACE=FILE` adds a trace that is there already, however large.
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


def child(what):
    """Audit or read a trace in this process."""
    task, small, path = what.split(":", 2)
    if task == "audit":
        from precedes.audit import audit

        work, warm_up = (lambda: audit(path)), (lambda: audit(small))
    else:
        work, warm_up = (lambda: read(path)), (lambda: read(small))
    warm_up()
    before_mib, begin_s = harness.peak_mib(), time.process_time()
    work()
    return {
        "cpu_s": time.process_time() - begin_s,
        "mib": harness.peak_mib() - before_mib,
    }


def read(path):
    """Read what an audit judges by, a row group at a time."""
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


def ratios(report):
    """The audit as a multiple of reading its columns once."""
    return {f"{name}, by reading": row["ratio"] for name, row in report["traces"].items()}


def holds(report):
    """Memory does not grow with rows."""
    return all(row["audit_mib"] <= PEAK_MIB_MAX for row in report["traces"].values())


if __name__ == "__main__":
    harness.main(
        __file__, __doc__, measure=measure, show=show, ratios=ratios, child=child, holds=holds
    )
