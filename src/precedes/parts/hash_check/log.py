"""What a process has delivered most recently, its own broadcasts among it, in its own order.

A ring for each hosted process. Its newest part serves the search for what another process had
not delivered; a longer part, back to the oldest own message that somebody may still ask about,
tells the direct dependencies of own messages: all that stands between one own message and the
next. Own messages that everybody has delivered need no answer, so the part before them is
collected. A ring that is full forgets its oldest entry, and what is asked about then cannot be
answered.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Int32s, Int64s

from . import set_hash
from .set_hash import Sums, packed, sequence_in, source_in

# Newest deliveries that are searched for what a sender lacked. With delays of 0.1 s, 256 are more
# than enough for 1,000 broadcasts a second; 64 are too few from 200 on. Too few make a search
# fail, and what waits then makes others fail.
WINDOW: Final = 256
LENGTH_MIN: Final = 64
NOWHERE: Final = -1
EVERYTHING: Final = 2**31 - 1  # no sequence number is larger

# Columns of ``end``.
NEXT: Final = 0
OLDEST: Final = 1

# Number of runs kept of a source's messages that hit the same parts of the clock, and its columns.
RUNS: Final = 4
PARTS: Final = 0
FIRST: Final = 1


class Log(NamedTuple):
    """Positions count all that a process has delivered, from 0; a ring holds the last of them."""

    name: Int64s  # process, position modulo the length -> packed name
    hash: Int64s  # process, position modulo the window -> hash
    parts: Int64s  # process, position modulo the window -> parts of the clock that it hit, packed
    end: Int64s  # process -> the next position; the oldest that is kept for answers
    acknowledged: Int32s  # process, other -> own messages that the other has delivered
    longest: Int64s  # one number: most positions that a process kept for answers
    # For a clock that tells processes apart, else empty:
    sums: Sums
    runs: Int64s  # process, source, newest run first -> parts that a run hit, its first message


def allocate(
    *, processes: int, nodes: int, length: int, key: Int64s, tells_apart: bool = False
) -> Log:
    """Empty logs of ``length`` entries or more: a power of two, at least LENGTH_MIN."""
    size = 1 << (max(length, LENGTH_MIN) - 1).bit_length()
    window = min(WINDOW, size)
    sources = nodes if tells_apart else 0
    runs = np.zeros((processes, sources, RUNS, 2), np.int64)
    runs[:, :, 0, FIRST] = 1
    return Log(
        name=np.zeros((processes, size), np.int64),
        hash=np.zeros((processes, window), np.int64),
        parts=np.zeros((processes, window), np.int64),
        end=np.zeros((processes, 2), np.int64),
        acknowledged=np.zeros((processes, nodes), np.int32),
        longest=np.zeros(1, np.int64),
        sums=set_hash.allocate_sums(sources=sources, key=key),
        runs=runs,
    )


@compiled.function()
def name_at(log: Log, here: int, position: int) -> int:
    """The packed name of what was delivered at a position that the ring still holds."""
    return log.name[here, position & (log.name.shape[1] - 1)]


@compiled.function()
def append(log: Log, here: int, name: int, hashed: int, parts: int) -> None:
    """Enter a delivery; a full ring forgets its oldest."""
    end = log.end[here, NEXT]
    length = log.name.shape[1]
    log.name[here, end & (length - 1)] = name
    newest = end & (log.hash.shape[1] - 1)
    log.hash[here, newest] = hashed
    log.parts[here, newest] = parts
    log.end[here, NEXT] = end + 1
    log.end[here, OLDEST] = max(log.end[here, OLDEST], end + 1 - length)
    log.longest[0] = max(log.longest[0], end + 1 - log.end[here, OLDEST])
    if log.runs.shape[1] != 0:
        source = source_in(name)
        set_hash.extend(log.sums, source, sequence_in(name), hashed)
        if parts != log.runs[here, source, 0, PARTS]:
            _begin_run(log.runs[here, source], parts, sequence_in(name))


@compiled.function(inline=False)
def _begin_run(runs: Int64s, parts: int, sequence: int) -> None:
    """A source's messages hit other parts of the clock from this one on."""
    for later in range(RUNS - 1, 0, -1):
        runs[later, PARTS], runs[later, FIRST] = runs[later - 1, PARTS], runs[later - 1, FIRST]
    runs[0, PARTS], runs[0, FIRST] = parts, sequence


@compiled.function(inline=False)
def collect(log: Log, here: int, node: int) -> None:
    """Forget what stands before the newest own message that everybody has delivered."""
    stable = np.int32(EVERYTHING)
    for other in range(log.acknowledged.shape[1]):
        if other != node:
            stable = min(stable, log.acknowledged[here, other])
    at = log.end[here, OLDEST]
    while at < log.end[here, NEXT]:
        name = name_at(log, here, at)
        if source_in(name) == node:
            # An own message that is not stable still needs all that stands before it.
            if sequence_in(name) > stable:
                return
            log.end[here, OLDEST] = at
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
    """A process that has stopped asks about nothing: no part of the log is kept for it."""
    log.acknowledged[here, crashed] = EVERYTHING


@compiled.function(inline=False)
def find_own(log: Log, here: int, node: int, sequence: int) -> int:
    """Where an own message is in what is kept, or NOWHERE."""
    wanted = packed(node, sequence)
    at = log.end[here, NEXT] - 1
    while at >= log.end[here, OLDEST]:
        if name_at(log, here, at) == wanted:
            return at
        at -= 1
    return NOWHERE
