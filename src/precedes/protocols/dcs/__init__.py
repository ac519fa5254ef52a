"""Causal broadcast with a Dynamic Clock Set: a probabilistic clock that follows the load.

Source: Wilhelm et al. 2023. The formula for the size of a clock is that of ``parts.sizing``.

Algorithm. A clock consists of components of ``component_entries`` counters; the active ones, a
prefix of all, travel with every message. A process increments k = ``per_component`` entries in
each of ``spread`` components (S_incr), and S_incr travels too. The receiver adds or activates the
components that it lacks, waits until those it shares have reached the message's, increments the
*sender's* entries in the message's S_incr, and delivers. A process that sees more load than its
components are enough for adds some by itself (``policy``); to leave components behind takes a
round with everybody (``rounds``, ``components``).

With ``detector = "hash"`` a message also carries the hash of all that its sender had delivered,
and is delivered only if that is explained (``precedes.parts.hash_check``), as in ``hashed``.

Assumes that every packet arrives exactly once; with the detector repeated ones are recognised.

Guarantee: everything is delivered once; a share of deliveries near ``error`` is out of causal
order while the load is what the formula supposes, none with the detector. Cost: as many counters
in a message as the load asks for, up to ``components_max`` components, and a byte for each
component and place of S_incr. At that bound the clock stays as it is, and errors grow with the
load. A round takes 3 (N - 1) packets of less than 100 bytes.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import (
    DONE,
    FULL,
    MESSAGE,
    NUMBER,
    Capacity,
    Host,
    Int64s,
    admits,
    broadcast,
    deliver,
    drop,
    message_bytes,
    now_ns,
    on_crash,
    on_timer,
    receive,
    send_all,
    sequence_of,
    source_of,
    tag_of,
    value_of,
    window,
)
from precedes.parts.hash_check import check, log, queue, requests, search, set_hash
from precedes.parts.pool import NONE

from . import components, policy, rounds
from .state import (
    ACTIVE,
    ARMED,
    CARRIED,
    CARRIES,
    COUNT,
    DETECTOR,
    ENTRIES,
    GENERATION,
    GENERATIONS,
    HASH,
    HITS,
    IDLE,
    INCREMENT,
    INCREMENTS,
    MALFORMED,
    MOST,
    NODE,
    PER_COMPONENT,
    SENT_COUNT,
    SENT_SUM,
    SIZE,
    SPREAD,
    SPREAD_MAX,
    STALE,
    Parameters,
    State,
    allocate,
    extra,
    series,
    series_row,
)

__all__ = ["Parameters", "State", "allocate", "effects_words", "extra", "series"]

DATA: Final = 0
ITEMS: Final = (MESSAGE, *[NUMBER] * 7)
MESSAGE_FIELDS: Final = ("need", "stamp", "past")
GUARANTEE: Final = "probable"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "direct"


def effects_words(capacity: Capacity, nodes: int) -> int:
    """All that waits is delivered or asked about; a round goes to all; an answer; a send."""
    return 64 + 10 * capacity.held + 28 * nodes


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    """Algorithm 2, lines 1 and 2."""
    policy.update_estimate(state.dcs, here, host)
    policy.before_broadcast(state.dcs, here, host)
    _stamp(state, here, slot, host)
    check.record_delivery(state, here, slot, host)
    if state.dcs.settings[DETECTOR] != 0:
        log.collect(state.log, here, state.dcs.word[here, NODE])
    send_all(host, DATA, slot)
    if state.held.ends[here, queue.BEGIN] != NONE:
        _settle(state, here, host)  # it may wait for entries that this broadcast has raised
    _afterwards(state, here, host)
    return DONE


@compiled.function(inline=False)
def _stamp(state: State, here: int, slot: int, host: Host) -> None:
    """What travels: the active components as they were before the message, and S_incr."""
    active = state.dcs.word[here, ACTIVE]
    end = active * state.dcs.settings[ENTRIES]
    for x in range(state.need.shape[1]):
        state.need[slot, x] = state.dcs.clock[here, x] if x < end else 0
    state.stamp[slot, CARRIES] = active
    for s in range(SPREAD_MAX):
        state.stamp[slot, INCREMENTS + s] = state.dcs.word[here, INCREMENT + s]
    for c in range(state.dcs.settings[MOST]):
        generation = state.dcs.part[here, c, GENERATION] if c < active else 0
        state.stamp[slot, GENERATIONS + c] = generation
    state.past[slot] = state.hash[here] if state.dcs.settings[DETECTOR] != 0 else 0
    row = series_row(now_ns(host))
    state.dcs.series[row + SENT_SUM] += active
    state.dcs.series[row + SENT_COUNT] += 1


@compiled.register(check.record, State)
def _record(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 1 and 6."""
    word = state.dcs.word[here]
    source = source_of(host, slot)
    hashed = set_hash.hash_of(state.hasher, slot, host)
    shared = components.common(state.dcs, state.stamp, here, slot)
    per_component = state.dcs.settings[PER_COMPONENT]
    parts = 0
    for s in range(state.dcs.settings[SPREAD]):
        c = int(state.stamp[slot, INCREMENTS + s])
        parts |= c << (8 * s)
        if c < shared:
            if c >= word[ACTIVE]:
                # A round may have deactivated it while the message waited.
                components.activate(state.dcs, here, c + 1, host)
            state.dcs.part[here, c, HASH] = set_hash.plus(state.dcs.part[here, c, HASH], hashed)
            state.dcs.part[here, c, HITS] += 1
            first = c * state.dcs.settings[ENTRIES]
            for i in range(per_component):
                state.dcs.clock[here, first + state.own[source, s * per_component + i]] += 1
    carried = set_hash.plus(state.dcs.part[here, shared, CARRIED], hashed)
    state.dcs.part[here, shared, CARRIED] = carried
    word[COUNT] += 1
    word[IDLE] = 0
    if state.dcs.settings[DETECTOR] != 0:
        sequence = sequence_of(host, slot)
        state.hash[here] = set_hash.plus(state.hash[here], hashed)
        state.delivered[here, source] = sequence
        log.append(state.log, here, set_hash.packed(source, sequence), hashed, parts)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if not queue.has_room(state.held, count):
        return FULL
    policy.update_estimate(state.dcs, here, host)
    if tag_of(inbox, 0) >= rounds.ASK:
        rounds.on_packet(state.dcs, here, sender, inbox, count, host)
        for i in range(1, count):
            if tag_of(inbox, i) == DATA:  # which no correct process sends there
                drop(host, value_of(inbox, i))
    else:
        for i in range(count):
            if tag_of(inbox, i) == DATA:
                _arrive(state, here, value_of(inbox, i), host)
            else:
                _talk(state, here, sender, inbox, i, host)
    _afterwards(state, here, host)
    return DONE


