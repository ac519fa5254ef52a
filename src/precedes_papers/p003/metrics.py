"""Readers of the runs, and what the formula of precedes size expects."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from precedes.parts.sizing import error_rate
from precedes_papers.measured import Measured, Reader, Results, Run, measure, ranged, select, value
from precedes_papers.p003.experiments import (
    BROADCASTS,
    CLOCK_NODES,
    ENTRIES,
    LOADS,
    NODES,
    PER_PROCESS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    SIZED,
)

# The paper counts "messages": deliveries out of order, or distinct messages with one.
COUNTED: Final = ("deliveries", "messages")
UNTAGGED: Final = {"deliveries": "untagged_violations", "messages": "untagged_messages"}


def out_of_order(results: Results, reading: str, counted: str, detector: str) -> Measured:
    """Table 1: what is out of order and not tagged, for 100,000 broadcasts."""
    name = "table-1-hash" if detector == "hash" else "table-1"
    read = _missed(counted) if detector == "Mostefaoui and Weiss" else scaled(counted)
    return measure(read, select(results[name], workload=reading))


def detected(results: Results, reading: str, counted: str) -> Measured:
    """Table 1: of what is out of order, the percentage that Mostefaoui's detector tags."""
    wrong, missed = scaled(counted), _missed(counted)

    @ranged(0, 100)
    def read(run: Run) -> float:
        return 100 * max(1 - missed(run) / wrong(run), 0.0) if wrong(run) else 0.0

    return measure(read, select(results["table-1"], workload=reading))


def found_by_hash_alone(results: Results, reading: str, counted: str) -> Measured:
    """Errors missed by Mostefaoui's detector less those missed by the hash, by 100,000 messages."""
    wrong, missed = scaled(counted), _missed(counted)
    hashing = select(results["table-1-hash"], workload=reading)
    tagging = select(results["table-1"], workload=reading)[: len(hashing)]
    return measure(lambda one, other: missed(one) - wrong(other), tagging, hashing)


def scaled(counted: str) -> Reader:
    """A reader of what is out of order, for 100,000 broadcasts."""
    return ranged(0)(lambda run: run["violations"][counted] * BROADCASTS / run["broadcasts"])


def _missed(counted: str) -> Reader:
    name = UNTAGGED[counted]
    return ranged(0)(lambda run: run["extra"][name] * BROADCASTS / run["broadcasts"])


@ranged(0, 1)
def tagged(run: Run) -> float:
    """The share of deliveries that Mostefaoui's detector tagged."""
    return min(float(run["extra"]["tagged"]) / run["deliveries"], 1.0)


@ranged(0, 1)
def tagged_literally(run: Run) -> float:
    """The share that it would tag by the published condition, the opposite of the right one.

    A message is tested when each entry of its sender has reached the stamp less one. If one of
    them has not gone beyond, the paper tags the message; the detector takes it to be in order.
    """
    return 1 - tagged(run)


def tagged_in_order(run: Run) -> float:
    """The share of deliveries that were tagged and yet in order."""
    caught = run["violations"]["deliveries"] - run["extra"]["untagged_violations"]
    return float(run["extra"]["tagged"] - caught) / run["deliveries"]


def _per_delivery(name: str) -> Reader:
    return ranged(0)(lambda run: float(run["extra"][name]) / run["deliveries"])


hashes: Final = _per_delivery("hashes")
requests: Final = _per_delivery("requests")
false_requests: Final = _per_delivery("requests_false")  # the delivery lacked nothing


def request_rate(results: Results, name: str, unit: float, **wanted: float) -> Measured:
    """Requests for ``unit`` deliveries at a point of an experiment."""
    read = ranged(0)(lambda run: unit * requests(run))
    return measure(read, select(results[name], **wanted))


def request_growth(results: Results, name: str) -> Measured:
    """Table 2: the rate in the largest group, in times that in the smallest.

    A run without requests counts as one with a single one.
    """

    @ranged(0)
    def read(small: Run, large: Run) -> float:
        few, many = (max(run["extra"]["requests"], 1) / run["deliveries"] for run in (small, large))
        return float(many / few)

    groups = _by_nodes(results, name)
    return measure(read, groups[0], groups[-1])


def mean_requests(results: Results, name: str, unit: float) -> Measured:
    """Table 2: the mean over all groups."""
    read = ranged(0)(lambda *runs: unit * statistics.fmean(map(requests, runs)))
    return measure(read, *_by_nodes(results, name))


