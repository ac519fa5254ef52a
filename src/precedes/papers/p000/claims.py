"""Everything de Araujo et al. 2018 print, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from precedes.papers.claims import (
    About,
    Claim,
    at_most,
    equal,
    finding,
    irreproducible,
    same_order,
    same_sign,
    within,
)
from precedes.papers.measured import Measured, Results, Run, measure
from precedes.papers.p000 import PAPER, metrics
from precedes.papers.p000.experiments import (
    LARGEST,
    OTHER_SIZES,
    OTHERS,
    PAIRS_SIZES,
    READINGS,
    SHARED_SIZES,
    SIZES,
)
from precedes.papers.p000.metrics import FIGURE_6, MIDDLE, TABLE_2, TABLE_3
from precedes.papers.p000.published import PUBLISHED

START: Final = (
    "the law of the start times is ambiguous in print, and no reading of it with the printed "
    "standard deviation gives Table 1"
)


def claims(results: Results) -> list[Claim]:
    """Everything printed beside what was measured."""
    return [
        *_table_1(results),
        *_table_2(results),
        *_table_3(results),
        *_figure_6(results),
        *_figure_7(results),
        *_figure_8(results),
        *_figures_9_and_10(results),
        *_figure_11(results),
    ]


def _table_1(results: Results) -> list[Claim]:
    found = []
    for nodes in SIZES:
        alone, _, fewer, aggregated = PUBLISHED["Table 1"][nodes]
        measured = metrics.measured_at(results, metrics.packets, "alone", nodes)
        about = About(PAPER, "Table 1", f"packets without aggregation, {nodes} nodes")
        found.append(equal(about, published=alone, measured=measured))
        for reading in READINGS:
            for what, published, value in (
                ("% fewer packets", fewer, metrics.fewer_packets),
                ("% of packets aggregated", aggregated, metrics.aggregated),
            ):
                found.append(
                    within(
                        About(PAPER, "Table 1", f"{what}, {nodes} nodes, reading {reading}"),
                        published=published,
                        measured=metrics.of_reading(results, reading, value, nodes),
                        rounding=0.005,
                        reason=START,
                    )
                )
    for reading in READINGS:
        for what, place, value in (
            ("% fewer packets", 2, metrics.fewer_packets),
            ("% of packets aggregated", 3, metrics.aggregated),
        ):
            found.append(
                same_order(
                    About(PAPER, "Table 1", f"{what} over nodes, reading {reading}"),
                    published=[PUBLISHED["Table 1"][nodes][place] for nodes in SIZES],
                    measured=[
                        metrics.of_reading(results, reading, value, nodes) for nodes in SIZES
                    ],
                )
            )
    for name, law in OTHERS.items():
        for nodes in OTHER_SIZES:
            measured = metrics.measured_at(results, metrics.fewer_packets, "starts", nodes, **law)
            about = About(PAPER, "Start times", f"% fewer packets, {nodes} nodes, {name}")
            found.append(finding(about, measured=measured, reason="how much the law matters"))
    return found


def _table_2(results: Results) -> list[Claim]:
    found = [
        within(
            About(PAPER, "Table 2", f"% of packets with {name} messages, reading {reading}"),
            published=PUBLISHED["Table 2"][name],
            measured=metrics.of_reading(results, reading, metrics.with_messages(*bounds), MIDDLE),
            rounding=0.005,
            reason=START,
        )
        for reading in READINGS
        for name, bounds in TABLE_2.items()
    ]
    about = About(PAPER, "Table 2", "messages in the largest packet")
    published, measured = (
        PUBLISHED["largest packet"],
        metrics.of_reading(results, "A", metrics.largest, MIDDLE),
    )
    return [*found, within(about, published=published, measured=measured, reason=START)]


def _table_3(results: Results) -> list[Claim]:
    """The columns change places: only packets with aggregation can be the larger ones."""
    text = "printed under 'No Aggr.' and 'Aggr.', but the text gives the larger packets to the "
    found = [
        irreproducible(
            About(PAPER, "Table 3", "% of packets over 400 bytes without aggregation, as printed"),
            published=PUBLISHED["Table 3"]["over 400"][0],
            measured=metrics.measured_at(results, metrics.with_bytes(4, 99), "alone", MIDDLE),
            reason=text + "runs with aggregation: the columns are swapped",
        )
    ]
    for name, bounds in TABLE_3.items():
        with_, without = PUBLISHED["Table 3"][name]
        for how, published, experiment in (
            ("with", with_, "reading-a"),
            ("without", without, "alone"),
        ):
            found.append(
                within(
                    About(PAPER, "Table 3", f"% of packets of {name} bytes, {how} (swapped)"),
                    published=published,
                    measured=metrics.measured_at(
                        results, metrics.with_bytes(*bounds), experiment, MIDDLE
                    ),
                    rounding=0.005,
                    reason=START,
                )
            )
    return found


def _figure_6(results: Results) -> list[Claim]:
    values = {name: metrics.needing(key) for name, key in FIGURE_6.items()}
    values |= {"over 12": metrics.needing_over_12, "most": metrics.extra("dependencies_max")}
    return [
        within(
            About(PAPER, "Figure 6", _of_figure_6(name)),
            published=PUBLISHED["Figure 6"][name],
            measured=metrics.of_reading(results, "A", value, MIDDLE),
            reason=START,
        )
        for name, value in values.items()
    ]


def _of_figure_6(name: str) -> str:
    if name == "most":
        return "dependencies of the message with most"
    return f"% of messages with {name} dependencies"


def _figure_7(results: Results) -> list[Claim]:
    printed = PUBLISHED["Figure 7"]
    found = []
    for how, experiment in (("with", "reading-a"), ("without", "alone")):
        large, small = (metrics.sized(results, experiment, nodes) for nodes in (LARGEST, 8))
        ratio = measure(_ratio, large, small[: len(large)])
        name = f"reception, {LARGEST} nodes over 8, {how}"
        about = About(PAPER, "Figure 7", f"{name} aggregation")
        found.append(
            within(about, published=printed[name], measured=ratio, rounding=0.05, reason=START)
        )
    for what, value, sizes in (
        ("reception", metrics.reception, (256, 1024)),
        ("delivery", metrics.delivery, (1024,)),
        ("the time held", metrics.held, (16, 1024)),
    ):
        for nodes in sizes:
            about = About(PAPER, "Figure 7", f"% that aggregation adds to {what}, {nodes} nodes")
            published = printed[f"{what.split()[-1]}, {nodes}"]
            difference = _difference(results, value, nodes)
            found.append(same_sign(about, published=published, measured=difference, reason=START))
    found.append(
        within(
            About(PAPER, "Figure 7", f"% longer that packets wait without, {LARGEST} nodes"),
            published=printed["queue, 1024"],
            measured=measure(
                lambda run, other: metrics.change(metrics.queue_wait)(other, run),
                *(metrics.sized(results, name, LARGEST) for name in ("reading-a", "alone")),
            ),
            reason=START,
        )
    )
    for nodes in SIZES[:-1]:
        found.append(
            at_most(
                About(PAPER, "Figure 7", f"% between delivery with and without, {nodes} nodes"),
                published=printed["delivery, up to 512"],
                measured=_difference(results, metrics.delivery, nodes, either_way=True),
            )
        )
    return found


def _figure_8(results: Results) -> list[Claim]:
    """Messages in packets of two, and the same ones where each travels alone."""
    printed = PUBLISHED["Figure 8"]
    found = [
        within(
            About(PAPER, "Figure 8", "aggregated packets, 8 nodes"),
            published=printed["aggregated packets, 8"],
            measured=metrics.of_reading(results, "A", metrics.aggregations, 8),
            reason="the model aggregates now and then in a group of 8 too",
        )
    ]
    for nodes in PAIRS_SIZES:
        runs = [metrics.sized(results, name, nodes) for name in ("pairs", "pairs-alone")]
        adds = {
            what: measure(metrics.pair_change(what), *runs)
            for what in (metrics.RECEPTION, metrics.HELD, metrics.DELIVERY)
        }
        about = {
            what: About(PAPER, "Figure 8", f"% that a packet of two adds to {what}, {nodes} nodes")
            for what in adds
        }
        found.append(
            at_most(
                about[metrics.RECEPTION],
                published=printed["reception"],
                measured=adds[metrics.RECEPTION],
                reason=START,
            )
        )
        if f"held, {nodes}" in printed:
            published = printed[f"held, {nodes}"]
            held = adds[metrics.HELD]
            found.append(
                within(about[metrics.HELD], published=published, measured=held, reason=START)
            )
        found.append(
            finding(
                about[metrics.DELIVERY],
                measured=adds[metrics.DELIVERY],
                reason="printed as the same with and without",
            )
        )
    return found


def _figures_9_and_10(results: Results) -> list[Claim]:
    nine, ten = PUBLISHED["Figure 9"], PUBLISHED["Figure 10"]
    found = []
    for how, experiment in (("with", "reading-a"), ("without", "alone")):
        for name, key in (("up to 50", "up_to_50"), ("over 250", "over_250")):
            # Printed as "less than 25 % of the nodes".
            rule = at_most if (name, how) == ("up to 50", "without") else within
            found.append(
                rule(
                    About(PAPER, "Figure 9", f"nodes that buffered {name} messages, {how}"),
                    published=nine[f"{name}, {how}"],
                    measured=metrics.measured_at(
                        results, metrics.extra(f"nodes_waiting_{key}"), experiment, LARGEST
                    ),
                    reason="no reading gives the spread between nodes that the paper shows",
                )
            )
    for about, published, value, experiment in (
        (
            "50 bytes, 7 to 11",
            ten["50 bytes, 7 to 11"],
            metrics.largest_between(7, 11),
            "reading-a",
        ),
        ("50 bytes, largest", ten["50 bytes, largest"], metrics.largest, "reading-a"),
        ("5 bytes, 8 to 12", ten["5 bytes, 8 to 12"], metrics.largest_between(8, 12), "small"),
    ):
        found.append(
            within(
                About(PAPER, "Figure 10", f"messages in a node's largest packet: {about}"),
                published=published,
                measured=metrics.measured_at(results, value, experiment, LARGEST),
                reason=START,
            )
        )
    return found


def _figure_11(results: Results) -> list[Claim]:
    """One tree for all against a tree for each source, and the bottleneck of Figure 1."""
    found = []
    for what, value, nodes in (
        ("aggregations", metrics.aggregations, 32),
        ("delayed messages", metrics.extra("delayed"), 128),
    ):
        found.append(
            within(
                About(PAPER, "Figure 11", f"% fewer {what} with one tree, {nodes} nodes"),
                published=PUBLISHED["Figure 11"][f"{what}, {nodes}"],
                measured=measure(
                    lambda one, many, value=value: -metrics.change(value)(one, many),
                    metrics.sized(results, "shared", nodes),
                    metrics.sized(results, "reading-a", nodes),
                ),
                reason=START,
            )
        )
    for nodes in SHARED_SIZES:
        about = About(PAPER, "Figure 1", f"mean reception over one tree, {nodes} nodes")
        measured = metrics.measured_at(results, metrics.reception, "shared", nodes)
        found.append(finding(about, measured=measured, reason="the root is a bottleneck"))
    return found


def _difference(
    results: Results, value: Callable[[Run], float], nodes: int, *, either_way: bool = False
) -> Measured:
    """% that aggregation adds, seed by seed; or how large the difference is."""
    runs = [metrics.sized(results, name, nodes) for name in ("reading-a", "alone")]

    def more(run: Run, other: Run) -> float:
        found = metrics.change(value)(run, other)
        return abs(found) if either_way else found

    return measure(more, *runs)


def _ratio(large: Run, small: Run) -> float:
    return metrics.reception(large) / metrics.reception(small)
