"""Who broadcasts when: the workloads of a simulation.

A broadcast is an event whose node was drawn when it was scheduled, so that the engine can stop
before it, grow an array and come back without drawing anything twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

# Kinds.
POISSON: Final = 0  # one process for the group, thinned where the rate varies
PERIODIC: Final = 1  # one chain a node, nearly regular
SCHEDULED: Final = 2  # all broadcasts are in the queue before the start
REPLAY: Final = 3  # a causal graph: an event follows the delivery of its parents

NEVER: Final = -1
GAP_NS_MIN: Final = 1_000

# Places in ``setting``.
KIND: Final = 0
MESSAGES_MAX: Final = 1
STOP_NS: Final = 2
GAP_NS: Final = 3  # replay: pause of a node before an event of its own
ISSUED: Final = 4  # broadcasts scheduled; each happens unless its node crashes first
READY: Final = 5  # replay: events that became ready and are not yet scheduled
SETTINGS: Final = 6

# Columns of ``knot`` and of ``pace``.
KNOT_NS: Final = 0
KNOT_RATE: Final = 1
PERIOD_NS: Final = 0
JITTER_NS: Final = 1

# Columns of ``event``.
AGENT: Final = 0  # the node that broadcasts it
MISSING: Final = 1  # what it still waits for: its parents, and its agent's event before it
FIRST_CHILD: Final = 2  # where its children begin in ``child``


class Workload(NamedTuple):
    """Parameters of all kinds; those of other kinds are empty."""

    setting: NDArray[np.int64]
    knot: NDArray[np.float64]  # time, broadcasts per ns of the group: linear between knots
    cumulative: NDArray[np.float64]  # node -> share of it and of those before; empty: equal
    pace: NDArray[np.float64]  # node -> mean and standard deviation of the gap it leaves
    event: NDArray[np.int64]  # replayed events; the row after the last ends the children
    child: NDArray[np.int32]
    ready: NDArray[np.int32]


@compiled.function(inline=False)
def rate_at(workload: Workload, time_ns: int) -> float:
    """Broadcasts per nanosecond at a time: linear between knots, constant outside."""
    knot = workload.knot
    right = 0
    while right < knot.shape[0] and knot[right, KNOT_NS] < time_ns:
        right += 1
    if right == 0:
        return knot[0, KNOT_RATE]
    if right == knot.shape[0]:
        return knot[right - 1, KNOT_RATE]
    width_ns = knot[right, KNOT_NS] - knot[right - 1, KNOT_NS]
    share = (time_ns - knot[right - 1, KNOT_NS]) / width_ns
    return knot[right - 1, KNOT_RATE] * (1.0 - share) + knot[right, KNOT_RATE] * share


@compiled.function(inline=False)
def next_time_ns(
    workload: Workload, node: int, time_ns: int, generator: np.random.Generator
) -> int:
    """When the chain of this node broadcasts next, or NEVER."""
    setting = workload.setting
    if setting[ISSUED] >= setting[MESSAGES_MAX]:
        return NEVER
    if setting[KIND] == PERIODIC:
        gap_ns = generator.normal(workload.pace[node, PERIOD_NS], workload.pace[node, JITTER_NS])
        time_ns += max(np.int64(gap_ns), GAP_NS_MIN)
    elif setting[KIND] == POISSON:
        time_ns = _next_poisson_ns(workload, time_ns, generator)
    else:
        return NEVER
    if time_ns > setting[STOP_NS]:
        return NEVER
    setting[ISSUED] += 1
    return time_ns


@compiled.function(inline=False)
def _next_poisson_ns(workload: Workload, time_ns: int, generator: np.random.Generator) -> int:
    """The next point of the group's Poisson process, by thinning where the rate varies."""
    knot = workload.knot
    rate_max = 0.0
    for i in range(knot.shape[0]):
        rate_max = max(rate_max, knot[i, KNOT_RATE])
    while time_ns <= workload.setting[STOP_NS]:
        # The bound keeps a tiny rate from overflowing the clock; STOP_NS is below it.
        gap_ns = min(generator.standard_exponential() / rate_max, 1e18)
        time_ns += max(np.int64(gap_ns), GAP_NS_MIN)
        if knot.shape[0] == 1:
            break
        if generator.random() * rate_max < rate_at(workload, time_ns):
            break
    return time_ns


@compiled.function(inline=False)
def next_node(workload: Workload, node: int, nodes: int, generator: np.random.Generator) -> int:
    """Whose turn the broadcast just scheduled is."""
    if workload.setting[KIND] != POISSON:
        return node
    share = generator.random()
    if workload.cumulative.size == 0:
        return min(np.int64(share * nodes), nodes - 1)
    low, high = 0, nodes - 1
    while low < high:
        middle = (low + high) // 2
        if workload.cumulative[middle] < share:
            low = middle + 1
        else:
            high = middle
    return low


@compiled.function(inline=False)
def on_known(workload: Workload, node: int, label: int) -> None:
    """Replay: the node now knows the event; note which of its own events became ready."""
    event = workload.event
    for i in range(event[label, FIRST_CHILD], event[label + 1, FIRST_CHILD]):
        child = workload.child[i]
        if event[child, AGENT] == node:
            event[child, MISSING] -= 1
            if event[child, MISSING] == 0:
                workload.ready[workload.setting[READY]] = child
                workload.setting[READY] += 1
