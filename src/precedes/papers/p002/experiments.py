"""The runs of section V, and those beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from precedes.parts.sizing import size
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, grid

# Figure 5: loads, and the shares of deliveries that may be out of causal order.
LOADS: Final = (50.0, 100.0, 200.0)
TARGETS: Final = (1e-4, 5e-5, 1e-5, 5e-6, 1e-6)
COMPONENT: Final = 16

# Figures 6 to 9. The paper names neither the error that its clocks aim at nor the shapes of the
# loads. The bell is a Gaussian; the random load stays in the lower quarter of its range but for
# three peaks in the upper one. In groups of each size the target is the one that gives clocks of
# the paper's mean size, which is also that of the fixed clock. A pair of messages that one process
# sends in quick succession may go wrong at most receivers: only sums over seeds say something.
LOADS_OVER_TIME: Final[dict[str, dict[str, Any]]] = {
    "bell": {
        "workload": "bell:10:200",
        "duration_s": 200.0,
        "error": {"quick": 4.85e-5, "full": 1.6e-5},
        "fixed": 260,
    },
    "random": {
        "workload": "random:10:200:3",
        "duration_s": 300.0,
        "error": {"quick": 1.27e-4, "full": 4.2e-5},
        "fixed": 97,
    },
}
GROUP: Final = {"quick": 200, "full": 1000}
SEEDS_OVER_TIME: Final = {"quick": range(1, 9), "full": range(1, 13)}

# Figure 10: four components of 50 entries, two of which a process increments in one of them. From
# 50 s on those that start with the first component broadcast three quarters of all messages.
SHIFT_S: Final = 50
REBALANCED_S: Final = 90
SHIFT_END_S: Final = 130
SHIFT_SEEDS: Final = {"quick": range(1, 3), "full": range(1, 61)}
SHIFTED: Final = {
    "component_entries": 50,
    "components": 4,
    "components_max": 4,
    "spread": 1,
    "per_component": 2,
}

ROUND_NODES: Final = (50, 200, 500, 1000, 2000)
BYTE_LOADS: Final = (10.0, 100.0, 400.0)
HASH_ERROR: Final = 1e-3  # what the clock alone would err; the hash finds it


def experiments(scale: str) -> list[Experiment]:
    """The paper's experiments and those beside them."""
    full = scale == "full"
    seeds = range(1, 11 if full else 3)
    found = [sized_experiment(scale, seeds)]
    for name in LOADS_OVER_TIME:
        over = SEEDS_OVER_TIME[scale]
        runs = tuple(over_time(name, scale, seed) for seed in over)
        found.append(Experiment(name, runs))
        runs = tuple(fixed(name, scale, seed) for seed in over)
        found.append(Experiment(f"{name}-fixed", runs))
    for name, balanced in (("balanced", True), ("unbalanced", False)):
        runs = tuple(shifted(seed, balanced=balanced) for seed in SHIFT_SEEDS[scale])
        found.append(Experiment(name, runs))
    return [*found, round_experiment(), byte_experiment(scale)]


def byte_nodes(scale: str) -> tuple[int, ...]:
    """Groups in which the bytes of messages are measured."""
    return (100, 500, 1000, 2000, 5000) if scale == "full" else (100, 1000)


def over_time(name: str, scale: str, seed: int) -> Scenario:
    """A run of the bell or of the random load."""
    load = LOADS_OVER_TIME[name]
    return Scenario(
        protocol="dcs",
        nodes=GROUP[scale],
        workload=load["workload"],
        duration_s=load["duration_s"],
        seed=seed,
        parameters={
            "error": load["error"][scale],
            "component_entries": COMPONENT,
            "components_max": 128,
        },
    )


def fixed(name: str, scale: str, seed: int) -> Scenario:
    """The same load with a probabilistic clock of the paper's mean size."""
    entries = LOADS_OVER_TIME[name]["fixed"]
    return over_time(name, scale, seed).replace(
        protocol="probabilistic", parameters={"entries": entries}
    )


def shifted(seed: int, *, balanced: bool) -> Scenario:
    """A run of Figure 10."""
    return Scenario(
        protocol="dcs",
        nodes=1000,
        rate=100.0,
        workload=f"shift:{SHIFT_S}:0.75:4",
        duration_s=float(SHIFT_END_S),
        seed=seed,
        parameters={**SHIFTED, "balance_ms": 20_000.0 if balanced else 0.0},
    )


def sized(load: float, target: float, scale: str) -> Scenario:
    """A point of Figure 5: a clock that begins with what the load asks for."""
    entries = size(rate=load, nodes=2000, error=target).entries
    return Scenario(
        protocol="dcs",
        nodes=2000,
        rate=load,
        messages=4000 if scale == "full" else 300,
        parameters={
            "error": target,
            "component_entries": COMPONENT if entries < 1500 else 2 * COMPONENT,
            "components": math.ceil(entries / (COMPONENT if entries < 1500 else 2 * COMPONENT)),
            "components_max": 128,
        },
    )


def sized_experiment(scale: str, seeds: Sequence[int]) -> Experiment:
    """All points of Figure 5."""
    return Experiment(
        "figure-5",
        tuple(
            sized(load, target, scale).replace(seed=seed)
            for target in TARGETS
            for load in LOADS
            for seed in seeds
        ),
    )


def round_experiment() -> Experiment:
    """A load that goes up and down once: what the rounds cost in groups of any size."""
    base = Scenario(
        protocol="dcs",
        nodes=50,
        workload="bell:1:30",
        duration_s=15.0,
        parameters={"component_entries": COMPONENT, "keep_ms": 2000.0},
    )
    return Experiment("rounds", grid(base, vary={"nodes": ROUND_NODES}, seeds=(1,)))


def byte_experiment(scale: str) -> Experiment:
    """Exact order with a clock that follows the load; an equally large fixed one; a vector."""
    found = []
    for nodes in byte_nodes(scale):
        for load in BYTE_LOADS:
            entries = size(rate=load, nodes=nodes, error=HASH_ERROR).entries
            base = Scenario(
                protocol="dcs",
                nodes=nodes,
                rate=load,
                messages=600 if scale == "full" and nodes < 5000 else 150,
                parameters={
                    "detector": "hash",
                    "error": HASH_ERROR,
                    "component_entries": COMPONENT,
                    "components": math.ceil(entries / COMPONENT),
                    "components_max": 128,
                },
            )
            # The fixed clock has to be enough for the largest load that is expected.
            most = size(rate=BYTE_LOADS[-1], nodes=nodes, error=HASH_ERROR).entries
            fixed_size = {"entries": most}
            found += [
                base,
                base.replace(protocol="probabilistic", parameters=fixed_size),
                base.replace(protocol="vector", parameters={}),
            ]
    return Experiment("bytes", tuple(found))
