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
import logging
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Final, NamedTuple, Self

from precedes.live import arrays as a
from precedes.live import layout, tracelog, wire
from precedes.live.config import Config
from precedes.live.errors import Evicted, GroupClosed, GroupLost, SlowMember, WouldBlock
from precedes.live.events import Event, Events
from precedes.live.metrics import Metrics, serve
from precedes.live.node import Message, Node, Output
from precedes.live.tcp import Links
from precedes.model import NANOSECONDS_PER_S, PrecedesError, UserError

log = logging.getLogger("precedes.live")

# What was taken is told at the latest after this time: a fraction of a round trip through
# Python, and far less than anybody waits for credit.
TELL_AFTER_S: Final = 0.005
TEND_EVERY_S: Final = 0.1


class Missing(NamedTuple):
    """A message that waits: what it needs first, the last missing one of each source."""

    message: tuple[int, int]
    age_s: float
    needs: list[tuple[int, int]]


class Group:
    """One member of a group; make it with ``Group.open``."""

    def __init__(self, config: Config, *, listener: socket.socket | None = None) -> None:
        self.config = config
        self.listener = listener
        self.member = config.member
        self.frame_max_bytes = 8 * (config.payload_max_bytes + (1 << 20))
        self.metrics = Metrics(config)
        self.is_over = False
        self._error: PrecedesError | None = None
        self._node = Node(config.settings(), recording=config.trace is not None)
        self._queue: deque[Message] = deque()
        self._callbacks: list[Callable[[Message], None]] = []
        self._events = Events()
        self._news = asyncio.Event()  # something was delivered, or the group is over
        self._changed = asyncio.Event()  # credit, stability or the view
        self._flushing = False
        self._telling: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._taken = 0
        self._finished = self._leaving = False
        self._last_stable = 0
        self._last_progress_s = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._trace: tracelog.TraceLog | None = None
        self._start_ns = time.monotonic_ns()
        self._links: Links

    @classmethod
    def open(cls, config: Config, *, listener: socket.socket | None = None) -> Self:
        """A member to be entered with ``async with``.

        ``listener`` is a socket that listens already, instead of the member's own address.
        """
        return cls(config, listener=listener)

    # Opening --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        config = self.config
        if not config.interpreted:
            # Loading or compiling takes a while and would look like a dead member later.
            self._node.prepare()
        if config.trace is not None:
            about = {"group": config.name, "protocol": config.protocol, "window": config.window}
            self._trace = tracelog.TraceLog(
                config.trace, member=self.member, members=len(config.addresses), about=about
            )
        self._loop = asyncio.get_running_loop()
        self._links = Links(self)
        try:
            try:
                await self._links.listen()
            except OSError as error:
                address = config.addresses[self.member]
                raise UserError(f"cannot listen at {address}: {error.strerror or error}") from None
            if config.metrics is not None:
                self._server = await serve(self, config.metrics)
            await self._wait_for_neighbours()
        except BaseException:
            await self._end(tracelog.LEFT)
            raise
        self._node.start()
        self._tasks.append(self._loop.create_task(self._tend()))
        self._schedule()
        self.metrics.ready = True
        log.info("member %d of %s is ready", self.member, config.name)
        return self

    async def _wait_for_neighbours(self) -> None:
        gone = self._node.member.known[:, a.GONE]
        wanted = layout.neighbours(self._node.settings, self._route, gone)
        for peer in wanted:
            self._links.want(peer)
        try:
            async with asyncio.timeout(self.config.start_s):
                while missing := [p for p in wanted if p not in self._links.connections]:
                    self._links.attached.clear()
                    await self._links.attached.wait()
                    self._raise_error()
        except TimeoutError:
            names = ", ".join(map(str, missing))
            raise GroupLost(
                f"member {names} did not come within {self.config.start_s:g} s"
            ) from None

    @property
    def _route(self) -> int:
        return int(self._node.member.setting[a.ROUTE])

    # Sending --------------------------------------------------------------------------------

    async def broadcast(self, payload: bytes) -> tuple[int, int]:
        """Broadcast a message, after waiting for credit; its name (member, sequence).

        Without credit some member has not taken a whole window of messages: ``slow`` says what
        happens then.
        """
        while not self._may_send(payload):
            await self._wait_for_credit()
        return self._broadcast(payload)

    def broadcast_nowait(self, payload: bytes) -> tuple[int, int]:
        """Broadcast a message, or raise WouldBlock if there is no credit."""
        if not self._may_send(payload):
            raise WouldBlock(f"no credit: member {self.laggard} has not taken enough")
        return self._broadcast(payload)

    def _may_send(self, payload: bytes) -> bool:
        self._raise_error()
        if self.is_over or self._finished:
            raise GroupClosed("the group is closed, or finish() was called")
        if len(payload) > self.config.payload_max_bytes:
            limit = self.config.payload_max_bytes
            raise UserError(f"a payload has at most {limit} bytes, not {len(payload)}")
        return self._node.credit > 0

    def _broadcast(self, payload: bytes) -> tuple[int, int]:
        sequence = self._node.broadcast(bytes(payload))
        self._schedule()
        return self.member, sequence

    async def _wait_for_credit(self) -> None:
        config, started_s = self.config, time.monotonic()
        limit_s = None if config.slow == "block" else config.slow_after_s
        self._changed.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._changed.wait()
        except TimeoutError:
            self._on_slow(time.monotonic() - self._last_progress_s)
        self.metrics.blocked_s += time.monotonic() - started_s

    def _on_slow(self, waited_s: float) -> None:
        """Nobody has taken anything for a while: the member that lags behind is too slow."""
        if waited_s < self.config.slow_after_s:
            return
        who = self.laggard
        if self.config.slow == "raise":
            raise SlowMember(who, waited_s)
        self._tell(Event("slow", who, f"has taken no message for {waited_s:.1f} s"))
        self._node.evict(who)
        self._last_progress_s = time.monotonic()
        self._schedule()

    @property
    def laggard(self) -> int:
        """The member that has taken the fewest of this member's messages, as far as is known."""
        return int(self._node.member.known[self.member, a.LAGGARD])

    # Receiving ------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while await self._has_messages():
            while self._queue:
                message = self._queue.popleft()
                self._take(message.sender)
                yield message

    async def batches(self) -> AsyncIterator[list[Message]]:
        """All messages that are there, as a list, again and again: the fastest way."""
        while await self._has_messages():
            batch = list(self._queue)
            self._queue.clear()
            for message in batch:
                self._node.take(message.sender, 1)
            self._told_later(len(batch))
            yield batch

    async def _has_messages(self) -> bool:
        """Wait for messages; False when there will be none any more."""
        while not self._queue:
            self._raise_error()
            if self.is_over or self.is_finished:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def _take(self, sender: int) -> None:
        self._node.take(sender, 1)
        self._told_later(1)

    def _told_later(self, count: int) -> None:
        """Tell others what was taken: soon, or now if it is much."""
        self._taken += count
        if self._taken >= self._node.member.setting[a.EAGER]:
            self._schedule()
        elif self._telling is None and not self.is_over:
            self._telling = self._loop.call_later(TELL_AFTER_S, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        self._flush(force=True)

    def on_message(self, callback: Callable[[Message], None]) -> None:
        """Have every message handed to a function as soon as it is delivered."""
        self._callbacks.append(callback)
        self._call_back()

    def _call_back(self) -> None:
        while self._queue and self._callbacks:
            message = self._queue.popleft()
            for callback in self._callbacks:
                try:
                    callback(message)
                except Exception:
                    log.exception("a callback failed on %d:%d", message.sender, message.sequence)
            self._take(message.sender)

    # Asking ---------------------------------------------------------------------------------

    @property
    def view(self) -> list[int]:
        """The members that take part, this one included."""
        gone = self._node.member.known[:, a.GONE].tolist()
        return [who for who, is_gone in enumerate(gone) if not is_gone]

    def events(self) -> AsyncIterator[Event]:
        """What happens to the group: members that leave or are suspected, gaps, errors."""
        return self._events.listen()

    def missing(self) -> list[Missing]:
        """The messages that wait here, oldest first, with what each of them lacks."""
        now_ns = self._now_ns()
        found = [
            Missing((source, sequence), (now_ns - since_ns) / NANOSECONDS_PER_S, needs)
            for source, sequence, since_ns, needs in self._node.waiting()
        ]
        return sorted(found, key=lambda missing: -missing.age_s)

    async def stable(self, message: tuple[int, int]) -> None:
        """Wait until every member in the view has taken the message."""
        source, sequence = message
        while self._node.member.known[source, a.STABLE] < sequence:
            self._raise_error()
            if self.is_over or self.is_gone(source):
                raise GroupLost(f"whether all have {source}:{sequence} cannot be known any more")
            self._changed.clear()
            await self._changed.wait()

    def is_gone(self, member: int) -> bool:
        """Whether a member is out of the view."""
        return self._node.is_gone(member)

    @property
    def is_finished(self) -> bool:
        """Whether all in the view have finished and everything is delivered."""
        known = self._node.member.known
        return bool(((known[:, a.FINISHED] != 0) | (known[:, a.GONE] != 0)).all())

    def counts(self) -> dict[str, int]:
        """What this member has counted."""
        return self._node.counts()

    # Ending ---------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Say that nothing more will be broadcast here; iterations end when all have said so."""
        self._finished = True
        self._node.close()
        self._flush(force=True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._error is None:
            await self._drain()
        complete = self.is_finished and self._error is None
        if self._error is None and not complete:
            self._leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self._error is None and not self._links.is_flushed:
                    self._links.tend(self.config.evict_after_s)
                    await asyncio.sleep(0.005)
        self._links.tend(self.config.evict_after_s)
        await self._end(tracelog.ENDED if complete else tracelog.LEFT)
        if kind is None and self._error is not None:
            raise self._error

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
                        self._changed.clear()
                        await self._changed.wait()

    def _leave(self) -> None:
        """Have the others go on without this member at once, not after their patience."""
        self._leaving = True
        for peer in list(self._links.connections):
            self._links.send(peer, bytes([wire.LEAVE]))

    async def _end(self, status: int) -> None:
        self.is_over = True
        self.metrics.ready = False
        for handle in (self._timer, self._telling):
            if handle is not None:
                handle.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if (server := getattr(self, "_server", None)) is not None:
            server.close()
        await self._links.close()
        if self._trace is not None:
            self._trace.close(status)
        self._wake()
        self._events.close()

    # Inside ---------------------------------------------------------------------------------

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _schedule(self) -> None:
        """Have all input handled in the next turn of the loop."""
        if not self._flushing and not self.is_over:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def on_body(self, peer: int, body: bytes) -> None:
        """A frame has come from a peer."""
        self._node.receive(peer, body)
        self._schedule()

    def _flush(self, force: bool = False) -> None:
        """Handle all input, send what comes of it, hand out what is delivered."""
        self._flushing = False
        if self.is_over:
            return
        self._taken = 0
        try:
            output = self._node.run(self._now_ns(), force=force)
        except PrecedesError as error:
            self._stop(error)
            return
        self._record(output)
        self._send(output)
        self._attend(output)
        if output.deliveries:
            self.metrics.delivered += len(output.deliveries)
            self._queue.extend(output.deliveries)
            self._call_back()
            self._news.set()
        self._after_run()

    def _record(self, output: Output) -> None:
        """Log before anything is sent: nobody delivers what is in no log."""
        if self._trace is not None and output.trace and not self._trace.write(b"".join(output.trace)):
            self.metrics.trace_failed = True
            failure = f"tracing has stopped: {self._trace.failure} ({self._trace.path})"
            log.error("%s; the group goes on", failure)
            self._tell(Event("trace", self.member, failure))

    def _send(self, output: Output) -> None:
        if output.common:
            common = b"".join(output.common)
            for peer in self.view:
                if peer != self.member:
                    self._links.send(peer, b"".join([common, *output.own.pop(peer, ())]))
        for peer, parts in output.own.items():
            if not self._node.is_gone(peer):
                self._links.send(peer, b"".join(parts))

    def _after_run(self) -> None:
        """Wake who waits, and see to the timers."""
        stable = int(self._node.cell[a.OWN_STABLE])
        if stable > self._last_stable:
            self._last_stable, self._last_progress_s = stable, time.monotonic()
        elif self._node.cell[a.OWN_SEQUENCE] == stable:
            self._last_progress_s = time.monotonic()
        self._changed.set()
        if self.is_finished:
            self._news.set()
        if self._node.untold and self._telling is None:
            self._telling = self._loop.call_later(TELL_AFTER_S, self._tell_now)
        due_ns = self._node.next_timer_ns
        if due_ns is not None and due_ns != self._timer_ns:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = due_ns
            wait_s = max(due_ns - self._now_ns(), 0) / NANOSECONDS_PER_S
            self._timer = self._loop.call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer_ns = 0
        self._schedule()

    def _attend(self, output: Output) -> None:
        """What the step has to report: evictions, and mistakes of peers."""
        for peer, reason in output.malformed:
            self.on_peer_error(peer, wire.REASONS[reason], "its link")
            self._links.ban(peer)
            if (connection := self._links.connections.get(peer)) is not None:
                connection.abort()
        for who in output.evicted:
            self._on_evicted(who, left=who in output.left)
        if self._node.is_fenced:
            self._stop(Evicted("the others have taken this member for dead and go on without it"))

    def _on_evicted(self, who: int, *, left: bool) -> None:
        if who == self.member:
            self._stop(Evicted("the others have taken this member out of the view"))
            return
        self.metrics.evictions += not left
        self._tell(Event("left" if left else "evicted", who, "is out of the view"))
        self._links.cut(who)
        view = self.view
        half = 2 * len(view) - len(self.config.addresses)
        if self.config.quorum and not self._finished and (half < 0 or (half == 0 and 0 not in view)):
            self._stop(GroupLost(f"only {len(view)} of {len(self.config.addresses)} members left"))
            return
        gone = self._node.member.known[:, a.GONE]
        for peer in layout.neighbours(self._node.settings, self._route, gone):
            self._links.want(peer, anyhow=True)

    def _stop(self, error: PrecedesError) -> None:
        if self._error is None:
            log.error("member %d stops: %s", self.member, error)
            self._error = error
            self._tell(Event("lost", self.member, str(error)))
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._changed.set()

    def _tell(self, event: Event) -> None:
        log.info("member %d: %s %d %s", self.member, event.kind, event.member, event.text)
        self._events.put(event)

    async def _tend(self) -> None:
        """Regular duties: acknowledgements, silent connections, messages that wait too long."""
        reported: set[tuple[int, int]] = set()
        while True:
            await asyncio.sleep(TEND_EVERY_S)
            self._links.tend(self.config.evict_after_s)
            if self.counts()["pending"]:
                waiting = self.missing()
                self.metrics.oldest_s = waiting[0].age_s if waiting else 0.0
                old = [gap for gap in waiting if gap.age_s > self.config.gap_after_s]
                for gap in old[:8]:
                    if gap.message not in reported:
                        names = " ".join(f"{source}:{seq}" for source, seq in gap.needs)
                        text = f"waits {gap.age_s:.1f} s for {names or 'what is not known'}"
                        self._tell(Event("gap", gap.message[0], f"{gap.message} {text}"))
                reported = {gap.message for gap in old}
            else:
                self.metrics.oldest_s = 0.0

    # What the links say ---------------------------------------------------------------------

    def on_peer_error(self, peer: int | None, reason: str, where: str) -> None:
        """Somebody sent what no correct member sends."""
        self.metrics.count_refusal(reason)
        if self.metrics.may_log(peer, where):
            who = "somebody" if peer is None else f"member {peer}"
            log.warning("refused %s at %s: %s", who, where, reason)
        self._events.put(Event("refused", -1 if peer is None else peer, reason))

    def on_refused(self, peer: int | None, reason: str, *, evicted: bool) -> None:
        """A peer does not want to speak to this member."""
        if self._leaving or self.is_finished:
            return
        if self.metrics.may_log(peer, "refused us"):
            log.warning("member %s refuses this member: %s", peer, reason)
        if evicted:
            self._stop(Evicted(f"member {peer} says: {reason}"))

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link goes on when there is another."""
        self.metrics.disconnections += 1
        log.debug("lost the connection to member %d: %s", peer, error or "closed")

    def lags(self) -> dict[int, int]:
        """For each link, bytes that have not arrived at its other side."""
        return {peer: link.unacknowledged_bytes for peer, link in self._links.links.items()}

    @property
    def links_used(self) -> int:
        """Members that there has been a link to."""
        return len(self._links.links)

    def missing_links(self) -> Iterable[int]:
        """Neighbours without a connection at the moment."""
        gone = self._node.member.known[:, a.GONE]
        wanted = layout.neighbours(self._node.settings, self._route, gone)
        return [peer for peer in wanted if peer not in self._links.connections]
