"""The metrics of groups for Prometheus, and a small HTTP server for metrics and health.

Needs ``prometheus_client``. Metrics are read when they are requested. All groups of one registry
share a collector, since a name may be exposed once; the labels ``group`` and ``member`` tell them
apart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from precedes.errors import UserError
from precedes.live.metrics import health
from precedes.live.net.links import split_address

if TYPE_CHECKING:
    from precedes.live.driver import Driver

LABELS: Final = ("group", "member")
REQUEST_BYTES_MAX: Final = 8192
REQUEST_S: Final = 5.0
# Connections that are open at once; another one closes the oldest, which is idle or slow.
REQUESTS_MAX: Final = 64
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """One metric; ``read`` gives a number or None, with a label a number for each of its values."""

    name: str
    help: str
    read: Callable[[Driver], Any]
    is_counter: bool = False
    label: str | None = None

    def family(self) -> Any:
        """The metric without any samples."""
        kind = CounterMetricFamily if self.is_counter else GaugeMetricFamily
        labels = (*LABELS, self.label) if self.label else LABELS
        return kind(f"precedes_{self.name}", self.help, labels=labels)

    @property
    def full_name(self) -> str:
        """The name as it is exposed."""
        return f"precedes_{self.name}" + ("_total" if self.is_counter else "")


def _in_step(name: str, text: str, *, is_counter: bool = True) -> Metric:
    """A metric that the compiled step counts under this name."""
    return Metric(name, text, lambda driver: driver.node.counts()[name], is_counter)


def _in_group(name: str, text: str, *, is_counter: bool = True) -> Metric:
    """A metric that ``Metrics`` counts under this name."""
    return Metric(name, text, lambda driver: getattr(driver.metrics, name), is_counter)


METRICS: Final = (
    _in_step("broadcasts", "Messages broadcast by this member."),
    _in_group("delivered", "Messages handed to the application."),
    _in_step("received", "Messages that came from others."),
    _in_step("dropped", "Messages that the protocol dropped: duplicates, or dead with a sender."),
    _in_step("duplicates", "Relayed messages that had come before."),
    _in_step("relayed", "Messages of lost members passed on to others."),
    _in_step("routed", "Packets passed on between members without a link."),
    _in_step("packets_sent", "Packets sent to single members."),
    _in_step("packets_sent_to_all", "Packets sent to all members."),
    _in_step("pending", "Messages that wait for others.", is_counter=False),
    _in_step("pending_max", "Most messages that ever waited.", is_counter=False),
    _in_step("pending_bytes", "Bytes of the messages that wait.", is_counter=False),
    Metric(
        "oldest_pending_seconds",
        "How long the oldest message has waited.",
        lambda d: d.metrics.oldest_s,
    ),
    _in_step("messages_kept", "Messages in memory, also those kept for others.", is_counter=False),
    _in_step("stable", "Own messages that all members have taken.", is_counter=False),
    Metric(
        "stability_lag",
        "Own messages that some member has not taken.",
        lambda d: d.node.counts()["broadcasts"] - d.node.counts()["stable"],
    ),
    Metric(
        "blocked_seconds",
        "Time in which some broadcast waited for credit.",
        lambda d: d.metrics.blocked_s,
        True,
    ),
    Metric("members", "Members in the view, this one included.", lambda d: len(d.node.view)),
    Metric(
        "links_missing",
        "Neighbours in the view without a connection.",
        lambda d: len(d.missing_links()),
    ),
    Metric(
        "compiled", "Whether this member takes its steps compiled.", lambda d: d.tier.is_compiled
    ),
    Metric("ready", "Whether this member takes part.", lambda d: health(d).status != "live"),
    Metric(
        "degraded",
        "Whether it takes part and something is wrong; /health says what.",
        lambda d: health(d).status == "degraded",
    ),
    Metric(
        "certificate_expiry_seconds",
        "Time until the certificate expires, with security.",
        lambda d: d.links.credentials.left_s,
    ),
    _in_group("trace_failed", "Whether tracing has stopped.", is_counter=False),
    _in_group("evictions", "Members evicted from the view."),
    _in_group("disconnections", "Connections to members that broke."),
    _in_group("damaged", "Connections given up because bytes had changed on the way."),
    _in_group("callback_failures", "Exceptions of the application's callbacks."),
    Metric("refused", "What was refused, by reason.", lambda d: d.metrics.refusals, True, "reason"),
    Metric(
        "peer_unacknowledged_bytes",
        "Bytes on the way to each peer.",
        lambda d: d.lags(),
        label="peer",
    ),
)


class _Collector:
    """Gives a registry the metrics of all groups that are open."""

    def __init__(self) -> None:
        self.drivers: list[Driver] = []

    def describe(self) -> list[Any]:
        """The metrics without values: their names are reserved from now on."""
        return [metric.family() for metric in METRICS]

    def collect(self) -> Iterator[Any]:
        """All metrics with their current values."""
        for metric in METRICS:
            family = metric.family()
            for driver in list(self.drivers):
                labels, value = [driver.config.name, str(driver.member)], metric.read(driver)
                if metric.label is not None:
                    for key, number in sorted((str(key), one) for key, one in value.items()):
                        family.add_metric([*labels, key], float(number))
                elif value is not None:
                    family.add_metric(labels, float(value))
            yield family


_collectors: Final[WeakKeyDictionary[Any, _Collector]] = WeakKeyDictionary()


class Exposed:
    """The metrics of one group in a registry, and over HTTP where there is an address."""

    def __init__(self, driver: Driver, registry: Any = None) -> None:
        self._driver = driver
        self._registry = CollectorRegistry() if registry is None else registry
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}  # of open connections, oldest first
        if self._registry not in _collectors:
            collector = _Collector()
            try:
                self._registry.register(collector)
            except ValueError as error:
                text = f"the registry has metrics of these names already: {error}"
                raise UserError(text) from None
            _collectors[self._registry] = collector
        _collectors[self._registry].drivers.append(driver)

    async def serve(self, address: str) -> None:
        """Serve ``/metrics`` and ``/health``; nothing is read but the first line of a request."""
        host, port = split_address(address)
        try:
            self._server = await asyncio.start_server(
                self._answer, host, port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            text = f"cannot serve metrics at {address}: {error.strerror or error}"
            raise UserError(text) from None

    @property
    def address(self) -> tuple[str, int] | None:
        """Where metrics and health are served: host, and the port that was chosen for port 0."""
        if self._server is None or not self._server.sockets:
            return None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def text(self) -> bytes:
        """All that the registry has."""
        return bytes(generate_latest(self._registry))

    def close(self) -> None:
        """The group is over."""
        if self._server is not None:
            self._server.close()
        drivers = _collectors[self._registry].drivers
        drivers.remove(self._driver)
        if not drivers:
            self._registry.unregister(_collectors.pop(self._registry))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        path = target.partition(b"?")[0]
        status, body, more = "404 Not Found", b"try /metrics or /health\n", ""
        if method not in (b"GET", b"HEAD"):
            status, body = "405 Method Not Allowed", b"use GET or HEAD\n"
            more = "Allow: GET, HEAD\r\n"
        elif path == b"/metrics":
            status, body = "200 OK", self.text()
        elif path == b"/health":
            word, wrong = health(self._driver)
            status = "503 Service Unavailable" if word == "live" else "200 OK"
            body = "".join(f"{line}\n" for line in (word, *wrong)).encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {TEXT_TYPE}\r\n"
            f"{more}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == b"HEAD" else body)
