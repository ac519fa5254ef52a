"""FIFO broadcast: the messages of one source are delivered in the order of their broadcasts.

A complete protocol in one file; docs/adding-a-protocol.md walks through it. Run it with

    precedes simulate examples/fifo_broadcast.py --nodes 50 --messages 5000

Source: the usual reliable FIFO broadcast over direct links, with a counter for every source.

Algorithm. The host numbers the broadcasts of a node 1, 2, 3, ... A process counts, for every
source, the messages of it that it has delivered. The message numbered one more is delivered, an
earlier one is a duplicate, and a later one waits.

Assumes that no packet is lost: whatever its source sends after it would wait for ever. Repeated
packets are recognised by their number and dropped.

Guarantee: the order of each source, at most once; no causal order between sources. Cost: nothing
is added to a message but its name.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import (
    DONE,
    FULL,
    MESSAGE,
    Capacity,
    Group,
    Host,
    Int64s,
    admits,
    broadcast,
    deliver,
    drop,
    message_bytes,
    receive,
    send_all,
    sequence_of,
    source_of,
    value_of,
    window,
)

DATA: Final = 0
ITEMS: Final = (MESSAGE,)  # what the tags of a packet's items mean: tag 0 is a message
MESSAGE_FIELDS: Final = ()  # nothing travels with a message but its name
GUARANTEE: Final = "none"  # FIFO order is not causal order
ASSUMES: Final = frozenset({"reliable"})

# Columns of ``early``.
OWNER: Final = 0
SLOT: Final = 1


@dataclass(frozen=True)
class Parameters:
    """Nothing to choose."""


class State(NamedTuple):
    """What every hosted process has delivered, and a pool of messages that came too early."""

    delivered: Int64s  # process, source -> how many of the source's messages
    early: Int64s  # row of the pool -> process that holds it, slot
    waiting: Int64s  # process -> rows of the pool that are its own
    used: Int64s  # one number: rows of the pool in use


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    return State(
        delivered=np.zeros((len(group.hosted), group.nodes), np.int64),
        early=np.zeros((capacity.held, 2), np.int64),
        waiting=np.zeros(len(group.hosted), np.int64),
        used=np.zeros(1, np.int64),
    )


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    send_all(host, DATA, slot)
    return DONE


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if state.used[0] + count > len(state.early):
        return FULL  # before anything has changed; the host makes room and calls again
    for i in range(count):
        slot = value_of(inbox, i)
        if not _settle(state, here, slot, host):
            _hold(state, here, slot)
        elif state.waiting[here] > 0:
            _settle_early(state, here, host)
    return DONE


@compiled.function()
def _settle(state: State, here: int, slot: int, host: Host) -> bool:
    """Deliver a message whose turn it is, drop one that was delivered before; else False."""
    source = source_of(host, slot)
    ahead = sequence_of(host, slot) - state.delivered[here, source]
    if ahead > 1:
        return False
    if ahead == 1:
        state.delivered[here, source] += 1
        deliver(host, slot)
    else:
        drop(host, slot)
    return True


@compiled.function(inline=False)
def _hold(state: State, here: int, slot: int) -> None:
    row = state.used[0]
    state.early[row, OWNER] = here
    state.early[row, SLOT] = slot
    state.used[0] += 1
    state.waiting[here] += 1


@compiled.function(inline=False)
def _settle_early(state: State, here: int, host: Host) -> None:
    """Settle what waits here and can be settled now, until nothing more can."""
    row = 0
    while row < state.used[0]:
        mine = state.early[row, OWNER] == here
        if mine and _settle(state, here, state.early[row, SLOT], host):
            # The last row takes its place, and the pool is looked through again.
            state.used[0] -= 1
            state.waiting[here] -= 1
            state.early[row, OWNER] = state.early[state.used[0], OWNER]
            state.early[row, SLOT] = state.early[state.used[0], SLOT]
            row = 0
        else:
            row += 1


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 8  # source and sequence number, 4 bytes each


@compiled.register(admits, State)
def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    ahead = sequence_of(host, value) - state.delivered[here, sender]
    return bool(source_of(host, value) == sender and ahead <= window(host))
