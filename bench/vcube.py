"""The benchmark of vcube: `python bench/vcube.py [--quick] [--json]`.

Packets per CPU-second of the experiment of de Araujo et al. 2018 (reading A), compared with
deliveries per CPU-second of workload W with the oracle in the same run. The largest group runs
once, without the oracle, in a process of its own, as does the one whose memory is measured.
"""

import time

import against_w
import harness

SIZES = (256, 1024)
LARGEST = 4096
REPEATS = 3


def scenario(nodes, *, tolerant, oracle):
    """A run of de Araujo et al. 2018."""
    from precedes_papers.p000 import experiments

    first = experiments.READINGS["A"]
    return experiments.scenario(nodes, first, 1, oracle=oracle, tolerant=tolerant)


def rate(nodes, *, tolerant):
    """Packets per CPU-second of a whole call with the oracle, including the setup."""
    from precedes.sim import simulate

    start = time.process_time()
    result = simulate(scenario(nodes, tolerant=tolerant, oracle=True))
    assert result.violations.deliveries == result.lost == result.pending_at_end == 0
    return result.packets / (time.process_time() - start)


def child(what):
    """One run in this process, without the oracle if it is the largest."""
    from precedes.sim import simulate

    nodes = int(what)
    simulate(scenario(4, tolerant=False, oracle=True))  # load the compiled code before
    start = time.process_time()
    result = simulate(scenario(nodes, tolerant=False, oracle=nodes != LARGEST))
    cpu_s = time.process_time() - start
    return {"packets": result.packets, "cpu_s": cpu_s, "peak_mib": harness.peak_mib()}


def measure(*, quick):
    """Everything, as one object."""
    sizes = SIZES[:1] if quick else SIZES
    harness.alone(__file__, 8)  # compile
    single = sizes if quick else (1024, LARGEST)
    report = {"alone": {nodes: harness.alone(__file__, nodes) for nodes in single}}
    messages = 5_000 if quick else 100_000
    rows = {}
    for nodes in sizes:
        for tolerant in (False, True):
            name = f"vcube, {nodes} nodes{', tolerant' if tolerant else ''}"
            rows[name] = lambda nodes=nodes, tolerant=tolerant: rate(nodes, tolerant=tolerant)
    rate(8, tolerant=True)
    repeats = 1 if quick else REPEATS
    report["per_cpu_s"] = against_w.compare(rows, messages=messages, repeats=repeats)
    return report


def show(report):
    """The table."""
    against_w.show("packets per CPU-second", report["per_cpu_s"])
    for nodes, row in report["alone"].items():
        oracle = "without the oracle" if nodes == LARGEST else "with the oracle"
        print(
            f"{f'{nodes} nodes, {oracle}':<40}{row['packets']:>14,} packets, "
            f"{row['cpu_s']:.1f} CPU-s, {row['peak_mib']:.0f} MiB"
        )


if __name__ == "__main__":
    harness.main(
        __file__, __doc__, measure=measure, show=show, ratios=against_w.ratios, child=child
    )
