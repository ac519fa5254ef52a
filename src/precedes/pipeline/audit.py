"""The exact audit as Spark tasks.

``audit_files`` is the usual way: a task reads whole files and runs the kernel over each run in
them, so that no event passes through Spark. ``audit_events`` is for tables of events that are
not one file a run: Spark brings the rows of a run together first, which costs a shuffle.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from precedes.audit import Report, Step, Witness, audit
from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline.plan import pack
from precedes.pipeline.spark import jobs
from precedes.stores import Address, Place, handed
from precedes.trace import Dialect, load
from precedes.trace.reader import MAGIC
from precedes.trace.source import STANDARD_INPUT
from precedes.trace.tables import COLUMNS, IGNORED, history_of

READABLE: Final = ("file", "folder")  # by any process, any number of times
HIDDEN: Final = ("_", ".")  # how the names of files begin that Spark passes over

# CPU seconds for auditing a byte of a trace (four to an event) or of a JSON log, and for opening
# a file.
BYTE_S: Final = 0.07e-6
FILE_S: Final = 0.01

# Spark takes some seconds to start: with less work than this, one process is faster.
WORTH_SPARK_S: Final = 20.0

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def audit_cost_s(path: Address) -> float:
    """A guess of the CPU seconds that auditing a file takes."""
    size_bytes = path.size_bytes() if path.is_file() else 0
    return FILE_S + BYTE_S * size_bytes * (10 if path.name.endswith(".gz") else 1)


def is_for_spark(paths: Sequence[Address], *, master: str | None) -> bool:
    """Whether to audit on Spark: a master is named, or several files are much work together."""
    if master is not None:
        return True
    if len(paths) < 2 or sum(map(audit_cost_s, paths)) < WORTH_SPARK_S:
        return False
    # Only this process can read a pipe.
    if not all(path.kind() in READABLE for path in paths):
        return False
    return importlib.util.find_spec("pyspark") is not None


def audit_files(
    spark: SparkSession,
    paths: Sequence[Place],
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
    progress: Progress | None = None,
) -> list[Report]:
    """A report for every run in the files, in their order; the first unreadable file is raised."""
    files = [Address.of(path) for path in paths]
    for path in files:
        if path == STANDARD_INPUT or path.kind() not in READABLE:
            raise UserError(f"there is no file {path}, and Spark tasks read nothing else")
    orders = [
        json.dumps({"number": number, "path": str(path.absolute()), "shown": str(path)})
        for number, path in enumerate(files)
    ]
    file_costs_s = [audit_cost_s(path) for path in files]
    shares = pack(file_costs_s)
    tasks = [[orders[i] for i in task] for task in shares]
    costs_s = [sum(file_costs_s[i] for i in task) for task in shares]
    work = handed(_Work(format, dialect), *files)

    def job() -> list[dict[str, Any]]:
        found = jobs.packed(spark, tasks).mapInArrow(work, "number int, report string")
        return found.toArrow().to_pylist()

    watch = (
        None
        if progress is None
        else jobs.TaskProgress(spark, len(tasks), progress, costs_s=costs_s)
    )
    rows = jobs.wait_for(spark, job, title="audit files", watch=watch)
    return _reports(row["report"] for row in sorted(rows, key=lambda row: row["number"]))


class _Work:
    """What a task does with its files: a row of reports for each."""

    def __init__(self, format: str, dialect: Dialect | None) -> None:
        self._format = format
        self._dialect = dialect

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            orders = [json.loads(text) for text in batch.column("order").to_pylist()]
            done = [(order["number"], self._audit(order)) for order in orders]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([number for number, _ in done], pa.int32()),
                    pa.array([text for _, text in done], pa.string()),
                ],
                names=["number", "report"],
            )

    def _audit(self, order: dict[str, Any]) -> str:
        try:
            histories = load(order["path"], self._format, dialect=self._dialect)
            reports = [asdict(audit(history)) for history in histories]
            return json.dumps([{**report, "origin": order["shown"]} for report in reports])
        except UserError as error:
            return json.dumps({"error": str(error).replace(order["path"], order["shown"])})


def check_tables(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Raise if a path is no Parquet file, or a directory with other files or none."""
    for path in map(Path, paths):
        try:
            files = _shown_files(path) if path.is_dir() else [path]
            for file in files:
                with file.open("rb") as opened:
                    if opened.read(len(MAGIC)) != MAGIC:
                        raise UserError(
                            f"{file} is no Parquet file, as tables of events are: leave out "
                            "--format for other logs"
                        )
        except FileNotFoundError:
            raise UserError(f"there is no table {path}: check the path") from None
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from None
        if not files:
            raise UserError(f"{path} holds no files: name a table of events")


