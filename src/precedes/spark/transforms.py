"""The audit as lazy transforms of DataFrames: a row per run, and a row per witness.

A run is judged by one task, in memory, by the code that judges a run in one process: Spark shuffles
the rows by run and sorts each partition by run, and the task reads one run after another. Column
types are checked when the plan is defined, and rows when it runs.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from precedes.audit import Report, Witness, audit
from precedes.audit.report import UNKNOWN, WITNESSES
from precedes.errors import UserError
from precedes.pipeline.spark.jobs import Portable
from precedes.trace import Dialect, Notes
from precedes.trace.arrays import strings, to_numpy
from precedes.trace.dialect import ONE_RUN, RECEIVERS
from precedes.trace.opening import LARGE_ROWS
from precedes.trace.sort.merge import histories
from precedes.trace.sort.pack import READ, checked_columns, run_title

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COUNTS: Final = (
    "nodes", "messages", "deliveries", "violations", "violating_messages", "fifo_violations",
    "lost", "duplicates", "phantom", "cycles", "unjudged", "undelivered_at_end", "skipped",
)  # fmt: skip

STEP: Final = pa.struct(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
    ]
)
WITNESS: Final = pa.struct(
    [
        pa.field("number", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("message", pa.string()),
        pa.field("earlier", pa.string()),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("steps", pa.list_(STEP), nullable=False),
    ]
)
# ``run_id`` is null for rows without one, which are reported as an error.
RUNS: Final = pa.schema(
    [
        pa.field("run_id", pa.string()),
        pa.field("verdict", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
        pa.field("notes", pa.list_(pa.string()), nullable=False),
        pa.field("error", pa.string()),
        pa.field("witnesses", pa.list_(WITNESS), nullable=False),
    ]
)
# What events are taken for where Spark does not tell their columns; those that are not there are
# null.
USUAL: Final = pa.schema(
    [
        pa.field("run_id", pa.string()),
        pa.field("node", pa.string()),
        pa.field("local_seq", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("message", pa.string()),
    ]
)
TOGETHER_ROWS: Final = 50_000  # of small runs that are judged together

Row = dict[str, Any]
Transform = Callable[["DataFrame"], "DataFrame"]


def causal_audit(
    *,
    complete: bool = False,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    witnesses: int = WITNESSES,
    rows_max: int = LARGE_ROWS,
) -> Transform:
    """Return a transform of events into one row per run, for ``DataFrame.transform``.

    Events have ``node``, ``local_seq`` (a node's own order), ``kind``, ``message`` (or ``source``
    and ``seq``), and ``run_id`` if there are several runs, in any order. ``columns`` maps these
    names to those of the DataFrame, ``kinds`` its kinds to ``broadcast``, ``deliver``, ``crash``,
    ``join``, ``leave`` or ``ignore``. With ``complete`` the runs have ended by themselves, and what
    was not delivered is lost.

    The result has ``run_id``, ``verdict``, the counts of a report, ``notes``, ``error`` and
    ``witnesses``, at most ``witnesses`` of each kind. A run that cannot be judged is a row with the
    verdict ``unknown`` and the reason in ``error``, as is one of more than ``rows_max`` rows, which
    would not fit into the memory of a task.
    """
    dialect = Dialect(columns=columns or {}, kinds=kinds or {}, complete=complete)
    if witnesses < 0:
        raise UserError(f"witnesses are 0 or more, not {witnesses}")
    if rows_max < 1:
        raise UserError(f"rows_max is 1 or more, not {rows_max}")
    judge = Judge(dialect, witnesses, rows_max)

    def transform(events: DataFrame) -> DataFrame:
        known = schema_of(events)
        if known is None:
            return _audit_unknown(events, judge)
        if events.isStreaming:
            raise UserError("the events are a stream: use causal_audit_stream in place of this")
        chosen = checked_events(events, known, dialect)
        partitions = chosen.repartition("run_id").sortWithinPartitions("run_id")
        return partitions.mapInArrow(judge, from_arrow_schema(RUNS))

    return transform


def causal_violations() -> Transform:
    """Return a transform of the rows of ``causal_audit`` into one row per witness.

    It has ``run_id``, ``number``, ``kind``, ``node``, ``message``, ``earlier``, ``sentence`` and
    ``steps``, the path through the log that proves it.
    """
    return lambda runs: runs.select("run_id", F.inline("witnesses"))


def schema_of(events: DataFrame) -> StructType | None:
    """The columns of a DataFrame; None in a pipeline, whose definition may not ask for them."""
    try:
        return events.schema
    except PySparkException as error:
        if "PIPELINE" in (error.getCondition() or ""):
            return None
        raise


def usual(events: DataFrame, dialect: Dialect) -> DataFrame:
    """The columns of ``USUAL`` under these names, by name alone."""
    return _renamed(events, dialect).to(from_arrow_schema(USUAL))


def _audit_unknown(events: DataFrame, judge: Judge) -> DataFrame:
    """The audit of a view of a pipeline, as a table function: ``mapInArrow`` needs its columns."""
    from precedes.spark.table_function import function_of

    table = _renamed(events, judge.dialect).asTable().partitionBy("run_id")
    return function_of(judge)(table)


def _renamed(events: DataFrame, dialect: Dialect) -> DataFrame:
    return events.withColumnsRenamed({theirs: ours for ours, theirs in dialect.columns.items()})


def checked_events(events: DataFrame, known: StructType, dialect: Dialect) -> DataFrame:
    """The columns that an audit reads, under our names; a UserError if one is unusable."""
    title = "the DataFrame of events"
    is_exact = events.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    def is_same(name: str, other: str) -> bool:
        return name == other if is_exact else name.lower() == other.lower()

    fields: list[StructField] = []
    chosen: list[Column] = []
    for ours in (*READ, RECEIVERS):
        theirs = dialect.columns.get(ours, ours)
        matches = [field for field in known if is_same(field.name, theirs)]
        if ours in dialect.columns and not matches:
            raise UserError(f"{title} has no column {theirs!r}, which `columns` names for {ours}")
        # An instant needs a time zone in Arrow, which does not matter to the order of rows.
        fields += [
            StructField(ours, TimestampNTZType())
            if isinstance(field.dataType, TimestampType)
            else StructField(ours, field.dataType)
            for field in matches
        ]
        chosen += [F.col(_quoted(field.name)).alias(ours) for field in matches]
    try:
        schema = to_arrow_schema(StructType(fields))
    except PySparkException as error:
        raise UserError(f"the events hold what Arrow has no type for ({error})") from None
    names = checked_columns(schema, title=title)
    wanted = [column for column, name in zip(chosen, schema.names, strict=True) if name in names]
    if "run_id" not in names:
        wanted.append(F.lit(ONE_RUN).alias("run_id"))
    return events.select(*wanted)


def _quoted(name: str) -> str:
    """A column's name as an expression, whatever characters it has."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


