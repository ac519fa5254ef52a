"""Random scenarios: the seed draws the load, the network, the faults, and which of them exist."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from precedes import registry
from precedes.sim import Fault, Scenario

DELAYS: Final = (
    "constant:0",  # cut off at the shortest delay there is, for every packet: ties
    "constant:50",
    "uniform:1:200",
    "normal:100:20",
    "normal:5:20",  # often cut off
    "lognormal:40:1",
    "exponential:80",
)
# Long enough for every delay drawn here, short enough for a protocol that never quiesces.
REST_S: Final = 60.0
FEATURE_SHARE: Final = 0.25


def random_scenario(protocol: str, seed: int, *, hostile: bool = False) -> Scenario:
    """A small random scenario for a protocol; the same seed gives the same one.

    The seed also selects the features that exist at all: a mix of everything would hide failures
    that only one of them causes. The network meets the protocol's assumptions, unless ``hostile``;
    nodes may pause or crash in any case.
    """
    assumes = frozenset() if hostile else registry.load(protocol).assumes
    may_lose, may_repeat = "reliable" not in assumes, "unique" not in assumes
    rng = random.Random(seed)

    def has() -> bool:
        return rng.random() < FEATURE_SHARE

    nodes = rng.choice((2, 3, 3, 4, 5, 6, 8, 12))
    messages = rng.choice((5, 15, 30, 60))
    rate = rng.choice((20.0, 100.0, 500.0, 5000.0))
    span_s = messages / rate
    kind = rng.choice(("poisson", "poisson", "periodic", "window", "bell", "random"))
    workload = {
        "window": f"window:{1000 * span_s:g}",
        "bell": f"bell:{rate / 10:g}:{rate:g}",
        "random": f"random:0:{rate:g}",
    }.get(kind, kind)
    return Scenario(
        protocol=protocol,
        nodes=nodes,
        messages=messages,
        duration_s=2 * span_s if kind in ("bell", "random") else None,
        rate=rate,
        workload=workload,
        skew=rng.choice((0.5, 2.0)) if has() else 0.0,
        delay=rng.choice(DELAYS),
        per="link" if has() else "use",
        loss=rng.choice((0.01, 0.1)) if has() and may_lose else 0.0,
        duplication=rng.choice((0.05, 0.5)) if has() and may_repeat else 0.0,
        fifo=has() or "fifo" in assumes,
        processing_ms=rng.choice((0.1, 20.0)) if has() else 0.0,
        transmission_ms=rng.choice((0.01, 2.0)) if has() else 0.0,
        bandwidth_bytes_per_s=rng.choice((1e5, 1e7)) if has() else 0.0,
        payload_bytes=(payload_bytes := rng.choice((0, 50, 1000))),
        mtu_bytes=max(rng.choice((100, 1500)), 2 * payload_bytes) if has() else 0,
        faults=tuple(_random_faults(rng, nodes=nodes, span_s=span_s + 0.1, may_lose=may_lose)),
        seed=seed,
        horizon_s=2 * span_s + REST_S,
    )


def _random_faults(
    rng: random.Random, *, nodes: int, span_s: float, may_lose: bool
) -> Iterator[Fault]:
    def some_s() -> float:
        return rng.uniform(0.001, span_s)

    if rng.random() < FEATURE_SHARE:
        for _ in range(rng.randint(1, 3)):
            yield Fault("pause", node=rng.randrange(nodes), at_s=some_s(), for_s=some_s())
    if rng.random() < FEATURE_SHARE:
        members = rng.sample(range(nodes), nodes)
        side = rng.randint(1, nodes - 1)
        yield Fault(
            "cut",
            at_s=some_s(),
            for_s=some_s(),
            nodes=tuple(members[:side]),
            others=tuple(members[side:]),
            both_ways=rng.random() < 0.5,
            holds=not may_lose or rng.random() < 0.5,
        )
    if rng.random() < FEATURE_SHARE / 2:
        yield Fault(
            "crash",
            node=rng.randrange(nodes),
            at_s=some_s(),
            after_sends=rng.randint(1, 3 * nodes) if rng.random() < 0.5 else 0,
            detection_ms=(0.0, rng.choice((0.0, 500.0))),
        )
