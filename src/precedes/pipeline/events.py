"""Events as DataFrames: read from any format, as a data source too, and audited."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from precedes.audit import Report, Witness
from precedes.audit.report import WITNESSES
from precedes.errors import UserError
from precedes.pipeline import reading, unordered
from precedes.pipeline.audit import open_workspace
from precedes.pipeline.plan import pack
from precedes.pipeline.ranges import audit_runs
from precedes.pipeline.runner import SparkRunner
from precedes.pipeline.spark import jobs
from precedes.stores import Address, Place, handed
from precedes.trace import Dialect
from precedes.trace.dialect import refuse_receivers, refuse_twins
from precedes.trace.formats.tables import shown_files
from precedes.trace.members import holds_member_logs
from precedes.trace.sort.pack import READ, checked_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "run_id string not null, node string not null, local_seq bigint not null, time_us bigint, "
    "kind string not null, message string"
)

COUNTS: Final = (
    "nodes", "messages", "deliveries", "violations", "violating_messages", "lost", "duplicates",
    "phantom", "cycles", "unjudged", "undelivered_at_end", "skipped",
)  # fmt: skip

RUNS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
        pa.field("notes", pa.list_(pa.string()), nullable=False),
    ]
)
STEP: Final = pa.struct(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
    ]
)
VIOLATIONS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("message", pa.string()),
        pa.field("earlier", pa.string()),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("steps", pa.list_(STEP), nullable=False),
    ]
)


def read_events(
    spark: SparkSession,
    address: Place | Sequence[Place],
    format: str = "auto",
    *,
    dialect: Dialect | None = None,
) -> DataFrame:
    """The events in logs of any format: run_id, node, local_seq, time_us, kind, message.

    ``local_seq`` is the node's own order; ``time_us`` and ``message`` may be null. Only events that
    an audit judges come. A directory is read with all the logs in it, and folders ``name=value`` in
    their paths are columns. Tasks read the files themselves, Parquet by row groups, other formats a
    file a task; a file that is damaged ends the query that meets it. Without ``local_seq`` the
    events of a node must be in one file: an audit refuses those of two.
    """
    places = [address] if isinstance(address, str | os.PathLike) else list(address)
    logs = [log for place in places for log in _logs_at(Address.of(place))]
    dialect = dialect or Dialect()
    tasks = _tasks_of(logs, format, dialect, at_least=2 * jobs.parallelism(spark))
    work = handed(_Read(format, dialect), *logs)
    return jobs.packed(spark, tasks).mapInArrow(work, SCHEMA)


def _tasks_of(
    logs: Sequence[Address], format: str, dialect: Dialect, *, at_least: int
) -> list[list[str]]:
    """Orders for ``read_texts``, by task."""
    reading.check_format(format)
    priced = [one for log in logs for one in reading.orders_of(log, format, among=dialect)]
    texts = [json.dumps(order) for order, _ in priced]
    packed = pack([cost_s for _, cost_s in priced], at_least=at_least)
    return [[texts[i] for i in task] for task in packed]


def _logs_at(place: Address) -> list[Address]:
    """The logs that an address means; the logs of a live group's members are one."""
    if place.kind() is None:
        raise UserError(f"there is no log {place}: check the path")
    if not place.is_folder() or holds_member_logs(place):
        return [place]
    found = shown_files(place)
    if not found:
        raise UserError(f"{place} holds no logs")
    return found


