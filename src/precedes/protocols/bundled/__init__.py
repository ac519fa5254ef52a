"""Best-effort broadcast on self-healing trees, with messages bundled where trees overlap.

Source: Rodrigues et al. 2018, Algorithm 2, with its published errors corrected
(docs/protocols/bundled.md).

Algorithm. A message travels down the VCube tree of its source. Who receives it from j covers its
clusters below that of j: it sends the message (TREE) to the first fault-free process of each and
answers j (ACK) when all of these have answered. The source is done (COMPLETE) when its own
children have answered. When a child crashes, the next fault-free process of its cluster takes its
place. Items to the same target wait up to ``delay_max_ms`` to leave in one packet of at most
``payload_max_bytes`` (CHECK_BUNDLE, in ``bundles``).

Assumes that packets between correct processes arrive, and a failure detector that suspects just
the crashed: the host's (``on_crash``), or with ``tests`` that of ``parts.tester``, which fences.

Guarantee: a message of a correct source is delivered exactly once at every correct process, whoever
else crashes, and the source learns when. No order, and no promise for a source that crashes. Cost:
two items for each process and message, in as few packets as the bundles allow.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.compiled import ZERO
from precedes.contract import (
    DONE,
    FULL,
    LENGTH,
    MESSAGE,
    REFERENCE,
    Host,
    Int64s,
    admits,
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
from precedes.model import EventKind
from precedes.parts import tester, topology
from precedes.parts.pool import NONE, has_rows

from . import ack_set, bundles, delivered
from .bundles import check_bundle
from .state import (
    ACK,
    CHILD,
    COMPLETIONS,
    DIMENSION,
    LAST_COMPLETION_NS,
    NODES,
    PROCESS,
    RETRANSMISSIONS,
    TREE,
    Parameters,
    State,
    allocate,
    extra,
)

__all__ = ["ACK", "TREE", "Parameters", "State", "allocate", "extra"]

ITEMS: Final = (MESSAGE, REFERENCE, *tester.ITEMS)
MESSAGE_FIELDS: Final[tuple[str, ...]] = ()
GUARANTEE: Final = "none"
ASSUMES: Final = frozenset({"reliable"})
ROUTE: Final = "tree"

COMPLETE_KIND: Final = int(EventKind.COMPLETE)


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


@compiled.function()
def _has_room(state: State, here: int, items: int, others: int, host: Host) -> bool:
    """Whether so many items and other rows fit into the pool, and their effects to the host."""
    leaving = items + state.bundles.waiting[here]
    words = 64 + bundles.WORDS_PER_ITEM * leaving + 8 * others
    unused = host.effects.size - host.registers[LENGTH]
    return words <= unused and has_rows(state.pool, items + others)


@compiled.function(inline=False)
def _forward(state: State, here: int, parent: int, top: int, slot: int, host: Host) -> None:
    """FORWARD (lines 32-35): have clusters top..1 covered for the parent.

    A child that has been asked for another parent and has not answered is not asked again.
    """
    asked = ack_set.clusters_of(state.awaited, state.pool, here, slot)
    clusters = 0
    for s in range(top, 0, -1):
        child = state.process[here, CHILD + s]
        if child != NONE:
            clusters |= 1 << s
            if asked & (1 << s) == 0:
                check_bundle(state.bundles, state.pool, here, child, TREE, slot, host)
    if clusters == 0:
        _finish(state, here, parent, slot, host)
        return
    if state.awaited.first[here, slot] == NONE:
        keep(host, slot)  # it may have to be sent again
    ack_set.begin(state.awaited, state.pool, here, slot, parent, clusters)


@compiled.function(inline=False)
def _check_acks(state: State, here: int, row: int, s: int, host: Host) -> None:
    """CHECK_ACKS (lines 51-55): cluster s is covered, or has nobody left, for this row's parent."""
    word = state.pool.row
    clusters = word[row + ack_set.CLUSTERS]
    if clusters == 1 << s:
        parent, slot = int(word[row + ack_set.PARENT]), int(word[row + ack_set.SLOT])
        ack_set.end(state.awaited, state.pool, here, row)
        _finish(state, here, parent, slot, host)
    else:
        word[row + ack_set.CLUSTERS] = clusters & ~(1 << s)


