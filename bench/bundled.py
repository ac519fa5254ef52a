"""The benchmark of `bundled`: `python bench/bundled.py [--quick] [--json]`.

Packets per CPU-second of the largest published run, 1,024 processes that broadcast at once
without bundling (2.1 million packets), compared with deliveries per CPU-second of workload W with
the oracle in the same run; and the CPU time of all forty fault-free cells of Tables 3 and 4.
"""

import time

import against_w
import harness

NODES = 1024
BUNDLED = "bundled (packets)"


def rate_of_bundled(nodes):
    """Packets per CPU-second of a whole call, including the setup."""
    from precedes.sim import simulate
    from precedes_papers.p001 import experiments

    start = time.process_time()
    result = simulate(experiments.scenario("NO-AGGR", nodes))
    return result.packets / (time.process_time() - start)


def cpu_of_cells():
    """CPU seconds of every fault-free cell of Rodrigues et al. 2018."""
    from precedes.sim import simulate
    from precedes_papers.p001 import CASES, experiments

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
    rows = {BUNDLED: lambda: rate_of_bundled(nodes)}
    compared = against_w.compare(rows, messages=messages, repeats=repeats)
    report = {"nodes": nodes, "per_cpu_s": compared}
    if not quick:
        report["cells_cpu_s"] = cpu_of_cells()
    return report


def show(report):
    """The table."""
    against_w.show(f"per CPU-second, {report['nodes']} processes", report["per_cpu_s"])
    if "cells_cpu_s" in report:
        print(f"{'all 40 fault-free cells':<40}{report['cells_cpu_s']:>14.1f} CPU-s")


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=against_w.ratios)
