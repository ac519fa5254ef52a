"""Drives a member: a turn of the loop collects input, runs the node, and handles its output.

Frames, broadcasts and consumed messages are collected; one call of the node handles all of it;
then rows are logged, frames sent and messages put into the inbox, in this order. Records of the
membership go to its state machine, which stops the node to end an epoch and asks for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from precedes import __version__
from precedes.compiled import sources_digest
from precedes.errors import InternalError, PeerError, PrecedesError, UserError
from precedes.live.config import Config
from precedes.live.epoch import Epoch, above
from precedes.live.errors import Excluded, GroupLost, Replaced, StateError
from precedes.live.inbox import Event, Events, Inbox, Signal, ViewChange
from precedes.live.member import records
from precedes.live.member.node import Node
from precedes.live.member.output import Batch, Message, Output
from precedes.live.membership import machine
from precedes.live.membership.agreement import Report, Timing
from precedes.live.membership.learning import Label
from precedes.live.membership.machine import Data, Membership, Reason
from precedes.live.membership.records import Record, decode, encode
from precedes.live.membership.values import Entry, Id, View
from precedes.live.metrics import Metrics
from precedes.live.net import wire
from precedes.live.net.links import Links
from precedes.live.tier import Tier
from precedes.live.transfer import SENT_MAX, Received, State, frames_of
from precedes.model import NANOSECONDS_PER_S
from precedes.trace import member_log

log = logging.getLogger("precedes.live")

# Longest delay of an acknowledgement that no frame can carry: far shorter than a wait for credit,
# and long enough that most of them are carried by a frame.
ACKNOWLEDGE_AFTER_S: Final = 0.05
TEND_EVERY_S: Final = 0.1
# The interval at which a change of the view goes on by itself.
TICK_S: Final = 0.02
# Time in which nobody listens at a member's address before it is suspected.
REFUSED_S: Final = 0.5
# A wait for an answer is this many of the longest delays of this loop, in the last minute.
DELAYS: Final = 4
MINUTE_S: Final = 60.0
# Counters that go on in the next epoch; the others are current sizes.
SUMMED: Final = (
    "broadcasts", "stable", "received", "dropped", "packets_sent", "packets_sent_to_all"
)  # fmt: skip
# Time in which founders with lower numbers are dialled by those with higher ones.
FOUNDERS_DIAL_S: Final = 0.5
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
        self.woken = 0  # places woken and not returned yet

    def __len__(self) -> int:
        return len(self._waiting) + self.woken

    def join(self, *, first: bool = False) -> asyncio.Future[None]:
        """Join at the end, or at the front, and return the place."""
        place = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        if first:
            self._waiting.move_to_end(place, last=False)
        return place

    def leave(self, place: asyncio.Future[None]) -> None:
        """Return a place, woken or not."""
        if place in self._waiting:
            del self._waiting[place]
        else:
            self.woken -= 1

    def wake(self, count: int) -> None:
        """Wake places from the front, until ``count`` are woken and not returned."""
        while self._waiting and self.woken < count:
            place, _ = self._waiting.popitem(last=False)
            self.woken += 1
            if not place.done():  # or it was cancelled, and will be returned in a moment
                place.set_result(None)


class _Backlog:
    """Deliveries that wait for the group's state, with their rows of the log."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.rows: list[bytes] = []
        self.size_bytes = 0

    def add(self, rows: Iterable[bytes], batches: Sequence[Batch]) -> None:
        """Add those of a turn."""
        self.rows += rows
        self.batches += batches
        self.size_bytes += sum(len(batch.content[1]) for batch in batches)


