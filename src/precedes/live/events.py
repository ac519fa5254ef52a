"""Events of a group, for whoever listens; a slow listener loses the oldest, never memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

KEPT_MAX: Final = 1000


class Event(NamedTuple):
    """Something that happened to the group.

    ``kind`` is evicted, left, slow, gap, refused, trace or lost; ``member`` whom it is about.
    """

    kind: str
    member: int
    text: str


class Events:
    """Hands every event to every listener."""

    def __init__(self) -> None:
        self._listeners: list[deque[Event]] = []
        self._news = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Something has happened."""
        for queue in self._listeners:
            queue.append(event)
        self._news.set()

    def close(self) -> None:
        """Nothing more will happen."""
        self._closed = True
        self._news.set()

    def listen(self) -> AsyncIterator[Event]:
        """Everything that happens from now on, until the group is closed."""
        queue: deque[Event] = deque(maxlen=KEPT_MAX)
        self._listeners.append(queue)
        return self._iterate(queue)

    async def _iterate(self, queue: deque[Event]) -> AsyncIterator[Event]:
        try:
            while True:
                while queue:
                    yield queue.popleft()
                if self._closed:
                    return
                self._news.clear()
                await self._news.wait()
        finally:
            self._listeners = [other for other in self._listeners if other is not queue]
