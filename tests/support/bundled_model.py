"""`bundled` without failures once more, from the text alone: sets, dictionaries and a heap.

It shares nothing with the package. Time is in ticks of 0.1 units: a packet keeps its sender's port
for 1 tick and arrives 10 ticks later, and of what happens at one tick timers come first.
"""

import heapq
import itertools


class Model:
    """One broadcast by each of ``nodes`` processes, a power of two, at tick 0."""

    def __init__(self, nodes, *, payload_max, tree, ack, delay_ticks):
        self.nodes = nodes
        self.payload_max, self.size = payload_max, {"TREE": tree, "ACK": ack}
        self.delay_ticks = delay_ticks
        self.now = self.packets = self.last = 0
        self.queue, self.serial = [], itertools.count()
        self.port_free = [0] * nodes
        self.bundle = {}  # (i, k) -> items
        self.timer = {}  # (i, k) -> the timer that counts
        self.parent = {}  # (i, m) -> who sent m to i
        self.awaited = {}  # (i, m) -> children that have not answered
        self.received = {i: [] for i in range(nodes)}

    def run(self):
        """Latency in units, without the last reaction, and packets."""
        for i in range(self.nodes):
            self.on_tree(i, i, i)
        while self.queue:
            self.now, _, _, what, i, k, item = heapq.heappop(self.queue)
            if what == "packet":
                for kind, m in item:
                    self.on_tree(k, i, m) if kind == "TREE" else self.on_ack(k, i, m)
            elif self.timer.get((i, k)) is item:
                self.send(i, k, self.bundle.pop((i, k)))
                del self.timer[i, k]
        return (self.last - 1) / 10, self.packets

    def on_tree(self, i, j, m):
        """i receives m from j."""
        self.received[i].append(m)
        top = (i ^ j).bit_length() - 1 if i != j else self.nodes.bit_length() - 1
        children = [i ^ 1 << bit for bit in reversed(range(top))]
        self.parent[i, m], self.awaited[i, m] = j, set(children)
        for k in children:
            self.give(i, k, ("TREE", m))
        self.check(i, m)

    def on_ack(self, i, k, m):
        """k answers i."""
        self.awaited[i, m].remove(k)
        self.check(i, m)

    def check(self, i, m):
        """Answer the parent when nobody is awaited."""
        if not self.awaited[i, m]:
            if self.parent[i, m] == i:
                self.last = self.now
            else:
                self.give(i, self.parent[i, m], ("ACK", m))

    def give(self, i, k, item):
        """CHECK_BUNDLE."""
        waiting = self.bundle.get((i, k), [])
        size = self.size[item[0]]
        total = sum(self.size[kind] for kind, _ in waiting) + size
        if size >= self.payload_max:
            self.send(i, k, [item])
        elif total == self.payload_max:
            self.send(i, k, [*waiting, item])
            self.bundle.pop((i, k), None)
            self.timer.pop((i, k), None)
        else:
            if total > self.payload_max:
                self.send(i, k, waiting)
                waiting = []
                del self.timer[i, k]
            self.bundle[i, k] = [*waiting, item]
            if (i, k) not in self.timer:
                self.timer[i, k] = token = object()
                self.push(self.now + self.delay_ticks, 0, "timer", i, k, token)

    def send(self, i, k, items):
        """Through the port of i."""
        self.packets += 1
        self.port_free[i] = max(self.now, self.port_free[i]) + 1
        self.push(self.port_free[i] + 10, 1, "packet", i, k, items)

    def push(self, tick, rank, what, i, k, item):
        """Something happens at a tick."""
        heapq.heappush(self.queue, (tick, rank, next(self.serial), what, i, k, item))
