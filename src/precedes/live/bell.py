"""Waiting for something to happen, with less to do than ``asyncio.Event``: no state is kept."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

FEW: Final = 16  # futures that are kept in any case


class Bell:
    """Wakes all who wait when it rings; who begins to wait later waits for the next time."""

    __slots__ = ("_kept_max", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._kept_max = FEW

    def ring(self) -> None:
        """Wake all who wait now."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        """What to await; no other task runs between this call and the first look at it."""
        future = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= self._kept_max:
            # Who was cancelled while waiting must not stay here until it rings. Looking for those
            # only when the list has doubled costs a constant for each call.
            self._waiting = [other for other in self._waiting if not other.done()]
            self._kept_max = max(FEW, 2 * len(self._waiting))
        self._waiting.append(future)
        return future


class WaitQueue:
    """Queue of tasks that are woken in the order in which they joined, each of them once.

    ``join`` gives a place to await, which ``leave`` has to give back, whatever happens.
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
