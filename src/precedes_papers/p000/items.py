"""Published and measured values of de Araujo et al. 2018, under each reading of the times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from precedes_papers import rules
from precedes_papers.measured import Reader, Results, less, measure, regardless, select
from precedes_papers.p000 import PUBLISHED, metrics
from precedes_papers.p000.experiments import (
    HOW,
    LARGEST,
    MIDDLE,
    OTHER_SIZES,
    OTHERS,
    PACKETS_SIZES,
    PER,
    READINGS,
    SHARED_SIZES,
    SIZES,
    SMALLEST,
    named,
)
from precedes_papers.p000.metrics import FIGURE_6_STEPS, FIGURE_9_STEPS, ITEMS, Runs
from precedes_papers.rules import Claim
from precedes_papers.shown import (
    Cell,
    Claims,
    Figure,
    Headlines,
    Published,
    Series,
    Statement,
    Table,
    measured_series,
    published_series,
)

START: Final = (
    "the paper gives neither the law of the start times nor how long a drawn delay applies, and "
    "none of the readings meets all of Tables 1 to 3 and Figure 6"
)
DIRECTION: Final = "only the direction is published"
SWAPPED: Final = (
    "printed under 'No Aggr.', but the text gives the larger packets to the runs with "
    "aggregation: the columns are swapped"
)
TWICE: Final = (
    "53.4 % is published both for the time that messages are held and for the time that packets "
    "wait to be sent; 5.3 defines queuing time as the time held"
)
HELD_LONGER: Final = "% longer that messages are held without aggregation"
QUEUED_LONGER: Final = "% longer that packets wait to be sent without aggregation"
OVERTAKEN: Final = "in a group of 8 a message overtakes another now and then, too"
SPREAD: Final = "no reading gives the spread between nodes that the paper shows"
NAMES: Final = {name: f"reading {name}" for name in READINGS}
RUNS: Final = 30  # of each simulation, whose mean is published: section 5
LABELS: Final = {label: label for label in NAMES.values()}
# Of Table 1: place in its rows.
FEWER: Final = "% fewer packets"
AGGREGATED: Final = "% of packets aggregated"
WITH: Final = "packets with aggregation"
WITHOUT: Final = "packets without aggregation"

HEADLINES: Final = Headlines(
    (
        Statement(
            f"aggregation saves {{}} of the packets of {LARGEST:,} nodes",
            "packets saved, 1,024 nodes", "Table 1", f"{FEWER}, {LARGEST} nodes", LABELS, "%",
        ),
        Statement(
            f"it changes the mean time to delivery among {LARGEST:,} nodes by {{}}",
            "change of delivery latency", "Figure 7",
            f"% that aggregation adds to delivery, {LARGEST} nodes", LABELS, "%",
        ),
        Statement(
            "{} of the messages of 256 nodes depend on no other",
            "messages without dependencies", "Figure 6", ITEMS["Figure 6"]["0"].key, LABELS, "%",
        ),
        Statement(
            "{} deliveries are out of causal order", "deliveries out of causal order",
            "Guarantees", "deliveries out of causal order, with", LABELS,
        ),
    ),
    figures=("Packets saved", "Figure 6"),
    readings="Three readings of the start times, which the paper leaves open, and of the delay. A: "
    "starts uniform on (0, 500), delays N(100, 25). B: uniform on (0, 600), N(100, 50). C: a "
    "triangle on (0, 600), N(100, 25).",
)  # fmt: skip


def claims(results: Results) -> Iterator[Claim]:
    """Every published value and what was measured."""
    first = Runs(results, "A")
    for nodes in SIZES:
        # A packet from each to each, whatever the reading.
        measured = regardless(first.measure(metrics.packets, "alone", nodes=nodes))
        about = "Table 1", f"{WITHOUT}, {nodes} nodes"
        yield rules.equal(about, PUBLISHED["Table 1"][nodes][0], measured)
    for name, law in OTHERS.items():
        for nodes in OTHER_SIZES:
            runs = select(results["starts"], nodes=nodes, **law)
            for phrase, read in (
                (FEWER, metrics.fewer_packets),
                ("% of messages with 0 dependencies", metrics.needing("0")),
            ):
                about = "Start times", f"{phrase}, {nodes} nodes, {name}"
                yield rules.finding(about, measure(read, runs), reason="how much the law matters")
    for per, phrase in PER.items():
        about = "Delays", _drawn(phrase)
        fewer = measure(metrics.fewer_packets, select(results["delays"], per=per))
        yield rules.finding(about, fewer, reason="reading A, how much the draws matter")
    yield rules.irreproducible(
        ("Table 3", "% of packets over 400 bytes without aggregation, as printed"),
        PUBLISHED["Table 3"]["over 400"][0],
        first.measure(ITEMS["Table 3, without"]["over 400"].read, "alone"),
        reason=SWAPPED,
    )
    for reading in READINGS:
        for part in (_tables, _figure_7, _figures_8_to_10, _figures_11_and_1, _guarantees):
            yield from part(Runs(results, reading))


def _drawn(quantity: str) -> str:
    return f"{FEWER}, {MIDDLE} nodes, drawn for each {quantity}"


def _tables(runs: Runs) -> Iterator[Claim]:
    """Table 1: means over 30 runs, but 256 nodes, which is one run like all else here."""
    table = PUBLISHED["Table 1"]
    for nodes, (alone, together, fewer, aggregated) in table.items():
        one_or_all = 1 if nodes == MIDDLE else RUNS
        # Of the packets it is those saved that an interval has to be narrow for. Shares are
        # published of rounded counts, such as 8 of 240 packets saved and 7 of 232 aggregated.
        saved, many = (0.005 + 50 / packets for packets in (alone, together))
        for share, published, read, rounding, span in (
            (WITH, together, metrics.packets, 0.5, alone - together),
            (FEWER, fewer, metrics.fewer_packets, saved, None),
            (AGGREGATED, aggregated, metrics.aggregated, many, None),
        ):
            about = runs.about("Table 1", f"{share}, {nodes} nodes")
            measured = runs.measure(read, "with", nodes=nodes)
            yield rules.within(
                about, published, measured, runs=one_or_all, rounding=rounding, span=span,
                reason=START,
            )  # fmt: skip
    for share, place, read in (
        (FEWER, 2, metrics.fewer_packets),
        (AGGREGATED, 3, metrics.aggregated),
    ):
        published = [row[place] for row in table.values()]
        over_nodes = [runs.measure(read, "with", nodes=nodes) for nodes in SIZES]
        yield rules.same_order(runs.about("Table 1", f"{share} over nodes"), published, over_nodes)
    for name, items in ITEMS.items():
        for key, one in items.items():
            yield rules.within(
                runs.about(one.item, one.key),
                metrics.published(name, key),
                runs.measure(one.read, *one.kinds),
                runs=1,
                rounding=one.rounding,
                span=metrics.span(name, key),
                reason=START,
            )
    about = runs.about("Table 3", "% that aggregation adds to the bytes sent, 256 nodes")
    measured = runs.measure(metrics.change(metrics.bytes_sent), "with", "alone")
    adds = PUBLISHED["section 5.2"]["bytes"]
    yield rules.same_sign(about, adds, measured, is_size=False, reason=DIRECTION)
    key = "% of messages by which a step of the distribution varies without aggregation"
    measured = runs.measure(metrics.variation, "with", "alone")
    yield rules.at_most(runs.about("Figure 6", key), PUBLISHED["Figure 6"]["variation"], measured)


def _figure_7(runs: Runs) -> Iterator[Claim]:
    """Reception, delivery, the queue that packets wait in, and the time that messages are held."""
    item, listed = "Figure 7", PUBLISHED["Figure 7"]
    for kind, how in HOW.items():
        small, large = (runs.of(kind, nodes) for nodes in (SMALLEST, LARGEST))
        for name, read, text, reading in (
            ("mean", metrics.reception, "mean", ""),
            ("slowest, increase", metrics.slowest, "slowest", "published as an increase"),
            ("slowest, times", metrics.slowest, "slowest", "published as a ratio"),
        ):
            key = f"times the {text} reception, {LARGEST} nodes over {SMALLEST}, {how} aggregation"
            times, published = metrics.growth(read, small, large), listed[f"{name}, {how}"]
            about = runs.about(item, key, reading)
            yield rules.within(about, published, times, runs=RUNS, rounding=0.05, reason=START)
    # Reception is later, delivery the same, and messages are held longer without aggregation
    # whatever the size: from 5 % at 16 nodes up to 53.4 %. Some sizes have a published value.
    both = tuple(HOW)
    for name, text, read, kinds in (
        ("reception", "% that aggregation adds to reception", metrics.reception, both),
        ("delivery", "% that aggregation adds to delivery", metrics.delivery, both),
        ("held", HELD_LONGER, metrics.held, both[::-1]),
    ):
        for nodes in SIZES:
            about = runs.about(item, f"{text}, {nodes} nodes")
            measured = runs.measure(metrics.change(read), *kinds, nodes=nodes)
            if (size := listed.get(f"{name}, {nodes}")) is not None:
                reason = f"{TWICE}; {START}" if (name, nodes) == ("held", LARGEST) else START
                yield rules.same_sign(about, size, measured, reason=reason)
            elif name == "reception":
                later = listed["reception, up to 512"]
                yield rules.same_sign(about, later, measured, is_size=False, reason=DIRECTION)
            elif name == "delivery":
                yield rules.in_range(about, listed["delivery, up to 512"], measured)
            else:
                yield rules.in_range(about, listed["held, between"], measured, reason=START)
    longer, later_by = metrics.change(metrics.queue_wait), less(metrics.reception)
    for key, name, read_pair, rounding, of_kinds, reading, reason in (
        (QUEUED_LONGER, "queue, 1024", longer, 0.05, ("alone", "with"), "in the sending queue",
         f"{TWICE}; {START}"),
        (QUEUED_LONGER, "queue, 1024", metrics.change(metrics.held), 0.05, ("alone", "with"),
         "queuing time of 5.3, the time held", f"{TWICE}; {START}"),
        ("time that packets wait without aggregation", "wait, 1024", metrics.queue_wait, 5,
         ("alone",), "in the queue", START),
        ("time that packets wait without aggregation", "wait, 1024", later_by, 5,
         ("alone", "with"), "as later reception", START),
    ):  # fmt: skip
        about = runs.about(item, f"{key}, {LARGEST} nodes", reading)
        measured = runs.measure(read_pair, *of_kinds, nodes=LARGEST)
        yield rules.within(
            about, listed[name], measured, runs=RUNS, rounding=rounding, reason=reason
        )


def _figures_8_to_10(runs: Runs) -> Iterator[Claim]:
    """Messages in packets of two, and the same ones where each travels alone; 1024 nodes."""
    published = PUBLISHED["Figure 8"]
    yield rules.within(
        runs.about("Figure 8", "% of packets aggregated, 8 nodes"),
        published["aggregated, 8"],
        runs.measure(metrics.aggregated, "smallest", nodes=SMALLEST),
        runs=RUNS,
        reason=OVERTAKEN,
    )
    for nodes in PACKETS_SIZES:
        for time in (metrics.RECEPTION, metrics.HELD, metrics.DELIVERY):
            about = runs.about("Figure 8", f"% that a packet of two adds to {time}, {nodes} nodes")
            read = metrics.pair_change(time)
            adds = runs.measure(read, "packets", "packets-alone", nodes=nodes)
            if time == metrics.RECEPTION:
                yield rules.at_most(about, published["reception"], adds)
            elif time == metrics.DELIVERY:
                yield rules.in_range(about, published["delivery"], adds)
            elif (size := published.get(f"held, {nodes}")) is not None:
                yield rules.within(about, size, adds, runs=RUNS, rounding=0.5, reason=START)
    for kind, how in HOW.items():
        for name, key in (("up to 50", "up_to_50"), ("over 250", "over_250")):
            # Published as "less than 25 % of the nodes".
            is_bound = (name, how) == ("up to 50", "without")
            rule = rules.at_most if is_bound else partial(rules.within, runs=RUNS)
            about = runs.about("Figure 9", f"nodes that buffered {name} messages, {how}")
            many = runs.measure(metrics.extra(f"nodes_waiting_{key}"), kind, nodes=LARGEST)
            yield rule(about, PUBLISHED["Figure 9"][f"{name}, {how}"], many, reason=SPREAD)
    item, published = "Figure 10", PUBLISHED["Figure 10"]
    for key, low, high, kind in (
        ("50 bytes, 7 to 11", 7, 11, "with"),
        ("5 bytes, 8 to 12", 8, 12, "small"),
    ):
        about = runs.about(item, f"% of nodes by messages in the largest packet: {key}")
        share = runs.measure(metrics.largest_between(low, high), kind, nodes=LARGEST)
        yield rules.within(about, published[key], share, runs=1, rounding=0.05, reason=START)
    about = runs.about(item, "messages in the largest packet: 50 bytes")
    largest = runs.measure(metrics.largest, "with", nodes=LARGEST)
    yield rules.at_most(about, published["50 bytes, largest"], largest, reason=START)
    about = runs.about(item, "nodes that aggregate nothing: 50 bytes")
    apart = runs.measure(metrics.nodes_apart, "with", nodes=LARGEST)
    yield rules.equal(about, published["nodes apart"], apart)
    about = runs.about(item, "messages that a node's largest packet has more: 5 bytes than 50")
    more = less(metrics.largest_mean)
    larger = runs.measure(more, "small", "with", nodes=LARGEST)
    yield rules.same_sign(
        about, published["5 bytes over 50"], larger, is_size=False, reason=DIRECTION
    )


def _figures_11_and_1(runs: Runs) -> Iterator[Claim]:
    """One tree for all against a tree for each source, and the bottleneck of Figure 1."""
    for quantity, read in (
        ("aggregations", metrics.aggregations),
        ("delayed messages", metrics.extra("delayed")),
    ):
        for nodes in SHARED_SIZES:
            about = runs.about("Figure 11", f"% fewer {quantity} with one tree, {nodes} nodes")
            less = runs.measure(metrics.fewer(read), "shared", "with", nodes=nodes)
            yield rules.at_least(about, PUBLISHED["Figure 11"][quantity], less, reason=START)
    first, last = (metrics.reception_of_part(part) for part in (0, metrics.PARTS - 1))
    below, above = (runs.of("shared", nodes) for nodes in SHARED_SIZES[-2:])
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
            runs.measure(lambda run: 100.0 * (last(run) / first(run) - 1), "shared"),
        ),
        (
            "Figure 1",
            "% later reception with one tree, 256 nodes",
            "one tree over many",
            runs.measure(metrics.change(metrics.reception), "shared", "with"),
        ),
    ):
        about, published = runs.about(item, key), PUBLISHED[item][name]
        yield rules.same_sign(about, published, measured, is_size=False, reason=DIRECTION)


def _guarantees(runs: Runs) -> Iterator[Claim]:
    """By the audit of traces; the delay of each delivery where links and queues do not vary."""
    for kind, how in {**HOW, "shared": "over one tree"}.items():
        audited = runs.results[named(kind, runs.reading)]
        for promise, against in (
            ("out of causal order", rules.CAUSAL_ORDER),
            ("twice or never", rules.EXACTLY_ONCE),
        ):
            about = runs.about("Guarantees", f"deliveries {promise}, {how}")
            yield rules.kept(about, audited, against)
    about = runs.about("Guarantees", "longest delay that aggregation adds to a delivery")
    added = runs.measure(metrics.added_delay, "fixed", "fixed-alone")
    yield rules.equal(about, PUBLISHED["section 4.3"]["added delay"], regardless(added))


def shown(results: Results, claims: Claims) -> Iterator[Table | Figure]:
    """Tables 1 to 3, the shares published with Figure 6, Figures 1 and 6 to 11."""
    yield from _shown_tables(claims)
    every = [Runs(results, reading) for reading in READINGS]
    yield _saved(claims)
    yield _figure_1(every)
    yield _figure_6(every)
    for runs in every:
        yield _latency(runs)
    for runs in every:
        yield _latency_of_two(runs)
    yield _figure_9(every)
    yield _figure_10(every)
    for runs in every:
        yield _trees(runs)


def _shown_tables(claims: Claims) -> Iterator[Table]:
    def header(*groups: str) -> tuple[str, ...]:
        return tuple(f"{group}, {name}" for group in groups for name in ("published", *READINGS))

    def cells(table: str, name: str) -> list[Cell]:
        if name not in ITEMS[table]:
            return [None] * (1 + len(READINGS))
        one = ITEMS[table][name]
        return claims.cells(one.item, one.key, NAMES.values())

    def sized(quantity: str, nodes: int, readings: bool = True) -> list[Cell]:
        names = NAMES.values() if readings else [""]
        return claims.cells("Table 1", f"{quantity}, {nodes} nodes", names)

    yield Table(
        "Table 1",
        ("nodes", "without, published", "without, measured", *header("with")),
        tuple((n, *sized(WITHOUT, n, readings=False), *sized(WITH, n)) for n in SIZES),
        "Packets.",
    )
    yield Table(
        "Table 1, shares",
        ("nodes", *header("% fewer", "% aggregated")),
        tuple((nodes, *sized(FEWER, nodes), *sized(AGGREGATED, nodes)) for nodes in SIZES),
        "Packets saved, and packets with more than one message.",
    )
    saved = PUBLISHED["Table 1"][MIDDLE][2]
    yield Table(
        "Delays",
        ("a delay is drawn for each", "% fewer packets, published", "reading A"),
        tuple(
            (
                unit,
                Published(saved),
                claims.measured("Delays", _drawn(unit)),
            )
            for unit in PER.values()
        ),
        "Packets saved of 256 nodes.",
    )
    for name, first, groups, tables, note in (
        ("Table 2", "messages", ("% of all", "% of aggregated"),
         ("Table 2", "Table 2, aggregated"), "Packets of 256 nodes."),
        ("Table 3", "bytes", ("with", "without"), ("Table 3, with", "Table 3, without"),
         "% of packets, 256 nodes. The printed columns have changed places, as the paper's text "
         "has them."),
        ("Figure 6, values", "dependencies", ("%",), ("Figure 6",),
         "% of messages with so many dependencies, and the most of a message."),
    ):  # fmt: skip
        rows = [
            [row, *(cell for one in tables for cell in cells(one, row))] for row in ITEMS[tables[0]]
        ]
        yield Table(name, (first, *header(*groups)), tuple(map(tuple, rows)), note)


def _over(
    runs: Runs, label: str, kind: str, points: dict[float, Reader], nodes: int = MIDDLE
) -> Series:
    """A line of these runs: places on the x axis, and what is read there."""
    values = [(x, runs.measure(read, kind, nodes=nodes)) for x, read in points.items()]
    return measured_series(label, values)


def _by_nodes(
    runs: Runs, label: str, read: Callable[..., float], sizes: tuple[int, ...], *kinds: str
) -> Series:
    """One quantity of these runs over the number of nodes."""
    return measured_series(label, [(n, runs.measure(read, *kinds, nodes=n)) for n in sizes])


def _saved(claims: Claims) -> Figure:
    keys = {float(nodes): f"{FEWER}, {nodes} nodes" for nodes in SIZES}
    fewer = [claims.line(name, "Table 1", keys, name) for name in NAMES.values()]
    published = [(nodes, row[2]) for nodes, row in PUBLISHED["Table 1"].items()]
    return Figure(
        name="Packets saved",
        title="Packets saved by aggregation (Table 1)",
        x_label="nodes",
        y_label="% fewer packets",
        series=(*fewer, published_series("published", published)),
        alt="The share of packets that aggregation saves rises with the number of nodes under all "
        "readings, as in the paper.",
        log_x=True,
    )


def _figure_1(every: list[Runs]) -> Figure:
    points = {
        100 * (part + 0.5) / metrics.PARTS: metrics.reception_of_part(part)
        for part in range(metrics.PARTS)
    }
    return Figure(
        name="Figure 1",
        title="Reception latency over time, 256 nodes",
        x_label="% of the broadcasts before it",
        y_label="units of time",
        series=tuple(
            _over(runs, f"{how}, {runs.reading}", kind, points)
            for kind, how in (("shared", "one tree"), ("with", "a tree for each"))
            for runs in every
        ),
        alt="With one tree for all, messages are received the later the later they are broadcast; "
        "with a tree for each source all take about the same time.",
    )


def _figure_6(every: list[Runs]) -> Figure:
    points: dict[float, Reader] = {
        low: metrics.depending_on(low, high) for low, high in FIGURE_6_STEPS
    }
    low = {"0": 0, "1 to 4": 1, "5 to 9": 5}
    published = [(low[name], PUBLISHED["Figure 6"][name]) for name in low]
    series = [_over(runs, NAMES[runs.reading], "with", points) for runs in every]
    return Figure(
        name="Figure 6",
        title="Causal dependencies of a message, 256 nodes",
        x_label="dependencies, from",
        y_label="% of messages",
        series=(*series, published_series("published", published)),
        alt="Steps of five dependencies, the first for none, the second for one to four: about a "
        "quarter of the messages has none, and shares fall from the second step on, most steeply "
        "under reading C, as in the paper.",
    )


def _latency(runs: Runs) -> Figure:
    return Figure(
        name=f"Figure 7, {NAMES[runs.reading]}",
        title=f"Mean latency, {NAMES[runs.reading]}",
        x_label="nodes",
        y_label="units of time",
        series=tuple(
            _by_nodes(runs, f"{time}, {how} aggregation", read, (SMALLEST, *SIZES), kind)
            for time, read in (("reception", metrics.reception), ("delivery", metrics.delivery))
            for kind, how in HOW.items()
        ),
        alt="Reception and delivery latency rise with the logarithm of the nodes, with and "
        "without aggregation; at 1,024 nodes both are lower with it.",
        log_x=True,
    )


def _latency_of_two(runs: Runs) -> Figure:
    kinds = ("packets", "packets-alone")
    return Figure(
        name=f"Figure 8, {NAMES[runs.reading]}",
        title=f"Mean latency of messages in packets of two, {NAMES[runs.reading]}",
        x_label="nodes",
        y_label="units of time",
        series=tuple(
            _by_nodes(
                runs,
                f"{time}, {how} aggregation",
                metrics.pair_mean(time, n),
                PACKETS_SIZES,
                *kinds,
            )
            for time in (metrics.RECEPTION, metrics.DELIVERY)
            for n, how in enumerate(HOW.values())
        ),
        alt="Of messages that travel two to a packet: with aggregation reception is later than "
        "where the same messages travel alone, and delivery at about the same time.",
        log_x=True,
    )


def _figure_9(every: list[Runs]) -> Figure:
    points: dict[float, Reader] = {
        low: metrics.extra(f"nodes_waiting_{key}") for low, key in FIGURE_9_STEPS.items()
    }
    published = PUBLISHED["Figure 9"]
    ends = {"up to 50": min(FIGURE_9_STEPS), "over 250": max(FIGURE_9_STEPS)}
    return Figure(
        name="Figure 9",
        title="Most messages that a node buffered, 1,024 nodes",
        x_label="messages, from (steps of 50)",
        y_label="nodes",
        series=(
            *(
                _over(runs, f"{how}, {runs.reading}", kind, points, LARGEST)
                for runs in every
                for kind, how in HOW.items()
            ),
            *(
                published_series(
                    f"published, {how}",
                    [(x, published[f"{name}, {how}"]) for name, x in ends.items()],
                )
                for how in HOW.values()
            ),
        ),
        alt="Aggregation lets nodes buffer fewer messages; those of the paper spread over all "
        "steps, with 24 (without aggregation 212) nodes above 250.",
    )


def _figure_10(every: list[Runs]) -> Figure:
    points: dict[float, Reader] = {n: metrics.largest_between(n, n) for n in range(2, 25)}
    return Figure(
        name="Figure 10",
        title="Messages in a node's largest packet, 1,024 nodes",
        x_label="messages",
        y_label="% of nodes",
        series=tuple(
            _over(runs, f"{payload}, {runs.reading}", kind, points, LARGEST)
            for kind, payload in (("with", "50 bytes"), ("small", "5 bytes"))
            for runs in every
        ),
        alt="Most nodes have a largest packet of about the same number of messages; with those of "
        "5 bytes some have larger ones.",
    )


def _trees(runs: Runs) -> Figure:
    return Figure(
        name=f"Figure 11, {NAMES[runs.reading]}",
        title=f"One tree for all, or one for each source, {NAMES[runs.reading]}",
        x_label="nodes",
        y_label="packets or messages",
        series=tuple(
            _by_nodes(runs, f"{quantity}, {trees}", read, SHARED_SIZES, kind)
            for quantity, read in (
                ("aggregated packets", metrics.aggregations),
                ("delayed messages", metrics.extra("delayed")),
            )
            for kind, trees in (("with", "a tree for each"), ("shared", "one tree"))
        ),
        alt="With one tree for all far fewer packets are aggregated and messages delayed than "
        "with a tree for each source, and the difference grows with the nodes.",
        log_x=True,
        log_y=True,
    )
