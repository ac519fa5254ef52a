"""Small random executions and the literal definition of what is wrong with one.

Nothing here comes from the package but the class ``History`` that the audit takes as input.
"""

import itertools
import json
import random
from dataclasses import dataclass, field

import numpy as np

from precedes.trace import History

BROADCAST, DELIVER = "broadcast", "deliver"
CODES = {BROADCAST: 0, DELIVER: 3}
NEVER = float("inf")
# The numbers of a report that the definitions give.
COUNTS = ("violations", "violating_messages", "fifo_violations", "deliveries", "duplicates")
COUNTS += ("phantom", "cycles", "unjudged", "lost", "undelivered_at_end")


@dataclass
class Execution:
    """Each node's log as a list of (kind, message); a message is (source, number from 1)."""

    logs: list[list[tuple[str, tuple[int, int]]]]
    complete: bool = True
    crashed: list[int] = field(default_factory=list)
    # Node, rows of it before, and what it begins with: a message and its source's earlier ones.
    joins: list[tuple[int, int, tuple[int, int] | None]] = field(default_factory=list)
    departed: list[int] = field(default_factory=list)

    def broadcasts(self):
        return {m for log in self.logs for kind, m in log if kind == BROADCAST}

    def history(self):
        """The same for the audit, messages in the order of (source, number), phantoms last."""
        known = sorted(self.broadcasts())
        named = {m for log in self.logs for _, m in log} | {m for _, _, m in self.joins if m}
        phantoms = sorted(named - set(known))
        number = {m: i for i, m in enumerate(known + phantoms)}
        rows = [row for log in self.logs for row in log]
        order = {m: 1 + sum(1 for k in known if k[0] == m[0] and k < m) for m in known}
        return History(
            nodes=len(self.logs),
            offsets=np.array([0, *itertools.accumulate(map(len, self.logs))]),
            kind=np.array([CODES[kind] for kind, _ in rows], np.int8),
            message=np.array([number[m] for _, m in rows], np.int32),
            message_source=np.array([m[0] for m in known] + [-1] * len(phantoms), np.int32),
            message_sequence=np.array([order[m] for m in known] + [0] * len(phantoms), np.int32),
            message_names=[f"{s}:{n}" for s, n in known + phantoms],
            complete=self.complete,
            crashed=np.array(self.crashed, np.int32),
            join_node=np.array([node for node, _, _ in self.joins], np.int32),
            join_row=np.array([row for _, row, _ in self.joins], np.int64),
            join_message=np.array([number.get(m, -1) for _, _, m in self.joins], np.int32),
            departed=np.array(self.departed, np.int32),
        )


def run(seed, *, nodes, messages, order, loss=0.0, own="none", drain=True):
    """A random execution: ``order`` is causal, fifo or wild; ``own`` is none, now or later."""
    rng = random.Random(seed)
    logs = [[] for _ in range(nodes)]
    pasts = {}
    delivered = [set() for _ in range(nodes)]  # with what the node broadcast itself
    waiting = [[] for _ in range(nodes)]
    counts = [0] * nodes

    def deliverable(node, m):
        if order == "wild":
            return True
        if order == "fifo":
            return all((m[0], n) in delivered[node] for n in range(1, m[1]))
        return pasts[m] <= delivered[node]

    def deliver(node, m):
        logs[node].append((DELIVER, m))
        delivered[node].add(m)

    while True:
        choices = [
            (node, m) for node in range(nodes) for m in waiting[node] if deliverable(node, m)
        ]
        if len(pasts) < messages and rng.random() < 0.4:
            node = rng.randrange(nodes)
            counts[node] += 1
            m = (node, counts[node])
            seen = delivered[node]
            pasts[m] = seen.union(*(pasts[x] for x in seen))
            logs[node].append((BROADCAST, m))
            if own != "later":
                delivered[node].add(m)
            if own == "now":
                logs[node].append((DELIVER, m))
            for other in range(nodes):
                if (other != node or own == "later") and rng.random() >= loss:
                    waiting[other].append(m)
        elif choices:
            node, m = rng.choice(choices)
            waiting[node].remove(m)
            deliver(node, m)
        elif len(pasts) == messages:
            break
        if not drain and len(pasts) == messages:
            break
    return Execution(logs, complete=drain)


