"""Best-effort broadcast with bundling on self-healing trees, as published.

Source: Rodrigues et al. 2018, sections 3 and 4 (clusters and trees of VCube) and Algorithm 2, with
their names and in their order. Corrected errors are marked [n]; the page of ``bundled`` explains
each. ``on_crash`` is called by a failure detector that reports every crash and makes no mistakes.
Every step looks at all of ``ack_set``, which is slow: the package compiles the same algorithm, and
a test compares the two event for event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from precedes import plain
from precedes.model import NANOSECONDS_PER_MS, EventKind
from precedes.plain import Message

GUARANTEE = "none"
ASSUMES = {"reliable"}
ROUTE = "tree"
ON_LOSS = "crash"
OFF = 0  # a timer
ANY = -1  # the asterisk


@dataclass(frozen=True)
class Parameters:
    """The paper's maxPayload, the lengths of TREE and ACK, and maxDelay."""

    payload_max_bytes: int = 1460
    tree_bytes: int = 24
    ack_bytes: int = 20
    delay_max_ms: float = 2.0


class ACK(NamedTuple):
    """(src, ts): the name of a message, the whole content of its acknowledgement."""

    src: int
    ts: int


def name(m: Message) -> ACK:
    """The name of a message."""
    return ACK(m.source, m.sequence)


def c(i: int, s: int) -> list[int]:
    """Equation 1: the members of cluster s of i, its neighbour over bit s - 1 first."""
    j = i ^ 1 << (s - 1)
    return [j] + [k for t in range(1, s) for k in c(j, t)]


