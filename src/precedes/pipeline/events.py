"""Events as frames: read from any format, and audited."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from precedes.audit.report import WITNESSES
from precedes.errors import UserError
from precedes.pipeline import reading, unordered
from precedes.pipeline.plan import pack
from precedes.pipeline.ranges import audit_runs
from precedes.pipeline.reports import AuditFrames, frames_of
from precedes.pipeline.spark import jobs
from precedes.pipeline.workspace import open_workspace
from precedes.stores import Address, Place, handed
from precedes.trace import Dialect
from precedes.trace.dialect import refuse_receivers, refuse_twins
from precedes.trace.formats.tables import shown_files
from precedes.trace.members import holds_member_logs
from precedes.trace.sort.pack import READ, checked_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from precedes.audit import Report

SCHEMA: Final = (
    "run_id string not null, node string not null, local_seq bigint not null, time_us bigint, "
    "kind string not null, message string"
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
    logs = [log for place in places for log in logs_at(Address.of(place))]
    dialect = dialect or Dialect()
    tasks = tasks_of(logs, format, dialect, at_least=2 * jobs.parallelism(spark))
    work = handed(_Read(format, dialect), *logs)
    return jobs.packed(spark, tasks).mapInArrow(work, SCHEMA)


def tasks_of(
    logs: Sequence[Address], format: str, dialect: Dialect, *, at_least: int
) -> list[list[str]]:
    """Orders for ``read_texts``, by task."""
    reading.check_format(format)
    priced = [one for log in logs for one in reading.orders_of(log, format, among=dialect)]
    texts = [json.dumps(order) for order, _ in priced]
    packed = pack([cost_s for _, cost_s in priced], at_least=at_least)
    return [[texts[i] for i in task] for task in packed]


def logs_at(place: Address) -> list[Address]:
    """The logs that an address means; the logs of a live group's members are one."""
    if place.kind() is None:
        raise UserError(f"there is no log {place}: check the path")
    if not place.is_folder() or holds_member_logs(place):
        return [place]
    found = shown_files(place)
    if not found:
        raise UserError(f"{place} holds no logs")
    return found


def read_texts(texts: Sequence[str], format: str, dialect: Dialect) -> Iterator[pa.RecordBatch]:
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
            yield from read_texts(texts, self._format, self._dialect)


def audit_events(
    events: DataFrame, *, witnesses: int = WITNESSES, work: Place | None = None
) -> AuditFrames:
    """The exact audit of the runs in a frame, whose rows may be in any order.

    The columns are those of ``read_events``, or those of a trace: ``node`` and ``run_id`` may hold
    names, and instead of ``source`` and ``seq`` there may be ``message``, a name. Whether the log
    goes on is not known, so nothing counts as lost. On a cluster ``work`` is a directory that all
    machines see; a frame has no version, so nothing of it is kept.
    """
    return frames_of(events.sparkSession, reports_on(events, witnesses=witnesses, work=work))


def reports_on(
    events: DataFrame, *, witnesses: int = WITNESSES, work: Place | None = None
) -> list[Report]:
    """``audit_events`` as reports, one for each run, in the order of their ids."""
    spark = events.sparkSession
    refuse_receivers(events.columns, title="the DataFrame of events")
    refuse_twins(events.columns, READ, title="the DataFrame of events")
    chosen = events.select(*checked_columns(_arrow_schema(events)))
    with open_workspace(spark, work, options={"format": "frame"}, fresh=work is not None) as space:
        directory = space.directory("sorted")
        packed = unordered.pack_frame(spark, chosen, directory)
        unordered.sort_blocks(spark, packed, directory)
        runs = unordered.runs_in(directory)
        names = [f"run-{number}-sorted" for number in range(len(runs))]
        return audit_runs(spark, runs, space, names=names, witnesses=witnesses)


def _arrow_schema(events: DataFrame) -> pa.Schema:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

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
