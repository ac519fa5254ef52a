"""Tables and figures of "Improving accuracy", published beside measured."""

from __future__ import annotations

from precedes.papers.measured import Measured, Results
from precedes.papers.p003 import metrics
from precedes.papers.p003.experiments import (
    ENOUGH,
    ENTRIES,
    LIMITS,
    LOADS,
    NODES,
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING_ENTRIES,
    RISING_LOADS,
    TABLE_2_RUNS,
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
    published_series,
)


def tables(results: Results) -> list[Table]:
    """Tables 1 and 2, published beside measured, and what is not printed."""
    return [
        _table_1(results),
        _table_2(results),
        _hash_table(results),
        _error_table(results),
    ]


def _table_1(results: Results) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for detector, value in PUBLISHED["Table 1"].items():
        here = [
            metrics.out_of_order(results, reading, counted, detector)
            for reading in READINGS
            for counted in COUNTED
        ]
        rows.append((detector, Printed(value), *here))
    header = [f"{reading} senders, {counted}" for reading in READINGS for counted in COUNTED]
    return Table(
        name="Table 1",
        header=("error detector", "published", *header),
        rows=tuple(rows),
        note="Messages delivered out of causal order, of 100,000 broadcasts among 200 "
        "processes with 50 entries; counts of shorter runs are scaled to as many. Of "
        "Mostefaoui's detector: those that it did not tag.",
    )


def _table_2(results: Results) -> Table:
    return Table(
        name="Table 2",
        header=("processes", "published", *TABLE_2_RUNS.values()),
        rows=tuple(
            (
                nodes,
                Printed(value),
                *(metrics.request_rate(results, name, 1e4, nodes=nodes) for name in TABLE_2_RUNS),
            )
            for nodes, value in PUBLISHED["Table 2"].items()
        ),
        note="Requests for dependencies, in 1e-4 of deliveries, at 110 broadcasts/s, with the "
        "protocol as printed: asked at once, not tested again. A test may compare 100 hashes by "
        f"peeling, {ENOUGH:,} with the search as printed.",
    )


def _hash_table(results: Results) -> Table:
    return Table(
        name="Hashes",
        header=("hashes a test may compare", "requests for a delivery"),
        rows=tuple(
            (limit, metrics.request_rate(results, "limits", 1.0, hashes=limit)) for limit in LIMITS
        ),
        note="The protocol and its search as printed, 100 processes with 50 entries at 110 "
        "broadcasts/s. With few hashes tests fail, and what waits for an answer makes others fail.",
    )


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
    """Requests over load and over the group, at higher loads, and errors over load."""
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
        _figure_1(results, "peeling", "Figure 1"),
        _figure_1(results, "literal", "Figure 1, search as printed"),
        _table_2_figure(results),
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


def _figure_1(results: Results, search: str, name: str) -> Figure:
    """Print's is a plot without a table: there are no values to set beside."""

    def rate_at(rate: float, entries: int) -> Measured:
        return metrics.request_rate(results, f"figure-1-{search}", 1e4, rate=rate, entries=entries)

    return Figure(
        name=name,
        title="Requests for dependencies, 200 nodes",
        x_label="broadcasts per second, whole group",
        y_label="requests, 1e-4 of deliveries",
        series=tuple(
            measured_series(
                f"{entries} entries",
                [(rate, rate_at(rate, entries)) for rate in REQUEST_LOADS[search]],
            )
            for entries in REQUEST_ENTRIES
        ),
        alt="Requests for dependencies over the load, for clocks of 20, 25 and 50 entries: "
        "more with the load, fewer with a larger clock; small clocks tip over at high loads.",
        log_y=True,
    )


def _table_2_figure(results: Results) -> Figure:
    """Table 2 as a plot: whether it varies is easier seen."""
    measured = [
        measured_series(
            label,
            [(nodes, metrics.request_rate(results, name, 1e4, nodes=nodes)) for nodes in NODES],
        )
        for name, label in TABLE_2_RUNS.items()
    ]
    return Figure(
        name="Requests by processes",
        title="Requests for dependencies, 110 broadcasts/s, 50 entries",
        x_label="processes",
        y_label="requests, 1e-4 of deliveries",
        series=(
            *measured,
            published_series("published", list(PUBLISHED["Table 2"].items())),
        ),
        alt="The rates of Table 2 over the number of processes: with Poisson senders they fall, "
        "with periodic ones they stay about the same, and the published ones go up and down.",
    )


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
