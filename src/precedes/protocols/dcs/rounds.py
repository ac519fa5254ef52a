"""Rounds: leaving components behind needs everybody's consent (paper, IV-D and IV-E).

A round is about up to COMPONENTS_A_ROUND components at the end of the active ones (Deactivate) or
of all (Remove). Its initiator asks everybody (``ASK``), each answers from which component on it
agrees (``ANSWER``), and the initiator tells all from which one on everybody did (``DECIDE``).

Equal counters do not mean equal sets. So what is compared is a *seal* of a component: a hash of its
generation and of the set of messages that have hit it (Deactivate), or of those that have carried
it (Remove). If the seals of all are equal, every message of the set has been delivered by all, and
none of them is on its way. A hash stands for the printed vector of N counters.

- Deactivate: who agrees does not increment the components. A decision that comes late applies only
  where the seal is still the same; a message that hits the component afterwards reactivates it.
- Remove: who agrees does not reactivate the components by itself until it hears the decision. If
  it never does, since the initiator has crashed, it stays in doubt: it does without them until no
  decision can come any more, then takes the next generation of that index.

An answer blocks for ``timeout_ms`` what is voluntary: to expand into the components of the round.
What messages bring is never blocked. The first INITIATORS processes that have not crashed take
turns; a process that blocks answers no to other rounds. After rounds that come to nothing an
initiator waits longer for answers, twice as long each time up to 2^FAILED_MAX, and uses fewer
turns. Turns end when nothing is left to shrink, and after IDLE_TURNS in which nothing was delivered
and nothing shrank; those that were left unused do not count, since nothing was tried in them.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import (
    Host,
    Int64s,
    now_ns,
    open_packet,
    put,
    send,
    set_timer,
    tag_of,
    value_of,
)
from precedes.parts.hash_check import set_hash

from . import policy
from .components import deactivate, remove
from .state import (
    ACTIVE,
    AGREED,
    ANSWERED,
    ARMED,
    AWAITED,
    BLOCKED_UNTIL_NS,
    BLOCKER,
    CARRIED,
    CEILING,
    CHANGED_NS,
    COMPONENTS,
    COMPONENTS_A_ROUND,
    CRASHED,
    DEACTIVATE,
    DOUBT,
    DOUBT_ROUND,
    DOUBT_UNTIL_NS,
    FAILED,
    GENERATION,
    HASH,
    HIGH,
    IDLE,
    KEEP_NS,
    KIND,
    LEFT,
    LOW,
    MALFORMED,
    MOST,
    NO_ROUND,
    NOBODY,
    NODE,
    OTHERS,
    OVER,
    PACKETS,
    RANK,
    REACH,
    REMOVE,
    ROUND,
    ROUND_NS,
    SEALS,
    SEVERAL,
    SIZE,
    STARTED,
    TIMEOUT_NS,
    VALUES,
    WIDTH,
    ClockSet,
)

# Tags of items, after those of ``hash_check.requests``.
ASK: Final = 4  # what the round is; SEAL items follow, one for each component
DECIDE: Final = 5  # the same, with the components that all agree to
SEAL: Final = 6
ANSWER: Final = 7  # which round, how many components are active, from which one on it agrees

INITIATORS: Final = 4
IDLE_TURNS: Final = 64
IDLE_ROUND: Final = 8  # a turn among unused ones counts for them too, as so many at most
FAILED_MAX: Final = 5

# What a round is: kind (1 bit), the components (8 bits each), the initiator's number of it.
KIND_SHIFT: Final = 48
LOW_SHIFT: Final = 40
HIGH_SHIFT: Final = 32
NUMBER_MASK: Final = (1 << 31) - 1

# Keys of timers; keys of 0 and above are those of ``hash_check.check``.
TURN: Final = -1
EXPIRY: Final = -2  # less the number of the round


@compiled.function()
def arm(dcs: ClockSet, here: int, host: Host) -> None:
    """Set the timer of the next turn, if there is something to shrink."""
    word = dcs.word[here]
    wanted = word[SIZE] > dcs.settings[COMPONENTS] and word[IDLE] < IDLE_TURNS
    if wanted and word[ARMED] == 0 and word[RANK] < INITIATORS:
        word[ARMED] = 1
        cycle = INITIATORS * dcs.settings[ROUND_NS]
        delay = (word[RANK] * dcs.settings[ROUND_NS] - now_ns(host)) % cycle
        set_timer(host, TURN, delay if delay > 0 else cycle)


@compiled.function(inline=False)
def seal(dcs: ClockSet, here: int, c: int, kind: int) -> int:
    """A fingerprint of a component: equal seals mean equal sets and generations."""
    found = 0
    if kind == DEACTIVATE:
        found = int(dcs.part[here, c, HASH])
    else:
        for more in range(c + 1, dcs.part.shape[1]):
            found = set_hash.plus(found, dcs.part[here, more, CARRIED])
    # No message has such a source: the cipher of the generation is that of no message.
    about = (1 << 31) | (kind << 16) | c
    generation = set_hash.encipher(dcs.key, about, dcs.part[here, c, GENERATION])
    return set_hash.plus(found, generation)


@compiled.function(inline=False)
def on_timer(dcs: ClockSet, here: int, key: int, host: Host) -> None:
    """A turn has come, or the time of a round is over."""
    word = dcs.word[here]
    if key != TURN:
        if word[KIND] != NO_ROUND and EXPIRY - key == word[ROUND]:
            _conclude(dcs, here, word[HIGH], host)
        return
    word[ARMED] = 0
    policy.update_estimate(dcs, here, host)
    free = word[KIND] == NO_ROUND and now_ns(host) >= word[BLOCKED_UNTIL_NS]
    # Rounds that fail may be in each other's way: one turn in 2, 4, 8, .. is used then.
    is_used = free and policy.draw(host, 1 << word[FAILED]) == 0
    if is_used:
        _begin(dcs, here, host)
    if is_used or word[FAILED] == 0:
        word[IDLE] += min(1 << word[FAILED], IDLE_ROUND)
    arm(dcs, here, host)


@compiled.function(inline=False)
def _begin(dcs: ClockSet, here: int, host: Host) -> None:
    """Start a round if this process sees components that it could do without."""
    word = dcs.word[here]
    kind = DEACTIVATE
    # Others may have more active than this process; it knows them, inactive.
    low, high = word[WIDTH], max(word[ACTIVE], min(word[REACH], word[SIZE]))
    if low >= high:
        kind = REMOVE
        low, high = max(word[ACTIVE], dcs.settings[COMPONENTS]), word[SIZE]
        if now_ns(host) - word[CHANGED_NS] < dcs.settings[KEEP_NS]:
            return
    low = max(low, high - COMPONENTS_A_ROUND)
    if low >= high:
        return
    word[ROUND] = (word[ROUND] + 1) & NUMBER_MASK
    word[KIND] = kind
    word[LOW] = word[AGREED] = low
    word[HIGH] = high
    word[REACH] = 0
    if word[OVER] > low:
        policy.choose(dcs, here, low, host)
    word[AWAITED] = word[OTHERS]
    for c in range(low, high):
        dcs.word[here, SEALS + c - low] = seal(dcs, here, c, kind)
    for other in range(dcs.member.shape[1]):
        dcs.member[here, other] &= CRASHED
    _block(dcs, here, _round(dcs.word[here, NODE], word[ROUND]), low, host)
    dcs.counters[STARTED + kind] += 1
    _tell(dcs, here, ASK, low, host)
    set_timer(host, EXPIRY - word[ROUND], dcs.settings[TIMEOUT_NS] << word[FAILED])
    if word[AWAITED] == 0:
        _conclude(dcs, here, low, host)


@compiled.function()
def _round(initiator: int, number: int) -> int:
    return set_hash.packed(initiator, number)


@compiled.function()
def _block(dcs: ClockSet, here: int, name: int, low: int, host: Host) -> None:
    word = dcs.word[here]
    word[BLOCKED_UNTIL_NS] = now_ns(host) + dcs.settings[TIMEOUT_NS]
    word[BLOCKER] = name
    word[CEILING] = low


@compiled.function(inline=False)
def _tell(dcs: ClockSet, here: int, tag: int, low: int, host: Host) -> None:
    """Send the open round, from component ``low`` on, to all that have not crashed."""
    word = dcs.word[here]
    what = (word[KIND] << KIND_SHIFT) | (low << LOW_SHIFT) | (word[HIGH] << HIGH_SHIFT)
    for other in range(dcs.member.shape[1]):
        if other != dcs.word[here, NODE] and dcs.member[here, other] & CRASHED == 0:
            open_packet(host, other)
            put(host, tag, what | word[ROUND])
            for c in range(low, word[HIGH]):
                put(host, SEAL, dcs.word[here, SEALS + c - word[LOW]])
            dcs.counters[PACKETS + word[KIND]] += 1
            dcs.counters[VALUES + word[KIND]] += 1 + word[HIGH] - low


@compiled.function(inline=False)
def on_packet(dcs: ClockSet, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    """A packet of a round; what no correct process sends is counted and changes nothing."""
    tag = tag_of(inbox, 0)
    value = value_of(inbox, 0)
    if tag == ANSWER and count == 1 and value >= 0:
        _on_answer(dcs, here, sender, value, host)
        return
    low = (value >> LOW_SHIFT) & 0xFF
    high = (value >> HIGH_SHIFT) & 0xFF
    fits = tag in (ASK, DECIDE) and 0 <= value < 2 << KIND_SHIFT
    fits = fits and 0 < low <= high <= dcs.settings[MOST] and count == 1 + high - low
    for i in range(1, count):
        fits = fits and tag_of(inbox, i) == SEAL
    if not fits:
        dcs.counters[MALFORMED] += 1
    elif tag == ASK:
        _on_ask(dcs, here, sender, inbox, host)
    else:
        _on_decision(dcs, here, sender, inbox, host)


@compiled.function()
def _on_ask(dcs: ClockSet, here: int, sender: int, inbox: Int64s, host: Host) -> None:
    value = value_of(inbox, 0)
    kind, low, high = value >> KIND_SHIFT, (value >> LOW_SHIFT) & 0xFF, (value >> HIGH_SHIFT) & 0xFF
    word = dcs.word[here]
    name = _round(sender, value & NUMBER_MASK)
    agreed = high
    policy.update_estimate(dcs, here, host)
    if now_ns(host) >= word[BLOCKED_UNTIL_NS] or word[BLOCKER] == name:
        agreed = _agrees_from(dcs, here, kind, low, high, inbox, host)
    if agreed < high:
        _block(dcs, here, name, agreed, host)
        if kind == REMOVE:
            alone = word[DOUBT] >= word[SIZE] or word[DOUBT_ROUND] == name
            word[DOUBT_ROUND] = name if alone else SEVERAL
            word[DOUBT] = agreed if alone else min(word[DOUBT], agreed)
            # No initiator waits longer for answers; what it decided has come by then.
            longest_ns = dcs.settings[TIMEOUT_NS] << (FAILED_MAX + 1)
            word[DOUBT_UNTIL_NS] = now_ns(host) + longest_ns
    dcs.counters[PACKETS + kind] += 1
    dcs.counters[VALUES + kind] += 1
    number = value & NUMBER_MASK
    send(host, sender, ANSWER, (number << 16) | (word[ACTIVE] << 8) | agreed)


@compiled.function(inline=False)
def _agrees_from(
    dcs: ClockSet, here: int, kind: int, low: int, high: int, inbox: Int64s, host: Host
) -> int:
    """The lowest component of those that this process agrees to; ``high`` if to none."""
    word = dcs.word[here]
    if kind == DEACTIVATE:
        lowest = max(low, word[WIDTH])
        if word[ACTIVE] > high or word[SIZE] < high or lowest >= high:
            return high
        if word[OVER] > lowest:
            policy.choose(dcs, here, lowest, host)
    else:
        lowest = max(low, word[ACTIVE])
        if word[SIZE] != high or lowest >= high:
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
    word = dcs.word[here]
    agreed = value & 0xFF
    active = (value >> 8) & 0xFF
    if word[KIND] == NO_ROUND or value >> 16 != word[ROUND]:
        return  # an answer to a round that is over
    if dcs.member[here, sender] != 0:
        return  # a repeated packet
    if not word[LOW] <= agreed <= word[HIGH] or active > dcs.settings[MOST]:
        dcs.counters[MALFORMED] += 1
        return
    dcs.member[here, sender] |= ANSWERED
    word[AGREED] = max(word[AGREED], agreed)
    word[REACH] = max(word[REACH], active)
    word[AWAITED] -= 1
    if word[AWAITED] == 0:
        _conclude(dcs, here, word[AGREED], host)


@compiled.function(inline=False)
def _conclude(dcs: ClockSet, here: int, agreed: int, host: Host) -> None:
    """All have answered, or time is up: decide, announce the decision, apply it."""
    word = dcs.word[here]
    low = word[HIGH]
    # What has changed here since the round began counts as well.
    while low > agreed and _may_leave(dcs, here, word[KIND], low - 1, word[HIGH]):
        if seal(dcs, here, low - 1, word[KIND]) != dcs.word[here, SEALS + low - 1 - word[LOW]]:
            break
        low -= 1
    _tell(dcs, here, DECIDE, low, host)
    for c in range(word[HIGH] - 1, low - 1, -1):
        _leave(dcs, here, word[KIND], c, host)
    dcs.counters[LEFT + word[KIND]] += word[HIGH] - low
    word[FAILED] = 0 if low < word[HIGH] else min(word[FAILED] + 1, FAILED_MAX)
    word[KIND] = NO_ROUND
    word[BLOCKED_UNTIL_NS] = 0


@compiled.function()
def _may_leave(dcs: ClockSet, here: int, kind: int, c: int, high: int) -> bool:
    """Whether this process can leave the component, those above it being left."""
    word = dcs.word[here]
    if kind == REMOVE:
        return word[ACTIVE] <= c and word[SIZE] <= high
    return word[ACTIVE] <= high


@compiled.function()
def _leave(dcs: ClockSet, here: int, kind: int, c: int, host: Host) -> None:
    word = dcs.word[here]
    # There may be more to leave: a turn that achieved something was not idle.
    word[IDLE] = 0
    if kind == REMOVE:
        remove(dcs, here, c)
    elif word[ACTIVE] == c + 1:
        # Nothing was sent that increments it, or its seal would differ: draining it is enough.
        if word[OVER] > c:
            policy.choose(dcs, here, c, host)
        deactivate(dcs, here, host)
    arm(dcs, here, host)  # the round may have been that of the last turn


@compiled.function()
def _on_decision(dcs: ClockSet, here: int, sender: int, inbox: Int64s, host: Host) -> None:
    value = value_of(inbox, 0)
    kind, low, high = value >> KIND_SHIFT, (value >> LOW_SHIFT) & 0xFF, (value >> HIGH_SHIFT) & 0xFF
    word = dcs.word[here]
    name = _round(sender, value & NUMBER_MASK)
    if word[BLOCKER] == name:
        word[BLOCKED_UNTIL_NS] = 0
        word[BLOCKER] = NOBODY
    if word[DOUBT_ROUND] == name:
        word[DOUBT_ROUND] = NOBODY
        word[DOUBT] = dcs.settings[MOST]
    for c in range(high - 1, low - 1, -1):
        there = c < word[SIZE] and _same(dcs, here, kind, c, low, inbox)
        if not there or not _may_leave(dcs, here, kind, c, c + 1):
            return
        _leave(dcs, here, kind, c, host)


@compiled.function(inline=False)
def on_crash(dcs: ClockSet, here: int, crashed: int, host: Host) -> None:
    """A process has stopped: nobody waits for it, and another may have to take its turns."""
    word = dcs.word[here]
    if dcs.member[here, crashed] & CRASHED != 0:
        return
    answered = dcs.member[here, crashed] & ANSWERED != 0
    dcs.member[here, crashed] |= CRASHED
    word[OTHERS] -= 1
    word[RANK] -= crashed < dcs.word[here, NODE]
    if word[DOUBT_ROUND] >> 32 == crashed:
        word[DOUBT_UNTIL_NS] = 0
    if word[KIND] != NO_ROUND and not answered:
        word[AWAITED] -= 1
        if word[AWAITED] == 0:
            _conclude(dcs, here, word[AGREED], host)
    arm(dcs, here, host)
