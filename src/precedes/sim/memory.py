"""Memory limits of runs, and estimates before any memory is allocated."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from precedes import delays
from precedes.contract import Capacity, Group, Host
from precedes.machine import machine_bytes
from precedes.parts import pool
from precedes.registry import Protocol
from precedes.sim.engine.network import MESSAGE_DELAYS
from precedes.sim.scenario import Scenario

# Groups on which the size of a state is measured; larger ones are extrapolated to.
SAMPLES: Final = (64, 128, 192)
LEAST: Final = Capacity(slots=1, reserve_bytes=1)

# The share of a machine's memory for the arrays of runs: the rest is for readers and writers of
# traces, for Java, and for other programs.
RUNS_SHARE: Final = 0.75


def limit_bytes(scenario: Scenario, *, sharers: int) -> int:
    """The limit of a run: from its scenario, or its share if several runs are concurrent here."""
    if scenario.memory_max_bytes is not None:
        return scenario.memory_max_bytes
    return int(RUNS_SHARE * machine_bytes() / max(sharers, 1))


def world_bytes(scenario: Scenario) -> int:
    """The size of the host's arrays of nodes x nodes."""
    squares = 2 * 4 * scenario.oracle + 8 * scenario.fifo
    squares += 8 * (scenario.per in ("link", "node") or delays.is_matrix(scenario.delay))
    squares += 16 * any(item.kind == "crash" for item in scenario.faults)
    squares += 8 * any(item.kind == "cut" for item in scenario.faults)
    per_message = 8 * MESSAGE_DELAYS * (scenario.per == "message") * scenario.nodes
    return squares * scenario.nodes**2 + per_message


def state_bytes(protocol: Protocol, parameters: Any, group: Group) -> int:
    """The initial size of a protocol's state: a quadratic in the nodes, from three small groups.

    Small groups are not measured: no state of theirs is large.
    """
    if group.nodes <= max(SAMPLES):
        return 0
    sizes = []
    for nodes in SAMPLES:
        sample = Group(nodes=nodes, hosted=np.arange(nodes, dtype=np.int32), seed=group.seed)
        sizes.append(float(nbytes(protocol.allocate(parameters, sample, LEAST))))
    first, second, third = sizes
    x, step = (group.nodes - SAMPLES[0]) / (SAMPLES[1] - SAMPLES[0]), third - 2 * second + first
    return int(first + x * (second - first) + x * (x - 1) / 2 * step)


def nbytes(arrays: Any) -> int:
    """The memory of a tree of arrays; of reserves, the part in use."""
    if pool.is_reserve(arrays):
        return pool.used_bytes(arrays)
    if isinstance(arrays, Host):
        return nbytes((arrays.name, arrays.registers))
    if isinstance(arrays, tuple):
        return sum(nbytes(part) for part in arrays)
    return int(arrays.nbytes) if isinstance(arrays, np.ndarray) else 0
