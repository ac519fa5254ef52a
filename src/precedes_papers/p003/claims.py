"""What "Improving accuracy" publishes and what was measured, and findings about the load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from precedes_papers.measured import Results, measure, select
from precedes_papers.p003 import PAPER, PUBLISHED, metrics
from precedes_papers.p003.experiments import (
    LIMITS,
    NODES,
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING,
    RISING_ENTRIES,
    RISING_LOADS,
    SEARCHES,
    TABLE_2_RUNS,
)
from precedes_papers.p003.metrics import COUNTED
from precedes_papers.rules import (
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


def claims(results: Results) -> Iterator[Claim]:
    """What is published and what is measured, and findings about the load."""
    for reading in READINGS:
        for counted in COUNTED:
            yield from _table_1(results, reading, counted)
    for reading in READINGS:
        yield from _detectors(results, reading)
    yield from _guarantees(results)
    for name, whose in TABLE_2_RUNS.items():
        yield from _table_2(results, name, whose)
    yield from _figure_1(results)
    yield from _request_findings(results)
    yield from _error_findings(results)


def _table_1(results: Results, reading: str, counted: str) -> Iterator[Claim]:
    printed, senders = PUBLISHED["Table 1"], f"{reading} senders"

    def about(what: str) -> About:
        return About(PAPER, "Table 1", f"{what}, {senders}, {counted}")

    wrong = {
        detector: metrics.out_of_order(results, reading, counted, detector) for detector in printed
    }
    for name in ("none", "Mostefaoui and Weiss"):
        what = about(f"out of order, detector {name}")
        yield one_run(what, printed[name], wrong[name], reason=TABLE_1_REASON)
    of_all = 100 / printed["none"]
    yield one_run(
        about("of those out of order, detected by Mostefaoui and Weiss, %"),
        PUBLISHED["Section 6"]["detected by Mostefaoui and Weiss"] * of_all,
        metrics.detected(results, reading, counted),
        rounding=of_all / 2,
        reason="it notices what comes late, not what comes too early",
    )
    yield equal(about("out of order, hash"), printed["hash"], wrong["hash"])
    what = about("missed by Mostefaoui and Weiss less those missed by the hash")
    by_hash_alone = metrics.found_by_hash_alone(results, reading, counted)
    yield same_sign(what, printed["Mostefaoui and Weiss"] - printed["hash"], by_hash_alone)


def _detectors(results: Results, reading: str) -> Iterator[Claim]:
    """Mostefaoui's detector in the text, and what the detectors cost."""
    senders = f"{reading} senders"
    runs = select(results["table-1"], workload=reading)
    hashed = select(results["table-1-hash"], workload=reading)
    about = About(PAPER, "Section 2", f"share of deliveries tagged though in order, {senders}")
    tagged = measure(metrics.tagged_in_order, runs)
    yield same_sign(about, PUBLISHED["Section 2"]["tagged in order"], tagged, is_size=False)
    yield irreproducible(
        About(PAPER, "Section 2", f"deliveries tagged by the printed condition, {senders}"),
        "might not be causally ordered",
        measure(metrics.tagged_as_printed, runs),
        reason="the printed condition is that of an ordinary delivery: it would tag nearly "
        "all, and not 5 of 507 wrong ones; its opposite is what is tested here",
    )
    for key, measured in (
        ("share of all deliveries that Mostefaoui's tags", measure(metrics.tagged, runs)),
        ("hashes compared for a delivery", measure(metrics.hashes, hashed)),
        ("requests for a delivery", measure(metrics.requests, hashed)),
        ("requests for nothing, for a delivery", measure(metrics.false_requests, hashed)),
    ):
        yield finding(About(PAPER, "Detectors", f"{key}, {senders}"), measured)


def _guarantees(results: Results) -> Iterator[Claim]:
    """What section 2 asks of causal broadcast, by the audit of traced runs."""
    counts = {"out of order": "violations", "twice": "duplicates", "never": "lost"}
    for search in SEARCHES:
        for what, count in counts.items():
            key = f"deliveries {what}, by the audit, hash detector, {SEARCHED[search]}"
            measured = metrics.audited(results, "guarantees", count, search=search)
            yield equal(About(PAPER, "Section 2", key), PUBLISHED["Section 2"][what], measured)
    printed = PUBLISHED["Abstract"]
    about = About(PAPER, "Abstract", "deliveries out of order with the clock alone, by the audit")
    alone = metrics.audited(results, "clock", "violations")
    yield same_sign(about, printed["out of order with the clock alone"], alone, is_size=False)
    about = About(PAPER, "Abstract", "bytes of a message of 1,000 processes less those of 100")
    yield equal(about, printed["bytes, with processes"], metrics.longer_messages(results))


