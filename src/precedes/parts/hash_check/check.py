"""Deliver a message when its clock and its hash allow it; test again, or ask, when they do not.

Source: "Improving accuracy", Algorithm 2. A message waits for its clock (COUNTS), then for the one
before it of the same sender (PREDECESSOR). If its hash is not explained then, it is SUSPECT and is
tested again after every delivery. After a grace time its sender is ASKED for the direct
dependencies, and it is delivered once they are (``requests``).

What a clock is, and what explains a hash, differs between protocols: each registers ``lacks``,
``reached``, ``releases``, ``explain`` and ``record`` for its state, which has the fields ``need``,
``delivered``, ``held``, ``log``, ``peel``, ``scratch``, ``setting`` and ``counted``; the places
below are the first ones of the last two.
"""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled
from precedes.contract import (
    Host,
    Int64s,
    check_range,
    deliver,
    drop,
    send,
    sequence_of,
    set_timer,
    source_of,
    tag_of,
    value_of,
)
from precedes.errors import UserError
from precedes.parts.pool import NONE

from . import log, queue, requests, search
from .queue import ANSWERED, ASKED, COUNTS, PREDECESSOR, SUSPECT

# Places in ``setting``.
LIMIT: Final = 0
GRACE_NS: Final = 1
RETRY: Final = 2
SENDER_ORDER: Final = 3
SETTINGS: Final = 4

# Places in ``counted``; ``counts`` says what they count.
ACCEPTED: Final = 0
SUSPECTED: Final = 1
REQUESTS: Final = 2
REQUESTS_FALSE: Final = 3
WITHDRAWN: Final = 4
UNANSWERED: Final = 5
COUNTED: Final = 6

LOG_MAX: Final = 1 << 24  # deliveries kept for answers


def check_effort(*, hashes: int, log_length: int) -> None:
    """UserError unless a search and its log can have this size."""
    if hashes < 1:
        raise UserError(f"hashes must be at least 1, not {hashes}")
    check_range(log.LENGTH_MIN, LOG_MAX, log=log_length)


@compiled.generic()
def lacks(state: Any, here: int, slot: int) -> int:
    """An entry of the clock that has not reached what the message needs, or NONE."""
    return NONE


@compiled.generic()
def reached(state: Any, here: int, entry: int) -> int:
    """The count of an entry of the clock."""
    return 0


@compiled.generic(optional=True)
def releases(state: Any, here: int, source: int) -> bool:
    """Whether the delivery of a message of ``source`` may have made another one ready."""
    return True


@compiled.generic()
def explain(state: Any, here: int, slot: int, host: Host) -> bool:
    """Whether a set of own deliveries that the sender lacked is found (Algorithm 3)."""
    return False


@compiled.generic()
def record(state: Any, here: int, slot: int, host: Host) -> None:
    """Enter a message into all that counts deliveries: by increments, never by maxima."""


# What protocols register is compiled once, not into each place that calls it.
@compiled.function(inline=False)
def explains(state: Any, here: int, slot: int, host: Host) -> bool:
    """``explain``."""
    return explain(state, here, slot, host)


@compiled.function(inline=False)
def record_delivery(state: Any, here: int, slot: int, host: Host) -> None:
    """``record``."""
    record(state, here, slot, host)


@compiled.function()
def arrive(state: Any, here: int, slot: int, host: Host) -> None:
    """A message has come: deliver it, let it wait, or drop a repeated one."""
    source = source_of(host, slot)
    before = state.delivered[here, source]
    sequence = sequence_of(host, slot)
    if sequence <= before or queue.holds(state.held, here, source, sequence, host):
        drop(host, slot)
        return
    entry = lacks(state, here, slot)
    covered = entry == NONE
    in_turn = sequence == before + 1 or state.setting[SENDER_ORDER] == 0
    if covered and in_turn and explains(state, here, slot, host):
        record_delivery(state, here, slot, host)
        deliver(host, slot)
        after_delivery(state, here, source, host)
    else:
        _hold(state, here, slot, entry, in_turn, host)


@compiled.function()
def after_delivery(state: Any, here: int, source: int, host: Host) -> None:
    """Examine what waits if a message of ``source``, just recorded, may have made it ready."""
    if state.held.ends[here, queue.BEGIN] != NONE and releases(state, here, source):
        settle(state, here, host)


@compiled.function(inline=False)
def _hold(state: Any, here: int, slot: int, entry: int, in_turn: bool, host: Host) -> None:
    """Let a message wait for what it lacks."""
    row = queue.add(state.held, here, slot, COUNTS)
    if entry != NONE:
        queue.await_entry(state.held, row, entry, state.need[slot])
    elif not in_turn:
        state.held.pool.row[row + queue.STAGE] = PREDECESSOR
    else:
        _suspect(state, here, row, host)
    queue.note_waiting(state.held, here, row)


@compiled.function(inline=False)
def _suspect(state: Any, here: int, row: int, host: Host) -> None:
    """A message failed its test: ask its sender, at once or after the grace time.

    What is beyond the search now stays so, since R only grows: waiting would be in vain.
    """
    state.counted[SUSPECTED] += 1
    state.held.pool.row[row + queue.STAGE] = SUSPECT
    if state.setting[GRACE_NS] == 0:
        _ask(state, here, row, host)
    elif state.peel.mark[search.BEYOND] != 0:
        _ask_for_all(state, here, row, host)
    else:
        key = row | (state.held.pool.row[row + queue.GENERATION] << 32)
        set_timer(host, key, state.setting[GRACE_NS])


