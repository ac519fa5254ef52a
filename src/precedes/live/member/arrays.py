"""The arrays of one live member, owned by Python and changed by the compiled step.

As in the simulator, values that belong together share an array with named places: a call from
Python pays for each array, and compiled code for each argument.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import contract
from precedes.contract import Host, Int32s, Int64s
from precedes.parts.tester import Detector

Bytes = NDArray[np.uint8]

# Results of the step, which ``node`` handles: DONE, or the reason for a stop.
DONE: Final = 0
GROW_SLOTS: Final = 2
GROW_BLOCKS: Final = 3
FLUSH: Final = 4  # an output is full: drain it and call again
OVERFLOW: Final = 5  # a handler asked for more effects than there is room for

# Columns of ``message``, a row for each slot: one cache line.
REFERENCES: Final = 0
FIRST_BLOCK: Final = 1
PAYLOAD_BYTES: Final = 2
WAITING: Final = 3  # references received and neither delivered nor dropped
SINCE_NS: Final = 4  # when it arrived or was broadcast
WORDS: Final = 8

# Payloads are kept in chained blocks: no allocator has to find a gap of the right size, and a
# payload of 100 bytes, the usual one here, is one block.
BLOCK_BYTES: Final = 128

# Columns of ``segment``: input of the step.
KIND: Final = 0
WHO: Final = 1  # the peer, the key of a timer, or the member that has crashed
BEGIN: Final = 2  # of its bytes in ``input``
END: Final = 3
SEGMENT_WORDS: Final = 4
FRAME: Final = 0
BROADCAST: Final = 1
TIMER: Final = 2
TEST_TIMER: Final = 3  # a timer of the failure detector
CRASH: Final = 4  # of a member, for a protocol that goes on without it in the same epoch
START: Final = 5

# Columns of ``delivery``.
SOURCE: Final = 0
SEQUENCE: Final = 1
FIRST_BYTE: Final = 2
LAST_BYTE: Final = 3
DELIVERY_WORDS: Final = 4

# Columns of ``packet``, a row for each record in ``out``.
TARGET: Final = 0
FROM: Final = 1  # its first byte,
TO: Final = 2  # and the one after its last
PACKET_WORDS: Final = 3

# Columns of ``bound``: the bytes for each target.
FIRST: Final = 0  # where they begin in ``routed``,
LAST: Final = 1  # and where they end; while they are written, how many there are
OF_MESSAGES: Final = 2  # those that are messages, which windows bound
BOUND_WORDS: Final = 3

# Columns of ``timer``.
KEY: Final = 0
DUE_NS: Final = 1
OWNER: Final = 2  # 1: the failure detector's
TIMER_WORDS: Final = 3

# Columns of ``report``: events for Python.
WHAT: Final = 0
ABOUT: Final = 1
REASON: Final = 2  # for which it is malformed: ``records.REASONS``
REPORT_WORDS: Final = 3
SUSPECTED: Final = 1  # the failure detector suspects a member
MALFORMED: Final = 2  # a peer sent what no correct member sends

# Columns of ``known``, a row for each source.
RECEIVED: Final = 0  # messages of it that have arrived, without a gap (mesh)
CONSUMED: Final = 1  # messages of it that the application has consumed
STABLE: Final = 2  # messages of it that all are known to have consumed
FINISHED: Final = 3  # whether it will broadcast nothing more
GONE: Final = 4  # whether it has crashed in this epoch
PARENT: Final = 5  # the member that gets the counts of its consumed messages
FORGOTTEN: Final = 6  # messages of it whose fields are no longer kept here (mesh)
LAGGARD: Final = 7  # the member below here with the fewest consumed of its messages
DELIVERED: Final = 8  # messages of it that were delivered here, or broadcast by this member
KNOWN_WORDS: Final = 9

# Places in ``host.registers`` after the contract's own.
SEGMENTS: Final = contract.REGISTERS  # segments to be handled
SEGMENT: Final = SEGMENTS + 1  # the one at hand
POSITION: Final = SEGMENTS + 2  # its next byte
EFFECT: Final = SEGMENTS + 3  # the next effect to carry out
ARRIVED: Final = SEGMENTS + 4  # items of the packet just handed over
COUNT: Final = SEGMENTS + 5  # items of the packet decoded and not handed over yet
SENDER: Final = SEGMENTS + 6
OF_DETECTOR: Final = SEGMENTS + 7  # whether effects and items at hand are the detector's
COMMON_BYTES: Final = SEGMENTS + 8  # bytes for everybody
OUT_BYTES: Final = SEGMENTS + 9  # bytes for some
PACKETS: Final = SEGMENTS + 10  # rows of ``packet``
DELIVERIES: Final = SEGMENTS + 11
DELIVERED_BYTES: Final = SEGMENTS + 12
TIMERS: Final = SEGMENTS + 13
REPORTS: Final = SEGMENTS + 14
ROWS: Final = SEGMENTS + 15  # rows of the trace
OWN_SEQUENCE: Final = SEGMENTS + 16  # broadcasts so far
PENDING: Final = SEGMENTS + 17  # received and neither delivered nor dropped
PENDING_MAX: Final = SEGMENTS + 18
PENDING_BYTES: Final = SEGMENTS + 19
DROPPED: Final = SEGMENTS + 20
RECEPTIONS: Final = SEGMENTS + 21
PACKETS_SENT: Final = SEGMENTS + 22
RECORDING: Final = SEGMENTS + 23
OWN_STABLE: Final = SEGMENTS + 24  # own messages that all have consumed
FORCED: Final = SEGMENTS + 25  # acknowledge even if nothing else is sent
UNACKNOWLEDGED: Final = SEGMENTS + 26  # whether there is something left to acknowledge
CLOSING: Final = SEGMENTS + 27  # this member will broadcast nothing more
PIECE: Final = SEGMENTS + 28  # the next item of a packet that is being sent in pieces
CRASHES: Final = SEGMENTS + 29  # members that have crashed in this epoch
PACKETS_ALL: Final = SEGMENTS + 30
LARGEST_BYTES: Final = SEGMENTS + 31  # of all payloads that were here
REGISTERS: Final = SEGMENTS + 32

# Counters, by the names of their metrics.
COUNTS: Final = {
    "broadcasts": OWN_SEQUENCE,
    "stable": OWN_STABLE,
    "received": RECEPTIONS,
    "dropped": DROPPED,
    "packets_sent": PACKETS_SENT,
    "packets_sent_to_all": PACKETS_ALL,
    "pending": PENDING,
    "pending_max": PENDING_MAX,
    "pending_bytes": PENDING_BYTES,
}

# Places in ``setting``.
NODES: Final = 0
ME: Final = 1
ROUTE: Final = 2  # how messages travel
WINDOW: Final = 3
PAYLOAD_MAX: Final = 4
ITEMS_MAX: Final = 5
BRANCHES: Final = 6
EAGER: Final = 7  # this number of consumed messages is acknowledged at once
ECHO: Final = 8  # whether the application gets its own messages too
SETTINGS: Final = 9

# How messages travel (``Protocol.route``).
ANY: Final = 0  # over links to all members, in ways that only the protocol knows
DIRECT: Final = 1  # from their source alone, over links to all members
TREE: Final = 2  # over the trees of VCube, over the links of a hypercube
ROUTES: Final = {"any": ANY, "direct": DIRECT, "tree": TREE}


class Free(NamedTuple):
    """Free list of slots or blocks."""

    link: Int32s
    mark: Int64s


class Member(NamedTuple):
    """Everything of a live member but the protocol's state."""

    host: Host
    message: Int64s
    slots: Free  # which are in use
    field: tuple[Int32s, ...]  # the protocol's message fields, as rows of 32-bit words
    block: Bytes
    blocks: Free  # block -> the next one of its payload
    name: Int64s  # a hash table: name of a message, slot
    inbox: Int64s
    item_class: Int64s
    setting: Int64s
    input: Bytes
    segment: Int64s
    common: Bytes
    out: Bytes
    packet: Int64s
    routed: Bytes  # the same bytes in order of targets
    bound: Int64s
    delivered: Bytes
    delivery: Int64s
    timer: Int64s
    report: Int64s
    trace: Int64s  # rows of time, and kind, source and sequence in one word
    known: Int64s
    kept: Int32s  # source, sequence modulo two windows -> slot with its fields (mesh)
    consumed_behind: Int32s  # peer, source -> what it and those behind it have consumed
    lag: Int32s  # peer, source -> the member behind it that has consumed the least
    last_sent: Int32s  # peer, source -> the last count sent to it: of consumed or stable messages
    behind: Int32s  # branch, source -> the highest count that all behind it have reached
    branch: Int32s  # branch -> peer
    serves: NDArray[np.uint8]  # source, branch -> whether its messages go there
    detector: Detector
