"""The network of a simulation: travel times and losses of packets.

Random numbers are drawn beforehand, in Python and by the thousand, into arrays that the engine
consumes one by one; it stops to have them refilled. A law of delay therefore concerns
``sim.inputs.network`` alone, and nothing here is compiled for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

# Places in ``number``.
LOSS: Final = 0  # probability that a packet is lost
DUPLICATION: Final = 1  # probability that a packet arrives twice
NUMBERS: Final = 2

# Places in ``setting``.
DELAYS_USED: Final = 0
CHANCES_USED: Final = 1
FIFO: Final = 2  # packets of a link never overtake each other
PROCESSING_NS: Final = 3  # at the receiver, per packet
QUEUED: Final = 4  # whether a node sends one packet at a time
TRANSMISSION_NS: Final = 5  # per packet, in the sender's queue
BYTE_PS: Final = 6  # and per byte, in picoseconds
PACKET_BYTES: Final = 7  # header of a packet
PAYLOAD_BYTES: Final = 8  # payload of a message
MTU_BYTES: Final = 9  # 0: packets are never cut
PLAIN: Final = 10  # no loss, duplication, order, queue or faults: the quick loop
PER_MESSAGE: Final = 11  # ``matrix_ns`` has delays of messages
SETTINGS: Final = 12

MESSAGE_DELAYS: Final = 1024  # of a source, which repeat after this many messages

# A delay of zero would tie an arrival with its own cause, and a normal law has negative values.
DELAY_NS_MIN: Final = 1_000
# The logarithm of a year: beyond it is the tail of a lognormal law that no clock could hold.
LOG_NS_MAX: Final = 38.0
LOST: Final = -1

# Draws of a packet at most: it is repeated or not, and each of two copies is lost or not.
DELAYS_PER_PACKET: Final = 2
CHANCES_PER_PACKET: Final = 3


class Network(NamedTuple):
    """Parameters, drawn numbers, and state of links; unused arrays are empty."""

    number: NDArray[np.float64]
    setting: NDArray[np.int64]
    delay_ns: NDArray[np.int64]  # drawn for the packets to come
    chance: NDArray[np.float64]  # uniform, drawn for the packets to come
    # Link -> delay, if each has a fixed one; or source, number modulo MESSAGE_DELAYS -> delay.
    matrix_ns: NDArray[np.int64]
    last_arrival_ns: NDArray[np.int64]  # link -> latest arrival, when FIFO
    cut_until_ns: NDArray[np.int64]  # link -> end of its cut; negative: packets wait for it
    second_until_ns: NDArray[np.int64]  # node -> when its second queue is empty, when QUEUED


@compiled.function()
def needs_draws(network: Network, packets: int) -> bool:
    """Return whether the drawn numbers might not be enough for that many packets."""
    setting = network.setting
    delays = network.delay_ns.size - setting[DELAYS_USED] - DELAYS_PER_PACKET * packets
    chances = network.chance.size - setting[CHANCES_USED] - CHANCES_PER_PACKET * packets
    return (delays < 0 and network.matrix_ns.size == 0) or (chances < 0 and setting[PLAIN] == 0)


@compiled.function()
def travel_ns(network: Network, row: int, column: int) -> int:
    """The travel time of the next packet: of a packet of this link, or with this message."""
    if network.matrix_ns.size > 0:
        return network.matrix_ns[row, column]
    used = network.setting[DELAYS_USED]
    network.setting[DELAYS_USED] = used + 1
    return network.delay_ns[used]


@compiled.function()
def happens(network: Network, probability: float) -> bool:
    """Return whether something of this probability happens now."""
    if probability == 0.0:
        return False
    used = network.setting[CHANCES_USED]
    network.setting[CHANCES_USED] = used + 1
    return bool(network.chance[used] < probability)


@compiled.function()
def busy_ns(network: Network, size_bytes: int) -> int:
    """The time for which a packet occupies its sender's queue."""
    setting = network.setting
    return setting[TRANSMISSION_NS] + size_bytes * setting[BYTE_PS] // 1000


@compiled.function(inline=False)
def arrival_ns(
    network: Network, source: int, target: int, leaves_ns: int, row: int, column: int
) -> int:
    """The arrival time of a packet that leaves then, or LOST; see ``travel_ns``."""
    if happens(network, network.number[LOSS]):
        return LOST
    if network.cut_until_ns.size > 0:
        until_ns = network.cut_until_ns[source, target]
        if until_ns > leaves_ns:
            return LOST
        leaves_ns = max(leaves_ns, -until_ns)
    time_ns = leaves_ns + travel_ns(network, row, column)
    time_ns += network.setting[PROCESSING_NS]
    if network.setting[FIFO] != 0:
        time_ns = max(time_ns, network.last_arrival_ns[source, target] + 1)
    if network.setting[QUEUED] != 0:
        time_ns |= 1  # after a timer of the same time: see expiry_ns
    if network.setting[FIFO] != 0:
        network.last_arrival_ns[source, target] = time_ns
    return time_ns


@compiled.function()
def expiry_ns(network: Network, now_ns: int, delay_ns: int) -> int:
    """The expiry of a timer set now.

    With queues, timers come before packets that arrive at the same time: a packet is passed to its
    link when it leaves the queue, long after it was sent. Timers end at even nanoseconds for that,
    packets arrive at odd ones.
    """
    time_ns = now_ns + max(delay_ns, 0)
    return max(time_ns & ~1, now_ns) if network.setting[QUEUED] != 0 else time_ns
