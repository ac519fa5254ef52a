"""The benchmark of `bundled`: `python bench/bundled.py [--quick] [--cells] [--json]`.

Packets per CPU-second of the largest published run, 1,024 processes that broadcast at once
without bundling (2.1 million packets), beside the deliveries per CPU-second of workload W with the
oracle (see ``run``) in the same process, repeats interleaved. ``--cells`` adds the CPU time of all
forty fault-free cells of Tables 3 and 4.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import run as workload_w

NODES = 1024


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


def measure(*, quick, cells):
    """Everything, as one object."""
    nodes = 128 if quick else NODES
    messages = 5_000 if quick else 100_000
    repeats = 1 if quick else 3
    rate_of_bundled(8)  # compile, and fill the caches
    workload_w.rate_of_precedes("probabilistic", 1, oracle=True)
    bundled, compared = [], []
    for _ in range(repeats):
        compared.append(workload_w.rate_of_precedes("probabilistic", messages, oracle=True))
        bundled.append(rate_of_bundled(nodes))
    report = {
        "nodes": nodes,
        "repeats": repeats,
        "packets_per_cpu_s": statistics.median(bundled),
        "w_deliveries_per_cpu_s": statistics.median(compared),
        "w_by_bundled": statistics.median(compared) / statistics.median(bundled),
    }
    if cells:
        report["cells_cpu_s"] = cpu_of_cells()
    return report


def show(report):
    """The table."""
    print(f"bundled, {report['nodes']} processes, unbundled (medians of {report['repeats']})\n")
    print(f"{'packets per CPU-second':<36}{report['packets_per_cpu_s']:>14,.0f}")
    print(f"{'W, oracle: deliveries per CPU-second':<36}{report['w_deliveries_per_cpu_s']:>14,.0f}")
    print(f"{'ratio':<36}{report['w_by_bundled']:>14.1f}")
    if "cells_cpu_s" in report:
        print(f"{'all 40 fault-free cells':<36}{report['cells_cpu_s']:>14.1f} CPU-s")


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed of bundled beside workload W.")
    parser.add_argument("--quick", action="store_true", help="a small run, once: a smoke test")
    parser.add_argument("--cells", action="store_true", help="and all fault-free cells")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    report = measure(quick=options.quick, cells=options.cells)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


if __name__ == "__main__":
    main()
