"""The tables of the pipeline: every schema, and the frames made from records of runs.

All functions here and in ``metrics`` take frames and return frames; none starts a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from precedes.pipeline import asked
from precedes.pipeline.directory import TRACES, Record
from precedes.pipeline.execute import FAILED, FINISHED
from precedes.pipeline.plan import PlannedRun, name_of
from precedes.pipeline.spark import jobs
from precedes.pipeline.spark.monitor import Summary
from precedes.stores import Address, handed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INT: Final = IntegerType()
LONG: Final = LongType()
DOUBLE: Final = DoubleType()
TEXT: Final = StringType()
FLAG: Final = BooleanType()


def _schema(required: Mapping[str, DataType], optional: Mapping[str, DataType]) -> StructType:
    fields = [StructField(name, kind, nullable=False) for name, kind in required.items()]
    fields += [StructField(name, kind, nullable=True) for name, kind in optional.items()]
    return StructType(fields)


# What the columns of ``asked`` hold.
PLAIN: Final[dict[type, DataType]] = {int: LONG, float: DOUBLE, str: TEXT, bool: FLAG}
# Counters of a result's own, in columns of their names behind this.
COUNTER: Final = "extra_"

# The events of a trace as Spark reads them; precedes.trace.schema is the other side.
EVENTS: Final = _schema(
    {
        "run_id": INT,
        "node": INT,
        "local_seq": LONG,
        "time_us": LONG,
        "kind": TEXT,
        "source": INT,
        "seq": INT,
    },
    {"packet": LONG},
)
MANIFEST_ROW: Final = _schema({"run_id": INT, "status": TEXT}, {"error": TEXT})
RESULTS: Final = _schema(
    {"run_id": INT},
    {
        "broadcasts": LONG,
        "deliveries": LONG,
        "packets": LONG,
        "messages_sent": LONG,
        "bytes_sent": LONG,
        "violating_deliveries": LONG,
        "violating_messages": LONG,
        "lost": LONG,
        "duplicates": LONG,
        "pending_max": LONG,
        "pending_at_end": LONG,
        "reception_ms_mean": DOUBLE,
        "delivery_ms_mean": DOUBLE,
        "delivery_ms_p50": DOUBLE,
        "delivery_ms_p99": DOUBLE,
        "simulated_s": DOUBLE,
        "complete": FLAG,
    },
)
RUNS: Final = _schema(
    {
        "run_id": INT,
        "experiment": TEXT,
        "number": INT,
        "protocol": TEXT,
        "params": TEXT,
        "nodes": INT,
        "seed": LONG,
        "status": TEXT,
    },
    {"error": TEXT, **{field.name: field.dataType for field in RESULTS.fields[1:]}},
)
MANIFEST: Final = _schema(
    {
        "run_id": INT,
        "path": TEXT,
        "rows": LONG,
        "bytes": LONG,
        "sha256": TEXT,
        "code_version": TEXT,
        "schema_version": INT,
    },
    {},
)
TIMINGS: Final = _schema({"run_id": INT, "cpu_s": DOUBLE, "wall_s": DOUBLE}, {})
TIMINGS_SPARK: Final = _schema(
    {"job": INT, "title": TEXT, "wall_s": DOUBLE, "tasks": LONG},
    {"failed_tasks": LONG, "task_s": DOUBLE, "java_cpu_s": DOUBLE, "shuffled_bytes": LONG},
)
MEASURES: Final = _schema(
    {"run_id": INT},
    {
        "latency_us_mean": DOUBLE,
        "latency_us_p50": LONG,
        "latency_us_p90": LONG,
        "latency_us_p99": LONG,
        "latency_us_p999": LONG,
        "latency_us_max": LONG,
        "held_mean": DOUBLE,
        "held_max": LONG,
    },
)
LATENCY_HIST: Final = _schema(
    {"run_id": INT, "low_us": LONG, "high_us": LONG, "deliveries": LONG}, {}
)
OCCUPANCY: Final = _schema(
    {
        "run_id": INT,
        "bin": INT,
        "start_us": LONG,
        "end_us": LONG,
        "held_mean": DOUBLE,
        "held_max": LONG,
    },
    {},
)
AUDIT_RUNS: Final = _schema(
    {
        "run_id": INT,
        "verdict": TEXT,
        "nodes": INT,
        "messages": LONG,
        "deliveries": LONG,
        "violations": LONG,
        "violating_messages": LONG,
        "lost": LONG,
        "duplicates": LONG,
        "phantom": LONG,
        "cycles": LONG,
        "unjudged": LONG,
        "undelivered_at_end": LONG,
    },
    {},
)
VIOLATIONS: Final = _schema(
    {"run_id": INT, "kind": TEXT, "node": INT, "source": INT, "seq": INT},
    {"witness_source": INT, "witness_seq": INT, "sentence": TEXT},
)

# Parquet and Arrow have the same types; this is how the driver's rows get theirs.
ARROW: Final = {
    INT: pa.int32(),
    LONG: pa.int64(),
    DOUBLE: pa.float64(),
    TEXT: pa.string(),
    FLAG: pa.bool_(),
}

Row = dict[str, Any]


def table(rows: Sequence[Row], schema: StructType) -> pa.Table:
    """The driver's own rows, which are as many as there are runs or findings, with their types."""
    arrow = pa.schema([pa.field(f.name, ARROW[f.dataType], f.nullable) for f in schema.fields])
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in arrow]
    return pa.Table.from_arrays(columns, schema=arrow)


