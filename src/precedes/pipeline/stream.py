"""Audits events while they arrive, on Structured Streaming: docs/follow.md.

Spark finds the files that are added to a directory and hands their rows over in batches; the audit
itself needs every row in one place, so it runs in the driver (``audit.growing.batches``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from precedes.audit.causal_order import WITNESSES
from precedes.audit.growing.auditor import Standing
from precedes.audit.growing.batches import COLUMNS, BatchAuditor
from precedes.errors import UserError
from precedes.stores import Address, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA: Final = "run_id string, node string, local_seq long, kind string, message string"
FORMATS: Final = ("json", "csv", "parquet", "orc")
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
    a node's rows from ``first`` on, unless there may be ``gaps``. ``on_standing`` is called after
    each batch, in the driver, before the state is written: after a crash it may be told something
    again. With ``once`` the query ends when all that is there is judged. ``work`` keeps state and
    checkpoint; the same call goes on from there.
    """
    if format not in FORMATS:
        raise UserError(f"cannot stream files of format {format!r}: choose {', '.join(FORMATS)}")
    auditor = open_stream(address, work, first=first, gaps=gaps, witnesses=witnesses)
    reader = spark.readStream.schema(SCHEMA).format(format)
    reader = reader.option("maxFilesPerTrigger", files).option("header", "true")

    def judge(frame: DataFrame, batch: int) -> None:
        if batch <= auditor.batch:
            return
        standing = auditor.take(batch, frame.select("run_id", *COLUMNS).toArrow())
        if standing is not None:
            if on_standing is not None:
                on_standing(standing)
            auditor.keep()

    writer = reader.load(str(Address.of(address))).writeStream.foreachBatch(judge)
    writer = writer.option("checkpointLocation", str(Address.of(work) / CHECKPOINT))
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_s} seconds").start()


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
