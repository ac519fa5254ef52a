"""Parameters and state of ``hashed``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from precedes.contract import Capacity, Group, Int32s, Int64s, check_range
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS
from precedes.parts import clocks
from precedes.parts.hash_check import log, queue, requests, search, set_hash
from precedes.parts.hash_check.log import Log
from precedes.parts.hash_check.queue import Queue
from precedes.parts.hash_check.requests import Counts
from precedes.parts.hash_check.search import Peeling
from precedes.parts.hash_check.set_hash import Hasher

from . import enumeration
from .enumeration import Enumeration

SEARCHES: Final = ("peeling", "literal")
DETECTORS: Final = ("hash", "mostefaoui")


@dataclass(frozen=True)
class Parameters:
    """The size of the clock, the effort of the search, and the delay of requests."""

    entries: int = field(default=50, metadata={"help": "entries of the clock (M)"})
    per_process: int = field(default=2, metadata={"help": "entries that a process owns (k)"})
    hashes: int = field(default=100, metadata={"help": "maximum hashes compared in one test (l)"})
    search: str = field(
        default="peeling", metadata={"help": "peeling, or literal: combinations as published"}
    )
    detector: str = field(
        default="hash", metadata={"help": "hash, or mostefaoui: suspect by the clock alone"}
    )
    hash_bits: int = field(default=set_hash.BITS, metadata={"help": "width of the hash"})
    grace_ms: float = field(default=100.0, metadata={"help": "wait before a request to the sender"})
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
        search.check_effort(hashes=self.hashes, log_length=self.log)
        if self.search not in SEARCHES:
            raise UserError(f"search must be {' or '.join(SEARCHES)}, not {self.search!r}")
        if self.detector not in DETECTORS:
            raise UserError(f"detector must be {' or '.join(DETECTORS)}, not {self.detector!r}")
        check_range(1, set_hash.BITS, hash_bits=self.hash_bits)


class State(NamedTuple):
    """Rows of ``clock``, ``hash``, ``delivered`` belong to processes, the fields' to messages."""

    clock: Int32s
    hash: Int64s  # of all deliveries of the process
    delivered: Int32s  # process, source -> messages delivered, without gaps
    need: Int32s
    past: Int64s  # message -> hash of all deliveries of its sender before it
    own: Int32s  # f: process -> the entries it increments
    owners: Int64s  # for each entry of a row: see ``clocks.owners_of``
    node: Int32s  # row -> process
    held: Queue
    log: Log
    hasher: Hasher
    peel: Peeling
    literal: Enumeration
    scratch: Int64s  # source -> 0, except while something is counted for a request
    counts: Counts
    # The parameters:
    entries: int
    hash_bytes: int
    hashes: int
    is_literal: int
    has_hash: int
    grace_ns: int
    retry: int
    sender_order: int


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group; the group's seed is the key of the hash.

    The window of a live group allows more in flight than a search could find: its clock is
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
    owners = clocks.owners_of(own, hosted=group.hosted, width=width)
    hasher = set_hash.allocate(seed=group.seed, slots=capacity.slots, bits=parameters.hash_bits)
    return State(
        clock=np.zeros((processes, width), np.int32),
        hash=np.zeros(processes, np.int64),
        delivered=np.zeros((processes, group.nodes), np.int32),
        need=np.zeros((capacity.slots, width), np.int32),
        past=np.zeros(capacity.slots, np.int64),
        own=own,
        owners=np.array(owners, np.int64),
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
        counts=requests.allocate_counts(),
        entries=parameters.entries,
        hash_bytes=-(-parameters.hash_bits // 8) if parameters.detector == "hash" else 0,
        hashes=parameters.hashes,
        is_literal=int(parameters.search == "literal"),
        has_hash=int(parameters.detector == "hash"),
        grace_ns=round(parameters.grace_ms * NANOSECONDS_PER_MS),
        retry=int(parameters.retry),
        sender_order=int(parameters.sender_order),
    )


def _for_live_group(parameters: Parameters, group: Group) -> Parameters:
    if parameters.detector != "hash" or parameters.hash_bits != set_hash.BITS:
        raise UserError(
            "detector=mostefaoui and narrower hashes let errors pass: they are for simulations"
        )
    in_flight = group.window * (group.nodes - 1)
    if parameters.search == "literal" and in_flight > enumeration.NEWEST:
        raise UserError(
            f"search=literal looks at {enumeration.NEWEST} deliveries, but {in_flight:,} messages "
            "can be in flight in this group: set search to peeling"
        )
    least = clocks.entries_to_tell_apart(group.nodes, parameters.per_process)
    return replace(parameters, entries=max(parameters.entries, least))


def extra(state: State) -> dict[str, float]:
    """Counts of tests, suspicions and requests."""
    counts = requests.extra(state.counts, state.log)
    if state.is_literal == 0:
        return {"hashes": int(state.peel.mark.hashes[0]), **counts}
    mark = state.literal.mark
    return {
        "hashes": int(mark.hashes[0]),
        **counts,
        "concurrent": int(mark.concurrent[0]),
        "concurrent_unshown": int(mark.unshown[0]),
    }
