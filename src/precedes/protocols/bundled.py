"""Best-effort broadcast on self-healing trees, with messages bundled where trees overlap.

Source: paper 001, Algorithm 2, with its printed errors mended (docs/protocols/bundled.md).

Algorithm. A message travels down the VCube tree of its source. Who receives it from j covers its
clusters below that of j: it sends the message (TREE) to the first fault-free process of each and
answers j (ACK) when all of these have answered. The source is done (COMPLETE) when its own
children have answered. When a child crashes, the next fault-free process of its cluster takes its
place. Items to the same target wait up to ``delay_max_ms`` to leave in one packet of at most
``payload_max_bytes`` (``bundles``).

What is awaited, ack_set in the paper, is a set of pairs (parent, child) for each message. At any
time a process has one child in a cluster, the first that it takes for fault-free; so the pairs of
a parent are one row: the clusters still to answer, as bits.

Assumes that packets between correct processes arrive, and a failure detector that suspects all who
have crashed and nobody else: the host's (``on_crash``), or with ``tests`` the ``failure_detector``.
A process that is suspected wrongly is fenced: it falls silent.

Guarantee: a message of a correct source is delivered exactly once at every correct process,
whoever else crashes; the source learns when that is so. There is no order, and nothing is promised
for a source that crashes. Cost: two items for each process and message, in as few packets as the
bundles allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled, topology
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS, EventKind, UserError
from precedes.protocols import bundles as bundling
from precedes.protocols import failure_detector as tester
from precedes.protocols import pool as rows
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

COMPLETE_KIND: Final = int(EventKind.COMPLETE)

# Words of a row that waits for answers: what ``parent`` asked for is not covered yet.
SLOT: Final = 0
PARENT: Final = 1  # who is to be answered; the process itself if it is the source
AWAITED: Final = 2  # bit s: the child in cluster s has not answered
SAME: Final = 3  # next row of this message here
NEXT: Final = 4  # next and previous row of this process, in order of their beginning
PREVIOUS: Final = 5

# Words of a row that remembers a message delivered before one of its predecessors.
LINK: Final = 0
SEQUENCE: Final = 1

# Words that a process keeps of another one.
BASE: Final = 0  # how many of its messages have been delivered without a gap
EARLY: Final = 1  # rows of those delivered beyond the gap
CRASHED: Final = 2

# Words of a process.
PROCESS: Final = 0  # its number in the group
FIRST: Final = 1  # its rows
LAST: Final = 2
ROWS: Final = 3
CHILD: Final = 4  # CHILD + s: the first fault-free process of cluster s
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
    tests: bool = field(
        default=False, metadata={"help": "find crashes by tests instead of being told"}
    )
    interval_ms: float = field(default=30.0, metadata={"help": "rest between rounds of tests"})
    timeout_ms: float = field(default=4.0, metadata={"help": "patience with a tested process"})
    own_channel: bool = field(
        default=True, metadata={"help": "tests do not wait in the queue of other packets"}
    )
    profile_node: int = field(default=-1, metadata={"help": "whose packets to count over time"})
    profile_ms: float = field(default=1.0, metadata={"help": "in slices of this length"})

    def __post_init__(self) -> None:
        for name in ("payload_max_bytes", "tree_bytes", "ack_bytes"):
            if not 1 <= getattr(self, name) <= 1 << 30:
                raise UserError(f"{name} must be between 1 and 2^30, not {getattr(self, name)}")
        if not 0 <= self.delay_max_ms <= DELAY_MS_MAX:
            raise UserError(f"delay_max_ms must be between 0 and 1e9, not {self.delay_max_ms:g}")
        if not 0.001 <= self.profile_ms <= DELAY_MS_MAX:
            raise UserError(f"profile_ms must be between 0.001 and 1e9, not {self.profile_ms:g}")
        tester.check_times(interval_ms=self.interval_ms, timeout_ms=self.timeout_ms)


class State(NamedTuple):
    """Rows that wait, by process and message, in a pool that the bundles share."""

    first: Int32s  # here, slot -> first row of the message, or NONE
    peer: Int32s  # here, process -> words kept of it
    process: Int32s  # here -> words of a process
    mark: Int64s
    pool: Pool
    bundles: Bundles
    detector: Detector


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    nodes, hosted = group.nodes, len(group.hosted)
    peer = np.zeros((hosted, nodes, 3), np.int32)
    peer[:, :, EARLY] = NONE
    process = np.full((hosted, PROCESS_WORDS), NONE, np.int32)
    process[:, PROCESS] = group.hosted
    process[:, ROWS] = 0
    dimension = topology.dimension(nodes)
    for here, me in enumerate(group.hosted.tolist()):
        for s in range(1, dimension + 1):
            process[here, CHILD + s] = topology.first_present(me, s, nodes)
    mark = np.zeros(MARKS, np.int64)
    mark[NODES], mark[DIMENSION] = nodes, dimension
    return State(
        first=np.full((hosted, capacity.slots), NONE, np.int32),
        peer=peer,
        process=process,
        mark=mark,
        # A quarter of the processes may each wait for as many messages.
        pool=rows.allocate(capacity.held * (1 + hosted // 4)),
        bundles=bundling.allocate(
            hosted=group.hosted,
            nodes=nodes,
            tree_bytes=parameters.tree_bytes,
            ack_bytes=parameters.ack_bytes,
            payload_max_bytes=parameters.payload_max_bytes,
            delay_ns=round(parameters.delay_max_ms * NANOSECONDS_PER_MS),
            profile_node=parameters.profile_node,
            profile_ns=round(parameters.profile_ms * NANOSECONDS_PER_MS),
        ),
        detector=tester.make_detector(
            group=group,
            interval_ms=parameters.interval_ms,
            timeout_ms=parameters.timeout_ms,
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
    state.peer[here, me, BASE] = sequence_of(host, slot)
    if not _forward(state, here, me, state.mark[DIMENSION], slot, host):
        _finish(state, here, me, slot, host)
    return DONE


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if tester.owns_packet(state.detector, inbox):
        tester.on_packet(state.detector, here, sender, inbox, count, host)
        return DONE
    # A TREE needs an item for every child, or one for an ACK; a row that waits; a row if it is
    # early. An ACK needs a row for each that it ends.
    each = state.mark[DIMENSION] + 1
    if not _has_room(state, here, count * each, 2 * count, host):
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
    if state.peer[here, sender, CRASHED] != 0 or state.peer[here, source, CRASHED] != 0:
        drop(host, slot)
        return
    is_new = _is_new(state, here, source, sequence_of(host, slot))
    if _row_of(state, here, slot, sender) == NONE:
        top = topology.cluster(state.process[here, PROCESS], sender) - 1
        if not _forward(state, here, sender, top, slot, host):
            give(state.bundles, state.pool, here, sender, ACK, slot, host)
    if is_new:
        deliver(host, slot)
    else:
        drop(host, slot)


@compiled.function()
def _row_of(state: State, here: int, slot: int, parent: int) -> int:
    """The row in which this parent waits for this message, or NONE."""
    row = state.first[here, slot]
    while row != NONE and state.pool.row[row + PARENT] != parent:
        row = state.pool.row[row + SAME]
    return row


@compiled.function()
def _forward(state: State, here: int, parent: int, top: int, slot: int, host: Host) -> bool:
    """Send a message to the children in clusters top..1 and wait for them; False: there is none.

    A child that is being waited for already covers its cluster for this parent too.
    """
    asked = 0
    row = state.first[here, slot]
    while row != NONE:
        asked |= state.pool.row[row + AWAITED]
        row = state.pool.row[row + SAME]
    awaited = 0
    for s in range(top, 0, -1):
        child = state.process[here, CHILD + s]
        if child != NONE:
            awaited |= 1 << s
            if asked & (1 << s) == 0:
                give(state.bundles, state.pool, here, child, TREE, slot, host)
    if awaited != 0:
        _wait(state, here, parent, slot, awaited, host)
    return awaited != 0


@compiled.function()
def _wait(state: State, here: int, parent: int, slot: int, awaited: int, host: Host) -> None:
    """A new row; the first one of a message keeps it, for it may have to be sent again."""
    row = rows.take(state.pool)
    word = state.pool.row
    own = state.process[here]
    if state.first[here, slot] == NONE:
        keep(host, slot)
    word[row + SLOT] = slot
    word[row + PARENT] = parent
    word[row + AWAITED] = awaited
    word[row + SAME] = state.first[here, slot]
    state.first[here, slot] = row
    word[row + NEXT] = NONE
    word[row + PREVIOUS] = own[LAST]
    if own[LAST] == NONE:
        own[FIRST] = row
    else:
        word[own[LAST] + NEXT] = row
    own[LAST] = row
    own[ROWS] += 1


@compiled.function(inline=False)
def _end(state: State, here: int, row: int) -> None:
    """The row is over: take it out of both lists."""
    word = state.pool.row
    own = state.process[here]
    slot = word[row + SLOT]
    if state.first[here, slot] == row:
        state.first[here, slot] = word[row + SAME]
    else:
        before = state.first[here, slot]
        while word[before + SAME] != row:
            before = word[before + SAME]
        word[before + SAME] = word[row + SAME]
    following, previous = word[row + NEXT], word[row + PREVIOUS]
    if previous == NONE:
        own[FIRST] = following
    else:
        word[previous + NEXT] = following
    if following == NONE:
        own[LAST] = previous
    else:
        word[following + PREVIOUS] = previous
    own[ROWS] -= 1
    rows.give_back(state.pool, row)


@compiled.function()
def _forget(state: State, here: int, slot: int, host: Host) -> None:
    """Let the message go if nobody waits for it any more (not before: line 53 is too early)."""
    if state.first[here, slot] == NONE:
        drop(host, slot)


@compiled.function(inline=False)
def _on_ack(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """ACK from ``sender`` (lines 66-69): it covers its cluster, whoever of the parents asked."""
    row = state.first[here, slot]
    s = topology.cluster(state.process[here, PROCESS], sender)
    if row == NONE or state.process[here, CHILD + s] != sender:
        return
    while row != NONE:
        following = state.pool.row[row + SAME]
        awaited = state.pool.row[row + AWAITED]
        if awaited == 1 << s:
            parent = state.pool.row[row + PARENT]
            _end(state, here, row)
            _finish(state, here, parent, slot, host)
        else:
            state.pool.row[row + AWAITED] = awaited & ~(1 << s)
        row = following
    _forget(state, here, slot, host)


@compiled.function(inline=False)
def _finish(state: State, here: int, parent: int, slot: int, host: Host) -> None:
    """All that a parent asked for is covered: answer it, or the broadcast is complete."""
    if parent == state.process[here, PROCESS]:
        state.mark[COMPLETIONS] += 1
        state.mark[LAST_COMPLETION_NS] = now_ns(host)
        note(host, COMPLETE_KIND, slot)
    else:
        give(state.bundles, state.pool, here, parent, ACK, slot, host)


@compiled.function(inline=False)
def _is_new(state: State, here: int, source: int, sequence: int) -> bool:
    """Whether the message has not been delivered here; from now on it has (lines 12-13, 18-31)."""
    peer = state.peer[here, source]
    word = state.pool.row
    if sequence <= peer[BASE]:
        return False
    row = peer[EARLY]
    while row != NONE:
        if word[row + SEQUENCE] == sequence:
            return False
        row = word[row + LINK]
    if sequence > peer[BASE] + 1:
        row = rows.take(state.pool)
        word[row + LINK] = peer[EARLY]
        word[row + SEQUENCE] = sequence
        peer[EARLY] = row
        return True
    peer[BASE] = sequence
    while _close_gap(state, here, source):
        peer[BASE] += 1
    return True


@compiled.function()
def _close_gap(state: State, here: int, source: int) -> bool:
    """Whether the message after the gapless ones was early; its row is given back."""
    peer = state.peer[here, source]
    word = state.pool.row
    row, before = peer[EARLY], NONE
    while row != NONE and word[row + SEQUENCE] != peer[BASE] + 1:
        before, row = row, word[row + LINK]
    if row == NONE:
        return False
    if before == NONE:
        peer[EARLY] = word[row + LINK]
    else:
        word[before + LINK] = word[row + LINK]
    rows.give_back(state.pool, row)
    return True


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    if tester.is_fenced(state.detector, here):
        return DONE
    if not tester.owns_timer(key):
        bundling.expire(state.bundles, state.pool, here, key, host)
    elif tester.is_crash(key):
        return _crash(state, here, tester.process_of(key), host)
    else:
        tester.on_expiry(state.detector, here, key, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    if tester.is_on(state.detector):
        return DONE
    return _crash(state, here, crashed, host)


@compiled.function(inline=False)
def _crash(state: State, here: int, crashed: int, host: Host) -> int:
    """CRASH (lines 73-87): forget what the crashed one asked for, replace it as a child."""
    peer = state.peer[here, crashed]
    own = state.process[here]
    if peer[CRASHED] != 0:
        return DONE
    if not _has_room(state, here, own[ROWS], own[ROWS], host):
        return FULL
    peer[CRASHED] = 1
    bundling.discard(state.bundles, state.pool, here, crashed, host)
    while peer[EARLY] != NONE:
        row = peer[EARLY]
        peer[EARLY] = state.pool.row[row + LINK]
        rows.give_back(state.pool, row)
    # First all that nobody waits for any more: what is left of a message then tells who sends.
    row = own[FIRST]
    while row != NONE:
        following = state.pool.row[row + NEXT]
        slot = state.pool.row[row + SLOT]
        if state.pool.row[row + PARENT] == crashed or source_of(host, slot) == crashed:
            _end(state, here, row)
            _forget(state, here, slot, host)
        row = following
    s = topology.cluster(own[PROCESS], crashed)
    if own[CHILD + s] == crashed:
        own[CHILD + s] = topology.first_correct(
            own[PROCESS], s, state.peer[here, :, CRASHED], state.mark[NODES]
        )
        _replace(state, here, s, host)
    return DONE


@compiled.function(inline=False)
def _replace(state: State, here: int, s: int, host: Host) -> None:
    """The child in cluster s has changed: ask the new one, or stop waiting if there is none."""
    child = state.process[here, CHILD + s]
    row = state.process[here, FIRST]
    while row != NONE:
        following = state.pool.row[row + NEXT]
        slot = state.pool.row[row + SLOT]
        awaited = state.pool.row[row + AWAITED]
        if awaited & (1 << s) != 0:
            if child != NONE:
                if _asks_first(state, here, slot, row, s):
                    state.mark[RETRANSMISSIONS] += 1
                    give(state.bundles, state.pool, here, child, TREE, slot, host)
            elif awaited == 1 << s:
                parent = state.pool.row[row + PARENT]
                _end(state, here, row)
                _finish(state, here, parent, slot, host)
                _forget(state, here, slot, host)
            else:
                state.pool.row[row + AWAITED] = awaited & ~(1 << s)
        row = following


@compiled.function()
def _asks_first(state: State, here: int, slot: int, row: int, s: int) -> bool:
    """Whether this is the first row of the message that waits for cluster s: the child is asked
    once, for all of them."""
    first = state.first[here, slot]
    while state.pool.row[first + AWAITED] & (1 << s) == 0:
        first = state.pool.row[first + SAME]
    return first == row


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 8
