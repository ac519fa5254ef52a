"""Causal broadcast with a probabilistic clock and a hash of the past that finds its errors.

Source: "Improving accuracy", sections 4 and 5 (Algorithms 2 and 3).

Algorithm. Clocks and waiting are those of ``probabilistic``. A message also carries the hash of all
that its sender had delivered (``past``). Once the clock lets it pass, the receiver looks for the
set R of own deliveries that the sender lacked (``search``, or ``enumeration`` as printed): if the
own hash without R is the message's, nothing is missing and the message is delivered. Otherwise it
is suspect. It is tested again after every delivery, since most often what it lacks is just
arriving. After a grace time its sender is asked for its direct dependencies (``requests``); the
message is delivered when they are, and by induction its whole past is. R also tells which own
messages the sender had delivered; what everybody has, nobody asks about, and its part of the log is
collected (``log``).

Assumes that no packet is lost, for liveness alone: a lost one blocks what depends on it.

Guarantee: causal order, at most once, up to collisions of a hash of 62 bits (``hashes`` tries a
test at most). Everything is delivered if no packet is lost, no process crashes and no request
comes after the log has forgotten its answer. Cost: M counters and a hash in every message,
whatever N, but in a live group at least N + k - 1; locally two counters for each process, and 24 kB
if the group is smaller than the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import (
    DONE,
    FULL,
    MESSAGE,
    NUMBER,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
    admits,
    broadcast,
    check_range,
    message_bytes,
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
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS
from precedes.parts import clocks
from precedes.parts.hash_check import check, log, queue, requests, search, set_hash
from precedes.parts.hash_check.log import Log
from precedes.parts.hash_check.queue import Queue
from precedes.parts.hash_check.search import Peeling
from precedes.parts.hash_check.set_hash import Hasher
from precedes.parts.pool import NONE

from . import enumeration
from .enumeration import Enumeration

DATA: Final = 0
ITEMS: Final = (MESSAGE, NUMBER, NUMBER, NUMBER)
MESSAGE_FIELDS: Final = ("need", "past")
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "direct"
# It asks the sender of a message that it cannot explain, and a lost one does not answer.
SURVIVES_CRASHES: Final = False

SEARCHES: Final = ("peeling", "literal")

# Places in ``setting``, after those of ``check``.
ENTRIES: Final = check.SETTINGS
SEARCH: Final = ENTRIES + 1  # of SEARCHES
OWNERS: Final = SEARCH + 1  # from here on, for each entry of a row: see ``clocks.owners_of``


@dataclass(frozen=True)
class Parameters:
    """The size of the clock, the effort of the search, and when the sender is asked."""

    entries: int = field(default=50, metadata={"help": "entries of the clock (M)"})
    per_process: int = field(default=2, metadata={"help": "entries that a process owns (k)"})
    hashes: int = field(default=100, metadata={"help": "hashes compared in one test, at most (l)"})
    search: str = field(
        default="peeling", metadata={"help": "peeling, or literal: combinations as printed"}
    )
    grace_ms: float = field(default=100.0, metadata={"help": "wait before asking the sender"})
    retry: bool = field(default=True, metadata={"help": "test again after every delivery"})
    sender_order: bool = field(
        default=True, metadata={"help": "await the sender's message before it, then test"}
    )
    log: int = field(
        default=1024, metadata={"help": "deliveries kept for answers (up to a power of 2)"}
    )

    def __post_init__(self) -> None:
        clocks.check_size(entries=self.entries, per_process=self.per_process)
        check_range(0, 1e6, grace_ms=self.grace_ms)
        check.check_effort(hashes=self.hashes, log_length=self.log)
        if self.search not in SEARCHES:
            raise UserError(f"search must be {' or '.join(SEARCHES)}, not {self.search!r}")


class State(NamedTuple):
    """Rows of ``clock``, ``hash``, ``delivered`` belong to processes, the fields' to messages."""

    clock: Int32s
    hash: Int64s  # of all that the process has delivered
    delivered: Int32s  # process, source -> messages delivered, without gaps
    need: Int32s
    past: Int64s  # message -> hash of all that its sender had delivered
    own: Int32s  # f: process -> the entries it increments
    node: Int32s  # row -> process
    held: Queue
    log: Log
    hasher: Hasher
    peel: Peeling
    literal: Enumeration
    scratch: Int64s  # source -> 0, but while something is counted for a request
    setting: Int64s
    counted: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group; the group's seed is the key of the hash.

    The window of a live group lets so much be in flight that no search would find it: its clock is
    large enough to tell the members apart.
    """
    if group.window > 0:
        parameters = _for_live_group(parameters, group)
    width = clocks.padded(parameters.entries)
    processes = len(group.hosted)
    own = clocks.entries_apart(
        entries=parameters.entries,
        per_process=parameters.per_process,
        nodes=group.nodes,
        seed=group.seed,
    )
    hasher = set_hash.allocate(seed=group.seed, slots=capacity.slots)
    setting = [
        parameters.hashes,
        round(parameters.grace_ms * NANOSECONDS_PER_MS),
        parameters.retry,
        parameters.sender_order,
        parameters.entries,
        SEARCHES.index(parameters.search),
        *clocks.owners_of(own, hosted=group.hosted, width=width),
    ]
    return State(
        clock=np.zeros((processes, width), np.int32),
        hash=np.zeros(processes, np.int64),
        delivered=np.zeros((processes, group.nodes), np.int32),
        need=np.zeros((capacity.slots, width), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=own,
        node=np.array(group.hosted, np.int32),
        held=queue.allocate(processes, capacity, entries=width),
        log=log.allocate(
            processes=processes,
            nodes=group.nodes,
            length=parameters.log,
            key=hasher.key.copy(),
            tells_apart=clocks.are_apart(own, entries=parameters.entries),
        ),
        hasher=hasher,
        peel=search.allocate(width=width, nodes=group.nodes, per_process=parameters.per_process),
        literal=enumeration.allocate(
            processes=processes, width=width, is_used=parameters.search == "literal"
        ),
        scratch=np.zeros(group.nodes, np.int64),
        setting=np.array(setting, np.int64),
        counted=np.zeros(check.COUNTED, np.int64),
    )


def _for_live_group(parameters: Parameters, group: Group) -> Parameters:
    in_flight = group.window * (group.nodes - 1)
    if parameters.search == "literal" and in_flight > enumeration.NEWEST:
        raise UserError(
            f"search=literal looks at {enumeration.NEWEST} deliveries, but {in_flight:,} messages "
            "can be in flight in this group: set search to peeling"
        )
    least = clocks.entries_to_tell_apart(group.nodes, parameters.per_process)
    return replace(parameters, entries=max(parameters.entries, least))


def effects_words(capacity: Capacity, nodes: int) -> int:
    """Each waiting message is delivered, or asked about and given a timer; one answer; a send."""
    return 64 + 10 * capacity.held + 5 * nodes


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    clocks.copy(state.clock[here], state.need[slot])
    state.past[slot] = state.hash[here]
    check.record_delivery(state, here, slot, host)
    log.collect(state.log, here, state.node[here])
    send_all(host, DATA, slot)
    check.after_delivery(state, here, source_of(host, slot), host)
    return DONE


@compiled.register(check.record, State)
def _record(state: State, here: int, slot: int, host: Host) -> None:
    source = source_of(host, slot)
    sequence = sequence_of(host, slot)
    for i in range(state.own.shape[1]):
        state.clock[here, state.own[source, i]] += 1
    hashed = set_hash.hash_of(state.hasher, slot, host)
    state.hash[here] = set_hash.plus(state.hash[here], hashed)
    state.delivered[here, source] = sequence
    if state.setting[SEARCH] != 0:
        enumeration.remember(state.literal, state.log, state.own, here, source, state.need[slot])
    log.append(state.log, here, set_hash.packed(source, sequence), hashed, 0)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if not queue.has_room(state.held, count):
        return FULL
    for i in range(count):
        if tag_of(inbox, i) == DATA:
            check.arrive(state, here, value_of(inbox, i), host)
        else:
            check.talk(state, here, state.node[here], sender, inbox, i, host)
    return DONE


@compiled.register(check.lacks, State)
def _lacks(state: State, here: int, slot: int) -> int:
    if clocks.covers(state.clock[here], state.need[slot]):
        return NONE
    return clocks.first_missing(state.clock[here], state.need[slot])


@compiled.register(check.reached, State)
def _reached(state: State, here: int, entry: int) -> int:
    return state.clock[here, entry]


@compiled.register(check.releases, State)
def _releases(state: State, here: int, source: int) -> bool:
    return queue.releases(state.held, here, state.clock[here], state.own[source])


@compiled.register(check.explain, State)
def _explain(state: State, here: int, slot: int, host: Host) -> bool:
    """Algorithm 3."""
    source = source_of(host, slot)
    difference = set_hash.minus(state.hash[here], state.past[slot])
    limit = state.setting[check.LIMIT]
    if state.setting[SEARCH] == 0:
        found = search.find(
            state.peel,
            state.log,
            state.own,
            here,
            state.clock[here],
            state.need[slot],
            state.node[here],
            source,
            state.delivered[here],
            difference,
            limit,
        )
        oldest_own = state.peel.mark[search.OLDEST_OWN]
    else:
        found = enumeration.find(
            state.literal,
            state.log,
            here,
            state.need[slot],
            state.node[here],
            difference,
            limit,
        )
        oldest_own = state.literal.mark[enumeration.OLDEST_OWN]
    # What precedes the message includes the sender's last one; no hash is trusted against that.
    if not found or sequence_of(host, slot) != state.delivered[here, source] + 1:
        return False
    own = state.delivered[here, state.node[here]]
    log.note_known(state.log, here, source, own, oldest_own)
    state.counted[check.ACCEPTED] += 1
    return True


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    check.after_grace(state, here, key, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    log.ask_no_more(state.log, here, crashed)
    return DONE


@compiled.register(admits, State)
def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    if tag == DATA:
        clock = state.clock[here]
        return bool(
            clocks.are_sums(state.need[value], clock, state.setting, OWNERS, window(host))
            and 0 <= state.past[value] <= set_hash.MASK
        )
    node = state.node[here] + compiled.ZERO
    return requests.is_possible(state.delivered[here], node, tag, value, host)


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 16 + 4 * state.setting[ENTRIES]


def extra(state: State) -> dict[str, float]:
    """What was tested, suspected and asked."""
    found = {"hashes": int(state.peel.mark[search.HASHES]), **check.counts(state)}
    if state.setting[SEARCH] != 0:
        mark = state.literal.mark
        found["hashes"] = int(mark[enumeration.HASHES])
        found["concurrent"] = int(mark[enumeration.CONCURRENT])
        found["concurrent_unshown"] = int(mark[enumeration.UNSHOWN])
    return found
