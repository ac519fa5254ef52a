"""Every cell that Rodrigues et al. 2018 print, beside what was measured."""

from __future__ import annotations

from typing import Final

from precedes.papers.claims import About, Claim, equal, finding, irreproducible, within
from precedes.papers.measured import Results, measure, select
from precedes.papers.p001 import PAPER
from precedes.papers.p001.experiments import OVERLOADED, PROFILED, SIZES, TREES
from precedes.papers.p001.metrics import (
    COLUMNS,
    cell,
    header_mib,
    items_per_packet,
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
CRASH_REASON: Final = "the paper does not say when the processes crash: here within 10 units"


# Of the tables by processes, by experiment.
REASONS: Final = {"fault-free": TIES, "one-crash": FY_REASON}


def claims(results: Results) -> list[Claim]:
    """Every cell of Tables 2 to 5, the headers, and findings about bundles and the port."""
    return [
        *_tree_claims(results),
        *_size_claims(results),
        *_crash_claims(results),
        *_header_claims(results),
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
                if (item, case) == ("Table 2, latency", "NO-AGGR") and trees >= 4:
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
    return [
        within(
            About(PAPER, "Table 5", f"{case}, {nodes} processes"),
            published=PUBLISHED["Table 5"][case][nodes],
            measured=cell(results, "Table 5", case, nodes),
            rounding=0.05,
            reason=CRASH_REASON,
        )
        for case in CASES
        for nodes in SIZES
    ]


def _header_claims(results: Results) -> list[Claim]:
    return [
        within(
            About(PAPER, "Section 6.3", f"MiB of headers, {case}, {SIZES[-1]} processes"),
            published=published,
            measured=measure(header_mib, runs_of(results, "fault-free", case, nodes=SIZES[-1])),
            rounding=0.5,
        )
        for case, published in PUBLISHED["Headers"].items()
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
