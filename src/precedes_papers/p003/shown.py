"""Tables, figures and headlines of "Improving accuracy", published and measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from precedes_papers.measured import Results
from precedes_papers.p003 import PUBLISHED, metrics
from precedes_papers.p003.experiments import (
    ENOUGH,
    ENTRIES,
    LIMITS,
    NODES,
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING,
    RISING_ENTRIES,
    RISING_LOADS,
    TABLE_2_RUNS,
)
from precedes_papers.p003.metrics import COUNTED
from precedes_papers.shown import (
    Cell,
    Figure,
    Headlines,
    Printed,
    Series,
    Statement,
    Table,
    measured_series,
    model_series,
    published_series,
)


def _senders(key: str) -> dict[str, str]:
    names = {"periodic": "periodic", "poisson": "Poisson"}
    return {f"{names[name]} senders": key.format(name) for name in READINGS}


HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says="of 100,000 messages, {} are out of causal order with the clock alone",
            short="out of order, clock alone",
            item="Table 1",
            keys=_senders("out of order, detector none, {} senders, messages"),
        ),
        Statement(
            says="with the hash detector {} are",
            short="out of order, hash detector",
            item="Table 1",
            keys=_senders("out of order, hash, {} senders, messages"),
        ),
        Statement(
            says="{} of those out of order are noticed by the detector of Mostefaoui and Weiss",
            short="noticed by Mostefaoui and Weiss",
            item="Table 1",
            keys=_senders(
                "of those out of order, detected by Mostefaoui and Weiss, %, {} senders, messages"
            ),
            unit="%",
        ),
        Statement(
            says=f"among {NODES[-1]:,} processes, {{}} in 10,000 deliveries ask for a message",
            short="requests in 10,000 deliveries",
            item="Table 2",
            keys={
                whose: f"requests, 1e-4 of deliveries, {NODES[-1]} processes, {whose}"
                for whose in TABLE_2_RUNS.values()
            },
        ),
    ),
    figures=("Requests by processes", "Errors over load, 200 nodes"),
)


def tables(results: Results) -> list[Table]:
    """Tables 1 and 2, published and measured, and what is not published."""
    counts = [(reading, counted) for reading in READINGS for counted in COUNTED]
    table_1: list[tuple[Cell, ...]] = []
    for detector, value in PUBLISHED["Table 1"].items():
        here = [metrics.out_of_order(results, *count, detector) for count in counts]
        table_1.append((detector, Printed(value), *here))
    table_2: list[tuple[Cell, ...]] = []
    for nodes, value in PUBLISHED["Table 2"].items():
        rates = [metrics.request_rate(results, name, 1e4, nodes=nodes) for name in TABLE_2_RUNS]
        table_2.append((nodes, Printed(value), *rates))
    hashes = [
        (limit, metrics.request_rate(results, "limits", 1.0, hashes=limit)) for limit in LIMITS
    ]
    senders = (f"{reading} senders, {counted}" for reading, counted in counts)
    return [
        Table(
            "Table 1",
            ("error detector", "published", *senders),
            tuple(table_1),
            "Messages delivered out of causal order, of 100,000 broadcasts among 200 processes "
            "with 50 entries; counts of shorter runs are scaled to as many. Of Mostefaoui's "
            "detector: those that it did not tag.",
        ),
        Table(
            "Table 2",
            ("processes", "published", *TABLE_2_RUNS.values()),
            tuple(table_2),
            "Requests for dependencies, in 1e-4 of deliveries, at 110 broadcasts/s, with the "
            "protocol as printed: asked at once, not tested again. A test may compare 100 hashes "
            f"by peeling, {ENOUGH:,} with the search as printed.",
        ),
        Table(
            "Hashes",
            ("hashes a test may compare", "requests for a delivery"),
            tuple(hashes),
            "The protocol and its search as printed, 100 processes with 50 entries at 110 "
            "broadcasts/s. With few hashes tests fail, and what waits for an answer makes others "
            "fail.",
        ),
        Table(
            "Errors over load",
            ("nodes", "entries", "broadcasts/s", "measured", "formula"),
            tuple(metrics.errors(results)),
            "The share of deliveries out of causal order without a detector, and what the formula "
            "of precedes size expects. Errors come in clusters, so few seeds leave wide intervals.",
        ),
    ]


def figures(results: Results) -> list[Figure]:
    """Requests over load and over the group, at higher loads, and errors over load."""

    def requests(
        label: str, name: str, unit: float, axis: str, places: Iterable[float], **at: int
    ) -> Series:
        """Requests of an experiment over the places of an axis."""
        points = [(x, metrics.request_rate(results, name, unit, **{axis: x}, **at)) for x in places]
        return measured_series(label, points)

    def figure_1(search: str, name: str) -> Figure:
        """The published one is a plot without a table: there are no values to compare."""
        loads = REQUEST_LOADS[search]
        lines = [
            requests(f"{n} entries", f"figure-1-{search}", 1e4, "rate", loads, entries=n)
            for n in REQUEST_ENTRIES
        ]
        return Figure(
            name=name,
            title="Requests for dependencies, 200 nodes",
            x_label="broadcasts per second, whole group",
            y_label="requests, 1e-4 of deliveries",
            series=tuple(lines),
            alt="Requests for dependencies over the load, for clocks of 20, 25 and 50 entries: "
            "more with the load, fewer with a larger clock; small clocks tip over at high loads.",
            log_y=True,
        )

    by_processes = [
        requests(label, name, 1e4, "nodes", NODES) for name, label in TABLE_2_RUNS.items()
    ]
    rising = [requests(label, name, 1.0, "rate", RISING_LOADS) for name, label in RISING.items()]
    return [
        figure_1("peeling", "Figure 1"),
        figure_1("literal", "Figure 1, search as printed"),
        Figure(
            name="Requests by processes",
            title="Requests for dependencies, 110 broadcasts/s, 50 entries",
            x_label="processes",
            y_label="requests, 1e-4 of deliveries",
            series=(
                *by_processes,
                published_series("published", list(PUBLISHED["Table 2"].items())),
            ),
            alt="The rates of Table 2 over the number of processes: with Poisson senders they "
            "fall, with periodic ones they stay about the same, and the published ones go up and "
            "down.",
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
    measured, formula = [], []
    for entries in ENTRIES:
        points = [
            one for one in metrics.errors(results) if (one.nodes, one.entries) == (200, entries)
        ]
        measured.append(
            measured_series(f"{entries} entries", [(one.rate, one.measured) for one in points])
        )
        formula.append(
            model_series(
                f"{entries} entries, formula", [(one.rate, one.expected) for one in points]
            )
        )
    return Figure(
        name="Errors over load, 200 nodes",
        title="Deliveries out of causal order, 200 nodes",
        x_label="broadcasts per second, whole group",
        y_label="share of deliveries",
        series=(*measured, *formula),
        alt="The share of deliveries out of causal order over the load, for clocks of 25, 50 "
        "and 100 entries, beside the formula's.",
        log_y=True,
    )
