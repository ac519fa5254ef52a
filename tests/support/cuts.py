"""Growing logs: random cuts of executions, and what the definitions say at each of them.

The oracle is sets and loops over rows; it shares nothing with the package.
"""

import random

import numpy as np

from tests.support.executions import BROADCAST, DELIVER, NEVER, Execution, rows_of

KINDS = {BROADCAST: 0, DELIVER: 3, "crash": 4, "join": 8, "leave": 9}
SHIFT = 32


def schedule(execution, seed):
    """Pieces (node, rows) in which a log arrives: random interleaving, some nodes far behind."""
    rng = random.Random(seed)
    left = rows_of(execution)
    speed = [rng.choice((0.1, 1.0, 1.0, 5.0)) for _ in left]
    while any(left):
        able = [node for node, rows in enumerate(left) if rows]
        node = rng.choices(able, [speed[n] for n in able])[0]
        count = rng.choice((1, 1, 2, 5, 1000))
        piece, left[node] = left[node][:count], left[node][count:]
        yield node, piece


def numbered(node, rows):
    """Rows for an auditor."""
    keys = [-1 if m is None else (m[0] << SHIFT) | m[1] for _, m in rows]
    return (
        np.full(len(rows), node, np.int32),
        np.array([KINDS[kind] for kind, _ in rows], np.int8),
        np.array(keys, np.int64),
    )


def judged_prefixes(read):
    """The number of rows of each node before the first that waits; and the resolved messages."""
    broadcast = {m for rows in read for kind, m in rows if kind == BROADCAST}
    at = [0] * len(read)
    resolved = set()
    changed = True
    while changed:
        changed = False
        for node, rows in enumerate(read):
            while at[node] < len(rows):
                kind, m = rows[at[node]]
                if kind == DELIVER and m not in resolved:
                    break
                if kind == "join" and m is not None and m not in broadcast:
                    break
                if kind == BROADCAST:
                    resolved.add(m)
                at[node] += 1
                changed = True
    return at, resolved


def as_execution(read, at, execution):
    """The rows that count, as an execution that the definitions can judge."""
    logs, joins = [], []
    for node, rows in enumerate(read):
        log = []
        for kind, m in rows[: at[node]]:
            if kind == "join":
                joins.append((node, len(log), m))
            elif kind in (BROADCAST, DELIVER):
                log.append((kind, m))
        logs.append(log)
    return Execution(logs, complete=False, joins=joins)


def violations(execution, known):
    """(node, row, message) of deliveries out of order; ``known`` are all that was broadcast."""
    past = {}
    for log in execution.logs:
        seen = set()
        for kind, m in log:
            if kind == BROADCAST:
                past[m] = set(seen)
            seen.add(m)
    for m in past:
        new = set(past[m])
        while new:
            new = set().union(*(past[y] for y in new)) - past[m]
            past[m] |= new
    found = set()
    for node, log in enumerate(execution.logs):
        first = {}
        for row, (kind, m) in enumerate(log):
            if kind == DELIVER:
                first.setdefault(m, row)
        place = {m: row for row, (kind, m) in enumerate(log) if kind == BROADCAST} | first
        for who, row, named in execution.joins:
            if who == node and named in known:
                for m in known:
                    if m[0] == named[0] != node and m[1] <= named[1]:
                        place[m] = min(place.get(m, NEVER), row - 0.5)
        for m, row in first.items():
            if place[m] == row and any(place.get(y, NEVER) > row for y in past[m]):
                found.add((node, row, m))
    return found


def duplicates(execution, known):
    """The number of duplicate deliveries."""
    count = 0
    for node, log in enumerate(execution.logs):
        had = set()
        for row in range(len(log) + 1):
            for who, before, named in execution.joins:
                if (who, before) == (node, row) and named in known and named[0] != node:
                    had |= {(named[0], n) for n in range(1, named[1] + 1)}
            for kind, m in log[row : row + 1]:
                count += kind == DELIVER and m in had
                had |= {m} if kind == DELIVER else set()
    return count


def cycles(read):
    """The messages in their own past among all rows read."""
    known = {m for rows in read for kind, m in rows if kind == BROADCAST}
    direct = {}
    for rows in read:
        seen = set()
        for kind, m in rows:
            if kind == BROADCAST:
                direct[m] = set(seen)
            if kind in (BROADCAST, DELIVER) and m in known:
                seen.add(m)
    found = set()
    for m in known:
        past, new = set(), set(direct[m])
        while new:
            past |= new
            new = set().union(*(direct[y] for y in new)) - past
        found |= {m} & past
    return found