def frame(spark: SparkSession, data: pa.Table, schema: StructType) -> DataFrame:
    """The same as a frame."""
    return jobs.frame_of(spark, data, schema)


def written_frame(spark: SparkSession, path: Address, schema: StructType) -> DataFrame:
    """A table in a Parquet file that all machines see: its row groups are read by tasks.

    Spark's own reader would take brackets in the path for a pattern, and look for the path on
    whatever file system is its default.
    """
    with path.open() as opened:
        groups = [str(group) for group in range(pq.read_metadata(opened).num_row_groups)]
    count = min(len(groups), 2 * jobs.parallelism(spark))
    tasks = [groups[first::count] for first in range(count)]
    return jobs.packed(spark, tasks).mapInArrow(handed(_ReadGroups(path), path), schema)


class _ReadGroups:
    """What a task does with the numbers of row groups."""

    def __init__(self, path: Address) -> None:
        self._path = path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._path.open() as opened, pq.ParquetFile(opened) as file:
            for batch in batches:
                for group in batch.column("order").to_pylist():
                    yield from file.read_row_group(int(group)).to_batches()


def stored_frame(spark: SparkSession, paths: Sequence[Address]) -> DataFrame:
    """Parquet files of one schema, wherever they are: tasks read whole files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    with paths[0].open() as opened:
        plain = [_plain_field(field) for field in pq.read_schema(opened)]
    work = handed(_ReadFiles(pa.schema(plain)), *paths)
    count = min(len(paths), 2 * jobs.parallelism(spark))
    tasks = [[str(path) for path in paths[first::count]] for first in range(count)]
    return jobs.packed(spark, tasks).mapInArrow(work, from_arrow_schema(pa.schema(plain)))


def _plain_field(field: pa.Field) -> pa.Field:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, kind)


class _ReadFiles:
    """What a task does with addresses of files."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("order").to_pylist():
                with Address.of(path).open() as opened, pq.ParquetFile(opened) as file:
                    for group in range(file.num_row_groups):
                        found = file.read_row_group(group).cast(self._schema)
                        yield from found.to_batches()


def read_traces(spark: SparkSession, *paths: str) -> DataFrame:
    """The columns of traces as they are in the files, as one frame."""
    return spark.read.schema(EVENTS).parquet(*paths)


def results_table(found: Mapping[int, Record]) -> pa.Table:
    """A row of ``RESULTS`` for each record, and a column for each of their counters."""
    rows: list[Row] = []
    counters: set[str] = set()
    for run_id, record in sorted(found.items()):
        result = record["result"]
        extra = {COUNTER + name: float(value) for name, value in result["extra"].items()}
        counters |= extra.keys()
        rows.append({**_result_cells(result), **extra, "run_id": run_id})
    more = _schema({}, dict.fromkeys(sorted(counters), DOUBLE))
    return table(rows, StructType([*RESULTS.fields, *more.fields]))


