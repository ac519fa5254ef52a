"""The benchmark of vcube: `python bench/vcube.py [--quick] [--json]`.

Packets per CPU-second of the experiment of de Araujo et al. 2018 (reading A),
beside deliveries per CPU-second of workload W with the oracle in the same run. Repeats are
interleaved; the table gives the best and the median of them. The largest group runs once, without
the oracle, in a process of its own, as does the one whose memory is measured.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import run as bench

SIZES = (256, 1024)
LARGEST = 4096
REPEATS = 3
REFERENCE = "W, probabilistic, oracle (deliveries)"


def scenario(nodes, *, tolerant, oracle):
    """A run of de Araujo et al. 2018."""
    from precedes.papers.p000 import experiments

    first = experiments.READINGS["A"]
    return experiments.scenario(nodes, first, 1, oracle=oracle, tolerant=tolerant)


def rate(nodes, *, tolerant):
    """Packets per CPU-second of a whole call with the oracle, setting up included."""
    from precedes.sim import simulate

    start = time.process_time()
    result = simulate(scenario(nodes, tolerant=tolerant, oracle=True))
    assert result.violations.deliveries == result.lost == result.pending_at_end == 0
    return result.packets / (time.process_time() - start)


def child(nodes):
    """One run in this process, without the oracle if it is the largest."""
    from precedes.sim import simulate

    simulate(scenario(4, tolerant=False, oracle=True))  # load what was compiled before
    start = time.process_time()
    result = simulate(scenario(nodes, tolerant=False, oracle=nodes != LARGEST))
    cpu_s = time.process_time() - start
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_kib //= 1024 if sys.platform == "darwin" else 1  # bytes there
    print(json.dumps({"packets": result.packets, "cpu_s": cpu_s, "peak_mib": peak_kib / 1024}))


def alone(nodes):
    """``child`` in a process of its own."""
    command = [sys.executable, __file__, "--child", str(nodes)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def measure(*, quick):
    """Everything, as one object."""
    sizes = SIZES[:1] if quick else SIZES
    # First, while this process is small: a child's peak memory counts its parent's at the fork.
    alone(8)  # compile
    report = {"alone": {nodes: alone(nodes) for nodes in (sizes if quick else (1024, LARGEST))}}
    messages = 5_000 if quick else 100_000
    rows = {REFERENCE: lambda: bench.rate_of_precedes("probabilistic", messages, oracle=True)}
    for nodes in sizes:
        for tolerant in (False, True):
            name = f"vcube, {nodes} nodes{', tolerant' if tolerant else ''}"
            rows[name] = lambda nodes=nodes, tolerant=tolerant: rate(nodes, tolerant=tolerant)
    rate(8, tolerant=True)
    bench.rate_of_precedes("probabilistic", 1, oracle=True)
    rates = {name: [] for name in rows}
    for _ in range(1 if quick else REPEATS):
        for name, run in rows.items():
            rates[name].append(run())
    reference = statistics.median(rates[REFERENCE])
    report["per_cpu_s"] = {
        name: {
            "best": max(values),
            "median": statistics.median(values),
            "share": statistics.median(values) / reference,
        }
        for name, values in rates.items()
    }
    return report


def show(report):
    """The table."""
    print(f"\n{'packets per CPU-second':<40}{'best':>14}{'median':>14}{'of W':>10}")
    for name, row in report["per_cpu_s"].items():
        print(f"{name:<40}{row['best']:>14,.0f}{row['median']:>14,.0f}   1/{1 / row['share']:.1f}")
    for nodes, row in report["alone"].items():
        oracle = "without the oracle" if nodes == LARGEST else "with the oracle"
        print(
            f"{f'{nodes} nodes, {oracle}':<40}{row['packets']:>14,} packets, "
            f"{row['cpu_s']:.1f} CPU-s, {row['peak_mib']:.0f} MiB"
        )


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed of vcube beside workload W.")
    parser.add_argument("--quick", action="store_true", help="small runs, once each: a smoke test")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", type=int, metavar="NODES", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
        return
    report = measure(quick=options.quick)
    print(json.dumps(report, indent=2)) if options.json else show(report)


if __name__ == "__main__":
    main()
