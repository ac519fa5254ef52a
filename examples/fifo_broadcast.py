"""FIFO broadcast: the messages of one source are delivered in the order of their broadcasts.

A complete protocol in one file; docs/adding-a-protocol.md walks through it. Run it with

    precedes simulate examples/fifo_broadcast.py --nodes 50 --messages 5000

Source: the usual reliable FIFO broadcast over direct links, with a counter for every source.

Algorithm. The host numbers the broadcasts of a node 1, 2, 3, ... A process counts, for every
source, the messages of it that it has delivered. The message numbered one more is delivered, an
earlier one is a duplicate, and a later one waits.

Assumes that no packet is lost: all later messages of its source would wait forever. Repeated
packets are recognised by their number and dropped.

Guarantee: the order of each source, at most once; no causal order between sources. Cost: nothing
is added to a message but its name.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import MESSAGE, Capacity, Group, Host, Int32s, Int64s, handler, value_of
from precedes.parts import pool
from precedes.parts.pool import NONE

DATA: Final = 0
ITEMS: Final = (MESSAGE,)  # tag 0 of a packet's items is a message
MESSAGE_FIELDS: Final = ()  # nothing travels with a message but its name
GUARANTEE: Final = "none"  # FIFO order is not causal order
ASSUMES: Final = frozenset({"reliable"})


@dataclass(frozen=True)
class Parameters:
    """A protocol without parameters."""


class Early(NamedTuple):
    """Early messages, each on the list of the process that holds it."""

    slot: Int32s
    link: Int32s  # the next one of the list, or NONE
    mark: Int64s


class State(NamedTuple):
    """Delivered and waiting messages of every hosted process."""

    delivered: Int64s  # process, source -> number of the source's messages
    first: Int64s  # process -> the first row of its list, or NONE
    early: Early


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    return State(
        delivered=np.zeros((len(group.hosted), group.nodes), np.int64),
        first=np.full(len(group.hosted), NONE, np.int64),
        early=pool.reserve(Early, capacity.reserve_bytes),
    )


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    host.send_all(DATA, slot)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    for i in range(count):
        slot = value_of(inbox, i)
        if not _settle(state, here, slot, host):
            _hold(state, here, slot)
        elif state.first[here] != NONE:
            _settle_early(state, here, host)


@compiled.function()
def _settle(state: State, here: int, slot: int, host: Host) -> bool:
    """Deliver a message whose turn it is, drop one that was delivered before; else return False."""
    source = host.source_of(slot)
    ahead = host.sequence_of(slot) - state.delivered[here, source]
    if ahead > 1:
        return False
    if ahead == 1:
        state.delivered[here, source] += 1
        host.deliver(slot)
    else:
        host.drop(slot)
    return True


@compiled.function(inline=False)
def _hold(state: State, here: int, slot: int) -> None:
    row = pool.take(state.early)
    state.early.slot[row] = slot
    state.early.link[row] = state.first[here]
    state.first[here] = row


@compiled.function(inline=False)
def _settle_early(state: State, here: int, host: Host) -> None:
    """Settle waiting messages that are ready, until there are none."""
    early = state.early
    before, row = NONE, state.first[here]
    while row != NONE:
        following = early.link[row]
        if not _settle(state, here, early.slot[row], host):
            before, row = row, following
            continue
        if before == NONE:
            state.first[here] = following
        else:
            early.link[before] = following
        pool.give_back(early, row)
        before, row = NONE, state.first[here]  # start again with the first waiting message


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8  # source and sequence number, 4 bytes each


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    ahead = host.sequence_of(value) - state.delivered[here, sender]
    return bool(host.source_of(value) == sender and ahead <= host.window())
