"""A member's output to its application: messages in the order of their delivery, and events."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from precedes.errors import UserError
from precedes.live.errors import GroupClosed
from precedes.live.member.output import Batch, Message

if TYPE_CHECKING:
    from precedes.live.driver import Driver

log = logging.getLogger("precedes.live")

T = TypeVar("T")

EVENTS_MAX: Final = 1000  # that wait for one listener; a slow one loses the oldest


class Signal(asyncio.Event):
    """Wakes all tasks that wait for it; those that begin to wait later wait for the next time."""

    def notify(self) -> None:
        """Wake the tasks that wait now."""
        self.set()
        self.clear()


class Event(NamedTuple):
    """Something that happened to the group.

    ``kind`` is joined, excluded, left, blocked, disconnected, gap, refused, trace or lost;
    ``member`` is the member that it is about.
    """

    kind: str
    member: int
    text: str


class ViewChange(NamedTuple):
    """A view of the group, and what is different from the one before.

    ``members`` are names by numbers, ``voters`` those that count for a quorum: a member that joins
    votes once it has the group's state. Members that ``left`` have lost nothing; of those that are
    ``lost``, messages that nobody had delivered are.
    """

    epoch: int
    members: Mapping[int, str]
    voters: tuple[int, ...]
    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


class Events(Generic[T]):
    """Passes every event to every listener; one that the application has dropped is removed."""

    def __init__(self) -> None:
        self.listeners: WeakSet[_Listener[T]] = WeakSet()
        self.news = Signal()
        self.is_closed = False

    def put(self, event: T) -> None:
        """Pass an event to all listeners."""
        for listener in self.listeners:
            listener.queue.append(event)
        self.news.notify()

    def close(self) -> None:
        """End all iterations: there will be no more events."""
        self.is_closed = True
        self.news.notify()

    def listen(self, *first: T) -> AsyncIterator[T]:
        """These, and all events from now on, until the group is closed."""
        return _Listener(self, first)


class _Listener(AsyncIterator[T]):
    """Events since it was created."""

    def __init__(self, events: Events[T], first: Iterable[T]) -> None:
        self.queue: deque[T] = deque(first, maxlen=EVENTS_MAX)
        self._events = events
        events.listeners.add(self)

    async def __anext__(self) -> T:
        while not self.queue:
            if self._events.is_closed:
                raise StopAsyncIteration
            await self._events.news.wait()
        return self.queue.popleft()


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class Inbox:
    """Delivered messages that the application has not consumed, for iterations or callbacks.

    Windows bound it: a sender gets no credit for messages that are not consumed here.
    """

    def __init__(self, driver: Driver) -> None:
        self.news = Signal()  # something was delivered, or the group is over
        self._driver = driver
        self._metrics = driver.metrics
        self._queue: deque[Batch] = deque()
        self._callbacks: tuple[Callable[[Message], object], ...] = ()
        self._iterations = 0  # running iterations
        self._is_leaving = self._is_handing_out = False
        self._discarded = 0

    def __len__(self) -> int:
        return sum(map(len, self._queue))

    def put(self, batches: list[Batch]) -> None:
        """Add delivered messages."""
        for batch in batches:
            self._metrics.delivered += len(batch)
            self._queue.append(batch)
        if self._callbacks or self._is_leaving:
            self._hand_out()
        if self._queue:
            self.news.notify()

    def put_applied(self, batch: Batch) -> None:
        """Pass messages that the state has consumed to the callbacks."""
        self._metrics.delivered += len(batch)
        if self._callbacks:
            for message in batch:
                for callback in self._callbacks:
                    self._call_back(callback, message)

    async def messages(self) -> AsyncIterator[Message]:
        """Messages one by one."""
        with self._iterating():
            while self._queue or await self._has_messages():
                batch = self._queue[0]
                message = batch.pop()
                if not batch:
                    self._queue.popleft()
                self._driver.consume(batch, message)
                self._driver.on_consumed(1)
                yield message

    async def batches(self) -> AsyncIterator[Batch]:
        """Messages as they were delivered together."""
        with self._iterating():
            while self._queue or await self._has_messages():
                yield self._take_batch()

    @contextlib.contextmanager
    def _iterating(self) -> Iterator[None]:
        self._driver.check_entered()
        if self._driver.state is not None:
            raise UserError(
                "the messages of a group with a state go to its apply: use on_message to see them"
            )
        self._iterations += 1
        try:
            yield
        finally:
            self._iterations -= 1
            self._hand_out()

    def discard(self) -> None:
        """From now on, discard messages that neither an iteration nor a callback consumes."""
        self._is_leaving = True
        self._hand_out()

    async def _has_messages(self) -> bool:
        """Wait for messages; False when there will be none any more."""
        while not self._queue:
            if self._driver.is_at_end():
                if self._discarded:
                    raise GroupClosed(
                        f"{self._discarded} messages were discarded on leaving the group, since "
                        "nothing iterated over it: iterate before the end of 'async with'"
                    )
                return False
            await self.news.wait()
        return True

    def _take_batch(self) -> Batch:
        batch = self._queue.popleft()
        self._driver.consume(batch)
        self._driver.on_consumed(len(batch))
        return batch

    def add_callback(self, callback: Callable[[Message], object]) -> None:
        """As ``Group.on_message``."""
        called = getattr(callback, "__call__", None)  # noqa: B004 - an object may have an async one
        if called is None or any(map(_is_async, (callback, called))):
            raise TypeError(
                f"on_message takes a plain function, not {callback!r}: iterate over the group to "
                "await something for each message"
            )
        self._callbacks = (*self._callbacks, callback)
        self._hand_out()

    def _hand_out(self) -> None:
        """Pass messages to the callbacks; a callback may add another, for the next message on."""
        if self._is_handing_out:
            return
        self._is_handing_out = True
        try:
            while self._queue and self._callbacks:
                for message in self._take_batch():
                    for callback in self._callbacks:
                        self._call_back(callback, message)
            while self._queue and self._is_leaving and not self._iterations:
                self._discarded += len(self._take_batch())
        finally:
            self._is_handing_out = False

    def _call_back(self, callback: Callable[[Message], object], message: Message) -> None:
        """Call it; if it fails, count and log the exception, and continue."""
        try:
            result = callback(message)
            if result is not None and inspect.iscoroutine(result):
                result.close()
                raise TypeError("it returned a coroutine, which nobody awaits")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # also CancelledError: no task of ours is cancelled here
            self._metrics.callback_failures += 1
            if self._metrics.may_log(self._driver.member, "callback"):
                name, failures = message[:2], self._metrics.callback_failures
                log.exception("a callback failed on %d:%d, failure %d so far", *name, failures)
