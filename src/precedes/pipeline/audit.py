"""The exact audit as Spark tasks.

``audit_files`` is the usual way: a task reads whole files and runs the kernel over each run in
them, so that no event passes through Spark. ``audit_events`` is for tables of events that are
not one file a run: Spark brings the rows of a run together first, which costs a shuffle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from precedes.audit import Report, Step, Witness, audit
from precedes.model import UserError
from precedes.pipeline import jobs
from precedes.pipeline.events import COLUMNS, history_of
from precedes.pipeline.layout import audit_cost_s
from precedes.pipeline.plan import pack
from precedes.sim.run import Progress
from precedes.trace import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def audit_files(
    spark: SparkSession,
    paths: Sequence[Path],
    *,
    format: str = "auto",
    progress: Progress | None = None,
) -> list[Report]:
    """A report for every run in the files, in their order; the first unreadable file is raised."""
    orders = [
        json.dumps({"number": number, "path": str(path.absolute()), "shown": str(path)})
        for number, path in enumerate(paths)
    ]
    tasks = [[orders[i] for i in task] for task in pack([audit_cost_s(path) for path in paths])]
    work = _Work(format)

    def job() -> list[dict[str, Any]]:
        found = jobs.packed(spark, tasks).mapInArrow(work, "number int, report string")
        return found.toArrow().to_pylist()

    watch = None if progress is None else jobs.TaskProgress(spark, len(tasks), progress)
    rows = jobs.wait_for(spark, job, title="audit files", watch=watch)
    return _reports(row["report"] for row in sorted(rows, key=lambda row: row["number"]))


class _Work:
    """What a task does with its files: a row of reports for each."""

    def __init__(self, format: str) -> None:
        self._format = format

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            orders = [json.loads(text) for text in batch.column("order").to_pylist()]
            done = [(order["number"], self._audit(order)) for order in orders]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([number for number, _ in done], pa.int32()),
                    pa.array([text for _, text in done], pa.string()),
                ],
                names=["number", "report"],
            )

    def _audit(self, order: dict[str, Any]) -> str:
        try:
            histories = load(order["path"], format=self._format)
            reports = [asdict(audit(history)) for history in histories]
            return json.dumps([{**report, "origin": order["shown"]} for report in reports])
        except UserError as error:
            return json.dumps({"error": str(error).replace(order["path"], order["shown"])})


def audit_events(spark: SparkSession, events: DataFrame) -> list[Report]:
    """A report for every run in a table of events, in the order of their ids.

    The columns are those of a trace; ``node`` may hold names, and instead of ``source`` and
    ``seq`` there may be ``message``, a name. Whether the log goes on is not known, so nothing
    counts as lost. The events of a run must fit into the memory of one process.
    """
    from pyspark.sql import functions as F

    missing = [name for name in ("node", "local_seq", "kind") if name not in events.columns]
    named = "message" in events.columns
    missing += [] if named else [n for n in ("source", "seq") if n not in events.columns]
    if missing:
        raise UserError(
            f"the table of events lacks {', '.join(missing)}: it needs {', '.join(COLUMNS)}"
        )
    run = F.col("run_id") if "run_id" in events.columns else F.lit(0)
    message = F.col("message") if named else F.concat_ws(":", "source", "seq")
    rows = events.where(F.col("kind").isin("broadcast", "deliver", "crash")).select(
        run.cast("long").alias("run_id"),
        F.col("node").cast("string").alias("node"),
        F.col("local_seq").cast("long").alias("local_seq"),
        "kind",
        message.cast("string").alias("message"),
    )
    grouped = rows.groupBy("run_id").applyInArrow(_audit_group, "run_id long, report string")
    found = jobs.wait_for(spark, lambda: grouped.toArrow().to_pylist(), title="audit events")
    return _reports(row["report"] for row in sorted(found, key=lambda row: row["run_id"]))


def _audit_group(table: pa.Table) -> pa.Table:
    run_id = table.column("run_id")[0].as_py()
    try:
        report = json.dumps([asdict(audit(history_of(table, run_id=run_id)))])
    except UserError as error:
        report = json.dumps({"error": str(error)})
    return pa.table(
        {"run_id": pa.array([run_id], pa.int64()), "report": pa.array([report], pa.string())}
    )


def _reports(texts: Iterator[str]) -> list[Report]:
    """Reports from JSON; an error is raised as what it was."""
    reports = []
    for text in texts:
        found = json.loads(text)
        if isinstance(found, dict):
            raise UserError(found["error"])
        reports += [Report(**{**row, "witnesses": _witnesses(row["witnesses"])}) for row in found]
    return reports


def _witnesses(rows: list[dict[str, Any]]) -> tuple[Witness, ...]:
    return tuple(
        Witness(**{**row, "steps": tuple(Step(**step) for step in row["steps"])}) for row in rows
    )
