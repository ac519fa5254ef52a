"""A sweep's directory as views for SQL (docs/questions.md)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from precedes.errors import UserError
from precedes.pipeline.directory import TRACES
from precedes.stores import Address, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX: Final = ".parquet"
EVENTS: Final = "events"


def open_tables(spark: SparkSession, directory: Place) -> dict[str, DataFrame]:
    """The tables of a sweep by name, each also a temporary view of that name.

    ``events`` are the rows of all its traces, if it kept any.
    """
    from precedes.pipeline.tables import read_traces, stored_frame

    folder = Address.of(directory)
    paths = _tables_in(folder)
    if not paths:
        raise UserError(f"{folder} holds no tables: name the directory of a finished sweep")
    traces = _tables_in(folder / TRACES)
    if folder.is_local:
        found = {path.stem: spark.read.parquet(escaped(path)) for path in paths}
        if traces:
            found[EVENTS] = read_traces(spark, escaped(folder / TRACES))
    else:
        # Spark itself would need Hadoop's libraries for a store, and their settings.
        found = {path.stem: stored_frame(spark, [path]) for path in paths}
        if traces:
            found[EVENTS] = stored_frame(spark, traces)
    for name, frame in found.items():
        frame.createOrReplaceTempView(name)
    return found


def _tables_in(folder: Address) -> list[Address]:
    names = folder.names() if folder.is_folder() else []
    return [folder / name for name in names if name.endswith(SUFFIX)]


def escaped(path: str | os.PathLike[str]) -> str:
    """A path as Spark reads it: these characters would make it a pattern."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", os.path.abspath(path))
