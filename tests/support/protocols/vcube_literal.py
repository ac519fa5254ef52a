"""Algorithm 2 of `vcube`'s paper as it reads: whole vectors, sets, and everything looked at again.

Slow, interpreted only, and without a line in common with the package's ``vcube``, which has to
behave exactly like it. ``error`` brings back one of the printed mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from precedes import compiled
from precedes.contract import (
    DONE,
    MESSAGE,
    Capacity,
    Group,
    Host,
    broadcast,
    deliver,
    message_bytes,
    open_packet,
    put,
    receive,
    source_of,
    value_of,
)

ITEMS: Final = (MESSAGE,)
MESSAGE_FIELDS: Final = ()
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable", "unique"})

ERRORS: Final = (
    "none",
    "line 3 of Algorithm 1: 1 < s",
    "line 22: delivery inside the loop",
    "line 19: only m triggers",
    "line 27: only the trigger is sent",
    "line 26: no first condition",
    "line 32: for all k, the source too",
)


@dataclass(frozen=True)
class Parameters:
    """Which mistake to make."""

    error: str = field(default="none")
    aggregation: bool = field(default=True)
    trees: str = field(default="source")
    tolerant: bool = field(default=False)


class State:
    """Of all processes; plain Python."""

    def __init__(self, parameters: Parameters, nodes: int, slots: int) -> None:
        assert parameters.error in ERRORS, parameters.error
        self.error = parameters.error
        self.aggregation = parameters.aggregation
        self.nodes = nodes
        self.clock = [[0] * nodes for _ in range(nodes)]
        self.received = [[0] * nodes for _ in range(nodes)]
        self.pending: list[list[int]] = [[] for _ in range(nodes)]
        self.sent: list[set[tuple[int, int]]] = [set() for _ in range(nodes)]
        self.vector: dict[int, tuple[int, ...]] = {}
        self.entries: dict[int, int] = {}
        self.last: list[list[int]] = [[0] * nodes for _ in range(nodes)]
        self.slots = np.zeros(slots)


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    return State(parameters, group.nodes, capacity.slots)


def c(i: int, s: int) -> list[int]:
    """The members of cluster s of i."""
    return [i ^ 2 ** (s - 1)] + [j for k in range(1, s) for j in c(i ^ 2 ** (s - 1), k)]


def first_child(state: State, i: int, s: int) -> int | None:
    """FIRSTCHILD, without the nodes that are not there."""
    return next((j for j in c(i, s) if j < state.nodes), None)


def cluster(state: State, i: int, j: int) -> int:
    """CLUSTER."""
    return next(s for s in range(1, 20) if j in c(i, s))


def children(state: State, i: int, r: int) -> list[int]:
    """CHILDREN(r, log N) as called by i."""
    h = (state.nodes - 1).bit_length()
    while i != r:
        s = cluster(state, r, i)
        following = first_child(state, r, s)
        assert following is not None
        r, h = following, s - 1
    lowest = 2 if state.error.startswith("line 3 of") else 1
    found = [first_child(state, i, s) for s in range(lowest, h + 1)]
    return [k for k in found if k is not None]


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    state.clock[here][here] += 1
    state.received[here][here] = state.clock[here][here]
    clock = state.clock[here]
    state.vector[slot] = tuple(clock)
    state.entries[slot] = sum(a != b for a, b in zip(clock, state.last[here], strict=True))
    state.last[here] = list(clock)
    for k in children(state, here, here):
        send(host, k, [slot])
    return DONE


def send(host: Host, target: int, slots: list[int]) -> None:
    """SEND."""
    open_packet(host, target)
    for slot in slots:
        put(host, 0, slot)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Any, count: int, host: Host) -> int:
    slots = [int(value_of(inbox, i)) for i in range(count)]
    if not state.aggregation:
        for slot in slots:
            for k in children(state, here, int(source_of(host, slot))):
                send(host, k, [slot])
        state.pending[here] += slots
    elif state.error in ERRORS[:2] or state.error.startswith("line 32"):
        state.pending[here] += slots
        while (slot := next_received(state, here, host)) is not None:
            state.received[here][source_of(host, slot)] += 1
        served = {k for m in state.pending[here] for k in to_serve(state, here, m, host)}
        for k in sorted(served, key=lambda k: k ^ here):  # by cluster
            aggregated = [m for m in state.pending[here] if may_go(state, here, k, m, host)]
            state.sent[here] |= {(m, k) for m in aggregated}
            if aggregated:
                send(host, k, aggregated)
    else:
        as_printed(state, here, slots, host)
    check_delivery(state, here, host)
    return DONE


def next_received(state: State, i: int, host: Host) -> int | None:
    """Line 16: a pending message that is the next one of its source."""
    for m in state.pending[i]:
        source = source_of(host, m)
        if state.vector[m][source] == state.received[i][source] + 1:
            return m
    return None


def to_serve(state: State, i: int, m: int, host: Host) -> list[int]:
    """The children of i in the tree of m, in order of their clusters."""
    return children(state, i, int(source_of(host, m)))


def may_go(state: State, i: int, k: int, m: int, host: Host) -> bool:
    """Whether i sends m to k now: for the first time, and k could deliver it as far as i knows."""
    if (m, k) in state.sent[i] or k not in to_serve(state, i, m, host):
        return False
    return not is_blocked(state, i, k, m)


def is_blocked(state: State, i: int, k: int, m: int) -> bool:
    """The second condition of line 26."""
    return any(
        needed > state.received[i][source] and k in children(state, i, source)
        for source, needed in enumerate(state.vector[m])
    )


def as_printed(state: State, i: int, slots: list[int], host: Host) -> None:
    """Lines 14 to 22, with one mistake or another."""
    for m in slots:
        state.pending[i].append(m)
        while (advanced := next_received(state, i, host)) is not None:
            state.received[i][source_of(host, advanced)] += 1
            trigger = m if state.error == "line 19: only m triggers" else advanced
            for k in to_serve(state, i, trigger, host):
                aggregated = check_aggregation(state, i, k, trigger, host)
                if aggregated:
                    send(host, k, aggregated)
            if state.error.startswith("line 22"):
                check_delivery(state, i, host)


def check_aggregation(state: State, i: int, k: int, m: int, host: Host) -> list[int]:
    """CHECKAGG, lines 23 to 28."""
    source = source_of(host, m)
    if state.error.startswith("line 27"):
        return [] if is_blocked(state, i, k, m) else [m]
    first = state.error == "line 26: no first condition"
    return [
        other
        for other in state.pending[i]
        if k in to_serve(state, i, other, host)
        and (first or state.vector[other][source] >= state.vector[m][source])
        and not is_blocked(state, i, k, other)
    ]


def check_delivery(state: State, i: int, host: Host) -> None:
    """CHECKDELIVERY, lines 29 to 33."""
    again = True
    while again:
        again = False
        for m in state.pending[i]:
            source = int(source_of(host, m))
            skipped = () if state.error.startswith("line 32") else (source,)
            ready = state.vector[m][source] == state.clock[i][source] + 1 and all(
                needed <= state.clock[i][k]
                for k, needed in enumerate(state.vector[m])
                if k not in skipped
            )
            if ready:
                deliver(host, m)
                state.clock[i][source] += 1
                state.pending[i].remove(m)
                state.sent[i] -= {pair for pair in state.sent[i] if pair[0] == m}
                again = True
                break


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 4 * state.entries[slot]
