"""Causal broadcast with vector clocks, every message sent directly to all.

The baseline that all other protocols are measured against, and the file to read first.

Source: the classical algorithm (Birman, Schiper, Stephenson 1991), as used for comparison in the
papers of ``vcube``, ``bundled``, ``dcs`` and ``hashed``.

Algorithm. A process counts, for every process, the messages of it that it has delivered
(``clock``). A broadcast carries the sender's counts as they were before it (``need``): exactly
what the receiver must have delivered first. A message that arrives too early waits.

Assumes nothing of the network for safety: loss makes later messages wait forever, repeated
packets are recognised by the sender's own entry and dropped.

Guarantee: causal order, at most once; everything is delivered if no packet is lost and no
process crashes. Cost: one counter per process in every message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import MESSAGE, Capacity, Group, Host, Int32s, Int64s, handler, value_of
from precedes.parts import clocks, waiting
from precedes.parts.pool import NONE
from precedes.parts.waiting import BY_ENTRY, Held

DATA: Final = 0
ITEMS: Final = (MESSAGE,)
MESSAGE_FIELDS: Final = ("need",)
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "direct"


@dataclass(frozen=True)
class Parameters:
    """A protocol without parameters: a clock has one entry per process."""


class State(NamedTuple):
    """Rows of ``clock`` belong to hosted processes, rows of ``need`` to messages."""

    clock: Int32s
    need: Int32s
    held: Held
    nodes: int
    hosted: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    width = clocks.padded(group.nodes)
    return State(
        clock=clocks.allocate(len(group.hosted), width=width),
        need=clocks.allocate(capacity.slots, width=width),
        held=waiting.make_by_entry(len(group.hosted), capacity),
        nodes=group.nodes,
        hosted=np.array(group.hosted, np.int64),
    )


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    clock = state.clock[here]
    clocks.copy(clock, state.need[slot])
    clock[host.source_of(slot)] += 1
    host.send_all(DATA, slot)


@handler(State)
def expect(state: State, here: int) -> None:
    compiled.prefetch(state.clock, here)
    compiled.prefetch(state.held.waiting, here)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    for i in range(count):
        slot = value_of(inbox, i)
        clock = state.clock[here]
        need = state.need[slot]
        source = host.source_of(slot)
        if clock[source] > need[source]:
            host.drop(slot)
        elif clocks.covers(clock, need):
            clock[source] += 1
            host.deliver(slot)
            if state.held.waiting[here] > 0:
                _deliver_held(state, here, source, host)
        else:
            entry = clocks.first_missing(clock, need)
            state.held.add(here, entry % BY_ENTRY, slot, entry, need[entry])


@compiled.function(inline=False)
def _deliver_held(state: State, here: int, source: int, host: Host) -> None:
    """After a delivery from ``source``, deliver waiting messages until none is ready."""
    while True:
        state.held.wake(here, int(source), state.clock[here], state.need)
        slot = state.held.take_ready(here)
        if slot == NONE:
            return
        source = host.source_of(slot)
        if state.clock[here, source] > state.need[slot, source]:
            host.drop(slot)
        else:
            state.clock[here, source] += 1
            host.deliver(slot)


def missing(state: State, slot: int) -> list[tuple[int, int]]:
    """The missing past of a waiting message at a live member: of each source the last message."""
    need, clock = state.need[slot], state.clock[0]
    return [(int(source), int(need[source])) for source in np.flatnonzero(need > clock)]


def happened_before(state: State, source: int, sequence: int, slot: int) -> bool:
    """Return whether a message is in the past of the one in a slot."""
    return bool(state.need[slot, source] >= sequence)


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    """No process needs more of our messages than there are, or of its own than came before."""
    need = state.need[value]
    me = state.hosted[here]
    source = host.source_of(value)
    return bool(
        clocks.are_counts(need, state.clock[here], state.nodes, host.window())
        and need[source] == host.sequence_of(value) - 1
        and need[me] <= state.clock[here, me]
    )


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8 + 4 * state.nodes
