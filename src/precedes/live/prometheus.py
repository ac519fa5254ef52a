"""The metrics of groups for Prometheus, and over HTTP together with health.

Needs ``prometheus_client``. Metrics are read when they are requested. All groups of one registry
share a collector, since a name may be exposed once; the labels ``group`` and ``member`` distinguish
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from precedes.errors import UserError
from precedes.live.http import Answer, HttpServer
from precedes.live.metrics import health
from precedes.live.net.discovery import split_address
from precedes.live.status import PATH, status_of

if TYPE_CHECKING:
    from precedes.live.driver import Driver

LABELS: Final = ("group", "member")
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
    return Metric(name, text, lambda driver: driver.counts()[name], is_counter)


def _in_group(name: str, text: str, *, is_counter: bool = True) -> Metric:
    """A metric that ``Metrics`` counts under this name."""
    return Metric(name, text, lambda driver: getattr(driver.metrics, name), is_counter)


METRICS: Final = (
    _in_step("broadcasts", "Messages broadcast by this member."),
    _in_group("delivered", "Messages delivered to the application."),
    _in_step("received", "Messages received from others."),
    _in_step("dropped", "Messages that the protocol dropped: duplicates, or dead with a sender."),
    _in_step("packets_sent", "Packets sent to single members."),
    _in_step("packets_sent_to_all", "Packets sent to all members."),
    _in_step("pending", "Messages that wait for their past.", is_counter=False),
    _in_step("pending_max", "Maximum of messages that waited at a time.", is_counter=False),
    _in_step("pending_bytes", "Bytes of waiting messages.", is_counter=False),
    Metric(
        "oldest_pending_seconds",
        "How long the oldest message has waited.",
        lambda d: d.metrics.oldest_s,
    ),
    _in_step("messages_kept", "Messages in memory, also those kept for others.", is_counter=False),
    _in_step("stable", "Own messages that all members have consumed.", is_counter=False),
    Metric(
        "stability_lag",
        "Own messages that some member has not consumed.",
        lambda d: d.counts()["broadcasts"] - d.counts()["stable"],
    ),
    Metric(
        "blocked_seconds",
        "Time in which some broadcast waited for credit.",
        lambda d: d.metrics.blocked_s,
        True,
    ),
    Metric("members", "Members in the view, this one included.", lambda d: len(d.members)),
    Metric(
        "epoch", "Number of the view, 0 before the first.", lambda d: d.view.epoch if d.view else 0
    ),
    Metric(
        "learners",
        "Members in the view without a vote: the state of the group has not arrived there.",
        lambda d: len(d.view.uids - d.view.voters) if d.view else 0,
    ),
    Metric(
        "votes_missing",
        "Members that are missing for a quorum of the view, 0 while there is one.",
        lambda d: len(d.membership.blocked) if d.is_open else 0,
    ),
    Metric(
        "links_missing",
        "Members in the view without a connection.",
        lambda d: len(d.missing_links()),
    ),
    Metric(
        "compiled", "Whether this member takes its steps compiled.", lambda d: d.tier.is_compiled
    ),
    Metric("ready", "Whether this member takes part.", lambda d: health(d).status != "live"),
    Metric(
        "degraded",
        "Whether it takes part with a problem; see /health.",
        lambda d: health(d).status == "degraded",
    ),
    Metric(
        "certificate_expiry_seconds",
        "Time until the certificate expires, with security.",
        lambda d: d.links.credentials.left_s,
    ),
    _in_group("trace_failed", "Whether tracing has stopped.", is_counter=False),
    _in_group("evictions", "Members excluded from the view."),
    _in_group("joins", "Members that joined after this one."),
    _in_group("disconnections", "Connections to members that broke."),
    _in_group("damaged", "Connections closed because of a checksum mismatch."),
    _in_group("callback_failures", "Exceptions of the application's callbacks."),
    Metric("refused", "Refused input, by reason.", lambda d: d.metrics.refusals, True, "reason"),
    Metric(
        "peer_unacknowledged_bytes",
        "Bytes in flight to each peer.",
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
        self._server: HttpServer | None = None
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
        """Serve ``/metrics``, ``/health`` and ``/members``."""
        host, port = split_address(address)
        self._server = HttpServer(
            {
                b"/metrics": lambda: Answer(self.text(), TEXT_TYPE),
                b"/health": self._health,
                PATH.encode(): self._members,
            }
        )
        try:
            await self._server.start(host, port)
        except OSError as error:
            text = f"cannot serve metrics at {address}: {error.strerror or error}"
            raise UserError(text) from None

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of metrics and health, with the chosen port for port 0."""
        return None if self._server is None else self._server.address

    def text(self) -> bytes:
        """All metrics of the registry as text."""
        return bytes(generate_latest(self._registry))

    def close(self) -> None:
        """Close: the group is over."""
        if self._server is not None:
            self._server.close()
        drivers = _collectors[self._registry].drivers
        drivers.remove(self._driver)
        if not drivers:
            self._registry.unregister(_collectors.pop(self._registry))

    def _health(self) -> Answer:
        word, wrong = health(self._driver)
        body = "".join(f"{line}\n" for line in (word, *wrong)).encode()
        status = "503 Service Unavailable" if word == "live" else "200 OK"
        return Answer(body, TEXT_TYPE, status)

    def _members(self) -> Answer:
        body = json.dumps(status_of(self._driver), indent=2) + "\n"
        return Answer(body.encode(), "application/json")
