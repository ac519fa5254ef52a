"""A comparison from beginning to end: plan, run what is missing, audit, rank."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from precedes.comparison.candidates import Candidate, Excluded, candidates_of, parameters_for
from precedes.comparison.load import NODES_MAX, Load, has_crash, load_of, with_crashes, with_nodes
from precedes.comparison.ranking import ranked, recommend
from precedes.comparison.result import Comparison
from precedes.comparison.rows import Row, row_of
from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline.directory import hold, trace_path
from precedes.pipeline.plan import PlannedRun, expand
from precedes.pipeline.runner import PoolRunner
from precedes.pipeline.sweep import Carried, carry_out
from precedes.provenance import made_by
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.sim.scenario import LoadFields
from precedes.sim.workloads import replayed, workload_of
from precedes.stores import Address, Place

RUNS: Final = "runs"  # the folder of records and traces
LOADED, CRASHED, SIZED = "load", "crash", "sizes"
# Above this size costs are fitted downwards: twice the group is four times the work.
DOUBLED_MAX: Final = 500


@dataclass(frozen=True)
class Plan:
    """The runs of a comparison."""

    load: Load
    candidates: tuple[Candidate, ...]
    excluded: tuple[Excluded, ...]
    experiments: tuple[Experiment, ...]

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs, those of several experiments more than once."""
        return expand(self.experiments)

    @property
    def about_s(self) -> float:
        """Estimated duration here, once protocols are compiled."""
        costs_s = {run.run_id: run.cost_s for run in self.runs}
        return sum(costs_s.values()) / PoolRunner().parallelism


def compare(
    file: Place | None = None,
    *,
    nodes: int | None = None,
    protocols: Sequence[str] | None = None,
    error: float | None = None,
    seeds: int | None = None,
    crashes: int = 0,
    out: Place | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    **fields: Unpack[LoadFields],
) -> Comparison:
    """Compare protocols under a load: every one that can serve it is run, audited and ranked.

    The load is a scenario or experiment file, fields of a scenario (``nodes=100, rate=50,
    delay="lognormal:40:0.5"``), or both; besides ``protocols`` (names; default: all), ``error``
    (the share of deliveries that may be out of order; default: none), ``seeds`` (a count, 5) and
    ``crashes`` (how many nodes crash). ``out`` is a directory that keeps the runs, so that the same
    call resumes after an interrupt; ``master`` and ``settings`` are those of Spark, which then
    carries out the runs; ``progress`` is called with the completed share.
    """
    size = {} if nodes is None else {"nodes": nodes}
    judged: dict[str, Any] = {"error": error, "seeds": seeds, "crashes": crashes}
    planned = plan(file, protocols=protocols, **judged, **size, **fields)
    return carry_out_plan(planned, out=out, master=master, settings=settings, progress=progress)


def plan(file: Place | None = None, **load: Any) -> Plan:
    """The runs that a comparison would carry out; errors in the load are raised here."""
    checked_load = load_of(file, **load)
    candidates, excluded = candidates_of(checked_load)
    if not candidates:
        raise UserError(_nobody(checked_load, excluded))
    return Plan(
        load=checked_load,
        candidates=tuple(candidates),
        excluded=tuple(excluded),
        experiments=tuple(_experiments(checked_load, candidates)),
    )


def _nobody(load: Load, excluded: Sequence[Excluded]) -> str:
    """The error that nothing is left to run, with advice."""
    reasons = {one.why: one.label for one in reversed(excluded)}
    listed = "; ".join(f"{label}: {why}" for why, label in reversed(reasons.items()))
    hint = ""
    if load.scenario.loss:
        hint = (
            ". The links of live groups repeat what is lost: leave loss out, or name protocols to "
            "see their results"
        )
    return f"no protocol can serve this load ({listed}){hint}"


