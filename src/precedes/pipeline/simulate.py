"""Runs as Spark tasks: a task writes its runs' files itself and returns a row for each run.

Events never pass through Spark: a row of the manifest says that a run is finished, or why not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from precedes.model import UserError
from precedes.pipeline import execute, jobs, records
from precedes.pipeline.execute import Outcome
from precedes.pipeline.plan import PlannedRun, pack
from precedes.sim.run import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def simulate_runs(
    spark: SparkSession,
    runs: Sequence[PlannedRun],
    *,
    directory: Path,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Carry out runs, each once, and return how each of them ended.

    ``progress`` is called with the share of the expected work that is done.
    """
    from precedes.pipeline.tables import MANIFEST_ROW

    once = list({run.run_id: run for run in runs}.values())
    if not once:
        return []
    orders = [json.dumps(run.order()) for run in once]
    # Engines that are not compiled yet take far longer than small runs: have them side by side.
    engines = len({run.scenario.protocol for run in once})
    shares = pack([run.cost_s for run in once], at_least=min(engines, jobs.parallelism(spark)))
    tasks = [[orders[i] for i in task] for task in shares]
    work = _Work(directory.absolute(), Path.cwd())
    watch = _Watch(directory, once, progress)

    def job() -> list[Outcome]:
        found = jobs.packed(spark, tasks).mapInArrow(work, MANIFEST_ROW).toArrow()
        return [Outcome(**row) for row in found.to_pylist()]

    try:
        return jobs.wait_for(spark, job, title="simulate", watch=watch)
    except jobs.SparkError as error:
        raise UserError(
            f"{error}; finished runs are kept in {directory}, and the same command goes on"
        ) from None


class _Work:
    """What a task does with its partition."""

    def __init__(self, directory: Path, here: Path) -> None:
        self._directory = directory
        self._here = here

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            orders = batch.column("order").to_pylist()
            done = list(execute.run_orders(orders, directory=self._directory, here=self._here))
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([outcome.run_id for outcome in done], pa.int32()),
                    pa.array([outcome.status for outcome in done], pa.string()),
                    pa.array([outcome.error for outcome in done], pa.string()),
                ],
                names=list(Outcome._fields),
            )


class _Watch:
    """Tells how far the work is, from the records that have appeared."""

    def __init__(
        self, directory: Path, runs: Sequence[PlannedRun], progress: Progress | None
    ) -> None:
        self._directory = directory
        self._costs_s = {run.name: run.cost_s for run in runs}
        self._total_s = sum(self._costs_s.values())
        self._progress = progress

    def __call__(self) -> None:
        if self._progress is None:
            return
        names = records.finished_names(self._directory)
        done_s = sum(cost for name, cost in self._costs_s.items() if name in names)
        self._progress(done_s / self._total_s)
