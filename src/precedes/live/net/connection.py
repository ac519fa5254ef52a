"""One TCP connection between two members: the greeting, then frames."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, cast

from precedes.errors import PeerError
from precedes.live.net import security, wire
from precedes.live.net.link import Link

if TYPE_CHECKING:
    from precedes.live.net.links import Links

HANDSHAKE_S: Final = 5.0
# How long the other side has for reading the last words and ending the connection with us.
CLOSE_S: Final = 1.0


class Connection(asyncio.BufferedProtocol):
    """One TCP connection, dialled (``target`` is known) or accepted."""

    def __init__(self, links: Links, target: int | None, address: str) -> None:
        self.links = links
        self._owner = links.owner
        self.target = target
        self.address = address
        self.link: Link | None = None
        self.had_link = False  # it was greeted rightly, whatever came later
        self.transport: asyncio.Transport | None = None
        self.paused = False
        self.is_damaged = False
        self.heard_s = self.said_s = time.monotonic()  # when bytes last came, and were last written
        self.closed: asyncio.Future[None] = links.loop.create_future()
        self._greeting = b""
        self._frames = wire.Frames(frame_max_bytes=links.settings.frame_max_bytes)
        self._limit: asyncio.TimerHandle | None = None

    @property
    def is_dialled(self) -> bool:
        """Whether this side has made the connection."""
        return self.target is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Speak first if this side has dialled."""
        self.transport = cast(asyncio.Transport, transport)
        self._limit = self.links.loop.call_later(HANDSHAKE_S, self._too_late)
        if self.target is not None:
            self.transport.write(self.links.hello(self.target).encode())

    def _too_late(self) -> None:
        """Give up: a peer that was dialled may be busy or starting, and is dialled again."""
        if self.link is None:
            if not self.is_dialled:
                self._owner.on_no_handshake(self.address)
            self.abort()

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the operating system puts what comes."""
        return self._frames.room()

    def buffer_updated(self, count: int) -> None:
        """Bytes have come."""
        self.heard_s = time.monotonic()
        if self.link is None:
            self._hear(self._frames.take(count))
            return
        try:
            if frames := self._frames.advance(count):
                self._take(self.link, frames)
        except wire.Damaged:
            self._drop()
        except PeerError as error:
            self.fail(error)

    def _hear(self, data: bytes) -> None:
        """Bytes before there is a link, and what follows in the same bytes."""
        if self.transport is None or self.transport.is_closing():
            return
        try:
            rest = self._greet(data)
            if self.link is not None and rest and (frames := self._frames.put(rest)):
                self._take(self.link, frames)
        except wire.Damaged:
            self._drop()
        except PeerError as error:
            self.fail(error)

    def _drop(self) -> None:
        """Bytes have changed on the way: have another connection made."""
        self.is_damaged = True
        who = self.target if self.link is None else self.link.peer
        self._owner.on_damaged(who, self.address)
        self.abort()

    def _take(self, link: Link, frames: list[wire.Frame]) -> None:
        kind, number, _, reason = frames[-1]
        if kind == wire.REFUSED:
            frames = frames[:-1]
        if bodies := link.take(frames):
            self._owner.on_bodies(link.peer, bodies)
        if kind == wire.REFUSED:
            self.links.on_refused(self, number, bytes(reason))
        elif link.is_overdue and not self.paused:
            self.write(link.acknowledgement())

    def _greet(self, data: bytes) -> bytes:
        """Take the other side's greeting; what follows it."""
        self._greeting += data
        opening = self._greeting[: len(wire.MAGIC)]
        if opening != wire.MAGIC[: len(opening)]:
            if not self.is_dialled:
                raise PeerError("it does not speak this protocol")
            try:
                frames = self._frames.put(data)
            except wire.Damaged:
                raise PeerError("it answers without a handshake") from None
            for kind, number, _, body in frames:
                if kind != wire.REFUSED:
                    raise PeerError("it answers without a handshake")
                self.links.on_refused(self, number, bytes(body))
            return b""
        if len(self._greeting) < wire.HELLO_BYTES:
            return b""
        hello = wire.decode_hello(self._greeting[: wire.HELLO_BYTES])
        rest = self._greeting[wire.HELLO_BYTES :]
        self._greeting = b""
        if self.links.greet(self, hello):
            self._stop_waiting()
            return rest
        return b""

    def peer_names(self) -> list[str]:
        """The names in the other side's certificate."""
        tls = self.transport.get_extra_info("ssl_object") if self.transport else None
        return security.names_in(tls.getpeercert()) if tls is not None else []

    def write(self, data: bytes) -> None:
        """Hand bytes to the operating system, or to the transport's buffer."""
        if self.transport is not None and not self.transport.is_closing():
            self.said_s = time.monotonic()
            self.transport.write(data)

    def refuse(self, reason: str, *, code: int = 0) -> None:
        """Say why, and close; with TLS the other side has a part in that, which it may not do."""
        self.write(wire.refusal(reason, code=code))
        self.close()

    def fail(self, error: PeerError) -> None:
        """The other side's mistake: count it, close."""
        who = None if self.link is None else self.link.peer
        self._owner.on_peer_error(self.target if who is None else who, error, self.address)
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
        """Close after what was written has gone, or a moment later."""
        # Once: a transport of TLS that is closed again can no longer be aborted.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._stop_waiting()
            self._limit = self.links.loop.call_later(CLOSE_S, self.abort)

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        self._stop_waiting()
        self.links.on_lost(self, error)
        if not self.closed.done():
            self.closed.set_result(None)
