"""What a run yields: counts, errors, latencies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Latency:
    """Milliseconds from a broadcast to its receptions and deliveries; None: there were none."""

    reception_mean: float | None
    delivery_mean: float | None
    p50: float | None
    p99: float | None


@dataclass(frozen=True)
class Violations:
    """Deliveries out of causal order, and distinct messages with one: papers count either."""

    deliveries: int
    messages: int


@dataclass(frozen=True)
class Result:
    """The outcome of a run; ``as_dict`` is what ``simulate --json`` prints."""

    protocol: str
    nodes: int
    seed: int
    broadcasts: int
    deliveries: int
    packets: int
    messages_sent: int
    packets_by_messages: list[int]  # packets that carry 0, 1, 2, .. messages; the last: or more
    packets_by_bytes: list[int]  # packets of up to 100, 200, .. bytes; the last: of more than 1,500
    nodes_by_largest_packet: list[int]  # nodes whose largest packet had 0, 1, 2, .. messages
    bytes_sent: int
    violations: Violations | None  # None: the oracle was off
    lost: int | None  # None: without the oracle, repeated packets cannot be told from new ones
    duplicates: int | None
    pending_max: int
    pending_at_end: int
    latency: Latency
    cpu_s: float
    wall_s: float
    simulated_s: float
    complete: bool  # the run came to rest by itself
    extra: dict[str, float]
    series: dict[str, list[float]]  # what is measured in every 10 s; the 64th: or later
    scenario: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def to_text(result: Result) -> str:
    """A run in a few lines."""
    latency = result.latency
    lost = "unknown number" if result.lost is None else f"{result.lost:,}"
    lines = [
        f"{result.protocol}: {result.nodes} nodes, seed {result.seed}, "
        f"{result.simulated_s:.1f} s simulated",
        f"broadcasts  {result.broadcasts:,}",
        f"deliveries  {result.deliveries:,} ({lost} lost)",
        f"packets     {result.packets:,} carrying {result.messages_sent:,} messages, "
        f"{result.bytes_sent:,} bytes",
    ]
    if result.violations is None:
        lines.append("violations  not counted (--no-oracle)")
    else:
        lines.append(
            f"violations  {result.violations.deliveries:,} deliveries of "
            f"{result.violations.messages:,} messages, {result.duplicates:,} duplicates"
        )
    if latency.delivery_mean is not None:
        received = latency.reception_mean
        lines.append(
            f"latency     {'' if received is None else f'{received:.2f} ms to receive, '}"
            f"{latency.delivery_mean:.2f} ms to deliver (p50 {latency.p50:.2f}, "
            f"p99 {latency.p99:.2f})"
        )
    lines.append(f"pending     at most {result.pending_max:,} at a node")
    lines.append(f"time        {result.cpu_s:.2f} s of CPU")
    return "\n".join(lines)
