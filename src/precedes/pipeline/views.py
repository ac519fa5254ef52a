"""A sweep's directory as views for SQL (docs/questions.md)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from precedes.errors import UserError
from precedes.pipeline.directory import TRACES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX: Final = ".parquet"
EVENTS: Final = "events"


def open_tables(spark: SparkSession, directory: str | os.PathLike[str]) -> dict[str, DataFrame]:
    """The tables of a sweep by name, each also a temporary view of that name.

    ``events`` are the rows of all its traces, if it kept any.
    """
    from precedes.pipeline.tables import read_traces

    folder = Path(directory)
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise UserError(f"{folder} holds no tables: name the directory of a finished sweep")
    found = {path.stem: spark.read.parquet(escaped(path)) for path in paths}
    if any((folder / TRACES).glob(f"*{SUFFIX}")):
        found[EVENTS] = read_traces(spark, escaped(folder / TRACES))
    for name, frame in found.items():
        frame.createOrReplaceTempView(name)
    return found


def escaped(path: str | os.PathLike[str]) -> str:
    """A path as Spark reads it: these characters would make it a pattern."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", os.path.abspath(path))