def _read_texts(texts: Sequence[str], format: str, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    """The events that orders name."""
    for text in texts:
        yield from reading.read_order(json.loads(text), format, dialect)


class _Read:
    """What a task does with its orders: batches of events."""

    def __init__(self, format: str, dialect: Dialect) -> None:
        self._format = format
        self._dialect = dialect

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = batch.column("order").to_pylist()
            yield from _read_texts(texts, self._format, self._dialect)


class EventsSource(DataSource):  # type: ignore[misc]
    """Logs of any format; ``load`` takes a path, and ``logFormat`` says what they are."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``spark.read.format``."""
        return "precedes"

    def schema(self) -> str:
        """That of ``read_events``."""
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Reads what the options name."""
        path = self.options.get("path")
        if path is None:
            raise UserError("name the logs: spark.read.format('precedes').load(PATH)")
        return _EventsReader(path, self.options.get("logFormat", "auto"))


class _EventsReader(DataSourceReader):  # type: ignore[misc]
    """Reads logs, a partition a task."""

    def __init__(self, path: str, format: str) -> None:
        self._path = path
        self._format = format

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, each with its orders."""
        tasks = _tasks_of(_logs_at(Address.of(self._path)), self._format, Dialect(), at_least=1)
        return [InputPartition(json.dumps(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a task."""
        return _read_texts(json.loads(partition.value), self._format, Dialect())


def register_source(spark: SparkSession) -> None:
    """Make ``spark.read.format("precedes")`` work in a session."""
    if int((bound := spark.conf.get(jobs.RECORDS)) or 0) <= 0:
        raise UserError(
            f"{jobs.RECORDS} is {bound}, with which sources in Python fail: set it to 10000"
        )
    spark.dataSource.register(EventsSource)


class _AuditFrames(NamedTuple):
    """What an audit found: a row a run, and a row a witness, with its path through the log."""

    runs: DataFrame
    violations: DataFrame


def audit_events(
    events: DataFrame, *, witnesses: int = WITNESSES, work: Place | None = None
) -> _AuditFrames:
    """The exact audit of the runs in a frame, whose rows may be in any order.

    The columns are those of ``read_events``, or those of a trace: ``node`` and ``run_id`` may hold
    names, and instead of ``source`` and ``seq`` there may be ``message``, a name. Whether the log
    goes on is not known, so nothing counts as lost. On a cluster ``work`` is a directory that all
    machines see; a frame has no version, so nothing of it is kept.
    """
    spark = events.sparkSession
    reports = reports_on(events, witnesses=witnesses, work=work)
    runs = [
        {
            "run_id": str(report.run_id),
            "verdict": report.verdict,
            "notes": list(report.notes),
            **{name: getattr(report, name) for name in COUNTS},
        }
        for report in reports
    ]
    violations = [
        _violation(report, number, witness)
        for report in reports
        for number, witness in enumerate(report.witnesses)
    ]
    return _AuditFrames(
        jobs.frame_of(spark, pa.Table.from_pylist(runs, RUNS)),
        jobs.frame_of(spark, pa.Table.from_pylist(violations, VIOLATIONS)),
    )


def _violation(report: Report, number: int, witness: Witness) -> dict[str, Any]:
    return {
        "run_id": str(report.run_id),
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


def reports_on(
    events: DataFrame, *, witnesses: int = WITNESSES, work: Place | None = None
) -> list[Report]:
    """``audit_events`` as reports, one for each run, in the order of their ids."""
    spark = events.sparkSession
    runner = SparkRunner(spark)
    refuse_receivers(events.columns, title="the DataFrame of events")
    refuse_twins(events.columns, READ, title="the DataFrame of events")
    chosen = events.select(*checked_columns(_arrow_schema(events)))
    with open_workspace(runner, work, options={"format": "frame"}, fresh=work is not None) as space:
        directory = space.directory("sorted")
        packed = unordered.pack_frame(spark, chosen, directory)
        unordered.sort_blocks(runner, packed, directory)
        runs = unordered.runs_in(directory)
        names = [f"run-{number}-sorted" for number in range(len(runs))]
        return audit_runs(runner, runs, space.run, names=names, witnesses=witnesses)


def _arrow_schema(events: DataFrame) -> pa.Schema:
    known = [name for name in READ if name in events.columns]
    # An instant needs a time zone in Arrow, which does not matter to the order of rows.
    fields = [
        StructField(field.name, TimestampNTZType())
        if isinstance(field.dataType, TimestampType)
        else field
        for field in events.select(*known).schema.fields
    ]
    try:
        return to_arrow_schema(StructType(fields))
    except PySparkException as error:
        raise UserError(f"the events hold what Arrow has no type for ({error})") from None
