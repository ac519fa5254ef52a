"""Messages between hosts and stations of ``mobile``, except the ``Flood`` of a message.

The names are those of the paper in whole words: a *session* is one attachment of a host to a
station, a *birth* is the session of the join that began a life, a *stamp* is a station's own
number of a message, a *position* is (caught_up, next_stamp): how many catch-up messages and which
stamps of the last session the host has delivered. NONE stands for "no position yet".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from precedes.contract.machines import Environment, Flood, Message, Name
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS

NONE: Final = -1
REPEATS: Final = ("copies", "pending")


# Radio, host to station. ``cell`` is the station addressed.
class Join(NamedTuple):
    """Request to join as a new member."""

    cell: int
    host: int
    session: int
    first: int  # lowest own number that no station has acknowledged
    previous: int  # birth of the previous life, or NONE
    echo: int


class Init(NamedTuple):
    """A member attaches here. Every repetition within a session is the same, byte for byte."""

    cell: int
    host: int
    session: int
    birth: int
    last: int  # session of the position
    caught_up: int
    next_stamp: int
    echo: int


class FromHost(NamedTuple):
    """A broadcast of the host in flight to the station (app_hs)."""

    cell: int
    host: int
    session: int
    birth: int
    number: int
    data: Any


class HostAck(NamedTuple):
    """The host's position (ack_h); ``echo`` comes back in ``StationAck``."""

    cell: int
    host: int
    session: int
    birth: int
    caught_up: int
    next_stamp: int
    beyond: int  # bit i: stamp next_stamp + 1 + i has been received, too
    echo: int


class Leave(NamedTuple):
    """The host leaves the group."""

    cell: int
    host: int
    session: int
    birth: int


# Radio, station to hosts. ``cell`` is the sender.
class FromStation(NamedTuple):
    """A message for all hosts in the cell (app_sh)."""

    cell: int
    stamp: int
    message: Message


class CatchUp(NamedTuple):
    """The place-th message that this station had discarded before the host came (app_co)."""

    cell: int
    host: int
    session: int
    place: int
    message: Message


class InitAck(NamedTuple):
    """The host is attached, once all parts are there; they differ in their share of ``skip``."""

    cell: int
    host: int
    session: int
    birth: int
    number: int  # next own number that the station expects
    start: int  # first stamp to be delivered
    total: int  # catch-up messages before it
    part: int
    parts: int
    skip_from: int
    skip: int  # bit i: stamp skip_from + i was delivered elsewhere
    echo: int


class StationAck(NamedTuple):
    """The own numbers of its hosts that the station expects next (ack_c): host, number, echo."""

    cell: int
    hosts: tuple[tuple[int, int, int], ...]


class LeaveAck(NamedTuple):
    """The life with this birth has ended."""

    cell: int
    host: int
    birth: int
    number: int


# Wired, flooded.
class Request(NamedTuple):
    """Search for the owner of this host's record (req1)."""

    origin: int
    host: int
    birth: int
    session: int
    last: int
    caught_up: int
    next_stamp: int


class Cancel(NamedTuple):
    """The record has reached this session: older requests are void."""

    host: int
    birth: int
    session: int


class Joined(NamedTuple):
    """A life has begun; all state of older ones is deleted."""

    host: int
    birth: int


class Left(NamedTuple):
    """A life has ended."""

    host: int
    birth: int
    number: int


# Wired, routed to ``target``.
class Grant(NamedTuple):
    """The frozen owner names the messages that the host has not delivered (rsp1)."""

    target: int
    origin: int
    host: int
    birth: int
    session: int
    number: int
    undelivered: tuple[Name, ...]


class Want(NamedTuple):
    """Those of them that the new station has discarded (req2)."""

    target: int
    origin: int
    host: int
    birth: int
    session: int
    wanted: tuple[Name, ...]


class Handover(NamedTuple):
    """Their bodies, and the arrivals since the grant; with it the record moves (rsp2)."""

    target: int
    origin: int
    host: int
    birth: int
    session: int
    messages: tuple[Message, ...]
    since: tuple[Name, ...]


Datagram = (
    Join | Init | FromHost | HostAck | Leave
    | FromStation | CatchUp | InitAck | StationAck | LeaveAck
)  # fmt: skip
Wired = Flood | Request | Cancel | Joined | Left | Grant | Want | Handover
ROUTED: Final = (Grant, Want, Handover)


@dataclass(frozen=True, slots=True)
class Settings:
    """Times, windows and bounds; the defaults are the paper's where it gives any (section V)."""

    window: int = 150  # messages on the air at once
    connect_ns: int = 500 * NANOSECONDS_PER_MS  # between repetitions of a join, init or leave
    ack_ns: int = 500 * NANOSECONDS_PER_MS  # from the first event that asks for one to the ack
    repeat_first_ns: int = 1000 * NANOSECONDS_PER_MS
    repeat_step_ns: int = 200 * NANOSECONDS_PER_MS  # shorter by this with every copy sent
    repeat_least_ns: int = 200 * NANOSECONDS_PER_MS
    repeat_by: str = "copies"  # each copy sent, or each pending message, shortens it by a step
    jitter: float = 0.1  # share of a delay added at random, against repeated collisions
    selective: bool = False  # acknowledge messages out of order, and do not repeat them
    early_max: int = 4096  # messages kept out of order; more are dropped and repeated
    lease_ns: int = 0  # a host silent for this long is expelled; 0: never
    lease_share: float = 0.8  # of it, after which the host itself delivers no more
    body_max_bytes: int = 1400  # of a datagram, for lists and bitmaps

    def __post_init__(self) -> None:
        if self.window < 1:
            raise UserError(f"window must be at least 1 message, not {self.window}")
        if self.body_max_bytes < 1:
            raise UserError(f"a datagram needs a byte or more, not {self.body_max_bytes}")
        if self.repeat_by not in REPEATS:
            raise UserError(f"repeat_by is one of {', '.join(REPEATS)}, not {self.repeat_by!r:.40}")
        if not 0 < self.lease_share < 1:
            raise UserError(f"lease_share lies between 0 and 1, not {self.lease_share:g}")
        if self.early_max < self.window:
            raise UserError("early_max must not be below window: nothing could get through")

    def delay_ns(self, environment: Environment, base_ns: int) -> int:
        """A delay with its jitter."""
        return int(base_ns * (1.0 + self.jitter * environment.random()))

    def repeat_ns(self, environment: Environment, *, copies: int, pending: int) -> int:
        """Time until a message is repeated that was sent this often.

        ``pending`` messages of the same sender are unacknowledged. The paper has the delay fall
        "with the number of sent messages" (V-A), or depend on those pending (IV-B).
        """
        count = copies if self.repeat_by == "copies" else pending
        base_ns = self.repeat_first_ns - self.repeat_step_ns * (count - 1)
        return self.delay_ns(environment, max(base_ns, self.repeat_least_ns))
