"""The hash of a message's past, on top of its clock: Algorithms 2 and 3 of "Improving accuracy".

As in ``hashed``, with a test after every delivery: a message that the clock lets pass waits for
the one before it of the same sender (PREDECESSOR). If its hash is not explained then, it is
SUSPECT. After a grace time its sender is ASKED for the direct dependencies, and it is delivered
once they are (ANSWERED). The line numbers are those of Algorithm 2.
"""

from __future__ import annotations

from precedes import compiled
from precedes.contract import Host
from precedes.parts.hash_check import log, queue, requests, search, set_hash
from precedes.parts.hash_check.queue import ANSWERED, ASKED, PREDECESSOR, SUSPECT
from precedes.parts.pool import NONE

from . import components
from .state import CARRIES, State


@compiled.function()
def is_repeated(state: State, here: int, slot: int, host: Host) -> bool:
    """Return whether a message that has arrived is delivered or waits."""
    source, sequence = host.source_of(slot), host.sequence_of(slot)
    return sequence <= state.delivered[here, source] or queue.holds(
        state.held, here, source, sequence, host
    )


@compiled.function()
def lacks(state: State, here: int, slot: int) -> int:
    """Line 9: an entry that has not reached what the message needs, or NONE."""
    return components.lacks(state.dcs, state.need, state.stamp, here, slot)


@compiled.function()
def undelivered_before(state: State, here: int, slot: int, host: Host) -> int:
    """Messages of the same sender before this one that are not delivered."""
    return host.sequence_of(slot) - state.delivered[here, host.source_of(slot)] - 1


@compiled.function(inline=False)
def hold(state: State, here: int, slot: int, host: Host) -> None:
    """Add a waiting message that the clock lets pass and the hash does not."""
    row = queue.add(state.held, here, slot, PREDECESSOR)
    if undelivered_before(state, here, slot, host) == 0:
        suspect(state, here, row, host)


@compiled.function(inline=False)
def suspect(state: State, here: int, row: int, host: Host) -> None:
    """Line 10, a message failed its test: ask its sender, at once or after the grace time.

    A set beyond the search stays so, since R only grows: waiting would be in vain.
    """
    rows = state.held.rows
    state.counts.suspected[0] += 1
    rows.stage[row] = SUSPECT
    if state.grace_ns == 0:
        ask(state, here, row, host)
    elif state.peel.mark.beyond[0] != 0:
        ask_for_all(state, here, row, host)
    else:
        host.set_timer(row | (rows.generation[row] << 32), state.grace_ns)


@compiled.function(inline=False)
def after_grace(state: State, here: int, key: int, host: Host) -> None:
    """The grace time of a message is over; every delivery in it has tested the message."""
    rows = state.held.rows
    row = key & 0xFFFFFFFF
    if rows.generation[row] == key >> 32 and rows.stage[row] == SUSPECT:
        ask_for_all(state, here, row, host)


@compiled.function(inline=False)
def ask_for_all(state: State, here: int, row: int, host: Host) -> None:
    """Ask about a message and all of its sender that wait behind it: requests overlap."""
    rows = state.held.rows
    source = host.source_of(rows.slot[row])
    row = state.held.ends.begin[here]
    while row != NONE:
        if host.source_of(rows.slot[row]) == source and rows.stage[row] < ASKED:
            ask(state, here, row, host)
        row = rows.link[row]


@compiled.function(inline=False)
def ask(state: State, here: int, row: int, host: Host) -> None:
    """Line 11: REQ."""
    rows = state.held.rows
    slot = rows.slot[row]
    rows.stage[row] = ASKED
    rows.since[row] = state.log.end.next[here]
    state.counts.requests[0] += 1
    host.send(host.source_of(slot), requests.REQUEST, host.sequence_of(slot))


@compiled.function()
def on_req(state: State, here: int, sender: int, sequence: int, host: Host) -> None:
    """Line 14: RSP."""
    delivered, node = state.delivered[here], state.dcs.node[here]
    requests.answer(state.log, state.scratch, delivered, here, node, sender, sequence, host)


@compiled.function(inline=False)
def on_rsp(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    """Line 15, part of an answer: return whether it is complete, and messages may proceed."""
    held, delivered = state.held, state.delivered[here]
    row = requests.learn(held, state.scratch, here, sender, tag, value, host)
    if row >= 0:
        needed = requests.was_needed(held, state.log, state.scratch, delivered, here, row, host)
        state.counts.requests_false[0] += not needed
    elif row == requests.NO_ANSWER:
        state.counts.requests_unanswered[0] += 1
    return row >= 0


@compiled.function(inline=False)
def examine(state: State, here: int, row: int, host: Host) -> bool:
    """Return whether a message that no longer waits for its clock can be delivered now."""
    rows = state.held.rows
    slot = rows.slot[row]
    missing = undelivered_before(state, here, slot, host)
    if rows.stage[row] == ANSWERED:
        complete = requests.all_delivered(state.held, state.delivered[here], row)
        return complete and missing == 0
    if missing > 0:
        return False
    if rows.stage[row] == ASKED and lacks(state, here, slot) != NONE:
        return False  # it was asked about with one before it
    if not error_detector(state, here, slot, host):
        return True
    if rows.stage[row] == PREDECESSOR:
        suspect(state, here, row, host)
    return False


# --- Algorithm 3 ---


@compiled.function(inline=False)
def error_detector(state: State, here: int, slot: int, host: Host) -> bool:
    """Return whether no set R of own deliveries is found that the sender lacked.

    A component that the message does not carry was inactive at its sender, whose counters of it
    were those of all when it was deactivated. That was either before the deliveries that hit it
    here since, or just now, by a decision that has yet to arrive: then it had all that is here.
    """
    dcs, source = state.dcs, host.source_of(slot)
    carries = state.stamp[slot, CARRIES]
    if components.common(dcs, state.stamp, here, slot) < carries:
        return True
    if undelivered_before(state, here, slot, host) != 0:
        return True
    first = carries * dcs.entries
    end = max(carries, dcs.components.active[here]) * dcs.entries
    since = False
    for x in range(end):
        had = state.need[slot, x] if x < first else dcs.base[here, x]
        state.expected[x] = had
        since = since or (x >= first and had != dcs.clock[here, x])
    is_explained = _search(state, here, slot, source, end)
    is_explained = is_explained or (since and _search(state, here, slot, source, first))
    if is_explained:
        own = state.delivered[here, dcs.node[here]]
        log.note_known(state.log, here, source, own, state.peel.mark.oldest_own[0])
        state.counts.accepted[0] += 1
    return not is_explained


@compiled.function(inline=False)
def _search(state: State, here: int, slot: int, source: int, end: int) -> bool:
    """Return whether the first ``end`` entries, less ``expected``, are those of a fitting set."""
    return search.find(
        state.peel,
        state.log,
        state.own,
        here,
        state.dcs.clock[here][:end],
        state.expected[:end],
        state.dcs.node[here],
        source,
        state.delivered[here],
        set_hash.minus(state.hash[here], state.past[slot]),
        state.hashes,
    )
