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
    from precedes.live.core import Core

LABELS: Final = ("group", "member")


@dataclass(frozen=True)
class Metric:
    """One metric; ``read`` gives a number or None, with a label a number for each of its values."""

    name: str
    help: str
    read: Callable[[Core], Any]
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
    return Metric(name, text, lambda group: group.counts()[place or name], is_counter)


def _links(values: Callable[[Core], Mapping[int, int]]) -> Callable[[Core], dict[str, int]]:
    return lambda group: {str(peer): value for peer, value in values(group).items()}


METRICS: Final = (
    _counted("broadcasts", "Messages broadcast by this member."),
    Metric("delivered", "Messages handed to the application.", lambda g: g.metrics.delivered, True),
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
        lambda g: g.metrics.oldest_s,
    ),
    _counted("messages_kept", "Messages in memory, also those kept for others.", is_counter=False),
    _counted("stable", "Own messages that all members have taken.", is_counter=False),
    Metric(
        "stability_lag",
        "Own messages that some member has not taken.",
        lambda g: g.counts()["broadcasts"] - g.counts()["stable"],
    ),
    Metric(
        "blocked_seconds",
        "Time spent waiting for credit.",
        lambda g: g.metrics.blocked_s,
        True,
    ),
    Metric("members", "Members in the view, this one included.", lambda g: len(g.view)),
    Metric(
        "links_missing",
        "Neighbours in the view without a connection.",
        lambda g: len(g.missing_links()),
    ),
    Metric("ready", "Whether this member takes part.", lambda g: health(g).status != "live"),
    Metric(
        "degraded",
        "Whether it takes part and something is wrong; /health says what.",
        lambda g: health(g).status == "degraded",
    ),
    Metric(
        "certificate_expiry_seconds",
        "Time until the certificate expires, with security.",
        lambda g: g.credentials.left_s,
    ),
    Metric("trace_failed", "Whether tracing has stopped.", lambda g: g.metrics.trace_failed),
    Metric("evictions", "Members evicted from the view.", lambda g: g.metrics.evictions, True),
    Metric(
        "disconnections",
        "Connections to members that broke.",
        lambda g: g.metrics.disconnections,
        True,
    ),
    Metric(
        "damaged",
        "Connections given up because bytes had changed on the way.",
        lambda g: g.metrics.damaged,
        True,
    ),
    Metric(
        "callback_failures",
        "Exceptions of the application's callbacks.",
        lambda g: g.metrics.callback_failures,
        True,
    ),
    Metric(
        "refused",
        "What was refused, by reason.",
        lambda g: dict(g.metrics.refusals),
        True,
        label="reason",
    ),
    Metric(
        "peer_unacknowledged_bytes",
        "Bytes on the way to each peer.",
        _links(lambda g: g.lags()),
        label="peer",
    ),
)


class Collector:
    """What a registry asks for the metrics of all groups that are open."""

    def __init__(self) -> None:
        self.groups: list[Core] = []

    def describe(self) -> list[Any]:
        """The metrics without values: their names are taken from now on."""
        return [metric.family() for metric in METRICS]

    def collect(self) -> Iterator[Any]:
        """All metrics as they are now."""
        for metric in METRICS:
            family = metric.family()
            for group in list(self.groups):
                for labels, value in _samples(metric, group):
                    family.add_metric(labels, value)
            yield family


def _samples(metric: Metric, group: Core) -> Iterable[tuple[list[str], float]]:
    labels = [group.config.name, str(group.member)]
    value = metric.read(group)
    if metric.label is None:
        return [] if value is None else [(labels, float(value))]
    return [([*labels, key], float(number)) for key, number in sorted(value.items())]


_collectors: Final[WeakKeyDictionary[Any, Collector]] = WeakKeyDictionary()


def new_registry() -> Any:
    """A registry for a group that was given none."""
    return CollectorRegistry()


def register(registry: Any, group: Core) -> None:
    """Have a registry expose the group's metrics too."""
    collector = _collectors.get(registry)
    if collector is None:
        collector = Collector()
        try:
            registry.register(collector)
        except ValueError as error:
            raise UserError(f"the registry has metrics of these names already: {error}") from None
        _collectors[registry] = collector
    collector.groups.append(group)


def unregister(registry: Any, group: Core) -> None:
    """The group is over; nothing happens if it was not there."""
    collector = _collectors.get(registry)
    if collector is None or group not in collector.groups:
        return
    collector.groups.remove(group)
    if not collector.groups:
        registry.unregister(_collectors.pop(registry))


def exposition(registry: Any) -> bytes:
    """All that a registry has, as text."""
    text: bytes = generate_latest(registry)
    return text
