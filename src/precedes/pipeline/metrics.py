"""Metrics of runs and of protocols, tables computed from tables.

A mean is over the runs of a cell in their order, added one after the other, so that it is the same
to the last bit on any machine.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.intervals import student_t
from precedes.pipeline import tables

KEYS: Final = ("run_id", *tables.CELL, "number", "seed")

# Metrics that are quotients of two columns, and null where the second one is 0.
RATIOS: Final = {
    "messages_per_packet": ("messages_sent", "packets"),
    "bytes_per_delivery": ("bytes_sent", "deliveries"),
    "packets_per_broadcast": ("packets", "broadcasts"),
    "violation_share": ("violating_deliveries", "deliveries"),
}


def run_metrics(runs: pa.Table, measures: pa.Table) -> pa.Table:
    """One row a finished run: its costs per message and packet, its errors, its latency.

    Metrics that need a trace are null for a run without one.
    """
    finished = runs.filter(pc.equal(runs["status"], "finished"))
    measured = measures.take(pc.index_in(finished["run_id"], measures["run_id"]))
    columns = []
    for name, kind in zip(tables.RUN_METRICS.names, tables.RUN_METRICS.types, strict=True):
        if name in RATIOS:
            top, bottom = (finished[of].cast(kind) for of in RATIOS[name])
            is_none = pc.equal(bottom, 0.0)
            columns.append(pc.if_else(is_none, pa.scalar(None, kind), pc.divide(top, bottom)))
        elif name == "waiting_ms_mean":
            delivery = finished["delivery_ms_mean"]
            columns.append(pc.subtract(delivery, finished["reception_ms_mean"]))
        else:
            columns.append((finished if name in finished.column_names else measured)[name])
    return pa.Table.from_arrays(columns, schema=tables.RUN_METRICS)


class Cells:
    """The cells that runs belong to, numbered in the order of the runs."""

    def __init__(self, runs: pa.Table) -> None:
        known: dict[tuple[Any, ...], int] = {}
        rows = zip(*(runs[name].to_pylist() for name in tables.CELL), strict=True)
        self.of_run = np.array([known.setdefault(row, len(known)) for row in rows], np.int64)
        self.names = [dict(zip(tables.CELL, row, strict=True)) for row in known]
        self.number = runs["number"].to_numpy()
        self._run_id = runs["run_id"]

    def places(self, data: pa.Table) -> NDArray[np.int64]:
        """For each row of a table, the run it belongs to."""
        return np.asarray(pc.index_in(data["run_id"], self._run_id), np.int64)


def protocol_summary(metrics: pa.Table) -> pa.Table:
    """Mean over seeds and its 95 % interval, for each metric of each cell; one seed has none."""
    cells = Cells(metrics)
    rows = []
    for name in metrics.column_names[len(KEYS) :]:
        there = np.asarray(metrics[name].is_valid())
        cell, number = cells.of_run[there], cells.number[there]
        value = np.asarray(metrics[name].drop_null(), np.float64)
        count = np.bincount(cell, minlength=len(cells.names))
        mean = np.bincount(cell, value, len(cells.names)) / np.maximum(count, 1)
        squares = np.bincount(cell, (value - mean[cell]) ** 2, len(cells.names))
        for at, first in zip(*np.unique(cell, return_index=True), strict=True):
            row = {**cells.names[at], "metric": name, "runs": int(count[at]), "mean": mean[at]}
            if count[at] > 1:
                deviation = math.sqrt(squares[at] / (count[at] - 1))
                half = student_t(int(count[at]) - 1) * deviation / math.sqrt(count[at])
                row |= {"low": mean[at] - half, "high": mean[at] + half}
            rows.append((int(number[first]), name, row))
    ordered = sorted(rows, key=lambda row: row[:2])
    return tables.table([row for *_, row in ordered], tables.PROTOCOL_SUMMARY)


def latency_by_protocol(runs: pa.Table, histogram: pa.Table) -> pa.Table:
    """The histograms of all runs of a cell added up."""
    cells = Cells(runs)
    run = cells.places(histogram)
    cell = pa.table(
        {
            "cell": cells.of_run[run],
            "number": cells.number[run],
            **{name: histogram[name] for name in ("low_us", "high_us", "deliveries")},
        }
    )
    sums = cell.group_by(["cell", "low_us", "high_us"]).aggregate(
        [("deliveries", "sum"), ("number", "min")]
    )
    sums = sums.sort_by([("number_min", "ascending"), ("low_us", "ascending")])
    rows = [
        {**cells.names[row["cell"]], **row, "deliveries": row["deliveries_sum"]}
        for row in sums.to_pylist()
    ]
    return tables.table(rows, tables.LATENCY_BY_PROTOCOL)


def occupancy_by_protocol(runs: pa.Table, occupancy: pa.Table) -> pa.Table:
    """The occupancy of all runs of a cell, bin by bin: mean over runs, and maximum."""
    cells = Cells(runs)
    run = cells.places(occupancy)
    order = np.argsort(cells.number[run], kind="stable")
    run = run[order]
    number = np.asarray(occupancy["bin"])[order]
    bins = int(number.max(initial=0)) + 1
    keys, first, group = np.unique(
        cells.of_run[run] * bins + number, return_index=True, return_inverse=True
    )
    count = np.bincount(group, minlength=keys.size)
    total = np.bincount(group, np.asarray(occupancy["held_mean"])[order], keys.size)
    most = np.zeros(keys.size, np.int64)
    np.maximum.at(most, group, np.asarray(occupancy["held_max"])[order])
    shown = np.lexsort((keys % bins, cells.number[run[first]]))
    rows = [
        {
            **cells.names[keys[at] // bins],
            "bin": int(keys[at] % bins),
            "runs": int(count[at]),
            "held_mean": total[at] / count[at],
            "held_max": int(most[at]),
        }
        for at in shown
    ]
    return tables.table(rows, tables.OCCUPANCY_BY_PROTOCOL)
