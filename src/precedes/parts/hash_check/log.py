"""Log of a process's most recent deliveries, its own broadcasts included, in its own order.

A ring for each hosted process. Its newest part serves the search for deliveries that another
process lacked; a longer part, back to the oldest own message that may still be requested,
holds the direct dependencies of own messages: the entries between one own message and the
next. Own messages that all have delivered need no answer, so the part before them is
collected. A full ring drops its oldest entry, and requests about it can no longer be
answered.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Int32s, Int64s
from precedes.parts import pool

from . import set_hash
from .set_hash import Sums, packed, sequence_in, source_in

# Newest deliveries in which a search looks for those that a sender lacked. With delays of 0.1 s,
# 256 are enough for 1,000 broadcasts a second; 64 are too few from 200 on. Too few make a search
# fail, and what waits then makes others fail.
WINDOW: Final = 256
LENGTH_MIN: Final = 64
LENGTH_MAX: Final = 1 << 24  # deliveries kept for answers
NOWHERE: Final = -1
EVERYTHING: Final = 2**31 - 1  # above all sequence numbers

# Number of runs kept of a source's messages that hit the same parts of the clock.
RUNS: Final = 4


class Ends(NamedTuple):
    """Positions in the log of each process."""

    next: Int64s
    oldest: Int64s  # that is kept for answers


class Runs(NamedTuple):
    """Messages of a source that hit the same parts: process, source, newest run first."""

    parts: Int64s
    first: Int64s  # sequence number


class Log(NamedTuple):
    """Positions count all deliveries of a process, from 0; a ring holds the last of them."""

    name: Int64s  # process, position modulo the length -> packed name
    hash: Int64s  # process, position modulo the window -> hash
    parts: Int64s  # process, position modulo the window -> parts of the clock that it hit, packed
    end: Ends
    acknowledged: Int32s  # process, other -> own messages that the other has delivered
    longest: Int64s  # one number: most positions that a process kept for answers
    tells_apart: int  # 1 if the clock tells processes apart; otherwise sums and runs are unused
    sums: Sums
    runs: Runs


def allocate(
    *, processes: int, nodes: int, length: int, key: Int64s, tells_apart: bool = False
) -> Log:
    """Empty logs of ``length`` entries or more: a power of two, at least LENGTH_MIN."""
    size = 1 << (max(length, LENGTH_MIN) - 1).bit_length()
    window = min(WINDOW, size)
    sources = nodes if tells_apart else 0
    # The columns of no source would be contiguous, which is another type to compiled code.
    runs = pool.columns(Runs, processes, max(sources, 1), RUNS, dtype=np.int64)
    runs.first[:, :, 0] = 1
    return Log(
        name=np.zeros((processes, size), np.int64),
        hash=np.zeros((processes, window), np.int64),
        parts=np.zeros((processes, window), np.int64),
        end=pool.columns(Ends, processes, dtype=np.int64),
        acknowledged=np.zeros((processes, nodes), np.int32),
        longest=np.zeros(1, np.int64),
        tells_apart=int(tells_apart),
        sums=set_hash.allocate_sums(sources=sources, key=key),
        runs=runs,
    )


@compiled.function()
def name_at(log: Log, here: int, position: int) -> int:
    """The packed name of the delivery at a position that the ring still holds."""
    return log.name[here, position & (log.name.shape[1] - 1)]


@compiled.function()
def append(log: Log, here: int, name: int, hashed: int, parts: int) -> None:
    """Append a delivery; a full ring drops its oldest."""
    end = log.end.next[here]
    length = log.name.shape[1]
    log.name[here, end & (length - 1)] = name
    newest = end & (log.hash.shape[1] - 1)
    log.hash[here, newest] = hashed
    log.parts[here, newest] = parts
    log.end.next[here] = end + 1
    log.end.oldest[here] = max(log.end.oldest[here], end + 1 - length)
    log.longest[0] = max(log.longest[0], end + 1 - log.end.oldest[here])
    if log.tells_apart != 0:
        source = source_in(name)
        set_hash.extend(log.sums, source, sequence_in(name), hashed)
        if parts != log.runs.parts[here, source, 0]:
            _begin_run(log.runs, here, source, parts, sequence_in(name))


@compiled.function(inline=False)
def _begin_run(runs: Runs, here: int, source: int, parts: int, sequence: int) -> None:
    """A source's messages hit other parts of the clock from this one on."""
    hit, first = runs.parts[here, source], runs.first[here, source]
    for later in range(RUNS - 1, 0, -1):
        hit[later], first[later] = hit[later - 1], first[later - 1]
    hit[0], first[0] = parts, sequence


@compiled.function(inline=False)
def collect(log: Log, here: int, node: int) -> None:
    """Drop the entries before the newest own message that all have delivered."""
    stable = np.int32(EVERYTHING)
    for other in range(log.acknowledged.shape[1]):
        if other != node:
            stable = min(stable, log.acknowledged[here, other])
    at = log.end.oldest[here]
    while at < log.end.next[here]:
        name = name_at(log, here, at)
        if source_in(name) == node:
            # An own message that is not stable still needs all entries before it.
            if sequence_in(name) > stable:
                return
            log.end.oldest[here] = at
        at += 1


@compiled.function()
def note_known(log: Log, here: int, other: int, own: int, first_lacked: int) -> None:
    """Another process has delivered all ``own`` messages, or those before ``first_lacked``."""
    known = np.int64(own)
    if first_lacked > 0:
        known = np.int64(first_lacked - 1)
    if known > log.acknowledged[here, other]:
        log.acknowledged[here, other] = known


@compiled.function()
def ask_no_more(log: Log, here: int, crashed: int) -> None:
    """Stop keeping parts of the log for a process that has crashed."""
    log.acknowledged[here, crashed] = EVERYTHING


@compiled.function(inline=False)
def find_own(log: Log, here: int, node: int, sequence: int) -> int:
    """Position of an own message in the kept part, or NOWHERE."""
    wanted = packed(node, sequence)
    at = log.end.next[here] - 1
    while at >= log.end.oldest[here]:
        if name_at(log, here, at) == wanted:
            return at
        at -= 1
    return NOWHERE
