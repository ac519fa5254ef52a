"""``Group``: a member of a live group, for applications.

    async with Group.open(config) as group:      # ready when all members are there
        await group.broadcast(b"hello")          # waits for credit
        async for message in group:              # causes before effects
            print(message.sender, message.payload)

Everything runs in one asyncio loop: bytes that arrive in one turn of the loop are handled in one
call of the step, and its output is sent in one write to each member. Only the step is compiled in
another process, and loaded in a thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import operator
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, cast

from precedes.errors import PrecedesError, UserError
from precedes.live.config import Config
from precedes.live.driver import TICK_S, Driver, Missing
from precedes.live.errors import GroupClosed, GroupLost, SlowMember, WouldBlock
from precedes.live.inbox import Event, ViewChange
from precedes.live.member import records
from precedes.live.member.effects import FRAME_BYTES
from precedes.live.member.node import Node
from precedes.live.member.output import Batch, Message
from precedes.live.transfer import State, check_state
from precedes.model import NANOSECONDS_PER_S

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from typing_extensions import Buffer

    from precedes.live.prometheus import Exposed

T = TypeVar("T")

# A message, or its name.
Name: TypeAlias = Message | tuple[int, int]

# At the end, for the last frames: also over connections that have just broken.
FLUSH_S: Final = 2.0


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on uvloop's event loop where it is installed."""
    new_loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def _to_bytes(payload: Buffer) -> bytes:
    """The bytes of a buffer: its ``len`` may count something else."""
    if type(payload) is bytes:
        return payload
    try:
        return memoryview(payload).tobytes()
    except TypeError:
        kind = type(payload).__name__
        raise TypeError(f"a payload is bytes or another buffer, not {kind}") from None


