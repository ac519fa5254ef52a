"""Memory layout: columns of messages and nodes, registers, statuses, kinds of events.

Values that belong together share an array with named columns: compile time is paid by the array,
and a message or a node is read as a whole.
"""

from __future__ import annotations

from typing import Final

from precedes import contract
from precedes.sim.engine import queue

NONE: Final = -1

# Columns of ``message``, a row a slot.
BORN_NS: Final = 0
REFERENCES: Final = 1
NUMBER: Final = 2  # in order of broadcast
LABEL: Final = 3  # the replayed event, or -1
FLAGGED: Final = 4  # 1: some delivery of it was out of order; 3: one that was not tagged
DELIVERED: Final = 5  # number of nodes that have delivered it
MESSAGE_WORDS: Final = 8  # a cache line

# Columns of ``node``.
SEQUENCE: Final = 0  # broadcasts so far
HELD: Final = 1  # messages received and neither delivered nor dropped
BUSY_UNTIL_NS: Final = 2  # when its send queue is empty
BLOCKED_UNTIL_NS: Final = 3  # end of its pause; FOR_EVER_NS once crashed
SENDS_LEFT: Final = 4  # packets until it crashes in mid-send; negative: never
BEHIND: Final = 5  # the oracle's: whether its past exceeds what it has delivered
GAPS: Final = 6  # the oracle's: bits set in its row of ``beyond``
LATEST: Final = 7  # the oracle's: number of its latest broadcast, or -1
NODE_WORDS: Final = 8  # a cache line

# Registers after the contract's own. Counts:
BROADCASTS: Final = contract.REGISTERS
DELIVERIES: Final = BROADCASTS + 1
PACKETS: Final = BROADCASTS + 2
MESSAGES_SENT: Final = BROADCASTS + 3
BYTES_SENT: Final = BROADCASTS + 4
RECEPTIONS: Final = BROADCASTS + 5
RECEPTION_NS: Final = BROADCASTS + 6
DELIVERY_NS: Final = BROADCASTS + 7
VIOLATIONS: Final = BROADCASTS + 8
VIOLATING_MESSAGES: Final = BROADCASTS + 9
DUPLICATES: Final = BROADCASTS + 10
DROPPED: Final = BROADCASTS + 11
PENDING_MAX: Final = BROADCASTS + 12
PACKETS_LOST: Final = BROADCASTS + 13
# Where the engine resumes after a stop:
HORIZON_NS: Final = BROADCASTS + 14
EFFECT: Final = BROADCASTS + 15  # the next effect to carry out
HERE: Final = BROADCASTS + 16  # of which node
ARRIVED: Final = BROADCASTS + 17  # items of the packet just received
# The trace:
ROWS: Final = BROADCASTS + 18  # rows written
RECORDING: Final = BROADCASTS + 19
RECORDING_PACKETS: Final = BROADCASTS + 20
# Free rows of messages, packets and items: head of the list, then rows ever used.
SLOT_FREE: Final = BROADCASTS + 21
SLOT_HIGH: Final = BROADCASTS + 22
PACKET_FREE: Final = BROADCASTS + 23
PACKET_HIGH: Final = BROADCASTS + 24
ITEM_FREE: Final = BROADCASTS + 25
ITEM_HIGH: Final = BROADCASTS + 26
# Faults, trace or replay: arrivals take the general path, not the fast one.
SLOW_PATH: Final = BROADCASTS + 27
# The packets being sent use the node's second channel.
SECOND_CHANNEL: Final = BROADCASTS + 28
# The delivery tagged last, and violations that the protocol did not tag.
TAGGED: Final = BROADCASTS + 29
UNTAGGED_VIOLATIONS: Final = BROADCASTS + 30
UNTAGGED_MESSAGES: Final = BROADCASTS + 31
WAITED_NS: Final = BROADCASTS + 32  # of all packets, in the queues of their senders
# Packets by their messages: 0, 1, 2, .., the last also for more.
PACKETS_OF: Final = BROADCASTS + 33
PACKETS_OF_MAX: Final = 16
# Packets by size: up to 100, 200, .. bytes, the last also for more.
PACKETS_SIZED: Final = PACKETS_OF + PACKETS_OF_MAX + 1
SIZE_STEP_BYTES: Final = 100
SIZES_MAX: Final = 15
# Violations in each 10 s, the last also for later.
VIOLATIONS_TIMED: Final = PACKETS_SIZED + SIZES_MAX + 1
TIMED_STEP_NS: Final = 10_000_000_000
TIMED_MAX: Final = 63
REGISTERS: Final = VIOLATIONS_TIMED + TIMED_MAX + 1
# After them, one register a node: the messages of the largest packet that it has sent.

# Return values of ``loop.run``.
FINISHED: Final = 0
GROW_QUEUE: Final = 1
GROW_SLOTS: Final = 2
GROW_PACKETS: Final = 4
GROW_ORACLE: Final = 5
FLUSH_TRACE: Final = 6
EFFECTS_OVERFLOW: Final = 7
PAUSED: Final = 8  # the time slice is over: report progress and continue
DRAW: Final = 10  # the numbers drawn for the network are used up

# Kinds of events, above the node in ``where`` of a queue entry.
ARRIVAL: Final = 0 << queue.WHERE_BITS
ISSUE: Final = 1 << queue.WHERE_BITS
TIMER: Final = 2 << queue.WHERE_BITS
FAULT: Final = 3 << queue.WHERE_BITS
SUSPECT: Final = 4 << queue.WHERE_BITS
START: Final = 5 << queue.WHERE_BITS
ISSUE_LATE: Final = 6 << queue.WHERE_BITS  # a broadcast outside the schedule: postponed, replayed
