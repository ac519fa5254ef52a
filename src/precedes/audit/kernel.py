"""The compiled parts of the exact audit. They use each node's own order and nothing else.

A message's past is the closure of "broadcast or delivered at its sender before it was
broadcast". Messages are renumbered by ``place``, an order in which every past comes first;
everything after ``order_messages`` speaks of places only. Broadcasts of one node are totally
ordered, so a set of them is implied by its latest, and a short list of generators per message
says its whole past.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.model import EventKind

BROADCAST: Final = int(EventKind.BROADCAST)
NEVER: Final = 2**31 - 1  # the position of what a node never delivered: later than everything
LANES: Final = 16  # int32 in one cache line: nodes are judged in tiles of this width

# Columns of ``tallies``, one row a node.
DELIVERIES: Final = 0
DUPLICATES: Final = 1
PHANTOM: Final = 2
DUE: Final = 3  # first deliveries of messages of other sources that never crashed
VIOLATIONS: Final = 4
EXCUSED: Final = 5  # messages of such sources that the node joined with
OWN: Final = 6  # first deliveries of own messages
OWN_EXCUSED: Final = 7  # own messages that it joined with and never delivered
TALLIES: Final = 8


class Log(NamedTuple):
    """A history, and where in it each message was broadcast."""

    offsets: NDArray[np.int64]  # node p's rows are offsets[p] to offsets[p + 1]
    kind: NDArray[np.int8]  # row
    message: NDArray[np.int32]  # row
    message_source: NDArray[np.int32]  # message; -1 for a phantom
    broadcast_row: NDArray[np.int64]  # message; -1 for a phantom


class Walk(NamedTuple):
    """How far the depth-first walk has read each node's rows, and who waits for whom."""

    cursor: NDArray[np.int64]  # node: the next row to read
    goal: NDArray[np.int64]  # node: the row to read up to
    stack: NDArray[np.int32]
    on_stack: NDArray[np.uint8]  # node


class Placed(NamedTuple):
    """The same rows by place."""

    offsets: NDArray[np.int64]
    kind: NDArray[np.int8]  # row
    row_place: NDArray[np.int32]  # row; -1 for a phantom
    place_source: NDArray[np.int32]  # place
    heard: NDArray[np.uint8]  # place: 0 if it lies in no past
    broadcast_rows: NDArray[np.int64]  # rising
    broadcast_offsets: NDArray[np.int64]  # node p's broadcasts in ``broadcast_rows``


class Past(NamedTuple):
    """Generators ``begin[m]`` to ``end[m]`` and what they imply are the past of m."""

    generators: NDArray[np.int32]
    begin: NDArray[np.int64]  # place
    end: NDArray[np.int64]  # place
    floor: NDArray[np.int32]  # place: what was heard of the places below it is all in its past


class Joins(NamedTuple):
    """What nodes begin with when they join: messages ``first`` up to ``last`` of a source.

    A row of a log has the position 2 * row + 1, a join before it 2 * row. Each message is in the
    first of a node's joins that covers it, and in no other.
    """

    offsets: NDArray[np.int64]  # node p's joins are offsets[p] to offsets[p + 1]
    position: NDArray[np.int32]
    source: NDArray[np.int32]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


class Tile(NamedTuple):
    """The working area for one block of nodes."""

    position: NDArray[np.int32]  # place, node of the block
    need: NDArray[np.int32]  # node of the block


class Findings(NamedTuple):
    """What the blocks add up."""

    self_delivered: NDArray[np.uint8]  # place: its source has a delivery of its own
    violating: NDArray[np.uint8]  # place: some delivery of it is a violation
    tallies: NDArray[np.int64]  # node, column


