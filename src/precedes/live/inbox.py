"""What a member has delivered and its application has not taken yet."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from precedes.live.bell import Bell
from precedes.live.errors import GroupClosed
from precedes.live.member.node import Node
from precedes.live.member.output import Batch, Message
from precedes.live.metrics import Metrics

log = logging.getLogger("precedes.live")


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class Inbox:
    """Messages in the order of their delivery, for iterations or callbacks.

    Windows bound it: what is not taken here, its sender gets no credit for. ``on_taken`` hears how
    many were taken; ``check_caller`` raises if the application may not iterate; ``is_at_end`` says
    that nothing will follow, or raises why.
    """

    def __init__(
        self,
        node: Node,
        metrics: Metrics,
        *,
        on_taken: Callable[[int], None],
        check_caller: Callable[[], None],
        is_at_end: Callable[[], bool],
    ) -> None:
        self.news = Bell()  # something was delivered, or the group is over
        self._node = node
        self._metrics = metrics
        self._on_taken = on_taken
        self._check_caller = check_caller
        self._is_at_end = is_at_end
        self._queue: deque[Batch] = deque()
        self._callbacks: tuple[Callable[[Message], object], ...] = ()
        self._iterations = 0  # that have begun and not ended
        self._is_leaving = self._is_handing_out = False
        self._discarded = 0

    def __len__(self) -> int:
        return sum(map(len, self._queue))

    def put(self, batches: list[Batch]) -> None:
        """Messages were delivered."""
        for batch in batches:
            self._metrics.delivered += len(batch)
            self._queue.append(batch)
        if self._callbacks or self._is_leaving:
            self._hand_out()
        if self._queue:
            self.news.ring()

    async def messages(self) -> AsyncIterator[Message]:
        """Messages one by one."""
        with self._iterating():
            while self._queue or await self._has_messages():
                yield self._pop()

    async def batches(self) -> AsyncIterator[Batch]:
        """Messages as they were delivered together."""
        with self._iterating():
            while self._queue or await self._has_messages():
                yield self._take_batch()

    @contextlib.contextmanager
    def _iterating(self) -> Iterator[None]:
        self._check_caller()
        self._iterations += 1
        try:
            yield
        finally:
            self._iterations -= 1
            self._hand_out()

    def discard(self) -> None:
        """From now on, discard messages that neither an iteration nor a callback takes."""
        self._is_leaving = True
        self._hand_out()

    async def _has_messages(self) -> bool:
        """Wait for messages; False when there will be none any more."""
        while not self._queue:
            if self._is_at_end():
                if self._discarded:
                    raise GroupClosed(
                        f"{self._discarded} messages were discarded on leaving the group, since "
                        "nothing iterated over it: iterate before the end of 'async with'"
                    )
                return False
            await self.news.wait()
        return True

    def _pop(self) -> Message:
        message = self._queue[0].pop()
        if not self._queue[0]:
            self._queue.popleft()
        self._node.take(message.sender, 1)
        self._on_taken(1)
        return message

    def _take_batch(self) -> Batch:
        batch = self._queue.popleft()
        self._node.take_batch(batch)
        self._on_taken(len(batch))
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
        """Hand messages to the callbacks; a callback may add another, for the next message on."""
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
        try:
            result = callback(message)
            if result is not None and inspect.iscoroutine(result):
                result.close()
                raise TypeError("it returned a coroutine, which nobody awaits")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # also CancelledError: no task of ours is cancelled here
            self._on_callback_failed(message)

    def _on_callback_failed(self, message: Message) -> None:
        """Log the exception at hand, not that of every message."""
        self._metrics.callback_failures += 1
        if self._metrics.may_log(self._node.settings.member, "callback"):
            name = f"{message.sender}:{message.sequence}"
            failures = self._metrics.callback_failures
            log.exception("a callback failed on %s, failure %d so far", name, failures)
