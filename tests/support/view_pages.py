"""Pages of the viewer from made-up executions, in the format that they read: the oracle of it.

An execution is written down here event by event, and packed by hand: nothing of the package but the
skeleton, the style and the scripts is in it.
"""

import base64
import gzip
import json
import random
import struct
from dataclasses import dataclass, field

from precedes.pages import document
from precedes.viewer.page import script, skeleton, style

BROADCAST, DELIVERY, STRANDED, VIOLATION, DROPPED = range(5)
WAIT_UNKNOWN = 0xFFFFFFFF


@dataclass
class Execution:
    """Events as (time_us, lane, kind, message, wait_us), and what the head says besides."""

    lanes: list[str]
    events: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)  # of messages: lane, sequence
    marks: list[dict] = field(default_factory=list)
    violations: list[dict] = field(default_factory=list)
    title: str = "made up"
    protocol: str | None = None
    left_out: dict | None = None
    has_time: bool = True

    def message(self, lane: int) -> int:
        """A new message of this lane."""
        sequence = 1 + sum(source == lane for source, _ in self.sources)
        self.sources.append((lane, sequence))
        return len(self.sources) - 1

    def name(self, message: int) -> str:
        """As the page calls it."""
        lane, sequence = self.sources[message]
        return f"{self.lanes[lane]}:{sequence}"

    def head(self) -> dict:
        """The input of the page for this trace."""
        times = [event[0] for event in self.events] or [0]
        return {
            "title": self.title,
            "origin": "tests",
            "protocol": self.protocol,
            "lanes": self.lanes,
            "has_time": self.has_time,
            "time_note": None if self.has_time else "the axis is logical",
            "edges": 0,
            "begin_us": min(times),
            "end_us": max(times),
            "events": len(self.events),
            "messages": len(self.sources),
            "message_names": None,
            "left_out": self.left_out,
            "verdict": "violated" if self.violations else "held",
            "summary": f"{len(self.violations)} violations in {len(self.events)} events.",
            "violations": self.violations,
            "violations_more": 0,
            "adjusted": 0,
            "marks": self.marks,
        }

    def packed(self) -> bytes:
        """The arrays, back to back."""
        n, m = len(self.events), len(self.sources)
        columns = list(zip(*self.events, strict=True)) if n else [()] * 5
        time_us, lane, kind, message, wait_us = columns
        return b"".join(
            [
                struct.pack(f"<{n}d", *time_us),
                struct.pack(f"<{n}I", *message),
                struct.pack(f"<{n}I", *wait_us),
                struct.pack(f"<{n}H", *lane),
                struct.pack(f"<{n}B", *kind),
                struct.pack(f"<{m}H", *(source for source, _ in self.sources)),
                struct.pack(f"<{m}I", *(sequence for _, sequence in self.sources)),
            ]
        )


def write(path, *executions, opening=None, cone_events=None):
    """A page of one execution, or of two in lockstep."""
    first = executions[0].head()
    opened = {
        "trace": 0,
        "from_us": first["begin_us"],
        "to_us": first["end_us"],
        "violation": 0 if first["violations"] else None,
        "message": None,
        "why": "first violation" if first["violations"] else "asked for",
    }
    head = {
        "format": 1,
        "made_by": {"version": "0", "sources": "0" * 64},
        "command": "precedes view made-up",
        "opening": {**opened, **(opening or {})},
        "traces": [execution.head() for execution in executions],
    }
    body = skeleton()
    if cone_events is not None:
        body = body.replace('data-cone-events="200000"', f'data-cone-events="{cone_events}"')
    text = json.dumps(head).replace("<", "\\u003c")
    body += f'<script type="application/json" id="precedes-head">{text}</script>\n'
    for k, execution in enumerate(executions):
        data = base64.b64encode(gzip.compress(execution.packed())).decode()
        kind = "application/octet-stream;base64"
        body += f'<script type="{kind}" id="precedes-events-{k}">{data}</script>\n'
    body += f'<script type="module">\n{script()}</script>\n'
    page = document(title="A made-up trace", body=body, style=style())
    path.write_text(page, encoding="utf-8")
    return path


