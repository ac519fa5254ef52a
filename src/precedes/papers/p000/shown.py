"""Tables and figures of de Araujo et al. 2018, published beside measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from precedes.papers.measured import Results
from precedes.papers.p000 import metrics
from precedes.papers.p000.experiments import (
    LARGEST,
    MIDDLE,
    PACKETS_SIZES,
    READINGS,
    SHARED_SIZES,
    SIZES,
    SMALLEST,
)
from precedes.papers.p000.metrics import (
    FIGURE_6,
    FIGURE_6_STEPS,
    FIGURE_9_STEPS,
    TABLE_2,
    TABLE_3,
    Read,
    compared,
    measured_at,
)
from precedes.papers.p000.published import PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    published_series,
)

# Kinds of runs as they are called here.
HOW = {"with": "with", "alone": "without"}


def tables(results: Results) -> list[Table]:
    """Tables 1 to 3, and the shares printed with Figure 6."""
    return [*_table_1(results), _table_2(results), _table_3(results), _figure_6_values(results)]


def figures(results: Results) -> list[Figure]:
    """Figures 1 and 6 to 11, and Table 1 as a plot."""
    return [
        _saved(results),
        _figure_1(results),
        _figure_6(results),
        *(_figure_7(results, reading) for reading in READINGS),
        *(_figure_8(results, reading) for reading in READINGS),
        _figure_9(results),
        _figure_10(results),
        *(_figure_11(results, reading) for reading in READINGS),
    ]


def _header(*groups: str) -> tuple[str, ...]:
    return tuple(f"{group}, {name}" for group in groups for name in ("published", *READINGS))


def _cells(
    results: Results, published: float, read: Read, kind: str = "with", nodes: int = MIDDLE
) -> tuple[Cell, ...]:
    """A published value and what each reading gives."""
    return (
        Printed(published),
        *(measured_at(results, read, kind, reading, nodes) for reading in READINGS),
    )


def _table_1(results: Results) -> list[Table]:
    counts: list[tuple[Cell, ...]] = []
    shares: list[tuple[Cell, ...]] = []
    for nodes, (alone, together, fewer, aggregated) in PUBLISHED["Table 1"].items():
        packets = measured_at(results, metrics.packets, "alone", "A", nodes)
        cells = _cells(results, together, metrics.packets, nodes=nodes)
        counts.append((nodes, Printed(alone), packets, *cells))
        saved = _cells(results, fewer, metrics.fewer_packets, nodes=nodes)
        cells = _cells(results, aggregated, metrics.aggregated, nodes=nodes)
        shares.append((nodes, *saved, *cells))
    header = ("nodes", "without, published", "without, measured", *_header("with"))
    return [
        Table("Table 1", header, tuple(counts), "Packets."),
        Table(
            name="Table 1, shares",
            header=("nodes", *_header("% fewer", "% aggregated")),
            rows=tuple(shares),
            note="Packets saved, and packets with more than one message.",
        ),
    ]


def _table_2(results: Results) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, bounds in TABLE_2.items():
        cells = _cells(results, PUBLISHED["Table 2"][name], metrics.with_messages(*bounds))
        third: tuple[Cell, ...] = (None,) * (1 + len(READINGS))
        if name in PUBLISHED["Table 2, aggregated"]:
            share = PUBLISHED["Table 2, aggregated"][name]
            third = _cells(results, share, metrics.of_aggregated(*bounds))
        rows.append((name, *cells, *third))
    header = ("messages", *_header("% of all", "% of aggregated"))
    return Table("Table 2", header, tuple(rows), "Packets of 256 nodes.")


def _table_3(results: Results) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, bounds in TABLE_3.items():
        with_, without = PUBLISHED["Table 3"][name]
        size = metrics.with_bytes(*bounds)
        alone = _cells(results, without, size, "alone")
        rows.append((name, *_cells(results, with_, size), *alone))
    return Table(
        name="Table 3",
        header=("bytes", *_header("with", "without")),
        rows=tuple(rows),
        note="% of packets, 256 nodes. The printed columns have changed places, as the paper's "
        "text has them.",
    )


def _figure_6_values(results: Results) -> Table:
    values = {name: metrics.needing(key) for name, key in FIGURE_6.items()}
    values |= {"over 12": metrics.needing_over_12, "most": metrics.extra("dependencies_max")}
    rows = ((name, *_cells(results, PUBLISHED["Figure 6"][name], values[name])) for name in values)
    note = "% of messages with so many dependencies, and the most of a message."
    return Table("Figure 6, values", ("dependencies", *_header("%")), tuple(rows), note)


def _over(
    results: Results,
    label: str,
    kind: str,
    reading: str,
    points: Iterable[tuple[float, Read]],
    nodes: int = MIDDLE,
) -> Series:
    """A line of these runs: places on the x axis, and what is read there."""
    found = [(x, measured_at(results, read, kind, reading, nodes)) for x, read in points]
    return measured_series(label, found)


def _by_nodes(
    results: Results, label: str, read: Read, kind: str, reading: str, sizes: Sequence[int]
) -> Series:
    """One quantity of these runs over the number of nodes."""
    found = [(nodes, measured_at(results, read, kind, reading, nodes)) for nodes in sizes]
    return measured_series(label, found)


def _saved(results: Results) -> Figure:
    fewer = [
        _by_nodes(results, f"reading {name}", metrics.fewer_packets, "with", name, SIZES)
        for name in READINGS
    ]
    printed = [(nodes, row[2]) for nodes, row in PUBLISHED["Table 1"].items()]
    return Figure(
        name="Packets saved",
        title="Packets saved by aggregation (Table 1)",
        x_label="nodes",
        y_label="% fewer packets",
        series=(*fewer, published_series("published", printed)),
        alt="The share of packets that aggregation saves rises with the number of nodes under all "
        "readings, as in the paper.",
        log_x=True,
    )


def _figure_1(results: Results) -> Figure:
    points = [
        (100 * (part + 0.5) / metrics.PARTS, metrics.reception_of_part(part))
        for part in range(metrics.PARTS)
    ]
    series = [
        _over(results, f"{how}, {reading}", kind, reading, points)
        for kind, how in (("shared", "one tree"), ("with", "a tree for each"))
        for reading in READINGS
    ]
    return Figure(
        name="Figure 1",
        title="Reception latency over time, 256 nodes",
        x_label="% of the broadcasts before it",
        y_label="units of time",
        series=tuple(series),
        alt="With one tree for all, messages are received the later the later they are broadcast; "
        "with a tree for each source all take about the same time.",
    )


def _figure_6(results: Results) -> Figure:
    points = [(low, metrics.depending_on(low, high)) for low, high in FIGURE_6_STEPS]
    series = [_over(results, f"reading {name}", "with", name, points) for name in READINGS]
    low = {"0": 0, "1 to 4": 1, "5 to 9": 5}
    printed = [(low[name], PUBLISHED["Figure 6"][name]) for name in low]
    return Figure(
        name="Figure 6",
        title="Causal dependencies of a message, 256 nodes",
        x_label="dependencies, from",
        y_label="% of messages",
        series=(*series, published_series("published", printed)),
        alt="Steps of five dependencies, the first for none, the second for one to four: about a "
        "quarter of the messages has none, and shares fall from the second step on, most steeply "
        "under reading C, as in the paper.",
    )


def _figure_7(results: Results, reading: str) -> Figure:
    series = [
        _by_nodes(results, f"{what}, {how} aggregation", value, kind, reading, (SMALLEST, *SIZES))
        for what, value in (("reception", metrics.reception), ("delivery", metrics.delivery))
        for kind, how in HOW.items()
    ]
    return Figure(
        name=f"Figure 7, reading {reading}",
        title=f"Mean latency, reading {reading}",
        x_label="nodes",
        y_label="units of time",
        series=tuple(series),
        alt="Reception and delivery latency rise with the logarithm of the nodes, with and "
        "without aggregation; at 1,024 nodes both are lower with it.",
        log_x=True,
    )


def _figure_8(results: Results, reading: str) -> Figure:
    series = [
        measured_series(
            f"{what}, {how} aggregation",
            [
                (
                    nodes,
                    compared(
                        metrics.pair_mean(what, place),
                        results,
                        ("packets", "packets-alone"),
                        reading,
                        nodes,
                    ),
                )
                for nodes in PACKETS_SIZES
            ],
        )
        for what in (metrics.RECEPTION, metrics.DELIVERY)
        for place, how in enumerate(HOW.values())
    ]
    return Figure(
        name=f"Figure 8, reading {reading}",
        title=f"Mean latency of messages in packets of two, reading {reading}",
        x_label="nodes",
        y_label="units of time",
        series=tuple(series),
        alt="Of messages that travel two to a packet: with aggregation reception is later than "
        "where the same messages travel alone, and delivery at about the same time.",
        log_x=True,
    )


def _figure_9(results: Results) -> Figure:
    points = [(low, metrics.extra(f"nodes_waiting_{key}")) for low, key in FIGURE_9_STEPS.items()]
    series = [
        _over(results, f"{how}, {reading}", kind, reading, points, LARGEST)
        for reading in READINGS
        for kind, how in HOW.items()
    ]
    printed = PUBLISHED["Figure 9"]
    ends = {"up to 50": min(FIGURE_9_STEPS), "over 250": max(FIGURE_9_STEPS)}
    paper = [
        published_series(
            f"published, {how}", [(low, printed[f"{name}, {how}"]) for name, low in ends.items()]
        )
        for how in HOW.values()
    ]
    return Figure(
        name="Figure 9",
        title="Most messages that a node buffered, 1,024 nodes",
        x_label="messages, from (steps of 50)",
        y_label="nodes",
        series=(*series, *paper),
        alt="Aggregation lets nodes buffer fewer messages; those of the paper spread over all "
        "steps, with 24 (without aggregation 212) nodes above 250.",
    )


def _figure_10(results: Results) -> Figure:
    points = [(size, metrics.largest_between(size, size)) for size in range(2, 25)]
    series = [
        _over(results, f"{what}, {reading}", kind, reading, points, LARGEST)
        for kind, what in (("with", "50 bytes"), ("small", "5 bytes"))
        for reading in READINGS
    ]
    return Figure(
        name="Figure 10",
        title="Messages in a node's largest packet, 1,024 nodes",
        x_label="messages",
        y_label="% of nodes",
        series=tuple(series),
        alt="Most nodes have a largest packet of about the same number of messages; with those of "
        "5 bytes some have larger ones.",
    )


def _figure_11(results: Results, reading: str) -> Figure:
    series = [
        _by_nodes(results, f"{what}, {trees}", value, kind, reading, SHARED_SIZES)
        for what, value in (
            ("aggregated packets", metrics.aggregations),
            ("delayed messages", metrics.extra("delayed")),
        )
        for kind, trees in (("with", "a tree for each"), ("shared", "one tree"))
    ]
    return Figure(
        name=f"Figure 11, reading {reading}",
        title=f"One tree for all, or one for each source, reading {reading}",
        x_label="nodes",
        y_label="packets or messages",
        series=tuple(series),
        alt="With one tree for all far fewer packets are aggregated and messages delayed than "
        "with a tree for each source, and the difference grows with the nodes.",
        log_x=True,
        log_y=True,
    )
