"""Every cell that Rodrigues et al. 2018 publish, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from precedes_papers.measured import Results, Run, measure, pooled, select
from precedes_papers.p001 import CASES, PAPER, PUBLISHED, metrics
from precedes_papers.p001.experiments import OVERLOADED, PROFILED, SIZES, TREES, shared_trees
from precedes_papers.p001.metrics import COLUMNS, latency_ms, messages, runs_of
from precedes_papers.rules import (
    AT_MOST_ONCE,
    About,
    Claim,
    at_least,
    at_most,
    equal,
    finding,
    irreproducible,
    kept,
    same_order,
    same_sign,
    within,
)

TIES: Final = "the order of what happens at one time is not given"
FY_REASON: Final = (
    "the paper gives neither the order of a round of tests nor of simultaneous events"
)
TREES_REASON: Final = (
    "with 16 trees this is the experiment of Table 3, which prints 8.7; four hops out and back "
    "alone take 8.7, so no number of trees can be faster"
)
CRASH_REASON: Final = (
    "the paper does not say when processes crash: here at uniform times within 10 units; no span "
    "fits groups of up to 16 and of 32 and more together"
)
SPREAD_REASON: Final = "the spread follows from when processes crash, which is not printed"
BIG2_REASON: Final = (
    "the intervals printed for BIG2 are several times those of SMALL2, of which the same crashes "
    "are to be expected to have the same effect"
)
OWN_TREES_REASON: Final = (
    "14.7 beside the 8.7 that Table 3 prints for 16 trees is 69 % more; the 6.1 of Table 2 is less "
    "than four hops out and back can take"
)
PACKETS_REASON: Final = (
    "Table 4 prints the same packets as are measured, and they are less than that from 32 "
    "processes on: who learns of the crash in time does not even send the message"
)
VARIED: Final = (16, 64, 256)  # processes: the variation of smaller groups is larger
EARLY: Final = {"SMALL2": 1, "BIG2": -1}  # section 6.3: which of them bundle more at the beginning
# By experiment.
REASONS: Final = {"trees": TIES, "fault-free": TIES, "one-crash": FY_REASON}


def claims(results: Results) -> Iterator[Claim]:
    """Every cell of Tables 2 to 5, what the text says, and findings about bundles and the port."""
    yield from _cells(results)
    yield from _crashes(results)
    yield from _own_trees(results)
    yield from _fault_free(results)
    yield from _one_crash(results)
    yield from _guarantees(results)
    yield from _findings(results)


def _cells(results: Results) -> Iterator[Claim]:
    """Tables 2 to 4."""
    for item, column in COLUMNS.items():
        if column.experiment not in REASONS:
            continue
        for case in CASES:
            for row in column.rows:
                about = About(PAPER, item, f"{case}, {row} {column.axis}")
                published, measured = PUBLISHED[item][case][row], column.cell(results, case, row)
                if (item, case) == ("Table 2, latency", "NO-AGGR") and row >= 8:
                    yield irreproducible(about, published, measured, reason=TREES_REASON)
                else:
                    reason = REASONS[column.experiment]
                    yield equal(about, published, measured, places=column.places, reason=reason)


def _crashes(results: Results) -> Iterator[Claim]:
    """Table 5."""
    halves = PUBLISHED["Table 5, intervals"]
    for case in CASES:
        for nodes in SIZES:
            yield within(
                About(PAPER, "Table 5", f"{case}, {nodes} processes"),
                PUBLISHED["Table 5"][case][nodes],
                COLUMNS["Table 5"].cell(results, case, nodes),
                rounding=0.05,
                half=halves[case][nodes],
                reason=CRASH_REASON,
            )
    sizes = ", ".join(map(str, VARIED))
    for case in CASES:
        runs = [runs_of(results, "crashes", case, nodes=nodes) for nodes in VARIED]
        yield same_order(
            About(PAPER, "Table 5", f"half of the interval, {case}, {sizes} processes"),
            [halves[case][nodes] for nodes in VARIED],
            [pooled(metrics.half_width, same) for same in runs],
            reason=BIG2_REASON if case == "BIG2" else SPREAD_REASON,
        )


def _own_trees(results: Results) -> Iterator[Claim]:
    one, own = (
        runs_of(results, "trees", "NO-AGGR", workload=shared_trees(trees))
        for trees in (TREES[0], TREES[-1])
    )

    def longer(shared: Run, apart: Run) -> float:
        return 100.0 * (latency_ms(shared) / latency_ms(apart) - 1)

    about = About(PAPER, "Section 6.2", "% that one tree takes longer than 16, NO-AGGR")
    least = PUBLISHED["Own trees"]["reduction at least"]
    yield at_least(about, least, measure(longer, one, own), reason=OWN_TREES_REASON)


def _fault_free(results: Results) -> Iterator[Claim]:
    item, largest = "Section 6.3", SIZES[-1]

    def runs(case: str) -> list[Run]:
        return runs_of(results, "fault-free", case, nodes=largest)

    def more_messages(run: Run, other: Run) -> float:
        return messages(run) - messages(other)

    for case, published in PUBLISHED["Headers"].items():
        about = About(PAPER, item, f"MiB of headers, {case}, {largest} processes")
        yield within(about, published, measure(metrics.header_mib, runs(case)), rounding=0.5)
    for case, published in PUBLISHED["Packets of a broadcast"].items():
        about = About(PAPER, item, f"packets of a broadcast, {case}, {largest} processes")
        yield equal(about, published, measure(metrics.packets_of_a_broadcast, runs(case)))
    for case in ("SMALL2", "BIG2"):
        about = About(PAPER, item, f"least number of processes for which {case} is faster")
        yield equal(about, PUBLISHED["Crossover"], metrics.crossover(results, case))
    about = About(PAPER, item, f"packets of BIG10 beyond those of SMALL10, {largest} processes")
    tenfold = [PUBLISHED["Table 4, FF"][case][largest] for case in ("BIG10", "SMALL10")]
    measured = measure(more_messages, runs("BIG10"), runs("SMALL10"))
    yield same_sign(about, tenfold[0] - tenfold[1], measured)
    for case in PROFILED:
        about = About(PAPER, "Figure 4", f"more items in a packet early than late, {case}")
        early = measure(metrics.early_items, runs_of(results, "profile", case))
        yield same_sign(about, EARLY[case], early, is_size=False)


def _one_crash(results: Results) -> Iterator[Claim]:
    item, printed = "Section 6.4", PUBLISHED["One crash"]
    yield equal(
        About(PAPER, item, "packets less for a broadcast without bundling, all sizes"),
        printed["packets less"],
        measure(metrics.packets_less, runs_of(results, "one-crash", "NO-AGGR")),
        reason=PACKETS_REASON,
    )
    about = About(PAPER, item, f"processes that find the crash by a test, {SIZES[0]} processes")
    runs = runs_of(results, "one-crash", "NO-AGGR", nodes=SIZES[0])
    yield equal(about, printed["testers"], measure(metrics.suspicions, runs))

    def costs_more(with_crash: Run, without: Run, other_with: Run, other_without: Run) -> float:
        added = latency_ms(with_crash) - latency_ms(without)
        return added - (latency_ms(other_with) - latency_ms(other_without))

    for nodes in SIZES:
        cells = [
            runs_of(results, experiment, case, nodes=nodes)
            for case in ("SMALL2", "SMALL10")
            for experiment in ("one-crash", "fault-free")
        ]
        small2, small10 = (
            PUBLISHED["Table 3, FY"][case][nodes] - PUBLISHED["Table 3, FF"][case][nodes]
            for case in ("SMALL2", "SMALL10")
        )
        about = About(PAPER, item, f"a crash costs SMALL2 more than SMALL10, {nodes} processes")
        yield same_sign(about, small2 - small10, measure(costs_more, *cells), reason=TIES)
    for experiment, what in (("one-crash", "one crash"), ("crashes", "log2(n) - 1 crashes")):
        about = About(PAPER, "Section 3.1", f"power of log2(n) of rounds until all know, {what}")
        by_size = (runs_of(results, experiment, "SMALL2", nodes=nodes) for nodes in SIZES)
        runs = [run for same in by_size for run in same]
        most = pooled(lambda runs: max(map(metrics.power_of_rounds, runs)), runs)
        yield at_most(about, PUBLISHED["Rounds"]["power"], most)


def _guarantees(results: Results) -> Iterator[Claim]:
    runs = results["traced"]
    key = "deliveries more than once or of nothing, with crashes"
    yield kept(About(PAPER, "Guarantees", key), runs, AT_MOST_ONCE)
    about = About(PAPER, "Guarantees", "correct source and process without one delivery")
    yield equal(about, 0, measure(metrics.not_once, runs))


def _findings(results: Results) -> Iterator[Claim]:
    for case in PROFILED:
        runs = runs_of(results, "profile", case)
        about = About(PAPER, "Figure 4", f"items in a packet, {case}, {runs[0]['nodes']} processes")
        yield finding(about, measure(metrics.items_per_packet, runs))
    for nodes in OVERLOADED:
        for own_channel, port in ((True, "a port of their own"), (False, "the broadcasts' port")):
            runs = select(results["port"], nodes=nodes, own_channel=own_channel)
            yield finding(
                About(PAPER, "Tests", f"false suspicions, {nodes} processes, {port}"),
                measure(metrics.suspicions, runs),
                reason="nobody crashes; a process suspected wrongly is fenced, and what it "
                "was to forward or to answer is left to others",
            )
