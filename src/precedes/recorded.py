"""A run with its trace: the simulator joined to the trace's writer."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path

from precedes.compiled import sources_digest
from precedes.files import make_directory
from precedes.model import Progress
from precedes.sim import Result, Scenario
from precedes.sim.runs import open_run
from precedes.trace import TraceWriter


def simulate(
    scenario: Scenario,
    *,
    trace: str | os.PathLike[str] | None = None,
    packets: bool = False,
    progress: Progress | None = None,
    interpreted: bool = False,
    run_id: int = 0,
    sharers: int = 1,
) -> Result:
    """Run a scenario and, if asked, write its trace to the file ``trace``.

    ``packets`` adds a row for every message of every packet sent and received. The file appears
    when the run is complete, or not at all. ``progress`` is called with the share done;
    ``interpreted`` runs the same source as plain Python, with identical results. ``run_id`` is
    the number of the run in its trace; ``sharers`` how many runs share this machine's memory.
    """
    if trace is None:
        return open_run(scenario, sharers=sharers).go(progress=progress, interpreted=interpreted)
    metadata = {
        "protocol": scenario.protocol,
        "seed": scenario.seed,
        "scenario": scenario.echo(),
        "code_version": sources_digest(),
    }
    with TraceWriter(trace, nodes=scenario.nodes, metadata=metadata, run_id=run_id) as writer:
        run = open_run(scenario, writer=writer, packets=packets, sharers=sharers)
        result = run.go(progress=progress, interpreted=interpreted)
        writer.close(complete=result.complete, scenario=result.scenario, counts=_counts(result))
    return result


def _counts(result: Result) -> dict[str, int]:
    return {
        "broadcasts": result.broadcasts,
        "deliveries": result.deliveries,
        "packets": result.packets,
        "bytes_sent": result.bytes_sent,
    }


def trace_path(directory: Path, scenario: Scenario) -> Path:
    """Where the trace of a scenario goes in a directory, which is made if it is not there."""
    make_directory(directory)
    name = Path(scenario.protocol).stem
    # The same scenario gives the same file; another one never replaces it. What is as usual is
    # left out, so that a field added to scenarios changes no name.
    usual = {item.name: item.default for item in dataclasses.fields(scenario)}
    unusual = {key: value for key, value in scenario.echo().items() if value != usual[key]}
    text = json.dumps(unusual, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return directory / f"{name}-{scenario.nodes}-{scenario.seed}-{digest}.parquet"
