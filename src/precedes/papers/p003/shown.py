"""Tables and figures of "Improving accuracy", published beside measured."""

from __future__ import annotations

from precedes.papers.measured import Results
from precedes.papers.p003 import metrics
from precedes.papers.p003.experiments import (
    ENTRIES,
    LOADS,
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING_ENTRIES,
    RISING_LOADS,
)
from precedes.papers.p003.metrics import COUNTED
from precedes.papers.p003.published import PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    model_series,
)


def tables(results: Results) -> list[Table]:
    """Tables 1 and 2, published beside measured, and the measured rates by the formula."""
    first: list[tuple[Cell, ...]] = []
    for detector, value in PUBLISHED["Table 1"].items():
        here = [
            metrics.out_of_order(results, reading, counted, detector)
            for reading in READINGS
            for counted in COUNTED
        ]
        first.append((detector, Printed(value), *here))
    header = [f"{reading} senders, {counted}" for reading in READINGS for counted in COUNTED]
    measured = {
        nodes: metrics.request_rate(results, "table-2", 1e4, nodes=nodes)
        for nodes in metrics.nodes_run(results)
    }
    second: list[tuple[Cell, ...]] = [
        (nodes, Printed(value), measured.get(nodes))
        for nodes, value in PUBLISHED["Table 2"].items()
    ]
    return [
        Table(
            name="Table 1",
            header=("error detector", "published", *header),
            rows=tuple(first),
            note="Messages delivered out of causal order, of 100,000 broadcasts among 200 "
            "processes with 50 entries; counts of shorter runs are scaled to as many. Of "
            "Mostefaoui's detector: those that it did not tag.",
        ),
        Table(
            name="Table 2",
            header=("processes", "published", "measured"),
            rows=tuple(second),
            note="Requests for dependencies, in 1e-4 of deliveries, at 110 broadcasts/s, as "
            "printed: asked at once, not tested again. Large groups run with --full.",
        ),
        _error_table(results),
    ]


def _error_table(results: Results) -> Table:
    """Errors over load as a table."""
    rates: list[tuple[Cell, ...]] = [
        (
            nodes,
            entries,
            rate,
            metrics.error_share(results, name, rate, entries),
            metrics.expected_errors(rate, entries, nodes),
        )
        for name, nodes, points in metrics.error_settings()
        for rate, entries in points
    ]
    return Table(
        name="Errors over load",
        header=("nodes", "entries", "broadcasts/s", "measured", "formula"),
        rows=tuple(rates),
        note="The share of deliveries out of causal order without a detector, and what the "
        "formula of precedes size expects. Errors come in clusters, so few seeds leave wide "
        "intervals.",
    )


def figures(results: Results) -> list[Figure]:
    """Requests over load, the same for the printed protocol, and errors over load."""
    asked = [
        measured_series(
            f"{entries} entries",
            [
                (rate, metrics.request_rate(results, "figure-1", 1e4, rate=rate, entries=entries))
                for rate in REQUEST_LOADS
            ],
        )
        for entries in REQUEST_ENTRIES
    ]
    rising = [
        measured_series(
            label,
            [
                (rate, metrics.request_rate(results, f"rising-{name}", 1.0, rate=rate))
                for rate in RISING_LOADS
            ],
        )
        for name, label in (("printed", "as printed"), ("grace", "with grace and retries"))
    ]
    return [
        Figure(
            name="Figure 1",
            title="Requests for dependencies, 500 nodes",
            x_label="broadcasts per second, whole group",
            y_label="requests, 1e-4 of deliveries",
            series=tuple(asked),
            alt="Requests for dependencies over the load, for clocks of 20, 25 and 50 entries: "
            "more with the load, fewer with a larger clock.",
        ),
        Figure(
            name="Rising load, 100 nodes",
            title=f"Requests as the load rises, {RISING_ENTRIES} entries, 100 nodes",
            x_label="broadcasts per second, whole group",
            y_label="requests for a delivery",
            series=tuple(rising),
            alt="Requests for a delivery over the load: as printed they jump from a few in "
            "thousand to half of all deliveries, because messages that wait for an answer are "
            "concurrent to more others; with grace and retries they stay few.",
        ),
        _error_figure(results),
    ]


def _error_figure(results: Results) -> Figure:
    series: list[Series] = []
    for entries in ENTRIES:
        points = [(rate, metrics.error_share(results, "load", rate, entries)) for rate in LOADS]
        series.append(measured_series(f"{entries} entries", points))
    for entries in ENTRIES:
        formula = [(rate, metrics.expected_errors(rate, entries, 200)) for rate in LOADS]
        series.append(model_series(f"{entries} entries, formula", formula))
    return Figure(
        name="Errors over load, 200 nodes",
        title="Deliveries out of causal order, 200 nodes",
        x_label="broadcasts per second, whole group",
        y_label="share of deliveries",
        series=tuple(series),
        alt="The share of deliveries out of causal order over the load, for clocks of 25, 50 "
        "and 100 entries, beside the formula's.",
        log_y=True,
    )
