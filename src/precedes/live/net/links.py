"""Connections between members: addresses, handshakes, frames, resumption after a break.

Of two members that need a link the one with the higher number dials. A connection begins with a
handshake (``wire.Hello``). A peer that sends none within ``HANDSHAKE_S``, is of another group, has
no valid certificate, was restarted or is out of the view is refused with a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import random
import re
import socket
import ssl
import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from precedes.errors import PeerError, UserError
from precedes.live.net import security, wire
from precedes.live.net.link import Link
from precedes.live.net.security import Credentials, Security

log = logging.getLogger("precedes.live")

HANDSHAKE_S: Final = 5.0
# How long a peer may take to read the last bytes and close its side of a connection.
CLOSE_S: Final = 1.0
# Waits before a failed operation is repeated (``backoff_s``).
RETRY_FIRST_S: Final = 0.02
RETRY_LAST_S: Final = 0.5
# Share of ``evict_after_s`` after which a silent connection is given up.
SILENT_SHARE: Final = 0.75
# Most connections without a handshake yet, or refused; twice the members in a larger group.
# Another one closes the oldest, so that idle connections keep nobody out.
UNIDENTIFIED_MAX: Final = 64
# What is kept in any case for a member that acknowledges nothing; beyond that the messages of all
# windows, and so many bytes of other records for each of them.
KEPT_BYTES: Final = 1 << 16
OTHERS_BYTES: Final = 256

# In the number of a refusal.
EVICTED: Final = 1  # the group goes on without the receiver
DUPLICATE: Final = 2  # there is a connection already: both sides have dialled

PORT_MAX: Final = 65_535
ADDRESS: Final = re.compile(r"(\[[^\[\]\s]+\]|[^\[\]\s]+):([0-9]{1,5})")
# Connections that the operating system holds until they are accepted.
ACCEPTED_MAX: Final = 256


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host stands in brackets."""
    match = ADDRESS.fullmatch(str(address))
    if match is None or int(match[2]) > PORT_MAX:
        raise UserError(f"an address is host:port, not {address!r}")
    host, port = match[1], int(match[2])
    if ":" in host and not host.startswith("["):
        raise UserError(f"an IPv6 address needs brackets, [{host}]:{port}, not {address!r}")
    return host.strip("[]"), port


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen_on_loopback() -> socket.socket:
    """A socket that listens at a free port of this machine."""
    return socket.create_server(("127.0.0.1", 0), backlog=ACCEPTED_MAX)


def backoff_s() -> Iterator[float]:
    """Waits between attempts: exponential up to a bound, with random jitter.

    Without the jitter, members that lost a connection together would dial together.
    """
    wait_s = RETRY_FIRST_S
    while True:
        yield wait_s * random.uniform(0.5, 1.5)
        wait_s = min(2 * wait_s, RETRY_LAST_S)


