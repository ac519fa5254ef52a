"""Causal broadcast with a Dynamic Clock Set: a probabilistic clock that follows the load.

Source: Wilhelm et al. 2023. The formula for the size of a clock is that of ``parts.sizing``.

Algorithm. A clock consists of components of ``component_entries`` counters; the active ones, a
prefix of all, travel with every message. A process increments k = ``per_component`` entries in
each of ``spread`` components (S_incr), and S_incr travels too. The receiver adds or activates the
components that it lacks, waits until those it shares have reached the message's, increments the
*sender's* entries in the message's S_incr, and delivers. A process that sees more load than its
components are enough for adds some by itself (``policy``); leaving components behind takes a
round with all processes (``rounds``, ``components``).

With ``detector = "hash"`` a message also carries the hash of all that its sender had delivered,
and is delivered only if that is explained (``detector``), as in ``hashed``.

Assumes that every packet arrives exactly once; with the detector repeated ones are recognised.

Guarantee: everything is delivered once; a share of deliveries near ``error`` is out of causal
order while the load is what the formula supposes, none with the detector. Cost: as many counters
in a message as the load requires, up to ``components_max`` components, and a byte for each
component and place of S_incr. At that bound the clock stays as it is, and errors grow with the
load. A round takes 3 (N - 1) packets of less than 100 bytes.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import MESSAGE, NUMBER, Host, Int64s, handler, tag_of, value_of
from precedes.parts.hash_check import log, queue, requests, set_hash
from precedes.parts.hash_check.queue import ASKED, COUNTS, PREDECESSOR
from precedes.parts.pool import NONE

from . import components, detector, policy, rounds
from .state import (
    CARRIES,
    GENERATIONS,
    INCREMENTS,
    SPREAD_MAX,
    Parameters,
    State,
    allocate,
    extra,
    interval_of,
    series,
)

__all__ = ["Parameters", "State", "allocate", "extra", "series"]

DATA: Final = 0
ITEMS: Final = (MESSAGE, *[NUMBER] * 7)
MESSAGE_FIELDS: Final = ("need", "stamp", "past")
GUARANTEE: Final = "probable"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "direct"


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    """Algorithm 2, lines 1 and 2."""
    policy.update_estimate(state.dcs, here, host)
    policy.before_broadcast(state.dcs, here, host)
    _stamp(state, here, slot, host)
    _record(state, here, slot, host)
    if state.has_detector != 0:
        log.collect(state.log, here, state.dcs.node[here])
    host.send_all(DATA, slot)
    if state.held.ends.begin[here] != NONE:
        # It may wait for entries that this broadcast has raised.
        _forget_stale(state, here)
        _settle(state, here, host)
    _afterwards(state, here, host)


@compiled.function(inline=False)
def _stamp(state: State, here: int, slot: int, host: Host) -> None:
    """Write the fields that travel: the active components before the message, and S_incr."""
    dcs, stamp = state.dcs, state.stamp[slot]
    active = dcs.components.active[here]
    end = active * dcs.entries
    for x in range(state.need.shape[1]):
        state.need[slot, x] = dcs.clock[here, x] if x < end else 0
    stamp[CARRIES] = active
    for s in range(SPREAD_MAX):
        stamp[INCREMENTS + s] = dcs.S_incr[here, s]
    for c in range(dcs.most):
        stamp[GENERATIONS + c] = dcs.part.generation[here, c] if c < active else 0
    state.past[slot] = state.hash[here] if state.has_detector != 0 else 0
    interval = interval_of(host.now_ns())
    dcs.series.sent_sum[interval] += active
    dcs.series.sent_count[interval] += 1


@compiled.function()
def _record(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 1 and 6: count a delivery, by increments, never by maxima."""
    dcs, part = state.dcs, state.dcs.part
    source = host.source_of(slot)
    hashed = set_hash.hash_of(state.hasher, slot, host)
    shared = components.common(dcs, state.stamp, here, slot)
    parts = 0
    for s in range(dcs.spread):
        c = int(state.stamp[slot, INCREMENTS + s])
        parts |= c << (8 * s)
        if c < shared:
            if c >= dcs.components.active[here]:
                # A round may have deactivated it while the message waited.
                components.activate(dcs, here, c + 1, host)
            part.hash[here, c] = set_hash.plus(part.hash[here, c], hashed)
            part.hits[here, c] += 1
            first = c * dcs.entries
            for i in range(dcs.per_component):
                dcs.clock[here, first + state.own[source, s * dcs.per_component + i]] += 1
    part.carried[here, shared] = set_hash.plus(part.carried[here, shared], hashed)
    dcs.load.deliveries[here] += 1
    dcs.round.idle[here] = 0
    if state.has_detector != 0:
        sequence = host.sequence_of(slot)
        state.hash[here] = set_hash.plus(state.hash[here], hashed)
        state.delivered[here, source] = sequence
        log.append(state.log, here, set_hash.packed(source, sequence), hashed, parts)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    policy.update_estimate(state.dcs, here, host)
    if tag_of(inbox, 0) >= rounds.ASK:
        rounds.on_packet(state.dcs, here, sender, inbox, count, host)
        for i in range(1, count):
            if tag_of(inbox, i) == DATA:  # which no correct process sends there
                host.drop(value_of(inbox, i))
    else:
        for i in range(count):
            if tag_of(inbox, i) == DATA:
                _arrive(state, here, value_of(inbox, i), host)
            else:
                _talk(state, here, sender, inbox, i, host)
    _afterwards(state, here, host)


