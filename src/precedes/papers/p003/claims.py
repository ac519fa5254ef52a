"""Paper 003: causal broadcast with probabilistic clocks and a hash error detector.

Table 1 with and without the detectors, the rate of requests over the load (Fig. 1) and over the
group (Table 2); beside them errors over load against a formula, and what becomes of the protocol
as printed when the load rises.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from precedes.papers.claims import About, Claim, equal, finding, same_sign, within
from precedes.papers.measured import Measured, Results, Run, measure, pooled, select
from precedes.papers.p003 import shown as clocks
from precedes.papers.p003.shown import (
    BROADCASTS,
    COUNTED,
    ENTRIES,
    LOADS,
    PER_PROCESS,
    READINGS,
    REQUEST_ENTRIES,
    REQUEST_LOADS,
    RISING_ENTRIES,
    RISING_LOADS,
    SIZED,
)
from precedes.papers.shown import Cell, Figure, Printed, Table
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, grid

PAPER: Final = "003"
TITLE: Final = "Causal broadcast with probabilistic clocks and a hash error detector"

# Table 1: 200 processes, a clock of 50 entries, 100 broadcasts per second, 100,000 of them:
# messages delivered out of causal order, by error detector. Table 2: requests, in 1e-4 of
# deliveries, at 110 broadcasts per second, by processes. Figure 1 is a plot without numbers; the
# text says which way the rate goes: down as entries are added, up with the load.
PUBLISHED: Final[dict[str, Any]] = {
    "Table 1": {"none": 507, "Mostefaoui and Weiss": 502, "hash": 0},
    "Table 2": {500: 2.21, 1000: 6.80, 2000: 2.81, 3000: 6.14, 5000: 5.78},
    "Figure 1": {"direction with entries": -1, "direction with load": 1},
}

REASON: Final = (
    "the paper gives neither the entries per process nor the way of counting; with larger clocks "
    "its value is passed (docs/protocols/probabilistic.md), so this number is no claim to hold"
)
TABLE_2_REASON: Final = (
    "one pair of broadcasts in quick succession makes many receivers ask, so runs of a few "
    "thousand messages differ by a factor of two"
)
# The protocol as printed asks at once, never tests again and does not look at sequence numbers.
PRINTED: Final = {"grace_ms": 0.0, "retry": False, "sender_order": False}
RETRYING: Final = {"grace_ms": 0.0, "retry": True, "sender_order": False}


def table_1(reading: str, seed: int) -> Scenario:
    """One run of Table 1 without a detector."""
    return Scenario(
        protocol="probabilistic",
        nodes=200,
        messages=BROADCASTS,
        rate=100.0,
        workload=reading,
        delay="normal:100:20",
        seed=seed,
        parameters={"entries": 50, "per_process": PER_PROCESS},
    )


def table_1_hashed(reading: str, seed: int) -> Scenario:
    """One run of Table 1 with the hash detector."""
    return table_1(reading, seed).replace(protocol="hashed")


def table_2_nodes(scale: str) -> tuple[int, ...]:
    """The groups of Table 2 that a scale runs; the oracle's memory grows with their square."""
    return tuple(PUBLISHED["Table 2"]) if scale == "full" else (500, 1000)


def experiments(scale: str) -> list[Experiment]:
    """The paper's experiments and those beside them; at the full scale as long as the paper's."""
    full = scale == "full"
    seeds = range(1, 11 if full else 4)
    base = table_1("poisson", 1)
    load = base.replace(messages=100_000 if full else 3_000)
    large = base.replace(nodes=2_000, messages=10_000 if full else 600)
    sized = [
        scenario
        for rate, entries in SIZED
        for scenario in grid(large, vary={"rate": [rate], "entries": [entries]}, seeds=seeds)
    ]
    tagging = base.replace(
        messages=BROADCASTS if full else 30_000,
        parameters={**base.parameters, "detector": "mostefaoui"},
    )
    hashing = table_1_hashed("poisson", 1).replace(messages=BROADCASTS if full else 5_000)
    return [
        Experiment("table-1", grid(tagging, vary={"workload": READINGS}, seeds=seeds)),
        Experiment("table-1-hash", grid(hashing, vary={"workload": READINGS}, seeds=seeds)),
        *_request_experiments(hashing, scale, seeds),
        Experiment("load", grid(load, vary={"rate": LOADS, "entries": ENTRIES}, seeds=seeds)),
        Experiment("sized", tuple(sized)),
    ]


