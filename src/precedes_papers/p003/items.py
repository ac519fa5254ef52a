"""Published and measured values of "Improving accuracy", and findings about the load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from precedes_papers import rules
from precedes_papers.measured import Results, measure, select
from precedes_papers.p003 import PUBLISHED, metrics
from precedes_papers.p003.experiments import (
    ENOUGH,
    ENTRIES,
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
    WIDTHS,
)
from precedes_papers.p003.metrics import COUNTED, request_rate
from precedes_papers.rules import Claim
from precedes_papers.shown import (
    Claims,
    Figure,
    Headlines,
    Series,
    Statement,
    Table,
    measured_series,
    model_series,
    published_series,
)

TABLE_1_REASON: Final = (
    "no reading that was tried gives so few: nearly periodic and Poisson senders with one to four "
    "entries a process have 945 messages out of order or more; the paper gives neither the entries "
    "per process of this experiment nor the way of counting ('precedes docs probabilistic')"
)
TABLE_2_REASON: Final = (
    "the paper gives neither the length of these runs nor l, the hashes that a test may compare"
)
POISSON_REASON: Final = (
    "among few processes most requests follow two broadcasts of one sender in quick succession: "
    "they are gone if messages await the one before of their sender (item Sender's order); among "
    "ten times as many, a sender broadcasts a tenth as often"
)
LATE_REASON: Final = "it notices what comes late, not what comes too early"
CONDITION_REASON: Final = (
    "the printed condition is that of an ordinary delivery: it would tag nearly all, and not 5 of "
    "507 wrong ones; its opposite is what is tested here"
)
ACTIVE_REASON: Final = (
    "what the detector suspects waits for an answer, and makes others late while it waits; the "
    "published count may be of one that only tags"
)
SIZE: Final = "difference over sum"
SEARCHED: Final = {"peeling": "search by peeling", "literal": "search as printed"}
# By their names in Table 1: senders and counts.
COUNTS: Final = {
    (reading, counted): f"{reading} senders, {counted}"
    for reading in READINGS
    for counted in COUNTED
}
ACTIVE: Final = {label: f"active, {label}" for label in COUNTS.values()}
MESSAGES: Final = {
    "periodic senders": COUNTS["periodic", "messages"],
    "Poisson senders": COUNTS["poisson", "messages"],
}
DETECTED: Final = "of those out of order, detected by Mostefaoui and Weiss, %"
GROWTH: Final = (
    f'"does not vary much": rate of {NODES[-1]} processes divided by that of {NODES[0]}, '
    "compared with the range of published rates"
)
FEW: Final = (
    '"few messages": requests, 1e-4 of deliveries, mean of five groups, and the largest published'
)


def _requests(nodes: int) -> str:
    return f"requests, 1e-4 of deliveries, {nodes} processes"


HEADLINES: Final = Headlines(
    (
        Statement(
            "of 100,000 messages, {} are out of causal order with the clock alone",
            "out of order, clock alone", "Table 1", "out of order, detector none", MESSAGES,
        ),
        Statement(
            "with the hash detector {} are",
            "out of order, hash detector", "Table 1", "out of order, hash", MESSAGES,
        ),
        Statement(
            "{} of those out of order are noticed by the detector of Mostefaoui and Weiss",
            "noticed by Mostefaoui and Weiss", "Table 1", DETECTED, MESSAGES, "%",
        ),
        Statement(
            f"among {NODES[-1]:,} processes, {{}} in 10,000 deliveries ask for a message",
            "requests in 10,000 deliveries", "Table 2", _requests(NODES[-1]),
            {whose: whose for whose in TABLE_2_RUNS.values()},
        ),
    ),
    figures=("Requests by processes", "Errors over load, 200 nodes"),
)  # fmt: skip


def claims(results: Results) -> Iterator[Claim]:
    """Published and measured values, and findings about the load."""
    yield from _table_1(results)
    yield from _detectors(results)
    yield from _guarantees(results)
    yield from _table_2(results)
    yield from _figure_1(results)
    for name, case in RISING.items():
        for rate in RISING_LOADS:
            key = f"requests for a delivery {case}, {RISING_ENTRIES} entries, {rate:g} broadcasts/s"
            measured = request_rate(results, name, 1.0, rate=rate)
            yield rules.finding(("Rising load", key), measured)
    key = f"requests, 1e-4 of deliveries, {NODES[0]} processes, messages in their turn"
    yield rules.finding(("Sender's order", key), request_rate(results, "in-turn", 1e4))
    for limit in LIMITS:
        measured = request_rate(results, "limits", 1.0, hashes=limit)
        yield rules.finding(("Hashes", _limited(limit)), measured)
    for nodes, entries, rate, measured, expected in metrics.errors(results):
        case = f"{nodes} nodes, {entries} entries, {rate:g} broadcasts/s"
        yield rules.finding(
            ("Errors over load", f"share of deliveries out of order, {case}"),
            measured,
            reason=f"the formula of precedes size gives {expected:.3g}; "
            f"measured is {measured.mean / expected:.2f} times that",
        )


def _limited(limit: int) -> str:
    return f"requests for a delivery, search as printed, at most {limit} hashes a test"


def _narrow(bits: int) -> str:
    return f"out of order, hash of {bits} bits"


def _table_1(results: Results) -> Iterator[Claim]:
    item, published = "Table 1", PUBLISHED["Table 1"]
    for bits in WIDTHS:
        collided = measure(metrics.scaled("messages"), select(results["narrow"], hash_bits=bits))
        yield rules.finding(("Hash width", _narrow(bits)), collided)
    of_all = 100 / published["none"]
    share = PUBLISHED["Section 6"]["detected by Mostefaoui and Weiss"] * of_all
    for (reading, counted), label in COUNTS.items():
        wrong = {
            detector: metrics.out_of_order(results, reading, counted, detector)
            for detector in published
        }
        for name in ("none", "Mostefaoui and Weiss"):
            about = item, f"out of order, detector {name}", label
            yield rules.within(about, published[name], wrong[name], runs=1, reason=TABLE_1_REASON)
        detected = metrics.detected(results, reading, counted)
        about = item, "out of order, detector Mostefaoui and Weiss", ACTIVE[label]
        runs = select(results["active"], workload=reading)
        active = measure(metrics.scaled(counted), runs)
        tagged = published["Mostefaoui and Weiss"]
        yield rules.within(about, tagged, active, runs=1, reason=ACTIVE_REASON)
        about = item, DETECTED, label
        yield rules.within(about, share, detected, runs=1, rounding=of_all / 2, reason=LATE_REASON)
        yield rules.equal((item, "out of order, hash", label), published["hash"], wrong["hash"])
        about = item, "missed by Mostefaoui and Weiss less those missed by the hash", label
        by_hash_alone = metrics.found_by_hash_alone(results, reading, counted)
        more = published["Mostefaoui and Weiss"] - published["hash"]
        yield rules.same_sign(about, more, by_hash_alone)


def _detectors(results: Results) -> Iterator[Claim]:
    """Mostefaoui's detector in the text, and what the detectors cost."""
    for reading in READINGS:
        senders = f"{reading} senders"
        runs = select(results["table-1"], workload=reading)
        hashed = select(results["table-1-hash"], workload=reading)
        about = "Section 2", "share of deliveries tagged though in order", senders
        tagged, more = measure(metrics.tagged_in_order, runs), PUBLISHED["Section 2"]
        yield rules.same_sign(about, more["tagged in order"], tagged, is_size=False)
        about = "Section 2", "deliveries tagged by the printed condition", senders
        nearly_all, says = measure(metrics.tagged_literally, runs), "might not be causally ordered"
        yield rules.irreproducible(about, says, nearly_all, reason=CONDITION_REASON)
        for key, measured in (
            ("share of all deliveries that Mostefaoui's tags", measure(metrics.tagged, runs)),
            ("hashes compared for a delivery", measure(metrics.hashes, hashed)),
            ("requests for a delivery", measure(metrics.requests, hashed)),
            ("requests for nothing, for a delivery", measure(metrics.false_requests, hashed)),
        ):
            yield rules.finding(("Detectors", key, senders), measured)


