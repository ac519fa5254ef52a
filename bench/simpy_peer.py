"""Workload W in SimPy: the peer that the compiled simulator is measured against.

W: every message goes straight to all others with a delay of N(100, 20) ms; broadcasts form one
Poisson process of 100 a second, each by a node drawn uniformly; a probabilistic clock of 50
entries, of which every node owns 2.

Two ways to write it in SimPy:

- ``callbacks``: a packet is a timeout whose callback is the receiver. The fastest form.
- ``processes``: a node is a process that takes packets from its own Store. The usual form.

It is meant to be as fast as SimPy allows: delays are drawn in one call per broadcast, clocks of
50 entries are lists (quicker than arrays at that size) and the oracle's vectors of one entry per
node are arrays (1.4 times quicker over the whole run than lists). The oracle is the algorithm of
``precedes.sim.engine.oracle`` with a set of messages for its bits.
"""

import time
from operator import ge

import numpy as np
import simpy

ENTRIES = 50
PER_NODE = 2
RATE_PER_MS = 0.1
DELAY_MS_MEAN = 100.0
DELAY_MS_SD = 20.0
DELAY_MS_MIN = 0.001


class Message:
    """Fields that travel: the sender's entries and its clock before they were incremented."""

    __slots__ = ("entries", "need", "past", "sequence", "source", "successor")

    def __init__(self, source, sequence, entries, need):
        self.source = source
        self.sequence = sequence
        self.entries = entries
        self.need = need
        self.past = None
        self.successor = None


class Oracle:
    """Judges each delivery by the causal past of its message."""

    def __init__(self, nodes):
        self.known = [np.zeros(nodes, np.int32) for _ in range(nodes)]
        self.contiguous = [np.zeros(nodes, np.int32) for _ in range(nodes)]
        self.beyond = [set() for _ in range(nodes)]  # delivered beyond a gap
        self.latest = [None] * nodes
        self.violations = 0

    def on_broadcast(self, node, message):
        known = self.known[node]
        message.past = known.copy()
        known[node] += 1
        self.contiguous[node][node] += 1
        if self.latest[node] is not None:
            self.latest[node].successor = message
        self.latest[node] = message

    def on_deliver(self, node, message):
        contiguous = self.contiguous[node]
        source, sequence = message.source, message.sequence
        in_order = (contiguous >= message.past).all()
        known = self.known[node]
        if in_order and not self.beyond[node] and contiguous.item(source) + 1 == sequence:
            contiguous[source] = sequence
            if known.item(source) < sequence:
                known[source] = sequence
            return
        if not in_order:
            self.violations += 1
        np.maximum(known, message.past, out=known)
        known[source] = max(known[source], sequence)
        beyond = self.beyond[node]
        if contiguous[source] + 1 < sequence:
            beyond.add(message)
            return
        contiguous[source] += 1
        while (message := message.successor) in beyond:
            beyond.remove(message)
            contiguous[source] += 1


class Node:
    """One process of the group: the protocol, the same for both variants."""

    def __init__(self, index, entries, oracle):
        self.index = index
        self.entries = entries
        self.oracle = oracle
        self.clock = [0] * ENTRIES
        self.sequence = 0
        self.held = []
        self.deliveries = 0

    def broadcast(self):
        clock = self.clock
        self.sequence += 1
        message = Message(self.index, self.sequence, self.entries, clock.copy())
        for x in self.entries:
            clock[x] += 1
        if self.oracle is not None:
            self.oracle.on_broadcast(self.index, message)
        return message

    def receive(self, message):
        if all(map(ge, self.clock, message.need)):
            self.deliver(message)
            if self.held:
                self.deliver_held()
        else:
            self.held.append(message)

    def receive_event(self, event):
        self.receive(event.value)

    def deliver(self, message):
        clock = self.clock
        for x in message.entries:
            clock[x] += 1
        self.deliveries += 1
        if self.oracle is not None:
            self.oracle.on_deliver(self.index, message)

    def deliver_held(self):
        progress = True
        while progress:
            progress = False
            for message in self.held:
                if all(map(ge, self.clock, message.need)):
                    self.held.remove(message)
                    self.deliver(message)
                    progress = True
                    break


def _issue(env, members, arrivals, messages, rng):
    """Broadcast; ``arrivals[i]`` is the callback of a packet's timeout at node i."""
    timeout = env.timeout
    for _ in range(messages):
        yield timeout(rng.exponential(1.0 / RATE_PER_MS))
        source = int(rng.integers(len(members)))
        message = members[source].broadcast()
        delays = rng.normal(DELAY_MS_MEAN, DELAY_MS_SD, len(members)).clip(DELAY_MS_MIN).tolist()
        for target, arrive in enumerate(arrivals):
            if target != source:
                timeout(delays[target], message).callbacks.append(arrive)


def _serve(node, store):
    while True:
        node.receive((yield store.get()))


def run(variant, oracle, nodes=200, messages=1500, seed=1):
    """Run W and return deliveries, violations and CPU seconds of the event loop alone.

    The queue fills during the first 100 ms of simulated time, which is 1 % of 1,000 broadcasts;
    that is not corrected.
    """
    rng = np.random.default_rng(seed)
    env = simpy.Environment()
    judge = Oracle(nodes) if oracle else None
    members = [
        Node(i, rng.choice(ENTRIES, PER_NODE, replace=False).tolist(), judge) for i in range(nodes)
    ]
    if variant == "callbacks":
        arrivals = [node.receive_event for node in members]
    elif variant == "processes":
        stores = [simpy.Store(env) for _ in members]
        for node, store in zip(members, stores, strict=True):
            env.process(_serve(node, store))
        arrivals = [lambda event, put=store.put: put(event.value) for store in stores]
    else:
        raise ValueError(f"variant must be 'callbacks' or 'processes', not {variant!r}")
    env.process(_issue(env, members, arrivals, messages, rng))
    start = time.process_time()
    env.run()
    cpu_s = time.process_time() - start
    assert not any(node.held for node in members), "messages are still held at the end"
    return {
        "deliveries": sum(node.deliveries for node in members),
        "violations": judge.violations if judge else None,
        "cpu_s": cpu_s,
    }
