"""Connections between members: greeting, frames, resumption after a break.

Of two members that need a link the one with the higher number dials. A connection begins with a
greeting of each side (``wire.Hello``); who does not speak within ``HANDSHAKE_S``, is of another
group, has no right certificate, was restarted or is out of the view is refused with a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final

from precedes.errors import PeerError
from precedes.live.net import security, wire
from precedes.live.net.address import ACCEPTED_MAX, split_address
from precedes.live.net.connection import CLOSE_S, HANDSHAKE_S, Connection
from precedes.live.net.link import Link
from precedes.live.net.owner import Owner
from precedes.live.net.security import Credentials, Security

log = logging.getLogger("precedes.live")

REDIAL_FIRST_S: Final = 0.02
REDIAL_LAST_S: Final = 0.5
# Of the patience with a silent member: after this share its connection is given up.
SILENT_SHARE: Final = 0.75
# Most connections without a handshake yet, or refused; twice the members in a larger group.
# Another one closes the oldest, so that idle connections keep nobody out.
STRANGERS_MAX: Final = 64
# What is kept in any case for a member that acknowledges nothing; beyond that the messages of all
# windows, and so many bytes of other records for each of them.
KEPT_BYTES: Final = 1 << 16
OTHERS_BYTES: Final = 256

# In the number of a refusal.
EVICTED: Final = 1  # the others go on without you
DUPLICATE: Final = 2  # there is a connection already, as happens when both have dialled


def redial_waits_s() -> Iterator[float]:
    """How long to wait before dialling again: twice as long each time, up to a bound, give or take
    a half, so that members which lost a connection together do not dial together."""
    wait_s = REDIAL_FIRST_S
    while True:
        yield wait_s * random.uniform(0.5, 1.5)
        wait_s = min(2 * wait_s, REDIAL_LAST_S)


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """What links are told about their member and its group."""

    member: int
    addresses: tuple[str, ...]
    group: str  # its name, in the certificates of its members
    group_digest: bytes  # the same for all who may speak to each other
    security: Security | None
    window: int
    test_every_s: float
    frame_max_bytes: int


class Links:
    """All links of a member, and the connections that carry them.

    ``listener`` is a socket that listens already, instead of the member's own address.
    """

    def __init__(
        self, owner: Owner, settings: LinkSettings, listener: socket.socket | None = None
    ) -> None:
        self.owner = owner
        self.settings = settings
        self.me = settings.member
        self.loop = asyncio.get_running_loop()
        self.life = os.urandom(16)
        self.links: dict[int, Link] = {}
        self.connections: dict[int, Connection] = {}
        self.attached = asyncio.Event()  # set when a link has got a connection, or needs none
        self.reconnections = 0
        # Oldest first, with what lets them in.
        self._strangers: dict[Connection, asyncio.Task[None] | None] = {}
        self._strangers_max = max(STRANGERS_MAX, 2 * len(settings.addresses))
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._banned: set[int] = set()
        self._ended: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._backlog: dict[int, list[bytes]] = {}
        self._listeners: list[socket.socket] = [] if listener is None else [listener]
        self.credentials = Credentials(settings.security)
        self._is_closed = False
        self._closing: list[Connection] = []

    async def listen(self) -> None:
        """Accept connections from now on."""
        if not self._listeners:
            self._listeners = await self._bind()
        for sock in self._listeners:
            sock.setblocking(False)
            self._keep(self._accept(sock))

    async def _bind(self) -> list[socket.socket]:
        host, port = split_address(self.settings.addresses[self.me])
        found = await self.loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with contextlib.ExitStack() as made:
            socks = [
                made.enter_context(
                    socket.create_server(address, family=family, backlog=ACCEPTED_MAX)
                )
                for family, _, _, _, address in found
            ]
            made.pop_all()
        return socks

    async def _accept(self, listener: socket.socket) -> None:
        """Take connections; the handshake of each is no business of the next.

        Not ``create_server``: with TLS it does not say why a handshake has failed, and to start
        TLS on a connection that it has accepted loses what uvloop has read before.
        """
        while True:
            try:
                sock, address = await self.loop.sock_accept(listener)
            except ConnectionError:
                continue  # it has gone before it was taken
            except OSError as error:
                log.error("cannot take connections for now: %s", error.strerror)
                await asyncio.sleep(REDIAL_LAST_S)
                continue
            self._enter(sock, f"{address[0]}:{address[1]}")

    def _enter(self, sock: socket.socket, address: str) -> None:
        """Begin the handshake of an accepted connection."""
        if len(self._strangers) >= self._strangers_max:
            self._drop_oldest_stranger()
        connection = Connection(self, None, address)
        entering = self._strangers[connection] = self._keep(self._let_in(connection, sock))

        def on_end(_: asyncio.Task[None]) -> None:
            """Not in the task, which may be cancelled before it begins."""
            if connection.transport is None:
                sock.close()
                connection.connection_lost(None)

        entering.add_done_callback(on_end)

    def _drop_oldest_stranger(self) -> None:
        connection = next(iter(self._strangers))
        entering = self._strangers.pop(connection)
        error = PeerError("too many connections at once")
        self.owner.on_peer_error(None, error, connection.address)
        connection.abort()
        if entering is not None:
            entering.cancel()  # without effect once the handshake of TLS is over

    async def _let_in(self, connection: Connection, sock: socket.socket) -> None:
        """Do the handshake of an accepted connection, and say why if it fails."""
        tls = self.credentials.contexts().server
        limit_s = HANDSHAKE_S if tls is not None else None
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection, sock, ssl=tls, ssl_handshake_timeout=limit_s
            )
        except ssl.SSLError as error:
            self.owner.on_peer_error(None, security.why(error), connection.address)
        except OSError:
            self.owner.on_no_handshake(connection.address)

    def link(self, peer: int) -> Link:
        """The link to a member, made when it is first needed."""
        if peer not in self.links:
            self.links[peer] = Link(peer)
        return self.links[peer]

    def want(self, peer: int, *, anyhow: bool = False) -> None:
        """See to it that there is a connection: dial if it is ours to dial, or ``anyhow``."""
        self.link(peer)
        if self._is_closed or peer in self._banned:
            return
        if peer in self.connections or peer in self._dialling:
            return
        if (self.me > peer or anyhow) and not self.owner.is_gone(peer):
            self._dialling[peer] = self.loop.create_task(self._dial(peer))

    async def _dial(self, peer: int) -> None:
        """Try until there is a connection or the member is out of the view."""
        host, port = split_address(self.settings.addresses[peer])
        waits_s = redial_waits_s()
        try:
            while not self._is_closed and not self.owner.is_gone(peer):
                with contextlib.suppress(OSError, asyncio.TimeoutError), self._reported(peer):
                    async with asyncio.timeout(HANDSHAKE_S):
                        _, connection = await self.loop.create_connection(
                            lambda: Connection(self, peer, self.settings.addresses[peer]),
                            host,
                            port,
                            ssl=self.credentials.contexts().client,
                        )
                    try:
                        await asyncio.shield(connection.closed)
                    except asyncio.CancelledError:
                        if connection.link is None:
                            connection.close()
                        raise
                    if connection.had_link:
                        waits_s = redial_waits_s()
                if peer in self._banned or (peer in self.connections and self.me < peer):
                    return
                if peer in self._ended:
                    return
                await asyncio.sleep(next(waits_s))
        finally:
            self._dialling.pop(peer, None)

    @contextlib.contextmanager
    def _reported(self, peer: int) -> Iterator[None]:
        """Report why a dialled connection failed, if that says something about the other side."""
        try:
            yield
        except ssl.SSLError as error:
            self.owner.on_peer_error(peer, security.why(error), self.settings.addresses[peer])
            raise
        except ConnectionRefusedError:
            if self._is_ending:
                self._ended.add(peer)
            raise

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something in the background, until it is done or all is over."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hello(self, peer: int) -> wire.Hello:
        """What this member says first to another."""
        link = self.link(peer)
        return wire.Hello(
            member=self.me,
            target=peer,
            group=self.settings.group_digest,
            life=self.life,
            known=link.life or bytes(16),
            received=link.received,
        )

    def greet(self, connection: Connection, hello: wire.Hello) -> bool:
        """A greeting has come: refuse it, or let the link go on over this connection."""
        peer = hello.member
        if peer >= len(self.settings.addresses) or peer == self.me or hello.target != self.me:
            raise PeerError(
                "its handshake names the wrong members", f"from {peer} to {hello.target}"
            )
        if connection.target not in (None, peer):
            raise PeerError("another member answers at this address", f"member {peer}")
        if hello.group != self.settings.group_digest:
            raise PeerError("it belongs to another group, or its settings differ")
        if self.settings.security is not None:
            security.check_name(connection.peer_names(), self.settings.group, peer)
        if self.owner.is_gone(peer):
            connection.refuse("you are out of the view: the others go on", code=EVICTED)
            return False
        if peer in self._banned:
            connection.refuse("you did what no member does")
            return False
        link = self.link(peer)
        if (link.life and link.life != hello.life) or hello.known not in (self.life, bytes(16)):
            raise PeerError("it was restarted and cannot come back", f"member {peer}")
        other = self.connections.get(peer)
        # When both have dialled, both sides keep the one of the member with the higher number. One
        # that has been silent may be half open: the peer dials because it has lost its end of it.
        kept = other is not None and self._is_regular(other, peer) and not self._is_silent(other)
        if kept and not self._is_regular(connection, peer):
            connection.refuse("there is a connection already", code=DUPLICATE)
            return False
        return self._attach(connection, link, hello, other)

    def _is_silent(self, connection: Connection) -> bool:
        """Whether nothing has come for longer than a test interval."""
        return time.monotonic() - connection.heard_s > self.settings.test_every_s

    def _is_regular(self, connection: Connection, peer: int) -> bool:
        """Whether the member with the higher number has dialled."""
        return connection.is_dialled == (self.me > peer)

    def _attach(
        self, connection: Connection, link: Link, hello: wire.Hello, other: Connection | None
    ) -> bool:
        link.life = hello.life
        frames = link.resume(hello.received)
        if not connection.is_dialled:
            connection.write(self.hello(link.peer).encode())
        if other is not None:
            other.link = None
            other.abort()
        self.reconnections += link.received + link.sent > 0
        self._strangers.pop(connection, None)
        connection.link, connection.had_link = link, True
        self.connections[link.peer] = connection
        self._backlog[link.peer] = []
        if frames:
            connection.write(b"".join(frames))
        self.attached.set()
        return True

    def send(
        self, peer: int, body: bytes, checksum: int | None = None, *, messages_bytes: int = 0
    ) -> None:
        """Send a frame: now, or when there is a connection that takes it."""
        if peer in self._banned:
            return
        connection = self.connections.get(peer)
        if connection is None or (link := connection.link) is None:
            link = self.link(peer)
            link.put(body, checksum, messages_bytes=messages_bytes)
            self.want(peer, anyhow=True)
        else:
            frame = link.put(body, checksum, messages_bytes=messages_bytes)
            if connection.paused:
                self._backlog[peer].append(frame)
            else:
                connection.write(frame)
        if link.unacknowledged_bytes > KEPT_BYTES and self._keeps_too_much(link):
            error = PeerError("it does not acknowledge what it is sent")
            self.owner.on_peer_error(peer, error, "its link")
            self.ban(peer)

    def _keeps_too_much(self, link: Link) -> bool:
        """Whether a correct member would have acknowledged some of what is kept for it.

        It takes a message only after its link has acknowledged it, so of messages there are no more
        than the windows of all, twice if they were sent again after a crash, each no larger than
        the largest that there was. Anything else is told because messages came or were taken.
        """
        messages = len(self.settings.addresses) * self.settings.window
        largest_bytes = self.owner.largest_message_bytes
        others_bytes = link.unacknowledged_bytes - link.unacknowledged_messages_bytes
        return (
            others_bytes > KEPT_BYTES + OTHERS_BYTES * messages
            or link.unacknowledged_messages_bytes > 2 * messages * largest_bytes
        )

    def send_all(self, body: bytes) -> None:
        """Send a frame to everybody whom there is a link to."""
        for peer, link in list(self.links.items()):
            if link.life:
                self.send(peer, body)

    def on_writable(self, connection: Connection) -> None:
        """A connection takes bytes again."""
        if connection.link is not None and (backlog := self._backlog.get(connection.link.peer)):
            self._backlog[connection.link.peer] = []
            connection.write(b"".join(backlog))

    def heard_within(self, peer: int, limit_s: float) -> bool:
        """Whether any bytes have come from a peer in this time, and it is not banned."""
        source = self.connections.get(peer) or self.link(peer)
        return peer not in self._banned and time.monotonic() - source.heard_s < limit_s

    def forgive(self, late_s: float) -> None:
        """After a pause of this process, count the silence of others as so much shorter."""
        now_s = time.monotonic()
        sources: list[Connection | Link] = [*self.connections.values(), *self.links.values()]
        for source in sources:
            source.heard_s = min(source.heard_s + late_s, now_s)

    def tend(self, silent_s: float) -> None:
        """Acknowledge what came, ping when idle, give up connections that seem dead.

        Each side of a connection sends something every ``silent_s / 4``, so one that is silent for
        longer is half open, or the peer is lost. It is given up before ``silent_s``, when the
        failure detector would, to leave time for another one.
        """
        now_s = time.monotonic()
        for connection in list(self.connections.values()):
            link = connection.link
            if link is None:
                continue
            if now_s - connection.heard_s > SILENT_SHARE * silent_s:
                connection.abort()
            elif not connection.paused:
                if link.owes_acknowledgement():
                    connection.write(link.acknowledgement())
                elif now_s - connection.said_s > silent_s / 4:
                    connection.write(link.acknowledgement(wire.PING))

    def on_refused(self, connection: Connection, code: int, body: bytes) -> None:
        """The other side does not want to speak to this member."""
        reason = wire.reason_in(body)
        who = connection.target if connection.link is None else connection.link.peer
        if code != DUPLICATE:
            self.owner.on_refused(who, reason, evicted=code == EVICTED)
        if who is not None and self._is_ending and self.connections.get(who) in (None, connection):
            self._ended.add(who)
        connection.abort()

    def ban(self, peer: int) -> None:
        """Never speak to this member again; the failure detector will find it silent."""
        self._banned.add(peer)
        self.link(peer).forget()
        self._backlog.pop(peer, None)
        if (connection := self.connections.get(peer)) is not None:
            connection.abort()

    def on_lost(self, connection: Connection, error: Exception | None) -> None:
        """A connection has ended: have another one made."""
        self._strangers.pop(connection, None)
        if isinstance(error, ssl.SSLError) and connection.link is None:
            self.owner.on_refused(connection.target, str(security.why(error)), evicted=False)
        link, connection.link = connection.link, None
        if link is None or self.connections.get(link.peer) is not connection:
            return
        link.heard_s = connection.heard_s
        del self.connections[link.peer]
        self._backlog.pop(link.peer, None)  # it is kept, and goes over the next one
        if error is None and self._is_ending and not connection.is_damaged:
            self._ended.add(link.peer)  # it closed the connection because it has everything
        if not self.owner.is_over:
            self.owner.on_disconnected(link.peer, error)
            self.loop.call_soon(self.want, link.peer)
        elif not self._has_arrived(link.peer):
            self.want(link.peer, anyhow=True)  # nobody can dial this member any more

    def cut(self, peer: int) -> None:
        """End a link for good."""
        connection = self.connections.pop(peer, None)
        if connection is not None:
            connection.link = None
            self._strangers[connection] = None
            connection.refuse("you are out of the view: the others go on", code=EVICTED)
        if task := self._dialling.get(peer):
            task.cancel()
        self.links.pop(peer, None)

    @property
    def _is_ending(self) -> bool:
        """Whether others may end before they have acknowledged everything."""
        return self.owner.is_over or self.owner.is_finished

    @property
    def is_flushed(self) -> bool:
        """Whether everything has arrived, but for what was sent to those who have ended."""
        return all(map(self._has_arrived, self.links))

    def _has_arrived(self, peer: int) -> bool:
        link = self.links[peer]
        # Who leaves does not wait for those whom it has never met.
        is_stranger = self.owner.is_over and not link.life
        return link.acknowledged == link.sent or peer in self._ended or is_stranger

    def stop_listening(self) -> None:
        """Free the port, and let nobody in any more."""
        for task in self._tasks:
            task.cancel()
        for sock in self._listeners:
            self.loop.remove_reader(sock)
            sock.close()

    def close(self) -> None:
        """End all connections, at once but for what was written to them."""
        self._is_closed = True
        for task in self._dialling.values():
            task.cancel()
        self._closing = [*self.connections.values(), *self._strangers]
        for connection in self._closing:
            connection.close()

    async def wait_closed(self) -> None:
        """Wait until nothing is left of connections and tasks."""
        if self._closing:
            closed = [connection.closed for connection in self._closing]
            await asyncio.wait(closed, timeout=2 * CLOSE_S)
        await asyncio.gather(*self._dialling.values(), *self._tasks, return_exceptions=True)
