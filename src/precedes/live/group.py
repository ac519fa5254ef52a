"""``Group``: a member of a live group, for applications.

    async with Group.open(config) as group:      # ready when all neighbours are there
        await group.broadcast(b"hello")          # waits for credit
        async for message in group:              # causes before effects
            print(message.sender, message.payload)

Everything happens in one asyncio loop: bytes that came in one turn of the loop are handled in
one call of the compiled step, and what it leaves is sent in one write to each member.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import operator
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from precedes.errors import UserError
from precedes.live import tracelog
from precedes.live.config import Config
from precedes.live.core import TEND_EVERY_S, Core, Missing, log
from precedes.live.errors import GroupClosed, GroupLost, SlowMember, WouldBlock
from precedes.live.events import Event
from precedes.live.member import arrays as a
from precedes.live.member import records
from precedes.live.member.outbox import FRAME_BYTES
from precedes.live.member.output import Batch, Message
from precedes.live.metrics import serve
from precedes.live.net.links import Links
from precedes.model import NANOSECONDS_PER_S

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from typing_extensions import Buffer

__all__ = ["Group", "Missing"]

# At the end, for the last frames: also over connections that have just broken.
FLUSH_S: Final = 2.0


def _to_bytes(payload: Buffer) -> bytes:
    """The bytes of a buffer: its ``len`` may count something else."""
    if type(payload) is bytes:
        return payload
    try:
        return memoryview(payload).tobytes()
    except TypeError:
        kind = type(payload).__name__
        raise TypeError(f"a payload is bytes or another buffer, not {kind}") from None


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class Group(Core):
    """One member of a group; make it with ``Group.open``."""

    _registry: CollectorRegistry | None = None
    _server: asyncio.Server | None = None

    @classmethod
    def open(
        cls,
        config: Config,
        *,
        listener: socket.socket | None = None,
        registry: CollectorRegistry | None = None,
    ) -> Self:
        """A member to be entered with ``async with``.

        ``listener`` is a socket that listens already, instead of the member's own address;
        ``registry`` one of ``prometheus_client`` that exposes the group's metrics while it is open.
        """
        group = cls(config, listener=listener)
        if registry is not None and not callable(getattr(registry, "register", None)):
            raise UserError(f"a registry is one of prometheus_client, not {registry!r}")
        group._registry = registry
        return group

    async def __aenter__(self) -> Self:
        config = self.config
        if self._opened:
            raise GroupClosed("a group is entered once: open another one")
        self._opened = True
        if not config.interpreted:
            # Loading or compiling takes a while and would look like a dead member later.
            self._node.prepare()
        self._loop = asyncio.get_running_loop()
        self._links = Links(self)
        if config.trace is not None:
            about = {"group": config.name, "protocol": config.protocol, "window": config.window}
            self._trace = tracelog.TraceLog(
                config.trace, member=self.member, members=len(config.addresses), about=about
            )
        try:
            try:
                await self._links.listen()
            except OSError as error:
                address = config.addresses[self.member]
                raise UserError(f"cannot listen at {address}: {error.strerror or error}") from None
            await self._serve_metrics()
            # Members that do their regular duties at the same time would hinder each other.
            share = self.member / len(config.addresses)
            self._beat_ns = time.monotonic_ns()
            self._tasks.append(self._loop.create_task(self._tend(share * TEND_EVERY_S)))
            await self._wait_for_neighbours()
        except BaseException:
            await self._close()
            raise
        first_ns = round(share * config.test_every_s * NANOSECONDS_PER_S)
        self._node.start(tests_at_ns=self._now_ns() + first_ns)
        self._schedule()
        self._entered = self.metrics.ready = True
        log.info("member %d of %s is ready", self.member, config.name)
        return self

    async def _serve_metrics(self) -> None:
        """Have metrics read from outside, if anybody wants to."""
        address = self.config.metrics
        if address is None and self._registry is None:
            return
        from precedes.live import prometheus

        registry = self._registry = self._registry or prometheus.new_registry()
        prometheus.register(registry, self)
        if address is not None:
            try:
                self._server = await serve(self, address, lambda: prometheus.exposition(registry))
            except OSError as error:
                text = f"cannot serve metrics at {address}: {error.strerror or error}"
                raise UserError(text) from None

    def _end_metrics(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._registry is not None:
            from precedes.live import prometheus

            prometheus.unregister(self._registry, self)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Where metrics and health are served: host, and the port that was chosen for port 0."""
        if self._server is None or not self._server.sockets:
            return None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def _wait_for_neighbours(self) -> None:
        """Wait until each has been met; who is evicted meanwhile is no neighbour any more.

        Tests for crashes begin only afterwards: until then a lost connection has to do.
        """
        missing: list[int] = []
        lost_s: dict[int, float] = {}
        try:
            async with asyncio.timeout(self.config.start_s):
                while missing := self._find_missing():
                    self._evict_lost(lost_s)
                    self._links.attached.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(TEND_EVERY_S):
                            await self._links.attached.wait()
                    self._raise_error()
        except TimeoutError:
            names = ", ".join(map(str, missing))
            raise GroupLost(
                f"member {names} did not come within {self.config.start_s:g} s"
            ) from None

    def _find_missing(self) -> list[int]:
        """The neighbours that have never been met; a connection is wanted from now on."""
        wanted = self._node.neighbours()
        missing = [peer for peer in wanted if not self._links.link(peer).life]
        for peer in missing:
            self._links.want(peer)
        return missing

    def _evict_lost(self, lost_s: dict[int, float]) -> None:
        """Evict who was met and has had no connection for long; ``lost_s`` says since when."""
        now_s = time.monotonic()
        if time.monotonic_ns() - self._beat_ns > self._patience_ns:
            lost_s.clear()  # it is this member that was away
        for peer, link in self._links.links.items():
            if peer in self._links.connections or not link.life or self.is_gone(peer):
                lost_s.pop(peer, None)
            elif now_s - lost_s.setdefault(peer, now_s) > self.config.evict_after_s:
                self._node.evict(peer)
                self._schedule()

    async def broadcast(self, payload: Buffer) -> tuple[int, int]:
        """Broadcast a message, after waiting for credit; its name (member, sequence).

        Without credit some member has not taken a whole window of messages: ``slow`` says what
        happens then. The payload is bytes, or any other buffer, of which the bytes are sent.
        """
        data = _to_bytes(payload)
        self._check_size(len(data))
        if self._node.waiting_bytes >= FRAME_BYTES:
            await asyncio.sleep(0)  # no loop of broadcasts keeps others from their turn
        if not self._may_send():
            await self._wait_for_credit()
        return self._broadcast(data)

    def broadcast_nowait(self, payload: Buffer) -> tuple[int, int]:
        """Broadcast a message, or raise WouldBlock if there is no credit."""
        data = _to_bytes(payload)
        self._check_size(len(data))
        if not self._may_send():
            raise WouldBlock(f"no credit: member {self.laggard} has not taken enough")
        return self._broadcast(data)

    async def broadcast_many(self, payloads: Sequence[Buffer]) -> tuple[int, int]:
        """Broadcast messages in this order, as with ``broadcast``; the name of the last.

        As many at once as there is credit for, in a fraction of the time that single ones take. If
        it ends early, cancelled or with an error, ``broadcast_count`` of that exception says how
        many went out (after ``asyncio.timeout`` it is the cause of the TimeoutError).
        """
        given = list(payloads)
        are_bytes = set(map(type, given)) == {bytes}
        data = cast(list[bytes], given) if are_bytes else list(map(_to_bytes, given))
        if not data:
            raise UserError("broadcast_many needs at least one payload")
        largest_bytes = max(map(len, data))
        self._check_size(largest_bytes)
        at_once = max(FRAME_BYTES // (largest_bytes + 1), 1)
        name, done = (self.member, 0), 0
        try:
            while done < len(data):
                if self._node.waiting_bytes >= FRAME_BYTES:
                    await asyncio.sleep(0)
                if not self._may_send():
                    await self._wait_for_credit()
                some = data[done : done + min(self._node.credit, at_once)]
                name = self.member, self._node.broadcast_many(some)
                done += len(some)
                self._schedule()
        except BaseException as error:
            # No exception of its own: asyncio has to see its CancelledError again.
            error.broadcast_count = done  # type: ignore[attr-defined]
            error.add_note(f"{done} of {len(data)} messages were broadcast")
            raise
        return name

    def _check_size(self, size_bytes: int) -> None:
        limit = self.config.payload_max_bytes
        if size_bytes > limit:
            raise UserError(f"a payload has at most {limit} bytes, not {size_bytes}")

    @property
    def credit(self) -> int:
        """How many messages may be broadcast now without waiting."""
        return self._node.credit

    def _may_send(self) -> bool:
        if not self._entered:
            self._check_entered()
        self._raise_error()
        if self.is_over or self._finished:
            raise GroupClosed("the group is closed, or finish() was called")
        if self._node.credit > 0:
            return True
        if self._node.is_spent:
            raise UserError(
                f"this member has broadcast {records.SEQUENCE_MAX} messages, all that have a "
                "number: finish this group, and go on in a new one with another name"
            )
        return False

    def _broadcast(self, payload: bytes) -> tuple[int, int]:
        sequence = self._node.broadcast(payload)
        if not self._flushing:
            self._schedule()
        return self.member, sequence

    async def _wait_for_credit(self) -> None:
        """Wait until a message may be sent; whatever else happens, only what is taken counts."""
        config, began_ns = self.config, time.monotonic_ns()
        try:
            while not self._may_send():
                since_ns = max(began_ns, self._last_progress_ns)
                waited_s = (time.monotonic_ns() - since_ns) / NANOSECONDS_PER_S
                if config.slow != "block" and waited_s >= config.slow_after_s:
                    self._on_slow(waited_s)
                left_s = None if config.slow == "block" else config.slow_after_s - waited_s
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._changed.wait()
        finally:
            self.metrics.blocked_s += (time.monotonic_ns() - began_ns) / NANOSECONDS_PER_S

    def _on_slow(self, waited_s: float) -> None:
        """Nobody has taken anything for a while: the member that lags behind is too slow."""
        who = self.laggard
        if self.config.slow == "raise":
            raise SlowMember(who, waited_s)
        self._tell(Event("slow", who, f"has taken no message for {waited_s:.1f} s"))
        self._node.evict(who)
        self._last_progress_ns = time.monotonic_ns()
        self._schedule()

    @property
    def laggard(self) -> int:
        """The member that has taken the fewest of this member's messages, as far as is known."""
        return int(self._node.member.known[self.member, a.LAGGARD])

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while self._queue or await self._has_messages():
            yield self._pop()

    async def batches(self) -> AsyncIterator[Batch]:
        """Messages as they are delivered, many at once: the fastest way."""
        while self._queue or await self._has_messages():
            yield self._take_batch()

    async def _has_messages(self) -> bool:
        """Wait for messages; False when there will be none any more."""
        self._check_entered()
        while not self._queue:
            self._raise_error()
            if self.is_over or self.is_finished:
                return False
            await self._news.wait()
        return True

    def on_message(self, callback: Callable[[Message], object]) -> None:
        """Have every message handed to a function as soon as it is delivered.

        Not to an ``async`` one: nothing bounds how many of its calls would be under way. If the
        function raises, that is counted, and logged ever more seldom.
        """
        called = getattr(callback, "__call__", None)  # noqa: B004 - an object may have an async one
        if called is None or any(map(_is_async, (callback, called))):
            raise TypeError(
                f"on_message takes a plain function, not {callback!r}: iterate over the group to "
                "await something for each message"
            )
        self._callbacks.append(callback)
        self._call_back()

    def events(self) -> AsyncIterator[Event]:
        """What happens to the group: members that leave or are suspected, gaps, errors."""
        return self._events.listen()

    async def stable(self, message: tuple[int, int]) -> None:
        """Wait until every member in the view has taken the message."""
        self._check_entered()
        source, sequence = self._read_name(message)
        while self._node.member.known[source, a.STABLE] < sequence:
            self._raise_error()
            if self.is_over or self.is_gone(source):
                raise GroupLost(f"whether all have {source}:{sequence} cannot be known any more")
            await self._changed.wait()

    def _read_name(self, message: tuple[int, int]) -> tuple[int, int]:
        """The name of a message that there may be, or UserError."""
        try:
            source, sequence = map(operator.index, message)
        except (TypeError, ValueError):
            source = sequence = -1
        known = 0 <= source < len(self.config.addresses) and 1 <= sequence <= records.SEQUENCE_MAX
        if not known:
            raise UserError(f"a message is named (member, sequence), from 0 and 1, not {message!r}")
        if source == self.member and sequence > self._node.broadcasts:
            raise UserError(f"message {source}:{sequence} has not been broadcast")
        return source, sequence

    async def finish(self) -> None:
        """Say that nothing more will be broadcast here; iterations end when all have said so."""
        self._check_entered()
        self._finished = True
        self._node.close()
        self._flush(force=True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_over:
            return
        try:
            if kind is None and self._error is None:
                await self._drain()
        finally:
            await self._close()
        if kind is None:
            self._raise_error()

    async def _drain(self) -> None:
        """Wait until all have the own messages, then a little for the others."""
        self.on_message(lambda message: None)
        await self.finish()
        for limit_s, is_done in (
            (self.config.drain_s, lambda: self._node.member.known[self.member, a.FINISHED]),
            (self.config.linger_s, lambda: self.is_finished),
        ):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    while not is_done() and self._error is None:
                        await self._changed.wait()
        if self.is_finished:
            await self._await_arrival()

    async def _close(self) -> None:
        """Leave at once, then let the last frames arrive: may be cancelled at any point."""
        try:
            self._leave()
            await self._await_arrival()
        finally:
            self._links.close()
        await self._links.wait_closed()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _leave(self) -> None:
        """End all but the connections: nothing is awaited, so that nothing stays half open.

        Unless all have finished, the others go on without this member at once, not after their
        patience, and with all that it has broadcast.
        """
        is_complete = False
        try:
            if self._error is None and not self.is_finished:
                self._flush(force=True)
            is_complete = self._error is None and self.is_finished
            if self._error is None and not is_complete:
                self._links.send_all(bytes([records.LEAVE]))
        finally:
            self.is_over = True
            self.metrics.ready = False
            for handle in (self._timer, self._telling, *self._tasks):
                if handle is not None:
                    handle.cancel()
            self._end_metrics()
            self._links.stop_listening()
            if self._trace is not None:
                self._trace.close(tracelog.ENDED if is_complete else tracelog.LEFT)
            self._wake()
            self._events.close()

    async def _await_arrival(self) -> None:
        """Wait until everything that was sent has arrived, in all no longer than ``FLUSH_S``."""
        if self._arrival_s is None:
            self._arrival_s = self._loop.time() + FLUSH_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._arrival_s):
                while self._error is None and not self._links.is_flushed:
                    self._links.tend(self.config.evict_after_s)
                    await asyncio.sleep(0.005)
        self._links.tend(self.config.evict_after_s)