class Group:
    """One member of a group; make it with ``Group.open``."""

    def __init__(
        self,
        config: Config,
        *,
        state: State | None = None,
        listener: socket.socket | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.config = config
        self._driver = driver = Driver(config, state)
        self.metrics = driver.metrics
        self._listener = listener
        self._registry = registry
        self._exposed: Exposed | None = None
        self._is_used = False
        self._arrival_s: float | None = None  # how long the end waits for the last frames
        self._ending: asyncio.Task[None] | None = None
        self._is_leaving = False  # without waiting for others to finish

    @classmethod
    def open(
        cls,
        config: Config,
        *,
        state: State | None = None,
        listener: socket.socket | None = None,
        registry: CollectorRegistry | None = None,
    ) -> Self:
        """A member to be entered with ``async with``.

        With a ``state``, messages go to its ``apply``, and a member that joins begins with the
        state of another one. Either all members of a group have a state, or none. ``listener`` is a
        socket that listens already, instead of the member's own address; ``registry`` one of
        ``prometheus_client`` that exposes the group's metrics while it is open.
        """
        if registry is not None and not callable(getattr(registry, "register", None)):
            raise UserError(f"a registry is one of prometheus_client, not {registry!r}")
        if state is not None:
            check_state(state)
        return cls(config, state=state, listener=listener, registry=registry)

    async def __aenter__(self) -> Self:
        if self._is_used:
            raise GroupClosed("a group is entered once: open another one")
        self._is_used = True
        driver = self._driver
        await driver.tier.prepare()
        driver.open(self._listener)
        try:
            try:
                await driver.links.listen()
            except OSError as error:
                text = f"cannot listen at {self.config.listening}: {error.strerror or error}"
                raise UserError(text) from None
            if self.config.metrics is not None or self._registry is not None:
                from precedes.live.prometheus import Exposed

                self._exposed = Exposed(driver, self._registry)
                if self.config.metrics is not None:
                    await self._exposed.serve(self.config.metrics)
            driver.tend()
            await driver.wait_for_view()
        except BaseException:
            await self._close()
            raise
        driver.enter()
        return self

    @property
    def member(self) -> int:
        """The number of this member; -1 for one that joins and is not in a view yet."""
        return self._driver.member

    def name_of(self, member: int) -> str:
        """The name of a member, also of a former one, by its number."""
        try:
            return self._driver.names[member]
        except KeyError:
            raise UserError(f"there is no member {member!r}") from None

    @property
    def _node(self) -> Node:
        return self._driver.node

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port of metrics and health, with the chosen port for port 0."""
        return None if self._exposed is None else self._exposed.address

    async def broadcast(
        self,
        payload: Buffer,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - nothing is sent when it expires
    ) -> tuple[int, int]:
        """Broadcast a message, after waiting for credit; return its name (member, sequence).

        Without credit some member has not consumed a whole window of messages: ``slow`` decides
        what happens then. Broadcasts that wait are served in order. The payload is bytes, or any
        other buffer, of which the bytes are sent. A state has the message when this returns.
        TimeoutError if there is no credit within ``timeout`` seconds: nothing was broadcast then.
        """
        data = self._read_payload(payload)
        if timeout is not None and not timeout >= 0:
            raise UserError(f"timeout must be a number of seconds, or None, not {timeout!r}")
        if self._node.waiting_bytes >= FRAME_BYTES:
            await asyncio.sleep(0)  # a loop of broadcasts lets other tasks run
        if not self._may_send() or self._driver.senders:
            try:
                async with asyncio.timeout(timeout):
                    await self._wait_for_credit()
            except TimeoutError:
                raise TimeoutError(f"waited {timeout:g} s: {self._why_not()}") from None
        name = self._broadcast(data)
        while self._driver.state is not None and self._driver.applied < name[1]:
            self._driver.raise_error()
            if self._driver.is_over:
                break
            await self._driver.changed.wait()
        return name

    def broadcast_threadsafe(
        self, payload: Buffer, *, timeout: float | None = None
    ) -> concurrent.futures.Future[tuple[int, int]]:
        """Broadcast from another thread, as ``broadcast`` does; ``result()`` waits for the name.

        Two calls of which the first has no result yet may change places.
        """
        data = self._read_payload(payload)
        if not self._driver.is_entered:
            self._driver.check_entered()
        sending = self.broadcast(data, timeout=timeout)
        try:
            return asyncio.run_coroutine_threadsafe(sending, self._driver.loop)
        except RuntimeError:
            sending.close()
            raise GroupClosed("the event loop of the group has ended") from None

    def broadcast_nowait(self, payload: Buffer) -> tuple[int, int]:
        """Broadcast a message, or raise WouldBlock if there is no credit."""
        data = self._read_payload(payload)
        if not self._may_send():
            raise WouldBlock(self._why_not())
        return self._broadcast(data)

    async def broadcast_many(self, payloads: Sequence[Buffer]) -> tuple[int, int]:
        """Broadcast messages in this order, as with ``broadcast``; return the name of the last.

        As many at once as there is credit for, in a fraction of the time that single ones take. If
        it ends early, cancelled or with an error, ``broadcast_count`` of that exception says how
        many were sent (after ``asyncio.timeout`` it is the cause of the TimeoutError).
        """
        data = cast(list[bytes], list(payloads))
        if set(map(type, data)) != {bytes}:
            data = list(map(_to_bytes, data))
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
                if not self._may_send() or self._driver.senders:
                    await self._wait_for_credit()
                # Less the credit of broadcasts that were woken and have not run yet.
                free = max(self._driver.credit - self._driver.senders.woken, 1)
                batch = data[done : done + min(free, at_once)]
                name = self.member, self._driver.sequence_of(self._node.broadcast_many(batch))
                done += len(batch)
                self._driver.schedule()
        except BaseException as error:
            # No exception of its own: asyncio has to see its CancelledError again.
            error.broadcast_count = done  # type: ignore[attr-defined]
            error.add_note(f"{done} of {len(data)} messages were broadcast")
            raise
        return name

    def _read_payload(self, payload: Buffer) -> bytes:
        data = _to_bytes(payload)
        self._check_size(len(data))
        return data

    def _check_size(self, size_bytes: int) -> None:
        limit = self.config.payload_max_bytes
        if size_bytes > limit:
            raise UserError(f"a payload has at most {limit} bytes, not {size_bytes}")

    @property
    def credit(self) -> int:
        """Number of messages that may be broadcast now without waiting, within ``window_bytes``."""
        return self._driver.credit

    def _why_not(self) -> str:
        """Reason for the missing credit."""
        if missing := self.blocked:
            return f"no quorum of the view: {', '.join(missing)} cannot be reached"
        if self._driver.is_changing:
            return "the view is changing"
        if self._driver.membership.is_learner:
            return "the state of the group has not arrived"
        return f"no credit: member {self.laggard} has not consumed enough messages"

    def _may_send(self) -> bool:
        """Return whether there is credit; raise if there will be none any more."""
        driver = self._driver
        if not driver.is_entered or driver.thread != get_ident():
            driver.check_entered()
        if driver.error is not None:
            driver.raise_error()
        if driver.is_over or driver.is_finishing:
            raise GroupClosed("the group is closed, or finish() was called")
        if driver.credit > 0:
            return True
        if driver.is_spent:
            raise UserError(
                f"this member has broadcast {records.SEQUENCE_MAX} messages, all that have a "
                "number: finish this group, and go on in a new one with another name"
            )
        return False

    def _broadcast(self, payload: bytes) -> tuple[int, int]:
        driver = self._driver
        sequence = driver.sequence_of(self._node.broadcast(payload))
        if not driver.is_scheduled:
            driver.schedule()
        return self.member, sequence

    async def _wait_for_credit(self) -> None:
        """Wait until a message may be sent; ``slow`` applies after a time without progress."""
        config, driver, began_ns = self.config, self._driver, time.monotonic_ns()
        place = driver.begin_wait()
        try:
            while not self._may_send() or not place.done():
                if place.done():  # broadcast_nowait was faster
                    driver.senders.leave(place)
                    place = driver.senders.join(first=True)
                if config.slow == "block":
                    await place
                    continue
                since_ns = max(began_ns, driver.last_progress_ns)
                waited_s = (time.monotonic_ns() - since_ns) / NANOSECONDS_PER_S
                if waited_s >= config.slow_after_s and not driver.is_changing:
                    raise SlowMember(self.laggard, waited_s)  # with ``echo`` maybe this one
                await asyncio.wait([place], timeout=max(config.slow_after_s - waited_s, TICK_S))
        finally:
            driver.end_wait(place)

    @property
    def laggard(self) -> int:
        """The member that has consumed the fewest of this member's messages, as far as is known."""
        return self._driver.laggard

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._driver.inbox.messages()

    def batches(self) -> AsyncIterator[Batch]:
        """Messages as they are delivered, many at once: the fastest way."""
        return self._driver.inbox.batches()

    def on_message(self, callback: Callable[[Message], object]) -> None:
        """Pass every message to a function as soon as it is delivered.

        Not to an ``async`` one: nothing would bound the number of its pending calls. Exceptions of
        the function are counted, and logged at a limited rate.
        """
        self._driver.check_thread()
        self._driver.inbox.add_callback(callback)

    def events(self) -> AsyncIterator[Event]:
        """Events of the group: members that leave or are excluded, gaps, errors."""
        self._driver.check_thread()
        return self._driver.events.listen()

    def views(self) -> AsyncIterator[ViewChange]:
        """The view, and from now on each that follows it."""
        self._driver.check_entered()
        view = self._driver.view
        assert view is not None
        return self._driver.views.listen(self._driver.view_change(view))

    @property
    def view(self) -> list[int]:
        """The members that take part, this one included."""
        return self._driver.members

    @property
    def blocked(self) -> tuple[str, ...]:
        """Names of the members that are missing for a quorum; empty while there is one.

        Without a quorum nothing is broadcast or delivered, until enough of them are back.
        """
        return self._driver.membership.blocked if self._driver.is_open else ()

    def missing(self) -> list[Missing]:
        """The messages that wait here, oldest first, with what each of them lacks."""
        return self._driver.missing()

    def missing_links(self) -> list[int]:
        """Members in the view without a connection at the moment."""
        return self._driver.missing_links()

    def lags(self) -> dict[int, int]:
        """For each link that was used, bytes that its other side has not acknowledged."""
        return self._driver.lags()

    def counts(self) -> dict[str, int]:
        """The counters of this member."""
        return self._driver.counts()

    @property
    def tier(self) -> str:
        """The tier of this member at the moment: "interpreted" or "compiled"."""
        return "compiled" if self._driver.tier.is_compiled else "interpreted"

    @property
    def is_finished(self) -> bool:
        """Return whether all in the view have finished and everything is delivered."""
        return self._driver.is_finished

    @property
    def is_over(self) -> bool:
        """Return whether this member has left the group."""
        return self._driver.is_over

    @property
    def error(self) -> PrecedesError | None:
        """The error that has stopped this member, or None."""
        return self._driver.error

    async def stable(self, message: Name) -> None:
        """Wait until every member in the view has consumed the message.

        At a change of the view, all messages that its members have delivered are stable.
        """
        driver = self._driver
        driver.check_entered()
        source, sequence = self._read_name(message)
        while driver.stable(source) < sequence:
            driver.raise_error()
            if driver.is_over or source not in driver.members:
                raise GroupLost(f"whether all have {source}:{sequence} cannot be known any more")
            await driver.changed.wait()

    def happened_before(self, first: Name, second: Name) -> bool:
        """Return whether the first message is in the causal past of the second, by its clock.

        If neither happened before the other, they are concurrent. The clock of a message is kept
        from its arrival until every member has consumed it: in a callback, and up to the first
        ``await`` after an iteration has handed it out, it is always there.
        """
        self._driver.check_entered()
        earlier, later = self._read_name(first), self._read_name(second)
        if self._node.protocol.happened_before is None:
            raise UserError(
                f"the clock of protocol {self._node.protocol.name} does not order any two "
                "messages: use protocol vector"
            )
        is_before = self._driver.happened_before(earlier, later)
        if is_before is None:
            raise UserError(
                f"the clock of message {later[0]}:{later[1]} is not here: it is kept from its "
                "arrival until every member has consumed it"
            )
        return is_before

    def _read_name(self, message: Name) -> tuple[int, int]:
        """Parse the name of a message; UserError if it is not a valid one."""
        try:
            name = message[:2] if isinstance(message, Message) else message
            source, sequence = map(operator.index, name)
        except (TypeError, ValueError):
            source = sequence = -1
        if not (source in self._driver.names and 1 <= sequence <= records.SEQUENCE_MAX):
            raise UserError(f"a message is named (member, sequence), from 0 and 1, not {message!r}")
        if source == self.member and sequence > self._driver.broadcasts:
            raise UserError(f"message {source}:{sequence} has not been broadcast")
        return source, sequence

    async def finish(self) -> None:
        """Announce that nothing more will be broadcast here; iterations end when all have."""
        self._driver.check_entered()
        self._driver.finish()

    async def leave(self) -> None:
        """Leave the group now, losing nothing: the end of the block does nothing more.

        Others have consumed the messages of this member, within ``drain_s``, and go on without it
        in the next view. Iterations and callbacks get what comes until then. Unlike the end of the
        block it does not wait for others to finish.
        """
        self._driver.check_entered()
        self._is_leaving = True
        self._driver.changed.notify()
        await self._end()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self._end()
        elif self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        elif not self._driver.is_over:
            await self._close()

    async def _end(self) -> None:
        """Drain and close, in one task for all that wait for it; a caller's cancel cancels it."""
        if self._ending is None:
            if self._driver.is_over:
                return
            self._ending = asyncio.create_task(self._drain_and_close())
        elif self._ending.done():
            return
        await self._ending
        self._driver.raise_error()

    async def _drain_and_close(self) -> None:
        try:
            if self._driver.error is None:
                await self._drain()
        finally:
            await self._close()

    async def _drain(self) -> None:
        """Wait until all have consumed the own messages, then a little for the others."""
        driver = self._driver
        await asyncio.sleep(0)  # a task that was just made to iterate begins to
        driver.inbox.discard()
        await self.finish()
        ends: list[tuple[float, Callable[[], bool]]] = [
            (self.config.drain_s, lambda: driver.node.is_consumed_by_all),
            (self.config.linger_s, lambda: driver.is_finished or self._is_leaving),
        ]
        for limit_s, is_done in ends:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    while not is_done() and driver.error is None:
                        await driver.changed.wait()
        if driver.is_finished:
            await self._await_arrival()
        elif driver.error is None:
            await driver.depart(max(self.config.linger_s, FLUSH_S))

    async def _close(self) -> None:
        """Leave at once, then let the last frames arrive: may be cancelled at any point."""
        driver = self._driver
        try:
            try:
                driver.leave()
            finally:
                if self._exposed is not None:
                    self._exposed.close()
            await self._await_arrival()
        finally:
            driver.links.close()
        await driver.wait_closed()

    async def _await_arrival(self) -> None:
        """Wait until everything that was sent has arrived, at most ``FLUSH_S`` in total."""
        driver, now_s = self._driver, asyncio.get_running_loop().time()
        links, silent_s = driver.links, self.config.evict_after_s
        if self._arrival_s is None:
            self._arrival_s = now_s + FLUSH_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._arrival_s):
                while driver.error is None and not links.is_flushed:
                    links.tend(silent_s)
                    await asyncio.sleep(0.005)
        links.tend(silent_s)
