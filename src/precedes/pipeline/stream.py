"""Audits events while they arrive, on Structured Streaming: docs/follow.md.

Spark finds the files that are added to a directory and hands their rows over in batches; the audit
itself needs every row in one place, so it runs in the driver (``audit.growing.batches``). Of CSV,
Spark hands over the bytes, and our importer reads them: with a schema, which a stream must have,
Spark takes columns by their place, whatever the header says.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from precedes.audit.growing.auditor import Standing
from precedes.audit.growing.batches import BatchAuditor
from precedes.audit.report import WITNESSES
from precedes.errors import UserError
from precedes.model import printable
from precedes.pipeline.spark.session import context_of
from precedes.stores import Address, Place
from precedes.trace.dialect import RECEIVERS, Dialect
from precedes.trace.opening import event_batches
from precedes.trace.rows import KINDS
from precedes.trace.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CORRUPT: Final = "_corrupt_record"  # Spark's name for a line that it cannot read
TABLE: Final = (
    f"run_id string, node string, local_seq long, kind string, message string, `{RECEIVERS}` string"
)
SCHEMAS: Final = {
    "json": f"{TABLE}, {CORRUPT} string",
    "csv": "path string, modificationTime timestamp, length long, content binary",
    "parquet": TABLE,
    "orc": TABLE,
}
STATE: Final = "stream.state"
CHECKPOINT: Final = "checkpoint"
FILES: Final = 64  # of a batch: what the driver holds at a time


def follow_stream(
    spark: SparkSession,
    address: Place,
    work: Place,
    *,
    format: str = "json",
    on_standing: Callable[[Standing], None] | None = None,
    first: int = 0,
    gaps: bool = False,
    every_s: float = 1.0,
    once: bool = False,
    files: int = FILES,
    witnesses: int = WITNESSES,
) -> StreamingQuery:
    """Start a query that audits events in files that are added to a directory.

    Rows have ``node``, ``local_seq``, ``kind`` and ``message``, in any order; ``local_seq`` counts
    a node's rows from ``first`` on, unless there may be ``gaps``. All have the same ``run_id``, or
    none. ``on_standing`` is called after each batch, in the driver, before the state is written:
    after a crash it may be called again. With ``once`` the query ends when all that is there is
    judged. ``work`` keeps state and checkpoint; the same call goes on from there.
    """
    if format not in SCHEMAS:
        raise UserError(f"cannot stream files of format {format!r}: choose {', '.join(SCHEMAS)}")
    if context_of(spark) is None:
        raise UserError(
            "cannot audit a stream on Spark Connect, whose driver is in another process: use a "
            "classic session"
        )
    auditor = open_stream(address, work, first=first, gaps=gaps, witnesses=witnesses)
    reader = spark.readStream.schema(SCHEMAS[format])
    reader = reader.format("binaryFile" if format == "csv" else format)
    reader = reader.option("maxFilesPerTrigger", files)
    title = str(Address.of(address))

    def judge(frame: DataFrame, batch: int) -> None:
        if batch <= auditor.batch:
            return
        if format == "csv":
            events = _read_tables(frame.select("path", "content").toArrow())
        else:
            events = _checked(frame.toArrow(), title)
        standing = auditor.take(batch, events)
        if standing is not None:
            if on_standing is not None:
                on_standing(standing)
            auditor.keep()

    writer = reader.load(str(Address.of(address))).writeStream.foreachBatch(judge)
    writer = writer.option("checkpointLocation", str(Address.of(work) / CHECKPOINT))
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_s} seconds").start()


class _AllKinds(Dialect):
    """Rows of all kinds are read: positions count them too."""

    @property
    def taken(self) -> tuple[str, ...]:
        return (*KINDS,)


class _NamedFile(io.BytesIO):
    """Bytes that errors call by the name of their file."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(content)
        self.name = name


def _read_tables(files: pa.Table) -> pa.Table:
    """The rows of CSV files, which ``files`` has as bytes."""
    dialect = _AllKinds(columns={"local_seq": "local_seq"})
    batches: list[pa.RecordBatch] = []
    for row in files.to_pylist():
        file: Any = _NamedFile(row["path"], row["content"])
        folders = Address.of(row["path"].partition(":")[2])  # without Spark's name of the store
        batches += event_batches(file, "csv", dialect=dialect.at(folders))
    return pa.Table.from_batches(batches, EVENTS)


def _checked(events: pa.Table, title: str) -> pa.Table:
    """The rows that Spark has read, if it could read them all."""
    if CORRUPT in events.column_names:
        corrupt = events.column(CORRUPT).drop_null()
        if len(corrupt):
            line = printable(corrupt[0].as_py()[:80])
            raise UserError(f"{title} has a line that is not an event: {line}")
    return events


def open_stream(
    address: Place,
    work: Place,
    *,
    first: int = 0,
    gaps: bool = False,
    witnesses: int = WITNESSES,
) -> BatchAuditor:
    """What ``follow_stream`` has found so far: ``open_stream(...).standing()``, or ``end()``."""
    place = Address.of(work) / STATE
    title = str(Address.of(address))
    return BatchAuditor(place, title=title, first=first, gaps=gaps, witnesses=witnesses)
