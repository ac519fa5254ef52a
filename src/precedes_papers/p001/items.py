"""Published and measured values of Rodrigues et al. 2018: claims, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from precedes_papers import rules
from precedes_papers.measured import Results, Run, less, measure, pooled, regardless, select
from precedes_papers.p001 import CASES, PUBLISHED, experiments, metrics
from precedes_papers.p001.experiments import PROFILE, PROFILED, SIZES
from precedes_papers.p001.metrics import COLUMNS, latency_ms, messages, runs_of
from precedes_papers.rules import Claim
from precedes_papers.shown import (
    Claims,
    Figure,
    Headlines,
    Statement,
    Table,
    measured_series,
    published_series,
)

TIES: Final = "the order of what happens at one time is not given"
FY_REASON: Final = (
    "the paper gives neither the order of a round of tests nor of simultaneous events"
)
TREES_REASON: Final = (
    "with 16 trees this is the experiment of Table 3, which reports 8.7; four hops out and back "
    "alone take 8.7, so no number of trees can be faster"
)
CRASH_REASON: Final = (
    "the paper does not say when processes crash: here at uniform times within 10 units; no span "
    "fits groups of up to 16 and of 32 and more together"
)
SPREAD_REASON: Final = "the spread follows from when processes crash, which is not published"
BIG2_REASON: Final = (
    "the same crashes delay SMALL2 and BIG2 alike, and the means printed for both are within 0.1 "
    "up to 128 processes; but the interval printed for BIG2 and 256 processes is a hundred times "
    "as wide as that of SMALL2. Measured: that of 256 processes"
)
OWN_TREES_REASON: Final = (
    "14.7 compared with the 8.7 of Table 3 for 16 trees is 69 % more; the 6.1 of Table 2 is less "
    "than four hops out and back can take"
)
PACKETS_REASON: Final = (
    "the packets of Table 4 equal the measured ones, and are fewer than that from 32 processes on: "
    "a process that learns of the crash in time does not even send the message"
)
FALSE_REASON: Final = (
    "nobody crashes; a process suspected wrongly is fenced, and what it was to forward or to "
    "answer is left to others"
)
LARGEST: Final = SIZES[-1]
VARIED: Final = (16, 64, 256)  # processes: the variation of smaller groups is larger
EARLY: Final = {"SMALL2": 1, "BIG2": -1}  # section 6.3: which of them bundle more at the beginning
# By experiment.
REASONS: Final = {"trees": TIES, "fault-free": TIES, "one-crash": FY_REASON}
HOW: Final = {"without bundles": "NO-AGGR", "bundled": "SMALL2"}

HEADLINES: Final = Headlines(
    (
        *(
            Statement(
                f"when each of {LARGEST:,} processes broadcasts once, {{}} packets are sent {how} "
                f"({case})",
                f"packets, {how}", "Table 4, FF", f"{case}, {LARGEST} processes",
            )
            for how, case in HOW.items()
        ),
        *(
            Statement(
                f"that takes {{}} units of time {how}",
                f"units of time, {how}", "Table 3, FF", f"{case}, {LARGEST} processes",
            )
            for how, case in HOW.items()
        ),
        Statement(
            "bundles are faster from {} processes on", "processes from which bundles are faster",
            "Section 6.3", "least number of processes for which bundles are faster",
            {case: case for case in ("SMALL2", "BIG2")},
        ),
        Statement(
            f"with log2(n) - 1 crashes {LARGEST:,} processes take {{}} units with bundles",
            "units of time, bundled, with crashes", "Table 5", f"SMALL2, {LARGEST} processes",
        ),
    ),
    figures=("Figure 3, messages", "Figure 3, latency"),
    readings="Time is in the paper's units. NO-AGGR bundles nothing; SMALL and BIG have "
    "messages of 24 and of 500 bytes, which wait up to 2 or 10 units for others to share a packet.",
)  # fmt: skip


def claims(results: Results) -> Iterator[Claim]:
    """Every cell of Tables 2 to 5, what the text says, and findings about bundles and the port."""
    yield from _cells(results)
    yield from _text(results)
    yield from _one_crash(results)
    for case in PROFILED:
        runs = runs_of(results, "profile", case)
        about = "Figure 4", f"items in a packet, {case}, {LARGEST} processes"
        yield rules.finding(about, measure(metrics.items_per_packet, runs))
    for nodes in experiments.OVERLOADED:
        for own, port in ((True, "a port of their own"), (False, "the broadcasts' port")):
            runs = select(results["port"], nodes=nodes, own_channel=own)
            about = "Tests", f"false suspicions, {nodes} processes, {port}"
            yield rules.finding(about, measure(metrics.suspicions, runs), reason=FALSE_REASON)


def _cells(results: Results) -> Iterator[Claim]:
    """Tables 2 to 5."""
    halves = PUBLISHED["Table 5, intervals"]
    for item, column in COLUMNS.items():
        for case in CASES:
            for row in column.rows:
                about = item, f"{case}, {row} {column.axis}"
                published, cell = PUBLISHED[item][case][row], column.cell(results, case, row)
                if (case, column.read) == ("NO-AGGR", messages):
                    cell = regardless(cell)  # a packet out and back for each other process
                if item == "Table 5":
                    # The published intervals of BIG2 are impossible: its number of drawings counts.
                    half = 0.0 if case == "BIG2" else halves[case][row]
                    drawings = metrics.DRAWINGS if case == "BIG2" else None
                    yield rules.within(
                        about, published, cell, runs=drawings, rounding=0.05, half=half,
                        reason=CRASH_REASON,
                    )  # fmt: skip
                elif (item, case) == ("Table 2, latency", "NO-AGGR") and row >= 8:
                    yield rules.irreproducible(about, published, cell, reason=TREES_REASON)
                else:
                    why = REASONS[column.experiment]
                    yield rules.equal(about, published, cell, places=column.places, reason=why)
    for case in CASES:
        runs = [runs_of(results, "crashes", case, nodes=nodes) for nodes in VARIED]
        sizes = ", ".join(map(str, VARIED))
        about = "Table 5", f"half of the interval, {case}, {sizes} processes"
        published = [halves[case][nodes] for nodes in VARIED]
        if case == "BIG2":
            text = " ".join(map(str, published))
            widest = metrics.half_widths(runs[-1])
            yield rules.irreproducible(about, text, widest, reason=BIG2_REASON)
        else:
            widths = [metrics.half_widths(same) for same in runs]
            yield rules.same_order(about, published, widths, reason=SPREAD_REASON)


def _text(results: Results) -> Iterator[Claim]:
    """Sections 3.1, 6.2 and 6.3."""

    for experiment, crashes in (("one-crash", "one crash"), ("crashes", "log2(n) - 1 crashes")):
        about = "Section 3.1", f"power of log2(n) of rounds until all know, {crashes}"
        runs = runs_of(results, experiment, "SMALL2")
        most = pooled(lambda runs: max(map(metrics.power_of_rounds, runs)), runs)
        yield rules.at_most(about, PUBLISHED["Rounds"]["power"], most)
    one, own = (
        runs_of(results, "trees", "NO-AGGR", workload=experiments.shared_trees(trees))
        for trees in (experiments.TREES[0], experiments.TREES[-1])
    )
    about = "Section 6.2", "% that one tree takes longer than 16, NO-AGGR"
    longer, least = measure(_percent_longer, one, own), PUBLISHED["Own trees"]
    yield rules.at_least(about, least["reduction at least"], longer, reason=OWN_TREES_REASON)
    item = "Section 6.3"
    of = {case: runs_of(results, "fault-free", case, nodes=LARGEST) for case in CASES}
    for case, published in PUBLISHED["Headers"].items():
        about = item, f"MiB of headers, {case}, {LARGEST} processes"
        yield rules.within(about, published, measure(metrics.header_mib, of[case]), rounding=0.5)
    for case, published in PUBLISHED["Packets of a broadcast"].items():
        about = item, f"packets of a broadcast, {case}, {LARGEST} processes"
        packets = regardless(measure(metrics.packets_of_a_broadcast, of[case]))
        yield rules.equal(about, published, packets)
    for case in ("SMALL2", "BIG2"):
        faster = "least number of processes for which bundles are faster"
        least_of = metrics.crossover(results, case)
        yield rules.equal((item, faster, case), PUBLISHED["Crossover"], least_of)
    about = item, f"packets of BIG10 beyond those of SMALL10, {LARGEST} processes"
    tenfold = [PUBLISHED["Table 4, FF"][case][LARGEST] for case in ("BIG10", "SMALL10")]
    measured = measure(less(messages), of["BIG10"], of["SMALL10"])
    yield rules.same_sign(about, tenfold[0] - tenfold[1], measured)
    for case in PROFILED:
        about = "Figure 4", f"more items in a packet early than late, {case}"
        early = measure(metrics.early_items, runs_of(results, "profile", case))
        yield rules.same_sign(about, EARLY[case], early, is_size=False)


def _percent_longer(run: Run, other: Run) -> float:
    return 100.0 * (latency_ms(run) / latency_ms(other) - 1)


def _one_crash(results: Results) -> Iterator[Claim]:
    """Section 6.4, and what is promised with crashes."""
    item, published = "Section 6.4", PUBLISHED["One crash"]
    runs = runs_of(results, "one-crash", "NO-AGGR")
    yield rules.equal(
        (item, "packets less for a broadcast without bundling, all sizes"),
        published["packets less"],
        measure(metrics.packets_less, runs),
        reason=PACKETS_REASON,
    )
    about = item, f"processes that find the crash by a test, {SIZES[0]} processes"
    testers = measure(metrics.suspicions, select(runs, nodes=SIZES[0]))
    yield rules.equal(about, published["testers"], testers)

    def costs_more(with_crash: Run, without: Run, other_with: Run, other_without: Run) -> float:
        added = latency_ms(with_crash) - latency_ms(without)
        return added - (latency_ms(other_with) - latency_ms(other_without))

    cases = ("SMALL2", "SMALL10")
    for nodes in SIZES:
        cells = [
            runs_of(results, experiment, case, nodes=nodes)
            for case in cases
            for experiment in ("one-crash", "fault-free")
        ]
        small2, small10 = (
            PUBLISHED["Table 3, FY"][case][nodes] - PUBLISHED["Table 3, FF"][case][nodes]
            for case in cases
        )
        about = item, f"a crash costs SMALL2 more than SMALL10, {nodes} processes"
        yield rules.same_sign(about, small2 - small10, measure(costs_more, *cells), reason=TIES)
    traced = results["traced"]
    about = "Guarantees", "deliveries more than once or of nothing, with crashes"
    yield rules.kept(about, traced, rules.AT_MOST_ONCE)
    about = "Guarantees", "correct source and process without one delivery"
    yield rules.equal(about, 0, regardless(measure(metrics.not_once, traced)))


def shown(results: Results, claims: Claims) -> Iterator[Table | Figure]:
    """Tables 2 to 5, Figure 3 from the fault-free runs, and Figure 4 from those that watch p0."""
    header = [text for case in CASES for text in (f"{case}, published", f"{case}, measured")]
    for item, column in COLUMNS.items():
        rows = [
            [
                n,
                *(
                    cell
                    for case in CASES
                    for cell in claims.cells(item, f"{case}, {n} {column.axis}")
                ),
            ]
            for n in column.rows
        ]
        yield Table(item, (column.axis, *header), tuple(map(tuple, rows)))
    yield _figure_3(results, "latency", "Table 3, FF", "latency", is_shared=False)
    yield _figure_3(results, "messages", "Table 4, FF", "messages per process", is_shared=True)
    for unit, label in (("items", "items in a packet"), ("bytes", "bytes of a packet")):
        yield Figure(
            name=f"Figure 4, {unit}",
            title=f"What p0 sends over time, {LARGEST} processes",
            x_label="time",
            y_label=label,
            series=tuple(
                measured_series(
                    case,
                    [
                        (place * PROFILE["profile_ms"], measure(read, runs))
                        for place, read in metrics.profile_of(unit, runs)
                    ],
                )
                for case in PROFILED
                for runs in [runs_of(results, "profile", case)]
            ),
            alt=f"The mean {label} that process 0 sends, over time, for SMALL2 and BIG2.",
        )


def _figure_3(results: Results, name: str, item: str, label: str, *, is_shared: bool) -> Figure:
    """A table as a plot; ``is_shared``: of each process its share."""
    read = COLUMNS[item].read

    def share(run: Run) -> float:
        return read(run) / (run["nodes"] if is_shared else 1)

    measured, published = [], []
    for case in CASES:
        runs = {n: runs_of(results, "fault-free", case, nodes=n) for n in SIZES}
        measured.append(measured_series(case, [(float(n), measure(share, runs[n])) for n in SIZES]))
        listed = PUBLISHED[item][case]
        points = [(float(n), listed[n] / (n if is_shared else 1)) for n in SIZES]
        published.append(published_series(case, points))
    return Figure(
        name=f"Figure 3, {name}",
        title=f"One broadcast by each process, fault-free: {label}",
        x_label="processes",
        y_label=label,
        series=(*measured, *published),
        alt=f"The {label} of the five scenarios over the number of processes, measured and "
        "published.",
        log_x=True,
        log_y=True,
    )
