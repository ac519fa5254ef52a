"""Parameters of ``dcs``, and a state that begins with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from precedes import clocks, sizing
from precedes.model import NANOSECONDS_PER_MS, NODES_MAX, UserError
from precedes.parts.hash_check import check, log, queue, search, set_hash
from precedes.protocols import dcs_policy as policy
from precedes.protocols.contract import Capacity, Group, Int64s
from precedes.protocols.dcs_state import (
    ACTIVE,
    BLOCKER,
    COMPONENTS_MAX,
    DOUBT,
    DOUBT_ROUND,
    GENERATIONS,
    INCREMENT,
    INTERVAL_END_NS,
    INTERVAL_NS,
    KIND,
    LIMIT,
    NOBODY,
    NODE,
    OTHERS,
    OVER,
    PART_WORDS,
    RANK,
    SIZE,
    SPREAD_MAX,
    WIDTH,
    WORDS,
    ClockSet,
    State,
)

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
        if not log.LENGTH_MIN <= self.log <= 1 << 24:
            least = log.LENGTH_MIN
            raise UserError(f"log must be between {least} and {1 << 24}, not {self.log}")


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
    hasher = set_hash.allocate(seed=group.seed, slots=capacity.slots)
    grace_ns = round(parameters.grace_ms * NANOSECONDS_PER_MS)
    return State(
        dcs=ClockSet(
            clock=np.zeros((processes, width), np.int32),
            base=np.zeros((watched, width if checked else 0), np.int32),
            word=_first_words(parameters, group),
            # One more: a place for messages that carry all components.
            part=np.zeros((processes, most + 1, PART_WORDS), np.int64),
            member=np.zeros((processes, group.nodes), np.int8),
            plan=_plan(parameters, group),
            key=hasher.key.copy(),
        ),
        need=np.zeros((capacity.slots, width), np.int32),
        stamp=np.zeros((capacity.slots, GENERATIONS + most), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=clocks.entries_of_all(
            entries=parameters.component_entries,
            per_process=own_count,
            nodes=group.nodes,
            seed=group.seed,
        ),
        expected=np.zeros(width if checked else 0, np.int32),
        hash=np.zeros(watched, np.int64),
        delivered=np.zeros((watched, group.nodes), np.int32),
        held=queue.allocate(processes, capacity),
        log=log.allocate(
            processes=watched, nodes=group.nodes, length=parameters.log if checked else 0
        ),
        hasher=hasher,
        peel=search.allocate(
            width=width if checked else 0,
            nodes=group.nodes,
            per_process=own_count,
            part_entries=parameters.component_entries,
            per_part=parameters.per_component,
        ),
        scratch=np.zeros(group.nodes, np.int64),
        # Test again after every delivery, and await the sender's message before.
        setting=np.array([parameters.hashes, grace_ns, True, True], np.int64),
        counted=np.zeros(check.COUNTED, np.int64),
    )


def _plan(parameters: Parameters, group: Group) -> Int64s:
    found = np.zeros(LIMIT + parameters.components_max + 1, np.int64)
    found[: INTERVAL_NS + 1] = [
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
    found[LIMIT:] = policy.limits(
        error=parameters.error,
        entries=parameters.component_entries,
        per_component=parameters.per_component,
        spread=parameters.spread,
        components_max=parameters.components_max,
        nodes=group.nodes,
        delay=parameters.delay,
    )
    return found


def _first_words(parameters: Parameters, group: Group) -> Int64s:
    word = np.zeros((len(group.hosted), WORDS), np.int64)
    first = parameters.components
    word[:, [SIZE, ACTIVE, WIDTH, OVER]] = first
    interval_ns = round(parameters.smoothing_ms * NANOSECONDS_PER_MS) // policy.INTERVALS
    word[:, INTERVAL_END_NS] = interval_ns
    word[:, [BLOCKER, DOUBT_ROUND, KIND]] = NOBODY
    word[:, DOUBT] = parameters.components_max
    word[:, RANK] = word[:, NODE] = group.hosted
    word[:, OTHERS] = group.nodes - 1
    for s in range(parameters.spread):
        # Spread evenly at the start, and so that a pair of components has equally many too.
        word[:, INCREMENT + s] = group.hosted // first**s % first
    return word
