"""The contract of protocols on a radio: machines of two roles, plain Python, and their world.

A machine takes inputs and leaves effects; it has no clock, no randomness and no I/O of its own.
``RadioParameters`` are the places, the air and the wires between stations. Their defaults are the
radio of Wilhelm et al. 2020 as far as it is published (range, datagrams, wires); the rest is fitted
to its figures. docs/protocols/mobile.md lists which is which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from precedes.errors import UserError

Name = tuple[int, int]  # host, number: the message's source and its sequence number there


class Message(NamedTuple):
    """An application message; the data belong to the application and are never read."""

    name: Name
    data: Any


class Flood(NamedTuple):
    """An application message (app_ss)."""

    message: Message


# Effects. A host of a machine first makes PERSIST durable together with the deliveries, in one
# step, and only then lets anything of the same call leave the machine.
RADIO: Final = 1  # datagram
WIRE: Final = 2  # neighbour, message
TIMER: Final = 3  # delay in ns, key
DELIVER: Final = 4  # message
PERSIST: Final = 5
EXPELLED: Final = 6  # the station ended this host's life; join again to go on
JOINED: Final = 7  # birth, station, first stamp of the life
LEFT: Final = 8  # birth
STAMPED: Final = 9  # name of a message that a station has just given its next stamp

Effect = tuple[Any, ...]

NUMBER_BYTES: Final = 8


def memory_bytes(*, numbers: int, messages: int, message_bytes: int) -> int:
    """Approximate memory of a machine that keeps this number of integers and messages."""
    return NUMBER_BYTES * numbers + message_bytes * messages


@dataclass(slots=True)
class Environment:
    """The machine's view of the world, and the buffer for its effects."""

    random: Callable[[], float]  # uniform in [0, 1)
    now_ns: int = 0
    effects: list[Effect] = field(default_factory=list)


MACS: Final = ("aloha", "csma")
TREES: Final = ("star", "line", "grid")


def option(default: Any, text: str) -> Any:
    """A parameter with its meaning."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RadioParameters:
    """The world around hosts and stations."""

    stations: int = option(7, "support stations, on a triangular grid around the first")
    spacing_m: float = option(190.0, "metres between neighbouring stations")
    range_m: float = option(120.0, "metres that an antenna reaches")
    bandwidth_bps: float = option(6e6, "bits per second of the radio")
    mac: str = option(
        "aloha", "aloha: send at once; csma: wait for an idle channel, then a random time"
    )
    slot_us: float = option(20.0, "csma: microseconds of a slot of waiting")
    slots: int = option(32, "csma: the wait is below this number of slots")
    difs_us: float = option(50.0, "csma: idle time before slots pass")
    sense_us: float = option(0.4, "csma: time until a transmission is sensed")
    mac_retries: int = option(0, "csma: retransmissions of unacknowledged unicast frames")
    slots_max: int = option(1024, "csma: slots double with each repetition, up to this")
    sifs_us: float = option(10.0, "csma: between a frame and its acknowledgement")
    mac_ack_bytes: int = option(20, "csma: an acknowledgement")
    half_duplex: bool = option(False, "an antenna cannot receive while it sends")
    queue_max: int = option(4096, "datagrams that wait for a sender's antenna; more are dropped")
    wire_ms: float = option(10.0, "delay of a link between two stations")
    wire_bps: float = option(1e7, "bits per second of such a link")
    tree: str = option("star", "of stations: star, line, or grid (each to one nearer the first)")
    mobility: str = option(
        "static", "static, waypoint, roam, pingpong, or file:PATH (time_s,host,x_m,y_m)"
    )
    speed_m_per_s: float = option(1.38, "of hosts that move")
    step_ms: float = option(500.0, "between updates of positions")
    joins_s: float = option(1.0, "hosts join at random times within this")
    warm_up_s: float = option(5.0, "before this, only deliveries and errors are measured")
    drain_s: float = option(60.0, "maximum time from the last broadcast to the end")
    sample_ms: float = option(100.0, "between samples of the buffers")
    fault_station: int = option(-1, "transient faults hit hosts of this station; -1: none")
    fault_start_s: float = option(15.0, "when the first of them begins")
    fault_every_s: float = option(30.0, "from one to the next")
    fault_length_s: float = option(3.0, "how long the first lasts")
    fault_longer_s: float = option(1.0, "increase from one to the next")
    leave_every_s: float = option(0.0, "a random member leaves this often; 0: never")
    away_s: float = option(5.0, "after this long it joins again; 0: never")

    def __post_init__(self) -> None:
        for name, least in (("stations", 1), ("slots", 1), ("queue_max", 1), ("mac_ack_bytes", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.stations > 10_000:
            raise UserError(f"at most 10,000 stations can be simulated, not {self.stations}")
        for item in dataclasses.fields(RadioParameters):
            value = getattr(self, item.name)
            if isinstance(value, float) and not 0 <= value < 1e12:
                raise UserError(f"{item.name} must be between 0 and 1e12, not {value:g}")
        positive = ("spacing_m", "range_m", "bandwidth_bps", "wire_bps", "step_ms", "sample_ms")
        for name in positive:
            if getattr(self, name) < 1e-3:
                raise UserError(f"{name} must be at least 0.001, not {getattr(self, name):g}")
        if self.mac not in MACS:
            raise UserError(f"mac is one of {', '.join(MACS)}, not {self.mac!r:.40}")
        if not 0 <= self.mac_retries <= 100:
            raise UserError(f"mac_retries lies between 0 and 100, not {self.mac_retries}")
        if self.mac_retries and self.mac != "csma":
            raise UserError("mac_retries needs carrier sense: set mac=csma")
        if not self.slots <= self.slots_max <= 1 << 20:
            raise UserError(f"slots_max lies between slots and 1048576, not {self.slots_max}")
        if self.tree not in TREES:
            raise UserError(f"tree is one of {', '.join(TREES)}, not {self.tree!r:.40}")
        if self.fault_station >= self.stations:
            raise UserError(
                f"fault_station {self.fault_station} is not one of 0..{self.stations - 1}"
            )
