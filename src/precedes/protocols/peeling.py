"""Which of the own deliveries had the sender of a message not delivered? A search by peeling.

A clock counts, for each entry, the delivered messages that hit it: it is a counting Bloom filter
of what its owner has delivered. The own clock less that of a message is therefore the filter of
R, the deliveries that the sender lacked, if nothing of the message's past is missing here. The
hash of R is known too, as the difference of two hashes of sets. To find R is to decode an
invertible Bloom table, not to try out all sets:

- an entry that is hit as often as there are candidates for it takes all of them;
- an entry that is used up rules the others out;
- where neither helps, a candidate of the tightest entry is tried, the newest first.

A set that fits the filter is right if its hash is. R is among the newest deliveries, so the
candidates are first the newest few, then more, up to WINDOW. Bounds: ``limit`` hashes in all,
STAGE_HASHES of them and STAGE_TRIALS trials with the same candidates. At a bound the search ends
without a result, as it does when something is missing; the caller asks the sender then.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.protocols.contract import Int32s, Int64s
from precedes.protocols.delivery_log import WINDOW, Log, name_at
from precedes.protocols.set_hash import minus, plus

MORE: Final = 3  # candidates at first, beyond the size of R
STAGE_HASHES: Final = 8
STAGE_TRIALS: Final = 64

OPEN: Final = 0
TAKEN: Final = 1
RULED_OUT: Final = 2

# Places in ``mark``.
HASHES: Final = 0  # compared, ever
CANDIDATES: Final = 1
COUNT: Final = 2  # candidates taken
SUM: Final = 3  # of their hashes
DECIDED: Final = 4  # length of ``trail``
DEPTH: Final = 5  # trials that are open
OLDEST_OWN: Final = 6  # the first own message in R that was found, or 0
MARKS: Final = 7


class Peeling(NamedTuple):
    """Where a search works; nothing in it but ``mark[HASHES]`` outlives one."""

    excess: Int32s  # entry -> hits of R that no candidate taken accounts for
    hits: Int32s  # entry -> candidates that hit it and are open; zero between searches
    source: Int32s  # candidate -> process
    position: Int64s  # candidate -> in the log
    verdict: Int32s  # candidate -> OPEN, TAKEN or RULED_OUT
    trail: Int32s  # candidates in the order in which they were decided
    trial: Int32s  # open trial -> candidate, length of the trail before
    mark: Int64s


def allocate(*, width: int) -> Peeling:
    """For clocks with rows of this width."""
    return Peeling(
        excess=np.zeros(width, np.int32),
        hits=np.zeros(width, np.int32),
        source=np.zeros(WINDOW, np.int32),
        position=np.zeros(WINDOW, np.int64),
        verdict=np.zeros(WINDOW, np.int32),
        trail=np.zeros(WINDOW, np.int32),
        trial=np.zeros((WINDOW, 2), np.int32),
        mark=np.zeros(MARKS, np.int64),
    )


@compiled.function(inline=False)
def find(
    peel: Peeling,
    log: Log,
    own: Int32s,
    here: int,
    clock: Int32s,
    need: Int32s,
    node: int,
    sender: int,
    difference: int,
    limit: int,
) -> bool:
    """Whether the clock covers ``need`` by a set R of own deliveries whose hash is ``difference``.

    The clock, of ``node`` in row ``here``, has reached ``need`` everywhere. If R is found,
    ``mark[OLDEST_OWN]`` is the sequence number of the first own message in it.
    """
    total = 0
    for x in range(need.size):
        peel.excess[x] = clock[x] - need[x]
        total += peel.excess[x]
    size = total // own.shape[1]
    peel.mark[OLDEST_OWN] = 0
    if size == 0:
        peel.mark[HASHES] += 1
        return difference == 0
    there = min(log.end[here], WINDOW)
    if size > there or size * own.shape[1] != total:
        return False
    width = min(size + MORE, there)
    end = peel.mark[HASHES] + limit
    while True:
        allowed = min(end, peel.mark[HASHES] + STAGE_HASHES)
        if _gather(peel, log, own, here, width, sender) >= size:
            found = _search(peel, log, own, here, size, difference, allowed)
            if found:
                _note_own(peel, log, here, node)
            _clear(peel, own)
            if found:
                return True
        if width == there or peel.mark[HASHES] >= end:
            return False
        width = min(width + max(width // 4, 1), there)


@compiled.function()
def _gather(peel: Peeling, log: Log, own: Int32s, here: int, width: int, sender: int) -> int:
    """The newest deliveries that can be in R: not the sender's, and none hits an entry too much."""
    count = 0
    for back in range(width):
        position = log.end[here] - 1 - back
        source = name_at(log, here, position) >> 32
        fits = source != sender
        for i in range(own.shape[1]):
            if peel.excess[own[source, i]] == 0:
                fits = False
        if fits:
            peel.source[count] = source
            peel.position[count] = position
            peel.verdict[count] = OPEN
            count += 1
    peel.mark[CANDIDATES] = count
    return count


