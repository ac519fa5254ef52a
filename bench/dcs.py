"""The benchmark of dcs: `python bench/dcs.py [--quick] [--json]`.

Deliveries per CPU-second of workload W (bench/run.py) with dcs, with and without the oracle and the
hash detector, beside probabilistic with the oracle in the same run. Repeats are interleaved; the
table gives the best and the median of them. The published random load (1,000 processes, 300 s)
runs once with the oracle, in a process of its own; so do bells in groups of several sizes, whose
rounds and peak memory are counted.
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

REPEATS = 3
REFERENCE = "W, probabilistic, oracle"
ROWS = {
    "W, dcs, oracle": {"oracle": True, "detector": "none"},
    "W, dcs": {"oracle": False, "detector": "none"},
    "W, dcs with the hash, oracle": {"oracle": True, "detector": "hash"},
}
GROUPS = (50, 200, 500, 1000, 2000)


def rate(messages, *, oracle, detector):
    """Deliveries per CPU-second of a whole call, setting up included."""
    from precedes.sim import simulate

    # The error at which dcs has about the entries of W's probabilistic clock at its load.
    parameters = {"error": 1e-3, "component_entries": 32, "detector": detector}
    scenario = bench.scenario("probabilistic", messages, oracle=oracle)
    start = time.process_time()
    result = simulate(scenario.replace(protocol="dcs", parameters=parameters))
    assert result.lost == result.pending_at_end == 0
    return result.deliveries / (time.process_time() - start)


def child(what):
    """One run in this process: the random load, or a bell in a group of this size."""
    from precedes.papers.p002.experiments import over_time, round_experiment
    from precedes.sim import simulate

    rounds = {s.nodes: s for s in round_experiment().scenarios}
    simulate(rounds[GROUPS[0]])  # load what was compiled before
    scenario = over_time("random", "full", 1) if what == "random" else rounds[int(what)]
    start = time.process_time()
    result = simulate(scenario)
    cpu_s = time.process_time() - start
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_kib //= 1024 if sys.platform == "darwin" else 1  # bytes there
    print(
        json.dumps(
            {
                "deliveries": result.deliveries,
                "cpu_s": cpu_s,
                "peak_mib": peak_kib / 1024,
                "rounds": result.extra["rounds"],
                "packets": result.extra["rounds_packets"],
                "nodes": result.nodes,
            }
        )
    )


def alone(what):
    """``child`` in a process of its own."""
    command = [sys.executable, __file__, "--child", str(what)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def measure(*, quick):
    """Everything, as one object."""
    # First, while this process is small: a child's peak memory counts its parent's at the fork.
    groups = GROUPS[:2] if quick else GROUPS
    alone(GROUPS[0])  # compile
    report = {"rounds": [alone(nodes) for nodes in groups]}
    if not quick:
        report["random"] = alone("random")
    messages = 2_000 if quick else 20_000
    bench.rate_of_precedes("probabilistic", 1, oracle=True)
    rate(1, oracle=True, detector="none")
    rates = {name: [] for name in (REFERENCE, *ROWS)}
    for _ in range(1 if quick else REPEATS):
        rates[REFERENCE].append(bench.rate_of_precedes("probabilistic", messages, oracle=True))
        for name, options in ROWS.items():
            rates[name].append(rate(messages, **options))
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
    """The tables."""
    print(f"\n{'deliveries per CPU-second':<40}{'best':>14}{'median':>14}{'of W':>10}")
    for name, row in report["per_cpu_s"].items():
        print(f"{name:<40}{row['best']:>14,.0f}{row['median']:>14,.0f}   1/{1 / row['share']:.1f}")
    if "random" in report:
        row = report["random"]
        print(
            f"{'random load, 1,000 processes, 300 s':<40}{row['deliveries']:>14,} deliveries, "
            f"{row['cpu_s']:.1f} CPU-s, {row['peak_mib']:.0f} MiB"
        )
    for row in report["rounds"]:
        each = row["packets"] / row["rounds"]
        print(
            f"{str(row['nodes']) + ' processes':<40}{row['rounds']:>14,} rounds of "
            f"{each:,.0f} packets = {each / (row['nodes'] - 1):.1f} (N - 1); "
            f"{row['peak_mib']:.0f} MiB"
        )


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed of dcs beside workload W.")
    parser.add_argument("--quick", action="store_true", help="small runs, once each: a smoke test")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", metavar="WHAT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
        return
    report = measure(quick=options.quick)
    print(json.dumps(report, indent=2)) if options.json else show(report)


if __name__ == "__main__":
    main()
