"""The benchmark of `mobile`: `python bench/mobile.py [--quick] [--json]`.

CPU time of the paper's heaviest standing experiment, 70 hosts at 35 messages a second for 60 s, and
of 2,000 hosts on 70 stations, both with the oracle. The peer is SimPy: as many timeouts as the run
has events, in the same process, which is what a SimPy model would take before it did anything.
"""

import statistics
import time

import harness
import simpy

LIMIT_CPU_S = 15.0  # for the first of them


def cpu_of_run(nodes, stations, rate, duration_s):
    """CPU seconds of a whole run, its events and its result."""
    from precedes.sim import Scenario
    from precedes.sim.radio.run import RadioRun

    tree = "star" if stations <= 7 else "grid"
    start = time.process_time()
    run = RadioRun(
        Scenario(
            protocol="mobile",
            nodes=nodes,
            rate=rate,
            duration_s=duration_s,
            parameters={"stations": stations, "tree": tree},
        )
    )
    result = run.go()
    assert result.complete
    assert result.lost == result.violations.deliveries == 0
    return time.process_time() - start, run.serial, result


def cpu_of_simpy(events, processes):
    """CPU seconds of SimPy for this many timeouts and processes."""
    environment = simpy.Environment()

    def ticking(number):
        for _ in range(events // processes):
            yield environment.timeout(1 + number % 7)

    for number in range(processes):
        environment.process(ticking(number))
    start = time.process_time()
    environment.run()
    return time.process_time() - start


def measure(*, quick):
    """Everything, as one object."""
    repeats = 1 if quick else 3
    length_s = 5.0 if quick else 60.0
    rows = [cpu_of_run(70, 7, 35.0, length_s) for _ in range(repeats)]
    peers = [cpu_of_simpy(rows[0][1], 77) for _ in range(repeats)]
    result = rows[0][2]
    report = {
        "simulated_s": length_s,
        "repeats": repeats,
        "cpu_s": statistics.median(row[0] for row in rows),
        "events": rows[0][1],
        "deliveries": result.deliveries,
        "simpy_cpu_s": statistics.median(peers),
    }
    report["by_simpy"] = report["cpu_s"] / report["simpy_cpu_s"]
    hosts, stations = (140, 14) if quick else (2000, 70)
    cpu_s, events, result = cpu_of_run(hosts, stations, 5.6, 5.0 if quick else 30.0)
    report["many"] = {
        "hosts": hosts,
        "stations": stations,
        "cpu_s": cpu_s,
        "events": events,
        "deliveries": result.deliveries,
    }
    return report


def show(report):
    """The table."""
    length_s = report["simulated_s"]
    print(f"mobile, 70 hosts, 35 per s, {length_s:g} s (medians of {report['repeats']})\n")
    print(f"{'CPU-s':<30}{report['cpu_s']:>12.2f}   limit {LIMIT_CPU_S:g}")
    print(f"{'events':<30}{report['events']:>12,}")
    print(f"{'deliveries':<30}{report['deliveries']:>12,}")
    print(f"{'SimPy, as many timeouts, CPU-s':<30}{report['simpy_cpu_s']:>12.2f}")
    print(f"{'ratio':<30}{report['by_simpy']:>12.2f}")
    many = report["many"]
    print(f"\n{many['hosts']} hosts on {many['stations']} stations, 5.6 per s, 30 s\n")
    print(f"{'CPU-s':<30}{many['cpu_s']:>12.2f}")
    print(f"{'deliveries':<30}{many['deliveries']:>12,}")


def ratios(report):
    """CPU time as a multiple of SimPy's."""
    return {"by SimPy": report["by_simpy"]}


def holds(report):
    """Return whether the first run stays below its limit."""
    return report["cpu_s"] <= LIMIT_CPU_S


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, holds=holds)
