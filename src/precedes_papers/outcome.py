"""Running the experiments of papers, and what their packages make of the results."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from precedes.compiled import sources_digest
from precedes.errors import InternalError, UserError
from precedes.pipeline.plan import expand
from precedes.pipeline.sweep import run_experiments
from precedes.sim.experiment import Experiment
from precedes.stores import Address, Place
from precedes_papers.measured import ORIGIN, Origin, Results, marked
from precedes_papers.registry import SCALES, Paper, Reference, load, papers
from precedes_papers.rules import OUTCOMES, VERDICTS, Claim, outcome_of, settled, statements
from precedes_papers.shown import Claims, Figure, Story, Table, story

Runner = Callable[..., dict[str, list[dict[str, Any]]]]


class Timing(NamedTuple):
    """Duration of an experiment, including runs that finished in an earlier call."""

    experiment: str
    runs: int
    cpu_s: float


@dataclass(frozen=True)
class Outcome:
    """Content of a report about one paper."""

    paper: str  # its number
    reference: Reference
    scale: str
    timings: tuple[Timing, ...] = field(compare=False)  # of the same runs, another time
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    story: Story = field(default_factory=Story)
    origins: tuple[Origin, ...] = ()  # of all runs, in their order

    @property
    def runs(self) -> int:
        """Number of runs that it was made from."""
        return sum(timing.runs for timing in self.timings)


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
    named = [_named(number, one) for number, group in experiments.items() for one in group]
    results = run(
        named,
        Address.of(directory) / "runs" / sources_digest()[:12],
        master=master,
        settings=settings,
        progress=progress,
    )
    names: dict[str, list[str]] = {one.name: [] for one in named}
    for planned in expand(named):
        names[planned.experiment].append(planned.name)
    return [
        judge(
            paper,
            {
                one.name: _aligned(one, results[name], names[name])
                for one in experiments[number]
                for name in [_named(number, one).name]
            },
            scale=scale,
        )
        for number, paper in chosen.items()
    ]


def judge(paper: Paper, results: Results, *, scale: str) -> Outcome:
    """Claims, tables and figures of a paper from the results of its experiments."""
    results = marked(results, paper.fitted)
    claims = Claims(settled(paper.claims(results)))
    shown = list(paper.shown(results, claims))
    twice = [name for name, count in Counter(one.name for one in shown).items() if count > 1]
    if twice:
        raise InternalError(f"{paper.number}: tables and figures: {twice[0]} occurs twice")
    figures = tuple(one for one in shown if isinstance(one, Figure))
    return Outcome(
        paper=paper.number,
        reference=paper.reference,
        scale=scale,
        timings=tuple(
            Timing(name, len(runs), sum(run["cpu_s"] for run in runs))
            for name, runs in results.items()
        ),
        claims=tuple(claims),
        tables=tuple(one for one in shown if isinstance(one, Table)),
        figures=figures,
        story=story(paper.headlines, claims, [figure.name for figure in figures]),
        origins=tuple(run[ORIGIN] for runs in results.values() for run in runs),
    )


def counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Number of claims by verdict, in the order of the verdicts."""
    numbers = Counter(claim.verdict for outcome in outcomes for claim in outcome.claims)
    return {verdict: numbers[verdict] for verdict in VERDICTS}


def statement_counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Number of published statements by outcome, in the order of the outcomes."""
    numbers = Counter(
        outcome_of(readings) for outcome in outcomes for readings in statements(outcome.claims)
    )
    return {name: numbers[name] for name in OUTCOMES}


def _named(number: str, experiment: Experiment) -> Experiment:
    return dataclasses.replace(experiment, name=f"{number}-{experiment.name}")


def _aligned(
    experiment: Experiment, runs: list[dict[str, Any]], names: list[str]
) -> list[dict[str, Any]]:
    """The runs in the order of the scenarios, each with the name of its files."""
    wanted = [(one.protocol, one.nodes, one.seed) for one in experiment.scenarios]
    if [(run["protocol"], run["nodes"], run["seed"]) for run in runs] != wanted:
        raise InternalError(f"{experiment.name}: results are not in the order of the scenarios")
    return [{**run, "run": name} for run, name in zip(runs, names, strict=True)]
