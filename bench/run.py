"""The benchmark: `python bench/run.py [--quick] [--json]`.

Workload W (see ``simpy_peer``) with 200 nodes, in deliveries per CPU-second of one core, for the
compiled simulator and for SimPy in the same run. Repeats of all rows are interleaved, because a
shared machine is slow for minutes at a time; the table gives the best and the median of them.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
import simpy_peer

NODES = 200
BASELINE = "SimPy callbacks, oracle"
CLOCK = {"entries": simpy_peer.ENTRIES, "per_process": simpy_peer.PER_NODE}


def scenario(protocol, messages, *, oracle, seed=1):
    """W for one of our protocols."""
    from precedes.sim import Scenario

    return Scenario(
        protocol=protocol,
        nodes=NODES,
        messages=messages,
        rate=1000 * simpy_peer.RATE_PER_MS,
        delay=f"normal:{simpy_peer.DELAY_MS_MEAN:g}:{simpy_peer.DELAY_MS_SD:g}",
        seed=seed,
        parameters=CLOCK if protocol in ("probabilistic", "hashed") else {},
        oracle=oracle,
    )


def rate_of_precedes(protocol, messages, *, oracle):
    """Deliveries per CPU-second of a whole call, setting up included."""
    from precedes.sim import simulate

    start = time.process_time()
    result = simulate(scenario(protocol, messages, oracle=oracle))
    return result.deliveries / (time.process_time() - start)


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
    """What is measured, by the name in the table."""
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
        measured = rows(messages, messages_simpy, trace)
        for warm_up in rows(1, 1, trace).values():  # compile, and fill the caches
            warm_up()
        rates = harness.interleaved(measured, repeats)
    report["deliveries_per_cpu_s"] = harness.compared(rates, BASELINE)
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
    print(f"{'start, nothing compiled yet':<28}{report['cold_start_cpu_s']:>14.2f} CPU-s")
    print(f"{'start, compiled before':<28}{report['warm_start_cpu_s']:>14.2f} CPU-s")
    print(f"{'peak memory of W, oracle':<28}{report['peak_memory_mib']:>14.0f} MiB")
    print(f"{'trace on disk':<28}{report['trace_bytes_per_event']:>14.2f} bytes an event")


def ratios(report):
    """Multiples of SimPy with the same oracle."""
    return harness.ratios_of(report["deliveries_per_cpu_s"], BASELINE)


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, child=child)
