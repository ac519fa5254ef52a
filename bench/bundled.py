"""The benchmark of `bundled`: `python bench/bundled.py [--quick] [--json]`.

Packets per CPU-second of the largest published run, 1,024 processes that broadcast at once
without bundling (2.1 million packets), beside the deliveries per CPU-second of workload W with the
oracle (see ``run``) in the same process, repeats interleaved; and the CPU time of all forty
fault-free cells of Tables 3 and 4.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
import run as workload_w

NODES = 1024
BUNDLED = "bundled (packets)"
REFERENCE = "W, probabilistic, oracle (deliveries)"


def rate_of_bundled(nodes):
    """Packets per CPU-second of a whole call, setting up included."""
    from precedes.papers.p001 import experiments
    from precedes.sim import simulate

    start = time.process_time()
    result = simulate(experiments.scenario("NO-AGGR", nodes))
    return result.packets / (time.process_time() - start)


def cpu_of_cells():
    """CPU seconds of every fault-free cell of Rodrigues et al. 2018."""
    from precedes.papers.p001 import experiments
    from precedes.papers.p001.published import CASES
    from precedes.sim import simulate

    start = time.process_time()
    for nodes in experiments.SIZES:
        for case in CASES:
            simulate(experiments.scenario(case, nodes))
    return time.process_time() - start


def measure(*, quick):
    """Everything, as one object."""
    nodes = 128 if quick else NODES
    messages = 5_000 if quick else 100_000
    repeats = 1 if quick else 3
    rate_of_bundled(8)  # compile, and fill the caches
    workload_w.rate_of_precedes("probabilistic", 1, oracle=True)
    rows = {
        REFERENCE: lambda: workload_w.rate_of_precedes("probabilistic", messages, oracle=True),
        BUNDLED: lambda: rate_of_bundled(nodes),
    }
    rates = harness.interleaved(rows, repeats)
    report = {"nodes": nodes, "per_cpu_s": harness.compared(rates, REFERENCE)}
    if not quick:
        report["cells_cpu_s"] = cpu_of_cells()
    return report


def show(report):
    """The table."""
    print(f"\nbundled, {report['nodes']} processes, unbundled\n")
    for name, row in report["per_cpu_s"].items():
        print(f"{name:<40}{row['median']:>14,.0f} per CPU-s   1/{1 / row['ratio']:.1f}")
    if "cells_cpu_s" in report:
        print(f"{'all 40 fault-free cells':<40}{report['cells_cpu_s']:>14.1f} CPU-s")


def ratios(report):
    """Packets for each delivery of W."""
    return harness.ratios_of(report["per_cpu_s"], REFERENCE)


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios)
