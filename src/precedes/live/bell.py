"""Waiting for something to happen, with less to do than ``asyncio.Event``: no state is kept."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes all who wait when it rings; who begins to wait later waits for the next time."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

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
        # Who was cancelled while waiting must not stay here until it rings.
        self._waiting = [other for other in self._waiting if not other.done()]
        self._waiting.append(future)
        return future