def order_messages(
    log: Log,
    walk: Walk,
    roots: NDArray[np.int32],
    place: NDArray[np.int32],
    heard: NDArray[np.uint8],
) -> int:
    """Number the roots and their pasts, pasts first; return how many rows stand in cycles.

    Depth first over rows: a node's rows are read up to a broadcast, and a delivery of a message
    without a place first reads its source's rows up to that broadcast. Every row is read once.
    A source that is itself waiting means that the delivery lies in its own message's past: the
    log contradicts itself, and the numbers mean nothing.
    """
    count = 0
    in_cycles = 0
    for i in range(roots.size):
        depth = _wait_for(log, walk, roots[i], 0) if place[roots[i]] < 0 else 0
        while depth > 0:
            node = walk.stack[depth - 1]
            row = walk.cursor[node]
            last = walk.goal[node]
            wanted = -1
            while row <= last:
                m = log.message[row]
                source = log.message_source[m]
                if source == node:
                    if log.kind[row] == BROADCAST:
                        place[m] = count
                        count += 1
                    else:
                        in_cycles += place[m] < 0
                elif source >= 0:
                    heard[m] = 1
                    if place[m] < 0:
                        if walk.on_stack[source] == 0:
                            wanted = m
                            break
                        in_cycles += 1
                row += 1
            walk.cursor[node] = row
            if wanted < 0:
                walk.on_stack[node] = 0
                depth -= 1
            else:
                depth = _wait_for(log, walk, wanted, depth)
    return in_cycles


@compiled.function()
def _wait_for(log: Log, walk: Walk, message: int, depth: int) -> int:
    source = log.message_source[message]
    walk.stack[depth] = source
    walk.goal[source] = log.broadcast_row[message]
    walk.on_stack[source] = 1
    return depth + 1


def find_generators(
    placed: Placed, past: Past, known: NDArray[np.int32], slot: NDArray[np.int64]
) -> None:
    """List for each message its source's previous one and the latest of each other source.

    Only sources whose latest changed since the previous broadcast are listed. Looking for the
    floor costs two steps a row at most, so it may be lower than it could be.
    """
    length = 0
    for node in range(placed.offsets.size - 1):
        row = placed.offsets[node]
        previous = -1
        reach = 0
        for b in range(placed.broadcast_offsets[node], placed.broadcast_offsets[node + 1]):
            last = placed.broadcast_rows[b]
            current = placed.row_place[last]
            start = length
            if previous >= 0:
                past.generators[length] = previous
                length += 1
            steps = 2 * (last - row + 1)
            while row < last:
                place = placed.row_place[row]
                row += 1
                # A cause with a later place stands before a message that is not resolved.
                if place < 0 or place >= current:
                    continue
                source = placed.place_source[place]
                if place > known[source]:
                    known[source] = place
                    if slot[source] < start:
                        slot[source] = length
                        length += 1
                    past.generators[slot[source]] = place
            row = last + 1
            while steps > 0 and reach < current:
                if reach > known[placed.place_source[reach]] and placed.heard[reach] != 0:
                    break
                reach += 1
                steps -= 1
            known[node] = current
            past.floor[current] = reach
            past.begin[current] = start
            past.end[current] = length
            previous = current
        _forget(placed, placed.offsets[node], row, known)


@compiled.function(inline=False)
def _forget(placed: Placed, first: int, last: int, known: NDArray[np.int32]) -> None:
    """Set ``known`` back, by the shorter of two ways."""
    if last - first < known.size:
        for row in range(first, last):
            if placed.row_place[row] >= 0:
                known[placed.place_source[placed.row_place[row]]] = -1
    else:
        for source in range(known.size):
            known[source] = -1


def prune_generators(past: Past) -> None:
    """Drop generators that lie below another one's floor, and so in its past."""
    for place in range(past.begin.size):
        low = np.int32(0)
        for i in range(past.begin[place], past.end[place]):
            low = max(low, past.floor[past.generators[i]])
        kept = past.begin[place]
        for i in range(past.begin[place], past.end[place]):
            if past.generators[i] >= low:
                past.generators[kept] = past.generators[i]
                kept += 1
        past.end[place] = kept
        past.floor[place] = max(past.floor[place], low)


