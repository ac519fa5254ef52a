"""Best-effort broadcast on self-healing trees, with messages bundled where trees overlap.

Source: Rodrigues et al. 2018, Algorithm 2, with its printed errors mended
(docs/protocols/bundled.md).

Algorithm. A message travels down the VCube tree of its source. Who receives it from j covers its
clusters below that of j: it sends the message (TREE) to the first fault-free process of each and
answers j (ACK) when all of these have answered. The source is done (COMPLETE) when its own
children have answered. When a child crashes, the next fault-free process of its cluster takes its
place. Items to the same target wait up to ``delay_max_ms`` to leave in one packet of at most
``payload_max_bytes`` (``bundles``).

Assumes that packets between correct processes arrive, and a failure detector that suspects just
the crashed: the host's (``on_crash``), or with ``tests`` the ``failure_detector``, which fences.

Guarantee: a message of a correct source is delivered exactly once at every correct process, whoever
else crashes, and the source learns when. No order, and no promise for a source that crashes. Cost:
two items for each process and message, in as few packets as the bundles allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled, topology
from precedes.compiled import ZERO
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS, EventKind, UserError
from precedes.protocols import awaited as answers
from precedes.protocols import bundles as bundling
from precedes.protocols import delivered
from precedes.protocols import failure_detector as tester
from precedes.protocols import pool as rows
from precedes.protocols.awaited import Awaited
from precedes.protocols.bundles import Bundles, give
from precedes.protocols.contract import (
    DONE,
    FULL,
    LENGTH,
    MESSAGE,
    NUMBER,
    REFERENCE,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
    broadcast,
    deliver,
    drop,
    keep,
    message_bytes,
    note,
    now_ns,
    on_crash,
    on_timer,
    receive,
    sequence_of,
    source_of,
    start,
    tag_of,
    value_of,
)
from precedes.protocols.failure_detector import Detector
from precedes.protocols.pool import NONE, Pool

TREE: Final = 0
ACK: Final = 1
ITEMS: Final = (MESSAGE, REFERENCE, NUMBER, NUMBER, NUMBER)
MESSAGE_FIELDS: Final[tuple[str, ...]] = ()
GUARANTEE: Final = "none"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "tree"

COMPLETE_KIND: Final = int(EventKind.COMPLETE)
# Words of a process.
PROCESS: Final = 0  # its number in the group
CHILD: Final = 0  # CHILD + s: the process that it takes for the first fault-free of cluster s
PROCESS_WORDS: Final = CHILD + 17  # NODES_MAX has 16 bits

# Places in ``mark``.
NODES: Final = 0
DIMENSION: Final = 1
COMPLETIONS: Final = 2
LAST_COMPLETION_NS: Final = 3
RETRANSMISSIONS: Final = 4
MARKS: Final = 5


@dataclass(frozen=True)
class Parameters:
    """Sizes for bundling, patience, and who tells of crashes; the defaults are SMALL2."""

    payload_max_bytes: int = field(default=1460, metadata={"help": "items of a packet at most"})
    tree_bytes: int = field(default=24, metadata={"help": "a TREE item, for bundling"})
    ack_bytes: int = field(default=20, metadata={"help": "an ACK item, for bundling"})
    delay_max_ms: float = field(default=2.0, metadata={"help": "how long an item may wait"})
    tests: bool = field(default=False, metadata={"help": "find crashes by tests; else be told"})
    interval_ms: float = field(default=30.0, metadata={"help": "rest between rounds of tests"})
    timeout_ms: float = field(default=4.0, metadata={"help": "patience with a tested process"})
    own_channel: bool = field(default=True, metadata={"help": "tests have a queue of their own"})
    rounds: int = field(default=100, metadata={"help": "rounds of tests; 0: without end"})
    profile_node: int = field(default=-1, metadata={"help": "whose packets to count over time"})
    profile_ms: float = field(default=1.0, metadata={"help": "in slices of this length"})
    profile_slices: int = field(default=100, metadata={"help": "and so many of them"})

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(("payload_max_bytes", "tree_bytes", "ack_bytes"), (1, 1 << 30))
        times = {"delay_max_ms": (0, DELAY_MS_MAX), "profile_ms": (0.001, DELAY_MS_MAX)}
        for name, (low, high) in {**sizes, **times, "profile_slices": (1, 1 << 20)}.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UserError(f"{name} must be between {low:g} and {high:g}, not {value}")
        tester.check(interval_ms=self.interval_ms, timeout_ms=self.timeout_ms, rounds=self.rounds)


class State(NamedTuple):
    """What a process awaits, has delivered and bundles, in one pool of rows, and its view."""

    pool: Pool
    awaited: Awaited
    bundles: Bundles
    source: Int32s  # here, process -> words of ``delivered``
    crashed: Int32s  # here, process -> whether it is known to have crashed
    process: Int64s  # here -> words of a process
    mark: Int64s
    detector: Detector


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    nodes, hosted = group.nodes, len(group.hosted)
    source = np.zeros((hosted, nodes, delivered.WORDS), np.int32)
    source[:, :, delivered.EARLY] = NONE
    process = np.full((hosted, PROCESS_WORDS), NONE, np.int64)
    process[:, PROCESS] = group.hosted
    dimension = topology.dimension(nodes)
    for here, me in enumerate(group.hosted.tolist()):
        for s in range(1, dimension + 1):
            process[here, CHILD + s] = topology.first_present(me, s, nodes)
    mark = np.array([nodes, dimension] + [0] * (MARKS - 2), np.int64)
    return State(
        # A quarter of the processes may wait for as many messages each.
        pool=rows.allocate(capacity.held * (1 + hosted // 4)),
        awaited=answers.allocate(hosted, capacity.slots),
        bundles=bundling.allocate(
            hosted=group.hosted,
            nodes=nodes,
            tree_bytes=parameters.tree_bytes,
            ack_bytes=parameters.ack_bytes,
            payload_max_bytes=parameters.payload_max_bytes,
            delay_ns=round(parameters.delay_max_ms * NANOSECONDS_PER_MS),
            profile_node=parameters.profile_node,
            profile_ns=round(parameters.profile_ms * NANOSECONDS_PER_MS),
            profile_slices=parameters.profile_slices,
        ),
        source=source,
        crashed=np.zeros((hosted, nodes), np.int32),
        process=process,
        mark=mark,
        detector=tester.make_detector(
            group=group,
            interval_ms=parameters.interval_ms,
            timeout_ms=parameters.timeout_ms,
            rounds=parameters.rounds,
            first_tag=ACK + 1,
            own_channel=parameters.own_channel,
            on=parameters.tests,
        ),
    )


def extra(state: State) -> dict[str, float]:
    """Completed broadcasts and what was sent for them, without the detector's packets."""
    counter = state.bundles.counter
    found = {
        "completions": int(state.mark[COMPLETIONS]),
        "last_completion_ms": int(state.mark[LAST_COMPLETION_NS]) / NANOSECONDS_PER_MS,
        "retransmissions": int(state.mark[RETRANSMISSIONS]),
        "trees": int(counter[bundling.TREES]),
        "acks": int(counter[bundling.ACKS]),
        "bundles": int(counter[bundling.PACKETS]),
        "bundle_bytes": int(counter[bundling.BYTES_SENT]),
    }
    for place, row in enumerate(state.bundles.profile.tolist()):
        for name, value in zip(bundling.PROFILE, row, strict=True):
            found[f"profile_{name}_{place}"] = value
    return {**found, **tester.counters(state.detector)} if state.detector.state.size else found


