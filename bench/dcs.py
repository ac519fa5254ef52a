"""The benchmark of dcs: `python bench/dcs.py [--quick] [--json]`.

Deliveries per CPU-second of workload W (bench/run.py) with dcs, with and without the oracle and the
hash detector, compared with probabilistic with the oracle in the same run. The published random
load (1,000 processes, 300 s) runs once with the oracle, in a process of its own; so do bells in
groups of several sizes, whose rounds and peak memory are counted.
"""

import functools
import time

import against_w
import harness
import run

REPEATS = 3
ROWS = {
    "W, dcs, oracle": {"oracle": True, "detector": "none"},
    "W, dcs": {"oracle": False, "detector": "none"},
    "W, dcs with the hash, oracle": {"oracle": True, "detector": "hash"},
}
GROUPS = (50, 200, 500, 1000, 2000)


def rate(messages, *, oracle, detector):
    """Deliveries per CPU-second of a whole call, including the setup."""
    from precedes.sim import simulate

    # The error at which dcs has about the entries of W's probabilistic clock at its load.
    parameters = {"error": 1e-3, "component_entries": 32, "detector": detector}
    scenario = run.scenario("probabilistic", messages, oracle=oracle)
    start = time.process_time()
    result = simulate(scenario.replace(protocol="dcs", parameters=parameters))
    assert result.lost == result.pending_at_end == 0
    return result.deliveries / (time.process_time() - start)


def child(what):
    """One run in this process: the random load, or a bell in a group of this size."""
    from precedes.sim import simulate
    from precedes_papers.p002.experiments import over_time, round_experiment

    rounds = {s.nodes: s for s in round_experiment().scenarios}
    simulate(rounds[GROUPS[0]])  # load the compiled code before
    scenario = over_time("random", 1, own=True) if what == "random" else rounds[int(what)]
    start = time.process_time()
    result = simulate(scenario)
    return {
        "deliveries": result.deliveries,
        "cpu_s": time.process_time() - start,
        "peak_mib": harness.peak_mib(),
        "rounds": result.extra["rounds"],
        "packets": result.extra["rounds_packets"],
        "nodes": result.nodes,
    }


def measure(*, quick):
    """Everything, as one object."""
    groups = GROUPS[:2] if quick else GROUPS
    harness.alone(__file__, GROUPS[0])  # compile
    report = {"rounds": [harness.alone(__file__, nodes) for nodes in groups]}
    if not quick:
        report["random"] = harness.alone(__file__, "random")
    messages = 2_000 if quick else 20_000
    rate(1, oracle=True, detector="none")
    rows = {name: functools.partial(rate, messages, **options) for name, options in ROWS.items()}
    repeats = 1 if quick else REPEATS
    report["per_cpu_s"] = against_w.compare(rows, messages=messages, repeats=repeats)
    return report


def show(report):
    """The tables."""
    against_w.show("deliveries per CPU-second", report["per_cpu_s"])
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


if __name__ == "__main__":
    harness.main(
        __file__, __doc__, measure=measure, show=show, ratios=against_w.ratios, child=child
    )