def judge_nodes(
    first_node: int,
    last_node: int,
    placed: Placed,
    past: Past,
    correct: NDArray[np.uint8],
    joins: Joins,
    tile: Tile,
    findings: Findings,
) -> None:
    """Judge every delivery at the nodes of one block, and count the other findings there.

    ``tile.position`` arrives full of NEVER. It is filled with the positions of first deliveries
    and then turned, in place, into the position at which a message and its whole past are
    delivered.
    """
    position, need = tile
    for node in range(first_node, last_node):
        _fill(node, node - first_node, placed, correct, position, findings)
        _begin_with(node, node - first_node, placed, correct, joins, position, findings)
    for place in range(past.begin.size):
        if past.begin[place] == past.end[place]:
            continue
        late = _require(past, place, position, need)
        # A message at its own source, without a delivery there, is no delivery to be judged.
        own = placed.place_source[place] - first_node
        if own < 0 or own >= last_node - first_node or findings.self_delivered[place] != 0:
            own = -1
        else:
            late -= need[own] > position[place, own]
        if late > 0:
            for lane in range(last_node - first_node):
                # A node that begins with the message, at an even position, does not deliver it.
                row = position[place, lane] & 1 != 0
                if need[lane] > position[place, lane] and row and lane != own:
                    findings.tallies[first_node + lane, VIOLATIONS] += 1
                    findings.violating[place] = 1
        for lane in range(need.size):
            position[place, lane] = max(position[place, lane], need[lane])


@compiled.function(inline=False)
def _begin_with(
    node: int,
    lane: int,
    placed: Placed,
    correct: NDArray[np.uint8],
    joins: Joins,
    position: NDArray[np.int32],
    findings: Findings,
) -> None:
    """What a join covers the node has from then on; to deliver it after that is a duplicate.

    What it broadcast itself it has anyway, but need not deliver any more.
    """
    tallies = findings.tallies
    for join in range(joins.offsets[node], joins.offsets[node + 1]):
        source = joins.source[join]
        start = placed.broadcast_offsets[source]
        for b in range(start + joins.first[join], start + joins.last[join]):
            place = placed.row_place[placed.broadcast_rows[b]]
            if source == node:
                tallies[node, OWN_EXCUSED] += findings.self_delivered[place] == 0
            elif position[place, lane] == NEVER:
                tallies[node, EXCUSED] += correct[source]
                position[place, lane] = joins.position[join]
            elif position[place, lane] > joins.position[join]:
                tallies[node, DUPLICATES] += 1
                position[place, lane] = joins.position[join]


@compiled.function()
def _fill(
    node: int,
    lane: int,
    placed: Placed,
    correct: NDArray[np.uint8],
    position: NDArray[np.int32],
    findings: Findings,
) -> None:
    """Write down when this node first delivered each message."""
    first = placed.offsets[node]
    deliveries = 0
    duplicates = 0
    phantom = 0
    due = 0
    own = 0
    for row in range(first, placed.offsets[node + 1]):
        place = placed.row_place[row]
        if place < 0:
            phantom += 1
            continue
        source = placed.place_source[place]
        if source == node:
            if placed.kind[row] == BROADCAST:
                # A delivery before the broadcast, if there was one, is the first.
                if findings.self_delivered[place] == 0:
                    position[place, lane] = 2 * (row - first) + 1
            elif findings.self_delivered[place] == 0:
                findings.self_delivered[place] = 1
                own += 1
                position[place, lane] = 2 * (row - first) + 1
            else:
                duplicates += 1
            continue
        deliveries += 1
        if position[place, lane] == NEVER:
            position[place, lane] = 2 * (row - first) + 1
            due += correct[source]
        else:
            duplicates += 1
    findings.tallies[node, DELIVERIES] = deliveries + phantom
    findings.tallies[node, DUPLICATES] = duplicates
    findings.tallies[node, PHANTOM] = phantom
    findings.tallies[node, DUE] = due
    findings.tallies[node, OWN] = own


@compiled.function()
def _require(past: Past, place: int, position: NDArray[np.int32], need: NDArray[np.int32]) -> int:
    """When each node has the past of a message; returns how many had the message before."""
    for lane in range(need.size):
        need[lane] = -1
    for i in range(past.begin[place], past.end[place]):
        cause = past.generators[i]
        for lane in range(need.size):
            need[lane] = max(need[lane], position[cause, lane])
    late = 0
    for lane in range(need.size):
        late += need[lane] > position[place, lane]
    return late


ORDER: Final = compiled.Entry(order_messages, label="the audit")
FIND: Final = compiled.Entry(find_generators, label="the audit")
PRUNE: Final = compiled.Entry(prune_generators, label="the audit")
JUDGE: Final = compiled.Entry(judge_nodes, label="the audit")
