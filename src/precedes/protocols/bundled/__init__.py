"""Best-effort broadcast on self-healing trees, with messages bundled where trees overlap.

Source: Rodrigues et al. 2018, Algorithm 2, with its published errors corrected
(docs/protocols/bundled.md).

Algorithm. A message travels down the VCube tree of its source. A process that receives it from j
covers its clusters below that of j: it sends the message (TREE) to the first fault-free process of
each and answers j (ACK) when all of these have answered. The source is done (COMPLETE) when its own
children have answered. When a child crashes, the next fault-free process of its cluster takes its
place. Items to the same target wait up to ``delay_max_ms`` to leave in one packet of at most
``payload_max_bytes`` (CHECK_BUNDLE, in ``state``).

Assumes that packets between correct processes arrive, and a failure detector that suspects just
the crashed: the host's (``on_crash``), or with ``tests`` that of ``parts.tester``, which fences.

Guarantee: a message of a correct source is delivered exactly once at every correct process, for any
crashes of others, and the source learns when. No order, and no promise for a source that crashes.
Cost: two items for each process and message, in as few packets as the bundles allow.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.compiled import ZERO
from precedes.contract import MESSAGE, REFERENCE, Host, Int64s, handler, tag_of, value_of
from precedes.model import EventKind
from precedes.parts import tester, topology
from precedes.parts.pool import NONE

from .state import (
    ACK,
    COMPLETIONS,
    LAST_COMPLETION_NS,
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
ON_LOSS: Final = "crash"

COMPLETE_KIND: Final = int(EventKind.COMPLETE)


@handler(State)
def start(state: State, here: int, host: Host) -> None:
    if tester.is_on(state.detector):
        tester.begin(state.detector, here, host)


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    if tester.is_fenced(state.detector, here):
        return
    me = state.hosted[here]
    state.delivered.source.base[here, me] = host.sequence_of(slot)
    _forward(state, here, me, state.dimension, slot, host)


@compiled.function(inline=False)
def _forward(state: State, here: int, parent: int, top: int, slot: int, host: Host) -> None:
    """FORWARD (lines 32-35): have clusters top..1 covered for the parent.

    A child that has been asked for another parent and has not answered is not asked again.
    """
    asked = state.awaited.clusters_of(here, slot)
    clusters = 0
    for s in range(top, 0, -1):
        child = state.child[here, s]
        if child != NONE:
            clusters |= 1 << s
            if asked & (1 << s) == 0:
                state.bundles.check_bundle(here, child, TREE, slot, host)
    if clusters == 0:
        _finish(state, here, parent, slot, host)
        return
    if state.awaited.first[here, slot] == NONE:
        host.keep(slot)  # it may have to be sent again
    state.awaited.add_row(here, slot, parent, clusters)


@compiled.function(inline=False)
def _check_acks(state: State, here: int, row: int, s: int, host: Host) -> None:
    """CHECK_ACKS (lines 51-55): cluster s is covered, or has no process left, for this parent."""
    rows = state.awaited.rows
    clusters = rows.clusters[row]
    if clusters == 1 << s:
        parent, slot = int(rows.parent[row]), int(rows.slot[row])
        state.awaited.remove_row(here, row)
        _finish(state, here, parent, slot, host)
    else:
        rows.clusters[row] = clusters & ~(1 << s)


@compiled.function(inline=False)
def _finish(state: State, here: int, parent: int, slot: int, host: Host) -> None:
    """Answer a parent whose request is covered."""
    if parent == state.hosted[here]:
        state.counter[COMPLETIONS] += 1
        state.counter[LAST_COMPLETION_NS] = host.now_ns()
        host.note(COMPLETE_KIND, slot)
    else:
        state.bundles.check_bundle(here, parent, ACK, slot, host)


@compiled.function()
def _forget(state: State, here: int, slot: int, host: Host) -> None:
    """Release the message when no parent waits for it; line 53 does so when one parent is done."""
    if state.awaited.first[here, slot] == NONE:
        host.drop(slot)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    _take_packet(state, here + ZERO, sender + ZERO, inbox, count + ZERO, host)


@compiled.function(inline=False)
def _take_packet(
    state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> None:
    if tester.owns_packet(state.detector, inbox):
        tester.on_packet(state.detector, here, sender, inbox, count, host)
        return
    fenced = tester.is_fenced(state.detector, here)
    for i in range(count):
        slot = value_of(inbox, i)
        if tag_of(inbox, i) == ACK:
            if not fenced:
                _receive_ack(state, here, sender, slot, host)
        elif fenced:
            host.drop(slot)
        else:
            _receive_tree(state, here, sender, slot, host)


@compiled.function(inline=False)
def _receive_tree(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """TREE from ``sender`` (lines 62-65 and 10-17): deliver, cover the clusters below, answer."""
    source = host.source_of(slot)
    if state.crashed[here, sender] != 0 or state.crashed[here, source] != 0:
        host.drop(slot)
        return
    is_new = state.delivered.is_new(here, source, host.sequence_of(slot))
    if state.awaited.row_of(here, slot, sender) == NONE:
        top = topology.cluster(state.hosted[here], sender) - 1
        _forward(state, here, sender, top, slot, host)
    if is_new:
        host.deliver(slot)
    else:
        host.drop(slot)


@compiled.function(inline=False)
def _receive_ack(state: State, here: int, sender: int, slot: int, host: Host) -> None:
    """ACK from ``sender`` (lines 66-69): it covers its cluster, for all parents that asked."""
    rows = state.awaited.rows
    row = int(state.awaited.first[here, slot])
    s = topology.cluster(state.hosted[here], sender)
    if row == NONE or state.child[here, s] != sender:
        return
    while row != NONE:
        following = int(rows.link[row])
        _check_acks(state, here, row, s, host)
        row = following
    _forget(state, here, slot, host)


@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    if tester.is_fenced(state.detector, here):
        return
    if tester.crash_of(key) >= 0:
        _crash(state, here, tester.crash_of(key), host)
    elif tester.owns_timer(key):
        tester.on_expiry(state.detector, here, key, host)
    else:
        state.bundles.expire(here, key, host)


@handler(State)
def on_crash(state: State, here: int, crashed: int, host: Host) -> None:
    if not tester.is_on(state.detector):
        _crash(state, here, crashed, host)


@compiled.function(inline=False)
def _crash(state: State, here: int, crashed: int, host: Host) -> None:
    """CRASH (lines 73-87): forget the requests of the crashed process, replace it as a child."""
    if state.crashed[here, crashed] != 0:
        return
    state.crashed[here, crashed] = 1
    state.bundles.discard(here, crashed, host)
    state.delivered.forget_early(here, crashed)
    # First the rows of parents that crashed: the remaining rows decide which one asks the next
    # child.
    rows = state.awaited.rows
    row = int(state.awaited.ends.first[here])
    while row != NONE:
        following = int(rows.following[row])
        slot = int(rows.slot[row])
        if rows.parent[row] == crashed or host.source_of(slot) == crashed:
            state.awaited.remove_row(here, row)
            _forget(state, here, slot, host)
        row = following
    me = state.hosted[here]
    s = topology.cluster(me, crashed)
    if state.child[here, s] == crashed:
        view = state.crashed[here]
        state.child[here, s] = topology.first_correct(me, s, view, state.nodes)
        _replace(state, here, s, host)


@compiled.function(inline=False)
def _replace(state: State, here: int, s: int, host: Host) -> None:
    """The child in cluster s has changed: ask the new one, or stop waiting if there is none."""
    child = state.child[here, s]
    rows = state.awaited.rows
    row = int(state.awaited.ends.first[here])
    while row != NONE:
        following = int(rows.following[row])
        slot = int(rows.slot[row])
        if rows.clusters[row] & (1 << s) != 0:
            if child == NONE:
                _check_acks(state, here, row, s, host)
                _forget(state, here, slot, host)
            elif state.awaited.asks_first(here, row, s):
                state.counter[RETRANSMISSIONS] += 1
                state.bundles.check_bundle(here, child, TREE, slot, host)
        row = following


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    # A live host tests by itself; the protocol's own detector is off.
    return tag <= ACK


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8  # source and sequence number, 4 bytes each