def random_execution(seed, *, nodes, messages, every_us=2_000, causal=True, protocol=None):
    """Broadcasts by turns of chance; ``causal``: a delivery waits for what precedes its message.

    Without it, violations are those that happen; ``violations`` lists the first of each kind with
    the direct path that proves it.
    """
    rng = random.Random(seed)
    made = Execution([f"n{k}" for k in range(nodes)], protocol=protocol)
    queue = []  # (time, tie, what, lane, message)
    for at in range(messages):
        queue.append(
            (rng.randrange(messages * every_us), len(queue), "send", rng.randrange(nodes), at)
        )
    queue.sort()
    delivered = [set() for _ in range(nodes)]
    pasts, pending, rows, ids = {}, [[] for _ in range(nodes)], [], {}
    tie = len(queue)
    while queue:
        time_us, _, what, lane, message = queue.pop(0)
        if what == "send":
            number = ids[message] = made.message(lane)
            pasts[number] = set(delivered[lane])
            delivered[lane].add(number)
            rows.append((time_us, lane, BROADCAST, number, 0))
            for other in range(nodes):
                if other != lane:
                    tie += 1
                    arrival = time_us + 1_000 + int(rng.expovariate(1 / (3 * every_us)))
                    queue.append((arrival, tie, "arrive", other, number))
            queue.sort()
            continue
        pending[lane].append((time_us, message))
        moved = True
        while moved:
            moved = False
            for came_us, number in list(pending[lane]):
                if not causal or pasts[number] <= delivered[lane]:
                    kind = DELIVERY if pasts[number] <= delivered[lane] else VIOLATION
                    pending[lane].remove((came_us, number))
                    delivered[lane].add(number)
                    rows.append((time_us, lane, kind, number, time_us - came_us))
                    moved = True
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], i))
    made.events = [rows[i] for i in order]
    made.violations = [
        violation_at(made, pasts, at) for at, e in enumerate(made.events) if e[2] == VIOLATION
    ]
    return made


def violation_at(made, pasts, at):
    """A violation with its shortest witness by direct deliveries, from cause to effect."""
    _, lane, _, message, _ = made.events[at]
    before = {e[3] for e in made.events[:at] if e[1] == lane and e[2] != STRANDED}
    lacked = min(pasts[message] - before)
    path = chain(made, lacked, message)
    node, names = made.lanes[lane], (made.name(message), made.name(lacked))
    return {
        "sentence": f"{node} delivered {names[0]} before {names[1]}, which precedes it.",
        "lane": lane,
        "message": message,
        "lacked": lacked,
        "event": at,
        "path": [*path, at],
    }


def precedence(made):
    """For each event the events that happened before it, by brute force."""
    before, last, sent = [], {}, {}
    for at, (_, lane, kind, message, _) in enumerate(made.events):
        known = set()
        if lane in last:
            known |= before[last[lane]] | {last[lane]}
        if kind in (DELIVERY, VIOLATION):
            known |= before[sent[message]] | {sent[message]}
        before.append(known)
        last[lane] = at
        if kind == BROADCAST:
            sent[message] = at
    return before


def chain(made, first, second):
    """Events from the broadcast of one message to that of another which follows it."""
    sent = {e[3]: at for at, e in enumerate(made.events) if e[2] == BROADCAST}
    seen, paths = {sent[first]}, [[sent[first]]]
    for path in paths:
        at = path[-1]
        if at == sent[second]:
            return path
        _, lane, kind, message, _ = made.events[at]
        following = [k for k in range(at + 1, len(made.events)) if made.events[k][1] == lane]
        nexts = [k for k in following if made.events[k][2] == BROADCAST][:1]
        if kind == BROADCAST:
            nexts += [
                k
                for k, e in enumerate(made.events)
                if e[3] == message and e[2] in (DELIVERY, VIOLATION)
            ]
        for k in nexts:
            if k not in seen:
                seen.add(k)
                paths.append([*path, k])
    raise AssertionError(f"{first} does not precede {second}")
