"""Connections between processes: addresses, handshakes, frames, resumption after a break.

A link is one between two lives. Here the other side has a number: that of a member of the view, and
before there is one that of a founder; a process that is neither, such as one that joins, has a
negative number, which ``renumber`` replaces when a view admits it.

Of two founders the one with the higher position dials; other processes dial all members. A
connection begins with a handshake (``wire.Hello``). A peer that sends none within ``HANDSHAKE_S``,
is of another group, has no valid certificate, or is out of the view is refused with a reason.

A handshake without a target asks for addresses: the answer has those that this member knows, and
ends the connection. So does an answer to a process that is not in the view.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from precedes.errors import PeerError, UserError
from precedes.live.net import security, wire
from precedes.live.net.discovery import (
    RETRY_LAST_S,
    Discovery,
    backoff_s,
    reason_of,
    split_address,
)
from precedes.live.net.link import Link
from precedes.live.net.security import Credentials, Security

log = logging.getLogger("precedes.live")

HANDSHAKE_S: Final = 5.0
# Maximum time for a peer to read the last bytes and close its side of a connection.
CLOSE_S: Final = 1.0
# Maximum time for the last frames of a state to arrive.
LAST_FRAMES_S: Final = 60.0
# Share of ``evict_after_s`` after which a silent connection is given up.
SILENT_SHARE: Final = 0.75
# Maximum connections without a handshake yet, or refused; twice the members in a larger group.
# Another one closes the oldest, so that idle connections keep no member out.
UNIDENTIFIED_MAX: Final = 64
# Bytes kept in any case for a member that acknowledges nothing; beyond that the messages of all
# windows, and this many bytes of other records for each of them.
KEPT_BYTES: Final = 1 << 16
OTHERS_BYTES: Final = 256

# In the number of a refusal.
EXCLUDED: Final = 1  # the group goes on without the receiver
DUPLICATE: Final = 2  # there is a connection already: both sides have dialled
LEAVING: Final = 3  # the sender ends
REPLACED: Final = 4  # another process has the receiver's name in the view
BUSY: Final = 5  # it cannot give the group's state now
GONE: Final = (EXCLUDED, REPLACED)

# The target of a connection to a seed: whoever answers.
ANYBODY: Final = -1
# Processes outside of the view that have a link; beyond that the longest disconnected is forgotten.
OUTSIDE_MAX: Final = 1024

# Connections that the operating system holds until they are accepted.
ACCEPTED_MAX: Final = 256


def new_life() -> bytes:
    """Name of one start of a process."""
    return os.urandom(16)


def listen_on_loopback() -> socket.socket:
    """A socket that listens at a free port of this machine."""
    return socket.create_server(("127.0.0.1", 0), backlog=ACCEPTED_MAX)


class Receiver(Protocol):
    """Receives the state of a group over a connection of its own."""

    first_epoch: int
    has_begun: bool  # the other side has shaken hands

    def take(self, number: int, body: memoryview) -> bool:
        """Take a frame; return whether the state is complete."""


class Owner(Protocol):
    """The member that links belong to: its state for them, and its callbacks."""

    @property
    def is_over(self) -> bool:
        """Return whether it has left the group: frames in flight may still arrive."""

    @property
    def is_finished(self) -> bool:
        """Return whether all in the view have finished, and may close connections silently."""

    @property
    def largest_message_bytes(self) -> int:
        """The largest size of a message on the wire so far."""

    def is_gone(self, member: int) -> bool:
        """Return whether a member is out of the view."""

    def is_replaced(self, member: int) -> bool:
        """Return whether another process has the name of a member that is out of the view."""

    @property
    def is_admitted(self) -> bool:
        """Return whether this process is in a view."""

    def on_bodies(self, peer: int, bodies: Iterable[tuple[int, bytes | memoryview]]) -> None:
        """Process frames of a peer, each with its epoch; they are valid until this returns."""

    def on_linked(self, peer: int, life: bytes, name: str) -> None:
        """There is a connection with a process."""

    def on_life_over(self, life: bytes) -> None:
        """A founder was restarted before there was a view."""

    def on_leaving(self, peer: int) -> None:
        """A member ends; what it has sent before has arrived."""

    def state_for(self, life: bytes, first_epoch: int) -> AsyncGenerator[bytes, None] | None:
        """Return frames of the group's state for a learner; None if it cannot get it here."""

    def on_peer_error(self, peer: int | None, error: PeerError, where: str) -> None:
        """A peer sent what no correct member sends."""

    def on_no_handshake(self, where: str) -> None:
        """A connection has ended without a handshake: the peer is busy, or not a member."""

    def on_damaged(self, peer: int | None, where: str) -> None:
        """Checksum mismatch; what is missing is sent again over another connection."""

    def on_refused(self, peer: int | None, reason: str, *, excluded: bool, replaced: bool) -> None:
        """A peer refuses this member."""

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link resumes over the next one."""


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """Settings of a member that its links use."""

    member: str
    names: tuple[str, ...]  # of the founders, by position
    address: str  # where others dial this member
    addresses: tuple[str, ...]  # of the founders, or none: then seeds are asked for them
    seeds: tuple[str, ...]
    listen: str
    group: str  # its name, in the certificates of its members
    group_digest: bytes  # the same for all members that may connect to each other
    security: Security | None
    window: int
    is_fixed: bool  # nobody joins: there are the founders, each in one life
    test_every_s: float
    frame_max_bytes: int


class Connection(asyncio.BufferedProtocol):
    """One TCP connection, dialled (there is a ``target``, maybe ``ANYBODY``) or accepted."""

    def __init__(
        self, links: Links, target: int | None, address: str, receiver: Receiver | None = None
    ) -> None:
        self.links = links
        self.target = target
        self.receiver = receiver  # of the group's state, for which this connection is
        self.writable = asyncio.Event()  # for a sender of the state
        self.writable.set()
        self.address = address
        self.link: Link | None = None
        self.had_link = False  # its handshake succeeded
        self.transport: asyncio.Transport | None = None
        self.paused = False
        self.is_damaged = False
        self.received_s = self.sent_s = time.monotonic()  # of the last bytes received, and written
        self.closed: asyncio.Future[None] = links.loop.create_future()
        self._frames = wire.Frames(frame_max_bytes=links.settings.frame_max_bytes)
        self._limit: asyncio.TimerHandle | None = None

    @property
    def is_dialled(self) -> bool:
        """Return whether this side has made the connection."""
        return self.target is not None

    @property
    def peer(self) -> int | None:
        """The member at the other side, as far as it is known."""
        if self.link is not None:
            return self.link.peer
        return None if self.target == ANYBODY else self.target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the handshake if this side has dialled."""
        self.transport = cast(asyncio.Transport, transport)
        self.links.open.add(self)
        if self.links.is_closed:
            self.abort()
            return
        self._limit = self.links.loop.call_later(HANDSHAKE_S, self._on_handshake_timeout)
        if self.target is not None:
            hello = self.links.hello(self.target)
            if self.receiver is not None:
                hello = hello._replace(state=self.receiver.first_epoch)
            self.transport.write(hello.encode())

    def _on_handshake_timeout(self) -> None:
        """Close: a peer that was dialled may be busy or starting, and is dialled again."""
        if self.link is None:
            if not self.is_dialled:
                self.links.owner.on_no_handshake(self.address)
            self.abort()

    def _stop_timer(self) -> None:
        if self._limit is not None:
            self._limit.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes of the operating system."""
        return self._frames.room()

    def buffer_updated(self, count: int) -> None:
        """Process received bytes."""
        self.received_s = time.monotonic()
        try:
            if self.link is None:
                if self.transport is None or self.transport.is_closing():
                    return
                if self.receiver is None or not self.receiver.has_begun:
                    self._shake_hands(self._frames.unframed(count))
                    count = 0
            if self.receiver is not None and self.receiver.has_begun:
                self._take_state(self.receiver, self._frames.advance(count))
            elif self.link is not None and (frames := self._frames.advance(count)):
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
            for kind, number, _, _, body in frames:
                if kind != wire.REFUSED:
                    raise PeerError("it answers without a handshake")
                self.links.on_refused(self, number, bytes(body))
        elif (size_bytes := wire.hello_bytes(data)) is not None and len(data) >= size_bytes:
            hello = wire.decode_hello(bytes(data[:size_bytes]))
            self._frames.skip(size_bytes)
            if self.links.accept_hello(self, hello):
                self._stop_timer()

    def _take_state(self, receiver: Receiver, frames: list[wire.Frame]) -> None:
        for kind, number, _, _, body in frames:
            if kind != wire.STATE:
                raise PeerError(wire.REASONS[10])
            if receiver.take(number, body):
                self.close()

    def _take(self, link: Link, frames: list[wire.Frame]) -> None:
        kind, number, _, _, reason = frames[-1]
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
            self.sent_s = time.monotonic()
            self.transport.write(data)

    def refuse(self, reason: str, *, code: int = 0) -> None:
        """Send the reason, and close."""
        self.write(wire.refusal(reason, code=code))
        self.close()

    def fail(self, error: PeerError) -> None:
        """Count the other side's violation, and close."""
        self.links.owner.on_peer_error(self.peer, error, self.address)
        if self.link is None:
            if self.is_dialled:
                self.links.refusal = f"refused {self.address}: {error}"
            self.refuse(str(error))
        else:
            self.links.ban(self.link.peer)

    def pause_writing(self) -> None:
        """The other side is slow: frames wait in the link."""
        self.paused = True
        self.writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.paused = False
        self.writable.set()
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
        self.writable.set()
        self.links.open.discard(self)
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
        self.name = settings.member
        self.loop = asyncio.get_running_loop()
        self.life = new_life()
        self.names = dict(enumerate(settings.names))  # by number
        self._outside = itertools.count(-2, -1)  # the next number outside of the view
        self.me = next((i for i, name in self.names.items() if name == self.name), -1)
        self._number_of: dict[bytes, int] = {}  # by lives
        self.discovery = Discovery(
            settings.addresses, settings.seeds, ask=self._ask, missing=self._lacks_addresses
        )
        self.refusal = ""  # the last one of this member by another, or of one that it has dialled
        self.links: dict[int, Link] = {}
        self.refused_s: dict[int, float] = {}  # since when nobody listens at a peer's address
        self.connections: dict[int, Connection] = {}
        self.attached = asyncio.Event()  # set when a link has got a connection, or needs none
        self.reconnections = 0
        # Connections without a handshake, oldest first, and the tasks that start TLS on them.
        self._unidentified: dict[Connection, asyncio.Task[None] | None] = {}
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._banned: set[int] = set()
        self._ended: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._search: asyncio.Task[None] | None = None
        self._backlog: dict[int, list[bytes]] = {}
        self._listeners: list[socket.socket] = [] if listener is None else [listener]
        self.credentials = Credentials(settings.security)
        self.is_closed = False
        self.open: set[Connection] = set()  # all that have a transport, in any state

    async def listen(self) -> None:
        """Accept connections from now on."""
        if not self._listeners:
            host, port = split_address(self.settings.listen)
            addresses = await self.loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            with contextlib.ExitStack() as made:
                self._listeners = [
                    made.enter_context(
                        socket.create_server(address, family=family, backlog=ACCEPTED_MAX)
                    )
                    for family, _, _, _, address in addresses
                ]
                made.pop_all()
        for sock in self._listeners:
            sock.setblocking(False)
            self._await_connections(sock)
        self._search_on()

    def _accept(self, listener: socket.socket) -> None:
        """Accept a connection; a slow handshake does not hold back the next one.

        Not ``create_server``: with TLS it does not report why a handshake has failed, and starting
        TLS on a connection that it has accepted loses what uvloop has read before. Not
        ``sock_accept``: one that is cancelled may have accepted a connection that nobody closes.
        """
        try:
            sock, address = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return  # it was closed before it was accepted
        except OSError as error:
            log.error("cannot accept connections for now: %s", error.strerror)
            self.loop.remove_reader(listener)
            self.loop.call_later(RETRY_LAST_S, self._await_connections, listener)
            return
        sock.setblocking(False)
        self._enter(sock, f"{address[0]}:{address[1]}")

    def _await_connections(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self.loop.add_reader(listener, self._accept, listener)

    def _enter(self, sock: socket.socket, address: str) -> None:
        """Begin the handshake of an accepted connection."""
        if len(self._unidentified) >= max(UNIDENTIFIED_MAX, 2 * len(self.names)):
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

    def number_of(self, life: bytes) -> int | None:
        """The number of a process; None if it was never met and is not in the view."""
        return self._number_of.get(life)

    def meet(self, peer: int, life: bytes) -> None:
        """The other side of a link is this life."""
        self.link(peer).life = life
        self._number_of[life] = peer

    def link(self, peer: int) -> Link:
        """The link to a member, made when it is first needed."""
        if peer not in self.links:
            self.links[peer] = Link(peer)
        return self.links[peer]

    def want(self, peer: int, *, anyhow: bool = False) -> None:
        """Ensure that there is a connection: dial if it is this side's turn, or ``anyhow``."""
        self.link(peer)
        if self.is_closed or peer in self._banned:
            return
        if peer in self.connections or peer in self._dialling:
            return
        if (self.me > peer or anyhow) and not self.owner.is_gone(peer):
            self._dialling[peer] = self.loop.create_task(self._dial(peer))

    async def _dial(self, peer: int) -> None:
        """Dial until there is a connection or the member is out of the view."""
        waits_s = backoff_s()
        try:
            while not self.is_closed and not self.owner.is_gone(peer):
                if (address := self.discovery.addresses.get(peer)) is None:
                    self.discovery.learned.clear()
                    await self.discovery.learned.wait()
                    continue
                try:
                    if await self._connect(peer, address, *split_address(address)):
                        waits_s = backoff_s()
                except ssl.SSLError as error:
                    self.owner.on_peer_error(peer, security.why(error), address)
                except ConnectionRefusedError:
                    self.refused_s.setdefault(peer, time.monotonic())
                    if self._is_ending:
                        self._ended.add(peer)
                except OSError:
                    pass  # it is dialled again
                if peer in self._banned or peer in self._ended or peer in self.connections:
                    return
                if not self.link(peer).life:
                    self.discovery.doubt(peer)
                    self._search_on()
                await asyncio.sleep(next(waits_s))
        finally:
            if self._dialling.get(peer) is asyncio.current_task():
                del self._dialling[peer]

    async def _connect(self, target: int, address: str, host: str, port: int) -> bool:
        """Connect, and return at the end of the connection whether its handshake succeeded."""
        async with asyncio.timeout(HANDSHAKE_S):
            _, connection = await self.loop.create_connection(
                lambda: Connection(self, target, address),
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
        return connection.had_link

    # Addresses of other members ---------------------------------------------------------------

    def _lacks_addresses(self) -> bool:
        """Return whether the address of some member is unknown or in doubt, or who is one."""
        known = self.discovery.addresses.keys() - self.discovery.in_doubt
        return not self.owner.is_admitted or any(
            0 <= peer != self.me and peer not in known and not self.owner.is_gone(peer)
            for peer in self.names
        )

    def _search_on(self) -> None:
        """Ask the seeds for addresses, if some are missing."""
        is_searching = self._search is not None and not self._search.done()
        if not is_searching and not self.owner.is_over and self._lacks_addresses():
            self._search = self._keep(self.discovery.search())

    async def _ask(self, host: str, port: int) -> str:
        """Ask whoever listens there for addresses; why there is no answer, or ""."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            return "" if await self._connect(ANYBODY, address, host, port) else "no handshake"
        except ssl.SSLError as error:
            failure = security.why(error)
            self.owner.on_peer_error(None, failure, address)
            return str(failure)
        except OSError as error:
            return reason_of(error)

    def _learn(self, hello: wire.Hello) -> None:
        """Note the addresses in a handshake; PeerError for what is not an address."""
        sources = [(hello.member, hello.address), *hello.members]
        try:
            for _, address in sources:
                split_address(address)
        except UserError as error:
            raise PeerError("its handshake is malformed", str(error)) from None
        for name, address in sources:
            if name != self.name and (peer := self._number_for(name)) is not None:
                self.discovery.learn(peer, address, direct=name == hello.member)

    def _number_for(self, name: str) -> int | None:
        """The number of a member, also of one that is not a founder while there is no view."""
        peer = next((number for number, other in self.names.items() if other == name), None)
        if peer is None and not self.owner.is_admitted and len(self.names) < OUTSIDE_MAX:
            peer = next(self._outside)
            self.names[peer] = name
        return peer

    def troubles(self) -> list[str]:
        """Reasons why this member has not met others: the last refusal, silent seeds."""
        failures = self.discovery.failures.items()
        silent = [f"seed {seed} does not answer: {failure}" for seed, failure in failures]
        return [self.refusal, *silent] if self.refusal else silent

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task in the background, until it is done or the links are closed."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hello(self, peer: int, *, answers: bool = False, to: str = "") -> wire.Hello:
        """The handshake for another process; ``answers``: with the addresses of members.

        Without a number: for anybody, or the answer ``to`` a member that asked for addresses.
        """
        link, names, members = self.links.get(peer), self.names, list[tuple[str, str]]()
        if answers or to:
            excluded = {peer, self.me, *self.discovery.in_doubt}
            addresses = self.discovery.addresses.items()
            members = [
                (names[i], address)
                for i, address in addresses
                if names.get(i, to) != to and i not in excluded
            ]
            random.shuffle(members)  # if not all fit, others are in the next answer
        return wire.Hello(
            member=self.name,
            target=to or names.get(peer, ""),
            group=self.settings.group_digest,
            life=self.life,
            known=bytes(16) if link is None else link.life or bytes(16),
            received=0 if link is None else link.received,
            address=self.settings.address,
            members=members,
        )

    def _number_of_process(self, hello: wire.Hello) -> int | None:
        """The number of the process that shakes hands; None if it may not have a link.

        Before there is a view, a founder may be met again in another life.
        """
        if (known := self._number_of.get(hello.life)) is not None:
            return known
        peer = None if hello.member == self.name else self._number_for(hello.member)
        if peer is None or self.owner.is_admitted:
            if self.settings.is_fixed:
                return None
            self._forget_outside()
            peer = next(self._outside)
            self.names[peer] = hello.member
        elif peer in self.connections and self.link(peer).life:
            return None
        return peer

    def _forget_outside(self) -> None:
        """Forget the process outside of the view whose link was made first, if there are many."""
        outside = [peer for peer in self.links if peer < 0 and peer not in self.connections]
        if len(outside) >= OUTSIDE_MAX:
            self._drop(outside[0])

    def accept_hello(self, connection: Connection, hello: wire.Hello) -> bool:
        """Accept a handshake and resume the link over this connection, or refuse it."""
        if hello.group != self.settings.group_digest:
            raise PeerError("it belongs to another group, or its settings differ")
        asks = not hello.target and not connection.is_dialled
        is_for_addresses = asks or connection.target == ANYBODY  # this member may answer itself
        is_own_life = hello.life == self.life
        may_come = not self.settings.is_fixed or hello.member in self.settings.names
        is_meant = is_for_addresses or (hello.target == self.name and not is_own_life)
        known = self._number_of.get(hello.life)
        is_meant = is_meant and (
            known is None or self.names.get(known, hello.member) == hello.member
        )
        if not wire.NAME.fullmatch(hello.member) or not may_come or not is_meant:
            raise PeerError(
                "its handshake names the wrong members",
                f"from {hello.member} to {hello.target or 'anybody'}",
            )
        target = connection.target
        if target not in (None, ANYBODY) and self.names.get(target) != hello.member:
            raise PeerError("another member answers at this address", f"member {hello.member}")
        if self.settings.security is not None:
            transport = connection.transport
            tls = transport.get_extra_info("ssl_object") if transport is not None else None
            names = security.names_in(tls.getpeercert()) if tls is not None else []
            security.check_name(names, self.settings.group, hello.member)
        if known is not None and self.owner.is_gone(known):
            code = REPLACED if self.owner.is_replaced(known) else EXCLUDED
            connection.refuse("you are not in the view: the others continue", code=code)
            return False
        if known in self._banned:
            connection.refuse("protocol violation")
            return False
        if is_for_addresses:
            self._learn(hello)
            if asks:
                connection.write(self.hello(ANYBODY, to=hello.member).encode())
            connection.had_link = not asks
            connection.close()
            return False
        if connection.receiver is not None:
            connection.receiver.has_begun = connection.had_link = True
            return True
        if hello.state:
            return self._give_state(connection, hello)
        peer = self._number_of_process(hello)
        if peer is None:
            raise PeerError(
                "it was restarted, or two processes have its name", f"member {hello.member}"
            )
        self._learn(hello)
        link = self.link(peer)
        if link.life not in (hello.life, b""):
            self.owner.on_life_over(link.life)
            del self._number_of[link.life]
            link = self.links[peer] = Link(peer)
        other = self.connections.get(peer)
        # Of two connections the one that the larger life has dialled stays, unless it is silent:
        # it may be half open, and the peer dials because it has lost its end of it.
        dials = self.life > hello.life
        is_kept = (
            other is not None
            and other.is_dialled == dials
            and time.monotonic() - other.received_s <= self.settings.test_every_s
        )
        if is_kept and connection.is_dialled != dials:
            connection.refuse("there is a connection already", code=DUPLICATE)
            return False
        self.meet(peer, hello.life)
        # A peer that knows an earlier life of this member has received nothing from this one.
        frames = link.resume(hello.received if hello.known == self.life else 0)
        if not connection.is_dialled:
            connection.write(self.hello(peer, answers=peer < 0).encode())
        if other is not None:
            other.link = None
            other.abort()
        self.reconnections += link.received + link.sent > 0
        self._unidentified.pop(connection, None)
        connection.link, connection.had_link = link, True
        self.connections[peer] = connection
        self.refused_s.pop(peer, None)
        self._backlog[peer] = []
        if frames:
            connection.write(b"".join(frames))
        self.attached.set()
        self.owner.on_linked(peer, hello.life, hello.member)
        return True

    def _give_state(self, connection: Connection, hello: wire.Hello) -> bool:
        """Send the state of the group over this connection."""
        frames = self.owner.state_for(hello.life, hello.state)
        peer = self._number_of.get(hello.life)
        if frames is None or peer is None:
            connection.refuse("there is no state here", code=BUSY)
            return False
        connection.write(self.hello(peer).encode())

        async def give() -> None:
            try:
                async with contextlib.aclosing(frames):
                    async for frame in frames:
                        await connection.writable.wait()
                        if connection.transport is None or connection.transport.is_closing():
                            return
                        connection.write(frame)
            except Exception:  # of the application's iterator; the receiver asks another member
                log.exception("a transfer of the state failed")
                return
            # The receiver closes: what is in buffers here would be cut off after ``CLOSE_S``.
            await asyncio.wait([connection.closed], timeout=LAST_FRAMES_S)

        self._keep(give()).add_done_callback(lambda _: connection.close())
        self._unidentified.pop(connection, None)
        connection.had_link = True
        return True

    async def fetch_state(self, peer: int, receiver: Receiver, silent_s: float) -> None:
        """Receive the state of the group from a member, until the connection ends or is silent."""
        address = self.discovery.addresses.get(peer)
        if address is None:
            return
        host, port = split_address(address)
        connection = Connection(self, peer, address, receiver)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self.loop.create_connection(
                    lambda: connection, host, port, ssl=self.credentials.contexts().client
                )
            while not connection.closed.done():
                await asyncio.wait([connection.closed], timeout=silent_s / 4)
                if time.monotonic() - connection.received_s > silent_s:
                    return
        except OSError as error:
            log.debug("no state from %s: %s", address, reason_of(error))
        finally:
            connection.abort()

    def send(
        self,
        peer: int,
        body: bytes,
        checksum: int | None = None,
        *,
        epoch: int,
        messages_bytes: int = 0,
    ) -> None:
        """Send records of an epoch, or one of the membership (0): now, or over the next connection.

        A record of the membership that is in flight is not sent again.
        """
        if peer in self._banned:
            return
        connection = self.connections.get(peer)
        if connection is None or (link := connection.link) is None:
            link = self.link(peer)
            if epoch or not link.is_kept(body):
                link.put(body, checksum, epoch=epoch, messages_bytes=messages_bytes)
            self.want(peer, anyhow=True)
        elif epoch or not link.is_kept(body):
            self._write(
                peer,
                connection,
                link.put(body, checksum, epoch=epoch, messages_bytes=messages_bytes),
            )
        if link.unacknowledged_bytes > KEPT_BYTES and self._keeps_too_much(link):
            error = PeerError("it does not acknowledge frames")
            self.owner.on_peer_error(peer, error, "its link")
            self.ban(peer)

    def _write(self, peer: int, connection: Connection, frame: bytes) -> None:
        if connection.paused:
            self._backlog[peer].append(frame)
        else:
            connection.write(frame)

    def part(self) -> None:
        """Announce to all that this member ends, after what it has sent."""
        frame = wire.refusal("it leaves", code=LEAVING)
        for peer, connection in self.connections.items():
            self._write(peer, connection, frame)

    def _keeps_too_much(self, link: Link) -> bool:
        """Return whether a correct member would have acknowledged some of what is kept for it.

        It consumes a message only after its link has acknowledged it, so the kept messages are at
        most the windows of all, twice because they may be those of two epochs, each no larger
        than the largest that there was. All other records are sent because messages arrived or
        were consumed, or belong to the membership, and count as messages.
        """
        messages = len(self.names) * self.settings.window
        largest_bytes = self.owner.largest_message_bytes
        others_bytes = link.unacknowledged_bytes - link.unacknowledged_messages_bytes
        return (
            others_bytes > KEPT_BYTES + OTHERS_BYTES * messages
            or link.unacknowledged_messages_bytes > 2 * messages * largest_bytes
        )

    def on_writable(self, connection: Connection) -> None:
        """Continue sending: a connection takes bytes again."""
        if connection.link is not None and (backlog := self._backlog.get(connection.link.peer)):
            self._backlog[connection.link.peer] = []
            connection.write(b"".join(backlog))

    def received_within(self, peer: int, limit_s: float) -> bool:
        """Return whether any bytes were received from a peer in this time, and it is not banned."""
        source = self.connections.get(peer) or self.link(peer)
        return peer not in self._banned and time.monotonic() - source.received_s < limit_s

    def is_banned(self, peer: int) -> bool:
        """Return whether a peer has sent what no correct member sends."""
        return peer in self._banned

    def forgive(self, late_s: float) -> None:
        """After a pause of this process, count the silence of others as so much shorter."""
        now_s = time.monotonic()
        sources: list[Connection | Link] = [*self.connections.values(), *self.links.values()]
        for source in sources:
            source.received_s = min(source.received_s + late_s, now_s)

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
            if now_s - connection.received_s > SILENT_SHARE * silent_s:
                connection.abort()
            elif not connection.paused:
                if link.owes_acknowledgement():
                    connection.write(link.acknowledgement())
                elif now_s - connection.sent_s > silent_s / 4:
                    connection.write(link.acknowledgement(wire.PING))

    def on_refused(self, connection: Connection, code: int, body: bytes) -> None:
        """Handle a refusal by the other side."""
        who = connection.peer
        if code == LEAVING and who is not None:
            self.owner.on_leaving(who)
        elif code not in (DUPLICATE, BUSY):
            self._note_refusal(connection, wire.reason_in(body), code=code)
        is_current = who is not None and self.connections.get(who) in (None, connection)
        if is_current and who is not None and (self._is_ending or code in GONE):
            self._ended.add(who)
        connection.abort()

    def _note_refusal(self, connection: Connection, reason: str, *, code: int = 0) -> None:
        self.refusal = f"refused by {connection.address}: {reason}"
        self.owner.on_refused(
            connection.peer, reason, excluded=code in GONE, replaced=code == REPLACED
        )

    def ban(self, peer: int) -> None:
        """Neither read from nor write to this member again: it will be excluded."""
        self._banned.add(peer)
        self.link(peer).forget()
        self._backlog.pop(peer, None)
        if (connection := self.connections.get(peer)) is not None:
            connection.abort()

    def on_lost(self, connection: Connection, error: Exception | None) -> None:
        """Replace a connection that has ended."""
        self._unidentified.pop(connection, None)
        if isinstance(error, ssl.SSLError) and connection.link is None:
            self._note_refusal(connection, str(security.why(error)))
        link, connection.link = connection.link, None
        if link is None or self.connections.get(link.peer) is not connection:
            return
        link.received_s = connection.received_s
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
            code = REPLACED if self.owner.is_replaced(peer) else EXCLUDED
            connection.refuse("you are not in the view: the others continue", code=code)
        if task := self._dialling.get(peer):
            task.cancel()
        self.links.pop(peer, None)

    def renumber(
        self,
        numbers: Mapping[bytes, int],
        names: Mapping[int, str],
        addresses: Mapping[int, str],
        *,
        is_first: bool,
    ) -> None:
        """A view begins: give its members their numbers, by lives; others keep negative ones."""
        self.me = numbers[self.life]
        for peer, link in list(self.links.items()) if is_first else ():
            # A founder's position is not always its number, and another process may have its name.
            if link.life and numbers.get(link.life) != peer:
                self._move(peer, next(self._outside))
            elif not link.life and names.get(peer) != self.names[peer]:
                self._drop(peer)
        for peer in [peer for peer in self.links if peer < 0]:
            if (number := numbers.get(self.links[peer].life)) is not None:
                self._move(peer, number)
        # An attempt to dial may have made a link again to a number that is no longer used.
        known = self.links.keys() & self.names.keys()
        outside = {peer: self.names[peer] for peer in known - names.keys()}
        self.names = {**names, **outside}
        self._number_of |= numbers
        for peer, address in addresses.items():
            if peer != self.me:
                self.discovery.admit(peer, address)

    def _by_peer(self) -> tuple[dict[int, Any], ...]:
        return (
            *(self.links, self.connections, self.refused_s, self._backlog, self.names),
            self.discovery.addresses,
        )

    def _move(self, peer: int, number: int) -> None:
        """Give a process another number; it is dialled again under that one."""
        for values in self._by_peer():
            if peer in values:
                values[number] = values.pop(peer)
        for numbers in (self._banned, self._ended, self.discovery.in_doubt):
            if peer in numbers:
                numbers.remove(peer)
                numbers.add(number)
        if task := self._dialling.pop(peer, None):
            task.cancel()
        link = self.links[number]
        link.peer = self._number_of[link.life] = number
        for connection in self.open:
            if connection.target == peer:
                connection.target = number

    def _drop(self, peer: int) -> None:
        """Forget a process without a connection."""
        life = self.links[peer].life
        for values in self._by_peer():
            values.pop(peer, None)
        self._number_of.pop(life, None)
        if task := self._dialling.pop(peer, None):
            task.cancel()

    @property
    def _is_ending(self) -> bool:
        """Return whether others may end before they have acknowledged everything."""
        return self.owner.is_over or self.owner.is_finished

    @property
    def is_flushed(self) -> bool:
        """Return whether everything has arrived, except frames for members that have ended."""
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
        self._listeners = []

    def close(self) -> None:
        """End all connections, after what was written to them has been sent."""
        self.is_closed = True
        for task in self._dialling.values():
            task.cancel()
        for connection in list(self.open):
            connection.close()

    async def wait_closed(self) -> None:
        """Wait until all connections are closed and all tasks are done."""
        await asyncio.gather(*self._dialling.values(), *self._tasks, return_exceptions=True)
        if closed := [connection.closed for connection in self.open]:
            await asyncio.wait(closed, timeout=2 * CLOSE_S)
