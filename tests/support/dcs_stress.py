"""`dcs` in a hurry: a small group, delays that vary much, rounds faster than messages settle.

A schedule is drawn from one seed. What must hold when it has quiesced, and what must hold at
every decision of a round, is checked from outside: by the sets of messages that nodes have
delivered, kept from traces and effects, not by the protocol's hashes.
"""

import random

import numpy as np

from precedes.sim import Fault, Scenario
from precedes.sim.run import Run
from tests.support.convictions import hold
from tests.support.seeds import repeat

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


def small(seed):
    """A schedule that runs interpreted in about a second."""
    draw = random.Random(seed ^ 0x5EE)
    scenario = schedule(seed, nodes=draw.choice((3, 4, 6)))
    quick = {"round_ms": 120.0, "timeout_ms": 400.0, "keep_ms": 0.0, "smoothing_ms": 80.0}
    detector = draw.choice(("none", "hash"))
    return scenario.replace(
        workload="bell:1:40",
        duration_s=2.5,
        parameters={**scenario.parameters, **quick, "components": 1, "detector": detector},
    )


def pulses(seed):
    """Messages few and far between, each a peak of its own to an estimate this quick.

    Components are added, deactivated, removed and added again while messages are in flight.
    """
    draw = random.Random(seed ^ 0xB0)
    scenario = schedule(seed, nodes=6)
    quick = {
        "error": 1e-3,
        "components": 1,
        "components_max": 5,
        "component_entries": draw.choice((2, 4)),
        "spread": 1,
        "per_component": 1,
        "smoothing_ms": 40.0,
        "round_ms": draw.choice((40.0, 70.0)),
        "timeout_ms": draw.choice((250.0, 500.0)),
        "keep_ms": 0.0,
    }
    cut = Fault("cut", at_s=3.0, for_s=4.0, nodes=(5,), others=(4,), both_ways=False, holds=True)
    return scenario.replace(
        workload="poisson",
        rate=draw.choice((2.0, 4.0, 7.0)),
        duration_s=15.0,
        parameters={**scenario.parameters, **quick},
        # Rounds go on while messages from one node to another are held back for seconds.
        faults=(cut,) if seed % 2 else (),
    )


def check_seeds(seeds, *, detector, redraw=False):
    """Run the stress for these seeds; the first that fails is named."""
    broadcasts = 0
    for seed in seeds:
        with repeat(f"tests.support.dcs_stress.check({seed}, {detector=}, {redraw=})"):
            broadcasts += check(seed, detector=detector, redraw=redraw).broadcasts
    assert broadcasts > 50 * len(seeds), "the schedules are too small to show anything"


def check(seed, *, detector, redraw=False):
    """Run the stress for one seed; what it came to."""
    scenario = schedule(seed)
    checked = {**scenario.parameters, "detector": detector, "redraw": redraw}
    made, result = run(scenario.replace(parameters=checked))
    check_at_rest(made, result)
    assert detector != "hash" or result.violations.deliveries == 0
    return result


def run(scenario, *, tier="auto"):
    """A run that has ended, and its result."""
    made = Run(scenario)
    return made, made.go(tier=tier)


def check_at_rest(made, result, *, shrunk=True):
    """Exactly once, nothing waits, and all have the same components, hashes and generations."""
    scenario = made.scenario
    hold(result.complete, "restless", "it never quiesced")
    hold(result.duplicates == 0, "twice", result)
    hold(result.lost == result.pending_at_end == 0, "lost", result)
    hold(result.deliveries == result.broadcasts * (scenario.nodes - 1), "lost", result)
    dcs = made.state.dcs
    part = {name: getattr(dcs.part, name) for name in ("hash", "carried", "generation")}
    for name, rows in {"clock": dcs.clock, **part}.items():
        same = np.all(rows == rows[0], axis=tuple(range(1, rows.ndim)))
        what = f"{name} of nodes {np.flatnonzero(~same)} differs from node 0's"
        hold(same.all(), "states differ", what)
    active, size = dcs.components.active, dcs.components.size
    hold((size == size[0]).all(), "states differ", size)
    hold((active <= size).all(), "prefix", active)
    if shrunk:
        least = made.parameters.components
        hold((active == least).all(), "not shrunk", f"active {active}")
        hold((size == least).all(), "not shrunk", f"size {size}")
