"""The runs of section 6, and further ones.

Requests are those of the published protocol, with one set of parameters for Table 2 and Figure 1,
and with both searches: the one by peeling, and the published enumeration with far more hashes.
"""

from __future__ import annotations

from typing import Any, Final

from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, grid
from precedes_papers.measured import Fitted
from precedes_papers.p003 import PUBLISHED

# "Poisson with parameter delta" can mean gaps that are a Poisson number of milliseconds, which
# are nearly periodic, or a Poisson process, whose gaps are exponential.
READINGS: Final = ("periodic", "poisson")
BROADCASTS: Final = 100_000  # of Table 1: counts of shorter runs are scaled to it
PER_PROCESS: Final = 2

# The published protocol requests at once, never tests again and ignores sequence numbers.
AS_PUBLISHED: Final[dict[str, Any]] = {"grace_ms": 0.0, "retry": False, "sender_order": False}
# The paper gives no value of l. Of powers of ten this is the first with which its search keeps to
# requests as rare as Table 2 has them.
ENOUGH: Final = 100_000
LITERAL: Final[dict[str, Any]] = {"search": "literal", "hashes": ENOUGH}
SEARCHES: Final[dict[str, dict[str, Any]]] = {"peeling": {}, "literal": LITERAL}
LIMITS: Final = (100, 1_000, 10_000, ENOUGH)

FITTED: Final[tuple[Fitted, ...]] = (Fitted("hashes", ENOUGH, "Table 2"),)

# Points of a figure that is not in the paper: errors over the load for clocks of three sizes.
LOADS: Final = (30.0, 60.0, 100.0, 140.0, 200.0)
ENTRIES: Final = (25, 50, 100)
# (broadcasts per second, entries) that the formula of precedes size is checked at.
SIZED: Final = ((25.0, 20), (50.0, 40), (100.0, 60), (100.0, 120), (200.0, 160))

# Table 2, and Figure 1 in the group of Table 1, as the paper names no other. The enumeration takes
# minutes where it tips over: it has the loads at which none of the clocks does.
NODES: Final = tuple(PUBLISHED["Table 2"])
TABLE_2_RUNS: Final = {
    "table-2": "Poisson senders, search by peeling",
    "table-2-literal": "Poisson senders, search as printed",
    "table-2-periodic": "periodic senders, search by peeling",
}
REQUEST_LOADS: Final = {"peeling": (30.0, 60.0, 90.0, 110.0, 140.0), "literal": (30.0, 45.0, 60.0)}
REQUEST_ENTRIES: Final = (20, 25, 50)

# Where the published protocol tips over; not in the paper.
RISING: Final = {"rising-printed": "as printed", "rising-grace": "with grace and retries"}
RISING_LOADS: Final = (45.0, 60.0, 75.0, 90.0, 110.0)
RISING_ENTRIES: Final = 25

WIDTHS: Final = (4, 8, 16, 32)  # bits of a hash

CLOCK_NODES: Final = (100, 1_000)  # groups in which messages are as long as each other


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


def experiments(scale: str) -> list[Experiment]:
    """The paper's experiments and further ones; at full scale Table 1 has the published length."""
    full = scale == "full"
    seeds = range(1, 6 if full else 4)
    clock = table_1("poisson", 1)
    tagging = _with(clock, detector="mostefaoui").replace(messages=BROADCASTS if full else 20_000)
    published = _with(table_1_hashed("poisson", 1), **AS_PUBLISHED)
    hashing = published.replace(messages=BROADCASTS if full else 4_000)
    active = _with(hashing.replace(messages=2_000), detector="mostefaoui")
    narrow = published.replace(messages=20_000 if full else 4_000)
    readings = {"workload": READINGS}
    return [
        Experiment("table-1", grid(tagging, vary=readings, seeds=seeds)),
        Experiment("table-1-hash", grid(hashing, vary=readings, seeds=range(1, 4))),
        Experiment("active", grid(active, vary=readings, seeds=range(1, 4))),
        Experiment("narrow", grid(narrow, vary={"hash_bits": WIDTHS}, seeds=range(1, 4))),
        *_guarantees(clock, published, full, seeds),
        *_tables_2(published, full),
        *_figures_1(published, full),
        *_not_in_paper(clock, full, seeds),
    ]


