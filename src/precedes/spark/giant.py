"""The audit of runs that are too large for one task: an explicit call, which runs jobs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from precedes.audit import Reports
from precedes.audit.report import WITNESSES
from precedes.pipeline import unordered
from precedes.pipeline.audit import open_workspace
from precedes.pipeline.ranges import audit_runs
from precedes.pipeline.runner import SparkRunner
from precedes.spark.transforms import checked_events, with_kinds
from precedes.stores import Place
from precedes.trace import Dialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def audit_giant(
    events: DataFrame,
    *,
    work: Place | None = None,
    complete: bool = False,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    witnesses: int = WITNESSES,
) -> Reports:
    """Audit runs of any size: one report for each, in the order of their ids.

    Options are those of ``causal_audit``. Tasks write the rows to files, sort them there, and judge
    each large run by ranges of its nodes. ``work`` is the directory for that, which on a cluster
    must be named, and seen by all machines; nothing in it is used again, since a DataFrame has no
    version.
    """
    dialect = Dialect(columns=columns or {}, kinds=kinds or {}, complete=complete)
    chosen = checked_events(events, events.schema, dialect)
    spark = events.sparkSession
    runner = SparkRunner(spark)
    with open_workspace(runner, work, options={"format": "frame"}, fresh=work is not None) as space:
        directory = space.directory("sorted")
        prepare = functools.partial(with_kinds, dialect=dialect)
        packed = unordered.pack_frame(spark, chosen, directory, prepare=prepare)
        unordered.sort_blocks(runner, packed, directory)
        runs = unordered.runs_in(directory, complete=complete)
        names = [f"run-{number}-sorted" for number in range(len(runs))]
        return Reports(audit_runs(runner, runs, space.run, names=names, witnesses=witnesses))