class Process(plain.Process):
    """Process i; a TREE item is the message itself. ``ack_set`` is in order of adding."""

    records = (ACK,)

    # --- Section 4: the children of i ---

    def cluster(self, j: int) -> int:
        """The cluster of i that j is in."""
        return (self.me ^ j).bit_length()

    def FF_neighbor(self, s: int) -> int | None:
        """The first correct process of c(i, s)."""
        return next((k for k in c(self.me, s) if k in self.correct), None)

    def subtree(self, j: int) -> list[int]:
        """The processes that i asks to cover its clusters for j, the largest cluster first."""
        top = (self.nodes - 1).bit_length() if j == self.me else self.cluster(j) - 1
        return [k for s in range(top, 0, -1) if (k := self.FF_neighbor(s)) is not None]

    # --- Algorithm 2 ---

    def init(self) -> None:
        """Lines 1 to 7; [1] bundles to all, not to neighbours alone."""
        self.ack_set: list[tuple[int, int, ACK]] = []  # parent, child, message
        self.msg_set: dict[ACK, Message] = {}
        self.correct = set(range(self.nodes))
        self.rcv_base = [0] * self.nodes  # [2] published: bottom
        self.rcv_win: list[set[int]] = [set() for _ in range(self.nodes)]
        self.delay_msg: list[list[Message | ACK]] = [[] for _ in range(self.nodes)]
        self.timer = [OFF] * self.nodes
        self.timers = 0  # number of timers started

    def is_pending(self, j: int, k: int, ack: ACK) -> bool:
        """Return whether <j, k, ack> is in ``ack_set``."""
        return any(j in (x, ANY) and k in (y, ANY) and z == ack for x, y, z in self.ack_set)

    def broadcast(self, m: Message) -> None:
        """Lines 8 and 9."""
        self.HANDLE_MSG(m, self.me)

    def HANDLE_MSG(self, m: Message, j: int) -> None:
        """Lines 10 to 17; line 14 comes last, when the message has been passed on."""
        if name(m) not in self.msg_set:
            self.msg_set[name(m)] = m
            self.keep(m)
        is_new = self.is_new(m)
        if is_new:
            self.UPDATE_WINDOW(m)
        self.FORWARD(m, j)
        self.CHECK_ACKS(name(m), j)
        if j != self.me:
            self.deliver(m) if is_new else self.drop(m)

    def is_new(self, m: Message) -> bool:
        """Lines 12 and 13; [2] the window counts before the first message in order, too."""
        return m.sequence > self.rcv_base[m.source] and m.sequence not in self.rcv_win[m.source]

    def UPDATE_WINDOW(self, m: Message) -> None:
        """Lines 18 to 31."""
        window = self.rcv_win[m.source]
        window.add(m.sequence)
        while self.rcv_base[m.source] + 1 in window:
            self.rcv_base[m.source] += 1
            window.remove(self.rcv_base[m.source])

    def FORWARD(self, m: Message, j: int) -> None:
        """Lines 32 to 35; [3] published: subtree(m.src), which may lead back up the tree.

        Nothing is done if j waits already; k is not asked if its answer is pending for another.
        """
        if self.is_pending(j, ANY, name(m)):
            return
        for k in self.subtree(j):
            if not self.is_pending(ANY, k, name(m)):
                self.CHECK_BUNDLE(m, k)
            self.ack_set.append((j, k, name(m)))

    def CHECK_BUNDLE(self, item: Message | ACK, k: int) -> None:
        """Lines 36 to 50."""
        maxPayload = self.parameters.payload_max_bytes
        total = sum(map(self.length, self.delay_msg[k])) + self.length(item)
        if self.length(item) >= maxPayload:
            self.send(k, item)
        elif total > maxPayload:
            self.send_bundle(k)
            self.add(item, k)
        else:
            self.add(item, k)
            if total == maxPayload:
                self.send_bundle(k)
        if self.timer[k] == OFF and self.delay_msg[k]:
            self.timer[k] = self.timers = self.timers + 1
            maxDelay = round(self.parameters.delay_max_ms * NANOSECONDS_PER_MS)
            self.set_timer(maxDelay, (k, self.timers))

    def length(self, item: Message | ACK) -> int:
        """Equation 3."""
        is_ack = isinstance(item, ACK)
        return int(self.parameters.ack_bytes if is_ack else self.parameters.tree_bytes)

    def add(self, item: Message | ACK, k: int) -> None:
        """Line 48."""
        self.delay_msg[k].append(item)
        if isinstance(item, Message):
            self.keep(item)

    def send_bundle(self, k: int) -> None:
        """Lines 40 to 42 and 44 to 46."""
        self.send(k, *self.delay_msg[k])
        self.drop_bundle(k)

    def drop_bundle(self, k: int) -> None:
        """Empty a bundle and stop its timer."""
        for item in self.delay_msg[k]:
            if isinstance(item, Message):
                self.release(item)
        self.delay_msg[k] = []
        self.timer[k] = OFF

    def CHECK_ACKS(self, ack: ACK, k: int) -> None:
        """Lines 51 to 55."""
        if self.is_pending(k, ANY, ack):
            return
        if k == self.me:
            self.note(EventKind.COMPLETE, self.msg_set[ack])
        elif {ack.src, k} <= self.correct:
            self.CHECK_BUNDLE(ack, k)
        self.forget(ack)

    def forget(self, ack: ACK) -> None:
        """Line 53; [4] when no process waits for m; published: when one is done."""
        if not self.is_pending(ANY, ANY, ack):
            self.release(self.msg_set.pop(ack))

    def receive(self, j: int, msgs: list[Message | ACK]) -> None:
        """Lines 56 to 61."""
        for item in msgs:
            if isinstance(item, ACK):
                self.RECEIVE_ACK(item, j)
            else:
                self.RECEIVE_TREE(item, j)

    def RECEIVE_TREE(self, m: Message, j: int) -> None:
        """Lines 62 to 65."""
        if {m.source, j} <= self.correct:
            self.HANDLE_MSG(m, j)
        else:
            self.drop(m)

    def RECEIVE_ACK(self, ack: ACK, j: int) -> None:
        """Lines 66 to 69; [5] for all who wait for j, the latest first; published: for one."""
        for k in [x for x, y, z in reversed(self.ack_set) if (y, z) == (j, ack)]:
            self.ack_set.remove((k, j, ack))
            self.CHECK_ACKS(ack, k)

    def on_timer(self, key: tuple[int, int]) -> None:
        """Lines 70 to 72; [6] the timer is off then, which line 72 omits."""
        k, number = key
        if self.timer[k] == number:  # it has not been stopped
            self.send_bundle(k)

    def on_crash(self, j: int) -> None:
        """CRASH, lines 73 to 87; k is asked once for all who waited for j."""
        self.correct -= {j}
        self.drop_bundle(j)
        k = self.FF_neighbor(self.cluster(j))
        for p, q, ack in self.ack_set.copy():
            if not {ack.src, p} <= self.correct:
                self.ack_set.remove((p, q, ack))
            elif q == j:
                self.ack_set.remove((p, j, ack))
                if k is not None:
                    self.ack_set.append((p, k, ack))
                    if not self.is_pending(ANY, j, ack):
                        self.CHECK_BUNDLE(self.msg_set[ack], k)
            self.CHECK_ACKS(ack, p)

    def admits(self, sender: int, item: Message | ACK) -> bool:
        """Not in the paper: a live member ignores unknown items, so that all are admitted."""
        return True
