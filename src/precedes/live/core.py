"""The inside of a group: what happens in each turn of the loop, and what its links report.

``group`` holds what applications call; here is what runs between: input is collected, handled in
one call of the node, logged, sent, and handed out.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from precedes.errors import PrecedesError, UserError
from precedes.live import tracelog
from precedes.live.bell import Bell
from precedes.live.config import Config
from precedes.live.errors import Evicted, GroupLost
from precedes.live.events import Event, Events
from precedes.live.member import arrays as a
from precedes.live.member import records
from precedes.live.member.node import Node
from precedes.live.member.output import Batch, Message, Output
from precedes.live.metrics import Metrics
from precedes.live.net import wire
from precedes.live.net.links import Links
from precedes.live.net.security import Credentials
from precedes.model import NANOSECONDS_PER_S

log = logging.getLogger("precedes.live")

# What was taken is told at the latest after this time, if there is nothing to send it with: far
# less than anybody waits for credit, and long enough that other frames carry most of it.
TELL_AFTER_S: Final = 0.05
TEND_EVERY_S: Final = 0.1
GAPS_MAX: Final = 8  # the oldest are told of; the others most likely wait for the same


class Missing(NamedTuple):
    """A message that waits: what it needs first, the last missing one of each source."""

    message: tuple[int, int]
    age_s: float
    needs: list[tuple[int, int]]


class Core:
    """What a ``Group`` consists of, without what applications call."""

    metrics: Metrics
    _loop: asyncio.AbstractEventLoop
    _links: Links

    def __init__(self, config: Config, *, listener: socket.socket | None = None) -> None:
        self.config = config
        self.listener = listener
        self.member = config.member
        self.frame_max_bytes = 8 * (config.payload_max_bytes + (1 << 20))
        self.metrics = Metrics()
        self.is_over = False
        self._opened = self._entered = False
        self._error: PrecedesError | None = None
        self._node = Node(config.settings(), recording=config.trace is not None)
        self._queue: deque[Batch] = deque()
        self._callbacks: list[Callable[[Message], object]] = []
        self._events = Events()
        self._news = Bell()  # something was delivered, or the group is over
        self._changed = Bell()  # credit, stability or the view
        self._flushing = False
        self._telling: asyncio.TimerHandle | None = None
        self._untold_ns = 0  # since when others do not know all that was taken here, or 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._others = [who for who in range(len(config.addresses)) if who != config.member]
        # When the regular duties are due at the latest, and how late they may come.
        self._beat_ns = time.monotonic_ns()
        self._patience_ns = round(config.evict_after_s / 4 * NANOSECONDS_PER_S)
        self._taken = 0
        self._eager = int(self._node.member.setting[a.EAGER])
        self._beside_payload_bytes = records.message_bytes_max(self._node.member)
        self._finished = False
        self._last_stable = 0
        self._last_progress_ns = time.monotonic_ns()
        self._tasks: list[asyncio.Task[None]] = []
        self._arrival_s: float | None = None  # how long the end waits for the last frames
        self._trace: tracelog.TraceLog | None = None
        self._start_ns = time.monotonic_ns()

    def _pop(self) -> Message:
        message = self._queue[0].pop()
        if not self._queue[0]:
            self._queue.popleft()
        self._node.take(message.sender, 1)
        self._told_later(1)
        return message

    def _told_later(self, count: int) -> None:
        """Tell others what was taken: soon, or now if it is much."""
        self._taken += count
        if self._taken >= self._eager:
            self._schedule()
        elif self._untold_ns == 0:
            self._tell_soon(time.monotonic_ns())

    def _tell_soon(self, now_ns: int) -> None:
        """There is something that others do not know from now on."""
        self._untold_ns = now_ns
        if self._telling is None and not self.is_over:
            self._telling = self._loop.call_later(TELL_AFTER_S, self._tell_now)

    def _tell_now(self) -> None:
        """Tell what no other frame has told in the meantime."""
        self._telling = None
        if self._untold_ns:
            wait_s = TELL_AFTER_S - (time.monotonic_ns() - self._untold_ns) / NANOSECONDS_PER_S
            if wait_s > TELL_AFTER_S / 8:
                self._telling = self._loop.call_later(wait_s, self._tell_now)
            else:
                self._flush(force=True)

    def _call_back(self) -> None:
        while self._queue and self._callbacks:
            for message in self._take_batch():
                for callback in self._callbacks:
                    try:
                        result = callback(message)
                        if result is not None and inspect.iscoroutine(result):
                            result.close()
                            raise TypeError("it returned a coroutine, which nobody awaits")
                    except Exception:
                        self._on_callback_failed(message)

    def _on_callback_failed(self, message: Message) -> None:
        """Log the exception at hand, not that of every message."""
        self.metrics.callback_failures += 1
        if self.metrics.may_log(self.member, "callback"):
            name = f"{message.sender}:{message.sequence}"
            failures = self.metrics.callback_failures
            log.exception("a callback failed on %s, failure %d so far", name, failures)

    def _take_batch(self) -> Batch:
        batch = self._queue.popleft()
        self._node.take_batch(batch)
        self._told_later(len(batch))
        return batch

    @property
    def view(self) -> list[int]:
        """The members that take part, this one included."""
        gone = self._node.member.known[:, a.GONE].tolist()
        return [who for who, is_gone in enumerate(gone) if not is_gone]

    def missing(self) -> list[Missing]:
        """The messages that wait here, oldest first, with what each of them lacks."""
        now_ns = self._now_ns()
        found = [
            Missing((source, sequence), (now_ns - since_ns) / NANOSECONDS_PER_S, needs)
            for source, sequence, since_ns, needs in self._node.waiting()
        ]
        return sorted(found, key=lambda missing: -missing.age_s)

    def is_gone(self, member: int) -> bool:
        """Whether a member is out of the view."""
        return self._node.is_gone(member)

    @property
    def is_finished(self) -> bool:
        """Whether all in the view have finished and everything is delivered."""
        known = self._node.member.known
        if not self._finished or not known[self.member, a.FINISHED]:
            return False
        return bool((known[:, a.FINISHED] | known[:, a.GONE]).all())

    def counts(self) -> dict[str, int]:
        """What this member has counted."""
        return self._node.counts()

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _schedule(self) -> None:
        """Have all input handled in the next turn of the loop."""
        if not self._flushing and not self.is_over:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def on_bodies(self, peer: int, bodies: Iterable[bytes | memoryview]) -> None:
        """Frames have come from a peer; their bodies are copied."""
        if self.is_over:
            return
        for body in bodies:
            self._node.receive(peer, body)
        if not self._flushing:
            self._schedule()

    def _flush(self, force: bool = False) -> None:
        """Handle all input, send what comes of it, hand out what is delivered."""
        self._flushing = False
        if self.is_over:
            return
        self._taken = 0
        now_ns = time.monotonic_ns()
        if now_ns - self._beat_ns > self._patience_ns:
            self._forgive_own_pause(now_ns)
        # Not what it is afterwards: without the others everything is delivered to all.
        was_finished = self._finished and self.is_finished
        try:
            output = self._node.run(now_ns - self._start_ns, force=force)
        except PrecedesError as error:
            log.debug("the step of member %d failed", self.member, exc_info=True)
            self._stop(error)
            return
        if self._node.registers[a.UNTOLD] == 0:
            self._untold_ns = 0
        elif self._untold_ns == 0:
            self._tell_soon(now_ns)
        # Before an own message is sent: nobody delivers what is in no log.
        if (trace := self._trace) and not trace.append(output.trace, at_once=output.broadcasts):
            self._on_trace_failed(trace)
        if output.evicted:
            self._others = [who for who in self.view if who != self.member]
        if output.frames:
            self._send(output)
        if output.evicted or output.malformed or self._node.is_fenced:
            self._attend(output, was_finished=was_finished)
        if output.deliveries:
            self._hand_out(output.deliveries)
        self._after_run(now_ns)

    def _hand_out(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.metrics.delivered += len(batch)
            self._queue.append(batch)
        if self._callbacks:
            self._call_back()
        if self._queue:
            self._news.ring()

    def _forgive_own_pause(self, now_ns: int) -> None:
        """If this process was stopped for a while, the silence of others proves nothing."""
        late_ns = now_ns - self._beat_ns
        if late_ns > self._patience_ns:
            self._node.forgive(late_ns)
            self._beat_ns = now_ns

    def _on_trace_failed(self, trace: tracelog.TraceLog) -> None:
        self.metrics.trace_failed = True
        failure = f"tracing has stopped: {trace.failure} ({trace.path})"
        log.error("%s; the group goes on", failure)
        self._tell(Event("trace", self.member, failure))

    def _send(self, output: Output) -> None:
        send = self._links.send
        for common, own, messages_bytes in output.frames:
            if common:
                checksum, size_bytes = wire.crc32(common), len(common)
                for peer in self._others:
                    more = own.pop(peer, b"")
                    of_messages = size_bytes + messages_bytes.get(peer, 0)
                    send(
                        peer, common + more, wire.crc32(more, checksum), messages_bytes=of_messages
                    )
            for peer, body in own.items():
                if not self._node.is_gone(peer):
                    send(peer, body, messages_bytes=messages_bytes.get(peer, 0))

    def _after_run(self, now_ns: int) -> None:
        """Wake who waits, and see to the timers."""
        registers = self._node.registers
        stable = registers[a.OWN_STABLE]
        if stable > self._last_stable or stable == registers[a.OWN_SEQUENCE]:
            self._last_stable, self._last_progress_ns = stable, now_ns
        self._changed.ring()
        if self._finished and self.is_finished:
            self._news.ring()
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

    def _attend(self, output: Output, *, was_finished: bool) -> None:
        """What the step has to report: evictions, and mistakes of peers."""
        for peer, reason in output.malformed:
            self.on_peer_error(peer, records.REASONS[reason], "its link")
            self._links.ban(peer)
        for who in output.evicted:
            self._on_evicted(who, left=who in output.left, was_finished=was_finished)
        if self._node.is_fenced:
            self._stop(Evicted("the others have taken this member for dead and go on without it"))

    def _on_evicted(self, who: int, *, left: bool, was_finished: bool) -> None:
        if who == self.member:
            self._stop(Evicted("the others have taken this member out of the view"))
            return
        self.metrics.evictions += not left
        self._tell(Event("left" if left else "evicted", who, "is out of the view"))
        self._links.cut(who)
        view = self.view
        half = 2 * len(view) - len(self.config.addresses)
        is_minority = half < 0 or (half == 0 and 0 not in view)
        if self.config.quorum and not was_finished and is_minority:
            self._stop(GroupLost(f"only {len(view)} of {len(self.config.addresses)} members left"))
            return
        for peer in self._node.neighbours():
            self._links.want(peer, anyhow=True)
        self._links.attached.set()  # who waits for its neighbours has others now

    def _stop(self, error: PrecedesError) -> None:
        if self._error is None:
            log.error("member %d stops: %s", self.member, error)
            self._error = error
            self._tell(Event("lost", self.member, str(error)))
            self._wake()

    def _wake(self) -> None:
        self._news.ring()
        self._changed.ring()

    def _tell(self, event: Event) -> None:
        log.info("member %d: %s %d %s", self.member, event.kind, event.member, event.text)
        self._events.put(event)

    async def _tend(self, first_s: float) -> None:
        """Regular duties: acknowledgements, silent connections, messages that wait too long."""
        reported: set[tuple[int, int]] = set()
        looked_s = 0.0
        await asyncio.sleep(first_s)
        while True:
            await asyncio.sleep(TEND_EVERY_S)
            now_ns = time.monotonic_ns()
            self._forgive_own_pause(now_ns)
            self._beat_ns = now_ns + round(TEND_EVERY_S * NANOSECONDS_PER_S)
            self._links.tend(self.config.evict_after_s)
            self._links.credentials.tend()
            if self._trace is not None and not self._trace.write():
                self._on_trace_failed(self._trace)
            if time.monotonic() - looked_s > self.config.gap_after_s / 2:
                looked_s = time.monotonic()
                since_ns = self._node.oldest_waiting_ns()
                age_ns = 0 if since_ns is None else self._now_ns() - since_ns
                self.metrics.oldest_s = age_ns / NANOSECONDS_PER_S
                reported = self._report_gaps(reported)

    def _report_gaps(self, reported: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Tell of messages that have waited too long, once each; which those are."""
        if self.metrics.oldest_s <= self.config.gap_after_s:
            return set()
        old = [gap for gap in self.missing() if gap.age_s > self.config.gap_after_s][:GAPS_MAX]
        for gap in old:
            if gap.message not in reported:
                names = " ".join(f"{source}:{sequence}" for source, sequence in gap.needs)
                name = f"{gap.message[0]}:{gap.message[1]}"
                text = f"{name} waits {gap.age_s:.1f} s for {names or 'what is not known'}"
                self._tell(Event("gap", gap.message[0], text))
        return {gap.message for gap in old}

    def on_peer_error(self, peer: int | None, reason: str, where: str) -> None:
        """Somebody sent what no correct member sends."""
        self.metrics.count_refusal(reason)
        if self.metrics.may_log(peer, where):
            who = "somebody" if peer is None else f"member {peer}"
            log.warning("refused %s at %s: %s", who, where, reason)
        self._events.put(Event("refused", -1 if peer is None else peer, reason))

    def on_damaged(self, peer: int | None, where: str) -> None:
        """Bytes have changed on the way; what is missing comes again over another connection."""
        self.metrics.damaged += 1
        if self.metrics.may_log(peer, "damaged"):
            who = "somebody" if peer is None else f"member {peer}"
            log.warning("what came from %s at %s has changed on the way", who, where)

    def on_refused(self, peer: int | None, reason: str, *, evicted: bool) -> None:
        """A peer does not want to speak to this member."""
        if self.is_over or self.is_finished:
            return
        if self.metrics.may_log(peer, "refused us"):
            log.warning("member %s refuses this member: %s", peer, reason)
        if evicted:
            self._stop(Evicted(f"member {peer} says: {reason}"))

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link goes on when there is another."""
        self.metrics.disconnections += 1
        log.debug("lost the connection to member %d: %s", peer, error or "closed")

    @property
    def largest_message_bytes(self) -> int:
        """The most that a message has taken on the wire so far."""
        return self._node.registers[a.LARGEST_BYTES] + self._beside_payload_bytes

    def lags(self) -> dict[int, int]:
        """For each link, bytes that have not arrived at its other side."""
        links = list(self._links.links.items())
        return {peer: link.unacknowledged_bytes for peer, link in links}

    @property
    def credentials(self) -> Credentials:
        """The member's certificate, and how long it is good."""
        return self._links.credentials

    @property
    def links_used(self) -> int:
        """Members that there has been a link to."""
        return len(self._links.links)

    @property
    def error(self) -> PrecedesError | None:
        """Why this member cannot go on, or None."""
        return self._error

    def lost(self) -> list[int]:
        """The members that are out of the view, whether they were evicted or have left."""
        return [int(who) for who in np.flatnonzero(self._node.member.known[:, a.GONE])]

    def missing_links(self) -> list[int]:
        """Neighbours in the view without a connection at the moment."""
        wanted = self._node.neighbours()
        return [peer for peer in wanted if peer not in self._links.connections]

    def _check_entered(self) -> None:
        if not self._entered:
            raise UserError("enter the group first: async with Group.open(config) as group")

    def _raise_error(self) -> None:
        """Raise why this member has stopped; every time anew, or tracebacks would add up."""
        if (error := self._error) is not None:
            raise type(error)(*error.args)
