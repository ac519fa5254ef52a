"""Tables, figures and headlines of de Araujo et al. 2018, published and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from precedes_papers.measured import Results
from precedes_papers.p000 import PUBLISHED, metrics
from precedes_papers.p000.experiments import (
    HOW,
    LARGEST,
    MIDDLE,
    PACKETS_SIZES,
    READINGS,
    SHARED_SIZES,
    SIZES,
    SMALLEST,
)
from precedes_papers.p000.metrics import FIGURE_6_STEPS, FIGURE_9_STEPS, ITEMS, Read, Runs
from precedes_papers.shown import (
    Cell,
    Figure,
    Headlines,
    Printed,
    Series,
    Statement,
    Table,
    measured_series,
    published_series,
)


def _readings(key: str) -> dict[str, str]:
    return {f"reading {name}": f"{key}, reading {name}" for name in READINGS}


HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says=f"aggregation saves {{}} of the packets of {LARGEST:,} nodes",
            short="packets saved, 1,024 nodes",
            item="Table 1",
            keys=_readings(f"% fewer packets, {LARGEST} nodes"),
            unit="%",
        ),
        Statement(
            says=f"it changes the mean time to delivery among {LARGEST:,} nodes by {{}}",
            short="change of delivery latency",
            item="Figure 7",
            keys=_readings(f"% that aggregation adds to delivery, {LARGEST} nodes"),
            unit="%",
        ),
        Statement(
            says="{} of the messages of 256 nodes depend on no other",
            short="messages without dependencies",
            item="Figure 6",
            keys=_readings(ITEMS["Figure 6"]["0"].key),
            unit="%",
        ),
        Statement(
            says="{} deliveries are out of causal order",
            short="deliveries out of causal order",
            item="Guarantees",
            keys=_readings("deliveries out of causal order, with"),
        ),
    ),
    figures=("Packets saved", "Figure 6"),
    readings="Three readings of the start times, which print leaves open, and of the delay. A: "
    "starts uniform on (0, 500), delays N(100, 25). B: uniform on (0, 600), N(100, 50). C: a "
    "triangle on (0, 600), N(100, 25).",
)


def tables(results: Results) -> list[Table]:
    """Tables 1 to 3, and the shares published with Figure 6."""

    def row(table: str, name: str, published: float) -> list[Cell]:
        one = ITEMS[table][name]
        return _cells(results, published, one.read, *one.kinds)

    of_aggregated = PUBLISHED["Table 2, aggregated"]
    table_2: list[tuple[Cell, ...]] = []
    for name, share in PUBLISHED["Table 2"].items():
        third: list[Cell] = [None] * (1 + len(READINGS))
        if name in of_aggregated:
            third = row("Table 2, aggregated", name, of_aggregated[name])
        table_2.append((name, *row("Table 2", name, share), *third))
    table_3 = [
        (name, *row("Table 3, with", name, with_), *row("Table 3, without", name, without))
        for name, (with_, without) in PUBLISHED["Table 3"].items()
    ]
    figure_6 = [
        (name, *row("Figure 6", name, PUBLISHED["Figure 6"][name])) for name in ITEMS["Figure 6"]
    ]
    return [
        *_table_1(results),
        Table(
            "Table 2",
            ("messages", *_header("% of all", "% of aggregated")),
            tuple(table_2),
            "Packets of 256 nodes.",
        ),
        Table(
            "Table 3",
            ("bytes", *_header("with", "without")),
            tuple(table_3),
            "% of packets, 256 nodes. The printed columns have changed places, as the paper's text "
            "has them.",
        ),
        Table(
            "Figure 6, values",
            ("dependencies", *_header("%")),
            tuple(figure_6),
            "% of messages with so many dependencies, and the most of a message.",
        ),
    ]


def _table_1(results: Results) -> list[Table]:
    counts, shares = [], []
    for nodes, (alone, together, fewer, aggregated) in PUBLISHED["Table 1"].items():
        packets = Runs(results, "A").measure(metrics.packets, "alone", nodes=nodes)
        with_ = _cells(results, together, metrics.packets, "with", nodes=nodes)
        counts.append((nodes, Printed(alone), packets, *with_))
        saved = _cells(results, fewer, metrics.fewer_packets, "with", nodes=nodes)
        many = _cells(results, aggregated, metrics.aggregated, "with", nodes=nodes)
        shares.append((nodes, *saved, *many))
    without = ("without, published", "without, measured")
    return [
        Table("Table 1", ("nodes", *without, *_header("with")), tuple(counts), "Packets."),
        Table(
            "Table 1, shares",
            ("nodes", *_header("% fewer", "% aggregated")),
            tuple(shares),
            "Packets saved, and packets with more than one message.",
        ),
    ]


def _cells(
    results: Results,
    published: float,
    read: Callable[..., float],
    *kinds: str,
    nodes: int = MIDDLE,
) -> list[Cell]:
    """A published value and what each reading gives."""
    measured = [Runs(results, one).measure(read, *kinds, nodes=nodes) for one in READINGS]
    return [Printed(published), *measured]


def _header(*groups: str) -> tuple[str, ...]:
    return tuple(f"{group}, {name}" for group in groups for name in ("published", *READINGS))


def figures(results: Results) -> list[Figure]:
    """Figures 1 and 6 to 11, and Table 1 as a plot."""
    every = [Runs(results, reading) for reading in READINGS]
    return [
        _saved(every),
        _figure_1(every),
        _figure_6(every),
        *map(_figure_7, every),
        *map(_figure_8, every),
        _figure_9(every),
        _figure_10(every),
        *map(_figure_11, every),
    ]


def _over(
    runs: Runs, label: str, kind: str, points: Iterable[tuple[float, Read]], nodes: int = MIDDLE
) -> Series:
    """A line of these runs: places on the x axis, and what is read there."""
    return measured_series(
        label, [(x, runs.measure(read, kind, nodes=nodes)) for x, read in points]
    )


def _by_nodes(
    runs: Runs, label: str, read: Callable[..., float], kinds: Sequence[str], sizes: Sequence[int]
) -> Series:
    """One quantity of these runs over the number of nodes."""
    return measured_series(label, [(n, runs.measure(read, *kinds, nodes=n)) for n in sizes])


def _saved(every: Sequence[Runs]) -> Figure:
    fewer = [
        _by_nodes(runs, f"reading {runs.reading}", metrics.fewer_packets, ["with"], SIZES)
        for runs in every
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


def _figure_1(every: Sequence[Runs]) -> Figure:
    points = [
        (100 * (part + 0.5) / metrics.PARTS, metrics.reception_of_part(part))
        for part in range(metrics.PARTS)
    ]
    series = [
        _over(runs, f"{how}, {runs.reading}", kind, points)
        for kind, how in (("shared", "one tree"), ("with", "a tree for each"))
        for runs in every
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


def _figure_6(every: Sequence[Runs]) -> Figure:
    points = [(low, metrics.depending_on(low, high)) for low, high in FIGURE_6_STEPS]
    series = [_over(runs, f"reading {runs.reading}", "with", points) for runs in every]
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


def _figure_7(runs: Runs) -> Figure:
    series = [
        _by_nodes(runs, f"{what}, {how} aggregation", read, [kind], (SMALLEST, *SIZES))
        for what, read in (("reception", metrics.reception), ("delivery", metrics.delivery))
        for kind, how in HOW.items()
    ]
    return Figure(
        name=f"Figure 7, reading {runs.reading}",
        title=f"Mean latency, reading {runs.reading}",
        x_label="nodes",
        y_label="units of time",
        series=tuple(series),
        alt="Reception and delivery latency rise with the logarithm of the nodes, with and "
        "without aggregation; at 1,024 nodes both are lower with it.",
        log_x=True,
    )


def _figure_8(runs: Runs) -> Figure:
    kinds = ("packets", "packets-alone")
    series = [
        _by_nodes(
            runs, f"{what}, {how} aggregation", metrics.pair_mean(what, place), kinds, PACKETS_SIZES
        )
        for what in (metrics.RECEPTION, metrics.DELIVERY)
        for place, how in enumerate(HOW.values())
    ]
    return Figure(
        name=f"Figure 8, reading {runs.reading}",
        title=f"Mean latency of messages in packets of two, reading {runs.reading}",
        x_label="nodes",
        y_label="units of time",
        series=tuple(series),
        alt="Of messages that travel two to a packet: with aggregation reception is later than "
        "where the same messages travel alone, and delivery at about the same time.",
        log_x=True,
    )


def _figure_9(every: Sequence[Runs]) -> Figure:
    points = [(low, metrics.extra(f"nodes_waiting_{key}")) for low, key in FIGURE_9_STEPS.items()]
    series = [
        _over(runs, f"{how}, {runs.reading}", kind, points, LARGEST)
        for runs in every
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


def _figure_10(every: Sequence[Runs]) -> Figure:
    points = [(size, metrics.largest_between(size, size)) for size in range(2, 25)]
    series = [
        _over(runs, f"{what}, {runs.reading}", kind, points, LARGEST)
        for kind, what in (("with", "50 bytes"), ("small", "5 bytes"))
        for runs in every
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


def _figure_11(runs: Runs) -> Figure:
    series = [
        _by_nodes(runs, f"{what}, {trees}", read, [kind], SHARED_SIZES)
        for what, read in (
            ("aggregated packets", metrics.aggregations),
            ("delayed messages", metrics.extra("delayed")),
        )
        for kind, trees in (("with", "a tree for each"), ("shared", "one tree"))
    ]
    return Figure(
        name=f"Figure 11, reading {runs.reading}",
        title=f"One tree for all, or one for each source, reading {runs.reading}",
        x_label="nodes",
        y_label="packets or messages",
        series=tuple(series),
        alt="With one tree for all far fewer packets are aggregated and messages delayed than "
        "with a tree for each source, and the difference grows with the nodes.",
        log_x=True,
        log_y=True,
    )
