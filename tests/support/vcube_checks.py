"""Random runs of ``vcube``, and what must hold of them by the trace alone."""

import random

import numpy as np

from precedes.model import EventKind
from precedes.sim import Fault, Scenario
from precedes.sim.engine.rows import KIND, NODE, PACKET, SEQUENCE, SOURCE
from tests.support import trees
from tests.support.convictions import hold

DELAYS = ("normal:100:25", "spiky:10:800", "loguniform:0.1:1000", "lognormal:40:1.5", "constant:5")
SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 31, 32, 33)


def scenario(seed, *, nodes=None, largest=33, **fields):
    """A group without faults: any size, 1 to 8 messages a source, any kind of delay."""
    rng = random.Random(seed)
    nodes = nodes or rng.choice([n for n in SIZES if n <= largest])
    times = rng.choice((1, 1, 2, 3, 5, 8))
    start = rng.choice(("window", "window", "exponential"))
    span_ms = rng.choice((1, 50, 500, 3000))
    given = {
        "workload": f"{start}:{span_ms}:{times}",
        "delay": rng.choice(DELAYS),
        "per": rng.choice(("use", "use", "link")),
        "fifo": rng.random() < 0.2,
        "processing_ms": rng.choice((0.0, 1.0)),
        "transmission_ms": rng.choice((0.0, 1.0)),
        "mtu_bytes": rng.choice((0, 0, 200, 1500)),
        "parameters": {"aggregation": rng.random() < 0.7, "tolerant": rng.random() < 0.5},
        "seed": seed,
        **fields,
    }
    return Scenario(protocol="vcube", nodes=nodes, **given)


def with_crashes(seed):
    """The same with up to N - 1 crashes, some in mid-send, each noticed sooner or later."""
    calm = scenario(seed)
    rng = random.Random(f"crashes {seed}")
    span_s = float(calm.workload.split(":")[1]) / 1000 + rng.choice((0.01, 0.1, 1.0))
    faults = tuple(
        Fault(
            "crash",
            node=node,
            at_s=rng.uniform(0, span_s),
            after_sends=rng.randint(1, 3 * calm.nodes) if rng.random() < 0.5 else 0,
            detection_ms=(0.0, rng.choice((0.0, 50.0, 500.0, 3000.0))),
        )
        for node in rng.sample(range(calm.nodes), rng.randint(1, calm.nodes - 1))
    )
    return calm.replace(
        faults=faults, parameters={**calm.parameters, "tolerant": True}, horizon_s=None
    )


def with_few_left(seed):
    """Small groups whose members crash in a hurry: the races that the method is made for."""
    rng = random.Random(f"few {seed}")
    nodes = rng.randint(3, 6)
    faults = tuple(
        Fault(
            "crash",
            node=node,
            at_s=rng.uniform(0, 0.3),
            after_sends=rng.randint(1, 2 * nodes) if rng.random() < 0.6 else 0,
            detection_ms=rng.choice(((0.0, 5.0), (0.0, 400.0), (300.0, 400.0))),
        )
        for node in rng.sample(range(nodes), rng.randint(1, nodes - 1))
    )
    return Scenario(
        protocol="vcube",
        nodes=nodes,
        workload=f"window:{rng.choice((20, 100, 300))}:{rng.randint(1, 4)}",
        delay=rng.choice(("loguniform:0.1:500", "spiky:5:300", "uniform:1:100")),
        per=rng.choice(("use", "link")),
        faults=faults,
        seed=seed,
    )


def names(rows):
    """Source and sequence of every row, as one number."""
    return rows[:, SOURCE] << 32 | rows[:, SEQUENCE]


def check_order(seen):
    """The report of the audit; no message may still wait."""
    report, result = seen.report, seen.result
    hold(report.phantom == 0, "phantom", report.witnesses)
    hold(report.duplicates == 0, "twice", report.witnesses)
    hold(report.violations == 0, "order", report.witnesses)
    hold(result.lost == 0, "lost", f"{result.lost} deliveries are missing")
    waiting = result.extra["waiting_at_end"]
    hold(waiting == 0, "waiting", f"{waiting} still wait")
    hold(result.complete, "restless")


def check_everything(scenario, seen):
    """A run without faults, recorded with its packets."""
    check_order(seen)
    n, result = scenario.nodes, seen.result
    hold(result.pending_at_end == 0, "waiting")
    hold(result.deliveries == result.broadcasts * (n - 1), "lost")
    hold(result.messages_sent == result.deliveries, "sent", f"{result.messages_sent} were sent")
    hold(result.packets <= result.messages_sent, "packets")
    if not scenario.parameters["aggregation"]:
        hold(result.packets == result.messages_sent, "packets")
    check_edges(scenario, seen)


def check_edges(scenario, seen):
    """Every message crosses every edge of its source's tree once, and no other link."""
    sent, received = seen.of(EventKind.SEND), seen.of(EventKind.RECEIVE)
    sent = sent[np.lexsort((names(sent), sent[:, PACKET]))]
    received = received[np.lexsort((names(received), received[:, PACKET]))]
    same = np.array_equal(names(sent), names(received))
    hold(same, "sent", "not everything sent arrived once")
    edges = np.stack([names(sent), sent[:, NODE], received[:, NODE]])
    once = np.unique(edges, axis=1).shape == edges.shape
    hold(once, "edges", "a message crossed an edge twice")
    n = scenario.nodes
    parents = np.array([[trees.parent(i, root, n) for root in range(n)] for i in range(n)])
    in_tree = np.array_equal(parents[received[:, NODE], sent[:, SOURCE]], sent[:, NODE])
    hold(in_tree, "edges", "a message crossed a link that is not in its tree")


def delivered_by(scenario, seen):
    """Node -> the names of the messages it has broadcast or delivered."""
    rows = seen.rows[np.isin(seen.rows[:, KIND], (EventKind.BROADCAST, EventKind.DELIVER))]
    return {i: set(names(rows[rows[:, NODE] == i]).tolist()) for i in range(scenario.nodes)}


def check_survivors(scenario, seen):
    """After crashes: all survivors have delivered the same, and all that survivors broadcast."""
    check_order(seen)
    crashed = set(seen.of(EventKind.CRASH)[:, NODE].tolist())
    survivors = [i for i in range(scenario.nodes) if i not in crashed]
    assert survivors, "the schedule leaves nobody"
    delivered = delivered_by(scenario, seen)
    for i in survivors:
        differing = delivered[i] ^ delivered[survivors[0]]
        what = f"nodes {survivors[0]} and {i} differ in {len(differing)} messages"
        hold(not differing, "survivors", what)
    return len(crashed)
