"""Keeps Spark's Python side from saying what it raises as well."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PY4J_LOGGERS: Final = ("py4j.java_gateway", "py4j.clientserver")
# They print the error of a query with all of Java's stack, besides raising it.
QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Have Spark's Python side not log calls and queries that fail, which it raises as well.

    py4j would print a traceback for every call that Ctrl-C interrupts or that Java dies in, partly
    with the root logger.
    """
    import py4j
    from pyspark.logger import PySparkLogger

    home = str(Path(py4j.__file__).parent)

    def is_wanted(record: logging.LogRecord) -> bool:
        unwanted = record.name in QUERY_LOGGERS or record.pathname.startswith(home)
        return record.levelno < logging.ERROR or not unwanted

    loggers = [logging.getLogger(name) for name in (None, *PY4J_LOGGERS)]
    loggers += [PySparkLogger.getLogger(name) for name in QUERY_LOGGERS]
    for logger in loggers:
        logger.addFilter(is_wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_wanted)
