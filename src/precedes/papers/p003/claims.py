"""What "Improving accuracy" prints beside what was measured, and findings about the load."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from precedes.papers.claims import About, Claim, equal, finding, same_sign, within
from precedes.papers.measured import Measured, Results, Run, measure, pooled, select
from precedes.papers.p003 import PAPER, metrics
from precedes.papers.p003.experiments import (
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING_ENTRIES,
    RISING_LOADS,
)
from precedes.papers.p003.metrics import COUNTED
from precedes.papers.p003.published import PUBLISHED

REASON: Final = (
    "the paper gives neither the entries per process nor the way of counting; with larger clocks "
    "its value is passed ('precedes docs probabilistic'), so this number is no claim to hold"
)
TABLE_2_REASON: Final = (
    "one pair of broadcasts in quick succession makes many receivers ask, so runs of a few "
    "thousand messages differ by a factor of two"
)


def claims(results: Results) -> list[Claim]:
    """What is printed beside what is measured, and findings about the load."""
    return [
        *_table_1_claims(results),
        *_request_claims(results),
        *_error_findings(results),
    ]


def _table_1_claims(results: Results) -> list[Claim]:
    found = []
    for reading in READINGS:
        for counted in COUNTED:
            for detector in ("none", "Mostefaoui and Weiss"):
                what = f"out of order, detector {detector}, {reading} senders, {counted}"
                found.append(
                    within(
                        About(PAPER, "Table 1", what),
                        published=PUBLISHED["Table 1"][detector],
                        measured=metrics.out_of_order(results, reading, counted, detector),
                        reason=REASON,
                    )
                )
            found.append(
                equal(
                    About(PAPER, "Table 1", f"out of order, hash, {reading} senders, {counted}"),
                    published=PUBLISHED["Table 1"]["hash"],
                    measured=metrics.out_of_order(results, reading, counted, "hash"),
                )
            )
        runs = select(results["table-1"], workload=reading)
        hashed = select(results["table-1-hash"], workload=reading)
        for key, measured in (
            (
                "share of wrong deliveries that Mostefaoui's detector tags",
                pooled(metrics.caught, runs),
            ),
            ("share of all deliveries that it tags", measure(metrics.tagged, runs)),
            ("hashes compared for a delivery", measure(metrics.hashes, hashed)),
            ("requests for a delivery, with grace and retries", measure(metrics.requests, hashed)),
            ("of them for nothing, for a delivery", measure(metrics.false_requests, hashed)),
        ):
            about = About(PAPER, "Detectors", f"{key}, {reading} senders")
            found.append(finding(about, measured=measured))
    return found


def _request_claims(results: Results) -> list[Claim]:
    found = [
        within(
            About(PAPER, "Table 2", f"requests, 1e-4 of deliveries, {nodes} processes"),
            published=PUBLISHED["Table 2"][nodes],
            measured=metrics.request_rate(results, "table-2", 1e4, nodes=nodes),
            rounding=0.005,
            reason=TABLE_2_REASON,
        )
        for nodes in metrics.nodes_run(results)
    ]
    directions = PUBLISHED["Figure 1"]
    no_numbers = "the figure is a plot: only the direction is published"

    def change(first: list[Run], last: list[Run]) -> Measured:
        return pooled(
            lambda before, after: metrics.requests_of_all(after) - metrics.requests_of_all(before),
            first,
            last,
        )

    figure = results["figure-1"]
    for few, more in pairwise(REQUEST_ENTRIES):
        found.append(
            same_sign(
                About(PAPER, "Figure 1", f"requests with {more} entries less those with {few}"),
                published=directions["direction with entries"],
                measured=change(select(figure, entries=few), select(figure, entries=more)),
                reason=no_numbers,
            )
        )
    for entries in REQUEST_ENTRIES:
        low, high = REQUEST_LOADS[0], REQUEST_LOADS[-1]
        what = f"requests at {high:g}/s less those at {low:g}/s, {entries} entries"
        found.append(
            same_sign(
                About(PAPER, "Figure 1", what),
                published=directions["direction with load"],
                measured=change(
                    select(figure, entries=entries, rate=low),
                    select(figure, entries=entries, rate=high),
                ),
                reason=no_numbers,
            )
        )
    for name, what in (("printed", "as printed"), ("grace", "with grace and retries")):
        for rate in RISING_LOADS:
            key = f"requests for a delivery {what}, {RISING_ENTRIES} entries, {rate:g} broadcasts/s"
            measured = metrics.request_rate(results, f"rising-{name}", 1.0, rate=rate)
            found.append(finding(About(PAPER, "Rising load", key), measured=measured))
    return found


def _error_findings(results: Results) -> list[Claim]:
    """The share of wrong deliveries without a detector, and what the formula expects."""
    found = []
    for name, nodes, points in metrics.error_settings():
        for rate, entries in points:
            expected = metrics.expected_errors(rate, entries, nodes)
            measured = metrics.error_share(results, name, rate, entries)
            what = f"{nodes} nodes, {entries} entries, {rate:g} broadcasts/s"
            found.append(
                finding(
                    About(PAPER, "Errors over load", f"share of deliveries out of order, {what}"),
                    measured=measured,
                    reason=f"the formula of precedes size gives {expected:.3g}; "
                    f"measured is {measured.mean / expected:.2f} times that",
                )
            )
    return found
