"""Tables and figures of de Araujo et al. 2018, published beside measured."""

from __future__ import annotations

from precedes.papers.measured import Results
from precedes.papers.p000 import metrics
from precedes.papers.p000.experiments import READINGS, SIZES
from precedes.papers.p000.metrics import MIDDLE, TABLE_2, TABLE_3
from precedes.papers.p000.published import PUBLISHED
from precedes.papers.shown import Cell, Figure, Printed, Table, measured_series, published_series


def tables(results: Results) -> list[Table]:
    """Tables 1 to 3."""
    first: list[tuple[Cell, ...]] = []
    for nodes, (alone, _, fewer, aggregated) in PUBLISHED["Table 1"].items():
        first.append(
            (
                nodes,
                Printed(alone),
                metrics.measured_at(results, metrics.packets, "alone", nodes),
                Printed(fewer),
                *(
                    metrics.of_reading(results, name, metrics.fewer_packets, nodes)
                    for name in READINGS
                ),
                Printed(aggregated),
                *(
                    metrics.of_reading(results, name, metrics.aggregated, nodes)
                    for name in READINGS
                ),
            )
        )
    second: list[tuple[Cell, ...]] = [
        (
            name,
            Printed(PUBLISHED["Table 2"][name]),
            *(
                metrics.of_reading(results, one, metrics.with_messages(*bounds), MIDDLE)
                for one in READINGS
            ),
        )
        for name, bounds in TABLE_2.items()
    ]
    pair = ("published", "A", "B")
    return [
        Table(
            name="Table 1",
            header=(
                "nodes",
                "packets without, published",
                "measured",
                *(f"% fewer, {name}" for name in pair),
                *(f"% aggregated, {name}" for name in pair),
            ),
            rows=tuple(first),
            note="A: starts uniform on (0, 500), delays N(100, 25); B: (0, 600) and N(100, 50).",
        ),
        Table("Table 2", ("messages", *pair), tuple(second), "% of packets, 256 nodes."),
        Table(
            name="Table 3",
            header=("bytes", "with, published", "with, A", "without, published", "without, A"),
            rows=_table_3(results),
            note="% of packets, 256 nodes. The printed columns have changed places, as the "
            "paper's text has them.",
        ),
    ]


def _table_3(results: Results) -> tuple[tuple[Cell, ...], ...]:
    found: list[tuple[Cell, ...]] = []
    for name, bounds in TABLE_3.items():
        with_, without = PUBLISHED["Table 3"][name]
        size = metrics.with_bytes(*bounds)
        found.append(
            (
                name,
                Printed(with_),
                metrics.measured_at(results, size, "reading-a", MIDDLE),
                Printed(without),
                metrics.measured_at(results, size, "alone", MIDDLE),
            )
        )
    return tuple(found)


def figures(results: Results) -> list[Figure]:
    """Table 1 as a plot, and Figure 7."""
    fewer = [
        measured_series(
            f"reading {name}",
            [
                (nodes, metrics.of_reading(results, name, metrics.fewer_packets, nodes))
                for nodes in SIZES
            ],
        )
        for name in READINGS
    ]
    printed = [(nodes, row[2]) for nodes, row in PUBLISHED["Table 1"].items()]
    latency = [
        measured_series(
            f"{what}, {how} aggregation",
            [(nodes, metrics.measured_at(results, value, name, nodes)) for nodes in (8, *SIZES)],
        )
        for what, value in (("reception", metrics.reception), ("delivery", metrics.delivery))
        for how, name in (("with", "reading-a"), ("without", "alone"))
    ]
    return [
        Figure(
            name="Packets saved",
            title="Packets saved by aggregation",
            x_label="nodes",
            y_label="% fewer packets",
            series=(*fewer, published_series("paper", printed)),
            alt="The share of packets that aggregation saves rises with the number of nodes; the "
            "paper's lies between the two readings for most sizes.",
            log_x=True,
        ),
        Figure(
            name="Figure 7",
            title="Mean latency, reading A",
            x_label="nodes",
            y_label="units of time",
            series=tuple(latency),
            alt="Reception and delivery latency rise with the logarithm of the nodes, with and "
            "without aggregation; at 1,024 nodes both are lower with it.",
            log_x=True,
        ),
    ]
