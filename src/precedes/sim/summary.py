"""Sums up the world of a run as a result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precedes import contract
from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S
from precedes.registry import Protocol
from precedes.sim.engine import layout, queue
from precedes.sim.engine.world import FOR_EVER_NS, World, latency_percentile_ms
from precedes.sim.result import Latency, Result, Violations
from precedes.sim.scenario import Scenario


def sum_up(
    world: World,
    state: Any,
    *,
    scenario: Scenario,
    protocol: Protocol,
    echo: dict[str, Any],
    tier: str,
    cpu_s: float,
    wall_s: float,
) -> Result:
    """The result of a run; ``echo`` is its scenario as plain values."""
    registers = world.host.registers
    oracle = scenario.oracle
    violations = Violations(
        int(registers[layout.VIOLATIONS]), int(registers[layout.VIOLATING_MESSAGES])
    )
    timed = _trimmed(registers[layout.VIOLATIONS_TIMED : layout.REGISTERS])
    series = {"violations": [float(count) for count in timed]} if oracle else {}
    return Result(
        protocol=protocol.name,
        nodes=scenario.nodes,
        seed=scenario.seed,
        tier=tier,
        broadcasts=int(registers[layout.BROADCASTS]),
        deliveries=int(registers[layout.DELIVERIES]),
        packets=int(registers[layout.PACKETS]),
        messages_sent=int(registers[layout.MESSAGES_SENT]),
        packets_by_messages=_trimmed(registers[layout.PACKETS_OF : layout.PACKETS_SIZED]),
        packets_by_bytes=_trimmed(registers[layout.PACKETS_SIZED : layout.VIOLATIONS_TIMED]),
        nodes_by_largest_packet=_trimmed(np.bincount(registers[layout.REGISTERS :])),
        bytes_sent=int(registers[layout.BYTES_SENT]),
        violations=violations if oracle else None,
        lost=_lost(world, scenario),
        duplicates=int(registers[layout.DUPLICATES]) if oracle else None,
        pending_max=int(registers[layout.PENDING_MAX]),
        pending_at_end=int(world.node[:, layout.HELD].sum()),
        latency=_latency(registers, world.latency),
        cpu_s=cpu_s,
        wall_s=wall_s,
        simulated_s=int(registers[contract.NOW_NS]) / NANOSECONDS_PER_S,
        complete=int(world.queue.mark[queue.SIZE]) == 0,
        extra={**_extra(registers, oracle=oracle), **protocol.extra(state)},
        series={**series, **protocol.series(state)},
        scenario=echo,
    )


def crashed(world: World) -> list[int]:
    """The nodes that have crashed so far."""
    blocked = world.node[:, layout.BLOCKED_UNTIL_NS]
    return [int(node) for node in np.flatnonzero(blocked == FOR_EVER_NS)]


def _lost(world: World, scenario: Scenario) -> int | None:
    """Deliveries from a correct source to a correct node that are missing."""
    if not scenario.oracle and scenario.duplication > 0:
        return None
    n = scenario.nodes
    if world.delivered.size == 0:
        registers = world.host.registers
        due = int(registers[layout.BROADCASTS]) * (n - 1)
        repeated = int(registers[layout.DUPLICATES])
        return max(due - int(registers[layout.DELIVERIES]) + repeated, 0)
    correct = np.ones(n, bool)
    correct[crashed(world)] = False
    sent = world.node[:, layout.SEQUENCE]
    missing = np.maximum(sent[np.newaxis, :] - world.delivered, 0)
    np.fill_diagonal(missing, 0)
    return int(missing[np.ix_(correct, correct)].sum())


def _latency(registers: NDArray[np.int64], bins: NDArray[np.int64]) -> Latency:
    """Means from sums, percentiles from the histogram (steps of 0.8 % or finer)."""

    def mean_ms(total_ns: int, count: int) -> float | None:
        return total_ns / count / NANOSECONDS_PER_MS if count else None

    return Latency(
        reception_mean=mean_ms(
            int(registers[layout.RECEPTION_NS]), int(registers[layout.RECEPTIONS])
        ),
        delivery_mean=mean_ms(
            int(registers[layout.DELIVERY_NS]), int(registers[layout.DELIVERIES])
        ),
        p50=latency_percentile_ms(bins, 0.50),
        p99=latency_percentile_ms(bins, 0.99),
    )


def _extra(registers: NDArray[np.int64], *, oracle: bool) -> dict[str, float]:
    """The entries of ``Result.extra`` that every protocol has."""
    wait_ns = int(registers[layout.WAITED_NS]) / max(int(registers[layout.PACKETS]), 1)
    figures: dict[str, float] = {
        "dropped": int(registers[layout.DROPPED]),
        "packets_lost": int(registers[layout.PACKETS_LOST]),
        "queue_wait_ms": wait_ns / NANOSECONDS_PER_MS,
    }
    if oracle:
        figures["untagged_violations"] = int(registers[layout.UNTAGGED_VIOLATIONS])
        figures["untagged_messages"] = int(registers[layout.UNTAGGED_MESSAGES])
    return figures


def _trimmed(counts: NDArray[np.int64]) -> list[int]:
    """The counts up to the last that is not 0."""
    return [int(count) for count in np.trim_zeros(counts, "b")]
