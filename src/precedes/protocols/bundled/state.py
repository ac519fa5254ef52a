"""Parameters and state of ``bundled``: awaited, delivered and bundled messages.

Source: Rodrigues et al. 2018, Algorithm 2: ack_set, rcv_base and rcv_win, CHECK_BUNDLE.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.compiled import ZERO
from precedes.contract import Capacity, Group, Host, Int32s, Int64s
from precedes.errors import UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.parts import pool, tester, topology
from precedes.parts.pool import NONE
from precedes.parts.tester import Detector

# Tags of items.
TREE: Final = 0
ACK: Final = 1

# Places in ``counter``.
COMPLETIONS: Final = 0
LAST_COMPLETION_NS: Final = 1
RETRANSMISSIONS: Final = 2

# Places in ``sent``.
PACKETS: Final = 0
BYTES: Final = 1

# Columns of ``profile``, and their names in a result.
PROFILE_PACKETS: Final = 0
PROFILE_ITEMS: Final = 1
PROFILE_BYTES: Final = 2
PROFILE: Final = ("packets", "items", "bytes")

TARGET_BITS: Final = 16
TARGET_MASK: Final = (1 << TARGET_BITS) - 1
GENERATION_MASK: Final = (1 << 30) - 1


@dataclass(frozen=True)
class Parameters:
    """Sizes for bundling, delays, and the source of crash reports; the defaults are SMALL2."""

    payload_max_bytes: int = field(
        default=1460, metadata={"help": "maximum bytes of items in a packet"}
    )
    tree_bytes: int = field(default=24, metadata={"help": "a TREE item, for bundling"})
    ack_bytes: int = field(default=20, metadata={"help": "an ACK item, for bundling"})
    delay_max_ms: float = field(default=2.0, metadata={"help": "maximum wait of an item"})
    tests: bool = field(
        default=False, metadata={"help": "detect crashes by tests, not by the host"}
    )
    interval_ms: float = field(default=30.0, metadata={"help": "rest between rounds of tests"})
    timeout_ms: float = field(default=4.0, metadata={"help": "time-out of a test"})
    own_channel: bool = field(default=True, metadata={"help": "tests have a queue of their own"})
    rounds: int = field(default=100, metadata={"help": "rounds of tests; 0: unlimited"})
    profile_node: int = field(
        default=-1, metadata={"help": "node whose packets are counted over time"}
    )
    profile_ms: float = field(default=1.0, metadata={"help": "length of a slice of the count"})
    profile_slices: int = field(default=100, metadata={"help": "number of slices"})

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(("payload_max_bytes", "tree_bytes", "ack_bytes"), (1, 1 << 30))
        times = {"delay_max_ms": (0, DELAY_MS_MAX), "profile_ms": (0.001, DELAY_MS_MAX)}
        for name, (low, high) in {**sizes, **times, "profile_slices": (1, 1 << 20)}.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UserError(f"{name} must be between {low:g} and {high:g}, not {value}")
        tester.check(interval_ms=self.interval_ms, timeout_ms=self.timeout_ms, rounds=self.rounds)


class _Awaited(NamedTuple):
    """Answers that a parent waits for."""

    slot: Int32s  # the message
    parent: Int32s  # the process to answer; the process itself if it is the source
    clusters: Int32s  # bit s: the child in cluster s has not answered
    link: Int32s  # next row of this message here
    following: Int32s  # next and previous row of this process
    previous: Int32s
    mark: Int64s


class Ends(NamedTuple):
    """The list of all rows of a process."""

    first: Int32s
    last: Int32s


@compiled.methods(apart=("add_row", "remove_row"))
class AckSet(NamedTuple):
    """Outstanding answers for each message: ack_set.

    There it is a set of triples (parent, child, message). At any time a process has one child in
    each of its clusters, so that a parent's triples of a message are one row: the clusters that
    have not answered, as bits. The rows of a message are linked, and so are those of a process, in
    order of their beginning, for the rare case that all have to be visited.
    """

    first: Int32s  # here, slot -> the first row of the message, or NONE
    ends: Ends  # here
    rows: _Awaited

    def row_of(self, here: int, slot: int, parent: int) -> int:
        """The row in which this parent waits for this message, or NONE."""
        row = self.first[here, slot]
        while row != NONE and self.rows.parent[row] != parent:
            row = self.rows.link[row]
        return row

    def clusters_of(self, here: int, slot: int) -> int:
        """The clusters that have not answered for this message, for any parent."""
        clusters = 0
        row = self.first[here, slot]
        while row != NONE:
            clusters |= self.rows.clusters[row]
            row = self.rows.link[row]
        return clusters

    def asks_first(self, here: int, row: int, s: int) -> bool:
        """Return whether this row is the first of its message that waits for cluster s."""
        first = self.first[here, self.rows.slot[row]]
        while self.rows.clusters[first] & (1 << s) == 0:
            first = self.rows.link[first]
        return first == row

    def add_row(self, here: int, slot: int, parent: int, clusters: int) -> None:
        """Add a row: the parent waits for these clusters."""
        rows, ends = self.rows, self.ends
        row = pool.take(rows)
        rows.slot[row] = slot
        rows.parent[row] = parent
        rows.clusters[row] = clusters
        rows.link[row] = self.first[here, slot]
        self.first[here, slot] = row
        rows.following[row] = NONE
        rows.previous[row] = ends.last[here]
        if ends.last[here] == NONE:
            ends.first[here] = row
        else:
            rows.following[ends.last[here]] = row
        ends.last[here] = row

    def remove_row(self, here: int, row: int) -> None:
        """Remove a row from both lists."""
        rows, ends = self.rows, self.ends
        slot = rows.slot[row]
        if self.first[here, slot] == row:
            self.first[here, slot] = rows.link[row]
        else:
            before = self.first[here, slot]
            while rows.link[before] != row:
                before = rows.link[before]
            rows.link[before] = rows.link[row]
        following, previous = rows.following[row], rows.previous[row]
        if previous == NONE:
            ends.first[here] = following
        else:
            rows.following[previous] = following
        if following == NONE:
            ends.last[here] = previous
        else:
            rows.previous[following] = previous
        pool.give_back(rows, row)


class _Early(NamedTuple):
    """Messages delivered beyond a gap."""

    sequence: Int32s
    link: Int32s
    mark: Int64s


class Sources(NamedTuple):
    """The messages of a source that a process has delivered."""

    base: Int32s  # number of its messages that have been delivered without a gap
    early: Int32s  # rows of those delivered beyond the gap


@compiled.methods(apart=("is_new", "forget_early"))
class Delivered(NamedTuple):
    """The messages that each process has delivered (rcv_base and rcv_win; lines 12-13 and 18-31).

    The count starts at 0, before the first message, so that a first message out of order is not a
    special case: the published lines leave the window unread until the first message has come, and
    deliver it twice.
    """

    source: Sources  # here, process
    rows: _Early

    def is_new(self, here: int, source: int, sequence: int) -> bool:
        """Return whether the source's message has not been delivered; mark it as delivered."""
        base, early, rows = self.source.base[here], self.source.early[here], self.rows
        if sequence <= base[source]:
            return False
        row = early[source]
        while row != NONE:
            if rows.sequence[row] == sequence:
                return False
            row = rows.link[row]
        if sequence > base[source] + 1:
            added = pool.take(rows)
            rows.link[added] = early[source]
            rows.sequence[added] = sequence
            early[source] = added
            return True
        base[source] = sequence
        while early[source] != NONE and self._close_gap(here, source):
            base[source] += 1
        return True

    def _close_gap(self, here: int, source: int) -> bool:
        """Return whether the message after those without a gap was early; free its row."""
        early, rows = self.source.early[here], self.rows
        row, before = int(early[source]), NONE
        while row != NONE and rows.sequence[row] != self.source.base[here, source] + 1:
            before, row = row, int(rows.link[row])
        if row == NONE:
            return False
        if before == NONE:
            early[source] = rows.link[row]
        else:
            rows.link[before] = rows.link[row]
        pool.give_back(rows, row)
        return True

    def forget_early(self, here: int, source: int) -> None:
        """Free the rows of a source that will not be needed again."""
        early = self.source.early[here]
        while early[source] != NONE:
            row = int(early[source])
            early[source] = self.rows.link[row]
            pool.give_back(self.rows, row)