@compiled.function()
def _search(
    peel: Peeling, log: Log, own: Int32s, here: int, size: int, difference: int, allowed: int
) -> bool:
    """Whether ``size`` of the candidates fit and have the hash; ``allowed`` ends the counting."""
    peel.mark[COUNT] = peel.mark[SUM] = peel.mark[DECIDED] = peel.mark[DEPTH] = 0
    for c in range(peel.mark[CANDIDATES]):
        for i in range(own.shape[1]):
            peel.hits[own[peel.source[c], i]] += 1
    for x in range(peel.excess.size):
        if peel.hits[x] < peel.excess[x]:
            return False
    trials = 0
    fits = _settle(peel, log, own, here)
    while True:
        if fits and peel.mark[COUNT] == size:
            peel.mark[HASHES] += 1
            if peel.mark[SUM] == difference:
                return True
            fits = False
        if peel.mark[HASHES] >= allowed or trials == STAGE_TRIALS:
            return False
        choice = _tightest(peel, own) if fits else -1
        if choice >= 0:
            trials += 1
            depth = peel.mark[DEPTH]
            peel.trial[depth, 0] = choice
            peel.trial[depth, 1] = peel.mark[DECIDED]
            peel.mark[DEPTH] = depth + 1
            _take(peel, log, own, here, choice)
        else:
            depth = peel.mark[DEPTH] - 1
            if depth < 0:
                return False
            peel.mark[DEPTH] = depth
            _undo(peel, log, own, here, peel.trial[depth, 1])
            if not _rule_out(peel, own, peel.trial[depth, 0]):
                fits = False
                continue
        fits = _settle(peel, log, own, here)


@compiled.function()
def _settle(peel: Peeling, log: Log, own: Int32s, here: int) -> bool:
    """Decide all candidates that the entries decide; False: they contradict each other."""
    changed = True
    while changed:
        changed = False
        for c in range(peel.mark[CANDIDATES]):
            if peel.verdict[c] != OPEN:
                continue
            used_up = forced = False
            for i in range(own.shape[1]):
                x = own[peel.source[c], i]
                used_up = used_up or peel.excess[x] == 0
                forced = forced or peel.hits[x] == peel.excess[x]
            if used_up:
                if not _rule_out(peel, own, c):
                    return False
                changed = True
            elif forced:
                _take(peel, log, own, here, c)
                changed = True
    return True


@compiled.function()
def _tightest(peel: Peeling, own: Int32s) -> int:
    """The newest open candidate of the entry with the least choice, or -1."""
    best = -1
    least = np.int32(2**31 - 1)
    for c in range(peel.mark[CANDIDATES]):
        if peel.verdict[c] == OPEN:
            for i in range(own.shape[1]):
                x = own[peel.source[c], i]
                if peel.hits[x] - peel.excess[x] < least:
                    least = peel.hits[x] - peel.excess[x]
                    best = c
    return best


@compiled.function(inline=False)
def _take(peel: Peeling, log: Log, own: Int32s, here: int, c: int) -> None:
    for i in range(own.shape[1]):
        x = own[peel.source[c], i]
        peel.hits[x] -= 1
        peel.excess[x] -= 1
    peel.mark[COUNT] += 1
    peel.mark[SUM] = plus(peel.mark[SUM], log.hash[here, peel.position[c] % WINDOW])
    _decide(peel, c, TAKEN)


@compiled.function(inline=False)
def _rule_out(peel: Peeling, own: Int32s, c: int) -> bool:
    """Leave a candidate out; False if an entry has too few left."""
    enough = True
    for i in range(own.shape[1]):
        x = own[peel.source[c], i]
        peel.hits[x] -= 1
        enough = enough and peel.hits[x] >= peel.excess[x]
    _decide(peel, c, RULED_OUT)
    return enough


@compiled.function()
def _decide(peel: Peeling, c: int, verdict: int) -> None:
    peel.verdict[c] = verdict
    peel.trail[peel.mark[DECIDED]] = c
    peel.mark[DECIDED] += 1


@compiled.function(inline=False)
def _undo(peel: Peeling, log: Log, own: Int32s, here: int, length: int) -> None:
    """Open the candidates again that were decided after the trail had this length."""
    while peel.mark[DECIDED] > length:
        peel.mark[DECIDED] -= 1
        c = peel.trail[peel.mark[DECIDED]]
        taken = peel.verdict[c] == TAKEN
        for i in range(own.shape[1]):
            x = own[peel.source[c], i]
            peel.hits[x] += 1
            peel.excess[x] += taken
        if taken:
            peel.mark[COUNT] -= 1
            hashed = log.hash[here, peel.position[c] % WINDOW]
            peel.mark[SUM] = minus(peel.mark[SUM], hashed)
        peel.verdict[c] = OPEN


@compiled.function()
def _note_own(peel: Peeling, log: Log, here: int, node: int) -> None:
    """Keep the first own message in R."""
    for c in range(peel.mark[CANDIDATES]):
        if peel.verdict[c] == TAKEN:
            name = name_at(log, here, peel.position[c])
            if name >> 32 == node:
                peel.mark[OLDEST_OWN] = name & 0xFFFFFFFF


@compiled.function()
def _clear(peel: Peeling, own: Int32s) -> None:
    """Put the entries back to what they were before the candidates were gathered."""
    for c in range(peel.mark[CANDIDATES]):
        for i in range(own.shape[1]):
            x = own[peel.source[c], i]
            if peel.verdict[c] == OPEN:
                peel.hits[x] -= 1
            elif peel.verdict[c] == TAKEN:
                peel.excess[x] += 1