def _result_cells(result: Record) -> Row:
    violations = result["violations"] or {"deliveries": None, "messages": None}
    latency = result["latency"]
    return {
        **{name: result.get(name) for name in RESULTS.names if name in result},
        "violating_deliveries": violations["deliveries"],
        "violating_messages": violations["messages"],
        "reception_ms_mean": latency["reception_mean"],
        "delivery_ms_mean": latency["delivery_mean"],
        "delivery_ms_p50": latency["p50"],
        "delivery_ms_p99": latency["p99"],
    }


def runs_table(
    runs: Sequence[PlannedRun],
    results: pa.Table,
    errors: Mapping[int, str],
    params: Mapping[tuple[str, int], str],
) -> pa.Table:
    """A row for every planned run: what it is, its ``results_table`` row, and what was asked."""
    found = {row["run_id"]: row for row in results.to_pylist()}
    types = asked.scenario_types() | asked.parameter_types(run.scenario.protocol for run in runs)
    rows = [
        {
            **found.get(run.run_id, {}),
            **asked.cells(run.scenario, types),
            "run_id": run.run_id,
            "experiment": run.experiment,
            "number": run.number,
            "protocol": run.scenario.protocol,
            "params": params.get((run.experiment, run.number), ""),
            "nodes": run.scenario.nodes,
            "seed": run.scenario.seed,
            "status": FINISHED if run.run_id in found else FAILED,
            "error": None if run.run_id in found else errors.get(run.run_id, "not run"),
        }
        for run in runs
    ]
    counters = [name for name in results.column_names if name.startswith(COUNTER)]
    more = {name: PLAIN[kind] for name, kind in types.items()}
    more |= dict.fromkeys(sorted(counters), DOUBLE)
    return table(rows, StructType([*RUNS.fields, *_schema({}, more).fields]))


def manifest_rows(found: Mapping[int, Record]) -> list[Row]:
    """The traces that there are."""
    return [
        {
            **{name: record["trace"][name] for name in ("rows", "bytes", "sha256")},
            "run_id": run_id,
            "path": f"{TRACES}/{name_of(run_id)}.parquet",
            "code_version": record["code_version"],
            "schema_version": record["trace"]["schema_version"],
        }
        for run_id, record in sorted(found.items())
        if record["trace"]
    ]


def job_rows(took: Sequence[Summary]) -> list[Row]:
    """What Spark's jobs took, in the order in which they ended."""
    return [{"job": number, **summary._asdict()} for number, summary in enumerate(took)]


def timing_rows(found: Mapping[int, Record]) -> list[Row]:
    """What the runs took: the only table that differs from one time to the next."""
    return [
        {
            "run_id": run_id,
            "cpu_s": record["result"]["cpu_s"],
            "wall_s": record["result"]["wall_s"],
        }
        for run_id, record in sorted(found.items())
    ]


def measure_rows(found: Mapping[int, Record]) -> list[Row]:
    """Exact percentiles and occupancy of the runs that have a trace."""
    rows = []
    for run_id, record in sorted(found.items()):
        measured = record["measures"]
        if measured:
            latency = {f"latency_us_{name}": v for name, v in measured["latency_us"].items()}
            held = {f"held_{name}": value for name, value in measured["held"].items()}
            rows.append({"run_id": run_id, **latency, **held})
    return rows


def listed_rows(found: Mapping[int, Record], key: str, names: Sequence[str]) -> list[Row]:
    """The lists under a key of the measures, a row for each entry, numbered as ``bin``."""
    return [
        {"run_id": run_id, "bin": number, **dict(zip(names, entry, strict=True))}
        for run_id, record in sorted(found.items())
        for number, entry in enumerate((record["measures"] or {}).get(key, []))
    ]


def audit_rows(found: Mapping[int, Record]) -> list[Row]:
    """The verdict on every trace."""
    return [
        {**record["audit"], "run_id": run_id}
        for run_id, record in sorted(found.items())
        if record["audit"]
    ]


def violation_rows(found: Mapping[int, Record]) -> list[Row]:
    """The witnesses, up to five of a kind and run."""
    return [
        {**finding, "run_id": run_id}
        for run_id, record in sorted(found.items())
        for finding in (record["audit"] or {}).get("findings", [])
    ]