class _Items(NamedTuple):
    """Items in bundles."""

    tag: Int32s
    slot: Int32s
    link: Int32s
    mark: Int64s


class Bundle(NamedTuple):
    """The items that wait for a target, and their timer."""

    first: Int32s
    last: Int32s
    size_bytes: Int32s
    generation: Int32s


@compiled.methods(apart=("_check_bundle", "flush", "discard"))
class Bundles(NamedTuple):
    """Items that wait to be sent together: a bundle for every target, with a timer.

    CHECK_BUNDLE (lines 36-50) and the timer (70-72). A bundle leaves when it is full or when its
    first item has waited ``delay_ns``. Every item in a bundle is one reference to its message,
    taken when it enters and ended when it leaves. A timer cannot be cancelled, so each one
    carries the generation of its bundle: a generation is odd while a timer runs, and starting or
    stopping one begins the next.

    From every process to every process, not only to neighbours as in line 7: after crashes a
    process may have to acknowledge to any other.
    """

    bundle: Bundle  # here, target
    rows: _Items
    item_bytes: Int64s  # tag -> size of an item
    payload_max_bytes: int
    delay_ns: int
    items: Int64s  # tag -> items sent or bundled
    sent: Int64s  # packets and their bytes
    profile: Int64s  # slice of time -> packets, items, bytes of one process; the last is open
    profile_here: int
    profile_ns: int

    def check_bundle(self, here: int, target: int, tag: int, slot: int, host: Host) -> None:
        """Send an item to the target now or in a bundle."""
        # One type of numbers for all callers, also for constants: the following is compiled once.
        self._check_bundle(here + ZERO, target + ZERO, tag + ZERO, slot + ZERO, host)

    def _check_bundle(self, here: int, target: int, tag: int, slot: int, host: Host) -> None:
        item_bytes = self.item_bytes[tag]
        max_bytes = self.payload_max_bytes
        self.items[tag] += 1
        if item_bytes >= max_bytes:
            host.send(target, tag, slot)
            self._count_sent(here, 1, item_bytes, host)
            return
        total_bytes = self.bundle.size_bytes[here, target] + item_bytes
        if total_bytes == max_bytes:
            self._add_item(here, target, tag, slot, host)
            self.flush(here, target, host)
            return
        if total_bytes > max_bytes:
            self.flush(here, target, host)
        self._add_item(here, target, tag, slot, host)
        generation = self.bundle.generation[here]
        if generation[target] & 1 == 0:
            generation[target] = (generation[target] + 1) & GENERATION_MASK
            key = int(generation[target]) << TARGET_BITS | target
            host.set_timer(key, self.delay_ns)

    def _add_item(self, here: int, target: int, tag: int, slot: int, host: Host) -> None:
        host.keep(slot)
        bundle, rows = self.bundle, self.rows
        row = pool.take(rows)
        rows.link[row] = NONE
        rows.tag[row] = tag
        rows.slot[row] = slot
        if bundle.first[here, target] == NONE:
            bundle.first[here, target] = row
        else:
            rows.link[bundle.last[here, target]] = row
        bundle.last[here, target] = row
        bundle.size_bytes[here, target] += self.item_bytes[tag]

    def flush(self, here: int, target: int, host: Host) -> None:
        """Send a bundle that is not empty, and stop its timer."""
        rows = self.rows
        row = int(self.bundle.first[here, target])
        host.open_packet(target)
        count = 0
        while row != NONE:
            host.put(int(rows.tag[row]), int(rows.slot[row]))
            count += 1
            row = rows.link[row]
        self._count_sent(here, count, int(self.bundle.size_bytes[here, target]), host)
        self.discard(here, target, host)

    def discard(self, here: int, target: int, host: Host) -> None:
        """Empty a bundle without sending it, and stop its timer."""
        bundle, rows = self.bundle, self.rows
        row = int(bundle.first[here, target])
        while row != NONE:
            following = int(rows.link[row])
            host.drop(int(rows.slot[row]))
            pool.give_back(rows, row)
            row = following
        bundle.first[here, target] = bundle.last[here, target] = NONE
        bundle.size_bytes[here, target] = 0
        generation = bundle.generation[here]
        if generation[target] & 1 == 1:
            generation[target] = (generation[target] + 1) & GENERATION_MASK

    def expire(self, here: int, key: int, host: Host) -> None:
        """Send the bundle of an expired timer, unless the timer had been stopped."""
        target = key & TARGET_MASK
        if self.bundle.generation[here, target] == key >> TARGET_BITS:
            self.flush(here, target, host)

    def _count_sent(self, here: int, items: int, size_bytes: int, host: Host) -> None:
        self.sent[PACKETS] += 1
        self.sent[BYTES] += size_bytes
        if here == self.profile_here:
            place = min(host.now_ns() // self.profile_ns, len(self.profile) - 1)
            self.profile[place, PROFILE_PACKETS] += 1
            self.profile[place, PROFILE_ITEMS] += items
            self.profile[place, PROFILE_BYTES] += size_bytes


class State(NamedTuple):
    """Awaited, delivered and bundled messages of a process, its view, and its detector."""

    awaited: AckSet
    bundles: Bundles
    delivered: Delivered
    crashed: Int32s  # here, process -> whether it is known to have crashed
    child: Int64s  # here, s -> the process that it considers the first fault-free of cluster s
    counter: Int64s
    hosted: Int64s
    detector: Detector
    nodes: int
    dimension: int


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    nodes, hosted, reserve_bytes = group.nodes, len(group.hosted), capacity.reserve_bytes
    dimension = topology.dimension(nodes)
    child = np.full((hosted, dimension + 1), NONE, np.int64)
    for here, me in enumerate(group.hosted.tolist()):
        for s in range(1, dimension + 1):
            child[here, s] = topology.first_present(me, s, nodes)
    ends = pool.columns(Ends, hosted)
    source, bundle = pool.columns(Sources, hosted, nodes), pool.columns(Bundle, hosted, nodes)
    for heads in (ends.first, ends.last, source.early, bundle.first, bundle.last):
        heads[:] = NONE
    watched = np.flatnonzero(np.asarray(group.hosted) == parameters.profile_node)
    profile_here = int(watched[0]) if len(watched) else NONE
    return State(
        awaited=AckSet(
            first=np.full((hosted, capacity.slots), NONE, np.int32),
            ends=ends,
            rows=pool.reserve(_Awaited, reserve_bytes),
        ),
        bundles=Bundles(
            bundle=bundle,
            rows=pool.reserve(_Items, reserve_bytes),
            item_bytes=np.array([parameters.tree_bytes, parameters.ack_bytes], np.int64),
            payload_max_bytes=parameters.payload_max_bytes,
            delay_ns=round(parameters.delay_max_ms * NANOSECONDS_PER_MS),
            items=np.zeros(2, np.int64),
            sent=np.zeros(2, np.int64),
            profile=np.zeros((parameters.profile_slices * (profile_here != NONE), 3), np.int64),
            profile_here=profile_here,
            profile_ns=round(parameters.profile_ms * NANOSECONDS_PER_MS),
        ),
        delivered=Delivered(source=source, rows=pool.reserve(_Early, reserve_bytes)),
        crashed=np.zeros((hosted, nodes), np.int32),
        child=child,
        counter=np.zeros(3, np.int64),
        hosted=np.array(group.hosted, np.int64),
        detector=tester.make_detector(
            group=group,
            interval_ms=parameters.interval_ms,
            timeout_ms=parameters.timeout_ms,
            rounds=parameters.rounds,
            first_tag=ACK + 1,
            own_channel=parameters.own_channel,
            on=parameters.tests,
        ),
        nodes=nodes,
        dimension=dimension,
    )


def extra(state: State) -> dict[str, float]:
    """Completed broadcasts and their cost, without the detector's packets."""
    counter, bundled = state.counter, state.bundles
    figures = {
        "completions": int(counter[COMPLETIONS]),
        "last_completion_ms": int(counter[LAST_COMPLETION_NS]) / NANOSECONDS_PER_MS,
        "retransmissions": int(counter[RETRANSMISSIONS]),
        "trees": int(bundled.items[TREE]),
        "acks": int(bundled.items[ACK]),
        "bundles": int(bundled.sent[PACKETS]),
        "bundle_bytes": int(bundled.sent[BYTES]),
    }
    for place, row in enumerate(bundled.profile.tolist()):
        for name, value in zip(PROFILE, row, strict=True):
            figures[f"profile_{name}_{place}"] = value
    if tester.is_on(state.detector):
        figures |= tester.counters(state.detector)
    return figures