def _guarantees(results: Results) -> Iterator[Claim]:
    """Requirements of section 2 on causal broadcast, by the audit of traced runs."""
    counts = {"out of order": "violations", "twice": "duplicates", "never": "lost"}
    for search in SEARCHES:
        for fault, count in counts.items():
            kept = "Section 2", f"deliveries {fault}, by the audit, hash detector", SEARCHED[search]
            measured = metrics.audited(results, "guarantees", count, search=search)
            yield rules.equal(kept, PUBLISHED["Section 2"][fault], measured)
    published = PUBLISHED["Abstract"]
    about = "Abstract", "deliveries out of order with the clock alone, by the audit"
    alone = metrics.audited(results, "clock", "violations")
    errs = published["out of order with the clock alone"]
    yield rules.same_sign(about, errs, alone, is_size=False)
    about = "Abstract", "bytes of a message of 1,000 processes less those of 100"
    yield rules.equal(about, published["bytes, with processes"], metrics.longer_messages(results))


def _table_2(results: Results) -> Iterator[Claim]:
    """Like Table 1 without a number of runs, and so taken for one run each."""
    item, listed = "Table 2", PUBLISHED["Table 2"]
    apart = max(listed.values()) / min(listed.values())
    for name, whose in TABLE_2_RUNS.items():
        for nodes, published in listed.items():
            about = item, _requests(nodes), whose
            rate = request_rate(results, name, 1e4, nodes=nodes)
            yield rules.within(
                about, published, rate, runs=1, rounding=0.005, reason=TABLE_2_REASON
            )
        growth = metrics.request_growth(results, name)
        why = "" if name == "table-2-periodic" else POISSON_REASON
        yield rules.in_range((item, GROWTH, whose), (1 / apart, apart), growth, reason=why)
        mean, about = metrics.mean_requests(results, name, 1e4), ("Section 7", FEW, whose)
        yield rules.at_most(about, max(listed.values()), mean, reason=TABLE_2_REASON)


