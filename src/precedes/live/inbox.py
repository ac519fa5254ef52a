"""What a member has delivered and its application has not taken yet."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable

from precedes.live.bell import Bell
from precedes.live.member.node import Node
from precedes.live.member.output import Batch, Message
from precedes.live.metrics import Metrics

log = logging.getLogger("precedes.live")


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class Inbox:
    """Messages in the order of their delivery, for iterations or callbacks.

    Windows bound it: what is not taken here, its sender gets no credit for. ``on_taken`` hears how
    many were taken; ``is_at_end`` says that nothing will follow, or raises why.
    """

    def __init__(
        self,
        node: Node,
        metrics: Metrics,
        *,
        on_taken: Callable[[int], None],
        is_at_end: Callable[[], bool],
    ) -> None:
        self.news = Bell()  # something was delivered, or the group is over
        self._node = node
        self._metrics = metrics
        self._on_taken = on_taken
        self._is_at_end = is_at_end
        self._queue: deque[Batch] = deque()
        self._callbacks: list[Callable[[Message], object]] = []

    def __len__(self) -> int:
        return sum(map(len, self._queue))

    def put(self, batches: list[Batch]) -> None:
        """Messages were delivered."""
        for batch in batches:
            self._metrics.delivered += len(batch)
            self._queue.append(batch)
        if self._callbacks:
            self._call_back()
        if self._queue:
            self.news.ring()

    async def messages(self) -> AsyncIterator[Message]:
        """Messages one by one."""
        while self._queue or await self._has_messages():
            yield self._pop()

    async def batches(self) -> AsyncIterator[Batch]:
        """Messages as they were delivered together."""
        while self._queue or await self._has_messages():
            yield self._take_batch()

    async def _has_messages(self) -> bool:
        """Wait for messages; False when there will be none any more."""
        while not self._queue:
            if self._is_at_end():
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
        self._callbacks.append(callback)
        self._call_back()

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
        self._metrics.callback_failures += 1
        if self._metrics.may_log(self._node.settings.member, "callback"):
            name = f"{message.sender}:{message.sequence}"
            failures = self._metrics.callback_failures
            log.exception("a callback failed on %s, failure %d so far", name, failures)