class Owner(Protocol):
    """The member that links belong to: what they read of it, and where they report."""

    @property
    def is_over(self) -> bool:
        """Whether it has left the group: frames in flight may still arrive."""

    @property
    def is_finished(self) -> bool:
        """Whether all in the view have finished, and may close connections without a record."""

    @property
    def largest_message_bytes(self) -> int:
        """The largest size of a message on the wire so far."""

    def is_gone(self, member: int) -> bool:
        """Whether a member is out of the view."""

    def on_bodies(self, peer: int, bodies: Iterable[bytes | memoryview]) -> None:
        """Frames of a peer have arrived; their bodies are valid until this returns."""

    def on_peer_error(self, peer: int | None, error: PeerError, where: str) -> None:
        """A peer sent what no correct member sends."""

    def on_no_handshake(self, where: str) -> None:
        """A connection has ended without a handshake: the peer is busy, or not a member."""

    def on_damaged(self, peer: int | None, where: str) -> None:
        """Checksum mismatch; what is missing is sent again over another connection."""

    def on_refused(self, peer: int | None, reason: str, *, evicted: bool) -> None:
        """A peer refuses this member."""

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link resumes over the next one."""


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """Settings of a member that its links use."""

    member: int
    addresses: tuple[str, ...]  # that the member dials
    listen: str
    group: str  # its name, in the certificates of its members
    group_digest: bytes  # the same for all members that may connect to each other
    security: Security | None
    window: int
    test_every_s: float
    frame_max_bytes: int


class Connection(asyncio.BufferedProtocol):
    """One TCP connection, dialled (``target`` is known) or accepted."""

    def __init__(self, links: Links, target: int | None, address: str) -> None:
        self.links = links
        self.target = target
        self.address = address
        self.link: Link | None = None
        self.had_link = False  # its handshake succeeded
        self.transport: asyncio.Transport | None = None
        self.paused = False
        self.is_damaged = False
        self.heard_s = self.said_s = time.monotonic()  # of the last bytes received, and written
        self.closed: asyncio.Future[None] = links.loop.create_future()
        self._frames = wire.Frames(frame_max_bytes=links.settings.frame_max_bytes)
        self._limit: asyncio.TimerHandle | None = None

    @property
    def is_dialled(self) -> bool:
        """Whether this side has made the connection."""
        return self.target is not None

    @property
    def peer(self) -> int | None:
        """The member at the other side, as far as it is known."""
        return self.target if self.link is None else self.link.peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the handshake if this side has dialled."""
        self.transport = cast(asyncio.Transport, transport)
        self._limit = self.links.loop.call_later(HANDSHAKE_S, self._on_handshake_timeout)
        if self.target is not None:
            self.transport.write(self.links.hello(self.target).encode())

    def _on_handshake_timeout(self) -> None:
        """Give up: a peer that was dialled may be busy or starting, and is dialled again."""
        if self.link is None:
            if not self.is_dialled:
                self.links.owner.on_no_handshake(self.address)
            self.abort()

    def _stop_timer(self) -> None:
        if self._limit is not None:
            self._limit.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the operating system puts the next bytes."""
        return self._frames.room()

    def buffer_updated(self, count: int) -> None:
        """Bytes have been received."""
        self.heard_s = time.monotonic()
        try:
            if self.link is None:
                if self.transport is None or self.transport.is_closing():
                    return
                self._shake_hands(self._frames.unframed(count))
                count = 0
            if self.link is not None and (frames := self._frames.advance(count)):
                self._take(self.link, frames)
        except wire.Damaged:
            self.is_damaged = True
            self.links.owner.on_damaged(self.peer, self.address)
            self.abort()
        except PeerError as error:
            self.fail(error)

    def _shake_hands(self, data: memoryview) -> None:
        """Read the handshake of the other side, once all of it is there."""
        if bytes(data[: len(wire.MAGIC)]) != wire.MAGIC[: len(data)]:
            if not self.is_dialled:
                raise PeerError("it does not speak this protocol")
            try:
                frames = self._frames.advance(0)
            except wire.Damaged:
                raise PeerError("it answers without a handshake") from None
            for kind, number, _, body in frames:
                if kind != wire.REFUSED:
                    raise PeerError("it answers without a handshake")
                self.links.on_refused(self, number, bytes(body))
        elif (size_bytes := wire.hello_bytes(data)) is not None and len(data) >= size_bytes:
            hello = wire.decode_hello(bytes(data[:size_bytes]))
            self._frames.skip(size_bytes)
            if self.links.greet(self, hello):
                self._stop_timer()

    def _take(self, link: Link, frames: list[wire.Frame]) -> None:
        kind, number, _, reason = frames[-1]
        if kind == wire.REFUSED:
            frames = frames[:-1]
        if bodies := link.take(frames):
            self.links.owner.on_bodies(link.peer, bodies)
        if kind == wire.REFUSED:
            self.links.on_refused(self, number, bytes(reason))
        elif link.is_overdue and not self.paused:
            self.write(link.acknowledgement())

    def write(self, data: bytes) -> None:
        """Hand bytes to the operating system, or to the transport's buffer."""
        if self.transport is not None and not self.transport.is_closing():
            self.said_s = time.monotonic()
            self.transport.write(data)

    def refuse(self, reason: str, *, code: int = 0) -> None:
        """Send the reason, and close."""
        self.write(wire.refusal(reason, code=code))
        self.close()

    def fail(self, error: PeerError) -> None:
        """Count the other side's mistake, and close."""
        self.links.owner.on_peer_error(self.peer, error, self.address)
        if self.link is None:
            self.refuse(str(error))
        else:
            self.links.ban(self.link.peer)

    def pause_writing(self) -> None:
        """The other side is slow: frames wait in the link."""
        self.paused = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self.paused = False
        self.links.on_writable(self)

    def close(self) -> None:
        """Close after all that was written has been sent, or ``CLOSE_S`` later."""
        # Once: a transport of TLS that is closed again can no longer be aborted.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._stop_timer()
            self._limit = self.links.loop.call_later(CLOSE_S, self.abort)

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._stop_timer()
        self.links.on_lost(self, error)
        if not self.closed.done():
            self.closed.set_result(None)


