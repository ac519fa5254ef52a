"""Runs of scenarios: on the network that the protocol is for, with or without a trace."""

from __future__ import annotations

import os

from precedes import delays, registry
from precedes.compiled import sources_digest
from precedes.model import Progress
from precedes.sim.engine.rows import Writer
from precedes.sim.radio.run import RadioRun
from precedes.sim.result import Result
from precedes.sim.run import Run
from precedes.sim.scenario import Scenario


def simulate(
    scenario: Scenario,
    *,
    trace: str | os.PathLike[str] | None = None,
    packets: bool = False,
    progress: Progress | None = None,
    tier: str = "auto",
    run_id: int = 0,
    sharers: int = 1,
    ahead_cpu_s: float = 0.0,
) -> Result:
    """Run a scenario and, if asked, write its trace to the file ``trace``.

    ``packets`` adds a row for every message of every packet sent and received. The file appears
    when the run is complete, or not at all. ``progress`` is called with the share done, several
    times a second. ``run_id`` is the number of the run in its trace; ``sharers`` how many runs
    share this machine's memory.

    ``tier`` says how the protocol runs, with identical results: "interpreted" is plain Python, for
    stepping through it in a debugger; "compiled" waits for the compiler at the first use of a
    protocol; "auto" begins interpreted then, and goes on compiled when a process in the background
    has compiled it, which it does for long runs alone, or if ``ahead_cpu_s``, what runs of the same
    protocol that are to follow would take interpreted, says that there is enough to do.
    """
    if trace is None:
        run = open_run(scenario, sharers=sharers, ahead_cpu_s=ahead_cpu_s)
        return run.go(progress=progress, tier=tier)
    # Most runs write no trace, and pyarrow takes 30 MiB.
    from precedes.trace import TraceWriter

    metadata = {
        "protocol": scenario.protocol,
        "seed": scenario.seed,
        "scenario": scenario.echo(),
        "code_version": sources_digest(),
    }
    with TraceWriter(trace, nodes=scenario.nodes, metadata=metadata, run_id=run_id) as writer:
        run = open_run(
            scenario, writer=writer, packets=packets, sharers=sharers, ahead_cpu_s=ahead_cpu_s
        )
        result = run.go(progress=progress, tier=tier)
        writer.close(complete=result.complete, scenario=result.scenario, counts=_counts(result))
    return result


def _counts(result: Result) -> dict[str, int]:
    return {
        "broadcasts": result.broadcasts,
        "deliveries": result.deliveries,
        "packets": result.packets,
        "bytes_sent": result.bytes_sent,
    }


def open_run(
    scenario: Scenario,
    *,
    writer: Writer | None = None,
    packets: bool = False,
    sharers: int = 1,
    ahead_cpu_s: float = 0.0,
) -> Run | RadioRun:
    """A run that has not begun: on links, in the compiled engine, or on a radio.

    ``writer`` receives the trace; for whoever keeps it elsewhere than in a file.
    """
    if registry.load(scenario.protocol).network == "radio":
        return RadioRun(scenario, writer=writer, packets=packets)
    return Run(scenario, writer=writer, packets=packets, sharers=sharers, ahead_cpu_s=ahead_cpu_s)


def outside(scenario: Scenario) -> list[str]:
    """What the protocol assumes of the network and the scenario does not offer."""
    assumes = registry.load(scenario.protocol).assumes
    drops = any(item.kind == "cut" and not item.holds for item in scenario.faults)
    broken = {
        "reliable": scenario.loss > 0 or drops,
        "unique": scenario.duplication > 0,
        "fifo": not scenario.fifo and not delays.is_constant(scenario.delay),
    }
    return sorted(name for name in assumes if broken[name])


def warnings(scenario: Scenario) -> list[str]:
    """One line for each broken assumption, for the terminal."""
    lost = {
        "reliable": "that no packet is lost: what follows a lost one is never delivered",
        "unique": "that no packet arrives twice: a repeated one is counted as another",
        "fifo": "that links keep the order of packets",
    }
    return [f"{scenario.protocol} assumes {lost[name]}" for name in outside(scenario)]
