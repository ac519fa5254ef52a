"""Parameters and state of ``dcs``: what a process keeps, and what travels with a message.

A clock is a row of ``count`` components of E entries each. A process has the first ``SIZE`` of
them, and the first ``ACTIVE`` of those are active: they alone travel. ``GENERATION`` says how often
an index has been removed, so that a component that was added again is another one.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.contract import Capacity, Group, Int32s, Int64s, check_range
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS, NODES_MAX
from precedes.parts import clocks, sizing
from precedes.parts.hash_check import check, log, queue, search, set_hash
from precedes.parts.hash_check.log import Log
from precedes.parts.hash_check.queue import Queue
from precedes.parts.hash_check.search import Peeling
from precedes.parts.hash_check.set_hash import Hasher

COMPONENTS_MAX: Final = 128  # an index fits into a byte, and so does their number
SPREAD_MAX: Final = 4
# Generations go round: what a peer claims makes none of them too large to travel.
GENERATION_MASK: Final = (1 << 31) - 1

# Words of a message in ``stamp``.
CARRIES: Final = 0  # how many components it carries
INCREMENTS: Final = 1  # S_incr: from here on the components that its sender incremented
GENERATIONS: Final = INCREMENTS + SPREAD_MAX  # and of each carried component the generation

# Words of a component in ``part``.
HASH: Final = 0  # of the delivered messages that hit it, since its generation began
CARRIED: Final = 1  # at place c: of the delivered messages that carried exactly c components
GENERATION: Final = 2
HITS: Final = 3  # increments delivered since the last look at the balance
PART_WORDS: Final = 4

# Words of a process in ``word``: its components,
SIZE: Final = 0
ACTIVE: Final = 1
CHANGED_NS: Final = 2  # when the number of active components changed last
# the load and the components for it (``policy``),
RATE: Final = 3  # 1/1000 deliveries per second, not yet divided by its weight
WEIGHT: Final = 4  # what the estimate has seen of a full one
COUNT: Final = 5  # deliveries in the current interval
INTERVAL_END_NS: Final = 6
WIDTH: Final = 7  # components that the load asks for
OVER: Final = 8  # components that S_incr is drawn from
BALANCE_END_NS: Final = 9
INCREMENT: Final = 10  # S_incr: from here on, SPREAD_MAX places
# and rounds (``rounds``).
BLOCKED_UNTIL_NS: Final = 14
BLOCKER: Final = 15  # the round that blocks: initiator and number, packed
CEILING: Final = 16  # while blocked: components that S_incr may be drawn from
DOUBT: Final = 17  # components from here on may have been removed by others
DOUBT_ROUND: Final = 18  # the round whose decision would tell; SEVERAL if there are more
RANK: Final = 19  # processes with a smaller number that have not crashed
OTHERS: Final = 20  # processes that have not crashed
ROUND: Final = 21  # number of the last round started here
KIND: Final = 22  # of the round that is open here, or NO_ROUND
LOW: Final = 23  # its components,
HIGH: Final = 24  # up to this one
AGREED: Final = 25  # the lowest that all who answered agree to
AWAITED: Final = 26  # answers that have not come
ARMED: Final = 27  # whether the timer of the next turn is set
IDLE: Final = 28  # turns since the last delivery, those in which nothing was tried left out
NODE: Final = 29  # the process's own number
STALE: Final = 30  # components were removed: what waits must be examined again
FAILED: Final = 31  # consecutive rounds that failed, up to a bound
REACH: Final = 32  # the most active components that an answer to the last round reported
DOUBT_UNTIL_NS: Final = 33  # until then a decision may come
SEALS: Final = 34  # what the components of its open round looked like
COMPONENTS_A_ROUND: Final = 8  # with them a packet stays below 100 bytes
WORDS: Final = SEALS + COMPONENTS_A_ROUND

NO_ROUND: Final = -1
NOBODY: Final = -1
SEVERAL: Final = -2

# Bits of ``member``.
ANSWERED: Final = 1
CRASHED: Final = 2

# Places in ``settings``.
ENTRIES: Final = 0  # of a component
PER_COMPONENT: Final = 1
SPREAD: Final = 2
COMPONENTS: Final = 3  # at the start, and at least
MOST: Final = 4  # components
DETECTOR: Final = 5
ROUND_NS: Final = 6
TIMEOUT_NS: Final = 7
KEEP_NS: Final = 8
BALANCE_NS: Final = 9
INTERVAL_NS: Final = 10

# Places in ``counters``; a round counts at its kind's, DEACTIVATE or REMOVE.
STARTED: Final = 0  # rounds
PACKETS: Final = 2  # of rounds
VALUES: Final = 4  # in these packets
LEFT: Final = 6  # components, by the decisions of all initiators
MALFORMED: Final = 8  # packets and messages that no correct process sends
COUNTERS: Final = 9

# Kinds of rounds.
DEACTIVATE: Final = 0
REMOVE: Final = 1

# Words of an interval of 10 s in ``series``; the last interval is all that is later.
ACTIVE_SUM: Final = 0  # active components of processes, summed over intervals of the estimate
ACTIVE_COUNT: Final = 1
SENT_SUM: Final = 2  # components carried by messages
SENT_COUNT: Final = 3
SERIES_WORDS: Final = 4
SERIES_STEP_NS: Final = 10_000_000_000
SERIES_LENGTH: Final = 64

INTERVALS: Final = 8  # that a full estimate of the load is made of
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
            check_range(1, 1e9, **{name: getattr(self, name)})
        for name in ("keep_ms", "balance_ms", "grace_ms"):
            check_range(0, 1e9, **{name: getattr(self, name)})
        check.check_effort(hashes=self.hashes, log_length=self.log)


def _check_shape(given: Parameters) -> None:
    if not 1 <= given.components <= given.components_max <= COMPONENTS_MAX:
        raise UserError(
            f"components and components_max must be between 1 and {COMPONENTS_MAX}, the first not "
            f"above the second, not {given.components} and {given.components_max}"
        )
    check_range(1, SPREAD_MAX, spread=given.spread)
    if given.per_component < 1:
        raise UserError(f"per_component must be at least 1, not {given.per_component}")
    # The entries of all places of S_incr differ, so that they may be in one component.
    least = given.spread * given.per_component
    if not least <= given.component_entries <= NODES_MAX:
        raise UserError(
            f"component_entries must be between spread x per_component ({least}) and "
            f"{NODES_MAX}, not {given.component_entries}"
        )


class ClockSet(NamedTuple):
    """The clocks of the hosted processes, and what each knows of components, load and rounds."""

    clock: Int32s
    base: Int32s  # the clock as it was when each component was deactivated last; for the detector
    word: Int64s
    part: Int64s
    member: NDArray[np.int8]  # process, other -> what is known of it in a round
    settings: Int64s
    counters: Int64s
    series: Int64s
    limits: Int64s  # components, from 0 on -> the load they are enough for, in 1/1000 a second
    key: Int64s  # of the group's hash


class State(NamedTuple):
    """Rows of ``need``, ``stamp`` and ``past`` belong to messages, of most others to processes.

    ``expected``, ``hash``, ``delivered``, ``log`` and ``peel`` serve the detector and are all but
    empty without it.
    """

    dcs: ClockSet
    need: Int32s  # message -> the clock of its sender before it, of the components it carries
    stamp: Int32s
    past: Int64s  # message -> hash of all that its sender had delivered
    own: Int32s  # f: process -> its entries within a component, for each place of S_incr in turn
    expected: Int32s  # one row, for a search: what the sender of a message had counted
    hash: Int64s
    delivered: Int32s
    held: Queue
    log: Log
    hasher: Hasher
    peel: Peeling
    scratch: Int64s
    setting: Int64s  # of ``hash_check.check``, as is ``counted``
    counted: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group; the group's seed is the key of the hash."""
    own_count = parameters.spread * parameters.per_component
    checked = parameters.detector == "hash"
    if checked and group.window > 0:
        parameters = _for_live_group(parameters, group.nodes, own_count)
    most = parameters.components_max
    width = clocks.padded(most * parameters.component_entries)
    processes = len(group.hosted)
    watched = processes if checked else 0
    hasher = set_hash.allocate(seed=group.seed, slots=capacity.slots)
    grace_ns = round(parameters.grace_ms * NANOSECONDS_PER_MS)
    draw = clocks.entries_apart if checked else clocks.entries_of_all
    entries = parameters.component_entries
    own = draw(entries=entries, per_process=own_count, nodes=group.nodes, seed=group.seed)
    return State(
        dcs=ClockSet(
            clock=np.zeros((processes, width), np.int32),
            base=np.zeros((watched, width if checked else 0), np.int32),
            word=_first_words(parameters, group),
            # One more: a place for messages that carry all components.
            part=np.zeros((processes, most + 1, PART_WORDS), np.int64),
            member=np.zeros((processes, group.nodes), np.int8),
            settings=_settings(parameters),
            counters=np.zeros(COUNTERS, np.int64),
            series=np.zeros(SERIES_WORDS * SERIES_LENGTH, np.int64),
            limits=np.array(loads(parameters, group.nodes), np.int64),
            key=hasher.key.copy(),
        ),
        need=np.zeros((capacity.slots, width), np.int32),
        stamp=np.zeros((capacity.slots, GENERATIONS + most), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=own,
        expected=np.zeros(width if checked else 0, np.int32),
        hash=np.zeros(watched, np.int64),
        delivered=np.zeros((watched, group.nodes), np.int32),
        held=queue.allocate(processes, capacity),
        log=log.allocate(
            processes=watched,
            nodes=group.nodes,
            length=parameters.log if checked else 0,
            key=hasher.key.copy(),
            tells_apart=checked and clocks.are_apart(own, entries=entries),
        ),
        hasher=hasher,
        peel=search.allocate(
            width=width if checked else 0,
            nodes=group.nodes,
            per_process=own_count,
            part_entries=entries,
            per_part=parameters.per_component,
        ),
        scratch=np.zeros(group.nodes, np.int64),
        # Test again after every delivery, and await the sender's message before.
        setting=np.array([parameters.hashes, grace_ns, True, True], np.int64),
        counted=np.zeros(check.COUNTED, np.int64),
    )


def _for_live_group(parameters: Parameters, nodes: int, own_count: int) -> Parameters:
    """As in ``hashed``: no search finds all that can be in flight in a live group."""
    least = clocks.entries_to_tell_apart(nodes, own_count)
    return replace(parameters, component_entries=max(parameters.component_entries, least))


def _settings(parameters: Parameters) -> Int64s:
    found = [
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
        round(parameters.smoothing_ms * NANOSECONDS_PER_MS) // INTERVALS,
    ]
    return np.array(found, np.int64)


def loads(parameters: Parameters, nodes: int) -> tuple[int, ...]:
    """Place w: the load, in 1/1000 broadcasts per second, that w components are enough for."""
    return _loads(
        error=parameters.error,
        entries=parameters.component_entries,
        per_component=parameters.per_component,
        spread=parameters.spread,
        components_max=parameters.components_max,
        nodes=nodes,
        delay=parameters.delay,
    )


@functools.lru_cache(maxsize=64)
def _loads(
    *,
    error: float,
    entries: int,
    per_component: int,
    spread: int,
    components_max: int,
    nodes: int,
    delay: str,
) -> tuple[int, ...]:
    found = [0]
    for components in range(1, components_max + 1):
        if spread == 1:
            alike = components * math.comb(entries, per_component)
        else:
            alike = math.comb(components * entries, per_component * spread)
        rate = sizing.largest_rate(
            error=error,
            entries=components * entries,
            per_process=per_component * spread,
            nodes=nodes,
            delay=delay,
            alike=alike,
        )
        found.append(int(1000 * rate))
    return tuple(found)


def _first_words(parameters: Parameters, group: Group) -> Int64s:
    word = np.zeros((len(group.hosted), WORDS), np.int64)
    first = parameters.components
    word[:, [SIZE, ACTIVE, WIDTH, OVER]] = first
    interval_ns = round(parameters.smoothing_ms * NANOSECONDS_PER_MS) // INTERVALS
    word[:, INTERVAL_END_NS] = interval_ns
    word[:, [BLOCKER, DOUBT_ROUND, KIND]] = NOBODY
    word[:, DOUBT] = parameters.components_max
    word[:, RANK] = word[:, NODE] = group.hosted
    word[:, OTHERS] = group.nodes - 1
    for s in range(parameters.spread):
        # Spread evenly at the start, and so that a pair of components has equally many too.
        word[:, INCREMENT + s] = group.hosted // first**s % first
    return word


def extra(state: State) -> dict[str, float]:
    """The clock over the run, what the rounds did, and what the detector did if there is one."""
    counters, entries = state.dcs.counters, int(state.dcs.settings[ENTRIES])
    found: dict[str, float] = {
        "entries_mean": _mean(state, ACTIVE_SUM, ACTIVE_COUNT),
        "entries_sent_mean": _mean(state, SENT_SUM, SENT_COUNT),
        "entries_at_end": entries * float(state.dcs.word[:, ACTIVE].mean()),
        "rounds": int(counters[STARTED : STARTED + 2].sum()),
        "rounds_packets": int(counters[PACKETS : PACKETS + 2].sum()),
        "deactivated": int(counters[LEFT + DEACTIVATE]),
        "removed": int(counters[LEFT + REMOVE]),
        "malformed": int(counters[MALFORMED]),
    }
    for name, kind in (("deactivate", DEACTIVATE), ("remove", REMOVE)):
        found[f"{name}_rounds"] = int(counters[STARTED + kind])
        found[f"{name}_packets"] = int(counters[PACKETS + kind])
        found[f"{name}_values"] = int(counters[VALUES + kind])
    if state.dcs.settings[DETECTOR] != 0:
        found["hashes"] = int(state.peel.mark[search.HASHES])
        found |= check.counts(state)
    return found


def _rows(state: State) -> Int64s:
    """The words of intervals of 10 s, up to the last one with a broadcast."""
    rows = state.dcs.series.reshape(-1, SERIES_WORDS)
    sent = np.flatnonzero(rows[:, SENT_COUNT])
    return rows[: int(sent[-1]) + 1 if len(sent) else 1]


def _mean(state: State, total: int, count: int) -> float:
    """A mean number of entries."""
    rows = _rows(state)
    entries = int(state.dcs.settings[ENTRIES])
    return entries * int(rows[:, total].sum()) / max(int(rows[:, count].sum()), 1)


def series(state: State) -> dict[str, list[float]]:
    """In every 10 s: entries of a clock, a mean over processes, and broadcasts."""
    rows = _rows(state)
    means = rows[:, ACTIVE_SUM] / np.maximum(rows[:, ACTIVE_COUNT], 1)
    return {
        "entries": [float(one) for one in means * state.dcs.settings[ENTRIES]],
        "broadcasts": [float(one) for one in rows[:, SENT_COUNT]],
    }


@compiled.function()
def series_row(now_ns: int) -> int:
    """Where the words of an interval of 10 s begin in ``series``."""
    return SERIES_WORDS * min(now_ns // SERIES_STEP_NS, SERIES_LENGTH - 1)
