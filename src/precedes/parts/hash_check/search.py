"""Search by peeling for the own deliveries that the sender of a message had not delivered.

A clock counts, for each entry, the delivered messages that hit it: it is a counting Bloom filter
of what its owner has delivered. The own clock less that of a message is therefore the filter of
R, the deliveries that the sender lacked, if nothing of the message's past is missing here. The
hash of R is known too, as the difference of two hashes of sets. To find R is to decode an
invertible Bloom table, not to try out all sets:

- an entry that is hit as often as there are candidates for it takes all of them;
- an entry that is used up excludes the others;
- of one source, newer messages go before older ones: a sender that lacks one lacks those after it;
- where none of this applies, a candidate of the tightest entry is tried, the newest first.

In a group smaller than its clock the counts determine R by themselves, and nothing is searched
(``_solve``): this is the case in live groups, where R has hundreds of messages.

A set that fits the filter is right if its hash is. R is among the newest deliveries, so the newest
ones that fit are taken first, without any search; then the candidates are the newest few, then
more, up to WIDE. Bounds: ``limit`` hashes in all, STAGE_HASHES of them and STAGE_TRIALS trials
with the same candidates. At a bound the search ends without a result, as it does when something
is missing; the caller asks the sender then.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Int32s, Int64s, check_range
from precedes.errors import UserError
from precedes.parts import pool

from .log import LENGTH_MAX, LENGTH_MIN, RUNS, WINDOW, Log, name_at
from .set_hash import is_summed, minus, plus, sequence_in, source_in, sum_of

MORE: Final = 3  # candidates at first, beyond the size of R
WIDE: Final = (64, 192)  # candidates in the end: twice the entries, as more look alike
MORE_OF_NEWEST: Final = 14  # the same, before anything is searched
STAGE_HASHES: Final = 8
STAGE_TRIALS: Final = 16

OPEN: Final = 0
INCLUDED: Final = 1
RULED_OUT: Final = 2


class Marks(NamedTuple):
    """Numbers of a search, in row 0."""

    hashes: Int64s  # compared, ever
    oldest_own: Int64s  # the oldest own message in R that was found, or 0
    beyond: Int64s  # whether the last search ended because R is too large for it
    # Of the current search:
    candidates: Int64s
    included: Int64s  # number of candidates taken
    total: Int64s  # of their hashes
    decided: Int64s  # length of the trail


class Work(NamedTuple):
    """Candidates, the newest first; the trail; and trials that are open."""

    source: Int64s
    sequence: Int64s
    hash: Int64s
    verdict: Int64s
    trail: Int64s  # candidates in the order in which they were decided
    tried: Int64s  # the candidate of a trial,
    trail_before: Int64s  # and the length of the trail before


class Peeling(NamedTuple):
    """Work space of a search; only ``mark.hashes`` is kept between searches."""

    excess: Int32s  # entry -> hits of R that no candidate taken accounts for
    hits: Int32s  # entry -> candidates that hit it and are open; zero between searches
    entry: Int32s  # candidate -> the entries that it hits
    rest: Int32s  # source -> candidates that are open; zero between searches
    work: Work
    mark: Marks
    part_entries: int  # entries of a part of the clock, and the number of its own entries
    per_part: int  # that a process has in each of the parts that a message names


def check_effort(*, hashes: int, log_length: int) -> None:
    """Raise UserError unless a search and its log can have this size."""
    if hashes < 1:
        raise UserError(f"hashes must be at least 1, not {hashes}")
    check_range(LENGTH_MIN, LENGTH_MAX, log=log_length)


def allocate(
    *,
    width: int,
    nodes: int,
    per_process: int,
    part_entries: int = 0,
    per_part: int = 1,
) -> Peeling:
    """Work space for clocks of this width and for this number of sources and of entries of each.

    A clock may consist of parts of ``part_entries``: ``log.parts`` then says, in eight bits each,
    in which part the first ``per_part`` entries of the source are, in which the next ones.
    """
    return Peeling(
        excess=np.zeros(width, np.int32),
        hits=np.zeros(width, np.int32),
        entry=np.zeros((WINDOW, per_process), np.int32),
        rest=np.zeros(nodes, np.int32),
        work=pool.columns(Work, WINDOW, dtype=np.int64),
        mark=pool.columns(Marks, 1, dtype=np.int64),
        part_entries=part_entries,
        per_part=per_part,
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
    delivered: Int32s,
    difference: int,
    limit: int,
) -> bool:
    """Return whether the clock covers ``need`` by own deliveries R whose hash is ``difference``.

    The clock, of ``node`` in row ``here``, has reached ``need`` everywhere. If R is found,
    ``mark.oldest_own`` is the sequence number of the first own message in it.
    """
    peel.mark.beyond[0] = 0
    total = _excess_over(peel, clock, need)
    size = total // own.shape[1]
    if size == 0:
        peel.mark.oldest_own[0] = 0
        peel.mark.hashes[0] += 1
        return difference == 0
    if size * own.shape[1] != total:
        return False
    for x in range(need.size, peel.excess.size):
        peel.excess[x] = 0
    if log.tells_apart != 0:
        is_covered = _solve(peel, log, own, here, node, sender, delivered, difference)
        if is_covered or peel.part_entries == 0:
            return is_covered
        _excess_over(peel, clock, need)  # the sources' parts may have changed too often
    there = min(log.end.next[here], log.hash.shape[1])
    peel.mark.beyond[0] = 1  # reset if it is found, or searched for
    if size > there:
        return False
    wide = max(WIDE[0], min(WIDE[1], 2 * need.size))
    there = min(there, max(wide, size + MORE_OF_NEWEST))
    width = min(size + MORE, there)
    end = peel.mark.hashes[0] + limit
    newest = min(size + MORE_OF_NEWEST, there)
    if _take_newest(peel, log, own, here, newest, node, sender, size, difference):
        return True
    if size > wide:
        return False
    peel.mark.beyond[0] = 0
    _excess_over(peel, clock, need)
    while peel.mark.hashes[0] < end:
        allowed = min(end, peel.mark.hashes[0] + STAGE_HASHES)
        enough = _gather(peel, log, own, here, width, sender) >= size
        is_covered = enough and _search(peel, size, difference, allowed)
        _clear(peel, node)
        if is_covered or width == there:
            return is_covered
        width = min(width + max(width // 4, 1), there)
    return False


@compiled.function()
def _excess_over(peel: Peeling, clock: Int32s, need: Int32s) -> np.int32:
    """Set the hits that R must account for; return the sum over all entries."""
    total = np.int32(0)
    for x in range(need.size):
        excess = np.int32(clock[x] - need[x])
        peel.excess[x] = excess
        total = np.int32(total + excess)
    return total


@compiled.function()
def _entry(peel: Peeling, own: Int32s, source: int, parts: int, i: int) -> int:
    """The i-th entry of a source's message that hit these parts of the clock."""
    part = (parts >> (8 * (i // peel.per_part))) & 0xFF
    return own[source, i] + part * peel.part_entries


@compiled.function(inline=False)
def _solve(
    peel: Peeling,
    log: Log,
    own: Int32s,
    here: int,
    node: int,
    sender: int,
    delivered: Int32s,
    difference: int,
) -> bool:
    """Return whether R is the set that the counts determine (``clocks.entries_apart``).

    Of each source, from the last to the first, as many messages are lacked as hits of its first
    entry are left. Leaves ``excess`` as it has become.
    """
    total = 0
    peel.mark.oldest_own[0] = 0
    for source in range(own.shape[0] - 1, -1, -1):
        last = delivered[source] + compiled.ZERO
        known = last
        for run in range(RUNS):
            parts, first = log.runs.parts[here, source, run], log.runs.first[here, source, run]
            lacked = peel.excess[_entry(peel, own, source, parts, 0)]
            if lacked < 0:
                return False
            lacked = min(lacked, np.int32(known - first + 1))
            for i in range(own.shape[1]):
                peel.excess[_entry(peel, own, source, parts, i)] -= lacked
            known -= lacked
            if known >= first:
                break
        if known == last:
            continue
        peel.mark.beyond[0] |= not is_summed(log.sums, source, known)
        if source == sender or peel.mark.beyond[0] != 0:
            return False
        total = plus(total, minus(sum_of(log.sums, source, last), sum_of(log.sums, source, known)))
        if source == node:
            peel.mark.oldest_own[0] = known + 1
    peel.mark.hashes[0] += 1
    return total == difference


@compiled.function()
def _take_newest(
    peel: Peeling,
    log: Log,
    own: Int32s,
    here: int,
    width: int,
    node: int,
    sender: int,
    size: int,
    difference: int,
) -> bool:
    """Return whether the newest deliveries that fit, taken one after the other, are R.

    At a hundred broadcasts a second they are, 97 times of 100. Leaves ``excess`` as it has become.
    """
    count = 0
    total = 0
    oldest_own = 0
    for back in range(1, width + 1):
        position = log.end.next[here] - back
        name = name_at(log, here, position)
        source = source_in(name)
        at = position & (log.hash.shape[1] - 1)
        parts = log.parts[here, at]
        fits = source != sender
        for i in range(own.shape[1]):
            fits = fits and peel.excess[_entry(peel, own, source, parts, i)] != 0
        if not fits:
            continue
        for i in range(own.shape[1]):
            peel.excess[_entry(peel, own, source, parts, i)] -= 1
        total = plus(total, log.hash[here, at])
        if source == node:
            oldest_own = sequence_in(name)
        count += 1
        if count == size:
            peel.mark.hashes[0] += 1
            peel.mark.oldest_own[0] = oldest_own
            return total == difference
    return False


@compiled.function()
def _gather(peel: Peeling, log: Log, own: Int32s, here: int, width: int, sender: int) -> int:
    """The newest deliveries that can be in R: not the sender's, and none hits an entry too much."""
    count = 0
    for back in range(1, width + 1):
        position = log.end.next[here] - back
        name = name_at(log, here, position)
        source = source_in(name)
        newest = position & (log.hash.shape[1] - 1)
        parts = log.parts[here, newest]
        fits = source != sender
        for i in range(own.shape[1]):
            x = _entry(peel, own, source, parts, i)
            peel.entry[count, i] = x
            fits = fits and peel.excess[x] != 0
        if fits:
            for i in range(own.shape[1]):
                peel.hits[peel.entry[count, i]] += 1
            peel.rest[source] += 1
            peel.work.source[count] = source
            peel.work.sequence[count] = sequence_in(name)
            peel.work.hash[count] = log.hash[here, newest]
            peel.work.verdict[count] = OPEN
            count += 1
    peel.mark.candidates[0] = count
    peel.mark.oldest_own[0] = 0  # of candidates of an earlier, failed search
    return count


@compiled.function()
def _search(peel: Peeling, size: int, difference: int, allowed: int) -> bool:
    """Return whether ``size`` of the candidates fit and have the hash, in ``allowed`` hashes."""
    peel.mark.included[0] = peel.mark.total[0] = peel.mark.decided[0] = 0
    short = np.int32(0)
    for x in range(peel.excess.size):
        short = min(short, np.int32(peel.hits[x] - peel.excess[x]))
    if short < 0:
        return False
    trials = 0
    depth = 0
    fits = _settle(peel)
    while True:
        if fits and peel.mark.included[0] == size:
            peel.mark.hashes[0] += 1
            if peel.mark.total[0] == difference:
                return True
            fits = False
        if peel.mark.hashes[0] >= allowed or trials == STAGE_TRIALS:
            return False
        choice = _tightest(peel) if fits else -1
        if choice >= 0:
            trials += 1
            peel.work.tried[depth] = choice
            peel.work.trail_before[depth] = peel.mark.decided[0]
            depth += 1
            fits = _decide(peel, choice, INCLUDED)
        elif depth > 0:
            depth -= 1
            _undo(peel, peel.work.trail_before[depth])
            fits = _rule_out_from(peel, peel.work.tried[depth])
        else:
            return False
        fits = fits and _settle(peel)


@compiled.function(inline=False)
def _settle(peel: Peeling) -> bool:
    """Decide all candidates that the entries decide; False on a contradiction."""
    changed = True
    while changed:
        changed = False
        for c in range(peel.mark.candidates[0]):
            if peel.work.verdict[c] != OPEN:
                continue
            rest = peel.rest[peel.work.source[c]]
            used_up = forced = False
            for i in range(peel.entry.shape[1]):
                x = peel.entry[c, i]
                used_up = used_up or peel.excess[x] == 0
                alike = rest if rest == 1 else _open_alike(peel, c, x)
                # Without any of this source the entry would have too few.
                forced = forced or peel.hits[x] - alike < peel.excess[x]
            if used_up or (forced and (rest == 1 or _is_newest(peel, c))):
                changed = True
                if not _decide(peel, c, RULED_OUT if used_up else INCLUDED):
                    return False
    return True


@compiled.function(inline=False)
def _open_alike(peel: Peeling, c: int, x: int) -> int:
    """Number of open candidates of the same source that hit the entry."""
    count = 0
    for other in range(peel.mark.candidates[0]):
        same = peel.work.source[other] == peel.work.source[c]
        if same and peel.work.verdict[other] == OPEN:
            for i in range(peel.entry.shape[1]):
                count += peel.entry[other, i] == x
    return count


@compiled.function(inline=False)
def _is_newest(peel: Peeling, c: int) -> bool:
    """Return whether no newer candidate of the same source is open."""
    for newer in range(c):
        same = peel.work.source[newer] == peel.work.source[c]
        if same and peel.work.verdict[newer] == OPEN:
            return False
    return True


@compiled.function(inline=False)
def _rule_out_from(peel: Peeling, first: int) -> bool:
    """Exclude a candidate and the older ones of its source; False if an entry has too few."""
    enough = True
    for c in range(first, peel.mark.candidates[0]):
        same = peel.work.source[c] == peel.work.source[first]
        if same and peel.work.verdict[c] == OPEN:
            enough = _decide(peel, c, RULED_OUT) and enough
    return enough


@compiled.function(inline=False)
def _tightest(peel: Peeling) -> int:
    """The newest open candidate of the entry with the least choice, or -1."""
    best = -1
    least = 2**31 - 1
    for c in range(peel.mark.candidates[0]):
        if peel.work.verdict[c] == OPEN:
            for i in range(peel.entry.shape[1]):
                x = peel.entry[c, i]
                if peel.hits[x] - peel.excess[x] < least:
                    least = peel.hits[x] - peel.excess[x]
                    best = c
    return best


@compiled.function(inline=False)
def _decide(peel: Peeling, c: int, verdict: int) -> bool:
    """Take or exclude a candidate; False if an entry then has too few."""
    is_included = verdict == INCLUDED
    enough = True
    for i in range(peel.entry.shape[1]):
        x = peel.entry[c, i]
        peel.hits[x] -= 1
        peel.excess[x] -= is_included
        enough = enough and peel.hits[x] >= peel.excess[x]
    peel.rest[peel.work.source[c]] -= 1
    if is_included:
        peel.mark.included[0] += 1
        peel.mark.total[0] = plus(peel.mark.total[0], peel.work.hash[c])
    peel.work.verdict[c] = verdict
    peel.work.trail[peel.mark.decided[0]] = c
    peel.mark.decided[0] += 1
    return enough


@compiled.function(inline=False)
def _undo(peel: Peeling, length: int) -> None:
    """Reopen the candidates that were decided after the trail had this length."""
    while peel.mark.decided[0] > length:
        peel.mark.decided[0] -= 1
        c = peel.work.trail[peel.mark.decided[0]]
        is_included = peel.work.verdict[c] == INCLUDED
        for i in range(peel.entry.shape[1]):
            x = peel.entry[c, i]
            peel.hits[x] += 1
            peel.excess[x] += is_included
        peel.rest[peel.work.source[c]] += 1
        if is_included:
            peel.mark.included[0] -= 1
            peel.mark.total[0] = minus(peel.mark.total[0], peel.work.hash[c])
        peel.work.verdict[c] = OPEN


@compiled.function()
def _clear(peel: Peeling, node: int) -> None:
    """Restore the entries, and keep the oldest own message that was taken."""
    for c in range(peel.mark.candidates[0]):
        for i in range(peel.entry.shape[1]):
            x = peel.entry[c, i]
            if peel.work.verdict[c] == OPEN:
                peel.hits[x] -= 1
            elif peel.work.verdict[c] == INCLUDED:
                peel.excess[x] += 1
        peel.rest[peel.work.source[c]] = 0
        if peel.work.verdict[c] == INCLUDED and peel.work.source[c] == node:
            peel.mark.oldest_own[0] = peel.work.sequence[c]
