"""A run of a scenario on the kind of network that its protocol is for."""

from __future__ import annotations

from precedes import registry
from precedes.model import Progress
from precedes.sim.radio.run import RadioRun
from precedes.sim.result import Result
from precedes.sim.run import Run, Writer
from precedes.sim.scenario import Scenario


def open_run(
    scenario: Scenario,
    *,
    writer: Writer | None = None,
    packets: bool = False,
    sharers: int = 1,
) -> Run | RadioRun:
    """The run of a scenario: on links, in the compiled engine, or on a radio.

    So many ``sharers``, itself included, run on this machine and share its memory.
    """
    if registry.load(scenario.protocol).network == "radio":
        return RadioRun(scenario, writer=writer, packets=packets)
    return Run(scenario, writer=writer, packets=packets, sharers=sharers)


def simulate(
    scenario: Scenario,
    *,
    writer: Writer | None = None,
    packets: bool = False,
    progress: Progress | None = None,
    interpreted: bool = False,
) -> Result:
    """Run a scenario.

    ``writer`` receives the trace, with a row for every packet if ``packets``; ``progress`` is
    called with the share done several times a second; ``interpreted`` runs the same source as
    plain Python, with identical results, for stepping through a protocol in a debugger.
    """
    run = open_run(scenario, writer=writer, packets=packets)
    return run.go(progress=progress, interpreted=interpreted)
