"""The benchmark: `python bench/run.py [--quick] [--json]`.

Workload W (see ``simpy_peer``) with 200 nodes, in deliveries per CPU-second of one core, for the
compiled simulator, for SimPy and for bare C++ (``peer.cpp``, checked to count the same violations)
in the same run. Repeats of all rows are interleaved, because a shared machine is slow for minutes
at a time; the table gives the best and the median of them.

Large groups: the same law of delays, clock and rate without the oracle, 12 million deliveries at
2,000 and at 60,000 nodes, in CPU time of the run itself (``Result.cpu_s``); the second in which the
entries of 60,000 processes are drawn is not in it.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cpp_peer
import harness
import simpy_peer

NODES = 200
LARGE = {"2,000 nodes": 2_000, "60,000 nodes": 60_000}
LARGE_DELIVERIES = 12_000_000
BASELINE = "SimPy callbacks, oracle"
CPP = "bare C++"
CPP_ORACLE = "bare C++, oracle"
CLOCK = {"entries": simpy_peer.ENTRIES, "per_process": simpy_peer.PER_NODE}


def scenario(protocol, messages, *, oracle, seed=1, nodes=NODES):
    """W for one of our protocols."""
    from precedes.sim import Scenario

    return Scenario(
        protocol=protocol,
        nodes=nodes,
        messages=messages,
        rate=1000 * simpy_peer.RATE_PER_MS,
        delay=f"normal:{simpy_peer.DELAY_MS_MEAN:g}:{simpy_peer.DELAY_MS_SD:g}",
        seed=seed,
        parameters=CLOCK if protocol in ("probabilistic", "hashed") else {},
        oracle=oracle,
    )


def rate_of_precedes(protocol, messages, *, oracle):
    """Deliveries per CPU-second of a whole call, including the setup."""
    from precedes.sim import simulate

    start = time.process_time()
    result = simulate(scenario(protocol, messages, oracle=oracle))
    return result.deliveries / (time.process_time() - start)


def rate_of_large(nodes, deliveries):
    """Deliveries per CPU-second of a run in a large group."""
    from precedes.sim import simulate

    messages = max(deliveries // nodes, 1)
    result = simulate(scenario("probabilistic", messages, oracle=False, nodes=nodes))
    return result.deliveries / result.cpu_s


def rate_of_cpp(program, messages, *, oracle):
    """Deliveries per CPU-second of the C++ program, drawing included."""
    result = cpp_peer.run(program, nodes=NODES, messages=messages, oracle=oracle)
    return result["deliveries"] / result["cpu_s"]


def check_cpp(program, messages, directory):
    """Check that the C++ program counts the same violations from the same inputs."""
    from precedes.sim import simulate

    ours = scenario("probabilistic", messages, oracle=True)
    theirs = cpp_peer.run_as(program, ours, directory)
    found = simulate(ours)
    if (found.deliveries, found.violations.deliveries) != (
        theirs["deliveries"],
        theirs["violations"],
    ):
        raise SystemExit(f"peer.cpp differs from the simulator: {theirs}, {found.violations}")


def rate_of_simpy(variant, messages, *, oracle):
    """Deliveries per CPU-second of SimPy's event loop."""
    result = simpy_peer.run(variant, oracle, NODES, messages, seed=1)
    return result["deliveries"] / result["cpu_s"]


def rate_of_audit(path, *, reading):
    """Deliveries per CPU-second of auditing a trace, with or without reading the file."""
    from precedes.audit import audit
    from precedes.trace import load

    if reading:
        start = time.process_time()
        (verdict,) = audit(path)
    else:
        (history,) = load(path)
        start = time.process_time()
        verdict = audit(history)
    return verdict.deliveries / (time.process_time() - start)


def bytes_per_event(path):
    """Size of a trace on disk by the rows of its Parquet files."""
    from pyarrow import parquet

    files = sorted(Path(path).rglob("*.parquet")) or [Path(path)]
    size_bytes = sum(file.stat().st_size for file in files)
    return size_bytes / sum(parquet.read_metadata(file).num_rows for file in files)


def child(messages):
    """Run W in this process: its CPU seconds and peak memory, imports included."""
    from precedes.sim import simulate

    simulate(scenario("probabilistic", int(messages), oracle=True))
    return {"cpu_s": time.process_time(), "peak_mib": harness.peak_mib()}


