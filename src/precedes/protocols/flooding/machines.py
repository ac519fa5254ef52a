"""Hosts and stations of ``flooding``: a TCP connection for every host, and floods between stations.

Effects and environment are those of ``contract.machines``. A connection is set up by TCP's three
segments: ``Open`` (SYN), ``Opened`` (SYN and ACK), and the first ``Segment`` of the host. Both ends
segments: ``Open`` (SYN), ``Opened`` (SYN and ACK), and the first ``Segment`` of the host. Both ends
repeat theirs, 3 s later at first and at intervals that double. A host without one after 75 s has
failed (V-A) and starts again with a new number: answers to an earlier attempt are void. A station
keeps its answer until the next request. A host stays with its station.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
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
from precedes.errors import UserError

from .reno import Connection, RenoSettings, Segment

# Kinds of timers, after those of a connection.
CONNECT: Final = 2
SPACED: Final = 3


class Open(NamedTuple):
    """A host requests a connection; ``attempt`` counts those that failed."""

    cell: int
    host: int
    attempt: int


class Opened(NamedTuple):
    """The connection exists; the first message on it has this stamp of the station."""

    cell: int
    host: int
    attempt: int
    start: int


@dataclass(frozen=True, slots=True)
class FloodingSettings:
    """Times in ns."""

    reno: RenoSettings
    connect_first_ns: int  # until SYN is repeated
    connect_max_ns: int  # until an attempt has failed
    spacing_ns: int  # between the hosts that a message is sent to (V-A)
    jitter: float


class FloodingHost:
    """One host; it refuses to broadcast while the queue of a connection is full."""

    def __init__(self, host: int, settings: FloodingSettings, environment: Environment) -> None:
        self.host = host
        self.settings = settings
        self.environment = environment
        self.cell: int | None = None
        self.number = 0
        self.attempt = 0
        self.asked_ns = 0
        self.pause_ns = 0
        self.connection: Connection | None = None
        self.backlog: list[Message] = []

    def _timer(self, delay_ns: int, kind: int, number: int) -> None:
        _set_timer(self.environment, self.settings, delay_ns, (kind, number))

    def join(self) -> None:
        """Request a connection."""
        if self.cell is not None and self.connection is None:
            self._attempt()

    def _attempt(self) -> None:
        self.attempt += 1
        self.asked_ns = self.environment.now_ns
        self.pause_ns = self.settings.connect_first_ns
        self._ask()

    def _ask(self) -> None:
        assert self.cell is not None
        self.environment.effects.append((RADIO, Open(self.cell, self.host, self.attempt)))
        left_ns = self.asked_ns + self.settings.connect_max_ns - self.environment.now_ns
        self._timer(max(min(self.pause_ns, left_ns), 1), CONNECT, self.attempt)
        self.pause_ns *= 2

    def move(self, cell: int | None) -> None:
        """The station in reach; a host keeps the first one that it has."""
        if self.cell is None:
            self.cell = cell

    def broadcast(self, data: Any) -> int | None:
        """Broadcast; before there is a connection the message waits. None: there is no room."""
        if self.unacknowledged_count() >= self.settings.reno.queue_messages:
            return None
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
        if type(datagram) is Segment:
            if self.connection is not None:
                self.connection.receive(datagram)
        elif type(datagram) is Opened and datagram.attempt == self.attempt:
            if self.connection is None:
                self._establish(datagram)
            else:
                self.connection.acknowledge()

    def _establish(self, opened: Opened) -> None:
        environment = self.environment
        self.connection = Connection(
            opened.cell,
            self.host,
            self.settings.reno,
            clock=lambda: environment.now_ns,
            send=lambda segment: environment.effects.append((RADIO, segment)),
            timer=self._timer,
            deliver=lambda message: environment.effects.append((DELIVER, message)),
        )
        environment.effects.append((JOINED, 0, opened.cell, opened.start))
        for message in self.backlog:
            self.connection.offer(message)
        self.backlog = []
        self.connection.establish(active=True)

    def on_timer(self, key: tuple[int, int]) -> None:
        """Handle an expired timer."""
        kind, number = key
        if kind != CONNECT:
            if self.connection is not None:
                self.connection.on_timer(kind, number)
        elif self.connection is None and number == self.attempt:
            asked_for_ns = self.environment.now_ns - self.asked_ns
            if asked_for_ns < self.settings.connect_max_ns:
                self._ask()
            else:
                self._attempt()

    def disk(self) -> None:
        """Nothing is durable: a host that crashes loses its state."""

    def is_quiet(self) -> bool:
        """Return whether everything of this host is acknowledged."""
        return self.connection is not None and not self.connection.queue

    def early_count(self) -> int:
        """Messages received and not yet delivered."""
        return 0 if self.connection is None else len(self.connection.received.held)

    def unacknowledged_count(self) -> int:
        """Own messages that are not acknowledged."""
        return len(self.backlog) if self.connection is None else len(self.connection.queue)

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        messages = self.early_count() + self.unacknowledged_count()
        return memory_bytes(numbers=16 + messages, messages=messages, message_bytes=message_bytes)


@dataclass(slots=True)
class Client:
    """A host that has requested a connection, as its station sees it."""

    connection: Connection
    attempt: int
    start: int
    pause_ns: int
    spaced: deque[Message] = field(default_factory=deque)  # in flight to the connection


class FloodingStation:
    """One station: everything that arrives goes to all links but the one that it came from.

    A message for a host whose connection is full ends the run with an error:
    dropping it would break the promise of the connection.
    """

    def __init__(
        self,
        station: int,
        neighbours: tuple[int, ...],
        settings: FloodingSettings,
        environment: Environment,
    ) -> None:
        self.station = station
        self.neighbours = neighbours
        self.settings = settings
        self.environment = environment
        self.next_stamp = 0
        self.clients: dict[int, Client] = {}

    def begin(self) -> None:
        """Do nothing until a host arrives."""

    def receive(self, datagram: Any) -> None:
        """A datagram from a host."""
        if datagram.cell != self.station:
            return
        client = self.clients.get(datagram.host)
        if type(datagram) is Segment:
            if client is not None:
                if not client.connection.is_ready:
                    client.connection.establish(active=False)
                client.connection.receive(datagram)
        elif type(datagram) is Open:
            if client is None or client.attempt < datagram.attempt:
                client = self._welcome(datagram)
                self._answer(datagram.host, client)
            elif client.attempt == datagram.attempt:
                self._opened(datagram.host, client)

    def _welcome(self, asked: Open) -> Client:
        host, environment = asked.host, self.environment
        connection = Connection(
            self.station,
            host,
            self.settings.reno,
            clock=lambda: environment.now_ns,
            send=lambda segment: environment.effects.append((RADIO, segment)),
            timer=lambda delay_ns, kind, number: _set_timer(
                environment, self.settings, delay_ns, (kind, number, host)
            ),
            deliver=lambda message: self._flood(message, -1),
        )
        client = Client(connection, asked.attempt, self.next_stamp, self.settings.connect_first_ns)
        self.clients[host] = client
        return client

    def _opened(self, host: int, client: Client) -> None:
        opened = Opened(self.station, host, client.attempt, client.start)
        self.environment.effects.append((RADIO, opened))

    def _answer(self, host: int, client: Client) -> None:
        """Answer the host, repeatedly until it responds."""
        self._opened(host, client)
        key = (CONNECT, client.attempt, host)
        _set_timer(self.environment, self.settings, client.pause_ns, key)
        client.pause_ns = min(2 * client.pause_ns, self.settings.reno.timeout_max_ns)

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
        spacing_ns = self.settings.spacing_ns
        for place, (host, client) in enumerate(self.clients.items()):
            client.spaced.append(message)
            effects.append((TIMER, place * spacing_ns, (SPACED, client.attempt, host)))

    def on_timer(self, key: tuple[int, int, int]) -> None:
        """Handle an expired timer."""
        kind, number, host = key
        client = self.clients[host]
        if kind == SPACED:
            if number == client.attempt:
                self._offer(host, client)
        elif kind == CONNECT:
            if number == client.attempt and not client.connection.is_ready:
                self._answer(host, client)
        else:
            client.connection.on_timer(kind, number)

    def _offer(self, host: int, client: Client) -> None:
        if client.connection.is_full():
            raise UserError(
                f"station {self.station} keeps {len(client.connection.queue):,} messages for host "
                f"{host}, more than TCP carries there: broadcast less, or set queue_messages"
            )
        client.connection.offer(client.spaced.popleft())

    def is_quiet(self) -> bool:
        """Return whether everything has been delivered."""
        return self.stored_count() == 0

    def serves(self, host: FloodingHost) -> bool:
        """Return whether the host has its connection here; connections are never given up."""
        return host.host in self.clients

    def stored_count(self) -> int:
        """Messages kept for hosts, one for each host that may lack it."""
        return sum(len(one.connection.queue) + len(one.spaced) for one in self.clients.values())

    def early_count(self) -> int:
        """Messages of hosts that arrived before an earlier one."""
        return sum(len(one.connection.received.held) for one in self.clients.values())

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        messages = self.stored_count() + self.early_count()
        numbers = 4 + 16 * len(self.clients)
        return memory_bytes(numbers=numbers, messages=messages, message_bytes=message_bytes)


def _set_timer(
    environment: Environment, settings: FloodingSettings, delay_ns: int, key: tuple[int, ...]
) -> None:
    """A timer with its jitter."""
    delay_ns = int(delay_ns * (1.0 + settings.jitter * environment.random()))
    environment.effects.append((TIMER, delay_ns, key))