@compiled.function()
def _has_room(state: State, here: int, items: int, others: int, host: Host) -> bool:
    """Whether so many items and other rows fit into the pool, and their effects to the host."""
    leaving = items + state.bundles.waiting[here]
    words = 64 + bundling.WORDS_PER_ITEM * leaving + 8 * others
    unused = host.effects.size - host.cursor[LENGTH]
    return words <= unused and rows.has_room(state.pool, items + others)


@compiled.register(start, State)
def _start(state: State, here: int, host: Host) -> int:
    if tester.is_on(state.detector):
        tester.begin(state.detector, here, host)
    return DONE


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    if tester.is_fenced(state.detector, here):
        return DONE
    if not _has_room(state, here, state.mark[DIMENSION], 1, host):
        return FULL
    me = state.process[here, PROCESS]
    state.source[here, me, delivered.BASE] = sequence_of(host, slot)
    _forward(state, here, me, state.mark[DIMENSION], slot, host)
    return DONE


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    return _take_packet(state, here + ZERO, sender + ZERO, inbox, count + ZERO, host)


@compiled.function(inline=False)
def _take_packet(
    state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> int:
    if tester.owns_packet(state.detector, inbox):
        tester.on_packet(state.detector, here, sender, inbox, count, host)
        return DONE
    # A TREE needs an item for every child or for an ACK, and a row to wait and one if it is early;
    # an ACK puts an item in the place of every row that it ends.
    if not _has_room(state, here, count * (state.mark[DIMENSION] + 1), 2 * count, host):
        return FULL
    fenced = tester.is_fenced(state.detector, here)
    for i in range(count):
        slot = value_of(inbox, i)
        if tag_of(inbox, i) == ACK:
            if not fenced:
                _on_ack(state, here, sender, slot, host)
        elif fenced:
            drop(host, slot)
        else:
            _on_tree(state, here, sender, slot, host)
    return DONE


@compiled.function(inline=False)
def _on_tree(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """TREE from ``sender`` (lines 62-65 and 10-17): deliver, cover the clusters below, answer."""
    source = source_of(host, slot)
    if state.crashed[here, sender] != 0 or state.crashed[here, source] != 0:
        drop(host, slot)
        return
    is_new = delivered.is_new(state.source[here, source], state.pool, sequence_of(host, slot))
    if answers.row_of(state.awaited, state.pool, here, slot, sender) == NONE:
        top = topology.cluster(state.process[here, PROCESS], sender) - 1
        _forward(state, here, sender, top, slot, host)
    if is_new:
        deliver(host, slot)
    else:
        drop(host, slot)


@compiled.function(inline=False)
def _forward(state: State, here: int, parent: int, top: int, slot: int, host: Host) -> None:
    """FORWARD (lines 32-35): have clusters top..1 covered for the parent.

    A child that has been asked for another parent and has not answered is not asked again.
    """
    asked = answers.clusters_of(state.awaited, state.pool, here, slot)
    clusters = 0
    for s in range(top, 0, -1):
        child = state.process[here, CHILD + s]
        if child != NONE:
            clusters |= 1 << s
            if asked & (1 << s) == 0:
                give(state.bundles, state.pool, here, child, TREE, slot, host)
    if clusters == 0:
        _finish(state, here, parent, slot, host)
        return
    if state.awaited.first[here, slot] == NONE:
        keep(host, slot)  # it may have to be sent again
    answers.begin(state.awaited, state.pool, here, slot, parent, clusters)


@compiled.function(inline=False)
def _finish(state: State, here: int, parent: int, slot: int, host: Host) -> None:
    """CHECK_ACKS (lines 51-55): all that a parent asked for is covered."""
    if parent == state.process[here, PROCESS]:
        state.mark[COMPLETIONS] += 1
        state.mark[LAST_COMPLETION_NS] = now_ns(host)
        note(host, COMPLETE_KIND, slot)
    else:
        give(state.bundles, state.pool, here, parent, ACK, slot, host)


@compiled.function()
def _forget(state: State, here: int, slot: int, host: Host) -> None:
    """Let the message go when nobody waits for it; line 53 does so when one parent is done."""
    if state.awaited.first[here, slot] == NONE:
        drop(host, slot)


@compiled.function(inline=False)
def _on_ack(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """ACK from ``sender`` (lines 66-69): it covers its cluster, whoever of the parents asked."""
    row = int(state.awaited.first[here, slot])
    s = topology.cluster(state.process[here, PROCESS], sender)
    if row == NONE or state.process[here, CHILD + s] != sender:
        return
    while row != NONE:
        following = int(state.pool.row[row + answers.SAME])
        _cover(state, here, row, s, host)
        row = following
    _forget(state, here, slot, host)


@compiled.function(inline=False)
def _cover(state: State, here: int, row: int, s: int, host: Host) -> None:
    """Cluster s is covered, or has nobody left, for the parent of this row."""
    word = state.pool.row
    clusters = word[row + answers.CLUSTERS]
    if clusters == 1 << s:
        parent, slot = int(word[row + answers.PARENT]), int(word[row + answers.SLOT])
        answers.end(state.awaited, state.pool, here, row)
        _finish(state, here, parent, slot, host)
    else:
        word[row + answers.CLUSTERS] = clusters & ~(1 << s)


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    if tester.is_fenced(state.detector, here):
        return DONE
    if tester.crash_of(key) >= 0:
        return _crash(state, here, tester.crash_of(key), host)
    if tester.owns_timer(key):
        tester.on_expiry(state.detector, here, key, host)
    else:
        bundling.expire(state.bundles, state.pool, here, key, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    return DONE if tester.is_on(state.detector) else _crash(state, here, crashed, host)


@compiled.function(inline=False)
def _crash(state: State, here: int, crashed: int, host: Host) -> int:
    """CRASH (lines 73-87): forget what the crashed one asked for, replace it as a child."""
    if state.crashed[here, crashed] != 0:
        return DONE
    count = int(state.awaited.ends[here, answers.COUNT])
    if not _has_room(state, here, count, count, host):
        return FULL
    state.crashed[here, crashed] = 1
    bundling.discard(state.bundles, state.pool, here, crashed, host)
    delivered.forget(state.source[here, crashed], state.pool)
    # First what nobody waits for any more: the rows left then tell who has to ask the next child.
    row = int(state.awaited.ends[here, answers.FIRST])
    while row != NONE:
        following = int(state.pool.row[row + answers.NEXT])
        slot = int(state.pool.row[row + answers.SLOT])
        if state.pool.row[row + answers.PARENT] == crashed or source_of(host, slot) == crashed:
            answers.end(state.awaited, state.pool, here, row)
            _forget(state, here, slot, host)
        row = following
    me = state.process[here, PROCESS]
    s = topology.cluster(me, crashed)
    if state.process[here, CHILD + s] == crashed:
        view = state.crashed[here]
        state.process[here, CHILD + s] = topology.first_correct(me, s, view, state.mark[NODES])
        _replace(state, here, s, host)
    return DONE


@compiled.function(inline=False)
def _replace(state: State, here: int, s: int, host: Host) -> None:
    """The child in cluster s has changed: ask the new one, or stop waiting if there is none."""
    child = state.process[here, CHILD + s]
    row = int(state.awaited.ends[here, answers.FIRST])
    while row != NONE:
        following = int(state.pool.row[row + answers.NEXT])
        slot = int(state.pool.row[row + answers.SLOT])
        if state.pool.row[row + answers.CLUSTERS] & (1 << s) != 0:
            if child == NONE:
                _cover(state, here, row, s, host)
                _forget(state, here, slot, host)
            elif answers.asks_first(state.awaited, state.pool, here, row, s):
                state.mark[RETRANSMISSIONS] += 1
                give(state.bundles, state.pool, here, child, TREE, slot, host)
        row = following


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 8  # source and sequence number, 4 bytes each
