"""Causal broadcast with a probabilistic clock and a hash of the past that finds its errors.

Source: "Improving accuracy", sections 4 and 5 (Algorithms 2 and 3).

Algorithm. Clocks and waiting are those of ``probabilistic``. A message also carries the hash of all
that its sender had delivered (``past``). Once the clock lets it pass, the receiver looks for the
set R of own deliveries that the sender lacked (``search``, or ``enumeration`` taken literally): if
own hash without R is the message's, nothing is missing and the message is delivered. Otherwise it
is suspect. It is tested again after every delivery, since most often the missing message is just
arriving. After a grace time its sender is asked for its direct dependencies (``requests``); the
message is delivered when they are, and by induction its whole past is. R also shows which own
messages the sender had delivered; no process asks about those that all have, and their part of the
log is collected (``log``).

Assumes that no packet is lost, for liveness alone: a lost one blocks what depends on it.

Guarantee: causal order, at most once, up to collisions of a hash of 62 bits (``hashes`` tries a
test at most). Everything is delivered if no packet is lost, no process crashes and no request
arrives after the log has dropped its answer. Cost: M counters and a hash in every message,
whatever N, but in a live group at least N + k - 1; locally two counters for each process, and 24 kB
if the group is smaller than the clock.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import MESSAGE, NUMBER, Host, Int64s, handler, tag_of, value_of
from precedes.parts import clocks
from precedes.parts.hash_check import log, queue, requests, search, set_hash
from precedes.parts.hash_check.queue import ANSWERED, ASKED, COUNTS, PREDECESSOR, SUSPECT
from precedes.parts.pool import NONE

from . import enumeration
from .state import Parameters, State, allocate, extra

__all__ = ["Parameters", "State", "allocate", "extra"]

DATA: Final = 0
ITEMS: Final = (MESSAGE, NUMBER, NUMBER, NUMBER)
MESSAGE_FIELDS: Final = ("need", "past")
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "direct"
# It asks the sender of a message that it cannot explain, and a lost one does not answer.
SURVIVES_CRASHES: Final = False


# --- Algorithm 2 ---


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 1 to 7."""
    clocks.copy(state.clock[here], state.need[slot])
    state.past[slot] = state.hash[here]
    record(state, here, slot, host)
    log.collect(state.log, here, state.node[here])
    host.send_all(DATA, slot)
    after_delivery(state, here, host.source_of(slot), host)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    for i in range(count):
        tag, value = tag_of(inbox, i), value_of(inbox, i)
        if tag == DATA:
            on_app(state, here, value, host)
        elif tag != requests.REQUEST:
            on_rsp(state, here, sender, tag, value, host)
        elif i == 0:
            # A request has a packet to itself, so that one answer is the most to be sent.
            on_req(state, here, sender, value, host)


