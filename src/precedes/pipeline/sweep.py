"""Experiments from beginning to end, resumable: plan, run what is missing, tabulate."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from precedes import frames, waiting
from precedes.errors import Exit, UserError, meant
from precedes.model import Progress
from precedes.pipeline.directory import (
    ATTEMPTS_MAX,
    FAILED,
    LOG,
    Record,
    Records,
    begun_names,
    finished_names,
    forget_starts,
    hold,
    make_folder,
    read_records,
    record_path,
    trace_path,
    write_aside,
)
from precedes.pipeline.execute import FINISHED, Outcome, is_compiling, run_orders
from precedes.pipeline.output import write_tables
from precedes.pipeline.plan import PlannedRun, ahead_s, expand, learned
from precedes.pipeline.runner import Order, Runner, open_runner
from precedes.pipeline.spark import jobs
from precedes.pipeline.tables import faults_word
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.sim.scenario import NETWORK, TOP, WORKLOAD
from precedes.sim.switch import wait_for_code
from precedes.stores import Address, Lease, Place, StoreError
from precedes.stores.address import scratch

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

# Reading the directory may take this fraction of the time until the next reading.
LOOK_EVERY: Final = 50

# Failed runs that are named one by one; the table of runs has them all.
FAILURES_SHOWN: Final = 20


class RunsFailed(UserError):
    """Runs failed, because of their scenario or their protocol; the others are kept."""

    exit_status = Exit.UNKNOWN


@dataclass(frozen=True)
class Failure:
    """A run without a result, and the command that repeats it."""

    run_id: int
    experiment: str
    protocol: str
    seed: int
    error: str
    command: str


@dataclass(frozen=True)
class Sweep:
    """The results of experiments after a sweep; its tables are read on access."""

    directory: Address
    runs: list[PlannedRun]
    records: Mapping[int, Record]  # by run id, read from the directory on access
    kept: int  # runs that were finished before
    failures: list[Failure]
    errors: dict[int, str]

    def to_arrow(self, table: str = "runs") -> pa.Table:
        """A table of the sweep (docs/results.md): "runs", "protocol_summary", "run_metrics", ..."""
        import pyarrow.parquet as pq

        with (self.directory / f"{self._known(table)}.parquet").open() as file:
            return pq.read_table(file)

    def to_pandas(self, table: str = "runs") -> pd.DataFrame:
        """The same as a DataFrame of pandas."""
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
    Finished runs are kept in ``directory``, which belongs to one version of the code: called
    again, also after a kill, it resumes. If runs fail, RunsFailed names them when
    all others are finished. ``master`` and ``settings`` are those of the session that is made,
    unless there is one.
    """
    directory = Address.of(directory)
    with hold(directory) as held:
        done = carry_out(
            experiments,
            held,
            progress=progress,
            master=master,
            session=session,
            settings=settings,
        )
        raise_failures(_sweep(done, directory))
    results: dict[str, list[dict[str, Any]]] = {experiment.name: [] for experiment in experiments}
    for run in done.runs:
        trace = str(trace_path(directory, run.name)) if run.trace else None
        record = done.records[run.run_id]
        result = {**record["result"], "trace": trace, "audit": record["audit"]}
        results[run.experiment].append(result)
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

    Runs that failed are in the tables as such, and in the returned ``Sweep``, which also reads the
    tables as DataFrames.
    """
    directory = Address.of(directory)
    params = params_of(experiment)
    took: list[jobs.Summary] = []
    with hold(directory) as held, jobs.listening(took.append):
        done = carry_out(
            [experiment],
            held,
            progress=progress,
            master=master,
            session=session,
            settings=settings,
        )
        held.check()
        write_tables(directory, done.runs, done.records, done.errors, params=params, took=took)
        return _sweep(done, directory)


class Carried(NamedTuple):
    """Runs of experiments with the results of each."""

    runs: list[PlannedRun]
    records: Records
    kept: int  # runs that were finished before
    errors: dict[int, str]  # by run id, of those that failed


def carry_out(
    experiments: Sequence[Experiment],
    held: Lease,
    *,
    in_pool: bool = False,
    progress: Progress | None = None,
    **spark: Any,
) -> Carried:
    """Carry out the unfinished runs; called again, also after a kill, it resumes.

    ``spark`` is passed to ``open_session``. Without any of it, Spark gets large amounts of work,
    but not ``in_pool``. A run that fails stops no other.
    """
    directory = held.folder
    runs = expand(experiments)
    before = read_records(directory, runs)
    missing = {run.run_id: run for run in learned(runs, before.costs_s) if run.run_id not in before}
    errors: dict[int, str] = {}
    records = before
    for run in missing.values():
        # Remains of a damaged run must not count as finished for the task that repeats it.
        record_path(directory, run.name).remove()
    if missing:
        # By the estimates: finished runs may include a compiler's time.
        work_s = sum({run.run_id: run.cost_s for run in runs if run.run_id in missing}.values())
        with (
            _log_in(directory) as log,
            open_runner(0.0 if in_pool else work_s, **spark, log=log) as runner,
        ):
            outcomes = simulate_runs(runner, [*missing.values()], held=held, progress=progress)
        errors = {outcome.run_id: outcome.error for outcome in outcomes if outcome.error}
        records = before.with_more(read_records(directory, missing.values()))
        for run in missing.values():
            if run.run_id in records:
                _scenario_path(run, directory).remove()  # it has failed before
            else:
                errors.setdefault(run.run_id, "its record is not where it was written")
    if progress is not None:
        progress(1.0)
    return Carried(runs, records, len(before), errors)


def simulate_runs(
    runner: Runner,
    runs: Sequence[PlannedRun],
    *,
    held: Lease,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Carry out different runs and return the outcome of each.

    A run that kills its process is given up after ``ATTEMPTS_MAX`` of them. If a backend gives up
    before that, as Spark's own ``local[2]`` does at the first failure, the runs in progress
    are repeated one after the other: one of them was the cause, and the others were ended too.
    """
    directory = held.folder
    if runner.sharers:  # its processes share this machine's cache
        wait_for_code(ahead_s(runs))
    work = _Run(directory.absolute(), Path.cwd(), runner.sharers)
    watch = RunWatch(held, runs, progress)
    outcomes: dict[int, Outcome] = {}
    batches = [sorted(runs, key=lambda run: -run.cost_s)]
    in_vain = 0
    try:
        while batches:
            finished = finished_names(directory)
            batch = [run for run in batches.pop(0) if run.name not in finished]
            ahead = ahead_s(batch)
            try:
                rows = runner.map(
                    work,
                    [run.order(ahead_s=ahead[run.scenario.protocol]) for run in batch],
                    [run.cost_s for run in batch],
                    title="simulate",
                    watch=watch,
                    addresses=[directory],
                )
                outcomes |= {row[0]: Outcome(*row) for row in rows}
            except jobs.TaskError:
                begun = begun_names(directory)
                suspects = [run for run in batch if run.name in begun]
                in_vain = 0 if suspects else in_vain + 1
                if in_vain == ATTEMPTS_MAX:
                    raise
                if len(batch) > 1:
                    for run in suspects:
                        forget_starts(directory, run.name)
                others = [run for run in batch if run.name not in begun]
                batches[:0] = [*([run] for run in suspects), others]
    except jobs.SparkError as error:
        raise UserError(
            f"{error}; finished runs are kept in {directory}, and the same command resumes"
        ) from None
    finally:
        watch.close()
    return [outcomes.get(run.run_id, Outcome(run.run_id, FINISHED, None)) for run in runs]


