"""Causal broadcast with a probabilistic clock and a hash of the past, as published.

Source: "Improving accuracy", Algorithm 2 (broadcast with requests) and Algorithm 3 (the error
detector), with their names and in their order. Additions to the paper are marked [n]; the page of
``hashed`` explains each. Every step tests all of ``Rec``, which is slow: the package compiles the
same algorithm, and a test compares the two event for event, with ``search=literal``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice
from operator import le
from typing import NamedTuple

from precedes import plain
from precedes.model import NANOSECONDS_PER_MS
from precedes.parts import clocks

GUARANTEE = "causal"
ASSUMES = {"reliable"}
ROUTE = "direct"
SURVIVES_CRASHES = False

NEWEST = 64  # [7] deliveries that a sender may lack; older ones are assumed to be delivered there


@dataclass(frozen=True)
class Parameters:
    """M, k and l of the paper, and [4] how long a suspect message waits before line 11."""

    entries: int = 50
    per_process: int = 2
    hashes: int = 100
    grace_ms: float = 100.0


class Message(plain.Message):
    """[1] V and H are those of its sender before the message."""

    V: list[int]
    H: int


class Id(NamedTuple):
    """The name of a message."""

    p: int
    seq: int


class REQ(NamedTuple):
    """A request for the dependencies of the receiver's message."""

    seq: int


class RSP(NamedTuple):
    """The answer to a request."""

    seq: int
    dep: tuple[Id, ...]


@cache
def hash_of(u: Id) -> int:
    """The hash of a message; that of a set is the sum over its messages."""
    return int.from_bytes(hashlib.blake2b(repr(u).encode(), digest_size=7).digest())


# --- Algorithm 2: broadcast at process i ---


class Process(plain.Process):
    """Process i; ``Rec`` is in order of arrival, ``Deliv`` in order of delivery."""

    messages = Message
    records = (REQ, RSP)

    def init(self) -> None:
        """The variables of section 4; the host counts seq_i."""
        M, k = self.parameters.entries, self.parameters.per_process
        own = clocks.entries_apart(entries=M, per_process=k, nodes=self.nodes, seed=self.seed)
        self.f: list[list[int]] = own.tolist()  # [2]
        self.V = [0] * M
        self.H = 0  # the hash of Deliv
        self.Rec: list[Message] = []
        self.Deliv: list[tuple[Id, list[int]]] = []  # with the clock of the message itself
        self.count = [0] * self.nodes  # Deliv by process: the last number, as none is skipped
        self.Dep_msg: set[Id] = set()
        self.S_dep: dict[int, tuple[Id, ...]] = {}
        self.suspect: set[Message] = set()  # has failed its test
        self.asked: set[Message] = set()
        self.dep: dict[Message, tuple[Id, ...]] = {}  # contents of RSP

    def broadcast(self, m: Message) -> None:
        """Lines 1 to 7; [3] from line 3 on a waiting message may be ready."""
        self.S_dep[m.sequence] = tuple(self.Dep_msg)
        m.V, m.H = self.V.copy(), self.H
        self.Dep_msg = set()
        self.record(m)
        self.send_all(m)
        self.wait_until()

    def receive(self, j: int, packet: list[Message | REQ | RSP]) -> None:
        """Lines 8, 14 and 15."""
        for item in packet:
            match item:
                case Message() as m:
                    self.on_app(m)
                case REQ(seq):
                    self.send(j, RSP(seq, self.S_dep[seq]))
                case RSP(seq, dep):
                    for m in self.asked:
                        if (m.source, m.sequence) == (j, seq):
                            self.dep[m] = dep
                    self.wait_until()

    def on_app(self, m: Message) -> None:
        """Line 8; [6] a duplicate of a delivered or waiting message is dropped."""
        if m.sequence <= self.count[m.source] or m in self.Rec:
            self.drop(m)
        else:
            self.Rec.append(m)
            self.wait_until()

    def wait_until(self) -> None:
        """Lines 9 to 16; [3] after a delivery all waiting messages are tested, oldest first."""
        while m := next((m for m in self.Rec if self.may_go(m)), None):
            self.handle(m)

    def may_go(self, m: Message) -> bool:
        """Line 15 for a message whose dependencies are known, else lines 9 and 10."""
        if m.sequence != self.count[m.source] + 1:  # [5] its sender's message before it
            return False
        if m in self.dep:
            return all(seq <= self.count[p] for p, seq in self.dep[m])
        if not all(map(le, m.V, self.V)):
            return False
        is_suspect = self.errorDetector(m)
        if is_suspect and m not in self.suspect | self.asked:
            self.suspect.add(m)
            self.set_timer(round(self.parameters.grace_ms * NANOSECONDS_PER_MS), m)
        return not is_suspect

    def on_timer(self, m: Message) -> None:
        """Line 11; [4] after a grace time, and for all waiting messages of the sender."""
        if m in self.suspect - self.asked:
            for other in self.Rec:
                if other.source == m.source and other not in self.asked:
                    self.asked.add(other)
                    self.send(m.source, REQ(other.sequence))

    def handle(self, m: Message) -> None:
        """Lines 17 to 21."""
        self.deliver(m)
        self.Rec.remove(m)
        self.suspect.discard(m)
        self.asked.discard(m)
        self.dep.pop(m, None)
        self.record(m)

    def record(self, m: Message) -> None:
        """Lines 3 and 7 of an own message, lines 19 to 21 of another one."""
        u, clock = Id(m.source, m.sequence), m.V.copy()
        for e in self.f[m.source]:
            self.V[e] += 1
            clock[e] += 1
        self.Dep_msg.add(u)
        self.Deliv.append((u, clock))
        self.count[m.source] = m.sequence
        self.H += hash_of(u)

    # --- Algorithm 3: the hash error detector ---

    def errorDetector(self, m: Message) -> bool:
        """Return whether none of the sets of deliveries that are tried has the hash of m.

        Line 1; [7] first all that m's clock covers, then all but one of them, all but two, and so
        on; the others are shown to be concurrent. ``lacked`` is the part that a set leaves out.
        """
        maybe, lacked = [], self.H - m.H
        for u, clock in self.Deliv[: -NEWEST - 1 : -1]:
            if all(map(le, clock, m.V)):
                maybe.append(hash_of(u))
            else:
                lacked -= hash_of(u)
        Comb = (left for size in range(len(maybe) + 1) for left in combinations(maybe, size))
        return all(sum(left) != lacked for left in islice(Comb, self.parameters.hashes))

    def message_bytes(self, m: Message) -> int:
        """Name and hash of eight bytes each, a counter of four for each entry."""
        return 16 + 4 * self.parameters.entries