def _experiments(load: Load, candidates: Sequence[Candidate]) -> list[Experiment]:
    """The load with all seeds and the audit; a crash; and two other sizes of the group."""
    loaded = [
        one.scenario(load.scenario).replace(seed=seed) for one in candidates for seed in load.seeds
    ]
    experiments = [Experiment(LOADED, tuple(loaded), trace=True)]
    first = load.seeds[0]
    if not has_crash(load.scenario) and load.scenario.nodes > 2:
        crashed = with_crashes(load.scenario, 1).replace(seed=first)
        experiments.append(
            Experiment(CRASHED, tuple(one.scenario(crashed) for one in candidates), trace=True)
        )
    sized = [
        _sized(one, load, nodes).replace(seed=first)
        for nodes in _other_sizes(load.scenario)
        for one in candidates
    ]
    if sized:
        experiments.append(Experiment(SIZED, tuple(sized)))
    return experiments


def _other_sizes(scenario: Scenario) -> list[int]:
    """Two other sizes of the group that fit the load: half and twice, or below."""
    nodes = scenario.nodes
    if replayed(scenario.workload) is not None:
        return []
    wanted = (nodes // 2, nodes * 2) if nodes <= DOUBLED_MAX else (nodes // 4, nodes // 2)
    sizes = []
    for size in wanted:
        if 2 <= size <= NODES_MAX:
            with contextlib.suppress(UserError):  # as many senders as a burst has, for instance
                workload_of(scenario.replace(nodes=size, faults=()))
                sizes.append(size)
    return sizes


def _sized(candidate: Candidate, load: Load, nodes: int) -> Scenario:
    """A candidate in a group of another size, with the parameters for it."""
    scenario = with_nodes(load, nodes)
    parameters = parameters_for(
        candidate.protocol, scenario, error=load.error, fixed=candidate.fixed
    )
    return replace(candidate, parameters=parameters).scenario(scenario)


def carry_out_plan(
    planned: Plan,
    *,
    out: Place | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Carry out a plan, and rank the results; without ``out`` nothing is kept."""
    with contextlib.ExitStack() as stack:
        if out is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="precedes-compare-"))
        directory = (Address.of(folder) if out is None else Address.of(out)) / RUNS
        with hold(directory) as held:
            carried = carry_out(
                planned.experiments,
                held,
                in_pool=True,
                progress=progress,
                master=master,
                settings=settings,
            )
        rows, failed = _rows(planned, carried, directory, kept=out is not None)
    order = ranked(rows, error=planned.load.error)
    return Comparison(
        load=planned.load,
        rows=tuple(row for row, _ in order),
        standings=tuple(standing for _, standing in order),
        excluded=(*failed, *planned.excluded),
        recommendation=recommend(order),
        made_by=made_by(),
    )


def _rows(
    planned: Plan, carried: Carried, directory: Address, *, kept: bool
) -> tuple[list[Row], list[Excluded]]:
    """A row for each candidate whose runs under the load all finished, and the excluded ones."""
    seeds = len(planned.load.seeds)
    by_experiment: dict[str, list[PlannedRun]] = {}
    for run in carried.runs:
        by_experiment.setdefault(run.experiment, []).append(run)
    rows, failed = [], []
    for number, candidate in enumerate(planned.candidates):
        runs = by_experiment[LOADED][number * seeds : (number + 1) * seeds]
        errors = [carried.errors[run.run_id] for run in runs if run.run_id in carried.errors]
        if errors:
            failed.append(Excluded(candidate.label, f"its runs failed: {errors[0]}"))
            continue
        records = [carried.records[run.run_id] for run in runs]
        crashed = by_experiment.get(CRASHED)
        own = crashed[number] if crashed else runs[0]
        sized = by_experiment.get(SIZED, [])[number :: len(planned.candidates)]
        others = {run.scenario.nodes: carried.records.get(run.run_id) for run in sized}
        is_crashed = bool(crashed) or has_crash(planned.load.scenario)
        rows.append(
            row_of(
                candidate,
                records,
                crash=carried.records.get(own.run_id) if is_crashed else None,
                others={size: record for size, record in others.items() if record is not None},
                trace=str(trace_path(directory, runs[0].name)) if kept else None,
            )
        )
    if any(row.cpu_us_per_delivery is None for row in rows):  # of different tiers
        rows = [replace(row, cpu_us_per_delivery=None) for row in rows]
    return rows, failed
