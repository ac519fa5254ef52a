"""Adversarial crash schedules for broadcasts on VCube trees, and what must hold after each.

One seed draws a group of 2 to 64 processes (any number, not only powers of two), up to all but
one of which crash, at a time or in the middle of sending; each observer learns of a crash after
a delay of its own. Networks may reorder, repeat and delay without bound, but lose nothing.

``check`` reads the trace and the arrays of a finished run and calls no function of a protocol.
"""

import random
from collections import Counter

from precedes.model import EventKind
from precedes.parts import pool
from precedes.sim import Fault, Scenario
from precedes.sim.run import Run
from precedes.testing import Collector
from tests.support.convictions import hold

DELAYS = ("constant:1", "uniform:0.1:20", "exponential:10", "lognormal:3:2", "normal:50:20")
BUNDLES = (
    {"payload_max_bytes": 1, "tree_bytes": 1, "ack_bytes": 1, "delay_max_ms": 0.0},
    {"payload_max_bytes": 1460, "tree_bytes": 24, "ack_bytes": 20, "delay_max_ms": 2.0},
    {"payload_max_bytes": 1460, "tree_bytes": 500, "ack_bytes": 20, "delay_max_ms": 10.0},
    {"payload_max_bytes": 64, "tree_bytes": 24, "ack_bytes": 20, "delay_max_ms": 2.0},
    {"payload_max_bytes": 100, "tree_bytes": 200, "ack_bytes": 20, "delay_max_ms": 30.0},
)


def schedule(seed, *, protocol="bundled", nodes_max=64):
    """The scenario of a seed; the same seed gives the same one."""
    rng = random.Random(f"crashing {seed}")
    nodes = min(rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 32, 47, 64)), nodes_max)
    messages = rng.choice((1, 5, 20, 40))
    span_s = rng.choice((0.0, 0.01, 0.2))
    return Scenario(
        protocol=protocol,
        nodes=nodes,
        messages=messages if span_s else None,
        rate=messages / span_s if span_s else 1.0,
        workload="poisson" if span_s else "window:0",
        skew=rng.choice((0.0, 0.0, 2.0)),
        delay=rng.choice(DELAYS),
        per=rng.choice(("use", "use", "link")),
        fifo=rng.random() < 0.3,
        duplication=rng.choice((0.0, 0.0, 0.0, 0.1)),
        transmission_ms=rng.choice((0.0, 0.1, 1.0)),
        faults=tuple(crashes(rng, nodes=nodes, span_s=span_s + 0.05)),
        seed=seed,
        parameters=rng.choice(BUNDLES),
    )


def crashes(rng, *, nodes, span_s):
    """Crashes of up to all but one process, in time or after a number of packets."""
    count = rng.choice((0, 1, 1, 2, 3, nodes // 2, nodes - 1, rng.randrange(nodes)))
    for node in rng.sample(range(nodes), min(count, nodes - 1)):
        yield Fault(
            "crash",
            node=node,
            at_s=rng.choice((0.0, rng.uniform(0, span_s), rng.uniform(0, 4 * span_s))),
            after_sends=rng.choice((0, 0, rng.randint(1, 8), rng.randint(1, 60))),
            detection_ms=(0.0, rng.choice((0.0, 5.0, 100.0, 1000.0))),
        )


def run(scenario, *, tier="auto"):
    """A finished run and its trace."""
    collector = Collector()
    done = Run(scenario, writer=collector)
    result = done.go(tier=tier)
    return done, result, collector.rows()


def check(scenario, *, tier="auto"):
    """Convict unless the run kept every promise; returns its result."""
    done, result, rows = run(scenario, tier=tier)
    hold(result.complete, "restless", "the run never ends")
    crashed = set(rows[rows[:, 2] == EventKind.CRASH, 1].tolist())
    correct = [node for node in range(scenario.nodes) if node not in crashed]
    check_trace(rows, correct)
    check_rest(done.state, correct, crashed)
    hold(result.lost == 0, "lost")
    hold(result.pending_at_end == 0, "kept", "a correct process still keeps a message")
    return result


def check_trace(rows, correct):
    """Exactly once at the correct processes, and one completion after all of that."""
    events = {kind: rows[rows[:, 2] == kind] for kind in EventKind}
    issued = {(s, q): t for t, _, _, s, q, _ in events[EventKind.BROADCAST].tolist()}
    times = Counter()
    latest = dict.fromkeys(issued, 0)
    for time_ns, node, _, source, sequence, _ in events[EventKind.DELIVER].tolist():
        message = source, sequence
        what = f"node {node} delivered {message}"
        hold(message in issued, "phantom", f"{what}, which nobody broadcast")
        hold(source != node, "own", f"{what}, its own")
        hold(time_ns > issued[message], "early", f"{what} before its broadcast")
        times[node, message] += 1
        hold(times[node, message] == 1, "twice", f"{what} twice")
        if node in correct:
            latest[message] = max(latest[message], time_ns)
    completed = Counter()
    for time_ns, node, _, source, sequence, _ in events[EventKind.COMPLETE].tolist():
        message = source, sequence
        hold(node == source, "completed elsewhere", f"node {node} completed {message}")
        completed[message] += 1
        hold(completed[message] == 1, "completed twice", f"{message} was completed twice")
        is_late = node not in correct or time_ns >= latest[message]
        hold(is_late, "completed early", f"{message} completed too early")
    for message in issued:
        if message[0] not in correct:
            continue
        missing = [n for n in correct if n != message[0] and not times[n, message]]
        hold(not missing, "lost", f"{message} was never delivered at {missing}")
        hold(completed[message] == 1, "never completed", f"{message} was never completed")


def check_rest(state, correct, crashed):
    """Correct processes await nothing, bundle nothing, and have no timer running."""
    awaited, bundles, delivered = state.awaited, state.bundles, state.delivered
    bundle, early = bundles.bundle, delivered.source.early
    hold((awaited.first[correct] == -1).all(), "awaited", "something is still awaited")
    hold((awaited.ends.first[correct] == -1).all(), "rows", "a row was not given back")
    hold((bundle.first[correct] == -1).all(), "bundle", "a bundle was not sent")
    hold((bundle.generation[correct] % 2 == 0).all(), "timer", "a timer is still running")
    hold((bundle.size_bytes[correct] == 0).all(), "bundle", "something waits to be sent")
    hold((early[correct] == -1).all(), "rows", "a delivered message is never forgotten")
    # What crashed processes had in use is all that is in use.
    nodes = list(crashed)
    for rows, link, heads in (
        (awaited.rows, awaited.rows.following, awaited.ends.first[nodes]),
        (bundles.rows, bundles.rows.link, bundle.first[nodes]),
        (delivered.rows, delivered.rows.link, early[nodes]),
    ):
        left = sum(_length(link, int(row)) for row in heads.flat)
        hold(int(rows.mark[pool.COUNT]) == left, "rows", "a row of a reserve was lost")


def _length(link, row):
    """The number of rows of a linked list, from its first."""
    count = 0
    while row != -1:
        count += 1
        row = int(link[row])
    return count
