"""Events as DataFrames, read from any format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from precedes.pipeline import reading
from precedes.pipeline.spark import jobs
from precedes.stores import Address, Place, handed
from precedes.trace import Dialect
from precedes.trace.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    logs = [log for place in places for log in reading.logs_at(Address.of(place))]
    dialect = dialect or Dialect()
    tasks = reading.tasks_of(logs, format, dialect, at_least=2 * jobs.parallelism(spark))
    work = handed(_Read(format, dialect), *logs)
    return jobs.packed(spark, tasks).mapInArrow(work, from_arrow_schema(EVENTS))


class _Read:
    """The work of a task: batches of events from its orders."""

    def __init__(self, format: str, dialect: Dialect) -> None:
        self._format = format
        self._dialect = dialect

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = batch.column("order").to_pylist()
            yield from reading.read_texts(texts, self._format, self._dialect)