@compiled.function()
def on_app(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 8 to 13: deliver a message, let it wait, or drop a repeated one."""
    source = host.source_of(slot)
    before = state.delivered[here, source]
    sequence = host.sequence_of(slot)
    any_waits = state.held.ends.begin[here] != NONE
    if sequence <= before or (any_waits and queue.holds(state.held, here, source, sequence, host)):
        host.drop(slot)
        return
    entry = lacks(state, here, slot)
    in_turn = sequence == before + 1 or state.sender_order == 0
    if entry == NONE and in_turn and not error_detector(state, here, slot, host):
        record(state, here, slot, host)
        host.deliver(slot)
        after_delivery(state, here, source, host)
    else:
        hold(state, here, slot, entry, in_turn, host)


@compiled.function()
def lacks(state: State, here: int, slot: int) -> int:
    """Line 9: an entry of the clock that has not reached what the message needs, or NONE."""
    if clocks.covers(state.clock[here], state.need[slot]):
        return NONE
    return clocks.first_missing(state.clock[here], state.need[slot])


@compiled.function(inline=False)
def hold(state: State, here: int, slot: int, entry: int, in_turn: bool, host: Host) -> None:
    """Add a waiting message with the entry that it lacks."""
    row = queue.add(state.held, here, slot, COUNTS)
    if entry != NONE:
        queue.await_entry(state.held, row, entry, state.need[slot])
    elif not in_turn:
        state.held.rows.stage[row] = PREDECESSOR
    else:
        suspect(state, here, row, host)
    queue.note_waiting(state.held, here, row)


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


@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    """The grace time of a message is over."""
    rows = state.held.rows
    row = key & 0xFFFFFFFF
    if rows.generation[row] != key >> 32 or rows.stage[row] != SUSPECT:
        return
    # With retries every delivery has tested it; without them the end of the grace does.
    if state.retry == 0 and not error_detector(state, here, rows.slot[row], host):
        rows.stage[row] = ANSWERED
        wait_until(state, here, host)
    else:
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
    queue.note_waiting(state.held, here, row)
    rows.since[row] = state.log.end.next[here]
    state.counts.requests[0] += 1
    host.send(host.source_of(slot), requests.REQUEST, host.sequence_of(slot))


@compiled.function()
def on_req(state: State, here: int, sender: int, sequence: int, host: Host) -> None:
    """Line 14: RSP."""
    delivered, node = state.delivered[here], state.node[here]
    requests.answer(state.log, state.scratch, delivered, here, node, sender, sequence, host)


@compiled.function(inline=False)
def on_rsp(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> None:
    """Line 15: part of an answer."""
    held, delivered = state.held, state.delivered[here]
    row = requests.learn(held, state.scratch, here, sender, tag, value, host)
    if row >= 0:
        needed = requests.was_needed(held, state.log, state.scratch, delivered, here, row, host)
        state.counts.requests_false[0] += not needed
        wait_until(state, here, host)
    elif row == requests.NO_ANSWER:
        state.counts.requests_unanswered[0] += 1


@compiled.function()
def record(state: State, here: int, slot: int, host: Host) -> None:
    """Lines 3 and 19 to 21: count a delivery, by increments, never by maxima."""
    source = host.source_of(slot)
    sequence = host.sequence_of(slot)
    for i in range(state.own.shape[1]):
        state.clock[here, state.own[source, i]] += 1
    hashed = set_hash.hash_of(state.hasher, slot, host)
    state.hash[here] = set_hash.plus(state.hash[here], hashed)
    state.delivered[here, source] = sequence
    if state.is_literal != 0:
        enumeration.remember(state.literal, state.log, state.own, here, source, state.need[slot])
    log.append(state.log, here, set_hash.packed(source, sequence), hashed, 0)


@compiled.function()
def after_delivery(state: State, here: int, source: int, host: Host) -> None:
    """Examine waiting messages if one of ``source``, just recorded, may have made them ready."""
    held = state.held
    if held.ends.begin[here] != NONE and queue.releases(
        held, here, state.clock[here], state.own[source]
    ):
        wait_until(state, here, host)


@compiled.function(inline=False)
def wait_until(state: State, here: int, host: Host) -> None:
    """Lines 9 and 15: deliver waiting messages that are ready, until there are none."""
    held, rows = state.held, state.held.rows
    before = NONE
    held.ends.others[here] = 0
    row = held.ends.begin[here]
    while row != NONE:
        if not examine(state, here, row, host):
            queue.note_waiting(held, here, row)
            before, row = row, rows.link[row]
            continue
        slot = rows.slot[row]
        state.counts.requests_withdrawn[0] += rows.stage[row] == ASKED
        queue.remove(held, here, row, before)
        record(state, here, slot, host)
        host.deliver(slot)
        before = NONE
        row = held.ends.begin[here]


@compiled.function(inline=False)
def examine(state: State, here: int, row: int, host: Host) -> bool:
    """Return whether a waiting message can be delivered now; it may enter another stage."""
    rows = state.held.rows
    slot = rows.slot[row]
    missing = host.sequence_of(slot) - state.delivered[here, host.source_of(slot)] - 1
    if rows.stage[row] == ANSWERED:
        complete = requests.all_delivered(state.held, state.delivered[here], row)
        return complete and missing == 0
    if rows.stage[row] == COUNTS:
        if state.clock[here, rows.entry[row]] < rows.value[row]:
            return False
        entry = lacks(state, here, slot)
        if entry != NONE:
            queue.await_entry(state.held, row, entry, state.need[slot])
            return False
        rows.stage[row] = PREDECESSOR
    tested = rows.stage[row] != PREDECESSOR
    if missing > 0 and state.sender_order != 0:
        return False
    if tested and state.retry == 0:
        return False
    if rows.stage[row] == ASKED and lacks(state, here, slot) != NONE:
        return False  # it was asked about with one before it
    if not error_detector(state, here, slot, host):
        return True
    if not tested:
        suspect(state, here, row, host)
    return False


# --- Algorithm 3 ---


@compiled.function()
def error_detector(state: State, here: int, slot: int, host: Host) -> bool:
    """Return whether no set R of own deliveries is found that the sender lacked."""
    source = host.source_of(slot)
    if state.has_hash == 0:
        in_turn = host.sequence_of(slot) == state.delivered[here, source] + 1
        return not in_turn or looks_late(state, here, slot, source)
    node, need, clock = state.node[here], state.need[slot], state.clock[here]
    lacked = set_hash.minus(state.hash[here], state.past[slot])
    if state.is_literal == 0:
        is_explained = search.find(
            state.peel,
            state.log,
            state.own,
            here,
            clock,
            need,
            node,
            source,
            state.delivered[here],
            lacked,
            state.hashes,
        )
        oldest_own = state.peel.mark.oldest_own[0]
    else:
        is_explained = enumeration.find(
            state.literal, state.log, here, need, node, lacked, state.hashes
        )
        oldest_own = state.literal.mark.oldest_own[0]
    # The past of the message includes the sender's last one; no hash is trusted against that.
    if not is_explained or host.sequence_of(slot) != state.delivered[here, source] + 1:
        return True
    log.note_known(state.log, here, source, state.delivered[here, node], oldest_own)
    state.counts.accepted[0] += 1
    return False


@compiled.function(inline=False)
def looks_late(state: State, here: int, slot: int, source: int) -> bool:
    """The detector of Mostefaoui and Weiss: others have counted up all the sender's entries.

    It suspects by the clock alone, some messages in order and not all that are out of order.
    """
    for i in range(state.own.shape[1]):
        x = state.own[source, i]
        if state.clock[here, x] <= state.need[slot, x]:
            return False
    return True


@handler(State)
def on_crash(state: State, here: int, crashed: int, host: Host) -> None:
    log.ask_no_more(state.log, here, crashed)


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    if tag == DATA:
        clock = state.clock[here]
        return bool(
            clocks.are_sums(state.need[value], clock, state.owners, host.window())
            and 0 <= state.past[value] <= set_hash.MASK
        )
    node = state.node[here] + compiled.ZERO
    return requests.is_possible(state.delivered[here], node, tag, value, host)


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8 + state.hash_bytes + 4 * state.entries
