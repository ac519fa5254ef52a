"""Experiments from beginning to end, resumable: plan, run what is not finished, tabulate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from precedes import frames
from precedes.errors import Exit, UserError, meant
from precedes.model import Progress
from precedes.pipeline.asked import faults_word
from precedes.pipeline.directory import (
    LOG,
    Record,
    hold,
    read_records,
    record_path,
    trace_path,
)
from precedes.pipeline.plan import PlannedRun, expand, learned
from precedes.pipeline.repeat import command_for, forget
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.stores import Address, Lease, Place, StoreError
from precedes.stores.address import scratch

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

# Failed runs that are named one by one; the table of runs has them all.
FAILURES_TOLD: Final = 20


class RunsFailed(UserError):
    """Runs failed, in what was asked of them or in the protocol; the others are kept."""

    exit_status = Exit.UNKNOWN


@dataclass(frozen=True)
class Failure:
    """A run that gave no result, and the command that repeats it."""

    run_id: int
    experiment: str
    protocol: str
    seed: int
    error: str
    command: str


@dataclass(frozen=True)
class Sweep:
    """What is known of experiments after a sweep; its tables are read when they are asked for."""

    directory: Address
    runs: list[PlannedRun]
    found: Mapping[int, Record]  # by run id, read from the directory when asked for
    kept: int  # runs that were finished before
    failures: list[Failure]
    errors: dict[int, str]

    def to_arrow(self, table: str = "runs") -> pa.Table:
        """A table of the sweep (docs/results.md): "runs", "protocol_summary", "run_metrics", ..."""
        import pyarrow.parquet as pq

        with (self.directory / f"{self._known(table)}.parquet").open() as file:
            return pq.read_table(file)

    def to_pandas(self, table: str = "runs") -> pd.DataFrame:
        """The same as a frame of pandas."""
        return frames.pandas_of(self.to_arrow(table))

    def _known(self, table: str) -> str:
        there = sorted(
            name.removesuffix(".parquet")
            for name in self.directory.names()
            if name.endswith(".parquet")
        )
        if table not in there:
            hint = f"{meant(table, there)}: it has {', '.join(there) or 'none'}"
            raise UserError(f"the sweep in {self.directory} has no table {table!r}{hint}")
        return table

    def _repr_html_(self) -> str:
        runs = len(self.runs)
        failed = f", {len(self.failures):,} failed" if self.failures else ""
        title = f"{runs:,} runs in {self.directory}, {self.kept:,} of them kept{failed}"
        names = ("experiment", "protocol", "params", "metric", "mean", "low", "high")
        summary = self.to_arrow("protocol_summary")
        first = summary.select(names).slice(0, frames.ROWS_MAX).to_pylist()
        rows = [[row[name] for name in names] for row in first]
        more = summary.num_rows - len(rows)
        return frames.shown(frames.paragraph(title), frames.table(names, rows, more=more))


def run_experiments(
    experiments: Sequence[Experiment],
    directory: Place,
    *,
    master: str | None = None,
    session: SparkSession | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """The results of experiments: for each name, ``Result.as_dict()`` of scenario after scenario.

    ``trace`` in them is the address of the run's trace and ``audit`` what its audit counts, or None
    if the experiment keeps none.
    What is finished is kept in ``directory``, which belongs to one version of the code: called
    again, also after a kill, it goes on where it was. If runs fail, RunsFailed names them when
    all others are finished. ``master`` and ``settings`` are those of the session that is made,
    unless there is one.
    """
    directory = Address.of(directory)
    with hold(directory) as held:
        done = _carry_out(
            experiments,
            held,
            progress=progress,
            master=master,
            session=session,
            settings=settings,
        )
    if progress is not None:
        progress(1.0)
    raise_failures(done)
    results: dict[str, list[dict[str, Any]]] = {experiment.name: [] for experiment in experiments}
    for run in done.runs:
        trace = str(trace_path(directory, run.name)) if run.trace else None
        record = done.found[run.run_id]
        found = {**record["result"], "trace": trace, "audit": record["audit"]}
        results[run.experiment].append(found)
    return results


def run_sweep(
    experiment: Experiment,
    directory: Place,
    *,
    master: str | None = None,
    session: SparkSession | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Run an experiment and write its tables into the directory (docs/results.md).

    Runs that failed are in the tables as such, and in what is returned, which also reads the tables
    as frames.
    """
    from precedes.pipeline.spark import monitor
    from precedes.pipeline.spark.session import open_session, require_pyspark

    require_pyspark()
    directory = Address.of(directory)
    params = params_of(experiment)
    took: list[monitor.Summary] = []
    with (
        hold(directory) as held,
        monitor.listening(took.append),
        _log_in(directory) as log,
        open_session(master=master, session=session, settings=settings, log=log) as spark,
    ):
        from precedes.pipeline.output import write_tables

        done = _carry_out([experiment], held, progress=progress, session=spark)
        held.check()
        write_tables(
            spark,
            directory,
            runs=done.runs,
            finished=list(done.found),
            errors=done.errors,
            params=params,
            took=took,
        )
    if progress is not None:
        progress(1.0)
    return done


