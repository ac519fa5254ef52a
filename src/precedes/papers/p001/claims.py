"""Every cell that Rodrigues et al. 2018 print, beside what was measured."""

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
    irreproducible,
    same_order,
    same_sign,
    within,
)
from precedes.papers.guarantees import AT_MOST_ONCE, kept
from precedes.papers.measured import Measured, Results, Run, measure, pooled, select
from precedes.papers.p001 import PAPER
from precedes.papers.p001.experiments import OVERLOADED, PROFILED, SIZES, TREES, shared_trees
from precedes.papers.p001.metrics import (
    COLUMNS,
    cell,
    crossover,
    early_items,
    half_width,
    header_mib,
    items_per_packet,
    latency_ms,
    messages,
    not_once,
    packets_less,
    packets_of_a_broadcast,
    power_of_rounds,
    runs_of,
    suspicions,
)
from precedes.papers.p001.published import CASES, PUBLISHED

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


# Of the tables by processes, by experiment.
REASONS: Final = {"fault-free": TIES, "one-crash": FY_REASON}


def claims(results: Results) -> list[Claim]:
    """Every cell of Tables 2 to 5, what the text says, and findings about bundles and the port."""
    return [
        *_tree_claims(results),
        *_size_claims(results),
        *_crash_claims(results),
        *_own_tree_claims(results),
        *_fault_free_claims(results),
        *_one_crash_claims(results),
        *_guarantees(results),
        *_findings(results),
    ]


def _tree_claims(results: Results) -> list[Claim]:
    found = []
    for item in ("Table 2, latency", "Table 2, messages"):
        for case in CASES:
            for trees in TREES:
                about = About(PAPER, item, f"{case}, {trees} trees")
                published = PUBLISHED[item][case][trees]
                measured = cell(results, item, case, trees)
                if (item, case) == ("Table 2, latency", "NO-AGGR") and trees >= 8:
                    claim = irreproducible(
                        about, published=published, measured=measured, reason=TREES_REASON
                    )
                else:
                    places = COLUMNS[item].places
                    claim = equal(
                        about, published=published, measured=measured, places=places, reason=TIES
                    )
                found.append(claim)
    return found


def _size_claims(results: Results) -> list[Claim]:
    return [
        equal(
            About(PAPER, item, f"{case}, {nodes} processes"),
            published=PUBLISHED[item][case][nodes],
            measured=cell(results, item, case, nodes),
            places=column.places,
            reason=REASONS[column.experiment],
        )
        for item, column in COLUMNS.items()
        if column.experiment in REASONS
        for case in CASES
        for nodes in SIZES
    ]


def _crash_claims(results: Results) -> list[Claim]:
    found = [
        within(
            About(PAPER, "Table 5", f"{case}, {nodes} processes"),
            published=PUBLISHED["Table 5"][case][nodes],
            measured=cell(results, "Table 5", case, nodes),
            rounding=0.05,
            half=PUBLISHED["Table 5, intervals"][case][nodes],
            reason=CRASH_REASON,
        )
        for case in CASES
        for nodes in SIZES
    ]
    for case in CASES:
        printed = PUBLISHED["Table 5, intervals"][case]
        measured = [
            pooled(half_width, runs_of(results, "crashes", case, nodes=nodes)) for nodes in VARIED
        ]
        sizes = ", ".join(map(str, VARIED))
        found.append(
            same_order(
                About(PAPER, "Table 5", f"half of the interval, {case}, {sizes} processes"),
                published=[printed[nodes] for nodes in VARIED],
                measured=measured,
                reason=BIG2_REASON if case == "BIG2" else SPREAD_REASON,
            )
        )
    return found


def _own_tree_claims(results: Results) -> list[Claim]:
    one, own = (
        runs_of(results, "trees", "NO-AGGR", workload=shared_trees(trees))
        for trees in (TREES[0], TREES[-1])
    )

    def longer(shared: Run, apart: Run) -> float:
        return 100.0 * (latency_ms(shared) / latency_ms(apart) - 1)

    return [
        at_least(
            About(PAPER, "Section 6.2", "% that one tree takes longer than 16, NO-AGGR"),
            published=PUBLISHED["Own trees"]["reduction at least"],
            measured=measure(longer, one, own),
            reason=OWN_TREES_REASON,
        )
    ]


