"""The runs of section 5: readings of its start times, sizes, seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes_papers.measured import Fitted
from precedes_papers.p000 import PUBLISHED

SIZES: Final = tuple(PUBLISHED["Table 1"])
SMALLEST: Final = 8
MIDDLE: Final = 256  # the group of Tables 2 and 3 and of Figure 6
LARGEST: Final = 1024
HOW: Final = {"with": "with", "alone": "without"}  # kinds of runs: with aggregation or without
# Ways to read "a Poisson distribution with interval rate 1000", and a standard deviation.
READINGS: Final = {
    "A": {"workload": "window:500", "delay": "normal:100:25"},
    "B": {"workload": "window:600", "delay": "normal:100:50"},
    "C": {"workload": "triangle:600", "delay": "normal:100:25"},
}
FITTED: Final = (
    Fitted("workload", READINGS["A"]["workload"], "Table 1"),
    Fitted("workload", READINGS["B"]["workload"], "Table 1"),
    Fitted("delay", READINGS["B"]["delay"], "Table 1"),
    Fitted(
        "workload",
        READINGS["C"]["workload"],
        "Table 3 and Figure 6",
        items=("Table 3", "Figure 6"),
    ),
)
# Further ones, not fitted, at the published standard deviation of 25. The first takes the paper
# literally: this triangle is as wide as a Poisson law of mean 1000; its start has no effect.
OTHERS: Final = {
    "a Poisson number of mean 1000": {"workload": "triangle:155", "delay": "normal:100:25"},
    "uniform on (0, 1000)": {"workload": "window:1000", "delay": "normal:100:25"},
    "exponential of mean 1000": {"workload": "exponential:1000", "delay": "normal:100:25"},
}
OTHER_SIZES: Final = (16, 256, 512)
# How long a draw of a delay holds is not published either; 5.5 implies one for each link.
PER: Final = {"use": "packet", "link": "link", "message": "message", "node": "sending node"}
SHARED_SIZES: Final = SIZES[1:]
PACKETS_SIZES: Final = SIZES[1:-1]

# By scale, and by the number of nodes.
SEEDS: Final[dict[str, dict[int, int]]] = {
    "quick": {8: 30, 16: 20, 32: 12, 64: 8, 128: 6, 256: 6, 512: 3, 1024: 2},
    "full": {8: 60, 16: 150, 32: 60, 64: 40, 128: 30, 256: 30, 512: 15, 1024: 12},
}
# Of what varies little from run to run, or is there for a few claims alone.
SEEDS_FEW: Final[dict[str, dict[int, int]]] = {
    "quick": {32: 6, 64: 4, 128: 3, 256: 4, 512: 2, 1024: 2},
    "full": {32: 30, 64: 30, 128: 20, 256: 30, 512: 10, 1024: 10},
}
# One packet in 200 is aggregated in the smallest group.
SEEDS_SMALLEST: Final = {"quick": 60, "full": 200}
SEEDS_FIXED: Final = {"quick": 2, "full": 10}

# Links whose delays are drawn once, and nothing that a packet waits for: what is left of the
# differences between two runs is due to the protocol.
FIXED: Final = {"per": "link", "processing_ms": 0.0, "transmission_ms": 0.0, "mtu_bytes": 0}

Seeds = Mapping[int, int]


def scenario(nodes: int, reading: Mapping[str, str], seed: int, **changes: Any) -> Scenario:
    """A run of section 5: a unit of time is a millisecond, every node broadcasts once."""
    parameters = {"aggregation": True, "trees": "source", "tolerant": False}
    own = {name: changes.pop(name) for name in list(changes) if name in parameters}
    fields = {
        "processing_ms": 1.0,
        "transmission_ms": 1.0,
        "packet_bytes": 20,
        "payload_bytes": 50,
        "mtu_bytes": 1500,
        "oracle": False,  # the audit judges traced runs
        **reading,
        **changes,
    }
    return Scenario(
        protocol="vcube", nodes=nodes, seed=seed, parameters={**parameters, **own}, **fields
    )


def named(kind: str, reading: str) -> str:
    """The experiment of a kind under a reading."""
    return f"{kind}-{reading.lower()}"


def experiments(scale: str) -> list[Experiment]:
    """Each reading with and without aggregation, and what single figures ask for."""
    many, few = SEEDS[scale], SEEDS_FEW[scale]
    plan = []
    for name, reading in READINGS.items():
        alone = {"aggregation": False}
        smallest = {SMALLEST: SEEDS_SMALLEST[scale]}
        fixed = {MIDDLE: SEEDS_FIXED[scale]}
        sized = {nodes: few[nodes] for nodes in PACKETS_SIZES}
        shared = {nodes: few[nodes] for nodes in SHARED_SIZES}
        kinds: list[tuple[str, Seeds, dict[str, Any], str]] = [
            ("with", many, {}, "trace"),
            ("alone", many, alone, "trace"),
            ("shared", shared, {"trees": "shared"}, "trace"),
            ("small", {LARGEST: few[LARGEST]}, {"payload_bytes": 5}, ""),
            ("smallest", smallest, {}, ""),
            ("packets", sized, {}, "packets"),
            ("packets-alone", sized, alone, "packets"),
            ("fixed", fixed, FIXED, "trace"),
            ("fixed-alone", fixed, {**FIXED, **alone}, "trace"),
        ]
        for kind, seeds, changes, kept in kinds:
            runs = _scenarios([reading], seeds, changes)
            plan.append(
                Experiment(named(kind, name), runs, trace=kept != "", packets=kept == "packets")
            )
    seeds = {nodes: few.get(nodes, many[nodes]) for nodes in OTHER_SIZES}
    laws = [{**READINGS["A"], "per": per} for per in PER]
    delays = _scenarios(laws, {MIDDLE: many[MIDDLE]}, {})
    starts = _scenarios([*OTHERS.values()], seeds, {})
    return [*plan, Experiment("starts", starts), Experiment("delays", delays)]


def _scenarios(
    readings: Sequence[Mapping[str, str]], seeds: Seeds, changes: Mapping[str, Any]
) -> tuple[Scenario, ...]:
    return tuple(
        scenario(nodes, reading, seed, **changes)
        for reading in readings
        for nodes, count in seeds.items()
        for seed in range(1, 1 + count)
    )
