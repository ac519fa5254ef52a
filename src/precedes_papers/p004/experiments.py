"""The runs of section V, on three radios and with two TCPs, since the paper describes neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from precedes.sim import Fault, Scenario
from precedes.sim.experiment import Experiment
from precedes_papers.measured import Fitted
from precedes_papers.p004 import LOW_ITEM

HOSTS: Final = 70
LOW, HIGH, WALKING = 5.6, 35.0, 25.0  # broadcasts per second of all hosts
# Range, wires and sizes are the paper's; the rest is not published.
PLACES: Final[dict[str, Any]] = {
    "spacing_m": 190.0,
    "range_m": 120.0,
    "tree": "star",
    "wire_ms": 10.0,
}
RADIOS: Final[dict[str, dict[str, Any]]] = {
    "ALOHA at 6 Mb/s": {**PLACES, "mac": "aloha", "bandwidth_bps": 6e6},
    "carrier sense at 1 Mb/s": {
        **PLACES,
        "mac": "csma",
        "bandwidth_bps": 1e6,
        "mac_retries": 0,
        "half_duplex": True,  # as antennas of INET are
    },
}
RETRIES: Final = "CSMA with 7 retries at 1 Mb/s"
# INET's CsmaCaMac acknowledges unless configured otherwise, which the paper does not mention.
RADIOS[RETRIES] = {**RADIOS["carrier sense at 1 Mb/s"], "mac_retries": 7}
TCPS: Final[dict[str, dict[str, Any]]] = {
    "INET's TCP": {"timeout_first_ms": 3000.0, "timeout_min_ms": 1000.0},
    "time-outs from 0.2 s": {"timeout_first_ms": 200.0, "timeout_min_ms": 200.0},
}
_MOBILE: Final = "the delay of mobile, V-A", (), ((LOW_ITEM, "delay in s, mobile"),)
_SENSE: Final = (("mac", "csma"),)
_FLOODING: Final = "the delay of TCP-Flooding, V-A", (), ((LOW_ITEM, "delay in s, flooding"),)
FITTED: Final = (
    Fitted("bandwidth_bps", 6e6, *_MOBILE),
    Fitted("mac", "aloha", *_MOBILE),
    Fitted("spacing_m", 190.0, *_MOBILE),
    Fitted("tree", "star", *_MOBILE),
    Fitted("bandwidth_bps", 1e6, *_FLOODING),
    Fitted("mac", "csma", *_FLOODING),
    Fitted("mac_retries", 0, *_FLOODING, only_if=_SENSE),
    # Chosen, since the paper has no value.
    Fitted("half_duplex", True, "no published value"),
    Fitted("mobility", "waypoint", "no published value"),
    Fitted("jitter", 0.1, "no published value"),
)
UNKNOWN_RADIO: Final = (
    "bandwidth, medium access, tree and spacing of stations are not published: stations 190 m "
    "apart in a star, and ALOHA at 6 Mb/s or carrier sense at 1 Mb/s, are choices"
)
BANDWIDTHS: Final = (5e5, 1e6, 2e6, 6e6)
SPACINGS: Final = (150.0, 160.0, 170.0, 180.0, 190.0, 200.0)
# The delay falls with the copies sent (V-A), or with the messages pending (IV-B): by 0.2 s for
# each, or to 0.2 s for a full window.
REPEATS: Final[dict[str, dict[str, Any]]] = {
    "pending messages, 0.2 s each": {"repeat_by": "pending", "repeat_step_ms": 200.0},
    "pending messages, over the window": {"repeat_by": "pending", "repeat_step_ms": 800 / 150},
}
FAULT_STATION: Final = 3
# At 25 per s these seconds leave 450 messages outstanding, more than the 400 of section V-C.
LONG_FAULT: Final = {"fault_length_s": 18.0, "fault_every_s": 1000.0}
LONG_FAULT_S: Final = 41.0  # until 8 s after its end
WINDOWS: Final = (150, 400)  # messages sent at once, in sections V-A and V-C
# Hosts, and the stations they are spread over.
CELLS: Final = ((10, 1), (20, 1), (40, 1))
GROUPS: Final = ((70, 7), (280, 28))
FAST_M_PER_S: Final = 13.8  # ten times the published speed: more handoffs to audit
# A host of station 0 fails for good at 5 s; with T seconds it counts as gone.
LEASES_S: Final = (0.0, 5.0)
LIVES: Final[dict[str, dict[str, Any]]] = {
    "hosts that leave and join again": {"leave_every_s": 1.0, "away_s": 3.0},
    # Some host is always out of coverage: until then each has come back.
    "hosts that roam out of coverage": {"mobility": "roam", "drain_s": 300.0},
    "hosts silent for T seconds": {"lease_s": 2.0, "fault_length_s": 6.0, "fault_every_s": 8.0},
}
# Replications. Placements differ much from seed to seed; what overloads its radio takes long.
SEEDS: Final = {
    "quick": {"mobile": 8, "flooding": 4, "load": 3, "overloaded load": 3, "tcp load": 3,
              "bandwidth": 3, "walking": 3, "faults": 2, "overloaded faults": 1, "limit": 2,
              "overloaded limit": 1, "traced": 1},
    "full": {"mobile": 40, "flooding": 48, "load": 12, "overloaded load": 6, "tcp load": 8,
             "bandwidth": 6, "walking": 12, "faults": 8, "overloaded faults": 2, "limit": 8,
             "overloaded limit": 4, "traced": 4},
}  # fmt: skip


def scenario(protocol: str, rate: float, duration_s: float, **parameters: Any) -> Scenario:
    """Poisson broadcasts of 70 hosts, not judged by the oracle: that is for runs with a trace."""
    return Scenario(
        protocol=protocol,
        nodes=HOSTS,
        rate=rate,
        duration_s=duration_s,
        oracle=False,
        parameters=parameters,
    )


def _seeded(base: Scenario, count: int) -> tuple[Scenario, ...]:
    return tuple(base.replace(seed=seed) for seed in range(1, count + 1))


def _overloaded(name: str, radio: dict[str, Any]) -> str:
    return f"overloaded {name}" if radio["mac"] == "csma" else name


def _tcps() -> Iterator[dict[str, Any]]:
    for radio in RADIOS.values():
        for tcp in TCPS.values():
            yield {**radio, **tcp}


def experiments(scale: str) -> list[Experiment]:
    """Every section on all radios, and what speaks of TCP with both TCPs."""
    full = scale == "full"
    seeds = SEEDS[scale]
    length_s = 60.0 if full else 20.0
    curve = tuple(
        one
        for radio in RADIOS.values()
        for protocol in ("mobile", "flooding")
        for bandwidth in BANDWIDTHS
        for one in _seeded(
            scenario(protocol, LOW, 20.0, **{**radio, "bandwidth_bps": bandwidth}),
            seeds["bandwidth"],
        )
    )
    walking = tuple(
        one
        for radio in RADIOS.values()
        for mobility in ("static", "waypoint")
        for one in _seeded(
            scenario("mobile", WALKING, length_s, mobility=mobility, drain_s=15.0, **radio),
            seeds["walking"],
        )
    )
    return [
        Experiment("static", tuple(_low(seeds, length_s))),
        Experiment("load", tuple(_high(seeds, length_s if full else 15.0))),
        Experiment("bandwidth", curve),
        Experiment("walking", walking),
        Experiment("faults", tuple(_faults(seeds, duration_s=255.0 if full else 90.0))),
        Experiment("limit", tuple(_limit(seeds))),
        Experiment("size", tuple(_sizes())),
        Experiment("spacing", tuple(_spacing(seeds["bandwidth"]))),
        Experiment("repeats", tuple(_repeats(seeds["mobile"]))),
        Experiment("gone", tuple(_gone(seeds["bandwidth"]))),
        Experiment("coverage", tuple(_coverage(seeds["bandwidth"], 60.0 if full else 30.0))),
        Experiment("traced", tuple(_traced(seeds["traced"])), trace=True),
        Experiment("lives", tuple(_lives(seeds["traced"])), trace=True),
    ]


ALOHA: Final = next(iter(RADIOS.values()))


def _spacing(count: int) -> Iterator[Scenario]:
    """The overlap of cells, at two loads on one radio."""
    for rate in (LOW, WALKING):
        for spacing_m in SPACINGS:
            settings = {**ALOHA, "spacing_m": spacing_m, "drain_s": 15.0}
            yield from _seeded(scenario("mobile", rate, 20.0, **settings), count)


def _repeats(count: int) -> Iterator[Scenario]:
    for repeat in REPEATS.values():
        yield from _seeded(scenario("mobile", LOW, 25.0, **ALOHA, **repeat), count)


def _gone(count: int) -> Iterator[Scenario]:
    """IV-E: a host fails for good."""
    for lease_s in LEASES_S:
        base = scenario("mobile", LOW, 40.0, lease_s=lease_s, drain_s=0.0, **ALOHA)
        crash = Fault("crash", node=0, at_s=5.0)
        yield from _seeded(base.replace(faults=(crash,)), count)


def _coverage(count: int, length_s: float) -> Iterator[Scenario]:
    """V-B: hosts that leave the cells, and those that do not."""
    for mobility in ("waypoint", "roam"):
        moving = {"mobility": mobility, "speed_m_per_s": FAST_M_PER_S}
        base = scenario("mobile", LOW, length_s, **moving, **ALOHA)
        yield from _seeded(base, count)


def _lives(count: int) -> Iterator[Scenario]:
    """IV-C and IV-E: lives that end and begin, of hosts that move."""
    for lives in LIVES.values():
        settings = {**ALOHA, "mobility": "waypoint", "fault_station": 0, **lives}
        base = scenario("mobile", LOW, 40.0, speed_m_per_s=FAST_M_PER_S, **settings)
        yield from _seeded(base, count)


def _low(seeds: dict[str, int], length_s: float) -> Iterator[Scenario]:
    for radio in RADIOS.values():
        yield from _seeded(scenario("mobile", LOW, length_s, **radio), seeds["mobile"])
    for tcp in _tcps():
        yield from _seeded(scenario("flooding", LOW, length_s, **tcp), seeds["flooding"])


def _high(seeds: dict[str, int], length_s: float) -> Iterator[Scenario]:
    for radio in RADIOS.values():
        base = scenario("mobile", HIGH, length_s, drain_s=min(15.0, length_s / 3), **radio)
        yield from _seeded(base, seeds[_overloaded("load", radio)])
    for tcp in _tcps():
        yield from _seeded(scenario("flooding", HIGH, length_s, **tcp), seeds["tcp load"])


def _faults(seeds: dict[str, int], duration_s: float) -> Iterator[Scenario]:
    """Buffers while the load lasts: the runs do not wait for the last deliveries."""
    for radio in RADIOS.values():
        base = scenario(
            "mobile", WALKING, duration_s, mobility="waypoint", fault_station=FAULT_STATION,
            drain_s=0.0, **radio,
        )  # fmt: skip
        yield from _seeded(base, seeds[_overloaded("faults", radio)])


def _limit(seeds: dict[str, int]) -> Iterator[Scenario]:
    for radio in RADIOS.values():
        for window in WINDOWS:
            base = scenario(
                "mobile", WALKING, LONG_FAULT_S, mobility="waypoint", fault_station=FAULT_STATION,
                window=window, drain_s=0.0, **LONG_FAULT, **radio,
            )  # fmt: skip
            yield from _seeded(base, seeds[_overloaded("limit", radio)])


def _sizes() -> Iterator[Scenario]:
    """Runs with one radio: the memory of a station depends on its hosts, not on the radio."""
    radio = next(iter(RADIOS.values()))
    for hosts, stations in (*CELLS, *GROUPS):
        tree = "star" if stations == 1 else "grid"
        parameters = {**radio, "stations": stations, "tree": tree}
        yield scenario("mobile", LOW, 20.0).replace(nodes=hosts, parameters=parameters)


def _traced(count: int) -> Iterator[Scenario]:
    """Runs that quiesce: walking and failing hosts of mobile, and the baseline."""
    for name, radio in RADIOS.items():
        rate = WALKING if name.startswith("ALOHA") else LOW
        for speed in (1.38, FAST_M_PER_S):
            base = scenario(
                "mobile", rate, 40.0, mobility="waypoint", speed_m_per_s=speed,
                fault_station=FAULT_STATION, **radio,
            )  # fmt: skip
            yield from _seeded(base, count)
    for tcp in _tcps():
        yield from _seeded(scenario("flooding", LOW, 20.0, drain_s=600.0, **tcp), count)
