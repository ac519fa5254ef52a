"""Rounds: leaving components behind needs the consent of all (paper, IV-D and IV-E).

A round is about up to COMPONENTS_A_ROUND components at the end of the active ones (Deactivate) or
of all (Remove). Its initiator asks all processes (``ASK``), each answers from which component on it
agrees (``ANSWER``), and the initiator announces from which one on all did (``DECIDE``).

Equal counters do not mean equal sets. So the rounds compare a *seal* of a component: a hash of its
generation and of the set of messages that have hit it (Deactivate), or of those that have carried
it (Remove). If the seals of all are equal, every message of the set has been delivered by all, and
none of them is in flight. A hash stands for the published vector of N counters.

- Deactivate: a process that agrees does not increment the components. A late decision applies only
  where the seal is still the same; a message that hits the component afterwards reactivates it.
- Remove: a process that agrees does not reactivate the components by itself until it receives the
  decision. If it never does, since the initiator has crashed, it stays in doubt: it does not use
  them until no decision can arrive any more, then takes the next generation of that index.

An answer blocks voluntary changes for ``timeout_ms``: expansion into the components of the round.
Changes that messages require are never blocked. The first INITIATORS processes that have not
crashed take turns; a process that blocks answers no to other rounds. After rounds without a result
an initiator waits longer for answers, twice as long each time up to 2^FAILED_MAX, and uses fewer
turns. Turns end when nothing is left to shrink, and after IDLE_TURNS in which nothing was delivered
and nothing shrank; unused ones do not count, since nothing was tried in them.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import Host, Int64s, tag_of, value_of
from precedes.parts.hash_check import set_hash

from . import policy
from .components import deactivate, remove
from .state import (
    ANSWERED,
    COMPONENTS_A_ROUND,
    CRASHED,
    DEACTIVATE,
    NO_ROUND,
    NOBODY,
    REMOVE,
    SEVERAL,
    ClockSet,
)

# Tags of items, after those of ``hash_check.requests``.
ASK: Final = 4  # the round; SEAL items follow, one for each component
DECIDE: Final = 5  # the same, with the components that all agree to
SEAL: Final = 6
ANSWER: Final = 7  # which round, how many components are active, from which one on it agrees

INITIATORS: Final = 4
IDLE_TURNS: Final = 64
IDLE_ROUND: Final = 8  # a turn among unused ones also counts for them, up to this number
FAILED_MAX: Final = 5

# Identity of a round: kind (1 bit), the components (8 bits each), its number at the initiator.
KIND_SHIFT: Final = 48
LOW_SHIFT: Final = 40
HIGH_SHIFT: Final = 32
NUMBER_MASK: Final = (1 << 31) - 1

# Keys of timers; keys of 0 and above are those of ``detector``.
TURN: Final = -1
EXPIRY: Final = -2  # less the number of the round


@compiled.function()
def arm(dcs: ClockSet, here: int, host: Host) -> None:
    """Set the timer of the next turn, if there is something to shrink."""
    round = dcs.round
    wanted = dcs.components.size[here] > dcs.least and round.idle[here] < IDLE_TURNS
    if wanted and round.armed[here] == 0 and round.rank[here] < INITIATORS:
        round.armed[here] = 1
        cycle = INITIATORS * dcs.round_ns
        delay = (round.rank[here] * dcs.round_ns - host.now_ns()) % cycle
        host.set_timer(TURN, delay if delay > 0 else cycle)


@compiled.function(inline=False)
def seal(dcs: ClockSet, here: int, c: int, kind: int) -> int:
    """A fingerprint of a component: equal seals mean equal sets and generations."""
    total = 0
    if kind == DEACTIVATE:
        total = int(dcs.part.hash[here, c])
    else:
        for more in range(c + 1, dcs.most + 1):
            total = set_hash.plus(total, dcs.part.carried[here, more])
    # No message has such a source: the cipher of the generation is that of no message.
    about = (1 << 31) | (kind << 16) | c
    generation = set_hash.encipher(dcs.key, about, dcs.part.generation[here, c])
    return set_hash.plus(total, generation)


@compiled.function(inline=False)
def on_timer(dcs: ClockSet, here: int, key: int, host: Host) -> None:
    """Start a turn, or end a round whose time is over."""
    round = dcs.round
    if key != TURN:
        if round.kind[here] != NO_ROUND and EXPIRY - key == round.number[here]:
            _conclude(dcs, here, round.high[here], host)
        return
    round.armed[here] = 0
    policy.update_estimate(dcs, here, host)
    free = round.kind[here] == NO_ROUND and host.now_ns() >= round.blocked_until_ns[here]
    # Rounds that fail may conflict: one turn in 2, 4, 8, .. is used then.
    is_used = free and policy.draw(host, 1 << round.failed[here]) == 0
    if is_used:
        _begin(dcs, here, host)
    if is_used or round.failed[here] == 0:
        round.idle[here] += min(1 << round.failed[here], IDLE_ROUND)
    arm(dcs, here, host)


@compiled.function(inline=False)
def _begin(dcs: ClockSet, here: int, host: Host) -> None:
    """Start a round if this process could do without some components."""
    components, load, round = dcs.components, dcs.load, dcs.round
    kind = DEACTIVATE
    # Others may have more active than this process; it has them as inactive.
    low = load.width[here]
    high = max(components.active[here], min(round.reach[here], components.size[here]))
    if low >= high:
        kind = REMOVE
        low, high = max(components.active[here], dcs.least), components.size[here]
        if host.now_ns() - components.changed_ns[here] < dcs.keep_ns:
            return
    low = max(low, high - COMPONENTS_A_ROUND)
    if low >= high:
        return
    round.number[here] = (round.number[here] + 1) & NUMBER_MASK
    round.kind[here] = kind
    round.low[here] = round.agreed[here] = low
    round.high[here] = high
    round.reach[here] = 0
    if load.over[here] > low:
        policy.choose(dcs, here, low, host)
    round.awaited[here] = round.others[here]
    for c in range(low, high):
        dcs.seals[here, c - low] = seal(dcs, here, c, kind)
    for other in range(dcs.member.shape[1]):
        dcs.member[here, other] &= CRASHED
    _block(dcs, here, _round(dcs.node[here], round.number[here]), low, host)
    dcs.counted.started[kind] += 1
    _tell(dcs, here, ASK, low, host)
    host.set_timer(EXPIRY - round.number[here], dcs.timeout_ns << round.failed[here])
    if round.awaited[here] == 0:
        _conclude(dcs, here, low, host)


@compiled.function()
def _round(initiator: int, number: int) -> int:
    return set_hash.packed(initiator, number)


@compiled.function()
def _block(dcs: ClockSet, here: int, name: int, low: int, host: Host) -> None:
    round = dcs.round
    round.blocked_until_ns[here] = host.now_ns() + dcs.timeout_ns
    round.blocker[here] = name
    round.ceiling[here] = low


@compiled.function(inline=False)
def _tell(dcs: ClockSet, here: int, tag: int, low: int, host: Host) -> None:
    """Send the open round, from component ``low`` on, to all that have not crashed."""
    round = dcs.round
    head = (round.kind[here] << KIND_SHIFT) | (low << LOW_SHIFT) | (round.high[here] << HIGH_SHIFT)
    for other in range(dcs.member.shape[1]):
        if other != dcs.node[here] and dcs.member[here, other] & CRASHED == 0:
            host.open_packet(other)
            host.put(tag, head | round.number[here])
            for c in range(low, round.high[here]):
                host.put(SEAL, dcs.seals[here, c - round.low[here]])
            dcs.counted.packets[round.kind[here]] += 1
            dcs.counted.values[round.kind[here]] += 1 + round.high[here] - low


@compiled.function(inline=False)
def on_packet(dcs: ClockSet, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    """A packet of a round; what no correct process sends is counted and ignored."""
    tag = tag_of(inbox, 0)
    value = value_of(inbox, 0)
    if tag == ANSWER and count == 1 and value >= 0:
        _on_answer(dcs, here, sender, value, host)
        return
    low = (value >> LOW_SHIFT) & 0xFF
    high = (value >> HIGH_SHIFT) & 0xFF
    fits = tag in (ASK, DECIDE) and 0 <= value < 2 << KIND_SHIFT
    fits = fits and 0 < low <= high <= dcs.most and count == 1 + high - low
    for i in range(1, count):
        fits = fits and tag_of(inbox, i) == SEAL
    if not fits:
        dcs.malformed[0] += 1
    elif tag == ASK:
        _on_ask(dcs, here, sender, inbox, host)
    else:
        _on_decision(dcs, here, sender, inbox, host)


@compiled.function()
def _on_ask(dcs: ClockSet, here: int, sender: int, inbox: Int64s, host: Host) -> None:
    value = value_of(inbox, 0)
    kind, low, high = value >> KIND_SHIFT, (value >> LOW_SHIFT) & 0xFF, (value >> HIGH_SHIFT) & 0xFF
    components, round = dcs.components, dcs.round
    name = _round(sender, value & NUMBER_MASK)
    agreed = high
    policy.update_estimate(dcs, here, host)
    if host.now_ns() >= round.blocked_until_ns[here] or round.blocker[here] == name:
        agreed = _agrees_from(dcs, here, kind, low, high, inbox, host)
    if agreed < high:
        _block(dcs, here, name, agreed, host)
        if kind == REMOVE:
            alone = round.doubt[here] >= components.size[here] or round.doubt_round[here] == name
            round.doubt_round[here] = name if alone else SEVERAL
            round.doubt[here] = agreed if alone else min(round.doubt[here], agreed)
            # No initiator waits longer for answers; its decision has arrived by then.
            longest_ns = dcs.timeout_ns << (FAILED_MAX + 1)
            round.doubt_until_ns[here] = host.now_ns() + longest_ns
    dcs.counted.packets[kind] += 1
    dcs.counted.values[kind] += 1
    number = value & NUMBER_MASK
    host.send(sender, ANSWER, (number << 16) | (components.active[here] << 8) | agreed)


@compiled.function(inline=False)
def _agrees_from(
    dcs: ClockSet, here: int, kind: int, low: int, high: int, inbox: Int64s, host: Host
) -> int:
    """The lowest component of those that this process agrees to; ``high`` if to none."""
    components, load = dcs.components, dcs.load
    if kind == DEACTIVATE:
        lowest = max(low, load.width[here])
        if components.active[here] > high or components.size[here] < high or lowest >= high:
            return high
        if load.over[here] > lowest:
            policy.choose(dcs, here, lowest, host)
    else:
        lowest = max(low, components.active[here])
        if components.size[here] != high or lowest >= high:
            return high
    agreed = high
    while agreed > lowest and _same(dcs, here, kind, agreed - 1, low, inbox):
        agreed -= 1
    return agreed


@compiled.function()
def _same(dcs: ClockSet, here: int, kind: int, c: int, low: int, inbox: Int64s) -> bool:
    return seal(dcs, here, c, kind) == value_of(inbox, 1 + c - low)


@compiled.function()
def _on_answer(dcs: ClockSet, here: int, sender: int, value: int, host: Host) -> None:
    round = dcs.round
    agreed = value & 0xFF
    active = (value >> 8) & 0xFF
    if round.kind[here] == NO_ROUND or value >> 16 != round.number[here]:
        return  # an answer to a round that is over
    if dcs.member[here, sender] != 0:
        return  # a repeated packet
    if not round.low[here] <= agreed <= round.high[here] or active > dcs.most:
        dcs.malformed[0] += 1
        return
    dcs.member[here, sender] |= ANSWERED
    round.agreed[here] = max(round.agreed[here], agreed)
    round.reach[here] = max(round.reach[here], active)
    round.awaited[here] -= 1
    if round.awaited[here] == 0:
        _conclude(dcs, here, round.agreed[here], host)


@compiled.function(inline=False)
def _conclude(dcs: ClockSet, here: int, agreed: int, host: Host) -> None:
    """Decide when all have answered or time is up; announce the decision and apply it."""
    round = dcs.round
    low = round.high[here]
    # Changes here since the round began count as well.
    while low > agreed and _may_leave(dcs, here, round.kind[here], low - 1, round.high[here]):
        if seal(dcs, here, low - 1, round.kind[here]) != dcs.seals[here, low - 1 - round.low[here]]:
            break
        low -= 1
    _tell(dcs, here, DECIDE, low, host)
    for c in range(round.high[here] - 1, low - 1, -1):
        _leave(dcs, here, round.kind[here], c, host)
    dcs.counted.left[round.kind[here]] += round.high[here] - low
    round.failed[here] = 0 if low < round.high[here] else min(round.failed[here] + 1, FAILED_MAX)
    round.kind[here] = NO_ROUND
    round.blocked_until_ns[here] = 0


@compiled.function()
def _may_leave(dcs: ClockSet, here: int, kind: int, c: int, high: int) -> bool:
    """Return whether this process can leave the component, those above it being left."""
    components = dcs.components
    if kind == REMOVE:
        return components.active[here] <= c and components.size[here] <= high
    return components.active[here] <= high


@compiled.function()
def _leave(dcs: ClockSet, here: int, kind: int, c: int, host: Host) -> None:
    # There may be more to leave: a turn with a result was not idle.
    dcs.round.idle[here] = 0
    if kind == REMOVE:
        remove(dcs, here, c)
    elif dcs.components.active[here] == c + 1:
        # No message was sent that increments it, or its seal would differ: draining it is enough.
        if dcs.load.over[here] > c:
            policy.choose(dcs, here, c, host)
        deactivate(dcs, here, host)
    arm(dcs, here, host)  # the round may have been that of the last turn


@compiled.function()
def _on_decision(dcs: ClockSet, here: int, sender: int, inbox: Int64s, host: Host) -> None:
    value = value_of(inbox, 0)
    kind, low, high = value >> KIND_SHIFT, (value >> LOW_SHIFT) & 0xFF, (value >> HIGH_SHIFT) & 0xFF
    round = dcs.round
    name = _round(sender, value & NUMBER_MASK)
    if round.blocker[here] == name:
        round.blocked_until_ns[here] = 0
        round.blocker[here] = NOBODY
    if round.doubt_round[here] == name:
        round.doubt_round[here] = NOBODY
        round.doubt[here] = dcs.most
    for c in range(high - 1, low - 1, -1):
        there = c < dcs.components.size[here] and _same(dcs, here, kind, c, low, inbox)
        if not there or not _may_leave(dcs, here, kind, c, c + 1):
            return
        _leave(dcs, here, kind, c, host)


@compiled.function(inline=False)
def on_crash(dcs: ClockSet, here: int, crashed: int, host: Host) -> None:
    """A process has crashed: do not wait for it, and maybe take its turns."""
    round = dcs.round
    if dcs.member[here, crashed] & CRASHED != 0:
        return
    answered = dcs.member[here, crashed] & ANSWERED != 0
    dcs.member[here, crashed] |= CRASHED
    round.others[here] -= 1
    round.rank[here] -= crashed < dcs.node[here]
    if round.doubt_round[here] >> 32 == crashed:
        round.doubt_until_ns[here] = 0
    if round.kind[here] != NO_ROUND and not answered:
        round.awaited[here] -= 1
        if round.awaited[here] == 0:
            _conclude(dcs, here, round.agreed[here], host)
    arm(dcs, here, host)