@dataclass(frozen=True)
class Judge(Portable):
    """Process the rows of a partition, which arrive run by run."""

    dialect: Dialect
    witnesses: int
    rows_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        small: dict[str, list[pa.RecordBatch]] = {}
        rows = 0
        for run_id, parts in itertools.groupby(pieces(batches), key=lambda part: part[0]):
            remaining = (batch for _, batch in parts)
            read: list[pa.RecordBatch] = []
            count = 0
            while count <= TOGETHER_ROWS and (batch := next(remaining, None)) is not None:
                read.append(batch)
                count += batch.num_rows
            if run_id is None or count > min(TOGETHER_ROWS, self.rows_max):
                yield _table(self.rows_of(run_id, itertools.chain(read, remaining)))
                continue
            small[run_id] = read
            rows += count
            if rows > TOGETHER_ROWS:
                yield _table(self._rows_together(small))
                small, rows = {}, 0
        yield _table(self._rows_together(small))

    def _rows_together(self, runs: Mapping[str, list[pa.RecordBatch]]) -> list[Row]:
        """The result for small runs, which are sorted together: most of the cost is per sort."""
        batches = (with_kinds(batch, self.dialect) for run in runs.values() for batch in run)
        with contextlib.suppress(UserError):  # of one of them
            together = histories(batches, Notes(), title="", complete=self.dialect.complete)
            if {str(run.run_id) for run in together} == runs.keys():
                return [
                    row_of(audit(run, witnesses=self.witnesses)) for run in together if run.nodes
                ]
        return [row for run_id, run in runs.items() for row in self.rows_of(run_id, run)]

    def rows_of(self, run_id: str | None, batches: Iterable[pa.RecordBatch]) -> list[Row]:
        """The result for one run; none if it has no rows that an audit judges."""
        try:
            if run_id is None:
                raise UserError("the column run_id has empty cells")
            runs = histories(
                (with_kinds(batch, self.dialect) for batch in self._bounded(run_id, batches)),
                Notes(),
                title=run_title(run_id),
                complete=self.dialect.complete,
            )
            return [row_of(audit(run, witnesses=self.witnesses)) for run in runs if run.nodes]
        except UserError as error:
            return [_unjudged(run_id, str(error))]

    def _bounded(self, run_id: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if rows > self.rows_max:
                raise UserError(
                    f"{run_title(run_id)} has more than {self.rows_max:,} rows, too many for one "
                    "task: audit it with precedes.spark.audit_giant, or raise rows_max"
                )
            yield batch


IGNORED: Final = "receive"  # a kind whose rows mean nothing to an audit


def with_kinds(batch: pa.RecordBatch, dialect: Dialect) -> pa.RecordBatch:
    """The same rows with our names of kinds; an unknown one stays, for the error to name it."""
    if not dialect.kinds:
        return batch

    def ours(text: str) -> str:
        try:
            return dialect.kind_of(text) or IGNORED
        except ValueError:
            return text

    at = batch.schema.get_field_index("kind")
    coded = batch.column(at).dictionary_encode()
    named = strings([ours(text) for text in coded.dictionary.to_pylist()])
    return batch.set_column(at, "kind", named.take(coded.indices))


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Batches in pieces of one run each."""
    for batch in batches:
        coded = batch.column("run_id").dictionary_encode()
        codes = to_numpy(coded.indices.fill_null(-1))
        names = [*map(str, coded.dictionary.to_pylist()), None]
        starts = np.flatnonzero(np.diff(codes, prepend=-2)).tolist()
        for start, stop in itertools.pairwise([*starts, batch.num_rows]):
            yield names[codes[start]], batch.slice(start, stop - start)


def _table(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, RUNS)


def row_of(report: Report) -> Row:
    """A report as a row of ``RUNS``."""
    return {
        "run_id": str(report.run_id),
        "verdict": report.verdict,
        **{name: getattr(report, name) for name in COUNTS},
        "notes": list(report.notes),
        "error": None,
        "witnesses": [_witness(*pair) for pair in enumerate(report.witnesses)],
    }


def _unjudged(run_id: str | None, error: str) -> Row:
    counts = dict.fromkeys(COUNTS, 0)
    lists: dict[str, Any] = {"notes": [], "witnesses": []}
    return {"run_id": run_id, "verdict": UNKNOWN, **counts, **lists, "error": error}


def _witness(number: int, witness: Witness) -> Row:
    return {
        "number": number,
        "kind": witness.kind,
        "node": witness.node_name,
        "message": witness.message_name,
        "earlier": witness.earlier_name,
        "sentence": witness.sentence,
        "steps": [
            {
                "node": step.node_name,
                "kind": step.kind,
                "message": step.message_name,
                "position": step.position,
            }
            for step in witness.steps
        ],
    }
