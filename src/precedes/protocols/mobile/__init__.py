"""Causal broadcast for mobile hosts and support stations.

Source: Wilhelm et al. 2020. Hosts talk by radio to the station of their cell; stations form
a tree of reliable FIFO links and flood on it. A station numbers what it receives and repeats it in
its cell until every host there has acknowledged it. When a host changes its cell, the two stations
work out between them what it has delivered. No message carries a clock.

The machines are in ``host`` (Algorithm 1) and ``station`` (Algorithms 2 to 4, with ``cell``): plain
Python, since nearly all of it is rare cases over small tables, run by the simulator's radio and by
anything else that carries out their effects. Guarantee: each message that the station of a join
stamps from the start of that life on is delivered there exactly once, after all of its causal past
that lies in the life. Assumptions: stations do not lose their disks, links between them are
reliable and FIFO, datagrams may be lost, repeated, late or out of order, but not forged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from precedes.contract.machines import Environment, Flood, RadioParameters, option
from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S

from . import codec
from .host import Disk, MobileHost
from .messages import (
    CatchUp,
    FromHost,
    FromStation,
    Handover,
    Settings,
)
from .station import MobileStation

NETWORK: Final = "radio"
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset[str]()

CARRIES_MESSAGE: Final = (FromHost, FromStation, CatchUp)


@dataclass(frozen=True)
class Parameters(RadioParameters):
    """The radio's, and those of hosts and stations."""

    message_bytes: int = option(148, "a datagram with an application message (100 + 8 + 20 + 20)")
    header_bytes: int = option(48, "UDP, IPv4 and MAC headers of all other datagrams")
    window: int = option(150, "messages on the air at once")
    connect_ms: float = option(500.0, "between repetitions of a join, init or leave")
    ack_ms: float = option(500.0, "from the first event that asks for an acknowledgement to it")
    repeat_first_ms: float = option(1000.0, "until the first repetition of a message")
    repeat_step_ms: float = option(200.0, "shorter by this for each copy sent")
    repeat_least_ms: float = option(200.0, "but never shorter than this")
    jitter: float = option(0.1, "share of every delay that is added at random")
    selective: bool = option(False, "acknowledge what came out of order, and do not repeat it")
    lease_s: float = option(0.0, "a host silent for so long is expelled; 0: never")
    body_max_bytes: int = option(1400, "of a datagram's lists and bitmaps; more makes several")

    def settings(self) -> Settings:
        """The machines' share."""
        return Settings(
            window=self.window,
            connect_ns=round(self.connect_ms * NANOSECONDS_PER_MS),
            ack_ns=round(self.ack_ms * NANOSECONDS_PER_MS),
            repeat_first_ns=round(self.repeat_first_ms * NANOSECONDS_PER_MS),
            repeat_step_ns=round(self.repeat_step_ms * NANOSECONDS_PER_MS),
            repeat_least_ns=round(self.repeat_least_ms * NANOSECONDS_PER_MS),
            jitter=self.jitter,
            selective=self.selective,
            early_max=max(4096, self.window),
            lease_ns=round(self.lease_s * NANOSECONDS_PER_S),
            body_max_bytes=self.body_max_bytes,
        )


def make_host(
    host: int, parameters: Parameters, environment: Environment, disk: Disk | None
) -> MobileHost:
    """A host, new or from what it had made durable."""
    return MobileHost(host, parameters.settings(), environment, Disk() if disk is None else disk)


def make_station(
    station: int,
    neighbours: tuple[int, ...],
    routes: tuple[int, ...],
    parameters: Parameters,
    environment: Environment,
) -> MobileStation:
    """A station of a tree."""
    return MobileStation(station, neighbours, routes, parameters.settings(), environment)


def messages_in(datagram: object) -> int:
    """How many application messages a datagram carries."""
    return int(isinstance(datagram, CARRIES_MESSAGE))


def control_bytes(datagram: object) -> int:
    """What the protocol adds to the application's data."""
    return len(codec.encode(datagram))


def air_bytes(datagram: object, parameters: Parameters) -> int:
    """The size of a datagram on the air: one with a message has the paper's fixed size."""
    if isinstance(datagram, CARRIES_MESSAGE):
        return parameters.message_bytes
    return parameters.header_bytes + control_bytes(datagram)


def wire_bytes(message: object, parameters: Parameters) -> int:
    """The size of a message between stations, without headers."""
    bodies = parameters.message_bytes - parameters.header_bytes
    count = len(message.messages) if isinstance(message, Handover) else isinstance(message, Flood)
    return bodies * count + control_bytes(message)
