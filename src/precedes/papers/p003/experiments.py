"""The runs of section 6, and those beside them."""

from __future__ import annotations

from typing import Final

from precedes.papers.p003.published import PUBLISHED
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, grid

# "Poisson with parameter delta" can mean gaps that are a Poisson number of milliseconds, which
# are nearly periodic, or a Poisson process, whose gaps are exponential.
READINGS: Final = ("periodic", "poisson")
BROADCASTS: Final = 100_000  # of Table 1: counts of shorter runs are scaled to it
PER_PROCESS: Final = 2

# Points of a figure that is not in the paper: errors over the load for clocks of three sizes.
LOADS: Final = (30.0, 60.0, 100.0, 140.0, 200.0)
ENTRIES: Final = (25, 50, 100)
# (broadcasts per second, entries) that the formula of precedes size is checked at.
SIZED: Final = ((25.0, 20), (50.0, 40), (100.0, 60), (100.0, 120), (200.0, 160))

# Figure 1.
REQUEST_LOADS: Final = (30.0, 60.0, 90.0, 110.0, 140.0)
REQUEST_ENTRIES: Final = (20, 25, 50)

# Where the printed protocol tips over; not in the paper.
RISING_LOADS: Final = (45.0, 60.0, 75.0, 90.0, 110.0)
RISING_ENTRIES: Final = 25

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