@compiled.function()
def _afterwards(state: State, here: int, host: Host) -> None:
    """Follow up a change of components: examine what waits, set the timer of rounds."""
    if state.dcs.word[here, STALE] != 0:
        _settle(state, here, host)
    if state.dcs.word[here, SIZE] > 1 and state.dcs.word[here, ARMED] == 0:
        rounds.arm(state.dcs, here, host)


@compiled.function()
def _arrive(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 3 to 7: expand, then deliver the message or let it wait."""
    if not _is_sound(state, slot):
        state.dcs.counters[MALFORMED] += 1
        drop(host, slot)
        return
    components.check_expand(state.dcs, state.need, state.stamp, here, slot, host)
    if state.dcs.settings[DETECTOR] != 0:
        check.arrive(state, here, slot, host)
    else:
        entry = components.lacks(state.dcs, state.need, state.stamp, here, slot)
        if entry == NONE:
            check.record_delivery(state, here, slot, host)
            deliver(host, slot)
            if state.held.ends[here, queue.BEGIN] != NONE:
                _settle(state, here, host)
        else:
            row = queue.add(state.held, here, slot, queue.COUNTS)
            queue.await_entry(state.held, row, entry, state.need[slot])


@compiled.function()
def _is_sound(state: State, slot: int) -> bool:
    """Whether a correct process may have sent this: what it names exists."""
    carries = state.stamp[slot, CARRIES]
    sound = 1 <= carries <= state.dcs.settings[MOST]
    for s in range(state.dcs.settings[SPREAD]):
        sound = sound and 0 <= state.stamp[slot, INCREMENTS + s] < carries
    return sound


@compiled.function(inline=False)
def _talk(state: State, here: int, sender: int, inbox: Int64s, i: int, host: Host) -> None:
    """Questions about dependencies, and answers; without the detector nobody asks."""
    if state.dcs.settings[DETECTOR] == 0 or tag_of(inbox, i) >= rounds.ASK:
        state.dcs.counters[MALFORMED] += 1
    else:
        check.talk(state, here, state.dcs.word[here, NODE], sender, inbox, i, host)


@compiled.function(inline=False)
def _settle(state: State, here: int, host: Host) -> None:
    """Deliver what waits and can be delivered now, until nothing more can."""
    if state.dcs.word[here, STALE] != 0:
        # What waits may wait for an entry that is gone.
        state.dcs.word[here, STALE] = 0
        queue.forget_entries(state.held, here)
    if state.dcs.settings[DETECTOR] != 0:
        check.settle(state, here, host)
        return
    held, rows = state.held, state.held.pool.row
    before = NONE
    row = held.ends[here, queue.BEGIN]
    while row != NONE:
        slot = rows[row + queue.SLOT]
        if state.dcs.clock[here, rows[row + queue.ENTRY]] >= rows[row + queue.VALUE]:
            entry = components.lacks(state.dcs, state.need, state.stamp, here, slot)
            if entry == NONE:
                queue.remove(held, here, row, before)
                check.record_delivery(state, here, slot, host)
                deliver(host, slot)
                before = NONE
                row = held.ends[here, queue.BEGIN]
                continue
            queue.await_entry(held, row, entry, state.need[slot])
        before, row = row, rows[row + queue.LINK]


@compiled.register(check.lacks, State)
def _lacks(state: State, here: int, slot: int) -> int:
    return components.lacks(state.dcs, state.need, state.stamp, here, slot)


@compiled.register(check.reached, State)
def _reached(state: State, here: int, entry: int) -> int:
    return state.dcs.clock[here, entry]


@compiled.register(check.explain, State)
def _explain(state: State, here: int, slot: int, host: Host) -> bool:
    """A component that the message does not carry was inactive at its sender, which had of it what
    all had when it was deactivated. That was either before what has been delivered of it here
    since, or just now, by a decision that has yet to come here: then it had all that is here.
    """
    source = source_of(host, slot)
    carries = state.stamp[slot, CARRIES]
    if components.common(state.dcs, state.stamp, here, slot) < carries:
        return False
    if sequence_of(host, slot) != state.delivered[here, source] + 1:
        return False
    first = carries * state.dcs.settings[ENTRIES]
    end = max(carries, state.dcs.word[here, ACTIVE]) * state.dcs.settings[ENTRIES]
    since = False
    for x in range(end):
        had = state.need[slot, x] if x < first else state.dcs.base[here, x]
        state.expected[x] = had
        since = since or (x >= first and had != state.dcs.clock[here, x])
    found = _search(state, here, slot, source, end)
    found = found or (since and _search(state, here, slot, source, first))
    if found:
        own = state.delivered[here, state.dcs.word[here, NODE]]
        log.note_known(state.log, here, source, own, state.peel.mark[search.OLDEST_OWN])
        state.counted[check.ACCEPTED] += 1
    return found


@compiled.function(inline=False)
def _search(state: State, here: int, slot: int, source: int, end: int) -> bool:
    """Whether the first ``end`` entries, less what was expected, are those of a fitting set."""
    return search.find(
        state.peel,
        state.log,
        state.own,
        here,
        state.dcs.clock[here][:end],
        state.expected[:end],
        state.dcs.word[here, NODE],
        source,
        state.delivered[here],
        set_hash.minus(state.hash[here], state.past[slot]),
        state.setting[check.LIMIT],
    )


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    if key >= 0:
        check.after_grace(state, here, key, host)
    else:
        rounds.on_timer(state.dcs, here, key, host)
        _afterwards(state, here, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    if state.dcs.settings[DETECTOR] != 0:
        log.ask_no_more(state.log, here, crashed)
    rounds.on_crash(state.dcs, here, crashed, host)
    _afterwards(state, here, host)
    return DONE


@compiled.register(admits, State)
def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    if tag == DATA:
        return bool(
            _is_sound(state, value)
            and 0 <= state.past[value] <= set_hash.MASK
            and _are_hits(state, here, value, host)
        )
    if tag >= rounds.ASK:
        return value >= 0  # the rounds themselves ignore what cannot be
    if state.dcs.settings[DETECTOR] == 0:
        return False
    node = state.dcs.word[here, NODE]
    return requests.is_possible(state.delivered[here], node, tag, value, host)


@compiled.function(inline=False)
def _are_hits(state: State, here: int, slot: int, host: Host) -> bool:
    """Whether the components of a message can be counted up so far.

    Any message of the others may hit any entry, once. A component of a newer generation has been
    hit by nothing that came here, or it would be known here; an older one is compared with nothing.
    """
    ahead = window(host) * (state.scratch.size - 1)
    shared = components.common(state.dcs, state.stamp, here, slot)
    row, clock, stamp = state.need[slot], state.dcs.clock[here], state.stamp[slot]
    sound = True
    for c in range(stamp[CARRIES]):
        generation = stamp[GENERATIONS + c]
        is_newer = components.is_newer(generation, state.dcs.part[here, c, GENERATION])
        is_older = c >= shared and not is_newer
        sound &= generation >= 0
        first = c * state.dcs.settings[ENTRIES]
        for x in range(first, first + state.dcs.settings[ENTRIES]):
            known = clock[x] + compiled.ZERO if c < shared else compiled.ZERO
            sound &= row[x] >= 0 and (is_older or row[x] <= known + ahead)
    return bool(sound)


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    carries = state.stamp[slot, CARRIES]
    size = 9 + state.dcs.settings[SPREAD] + carries * (1 + 4 * state.dcs.settings[ENTRIES])
    return size + 8 if state.dcs.settings[DETECTOR] != 0 else size
