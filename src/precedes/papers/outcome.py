"""Running the experiments of papers, and what their packages make of the results."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precedes.compiled import sources_digest
from precedes.errors import InternalError, UserError
from precedes.papers.bibliography import Reference
from precedes.papers.claims import VERDICTS, Claim
from precedes.papers.measured import Results
from precedes.papers.registry import SCALES, Paper, load, papers
from precedes.papers.shown import Figure, Table
from precedes.pipeline.sweep import run_experiments
from precedes.sim.experiment import Experiment
from precedes.stores import Address, Place

Runner = Callable[..., dict[str, list[dict[str, Any]]]]


@dataclass(frozen=True)
class Outcome:
    """What a report says of one paper."""

    paper: str  # its number
    reference: Reference
    scale: str
    runs: int
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]


def reproduce(
    wanted: Sequence[str],
    *,
    directory: Place,
    scale: str = "quick",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[float], None] | None = None,
    runner: Runner | None = None,
) -> list[Outcome]:
    """Run the experiments of the papers named (``vcube``, ``000``) or of all; judge the results.

    Finished runs are kept in ``directory/runs``, in a folder for each version of the sources:
    called again after an interruption, only the others run. ``master`` is where Spark runs, with
    ``settings``; ``runner`` replaces what runs the experiments.
    """
    if scale not in SCALES:
        raise UserError(f"scale is one of {', '.join(SCALES)}, not {scale!r:.40}")
    chosen = {paper.number: paper for paper in map(load, wanted or papers())}
    run = runner or run_experiments
    experiments = {number: paper.experiments(scale) for number, paper in chosen.items()}
    results = run(
        [_named(number, one) for number, found in experiments.items() for one in found],
        Address.of(directory) / "runs" / sources_digest()[:12],
        master=master,
        settings=settings,
        progress=progress,
    )
    return [
        judge(
            paper,
            {
                one.name: _aligned(one, results[_named(number, one).name])
                for one in experiments[number]
            },
            scale=scale,
        )
        for number, paper in chosen.items()
    ]


def judge(paper: Paper, results: Results, *, scale: str) -> Outcome:
    """Claims, tables and figures of a paper from the results of its experiments."""
    outcome = Outcome(
        paper=paper.number,
        reference=paper.reference,
        scale=scale,
        runs=sum(len(runs) for runs in results.values()),
        claims=tuple(paper.claims(results)),
        tables=tuple(paper.tables(results)),
        figures=tuple(paper.figures(results)),
    )
    if any(claim.paper != paper.number for claim in outcome.claims):
        raise InternalError(f"paper {paper.number} makes claims about another paper")
    _check_unique(f"{paper.number}: claims", [(one.item, one.key) for one in outcome.claims])
    shown = [one.name for one in outcome.tables] + [one.name for one in outcome.figures]
    _check_unique(f"{paper.number}: tables and figures", shown)
    return outcome


def counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many claims have which verdict, in the order of the verdicts."""
    found = Counter(claim.verdict for outcome in outcomes for claim in outcome.claims)
    return {verdict: found[verdict] for verdict in VERDICTS}


def _named(number: str, experiment: Experiment) -> Experiment:
    return dataclasses.replace(experiment, name=f"{number}-{experiment.name}")


def _aligned(experiment: Experiment, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    wanted = [(one.protocol, one.nodes, one.seed) for one in experiment.scenarios]
    if [(run["protocol"], run["nodes"], run["seed"]) for run in runs] != wanted:
        raise InternalError(f"{experiment.name}: results are not in the order of the scenarios")
    return runs


def _check_unique(what: str, names: Sequence[Any]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InternalError(f"{what}: {twice[0]} is there twice")
