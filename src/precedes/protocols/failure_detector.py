"""The VCube failure detector: processes test each other and pass on who has crashed.

Source: Rodrigues et al. 2018, section 3.1, after Duarte, Bona and Ruoso (2014). The algorithm, what
it assumes and what it guarantees are in ``precedes.parts.tester``; here it runs alone, next to
broadcasts that are sent to all and delivered on arrival.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from precedes.contract import MESSAGE, Capacity, Group, Host, Int64s, handler, value_of
from precedes.parts import tester
from precedes.parts.tester import Detector

DATA: Final = 0
ITEMS: Final = (MESSAGE, *tester.ITEMS)
MESSAGE_FIELDS: Final[tuple[str, ...]] = ()
GUARANTEE: Final = "none"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "direct"
ON_LOSS: Final = "view"


@dataclass(frozen=True)
class Parameters:
    """Interval and time-out of tests."""

    interval_ms: float = field(default=3000.0, metadata={"help": "rest between two rounds"})
    timeout_ms: float = field(default=1000.0, metadata={"help": "time-out of a reply"})
    rounds: int = field(default=5, metadata={"help": "rounds of tests; 0: unlimited"})
    own_channel: bool = field(default=True, metadata={"help": "tests have a queue of their own"})

    def __post_init__(self) -> None:
        tester.check(interval_ms=self.interval_ms, timeout_ms=self.timeout_ms, rounds=self.rounds)


class State(NamedTuple):
    """The detector alone."""

    detector: Detector


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    return State(
        tester.make_detector(
            group=group,
            interval_ms=parameters.interval_ms,
            timeout_ms=parameters.timeout_ms,
            rounds=parameters.rounds,
            first_tag=DATA + 1,
            own_channel=parameters.own_channel,
        )
    )


def extra(state: State) -> dict[str, float]:
    """Counts of tests and suspicions."""
    return tester.counters(state.detector)


@handler(State)
def start(state: State, here: int, host: Host) -> None:
    tester.begin(state.detector, here, host)


@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    if tester.crash_of(key) < 0:
        tester.on_expiry(state.detector, here, key, host)


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    host.send_all(DATA, slot)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    if tester.owns_packet(state.detector, inbox):
        tester.on_packet(state.detector, here, sender, inbox, count, host)
        return
    for i in range(count):
        host.deliver(value_of(inbox, i))


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    # A live host tests by itself.
    return tag == DATA


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8