class _Run:
    """Carries out an order, in any process."""

    def __init__(self, directory: Address, here: Path, sharers: int) -> None:
        self._directory = directory
        self._here = here
        self._sharers = sharers

    def __call__(self, order: Order) -> Outcome:
        sharers = self._sharers or os.cpu_count() or 1
        (outcome,) = run_orders(
            [order], directory=self._directory, here=self._here, sharers=sharers
        )
        return outcome


class RunWatch:
    """Reports the share of runs, by cost, with records, and waits for compilers.

    Reading takes longer the more records there are, so it is done less often. A store that does not
    answer is read again later; a lost lease raises.
    """

    def __init__(self, held: Lease, runs: Sequence[PlannedRun], progress: Progress | None) -> None:
        self._held = held
        self._costs_s = {run.name: run.cost_s for run in runs}
        self._protocols = sorted({run.scenario.protocol for run in runs})
        self._progress = progress
        self._next_s = 0.0
        self._shown: AbstractContextManager[object] | None = None

    def __call__(self) -> None:
        self._held.check()
        begin_s = time.monotonic()
        if self._progress is None or begin_s < self._next_s:
            return
        with contextlib.suppress(StoreError):
            compiling = is_compiling(self._protocols)
            if compiling and self._shown is None:
                text = "compiling protocols in the background (then cached)"
                self._shown = waiting.shown(text)
                self._shown.__enter__()
            elif not compiling:
                self.close()
            finished = finished_names(self._held.folder) & self._costs_s.keys()
            done_s = sum(self._costs_s[name] for name in finished)
            self._progress(done_s / sum(self._costs_s.values()))
        self._next_s = begin_s + (1 + LOOK_EVERY) * (time.monotonic() - begin_s)

    def close(self) -> None:
        """End the display of waits."""
        if self._shown is not None:
            self._shown.__exit__(None, None, None)
            self._shown = None


