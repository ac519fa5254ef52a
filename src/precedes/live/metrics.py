"""Metrics in the text format of Prometheus, and health, over a very small HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from precedes.live.config import split_address
from precedes.live.seldom import Seldom

if TYPE_CHECKING:
    from precedes.live.config import Config
    from precedes.live.group import Group

REQUEST_BYTES_MAX: Final = 8192
REQUEST_S: Final = 5.0
# Reasons that are told apart; all further ones are counted together.
DIFFERENT_MAX: Final = 64

GAUGES: Final = frozenset(
    {"pending", "pending_max", "pending_bytes", "messages_kept", "stable", "trace_failed"}
)


class Metrics:
    """What the group counts beside the compiled step."""

    def __init__(self, config: Config) -> None:
        self.labels = f'group="{_escaped(config.name)}",member="{config.member}"'
        self.ready = False
        self.trace_failed = False
        self.delivered = 0
        self.evictions = 0
        self.disconnections = 0
        self.damaged = 0
        self.blocked_s = 0.0
        self.oldest_s = 0.0
        self.refusals: Counter[str] = Counter()
        self._logged = Seldom()

    def count_refusal(self, reason: str) -> None:
        """Somebody was refused."""
        known = reason in self.refusals or len(self.refusals) < DIFFERENT_MAX
        self.refusals[reason if known else "other"] += 1

    def may_log(self, peer: int | None, where: str) -> bool:
        """Whether to log a line about this peer: not too often for each."""
        place = (peer, "" if peer is None else where)
        return self._logged.lets(place, now_s=time.monotonic())


def health(group: Group) -> str:
    """``ready``, ``degraded`` (it works, but something is wrong) or ``live`` (not ready)."""
    if not group.metrics.ready:
        return "live"
    wrong = (
        group.metrics.trace_failed
        or group.credentials.is_late
        or any(group.missing_links())
        or group.metrics.oldest_s > group.config.gap_after_s
    )
    return "degraded" if wrong else "ready"


def exposition(group: Group) -> str:
    """All metrics as text."""
    metrics = group.metrics
    values: dict[str, float] = {
        **group.counts(),
        "delivered": metrics.delivered,
        "evictions": metrics.evictions,
        "disconnections": metrics.disconnections,
        "damaged": metrics.damaged,
        "blocked_seconds": metrics.blocked_s,
        "trace_failed": metrics.trace_failed,
    }
    gauges = {
        "oldest_pending_seconds": metrics.oldest_s,
        "stability_lag": values["broadcasts"] - values["stable"],
        "members": len(group.view),
        "ready": metrics.ready,
    }
    if (left_s := group.credentials.left_s) is not None:
        gauges["certificate_expiry_seconds"] = left_s
    lines = []
    for name, value in {**values, **gauges}.items():
        is_gauge = name in GAUGES or name in gauges
        full = f"precedes_{name}" + ("" if is_gauge else "_total")
        lines.append(f"# TYPE {full} {'gauge' if is_gauge else 'counter'}")
        lines.append(f"{full}{{{metrics.labels}}} {float(value):g}")
    lines += _by_label("refused_total", "counter", "reason", metrics.refusals, metrics.labels)
    lags = {str(peer): lag for peer, lag in group.lags().items()}
    lines += _by_label("peer_unacknowledged_bytes", "gauge", "peer", lags, metrics.labels)
    return "\n".join(lines) + "\n"


def _by_label(
    name: str, kind: str, label: str, values: dict[str, int] | Counter[str], labels: str
) -> list[str]:
    rows = [
        f'precedes_{name}{{{labels},{label}="{_escaped(key)}"}} {value:g}'
        for key, value in sorted(values.items())
    ]
    return [f"# TYPE precedes_{name} {kind}", *rows]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


async def serve(group: Group, address: str) -> asyncio.Server:
    """Serve ``/metrics`` and ``/health``; nothing else, and nothing is read but the first line."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError, ValueError):
            async with asyncio.timeout(REQUEST_S):
                request = await reader.readline()
                status, text = _respond(group, request)
                body = text.encode()
                head = (
                    f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        writer.close()

    host, port = split_address(address)
    return await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)


def _respond(group: Group, request: bytes) -> tuple[str, str]:
    words = request.split()
    path = words[1] if len(words) > 1 and words[0] == b"GET" else b""
    if path == b"/metrics":
        return "200 OK", exposition(group)
    if path == b"/health":
        found = health(group)
        return ("503 Service Unavailable" if found == "live" else "200 OK"), found + "\n"
    return "404 Not Found", "try /metrics or /health\n"
