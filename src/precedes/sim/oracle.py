"""The oracle in the loop: is this delivery in causal order? Exact, and optional.

It uses none of the protocol's clocks. Broadcasts of one node are totally ordered, so a causal
past is always a prefix of every node's broadcasts and one number per node says it exactly:

- ``known[p, q]``: how many broadcasts of q lie in the past of p's next broadcast;
- ``past[m, q]``: the same for message m, taken when m is broadcast;
- ``contiguous[p, q]``: how many broadcasts of q node p has delivered without a gap.

Node p delivers m in order iff ``contiguous[p] >= past[m]`` everywhere. While it does, the past of
m is already known at p and one entry is all that changes; only an error merges vectors. What p
delivers beyond a gap is kept in one bit per node and message.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

IN_ORDER: Final = 0
VIOLATION: Final = 1
DUPLICATE: Final = 2


class Oracle(NamedTuple):
    """Empty arrays when the oracle is off (``on[0]`` false)."""

    on: NDArray[np.bool_]
    known: NDArray[np.int32]  # node, node
    contiguous: NDArray[np.int32]  # node, node
    past: NDArray[np.int32]  # slot, node
    flagged: NDArray[np.bool_]  # slot: some delivery of it was an error
    beyond: NDArray[np.uint8]  # node, number of the message / 8: delivered beyond a gap
    gaps: NDArray[np.int64]  # node: bits set in its row of ``beyond``
    latest: NDArray[np.int64]  # node: number of its latest broadcast, or -1
    successor: NDArray[np.int64]  # number of a message -> of its source's next one, or -1


def allocate(*, on: bool, nodes: int, slots: int, messages: int) -> Oracle:
    """An oracle for a run; ``messages`` is how many broadcasts it can tell apart."""
    n, k, m = (nodes, slots, messages) if on else (0, 0, 0)
    return Oracle(
        on=np.array([on]),
        known=np.zeros((n, n), np.int32),
        contiguous=np.zeros((n, n), np.int32),
        past=np.zeros((k, n), np.int32),
        flagged=np.zeros(k, np.bool_),
        beyond=np.zeros((n, (m + 7) // 8), np.uint8),
        gaps=np.zeros(n, np.int64),
        latest=np.full(n, -1, np.int64),
        successor=np.full(m, -1, np.int64),
    )


@compiled.function(inline=False)
def has_room(oracle: Oracle, number: int) -> bool:
    """Whether a message of this number can be told apart."""
    return not oracle.on[0] or number < oracle.successor.size


@compiled.function(inline=False)
def on_broadcast(oracle: Oracle, node: int, slot: int, number: int) -> None:
    """Take the past of the new message, then make the message part of it."""
    if not oracle.on[0]:
        return
    known = oracle.known[node]
    past = oracle.past[slot]
    for q in range(known.size):
        past[q] = known[q]
    known[node] += 1
    oracle.contiguous[node, node] += 1
    oracle.flagged[slot] = False
    if oracle.latest[node] >= 0:
        oracle.successor[oracle.latest[node]] = number
    oracle.latest[node] = number


@compiled.function()
def on_deliver(
    oracle: Oracle, node: int, slot: int, number: int, source: int, sequence: int
) -> int:
    """Judge one delivery and take it into account."""
    contiguous = oracle.contiguous[node]
    past = oracle.past[slot]
    in_order = True
    for q in range(past.size):
        in_order &= contiguous[q] >= past[q]
    if in_order and contiguous[source] + 1 == sequence and oracle.gaps[node] == 0:
        contiguous[source] = sequence
        oracle.known[node, source] = max(oracle.known[node, source], sequence)
        return IN_ORDER
    return _on_deliver_late(oracle, node, slot, number, source, sequence, in_order)


@compiled.function(inline=False)
def _on_deliver_late(
    oracle: Oracle,
    node: int,
    slot: int,
    number: int,
    source: int,
    sequence: int,
    in_order: bool,
) -> int:
    contiguous = oracle.contiguous[node]
    known = oracle.known[node]
    bit = np.uint8(1 << (number & 7))
    if sequence <= contiguous[source] or oracle.beyond[node, number >> 3] & bit != 0:
        return DUPLICATE
    past = oracle.past[slot]
    for q in range(past.size):
        known[q] = max(known[q], past[q])
    known[source] = max(known[source], sequence)
    if contiguous[source] + 1 < sequence:
        oracle.beyond[node, number >> 3] |= bit
        oracle.gaps[node] += 1
    else:
        _close_gap(oracle, node, number, source)
    return IN_ORDER if in_order else VIOLATION


@compiled.function(inline=False)
def _close_gap(oracle: Oracle, node: int, number: int, source: int) -> None:
    """Count the message, and those of its source behind it that came too early."""
    while True:
        oracle.contiguous[node, source] += 1
        number = oracle.successor[number]
        if number < 0:
            return
        bit = np.uint8(1 << (number & 7))
        if oracle.beyond[node, number >> 3] & bit == 0:
            return
        oracle.beyond[node, number >> 3] &= ~bit
        oracle.gaps[node] -= 1