class Links:
    """All links of a member, and the connections that carry them.

    ``listener`` is a socket that listens already, instead of at ``settings.listen``.
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
        # Connections without a handshake, oldest first, and the tasks that start TLS on them.
        self._unidentified: dict[Connection, asyncio.Task[None] | None] = {}
        self._unidentified_max = max(UNIDENTIFIED_MAX, 2 * len(settings.addresses))
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
            host, port = split_address(self.settings.listen)
            found = await self.loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            with contextlib.ExitStack() as made:
                self._listeners = [
                    made.enter_context(
                        socket.create_server(address, family=family, backlog=ACCEPTED_MAX)
                    )
                    for family, _, _, _, address in found
                ]
                made.pop_all()
        for sock in self._listeners:
            sock.setblocking(False)
            self._keep(self._accept(sock))

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections; a slow handshake does not hold back the next one.

        Not ``create_server``: with TLS it does not report why a handshake has failed, and starting
        TLS on a connection that it has accepted loses what uvloop has read before.
        """
        waits_s = backoff_s()
        while True:
            try:
                sock, address = await self.loop.sock_accept(listener)
            except ConnectionError:
                continue  # it was closed before it was accepted
            except OSError as error:
                log.error("cannot accept connections for now: %s", error.strerror)
                await asyncio.sleep(next(waits_s))
                continue
            waits_s = backoff_s()
            self._enter(sock, f"{address[0]}:{address[1]}")

    def _enter(self, sock: socket.socket, address: str) -> None:
        """Begin the handshake of an accepted connection."""
        if len(self._unidentified) >= self._unidentified_max:
            oldest = next(iter(self._unidentified))
            starting = self._unidentified.pop(oldest)
            error = PeerError("too many connections at once")
            self.owner.on_peer_error(None, error, oldest.address)
            oldest.abort()
            if starting is not None:
                starting.cancel()  # without effect once the handshake of TLS is over
        connection = Connection(self, None, address)
        entering = self._unidentified[connection] = self._keep(self._let_in(connection, sock))

        def on_end(_: asyncio.Task[None]) -> None:
            """Not in the task, which may be cancelled before it begins."""
            if connection.transport is None:
                sock.close()
                connection.connection_lost(None)

        entering.add_done_callback(on_end)

    async def _let_in(self, connection: Connection, sock: socket.socket) -> None:
        """Start TLS on an accepted connection, and report why if that fails."""
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
        """Ensure that there is a connection: dial if it is ours to dial, or ``anyhow``."""
        self.link(peer)
        if self._is_closed or peer in self._banned:
            return
        if peer in self.connections or peer in self._dialling:
            return
        if (self.me > peer or anyhow) and not self.owner.is_gone(peer):
            self._dialling[peer] = self.loop.create_task(self._dial(peer))

    async def _dial(self, peer: int) -> None:
        """Try until there is a connection or the member is out of the view."""
        address = self.settings.addresses[peer]
        host, port = split_address(address)
        waits_s = backoff_s()
        try:
            while not self._is_closed and not self.owner.is_gone(peer):
                try:
                    async with asyncio.timeout(HANDSHAKE_S):
                        _, connection = await self.loop.create_connection(
                            lambda: Connection(self, peer, address),
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
                        waits_s = backoff_s()
                except ssl.SSLError as error:
                    self.owner.on_peer_error(peer, security.why(error), address)
                except ConnectionRefusedError:
                    if self._is_ending:
                        self._ended.add(peer)
                except OSError:
                    pass  # it is dialled again
                if peer in self._banned or (peer in self.connections and self.me < peer):
                    return
                if peer in self._ended:
                    return
                await asyncio.sleep(next(waits_s))
        finally:
            self._dialling.pop(peer, None)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task in the background, until it is done or the links are closed."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hello(self, peer: int) -> wire.Hello:
        """The handshake that this member sends to another."""
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
        """Accept a handshake and resume the link over this connection, or refuse it."""
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
            transport = connection.transport
            tls = transport.get_extra_info("ssl_object") if transport is not None else None
            names = security.names_in(tls.getpeercert()) if tls is not None else []
            security.check_name(names, self.settings.group, peer)
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
        # Of two connections the one that the higher member has dialled stays, unless it is silent:
        # it may be half open, and the peer dials because it has lost its end of it.
        dials = self.me > peer
        is_kept = (
            other is not None
            and other.is_dialled == dials
            and time.monotonic() - other.heard_s <= self.settings.test_every_s
        )
        if is_kept and connection.is_dialled != dials:
            connection.refuse("there is a connection already", code=DUPLICATE)
            return False
        link.life = hello.life
        frames = link.resume(hello.received)
        if not connection.is_dialled:
            connection.write(self.hello(peer).encode())
        if other is not None:
            other.link = None
            other.abort()
        self.reconnections += link.received + link.sent > 0
        self._unidentified.pop(connection, None)
        connection.link, connection.had_link = link, True
        self.connections[peer] = connection
        self._backlog[peer] = []
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

        It consumes a message only after its link has acknowledged it, so of messages there are no
        more than the windows of all, twice if they were sent again after a crash, each no larger
        than the largest that there was. All other records are sent because messages arrived or
        were consumed.
        """
        messages = len(self.settings.addresses) * self.settings.window
        largest_bytes = self.owner.largest_message_bytes
        others_bytes = link.unacknowledged_bytes - link.unacknowledged_messages_bytes
        return (
            others_bytes > KEPT_BYTES + OTHERS_BYTES * messages
            or link.unacknowledged_messages_bytes > 2 * messages * largest_bytes
        )

    def on_writable(self, connection: Connection) -> None:
        """A connection takes bytes again."""
        if connection.link is not None and (backlog := self._backlog.get(connection.link.peer)):
            self._backlog[connection.link.peer] = []
            connection.write(b"".join(backlog))

    def heard_within(self, peer: int, limit_s: float) -> bool:
        """Whether any bytes were received from a peer in this time, and it is not banned."""
        source = self.connections.get(peer) or self.link(peer)
        return peer not in self._banned and time.monotonic() - source.heard_s < limit_s

    def forgive(self, late_s: float) -> None:
        """After a pause of this process, count the silence of others as so much shorter."""
        now_s = time.monotonic()
        sources: list[Connection | Link] = [*self.connections.values(), *self.links.values()]
        for source in sources:
            source.heard_s = min(source.heard_s + late_s, now_s)

    def tend(self, silent_s: float) -> None:
        """Acknowledge what arrived, ping when idle, give up connections that seem dead.

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
        """The other side refuses this member."""
        who = connection.peer
        if code != DUPLICATE:
            self.owner.on_refused(who, wire.reason_in(body), evicted=code == EVICTED)
        if who is not None and self._is_ending and self.connections.get(who) in (None, connection):
            self._ended.add(who)
        connection.abort()

    def ban(self, peer: int) -> None:
        """Neither read from nor write to this member again: the failure detector will evict it."""
        self._banned.add(peer)
        self.link(peer).forget()
        self._backlog.pop(peer, None)
        if (connection := self.connections.get(peer)) is not None:
            connection.abort()

    def on_lost(self, connection: Connection, error: Exception | None) -> None:
        """A connection has ended: have another one made."""
        self._unidentified.pop(connection, None)
        if isinstance(error, ssl.SSLError) and connection.link is None:
            self.owner.on_refused(connection.target, str(security.why(error)), evicted=False)
        link, connection.link = connection.link, None
        if link is None or self.connections.get(link.peer) is not connection:
            return
        link.heard_s = connection.heard_s
        del self.connections[link.peer]
        self._backlog.pop(link.peer, None)  # its frames are kept, and sent over the next one
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
            self._unidentified[connection] = None
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
        """Whether everything has arrived, except what was sent to members that have ended."""
        return all(map(self._has_arrived, self.links))

    def _has_arrived(self, peer: int) -> bool:
        link = self.links[peer]
        # A member that leaves does not wait for those that it has never met.
        was_never_met = self.owner.is_over and not link.life
        return link.acknowledged == link.sent or peer in self._ended or was_never_met

    def stop_listening(self) -> None:
        """Free the port, and accept no connections any more."""
        for task in self._tasks:
            task.cancel()
        for sock in self._listeners:
            self.loop.remove_reader(sock)
            sock.close()

    def close(self) -> None:
        """End all connections, after what was written to them has been sent."""
        self._is_closed = True
        for task in self._dialling.values():
            task.cancel()
        self._closing = [*self.connections.values(), *self._unidentified]
        for connection in self._closing:
            connection.close()

    async def wait_closed(self) -> None:
        """Wait until all connections are closed and all tasks are done."""
        if self._closing:
            closed = [connection.closed for connection in self._closing]
            await asyncio.wait(closed, timeout=2 * CLOSE_S)
        await asyncio.gather(*self._dialling.values(), *self._tasks, return_exceptions=True)
