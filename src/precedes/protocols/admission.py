"""What the protocols of the package let through from a real network: ``admits`` for each.

Handlers are compiled without checks of their own: they trust an index or a count in a message,
as a simulation may. A live host asks here first, so that a peer that sends nonsense is refused
and can neither lead a handler outside its arrays nor have messages wait for what cannot exist.

What can exist. A member sends no more than a window of messages beyond what all in its view have
taken, and this member has delivered all that it has taken; so nobody has more of anybody's messages
than are delivered here, and a window. Who has gone on without this member has told so over each of
its links before it sent more, and whoever heard that sends nothing here any more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import (
    Host,
    Int32s,
    Int64s,
    admits,
    sequence_of,
    source_of,
    window,
)
from precedes.parts.hash_check import requests, set_hash
from precedes.protocols import (
    bundled,
    dcs,
    failure_detector,
    hashed,
    probabilistic,
    unordered,
    vcube,
    vector,
)
from precedes.protocols.dcs import components, rounds
from precedes.protocols.dcs import state as dcs_words
from precedes.protocols.vcube import state as vcube_words
from precedes.protocols.vcube.state import (
    ENTRIES,
    FIRST_ENTRY,
    NODES,
    STABLE,
    TOLERANT,
    entry_of,
    peer_of,
)

SOURCE_SHIFT: Final = 32  # of a name in an answer
SEQUENCE_MASK: Final = (1 << SOURCE_SHIFT) - 1


@compiled.register(admits, vector.State)
def _admits_vector(
    state: vector.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    """Nobody needs more of our messages than there are, or of its own than came before."""
    need = state.need[value]
    me = state.hosted[here]
    source = source_of(host, value)
    return bool(
        _are_counts(need, state.clock[here], state.nodes[0], window(host))
        and need[source] == sequence_of(host, value) - 1
        and need[me] <= state.clock[here, me]
    )


@compiled.function(inline=False)
def _are_counts(row: Int32s, clock: Int32s, entries: int, ahead: int) -> bool:
    """Whether a clock of so many entries holds counts that can be, and nothing behind them."""
    least, most, beyond = np.int32(0), np.int32(0), np.int32(0)
    for x in range(row.size):
        least = min(least, row[x])
        most = max(most, np.int32(max(row[x], np.int32(0)) - clock[x]))
        if x >= entries:
            beyond |= row[x]
    return bool(least >= 0 and most <= ahead and beyond == 0)


@compiled.register(admits, probabilistic.State)
def _admits_probabilistic(
    state: probabilistic.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    first = probabilistic.OWNERS
    return _are_sums(state.need[value], state.clock[here], state.setting, first, window(host))


@compiled.function(inline=False)
def _are_sums(row: Int32s, clock: Int32s, setting: Int64s, first: int, ahead: int) -> bool:
    """Whether a clock can be whose entries are hit by as many others as the setting says.

    Entries that nobody else hits, and those behind the last, are no higher than they are here.
    """
    sound = True
    for x in range(row.size):
        most = clock[x] + ahead * setting[first + x]
        sound &= 0 <= row[x] <= most
    return bool(sound)


@compiled.register(admits, hashed.State)
def _admits_hashed(
    state: hashed.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    if tag == hashed.DATA:
        clock = state.clock[here]
        return bool(
            _are_sums(state.need[value], clock, state.setting, hashed.OWNERS, window(host))
            and 0 <= state.past[value] <= set_hash.MASK
        )
    return _is_talk(state.delivered[here], state.node[here] + compiled.ZERO, tag, value, host)


@compiled.function(inline=False)
def _is_talk(delivered: Int32s, me: int, tag: int, value: int, host: Host) -> bool:
    """Whether a question is about a message of ours, or an answer about messages that can be."""
    if tag == requests.REQUEST:
        return bool(0 < value <= delivered[me])
    if value < 0:
        return False
    content = value & requests.CONTENT_MASK
    if tag == requests.ANNOUNCE:
        return content <= delivered.size or content == requests.FORGOTTEN
    source = content >> SOURCE_SHIFT
    if source >= delivered.size:
        return False
    ahead = 0 if source == me else window(host)
    return bool((content & SEQUENCE_MASK) <= delivered[source] + ahead)


@compiled.register(admits, dcs.State)
def _admits_dcs(state: dcs.State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    if tag == dcs.DATA:
        return bool(
            dcs.is_sound(state, value)
            and 0 <= state.past[value] <= set_hash.MASK
            and _are_hits(state, here, value, host)
        )
    if tag >= rounds.ASK:
        return value >= 0  # the rounds themselves ignore what cannot be
    if state.dcs.settings[dcs_words.DETECTOR] == 0:
        return False
    return _is_talk(state.delivered[here], state.dcs.word[here, dcs_words.NODE], tag, value, host)


@compiled.function(inline=False)
def _are_hits(state: dcs.State, here: int, slot: int, host: Host) -> bool:
    """Whether the components of a message can be counted up so far.

    Any message of the others may hit any entry, once. A component of a newer generation has been
    hit by nothing that came here, or it would be known here; an older one is compared with nothing.
    """
    ahead = window(host) * (state.scratch.size - 1)
    shared = components.common(state.dcs, state.stamp, here, slot)
    row, clock, stamp = state.need[slot], state.dcs.clock[here], state.stamp[slot]
    sound = True
    for c in range(stamp[dcs_words.CARRIES]):
        generation = stamp[dcs_words.GENERATIONS + c]
        is_older = c >= shared and generation <= state.dcs.part[here, c, dcs_words.GENERATION]
        sound &= generation >= 0
        first = c * state.dcs.settings[dcs_words.ENTRIES]
        for x in range(first, first + state.dcs.settings[dcs_words.ENTRIES]):
            known = clock[x] + compiled.ZERO if c < shared else compiled.ZERO
            sound &= row[x] >= 0 and (is_older or row[x] <= known + ahead)
    return bool(sound)


@compiled.register(admits, vcube.State)
def _admits_vcube(
    state: vcube.State, here: int, sender: int, tag: int, value: int, host: Host
) -> bool:
    me = state.hosted[here]
    nodes = state.setting[NODES]
    own = state.clock[entry_of(state, here, me) + vcube_words.RECEIVED]
    if tag < vcube_words.ENDED:
        if tag != vcube_words.DATA and state.setting[TOLERANT] == 0:
            return False
        if tag == vcube_words.DIRECT and source_of(host, value) != sender:
            return False
        return _is_stamp(state, here, value, host)
    if state.setting[TOLERANT] == 0 or value < 0:
        return False
    if tag == vcube_words.ENDED:
        crashed = value & vcube_words.NODE_MASK
        return bool(crashed < nodes and crashed != me and value >> vcube_words.NODE_BITS <= own)
    if tag == vcube_words.ACKNOWLEDGED:
        return value <= own
    at = peer_of(state, here, sender) + vcube_words.OUTSTANDING
    return value <= state.recovery.peer[at]


@compiled.function(inline=False)
def _is_stamp(state: vcube.State, here: int, slot: int, host: Host) -> bool:
    """Whether a stamp names members, once each, and counts that can be."""
    stamp = state.stamp[slot]
    nodes = state.setting[NODES]
    sequence = sequence_of(host, slot)
    if stamp[ENTRIES] < 0 or stamp[ENTRIES] >= nodes or not 0 <= stamp[STABLE] <= sequence:
        return False
    before = -1
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if not before < stamp[i] < nodes:
            return False
        before = stamp[i]
        ahead = 0 if before == state.hosted[here] else window(host)
        delivered = state.clock[entry_of(state, here, before) + vcube_words.DELIVERED]
        if not 0 <= stamp[i + 1] <= delivered + ahead:
            return False
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