def _figure_1(results: Results) -> Iterator[Claim]:
    """Directions, all of them."""
    item, published = "Figure 1", PUBLISHED["Figure 1"]
    rows = []
    for search, whose in SEARCHED.items():
        with_entries = metrics.change_with_entries(results, search, metrics.more_requests)
        for few, more, measured in with_entries:
            about = item, f"requests, {more} entries compared with {few}: {SIZE}", whose
            rows.append((about, "direction with entries", measured))
        low, high = REQUEST_LOADS[search][0], REQUEST_LOADS[search][-1]
        for entries in REQUEST_ENTRIES:
            key = f"requests, the highest load compared with {low:g}/s, {entries} entries: {SIZE}"
            measured = metrics.change_with_load(results, search, entries)
            rows.append(((item, key, f"{whose}, {high:g}/s"), "direction with load", measured))
    for few, more, measured in metrics.change_with_entries(results, "literal", metrics.more_shown):
        key = f"share of concurrent messages that the clock shows, {more} entries less {few}"
        rows.append(((item, key, ""), "concurrent messages shown, with entries", measured))
    key = "requests and concurrent messages that the clock does not show, correlation"
    name = "requests, with concurrent messages that are not shown"
    rows.append(((item, key, ""), name, metrics.requests_with_unshown(results)))
    for about, name, measured in rows:
        yield rules.same_sign(about, published[name], measured, is_size=False)


