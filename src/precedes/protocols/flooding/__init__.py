"""TCP-Flooding: the baseline of Wilhelm et al. 2020, a TCP connection for every host.

Section V-A after Nedelec and others: stations flood over FIFO links and send every message to each
of their hosts by itself, on a connection that is reliable and FIFO. That keeps causal order as long
as nobody moves. The connection is in ``reno.py``, hosts and stations in ``machines.py``.
Assumptions: hosts neither move, nor crash, nor leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from precedes.contract.machines import Environment, Flood, RadioParameters, option
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS

from .machines import FloodingHost, FloodingStation
from .reno import RenoSettings, Segment

NETWORK: Final = "radio"
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset[str]()

CONTROL_BYTES: Final = 20  # of TCP; the connection is all the control there is


@dataclass(frozen=True)
class Parameters(RadioParameters):
    """The radio's, and those of TCP."""

    payload_bytes: int = option(100, "an application message")
    message_bytes: int = option(160, "an application message in a segment of its own")
    header_bytes: int = option(60, "TCP, IPv4 and MAC headers")
    segment_messages: int = option(5, "messages that a segment of 536 bytes holds")
    window_messages: int = option(46, "messages sent and not acknowledged (7504 bytes)")
    timeout_ms: float = option(200.0, "first timeout; it doubles with each that follows")
    timeout_max_ms: float = option(60_000.0, "longest timeout")
    delayed_ack_ms: float = option(200.0, "longest delay of an acknowledgement")
    spacing_ms: float = option(5.0, "between the hosts to which a station sends a message")
    nagle: bool = option(True, "short segments wait for an acknowledgement")
    jitter: float = option(0.1, "share of every timeout that is added at random")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mobility != "static":
            raise UserError("flooding needs hosts that stay: set mobility=static, or use mobile")
        if self.fault_station >= 0:
            raise UserError("flooding knows no recovery from faults: use mobile")
        if not 1 <= self.segment_messages <= self.window_messages:
            raise UserError("segment_messages lies between 1 and window_messages")

    def settings(self) -> RenoSettings:
        """The connections' share."""
        return RenoSettings(
            segment=self.segment_messages,
            window=self.window_messages,
            timeout_ns=round(self.timeout_ms * NANOSECONDS_PER_MS),
            timeout_max_ns=round(self.timeout_max_ms * NANOSECONDS_PER_MS),
            delayed_ack_ns=round(self.delayed_ack_ms * NANOSECONDS_PER_MS),
            nagle=self.nagle,
            jitter=self.jitter,
        )


def make_host(
    host: int, parameters: Parameters, environment: Environment, disk: None
) -> FloodingHost:
    """A host."""
    return FloodingHost(host, parameters.settings(), environment)


def make_station(
    station: int,
    neighbours: tuple[int, ...],
    routes: tuple[int, ...],
    parameters: Parameters,
    environment: Environment,
) -> FloodingStation:
    """A station of a tree."""
    spacing_ns = round(parameters.spacing_ms * NANOSECONDS_PER_MS)
    return FloodingStation(station, neighbours, parameters.settings(), spacing_ns, environment)


def messages_in(datagram: object) -> int:
    """How many application messages a datagram carries."""
    return len(datagram.messages) if isinstance(datagram, Segment) else 0


def control_bytes(datagram: object) -> int:
    """What the protocol adds to the application's data."""
    return CONTROL_BYTES


def air_bytes(datagram: object, parameters: Parameters) -> int:
    """The size of a datagram on the air."""
    return parameters.header_bytes + parameters.payload_bytes * messages_in(datagram)


def wire_bytes(message: object, parameters: Parameters) -> int:
    """The size of a message between stations, without headers."""
    return parameters.payload_bytes * isinstance(message, Flood)