def _with(scenario: Scenario, **parameters: Any) -> Scenario:
    return scenario.replace(parameters={**scenario.parameters, **parameters})


def _guarantees(clock: Scenario, published: Scenario, full: bool, seeds: range) -> list[Experiment]:
    """Traced, for the audit; with few hashes the literal search has nearly everything asked for."""
    length = {"messages": 1_500 if full else 500}
    searches = {"search": tuple(SEARCHES)}
    small = clock.replace(messages=20, oracle=False)
    return [
        Experiment(
            "guarantees", grid(published.replace(**length), vary=searches, seeds=seeds), trace=True
        ),
        Experiment("clock", grid(clock.replace(**length), vary={}, seeds=seeds), trace=True),
        Experiment("sizes", grid(small, vary={"nodes": CLOCK_NODES}, seeds=seeds)),
    ]


def _tables_2(published: Scenario, full: bool) -> list[Experiment]:
    """Longer runs for small groups: a message costs less there.

    Requests are the protocol's own count: no oracle, whose memory grows with the square.
    """
    base = published.replace(rate=110.0, oracle=False)
    # The scenario, its messages at least, its deliveries at least, and seeds.
    runs = {
        "table-2": (base, *((2_000, 2_500_000, 6) if full else (220, 750_000, 3))),
        "table-2-literal": (
            _with(base, **LITERAL),
            *((600, 1_000_000, 5) if full else (150, 250_000, 3)),
        ),
        "table-2-periodic": (
            base.replace(workload="periodic"),
            *((1_000, 1_000_000, 5) if full else (120, 150_000, 3)),
        ),
    }
    plan = []
    for name, (one, messages, deliveries, seeds) in runs.items():
        scenarios: list[Scenario] = []
        for nodes in NODES:
            sized = one.replace(nodes=nodes, messages=max(messages, deliveries // nodes))
            scenarios += grid(sized, vary={}, seeds=range(1, seeds + 1))
        plan.append(Experiment(name, tuple(scenarios)))
    return plan


def _figures_1(published: Scenario, full: bool) -> list[Experiment]:
    seeds = range(1, 9 if full else 4)
    messages = {"peeling": 500 if full else 200, "literal": 3_000 if full else 600}
    return [
        Experiment(
            f"figure-1-{search}",
            grid(
                _with(published, **parameters).replace(messages=messages[search], oracle=False),
                vary={"rate": REQUEST_LOADS[search], "entries": REQUEST_ENTRIES},
                seeds=seeds,
            ),
        )
        for search, parameters in SEARCHES.items()
    ]


def _in_turn(full: bool) -> Scenario:
    """The smallest group of Table 2, with messages that await the one before of their sender."""
    base = _with(table_1_hashed("poisson", 1), **{**AS_PUBLISHED, "sender_order": True})
    messages = 5_000 if full else 1_500
    return base.replace(nodes=NODES[0], rate=110.0, messages=messages, oracle=False)


def _not_in_paper(clock: Scenario, full: bool, seeds: range) -> list[Experiment]:
    """Runs that the paper does not have: overload, hashes, errors by the formula."""
    load = clock.replace(messages=20_000 if full else 2_000)
    large = clock.replace(nodes=2_000, messages=3_000 if full else 400)
    hashed = table_1_hashed("poisson", 1).replace(nodes=100, oracle=False)
    rising = _with(hashed, entries=RISING_ENTRIES).replace(messages=2_000 if full else 600)
    limited = _with(hashed, search="literal", **AS_PUBLISHED)
    limited = limited.replace(rate=110.0, messages=1_000 if full else 300)
    return [
        *(
            Experiment(
                name,
                grid(_with(rising, **parameters), vary={"rate": RISING_LOADS}, seeds=seeds),
            )
            for name, parameters in zip(RISING, (AS_PUBLISHED, {}), strict=True)
        ),
        Experiment("in-turn", grid(_in_turn(full), vary={}, seeds=seeds)),
        Experiment("limits", grid(limited, vary={"hashes": LIMITS}, seeds=seeds)),
        Experiment("load", grid(load, vary={"rate": LOADS, "entries": ENTRIES}, seeds=seeds)),
        Experiment(
            "sized",
            tuple(
                scenario
                for rate, entries in SIZED
                for scenario in grid(
                    large, vary={"rate": [rate], "entries": [entries]}, seeds=seeds
                )
            ),
        ),
    ]
