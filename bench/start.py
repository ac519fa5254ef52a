"""Start-up of a protocol that was never compiled, and the share of the compiled speed it reaches.

    python bench/start.py [--quick] [--json] [--record]

Small runs by the command, each with an empty cache: wall time, and whether the trace is the file
that compiled code writes. Then one long run with an empty cache: deliveries per wall-second from
start to end, and those after the change to compiled code, as shares of the same run with a full
cache; and the CPU-seconds of the compiler.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness

from precedes import Scenario
from precedes.compiled import cache_root
from precedes.sim.engine import layout
from precedes.sim.run import Run

SMALL = ("--nodes", "10", "--messages", "200")
PROTOCOLS = ("vector", "vcube", "dcs")
TAKEN = re.compile(r"([0-9.]+) s of CPU")  # in the log of a compiler
LONG = {"protocol": "vector", "nodes": 50}
DELIVERIES = 200_000_000


def environment(cache: Path, tier: str) -> dict[str, str]:
    """Environment of a process with this cache and tier."""
    return {**os.environ, "PRECEDES_CACHE": str(cache), "PRECEDES_TIER": tier}


def small(protocol: str, cache: Path, traces: Path, tier: str) -> dict:
    """Wall seconds of a small run by the command, and its trace."""
    line = ["-m", "precedes.cli", "simulate", protocol, *SMALL, "--trace", str(traces), "--json"]
    begin_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *line],
        env=environment(cache, tier),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wall_s = time.perf_counter() - begin_s
    return {"wall_s": wall_s, "trace": Path(json.loads(done.stdout)["trace"]).read_bytes()}


class Timed(Run):
    """A run that notes when it changed to compiled code, and its deliveries until then."""

    changed_s: float | None = None
    before = 0

    def note(self, _share: float) -> None:
        """Between two slices."""
        if self.changed_s is None and not self.switch.is_interpreted:
            self.changed_s = time.perf_counter()
            self.before = int(self.world.host.registers[layout.DELIVERIES])

    def _make_switch(self, tier: str):
        self.switch = super()._make_switch(tier)
        return self.switch


def child(deliveries: str) -> dict:
    """One long run, in the tier and with the cache of the environment."""
    run = Timed(Scenario(messages=int(deliveries) // (LONG["nodes"] - 1), **LONG))
    begin_s = time.perf_counter()
    result = run.go(progress=run.note)
    end_s = time.perf_counter()
    changed_s = run.changed_s or end_s
    logs = [path.read_text() for path in cache_root().glob("compilers/*.log")]
    compiler_cpu_s = [float(cpu_s) for log in logs for cpu_s in TAKEN.findall(log)]
    return {
        "deliveries": result.deliveries,
        "rate": result.deliveries / (end_s - begin_s),
        "changed_after_s": changed_s - begin_s,
        "rate_after": (result.deliveries - run.before) / max(end_s - changed_s, 1e-9),
        "compiler_cpu_s": max(compiler_cpu_s, default=0.0),
        "loading_s": end_s - begin_s - result.wall_s,
    }


def measure(*, quick: bool = False) -> dict:
    """All measurements; a smoke test is too short for any compiler."""
    report: dict = {"small": {}}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for protocol in PROTOCOLS[: 1 if quick else None]:
            first = small(protocol, place / f"no-{protocol}", place / "first", "auto")
            other = "interpreted" if quick else "compiled"
            waited = small(protocol, place / "cache", place / "waited", other)
            report["small"][protocol] = {
                "empty_cache_s": first["wall_s"],
                "waiting_for_the_compiler_s": waited["wall_s"],
                "same_trace": first["trace"] == waited["trace"],
            }
        deliveries = 10_000 if quick else DELIVERIES
        for name, tier in (("begun", "auto"), ("reference", "auto" if quick else "compiled")):
            report[name] = harness.alone(
                __file__, deliveries, environment=environment(place / "long", tier)
            )
    return report


def ratios(report: dict) -> dict[str, float]:
    """The share of the compiled speed that a first run reaches."""
    begun, full = report["begun"], report["reference"]
    return {
        "of the compiled speed, in all": begun["rate"] / full["rate"],
        "of it after the change": begun["rate_after"] / full["rate_after"],
    }


def show(report: dict) -> None:
    """The same for people."""
    for protocol, row in report["small"].items():
        print(
            f"{protocol:8} empty cache {row['empty_cache_s']:5.1f} s, waiting for the compiler "
            f"{row['waiting_for_the_compiler_s']:5.1f} s, same trace: {row['same_trace']}"
        )
    begun = report["begun"]
    print(
        f"{LONG['protocol']}, {begun['deliveries']:,} deliveries: compiled after "
        f"{begun['changed_after_s']:.1f} s, the compiler took {begun['compiler_cpu_s']:.1f} CPU-s"
    )
    for name, ratio in ratios(report).items():
        print(f"{ratio:.2f} {name}")


def holds(report: dict) -> bool:
    """Return whether all traces are the same."""
    return all(row["same_trace"] for row in report["small"].values())


if __name__ == "__main__":
    harness.main(
        __file__, __doc__, measure=measure, show=show, ratios=ratios, child=child, holds=holds
    )
