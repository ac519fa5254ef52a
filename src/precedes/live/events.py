"""Events of a group, for whoever listens; a slow listener loses the oldest, never memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from weakref import WeakSet

from precedes.live.bell import Bell

KEPT_MAX: Final = 1000


class Event(NamedTuple):
    """Something that happened to the group.

    ``kind`` is evicted, left, slow, blocked, disconnected, gap, refused, trace or lost; ``member``
    whom it is about.
    """

    kind: str
    member: int
    text: str


class Events:
    """Hands every event to every listener; one that the application has dropped is forgotten."""

    def __init__(self) -> None:
        self.listeners: WeakSet[Listener] = WeakSet()
        self.news = Bell()
        self.is_closed = False

    def put(self, event: Event) -> None:
        """Something has happened."""
        for listener in self.listeners:
            listener.queue.append(event)
        self.news.ring()

    def close(self) -> None:
        """Nothing more will happen."""
        self.is_closed = True
        self.news.ring()

    def listen(self) -> AsyncIterator[Event]:
        """Everything that happens from now on, until the group is closed."""
        return Listener(self)


class Listener(AsyncIterator[Event]):
    """Events from when it was made."""

    def __init__(self, events: Events) -> None:
        self.queue: deque[Event] = deque(maxlen=KEPT_MAX)
        self._events = events
        events.listeners.add(self)

    async def __anext__(self) -> Event:
        while not self.queue:
            if self._events.is_closed:
                raise StopAsyncIteration
            await self._events.news.wait()
        return self.queue.popleft()
