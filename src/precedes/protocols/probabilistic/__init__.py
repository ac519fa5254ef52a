"""Causal broadcast with a probabilistic clock: fewer entries than processes, rare errors.

Source: "Improving accuracy", section on probabilistic clocks, after Mostefaoui and Weiss (2017).

Algorithm. A clock has M ``entries``; process i owns k of them, f(i), chosen by a seeded hash. A
broadcast increments the sender's own entries; the message carries the clock as it was before
(``need``). The receiver waits until its clock has reached ``need`` everywhere, then increments
the sender's entries and delivers. It always increments and never takes a maximum, so an entry is
exactly the number of delivered messages that hit it; with a maximum twice as many messages err in
large groups.

A missing dependency goes unnoticed when concurrent messages have covered its entries: then the
delivery is out of causal order. The ``detector`` of the same authors tags suspicious deliveries. It
is passive here: it counts, and changes nothing.

Assumes that every packet arrives exactly once: a lost one blocks all that follows it, a repeated
one would be counted twice.

Guarantee: everything is delivered once; a delivery is out of causal order with a probability
that falls with M and rises with the load. Cost: M counters in every message, whatever N.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import MESSAGE, Capacity, Group, Host, Int32s, Int64s, handler, value_of
from precedes.errors import UserError
from precedes.model import EventKind
from precedes.parts import clocks, waiting
from precedes.parts.pool import NONE
from precedes.parts.waiting import Held

DATA: Final = 0
ITEMS: Final = (MESSAGE,)
MESSAGE_FIELDS: Final = ("need",)
GUARANTEE: Final = "probable"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "direct"

DETECTORS: Final = ("none", "mostefaoui")

TAG: Final = int(EventKind.TAG)


@dataclass(frozen=True)
class Parameters:
    """The size of the clock."""

    entries: int = field(default=50, metadata={"help": "entries of the clock (M)"})
    per_process: int = field(default=2, metadata={"help": "entries that a process owns (k)"})

    detector: str = field(
        default="none", metadata={"help": "none, or mostefaoui: tag deliveries, change nothing"}
    )

    def __post_init__(self) -> None:
        clocks.check_size(entries=self.entries, per_process=self.per_process)
        if self.detector not in DETECTORS:
            raise UserError(f"detector must be {' or '.join(DETECTORS)}, not {self.detector!r}")


class State(NamedTuple):
    """Rows of ``clock`` belong to hosted processes, of ``need`` to messages, of ``own`` to all."""

    clock: Int32s
    need: Int32s
    own: Int32s  # f: process -> the entries it increments
    held: Held
    owners: Int64s  # for each entry of a row: see ``clocks.owners_of``
    entries: int
    has_detector: int
    tagged: Int64s  # one number: deliveries that the detector tagged


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    width = clocks.padded(parameters.entries)
    own = clocks.entries_of_all(
        entries=parameters.entries,
        per_process=parameters.per_process,
        nodes=group.nodes,
        seed=group.seed,
    )
    owners = clocks.owners_of(own, hosted=group.hosted, width=width)
    return State(
        clock=clocks.allocate(len(group.hosted), width=width),
        need=clocks.allocate(capacity.slots, width=width),
        own=own,
        held=waiting.make_in_order(len(group.hosted), capacity),
        owners=np.array(owners, np.int64),
        entries=parameters.entries,
        has_detector=int(parameters.detector != "none"),
        tagged=np.zeros(1, np.int64),
    )


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    clocks.copy(state.clock[here], state.need[slot])
    _increment(state, here, host.source_of(slot))
    host.send_all(DATA, slot)


@compiled.function()
def _increment(state: State, here: int, process: int) -> None:
    for i in range(state.own.shape[1]):
        state.clock[here, state.own[process, i]] += 1


@handler(State)
def expect(state: State, here: int) -> None:
    compiled.prefetch(state.clock, here)
    compiled.prefetch(state.held.waiting, here)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    for i in range(count):
        slot = value_of(inbox, i)
        need = state.need[slot]
        if clocks.covers(state.clock[here], need):
            _deliver(state, here, slot, host)
            if state.held.waiting[here] > 0:
                _deliver_held(state, here, host)
        else:
            entry = clocks.first_missing(state.clock[here], need)
            state.held.add(here, 0, slot, entry, need[entry])


@compiled.function(inline=False)
def _deliver_held(state: State, here: int, host: Host) -> None:
    """Deliver waiting messages that are ready, until there are none."""
    while True:
        slot = state.held.take_first_ready(here, state.clock[here], state.need)
        if slot == NONE:
            return
        _deliver(state, here, slot, host)


@compiled.function()
def _deliver(state: State, here: int, slot: int, host: Host) -> None:
    if state.has_detector != 0 and _looks_late(state, here, slot, host):
        state.tagged[0] += 1
        host.note(TAG, slot)
    _increment(state, here, host.source_of(slot))
    host.deliver(slot)


@compiled.function(inline=False)
def _looks_late(state: State, here: int, slot: int, host: Host) -> bool:
    """The detector of Mostefaoui and Weiss: others have counted up all the sender's entries.

    The clock in the message includes the message itself, ``need`` does not: hence above, not
    equal. As published, the test is the other way round and tags nearly everything.
    """
    source = host.source_of(slot)
    for i in range(state.own.shape[1]):
        x = state.own[source, i]
        if state.clock[here, x] <= state.need[slot, x]:
            return False
    return True


def extra(state: State) -> dict[str, float]:
    """Number of deliveries that the detector tagged."""
    return {"tagged": int(state.tagged[0])}


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    need, clock = state.need[value], state.clock[here]
    return clocks.are_sums(need, clock, state.owners, host.window())


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8 + 4 * state.entries
