"""Runs as Spark tasks: a task writes its runs' files itself and returns a row for each run.

Events never pass through Spark: a row of the manifest says that a run is finished, or why not.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline import execute
from precedes.pipeline.directory import ATTEMPTS_MAX, begun_names, finished_names, forget_starts
from precedes.pipeline.execute import Outcome
from precedes.pipeline.plan import PlannedRun, ahead_s, pack
from precedes.pipeline.progress import RunProgress
from precedes.pipeline.spark import jobs
from precedes.sim.switch import wait_for_code
from precedes.stores import Address, Lease, Work, handed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tasks for each that Spark runs at once, if there are enough runs.
TASKS_EACH: Final = 2


def simulate_runs(
    spark: SparkSession,
    runs: Sequence[PlannedRun],
    *,
    directory: Address,
    held: Lease | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Carry out runs, each once, and return how each of them ended.

    ``held`` is the caller's lease on the directory: once it is lost, nothing more is done.
    ``progress`` is called with the share of the expected work that is done. A task that fails as
    often as the session allows, which may be once, does not end it all: see ``_apart``.
    """
    once = {run.run_id: run for run in runs}
    if spark.conf.get("spark.master", "").startswith("local"):  # tasks have this machine's cache
        wait_for_code(ahead_s(once.values()))
    work = handed(_Work(directory.absolute(), Path.cwd(), jobs.sharers(spark)), directory)
    watch = RunProgress(directory, list(once.values()), progress, held)
    done: dict[int, Outcome] = {}
    left = list(once.values())
    in_vain = 0
    try:
        while left:
            try:
                found = _carry_out(spark, left, work, watch)
            except jobs.TaskError:
                found = _apart(spark, left, work, watch, directory=directory)
                in_vain = 0 if found else in_vain + 1  # no run had begun
                if in_vain == ATTEMPTS_MAX:
                    raise
            done |= {outcome.run_id: outcome for outcome in found}
            names = finished_names(directory)
            left = [run for run in left if run.run_id not in done and run.name not in names]
    except jobs.SparkError as error:
        raise UserError(
            f"{error}; finished runs are kept in {directory}, and the same command goes on"
        ) from None
    finally:
        watch.close()
    watch.end()
    return [done.get(run_id, Outcome(run_id, execute.FINISHED, None)) for run_id in once]


def _carry_out(
    spark: SparkSession, runs: Sequence[PlannedRun], work: Work, watch: RunProgress
) -> list[Outcome]:
    """The runs as one job."""
    from precedes.pipeline.tables import MANIFEST_ROW

    ahead = ahead_s(runs)
    orders = [json.dumps(run.order(ahead_s=ahead[run.scenario.protocol])) for run in runs]
    # Estimates may be wrong, and what is not compiled yet takes long: there is something to do
    # for everybody, and something to do next.
    least = TASKS_EACH * jobs.parallelism(spark)
    shares = pack([run.cost_s for run in runs], at_least=least)
    tasks = [[orders[i] for i in task] for task in shares]

    def job() -> list[Outcome]:
        found = jobs.packed(spark, tasks).mapInArrow(work, MANIFEST_ROW).toArrow()
        return [Outcome(**row) for row in found.to_pylist()]

    return jobs.wait_for(spark, job, title="simulate", watch=watch)


def _apart(
    spark: SparkSession,
    runs: Sequence[PlannedRun],
    work: Work,
    watch: RunProgress,
    *,
    directory: Address,
) -> list[Outcome]:
    """How the runs end that were at work when Spark gave up a job: one after the other.

    A process died of one of them, and Spark has ended the others; each gets a job of its own,
    which nothing else can end, and as many attempts as a run has. They are at most as many as
    tasks run at once.
    """
    begun = begun_names(directory)
    found = []
    for run in runs:
        if run.name not in begun:
            continue
        forget_starts(directory, run.name)
        for attempt in range(ATTEMPTS_MAX + 1):
            try:
                found += _carry_out(spark, [run], work, watch)
                break
            except jobs.TaskError:
                if attempt == ATTEMPTS_MAX:
                    raise
    return found


class _Work:
    """What a task does with its partition."""

    def __init__(self, directory: Address, here: Path, sharers: int) -> None:
        self._directory = directory
        self._here = here
        self._sharers = sharers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Ctrl-C is for the driver: an interrupt in a task comes from the run itself.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for batch in batches:
                yield self._rows(batch.column("order").to_pylist())
        finally:
            signal.signal(signal.SIGINT, before)

    def _rows(self, orders: list[str]) -> pa.RecordBatch:
        sharers = self._sharers or os.cpu_count() or 1
        done = list(
            execute.run_orders(orders, directory=self._directory, here=self._here, sharers=sharers)
        )
        return pa.RecordBatch.from_arrays(
            [
                pa.array([outcome.run_id for outcome in done], pa.int32()),
                pa.array([outcome.status for outcome in done], pa.string()),
                pa.array([outcome.error for outcome in done], pa.string()),
            ],
            names=list(Outcome._fields),
        )