@compiled.function()
def _arrive(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 3 to 7: expand, then deliver the message or let it wait."""
    if not _is_sound(state, slot):
        state.dcs.malformed[0] += 1
        host.drop(slot)
        return
    active = state.dcs.components.active[here]
    components.check_expand(state.dcs, state.need, state.stamp, here, slot, host)
    if state.dcs.redraw != 0 and state.dcs.components.active[here] > active:
        policy.choose(state.dcs, here, state.dcs.components.active[here], host)
    if state.has_detector != 0 and detector.is_repeated(state, here, slot, host):
        host.drop(slot)
        return
    entry = components.lacks(state.dcs, state.need, state.stamp, here, slot)
    if entry != NONE:
        row = queue.add(state.held, here, slot, COUNTS)
        queue.await_entry(state.held, row, entry, state.need[slot])
    elif state.has_detector != 0 and detector.error_detector(state, here, slot, host):
        detector.hold(state, here, slot, host)
    else:
        _record(state, here, slot, host)
        host.deliver(slot)
        if state.held.ends.begin[here] != NONE:
            # With the detector, a message that waits for a removed entry is of an older generation
            # and not explained: ``_afterwards`` has it examined.
            if state.has_detector == 0:
                _forget_stale(state, here)
            _settle(state, here, host)


@compiled.function()
def _is_sound(state: State, slot: int) -> bool:
    """Return whether a correct process may have sent this: all that it names exists."""
    carries = state.stamp[slot, CARRIES]
    sound = 1 <= carries <= state.dcs.most
    for s in range(state.dcs.spread):
        sound = sound and 0 <= state.stamp[slot, INCREMENTS + s] < carries
    return sound


@compiled.function(inline=False)
def _settle(state: State, here: int, host: Host) -> None:
    """Lines 4 to 7: deliver waiting messages that are ready, until there are none."""
    held, rows = state.held, state.held.rows
    before = NONE
    row = held.ends.begin[here]
    while row != NONE:
        if not _may_go(state, here, row, host):
            before, row = row, rows.link[row]
            continue
        slot = rows.slot[row]
        state.counts.requests_withdrawn[0] += rows.stage[row] == ASKED
        queue.remove(held, here, row, before)
        _record(state, here, slot, host)
        host.deliver(slot)
        before = NONE
        row = held.ends.begin[here]


@compiled.function()
def _may_go(state: State, here: int, row: int, host: Host) -> bool:
    """Return whether a waiting message can be delivered now; it may enter another stage."""
    rows = state.held.rows
    if rows.stage[row] == COUNTS:
        if state.dcs.clock[here, rows.entry[row]] < rows.value[row]:
            return False
        slot = rows.slot[row]
        entry = components.lacks(state.dcs, state.need, state.stamp, here, slot)
        if entry != NONE:
            queue.await_entry(state.held, row, entry, state.need[slot])
            return False
        if state.has_detector == 0:
            return True
        rows.stage[row] = PREDECESSOR
    return detector.examine(state, here, row, host)


@compiled.function()
def _afterwards(state: State, here: int, host: Host) -> None:
    """Follow up a change of components: examine waiting messages, set the timer of rounds."""
    dcs = state.dcs
    if dcs.components.stale[here] != 0:
        _forget_stale(state, here)
        _settle(state, here, host)
    if dcs.components.size[here] > 1 and dcs.round.armed[here] == 0:
        rounds.arm(dcs, here, host)


@compiled.function()
def _forget_stale(state: State, here: int) -> None:
    """After a removal, release messages that wait for a removed entry."""
    if state.dcs.components.stale[here] != 0:
        state.dcs.components.stale[here] = 0
        queue.forget_entries(state.held, here)


@compiled.function(inline=False)
def _talk(state: State, here: int, sender: int, inbox: Int64s, i: int, host: Host) -> None:
    """Requests about dependencies, and answers; without the detector there are none."""
    tag, value = tag_of(inbox, i), value_of(inbox, i)
    if state.has_detector == 0 or tag >= rounds.ASK:
        state.dcs.malformed[0] += 1
    elif tag != requests.REQUEST:
        if detector.on_rsp(state, here, sender, tag, value, host):
            _settle(state, here, host)
    elif i == 0:
        # A request has a packet to itself, so that one answer is the most to be sent.
        detector.on_req(state, here, sender, value, host)


@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    if key >= 0:
        detector.after_grace(state, here, key, host)
    else:
        rounds.on_timer(state.dcs, here, key, host)
        _afterwards(state, here, host)


@handler(State)
def on_crash(state: State, here: int, crashed: int, host: Host) -> None:
    if state.has_detector != 0:
        log.ask_no_more(state.log, here, crashed)
    rounds.on_crash(state.dcs, here, crashed, host)
    _afterwards(state, here, host)


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    if tag == DATA:
        return bool(
            _is_sound(state, value)
            and 0 <= state.past[value] <= set_hash.MASK
            and _are_hits(state, here, value, host)
        )
    if tag >= rounds.ASK:
        return value >= 0  # the rounds themselves ignore impossible values
    if state.has_detector == 0:
        return False
    node = state.dcs.node[here]
    return requests.is_possible(state.delivered[here], node, tag, value, host)


@compiled.function(inline=False)
def _are_hits(state: State, here: int, slot: int, host: Host) -> bool:
    """Return whether the components of a message can be counted up so far.

    Any message of the others may hit any entry, once. A component of a newer generation has been
    hit by no message that arrived here; an older one is compared with nothing.
    """
    dcs = state.dcs
    ahead = host.window() * (state.scratch.size - 1)
    shared = components.common(dcs, state.stamp, here, slot)
    row, clock, stamp = state.need[slot], dcs.clock[here], state.stamp[slot]
    sound = True
    for c in range(stamp[CARRIES]):
        generation = stamp[GENERATIONS + c]
        is_newer = components.is_newer(generation, dcs.part.generation[here, c])
        is_older = c >= shared and not is_newer
        sound &= generation >= 0
        first = c * dcs.entries
        for x in range(first, first + dcs.entries):
            known = clock[x] + compiled.ZERO if c < shared else compiled.ZERO
            sound &= row[x] >= 0 and (is_older or row[x] <= known + ahead)
    return bool(sound)


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    carries = state.stamp[slot, CARRIES]
    size = 9 + state.dcs.spread + carries * (1 + 4 * state.dcs.entries)
    return size + 8 if state.has_detector != 0 else size
