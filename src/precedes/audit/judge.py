"""The second pass: judge what each node delivered, from its rows and the table of pasts.

A delivery is in order iff its message is its source's head at the node and all its generators are
satisfied just before; if not, the message is *late*, and satisfied when the rest has come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.order import bit, has_bit, words_for
from precedes.audit.table import (
    Frontier,
    Table,
    clear_frontier,
    make_frontier,
    mark_late,
    missing,
    satisfy,
    settle,
    touch,
    wait,
)
from precedes.compiled.tiers import paced
from precedes.trace.rows import BROADCAST, CHUNK_ROWS, DELIVER, JOIN, Rows

# Columns of ``tallies``, one row a node.
DELIVERIES: Final = 0  # at nodes other than the source, phantoms too
DUPLICATES: Final = 1
PHANTOM: Final = 2  # joins with what nobody broadcast too
VIOLATIONS: Final = 3
HAS: Final = 4  # messages of other sources that never crashed, delivered or joined with
OWN: Final = 5  # own messages delivered
OWN_EXCUSED: Final = 6  # own messages joined with and never delivered
UNJUDGED: Final = 7  # messages delivered with a cycle in their past
TALLIES: Final = 8


class Facts(NamedTuple):
    """What the second phase has to know beside the table."""

    counts: NDArray[np.int32]  # source: its messages, judged or not
    own: NDArray[np.uint8]  # message: its source has a delivery of it
    correct: NDArray[np.uint8]  # source: it never crashed


class Judged(NamedTuple):
    """The part of nodes ``span[0]`` up to ``span[1]``."""

    span: NDArray[np.int64]
    tallies: NDArray[np.int64]  # node, column
    violating: NDArray[np.uint64]  # bits by message: some delivery of it is a violation
    # The first violations by (node, position), as many as were asked for.
    node: NDArray[np.int32]
    position: NDArray[np.int64]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]
    # What nobody broadcast and some node delivered or joined with, each pair once, rising.
    phantom_source: NDArray[np.int32]
    phantom_seq: NDArray[np.int32]


class _Found(NamedTuple):
    """Findings while rows are read."""

    registers: NDArray[np.int64]
    tallies: NDArray[np.int64]
    violating: NDArray[np.uint64]
    node: NDArray[np.int32]
    position: NDArray[np.int64]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]
    phantom_source: NDArray[np.int32]
    phantom_seq: NDArray[np.int32]


_NODE: Final = 0
_POSITION: Final = 1
_OWN_COVERED: Final = 2
_VIOLATIONS: Final = 3  # written down
_PHANTOMS: Final = 4
_FIRST: Final = 5
_REGISTERS: Final = 6


def judge(
    rows: Rows,
    first: int,
    last: int,
    *,
    table: Table,
    facts: Facts,
    violations_max: int,
    chunk_rows: int = CHUNK_ROWS,
    on_rows: Callable[[int], None] | None = None,
) -> Judged:
    """The part of nodes ``first`` up to ``last``, with its first ``violations_max`` violations."""
    frontier = make_frontier(table)
    found = _Found(
        registers=np.zeros(_REGISTERS, np.int64),
        tallies=np.zeros((last - first, TALLIES), np.int64),
        violating=np.zeros(words_for(table.place.size), np.uint64),
        node=np.zeros(violations_max, np.int32),
        position=np.zeros(violations_max, np.int64),
        source=np.zeros(violations_max, np.int32),
        seq=np.zeros(violations_max, np.int32),
        phantom_source=np.empty(0, np.int32),
        phantom_seq=np.empty(0, np.int32),
    )
    found.registers[_NODE] = -1
    found.registers[_FIRST] = first
    phantoms = np.empty(0, np.int64)
    for chunk in rows.chunks(first, last, chunk_rows=chunk_rows):
        if found.phantom_seq.size < chunk.kind.size:
            room = np.empty((2, chunk.kind.size), np.int32)
            found = found._replace(phantom_source=room[0], phantom_seq=room[1])
        paced(JUDGE, rows=chunk.kind.size)(*chunk, table, facts, frontier, found)
        count = int(found.registers[_PHANTOMS])
        if count:
            found.registers[_PHANTOMS] = 0
            met = _keys(found.phantom_source[:count], found.phantom_seq[:count])
            phantoms = np.union1d(phantoms, met)
        if on_rows is not None:
            on_rows(chunk.kind.size)
    paced(FINISH)(table, facts, frontier, found)
    count = int(found.registers[_VIOLATIONS])
    return Judged(
        span=np.array([first, last], np.int64),
        tallies=found.tallies,
        violating=found.violating,
        node=found.node[:count].copy(),
        position=found.position[:count].copy(),
        source=found.source[:count].copy(),
        seq=found.seq[:count].copy(),
        phantom_source=(phantoms >> 32).astype(np.int32),
        phantom_seq=((phantoms & 0xFFFFFFFF) - 2**31).astype(np.int32),
    )


def _keys(source: NDArray[np.int32], seq: NDArray[np.int32]) -> NDArray[np.int64]:
    """Pairs as numbers that sort like them."""
    return (source.astype(np.int64) << 32) + (seq.astype(np.int64) + 2**31)


def judge_rows(
    first: int,
    bounds: NDArray[np.int64],
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    table: Table,
    facts: Facts,
    frontier: Frontier,
    found: _Found,
) -> None:
    """Judge the rows of a chunk."""
    registers = found.registers
    nodes = frontier.satisfied.size
    for i in range(bounds.size - 1):
        node = first + i
        if bounds[i] == bounds[i + 1]:
            continue
        if node != registers[_NODE]:
            finish(table, facts, frontier, found)
            registers[_NODE] = node
        tallies = found.tallies[node - registers[_FIRST]]
        position = registers[_POSITION]
        deliveries = 0
        has = 0
        for row in range(bounds[i], bounds[i + 1]):
            what = kind[row]
            s = source[row]
            q = seq[row]
            if what == DELIVER:
                position += 1
                if s < 0 or s >= nodes:
                    deliveries += _phantom(s, q, tallies, found)
                    continue
                deliveries += s != node
                # The usual case first: the next of its source, not here, with all its past.
                if (
                    q == frontier.satisfied[s] + 1
                    and q <= table.counts[s]
                    and frontier.waits_for[s] == 0
                ):
                    message = table.base[s] + q - 1
                    own = table.place[message]
                    if q > frontier.covered[s] and missing(table, frontier, own) < 0:
                        satisfy(table, frontier, s, own)
                        has += s != node and facts.correct[s] != 0
                        if frontier.waiters[s] >= 0 or has_bit(frontier.late, message + 1):
                            settle(table, frontier, s)
                        continue
                if q < 1 or q > facts.counts[s]:
                    deliveries += _phantom(s, q, tallies, found) - (s != node)
                    continue
                has += _deliver(node, position - 1, s, q, table, facts, frontier, found)
            elif what == BROADCAST:
                position += 1
                message = table.base[s] + q - 1
                if facts.own[message] == 0 and q <= table.counts[s]:
                    _have(s, q, message, table, frontier)
            elif what == JOIN and q != 0:
                has += _join(node, s, q, table, facts, frontier, found)
        registers[_POSITION] = position
        tallies[DELIVERIES] += deliveries
        tallies[HAS] += has


@compiled.function()
def _phantom(source: int, seq: int, tallies: NDArray[np.int64], found: _Found) -> int:
    """Note a message that nobody broadcast; returns 1, for it counts as a delivery."""
    tallies[PHANTOM] += 1
    count = found.registers[_PHANTOMS]
    found.phantom_source[count] = source
    found.phantom_seq[count] = seq
    found.registers[_PHANTOMS] = count + 1
    return 1


@compiled.function(inline=False)
def _violation(
    node: int,
    position: int,
    source: int,
    seq: int,
    message: int,
    tallies: NDArray[np.int64],
    found: _Found,
) -> None:
    tallies[VIOLATIONS] += 1
    found.violating[message >> 6] |= bit(message)
    count = found.registers[_VIOLATIONS]
    if count < found.node.size:
        found.node[count] = node
        found.position[count] = position
        found.source[count] = source
        found.seq[count] = seq
        found.registers[_VIOLATIONS] = count + 1


@compiled.function(inline=False)
def _deliver(
    node: int,
    position: int,
    source: int,
    seq: int,
    table: Table,
    facts: Facts,
    frontier: Frontier,
    found: _Found,
) -> int:
    """Judge any delivery of a message that was broadcast; returns whether it counts for HAS."""
    registers = found.registers
    tallies = found.tallies[node - registers[_FIRST]]
    message = table.base[source] + seq - 1
    is_here = seq <= frontier.covered[source]
    has = 1 if source != node and facts.correct[source] != 0 and not is_here else 0
    if seq <= frontier.satisfied[source] or has_bit(frontier.late, message):
        tallies[DUPLICATES] += 1
        return 0
    if seq > table.counts[source]:
        tallies[UNJUDGED] += 1
        tallies[DUPLICATES] += is_here
        mark_late(frontier, message)
        return has
    if is_here:
        tallies[DUPLICATES] += 1
        return 0
    if not _have(source, seq, message, table, frontier):
        _violation(node, position, source, seq, message, tallies, found)
    return has


@compiled.function(inline=False)
def _have(source: int, seq: int, message: int, table: Table, frontier: Frontier) -> bool:
    """A message is here now; returns whether all its past was here before."""
    if seq == frontier.satisfied[source] + 1:
        own = table.place[message]
        place = missing(table, frontier, own)
        if place < 0:
            satisfy(table, frontier, source, own)
            settle(table, frontier, source)
            return True
        wait(table, frontier, source, place)
    mark_late(frontier, message)
    return False


@compiled.function(inline=False)
def _join(
    node: int, source: int, seq: int, table: Table, facts: Facts, frontier: Frontier, found: _Found
) -> int:
    """The node has this message and the earlier ones of its source; returns what HAS gains.

    What it broadcast itself it has anyway, but need not deliver any more.
    """
    registers = found.registers
    if source < 0 or source >= frontier.satisfied.size or seq < 1 or seq > facts.counts[source]:
        _phantom(source, seq, found.tallies[node - registers[_FIRST]], found)
        return 0
    if source == node:
        registers[_OWN_COVERED] = max(registers[_OWN_COVERED], np.int64(seq))
        return 0
    has = 0
    for earlier in range(max(frontier.covered[source], frontier.satisfied[source]) + 1, seq + 1):
        has += not has_bit(frontier.late, table.base[source] + earlier - 1)
    touch(frontier, source)
    frontier.covered[source] = max(frontier.covered[source], seq)
    settle(table, frontier, source)
    return has if facts.correct[source] != 0 else 0


@compiled.function(inline=False)
def finish(table: Table, facts: Facts, frontier: Frontier, found: _Found) -> None:
    """Count what is known of a node when all its rows were read, and empty its frontier."""
    registers = found.registers
    node = registers[_NODE]
    if node >= 0:
        tallies = found.tallies[node - registers[_FIRST]]
        for message in range(table.base[node], table.base[node + 1]):
            tallies[OWN] += facts.own[message]
            is_covered = message - table.base[node] < registers[_OWN_COVERED]
            tallies[OWN_EXCUSED] += is_covered and facts.own[message] == 0
        clear_frontier(table, frontier)
    registers[_POSITION] = 0
    registers[_OWN_COVERED] = 0


JUDGE: Final = compiled.Entry(judge_rows, label="the audit", job="audit")
FINISH: Final = compiled.Entry(finish, label="the audit", job="audit")
