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
    overtakes,
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
PHANTOM: Final = 2  # joins with phantoms too
VIOLATIONS: Final = 3
HAS: Final = 4  # messages of other sources that never crashed, delivered or joined with
OWN: Final = 5  # own messages delivered
OWN_EXCUSED: Final = 6  # own messages joined with and never delivered
UNJUDGED: Final = 7  # messages delivered with a cycle in their past
FIFO: Final = 8  # violations in which an earlier message of the same source comes later
TALLIES: Final = 9


class Facts(NamedTuple):
    """Inputs of the second phase other than the table."""

    counts: NDArray[np.int32]  # source: its messages, judged or not
    own: NDArray[np.uint8]  # message: its source has a delivery of it
    correct: NDArray[np.uint8]  # source: it never crashed


class Judged(NamedTuple):
    """The part of nodes ``span[0]`` up to ``span[1]``."""

    span: NDArray[np.int64]
    tallies: NDArray[np.int64]  # node, column
    violating: NDArray[np.uint64]  # bits by message: some delivery of it is a violation
    # The requested number of first violations by (node, position); those of FIFO order come
    # last, up to the same number.
    node: NDArray[np.int32]
    position: NDArray[np.int64]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]
    is_fifo: NDArray[np.uint8]
    # Phantoms that some node delivered or joined with, each pair once, ascending.
    phantom_source: NDArray[np.int32]
    phantom_seq: NDArray[np.int32]


class _Draft(NamedTuple):
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
_VIOLATIONS: Final = 3  # number of violations stored; the next has those of FIFO order
_FIFO: Final = 4
_PHANTOMS: Final = 5
_FIRST: Final = 6
_REGISTERS: Final = 7


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
    draft = _Draft(
        registers=np.zeros(_REGISTERS, np.int64),
        tallies=np.zeros((last - first, TALLIES), np.int64),
        violating=np.zeros(words_for(table.place.size), np.uint64),
        node=np.zeros(2 * violations_max, np.int32),
        position=np.zeros(2 * violations_max, np.int64),
        source=np.zeros(2 * violations_max, np.int32),
        seq=np.zeros(2 * violations_max, np.int32),
        phantom_source=np.empty(0, np.int32),
        phantom_seq=np.empty(0, np.int32),
    )
    draft.registers[_NODE] = -1
    draft.registers[_FIRST] = first
    phantoms = np.empty(0, np.int64)
    for chunk in rows.chunks(first, last, chunk_rows=chunk_rows):
        if draft.phantom_seq.size < chunk.kind.size:
            room = np.empty((2, chunk.kind.size), np.int32)
            draft = draft._replace(phantom_source=room[0], phantom_seq=room[1])
        paced(JUDGE, rows=chunk.kind.size)(*chunk, table, facts, frontier, draft)
        count = int(draft.registers[_PHANTOMS])
        if count:
            draft.registers[_PHANTOMS] = 0
            met = _keys(draft.phantom_source[:count], draft.phantom_seq[:count])
            phantoms = np.union1d(phantoms, met)
        if on_rows is not None:
            on_rows(chunk.kind.size)
    paced(FINISH)(table, facts, frontier, draft)
    crossing, fifo = draft.registers[_VIOLATIONS : _FIFO + 1].tolist()
    stored = np.r_[:crossing, violations_max : violations_max + fifo]
    return Judged(
        span=np.array([first, last], np.int64),
        tallies=draft.tallies,
        violating=draft.violating,
        node=draft.node[stored],
        position=draft.position[stored],
        source=draft.source[stored],
        seq=draft.seq[stored],
        is_fifo=np.repeat(np.array([0, 1], np.uint8), (crossing, fifo)),
        phantom_source=(phantoms >> 32).astype(np.int32),
        phantom_seq=((phantoms & 0xFFFFFFFF) - 2**31).astype(np.int32),
    )