def _table_2(results: Results, name: str, whose: str) -> Iterator[Claim]:
    printed = PUBLISHED["Table 2"]
    for nodes, published in printed.items():
        key = f"requests, 1e-4 of deliveries, {nodes} processes, {whose}"
        rate = metrics.request_rate(results, name, 1e4, nodes=nodes)
        about = About(PAPER, "Table 2", key)
        yield within(about, published, rate, rounding=0.005, reason=TABLE_2_REASON)
    apart = max(printed.values()) / min(printed.values())
    yield in_range(
        About(
            PAPER,
            "Table 2",
            f'"does not vary much": the rate of {NODES[-1]} processes in times that of '
            f"{NODES[0]}, beside how far printed ones are apart, {whose}",
        ),
        (1 / apart, apart),
        metrics.request_growth(results, name),
        reason="" if name == "table-2-periodic" else POISSON_REASON,
    )
    key = (
        '"few messages": requests, 1e-4 of deliveries, mean of five groups, beside the largest '
        f"printed, {whose}"
    )
    mean = metrics.mean_requests(results, name, 1e4)
    about = About(PAPER, "Section 7", key)
    yield at_most(about, max(printed.values()), mean, reason=TABLE_2_REASON)


def _figure_1(results: Results) -> Iterator[Claim]:
    """Directions, all of them."""
    printed = PUBLISHED["Figure 1"]
    rows = []
    for search, whose in SEARCHED.items():
        with_entries = metrics.change_with_entries(results, search, metrics.more_requests)
        for few, more, measured in with_entries:
            key = f"requests, {more} entries beside {few}: {SIZE}, {whose}"
            rows.append((key, "direction with entries", measured))
        low, high = REQUEST_LOADS[search][0], REQUEST_LOADS[search][-1]
        for entries in REQUEST_ENTRIES:
            key = f"requests, {high:g}/s beside {low:g}/s, {entries} entries: {SIZE}, {whose}"
            measured = metrics.change_with_load(results, search, entries)
            rows.append((key, "direction with load", measured))
    for few, more, measured in metrics.change_with_entries(results, "literal", metrics.more_shown):
        key = f"share of concurrent messages that the clock shows, {more} entries less {few}"
        rows.append((key, "concurrent messages shown, with entries", measured))
    key = "requests and concurrent messages that the clock does not show, correlation"
    name = "requests, with concurrent messages that are not shown"
    rows.append((key, name, metrics.requests_with_unshown(results)))
    for key, name, measured in rows:
        yield same_sign(About(PAPER, "Figure 1", key), printed[name], measured, is_size=False)


def _request_findings(results: Results) -> Iterator[Claim]:
    """Where the published protocol tips over: with the load, and with too few hashes."""
    for name, what in RISING.items():
        for rate in RISING_LOADS:
            key = f"requests for a delivery {what}, {RISING_ENTRIES} entries, {rate:g} broadcasts/s"
            measured = metrics.request_rate(results, name, 1.0, rate=rate)
            yield finding(About(PAPER, "Rising load", key), measured)
    key = f"requests, 1e-4 of deliveries, {NODES[0]} processes, messages in their turn"
    measured = metrics.request_rate(results, "in-turn", 1e4)
    yield finding(About(PAPER, "Sender's order", key), measured)
    for limit in LIMITS:
        key = f"requests for a delivery, search as printed, at most {limit} hashes a test"
        measured = metrics.request_rate(results, "limits", 1.0, hashes=limit)
        yield finding(About(PAPER, "Hashes", key), measured)


def _error_findings(results: Results) -> Iterator[Claim]:
    """The share of wrong deliveries without a detector, and what the formula expects."""
    for nodes, entries, rate, measured, expected in metrics.errors(results):
        what = f"{nodes} nodes, {entries} entries, {rate:g} broadcasts/s"
        yield finding(
            About(PAPER, "Errors over load", f"share of deliveries out of order, {what}"),
            measured,
            reason=f"the formula of precedes size gives {expected:.3g}; "
            f"measured is {measured.mean / expected:.2f} times that",
        )
