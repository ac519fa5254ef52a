"""Causal broadcast with a probabilistic clock and a hash of the past that finds its errors.

Source: "Improving accuracy", sections 4 and 5 (Algorithms 2 and 3).

Algorithm. Clocks and waiting are those of ``probabilistic``. A message also carries the hash of
all that its sender had delivered (``past``). Once the clock lets it pass, the receiver looks for
the set R of own deliveries that the sender lacked (``peeling``): if the own hash without R is the
message's, nothing is missing and the message is delivered. Otherwise it is suspect. It is tested
again after every delivery, since most often what it lacks is just arriving. After a grace time
its sender is asked for its direct dependencies (``answers``); the message is delivered when they
are, and by induction its whole past is. R also tells which own messages the sender had delivered;
what everybody has, nobody asks about, and its part of the log is collected (``delivery_log``).

Assumes that no packet is lost, for liveness alone: a lost one blocks what depends on it.

Guarantee: causal order, at most once, up to collisions of a hash of 62 bits (``hashes`` tries a
test at most). Everything is delivered if no packet is lost, no process crashes and no request
comes after the log has forgotten its answer. Cost: M counters and a hash in every message,
whatever N; locally two counters for each process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import clocks, compiled
from precedes.model import NANOSECONDS_PER_MS, UserError
from precedes.protocols import answers, peeling, set_hash, suspicion
from precedes.protocols import delivery_log as history
from precedes.protocols import suspects as waiting
from precedes.protocols.contract import (
    DONE,
    FULL,
    MESSAGE,
    NUMBER,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
    broadcast,
    message_bytes,
    on_crash,
    on_timer,
    receive,
    send_all,
    sequence_of,
    source_of,
    tag_of,
    value_of,
)
from precedes.protocols.delivery_log import Log
from precedes.protocols.peeling import Peeling
from precedes.protocols.probabilistic import check_size, entries_of_all
from precedes.protocols.set_hash import Hasher
from precedes.protocols.suspects import NONE, Suspects

DATA: Final = 0
ITEMS: Final = (MESSAGE, NUMBER, NUMBER, NUMBER)
MESSAGE_FIELDS: Final = ("need", "past")
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "direct"

# Place in ``setting``, after those of ``suspicion``.
ENTRIES: Final = suspicion.SETTINGS


@dataclass(frozen=True)
class Parameters:
    """The size of the clock, the effort of the search, and when the sender is asked."""

    entries: int = field(default=50, metadata={"help": "entries of the clock (M)"})
    per_process: int = field(default=2, metadata={"help": "entries that a process owns (k)"})
    hashes: int = field(default=100, metadata={"help": "hashes compared in one test, at most (l)"})
    grace_ms: float = field(default=100.0, metadata={"help": "wait before asking the sender"})
    retry: bool = field(default=True, metadata={"help": "test again after every delivery"})
    sender_order: bool = field(
        default=True, metadata={"help": "await the sender's message before it, then test"}
    )
    log: int = field(
        default=1024, metadata={"help": "deliveries kept for answers (up to a power of 2)"}
    )

    def __post_init__(self) -> None:
        check_size(entries=self.entries, per_process=self.per_process)
        if self.hashes < 1:
            raise UserError(f"hashes must be at least 1, not {self.hashes}")
        if not 0 <= self.grace_ms <= 1e6:
            raise UserError(f"grace_ms must be between 0 and 1e6, not {self.grace_ms:g}")
        if not history.LENGTH_MIN <= self.log <= 1 << 24:
            least = history.LENGTH_MIN
            raise UserError(f"log must be between {least} and {1 << 24}, not {self.log}")


class State(NamedTuple):
    """Rows of ``clock``, ``hash``, ``delivered`` belong to processes, the fields' to messages."""

    clock: Int32s
    hash: Int64s  # of all that the process has delivered
    delivered: Int32s  # process, source -> messages delivered, without gaps
    need: Int32s
    past: Int64s  # message -> hash of all that its sender had delivered
    own: Int32s  # f: process -> the entries it increments
    node: Int32s  # row -> process
    held: Suspects
    log: Log
    hasher: Hasher
    peel: Peeling
    told: Int64s  # source -> 0, but while something is counted in answers
    setting: Int64s
    counted: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group; the group's seed is the key of the hash."""
    width = clocks.padded(parameters.entries)
    processes = len(group.hosted)
    setting = [
        parameters.hashes,
        round(parameters.grace_ms * NANOSECONDS_PER_MS),
        parameters.retry,
        parameters.sender_order,
        parameters.entries,
    ]
    return State(
        clock=np.zeros((processes, width), np.int32),
        hash=np.zeros(processes, np.int64),
        delivered=np.zeros((processes, group.nodes), np.int32),
        need=np.zeros((capacity.slots, width), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=entries_of_all(parameters.entries, parameters.per_process, group),
        node=np.array(group.hosted, np.int32),
        held=waiting.allocate(processes, capacity),
        log=history.allocate(processes=processes, nodes=group.nodes, length=parameters.log),
        hasher=set_hash.allocate(seed=group.seed, slots=capacity.slots),
        peel=peeling.allocate(width=width, nodes=group.nodes, per_process=parameters.per_process),
        told=np.zeros(group.nodes, np.int64),
        setting=np.array(setting, np.int64),
        counted=np.zeros(suspicion.COUNTED, np.int64),
    )


def effects_words(capacity: Capacity, nodes: int) -> int:
    """Each waiting message is delivered, or asked about and given a timer; one answer; a send."""
    return 64 + 10 * capacity.held + 5 * nodes


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    clocks.copy(state.clock[here], state.need[slot])
    state.past[slot] = state.hash[here]
    _count_in(state, here, slot, host)
    history.collect(state.log, here, state.node[here])
    send_all(host, DATA, slot)
    return DONE


@compiled.function(inline=False)
def _count_in(state: State, here: int, slot: int, host: Host) -> None:
    """Enter a message into all that counts deliveries: always by increments, never by maxima."""
    source = source_of(host, slot)
    sequence = sequence_of(host, slot)
    for i in range(state.own.shape[1]):
        state.clock[here, state.own[source, i]] += 1
    hashed = set_hash.hash_of(state.hasher, slot, host)
    state.hash[here] = set_hash.plus(state.hash[here], hashed)
    state.delivered[here, source] = sequence
    history.append(state.log, here, set_hash.packed(source, sequence), hashed, 0)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if not waiting.has_room(state.held, count):
        return FULL
    for i in range(count):
        tag = tag_of(inbox, i)
        if tag == DATA:
            suspicion.arrive(state, here, value_of(inbox, i), host)
        elif tag != answers.REQUEST:
            suspicion.learn(state, here, sender, tag, value_of(inbox, i), host)
        elif i == 0:
            # A request has a packet to itself, so that one answer is the most to be sent.
            node = state.node[here]
            sequence = value_of(inbox, i)
            delivered = state.delivered[here]
            answers.answer(state.log, state.told, delivered, here, node, sender, sequence, host)
    return DONE


@compiled.register(suspicion.lacks, State)
def _lacks(state: State, here: int, slot: int) -> int:
    if clocks.covers(state.clock[here], state.need[slot]):
        return NONE
    return clocks.first_missing(state.clock[here], state.need[slot])


@compiled.register(suspicion.reached, State)
def _reached(state: State, here: int, entry: int) -> int:
    return state.clock[here, entry]


@compiled.register(suspicion.count_in, State)
def _count_in_delivery(state: State, here: int, slot: int, host: Host) -> None:
    _count_in(state, here, slot, host)


@compiled.register(suspicion.explains, State)
def _explains(state: State, here: int, slot: int, host: Host) -> bool:
    return _finds_set(state, here, slot, host)


@compiled.function(inline=False)
def _finds_set(state: State, here: int, slot: int, host: Host) -> bool:
    """Whether a set of own deliveries that the sender lacked is found (Algorithm 3)."""
    source = source_of(host, slot)
    difference = set_hash.minus(state.hash[here], state.past[slot])
    found = peeling.find(
        state.peel,
        state.log,
        state.own,
        here,
        state.clock[here],
        state.need[slot],
        state.node[here],
        source,
        difference,
        state.setting[suspicion.LIMIT],
    )
    # What precedes the message includes the sender's last one; no hash is trusted against that.
    if not found or sequence_of(host, slot) != state.delivered[here, source] + 1:
        return False
    own = state.delivered[here, state.node[here]]
    history.note_known(state.log, here, source, own, state.peel.mark[peeling.OLDEST_OWN])
    state.counted[suspicion.ACCEPTED] += 1
    return True


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    suspicion.after_grace(state, here, key, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    history.ask_no_more(state.log, here, crashed)
    return DONE


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 16 + 4 * state.setting[ENTRIES]


def extra(state: State) -> dict[str, float]:
    """What was tested, suspected and asked."""
    return {"hashes": int(state.peel.mark[peeling.HASHES]), **suspicion.counts(state)}
