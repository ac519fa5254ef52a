"""The metrics of groups for Prometheus: read when they are asked for, never before.

Needs ``prometheus_client``. All groups of one registry share a collector, since a name may be
exposed once; the labels ``group`` and ``member`` tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from precedes.errors import UserError
from precedes.live.metrics import health

if TYPE_CHECKING:
    from precedes.live.driver import Driver

LABELS: Final = ("group", "member")


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


def _counted(name: str, text: str, *, is_counter: bool = True, place: str = "") -> Metric:
    """A metric that the compiled step counts under this or another name."""
    return Metric(name, text, lambda driver: driver.node.counts()[place or name], is_counter)


def _links(values: Callable[[Driver], Mapping[int, int]]) -> Callable[[Driver], dict[str, int]]:
    return lambda driver: {str(peer): value for peer, value in values(driver).items()}


METRICS: Final = (
    _counted("broadcasts", "Messages broadcast by this member."),
    Metric("delivered", "Messages handed to the application.", lambda d: d.metrics.delivered, True),
    _counted("received", "Messages that came from others."),
    _counted("dropped", "Messages that the protocol dropped: duplicates, or dead with a sender."),
    _counted("duplicates", "Relayed messages that had come before."),
    _counted("relayed", "Messages of lost members passed on to others."),
    _counted("routed", "Packets passed on between members without a link."),
    _counted("packets_sent", "Packets sent to single members."),
    _counted("packets_sent_to_all", "Packets sent to all members."),
    _counted("pending", "Messages that wait for others.", is_counter=False),
    _counted("pending_max", "Most messages that ever waited.", is_counter=False),
    _counted("pending_bytes", "Bytes of the messages that wait.", is_counter=False),
    Metric(
        "oldest_pending_seconds",
        "How long the oldest message has waited.",
        lambda d: d.metrics.oldest_s,
    ),
    _counted("messages_kept", "Messages in memory, also those kept for others.", is_counter=False),
    _counted("stable", "Own messages that all members have taken.", is_counter=False),
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
    Metric("trace_failed", "Whether tracing has stopped.", lambda d: d.metrics.trace_failed),
    Metric("evictions", "Members evicted from the view.", lambda d: d.metrics.evictions, True),
    Metric(
        "disconnections",
        "Connections to members that broke.",
        lambda d: d.metrics.disconnections,
        True,
    ),
    Metric(
        "damaged",
        "Connections given up because bytes had changed on the way.",
        lambda d: d.metrics.damaged,
        True,
    ),
    Metric(
        "callback_failures",
        "Exceptions of the application's callbacks.",
        lambda d: d.metrics.callback_failures,
        True,
    ),
    Metric(
        "refused",
        "What was refused, by reason.",
        lambda d: dict(d.metrics.refusals),
        True,
        label="reason",
    ),
    Metric(
        "peer_unacknowledged_bytes",
        "Bytes on the way to each peer.",
        _links(lambda d: d.lags()),
        label="peer",
    ),
)


class Collector:
    """What a registry asks for the metrics of all groups that are open."""

    def __init__(self) -> None:
        self.drivers: list[Driver] = []

    def describe(self) -> list[Any]:
        """The metrics without values: their names are taken from now on."""
        return [metric.family() for metric in METRICS]

    def collect(self) -> Iterator[Any]:
        """All metrics as they are now."""
        for metric in METRICS:
            family = metric.family()
            for driver in list(self.drivers):
                for labels, value in _samples(metric, driver):
                    family.add_metric(labels, value)
            yield family


def _samples(metric: Metric, driver: Driver) -> Iterable[tuple[list[str], float]]:
    labels = [driver.config.name, str(driver.member)]
    value = metric.read(driver)
    if metric.label is None:
        return [] if value is None else [(labels, float(value))]
    return [([*labels, key], float(number)) for key, number in sorted(value.items())]


_collectors: Final[WeakKeyDictionary[Any, Collector]] = WeakKeyDictionary()


def new_registry() -> Any:
    """A registry for a group that was given none."""
    return CollectorRegistry()


def register(registry: Any, driver: Driver) -> None:
    """Have a registry expose the group's metrics too."""
    collector = _collectors.get(registry)
    if collector is None:
        collector = Collector()
        try:
            registry.register(collector)
        except ValueError as error:
            raise UserError(f"the registry has metrics of these names already: {error}") from None
        _collectors[registry] = collector
    collector.drivers.append(driver)


def unregister(registry: Any, driver: Driver) -> None:
    """The group is over; nothing happens if it was not there."""
    collector = _collectors.get(registry)
    if collector is None or driver not in collector.drivers:
        return
    collector.drivers.remove(driver)
    if not collector.drivers:
        registry.unregister(_collectors.pop(registry))


def exposition(registry: Any) -> bytes:
    """All that a registry has, as text."""
    text: bytes = generate_latest(registry)
    return text