def _request_experiments(base: Scenario, scale: str, seeds: range) -> list[Experiment]:
    full = scale == "full"
    periodic = base.replace(nodes=500, workload="periodic", messages=10_000 if full else 300)
    figure = periodic.replace(parameters={**base.parameters, **RETRYING})
    printed = {**base.parameters, **PRINTED}
    table = periodic.replace(rate=110.0, messages=5_000 if full else 600, parameters=printed)
    rising = base.replace(nodes=100, messages=3_000 if full else 800)
    fewer = {"entries": RISING_ENTRIES, "per_process": PER_PROCESS}
    vary = {"rate": REQUEST_LOADS, "entries": REQUEST_ENTRIES}
    return [
        Experiment("figure-1", grid(figure, vary=vary, seeds=seeds)),
        Experiment("table-2", grid(table, vary={"nodes": table_2_nodes(scale)}, seeds=seeds)),
        *(
            Experiment(
                f"rising-{name}",
                grid(
                    rising.replace(parameters={**fewer, **parameters}),
                    vary={"rate": RISING_LOADS},
                    seeds=seeds,
                ),
            )
            for name, parameters in (("printed", PRINTED), ("grace", {}))
        ),
    ]


def claims(results: Results) -> list[Claim]:
    """What is printed beside what is measured, and findings about the load."""
    return [
        *_table_1_claims(results),
        *_request_claims(results),
        *clocks.error_findings(PAPER, results),
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
                        measured=clocks.out_of_order(results, reading, counted, detector),
                        reason=REASON,
                    )
                )
            found.append(
                equal(
                    About(PAPER, "Table 1", f"out of order, hash, {reading} senders, {counted}"),
                    published=PUBLISHED["Table 1"]["hash"],
                    measured=clocks.out_of_order(results, reading, counted, "hash"),
                )
            )
        runs = select(results["table-1"], workload=reading)
        hashed = select(results["table-1-hash"], workload=reading)
        for key, measured in (
            (
                "share of wrong deliveries that Mostefaoui's detector tags",
                pooled(clocks.caught, runs),
            ),
            ("share of all deliveries that it tags", measure(clocks.tagged, runs)),
            ("hashes compared for a delivery", measure(clocks.hashes, hashed)),
            ("requests for a delivery, with grace and retries", measure(clocks.requests, hashed)),
            ("of them for nothing, for a delivery", measure(clocks.false_requests, hashed)),
        ):
            about = About(PAPER, "Detectors", f"{key}, {reading} senders")
            found.append(finding(about, measured=measured))
    return found


def _request_claims(results: Results) -> list[Claim]:
    found = [
        within(
            About(PAPER, "Table 2", f"requests, 1e-4 of deliveries, {nodes} processes"),
            published=PUBLISHED["Table 2"][nodes],
            measured=clocks.request_rate(results, "table-2", 1e4, nodes=nodes),
            rounding=0.005,
            reason=TABLE_2_REASON,
        )
        for nodes in clocks.nodes_run(results)
    ]
    directions = PUBLISHED["Figure 1"]
    no_numbers = "the figure is a plot: only the direction is published"

    def change(first: list[Run], last: list[Run]) -> Measured:
        return pooled(
            lambda before, after: clocks.requests_of_all(after) - clocks.requests_of_all(before),
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
            measured = clocks.request_rate(results, f"rising-{name}", 1.0, rate=rate)
            found.append(finding(About(PAPER, "Rising load", key), measured=measured))
    return found


def tables(results: Results) -> list[Table]:
    """Tables 1 and 2, published beside measured, and the measured rates by the formula."""
    first: list[tuple[Cell, ...]] = []
    for detector, value in PUBLISHED["Table 1"].items():
        here = [
            clocks.out_of_order(results, reading, counted, detector)
            for reading in READINGS
            for counted in COUNTED
        ]
        first.append((detector, Printed(value), *here))
    header = [f"{reading} senders, {counted}" for reading in READINGS for counted in COUNTED]
    measured = {
        nodes: clocks.request_rate(results, "table-2", 1e4, nodes=nodes)
        for nodes in clocks.nodes_run(results)
    }
    second: list[tuple[Cell, ...]] = [
        (nodes, Printed(value), measured.get(nodes))
        for nodes, value in PUBLISHED["Table 2"].items()
    ]
    return [
        Table(
            name="Table 1",
            header=("error detector", "published", *header),
            rows=tuple(first),
            note="Messages delivered out of causal order, of 100,000 broadcasts among 200 "
            "processes with 50 entries; counts of shorter runs are scaled to as many. Of "
            "Mostefaoui's detector: those that it did not tag.",
        ),
        Table(
            name="Table 2",
            header=("processes", "published", "measured"),
            rows=tuple(second),
            note="Requests for dependencies, in 1e-4 of deliveries, at 110 broadcasts/s, as "
            "printed: asked at once, not tested again. Large groups run with --full.",
        ),
        clocks.error_table(results),
    ]


def figures(results: Results) -> list[Figure]:
    """Requests over load (Fig. 1), what becomes of the printed protocol, and errors over load."""
    return clocks.figures(results)
