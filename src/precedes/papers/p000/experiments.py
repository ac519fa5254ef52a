"""The runs of section 5: readings of its start times, sizes, seeds."""

from __future__ import annotations

from typing import Any, Final

from precedes.papers.p000.published import PUBLISHED
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment

SIZES: Final = tuple(PUBLISHED["Table 1"])
READINGS: Final = {
    "A": {"workload": "window:500", "delay": "normal:100:25"},
    "B": {"workload": "window:600", "delay": "normal:100:50"},
}
# Other ways to read "Poisson with interval 1000", at the printed standard deviation of 25.
OTHERS: Final = {
    "uniform on (0, 1000)": {"workload": "window:1000", "delay": "normal:100:25"},
    "exponential of mean 1000": {"workload": "exponential:1000", "delay": "normal:100:25"},
}
ORACLE_MAX: Final = 256  # larger groups run without the oracle: half the time
SEEDS_QUICK: Final = {8: 12, 16: 12, 32: 12, 64: 10, 128: 8, 256: 6, 512: 3, 1024: 2}
SEEDS_FULL: Final = 30
SHARED_SIZES: Final = (32, 128, 256)
PAIRS_SIZES: Final = (64, 256, 512)
SEEDS_PAIRS: Final = {"quick": 3, "full": 10}
OTHER_SIZES: Final = (16, 256, 1024)
LARGEST: Final = 1024


def scenario(nodes: int, reading: dict[str, str], seed: int, **changes: Any) -> Scenario:
    """A run of section 5: a unit of time is a millisecond, every node broadcasts once."""
    parameters = {"aggregation": True, "trees": "source", "tolerant": False}
    own = {name: changes.pop(name) for name in list(changes) if name in parameters}
    fields = {"payload_bytes": 50, "oracle": nodes <= ORACLE_MAX, **reading, **changes}
    return Scenario(
        protocol="vcube",
        nodes=nodes,
        processing_ms=1.0,
        transmission_ms=1.0,
        packet_bytes=20,
        mtu_bytes=1500,
        seed=seed,
        parameters={**parameters, **own},
        **fields,
    )


def experiments(scale: str) -> list[Experiment]:
    """Each size by reading, without aggregation, with small messages, and with one shared tree."""

    def seeds(nodes: int) -> range:
        return range(1, 1 + (SEEDS_FULL if scale == "full" else SEEDS_QUICK[nodes]))

    first = READINGS["A"]
    kinds: dict[str, list[tuple[int, dict[str, str], dict[str, Any]]]] = {
        f"reading-{name.lower()}": [(n, reading, {}) for n in (8, *SIZES)]
        for name, reading in READINGS.items()
    }
    kinds |= {
        "alone": [(n, first, {"aggregation": False}) for n in (8, *SIZES)],
        "small": [(LARGEST, first, {"payload_bytes": 5})],
        "shared": [(n, first, {"trees": "shared"}) for n in SHARED_SIZES],
        "starts": [(n, reading, {}) for reading in OTHERS.values() for n in OTHER_SIZES],
    }
    found = [
        Experiment(
            name,
            tuple(
                scenario(nodes, reading, seed, **changes)
                for nodes, reading, changes in runs
                for seed in seeds(nodes)
            ),
        )
        for name, runs in kinds.items()
    ]
    for name, aggregation in (("pairs", True), ("pairs-alone", False)):
        runs = tuple(
            scenario(nodes, first, seed, aggregation=aggregation)
            for nodes in PAIRS_SIZES
            for seed in range(1, 1 + SEEDS_PAIRS[scale])
        )
        found.append(Experiment(name, runs, trace=True, packets=True))
    return found
