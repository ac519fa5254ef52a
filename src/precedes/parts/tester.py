"""Tests that find crashes: the VCube failure detector, as part of a protocol's state.

Source: Rodrigues et al. 2018, section 3.1, after Duarte, Bona and Ruoso (2014).

Algorithm. Processes test in rounds. Process i tests j of its cluster c(i, s) iff i is the first
process of c(j, s) that i does not know as faulty, so every process is tested once a round in each
of its clusters. A round sends all tests, s = 1, 2, .., then awaits the replies in this order,
each for ``timeout_ms`` from when its turn has come; a process that does not reply is faulty. Then
it rests for ``interval_ms``. State counters start at 0 and an odd one means faulty; a reply carries
the counters of the process tested, and the tester takes those that are larger than its own. After
``rounds`` rounds it ends, so that a simulation quiesces; with 0 it continues. A test is answered
once for each round.

Assumes a synchronous network: a test and its reply take less than ``timeout_ms``. Crashed
processes do not recover.

Guarantee: every crash is known to all correct processes within log2(n)^2 rounds, and no process is
suspected wrongly. On a slower network a live process may be suspected. Suspicion is never revoked:
the others continue without it, and it is *fenced*: it stops when a reply reports its state as
faulty.

The owner of a ``Detector`` calls ``begin`` at its start, ``on_packet`` for packets that
``owns_packet``, ``on_expiry`` for timers that ``owns_timer``. A crash comes as a timer,
``crash_of``: an event of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import (
    NUMBER,
    Group,
    Host,
    Int32s,
    Int64s,
    check_range,
    tag_of,
    value_of,
)
from precedes.errors import UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.parts import pool, topology

# Tags of the detector's items, counted from its first tag.
TEST: Final = 0  # the round of the tester
REPLY: Final = 1  # the same round, sent back
COUNTER: Final = 2  # a state counter above 0, and whose it is

ITEMS: Final = (NUMBER, NUMBER, NUMBER)  # of an owner, from the detector's first tag on

PROCESS_BITS: Final = 16
PROCESS_MASK: Final = (1 << PROCESS_BITS) - 1
COUNT_MAX: Final = (1 << 30) - 1  # of a state counter

# Timers: the lowest key of the detector's range, then what the timer is for.
KEYS: Final = 1 << 48
CRASHED: Final = KEYS << 1  # this process is newly known to have crashed


class Process(NamedTuple):
    """A hosted process."""

    number: Int64s  # in the group
    round: Int64s
    tests: Int64s  # of this round
    awaited: Int64s  # the place of the reply awaited
    generation: Int64s  # of the timer in force
    fenced: Int64s
    known_ns: Int64s  # when it last learnt of a crash,
    known_round: Int64s  # and in which of its rounds


class Counter(NamedTuple):
    """Counts of one row."""

    tests: Int64s  # sent
    timeouts: Int64s  # crashes found by a test of its own
    learnt: Int64s  # crashes reported in a reply


class Detector(NamedTuple):
    """The state of a detector for all hosted processes."""

    process: Process
    state: Int32s  # here, process -> state counter
    test: Int32s  # here, place -> the process tested in this round
    replied: Int32s  # here, process -> the round of its last reply
    answered: Int64s  # here, process -> the round of its last test that was answered
    counter: Counter
    nodes: int
    interval_ns: int
    timeout_ns: int
    first_tag: int
    own_channel: int
    rounds_max: int


def check(*, interval_ms: float, timeout_ms: float, rounds: int) -> None:
    """Raise UserError unless a detector can work with these."""
    check_range(0.001, DELAY_MS_MAX, interval_ms=interval_ms, timeout_ms=timeout_ms)
    if not 0 <= rounds < 1 << 30:
        raise UserError(f"rounds must be between 0 and 2^30, not {rounds}")


def make_detector(
    *,
    group: Group,
    interval_ms: float,
    timeout_ms: float,
    rounds: int,
    first_tag: int,
    own_channel: bool,
    on: bool = True,
) -> Detector:
    """A detector for the hosted processes; one that is not ``on`` takes almost no memory."""
    nodes, hosted = group.nodes, len(group.hosted)
    process = pool.columns(Process, hosted, dtype=np.int64)
    process.number[:hosted] = group.hosted
    width = nodes if on else 0
    return Detector(
        process=process,
        state=np.zeros((hosted, width), np.int32),
        test=np.zeros((hosted, width), np.int32),
        replied=np.zeros((hosted, width), np.int32),
        answered=np.zeros((hosted, width), np.int64),
        counter=pool.columns(Counter, 1, dtype=np.int64),
        nodes=nodes,
        interval_ns=round(interval_ms * NANOSECONDS_PER_MS),
        timeout_ns=round(timeout_ms * NANOSECONDS_PER_MS),
        first_tag=first_tag,
        own_channel=int(own_channel),
        rounds_max=rounds,
    )


def counters(detector: Detector) -> dict[str, float]:
    """The detector's counters, for the result of a run."""
    return {
        "tests": int(detector.counter.tests[0]),
        "suspicions_by_test": int(detector.counter.timeouts[0]),
        "suspicions_by_reply": int(detector.counter.learnt[0]),
        "fenced": int(detector.process.fenced.sum()),
        "last_suspicion_ms": int(detector.process.known_ns.max()) / NANOSECONDS_PER_MS,
    }


