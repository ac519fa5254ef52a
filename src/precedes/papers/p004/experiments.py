"""The runs of section V, on a radio of our choice where none is published."""

from __future__ import annotations

from typing import Any, Final

from precedes.sim import Scenario
from precedes.sim.experiment import Experiment

HOSTS: Final = 70
LOW, HIGH, WALKING = 5.6, 35.0, 25.0  # broadcasts per second of all hosts
PROTOCOLS: Final = ("mobile", "flooding")
# Range, wires and sizes are the paper's; the rest is not published.
RADIO: Final[dict[str, Any]] = {
    "bandwidth_bps": 6e6,
    "mac": "aloha",
    "spacing_m": 190.0,
    "range_m": 120.0,
    "tree": "star",
    "wire_ms": 10.0,
}
UNKNOWN_RADIO: Final = (
    "bandwidth, medium access, tree and spacing of stations are not published: pure ALOHA at "
    "6 Mb/s with stations 190 m apart in a star is a choice"
)
BANDWIDTHS: Final = (5e5, 1e6, 2e6, 6e6)
FAULT_STATION: Final = 3
# Hosts, and the stations they are spread over.
SIZES: Final = {"quick": ((70, 7), (280, 10), (560, 20)), "full": ((70, 7), (500, 18), (2000, 70))}


def scenario(protocol: str, rate: float, duration_s: float, **parameters: Any) -> Scenario:
    """Poisson broadcasts of 70 hosts on the radio above."""
    return Scenario(
        protocol=protocol,
        nodes=HOSTS,
        rate=rate,
        duration_s=duration_s,
        parameters={**RADIO, **parameters},
    )


def _seeded(base: Scenario, count: int) -> tuple[Scenario, ...]:
    return tuple(base.replace(seed=seed) for seed in range(1, count + 1))


def experiments(scale: str) -> list[Experiment]:
    """Placements differ much from seed to seed: the mean needs more of them than usual."""
    full = scale == "full"
    seeds, length_s = (24, 60.0) if full else (12, 30.0)
    few = 10 if full else 3
    half = 12 if full else 5
    walking = {"mobility": "waypoint"}
    faults_s = 255.0 if full else 105.0
    return [
        Experiment(
            "static",
            tuple(
                one
                for protocol in PROTOCOLS
                for one in _seeded(
                    scenario(protocol, LOW, length_s), seeds if protocol == "mobile" else half
                )
            ),
        ),
        Experiment("load", _seeded(scenario("mobile", HIGH, length_s), half)),
        Experiment(
            "bandwidth",
            tuple(
                one
                for protocol in PROTOCOLS
                for bandwidth in BANDWIDTHS
                for one in _seeded(scenario(protocol, LOW, length_s, bandwidth_bps=bandwidth), few)
            ),
        ),
        Experiment(
            "walking",
            (
                *_seeded(scenario("mobile", WALKING, length_s), half),
                *_seeded(scenario("mobile", WALKING, length_s, **walking), half),
            ),
        ),
        Experiment(
            "faults",
            _seeded(
                scenario("mobile", WALKING, faults_s, fault_station=FAULT_STATION, **walking),
                few if full else 2,
            ),
        ),
        Experiment(
            "size",
            tuple(
                scenario("mobile", LOW, 20.0, stations=stations).replace(
                    nodes=hosts, parameters={**RADIO, "stations": stations, "tree": "grid"}
                )
                for hosts, stations in SIZES[scale]
            ),
        ),
    ]
