"""Metrics of runs and of protocols, as frames from frames: the numbers people compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql.functions import (
    aggregate,
    broadcast,
    col,
    collect_list,
    lit,
    size,
    sort_array,
    sqrt,
    struct,
    try_divide,
)

from precedes.intervals import student_t
from precedes.pipeline.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Cells of a summary: runs that differ in the seed alone.
CELL: Final = ("experiment", "protocol", "params")


def run_metrics(runs: DataFrame, measures: DataFrame) -> DataFrame:
    """One row a finished run: its costs per message and packet, its errors, its latency.

    What needs a trace is null for a run without one.
    """
    finished = runs.where(col("status") == "finished")
    metrics = finished.select(
        "run_id",
        *CELL,
        "number",
        "seed",
        "broadcasts",
        "deliveries",
        "packets",
        "bytes_sent",
        _ratio("messages_sent", "packets").alias("messages_per_packet"),
        _ratio("bytes_sent", "deliveries").alias("bytes_per_delivery"),
        _ratio("packets", "broadcasts").alias("packets_per_broadcast"),
        "violating_deliveries",
        _ratio("violating_deliveries", "deliveries").alias("violation_share"),
        "lost",
        "pending_max",
        "reception_ms_mean",
        "delivery_ms_mean",
        (col("delivery_ms_mean") - col("reception_ms_mean")).alias("waiting_ms_mean"),
        "delivery_ms_p50",
        "delivery_ms_p99",
    )
    return metrics.join(measures, "run_id", "left")


def _ratio(top: str, bottom: str) -> Column:
    # try_divide gives null where nothing was sent, delivered or broadcast.
    return try_divide(col(top).cast("double"), col(bottom).cast("double"))


def protocol_summary(metrics: DataFrame, *, seeds_max: int) -> DataFrame:
    """Mean over seeds and its 95 % interval, for each metric of each cell.

    Sums are taken in the order of runs, so that the last bit does not depend on how many
    machines took part. One seed has no interval; no cell has more than ``seeds_max`` runs.
    """
    keys = ("run_id", *CELL, "number", "seed")
    names = [name for name in metrics.columns if name not in keys]
    doubles = metrics.select(
        *CELL, "number", *(col(name).cast("double").alias(name) for name in names)
    )
    long = doubles.unpivot([*CELL, "number"], names, "metric", "value").where("value is not null")
    means = _means(long, *CELL, "metric")
    squares = aggregate("values", lit(0.0), lambda sum_, value: sum_ + (value - col("mean")) ** 2)
    deviation = sqrt(try_divide(squares, col("runs") - 1))
    half = col("quantile") * deviation / sqrt(col("runs"))
    known = means.join(broadcast(_quantiles(metrics, seeds_max)), "runs", "left")
    return known.withColumn("half", half).select(
        *CELL,
        "metric",
        "runs",
        "mean",
        (col("mean") - col("half")).alias("low"),
        (col("mean") + col("half")).alias("high"),
        "first",
    )


def _means(values: DataFrame, *keys: str, **more: Column) -> DataFrame:
    """The values of each group in the order of runs, how many they are, and their mean.

    ``first`` is the number of the group's first run, which gives tables their order.
    """
    ordered = sort_array(collect_list(struct("number", "value"))).getField("value")
    groups = values.groupBy(*keys).agg(
        ordered.alias("values"),
        functions.min("number").alias("first"),
        *(column.alias(name) for name, column in more.items()),
    )
    total = aggregate("values", lit(0.0), lambda sum_, value: sum_ + value)
    return groups.withColumn("runs", size("values")).withColumn("mean", total / col("runs"))


def occupancy_by_protocol(runs: DataFrame, occupancy: DataFrame) -> DataFrame:
    """The occupancy of all runs of a cell, bin by bin: mean over runs, and maximum."""
    cells = runs.select("run_id", *CELL, "number")
    joined = occupancy.withColumn("value", col("held_mean")).join(broadcast(cells), "run_id")
    means = _means(joined, *CELL, "bin", held_max=functions.max("held_max"))
    return means.select(*CELL, "bin", "runs", col("mean").alias("held_mean"), "held_max", "first")


def latency_by_protocol(runs: DataFrame, histogram: DataFrame) -> DataFrame:
    """The histograms of all runs of a cell added up."""
    cells = runs.select("run_id", *CELL, "number")
    joined = histogram.join(broadcast(cells), "run_id")
    return joined.groupBy(*CELL, "low_us", "high_us").agg(
        functions.sum("deliveries").alias("deliveries"), functions.min("number").alias("first")
    )


def _quantiles(metrics: DataFrame, runs_max: int) -> DataFrame:
    """Student's t for each number of runs that a mean may be of, from 2 on."""
    runs = range(2, max(runs_max, 2) + 1)
    table = {
        "runs": pa.array(runs, pa.int32()),
        "quantile": pa.array([student_t(count - 1) for count in runs], pa.float64()),
    }
    return jobs.frame_of(metrics.sparkSession, pa.table(table))
