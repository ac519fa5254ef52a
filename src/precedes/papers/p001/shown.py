"""Tables and figures of Rodrigues et al. 2018, published beside measured."""

from __future__ import annotations

from typing import Any

from precedes.papers.measured import Results, Run, measure
from precedes.papers.p001.experiments import PROFILE, PROFILED, SIZES, TREES
from precedes.papers.p001.metrics import COLUMNS, cell, latency_ms, messages, runs_of
from precedes.papers.p001.published import CASES, PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    published_series,
)


def tables(results: Results) -> list[Table]:
    """Tables 2 to 5, each cell published beside measured."""
    header = [text for case in CASES for text in (f"{case}, published", f"{case}, measured")]
    found = []
    for item, column in COLUMNS.items():
        first, numbers = ("trees", TREES) if column.experiment == "trees" else ("processes", SIZES)
        rows = []
        for number in numbers:
            row: list[Cell] = [number]
            for case in CASES:
                row.append(Printed(PUBLISHED[item][case][number]))
                row.append(cell(results, item, case, number))
            rows.append(tuple(row))
        found.append(Table(name=item, header=(first, *header), rows=tuple(rows)))
    return found


def figures(results: Results) -> list[Figure]:
    """Figure 3 from the fault-free runs, and Figure 4 from those in which p0 is watched."""
    return [
        _figure_3(results, "Figure 3, latency", "Table 3, FF", latency_ms, "latency"),
        _figure_3(results, "Figure 3, messages", "Table 4, FF", messages, "messages per process"),
        _figure_4(results, "Figure 4, items", "items", "items in a packet"),
        _figure_4(results, "Figure 4, bytes", "bytes", "bytes of a packet"),
    ]


def _figure_3(results: Results, name: str, item: str, read: Any, label: str) -> Figure:
    def share(nodes: int) -> int:
        return 1 if read is latency_ms else nodes

    series: list[Series] = []
    for case in CASES:
        points = [
            (
                float(nodes),
                measure(
                    lambda run: read(run) / share(run["nodes"]),
                    runs_of(results, "fault-free", case, nodes=nodes),
                ),
            )
            for nodes in SIZES
        ]
        series.append(measured_series(case, points))
    for case in CASES:
        printed = [(float(n), PUBLISHED[item][case][n] / share(n)) for n in SIZES]
        series.append(published_series(case, printed))
    return Figure(
        name=name,
        title=f"One broadcast by each process, fault-free: {label}",
        x_label="processes",
        y_label=label,
        series=tuple(series),
        alt=f"The {label} of the five scenarios over the number of processes, measured and "
        "published.",
        log_x=True,
        log_y=True,
    )


def _figure_4(results: Results, name: str, what: str, label: str) -> Figure:
    series: list[Series] = []
    for case in PROFILED:
        runs = runs_of(results, "profile", case)
        points = []
        for place in range(PROFILE["profile_slices"]):
            if not all(run["extra"][f"profile_packets_{place}"] for run in runs):
                continue

            def read(run: Run, place: int = place) -> float:
                extra = run["extra"]
                return float(extra[f"profile_{what}_{place}"] / extra[f"profile_packets_{place}"])

            points.append((place * PROFILE["profile_ms"], measure(read, runs)))
        series.append(measured_series(case, points))
    nodes = results["profile"][0]["nodes"]
    return Figure(
        name=name,
        title=f"What p0 sends over time, {nodes} processes",
        x_label="time",
        y_label=label,
        series=tuple(series),
        alt=f"The mean {label} that process 0 sends, over time, for SMALL2 and BIG2.",
    )
