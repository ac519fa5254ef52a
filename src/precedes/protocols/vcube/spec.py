"""Causal broadcast over the trees of VCube with aggregation, as published.

Source: de Araujo et al. 2018, Algorithm 1 (children in a tree) and Algorithm 2 (causal broadcast),
with their names and in their order. Corrected errors of the paper are marked [n]; the page of
``vcube`` explains each. Crashes are not in the paper. Every step looks at all of ``pending``, which
is slow: the package compiles the same algorithm, and a test compares the two event for event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from precedes import plain

GUARANTEE = "causal"
ASSUMES = {"reliable", "unique"}
ROUTE = "tree"


@dataclass(frozen=True)
class Parameters:
    """The aggregation of messages, which can be disabled."""

    aggregation: bool = True


class Message(plain.Message):
    """``vc`` is its sender's vector clock, of which the ``changed`` entries travel."""

    vc: list[int]
    changed: int


# --- Algorithm 1: the children of i in the tree of r ---


def c(i: int, s: int) -> list[int]:
    """The members of cluster s of i: its neighbour over bit s - 1, then that one's clusters."""
    j = i ^ 1 << (s - 1)
    return [j] + [k for t in range(1, s) for k in c(j, t)]


def CLUSTER(i: int, j: int) -> int:
    """The cluster of i that j is in."""
    return (i ^ j).bit_length()


@cache
def FIRSTCHILD(i: int, s: int, nodes: int) -> int | None:
    """The first member of c(i, s); a number from ``nodes`` on is not a process."""
    return next((k for k in c(i, s) if k < nodes), None)


@cache
def CHILDREN(i: int, r: int, h: int, nodes: int) -> Sequence[int]:
    """The children of i in the tree of r, of height h."""
    if i == r:  # lines 2 to 4; [1] published: 1 < s
        children = [FIRSTCHILD(i, s, nodes) for s in range(1, h + 1)]
        return [k for k in children if k is not None]
    s = CLUSTER(r, i)  # lines 5 to 7
    r_of_cluster = FIRSTCHILD(r, s, nodes)
    assert r_of_cluster is not None
    return CHILDREN(i, r_of_cluster, s - 1, nodes)


# --- Algorithm 2: causal broadcast at process i ---


class Process(plain.Process):
    """Process i; ``pending`` is in order of arrival."""

    messages = Message

    def init(self) -> None:
        """Lines 1 to 4."""
        self.vector_clock = [0] * self.nodes  # delivered of each source
        self.vector_max = [0] * self.nodes  # received of each source, without gaps
        self.pending: list[Message] = []
        self.sent: set[tuple[Message, int]] = set()  # [2] which child has received what
        self.last = [0] * self.nodes  # the clock of the message before

    def children(self, r: int) -> Sequence[int]:
        """CHILDREN(r, log N), for this process."""
        return CHILDREN(self.me, r, (self.nodes - 1).bit_length(), self.nodes)

    def broadcast(self, m: Message) -> None:
        """CO_BROADCAST, lines 5 to 12."""
        i = self.me
        self.vector_clock[i] += 1
        self.vector_max[i] = self.vector_clock[i]
        m.vc = self.vector_clock.copy()
        m.changed = sum(a != b for a, b in zip(m.vc, self.last, strict=True))
        self.last = m.vc
        for k in self.children(i):
            self.send(k, m)

    def receive(self, j: int, m_set: list[Message]) -> None:
        """Lines 13 to 22; [3] first the whole packet arrives, then it is forwarded, then delivered.

        The paper delivers inside the loop, so that a message can be gone before it is forwarded.
        """
        self.pending += m_set
        while m := self.next_received():
            self.vector_max[m.source] += 1
        self.forward(m_set)
        self.CHECKDELIVERY()

    def next_received(self) -> Message | None:
        """A message that is the next one of its source, line 16."""
        following = (m for m in self.pending if m.vc[m.source] == self.vector_max[m.source] + 1)
        return next(following, None)

    def forward(self, m_set: list[Message]) -> None:
        """Lines 18 to 20; [4] for every child, not for those of the received message alone."""
        if not self.parameters.aggregation:
            for m in m_set:
                for k in self.children(m.source):
                    self.send(k, m)
            return
        targets = {k for m in self.pending for k in self.children(m.source)}
        for k in sorted(targets, key=lambda k: CLUSTER(self.me, k)):
            if agg := self.CHECKAGG(k):
                self.sent |= {(m, k) for m in agg}
                self.send(k, *agg)

    def CHECKAGG(self, k: int) -> list[Message]:
        """Lines 23 to 28; [5] all that may go now, and [2] nothing a second time."""
        return [
            m
            for m in self.pending
            if k in self.children(m.source) and (m, k) not in self.sent and not self.blocked(m, k)
        ]

    def blocked(self, m: Message, k: int) -> bool:
        """Line 26: m needs a message that has not arrived and comes to k by this process."""
        missing = (l for l in range(self.nodes) if m.vc[l] > self.vector_max[l])
        return any(k in self.children(l) for l in missing)

    def CHECKDELIVERY(self) -> None:
        """Lines 29 to 33."""
        while m := next((m for m in self.pending if self.deliverable(m)), None):
            self.deliver(m)
            self.vector_clock[m.source] += 1
            self.pending.remove(m)
            self.sent = {(other, k) for other, k in self.sent if other is not m}

    def deliverable(self, m: Message) -> bool:
        """Line 32; [6] published for all k, the source included, whose entry is one ahead."""
        clock = self.vector_clock
        others = (l for l in range(self.nodes) if l != m.source)
        return m.vc[m.source] == clock[m.source] + 1 and all(m.vc[l] <= clock[l] for l in others)

    def message_bytes(self, m: Message) -> int:
        """Section 3.4: four bytes for each entry that has changed."""
        return 4 * m.changed

    def admits(self, sender: int, m: Message) -> bool:
        """Not in the paper: whether a correct member of a live group may send this."""
        most = [self.window + count for count in self.vector_clock]
        most[self.me] = self.vector_clock[self.me]
        in_range = all(0 <= entry <= top for entry, top in zip(m.vc, most, strict=True))
        return in_range and m.vc[m.source] == m.sequence
