"""FIFO broadcast in plain Python: the messages of one source in the order of their broadcasts.

A complete protocol; docs/adding-a-protocol.md walks through it. Run it with

    precedes simulate examples/fifo_plain.py --nodes 10 --messages 500

Guarantee: the order of each source, at most once, if no packet is lost; no causal order.
"""

from precedes import plain

GUARANTEE = "none"  # FIFO order is not causal order
ASSUMES = {"reliable"}  # a lost message would hold back all that follow it
ROUTE = "direct"  # a message comes from its source alone
ON_LOSS = "view"  # each member delivers a sender's messages without gaps


class Process(plain.Process):
    """Counts the delivered messages of each source."""

    def init(self):
        self.delivered = [0] * self.nodes
        self.early = []

    def broadcast(self, m):
        self.send_all(m)

    def receive(self, sender, packet):
        self.early += packet
        while m := next((m for m in self.early if self.is_due(m)), None):
            self.early.remove(m)
            if m.sequence <= self.delivered[m.source]:
                self.drop(m)  # it has arrived before
            else:
                self.delivered[m.source] += 1
                self.deliver(m)

    def is_due(self, m):
        return m.sequence <= self.delivered[m.source] + 1

    def admits(self, sender, m):
        return m.source == sender and m.sequence <= self.delivered[sender] + self.window
