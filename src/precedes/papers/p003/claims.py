"""What "Improving accuracy" prints beside what was measured, and findings about the load."""

from __future__ import annotations

from typing import Final

from precedes.papers.claims import (
    About,
    Claim,
    at_most,
    equal,
    finding,
    in_range,
    irreproducible,
    one_run,
    same_sign,
    within,
)
from precedes.papers.measured import Results, measure, select
from precedes.papers.p003 import PAPER, metrics
from precedes.papers.p003.experiments import (
    LIMITS,
    NODES,
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING_ENTRIES,
    RISING_LOADS,
    SEARCHES,
    TABLE_2_RUNS,
)
from precedes.papers.p003.metrics import COUNTED
from precedes.papers.p003.published import PUBLISHED

TABLE_1_REASON: Final = (
    "no reading that was tried gives so few: nearly periodic and Poisson senders with one to four "
    "entries a process have 945 messages out of order or more; the paper gives neither the entries "
    "per process of this experiment nor the way of counting ('precedes docs probabilistic')"
)
TABLE_2_REASON: Final = (
    "print gives neither the length of these runs nor l, the hashes that a test may compare"
)
POISSON_REASON: Final = (
    "among few processes most requests follow two broadcasts of one sender in quick succession: "
    "they are gone if messages await the one before of their sender (item Sender's order); among "
    "ten times as many, a sender broadcasts a tenth as often"
)
SIZE: Final = "difference over sum"
SEARCHED: Final = {"peeling": "search by peeling", "literal": "search as printed"}


def claims(results: Results) -> list[Claim]:
    """What is printed beside what is measured, and findings about the load."""
    return [
        *_table_1_claims(results),
        *_detector_claims(results),
        *_guarantee_claims(results),
        *_table_2_claims(results),
        *_figure_1_claims(results),
        *_request_findings(results),
        *_error_findings(results),
    ]


def _table_1_claims(results: Results) -> list[Claim]:
    found = []
    of_all = 100 / PUBLISHED["Table 1"]["none"]
    for reading in READINGS:
        for counted in COUNTED:
            for detector in ("none", "Mostefaoui and Weiss"):
                what = f"out of order, detector {detector}, {reading} senders, {counted}"
                found.append(
                    one_run(
                        About(PAPER, "Table 1", what),
                        published=PUBLISHED["Table 1"][detector],
                        measured=metrics.out_of_order(results, reading, counted, detector),
                        reason=TABLE_1_REASON,
                    )
                )
            what = f"of those out of order, detected by Mostefaoui and Weiss, %, {reading} senders"
            found.append(
                one_run(
                    About(PAPER, "Table 1", f"{what}, {counted}"),
                    published=PUBLISHED["Section 6"]["detected by Mostefaoui and Weiss"] * of_all,
                    measured=metrics.detected(results, reading, counted),
                    rounding=of_all / 2,
                    reason="it notices what comes late, not what comes too early",
                )
            )
            found.append(
                equal(
                    About(PAPER, "Table 1", f"out of order, hash, {reading} senders, {counted}"),
                    published=PUBLISHED["Table 1"]["hash"],
                    measured=metrics.out_of_order(results, reading, counted, "hash"),
                )
            )
            found.append(
                same_sign(
                    About(
                        PAPER,
                        "Table 1",
                        "missed by Mostefaoui and Weiss less those missed by the hash, "
                        f"{reading} senders, {counted}",
                    ),
                    published=PUBLISHED["Table 1"]["Mostefaoui and Weiss"]
                    - PUBLISHED["Table 1"]["hash"],
                    measured=metrics.found_by_hash_alone(results, reading, counted),
                )
            )
    return found


def _detector_claims(results: Results) -> list[Claim]:
    """Mostefaoui's detector in the text, and what the detectors cost."""
    found = []
    for reading in READINGS:
        senders = f"{reading} senders"
        runs = select(results["table-1"], workload=reading)
        hashed = select(results["table-1-hash"], workload=reading)
        found += [
            same_sign(
                About(PAPER, "Section 2", f"share of deliveries tagged though in order, {senders}"),
                published=PUBLISHED["Section 2"]["tagged in order"],
                measured=measure(metrics.tagged_in_order, runs),
                is_size=False,
            ),
            irreproducible(
                About(PAPER, "Section 2", f"deliveries tagged by the printed condition, {senders}"),
                published="might not be causally ordered",
                measured=measure(metrics.tagged_as_printed, runs),
                reason="the printed condition is that of an ordinary delivery: it would tag nearly "
                "all, and not 5 of 507 wrong ones; its opposite is what is tested here",
            ),
        ]
        for key, measured in (
            ("share of all deliveries that Mostefaoui's tags", measure(metrics.tagged, runs)),
            ("hashes compared for a delivery", measure(metrics.hashes, hashed)),
            ("requests for a delivery", measure(metrics.requests, hashed)),
            ("requests for nothing, for a delivery", measure(metrics.false_requests, hashed)),
        ):
            about = About(PAPER, "Detectors", f"{key}, {senders}")
            found.append(finding(about, measured=measured))
    return found


