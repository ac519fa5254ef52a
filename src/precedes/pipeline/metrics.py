"""Metrics of runs and of protocols, as frames from frames: the numbers people compare."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Cells of a summary: runs that differ in the seed alone.
CELL: Final = ("experiment", "protocol", "params")

# Beyond this many degrees of freedom the quantile of so many is taken, at most 1.3 % too large.
DEGREES_MAX: Final = 100


def run_metrics(runs: DataFrame, measures: DataFrame) -> DataFrame:
    """One row a finished run: its costs per message and packet, its errors, its latency.

    What needs a trace is null for a run without one.
    """
    finished = runs.where(F.col("status") == "finished")
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
        (F.col("delivery_ms_mean") - F.col("reception_ms_mean")).alias("waiting_ms_mean"),
        "delivery_ms_p50",
        "delivery_ms_p99",
    )
    return metrics.join(measures, "run_id", "left")


def _ratio(top: str, bottom: str) -> Column:
    # try_divide gives null where nothing was sent, delivered or broadcast.
    return F.try_divide(F.col(top).cast("double"), F.col(bottom).cast("double"))


def protocol_summary(metrics: DataFrame, *, seeds_max: int) -> DataFrame:
    """Mean over seeds and its 95 % interval, for each metric of each cell.

    Sums are taken in the order of runs, so that the last bit does not depend on how many
    machines took part. One seed has no interval; no cell has more than ``seeds_max`` runs.
    """
    keys = ("run_id", *CELL, "number", "seed")
    names = [name for name in metrics.columns if name not in keys]
    doubles = metrics.select(
        *CELL, "number", *(F.col(name).cast("double").alias(name) for name in names)
    )
    long = doubles.unpivot([*CELL, "number"], names, "metric", "value").where("value is not null")
    means = _means(long, *CELL, "metric")
    squares = F.aggregate(
        "values", F.lit(0.0), lambda sum_, value: sum_ + (value - F.col("mean")) ** 2
    )
    deviation = F.sqrt(F.try_divide(squares, F.col("runs") - 1))
    half = _quantile(F.col("runs") - 1, seeds_max - 1) * deviation / F.sqrt(F.col("runs"))
    return means.withColumn("half", half).select(
        *CELL,
        "metric",
        "runs",
        "mean",
        (F.col("mean") - F.col("half")).alias("low"),
        (F.col("mean") + F.col("half")).alias("high"),
        "first",
    )


def _means(values: DataFrame, *keys: str, **more: Column) -> DataFrame:
    """The values of each group in the order of runs, how many they are, and their mean.

    ``first`` is the number of the group's first run, which gives tables their order.
    """
    ordered = F.sort_array(F.collect_list(F.struct("number", "value"))).getField("value")
    groups = values.groupBy(*keys).agg(
        ordered.alias("values"),
        F.min("number").alias("first"),
        *(column.alias(name) for name, column in more.items()),
    )
    total = F.aggregate("values", F.lit(0.0), lambda sum_, value: sum_ + value)
    return groups.withColumn("runs", F.size("values")).withColumn("mean", total / F.col("runs"))


def occupancy_by_protocol(runs: DataFrame, occupancy: DataFrame) -> DataFrame:
    """The occupancy of all runs of a cell, bin by bin: mean over runs, and maximum."""
    cells = runs.select("run_id", *CELL, "number")
    joined = occupancy.withColumn("value", F.col("held_mean")).join(F.broadcast(cells), "run_id")
    means = _means(joined, *CELL, "bin", held_max=F.max("held_max"))
    return means.select(*CELL, "bin", "runs", F.col("mean").alias("held_mean"), "held_max", "first")


def latency_by_protocol(runs: DataFrame, histogram: DataFrame) -> DataFrame:
    """The histograms of all runs of a cell added up."""
    cells = runs.select("run_id", *CELL, "number")
    joined = histogram.join(F.broadcast(cells), "run_id")
    return joined.groupBy(*CELL, "low_us", "high_us").agg(
        F.sum("deliveries").alias("deliveries"), F.min("number").alias("first")
    )


def _quantile(degrees: Column, degrees_max: int) -> Column:
    """The 95 % quantile of Student's t, null without a degree of freedom."""
    known = min(max(degrees_max, 1), DEGREES_MAX)
    table = F.array(*(F.lit(student_t(number)) for number in range(1, known + 1)))
    return F.when(degrees >= 1, F.element_at(table, F.least(degrees, F.lit(known))))


def student_t(degrees: int, share: float = 0.95) -> float:
    """The t that this share of Student's distribution lies within, on both sides."""
    low, high = 0.0, 1000.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if _within(middle, degrees) < share:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, degrees: int) -> float:
    """P(-t < T < t), by the finite sums for whole degrees of freedom."""
    angle = math.atan2(t, math.sqrt(degrees))
    cosine2 = math.cos(angle) ** 2
    odd = degrees % 2 == 1
    term = total = math.cos(angle) if odd else 1.0
    if degrees == 1:
        return 2 * angle / math.pi
    for k in range(2 if odd else 1, degrees - 1, 2):
        term *= cosine2 * k / (k + 1)
        total += term
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if odd else series
