"""Drives a member: a turn of the loop collects input, runs the node, and handles its output.

Frames, broadcasts and consumed messages are collected; one call of the node handles all of it;
then rows are logged, frames sent and messages put into the inbox, in this order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, NamedTuple

from precedes import __version__
from precedes.compiled import sources_digest
from precedes.errors import InternalError, PeerError, PrecedesError, UserError
from precedes.live.config import Config
from precedes.live.errors import Evicted, GroupLost
from precedes.live.inbox import Event, Events, Inbox, Signal
from precedes.live.member import records
from precedes.live.member.node import FAREWELL, Node
from precedes.live.member.output import Output
from precedes.live.metrics import Metrics
from precedes.live.net import wire
from precedes.live.net.links import Links
from precedes.live.tier import Tier
from precedes.model import NANOSECONDS_PER_S
from precedes.trace import member_log

log = logging.getLogger("precedes.live")

# Longest delay of an acknowledgement that no frame can carry: far shorter than a wait for credit,
# and long enough that most of them are carried by a frame.
ACKNOWLEDGE_AFTER_S: Final = 0.05
TEND_EVERY_S: Final = 0.1
GAPS_MAX: Final = 8  # the oldest are reported; the others most likely wait for the same


class Missing(NamedTuple):
    """A message that waits, and what it needs: the last missing message of each source."""

    message: tuple[int, int]
    age_s: float
    needs: list[tuple[int, int]]


class _WaitQueue:
    """Queue of tasks that are woken in the order in which they joined, each of them once.

    ``join`` gives a place to await, which the task gives back with ``leave`` in any case.
    """

    __slots__ = ("_waiting", "woken")

    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self.woken = 0  # places woken and not given back yet

    def __len__(self) -> int:
        return len(self._waiting) + self.woken

    def join(self, *, first: bool = False) -> asyncio.Future[None]:
        """A place behind all others, or before them."""
        place = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        if first:
            self._waiting.move_to_end(place, last=False)
        return place

    def leave(self, place: asyncio.Future[None]) -> None:
        """Give a place back, woken or not."""
        if place in self._waiting:
            del self._waiting[place]
        else:
            self.woken -= 1

    def wake(self, count: int) -> None:
        """Wake places from the front, until ``count`` are woken and not given back."""
        while self._waiting and self.woken < count:
            place, _ = self._waiting.popitem(last=False)
            self.woken += 1
            if not place.done():  # or it was cancelled, and gives its place back in a moment
                place.set_result(None)


def _named(peer: int | None) -> str:
    return "somebody" if peer is None else f"member {peer}"


class Driver:
    """A node, its links (it is their ``Owner``), its log and its inbox.

    ``is_open``: it has links. ``is_entered``: applications may use it. ``is_finishing``: nothing
    more is broadcast here. ``is_over``: it has left the group. ``error``: why it cannot go on, or
    None.
    """

    links: Links
    loop: asyncio.AbstractEventLoop

    def __init__(self, config: Config) -> None:
        self.config = config
        self.member = config.member
        self.metrics = Metrics()
        self.events = Events()
        self.node = Node(config.settings(), recording=config.trace is not None)
        self.tier = Tier(self.node, config.tier)
        self.inbox = Inbox(self)
        self.changed = Signal()  # stability or the view
        self.senders = _WaitQueue()  # broadcasts that wait for credit
        self.thread: int | None = None  # the one whose loop runs all of it
        self.error: PrecedesError | None = None
        self.is_open = self.is_entered = self.is_finishing = self.is_over = False
        self.is_scheduled = False  # a turn is due
        self.last_progress_ns = time.monotonic_ns()  # when more own messages became stable
        self._last_stable = 0
        self._trace: member_log.LogWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._acknowledging: asyncio.TimerHandle | None = None
        self._unacknowledged_ns = 0  # since when others lack acknowledgements, or 0
        self._consumed, self._eager = 0, self.node.eager
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._others = [who for who in range(len(config.addresses)) if who != config.member]
        # When the regular duties are due at the latest, and how late they may come.
        self._beat_ns = time.monotonic_ns()
        self._patience_ns = round(config.evict_after_s / 4 * NANOSECONDS_PER_S)
        self._start_ns = time.monotonic_ns()
        self._unlinked_ns: dict[int, int] = {}  # peers without a connection, and since when

    # Begin and end --------------------------------------------------------------------------

    def open(self, listener: socket.socket | None) -> None:
        """Make links and log; in the loop that will run all of it."""
        config = self.config
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        self.links = Links(self, config.link_settings(), listener)
        self.is_open = True
        if config.trace is not None:
            about = {
                "group": config.name, "protocol": config.protocol, "window": config.window,
                "version": __version__, "code_version": sources_digest(),
                # Rows count from when the member was made, some time before its log is.
                "started_unix_ns": time.time_ns() - self._now_ns(),
            }  # fmt: skip
            self._trace = member_log.LogWriter(
                config.trace, member=self.member, members=len(config.addresses), about=about
            )

    def tend(self) -> None:
        """Do the regular duties from now on, and change to the compiled step when it is there."""
        self._beat_ns = time.monotonic_ns()
        for duty in (self._tend(), self.tier.climb()):
            self._tasks.append(self.loop.create_task(duty))

    async def wait_for_neighbours(self) -> None:
        """Wait until each neighbour has been met; GroupLost if one does not come in ``start_s``.

        The failure detector begins afterwards: until then a member that was met, and has had no
        connection for ``evict_after_s``, is evicted here.
        """
        links, missing = self.links, list[int]()
        lost_s: dict[int, float] = {}  # since when a member that was met has no connection
        try:
            async with asyncio.timeout(self.config.start_s):
                while True:
                    neighbours = self.node.neighbours()
                    missing = [peer for peer in neighbours if not links.link(peer).life]
                    if not missing:
                        return
                    for peer in missing:
                        links.want(peer)
                    now_s = time.monotonic()
                    if self.is_late(time.monotonic_ns()):
                        lost_s.clear()  # it is this member that was paused
                    for peer, link in links.links.items():
                        if peer in links.connections or not link.life or self.is_gone(peer):
                            lost_s.pop(peer, None)
                        elif now_s - lost_s.setdefault(peer, now_s) > self.config.evict_after_s:
                            self.evict(peer)
                    links.attached.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(TEND_EVERY_S):
                            await links.attached.wait()
                    self.raise_error()
        except TimeoutError:
            names = ", ".join(map(str, missing))
            text = f"member {names} did not come within {self.config.start_s:g} s"
            raise GroupLost(text) from None

    def enter(self) -> None:
        """All neighbours are there: begin to test them, and let applications in."""
        first_ns = round(self._share * self.config.test_every_s * NANOSECONDS_PER_S)
        self.node.start(tests_at_ns=self._now_ns() + first_ns)
        self.schedule()
        self.is_entered = self.metrics.ready = True
        log.info("member %d of %s is ready", self.member, self.config.name)

    @property
    def _share(self) -> float:
        """Offset within an interval: regular duties of all members at once would collide."""
        return self.member / len(self.config.addresses)

    def finish(self) -> None:
        """Nothing more will be broadcast here; tell the others."""
        self.is_finishing = True
        self.node.close()
        self.flush(force=True)

    def leave(self) -> None:
        """End all but the connections: nothing is awaited, so that nothing stays half open.

        Unless all have finished, the others go on without this member at once, without waiting for
        ``evict_after_s``, and with all that it has broadcast.
        """
        is_complete = False
        try:
            if self.error is None and not self.is_finished:
                self.flush(force=True)
            is_complete = self.error is None and self.is_finished
            if self.error is None and not is_complete:
                for peer, link in list(self.links.links.items()):
                    if link.life:
                        self.links.send(peer, FAREWELL)
        finally:
            self.is_over = True
            self.metrics.ready = False
            for handle in (self._timer, self._acknowledging, *self._tasks):
                if handle is not None:
                    handle.cancel()
            self.links.stop_listening()
            if self._trace is not None:
                self._trace.close(member_log.ENDED if is_complete else member_log.LEFT)
            self._wake()
            self.events.close()

    async def wait_closed(self) -> None:
        """Wait until nothing is left of links and tasks."""
        await self.links.wait_closed()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # State ----------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether all in the view have finished and everything is delivered."""
        return self.is_finishing and self.node.is_finished

    def is_gone(self, member: int) -> bool:
        """Whether a member is out of the view."""
        return self.node.is_gone(member)

    @property
    def largest_message_bytes(self) -> int:
        """The largest size of a message on the wire so far."""
        return self.node.largest_message_bytes

    def missing(self) -> list[Missing]:
        """The messages that wait here, oldest first, with what each of them lacks."""
        now_ns = self._now_ns()
        found = [
            Missing((source, sequence), (now_ns - since_ns) / NANOSECONDS_PER_S, needs)
            for source, sequence, since_ns, needs in self.node.waiting()
        ]
        return sorted(found, key=lambda missing: -missing.age_s)

    def missing_links(self) -> list[int]:
        """Neighbours in the view without a connection at the moment."""
        connections = self.links.connections if self.is_open else ()
        return [peer for peer in self.node.neighbours() if peer not in connections]

    def lags(self) -> dict[int, int]:
        """For each link, bytes that the other side has not acknowledged."""
        links = list(self.links.links.items()) if self.is_open else []
        return {peer: link.unacknowledged_bytes for peer, link in links}

    @property
    def stalled_s(self) -> float:
        """Time without progress while broadcasts wait for credit; 0 if none waits."""
        if (since_ns := self.metrics.blocked_since_ns) is None:
            return 0.0
        since_ns = max(since_ns, self.last_progress_ns)
        return (time.monotonic_ns() - since_ns) / NANOSECONDS_PER_S

    def check_entered(self) -> None:
        """UserError if the application is too early, or in another thread."""
        if not self.is_entered:
            raise UserError("enter the group first: async with Group.open(config) as group")
        self.check_thread()

    def check_thread(self) -> None:
        """UserError if this is not the thread of the group's loop."""
        if self.thread not in (None, threading.get_ident()):
            raise UserError(
                "a group is used in the thread of its event loop: call broadcast_threadsafe "
                "from other threads"
            )

    def raise_error(self) -> None:
        """Raise why this member has stopped; a new exception each time, or tracebacks add up."""
        if (error := self.error) is not None:
            raise type(error)(*error.args)

    def is_at_end(self) -> bool:
        """Whether nothing more will be delivered; raises if this member has stopped."""
        self.check_entered()
        self.raise_error()
        return self.is_over or self.is_finished

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    # A turn of the loop ---------------------------------------------------------------------

    def on_bodies(self, peer: int, bodies: Iterable[bytes | memoryview]) -> None:
        """Frames of a peer have arrived; their bodies are copied."""
        if self.is_over:
            return
        for body in bodies:
            self.node.receive(peer, body)
        if not self.is_scheduled:
            self.schedule()

    def evict(self, member: int) -> None:
        """Take a member out of the view."""
        self.node.evict(member)
        self.schedule()

    def schedule(self) -> None:
        """Have all input handled in the next turn of the loop."""
        if not self.is_scheduled and not self.is_over:
            self.is_scheduled = True
            self.loop.call_soon(self.flush)

    def flush(self, force: bool = False) -> None:
        """Handle all input, send the resulting frames, hand out deliveries."""
        self.is_scheduled = False
        if self.is_over:
            return
        self._consumed = 0
        node, now_ns = self.node, time.monotonic_ns()
        self._forgive_own_pause(now_ns)
        # Any bytes are a sign of life: a reply that is queued behind data evicts nobody.
        suspect = node.overdue(now_ns - self._start_ns)
        if suspect is not None and self.links.heard_within(suspect, self.config.evict_after_s):
            node.vouch_for(suspect)
        # Not what it is afterwards: without the others everything is delivered to all.
        was_finished = self.is_finishing and node.is_finished
        try:
            output = node.run(now_ns - self._start_ns, force=force)
        except PrecedesError as error:
            log.debug("the step of member %d failed", self.member, exc_info=True)
            self._stop(error)
            return
        except Exception as error:  # a defect, which has left the arrays half changed
            log.exception("the step of member %d failed", self.member)
            self._stop(InternalError(f"the step failed: {error!r}"))
            return
        if not node.owes_acknowledgement:
            self._unacknowledged_ns = 0
        elif self._unacknowledged_ns == 0:
            self._acknowledge_soon(now_ns)
        # Before an own message is sent: nobody delivers what is in no log.
        if (trace := self._trace) and not trace.append(output.trace, at_once=output.broadcasts):
            self._on_trace_failed(trace)
        if output.evicted:
            self._others = [who for who in node.view if who != self.member]
        if output.frames:
            self._send(output)
        for peer, reason in output.malformed:
            self.on_peer_error(peer, PeerError(records.REASONS[reason]), "its link")
            self.links.ban(peer)
        for who in output.evicted:
            self._on_evicted(who, left=who in output.left, was_finished=was_finished)
        if node.is_fenced:
            self._stop(Evicted("the others have taken this member for dead and go on without it"))
        if output.deliveries:
            self.inbox.put(output.deliveries)
        stable = node.own_stable
        if stable > self._last_stable or node.is_all_stable:
            self._last_stable, self.last_progress_ns = stable, now_ns
        self.changed.notify()
        self.wake_senders()
        if self.is_finishing and node.is_finished:
            self.inbox.news.notify()
        self._set_timer()

    def _send(self, output: Output) -> None:
        send = self.links.send
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
                if not self.node.is_gone(peer):
                    send(peer, body, messages_bytes=messages_bytes.get(peer, 0))

    def _set_timer(self) -> None:
        """Have a turn when the next timer of the node is due."""
        due_ns = self.node.next_timer_ns
        if due_ns is not None and due_ns != self._timer_ns:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = due_ns
            wait_s = max(due_ns - self._now_ns(), 0) / NANOSECONDS_PER_S
            self._timer = self.loop.call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer_ns = 0
        self.schedule()

    def is_late(self, now_ns: int) -> bool:
        """Whether this process was stopped for a while, or kept from its regular duties."""
        return now_ns - self._beat_ns > self._patience_ns

    def _forgive_own_pause(self, now_ns: int) -> None:
        """After a pause of this process the silence of others proves nothing."""
        if self.is_late(now_ns):
            late_ns = now_ns - self._beat_ns
            self.node.forgive(late_ns)
            self.links.forgive(late_ns / NANOSECONDS_PER_S)
            self._beat_ns = now_ns

    # Acknowledgements -------------------------------------------------------------------------

    def on_consumed(self, count: int) -> None:
        """The application has consumed messages: acknowledge them soon, or now if it is many."""
        self._consumed += count
        if self._consumed >= self._eager:
            self.schedule()
        elif self._unacknowledged_ns == 0:
            self._acknowledge_soon(time.monotonic_ns())

    def _acknowledge_soon(self, now_ns: int) -> None:
        """From now on others lack acknowledgements."""
        self._unacknowledged_ns = now_ns
        if self._acknowledging is None and not self.is_over:
            self._acknowledging = self.loop.call_later(ACKNOWLEDGE_AFTER_S, self._acknowledge)

    def _acknowledge(self) -> None:
        """Send the acknowledgements that no other frame has carried in the meantime."""
        self._acknowledging = None
        if since_ns := self._unacknowledged_ns:
            waited_s = (time.monotonic_ns() - since_ns) / NANOSECONDS_PER_S
            wait_s = ACKNOWLEDGE_AFTER_S - waited_s
            if wait_s > ACKNOWLEDGE_AFTER_S / 8:
                self._acknowledging = self.loop.call_later(wait_s, self._acknowledge)
            else:
                self.flush(force=True)

    # The view ---------------------------------------------------------------------------------

    def _on_evicted(self, who: int, *, left: bool, was_finished: bool) -> None:
        if who == self.member:
            self._stop(Evicted("the others have taken this member out of the view"))
            return
        self.metrics.evictions += not left
        self.report(Event("left" if left else "evicted", who, "is out of the view"))
        self._log_view(who, left=left)
        self.links.cut(who)
        view, members = self.node.view, len(self.config.addresses)
        half = 2 * len(view) - members
        is_minority = half < 0 or (half == 0 and 0 not in view)
        if self.config.quorum and not was_finished and is_minority:
            self._stop(GroupLost(f"only {len(view)} of {members} members left"))
            return
        for peer in self.node.neighbours():
            self.links.want(peer, anyhow=True)
        self.links.attached.set()  # a member that waits for its neighbours has others now

    def _stop(self, error: PrecedesError) -> None:
        if self.error is None:
            log.error("member %d stops: %s", self.member, error)
            self.error = error
            self.report(Event("lost", self.member, str(error)))
            if isinstance(error, Evicted):
                self._log_view(self.member, left=False)
            self._wake()

    def _wake(self) -> None:
        self.inbox.news.notify()
        self.changed.notify()
        self.wake_senders()

    # Broadcasts that wait for credit ----------------------------------------------------------

    def begin_wait(self) -> asyncio.Future[None]:
        """A place among the broadcasts that wait for credit; ``end_wait`` gives it back."""
        if not self.senders:
            self.metrics.blocked_since_ns = time.monotonic_ns()
        return self.senders.join()

    def end_wait(self, place: asyncio.Future[None]) -> None:
        """The broadcast goes on, or was given up."""
        self.senders.leave(place)
        if not self.senders:
            self.metrics.end_block()
        self.wake_senders()

    def wake_senders(self) -> None:
        """Wake one for each credit, or all if there will be no more credit."""
        if senders := self.senders:
            is_closed = self.error is not None or self.is_over or self.is_finishing
            is_closed = is_closed or self.node.is_spent
            senders.wake(len(senders) if is_closed else self.node.credit)

    # Events -----------------------------------------------------------------------------------

    def report(self, event: Event) -> None:
        """Log an event and hand it to all listeners."""
        log.info("member %d: %s %d %s", self.member, event.kind, event.member, event.text)
        self.events.put(event)

    def _log_view(self, who: int, *, left: bool) -> None:
        if (trace := self._trace) is None:
            return
        row = member_log.view_row(self._now_ns(), who, left=left)
        if not trace.append([row], at_once=False):
            self._on_trace_failed(trace)

    def _on_trace_failed(self, trace: member_log.LogWriter) -> None:
        self.metrics.trace_failed = True
        failure = f"tracing has stopped: {trace.failure} ({trace.path})"
        log.error("%s; the group goes on", failure)
        self.report(Event("trace", self.member, failure))

    def on_peer_error(self, peer: int | None, error: PeerError, where: str) -> None:
        """A peer sent what no correct member sends."""
        self.metrics.refusals[error.reason] += 1
        if self.metrics.may_log(peer, where):
            log.warning("refused %s at %s: %s", _named(peer), where, error)
        self.events.put(Event("refused", -1 if peer is None else peer, str(error)))

    def on_no_handshake(self, where: str) -> None:
        """A connection has ended without a handshake: the peer is busy, or not a member."""
        self.metrics.refusals["no handshake"] += 1
        log.debug("no handshake from %s", where)

    def on_damaged(self, peer: int | None, where: str) -> None:
        """Checksum mismatch; what is missing is sent again over another connection."""
        self.metrics.damaged += 1
        if self.metrics.may_log(peer, "damaged"):
            log.warning("checksum mismatch in data from %s at %s", _named(peer), where)

    def on_refused(self, peer: int | None, reason: str, *, evicted: bool) -> None:
        """A peer refuses this member."""
        if self.is_over or self.is_finished:
            return
        if self.metrics.may_log(peer, "refused us"):
            log.warning("member %s refuses this member: %s", peer, reason)
        if evicted:
            self._stop(Evicted(f"member {peer} says: {reason}"))

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link resumes over the next one."""
        self.metrics.disconnections += 1
        log.debug("lost the connection to member %d: %s", peer, error or "closed")

    # Regular duties -------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Regular duties: acknowledgements, silent connections, whatever lasts too long."""
        reported: set[Hashable] = set()
        looked_s = 0.0
        await asyncio.sleep(self._share * TEND_EVERY_S)
        while True:
            await asyncio.sleep(TEND_EVERY_S)
            now_ns = time.monotonic_ns()
            self._forgive_own_pause(now_ns)
            self._beat_ns = now_ns + round(TEND_EVERY_S * NANOSECONDS_PER_S)
            self.links.tend(self.config.evict_after_s)
            self.links.credentials.tend()
            if self._trace is not None and not self._trace.write():
                self._on_trace_failed(self._trace)
            if time.monotonic() - looked_s > self.config.gap_after_s / 2:
                looked_s = time.monotonic()
                lasting = dict(self._find_lasting(now_ns))
                for subject, event in lasting.items():
                    if subject not in reported:
                        self.report(event)
                reported = set(lasting)

    def _find_lasting(self, now_ns: int) -> Iterator[tuple[Hashable, Event]]:
        """Find what has lasted longer than ``gap_after_s``: no credit, missing links, gaps."""
        limit_s = self.config.gap_after_s
        if (stalled_s := self.stalled_s) > limit_s:
            text = f"holds back {len(self.senders)} broadcasts, for {stalled_s:.1f} s so far"
            yield "blocked", Event("blocked", self.node.laggard, text)
        missing = [] if self.is_finished else self.missing_links()
        self._unlinked_ns = {peer: self._unlinked_ns.get(peer, now_ns) for peer in missing}
        for peer, since_ns in self._unlinked_ns.items():
            if (age_s := (now_ns - since_ns) / NANOSECONDS_PER_S) > limit_s:
                yield peer, Event("disconnected", peer, f"has had no connection for {age_s:.1f} s")
        oldest_ns = self.node.oldest_waiting_ns()
        age_ns = 0 if oldest_ns is None else self._now_ns() - oldest_ns
        self.metrics.oldest_s = age_ns / NANOSECONDS_PER_S
        if self.metrics.oldest_s > limit_s:
            for gap in [gap for gap in self.missing() if gap.age_s > limit_s][:GAPS_MAX]:
                names = " ".join(f"{source}:{sequence}" for source, sequence in gap.needs)
                name = f"{gap.message[0]}:{gap.message[1]}"
                text = f"{name} waits {gap.age_s:.1f} s for {names or 'what is not known'}"
                yield gap.message, Event("gap", gap.message[0], text)
