"""The oracle in the loop, which judges each delivery: exact, and optional.

It uses none of the protocol's clocks. Broadcasts of one node are totally ordered, so a causal
past is always a prefix of every node's broadcasts and one number per node describes it exactly:

- ``known[p, q]``: number of broadcasts of q in the past of p's next broadcast;
- ``past[m, q]``: the same for message m, taken when m is broadcast;
- ``contiguous[p, q]``: number of broadcasts of q that node p has delivered without a gap.

Node p delivers m in order iff ``contiguous[p] >= past[m]`` everywhere. As long as it does,
``known`` equals what it has delivered, and one entry is all that changes; ``known`` is compared
only between an error and the arrival of the missing message, when the node is *behind*. Deliveries
beyond a gap is kept in one bit per node and message.

The comparison costs an entry per node. A quicker test answers nearly always: of a past, only the
messages still in flight can be missing anywhere, and they have small slot numbers. One bit per
slot says which of them node p has delivered (``done``) and which lie in the past of m: if the
second set lies within the first, m is in order, and if m's own bit was not set before, it is not a
duplicate. This holds as long as a slot is reused only after all have delivered its message;
the first lost message turns the quick test off permanently. A message that is broadcast while one
with a large slot number is in flight, which has no bit, gets no quick answer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.contract import Int64s
from precedes.sim.engine import layout

# Messages in flight that the quick test can tell apart, in words of 64 bits.
QUICK_WORDS: Final = 4
QUICK_SLOTS: Final = 64 * QUICK_WORDS
# Places in ``quick``.
OFF: Final = 0  # whether the test is off
UNTRACKED: Final = 1  # messages in flight that have no bit
FIRST_DONE: Final = 2

IN_ORDER: Final = 0
VIOLATION: Final = 1
DUPLICATE: Final = 2


class Oracle(NamedTuple):
    """All arrays are empty when the oracle is off."""

    known: NDArray[np.int32]  # node, node
    contiguous: NDArray[np.int32]  # node, node
    past: NDArray[np.int32]  # slot, node
    beyond: NDArray[np.uint8]  # node, number of the message / 8: delivered beyond a gap
    successor: NDArray[np.int64]  # number of a message -> of its source's next one, or -1
    quick: NDArray[np.int64]  # two words, then ``done`` of nodes, pasts of slots


def allocate(*, on: bool, nodes: int, slots: int, messages: int) -> Oracle:
    """An oracle for a run; ``messages`` is the number of broadcasts that it can distinguish."""
    n, k, m = (nodes, slots, messages) if on else (0, 0, 0)
    # Rows are padded as clocks are: whole vectors compare without a remainder.
    width = -(-n // 32) * 32
    return Oracle(
        known=np.zeros((n, width), np.int32),
        contiguous=np.zeros((n, width), np.int32),
        past=np.zeros((k, width), np.int32),
        beyond=np.zeros((n, (m + 7) // 8), np.uint8),
        successor=np.full(m, -1, np.int64),
        quick=np.zeros(FIRST_DONE + QUICK_WORDS * (n + QUICK_SLOTS if on else 0), np.int64),
    )


@compiled.function()
def is_on(oracle: Oracle) -> bool:
    """Return whether the oracle is enabled."""
    return oracle.known.size > 0


@compiled.function(inline=False)
def has_room(oracle: Oracle, number: int) -> bool:
    """Return whether a message of this number can be distinguished."""
    return not is_on(oracle) or number < oracle.successor.size


@compiled.function(inline=False)
def on_broadcast(
    oracle: Oracle, word: Int64s, node: int, slot: int, number: int, everywhere: bool
) -> None:
    """Store the past of the new message, then make the message part of it.

    ``everywhere``: all have delivered the message that had the slot before.
    """
    if not is_on(oracle):
        return
    contiguous = oracle.contiguous[node]
    known = oracle.known[node]
    past = oracle.past[slot]
    behind = word[node, layout.BEHIND] != 0
    for q in range(past.size):
        past[q] = known[q] if behind else contiguous[q]
    known[node] += 1
    contiguous[node] += 1
    latest = word[node, layout.LATEST]
    if latest >= 0:
        oracle.successor[latest] = number
    word[node, layout.LATEST] = number
    if not everywhere:
        oracle.quick[OFF] = 1
    if slot < QUICK_SLOTS:
        _reuse_bit(oracle.quick, node, slot, oracle.known.shape[0], behind)
    else:
        oracle.quick[UNTRACKED] += 1


@compiled.function()
def _reuse_bit(quick: Int64s, node: int, slot: int, nodes: int, behind: bool) -> None:
    """Assign the slot's bit to the new message, which its source alone has delivered."""
    bit = np.int64(1) << np.int64(slot & 63)
    place = FIRST_DONE + (slot >> 6)
    for row in range(nodes + QUICK_SLOTS):
        quick[place + QUICK_WORDS * row] &= ~bit
    first_past = FIRST_DONE + QUICK_WORDS * (nodes + slot)
    for i in range(QUICK_WORDS):
        # The past of a node that is behind exceeds its deliveries: no quick answer then.
        done = quick[FIRST_DONE + QUICK_WORDS * node + i]
        quick[first_past + i] = np.int64(-1) if behind or quick[UNTRACKED] > 0 else done
    quick[place + QUICK_WORDS * node] |= bit


