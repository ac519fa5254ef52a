"""Causal broadcast with a probabilistic clock, as published.

Source: "Improving accuracy", section 2, Algorithm 1, after Mostefaoui and Weiss (2017), with the
detector of these authors. Corrected errors and open points of the paper are marked [n]; the page of
``probabilistic`` explains each. The package compiles the same algorithm, and a test compares the
two event for event.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import le

from precedes import plain
from precedes.model import EventKind
from precedes.parts import clocks

GUARANTEE = "probable"
ASSUMES = {"reliable", "unique"}
ROUTE = "direct"


@dataclass(frozen=True)
class Parameters:
    """M and k of the paper, and whether deliveries that look late are tagged."""

    entries: int = 50
    per_process: int = 2
    detector: str = "none"


class Message(plain.Message):
    """[1] V is its sender's clock before the message, without line 1."""

    V: list[int]


class Process(plain.Process):
    """Process i; ``waiting`` is in order of arrival."""

    messages = Message

    def init(self) -> None:
        """All entries are 0; [2] f is drawn from the seed of the group."""
        M, k = self.parameters.entries, self.parameters.per_process
        own = clocks.entries_of_all(entries=M, per_process=k, nodes=self.nodes, seed=self.seed)
        self.f: list[list[int]] = own.tolist()
        self.V = [0] * M
        self.waiting: list[Message] = []

    def broadcast(self, m: Message) -> None:
        """Lines 1 to 3."""
        m.V = self.V.copy()
        self.increment(m)
        self.send_all(m)

    def increment(self, m: Message) -> None:
        """Line 1 of an own message, line 5 of another one."""
        for x in self.f[m.source]:
            self.V[x] += 1

    def receive(self, j: int, packet: list[Message]) -> None:
        """Lines 4 to 6; [3] waiting messages are tested again after a delivery, oldest first."""
        for arrived in packet:
            if not self.is_ready(arrived):
                self.waiting.append(arrived)
                continue
            self.handle(arrived)
            while m := next((m for m in self.waiting if self.is_ready(m)), None):
                self.waiting.remove(m)
                self.handle(m)

    def is_ready(self, m: Message) -> bool:
        """Line 4; with [1] the same for the entries in f(j) and for the others."""
        return all(map(le, m.V, self.V))

    def handle(self, m: Message) -> None:
        """Lines 5 and 6, after the detector of section 2."""
        if self.parameters.detector == "mostefaoui" and self.looks_late(m):
            self.note(EventKind.TAG, m)
        self.increment(m)
        self.deliver(m)

    def looks_late(self, m: Message) -> bool:
        """The detector; [4] published the other way round: an entry in f(j) is not yet counted."""
        return all(self.V[x] > m.V[x] for x in self.f[m.source])

    def message_bytes(self, m: Message) -> int:
        """A name of eight bytes, a counter of four for each entry."""
        return 8 + 4 * self.parameters.entries
