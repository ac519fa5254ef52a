"""Everything de Araujo et al. 2018 print, beside what was measured, under each reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from precedes.papers.claims import (
    About,
    Claim,
    at_least,
    at_most,
    equal,
    finding,
    in_range,
    irreproducible,
    one_run,
    same_order,
    same_sign,
    within,
)
from precedes.papers.guarantees import CAUSAL_ORDER, EXACTLY_ONCE, kept
from precedes.papers.measured import Measured, Results, measure, select
from precedes.papers.p000 import PAPER, metrics
from precedes.papers.p000.experiments import (
    LARGEST,
    MIDDLE,
    OTHER_SIZES,
    OTHERS,
    PACKETS_SIZES,
    READINGS,
    SHARED_SIZES,
    SIZES,
    SMALLEST,
    named,
)
from precedes.papers.p000.metrics import FIGURE_6, TABLE_2, TABLE_3, compared, measured_at, sized
from precedes.papers.p000.published import PUBLISHED

START: Final = (
    "the law of the start times cannot be told from print, and none of the readings meets all of "
    "Tables 1 to 3 and Figure 6"
)
DIRECTION: Final = "print gives the direction alone"
WITH_AND_ALONE: Final = ("with", "alone")


def claims(results: Results) -> list[Claim]:
    """Everything printed beside what was measured."""
    found = _whatever_the_reading(results)
    for reading in READINGS:
        for of_part in (
            _table_1,
            _table_2,
            _table_3,
            _figure_6,
            _figure_7,
            _held,
            _figure_8,
            _figure_9,
            _figure_10,
            _figures_11_and_1,
            _guarantees,
        ):
            found += of_part(results, reading)
    return found


def _about(item: str, key: str, reading: str) -> About:
    return About(PAPER, item, f"{key}, reading {reading}")


def _whatever_the_reading(results: Results) -> list[Claim]:
    found = []
    for nodes in SIZES:
        measured = measured_at(results, metrics.packets, "alone", "A", nodes)
        about = About(PAPER, "Table 1", f"packets without aggregation, {nodes} nodes")
        found.append(equal(about, published=PUBLISHED["Table 1"][nodes][0], measured=measured))
    for name, law in OTHERS.items():
        for nodes in OTHER_SIZES:
            runs = select(results["starts"], nodes=nodes, **law)
            for what, value in (
                ("% fewer packets", metrics.fewer_packets),
                ("% of messages with 0 dependencies", metrics.needing("0")),
            ):
                about = About(PAPER, "Start times", f"{what}, {nodes} nodes, {name}")
                measured = measure(value, runs)
                found.append(finding(about, measured=measured, reason="how much the law matters"))
    text = "printed under 'No Aggr.', but the text gives the larger packets to the runs with "
    found.append(
        irreproducible(
            About(PAPER, "Table 3", "% of packets over 400 bytes without aggregation, as printed"),
            published=PUBLISHED["Table 3"]["over 400"][0],
            measured=measured_at(results, metrics.with_bytes(*TABLE_3["over 400"]), "alone", "A"),
            reason=text + "aggregation: the columns are swapped",
        )
    )
    return found


def _table_1(results: Results, reading: str) -> list[Claim]:
    """Means over 30 runs; but the 49262 packets of 256 nodes are those of one run, in 5.2."""
    found = []
    for nodes in SIZES:
        alone, together, fewer, aggregated = PUBLISHED["Table 1"][nodes]
        # Of the packets it is those saved that an interval has to be narrow for. Shares are printed
        # of rounded counts, such as 8 of 240 packets saved and 7 of 232 aggregated.
        saved, many = (0.005 + 50 / packets for packets in (alone, together))
        for what, published, value, rounding, span in (
            ("packets with aggregation", together, metrics.packets, 0.5, alone - together),
            ("% fewer packets", fewer, metrics.fewer_packets, saved, None),
            ("% of packets aggregated", aggregated, metrics.aggregated, many, None),
        ):
            rule = one_run if nodes == MIDDLE else within
            found.append(
                rule(
                    _about("Table 1", f"{what}, {nodes} nodes", reading),
                    published=published,
                    measured=measured_at(results, value, "with", reading, nodes),
                    rounding=rounding,
                    span=span,
                    reason=START,
                )
            )
    for what, place, value in (
        ("% fewer packets", 2, metrics.fewer_packets),
        ("% of packets aggregated", 3, metrics.aggregated),
    ):
        found.append(
            same_order(
                _about("Table 1", f"{what} over nodes", reading),
                published=[PUBLISHED["Table 1"][nodes][place] for nodes in SIZES],
                measured=[measured_at(results, value, "with", reading, nodes) for nodes in SIZES],
            )
        )
    return found


def _table_2(results: Results, reading: str) -> list[Claim]:
    """Of one run, like all that is printed of 256 nodes."""
    printed = PUBLISHED["section 5.1"]
    rows = []
    for what, column, read in (
        ("packets", PUBLISHED["Table 2"], metrics.with_messages),
        ("aggregated packets", PUBLISHED["Table 2, aggregated"], metrics.of_aggregated),
    ):
        rows += [
            (f"% of {what} with {name} messages", share, 0.005, read(*TABLE_2[name]))
            for name, share in column.items()
        ]
    two_or_three = metrics.of_aggregated(2, 3)
    rows += [
        ("% of aggregated packets with 2 or 3", printed["two or three"], 0.5, two_or_three),
        ("messages in the largest packet", printed["largest packet"], 0.5, metrics.largest),
        ("packets with 15 messages", printed["packets of 15"], 0.5, metrics.packets_of(15)),
    ]
    return [
        one_run(
            _about("Table 2", key, reading),
            published=published,
            measured=measured_at(results, value, "with", reading),
            rounding=rounding,
            reason=START,
        )
        for key, published, rounding, value in rows
    ]


def _table_3(results: Results, reading: str) -> list[Claim]:
    """The columns change places: only packets with aggregation can be the larger ones."""
    printed = PUBLISHED["section 5.2"]
    found = []
    for name, bounds in TABLE_3.items():
        value = metrics.with_bytes(*bounds)
        for kind, how, published in zip(
            WITH_AND_ALONE, ("with", "without"), PUBLISHED["Table 3"][name], strict=True
        ):
            found.append(
                one_run(
                    _about("Table 3", f"% of packets of {name} bytes, {how} (swapped)", reading),
                    published=published,
                    measured=measured_at(results, value, kind, reading),
                    rounding=0.005,
                    reason=START,
                )
            )
    larger = compared(metrics.larger_than_any, results, ("packets", "packets-alone"), reading)
    over_1400 = measured_at(results, metrics.with_bytes(*metrics.OVER_1400), "with", reading)
    cut = measured_at(results, metrics.cut_at_mtu, "packets", reading)
    for key, published, measured, rounding in (
        ("% of packets larger than any without aggregation", printed["larger"], larger, 0.005),
        ("% of packets over 1400 bytes", printed["over 1400"], over_1400, 0.005),
        ("packets cut at the MTU", printed["cut"], cut, 0.5),
    ):
        found.append(
            one_run(
                _about("Table 3", key, reading),
                published=published,
                measured=measured,
                rounding=rounding,
                reason=START,
            )
        )
    found.append(
        same_sign(
            _about("Table 3", "% that aggregation adds to the bytes sent, 256 nodes", reading),
            published=printed["bytes"],
            measured=compared(metrics.change(metrics.bytes_sent), results, WITH_AND_ALONE, reading),
            is_size=False,
            reason=DIRECTION,
        )
    )
    return found


def _figure_6(results: Results, reading: str) -> list[Claim]:
    values = {name: (metrics.needing(key), 0.05) for name, key in FIGURE_6.items()}
    values |= {"0": (metrics.needing("0"), 0.5), "over 12": (metrics.needing_over_12, 0.5)}
    found = [
        one_run(
            _about("Figure 6", f"% of messages with {name} dependencies", reading),
            published=PUBLISHED["Figure 6"][name],
            measured=measured_at(results, value, "with", reading),
            rounding=rounding,
            reason=START,
        )
        for name, (value, rounding) in values.items()
    ]
    found.append(
        one_run(
            _about("Figure 6", "dependencies of the message with most", reading),
            published=PUBLISHED["Figure 6"]["most"],
            measured=measured_at(results, metrics.extra("dependencies_max"), "with", reading),
            reason=START,
        )
    )
    key = "% of messages by which a step of the distribution varies without aggregation"
    found.append(
        at_most(
            _about("Figure 6", key, reading),
            published=PUBLISHED["Figure 6"]["variation"],
            measured=compared(metrics.variation, results, WITH_AND_ALONE, reading),
        )
    )
    return found


def _figure_7(results: Results, reading: str) -> list[Claim]:
    """Reception, delivery, and the queue that packets wait in."""
    printed = PUBLISHED["Figure 7"]
    found = []
    for how, kind in (("with", "with"), ("without", "alone")):
        small, large = (sized(results, kind, reading, nodes) for nodes in (SMALLEST, LARGEST))
        for name, value, what in (
            ("mean", metrics.reception, "mean reception"),
            ("slowest, increase", metrics.slowest, "slowest reception, print as an increase"),
            ("slowest, times", metrics.slowest, "slowest reception, print as a ratio"),
        ):
            key = f"times the {what}, {LARGEST} nodes over {SMALLEST}, {how} aggregation"
            found.append(
                within(
                    _about("Figure 7", key, reading),
                    published=printed[f"{name}, {how}"],
                    measured=metrics.growth(value, small, large),
                    rounding=0.05,
                    reason=START,
                )
            )
    for nodes in SIZES:
        sizes = {name: printed.get(f"{name}, {nodes}") for name in ("reception", "delivery")}
        adds = _adds(results, metrics.reception, reading, nodes)
        found.append(
            same_sign(
                _about("Figure 7", f"% that aggregation adds to reception, {nodes} nodes", reading),
                published=sizes["reception"] or printed["reception, up to 512"],
                measured=adds,
                is_size=sizes["reception"] is not None,
                reason=START if sizes["reception"] is not None else DIRECTION,
            )
        )
        about = _about("Figure 7", f"% that aggregation adds to delivery, {nodes} nodes", reading)
        adds = _adds(results, metrics.delivery, reading, nodes)
        if sizes["delivery"] is not None:
            published = sizes["delivery"]
            found.append(same_sign(about, published=published, measured=adds, reason=START))
        else:
            found.append(in_range(about, published=printed["delivery, up to 512"], measured=adds))
    return found + _queue(results, reading)


def _queue(results: Results, reading: str) -> list[Claim]:
    printed = PUBLISHED["Figure 7"]
    alone_and_with = ("alone", "with")
    longer = metrics.change(metrics.queue_wait)
    earlier = metrics.difference(metrics.reception)
    wait = measured_at(results, metrics.queue_wait, "alone", reading, LARGEST)
    return [
        within(
            _about("Figure 7", f"{key}, {LARGEST} nodes", reading),
            published=published,
            measured=measured,
            rounding=rounding,
            reason=START,
        )
        for key, published, measured, rounding in (
            (
                "% longer that packets wait to be sent without aggregation",
                printed["queue, 1024"],
                compared(longer, results, alone_and_with, reading, LARGEST),
                0.05,
            ),
            ("time that packets wait without aggregation", printed["wait, 1024"], wait, 5),
            (
                "time by which reception is later without aggregation",
                printed["wait, 1024"],
                compared(earlier, results, alone_and_with, reading, LARGEST),
                5,
            ),
        )
    ]


def _held(results: Results, reading: str) -> list[Claim]:
    """Held longer without aggregation whatever the size: from 5 % at 16 nodes up to 53.4 %."""
    printed = PUBLISHED["Figure 7"]
    found = []
    for nodes in SIZES:
        key = f"% that aggregation adds to the time held, {nodes} nodes"
        about = _about("Figure 7", key, reading)
        adds = _adds(results, metrics.held, reading, nodes)
        if f"held, {nodes}" in printed:
            published = printed[f"held, {nodes}"]
            found.append(same_sign(about, published=published, measured=adds, reason=START))
        else:
            between = printed["held, between"]
            found.append(in_range(about, published=between, measured=adds, reason=START))
    return found


def _figure_8(results: Results, reading: str) -> list[Claim]:
    """Messages in packets of two, and the same ones where each travels alone."""
    printed = PUBLISHED["Figure 8"]
    found = [
        within(
            _about("Figure 8", "% of packets aggregated, 8 nodes", reading),
            published=printed["aggregated, 8"],
            measured=measured_at(results, metrics.aggregated, "smallest", reading, SMALLEST),
            reason="in a group of 8 a message overtakes another now and then, too",
        )
    ]
    for nodes in PACKETS_SIZES:
        adds = {
            what: compared(
                metrics.pair_change(what), results, ("packets", "packets-alone"), reading, nodes
            )
            for what in (metrics.RECEPTION, metrics.HELD, metrics.DELIVERY)
        }
        about = {
            what: _about(
                "Figure 8", f"% that a packet of two adds to {what}, {nodes} nodes", reading
            )
            for what in adds
        }
        reception, delivery = adds[metrics.RECEPTION], adds[metrics.DELIVERY]
        found.append(
            at_most(about[metrics.RECEPTION], published=printed["reception"], measured=reception)
        )
        if f"held, {nodes}" in printed:
            found.append(
                within(
                    about[metrics.HELD],
                    published=printed[f"held, {nodes}"],
                    measured=adds[metrics.HELD],
                    rounding=0.5,
                    reason=START,
                )
            )
        found.append(
            in_range(about[metrics.DELIVERY], published=printed["delivery"], measured=delivery)
        )
    return found


def _figure_9(results: Results, reading: str) -> list[Claim]:
    found = []
    for how, kind in (("with", "with"), ("without", "alone")):
        for name, key in (("up to 50", "up_to_50"), ("over 250", "over_250")):
            # Printed as "less than 25 % of the nodes".
            rule: Callable[..., Claim] = within
            if (name, how) == ("up to 50", "without"):
                rule = at_most
            value = metrics.extra(f"nodes_waiting_{key}")
            found.append(
                rule(
                    _about("Figure 9", f"nodes that buffered {name} messages, {how}", reading),
                    published=PUBLISHED["Figure 9"][f"{name}, {how}"],
                    measured=measured_at(results, value, kind, reading, LARGEST),
                    reason="no reading gives the spread between nodes that the paper shows",
                )
            )
    return found


def _figure_10(results: Results, reading: str) -> list[Claim]:
    """Of "a simulation with 1024 nodes"."""
    printed = PUBLISHED["Figure 10"]
    found: list[Claim] = []
    for key, value, kind in (
        ("50 bytes, 7 to 11", metrics.largest_between(7, 11), "with"),
        ("5 bytes, 8 to 12", metrics.largest_between(8, 12), "small"),
    ):
        found.append(
            one_run(
                _about(
                    "Figure 10", f"% of nodes by messages in the largest packet: {key}", reading
                ),
                published=printed[key],
                measured=measured_at(results, value, kind, reading, LARGEST),
                rounding=0.05,
                reason=START,
            )
        )
    largest = measured_at(results, metrics.largest, "with", reading, LARGEST)
    apart = measured_at(results, metrics.nodes_apart, "with", reading, LARGEST)
    larger = compared(
        metrics.difference(metrics.largest_mean), results, ("small", "with"), reading, LARGEST
    )
    about = _about("Figure 10", "messages in the largest packet: 50 bytes", reading)
    found.append(
        at_most(about, published=printed["50 bytes, largest"], measured=largest, reason=START)
    )
    about = _about("Figure 10", "nodes that aggregate nothing: 50 bytes", reading)
    found.append(equal(about, published=printed["nodes apart"], measured=apart))
    key = "messages that a node's largest packet has more: 5 bytes than 50"
    published = printed["5 bytes over 50"]
    about = _about("Figure 10", key, reading)
    found.append(
        same_sign(about, published=published, measured=larger, is_size=False, reason=DIRECTION)
    )
    return found


def _figures_11_and_1(results: Results, reading: str) -> list[Claim]:
    """One tree for all against a tree for each source, and the bottleneck of Figure 1."""
    found = []
    for what, value in (
        ("aggregations", metrics.aggregations),
        ("delayed messages", metrics.extra("delayed")),
    ):
        for nodes in SHARED_SIZES:
            found.append(
                at_least(
                    _about("Figure 11", f"% fewer {what} with one tree, {nodes} nodes", reading),
                    published=PUBLISHED["Figure 11"][what],
                    measured=compared(
                        metrics.fewer(value), results, ("shared", "with"), reading, nodes
                    ),
                    reason=START,
                )
            )
    first, last = (metrics.reception_of_part(part) for part in (0, metrics.PARTS - 1))
    shared = sized(results, "shared", reading, MIDDLE)
    below, above = (sized(results, "shared", reading, nodes) for nodes in SHARED_SIZES[-2:])
    for item, key, name, measured in (
        (
            "Figure 11",
            "% more aggregations with one tree, 1024 nodes than 512",
            "from 512 to 1024",
            measure(metrics.change(metrics.aggregations), above, below[: len(above)]),
        ),
        (
            "Figure 1",
            "% later reception with one tree, last tenth of broadcasts over first, 256 nodes",
            "last over first",
            measure(lambda run: 100.0 * (last(run) / first(run) - 1), shared),
        ),
        (
            "Figure 1",
            "% later reception with one tree, 256 nodes",
            "one tree over many",
            compared(metrics.change(metrics.reception), results, ("shared", "with"), reading),
        ),
    ):
        found.append(
            same_sign(
                _about(item, key, reading),
                published=PUBLISHED[item][name],
                measured=measured,
                is_size=False,
                reason=DIRECTION,
            )
        )
    return found


def _guarantees(results: Results, reading: str) -> list[Claim]:
    """By the audit of traces; the delay of each delivery where links and queues do not vary."""
    found = []
    for kind, how in (("with", "with"), ("alone", "without"), ("shared", "over one tree")):
        runs = results[named(kind, reading)]
        for promise, against in (
            ("out of causal order", CAUSAL_ORDER),
            ("twice or never", EXACTLY_ONCE),
        ):
            about = _about("Guarantees", f"deliveries {promise}, {how}", reading)
            found.append(kept(about, runs=runs, against=against))
    about = _about("Guarantees", "longest delay that aggregation adds to a delivery", reading)
    measured = compared(metrics.added_delay, results, ("fixed", "fixed-alone"), reading)
    published = PUBLISHED["section 4.3"]["added delay"]
    return [*found, equal(about, published=published, measured=measured)]


def _adds(results: Results, value: Callable[..., float], reading: str, nodes: int) -> Measured:
    """% that aggregation adds, seed by seed."""
    return compared(metrics.change(value), results, WITH_AND_ALONE, reading, nodes)
