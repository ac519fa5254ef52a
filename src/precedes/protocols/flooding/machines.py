"""Hosts and stations of ``flooding``: a TCP connection for every host, and floods between stations.

Effects and environment are those of ``contract.machines``. A host asks for its connection until
it gets it, with doubled pauses as TCP does; it stays with its station.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from precedes.contract.machines import (
    DELIVER,
    JOINED,
    RADIO,
    STAMPED,
    TIMER,
    WIRE,
    Environment,
    Flood,
    Message,
    memory_bytes,
)

from .reno import Connection, RenoSettings, Segment

CONNECT: Final = 2
SPACED: Final = 3


class Open(NamedTuple):
    """A host asks for a connection."""

    cell: int
    host: int


class Opened(NamedTuple):
    """It has one; the first message on it has this stamp of the station."""

    cell: int
    host: int
    start: int


def jittered(settings: RenoSettings, environment: Environment, delay_ns: int) -> int:
    """A delay with its jitter."""
    return int(delay_ns * (1.0 + settings.jitter * environment.random()))


class FloodingHost:
    """One host."""

    def __init__(self, host: int, settings: RenoSettings, environment: Environment) -> None:
        self.host = host
        self.settings = settings
        self.environment = environment
        self.cell: int | None = None
        self.number = 0
        self.wanted = False
        self.pause_ns = settings.timeout_ns
        self.connection: Connection | None = None
        self.backlog: list[Message] = []

    def _connect(self, cell: int) -> Connection:
        return Connection(
            cell,
            self.host,
            self.settings,
            send=lambda segment: self.environment.effects.append((RADIO, segment)),
            timer=lambda delay_ns, kind, number: self.environment.effects.append(
                (TIMER, jittered(self.settings, self.environment, delay_ns), (kind, number))
            ),
            deliver=lambda message: self.environment.effects.append((DELIVER, message)),
        )

    def join(self) -> None:
        """Ask for a connection."""
        self.wanted = True
        if self.cell is not None and self.connection is None:
            self._ask()

    def _ask(self) -> None:
        assert self.cell is not None
        self.environment.effects.append((RADIO, Open(self.cell, self.host)))
        delay_ns = jittered(self.settings, self.environment, self.pause_ns)
        self.environment.effects.append((TIMER, delay_ns, (CONNECT, 0)))
        self.pause_ns = min(2 * self.pause_ns, self.settings.timeout_max_ns)

    def move(self, cell: int | None) -> None:
        """The station in reach; a host keeps the first one that it has."""
        if self.cell is None:
            self.cell = cell

    def broadcast(self, data: Any) -> int:
        """Broadcast; before there is a connection the message waits."""
        message = Message((self.host, self.number), data)
        self.number += 1
        if self.connection is None:
            self.backlog.append(message)
        else:
            self.connection.offer(message)
        return message.name[1]

    def receive(self, datagram: Any) -> None:
        """A datagram for this host."""
        if datagram.cell != self.cell or datagram.host != self.host:
            return
        if type(datagram) is Opened:
            if self.connection is None:
                self.connection = self._connect(datagram.cell)
                self.connection.ready = True
                self.environment.effects.append((JOINED, 0, datagram.cell, datagram.start))
                for message in self.backlog:
                    self.connection.offer(message)
                self.backlog = []
        elif type(datagram) is Segment and self.connection is not None:
            self.connection.receive(datagram)

    def on_timer(self, key: tuple[int, int]) -> None:
        """A timer set here has run out."""
        if key[0] == CONNECT:
            if self.connection is None:
                self._ask()
        elif self.connection is not None:
            self.connection.on_timer(*key)

    def disk(self) -> None:
        """Nothing is durable: a host that crashes is gone."""

    def is_quiet(self) -> bool:
        """Whether everything of this host is acknowledged."""
        return self.connection is not None and not self.connection.waiting

    def early_count(self) -> int:
        """Messages received and not yet delivered."""
        return 0 if self.connection is None else len(self.connection.early)

    def unacknowledged_count(self) -> int:
        """Own messages that are not acknowledged."""
        return len(self.backlog) + (len(self.connection.waiting) if self.connection else 0)

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        messages = self.early_count() + self.unacknowledged_count()
        return memory_bytes(numbers=16 + messages, messages=messages, message_bytes=message_bytes)


class FloodingStation:
    """One station: everything that arrives goes to all links but the one that it came from."""

    def __init__(
        self,
        station: int,
        neighbours: tuple[int, ...],
        settings: RenoSettings,
        spacing_ns: int,
        environment: Environment,
    ) -> None:
        self.station = station
        self.neighbours = neighbours
        self.settings = settings
        self.spacing_ns = spacing_ns  # between the hosts that a message is sent to (V-A)
        self.environment = environment
        self.next_stamp = 0
        self.connections: dict[int, Connection] = {}
        self.starts: dict[int, int] = {}
        self.spaced: dict[int, list[Message]] = {}  # host -> messages on their way to it

    def begin(self) -> None:
        """Nothing to do before a host comes."""

    def receive(self, datagram: Any) -> None:
        """A datagram from a host."""
        if datagram.cell != self.station:
            return
        host = datagram.host
        if type(datagram) is Open:
            if host not in self.connections:
                self.connections[host] = self._connect(host)
                self.connections[host].ready = True
                self.starts[host] = self.next_stamp
                self.spaced[host] = []
            self.environment.effects.append((RADIO, Opened(self.station, host, self.starts[host])))
        elif type(datagram) is Segment and host in self.connections:
            self.connections[host].receive(datagram)

    def _connect(self, host: int) -> Connection:
        return Connection(
            self.station,
            host,
            self.settings,
            send=lambda segment: self.environment.effects.append((RADIO, segment)),
            timer=lambda delay_ns, kind, number: self.environment.effects.append(
                (TIMER, jittered(self.settings, self.environment, delay_ns), (kind, number, host))
            ),
            deliver=lambda message: self._flood(message, -1),
        )

    def receive_wired(self, source: int, message: Flood) -> None:
        """A message from a neighbour."""
        self._flood(message.message, source)

    def _flood(self, message: Message, source: int) -> None:
        self.next_stamp += 1
        effects = self.environment.effects
        effects.append((STAMPED, message.name))
        for neighbour in self.neighbours:
            if neighbour != source:
                effects.append((WIRE, neighbour, Flood(message)))
        for place, host in enumerate(self.connections):
            self.spaced[host].append(message)
            effects.append((TIMER, place * self.spacing_ns, (SPACED, 0, host)))

    def on_timer(self, key: tuple[int, int, int]) -> None:
        """A timer set here has run out."""
        kind, number, host = key
        if kind == SPACED:
            self.connections[host].offer(self.spaced[host].pop(0))
        else:
            self.connections[host].on_timer(kind, number)

    def is_quiet(self) -> bool:
        """Whether everything has been delivered."""
        return self.stored_count() == 0

    def stored_count(self) -> int:
        """Messages kept for hosts, one for each host that may lack it."""
        waiting = sum(len(one.waiting) for one in self.connections.values())
        return waiting + sum(len(one) for one in self.spaced.values())

    def early_count(self) -> int:
        """Messages of hosts that came before an earlier one."""
        return sum(len(one.early) for one in self.connections.values())

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        messages = self.stored_count() + self.early_count()
        numbers = 4 + 16 * len(self.connections)
        return memory_bytes(numbers=numbers, messages=messages, message_bytes=message_bytes)
