"""The network of a simulation: how long a packet travels, and whether it arrives.

Delay laws are codes read at run time, not types: as types they would multiply what is compiled.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

# Laws of delay.
CONSTANT: Final = 0
UNIFORM: Final = 1
NORMAL: Final = 2
LOGNORMAL: Final = 3
EXPONENTIAL: Final = 4
MATRIX: Final = 5  # fixed for each link: drawn once, or read from a file

# Places in ``number``.
FIRST: Final = 0  # the law's parameters, in ns
SECOND: Final = 1
LOSS: Final = 2  # probability that a packet is lost
DUPLICATION: Final = 3  # probability that a packet arrives twice
NUMBERS: Final = 4

# Places in ``setting``.
LAW: Final = 0
FIFO: Final = 1  # packets of a link never overtake each other
PROCESSING_NS: Final = 2  # at the receiver, per packet
QUEUED: Final = 3  # whether a node sends one packet at a time
TRANSMISSION_NS: Final = 4  # per packet, in the sender's queue
BYTE_PS: Final = 5  # and per byte, in picoseconds
PACKET_BYTES: Final = 6  # header of a packet
PAYLOAD_BYTES: Final = 7  # payload of a message
MTU_BYTES: Final = 8  # 0: packets are never cut
PLAIN: Final = 9  # no loss, duplication, order, queue or faults: the quick loop
SETTINGS: Final = 10

# A delay of zero would tie an arrival with its own cause, and a normal law has negative values.
DELAY_NS_MIN: Final = 1_000
LOST: Final = -1


class Network(NamedTuple):
    """Parameters, and what the links remember; arrays of no use to a run are empty."""

    number: NDArray[np.float64]
    setting: NDArray[np.int64]
    matrix_ns: NDArray[np.int64]  # link -> delay, when the law is MATRIX
    last_arrival_ns: NDArray[np.int64]  # link -> latest arrival, when FIFO
    cut_until_ns: NDArray[np.int64]  # link -> end of its cut; negative: packets wait for it


@compiled.function(inline=False)
def draw_ns(law: int, first: float, second: float, generator: np.random.Generator) -> int:
    """One delay of a law that is not MATRIX."""
    value = first
    if law == UNIFORM:
        value += (second - first) * generator.random()
    elif law == EXPONENTIAL:
        value *= generator.standard_exponential()
    elif law != CONSTANT:
        value += second * generator.standard_normal()
        if law == LOGNORMAL:
            value = np.exp(value)
    return max(int(value), DELAY_NS_MIN)


@compiled.function()
def travel_ns(network: Network, source: int, target: int, generator: np.random.Generator) -> int:
    """How long the next packet from source to target is on the way."""
    law = network.setting[LAW]
    if law == NORMAL:
        # Here and not in ``draw_ns``, because it is what the papers use, millions of times.
        drawn = network.number[FIRST] + network.number[SECOND] * generator.standard_normal()
        return max(int(drawn), DELAY_NS_MIN)
    if law == MATRIX:
        return network.matrix_ns[source, target]
    return draw_ns(law, network.number[FIRST], network.number[SECOND], generator)


@compiled.function()
def busy_ns(network: Network, size_bytes: int) -> int:
    """How long a packet keeps its sender's queue busy."""
    setting = network.setting
    return setting[TRANSMISSION_NS] + size_bytes * setting[BYTE_PS] // 1000


@compiled.function(inline=False)
def arrival_ns(
    network: Network, source: int, target: int, leaves_ns: int, generator: np.random.Generator
) -> int:
    """When a packet that leaves then arrives, or LOST."""
    loss = network.number[LOSS]
    if loss > 0.0 and generator.random() < loss:
        return LOST
    if network.cut_until_ns.size > 0:
        until_ns = network.cut_until_ns[source, target]
        if until_ns > leaves_ns:
            return LOST
        leaves_ns = max(leaves_ns, -until_ns)
    time_ns = leaves_ns + travel_ns(network, source, target, generator)
    time_ns += network.setting[PROCESSING_NS]
    if network.setting[FIFO] != 0:
        time_ns = max(time_ns, network.last_arrival_ns[source, target] + 1)
        network.last_arrival_ns[source, target] = time_ns
    return time_ns