def _by_nodes(results: Results, name: str) -> list[list[Run]]:
    return [select(results[name], nodes=nodes) for nodes in NODES]


@ranged(-1, 1)
def more_requests(*runs: Run) -> float:
    """Relative increase of requests from the first half of the runs to the second, by point.

    The mean over points of the difference over the sum: between -1 and 1, so that points at which
    the protocol tips over do not outweigh all others.
    """
    return statistics.fmean(
        (requests(last) - requests(first)) / ((requests(first) + requests(last)) or 1.0)
        for first, last in _paired(runs)
    )


def more_shown(*runs: Run) -> float:
    """Increase of the share of concurrent messages that the clock shows, in the second half."""
    return statistics.fmean(shown(last) - shown(first) for first, last in _paired(runs))


def _paired(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    half = len(runs) // 2
    return list(zip(runs[:half], runs[half:], strict=True))


def change_with_entries(
    results: Results, search: str, read: Callable[..., float]
) -> list[tuple[int, int, Measured]]:
    """Figure 1: values at all loads for one size of the clock compared with the size before."""

    def at(entries: int) -> list[list[Run]]:
        runs = results[f"figure-1-{search}"]
        return [select(runs, entries=entries, rate=rate) for rate in REQUEST_LOADS[search]]

    return [
        (few, more, measure(read, *at(few), *at(more))) for few, more in pairwise(REQUEST_ENTRIES)
    ]


def change_with_load(results: Results, search: str, entries: int) -> Measured:
    """Figure 1: requests at the highest load compared with those at the lowest."""
    runs = select(results[f"figure-1-{search}"], entries=entries)
    low, high = REQUEST_LOADS[search][0], REQUEST_LOADS[search][-1]
    return measure(more_requests, select(runs, rate=low), select(runs, rate=high))


@ranged(0, 1)
def shown(run: Run) -> float:
    """Share of concurrent messages that the clock shows to be concurrent."""
    every = run["extra"]["concurrent"]
    return max(1 - run["extra"]["concurrent_unshown"] / every, 0.0) if every else 0.0


def requests_with_unshown(results: Results) -> Measured:
    """Figure 1: the correlation, over its points, of requests and concurrent messages not shown."""

    @ranged(-1, 1)
    def read(*runs: Run) -> float:
        unshown = [run["extra"]["concurrent_unshown"] / run["deliveries"] for run in runs]
        asked = [requests(run) for run in runs]
        if len(set(unshown)) < 2 or len(set(asked)) < 2:
            return 0.0
        return statistics.correlation(unshown, asked)

    runs = results["figure-1-literal"]
    points = [(rate, n) for rate in REQUEST_LOADS["literal"] for n in REQUEST_ENTRIES]
    return measure(read, *(select(runs, rate=rate, entries=n) for rate, n in points))


def audited(results: Results, name: str, count: str, **wanted: str) -> Measured:
    """Counts of the audits of traced runs."""
    return measure(value("audit", count, low=0), select(results[name], **wanted))


def longer_messages(results: Results) -> Measured:
    """Bytes of a packet in a large group less those in a small one."""

    def read(small: Run, large: Run) -> float:
        few, many = (run["bytes_sent"] / run["packets"] for run in (small, large))
        return float(many - few)

    return measure(read, *(select(results["sizes"], nodes=nodes) for nodes in CLOCK_NODES))


class Errors(NamedTuple):
    """The share of deliveries out of causal order at a point, measured and by the formula."""

    nodes: int
    entries: int
    rate: float
    measured: Measured
    expected: float


def errors(results: Results) -> list[Errors]:
    """The share at each load of 200 nodes, then where the formula of precedes size is checked."""

    @ranged(0, 1)
    def share(run: Run) -> float:
        return float(run["violations"]["deliveries"]) / run["deliveries"]

    points = [("load", 200, rate, entries) for rate in LOADS for entries in ENTRIES]
    points += [("sized", 2_000, rate, entries) for rate, entries in SIZED]
    shares = []
    for name, nodes, rate, entries in points:
        measured = measure(share, select(results[name], rate=rate, entries=entries))
        expected = error_rate(rate=rate, entries=entries, per_process=PER_PROCESS, nodes=nodes)
        shares.append(Errors(nodes, entries, rate, measured, expected))
    return shares
