"""The start of a member: it waits until it has met all of its neighbours.

Tests for crashes begin only afterwards: until then a lost connection has to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from precedes.live.driver import TEND_EVERY_S, Driver
from precedes.live.errors import GroupLost


async def wait_for_neighbours(driver: Driver) -> None:
    """Wait until each has been met; who is evicted meanwhile is no neighbour any more.

    GroupLost if somebody has not come within ``start_s``.
    """
    start_s, attached = driver.config.start_s, driver.links.attached
    missing: list[int] = []
    lost_s: dict[int, float] = {}
    try:
        async with asyncio.timeout(start_s):
            while missing := _find_missing(driver):
                _evict_lost(driver, lost_s)
                attached.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TEND_EVERY_S):
                        await attached.wait()
                driver.raise_error()
    except TimeoutError:
        names = ", ".join(map(str, missing))
        raise GroupLost(f"member {names} did not come within {start_s:g} s") from None


def _find_missing(driver: Driver) -> list[int]:
    """The neighbours that have never been met; a connection is wanted from now on."""
    links = driver.links
    missing = [peer for peer in driver.node.neighbours() if not links.link(peer).life]
    for peer in missing:
        links.want(peer)
    return missing


def _evict_lost(driver: Driver, lost_s: dict[int, float]) -> None:
    """Evict who was met and has had no connection for long; ``lost_s`` says since when."""
    links, now_s = driver.links, time.monotonic()
    if driver.is_late(time.monotonic_ns()):
        lost_s.clear()  # it is this member that was away
    for peer, link in links.links.items():
        if peer in links.connections or not link.life or driver.is_gone(peer):
            lost_s.pop(peer, None)
        elif now_s - lost_s.setdefault(peer, now_s) > driver.config.evict_after_s:
            driver.evict(peer)