class Driver:
    """The epoch of a member, its membership, links (it is their ``Owner``), log and inbox.

    ``is_open``: it has links. ``is_entered``: applications may use it. ``is_finishing``: nothing
    more is broadcast here. ``is_over``: it has ended. ``error``: why it has stopped, or None.

    A member's number is its uid less 1: that of a founder is the place of its name among the
    founders. This process has number -1 before a view admits it, unless it is a founder.
    """

    links: Links
    loop: asyncio.AbstractEventLoop
    membership: Membership

    def __init__(self, config: Config, state: State | None = None) -> None:
        self.config = config
        self.state = state
        self._backlog: _Backlog | None = None  # until the state is loaded
        self._received: Received | None = None  # a state that has arrived
        self._fetching: asyncio.Task[None] | None = None
        self._sending = 0  # states that are sent
        self.applied = 0  # sequence of the last own message that the state has
        self.member = -1 if config.position is None else config.position
        self.names = dict(enumerate(config.names))  # of members, by number; also of former ones
        self.metrics = Metrics()
        self.events: Events[Event] = Events()
        self.views: Events[ViewChange] = Events()
        everybody = range(len(config.names))
        # Own messages are applied in order with those of others, in the turn that sends them.
        self._echo = config.echo or state is not None
        node = Node(config.settings(echo=self._echo), recording=True)
        # How this protocol goes on without a member: in a new epoch, in the same one, or not.
        self.on_loss = node.protocol.on_loss
        if state is not None and self.on_loss != "view":
            raise UserError(
                f"protocol {config.protocol} has a fixed group, whose members have no state: use "
                "vector, vcube or hashed"
            )
        bases = [0 for _ in everybody]
        can_end = self.on_loss == "view"
        self.epoch = Epoch(node, number=1, members=everybody, bases=bases, can_end=can_end)
        self.view: View | None = None
        self.tier = Tier(node, config.tier)
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
        self._gone: dict[int, int] = {}  # members out of the view, and their final counts
        self._excluded: set[int] = set()  # those of them that did not leave
        self._leavers: set[int] = set()  # out of the view, but not done with the change
        self._counted = dict.fromkeys(SUMMED, 0)  # in the epochs before
        self._pending_max = 0
        self._takes_data = False  # the node runs, and DATA of its epoch goes to it
        self.has_left = False
        self._ticking: asyncio.TimerHandle | None = None
        self._is_carrying_out = False
        self._trusted_s = time.monotonic()  # until then nobody is suspected of being silent
        self._connected_s = time.monotonic()  # with a quorum
        self._delay_s, self._delayed_s = 0.0, 0.0  # the longest of this loop, and when it was
        self._timing = Timing(
            patience_s=config.evict_after_s,
            install_s=config.evict_after_s,
            linger_s=config.linger_s,
            lost_s=config.evict_after_s,
            drain_s=config.drain_s,
            retry_max_s=config.evict_after_s,
        )
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
        me = Entry(0, str(config.member), self.links.life, config.advertised, version=wire.HIGHEST)
        self.membership = Membership(
            me,
            config.names,
            group=os.urandom(16),
            timing=self._timing,
            has_state=self.state is not None,
        )
        self.is_open = True

    def _open_trace(self, directory: str, view: View) -> None:
        """Open the log of this life."""
        config = self.config
        about = {
            "group": config.name, "protocol": config.protocol, "window": config.window,
            "version": __version__, "code_version": sources_digest(),
            # Rows count from when the member was made, some time before its log is.
            "started_unix_ns": time.time_ns() - self._now_ns(),
            "name": config.member, "life": self.links.life.hex(),
        }  # fmt: skip
        self._trace = member_log.LogWriter(
            directory, member=self.member, members=max(view.uids), about=about
        )

    def tend(self) -> None:
        """Start the regular duties, and change to the compiled step when it is available."""
        self._beat_ns = time.monotonic_ns()
        for duty in (self._tend(), self.tier.climb()):
            self._tasks.append(self.loop.create_task(duty))

    async def wait_for_view(self) -> None:
        """Wait until the group is founded; GroupLost if that takes longer than ``start_s``."""
        try:
            async with asyncio.timeout(self.config.start_s):
                while self.view is None or self.membership.is_learner:
                    self._look_for_members()
                    await self.changed.wait()
                    self.raise_error()
        except TimeoutError:
            missing = [peer for peer in self.missing_links() if peer >= 0]
            names = ", ".join(self.names[peer] for peer in missing)
            if self.view is not None:
                text = "the state of the group did not arrive"
            elif self.config.position is None:
                text = "no group admitted this member"
            else:
                text = f"member {names} did not come" if missing else "the group was not founded"
            text = f"{text} within {self.config.start_s:g} s"
            raise GroupLost("; ".join([text, *self.links.troubles()])) from None

    def _look_for_members(self) -> None:
        """Dial founders, or whoever is known of a group to join."""
        if self.view is not None:
            return
        is_late = self.config.position is None or self._now_ns() > FOUNDERS_DIAL_S * 1e9
        for peer in list(self.links.names):
            if peer != self.member:
                self.links.want(peer, anyhow=is_late)
        if self.links.discovery.has_asked.is_set():
            self.membership.tried_seeds()

    def enter(self) -> None:
        """The group is founded: let applications in."""
        self.is_entered = self.metrics.ready = True
        log.info("member %s of %s is ready", self.config.member, self.config.name)

    @property
    def _share(self) -> float:
        """Offset within an interval: regular duties of all members at once would collide."""
        return max(self.member, 0) % len(self.names) / len(self.names)

    def finish(self) -> None:
        """Announce that nothing more will be broadcast here."""
        self.is_finishing = True
        self.node.close()
        self.flush(force=True)

    async def depart(self, limit_s: float) -> None:
        """Leave with the next view, and answer until the others have installed it.

        If all others finish meanwhile, they may have ended: nobody waits for this member.
        """
        self.membership.leave()
        self.schedule()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not (self.has_left or self.is_finished) and self.error is None:
                    await self.changed.wait()

    def leave(self) -> None:
        """End all but the connections: nothing is awaited, so that nothing stays half open.

        Unless all have finished, or it has left with a view, the others suspect this member at
        once, without waiting for ``evict_after_s``, and have all that it has broadcast.
        """
        is_complete = False
        try:
            if self.error is None and not self.is_finished:
                self.flush(force=True)
            is_complete = self.error is None and self.is_finished
            if self.error is None and not is_complete and not self.has_left:
                self.links.part()
        finally:
            self.is_over = True
            self.metrics.ready = False
            tasks = (*self._tasks, self._fetching)
            for handle in (self._timer, self._acknowledging, self._ticking, *tasks):
                if handle is not None:
                    handle.cancel()
            self.links.stop_listening()
            if self._trace is not None:
                self._trace.close(member_log.ENDED if is_complete else member_log.LEFT)
            self._wake()
            self.events.close()
            self.views.close()

    async def wait_closed(self) -> None:
        """Wait until all links are closed and all tasks are done."""
        await self.links.wait_closed()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # State ----------------------------------------------------------------------------------

    def _named(self, peer: int | None) -> str:
        """A member in lines of the log."""
        if peer is None:
            return "somebody"
        name = self.names.get(peer) or self.links.names.get(peer)
        return "a process that was not met" if name is None else f"member {name}"

    @property
    def node(self) -> Node:
        """The node of this epoch."""
        return self.epoch.node

    @property
    def is_finished(self) -> bool:
        """Return whether all in the view have finished and everything is delivered."""
        return self.is_finishing and self.node.is_finished

    def is_gone(self, member: int) -> bool:
        """Return whether a member is out of the view, and done with that change."""
        return member in self._gone and member not in self._leavers

    @property
    def members(self) -> list[int]:
        """The members in the view, this one included."""
        if self.view is None:
            return list(range(len(self.config.names)))
        return [uid - 1 for uid in sorted(self.view.uids)]

    @property
    def is_admitted(self) -> bool:
        """Return whether this process is in a view."""
        return self.view is not None

    def is_replaced(self, member: int) -> bool:
        """Return whether another process has the name of a member that is out of the view."""
        name = self.names.get(member)
        return any(self.names[peer] == name for peer in self.members)

    @property
    def lost(self) -> list[int]:
        """The members that were excluded, and whose name nobody has."""
        return sorted(member for member in self._excluded if not self.is_replaced(member))

    @property
    def credit(self) -> int:
        """Number of messages that may be broadcast now; 0 during a change of the view."""
        if not self._takes_data or self.membership.leaving or self._backlog is not None:
            return 0
        return min(self.node.credit, records.SEQUENCE_MAX - self.broadcasts)

    @property
    def is_changing(self) -> bool:
        """Return whether the view is changing: nothing is broadcast or delivered until then."""
        return not self._takes_data

    @property
    def broadcasts(self) -> int:
        """Number of broadcasts of this member."""
        return self.sequence_of(self.node.broadcasts)

    def sequence_of(self, sequence: int) -> int:
        """An own sequence number of this epoch, counted through all epochs."""
        return self.epoch.bases[self.node.settings.member] + sequence

    @property
    def is_spent(self) -> bool:
        """Return whether all sequence numbers are used up."""
        return self.broadcasts >= records.SEQUENCE_MAX

    def counts(self) -> dict[str, int]:
        """Counters since the start, through all epochs, and current sizes."""
        counts = self.node.counts()
        summed = {name: counts[name] + before for name, before in self._counted.items()}
        pending_max = max(counts["pending_max"], self._pending_max)
        return {**counts, **summed, "pending_max": pending_max}

    @property
    def laggard(self) -> int:
        """The member that has consumed the fewest own messages, as far as is known."""
        return self.epoch.members[self.node.laggard]

    def stable(self, member: int) -> int:
        """The number of messages of a member that all have consumed, or ended an epoch with."""
        if (at := self.epoch.position_of.get(member)) is None:
            return self._gone[member]
        return self.epoch.bases[at] + self.node.stable(at)

    def consume(self, batch: Batch, message: Message | None = None) -> None:
        """Count a message of a batch as consumed, or all of it; not those of earlier epochs."""
        if batch.epoch is not self.epoch:
            return
        if message is None:
            self.node.consume_batch(batch)
        else:
            self.node.consume(self.epoch.position_of[message.sender], 1)

    def happened_before(self, first: Id, second: Id) -> bool | None:
        """Return whether a message is in the past of another; None if that one is not in memory.

        A member has all messages of the epochs before when it broadcasts in this one.
        """
        later, earlier = self.epoch.place(*second), self.epoch.place(*first)
        if later is None:
            return None
        return earlier is None or self.node.happened_before(earlier, later)

    @property
    def largest_message_bytes(self) -> int:
        """The largest size of a message on the wire so far."""
        return self.node.largest_message_bytes

    def missing(self) -> list[Missing]:
        """The messages that wait here, oldest first, with what each of them lacks."""
        now_ns = self._now_ns()
        name = self.epoch.name
        messages = [
            Missing(
                name(*message),
                (now_ns - since_ns) / NANOSECONDS_PER_S,
                [name(*needed) for needed in needs],
            )
            for *message, since_ns, needs in self.node.waiting()
        ]
        return sorted(messages, key=lambda missing: -missing.age_s)

    def missing_links(self) -> list[int]:
        """Members in the view without a connection at the moment."""
        connections = self.links.connections if self.is_open else ()
        return [peer for peer in self.members if peer != self.member and peer not in connections]

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
        """Return whether nothing more will be delivered; raises if this member has stopped."""
        self.check_entered()
        self.raise_error()
        return self.is_over or self.is_finished

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    # A turn of the loop ---------------------------------------------------------------------

    def on_bodies(self, peer: int, bodies: Iterable[tuple[int, bytes | memoryview]]) -> None:
        """Frames of a peer have arrived; their bodies are copied."""
        if self.is_over:
            return
        link = self.links.link(peer)
        for epoch, body in bodies:
            peer = link.peer  # another number, once a record has begun the first view
            at = self.epoch.position_of.get(peer) if epoch == self.epoch.number else None
            if at is not None and self._takes_data:
                self.node.receive(at, body)
                self.membership.trust(peer + 1)
            else:
                self._receive(peer, link.life, epoch, bytes(body))
        if not self.is_scheduled:
            self.schedule()

    def _receive(self, peer: int, life: bytes, epoch: int, body: bytes) -> None:
        """A record of the membership, or DATA that is not for the node of this turn."""
        try:
            ids_max = 2 * max(len(self.config.names), len(self.members)) * self.config.window
            record = Data(epoch, body) if epoch else decode(body, ids_max=ids_max)
            self.membership.advance(time.monotonic())
            self.membership.receive(life, record)
        except PeerError as error:
            self._refuse(peer, error)
        self._carry_out()

    def _refuse(self, peer: int, error: PeerError) -> None:
        self.on_peer_error(peer, error, "its link")
        self.links.ban(peer)

    def schedule(self) -> None:
        """Schedule the handling of all input in the next turn of the loop."""
        if not self.is_scheduled and not self.is_over:
            self.is_scheduled = True
            self.loop.call_soon(self.flush)

    def flush(self, force: bool = False) -> None:
        """Handle all input, send the resulting frames, hand out deliveries."""
        self.is_scheduled = False
        if self.is_over:
            return
        self._forgive_own_pause(time.monotonic_ns())
        if self._takes_data:
            self._run_node(force=force)
        self._carry_out()
        self._schedule_tick()
        self.changed.notify()
        self.wake_senders()
        if self.is_finishing and self.node.is_finished:
            self.inbox.news.notify()

    def _run_node(self, *, force: bool) -> None:
        """One turn of the node."""
        self._consumed = 0
        node, now_ns = self.node, time.monotonic_ns()
        # Any bytes are a sign of life: a reply that is queued behind data makes nobody suspected.
        overdue = node.overdue(now_ns - self._start_ns)
        if overdue is not None and self.links.received_within(overdue, self.config.evict_after_s):
            node.vouch_for(overdue)
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
        self.epoch.keep(output)
        # Before an own message is sent: no other member delivers a message that is in no log.
        if self._backlog is None:
            self._log(output.trace, at_once=output.broadcasts)
        if output.frames:
            self._send(output)
        for position, reason in output.malformed:
            self._refuse(self.epoch.members[position], PeerError(records.REASONS[reason]))
        for position in output.suspected:
            self.membership.suspect(position + 1)
        if output.deliveries:
            self._hand_over(output.deliveries, output.trace)
        stable = node.own_stable
        if stable > self._last_stable or node.is_all_stable:
            self._last_stable, self.last_progress_ns = stable, now_ns
        self._set_timer()

    def _hand_over(self, batches: list[Batch], rows: Sequence[bytes]) -> None:
        """Pass deliveries to the application; without the group's state they wait for it."""
        if self._backlog is not None:
            self._backlog.add(map(self.epoch.logged, rows), batches)
            for batch in batches:
                self.consume(batch)
                self.on_consumed(len(batch))
            self.membership.delivered(self.epoch.counts())
            if self._backlog.size_bytes > self.config.join_backlog_bytes:
                limit = self.config.join_backlog_bytes
                self._stop(StateError(f"the state did not arrive before {limit} bytes of messages"))
        elif self.state is None:
            self.inbox.put(batches)
        else:
            for batch in batches:
                self._apply(batch)
                self.consume(batch)
                self.on_consumed(len(batch))
                self.inbox.put_applied(batch)

    def _apply(self, batch: Batch, above: Mapping[int, int] | None = None) -> None:
        """Apply messages to the state, those above these counts by uid."""
        assert self.state is not None
        for message in batch:
            if above and message.sequence <= above.get(message.sender + 1, 0):
                continue
            if self.error is not None:
                return
            try:
                self.state.apply(message)
            except Exception as error:
                name = f"{message.sender}:{message.sequence}"
                log.exception("the state cannot apply %s", name)
                self._stop(StateError(f"apply of the state failed on {name}: {error!r}"))
            if message.sender == self.member:
                self.applied = message.sequence

    def _log(self, rows: list[bytes], *, at_once: bool) -> None:
        if (trace := self._trace) is None:
            return
        if not trace.append(list(map(self.epoch.logged, rows)), at_once=at_once):
            self._on_trace_failed(trace)

    def _send(self, output: Output) -> None:
        send, members, number = self.links.send, self.epoch.members, self.epoch.number
        me = self.node.settings.member
        for common, own, messages_bytes in output.frames:
            if common:
                checksum, size_bytes = wire.crc32(common), len(common)
                for at, peer in enumerate(members):
                    if at == me or self.node.is_gone(at):
                        continue
                    more = own.pop(at, b"")
                    send(
                        peer, common + more, wire.crc32(more, checksum), epoch=number,
                        messages_bytes=size_bytes + messages_bytes.get(at, 0),
                    )  # fmt: skip
            for at, body in own.items():
                if not self.node.is_gone(at):
                    send(members[at], body, epoch=number, messages_bytes=messages_bytes.get(at, 0))

    def _set_timer(self) -> None:
        """Schedule a turn when the next timer of the node is due."""
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
        """Return whether this process was stopped for a while, or kept from its regular duties."""
        return now_ns - self._beat_ns > self._patience_ns

    def _forgive_own_pause(self, now_ns: int) -> None:
        """After a pause of this process the silence of others proves nothing."""
        if self.is_late(now_ns):
            late_ns = now_ns - self._beat_ns
            self.node.forgive(late_ns)
            self.links.forgive(late_ns / NANOSECONDS_PER_S)
            self._trusted_s = time.monotonic()
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
        """Start the clock of outstanding acknowledgements."""
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

    # The membership ---------------------------------------------------------------------------

    def on_linked(self, peer: int, life: bytes, name: str) -> None:
        """There is a connection with a process."""
        self.membership.link_up(life, name)
        self.schedule()

    def on_life_over(self, life: bytes) -> None:
        """A founder was restarted before there was a view."""
        self.membership.link_lost(life)

    def on_leaving(self, peer: int) -> None:
        """A member ends; what it has sent before has arrived."""
        if not self.is_finished:
            self.membership.suspect(peer + 1)
            self.schedule()

    def _tick(self) -> None:
        self._ticking = None
        if not self.is_over:
            self.membership.tick(time.monotonic())
            self.schedule()

    def _schedule_tick(self) -> None:
        """Have a change go on: it waits for times, too."""
        agreement = self.membership.agreement
        is_settled = (
            agreement is not None
            and not (agreement.is_frozen or agreement.wants_change)
            and not self.membership.is_learner
        )
        has_ended = self.is_over or self.has_left or self.error is not None
        if self._ticking is None and not is_settled and not has_ended:
            self._ticking = self.loop.call_later(TICK_S, self._tick)

    def _carry_out(self) -> None:
        """Do what the membership asks for, until nothing is left."""
        if self._is_carrying_out:
            return
        self._is_carrying_out = True
        try:
            while effects := self.membership.drain():
                for effect in effects:
                    self._do(effect)
        finally:
            self._is_carrying_out = False

    def _do(self, effect: machine.Effect) -> None:
        match effect:
            case machine.Send(life, record):
                self._send_record(life, record)
            case machine.Freeze():
                self._freeze()
            case machine.Receive(life, body):
                # Of a frozen node: what it would deliver is asked of those that have delivered it.
                peer = self.links.number_of(life)
                at = None if peer is None else self.epoch.position_of.get(peer)
                if at is not None and self._takes_data:
                    self.node.receive(at, body)
                    self.schedule()
            case machine.Deliver(messages):
                batch, rows = self.epoch.flushed(messages, self._now_ns())
                if self._backlog is not None:
                    self._backlog.add([rows], [batch])
                else:
                    if (trace := self._trace) and not trace.append([rows], at_once=False):
                        self._on_trace_failed(trace)
                    self._hand_over([batch], ())
            case machine.Install(view, _):
                self._install(view)
            case machine.Leave(view, is_complete):
                self._takes_data = False
                self._log_counts("leave", view, has_all=is_complete)
                self._log_view(self.member, left=True)
            case machine.Drop(life, error):
                if (peer := self.links.number_of(life)) is not None:
                    self._refuse(peer, error)
            case machine.Notify(uid, is_suspected):
                how = "suspects" if is_suspected else "trusts"
                log.info("member %s %s %s", self.config.member, how, self._named(uid - 1))
            case machine.Stop(reason):
                self._end(reason)
            case machine.RequestState(life, first_epoch):
                self._request_state(life, first_epoch)
            case machine.Load(label):
                self._tasks.append(self.loop.create_task(self._load(label)))
            case machine.Discard():
                self._received = None
            case _:
                assert_never(effect)

    def _send_record(self, life: bytes, record: Record) -> None:
        peer = self.links.number_of(life)
        # It waits for a link that is not there yet: two founders may meet after the founding.
        if (
            peer is not None
            and not self.is_gone(peer)
            and (self.links.link(peer).life in (life, b""))
        ):
            body = encode(record)
            self.links.send(peer, body, epoch=0, messages_bytes=len(body))

    # The group's state ------------------------------------------------------------------------

    def _request_state(self, life: bytes, first_epoch: int) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
        self._received = None
        self._fetching = self.loop.create_task(self._fetch(life, first_epoch))

    async def _fetch(self, life: bytes, first_epoch: int) -> None:
        """Fetch the state from the member with this life."""
        received = Received(first_epoch, self.config.state_max_bytes)
        if (peer := self.links.number_of(life)) is not None:
            await self.links.fetch_state(peer, received, self.config.evict_after_s)
        if received.is_too_large:
            limit = self.config.state_max_bytes
            self._stop(StateError(f"the state has more than {limit} bytes: raise state_max_bytes"))
        elif received.is_complete and received.label is not None:
            self._received = received
            try:
                self.membership.state(received.label)
            except PeerError as error:
                self.on_peer_error(peer, error, "its state")
                self.membership.state_failed()
        else:
            self.membership.state_failed()
        self._carry_out()
        self.schedule()

    async def _load(self, label: Label) -> None:
        """Load the state that has arrived, then apply what waits beyond it."""
        received, state = self._received, self.state
        assert received is not None
        assert state is not None
        try:
            await asyncio.to_thread(state.load, iter(received.chunks[:-1]))
        except Exception as error:
            log.exception("the state cannot be loaded")
            self._stop(StateError(f"load of the state failed: {error!r}"))
            return
        self._received = None
        backlog, self._backlog = self._backlog, None
        assert backlog is not None
        if (trace := self._trace) is not None:
            self._log_state(label)
            counts = {uid - 1: count for uid, count in label.counts.items()}
            if not trace.append([above(rows, counts) for rows in backlog.rows], at_once=False):
                self._on_trace_failed(trace)
        for batch in backlog.batches:
            self._apply(batch, label.counts)
            self.inbox.put_applied(batch)
        self.membership.restored()
        self._carry_out()
        self._wake()
        self.schedule()

    def state_for(self, life: bytes, first_epoch: int) -> AsyncGenerator[bytes, None] | None:
        """Return frames of the group's state for a learner; None if it cannot get it here."""
        state = self.state
        is_able = state is not None and self.error is None and self._sending < SENT_MAX
        if state is None or not is_able or not self.membership.may_serve(life, first_epoch):
            return None
        ended = {peer + 1: count for peer, count in self._gone.items()}
        label = Label(self.epoch.number, {**ended, **self.epoch.counts()})
        try:
            dump = state.dump()
        except Exception as error:
            log.exception("the state cannot be dumped")
            self._stop(StateError(f"dump of the state failed: {error!r}"))
            return None
        return self._send_state(frames_of(label, dump))

    async def _send_state(self, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        self._sending += 1
        try:
            async with contextlib.aclosing(frames):
                async for frame in frames:
                    yield frame
        finally:
            self._sending -= 1

    # Views ------------------------------------------------------------------------------------

    def _freeze(self) -> None:
        """Stop the node after a last turn, and report its state."""
        if self.on_loss != "view":
            # Nothing ends with this view: those who stay go on in the same epoch.
            assert self.view is not None
            none = (0,) * len(self.view.entries)
            self.membership.report(Report(none, none, (), {}))
            return
        if self._takes_data:
            self._takes_data = False  # first: a callback of this turn may broadcast nothing more
            self._run_node(force=True)
        try:
            self.membership.report(self.epoch.report())
        except InternalError as error:
            self._stop(error)

    def _install(self, view: View) -> None:
        """Begin the epoch of a view."""
        before, self.view = self.view, view
        numbers = {entry.life: entry.uid - 1 for entry in view.entries}
        names = {entry.uid - 1: entry.name for entry in view.entries}
        addresses = {entry.uid - 1: entry.address for entry in view.entries}
        self.links.renumber(numbers, names, addresses, is_first=before is None)
        self.member = numbers[self.links.life]
        self.names = names if before is None else self.names | names
        if before is None and self.config.trace is not None:
            try:
                self._open_trace(self.config.trace, view)
            except UserError as error:
                self._stop(error)
                return
        is_first = before is None and view.epoch > 1
        if is_first and self.state is not None:
            self._backlog = _Backlog()
        is_learning = self._backlog is not None
        self._log_counts("learning" if is_learning else "view", view, has_all=True)
        if is_first and not is_learning:
            self._log_state(Label(view.epoch, {**view.ended, **view.bases}))
        self._trusted_s = time.monotonic()
        self._leavers &= {uid - 1 for uid in view.left}
        joined = [] if before is None else sorted(view.uids - before.uids)
        if before is None and view.epoch == 1:
            self._begin()
        elif before is None:
            self._gone = {uid - 1: count for uid, count in view.ended.items()}
            self._change(view)
        else:
            was_finished = self.is_finished
            gone = sorted(before.uids - view.uids)
            for uid in gone:
                self._remove(uid, view)
            if self.on_loss == "view":
                self._change(view)
            elif gone and self.on_loss == "end" and not was_finished:
                text = f"{self.node.protocol.name} cannot go on without member {gone[0] - 1}"
                self._stop(GroupLost(text))
        self.metrics.joins += len(joined)
        for uid in joined:
            self.report(Event("joined", uid - 1, "is in the view"))
        lost = () if before is None else sorted(before.uids - view.uids - view.left)
        self.views.put(
            self.view_change(view)._replace(
                joined=tuple(uid - 1 for uid in joined),
                left=tuple(uid - 1 for uid in sorted(view.left)),
                lost=tuple(uid - 1 for uid in lost),
            )
        )
        for peer in self.members:
            if peer != self.member:
                self.links.want(peer, anyhow=True)
        self.schedule()

    def view_change(self, view: View) -> ViewChange:
        """Return a view, for applications."""
        return ViewChange(
            epoch=view.epoch,
            members={entry.uid - 1: entry.name for entry in view.entries},
            voters=tuple(uid - 1 for uid in sorted(view.voters)),
        )

    def _begin(self) -> None:
        """Start the first node, with the failure detector if the protocol needs crashes."""
        first_ns = round(self._share * self.config.test_every_s * NANOSECONDS_PER_S)
        tests_at_ns = self._now_ns() + first_ns if self.on_loss == "crash" else None
        self.node.start(tests_at_ns=tests_at_ns)
        self._takes_data = True

    def _remove(self, uid: int, view: View) -> None:
        """A member is out of the view."""
        peer, left = uid - 1, uid in view.left
        self.membership.link_lost(self.links.link(peer).life)
        self._gone[peer] = view.ended.get(uid, 0)
        self.metrics.evictions += not left
        self.report(Event("left" if left else "excluded", peer, "is out of the view"))
        self._log_view(peer, left=left)
        if left:
            self._leavers.add(peer)
        else:
            self._excluded.add(peer)
            self.links.cut(peer)
        if self.on_loss == "crash":
            self.node.crash(peer)

    def _change(self, view: View) -> None:
        """A fresh node, with the members of this view."""
        counts = self.counts()
        self._pending_max = counts["pending_max"]
        # All have delivered what the member has broadcast before.
        self._counted = {name: counts[name] for name in SUMMED} | {"stable": counts["broadcasts"]}
        uids = [entry.uid for entry in view.entries]
        position = uids.index(self.member + 1)
        settings = self.config.settings(position, len(uids), epoch=view.epoch, echo=self._echo)
        node = Node(settings, recording=True)
        self.tier.adopt(node)
        self.epoch = Epoch(
            node,
            number=view.epoch,
            members=[uid - 1 for uid in uids],
            bases=[view.bases[uid] for uid in uids],
        )
        self._last_stable, self._eager, self._unacknowledged_ns = 0, node.eager, 0
        self.last_progress_ns = time.monotonic_ns()
        node.start()
        if self.is_finishing:
            node.close()
        self._takes_data = True

    def _end(self, reason: Reason) -> None:
        """The membership has stopped."""
        self._takes_data = False
        if reason is Reason.LEFT:
            self.has_left = True
        elif reason is Reason.LOST:
            self._stop(GroupLost(f"{reason.value}"))
        else:
            error = Replaced if reason is Reason.REPLACED else Excluded
            self._stop(error(f"the others go on without this member: {reason.value}"))

    def _suspect_silent(self) -> None:
        """Suspect members that are silent, that nobody reaches, or that were refused."""
        view, now_s, patience_s = self.view, time.monotonic(), self.config.evict_after_s
        if view is None or self.is_finished or self.has_left:
            return
        for entry in view.entries:
            peer = entry.uid - 1
            if peer == self.member:
                continue
            if peer not in self.links.connections:
                self.links.want(peer, anyhow=True)
            refused_s = self.links.refused_s.get(peer)
            is_silent = not self.links.received_within(peer, patience_s)
            if (refused_s is not None and now_s - refused_s > REFUSED_S) or (
                is_silent and (now_s - self._trusted_s > patience_s or self.links.is_banned(peer))
            ):
                self.membership.suspect(entry.uid)

    def _end_if_blocked(self) -> None:
        """End after ``blocked_s`` without a quorum: the others may have ended, or be restarted."""
        now_s, missing = time.monotonic(), self.membership.blocked
        if not missing:
            self._connected_s = now_s
        elif now_s - self._connected_s > self.config.blocked_s:
            names, wait_s = ", ".join(missing), self.config.blocked_s
            text = f"no quorum of the view for {wait_s:g} s: member {names} cannot be reached"
            self._stop(GroupLost(text))

    def _let_leavers_go(self) -> None:
        """Close links with members that have left, once all are done with that change."""
        is_done = self.membership.has_all_installed or (
            time.monotonic() - self._trusted_s > self.config.linger_s
        )
        if self._leavers and is_done:
            for peer in sorted(self._leavers):
                self._leavers.discard(peer)
                self.links.cut(peer)

    def _stop(self, error: PrecedesError) -> None:
        if self.error is None and not self.has_left:
            log.error("member %s stops: %s", self.config.member, error)
            self.error = error
            self._takes_data = False
            self.report(Event("lost", self.member, str(error)))
            if isinstance(error, Excluded):
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
        """Return the place of a broadcast that continues, or was given up."""
        self.senders.leave(place)
        if not self.senders:
            self.metrics.end_block()
        self.wake_senders()

    def wake_senders(self) -> None:
        """Wake one for each credit, or all if there will be no more credit."""
        if senders := self.senders:
            is_closed = self.error is not None or self.is_over or self.is_finishing
            is_closed = is_closed or self.is_spent
            senders.wake(len(senders) if is_closed else self.credit)

    # Events -----------------------------------------------------------------------------------

    def report(self, event: Event) -> None:
        """Log an event and hand it to all listeners."""
        who = self._named(event.member)
        log.info("member %s: %s %s %s", self.config.member, event.kind, who, event.text)
        self.events.put(event)

    def _log_view(self, who: int, *, left: bool) -> None:
        if (trace := self._trace) is None:
            return
        row = member_log.view_row(self._now_ns(), who, left=left)
        if not trace.append([row], at_once=False):
            self._on_trace_failed(trace)

    def _log_counts(self, kind: str, view: View, *, has_all: bool) -> None:
        """Log a view, and the messages that its members have delivered when it begins."""
        counts = {**view.bases, **view.ended} if has_all and self.on_loss == "view" else None
        entries = [(entry.uid, entry.name, entry.life.hex()) for entry in view.entries]
        about = {"kind": kind, "epoch": view.epoch, "group": view.group.hex()}
        about |= {"uid": self.member + 1, "entries": entries, "counts": counts}
        if (trace := self._trace) is not None and not trace.append_view(about):
            self._on_trace_failed(trace)

    def _log_state(self, label: Label) -> None:
        """Log that this member begins here, with a state that contains these messages."""
        assert self.view is not None
        about = {"kind": "state", "epoch": label.epoch, "group": self.view.group.hex()}
        about |= {"uid": self.member + 1, "entries": [], "counts": label.counts}
        if (trace := self._trace) is not None and not trace.append_view(about):
            self._on_trace_failed(trace)

    def _on_trace_failed(self, trace: member_log.LogWriter) -> None:
        self.metrics.trace_failed = True
        failure = f"tracing has stopped: {trace.failure} ({trace.path})"
        log.error("%s; the group continues", failure)
        self.report(Event("trace", self.member, failure))

    def on_peer_error(self, peer: int | None, error: PeerError, where: str) -> None:
        """A peer sent what no correct member sends."""
        self.metrics.refusals[error.reason] += 1
        if self.metrics.may_log(peer, where):
            log.warning("refused %s at %s: %s", self._named(peer), where, error)
        self.events.put(Event("refused", -1 if peer is None else peer, str(error)))

    def on_no_handshake(self, where: str) -> None:
        """A connection has ended without a handshake: the peer is busy, or not a member."""
        self.metrics.refusals["no handshake"] += 1
        log.debug("no handshake from %s", where)

    def on_damaged(self, peer: int | None, where: str) -> None:
        """Checksum mismatch; what is missing is sent again over another connection."""
        self.metrics.damaged += 1
        if self.metrics.may_log(peer, "damaged"):
            log.warning("checksum mismatch in data from %s at %s", self._named(peer), where)

    def on_refused(self, peer: int | None, reason: str, *, excluded: bool, replaced: bool) -> None:
        """A peer refuses this member."""
        if self.is_over or self.is_finished:
            return
        if self.metrics.may_log(peer, "refused us"):
            log.warning("%s refuses this member: %s", self._named(peer), reason)
        if excluded and self.membership.leaving:
            self._end(Reason.LEFT)
        elif excluded:
            error = Replaced if replaced else Excluded
            self._stop(error(f"refused by {self._named(peer)}: {reason}"))

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link resumes over the next one."""
        if peer < 0:
            self.membership.link_lost(self.links.link(peer).life)
        self.metrics.disconnections += 1
        log.debug("lost the connection to %s: %s", self._named(peer), error or "closed")

    # Regular duties -------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Regular duties: acknowledgements, silent connections, long waits."""
        reported: set[Hashable] = set()
        looked_s = 0.0
        await asyncio.sleep(self._share * TEND_EVERY_S)
        while True:
            await asyncio.sleep(TEND_EVERY_S)
            now_ns = time.monotonic_ns()
            self._forgive_own_pause(now_ns)
            self._pace(now_ns)
            self._beat_ns = now_ns + round(TEND_EVERY_S * NANOSECONDS_PER_S)
            self.links.tend(self.config.evict_after_s)
            self._suspect_silent()
            self._look_for_members()
            self._end_if_blocked()
            self._let_leavers_go()
            self._tick()
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

    def _pace(self, now_ns: int) -> None:
        """Wait longer for answers while this loop is slow: others may be as slow."""
        delay_s = max(now_ns - self._beat_ns, 0) / NANOSECONDS_PER_S
        if delay_s >= self._delay_s or now_ns / NANOSECONDS_PER_S - self._delayed_s > MINUTE_S:
            self._delay_s, self._delayed_s = delay_s, now_ns / NANOSECONDS_PER_S
        self._timing.retry_s = max(Timing.retry_s, DELAYS * self._delay_s)

    def _find_lasting(self, now_ns: int) -> Iterator[tuple[Hashable, Event]]:
        """Find what has lasted longer than ``gap_after_s``: no credit, missing links, gaps."""
        limit_s = self.config.gap_after_s
        if (stalled_s := self.stalled_s) > limit_s:
            text = f"holds back {len(self.senders)} broadcasts, for {stalled_s:.1f} s so far"
            yield "blocked", Event("blocked", self.laggard, text)
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
                text = f"{name} waits {gap.age_s:.1f} s for {names or 'unknown messages'}"
                yield gap.message, Event("gap", gap.message[0], text)