def scramble(seed, *, nodes, messages, rows):
    """Logs that nobody may have made: duplicates, phantoms and cycles included."""
    rng = random.Random(seed)
    logs = [[] for _ in range(nodes)]
    known = []
    for _ in range(messages):
        node = rng.randrange(nodes)
        m = (node, 1 + sum(1 for k in known if k[0] == node))
        known.append(m)
        logs[node].append((BROADCAST, m))
    for _ in range(rows):
        node = rng.randrange(nodes)
        m = rng.choice(known) if known and rng.random() < 0.95 else (rng.randrange(nodes), 99)
        log = logs[node]
        # Mostly at the end, so that cycles are there but not everywhere.
        at = len(log) if rng.random() < 0.7 else rng.randrange(len(log) + 1)
        log.insert(at, (DELIVER, m))
    crashed = [node for node in range(nodes) if rng.random() < 0.1]
    return Execution(logs, complete=rng.random() < 0.5, crashed=crashed)


def with_members(execution, rng):
    """Joins and leaves somewhere in it, some of them with messages that nobody broadcast."""
    known = sorted(execution.broadcasts())
    for node, log in enumerate(execution.logs):
        for _ in range(rng.choice((0, 1, 2))):
            row = rng.randrange(len(log) + 1)
            state = rng.sample(known, min(len(known), rng.choice((0, 1, 3))))
            named = [None, *state] if rng.random() < 0.95 else [(node, 98)]
            execution.joins += [(node, row, m) for m in named]
    rng.shuffle(execution.joins)
    execution.departed = [node for node in range(len(execution.logs)) if rng.random() < 0.2]
    return execution


def pasts(execution):
    """The past of every message that was broadcast: the closure, by sets."""
    known = execution.broadcasts()
    direct = {}
    for log in execution.logs:
        seen = set()
        for kind, m in log:
            if kind == BROADCAST:
                direct[m] = set(seen)
            if m in known:
                seen.add(m)
    closed = {}
    for m in known:
        past, new = set(), set(direct[m])
        while new:
            past |= new
            new = set().union(*(direct[x] for x in new)) - past
        closed[m] = past
    return closed


def position(execution, node, m):
    """The place of this node's first delivery of the message, by the audit's rules."""
    log = execution.logs[node]
    for row in ((DELIVER, m), (BROADCAST, m)):
        if row in log:
            return log.index(row)
    return NEVER


def joined(execution, node, m):
    """Before which row this node began with the message, half a row earlier, or NEVER."""
    rows = [
        row - 0.5
        for at, row, named in execution.joins
        if at == node and named in execution.broadcasts() and named[0] == m[0] and m[1] <= named[1]
    ]
    return min(rows, default=NEVER)


def has(execution, node, m):
    """From where on this node has the message; its own, by no join."""
    row = position(execution, node, m)
    return row if m[0] == node else min(row, joined(execution, node, m))


def undelivered(execution, known):
    """Pairs of nodes and messages that are due there and never came."""
    logs = execution.logs
    own = any((DELIVER, m) in logs[m[0]] for m in known)
    gone = {*execution.crashed, *execution.departed}
    pairs = set()
    for node in range(len(logs)):
        for m in known:
            here = (DELIVER, m) in logs[node] or joined(execution, node, m) != NEVER
            due = m[0] not in execution.crashed and (m[0] != node or own)
            if due and not here and node not in gone:
                pairs.add((node, m))
    return pairs


