"""Experiments as a list of runs: their ids, estimated costs, and grouping into tasks."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from precedes import registry
from precedes.compiled import sources_digest
from precedes.errors import UserError
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.sim.switch import INTERPRETED_TIMES
from precedes.sim.workloads import broadcasts

# Every run is a small file and a few rows in the driver's memory.
RUNS_MAX: Final = 100_000

# A task costs about 0.1 s besides its work, so it should last some seconds; the more tasks there
# are, the better the last ones fill the gaps.
TASK_S: Final = 2.0
TASKS_MAX: Final = 10_000

# CPU seconds, measured on one core: setting up a run; a delivery, by protocol; and the additional
# cost to write it, read it again, judge and measure it. Used for balance and progress alone,
# until runs of the same protocol have finished.
SETUP_S: Final = 0.006
DELIVERY_S: Final = {
    "bundled": 0.5e-6,
    "dcs": 0.3e-6,
    "flooding": 14e-6,
    "hashed": 0.4e-6,
    "mobile": 10e-6,
    "vcube": 0.4e-6,
}
COMPILED_S: Final = 0.1e-6  # of a delivery of the others
INTERPRETED_S: Final = 10e-6  # and of those on a radio
TRACED_S: Final = 0.5e-6

ID_BITS: Final = 31  # run_id is an int32 in traces


def name_of(run_id: int) -> str:
    """The base name of the files of a run."""
    return f"run-{run_id:010d}"


@dataclass(frozen=True)
class PlannedRun:
    """One run of an experiment; runs with one id are the same run."""

    run_id: int
    experiment: str
    number: int  # position among the experiment's scenarios
    scenario: Scenario
    trace: bool
    packets: bool
    digest: str  # of everything that determines the result, except for the code
    code_version: str
    cost_s: float
    run_seconds_max: float

    @property
    def name(self) -> str:
        """The base name of its files."""
        return name_of(self.run_id)

    @property
    def kind(self) -> tuple[str, bool]:
        """The key of runs with similar costs."""
        return self.scenario.protocol, self.trace

    def order(self, *, ahead_s: float = 0.0) -> dict[str, Any]:
        """The order for a task, as plain values."""
        return {
            "run_id": self.run_id,
            "scenario": self.scenario.echo(),
            "trace": self.trace,
            "packets": self.packets,
            "digest": self.digest,
            "code_version": self.code_version,
            "run_seconds_max": self.run_seconds_max,
            "ahead_s": ahead_s,
        }


def expand(experiments: Sequence[Experiment]) -> list[PlannedRun]:
    """The runs of experiments, in order. A scenario has the same id in any list of them.

    Ids are digests of scenarios; of two that collide, the later in the list takes the next free
    number. Raises UserError for more than ``RUNS_MAX`` runs.
    """
    count = sum(len(experiment.scenarios) for experiment in experiments)
    if count > RUNS_MAX:
        raise UserError(f"{count:,} runs are more than {RUNS_MAX:,}: sweep over less at a time")
    names = [experiment.name for experiment in experiments]
    if len(set(names)) < len(names):
        raise UserError("two experiments have the same name: give each its own")
    digests: dict[int, str] = {}
    codes: dict[str, str] = {}
    runs = []
    for experiment in experiments:
        for number, scenario in enumerate(experiment.scenarios):
            if scenario.protocol not in codes:
                codes[scenario.protocol] = sources_digest(registry.load(scenario.protocol).sources)
            digest = digest_of(scenario, trace=experiment.trace, packets=experiment.packets)
            run_id = int(digest[:8], 16) >> (32 - ID_BITS)
            while digests.setdefault(run_id, digest) != digest:
                run_id = (run_id + 1) % (1 << ID_BITS)
            runs.append(
                PlannedRun(
                    run_id=run_id,
                    experiment=experiment.name,
                    number=number,
                    scenario=scenario,
                    trace=experiment.trace,
                    packets=experiment.packets,
                    digest=digest,
                    code_version=codes[scenario.protocol],
                    cost_s=cost_s(scenario, trace=experiment.trace),
                    run_seconds_max=experiment.run_seconds_max,
                )
            )
    return runs


def digest_of(scenario: Scenario, *, trace: bool, packets: bool) -> str:
    """A digest of a run; a new field of scenarios changes none."""
    text = json.dumps([scenario.unusual(), trace, trace and packets], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def cost_s(scenario: Scenario, *, trace: bool) -> float:
    """Estimated CPU seconds of a run, for packing and for the remaining time."""
    on_radio = registry.load(scenario.protocol).network == "radio"
    usual_s = INTERPRETED_S if on_radio else COMPILED_S
    delivery_s = DELIVERY_S.get(scenario.protocol, usual_s) + TRACED_S * trace
    return SETUP_S + scenario.nodes * broadcasts(scenario) * delivery_s


def ahead_s(runs: Iterable[PlannedRun]) -> dict[str, float]:
    """The time of all runs of a protocol if interpreted, in CPU seconds."""
    times_s: dict[str, float] = defaultdict(float)
    for run in runs:
        compiled_s = cost_s(run.scenario, trace=False) - SETUP_S
        times_s[run.scenario.protocol] += INTERPRETED_TIMES * compiled_s
    return times_s


def learned(runs: Sequence[PlannedRun], costs_s: Mapping[int, float]) -> list[PlannedRun]:
    """The runs with costs calibrated by finished ones, by id, as far as there are any.

    The cost of runs of a protocol, traced or not, is divided by their estimates.
    """
    guessed_s: dict[tuple[str, bool], float] = defaultdict(float)
    elapsed_s: dict[tuple[str, bool], float] = defaultdict(float)
    for run in runs:
        if run.run_id in costs_s:
            guessed_s[run.kind] += run.cost_s
            elapsed_s[run.kind] += costs_s[run.run_id]
    ratios = {kind: elapsed_s[kind] / guess_s for kind, guess_s in guessed_s.items()}
    # A clock that does not advance between two readings would make runs cost nothing.
    return [
        dataclasses.replace(run, cost_s=run.cost_s * max(ratios.get(run.kind, 1.0), 1e-6))
        for run in runs
    ]


def pack(costs_s: Sequence[float], *, at_least: int = 1) -> list[list[int]]:
    """Items by their costs, in tasks of about ``TASK_S`` seconds each, the longest task first.

    There are at least ``at_least`` tasks, if there are as many items. The most expensive item
    goes into the task that is shortest so far, and so on: no task is longer than the shortest
    plus one item.
    """
    if not costs_s:
        return []
    count = min(len(costs_s), TASKS_MAX, max(at_least, math.ceil(sum(costs_s) / TASK_S)))
    tasks: list[list[int]] = [[] for _ in range(count)]
    loads = [(0.0, task) for task in range(count)]
    for item in sorted(range(len(costs_s)), key=lambda i: (-costs_s[i], i)):
        load_s, task = heapq.heappop(loads)
        tasks[task].append(item)
        heapq.heappush(loads, (load_s + costs_s[item], task))
    filled = [task for task in tasks if task]
    return sorted(filled, key=lambda task: -sum(costs_s[i] for i in task))
