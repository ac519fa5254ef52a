"""Tables and figures of Wilhelm et al. 2023, published beside measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from precedes.papers.measured import Results, Run, measure, select
from precedes.papers.p002 import metrics
from precedes.papers.p002.experiments import LOADS, LOADS_OVER_TIME, TARGETS
from precedes.papers.p002.metrics import COUNTS
from precedes.papers.p002.published import PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    published_series,
)

ERRORS: Final = "deliveries out of order, in 10 s"


def tables(results: Results) -> list[Table]:
    """Errors beside the published ones, sizes and measured errors, bytes of messages."""
    sized: list[tuple[Cell, ...]] = []
    for target in TARGETS:
        for load in LOADS:
            runs = select(results["figure-5"], error=target, rate=load)
            sized.append(
                (target, load, measure(metrics.entries, runs), measure(metrics.share, runs))
            )
    loads: list[tuple[Cell, ...]] = []
    for name in LOADS_OVER_TIME:
        for label, over in (("dcs", results[name]), ("fixed", results[f"{name}-fixed"])):
            mean = measure(metrics.entries, over) if label == "dcs" else None
            wrong = [measure(metrics.out_of_order(count), over) for count in COUNTS]
            loads.append((name, label, Printed(PUBLISHED[name][label]), *wrong, mean))
    group = results["bell"][0]["nodes"]
    return [
        Table(
            name="Figure 5, measured",
            header=("target", "broadcasts/s", "entries", "share out of order"),
            rows=tuple(sized),
            note="2,000 processes; clocks that begin with the size that the load asks for.",
        ),
        Table(
            name="Loads over time",
            header=("load", "clock", "published", "deliveries", "messages", "entries"),
            rows=tuple(loads),
            note=f"What was out of order in a run of {group:,} processes. The fixed clocks "
            "have 260 and 97 entries.",
        ),
        Table(
            name="Bytes of a message",
            header=("processes", "broadcasts/s", "clock", "bytes added"),
            rows=tuple(
                (nodes, load, label, measure(metrics.header_bytes, runs))
                for nodes, load, label, runs in metrics.byte_runs(results)
            ),
            note="Packets of rounds and requests included. Of the three, the fixed clock errs.",
        ),
    ]


def figures(results: Results) -> list[Figure]:
    """Sizes and measured errors over the load, clocks and errors over time."""
    found = _figure_5(results)
    for name, figure in (("bell", "Figure 7"), ("random", "Figure 9")):
        found.append(_over_time(results, figure, name, (name,), "entries", "entries of a clock"))
    for name in LOADS_OVER_TIME:
        both = (name, f"{name}-fixed")
        found.append(_over_time(results, f"Errors, {name} load", name, both, "violations", ERRORS))
    names = ("balanced", "unbalanced")
    found.append(_over_time(results, "Figure 10", "shifted", names, "violations", ERRORS))
    return found


def _figure_5(results: Results) -> list[Figure]:
    runs = results["figure-5"]

    def over_loads(read: Callable[[Run], float]) -> list[Series]:
        return [
            measured_series(
                f"{target:g}",
                [(load, measure(read, select(runs, error=target, rate=load))) for load in LOADS],
            )
            for target in TARGETS
        ]

    asked = [published_series(f"{target:g}", [(x, target) for x in LOADS]) for target in TARGETS]
    return [
        Figure(
            name="Figure 5",
            title="Entries of a clock by load and share of errors, 2,000 nodes",
            x_label="broadcasts per second, whole group",
            y_label="entries",
            series=tuple(over_loads(metrics.entries)),
            alt="Entries of the clock over the load for five shares of errors: more with the load, "
            "faster than linearly, and more for fewer errors.",
            log_y=True,
        ),
        Figure(
            name="Figure 5, errors",
            title="Share of deliveries out of order with these clocks, and the share aimed at",
            x_label="broadcasts per second, whole group",
            y_label="share out of order",
            series=(*over_loads(metrics.share), *asked),
            alt="Measured shares of deliveries out of causal order over the load for five targets, "
            "beside the targets. Where no delivery was out of order there is no point.",
            log_y=True,
        ),
    ]


def _over_time(
    results: Results, figure: str, load: str, names: tuple[str, ...], series: str, label: str
) -> Figure:
    lines = []
    for name in names:
        end_s = int(results[name][0]["scenario"]["duration_s"]) // 10 * 10
        points = [
            (
                start_s + 5.0,
                measure(metrics.over_intervals(series, start_s, start_s + 10), results[name]),
            )
            for start_s in range(0, end_s, 10)
        ]
        lines.append(measured_series(name, points))
    return Figure(
        name=figure,
        title=f"{label[0].upper()}{label[1:]}, {load} load",
        x_label="seconds",
        y_label=label,
        series=tuple(lines),
        alt=f"{label} over time under the {load} load, for {' and '.join(names)}.",
    )
