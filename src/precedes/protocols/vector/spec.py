"""Causal broadcast with vector clocks, in plain Python.

Source: Birman, Schiper, Stephenson 1991. A message carries its sender's counts of deliveries of
each process; a receiver that has not delivered as much lets it wait.
"""

from __future__ import annotations

from operator import le

from precedes import plain

GUARANTEE = "causal"
ASSUMES = {"reliable"}
ROUTE = "direct"


class Message(plain.Message):
    """The counts of its sender before it."""

    need: list[int]


class Process(plain.Process):
    """Counts what it has delivered of each process."""

    messages = Message

    def init(self) -> None:
        """Nothing has been delivered."""
        self.clock = [0] * self.nodes
        self.pending: list[Message] = []

    def broadcast(self, m: Message) -> None:
        """A message needs all that this process has delivered."""
        m.need = self.clock.copy()
        self.clock[self.me] += 1
        self.send_all(m)

    def receive(self, sender: int, packet: list[Message]) -> None:
        """Deliver messages that are ready, until there are none."""
        self.pending += packet
        while m := next((m for m in self.pending if all(map(le, m.need, self.clock))), None):
            self.pending.remove(m)
            if m.sequence <= self.clock[m.source]:
                self.drop(m)  # a duplicate
            else:
                self.clock[m.source] += 1
                self.deliver(m)

    def message_bytes(self, m: Message) -> int:
        """A counter for each process, and the name of the message."""
        return 8 + 4 * self.nodes

    def admits(self, sender: int, m: Message) -> bool:
        """No process has delivered more than a window beyond this one, and of ours no more."""
        most = [count + self.window for count in self.clock]
        most[self.me] = self.clock[self.me]
        in_range = all(0 <= need <= top for need, top in zip(m.need, most, strict=True))
        return in_range and m.need[m.source] == m.sequence - 1