@compiled.function()
def _quickly_in_order(oracle: Oracle, node: int, slot: int) -> bool:
    """Return whether node has delivered all of the message's past but not the message, if the
    bits can prove it."""
    quick = oracle.quick
    past = FIRST_DONE + QUICK_WORDS * (oracle.known.shape[0] + slot)
    done = FIRST_DONE + QUICK_WORDS * node
    missing = quick[OFF]
    for i in range(QUICK_WORDS):
        missing |= quick[past + i] & ~quick[done + i]
    own = done + (slot >> 6)
    bit = np.int64(1) << np.int64(slot & 63)
    missing |= quick[own] & bit
    quick[own] |= bit
    return missing == 0


@compiled.function()
def on_deliver(
    oracle: Oracle, word: Int64s, node: int, slot: int, number: int, source: int, sequence: int
) -> int:
    """Judge one delivery and update the state."""
    quick = slot < QUICK_SLOTS and _quickly_in_order(oracle, node, slot)
    if quick and word[node, layout.BEHIND] == 0:
        # All before it of the same source is in its past: the entry need not be compared.
        oracle.contiguous[node, source] = sequence
        return IN_ORDER
    return _on_deliver_late(oracle, word, node, slot, number, source, sequence)


@compiled.function(inline=False)
def on_everywhere(oracle: Oracle, slot: int) -> None:
    """All nodes have delivered the message: it can no longer be missing anywhere."""
    if slot >= QUICK_SLOTS:
        oracle.quick[UNTRACKED] -= 1


@compiled.function(inline=False)
def _on_deliver_late(
    oracle: Oracle,
    word: Int64s,
    node: int,
    slot: int,
    number: int,
    source: int,
    sequence: int,
) -> int:
    """Judge a delivery by comparing vectors."""
    contiguous = oracle.contiguous[node]
    bit = np.uint8(1 << (number & 7))
    if sequence <= contiguous[source] or oracle.beyond[node, number >> 3] & bit != 0:
        return DUPLICATE
    known = oracle.known[node]
    past = oracle.past[slot]
    shortfall = np.int32(0)
    for q in range(past.size):
        shortfall = min(shortfall, np.int32(contiguous[q] - past[q]))
    behind = word[node, layout.BEHIND] != 0
    if shortfall >= 0 and contiguous[source] + 1 == sequence and not behind:
        contiguous[source] = sequence
        return IN_ORDER
    for q in range(past.size):
        known[q] = max(known[q] if behind else contiguous[q], past[q])
    known[source] = max(known[source], sequence)
    if contiguous[source] + 1 < sequence:
        oracle.beyond[node, number >> 3] |= bit
        word[node, layout.GAPS] += 1
    else:
        _close_gap(oracle, word, node, number, source)
    behind = word[node, layout.GAPS] != 0
    for q in range(past.size):
        behind |= known[q] != contiguous[q]
    word[node, layout.BEHIND] = behind
    return IN_ORDER if shortfall >= 0 else VIOLATION


@compiled.function(inline=False)
def _close_gap(oracle: Oracle, word: Int64s, node: int, number: int, source: int) -> None:
    """Count the message, and later ones of its source that arrived early."""
    while True:
        oracle.contiguous[node, source] += 1
        number = oracle.successor[number]
        if number < 0:
            return
        bit = np.uint8(1 << (number & 7))
        if oracle.beyond[node, number >> 3] & bit == 0:
            return
        oracle.beyond[node, number >> 3] &= ~bit
        word[node, layout.GAPS] -= 1