@compiled.function(inline=False)
def _ask(state: Any, here: int, row: int, host: Host) -> None:
    """REQ (Algorithm 2, line 11)."""
    rows = state.held.pool.row
    slot = rows[row + queue.SLOT]
    rows[row + queue.STAGE] = ASKED
    queue.note_waiting(state.held, here, row)
    rows[row + queue.SINCE] = state.log.end[here, log.NEXT]
    state.counted[REQUESTS] += 1
    send(host, source_of(host, slot), requests.REQUEST, sequence_of(host, slot))


@compiled.function(inline=False)
def _ask_for_all(state: Any, here: int, row: int, host: Host) -> None:
    """Ask about a message and all of its sender that wait behind it: requests overlap."""
    rows = state.held.pool.row
    source = source_of(host, rows[row + queue.SLOT])
    row = state.held.ends[here, queue.BEGIN]
    while row != NONE:
        if source_of(host, rows[row + queue.SLOT]) == source and rows[row + queue.STAGE] < ASKED:
            _ask(state, here, row, host)
        row = rows[row + queue.LINK]


@compiled.function(inline=False)
def after_grace(state: Any, here: int, key: int, host: Host) -> None:
    """The grace time of a message is over; ``key`` is that of its timer."""
    rows = state.held.pool.row
    row = key & 0xFFFFFFFF
    current = rows[row + queue.GENERATION] == key >> 32
    if current and rows[row + queue.STAGE] == SUSPECT:
        # With retries every delivery has tested it; without them the end of the grace does.
        slot = rows[row + queue.SLOT]
        if state.setting[RETRY] == 0 and explains(state, here, slot, host):
            rows[row + queue.STAGE] = ANSWERED
            settle(state, here, host)
        else:
            _ask_for_all(state, here, row, host)


@compiled.function(inline=False)
def settle(state: Any, here: int, host: Host) -> None:
    """Deliver what waits and can be delivered now, until nothing more can."""
    held, rows = state.held, state.held.pool.row
    before = NONE
    held.ends[here, queue.OTHERS] = 0
    row = held.ends[here, queue.BEGIN]
    while row != NONE:
        if not _may_go(state, here, row, host):
            queue.note_waiting(held, here, row)
            before, row = row, rows[row + queue.LINK]
            continue
        slot = rows[row + queue.SLOT]
        state.counted[WITHDRAWN] += rows[row + queue.STAGE] == ASKED
        queue.remove(held, here, row, before)
        record_delivery(state, here, slot, host)
        deliver(host, slot)
        before = NONE
        row = held.ends[here, queue.BEGIN]


@compiled.function(inline=False)
def _may_go(state: Any, here: int, row: int, host: Host) -> bool:
    """Whether a message that waits can be delivered now; it may go on to another stage."""
    rows = state.held.pool.row
    slot = rows[row + queue.SLOT]
    missing = sequence_of(host, slot) - state.delivered[here, source_of(host, slot)] - 1
    if rows[row + queue.STAGE] == ANSWERED:
        complete = requests.all_delivered(state.held, state.delivered[here], row)
        return complete and missing == 0
    if rows[row + queue.STAGE] == COUNTS:
        if reached(state, here, rows[row + queue.ENTRY]) < rows[row + queue.VALUE]:
            return False
        entry = lacks(state, here, slot)
        if entry != NONE:
            queue.await_entry(state.held, row, entry, state.need[slot])
            return False
        rows[row + queue.STAGE] = PREDECESSOR
    tested = rows[row + queue.STAGE] != PREDECESSOR
    if missing > 0 and state.setting[SENDER_ORDER] != 0:
        return False
    if tested and state.setting[RETRY] == 0:
        return False
    if rows[row + queue.STAGE] == ASKED and lacks(state, here, slot) != NONE:
        return False  # it was asked about with one before it
    if explains(state, here, slot, host):
        return True
    if not tested:
        _suspect(state, here, row, host)
    return False


@compiled.function()
def talk(state: Any, here: int, node: int, sender: int, inbox: Int64s, i: int, host: Host) -> None:
    """An item that is no message: a request, or a part of an answer to one."""
    if tag_of(inbox, i) != requests.REQUEST:
        _learn(state, here, sender, tag_of(inbox, i), value_of(inbox, i), host)
    elif i == 0:
        # A request has a packet to itself, so that one answer is the most to be sent.
        sequence, delivered = value_of(inbox, i), state.delivered[here]
        requests.answer(state.log, state.scratch, delivered, here, node, sender, sequence, host)


@compiled.function(inline=False)
def _learn(state: Any, here: int, sender: int, tag: int, value: int, host: Host) -> None:
    """A part of an answer has come."""
    row = requests.learn(state.held, state.scratch, here, sender, tag, value, host)
    if row >= 0:
        delivered = state.delivered[here]
        needed = requests.was_needed(
            state.held, state.log, state.scratch, delivered, here, row, host
        )
        state.counted[REQUESTS_FALSE] += not needed
        settle(state, here, host)
    elif row == requests.NO_ANSWER:
        state.counted[UNANSWERED] += 1


def counts(state: Any) -> dict[str, float]:
    """What was tested, suspected and asked."""
    return {
        "accepted": int(state.counted[ACCEPTED]),
        "suspected": int(state.counted[SUSPECTED]),
        "requests": int(state.counted[REQUESTS]),
        "requests_false": int(state.counted[REQUESTS_FALSE]),
        "requests_withdrawn": int(state.counted[WITHDRAWN]),
        "requests_unanswered": int(state.counted[UNANSWERED]),
        "log_max": int(state.log.longest[0]),
    }
