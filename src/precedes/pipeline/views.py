"""A sweep's directory as DataFrames, and as views for SQL (docs/questions.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.errors import UserError
from precedes.pipeline.directory import TRACES
from precedes.pipeline.spark import jobs
from precedes.stores import Address, Place, handed
from precedes.trace.schema import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX: Final = ".parquet"
EVENTS: Final = "events"


def open_tables(spark: SparkSession, directory: Place) -> dict[str, DataFrame]:
    """The tables of a sweep by name, each also a temporary view of that name.

    ``events`` are the rows of all its traces, if it kept any.
    """
    folder = Address.of(directory)
    paths = _tables_in(folder)
    if not paths:
        raise UserError(f"{folder} holds no tables: name the directory of a finished sweep")
    traces = _tables_in(folder / TRACES)
    if folder.is_local:
        frames = {path.stem: spark.read.parquet(_escaped(path)) for path in paths}
        if traces:
            frames[EVENTS] = read_traces(spark, _escaped(folder / TRACES))
    else:
        # Spark itself would need Hadoop's libraries for a store, and their settings.
        frames = {path.stem: _stored_frame(spark, [path]) for path in paths}
        if traces:
            frames[EVENTS] = _stored_frame(spark, traces)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


def _tables_in(folder: Address) -> list[Address]:
    names = folder.names() if folder.is_folder() else []
    return [folder / name for name in names if name.endswith(SUFFIX)]


def _escaped(path: str | os.PathLike[str]) -> str:
    """A path as Spark reads it: these characters would make it a pattern."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", os.path.abspath(path))


def _stored_frame(spark: SparkSession, paths: Sequence[Address]) -> DataFrame:
    """Parquet files of one schema, at any address: tasks read whole files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    with paths[0].open() as opened:
        schema = _plain(pq.read_schema(opened))
    work = handed(_ReadFiles(schema), *paths)
    count = min(len(paths), 2 * jobs.parallelism(spark))
    tasks = [[str(path) for path in paths[first::count]] for first in range(count)]
    return jobs.packed(spark, tasks).mapInArrow(work, from_arrow_schema(schema))


def _plain(schema: pa.Schema) -> pa.Schema:
    """A schema without dictionaries, metadata and nullability, as Spark reads it from files."""
    kinds = [t.value_type if pa.types.is_dictionary(t) else t for t in schema.types]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


class _ReadFiles:
    """The work of a task on addresses of files."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("order").to_pylist():
                with Address.of(path).open() as opened, pq.ParquetFile(opened) as file:
                    for group in range(file.num_row_groups):
                        table = file.read_row_group(group).cast(self._schema)
                        yield from table.to_batches()


def read_traces(spark: SparkSession, *paths: str) -> DataFrame:
    """The columns of traces as they are in the files, as one DataFrame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.read.schema(from_arrow_schema(_plain(SCHEMA))).parquet(*paths)
