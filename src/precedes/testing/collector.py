"""A trace in memory, and a run that is audited as soon as it is over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precedes.audit import Report, audit
from precedes.model import EventKind, Events
from precedes.sim import Result, Scenario
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE
from precedes.sim.run import Run
from precedes.trace import History
from precedes.trace.rows import JUDGED, numbered_history


class Collector:
    """A writer that keeps a trace in memory: pass it to ``sim.runs.open_run``."""

    def __init__(self) -> None:
        self._chunks: list[NDArray[np.int64]] = [np.empty((0, 6), np.int64)]

    def write(self, events: Events) -> None:
        """Add one chunk; the arrays are copied."""
        self._chunks.append(np.stack(events, axis=1, dtype=np.int64))

    def rows(self) -> NDArray[np.int64]:
        """Every event so far, a row each, with the columns of ``Events``."""
        self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0]

    def history(self, *, nodes: int, complete: bool = True) -> History:
        """The same for the audit; ``complete`` says that the run quiesced by itself."""
        rows = self.rows()
        rows = rows[np.isin(rows[:, KIND], list(JUDGED.values()))]
        rows = rows[np.argsort(rows[:, NODE], kind="stable")]
        return numbered_history(
            nodes=nodes,
            offsets=np.searchsorted(rows[:, NODE], np.arange(nodes + 1)),
            kind=rows[:, KIND].astype(np.int8),
            source=rows[:, SOURCE].astype(np.int32),
            seq=rows[:, SEQUENCE].astype(np.int32),
            title="the run",
            complete=complete,
        )


@dataclass(frozen=True)
class Observed:
    """A run: its trace, the simulator's result, and the audit's report."""

    rows: NDArray[np.int64]
    result: Result
    report: Report

    def of(self, kind: EventKind, node: int | None = None) -> NDArray[np.int64]:
        """The rows of one kind, at one node if it is given."""
        chosen = self.rows[self.rows[:, KIND] == kind]
        return chosen if node is None else chosen[chosen[:, NODE] == node]


def observe(scenario: Scenario, *, tier: str = "auto", packets: bool = False) -> Observed:
    """Run a scenario, keep its trace in memory and audit it."""
    return observe_run(Run, scenario, tier=tier, packets=packets)


def observe_run(
    kind: type[Run], scenario: Scenario, *, tier: str, packets: bool = False
) -> Observed:
    """``observe`` for a class derived from ``Run``."""
    collector = Collector()
    result = kind(scenario, writer=collector, packets=packets).go(tier=tier)
    history = collector.history(nodes=scenario.nodes, complete=result.complete)
    return Observed(collector.rows(), result, audit(history))
