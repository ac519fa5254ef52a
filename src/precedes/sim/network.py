"""The network of a simulation: how long a packet travels, and whether it arrives.

Delays are codes read at run time, not types: as types they would multiply what is compiled.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

CONSTANT: Final = 0
UNIFORM: Final = 1
NORMAL: Final = 2
LOGNORMAL: Final = 3
EXPONENTIAL: Final = 4
MATRIX: Final = 5  # fixed for each link: drawn once, or read from a file

# A delay of zero would tie an arrival with its own cause, and a normal law has negative values.
DELAY_NS_MIN: Final = 1_000


class Network(NamedTuple):
    """Parameters as arrays of one, so that values do not become types."""

    law: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    matrix_ns: NDArray[np.int64]  # link -> delay, when the law is MATRIX
    loss: NDArray[np.float64]
    duplication: NDArray[np.float64]
    fifo: NDArray[np.bool_]
    last_arrival_ns: NDArray[np.int64]  # link -> latest arrival, when FIFO
    processing_ns: NDArray[np.int64]  # at the receiver, per packet
    transmission_ns: NDArray[np.int64]  # per packet, in the sender's queue
    byte_ps: NDArray[np.int64]  # and per byte, in picoseconds
    queued: NDArray[np.bool_]  # whether there is a send queue at all
    busy_until_ns: NDArray[np.int64]  # node -> when its send queue is empty
    packet_bytes: NDArray[np.int64]  # header of a packet
    payload_bytes: NDArray[np.int64]  # payload of a message
    mtu_bytes: NDArray[np.int64]  # 0: packets are never cut
    cut_until_ns: NDArray[np.int64]  # link -> when its cut ends, when links are cut at all
    cut_holds: NDArray[np.bool_]  # link -> packets wait for the end instead of vanishing
    plain: NDArray[np.bool_]  # none of loss, duplication, FIFO, queue, cuts: the quick loop


@compiled.function()
def draw_ns(
    law: int, first: float, second: float, generator: np.random.Generator
) -> int:
    """One delay of a law that is not MATRIX."""
    if law == NORMAL:
        value = generator.normal(first, second)
    elif law == CONSTANT:
        value = first
    elif law == UNIFORM:
        value = first + (second - first) * generator.random()
    elif law == EXPONENTIAL:
        value = first * generator.standard_exponential()
    else:
        value = np.exp(generator.normal(first, second))
    return max(np.int64(value), DELAY_NS_MIN)


@compiled.function()
def travel_ns(
    network: Network, source: int, target: int, generator: np.random.Generator
) -> int:
    """How long the next packet from source to target is on the way."""
    law = network.law[0]
    if law == MATRIX:
        return network.matrix_ns[source, target]
    return draw_ns(law, network.first[0], network.second[0], generator)


@compiled.function(inline=False)
def depart_ns(network: Network, source: int, size_bytes: int, now_ns: int) -> int:
    """When a packet handed over now leaves the sender's queue, which sends one at a time."""
    if not network.queued[0]:
        return now_ns
    start_ns = max(now_ns, network.busy_until_ns[source])
    busy_ns = network.transmission_ns[0] + size_bytes * network.byte_ps[0] // 1000
    network.busy_until_ns[source] = start_ns + busy_ns
    return start_ns + busy_ns


@compiled.function(inline=False)
def arrival_ns(
    network: Network, source: int, target: int, leaves_ns: int, generator: np.random.Generator
) -> int:
    """When a packet that leaves then arrives, or -1 if it is lost on the way."""
    if network.loss[0] > 0.0 and generator.random() < network.loss[0]:
        return -1
    if network.cut_until_ns.size > 0 and network.cut_until_ns[source, target] > leaves_ns:
        if not network.cut_holds[source, target]:
            return -1
        leaves_ns = network.cut_until_ns[source, target]
    time_ns = leaves_ns + travel_ns(network, source, target, generator) + network.processing_ns[0]
    if network.fifo[0]:
        time_ns = max(time_ns, network.last_arrival_ns[source, target] + 1)
        network.last_arrival_ns[source, target] = time_ns
    return time_ns
