"""Who broadcasts when: the workloads of a simulation.

A broadcast is an event whose node was drawn when it was scheduled, so that the engine can stop
before it, grow an array and come back without drawing anything twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

POISSON: Final = 0  # one process for the group, thinned where the rate varies
PERIODIC: Final = 1  # one chain a node, nearly regular
WINDOW: Final = 2  # once each, scheduled before the start
REPLAY: Final = 3  # a causal graph: an event follows the delivery of its parents

NEVER: Final = -1
GAP_NS_MIN: Final = 1_000

# Places in ``issued``.
COUNT: Final = 0  # broadcasts scheduled, each of which will happen unless its node crashes
READY: Final = 1  # replayed events found ready by the last delivery, waiting to be scheduled


class Workload(NamedTuple):
    """Parameters of all kinds; those of other kinds are empty."""

    kind: NDArray[np.int64]
    messages_max: NDArray[np.int64]
    stop_ns: NDArray[np.int64]
    issued: NDArray[np.int64]
    knot_ns: NDArray[np.int64]  # the rate is linear between knots; one knot: constant
    knot_rate: NDArray[np.float64]  # broadcasts per ns of the whole group
    rate_max: NDArray[np.float64]
    cumulative: NDArray[np.float64]  # node -> share of it and of those before; empty: equal
    period_ns: NDArray[np.float64]  # node -> mean gap between its broadcasts
    jitter_ns: NDArray[np.float64]  # node -> standard deviation of the gap
    gap_ns: NDArray[np.int64]  # replay: pause of a node between two events of its own
    agent: NDArray[np.int32]  # replay: event -> node
    missing: NDArray[np.int32]  # replay: event -> what it waits for: parents, own predecessor
    first_child: NDArray[np.int64]  # replay: event -> where its children begin, and the end
    child: NDArray[np.int32]
    ready: NDArray[np.int32]  # replay: events that became ready


@compiled.function(inline=False)
def rate_at(workload: Workload, time_ns: int) -> float:
    """Broadcasts per nanosecond at a time: linear between knots, constant outside."""
    knots = workload.knot_ns
    if time_ns <= knots[0]:
        return workload.knot_rate[0]
    last = knots.size - 1
    if time_ns >= knots[last]:
        return workload.knot_rate[last]
    right = 1
    while knots[right] < time_ns:
        right += 1
    width = knots[right] - knots[right - 1]
    share = (time_ns - knots[right - 1]) / width
    return workload.knot_rate[right - 1] * (1.0 - share) + workload.knot_rate[right] * share


@compiled.function(inline=False)
def next_time_ns(
    workload: Workload, node: int, time_ns: int, generator: np.random.Generator
) -> int:
    """When the chain of this node broadcasts next, or NEVER."""
    if workload.issued[COUNT] >= workload.messages_max[0]:
        return NEVER
    kind = workload.kind[0]
    if kind == PERIODIC:
        gap_ns = generator.normal(workload.period_ns[node], workload.jitter_ns[node])
        time_ns += max(np.int64(gap_ns), GAP_NS_MIN)
    elif kind == POISSON:
        rate_max = workload.rate_max[0]
        while True:
            gap_ns = generator.standard_exponential() / rate_max
            if gap_ns > workload.stop_ns[0]:
                return NEVER
            time_ns += np.int64(gap_ns)
            if time_ns > workload.stop_ns[0]:
                return NEVER
            if workload.knot_ns.size == 1:
                break
            if generator.random() * rate_max < rate_at(workload, time_ns):
                break
    else:
        return NEVER
    if time_ns > workload.stop_ns[0]:
        return NEVER
    workload.issued[COUNT] += 1
    return time_ns


@compiled.function(inline=False)
def next_node(workload: Workload, node: int, nodes: int, generator: np.random.Generator) -> int:
    """Whose turn the broadcast just scheduled is."""
    if workload.kind[0] != POISSON:
        return node
    if workload.cumulative.size == 0:
        return min(np.int64(generator.random() * nodes), nodes - 1)
    share = generator.random()
    low, high = 0, nodes - 1
    while low < high:
        middle = (low + high) // 2
        if workload.cumulative[middle] < share:
            low = middle + 1
        else:
            high = middle
    return low


@compiled.function(inline=False)
def on_known(workload: Workload, node: int, event: int) -> None:
    """Replay: the node now knows the event; note which of its own events became ready."""
    for i in range(workload.first_child[event], workload.first_child[event + 1]):
        child = workload.child[i]
        if workload.agent[child] == node:
            workload.missing[child] -= 1
            if workload.missing[child] == 0:
                workload.ready[workload.issued[READY]] = child
                workload.issued[READY] += 1
