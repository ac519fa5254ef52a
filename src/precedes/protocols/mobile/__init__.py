"""Causal broadcast for mobile hosts and support stations.

Source: Wilhelm et al. 2020. Hosts talk by radio to the station of their cell; stations form
a tree of reliable FIFO links and flood on it. A station numbers what it receives and repeats it in
its cell until every host there has acknowledged it. When a host changes its cell, the two stations
determine together what it has delivered. No message carries a clock.

Guarantee: each message that the station of a join stamps from the start of that life on is
delivered there exactly once, after all of its causal past that lies in the life. Assumptions:
stations do not lose their disks, links between them are reliable and FIFO, datagrams may be lost,
repeated, late or out of order, but not forged.

The paper's tasks, in its order, and their functions here:

    Algorithm 1, host     1-5 ``join``, 6-10 ``move``, 11-13 ``broadcast``, 14 ``leave``, 15-48
                          ``receive``: app_sh ``_on_message``, app_co ``_on_catch_up``, ack_c
                          ``_on_ack``, initACK ``_on_init_ack``, leaveACK ``_on_leave_ack``;
                          49-53 ``on_timer``
    Algorithm 2, station  ``receive``: 2-8 app_hs ``cell.on_from_host``, 9-17 ack_h
                          ``cell.on_host_ack``, 18-38 ``_on_join`` and ``_on_init``, 39-43
                          ``_on_leave``, 44-47 ``cell.disseminate``
    Algorithm 3, station  ``cell.on_timer``
    Algorithm 4, station  ``receive_wired``: 53-54 app_ss ``cell.disseminate``, 55-61 Delete, which
                          is ``Joined``, ``Left`` or ``Cancel`` here, 66-79 req1 ``_on_request``,
                          83-88 rsp1 ``_on_grant``, 89-94 req2 ``_on_want``, 95-104 rsp2
                          ``_on_handover``

Plain Python, since nearly all of it is rare cases over small tables, run by the simulator's radio
or by any other host that carries out their effects.
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
    ack_ms: float = option(500.0, "delay of an acknowledgement")
    repeat_first_ms: float = option(1000.0, "until the first repetition of a message")
    repeat_step_ms: float = option(200.0, "shorter by this for each copy sent")
    repeat_least_ms: float = option(200.0, "but never shorter than this")
    repeat_by: str = option("copies", "copies; or pending: shorter for each unacknowledged message")
    jitter: float = option(0.1, "share of every delay that is added at random")
    selective: bool = option(False, "acknowledge messages out of order, and do not repeat them")
    lease_s: float = option(0.0, "a host silent for this long is expelled; 0: never")
    body_max_bytes: int = option(1400, "of a datagram's lists and bitmaps; more makes several")

    def settings(self) -> Settings:
        """The settings of the machines."""
        return Settings(
            window=self.window,
            connect_ns=round(self.connect_ms * NANOSECONDS_PER_MS),
            ack_ns=round(self.ack_ms * NANOSECONDS_PER_MS),
            repeat_first_ns=round(self.repeat_first_ms * NANOSECONDS_PER_MS),
            repeat_step_ns=round(self.repeat_step_ms * NANOSECONDS_PER_MS),
            repeat_least_ns=round(self.repeat_least_ms * NANOSECONDS_PER_MS),
            repeat_by=self.repeat_by,
            jitter=self.jitter,
            selective=self.selective,
            early_max=max(4096, self.window),
            lease_ns=round(self.lease_s * NANOSECONDS_PER_S),
            body_max_bytes=self.body_max_bytes,
        )


def make_host(
    host: int, parameters: Parameters, environment: Environment, disk: Disk | None
) -> MobileHost:
    """A host, new or from its durable state."""
    return MobileHost(host, parameters.settings(), environment, Disk() if disk is None else disk)


def make_station(
    station: int,
    neighbours: tuple[int, ...],
    routes: tuple[int, ...],
    parameters: Parameters,
    environment: Environment,
) -> MobileStation:
    """Number of application messages that a datagram carries."""
    return MobileStation(station, neighbours, routes, parameters.settings(), environment)


def messages_in(datagram: object) -> int:
    """Bytes that the protocol adds to the application's data."""
    return int(isinstance(datagram, CARRIES_MESSAGE))


def control_bytes(datagram: object) -> int:
    """Bytes that the protocol adds to the application's data."""
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
