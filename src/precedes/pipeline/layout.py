"""Where things are in the directory of a sweep, and which logs are worth starting Spark for.

Nothing here needs more than the standard library: a small audit stays instant.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

RECORDS: Final = "records"
TRACES: Final = "traces"
FAILED: Final = "failed"
STARTED: Final = "started"
OWNER: Final = "sweep.json"
LOCK: Final = ".lock"
WORK: Final = ".work"
LOG: Final = "spark.log"
RECORD_VERSION: Final = 1

# CPU seconds for auditing a byte of a trace (four to an event) or of a JSON log, and for opening
# a file.
BYTE_S: Final = 0.07e-6
FILE_S: Final = 0.01

# Spark takes some seconds to start: below this much work one process is done sooner.
WORTH_SPARK_S: Final = 20.0


def name_of(run_id: int) -> str:
    """What the files of a run are called."""
    return f"run-{run_id:010d}"


def record_path(directory: Path, name: str) -> Path:
    """Where the record of a run is."""
    return directory / RECORDS / f"{name}.json"


def trace_path(directory: Path, name: str) -> Path:
    """Where the trace of a run is."""
    return directory / TRACES / f"{name}.parquet"


def start_path(directory: Path, name: str, attempt: int) -> Path:
    """Where it is noted that a run has begun."""
    return directory / STARTED / f"{name}-{attempt}"


def logs_in(directory: Path) -> Path:
    """Where the logs of a directory are: of a sweep's, in its traces."""
    return directory / TRACES if os.path.isfile(directory / OWNER) else directory


def audit_cost_s(path: Path) -> float:
    """A guess of the CPU seconds that auditing a file takes."""
    size_bytes = path.stat().st_size if os.path.isfile(path) else 0
    return FILE_S + BYTE_S * size_bytes * (10 if path.name.endswith(".gz") else 1)


def is_for_spark(paths: Sequence[Path], *, master: str | None) -> bool:
    """Whether to audit on Spark: a master is named, or several files are much work together."""
    if master is not None:
        return True
    if len(paths) < 2 or sum(map(audit_cost_s, paths)) < WORTH_SPARK_S:
        return False
    # A pipe can be read by this process alone.
    if not all(os.path.isfile(path) or os.path.isdir(path) for path in paths):
        return False
    return importlib.util.find_spec("pyspark") is not None
