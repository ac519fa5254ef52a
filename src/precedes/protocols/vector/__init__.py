"""Causal broadcast with vector clocks, every message sent directly to everybody.

The baseline that all other protocols are measured against, and the file to read first.

Source: the classical algorithm (Birman, Schiper, Stephenson 1991), as used for comparison in the
papers of ``vcube``, ``bundled``, ``dcs`` and ``hashed``.

Algorithm. A process counts, for every process, the messages of it that it has delivered
(``clock``). A broadcast carries the sender's counts as they were before it (``need``): exactly
what the receiver must have delivered first. A message that arrives too early waits.

Assumes nothing of the network for safety: loss makes later messages wait for ever, repeated
packets are recognised by the sender's own entry and dropped.

Guarantee: causal order, at most once; everything is delivered if no packet is lost and no
process crashes. Cost: one counter per process in every message.
"""

from __future__ import annotations

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
    Int32s,
    Int64s,
    admits,
    broadcast,
    deliver,
    drop,
    expect,
    message_bytes,
    receive,
    send_all,
    sequence_of,
    source_of,
    value_of,
    window,
)
from precedes.parts import clocks
from precedes.parts.pool import NONE
from precedes.parts.waiting import (
    Held,
    add_by_entry,
    allocate_by_entry,
    can_hold,
    take_ready,
    wake,
)

DATA: Final = 0
ITEMS: Final = (MESSAGE,)
MESSAGE_FIELDS: Final = ("need",)
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "direct"


@dataclass(frozen=True)
class Parameters:
    """Nothing to choose: a clock has one entry per process."""


class State(NamedTuple):
    """Rows of ``clock`` belong to hosted processes, rows of ``need`` to messages."""

    clock: Int32s
    need: Int32s
    held: Held
    nodes: Int64s
    hosted: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    width = clocks.padded(group.nodes)
    return State(
        clock=clocks.allocate(len(group.hosted), width=width),
        need=clocks.allocate(capacity.slots, width=width),
        held=allocate_by_entry(len(group.hosted), capacity),
        nodes=np.array([group.nodes], np.int64),
        hosted=np.array(group.hosted, np.int64),
    )


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    clock = state.clock[here]
    clocks.copy(clock, state.need[slot])
    clock[source_of(host, slot)] += 1
    send_all(host, DATA, slot)
    return DONE


@compiled.register(expect, State)
def _expect(state: State, here: int) -> None:
    compiled.prefetch(state.clock, here)
    compiled.prefetch(state.held.waiting, here)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if not can_hold(state.held, count):
        return FULL
    for i in range(count):
        slot = value_of(inbox, i)
        clock = state.clock[here]
        need = state.need[slot]
        source = source_of(host, slot)
        if clock[source] > need[source]:
            drop(host, slot)
        elif clocks.covers(clock, need):
            clock[source] += 1
            deliver(host, slot)
            if state.held.waiting[here] > 0:
                _deliver_held(state, here, source, host)
        else:
            entry = clocks.first_missing(clock, need)
            add_by_entry(state.held, here, slot, entry, need[entry])
    return DONE


@compiled.function(inline=False)
def _deliver_held(state: State, here: int, source: int, host: Host) -> None:
    """After a delivery from ``source``, deliver what waits and can be, until nothing more can."""
    while True:
        wake(state.held, here, int(source), state.clock[here], state.need)
        slot = take_ready(state.held, here)
        if slot == NONE:
            return
        source = source_of(host, slot)
        if state.clock[here, source] > state.need[slot, source]:
            drop(host, slot)
        else:
            state.clock[here, source] += 1
            deliver(host, slot)


def missing(state: State, slot: int) -> list[tuple[int, int]]:
    """What a live member lacks of a waiting message's past: of each source the last message."""
    need, clock = state.need[slot], state.clock[0]
    return [(int(source), int(need[source])) for source in np.flatnonzero(need > clock)]


def happened_before(state: State, source: int, sequence: int, slot: int) -> bool:
    """Return whether a message is in the past of the one in a slot."""
    return bool(state.need[slot, source] >= sequence)


@compiled.register(admits, State)
def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    """Nobody needs more of our messages than there are, or of its own than came before."""
    need = state.need[value]
    me = state.hosted[here]
    source = source_of(host, value)
    return bool(
        clocks.are_counts(need, state.clock[here], state.nodes[0], window(host))
        and need[source] == sequence_of(host, value) - 1
        and need[me] <= state.clock[here, me]
    )


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 8 + 4 * state.nodes[0]