def _fault_free_claims(results: Results) -> list[Claim]:
    item, largest = "Section 6.3", SIZES[-1]

    def runs(case: str) -> list[Run]:
        return runs_of(results, "fault-free", case, nodes=largest)

    found = [
        within(
            About(PAPER, item, f"MiB of headers, {case}, {largest} processes"),
            published=published,
            measured=measure(header_mib, runs(case)),
            rounding=0.5,
        )
        for case, published in PUBLISHED["Headers"].items()
    ]
    found += [
        equal(
            About(PAPER, item, f"packets of a broadcast, {case}, {largest} processes"),
            published=published,
            measured=measure(packets_of_a_broadcast, runs(case)),
        )
        for case, published in PUBLISHED["Packets of a broadcast"].items()
    ]
    found += [
        equal(
            About(PAPER, item, f"least number of processes for which {case} is faster"),
            published=PUBLISHED["Crossover"],
            measured=crossover(results, case),
        )
        for case in ("SMALL2", "BIG2")
    ]
    tenfold = {case: PUBLISHED["Table 4, FF"][case][largest] for case in ("SMALL10", "BIG10")}
    found.append(
        same_sign(
            About(PAPER, item, f"packets of BIG10 beyond those of SMALL10, {largest} processes"),
            published=tenfold["BIG10"] - tenfold["SMALL10"],
            measured=measure(_less(messages), runs("BIG10"), runs("SMALL10")),
        )
    )
    for case in PROFILED:
        found.append(
            same_sign(
                About(PAPER, "Figure 4", f"more items in a packet early than late, {case}"),
                published=EARLY[case],
                measured=measure(early_items, runs_of(results, "profile", case)),
                is_size=False,
            )
        )
    return found


def _one_crash_claims(results: Results) -> list[Claim]:
    item = "Section 6.4"
    found = [
        equal(
            About(PAPER, item, "packets less for a broadcast without bundling, all sizes"),
            published=PUBLISHED["One crash"]["packets less"],
            measured=measure(packets_less, runs_of(results, "one-crash", "NO-AGGR")),
            reason=PACKETS_REASON,
        ),
        equal(
            About(PAPER, item, f"processes that find the crash by a test, {SIZES[0]} processes"),
            published=PUBLISHED["One crash"]["testers"],
            measured=measure(suspicions, runs_of(results, "one-crash", "NO-AGGR", nodes=SIZES[0])),
        ),
    ]
    for nodes in SIZES:
        added = {
            case: PUBLISHED["Table 3, FY"][case][nodes] - PUBLISHED["Table 3, FF"][case][nodes]
            for case in ("SMALL2", "SMALL10")
        }
        found.append(
            same_sign(
                About(PAPER, item, f"a crash costs SMALL2 more than SMALL10, {nodes} processes"),
                published=added["SMALL2"] - added["SMALL10"],
                measured=_costs_more(results, "SMALL2", "SMALL10", nodes),
                reason=TIES,
            )
        )
    for experiment, what in (("one-crash", "one crash"), ("crashes", "log2(n) - 1 crashes")):
        runs = [
            run for nodes in SIZES for run in runs_of(results, experiment, "SMALL2", nodes=nodes)
        ]
        found.append(
            at_most(
                About(PAPER, "Section 3.1", f"power of log2(n) of rounds until all know, {what}"),
                published=PUBLISHED["Rounds"]["power"],
                measured=pooled(lambda runs: max(map(power_of_rounds, runs)), runs),
            )
        )
    return found


def _costs_more(results: Results, case: str, other: str, nodes: int) -> Measured:
    """How much more latency a crash adds in one scenario than in another."""

    def read(with_crash: Run, without: Run, other_with: Run, other_without: Run) -> float:
        added = latency_ms(with_crash) - latency_ms(without)
        return added - (latency_ms(other_with) - latency_ms(other_without))

    cells = [
        runs_of(results, experiment, one, nodes=nodes)
        for one in (case, other)
        for experiment in ("one-crash", "fault-free")
    ]
    return measure(read, *cells)


def _less(read: Callable[[Run], float]) -> Callable[[Run, Run], float]:
    return lambda run, other: read(run) - read(other)


def _guarantees(results: Results) -> list[Claim]:
    runs = results["traced"]
    return [
        kept(
            About(PAPER, "Guarantees", "deliveries more than once or of nothing, with crashes"),
            runs=runs,
            against=AT_MOST_ONCE,
        ),
        equal(
            About(PAPER, "Guarantees", "correct source and process without one delivery"),
            published=0,
            measured=measure(not_once, runs),
        ),
    ]


def _findings(results: Results) -> list[Claim]:
    found = []
    for case in PROFILED:
        runs = runs_of(results, "profile", case)
        about = About(PAPER, "Figure 4", f"items in a packet, {case}, {runs[0]['nodes']} processes")
        found.append(finding(about, measured=measure(items_per_packet, runs)))
    for nodes in OVERLOADED:
        for own_channel, port in ((True, "a port of their own"), (False, "the broadcasts' port")):
            runs = select(results["port"], nodes=nodes, own_channel=own_channel)
            found.append(
                finding(
                    About(PAPER, "Tests", f"false suspicions, {nodes} processes, {port}"),
                    measured=measure(suspicions, runs),
                    reason="nobody crashes; a process suspected wrongly is fenced, and what it "
                    "was to forward or to answer is left to others",
                )
            )
    return found