@compiled.function()
def is_on(detector: Detector) -> bool:
    """Return whether the detector is enabled."""
    return detector.state.size > 0


@compiled.function()
def is_fenced(detector: Detector, here: int) -> bool:
    """Return whether this process has learnt that the others consider it faulty."""
    return detector.process.fenced[here] != 0


@compiled.function()
def is_faulty(detector: Detector, here: int, process: int) -> bool:
    """Return whether ``here`` considers the process faulty; one outside the group is absent."""
    return process >= detector.nodes or detector.state[here, process] & 1 == 1


@compiled.function()
def owns_packet(detector: Detector, inbox: Int64s) -> bool:
    """Return whether a packet is the detector's."""
    return tag_of(inbox, 0) >= detector.first_tag


@compiled.function(inline=False)
def admits(detector: Detector, inbox: Int64s, i: int) -> bool:
    """Return whether a correct process may send this item of a detector packet to a live host.

    First a test or a reply, then state counters of processes.
    """
    tag, value = tag_of(inbox, i), value_of(inbox, i)
    is_counter = tag == detector.first_tag + COUNTER
    if is_counter and value & PROCESS_MASK >= detector.nodes:
        return False
    return bool(is_counter == (i > 0) and value >= 0 and value >> PROCESS_BITS <= COUNT_MAX)


@compiled.function()
def owns_timer(key: int) -> bool:
    """Return whether a timer is the detector's."""
    return key >= KEYS


@compiled.function()
def crash_of(key: int) -> int:
    """The process that a timer of the detector reports as crashed, or -1."""
    return max(key - CRASHED, -1)


@compiled.function(inline=False)
def begin(detector: Detector, here: int, host: Host) -> None:
    """Begin a round: choose whom to test, send the tests, await the first reply."""
    own = detector.process
    own.round[here] += 1
    own.tests[here] = own.awaited[here] = 0
    me = own.number[here]
    for s in range(1, topology.dimension(detector.nodes) + 1):
        for place in range(1 << (s - 1)):
            tested = topology.member(me, s, place)
            if not is_faulty(detector, here, tested) and _is_tester(detector, here, place):
                detector.test[here, own.tests[here]] = tested
                own.tests[here] += 1
                _send(detector, here, tested, TEST, own.round[here], host)
                detector.counter.tests[0] += 1
    _await(detector, here, host)


@compiled.function()
def _is_tester(detector: Detector, here: int, place: int) -> bool:
    """Return whether all processes before this one in the cluster of the tested one are faulty.

    Process i is in c(j, s) at the place of j in c(i, s), because the order is by exclusive
    or; before it are i ^ place ^ 0, i ^ place ^ 1, ..
    """
    me = detector.process.number[here]
    before = 0
    while before < place and is_faulty(detector, here, me ^ place ^ before):
        before += 1
    return before == place