def start_and_memory(messages):
    """CPU seconds to start with an empty and a filled cache, and the peak memory of W."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PRECEDES_CACHE": cache}

        def run(count):
            return harness.alone(__file__, count, environment=environment)

        return {
            "cold_start_cpu_s": run(1)["cpu_s"],
            "warm_start_cpu_s": run(1)["cpu_s"],
            "peak_memory_mib": run(messages)["peak_mib"],
        }


def rows(messages, messages_simpy, trace) -> dict[str, Callable[[], float]]:
    """The rows of the table, by name."""
    return {
        "probabilistic": lambda: rate_of_precedes("probabilistic", messages, oracle=False),
        "probabilistic, oracle": lambda: rate_of_precedes("probabilistic", messages, oracle=True),
        "hashed, oracle": lambda: rate_of_precedes("hashed", messages, oracle=True),
        "vector": lambda: rate_of_precedes("vector", messages, oracle=False),
        "vector, oracle": lambda: rate_of_precedes("vector", messages, oracle=True),
        "audit": lambda: rate_of_audit(trace, reading=False),
        "audit, reading the file": lambda: rate_of_audit(trace, reading=True),
        "SimPy callbacks": lambda: rate_of_simpy("callbacks", messages_simpy, oracle=False),
        BASELINE: lambda: rate_of_simpy("callbacks", messages_simpy, oracle=True),
        "SimPy processes, oracle": lambda: rate_of_simpy("processes", messages_simpy, oracle=True),
    }


def rows_of_cpp(program, messages) -> dict[str, Callable[[], float]]:
    """The rows of the C++ program, if there is one."""
    if program is None:
        print("no g++ here: the rows of bare C++ are left out", file=sys.stderr)
        return {}
    return {
        CPP: lambda: rate_of_cpp(program, messages, oracle=False),
        CPP_ORACLE: lambda: rate_of_cpp(program, messages, oracle=True),
    }


def large_groups(*, quick, repeats):
    """Rates of large groups, and each as a share of the first."""
    deliveries = 200_000 if quick else LARGE_DELIVERIES
    names = {name: nodes for name, nodes in LARGE.items() if not quick or nodes < 10_000}
    rows = {name: lambda n=nodes: rate_of_large(n, deliveries) for name, nodes in names.items()}
    return harness.compared(harness.interleaved(rows, repeats), next(iter(rows)))


def measure(*, quick):
    """Everything, as one object."""
    messages = 5_000 if quick else 100_000
    messages_trace = 2_000 if quick else 20_000
    messages_simpy = 300 if quick else 1_500
    repeats = 1 if quick else 3
    report = start_and_memory(messages)  # first, while this process is small

    from precedes.sim import simulate

    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "trace.parquet"
        simulate(scenario("probabilistic", messages_trace, oracle=True), trace=trace)
        report["trace_bytes_per_event"] = bytes_per_event(trace)
        program = cpp_peer.build(directory)
        if program is not None:
            check_cpp(program, messages_trace // 4, directory)
        measured = rows(messages, messages_simpy, trace) | rows_of_cpp(program, messages)
        for warm_up in rows(1, 1, trace).values():  # compile, and fill the caches
            warm_up()
        rates = harness.interleaved(measured, repeats)
    report["deliveries_per_cpu_s"] = harness.compared(rates, BASELINE)
    report["large_groups"] = large_groups(quick=quick, repeats=repeats)
    report["settings"] = {
        "nodes": NODES,
        "messages": messages,
        "messages_simpy": messages_simpy,
        "messages_trace": messages_trace,
        "repeats": repeats,
    }
    return report


def show(report):
    """The table."""
    settings = report["settings"]
    print(
        f"Workload W: {settings['nodes']} nodes, {settings['messages']:,} broadcasts"
        f" (SimPy {settings['messages_simpy']:,}, trace {settings['messages_trace']:,}),"
        f" repeats interleaved: {settings['repeats']}\n"
    )
    print(f"{'deliveries per CPU-second':<28}{'best':>14}{'median':>14}{'x SimPy':>10}")
    for name, row in report["deliveries_per_cpu_s"].items():
        print(f"{name:<28}{row['best']:>14,.0f}{row['median']:>14,.0f}{row['ratio']:>10.1f}")
    print(f"\n'x SimPy' compares medians with '{BASELINE}'.\n")
    for name, share in shares_of_cpp(report).items():
        print(f"{name:<28}{share:>14.2f} of C++")
    for name, row in report["large_groups"].items():
        print(f"{name:<28}{row['best']:>14,.0f}{row['median']:>14,.0f}{row['ratio']:>10.2f}")
    print()
    print(f"{'start, nothing compiled yet':<28}{report['cold_start_cpu_s']:>14.2f} CPU-s")
    print(f"{'start, compiled before':<28}{report['warm_start_cpu_s']:>14.2f} CPU-s")
    print(f"{'peak memory of W, oracle':<28}{report['peak_memory_mib']:>14.0f} MiB")
    print(f"{'trace on disk':<28}{report['trace_bytes_per_event']:>14.2f} bytes an event")


def shares_of_cpp(report):
    """The reached share of the speed of bare C++, by medians."""
    rows = report["deliveries_per_cpu_s"]
    pairs = {"probabilistic": CPP, "probabilistic, oracle": CPP_ORACLE}
    return {
        f"{ours} / C++": rows[ours]["ratio"] / rows[cpp]["ratio"]
        for ours, cpp in pairs.items()
        if cpp in rows
    }


def ratios(report):
    """Multiples of SimPy with the same oracle, shares of C++, large groups by smaller ones."""
    large = harness.ratios_of(report["large_groups"], next(iter(LARGE)))
    return {
        **harness.ratios_of(report["deliveries_per_cpu_s"], BASELINE),
        **shares_of_cpp(report),
        **{f"{name} / {next(iter(LARGE))}": ratio for name, ratio in large.items()},
    }


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, child=child)
