"""Causal broadcast with a Dynamic Clock Set: a probabilistic clock that follows the load.

Source: paper 002. The formula for the size of a clock is that of ``precedes.sizing``.

Algorithm. A clock consists of components of ``component_entries`` counters; the active ones, a
prefix of all, travel with every message. A process increments k = ``per_component`` entries in
each of ``spread`` components (S_incr), and S_incr travels too. The receiver adds or activates the
components that it lacks, waits until those it shares have reached the message's, increments the
*sender's* entries in the message's S_incr, and delivers. A process that sees more load than its
components are enough for adds some by itself (``dcs_policy``); to leave components behind takes a
round with everybody (``dcs_rounds``, ``dcs_components``).

With ``detector = "hash"`` a message also carries the hash of all that its sender had delivered,
and is delivered only if that is explained (``suspicion``, ``peeling``), as in ``hashed``.

Assumes that every packet arrives exactly once; with the detector repeated ones are recognised.

Guarantee: everything is delivered once; a share of deliveries near ``error`` is out of causal
order while the load is what the formula supposes, none with the detector. Cost: as many counters
in a message as the load asks for, up to ``components_max`` components, and a byte for each
component and place of S_incr. At that bound the clock stays as it is, and errors grow with the
load. A round takes 3 (N - 1) packets of less than 100 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from precedes import clocks, compiled, sizing
from precedes.model import NANOSECONDS_PER_MS, NODES_MAX, UserError
from precedes.protocols import answers, peeling, set_hash, suspicion
from precedes.protocols import dcs_components as components
from precedes.protocols import dcs_policy as policy
from precedes.protocols import dcs_rounds as rounds
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
    Int64s,
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
)
from precedes.protocols.dcs_state import (
    ACTIVE,
    ACTIVE_COUNT,
    ACTIVE_SUM,
    CARRIED,
    CARRIES,
    COMPONENTS_MAX,
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
    INTERVAL_END_NS,
    KIND,
    MOST,
    NO_ROUND,
    NOBODY,
    OTHERS,
    OVER,
    PART_WORDS,
    PER_COMPONENT,
    RANK,
    SENT_COUNT,
    SENT_SUM,
    SERIES_LENGTH,
    SERIES_STEP_NS,
    SERIES_WORDS,
    SIZE,
    SPREAD,
    SPREAD_MAX,
    WIDTH,
    WORDS,
    State,
)
from precedes.protocols.dcs_state import BLOCKER, DOUBT, DOUBT_ROUND
from precedes.protocols.hashed import EVERYTHING
from precedes.protocols.probabilistic import entries_of_all
from precedes.protocols.suspects import NONE

DATA: Final = 0
ITEMS: Final = (MESSAGE, *[NUMBER] * 7)
MESSAGE_FIELDS: Final = ("need", "stamp", "past")
GUARANTEE: Final = "probable"
ASSUMES: Final = frozenset({"reliable", "unique"})

DETECTORS: Final = ("none", "hash")


@dataclass(frozen=True)
class Parameters:
    """The error to aim at, the shape of the clock, and when it shrinks."""

    error: float = field(
        default=1e-5, metadata={"help": "share of deliveries that may be out of causal order"}
    )
    delay: str = field(
        default=sizing.DELAY, metadata={"help": f"what delays to expect: {sizing.DELAY_HELP}"}
    )
    component_entries: int = field(default=32, metadata={"help": "entries of a component"})
    components: int = field(default=1, metadata={"help": "components at the start, and at least"})
    components_max: int = field(default=64, metadata={"help": "components at most"})
    spread: int = field(default=2, metadata={"help": "components that a process increments"})
    per_component: int = field(
        default=1, metadata={"help": "entries that it increments in each of them (k)"}
    )
    smoothing_ms: float = field(
        default=2000.0, metadata={"help": "time constant of the estimate of the load"}
    )
    round_ms: float = field(default=1000.0, metadata={"help": "time from one turn to the next"})
    timeout_ms: float = field(default=1000.0, metadata={"help": "how long a round may take"})
    keep_ms: float = field(
        default=30_000.0, metadata={"help": "how long components stay inactive before removal"}
    )
    balance_ms: float = field(
        default=20_000.0, metadata={"help": "time between looks at the balance (0: none)"}
    )
    detector: str = field(
        default="none", metadata={"help": "none, or hash: find errors before they are made"}
    )
    hashes: int = field(default=100, metadata={"help": "hashes compared in one test, at most"})
    grace_ms: float = field(default=100.0, metadata={"help": "wait before asking the sender"})
    log: int = field(
        default=1024, metadata={"help": "deliveries kept for answers (up to a power of 2)"}
    )

    def __post_init__(self) -> None:
        _check_shape(self)
        if not 0 < self.error < 1:
            raise UserError(f"error must be a share between 0 and 1, not {self.error:g}")
        sizing.delay_ms(self.delay)
        if self.detector not in DETECTORS:
            raise UserError(f"detector must be {' or '.join(DETECTORS)}, not {self.detector!r}")
        for name in ("smoothing_ms", "round_ms", "timeout_ms"):
            if not 1 <= getattr(self, name) <= 1e9:
                text = f"{name} must be between 1 and 1e9, not {getattr(self, name):g}"
                raise UserError(text)
        for name in ("keep_ms", "balance_ms", "grace_ms"):
            if not 0 <= getattr(self, name) <= 1e9:
                text = f"{name} must be between 0 and 1e9, not {getattr(self, name):g}"
                raise UserError(text)
        if self.hashes < 1:
            raise UserError(f"hashes must be at least 1, not {self.hashes}")
        if not history.WINDOW <= self.log <= 1 << 24:
            raise UserError(f"log must be between {history.WINDOW} and {1 << 24}, not {self.log}")


def _check_shape(given: Parameters) -> None:
    if not 1 <= given.components <= given.components_max <= COMPONENTS_MAX:
        raise UserError(
            f"components and components_max must be between 1 and {COMPONENTS_MAX}, the first not "
            f"above the second, not {given.components} and {given.components_max}"
        )
    if not 1 <= given.spread <= SPREAD_MAX:
        raise UserError(f"spread must be between 1 and {SPREAD_MAX}, not {given.spread}")
    if given.per_component < 1:
        raise UserError(f"per_component must be at least 1, not {given.per_component}")
    # The entries of all places of S_incr differ, so that they may be in one component.
    least = given.spread * given.per_component
    if not least <= given.component_entries <= NODES_MAX:
        raise UserError(
            f"component_entries must be between spread x per_component ({least}) and "
            f"{NODES_MAX}, not {given.component_entries}"
        )


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group; the group's seed is the key of the hash."""
    own_count = parameters.spread * parameters.per_component
    most = parameters.components_max
    width = clocks.padded(most * parameters.component_entries)
    processes = len(group.hosted)
    checked = parameters.detector == "hash"
    watched = processes if checked else 0
    return State(
        clock=np.zeros((processes, width), np.int32),
        need=np.zeros((capacity.slots, width), np.int32),
        stamp=np.zeros((capacity.slots, GENERATIONS + most), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=entries_of_all(parameters.component_entries, own_count, group),
        node=np.array(group.hosted, np.int32),
        word=_first_words(parameters, group),
        # One more: a place for messages that carry all components.
        part=np.zeros((processes, most + 1, PART_WORDS), np.int64),
        member=np.zeros((processes, group.nodes), np.int8),
        seal=np.zeros((processes, rounds.COMPONENTS_A_ROUND), np.int64),
        limit=np.array(
            policy.limits(
                error=parameters.error,
                entries=parameters.component_entries,
                per_component=parameters.per_component,
                spread=parameters.spread,
                components_max=most,
                nodes=group.nodes,
                delay=parameters.delay,
            ),
            np.int64,
        ),
        base=np.zeros((watched, width if checked else 0), np.int32),
        expected=np.zeros(width if checked else 0, np.int32),
        hash=np.zeros(watched, np.int64),
        delivered=np.zeros((watched, group.nodes), np.int32),
        held=waiting.allocate(processes, capacity),
        log=history.allocate(
            processes=watched, nodes=group.nodes, length=parameters.log if checked else 0
        ),
        hasher=set_hash.allocate(seed=group.seed, slots=capacity.slots),
        peel=peeling.allocate(
            width=width if checked else 0,
            nodes=group.nodes,
            per_process=own_count,
            part_entries=parameters.component_entries,
            per_part=parameters.per_component,
        ),
        told=np.zeros(group.nodes, np.int64),
        setting=_settings(parameters),
        counted=np.zeros(rounds.COUNTED, np.int64),
        series=np.zeros((SERIES_LENGTH, SERIES_WORDS), np.int64),
    )


def _settings(parameters: Parameters) -> Int64s:
    """The numbers of ``setting``, in the order of their places."""
    found = [
        parameters.hashes,
        round(parameters.grace_ms * NANOSECONDS_PER_MS),
        True,  # test again after every delivery,
        True,  # and await the sender's message before
        parameters.component_entries,
        parameters.per_component,
        parameters.spread,
        parameters.components,
        parameters.components_max,
        DETECTORS.index(parameters.detector),
        round(parameters.round_ms * NANOSECONDS_PER_MS),
        round(parameters.timeout_ms * NANOSECONDS_PER_MS),
        round(parameters.keep_ms * NANOSECONDS_PER_MS),
        round(parameters.balance_ms * NANOSECONDS_PER_MS),
        round(parameters.smoothing_ms * NANOSECONDS_PER_MS) // policy.INTERVALS,
    ]
    return np.array(found, np.int64)


def _first_words(parameters: Parameters, group: Group) -> Int64s:
    word = np.zeros((len(group.hosted), WORDS), np.int64)
    first = parameters.components
    word[:, [SIZE, ACTIVE, WIDTH, OVER]] = first
    word[:, INTERVAL_END_NS] = round(parameters.smoothing_ms * NANOSECONDS_PER_MS) // 8
    word[:, [BLOCKER, DOUBT_ROUND, KIND]] = NOBODY
    word[:, DOUBT] = parameters.components_max
    word[:, RANK] = group.hosted
    word[:, OTHERS] = group.nodes - 1
    for s in range(parameters.spread):
        # Spread evenly at the start, and so that a pair of components has equally many too.
        word[:, INCREMENT + s] = group.hosted // first**s % first
    return word


def effects_words(capacity: Capacity, nodes: int) -> int:
    """What waits is delivered or asked about; a round is told to all; an answer; a send."""
    return 64 + 10 * capacity.held + 28 * nodes


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    policy.look(state, here, host)
    size = state.word[here, SIZE]
    policy.before_broadcast(state, here, host)
    _stamp(state, here, slot, host)
    _count_in(state, here, slot, host)
    if state.setting[DETECTOR] != 0:
        history.collect(state.log, here, state.node[here])
    send_all(host, DATA, slot)
    if state.word[here, SIZE] != size:
        _settle(state, here, host)
        rounds.arm(state, here, host)
    return DONE


@compiled.function(inline=False)
def _stamp(state: State, here: int, slot: int, host: Host) -> None:
    """What travels: the active components as they were before the message, and S_incr."""
    active = state.word[here, ACTIVE]
    end = active * state.setting[ENTRIES]
    for x in range(state.need.shape[1]):
        state.need[slot, x] = state.clock[here, x] if x < end else 0
    state.stamp[slot, CARRIES] = active
    for s in range(SPREAD_MAX):
        state.stamp[slot, INCREMENTS + s] = state.word[here, INCREMENT + s]
    for c in range(state.setting[MOST]):
        generation = state.part[here, c, GENERATION] if c < active else 0
        state.stamp[slot, GENERATIONS + c] = generation
    state.past[slot] = state.hash[here] if state.setting[DETECTOR] != 0 else 0
    row = min(now_ns(host) // SERIES_STEP_NS, SERIES_LENGTH - 1)
    state.series[row, SENT_SUM] += active
    state.series[row, SENT_COUNT] += 1


@compiled.function(inline=False)
def _count_in(state: State, here: int, slot: int, host: Host) -> None:
    """Enter a message into all that counts deliveries: always by increments, never by maxima."""
    word = state.word[here]
    source = source_of(host, slot)
    hashed = set_hash.hash_of(state.hasher, slot, host)
    shared = components.common(state, here, slot)
    per_component = state.setting[PER_COMPONENT]
    parts = 0
    for s in range(state.setting[SPREAD]):
        c = np.int64(state.stamp[slot, INCREMENTS + s])
        parts |= c << (8 * s)
        if c < shared:
            if c >= word[ACTIVE]:
                # A round may have deactivated it while the message waited.
                components.activate(state, here, c + 1, host)
            state.part[here, c, HASH] = set_hash.plus(state.part[here, c, HASH], hashed)
            state.part[here, c, HITS] += 1
            first = c * state.setting[ENTRIES]
            for i in range(per_component):
                state.clock[here, first + state.own[source, s * per_component + i]] += 1
    carried = set_hash.plus(state.part[here, shared, CARRIED], hashed)
    state.part[here, shared, CARRIED] = carried
    word[COUNT] += 1
    word[IDLE] = 0
    if state.setting[DETECTOR] != 0:
        sequence = sequence_of(host, slot)
        state.hash[here] = set_hash.plus(state.hash[here], hashed)
        state.delivered[here, source] = sequence
        history.append(state.log, here, set_hash.packed(source, sequence), hashed, parts)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if not waiting.has_room(state.held, count):
        return FULL
    policy.look(state, here, host)
    if tag_of(inbox, 0) >= rounds.ASK:
        rounds.on_packet(state, here, sender, inbox, count, host)
        _settle(state, here, host)
    else:
        for i in range(count):
            if tag_of(inbox, i) == DATA:
                _arrive(state, here, value_of(inbox, i), host)
            else:
                _talk(state, here, sender, inbox, i, host)
    if state.word[here, SIZE] > 1:
        rounds.arm(state, here, host)
    return DONE


@compiled.function()
def _arrive(state: State, here: int, slot: int, host: Host) -> None:
    """A message has come: deliver it, or let it wait."""
    if not _is_sound(state, slot):
        state.counted[rounds.MALFORMED] += 1
        drop(host, slot)
        return
    size = state.word[here, SIZE]
    components.adapt(state, here, slot, host)
    if state.setting[DETECTOR] != 0:
        suspicion.arrive(state, here, slot, host)
    else:
        entry = components.lacks(state, here, slot)
        if entry == NONE:
            _count_in(state, here, slot, host)
            deliver(host, slot)
            if state.held.ends[here, waiting.BEGIN] != NONE:
                _settle(state, here, host)
        else:
            row = waiting.add(state.held, here, slot, waiting.COUNTS)
            waiting.await_entry(state.held, row, entry, state.need[slot])
    if state.word[here, SIZE] < size:
        _settle(state, here, host)


@compiled.function()
def _is_sound(state: State, slot: int) -> bool:
    """Whether a correct process may have sent this: what it names exists."""
    carries = state.stamp[slot, CARRIES]
    sound = 1 <= carries <= state.setting[MOST]
    for s in range(state.setting[SPREAD]):
        sound = sound and 0 <= state.stamp[slot, INCREMENTS + s] < carries
    return sound


@compiled.function(inline=False)
def _talk(state: State, here: int, sender: int, inbox: Int64s, i: int, host: Host) -> None:
    """Questions about dependencies, and answers; without the detector nobody asks."""
    tag = tag_of(inbox, i)
    if state.setting[DETECTOR] == 0 or tag >= rounds.ASK:
        state.counted[rounds.MALFORMED] += 1
    elif tag != answers.REQUEST:
        suspicion.learn(state, here, sender, tag, value_of(inbox, i), host)
    elif i == 0:
        # A request has a packet to itself, so that one answer is the most to be sent.
        node = state.node[here]
        delivered = state.delivered[here]
        sequence = value_of(inbox, i)
        answers.answer(state.log, state.told, delivered, here, node, sender, sequence, host)


@compiled.function(inline=False)
def _settle(state: State, here: int, host: Host) -> None:
    """Deliver what waits and can be delivered now, until nothing more can."""
    if state.setting[DETECTOR] != 0:
        suspicion.settle(state, here, host)
        return
    held = state.held
    before = NONE
    row = held.ends[here, waiting.BEGIN]
    while row != NONE:
        slot = held.row[row, waiting.SLOT]
        if state.clock[here, held.row[row, waiting.ENTRY]] >= held.row[row, waiting.VALUE]:
            entry = components.lacks(state, here, slot)
            if entry == NONE:
                waiting.remove(held, here, row, before)
                _count_in(state, here, slot, host)
                deliver(host, slot)
                before = NONE
                row = held.ends[here, waiting.BEGIN]
                continue
            waiting.await_entry(held, row, entry, state.need[slot])
        before, row = row, held.row[row, waiting.LINK]


@compiled.register(suspicion.lacks, State)
def _lacks(state: State, here: int, slot: int) -> int:
    return components.lacks(state, here, slot)


@compiled.register(suspicion.count_in, State)
def _count_in_delivery(state: State, here: int, slot: int, host: Host) -> None:
    _count_in(state, here, slot, host)


@compiled.register(suspicion.explains, State)
def _explains(state: State, here: int, slot: int, host: Host) -> bool:
    return _finds_set(state, here, slot, host)


@compiled.function(inline=False)
def _finds_set(state: State, here: int, slot: int, host: Host) -> bool:
    """Whether a set of own deliveries that the sender lacked is found.

    Of a component that the message does not carry its sender has what all have, as it was when the
    component was deactivated; if it had more, it would have carried the component.
    """
    source = source_of(host, slot)
    carries = state.stamp[slot, CARRIES]
    if components.common(state, here, slot) < carries:
        return False
    if sequence_of(host, slot) != state.delivered[here, source] + 1:
        return False
    first = carries * state.setting[ENTRIES]
    end = max(carries, state.word[here, ACTIVE]) * state.setting[ENTRIES]
    for x in range(end):
        state.expected[x] = state.need[slot, x] if x < first else state.base[here, x]
    found = peeling.find(
        state.peel,
        state.log,
        state.own,
        here,
        state.clock[here][:end],
        state.expected[:end],
        state.node[here],
        source,
        set_hash.minus(state.hash[here], state.past[slot]),
        state.setting[suspicion.LIMIT],
    )
    if not found:
        return False
    own = state.delivered[here, state.node[here]]
    history.note_known(state.log, here, source, own, state.peel.mark[peeling.OLDEST_OWN])
    state.counted[suspicion.ACCEPTED] += 1
    return True


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    if key >= 0:
        suspicion.after_grace(state, here, key, host)
    else:
        rounds.on_timer(state, here, key, host)
        _settle(state, here, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    if state.setting[DETECTOR] != 0:
        # A process that has stopped asks about nothing; the log need not wait for it.
        state.log.acknowledged[here, crashed] = EVERYTHING
    rounds.on_crash(state, here, crashed, host)
    _settle(state, here, host)
    return DONE


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    carries = state.stamp[slot, CARRIES]
    size = 9 + state.setting[SPREAD] + carries * (1 + 4 * state.setting[ENTRIES])
    return size + 8 if state.setting[DETECTOR] != 0 else size


def extra(state: State) -> dict[str, float]:
    """The clock over the run, what the rounds did, and what the detector did if there is one."""
    entries = int(state.setting[ENTRIES])
    counted = state.counted
    found: dict[str, float] = {
        "entries_mean": _mean(state, ACTIVE_SUM, ACTIVE_COUNT),
        "entries_sent_mean": _mean(state, SENT_SUM, SENT_COUNT),
        "entries_at_end": entries * float(state.word[:, ACTIVE].mean()),
        "rounds": int(counted[rounds.STARTED]),
        "rounds_packets": int(counted[rounds.PACKETS]),
        "deactivated": int(counted[rounds.DEACTIVATED]),
        "removed": int(counted[rounds.REMOVED]),
        "malformed": int(counted[rounds.MALFORMED]),
    }
    if state.setting[DETECTOR] != 0:
        found["hashes"] = int(state.peel.mark[peeling.HASHES])
        found |= suspicion.counts(state)
    return found


def _mean(state: State, total: int, count: int) -> float:
    """A mean number of entries, up to the last interval of 10 s with a broadcast."""
    rows = state.series[: _last_row(state) + 1]
    return float(state.setting[ENTRIES]) * int(rows[:, total].sum()) / max(rows[:, count].sum(), 1)


def _last_row(state: State) -> int:
    sent = np.flatnonzero(state.series[:, SENT_COUNT])
    return int(sent[-1]) if len(sent) else 0


def series(state: State) -> dict[str, list[float]]:
    """Entries of a clock, a mean over processes, in every 10 s."""
    rows = state.series[: _last_row(state) + 1]
    means = rows[:, ACTIVE_SUM] / np.maximum(rows[:, ACTIVE_COUNT], 1)
    return {"entries": [float(one) for one in means * state.setting[ENTRIES]]}
