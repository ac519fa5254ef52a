"""``causal_audit`` as a table function of SQL, and what registers it and the data source."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.pandas.types import from_arrow_schema

from precedes.audit.report import WITNESSES
from precedes.errors import UserError
from precedes.pipeline.spark.jobs import RECORDS, Portable, opener
from precedes.spark.data_source import EventsSource
from precedes.spark.transforms import RUNS, Judge, pieces
from precedes.trace import Dialect
from precedes.trace.arrays import repeated
from precedes.trace.dialect import ONE_RUN, RECEIVERS
from precedes.trace.opening import LARGE_ROWS
from precedes.trace.sort.pack import READ, checked_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "causal_audit"
CLAUSE: Final = f"write {NAME}(TABLE(...) PARTITION BY run_id)"
# Without it, Spark refuses to read from a source that could take over filters.
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Define the table function ``causal_audit`` and the data source ``precedes`` in a session.

    ``SELECT * FROM causal_audit(TABLE(events) PARTITION BY run_id)`` returns what the transform
    ``causal_audit`` does; ``complete => true`` is its option. A table without ``run_id`` is one
    run, ``causal_audit(TABLE(events) WITH SINGLE PARTITION)``. Without the clause, and with other
    columns in it, Spark may give the rows of a run to several calls: the query ends with an error
    that names the clause.

    ``spark.read.format("precedes")`` reads logs of every format. That it may take over filters is a
    setting of the session, which is changed here.
    """
    if int((bound := spark.conf.get(RECORDS)) or 0) <= 0:
        raise UserError(f"{RECORDS} is {bound}, with which sources in Python fail: set it to 10000")
    if spark.conf.get(PUSHDOWN) != "true":  # a pipeline refuses any change
        spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(_source())
    spark.udtf.register(NAME, function_of(Judge(Dialect(), WITNESSES, LARGE_ROWS)))


def _source() -> type[DataSource]:
    """The data source as a local class, which Spark copies: ``Portable``."""
    opened, content = opener(), pickle.dumps((EventsSource, {}))

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "precedes"

        def __new__(cls, options: dict[str, str]) -> Any:
            return type(opened(content))(options)

    return Source


def function_of(judge: Judge) -> Any:
    """A table function that hands its rows to ``judge``; a local class, as above."""
    partition = _Partition(judge)

    class CausalAudit:
        def __init__(self) -> None:
            self._partition = partition.empty()

        def eval(self, events: pa.RecordBatch, complete: pa.Array | None = None) -> Any:
            return self._partition.hold(events, complete)

        def terminate(self) -> Any:
            return self._partition.judged()

    return arrow_udtf(CausalAudit, returnType=from_arrow_schema(RUNS))


class _Partition(Portable):
    """The run of one partition, judged when all its rows have arrived."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._run: str | None = None
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def empty(self) -> _Partition:
        """Another partition with the same judge."""
        return _Partition(self._judge)

    def hold(self, events: pa.RecordBatch, complete: pa.Array | None) -> Iterator[pa.Table]:
        """Hold some rows: of a run that is too large one row more than it may have."""
        if complete is not None:
            if not pa.types.is_boolean(complete.type) or complete[0].as_py() is None:
                raise UserError(f"complete is true or false, not {complete[0].as_py()!r}")
            dialect = replace(self._judge.dialect, complete=complete[0].as_py())
            self._judge = replace(self._judge, dialect=dialect)
        for run_id, piece in pieces([_chosen(events)]):
            if self._batches and run_id != self._run:
                raise UserError(f"rows of two runs in one partition: {CLAUSE}")
            self._run = run_id
            if self._rows <= self._judge.rows_max:
                self._batches.append(piece)
            self._rows += piece.num_rows
        return iter(())

    def judged(self) -> Iterator[pa.Table]:
        """Judge the run."""
        if self._batches:
            yield pa.Table.from_pylist(self._judge.rows_of(self._run, self._batches), RUNS)


def _chosen(events: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that an audit reads; names are those of Spark, which ignores their case."""
    ours = {name.lower(): name for name in (*READ, RECEIVERS)}
    events = events.rename_columns([ours.get(name.lower(), name) for name in events.schema.names])
    chosen = events.select(checked_columns(events.schema, title="the table of events"))
    key, context = _partition_key(), cast("Any", TaskContext.get())
    is_whole = key is None and context.partitionId() == 0
    if "run_id" in chosen.schema.names:
        runs = chosen.column("run_id").unique().to_pylist()
        if not is_whole and [*map(str, runs)] != key:
            raise UserError(f"rows of a run may be in several partitions: {CLAUSE}")
        return chosen
    if not is_whole:
        raise UserError(
            "rows of a table without run_id in several partitions: write "
            f"{NAME}(TABLE(...) WITH SINGLE PARTITION)"
        )
    return chosen.append_column("run_id", repeated(ONE_RUN, chosen.num_rows))


def _partition_key() -> list[str] | None:
    """The values of the columns in PARTITION BY, as text; None without that clause.

    Spark does not pass them: they are in the object of its worker that calls ``eval``.
    """
    frame = sys._getframe()
    while frame := cast("Any", frame.f_back):
        key = getattr(frame.f_locals.get("self"), "_last_partition_key", None)
        if key is not None:
            return [*map(str, key)]
    return None