@contextlib.contextmanager
def _log_in(directory: Address) -> Iterator[Path]:
    """A local path for Spark's log, which is copied to the directory."""
    if directory.is_local:
        yield (directory / LOG).local
        return
    with scratch() as folder:
        try:
            yield folder / LOG
        finally:
            if (folder / LOG).is_file():
                with contextlib.suppress(StoreError):  # it may be the cause of Spark's log
                    (directory / LOG).put_file(folder / LOG)


def _sweep(done: Carried, directory: Address) -> Sweep:
    """The results of a sweep, with a command for each run that failed."""
    failures = []
    for run in {run.run_id: run for run in done.runs if run.run_id not in done.records}.values():
        command = f"precedes simulate (see {directory / 'runs.csv'})"
        with contextlib.suppress(UserError):  # on a full disk the command cannot be kept either
            command = _command_for(run, directory)
        failures.append(
            Failure(
                run_id=run.run_id,
                experiment=run.experiment,
                protocol=run.scenario.protocol,
                seed=run.scenario.seed,
                error=done.errors.get(run.run_id, "not run"),
                command=command,
            )
        )
    return Sweep(
        directory=directory,
        runs=done.runs,
        records=done.records,
        kept=done.kept,
        failures=failures,
        errors=done.errors,
    )


def _scenario_path(run: PlannedRun, directory: Address) -> Address:
    """The path of the scenario of a run that failed."""
    return directory / FAILED / f"{run.name}.toml"


def _command_for(run: PlannedRun, directory: Address) -> str:
    """Write the run's scenario into the directory and return the command that runs it."""
    path = _scenario_path(run, directory)
    make_folder(path.parent)
    write_aside(path, to_toml(run.scenario).encode())
    trace = f" --trace {shlex.quote(str(directory / FAILED))}" if run.trace else ""
    packets = " --packets" if run.trace and run.packets else ""
    return f"precedes simulate --scenario {shlex.quote(str(path))}{trace}{packets}"


def raise_failures(done: Sweep) -> None:
    """Raise with the runs that failed, if any."""
    if not done.failures:
        return
    shown = [
        f"run {failure.run_id} of {failure.experiment} ({failure.protocol}, seed {failure.seed}): "
        f"{failure.error}; repeat it with '{failure.command}'"
        for failure in done.failures[:FAILURES_SHOWN]
    ]
    more = len(done.failures) - len(shown)
    rest = f" | and {more} more" if more else ""
    total = len({run.run_id for run in done.runs})
    raise RunsFailed(
        f"{len(done.failures)} of {total} runs failed, the others are kept: "
        f"{' | '.join(shown)}{rest}"
    )


def params_of(experiment: Experiment) -> dict[tuple[str, int], str]:
    """The differences between the runs of an experiment, besides protocol and seed, as text.

    Runs that differ in the seed alone share their text, and means are taken over them. Two runs
    that are equal are refused: one would count twice.
    """
    scenarios = experiment.scenarios
    others = ("protocol", "seed", "parameters", "faults")
    names = [item.name for item in fields(Scenario) if item.name not in others]
    varied = [name for name in names if len({getattr(one, name) for one in scenarios}) > 1]
    faulty = len({one.faults for one in scenarios}) > 1
    texts = {}
    seen: dict[tuple[str, str, int], int] = {}
    for number, one in enumerate(scenarios):
        words = [f"{name}={getattr(one, name)}" for name in varied]
        words += [f"faults={faults_word(one.faults)}"] if faulty else []
        words += [f"{name}={value}" for name, value in sorted(one.parameters.items())]
        texts[experiment.name, number] = text = " ".join(words)
        first = seen.setdefault((one.protocol, text, one.seed), number)
        if first != number:
            raise UserError(
                f"scenarios {first} and {number} of {experiment.name} are the same run "
                f"({one.protocol}, seed {one.seed}): leave one out"
            )
    return texts


def to_toml(scenario: Scenario) -> str:
    """A scenario as a file that ``from_toml`` reads."""
    values = scenario.echo()
    lines = [f"{name} = {_value(values[name])}" for name in TOP if values[name] is not None]
    sections = {"workload": WORKLOAD, "network": NETWORK}
    for section, names in sections.items():
        lines.append(f"\n[{section}]")
        for name in names:
            value = values["workload" if name == "kind" else name]
            if value is not None:
                lines.append(f"{name} = {_value(value)}")
    if scenario.parameters:
        lines.append("\n[parameters]")
        lines += [f"{_key(name)} = {_value(v)}" for name, v in scenario.parameters.items()]
    for fault in values["faults"]:
        lines.append("\n[[faults]]")
        lines += [f"{name} = {_value(value)}" for name, value in fault.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return (
        name
        if name.replace("_", "").replace("-", "").isalnum() and name.isascii()
        else (json.dumps(name))
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, except for the characters that JSON need not escape.
        return json.dumps(value).replace("\x7f", "\\u007f")
    return repr(value)
