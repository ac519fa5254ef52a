"""The tables of a sweep as files: each as Parquet and as CSV, there whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from precedes.pipeline import jobs, metrics, tables
from precedes.pipeline.plan import PlannedRun
from precedes.pipeline.records import Record, write_aside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every table, with the columns that give its rows their order.
ORDER: Final = {
    "runs": ("number",),
    "run_metrics": ("number",),
    "protocol_summary": ("first", "metric"),
    "audit_runs": ("run_id",),
    "violations": ("run_id", "kind", "node", "source", "seq"),
    "latency_hist": ("run_id", "low_us"),
    "latency_by_protocol": ("first", "low_us"),
    "occupancy": ("run_id", "bin"),
    "occupancy_by_protocol": ("first", "bin"),
    "manifest": ("run_id",),
    "timings": ("run_id",),
}
HIDDEN: Final = ("first",)


def plain_tables(
    *,
    runs: Sequence[PlannedRun],
    found: Mapping[int, Record],
    errors: Mapping[int, str],
    params: Mapping[tuple[str, int], str],
) -> dict[str, pa.Table]:
    """What the records say, without any computing."""
    bins = ("low_us", "high_us", "deliveries")
    stretches = ("start_us", "end_us", "held_mean", "held_max")
    rows: dict[str, tuple[list[tables.Row], Any]] = {
        "runs": (tables.run_rows(runs, found, errors, params), tables.RUNS),
        "measures": (tables.measure_rows(found), tables.MEASURES),
        "audit_runs": (tables.audit_rows(found), tables.AUDIT_RUNS),
        "violations": (tables.violation_rows(found), tables.VIOLATIONS),
        "latency_hist": (
            tables.listed_rows(found, "latency_histogram", bins),
            tables.LATENCY_HIST,
        ),
        "occupancy": (tables.listed_rows(found, "held_bins", stretches), tables.OCCUPANCY),
        "manifest": (tables.manifest_rows(found), tables.MANIFEST),
        "timings": (tables.timing_rows(found), tables.TIMINGS),
    }
    return {name: tables.table(*pair) for name, pair in rows.items()}


def derived_frames(spark: SparkSession, plain: Mapping[str, pa.Table]) -> dict[str, DataFrame]:
    """What Spark computes from them."""
    runs = tables.frame(spark, plain["runs"], tables.RUNS)
    measures = tables.frame(spark, plain["measures"], tables.MEASURES)
    histogram = tables.frame(spark, plain["latency_hist"], tables.LATENCY_HIST)
    occupancy = tables.frame(spark, plain["occupancy"], tables.OCCUPANCY)
    run_metrics = metrics.run_metrics(runs, measures)
    seeds_max = len(set(plain["runs"].column("seed").to_pylist()))
    return {
        "run_metrics": run_metrics,
        "protocol_summary": metrics.protocol_summary(run_metrics, seeds_max=seeds_max),
        "latency_by_protocol": metrics.latency_by_protocol(runs, histogram),
        "occupancy_by_protocol": metrics.occupancy_by_protocol(runs, occupancy),
    }


def write_tables(
    spark: SparkSession,
    directory: Path,
    *,
    runs: Sequence[PlannedRun],
    found: Mapping[int, Record],
    errors: Mapping[int, str],
    params: Mapping[tuple[str, int], str],
) -> dict[str, pa.Table]:
    """Compute the tables and write them into the directory."""
    made = plain_tables(runs=runs, found=found, errors=errors, params=params)
    for name, data in derived_frames(spark, made).items():
        made[name] = jobs.wait_for(spark, data.toArrow, title=name)
    written = {}
    for name, order in ORDER.items():
        keys = [(column, "ascending") for column in order]
        shown = [column for column in made[name].column_names if column not in HIDDEN]
        written[name] = made[name].sort_by(keys).select(shown).replace_schema_metadata(None)
    for name, table in written.items():
        write_aside(directory / f"{name}.parquet", _parquet(table))
        write_aside(directory / f"{name}.csv", _csv(table))
    return written


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table.combine_chunks(), buffer, compression="zstd")
    return buffer.getvalue()


def _csv(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pa.csv.write_csv(table, buffer)
    return buffer.getvalue()
