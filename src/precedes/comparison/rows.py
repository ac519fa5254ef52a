"""The measurements of a protocol under a load: one row of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from precedes.comparison.candidates import Candidate
from precedes.intervals import wilson
from precedes.pipeline.directory import Record

PACKET_STEP_BYTES: Final = 100  # of ``Result.packets_by_bytes``
PACKET_STEPS: Final = 15
# The costs of a delivery, by the names in ``Row`` and ``Point``.
COSTS: Final = ("bytes_per_delivery", "packets_per_delivery", "latency_p99_ms")


@dataclass(frozen=True)
class Errors:
    """Deliveries out of causal order by the audit, and the 95 % interval of their share."""

    verdict: str  # of all runs: violated if one is, unknown if one is not judged
    violations: int
    messages: int  # distinct ones with a violation
    deliveries: int  # that were judged
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Crash:
    """The effect of a crash in the middle of a broadcast on the others."""

    lost: int  # deliveries of survivors' messages at survivors that are missing
    due: int
    violations: int  # of order, by the audit

    @property
    def share_lost(self) -> float:
        """The share of the expected deliveries."""
        return self.lost / max(self.due, 1)

    @property
    def is_harmless(self) -> bool:
        """Return whether survivors miss nothing, and deliver it in order."""
        return self.lost == 0 and self.violations == 0

    def __str__(self) -> str:
        order = f", {self.violations:,} out of order" if self.violations else ""
        if self.lost == 0:
            return f"nothing lost{order}"
        return f"{percent(self.share_lost)} lost{order}"


@dataclass(frozen=True)
class Point:
    """The cost of a delivery in a group of some size."""

    nodes: int
    bytes_per_delivery: float
    packets_per_delivery: float
    latency_p99_ms: float


@dataclass(frozen=True)
class Row:
    """A protocol under the load; None where nothing was delivered, or the value is unknown."""

    label: str
    protocol: str
    parameters: Mapping[str, Any]
    guarantee: str
    runs: int
    broadcasts: int
    deliveries: int
    lost: int
    errors: Errors
    latency_p50_ms: float | None  # mean over runs of each run's own
    latency_p99_ms: float | None
    wait_ms: float | None  # mean time from reception to delivery
    bytes_per_delivery: float | None
    packets_per_delivery: float | None
    largest_packet_bytes: int | None  # rounded up to 100; None: more than 1,500
    pending_messages: int  # at a node at most
    pending_bytes: float | None  # of these messages, at their mean size
    # The least of the runs, in the simulator; None if one of them was not compiled throughout.
    cpu_us_per_delivery: float | None
    crash: Crash | None
    points: tuple[Point, ...]
    exponents: Mapping[str, float]
    histogram: tuple[tuple[int, int, int], ...] = field(repr=False)  # low_us, high_us, deliveries
    trace: str | None = None

    @property
    def parameters_text(self) -> str:
        """The parameters as ``NAME=VALUE``, by name."""
        return " ".join(f"{name}={value}" for name, value in sorted(self.parameters.items()))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without the places of traces."""
        row = asdict(self)
        del row["trace"], row["histogram"]
        row["crash"] = None if self.crash is None else {**row["crash"], "text": str(self.crash)}
        return row


def percent(share: float, *, digits: int = 2) -> str:
    """A share with significant digits, never as a power of ten."""
    value = 100 * share
    decimals = max(digits - 1 - math.floor(math.log10(value)), 0) if value > 0 else 0
    return f"{value:.{decimals}f} %" if value else "0"


def power(exponent: float) -> str:
    """An exponent in two digits; minus zero is zero."""
    return f"{round(exponent, 2) + 0.0:.2f}"


def _errors_of(records: Sequence[Record]) -> Errors:
    """The errors of all audits of runs together.

    Errors come in clusters: one early delivery is out of order at many nodes at once.
    The interval is that of correspondingly fewer deliveries, by the mean size of a cluster.
    """
    audits = [record["audit"] for record in records]
    violations = sum(audit["violations"] for audit in audits)
    messages = sum(audit["violating_messages"] for audit in audits)
    deliveries = sum(audit["deliveries"] for audit in audits)
    verdicts = {audit["verdict"] for audit in audits}
    verdict = next((one for one in ("violated", "unknown") if one in verdicts), "held")
    if deliveries == 0:
        return Errors("unknown", violations, messages, 0, None, None, None)
    cluster = max(violations / messages, 1.0) if messages else 1.0
    low, high = wilson(violations / cluster, deliveries / cluster)
    return Errors(verdict, violations, messages, deliveries, violations / deliveries, low, high)


