"""`dcs` in a hurry: a small group, delays that vary much, rounds faster than messages settle.

A schedule is drawn from one seed. What must hold when it has come to rest, and what must hold at
every decision of a round, is checked from outside: by the sets of messages that nodes have
delivered, kept from traces and effects, not by the protocol's hashes.
"""

import random

import numpy as np

from precedes.sim import Scenario
from precedes.sim.run import Run

NODES = 12


def parameters(seed):
    """Small components that come and go all the time."""
    draw = random.Random(seed)
    spread, per_component = draw.choice(((1, 2), (2, 1), (1, 1), (2, 2)))
    return {
        "error": draw.choice((1e-2, 3e-3)),
        "delay": "normal:100:40",
        "component_entries": draw.choice((4, 8, 16)),
        "components": draw.choice((1, 1, 2)),
        "components_max": draw.choice((4, 7, 10)),
        "spread": spread,
        "per_component": per_component,
        "smoothing_ms": draw.choice((80.0, 200.0, 500.0)),
        "round_ms": draw.choice((60.0, 120.0, 250.0)),
        "timeout_ms": draw.choice((150.0, 300.0, 600.0)),
        "keep_ms": draw.choice((0.0, 0.0, 300.0)),
        "balance_ms": draw.choice((0.0, 300.0)),
    }


def schedule(seed, **changes):
    """Bursts and pauses: every few hundred milliseconds the clock has to follow."""
    draw = random.Random(seed ^ 0x5EED)
    high = draw.choice((60.0, 150.0, 300.0))
    workload, duration_s = draw.choice(
        ((f"bell:1:{high:g}", 3.0), (f"bell:0.5:{high:g}", 8.0), ("poisson", 4.0))
    )
    scenario = Scenario(
        protocol="dcs",
        nodes=NODES,
        workload=workload,
        rate=high / 4,
        duration_s=duration_s,
        delay="normal:100:40",
        seed=seed,
        parameters=parameters(seed),
        horizon_s=600.0,
    )
    return scenario.replace(**changes)


def run(scenario, *, interpreted=False):
    """A run that has ended, and its result."""
    made = Run(scenario)
    return made, made.go(interpreted=interpreted)


def check_at_rest(made, result, *, shrunk=True):
    """Exactly once, nothing waits, and all have the same components, hashes and generations."""
    scenario = made.scenario
    assert result.complete, "it never came to rest"
    assert result.lost == result.duplicates == result.pending_at_end == 0, result
    assert result.deliveries == result.broadcasts * (scenario.nodes - 1)
    dcs = made.state.dcs
    for name in ("clock", "part"):
        rows = getattr(dcs, name)[..., :3] if name == "part" else getattr(dcs, name)
        same = np.all(rows == rows[0], axis=tuple(range(1, rows.ndim)))
        assert same.all(), f"{name} of nodes {np.flatnonzero(~same)} differs from node 0's"
    active, size = dcs.word[:, 1], dcs.word[:, 0]
    assert (size == size[0]).all(), size
    assert (active <= size).all()
    if shrunk:
        least = made.parameters.components
        assert (active == least).all(), f"active {active}"
        assert (size == least).all(), f"size {size}"
