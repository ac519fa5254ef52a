"""``spark.read.format("precedes")``: the frames of ``read_events`` as a data source of Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from precedes.errors import UserError
from precedes.pipeline import events
from precedes.pipeline.spark import jobs
from precedes.stores import Address
from precedes.trace import Dialect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class EventsSource(DataSource):  # type: ignore[misc]
    """Logs of any format; ``load`` takes a path, and ``logFormat`` says what they are."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``spark.read.format``."""
        return "precedes"

    def schema(self) -> str:
        """That of ``read_events``."""
        return events.SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Reads what the options name."""
        path = self.options.get("path")
        if path is None:
            raise UserError("name the logs: spark.read.format('precedes').load(PATH)")
        return EventsReader(path, self.options.get("logFormat", "auto"))


class EventsReader(DataSourceReader):  # type: ignore[misc]
    """Reads logs, a partition a task."""

    def __init__(self, path: str, format: str) -> None:
        self._path = path
        self._format = format

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, each with its orders."""
        logs = events.logs_at(Address.of(self._path))
        tasks = events.tasks_of(logs, self._format, Dialect(), at_least=1)
        return [InputPartition(json.dumps(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a task."""
        return events.read_texts(json.loads(partition.value), self._format, Dialect())


def register_source(spark: SparkSession) -> None:
    """Make ``spark.read.format("precedes")`` work in a session."""
    if int((bound := spark.conf.get(jobs.RECORDS)) or 0) <= 0:
        raise UserError(
            f"{jobs.RECORDS} is {bound}, with which sources in Python fail: set it to 10000"
        )
    spark.dataSource.register(EventsSource)
