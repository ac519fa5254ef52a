"""Parameters and state of ``dcs``: variables of a process, and fields of a message.

A clock is a row of ``most`` components of ``entries`` each. A process has the first ``size`` of
them, and the first ``active`` of those are active: they alone travel. ``generation`` is the number
of times an index has been removed, so that a component that was added again is another one.
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
from precedes.parts import clocks, pool, sizing
from precedes.parts.hash_check import log, queue, requests, search, set_hash
from precedes.parts.hash_check.log import Log
from precedes.parts.hash_check.queue import Queue
from precedes.parts.hash_check.search import Peeling
from precedes.parts.hash_check.set_hash import Hasher

COMPONENTS_MAX: Final = 128  # an index fits into a byte, and so does their number
SPREAD_MAX: Final = 4
COMPONENTS_A_ROUND: Final = 8  # with them a packet stays below 100 bytes
# Generations wrap around: a claim of a peer makes none of them too large to travel.
GENERATION_MASK: Final = (1 << 31) - 1

# Words of a message in ``stamp``.
CARRIES: Final = 0  # number of components that it carries
INCREMENTS: Final = 1  # S_incr: from here on the components that its sender incremented
GENERATIONS: Final = INCREMENTS + SPREAD_MAX  # and of each carried component the generation

NO_ROUND: Final = -1
NOBODY: Final = -1
SEVERAL: Final = -2

# Bits of ``member``.
ANSWERED: Final = 1
CRASHED: Final = 2

# Kinds of rounds.
DEACTIVATE: Final = 0
REMOVE: Final = 1
KINDS: Final = 2

SERIES_STEP_NS: Final = 10_000_000_000
SERIES_LENGTH: Final = 64

INTERVALS: Final = 8  # of a full estimate of the load
DETECTORS: Final = ("none", "hash")


@dataclass(frozen=True)
class Parameters:
    """The target error rate, the shape of the clock, and when it shrinks."""

    error: float = field(
        default=1e-5, metadata={"help": "share of deliveries that may be out of causal order"}
    )
    delay: str = field(
        default=sizing.DELAY, metadata={"help": f"expected delays: {sizing.DELAY_HELP}"}
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
    timeout_ms: float = field(default=1000.0, metadata={"help": "maximum time of a round"})
    keep_ms: float = field(
        default=30_000.0, metadata={"help": "time that components stay inactive before removal"}
    )
    balance_ms: float = field(
        default=20_000.0, metadata={"help": "time between checks of the balance (0: none)"}
    )
    balance_phase_ms: float = field(
        default=0.0, metadata={"help": "offset of the checks of the balance"}
    )
    redraw: bool = field(
        default=False,
        metadata={"help": "draw S_incr again when a message activates components (checkExpand)"},
    )
    detector: str = field(
        default="none", metadata={"help": "none, or hash: detect errors before delivery"}
    )
    hashes: int = field(default=100, metadata={"help": "maximum hashes compared in one test"})
    grace_ms: float = field(default=100.0, metadata={"help": "wait before a request to the sender"})
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
        for name in ("keep_ms", "balance_ms", "balance_phase_ms", "grace_ms"):
            check_range(0, 1e9, **{name: getattr(self, name)})
        search.check_effort(hashes=self.hashes, log_length=self.log)


def _check_shape(parameters: Parameters) -> None:
    if not 1 <= parameters.components <= parameters.components_max <= COMPONENTS_MAX:
        raise UserError(
            f"components and components_max must be between 1 and {COMPONENTS_MAX}, the first not "
            f"above the second, not {parameters.components} and {parameters.components_max}"
        )
    check_range(1, SPREAD_MAX, spread=parameters.spread)
    if parameters.per_component < 1:
        raise UserError(f"per_component must be at least 1, not {parameters.per_component}")
    # The entries of all places of S_incr differ, so that they may be in one component.
    least = parameters.spread * parameters.per_component
    if not least <= parameters.component_entries <= NODES_MAX:
        raise UserError(
            f"component_entries must be between spread x per_component ({least}) and "
            f"{NODES_MAX}, not {parameters.component_entries}"
        )


class Components(NamedTuple):
    """The components of a process."""

    size: Int64s
    active: Int64s
    changed_ns: Int64s  # when the number of active components changed last
    stale: Int64s  # components were removed: waiting messages must be examined again


class Part(NamedTuple):
    """One component of a process."""

    hash: Int64s  # of the delivered messages that hit it, since its generation began
    carried: Int64s  # at place c: of the delivered messages that carried exactly c components
    generation: Int64s
    hits: Int64s  # increments delivered since the last look at the balance


class Load(NamedTuple):
    """The load that a process sees, and the components for it (``policy``)."""

    rate: Int64s  # 1/1000 deliveries per second, not yet divided by its weight
    weight: Int64s  # share of a full estimate that has been measured
    deliveries: Int64s  # in the current interval
    interval_end_ns: Int64s
    width: Int64s  # components that the load requires
    over: Int64s  # components that S_incr is drawn from
    balance_end_ns: Int64s


class Round(NamedTuple):
    """The rounds of a process and of others, as far as it takes part (``rounds``)."""

    blocked_until_ns: Int64s
    blocker: Int64s  # the round that blocks: initiator and number, packed
    ceiling: Int64s  # while blocked: components that S_incr may be drawn from
    doubt: Int64s  # components from here on may have been removed by others
    doubt_round: Int64s  # the round whose decision would end it; SEVERAL if there are more
    doubt_until_ns: Int64s  # until then a decision may come
    rank: Int64s  # processes with a smaller number that have not crashed
    others: Int64s  # processes that have not crashed
    armed: Int64s  # whether the timer of the next turn is set
    idle: Int64s  # turns since the last delivery, those in which nothing was tried left out
    failed: Int64s  # consecutive rounds that failed, up to a bound
    number: Int64s  # of the last round started here
    kind: Int64s  # of the round that is open here, or NO_ROUND
    low: Int64s  # its components,
    high: Int64s  # up to this one
    agreed: Int64s  # the lowest that all answers agree to
    awaited: Int64s  # answers that have not come
    reach: Int64s  # the most active components that an answer to the last round reported


class Counted(NamedTuple):
    """Counts of all rounds of a kind, DEACTIVATE or REMOVE."""

    started: Int64s
    packets: Int64s
    values: Int64s  # in these packets
    left: Int64s  # components, by the decisions of all initiators


class Series(NamedTuple):
    """Sums over an interval of 10 s; the last interval is all that is later."""

    active_sum: Int64s  # active components of processes, summed over intervals of the estimate
    active_count: Int64s
    sent_sum: Int64s  # components carried by messages
    sent_count: Int64s


class ClockSet(NamedTuple):
    """The clocks of the hosted processes, and the state of components, load and rounds."""

    clock: Int32s
    base: Int32s  # the clock as it was when each component was deactivated last; for the detector
    components: Components
    part: Part
    load: Load
    S_incr: Int64s  # process, place -> component that is incremented
    round: Round
    seals: Int64s  # process, component of its open round -> its seal at the start
    member: NDArray[np.int8]  # process, other -> its state in a round
    node: Int64s  # row -> process
    counted: Counted
    malformed: Int64s  # one number: packets and messages that no correct process sends
    series: Series
    limits: Int64s  # components, from 0 on -> the load they are enough for, in 1/1000 a second
    key: Int64s  # of the group's hash
    entries: int  # of a component
    per_component: int
    spread: int
    least: int  # components, and at the start
    most: int  # components
    round_ns: int
    timeout_ns: int
    keep_ns: int
    balance_ns: int
    balance_phase_ns: int
    redraw: int
    interval_ns: int


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
    expected: Int32s  # one row, for a search: the counts that the sender of a message had
    hash: Int64s
    delivered: Int32s
    held: Queue
    log: Log
    hasher: Hasher
    peel: Peeling
    scratch: Int64s  # source -> 0, except while something is counted for a request
    counts: requests.Counts
    has_detector: int
    hashes: int
    grace_ns: int


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group; the group's seed is the key of the hash."""
    own_count = parameters.spread * parameters.per_component
    checked = parameters.detector == "hash"
    if checked and group.window > 0:
        parameters = _for_live_group(parameters, group.nodes, own_count)
    most = parameters.components_max
    width = clocks.padded(most * parameters.component_entries)
    watched = len(group.hosted) if checked else 0
    hasher = set_hash.allocate(seed=group.seed, slots=capacity.slots)
    draw = clocks.entries_apart if checked else clocks.entries_of_all
    entries = parameters.component_entries
    own = draw(entries=entries, per_process=own_count, nodes=group.nodes, seed=group.seed)
    return State(
        dcs=_allocate_clock_set(parameters, group, width, hasher.key.copy()),
        need=np.zeros((capacity.slots, width), np.int32),
        stamp=np.zeros((capacity.slots, GENERATIONS + most), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=own,
        expected=np.zeros(width if checked else 0, np.int32),
        hash=np.zeros(watched, np.int64),
        delivered=np.zeros((watched, group.nodes), np.int32),
        held=queue.allocate(len(group.hosted), capacity),
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
        counts=requests.allocate_counts(),
        has_detector=int(checked),
        hashes=parameters.hashes,
        grace_ns=_ns(parameters.grace_ms),
    )


def _for_live_group(parameters: Parameters, nodes: int, own_count: int) -> Parameters:
    """As in ``hashed``: no search finds all that can be in flight in a live group."""
    least = clocks.entries_to_tell_apart(nodes, own_count)
    return replace(parameters, component_entries=max(parameters.component_entries, least))


def _ns(ms: float) -> int:
    return round(ms * NANOSECONDS_PER_MS)


def _allocate_clock_set(parameters: Parameters, group: Group, width: int, key: Int64s) -> ClockSet:
    processes, most = len(group.hosted), parameters.components_max
    checked = parameters.detector == "hash"
    S_incr = np.zeros((processes, SPREAD_MAX), np.int64)
    for s in range(parameters.spread):
        # Spread evenly at the start, with about the same number for each pair of components.
        S_incr[:, s] = group.hosted // parameters.components**s % parameters.components
    return ClockSet(
        clock=np.zeros((processes, width), np.int32),
        base=np.zeros((processes, width) if checked else (0, 0), np.int32),
        components=_first_components(parameters, processes),
        # One more: a place for messages that carry all components.
        part=pool.columns(Part, processes, most + 1, dtype=np.int64),
        load=_first_load(parameters, processes),
        S_incr=S_incr,
        round=_first_round(parameters, group),
        seals=np.zeros((processes, COMPONENTS_A_ROUND), np.int64),
        member=np.zeros((processes, group.nodes), np.int8),
        node=np.array(group.hosted, np.int64),
        counted=pool.columns(Counted, KINDS, dtype=np.int64),
        malformed=np.zeros(1, np.int64),
        series=pool.columns(Series, SERIES_LENGTH, dtype=np.int64),
        limits=np.array(loads(parameters, group.nodes), np.int64),
        key=key,
        entries=parameters.component_entries,
        per_component=parameters.per_component,
        spread=parameters.spread,
        least=parameters.components,
        most=most,
        round_ns=_ns(parameters.round_ms),
        timeout_ns=_ns(parameters.timeout_ms),
        keep_ns=_ns(parameters.keep_ms),
        balance_ns=_ns(parameters.balance_ms),
        balance_phase_ns=_ns(parameters.balance_phase_ms),
        redraw=int(parameters.redraw),
        interval_ns=_ns(parameters.smoothing_ms) // INTERVALS,
    )


def _first_components(parameters: Parameters, processes: int) -> Components:
    components = pool.columns(Components, processes, dtype=np.int64)
    components.size[:] = components.active[:] = parameters.components
    return components


def _first_load(parameters: Parameters, processes: int) -> Load:
    load = pool.columns(Load, processes, dtype=np.int64)
    load.width[:] = load.over[:] = parameters.components
    load.interval_end_ns[:] = _ns(parameters.smoothing_ms) // INTERVALS
    return load


def _first_round(parameters: Parameters, group: Group) -> Round:
    processes = len(group.hosted)
    first = pool.columns(Round, processes, dtype=np.int64)
    first.blocker[:] = first.doubt_round[:] = NOBODY
    first.kind[:] = NO_ROUND
    first.doubt[:] = parameters.components_max
    first.rank[:processes] = group.hosted
    first.others[:] = group.nodes - 1
    return first


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
    rates = [0]
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
        rates.append(int(1000 * rate))
    return tuple(rates)


def extra(state: State) -> dict[str, float]:
    """The clock over the run, the counts of rounds, and those of the detector if there is one."""
    dcs, counted = state.dcs, state.dcs.counted
    processes = len(dcs.node)
    sums = _intervals(state)
    figures: dict[str, float] = {
        "entries_mean": _mean(state, sums.active_sum, sums.active_count),
        "entries_sent_mean": _mean(state, sums.sent_sum, sums.sent_count),
        "entries_at_end": dcs.entries * float(dcs.components.active[:processes].mean()),
        "rounds": int(counted.started.sum()),
        "rounds_packets": int(counted.packets.sum()),
        "deactivated": int(counted.left[DEACTIVATE]),
        "removed": int(counted.left[REMOVE]),
        "malformed": int(dcs.malformed[0]),
    }
    for name, kind in (("deactivate", DEACTIVATE), ("remove", REMOVE)):
        figures[f"{name}_rounds"] = int(counted.started[kind])
        figures[f"{name}_packets"] = int(counted.packets[kind])
        figures[f"{name}_values"] = int(counted.values[kind])
    if state.has_detector != 0:
        figures["hashes"] = int(state.peel.mark.hashes[0])
        figures |= requests.extra(state.counts, state.log)
    return figures


def _intervals(state: State) -> Series:
    """The intervals of 10 s, up to the last one with a broadcast."""
    sent = np.flatnonzero(state.dcs.series.sent_count)
    end = int(sent[-1]) + 1 if len(sent) else 1
    return Series(*(column[:end] for column in state.dcs.series))


def _mean(state: State, total: Int64s, count: Int64s) -> float:
    """A mean number of entries."""
    return state.dcs.entries * int(total.sum()) / max(int(count.sum()), 1)


def series(state: State) -> dict[str, list[float]]:
    """In every 10 s: entries of a clock, a mean over processes, and broadcasts."""
    sums = _intervals(state)
    means = sums.active_sum / np.maximum(sums.active_count, 1)
    return {
        "entries": [float(one) for one in means * state.dcs.entries],
        "broadcasts": [float(one) for one in sums.sent_count],
    }


@compiled.function()
def interval_of(now_ns: int) -> int:
    """The row of ``series`` for a time."""
    return min(now_ns // SERIES_STEP_NS, SERIES_LENGTH - 1)
