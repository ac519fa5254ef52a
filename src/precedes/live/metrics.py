"""What a group counts, how it is, and a very small HTTP server that tells both."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from precedes.live.net.address import split_address
from precedes.live.seldom import Seldom
from precedes.model import NANOSECONDS_PER_S

if TYPE_CHECKING:
    from precedes.live.driver import Driver

REQUEST_BYTES_MAX: Final = 8192
REQUEST_S: Final = 5.0
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Connections that are open at once; another one closes the oldest, which is idle or slow.
REQUESTS_MAX: Final = 64


class Metrics:
    """What the group counts beside the compiled step."""

    def __init__(self) -> None:
        self.ready = False
        self.trace_failed = False
        self.delivered = 0
        self.evictions = 0
        self.disconnections = 0
        self.damaged = 0
        self.callback_failures = 0
        self.blocked_since_ns: int | None = None  # when the wait for credit under way began
        self._blocked_ns = 0  # in waits that have ended
        self.oldest_s = 0.0
        self.refusals: Counter[str] = Counter()  # by reason, of which there is a fixed set
        self._logged = Seldom()

    @property
    def blocked_s(self) -> float:
        """Time in which some broadcast waited for credit, the wait under way included."""
        since_ns, now_ns = self.blocked_since_ns, time.monotonic_ns()
        under_way_ns = 0 if since_ns is None else now_ns - since_ns
        return (self._blocked_ns + under_way_ns) / NANOSECONDS_PER_S

    def end_block(self) -> None:
        """No broadcast waits for credit any more."""
        assert self.blocked_since_ns is not None
        self._blocked_ns += time.monotonic_ns() - self.blocked_since_ns
        self.blocked_since_ns = None

    def may_log(self, peer: int | None, where: str) -> bool:
        """Whether to log a line about this peer: not too often for each."""
        place = (peer, "" if peer is None else where)
        return self._logged.lets(place, now_s=time.monotonic())


class Health(NamedTuple):
    """``ready``, ``degraded`` (it works, but something is wrong) or ``live`` (not ready)."""

    status: str
    wrong: list[str]  # a line for each

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (self.status, *self.wrong))


def health(driver: Driver) -> Health:
    """How the member is; ready means that all members are in the view and all links are there.

    A view that has lost members works, but the next loss may end the group.
    """
    if (error := driver.error) is not None:
        return Health("live", [str(error)])
    if not driver.metrics.ready:
        return Health("live", ["it is starting, or has ended"])
    wrong = [f"no connection to member {peer}" for peer in driver.missing_links()]
    wrong += [f"member {who} is out of the view" for who in driver.node.lost]
    if driver.metrics.trace_failed:
        wrong.append("tracing has stopped")
    if driver.links.credentials.is_late:
        wrong.append("the certificate expires soon")
    if driver.metrics.oldest_s > driver.config.gap_after_s:
        wrong.append(f"a message has waited for {driver.metrics.oldest_s:.1f} s")
    if (stalled_s := driver.stalled_s) > driver.config.gap_after_s:
        who = driver.node.laggard
        wrong.append(f"broadcasts have waited for {stalled_s:.1f} s: member {who} holds them back")
    return Health("degraded" if wrong else "ready", wrong)


async def serve(driver: Driver, address: str, expose: Callable[[], bytes]) -> asyncio.Server:
    """Serve ``/metrics`` and ``/health``; nothing else, and nothing is read but the first line."""
    writers: dict[asyncio.StreamWriter, None] = {}  # of open connections, oldest first

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(writers) >= REQUESTS_MAX:
            oldest = next(iter(writers))
            del writers[oldest]
            oldest.transport.abort()
        writers[writer] = None
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError, ValueError):
                async with asyncio.timeout(REQUEST_S):
                    if request := await reader.readline():
                        writer.write(_respond(driver, expose, request))
                        await writer.drain()
        finally:
            writers.pop(writer, None)
            writer.close()

    host, port = split_address(address)
    return await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)


def _respond(driver: Driver, expose: Callable[[], bytes], request: bytes) -> bytes:
    method, target = (*request.split(), b"", b"")[:2]
    path = target.partition(b"?")[0]
    status, body, more = "404 Not Found", b"try /metrics or /health\n", ""
    if method not in (b"GET", b"HEAD"):
        status, body, more = "405 Method Not Allowed", b"use GET or HEAD\n", "Allow: GET, HEAD\r\n"
    elif path == b"/metrics":
        status, body = "200 OK", expose()
    elif path == b"/health":
        found = health(driver)
        status = "503 Service Unavailable" if found.status == "live" else "200 OK"
        body = str(found).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {TEXT_TYPE}\r\n"
        f"{more}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
