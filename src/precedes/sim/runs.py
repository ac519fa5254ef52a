"""Runs of scenarios, on the network that the protocol requires, with or without a trace."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from contextlib import AbstractContextManager
from typing import Any, Final, Unpack, overload

from precedes import __version__, delays, registry, waiting
from precedes.compiled import sources_digest
from precedes.errors import UserError, meant
from precedes.model import Progress
from precedes.sim.engine.rows import Writer
from precedes.sim.radio.run import RadioRun
from precedes.sim.result import Result
from precedes.sim.run import Run
from precedes.sim.scenario import RunFields, Scenario
from precedes.stores import Address

# Arguments of ``simulate`` other than the fields of a scenario, for users.
OPTIONS: Final = ("trace", "packets", "progress", "tier")
# Fewer events are written in an instant.
ROWS_MANY: Final = 1 << 22
FIELDS: Final = tuple(item.name for item in dataclasses.fields(Scenario) if item.name != "protocol")


@overload
def simulate(
    scenario: Scenario,
    *,
    trace: str | os.PathLike[str] | None = ...,
    packets: bool = ...,
    progress: Progress | None = ...,
    tier: str = ...,
    run_id: int = ...,
    sharers: int = ...,
    ahead_cpu_s: float = ...,
) -> Result: ...


@overload
def simulate(
    scenario: str,
    *,
    nodes: int,
    trace: str | os.PathLike[str] | None = ...,
    packets: bool = ...,
    progress: Progress | None = ...,
    tier: str = ...,
    **fields: Unpack[RunFields],
) -> Result: ...


def simulate(
    scenario: Scenario | str,
    *,
    trace: str | os.PathLike[str] | None = None,
    packets: bool = False,
    progress: Progress | None = None,
    tier: str = "auto",
    run_id: int = 0,
    sharers: int = 1,
    ahead_cpu_s: float = 0.0,
    **fields: Any,
) -> Result:
    """Run a scenario and, if asked, write its trace to the file ``trace``.

    Instead of a ``Scenario`` it takes the name of a protocol and the other fields of one:
    ``simulate("vector", nodes=50, messages=5000)``.

    ``packets`` adds a row for every message of every packet sent and received. The file appears
    when the run is complete, or not at all. ``progress`` is called with the completed share,
    several times a second. ``run_id`` is the number of the run in its trace; ``sharers`` the number
    of runs that share this machine's memory.

    ``tier`` selects how the protocol runs, with identical results: "interpreted" is plain Python,
    for stepping through it in a debugger; "compiled" waits for the compiler at the first use of a
    protocol; "auto" begins interpreted then, and changes to compiled code when a background process
    has compiled it, which it does for long runs alone, or if ``ahead_cpu_s``, the time of later
    runs of the same protocol if interpreted, shows that there is enough to do.
    """
    scenario = _scenario(scenario, fields)
    share: dict[str, Any] = {"sharers": sharers, "ahead_cpu_s": ahead_cpu_s}
    if trace is None:
        result = open_run(scenario, **share).go(progress=progress, tier=tier)
    else:
        result = _traced(scenario, trace, run_id, packets, share, progress, tier)
    if progress is not None:
        progress(1.0)
    return result


def _traced(
    scenario: Scenario,
    trace: str | os.PathLike[str],
    run_id: int,
    packets: bool,
    share: dict[str, Any],
    progress: Progress | None,
    tier: str,
) -> Result:
    # Most runs write no trace, and pyarrow takes 30 MiB.
    from precedes.trace import TraceWriter

    metadata = {
        "protocol": scenario.protocol,
        "seed": scenario.seed,
        "scenario": scenario.echo(),
        "version": __version__,
        "code_version": sources_digest(),
    }
    with TraceWriter(trace, nodes=scenario.nodes, metadata=metadata, run_id=run_id) as writer:
        run = open_run(scenario, writer=writer, packets=packets, **share)
        result = run.go(progress=progress, tier=tier)
        more = {"marks": run.trace.marks} if isinstance(run, RadioRun) else {}
        about = {"scenario": result.scenario, "counts": _counts(result), **more}
        with _shown(result):
            writer.close(complete=result.complete, **about)
    return dataclasses.replace(result, trace=str(Address.of(trace).absolute()))


def _shown(result: Result) -> AbstractContextManager[object]:
    """Show progress while events are sorted, which takes seconds after minutes of run time."""
    if result.deliveries < ROWS_MANY:
        return contextlib.nullcontext()
    return waiting.shown("writing the trace")


def _scenario(scenario: Scenario | str, values: dict[str, Any]) -> Scenario:
    """The scenario of a call, given as such or by its fields."""
    if isinstance(scenario, Scenario):
        if values:
            first = next(iter(values))
            raise UserError(
                f"{first!r} is a field of a scenario, which is given already: "
                "use scenario.replace(...)"
                if first in FIELDS
                else f"simulate has no argument {first!r}{meant(first, OPTIONS)}"
            )
        return scenario
    if not isinstance(scenario, str):
        text = "simulate takes a Scenario, or the name of a protocol and the fields of one"
        raise UserError(f"{text}, not {scenario!r:.60}")
    for name in values:
        if name not in FIELDS:
            known = (*FIELDS, *OPTIONS)
            hint = f"{meant(name, known)}: it takes the fields of a Scenario, {', '.join(FIELDS)}"
            if name in vars(registry.load(scenario).make_parameters({})):
                own = {name: values[name]}
                hint = f", but {scenario!r} has such a parameter: use parameters={own!r}"
            raise UserError(f"simulate has no argument {name!r}{hint}")
    if "nodes" not in values:
        raise UserError(f"nodes is missing: simulate({scenario!r}, nodes=50, ...)")
    return Scenario(scenario, **values)


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

    ``writer`` receives the trace; for callers that do not keep it in a file.
    """
    if registry.load(scenario.protocol).network == "radio":
        return RadioRun(scenario, writer=writer, packets=packets)
    return Run(scenario, writer=writer, packets=packets, sharers=sharers, ahead_cpu_s=ahead_cpu_s)


def outside(scenario: Scenario) -> list[str]:
    """Assumptions of the protocol that the network or the scenario does not meet."""
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