@compiled.function(inline=False)
def _finish(state: State, here: int, parent: int, slot: int, host: Host) -> None:
    """All that a parent asked for is covered."""
    if parent == state.process[here, PROCESS]:
        state.mark[COMPLETIONS] += 1
        state.mark[LAST_COMPLETION_NS] = now_ns(host)
        note(host, COMPLETE_KIND, slot)
    else:
        check_bundle(state.bundles, state.pool, here, parent, ACK, slot, host)


@compiled.function()
def _forget(state: State, here: int, slot: int, host: Host) -> None:
    """Let the message go when nobody waits for it; line 53 does so when one parent is done."""
    if state.awaited.first[here, slot] == NONE:
        drop(host, slot)


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
                _receive_ack(state, here, sender, slot, host)
        elif fenced:
            drop(host, slot)
        else:
            _receive_tree(state, here, sender, slot, host)
    return DONE


@compiled.function(inline=False)
def _receive_tree(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """TREE from ``sender`` (lines 62-65 and 10-17): deliver, cover the clusters below, answer."""
    source = source_of(host, slot)
    if state.crashed[here, sender] != 0 or state.crashed[here, source] != 0:
        drop(host, slot)
        return
    is_new = delivered.is_new(state.source[here, source], state.pool, sequence_of(host, slot))
    if ack_set.row_of(state.awaited, state.pool, here, slot, sender) == NONE:
        top = topology.cluster(state.process[here, PROCESS], sender) - 1
        _forward(state, here, sender, top, slot, host)
    if is_new:
        deliver(host, slot)
    else:
        drop(host, slot)


@compiled.function(inline=False)
def _receive_ack(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """ACK from ``sender`` (lines 66-69): it covers its cluster, whoever of the parents asked."""
    row = int(state.awaited.first[here, slot])
    s = topology.cluster(state.process[here, PROCESS], sender)
    if row == NONE or state.process[here, CHILD + s] != sender:
        return
    while row != NONE:
        following = int(state.pool.row[row + ack_set.SAME])
        _check_acks(state, here, row, s, host)
        row = following
    _forget(state, here, slot, host)


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    if tester.is_fenced(state.detector, here):
        return DONE
    if tester.crash_of(key) >= 0:
        return _crash(state, here, tester.crash_of(key), host)
    if tester.owns_timer(key):
        tester.on_expiry(state.detector, here, key, host)
    else:
        bundles.expire(state.bundles, state.pool, here, key, host)
    return DONE


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    return DONE if tester.is_on(state.detector) else _crash(state, here, crashed, host)


@compiled.function(inline=False)
def _crash(state: State, here: int, crashed: int, host: Host) -> int:
    """CRASH (lines 73-87): forget what the crashed one asked for, replace it as a child."""
    if state.crashed[here, crashed] != 0:
        return DONE
    count = int(state.awaited.ends[here, ack_set.COUNT])
    if not _has_room(state, here, count, count, host):
        return FULL
    state.crashed[here, crashed] = 1
    bundles.discard(state.bundles, state.pool, here, crashed, host)
    delivered.forget(state.source[here, crashed], state.pool)
    # First what nobody waits for any more: the rows left then tell who has to ask the next child.
    row = int(state.awaited.ends[here, ack_set.FIRST])
    while row != NONE:
        following = int(state.pool.row[row + ack_set.NEXT])
        slot = int(state.pool.row[row + ack_set.SLOT])
        if state.pool.row[row + ack_set.PARENT] == crashed or source_of(host, slot) == crashed:
            ack_set.end(state.awaited, state.pool, here, row)
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
    row = int(state.awaited.ends[here, ack_set.FIRST])
    while row != NONE:
        following = int(state.pool.row[row + ack_set.NEXT])
        slot = int(state.pool.row[row + ack_set.SLOT])
        if state.pool.row[row + ack_set.CLUSTERS] & (1 << s) != 0:
            if child == NONE:
                _check_acks(state, here, row, s, host)
                _forget(state, here, slot, host)
            elif ack_set.asks_first(state.awaited, state.pool, here, row, s):
                state.mark[RETRANSMISSIONS] += 1
                check_bundle(state.bundles, state.pool, here, child, TREE, slot, host)
        row = following


@compiled.register(admits, State)
def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    # A live host tests by itself; the protocol's own detector takes no part.
    return tag <= ACK


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return 8  # source and sequence number, 4 bytes each