def shown(results: Results, claims: Claims) -> Iterator[Table | Figure]:
    """Tables 1 and 2, what is not published, and requests and errors over load and group."""
    yield Table(
        "Table 1",
        ("error detector", "published", *COUNTS.values()),
        tuple(
            (name, *claims.cells("Table 1", f"out of order, {key}", labels))
            for name, key, labels in (
                ("none", "detector none", COUNTS.values()),
                ("Mostefaoui and Weiss", "detector Mostefaoui and Weiss", COUNTS.values()),
                ("the same, active", "detector Mostefaoui and Weiss", ACTIVE.values()),
                ("hash", "hash", COUNTS.values()),
            )
        ),
        "Messages delivered out of causal order, of 100,000 broadcasts among 200 processes "
        "with 50 entries; counts of shorter runs are scaled to as many. Of Mostefaoui's "
        "detector: those that it did not tag; active, those that are delivered though it waits for "
        "answers about what it suspects.",
    )
    yield Table(
        "Hash width",
        ("bits of a hash", "messages out of order"),
        tuple((bits, claims.measured("Hash width", _narrow(bits))) for bits in WIDTHS),
        "Of 100,000 broadcasts, with the hash detector: what it takes for complete by a collision.",
    )
    yield Table(
        "Table 2",
        ("processes", "published", *TABLE_2_RUNS.values()),
        tuple(
            (nodes, *claims.cells("Table 2", _requests(nodes), TABLE_2_RUNS.values()))
            for nodes in NODES
        ),
        "Requests for dependencies, in 1e-4 of deliveries, at 110 broadcasts/s, with the "
        "protocol as printed: asked at once, not tested again. A test may compare 100 hashes "
        f"by peeling, {ENOUGH:,} with the search as printed.",
    )
    yield Table(
        "Hashes",
        ("hashes a test may compare", "requests for a delivery"),
        tuple((limit, claims.measured("Hashes", _limited(limit))) for limit in LIMITS),
        "The protocol and its search as printed, 100 processes with 50 entries at 110 "
        "broadcasts/s. With few hashes tests fail, and what waits for an answer makes others "
        "fail.",
    )
    yield Table(
        "Errors over load",
        ("nodes", "entries", "broadcasts/s", "measured", "formula"),
        tuple(metrics.errors(results)),
        "The share of deliveries out of causal order without a detector, and what the formula "
        "of precedes size expects. Errors come in clusters, so few seeds leave wide intervals.",
    )
    yield from _of_requests(results, claims)
    errors = {
        entries: [
            one for one in metrics.errors(results) if (one.nodes, one.entries) == (200, entries)
        ]
        for entries in ENTRIES
    }
    yield Figure(
        name="Errors over load, 200 nodes",
        title="Deliveries out of causal order, 200 nodes",
        x_label="broadcasts per second, whole group",
        y_label="share of deliveries",
        series=(
            *(
                measured_series(f"{entries} entries", [(one.rate, one.measured) for one in points])
                for entries, points in errors.items()
            ),
            *(
                model_series(
                    f"{entries} entries, formula", [(one.rate, one.expected) for one in points]
                )
                for entries, points in errors.items()
            ),
        ),
        alt="The share of deliveries out of causal order over the load, for clocks of 25, 50 "
        "and 100 entries, compared with the formula's.",
        log_y=True,
    )


def _of_requests(results: Results, claims: Claims) -> Iterator[Figure]:
    """Over load, over the group, and at higher loads."""

    def over(label: str, name: str, unit: float, loads: tuple[float, ...], **at: int) -> Series:
        points = [(rate, request_rate(results, name, unit, rate=rate, **at)) for rate in loads]
        return measured_series(label, points)

    # The published one is a plot without a table: there are no values to compare.
    for search, name in (("peeling", "Figure 1"), ("literal", "Figure 1, search as printed")):
        loads = REQUEST_LOADS[search]
        yield Figure(
            name=name,
            title="Requests for dependencies, 200 nodes",
            x_label="broadcasts per second, whole group",
            y_label="requests, 1e-4 of deliveries",
            series=tuple(
                over(f"{n} entries", f"figure-1-{search}", 1e4, loads, entries=n)
                for n in REQUEST_ENTRIES
            ),
            alt="Requests for dependencies over the load, for clocks of 20, 25 and 50 entries: "
            "more with the load, fewer with a larger clock; small clocks tip over at high loads.",
            log_y=True,
        )
    keys = {float(nodes): _requests(nodes) for nodes in NODES}
    yield Figure(
        name="Requests by processes",
        title="Requests for dependencies, 110 broadcasts/s, 50 entries",
        x_label="processes",
        y_label="requests, 1e-4 of deliveries",
        series=(
            *(claims.line(whose, "Table 2", keys, whose) for whose in TABLE_2_RUNS.values()),
            published_series("published", list(PUBLISHED["Table 2"].items())),
        ),
        alt="The rates of Table 2 over the number of processes: with Poisson senders they "
        "fall, with periodic ones they stay about the same, and the published ones go up and "
        "down.",
    )
    yield Figure(
        name="Rising load, 100 nodes",
        title=f"Requests as the load rises, {RISING_ENTRIES} entries, 100 nodes",
        x_label="broadcasts per second, whole group",
        y_label="requests for a delivery",
        series=tuple(over(label, name, 1.0, RISING_LOADS) for name, label in RISING.items()),
        alt="Requests for a delivery over the load: as printed they jump from a few in "
        "thousand to half of all deliveries, because messages that wait for an answer are "
        "concurrent to more others; with grace and retries they stay few.",
    )