def judge(execution):
    """Every number of a report, from the definitions."""
    past = pasts(execution)
    cycles = {m for m in past if m in past[m]}
    resolved = {m for m in past if not (past[m] | {m}) & cycles}
    nodes = range(len(execution.logs))
    violations = set()
    fifo = set()
    unjudged = set()
    duplicates = 0
    for node, log in enumerate(execution.logs):
        place = {m: has(execution, node, m) for m in past}
        for row, (kind, m) in enumerate(log):
            if kind != DELIVER or m not in past:
                continue
            if m not in resolved:
                unjudged.add((node, m))
            if place[m] != row:
                duplicates += 1
            elif m in resolved and any(place[y] > row for y in past[m]):
                violations.add((node, m))
                if any(place[y] > row for y in past[m] if y[0] == m[0]):
                    fifo.add((node, m))
    delivered = [(node, m) for node in nodes for kind, m in execution.logs[node] if kind == DELIVER]
    missing = len(undelivered(execution, past))
    named = [m for _, _, m in execution.joins if m is not None]
    return {
        "pairs": violations,
        "violations": len(violations),
        "violating_messages": len({m for _, m in violations}),
        "fifo_pairs": fifo,
        "fifo_violations": len(fifo),
        "deliveries": sum(m not in past or m[0] != node for node, m in delivered),
        "duplicates": duplicates,
        "phantom": sum(m not in past for _, m in delivered) + sum(m not in past for m in named),
        "cycles": len(cycles),
        "unjudged": len(unjudged),
        "lost": missing if execution.complete else 0,
        "undelivered_at_end": 0 if execution.complete else missing,
    }


def check_path(execution, witness):
    """Assert that the steps of a witness are rows of the log and lead where it says."""
    name = {f"{s}:{n}": (s, n) for log in execution.logs for _, (s, n) in log}
    for step in witness.steps:
        assert execution.logs[step.node][step.position] == (step.kind, name[step.message_name])
    for before, after in itertools.pairwise(witness.steps):
        if before.node == after.node and before.position < after.position:
            continue
        assert (before.kind, after.kind) == (BROADCAST, DELIVER)
        assert before.message == after.message
    first, last = witness.steps[0], witness.steps[-1]
    assert first.kind == last.kind == BROADCAST
    assert last.message_name == witness.message_name
    if witness.kind == "violation":
        earlier, message = name[witness.earlier_name], name[witness.message_name]
        assert name[first.message_name] == earlier
        assert (DELIVER, message) in execution.logs[witness.node]
        assert has(execution, witness.node, earlier) > has(execution, witness.node, message)
        for part in (witness.message_name, witness.earlier_name, f"node {witness.node_name}"):
            assert part in witness.sentence


def rows_of(execution):
    """Each node's rows (kind, message), joins where they belong, crashes and leaves last."""
    found = []
    for node, log in enumerate(execution.logs):
        rows = []
        for at in range(len(log) + 1):
            rows += [("join", m) for who, row, m in execution.joins if (who, row) == (node, at)]
            rows += log[at : at + 1]
        rows += [("crash", None)] if node in execution.crashed else []
        rows += [("leave", None)] if node in execution.departed else []
        found.append(rows)
    return found


def named_rows(execution):
    """The same of all nodes one after another, by names: (node, kind, message or None)."""
    return [
        (f"n{node}", kind, m and f"{m[0]}:{m[1]}")
        for node, rows in enumerate(rows_of(execution))
        for kind, m in rows
    ]


def timed_rows(execution, rng):
    """Rows (node, kind, message, time) in an order that keeps causes before effects, if it can."""
    left = [list(log) for log in execution.logs]
    sent = set()
    known = execution.broadcasts()
    rows = []
    time_us = 0
    while any(left):
        free = [
            node
            for node, log in enumerate(left)
            if log and (log[0][0] == BROADCAST or log[0][1] in sent or log[0][1] not in known)
        ]
        node = rng.choice(free or [node for node, log in enumerate(left) if log])
        kind, message = left[node].pop(0)
        if kind == BROADCAST:
            sent.add(message)
        time_us += rng.choice((0, 1, 700, 40_000))
        rows.append((f"n{node}", kind, f"{message[0]}:{message[1]}", time_us))
    return rows


def as_lines(execution, node):
    """The rows of a node as JSON."""
    rows = [row for row in named_rows(execution) if row[0] == f"n{node}"]
    named = [dict(zip(("node", "kind", "message"), row, strict=True)) for row in rows]
    return [json.dumps({k: v for k, v in row.items() if v is not None}) for row in named]