def _keys(source: NDArray[np.int32], seq: NDArray[np.int32]) -> NDArray[np.int64]:
    """Pairs as integers with the same order."""
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
    draft: _Draft,
) -> None:
    """Judge the rows of a chunk."""
    registers = draft.registers
    nodes = frontier.satisfied.size
    for i in range(bounds.size - 1):
        node = first + i
        if bounds[i] == bounds[i + 1]:
            continue
        if node != registers[_NODE]:
            finish(table, facts, frontier, draft)
            registers[_NODE] = node
        tallies = draft.tallies[node - registers[_FIRST]]
        position = registers[_POSITION]
        deliveries = 0
        has = 0
        for row in range(bounds[i], bounds[i + 1]):
            event_kind = kind[row]
            s = source[row]
            q = seq[row]
            if event_kind == DELIVER:
                position += 1
                if s < 0 or s >= nodes:
                    deliveries += _phantom(s, q, tallies, draft)
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
                    deliveries += _phantom(s, q, tallies, draft) - (s != node)
                    continue
                has += _deliver(node, position - 1, s, q, table, facts, frontier, draft)
            elif event_kind == BROADCAST:
                position += 1
                message = table.base[s] + q - 1
                if facts.own[message] == 0 and q <= table.counts[s]:
                    _have(s, q, message, table, frontier)
            elif event_kind == JOIN and q != 0:
                has += _join(node, s, q, table, facts, frontier, draft)
        registers[_POSITION] = position
        tallies[DELIVERIES] += deliveries
        tallies[HAS] += has


@compiled.function()
def _phantom(source: int, seq: int, tallies: NDArray[np.int64], draft: _Draft) -> int:
    """Note a message without a broadcast; returns 1, for it counts as a delivery."""
    tallies[PHANTOM] += 1
    count = draft.registers[_PHANTOMS]
    draft.phantom_source[count] = source
    draft.phantom_seq[count] = seq
    draft.registers[_PHANTOMS] = count + 1
    return 1


@compiled.function(inline=False)
def _violation(
    node: int,
    position: int,
    source: int,
    seq: int,
    message: int,
    is_fifo: bool,
    tallies: NDArray[np.int64],
    draft: _Draft,
) -> None:
    tallies[VIOLATIONS] += 1
    tallies[FIFO] += is_fifo
    draft.violating[message >> 6] |= bit(message)
    count = draft.registers[_VIOLATIONS + is_fifo]
    half = draft.node.size // 2
    if count < half:
        at = count + half * is_fifo
        draft.node[at] = node
        draft.position[at] = position
        draft.source[at] = source
        draft.seq[at] = seq
        draft.registers[_VIOLATIONS + is_fifo] = count + 1


@compiled.function(inline=False)
def _deliver(
    node: int,
    position: int,
    source: int,
    seq: int,
    table: Table,
    facts: Facts,
    frontier: Frontier,
    draft: _Draft,
) -> int:
    """Judge a delivery of a message that was broadcast; return whether it counts for HAS."""
    registers = draft.registers
    tallies = draft.tallies[node - registers[_FIRST]]
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
        is_fifo = overtakes(table, frontier, source, seq)
        _violation(node, position, source, seq, message, is_fifo, tallies, draft)
    return has


@compiled.function(inline=False)
def _have(source: int, seq: int, message: int, table: Table, frontier: Frontier) -> bool:
    """Enter a message; return whether all its past was entered before."""
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
    node: int, source: int, seq: int, table: Table, facts: Facts, frontier: Frontier, draft: _Draft
) -> int:
    """Enter this message and the earlier ones of its source; return what HAS gains.

    Messages that the node broadcast itself are entered anyway, but need not be delivered any more.
    """
    registers = draft.registers
    if source < 0 or source >= frontier.satisfied.size or seq < 1 or seq > facts.counts[source]:
        _phantom(source, seq, draft.tallies[node - registers[_FIRST]], draft)
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
def finish(table: Table, facts: Facts, frontier: Frontier, draft: _Draft) -> None:
    """Count the final state of a node when all its rows were read, and empty its frontier."""
    registers = draft.registers
    node = registers[_NODE]
    if node >= 0:
        tallies = draft.tallies[node - registers[_FIRST]]
        for message in range(table.base[node], table.base[node + 1]):
            tallies[OWN] += facts.own[message]
            is_covered = message - table.base[node] < registers[_OWN_COVERED]
            tallies[OWN_EXCUSED] += is_covered and facts.own[message] == 0
        clear_frontier(table, frontier)
    registers[_POSITION] = 0
    registers[_OWN_COVERED] = 0


JUDGE: Final = compiled.Entry(judge_rows, label="the audit", job="audit")
FINISH: Final = compiled.Entry(finish, label="the audit", job="audit")