def row_of(
    candidate: Candidate,
    records: Sequence[Record],
    *,
    crash: Record | None,
    others: Mapping[int, Record],
    trace: str | None,
) -> Row:
    """The row of finished runs; ``others`` are runs of other sizes of the group, by nodes."""
    results = [record["result"] for record in records]
    deliveries = sum(result["deliveries"] for result in results)
    lost = sum(result["lost"] or 0 for result in results)
    nodes = results[0]["nodes"]
    measured = [record["measures"]["latency_us"] for record in records]
    here = _point(nodes, results)
    points = [_point(size, [record["result"]]) for size, record in others.items()]
    known = tuple(sorted((p for p in (here, *points) if p), key=lambda point: point.nodes))
    sent = sum(result["messages_sent"] for result in results)
    pending = max(result["pending_max"] for result in results)
    message_bytes = sum(result["bytes_sent"] for result in results) / sent if sent else None
    is_compiled = all(one["tier"] == "compiled" for one in results)
    cpu = [1e6 * one["cpu_s"] / one["deliveries"] for one in results if one["deliveries"]]
    return Row(
        label=candidate.label,
        protocol=candidate.protocol,
        parameters=dict(candidate.parameters),
        guarantee=candidate.guarantee,
        runs=len(records),
        broadcasts=sum(result["broadcasts"] for result in results),
        deliveries=deliveries,
        lost=lost,
        errors=_errors_of(records),
        latency_p50_ms=_mean_ms([one["p50"] for one in measured]),
        latency_p99_ms=_mean_ms([one["p99"] for one in measured]),
        wait_ms=None if lost else _wait_ms(results),
        bytes_per_delivery=here.bytes_per_delivery if here else None,
        packets_per_delivery=here.packets_per_delivery if here else None,
        largest_packet_bytes=_largest_packet(results),
        pending_messages=pending,
        pending_bytes=None if message_bytes is None else pending * message_bytes,
        cpu_us_per_delivery=min(cpu, default=None) if is_compiled else None,
        crash=None if crash is None else _crash_of(crash),
        points=known,
        exponents={name: _exponent(known, name) for name in COSTS} if len(known) > 1 else {},
        histogram=_added([record["measures"]["latency_histogram"] for record in records]),
        trace=trace,
    )


def _mean_ms(values_us: Sequence[float | None]) -> float | None:
    known = [value for value in values_us if value is not None]
    return sum(known) / len(known) / 1000 if known else None


def _point(nodes: int, results: Sequence[Mapping[str, Any]]) -> Point | None:
    deliveries = sum(result["deliveries"] for result in results)
    latency = [result["latency"]["p99"] for result in results]
    if deliveries == 0 or None in latency:
        return None
    return Point(
        nodes=nodes,
        bytes_per_delivery=sum(result["bytes_sent"] for result in results) / deliveries,
        packets_per_delivery=sum(result["packets"] for result in results) / deliveries,
        latency_p99_ms=sum(latency) / len(latency),
    )


def _wait_ms(results: Sequence[Mapping[str, Any]]) -> float | None:
    """Delivery less reception: means over the same messages, since nothing is lost."""
    pairs = [
        (result["latency"]["delivery_mean"], result["latency"]["reception_mean"])
        for result in results
    ]
    if any(None in pair for pair in pairs):
        return None
    return max(sum(delivered - received for delivered, received in pairs) / len(pairs), 0.0)


def _largest_packet(results: Sequence[Mapping[str, Any]]) -> int | None:
    steps = max(len(result["packets_by_bytes"]) for result in results)
    return steps * PACKET_STEP_BYTES if steps <= PACKET_STEPS else None


def _crash_of(record: Record) -> Crash:
    """The losses among the survivors in runs with crashes."""
    result, scenario = record["result"], record["result"]["scenario"]
    gone = {fault["node"] for fault in scenario["faults"] if fault["kind"] == "crash"}
    alive = result["nodes"] - len(gone)
    due = result["broadcasts"] * alive * (alive - 1) // result["nodes"]
    violations = record["audit"]["violations"]
    return Crash(lost=result["lost"] or 0, due=due, violations=violations)


def _exponent(points: Sequence[Point], name: str) -> float:
    """The slope of the least-squares line through the logarithms: cost ~ nodes^exponent."""
    xs = [math.log(point.nodes) for point in points]
    ys = [math.log(max(getattr(point, name), 1e-12)) for point in points]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    top = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return top / sum((x - x_mean) ** 2 for x in xs)


def _added(histograms: Sequence[Sequence[Sequence[int]]]) -> tuple[tuple[int, int, int], ...]:
    total: dict[tuple[int, int], int] = {}
    for histogram in histograms:
        for low, high, count in histogram:
            total[low, high] = total.get((low, high), 0) + count
    return tuple((low, high, count) for (low, high), count in sorted(total.items()))