@compiled.function(inline=False)
def _send(detector: Detector, here: int, target: int, tag: int, value: int, host: Host) -> None:
    if detector.own_channel != 0:
        host.open_packet_aside(target)
    else:
        host.open_packet(target)
    host.put(detector.first_tag + tag, value)


@compiled.function(inline=False)
def _await(detector: Detector, here: int, host: Host) -> None:
    """Await the next reply that has not arrived, or rest; start a new timer."""
    own = detector.process
    while own.awaited[here] < own.tests[here]:
        tested = detector.test[here, own.awaited[here]]
        replied = detector.replied[here, tested] == own.round[here]
        if not replied and not is_faulty(detector, here, tested):
            break
        own.awaited[here] += 1
    own.generation[here] += 1
    awaits = own.awaited[here] < own.tests[here]
    if not awaits and own.round[here] == detector.rounds_max:
        return
    delay_ns = detector.timeout_ns if awaits else detector.interval_ns
    host.set_timer(KEYS + own.generation[here], delay_ns)


@compiled.function(inline=False)
def on_expiry(detector: Detector, here: int, key: int, host: Host) -> None:
    """A timer of the detector that is not a crash: a reply is missing, or the rest is over."""
    own = detector.process
    if own.fenced[here] != 0 or key != KEYS + own.generation[here]:
        return
    if own.awaited[here] == own.tests[here]:
        begin(detector, here, host)
        return
    tested = detector.test[here, own.awaited[here]]
    # The owner may have confirmed it as live, and a reply of another may have reported it.
    is_vouched = detector.replied[here, tested] == own.round[here]
    if not is_vouched and not is_faulty(detector, here, tested):
        detector.counter.timeouts[0] += 1
        _suspect(detector, here, tested, detector.state[here, tested] + 1, host)
    _await(detector, here, host)


@compiled.function()
def _suspect(detector: Detector, here: int, process: int, state: int, host: Host) -> None:
    """Store an odd state counter and have the crash handled as an event of its own."""
    detector.state[here, process] = state
    detector.process.known_ns[here] = host.now_ns()
    detector.process.known_round[here] = detector.process.round[here]
    host.set_timer(CRASHED + int(process), 0)


@compiled.function(inline=False)
def on_packet(
    detector: Detector, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> None:
    """A packet of the detector: answer a test, or learn from a reply."""
    own = detector.process
    if own.fenced[here] != 0:
        return
    if tag_of(inbox, 0) == detector.first_tag + TEST:
        if value_of(inbox, 0) <= detector.answered[here, sender]:
            return
        detector.answered[here, sender] = value_of(inbox, 0)
        # Also to a process that is suspected: it learns so from the answer.
        _send(detector, here, sender, REPLY, value_of(inbox, 0), host)
        for process in range(detector.nodes):
            state = detector.state[here, process]
            if state > 0:
                value = int(state) << PROCESS_BITS | process
                host.put(detector.first_tag + COUNTER, value)
        return
    if is_faulty(detector, here, sender):
        return
    for i in range(1, count):
        process = value_of(inbox, i) & PROCESS_MASK
        _learn(detector, here, process, value_of(inbox, i) >> PROCESS_BITS, host)
    if value_of(inbox, 0) == own.round[here]:
        detector.replied[here, sender] = own.round[here]
        if own.awaited[here] < own.tests[here] and detector.test[here, own.awaited[here]] == sender:
            _await(detector, here, host)


@compiled.function()
def _learn(detector: Detector, here: int, process: int, state: int, host: Host) -> None:
    """Take a state counter that is larger than the own one."""
    if state <= detector.state[here, process]:
        return
    if process == detector.process.number[here]:
        detector.state[here, process] = state
        detector.process.fenced[here] = 1
    elif state & 1 == 1 and detector.state[here, process] & 1 == 0:
        detector.counter.learnt[0] += 1
        _suspect(detector, here, process, state, host)
    else:
        detector.state[here, process] = state
