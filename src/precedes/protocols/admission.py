"""What the protocols of the package let through from a real network: ``admits`` for each.

Handlers are compiled without checks of their own: they trust an index or a count in a message,
as a simulation may. A live host asks here first, so that a peer that sends nonsense is refused
and can neither lead a handler outside its arrays nor have messages wait for what cannot exist.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.parts.hash_check import requests
from precedes.protocols import (
    bundled,
    failure_detector,
    hashed,
    probabilistic,
    unordered,
    vcube,
    vector,
)
from precedes.protocols.contract import Host, Int32s, admits, sequence_of, source_of
from precedes.protocols.vcube.state import (
    ACKNOWLEDGED,
    CLOCK_WORDS,
    DATA,
    DIRECT,
    ENDED,
    ENTRIES,
    FIRST_ENTRY,
    NODE_BITS,
    NODE_MASK,
    NODES,
    OUTSTANDING,
    PEER_WORDS,
    RECEIVED,
    STABLE,
    TOLERANT,
)

SEQUENCE_MAX: Final = (1 << 31) - 1


@compiled.function(inline=False)
def _are_counts(row: Int32s, entries: int) -> bool:
    """Whether a clock of so many entries holds counts, and nothing behind them."""
    least, beyond = 0, 0
    for x in range(row.size):
        least = min(least, row[x])
        if x >= entries:
            beyond |= row[x]
    return bool(least >= 0 and beyond == 0)


@compiled.register(admits, vector.State)
def _admits_vector(
    state: vector.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    """Nobody needs more of our messages than there are, or of its own than came before."""
    need = state.need[value]
    me = state.hosted[here]
    source = source_of(host, value)
    return bool(
        _are_counts(need, state.nodes[0])
        and need[source] == sequence_of(host, value) - 1
        and need[me] <= state.clock[here, me]
    )


@compiled.register(admits, probabilistic.State)
def _admits_probabilistic(
    state: probabilistic.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    return _are_counts(state.need[value], state.setting[probabilistic.ENTRIES])


@compiled.register(admits, hashed.State)
def _admits_hashed(
    state: hashed.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    if tag == hashed.DATA:
        past = state.past[value]
        return bool(
            _are_counts(state.need[value], state.setting[hashed.ENTRIES]) and 0 <= past < (1 << 62)
        )
    if tag == requests.REQUEST:
        return 0 < value <= SEQUENCE_MAX
    return value >= 0


@compiled.register(admits, vcube.State)
def _admits_vcube(
    state: vcube.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    me = state.hosted[here]
    nodes = state.setting[NODES]
    own = state.clock[CLOCK_WORDS * (here * nodes + me) + RECEIVED]
    if tag < ENDED:
        if tag != DATA and state.setting[TOLERANT] == 0:
            return False
        if tag == DIRECT and source_of(host, value) != sender:
            return False
        return _is_stamp(state, value, me, own, sequence_of(host, value))
    if state.setting[TOLERANT] == 0 or value < 0:
        return False
    if tag == ENDED:
        crashed = value & NODE_MASK
        return bool(crashed < nodes and crashed != me and value >> NODE_BITS <= own)
    if tag == ACKNOWLEDGED:
        return value <= own
    at = PEER_WORDS * (here * nodes + sender) + OUTSTANDING
    return value <= state.recovery.peer[at]


@compiled.function(inline=False)
def _is_stamp(state: vcube.State, slot: int, me: int, own: int, sequence: int) -> bool:
    """Whether a stamp names members, once each, and counts that can be."""
    stamp = state.stamp[slot]
    nodes = state.setting[NODES]
    if stamp[ENTRIES] < 0 or stamp[ENTRIES] >= nodes or not 0 <= stamp[STABLE] <= sequence:
        return False
    before = -1
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if not before < stamp[i] < nodes or stamp[i + 1] < 0:
            return False
        if stamp[i] == me and stamp[i + 1] > own:
            return False
        before = stamp[i]
    return True


@compiled.register(admits, bundled.State)
def _admits_bundled(
    state: bundled.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    # A live host has the failure detector; the protocol's own does not take part.
    return tag <= bundled.ACK


@compiled.register(admits, failure_detector.State)
def _admits_detector(
    state: failure_detector.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    return tag == failure_detector.DATA


@compiled.register(admits, unordered.State)
def _admits_unordered(
    state: unordered.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    return True