def _carry_out(
    experiments: Sequence[Experiment],
    held: Lease,
    *,
    progress: Progress | None,
    **spark: Any,
) -> Sweep:
    """Do what is not finished; ``spark`` is what ``open_session`` takes."""
    from precedes.pipeline.dispatch import simulate_runs
    from precedes.pipeline.spark.session import open_session

    directory = held.folder
    runs = expand(experiments)
    before = read_records(directory, runs)
    missing = [run for run in learned(runs, before.costs_s) if run.run_id not in before]
    errors: dict[int, str] = {}
    found = before
    for run in missing:
        # What is left of a damaged run must not be taken for finished by the task that redoes it.
        record_path(directory, run.name).remove()
    if missing:
        with _log_in(directory) as log, open_session(**spark, log=log) as opened:
            outcomes = simulate_runs(
                opened, missing, directory=directory, held=held, progress=progress
            )
        errors = {outcome.run_id: outcome.error for outcome in outcomes if outcome.error}
        found = before.with_more(read_records(directory, missing))
        for run in missing:
            if run.run_id in found:
                forget(run, directory)
            else:
                errors.setdefault(run.run_id, "its record is not where it was written")
    return Sweep(
        directory=directory,
        runs=runs,
        found=found,
        kept=len(before),
        failures=_failures(runs, found, errors, directory),
        errors=errors,
    )


@contextlib.contextmanager
def _log_in(directory: Address) -> Iterator[Path]:
    """Where on this machine Spark writes its log, which ends up in the directory."""
    if directory.is_local:
        yield (directory / LOG).local
        return
    with scratch() as folder:
        try:
            yield folder / LOG
        finally:
            if (folder / LOG).is_file():
                with contextlib.suppress(StoreError):  # it may be what Spark's log is about
                    (directory / LOG).put_file(folder / LOG)


def _failures(
    runs: Sequence[PlannedRun],
    found: Mapping[int, Record],
    errors: Mapping[int, str],
    directory: Address,
) -> list[Failure]:
    failed = {run.run_id: run for run in runs if run.run_id not in found}
    told = []
    for run in failed.values():
        command = f"precedes simulate (see {directory / 'runs.csv'})"
        with contextlib.suppress(UserError):  # on a full disk the command cannot be kept either
            command = command_for(run, directory)
        told.append(
            Failure(
                run_id=run.run_id,
                experiment=run.experiment,
                protocol=run.scenario.protocol,
                seed=run.scenario.seed,
                error=errors.get(run.run_id, "not run"),
                command=command,
            )
        )
    return told


def raise_failures(done: Sweep) -> None:
    """Name the runs that failed, if there are any."""
    if not done.failures:
        return
    told = [
        f"run {failure.run_id} of {failure.experiment} ({failure.protocol}, seed {failure.seed}): "
        f"{failure.error}; repeat it with '{failure.command}'"
        for failure in done.failures[:FAILURES_TOLD]
    ]
    more = len(done.failures) - len(told)
    rest = f" | and {more} more" if more else ""
    total = len({run.run_id for run in done.runs})
    raise RunsFailed(
        f"{len(done.failures)} of {total} runs failed, the others are kept: "
        f"{' | '.join(told)}{rest}"
    )


def params_of(experiment: Experiment) -> dict[tuple[str, int], str]:
    """What tells the runs of an experiment apart, besides protocol and seed, as text.

    Runs that differ in the seed alone share their text, and means are taken over them. Two runs
    that differ in nothing are refused: one would count twice.
    """
    scenarios = experiment.scenarios
    others = ("protocol", "seed", "parameters", "faults")
    names = [item.name for item in fields(Scenario) if item.name not in others]
    varied = [name for name in names if len({getattr(one, name) for one in scenarios}) > 1]
    faulty = len({one.faults for one in scenarios}) > 1
    found = {}
    seen: dict[tuple[str, str, int], int] = {}
    for number, one in enumerate(scenarios):
        words = [f"{name}={getattr(one, name)}" for name in varied]
        words += [f"faults={faults_word(one.faults)}"] if faulty else []
        words += [f"{name}={value}" for name, value in sorted(one.parameters.items())]
        found[experiment.name, number] = text = " ".join(words)
        first = seen.setdefault((one.protocol, text, one.seed), number)
        if first != number:
            raise UserError(
                f"scenarios {first} and {number} of {experiment.name} are the same run "
                f"({one.protocol}, seed {one.seed}): leave one out"
            )
    return found
