"""Broadcasts collected for a while and sent together: everything a handler may ask for.

Not a protocol to use. It sends packets of several messages and numbers, acknowledges each
message by its name, keeps messages, sets timers, notes events and listens to the failure
detector, so that the host's side of all that can be tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes.contract import (
    MESSAGE,
    NUMBER,
    REFERENCE,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
    handler,
    tag_of,
    value_of,
)
from precedes.model import EventKind

DATA: Final = 0
ACKNOWLEDGEMENT: Final = 1
TOTAL: Final = 2
ITEMS: Final = (MESSAGE, REFERENCE, NUMBER)
MESSAGE_FIELDS: Final = ("copy_of_sequence",)
GUARANTEE: Final = "none"
ASSUMES: Final = frozenset({"reliable", "unique"})

COMPLETE: Final = int(EventKind.COMPLETE)

# Places in ``count``.
STARTED: Final = 0
SENT: Final = 1  # messages, once for all receivers
RECEIVED: Final = 2
ANNOUNCED: Final = 3  # messages that the packets' numbers spoke of
ACKNOWLEDGED: Final = 4
PACKETS: Final = 5
ITEMS_MAX: Final = 6  # of a packet received
WAITING: Final = 7
COUNTS: Final = 8

WAITING_MAX: Final = 1 << 14  # messages of a batch: more than any test broadcasts


@dataclass(frozen=True)
class Parameters:
    """The time for which broadcasts are collected."""

    collect_us: int = field(default=5000, metadata={"help": "time from a broadcast to its batch"})


class State(NamedTuple):
    """Rows belong to hosted processes, of ``copy_of_sequence`` to messages."""

    copy_of_sequence: Int64s
    waiting: Int64s  # the slots of the batch that is being collected
    count: Int64s
    learned_ns: Int64s  # process, node: when it heard that the node has crashed, or -1
    hosted: Int32s
    collect_ns: int


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    processes = len(group.hosted)
    return State(
        copy_of_sequence=np.zeros((capacity.slots, 1), np.int64),
        waiting=np.zeros((processes, WAITING_MAX), np.int64),
        count=np.zeros((processes, COUNTS), np.int64),
        learned_ns=np.full((processes, group.nodes), -1, np.int64),
        hosted=np.array(group.hosted, np.int32),
        collect_ns=1000 * parameters.collect_us,
    )


def extra(state: State) -> dict[str, float]:
    """Sums over all processes."""
    total = state.count.sum(axis=0)
    return {
        "started": int(total[STARTED]),
        "sent": int(total[SENT]),
        "received": int(total[RECEIVED]),
        "announced": int(total[ANNOUNCED]),
        "acknowledged": int(total[ACKNOWLEDGED]),
        "packets_received": int(total[PACKETS]),
        "items_max": int(state.count[:, ITEMS_MAX].max()),
    }


@handler(State)
def start(state: State, here: int, host: Host) -> None:
    state.count[here, STARTED] += 1


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    count = state.count[here]
    state.copy_of_sequence[slot, 0] = host.sequence_of(slot)
    state.waiting[here, count[WAITING]] = slot
    if count[WAITING] == 0:
        host.set_timer(1, state.collect_ns)
    count[WAITING] += 1
    host.keep(slot)


@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    count = state.count[here]
    waiting = state.waiting[here]
    nodes = state.learned_ns.shape[1]
    for target in range(nodes):
        if target == state.hosted[here]:
            continue
        host.open_packet(target)
        host.put(TOTAL, count[WAITING])
        for i in range(count[WAITING]):
            host.put(DATA, waiting[i])
    for i in range(count[WAITING]):
        host.note(COMPLETE, waiting[i])
        host.drop(waiting[i])
    count[SENT] += count[WAITING]
    count[WAITING] = 0


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    counts = state.count[here]
    counts[PACKETS] += 1
    counts[ITEMS_MAX] = max(counts[ITEMS_MAX], count)
    for i in range(count):
        value = value_of(inbox, i)
        if tag_of(inbox, i) == DATA:
            counts[RECEIVED] += 1
            # Only if the message is the one that was sent: a test counts what comes back.
            if state.copy_of_sequence[value, 0] == host.sequence_of(value):
                host.send(sender, ACKNOWLEDGEMENT, value)
            host.deliver(value)
        elif tag_of(inbox, i) == TOTAL:
            counts[ANNOUNCED] += value
        elif host.source_of(value) == state.hosted[here]:
            counts[ACKNOWLEDGED] += 1


@handler(State)
def on_crash(state: State, here: int, crashed: int, host: Host) -> None:
    state.learned_ns[here, crashed] = host.now_ns()


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8