def _shown_files(directory: Path) -> list[Path]:
    """The files that Spark reads in a directory: not those whose names begin with _ or a dot."""

    def fail(error: OSError) -> None:
        raise error

    found = []
    for folder, inside, files in os.walk(directory, onerror=fail):
        inside[:] = [name for name in inside if not name.startswith(HIDDEN)]
        found += [Path(folder, name) for name in files if not name.startswith(HIDDEN)]
    return sorted(found)


def read_tables(spark: SparkSession, paths: Sequence[str | os.PathLike[str]]) -> DataFrame:
    """The Parquet files named, and those in the directories named, as one table."""
    # Spark takes these characters for patterns.
    escaped = [re.sub(r"([\\*?\[\]{}^])", r"\\\1", os.path.abspath(path)) for path in paths]
    try:
        return spark.read.parquet(*escaped)
    except Exception as error:  # whatever Spark makes of files that are no tables
        condition = getattr(error, "getCondition", lambda: None)() or type(error).__name__
        named = ", ".join(str(path) for path in paths)
        raise UserError(f"Spark finds no table of events in {named} ({condition})") from None


def audit_events(spark: SparkSession, events: DataFrame) -> list[Report]:
    """A report for every run in a table of events, in the order of their ids.

    The columns are those of a trace; ``node`` and ``run_id`` may hold names, and instead of
    ``source`` and ``seq`` there may be ``message``, a name. Whether the log goes on is not known,
    so nothing counts as lost. The events of a run must fit into the memory of one process.
    """
    from pyspark.sql.functions import col, lit

    missing = [name for name in ("node", "local_seq", "kind") if name not in events.columns]
    named = "message" in events.columns
    missing += [] if named else [n for n in ("source", "seq") if n not in events.columns]
    if missing:
        raise UserError(
            f"the table of events lacks {', '.join(missing)}: it needs {', '.join(COLUMNS)}"
        )
    run_type = _check_types(events)
    run = col("run_id") if "run_id" in events.columns else lit(0)
    message = col("message") if named else _pair()
    kind = col("kind").cast("string")
    rows = events.where(kind.isNull() | ~kind.isin(IGNORED)).select(
        run.cast(run_type).alias("run_id"),
        col("node").cast("string").alias("node"),
        col("local_seq").cast("long").alias("local_seq"),
        kind.alias("kind"),
        message.cast("string").alias("message"),
    )
    schema = f"run_id {run_type}, report string"
    grouped = rows.groupBy("run_id").applyInArrow(_audit_group, schema)
    found = jobs.wait_for(spark, lambda: grouped.toArrow().to_pylist(), title="audit events")
    # Rows without an id are an error, and come first.
    found.sort(key=lambda row: (row["run_id"] is not None, row["run_id"]))
    return _reports(row["report"] for row in found)


def _pair() -> Column:
    """source:seq as the name of a message; none if one is missing, or if a join names nothing."""
    from pyspark.sql.functions import col, concat, lit, when

    nothing = (col("kind") == "join") & (col("seq") == 0)
    return when(~nothing, concat(col("source"), lit(":"), col("seq")))


def _check_types(events: DataFrame) -> str:
    """The type of run ids; raises if a column that orders events holds no whole numbers."""
    from pyspark.sql.types import IntegralType, StringType

    kinds = {name: events.schema[name].dataType for name in events.columns}
    for name in ("local_seq", *(["seq"] if "message" not in kinds else [])):
        if not isinstance(kinds[name], IntegralType):
            found = kinds[name].simpleString()
            raise UserError(f"the column {name} holds {found} instead of whole numbers: cast it")
    run = kinds.get("run_id")
    if run is None or isinstance(run, IntegralType):
        return "long"
    if isinstance(run, StringType):
        return "string"
    raise UserError(
        f"the column run_id holds {run.simpleString()} instead of whole numbers or strings: cast it"
    )


def _audit_group(table: pa.Table) -> pa.Table:
    run_id = table.column("run_id")[0].as_py()
    try:
        if run_id is None:
            raise UserError("the column run_id has empty cells")
        report = json.dumps([asdict(audit(history_of(table, run_id=run_id)))])
    except UserError as error:
        report = json.dumps({"error": str(error)})
    ids = table.column("run_id").slice(0, 1)
    return pa.table({"run_id": ids, "report": pa.array([report], pa.string())})


def _reports(texts: Iterator[str]) -> list[Report]:
    """Reports from JSON; an error is raised as what it was."""
    reports = []
    for text in texts:
        found = json.loads(text)
        if isinstance(found, dict):
            raise UserError(found["error"])
        reports += [
            Report(
                **{**row, "notes": tuple(row["notes"]), "witnesses": _witnesses(row["witnesses"])}
            )
            for row in found
        ]
    return reports


def _witnesses(rows: list[dict[str, Any]]) -> tuple[Witness, ...]:
    return tuple(
        Witness(**{**row, "steps": tuple(Step(**step) for step in row["steps"])}) for row in rows
    )
