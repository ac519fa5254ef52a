"""TCP-Flooding: the baseline of Wilhelm et al. 2020, a TCP connection for every host.

Section V-A after Nedelec and others: stations flood over FIFO links and send every message to each
of their hosts by itself, on a connection that is reliable and FIFO. That keeps causal order as long
as no host moves. The connection is in ``reno.py``, hosts and stations in ``machines.py``.
The defaults are those of INET's TCP, which the paper used; its own words on time-outs ("beginning
at 0.2s") are ``timeout_first_ms=200`` and ``timeout_min_ms=200``.
Assumptions: hosts neither move, nor crash, nor leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from precedes.contract.machines import Environment, Flood, RadioParameters, option
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S

from .machines import FloodingHost, FloodingSettings, FloodingStation
from .reno import RenoSettings, Segment

NETWORK: Final = "radio"
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset[str]()

NUMBER_MAX: Final = 10**9
CONTROL_BYTES: Final = 20  # of TCP; the connection has no other control data


@dataclass(frozen=True)
class Parameters(RadioParameters):
    """The radio's, and those of TCP."""

    payload_bytes: int = option(100, "an application message")
    message_bytes: int = option(160, "an application message in a segment of its own")
    header_bytes: int = option(60, "TCP, IPv4 and MAC headers")
    segment_bytes: int = option(536, "the largest segment, without headers")
    window_segments: int = option(14, "such segments that may be unacknowledged")
    timeout_first_ms: float = option(3000.0, "time-out before any round trip was measured")
    timeout_min_ms: float = option(1000.0, "shortest time-out")
    timeout_max_ms: float = option(240_000.0, "longest time-out; each is twice the one before")
    connect_first_ms: float = option(3000.0, "until a request for a connection is repeated")
    connect_max_s: float = option(75.0, "until an attempt to connect fails and another begins")
    delayed_ack_ms: float = option(200.0, "longest delay of an acknowledgement; 0: none waits")
    spacing_ms: float = option(5.0, "between the hosts to which a station sends a message")
    nagle: bool = option(True, "short segments wait for an acknowledgement")
    jitter: float = option(0.1, "share of every time-out and delay that is added at random")
    queue_messages: int = option(100_000, "messages queued in a connection; more is an error")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mobility != "static":
            raise UserError("flooding needs hosts that stay: set mobility=static, or use mobile")
        if self.fault_station >= 0 or self.leave_every_s > 0:
            raise UserError("hosts of flooding neither fail nor leave: use mobile")
        for name in ("payload_bytes", "segment_bytes", "window_segments", "queue_messages"):
            if not 1 <= getattr(self, name) <= NUMBER_MAX:
                raise UserError(
                    f"{name} must be between 1 and {NUMBER_MAX:,}, not {getattr(self, name):,}"
                )
        for name in ("timeout_min_ms", "timeout_first_ms", "connect_first_ms"):
            if not 1.0 <= getattr(self, name) <= self.timeout_max_ms < 1e12:
                raise UserError(
                    f"{name} must be between 1 and timeout_max_ms, {self.timeout_max_ms:g}, "
                    f"not {getattr(self, name):g}"
                )
        for name, most in (
            ("connect_max_s", 1e9),
            ("delayed_ack_ms", 1e9),
            ("spacing_ms", 1e9),
            ("jitter", 1.0),
        ):
            if not 0.0 <= getattr(self, name) <= most:
                raise UserError(
                    f"{name} must be between 0 and {most:g}, not {getattr(self, name):g}"
                )

    def settings(self) -> FloodingSettings:
        """The settings of the machines."""
        return FloodingSettings(
            reno=RenoSettings(
                message_bytes=self.payload_bytes,
                segment_bytes=self.segment_bytes,
                window_bytes=self.window_segments * self.segment_bytes,
                timeout_first_ns=_ns(self.timeout_first_ms),
                timeout_min_ns=_ns(self.timeout_min_ms),
                timeout_max_ns=_ns(self.timeout_max_ms),
                delayed_ack_ns=_ns(self.delayed_ack_ms),
                nagle=self.nagle,
                queue_messages=self.queue_messages,
            ),
            connect_first_ns=_ns(self.connect_first_ms),
            connect_max_ns=round(self.connect_max_s * NANOSECONDS_PER_S),
            spacing_ns=_ns(self.spacing_ms),
            jitter=self.jitter,
        )


def _ns(time_ms: float) -> int:
    return round(time_ms * NANOSECONDS_PER_MS)


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
    return FloodingStation(station, neighbours, parameters.settings(), environment)


def messages_in(datagram: object) -> int:
    """Number of application messages that a datagram completes."""
    return len(datagram.messages) if isinstance(datagram, Segment) else 0


def control_bytes(datagram: object) -> int:
    """Bytes that the protocol adds to the application's data."""
    return CONTROL_BYTES


def air_bytes(datagram: object, parameters: Parameters) -> int:
    """The size of a datagram on the air."""
    return parameters.header_bytes + (datagram.size if isinstance(datagram, Segment) else 0)


def wire_bytes(message: object, parameters: Parameters) -> int:
    """The size of a message between stations, without headers."""
    return parameters.payload_bytes * isinstance(message, Flood)
