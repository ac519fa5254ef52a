"""A small HTTP server for what a process shows of itself: metrics, health, a live page.

It answers GET and HEAD for a few paths, one request a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

REQUEST_BYTES_MAX: Final = 8192
REQUEST_S: Final = 5.0
# Connections that are open at once; another one closes the oldest, which is idle or slow.
REQUESTS_MAX: Final = 64
PLAIN: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """Response for a path."""

    body: bytes
    type: str = PLAIN
    status: str = "200 OK"


class HttpServer:
    """Serves paths; nothing is read but the first line of a request."""

    def __init__(self, paths: Mapping[bytes, Callable[[], Answer]]) -> None:
        self._paths = paths
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}  # of open connections, oldest first

    async def start(self, host: str | None = None, port: int | None = None, **more: Any) -> None:
        """Listen at an address, or with ``sock`` on a socket; an OSError if that cannot be."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=REQUEST_BYTES_MAX, **more
        )

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port; the port that was chosen for port 0."""
        if self._server is None or not self._server.sockets:
            return None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._writers) >= REQUESTS_MAX:
            oldest = next(iter(self._writers))
            del self._writers[oldest]
            oldest.transport.abort()
        self._writers[writer] = None
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError, ValueError):
                async with asyncio.timeout(REQUEST_S):
                    if request := await reader.readline():
                        writer.write(self._respond(request))
                        await writer.drain()
        finally:
            self._writers.pop(writer, None)
            writer.close()

    def _respond(self, request: bytes) -> bytes:
        method, target = (*request.split(), b"", b"")[:2]
        handler, more = self._paths.get(target.partition(b"?")[0]), ""
        if method not in (b"GET", b"HEAD"):
            answer = Answer(b"use GET or HEAD\n", status="405 Method Not Allowed")
            more = "Allow: GET, HEAD\r\n"
        elif handler is None:
            known = " or ".join(path.decode() for path in self._paths)
            answer = Answer(f"try {known}\n".encode(), status="404 Not Found")
        else:
            answer = handler()
        head = (
            f"HTTP/1.1 {answer.status}\r\nContent-Type: {answer.type}\r\n"
            f"{more}Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == b"HEAD" else answer.body)