def _guarantee_claims(results: Results) -> list[Claim]:
    """What section 2 asks of causal broadcast, by the audit of traced runs."""
    names = {"out of order": "violations", "twice": "duplicates", "never": "lost"}
    found = [
        equal(
            About(
                PAPER,
                "Section 2",
                f"deliveries {what}, by the audit, hash detector, {SEARCHED[search]}",
            ),
            published=PUBLISHED["Section 2"][what],
            measured=metrics.audited(results, "guarantees", count, search=search),
        )
        for search in SEARCHES
        for what, count in names.items()
    ]
    found.append(
        same_sign(
            About(PAPER, "Abstract", "deliveries out of order with the clock alone, by the audit"),
            published=PUBLISHED["Abstract"]["out of order with the clock alone"],
            measured=metrics.audited(results, "clock", "violations"),
            is_size=False,
        )
    )
    found.append(
        equal(
            About(PAPER, "Abstract", "bytes of a message of 1,000 processes less those of 100"),
            published=PUBLISHED["Abstract"]["bytes, with processes"],
            measured=metrics.longer_messages(results),
        )
    )
    return found


def _table_2_claims(results: Results) -> list[Claim]:
    printed = PUBLISHED["Table 2"]
    apart = max(printed.values()) / min(printed.values())
    found = []
    for name, whose in TABLE_2_RUNS.items():
        found += [
            within(
                About(
                    PAPER, "Table 2", f"requests, 1e-4 of deliveries, {nodes} processes, {whose}"
                ),
                published=printed[nodes],
                measured=metrics.request_rate(results, name, 1e4, nodes=nodes),
                rounding=0.005,
                reason=TABLE_2_REASON,
            )
            for nodes in NODES
        ]
        found += [
            in_range(
                About(
                    PAPER,
                    "Table 2",
                    f'"does not vary much": the rate of {NODES[-1]} processes in times that of '
                    f"{NODES[0]}, beside how far printed ones are apart, {whose}",
                ),
                published=(1 / apart, apart),
                measured=metrics.request_growth(results, name),
                reason="" if name == "table-2-periodic" else POISSON_REASON,
            ),
            at_most(
                About(
                    PAPER,
                    "Section 7",
                    '"few messages": requests, 1e-4 of deliveries, mean of five groups, beside '
                    f"the largest printed, {whose}",
                ),
                published=max(printed.values()),
                measured=metrics.mean_requests(results, name, 1e4),
                reason=TABLE_2_REASON,
            ),
        ]
    return found


def _figure_1_claims(results: Results) -> list[Claim]:
    printed = PUBLISHED["Figure 1"]
    found = []
    for search, whose in SEARCHED.items():
        found += [
            same_sign(
                About(PAPER, "Figure 1", f"requests, {more} entries beside {few}: {SIZE}, {whose}"),
                published=printed["direction with entries"],
                measured=measured,
                is_size=False,
            )
            for few, more, measured in metrics.change_with_entries(
                results, search, metrics.more_requests
            )
        ]
        low, high = REQUEST_LOADS[search][0], REQUEST_LOADS[search][-1]
        found += [
            same_sign(
                About(
                    PAPER,
                    "Figure 1",
                    f"requests, {high:g}/s beside {low:g}/s, {entries} entries: {SIZE}, {whose}",
                ),
                published=printed["direction with load"],
                measured=metrics.change_with_load(results, search, entries),
                is_size=False,
            )
            for entries in REQUEST_ENTRIES
        ]
    found += [
        same_sign(
            About(
                PAPER,
                "Figure 1",
                f"share of concurrent messages that the clock shows, {more} entries less {few}",
            ),
            published=printed["concurrent messages shown, with entries"],
            measured=measured,
            is_size=False,
        )
        for few, more, measured in metrics.change_with_entries(
            results, "literal", metrics.more_shown
        )
    ]
    found.append(
        same_sign(
            About(
                PAPER,
                "Figure 1",
                "requests and concurrent messages that the clock does not show, correlation",
            ),
            published=printed["requests, with concurrent messages that are not shown"],
            measured=metrics.requests_with_unshown(results),
            is_size=False,
        )
    )
    return found


def _request_findings(results: Results) -> list[Claim]:
    """Where the printed protocol tips over: with the load, and with too few hashes."""
    found = []
    for name, what in (("printed", "as printed"), ("grace", "with grace and retries")):
        for rate in RISING_LOADS:
            key = f"requests for a delivery {what}, {RISING_ENTRIES} entries, {rate:g} broadcasts/s"
            measured = metrics.request_rate(results, f"rising-{name}", 1.0, rate=rate)
            found.append(finding(About(PAPER, "Rising load", key), measured=measured))
    key = f"requests, 1e-4 of deliveries, {NODES[0]} processes, messages in their turn"
    measured = metrics.request_rate(results, "in-turn", 1e4)
    found.append(finding(About(PAPER, "Sender's order", key), measured=measured))
    for limit in LIMITS:
        key = f"requests for a delivery, search as printed, at most {limit} hashes a test"
        measured = metrics.request_rate(results, "limits", 1.0, hashes=limit)
        found.append(finding(About(PAPER, "Hashes", key), measured=measured))
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
