"""Causal broadcast with a Dynamic Clock Set, as the paper has it.

Source: Wilhelm et al. 2023, sections III and IV with Algorithm 2, in their names. Corrected errors
are marked [n]; the page of ``dcs`` explains each. The paper leaves open who starts rounds, when a
clock grows and what a process increments: the last two parts decide it. Crashes, repeated packets
and the hash detector are left out. A process stores all messages that have hit or carried a
component, which is slow: the package compiles the same algorithm, and a test compares the two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import le, lt
from typing import NamedTuple

from precedes import plain
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS
from precedes.parts import clocks

from .state import INTERVALS, Parameters, loads

__all__ = ["Parameters"]

GUARANTEE = "probable"
ASSUMES = {"reliable", "unique"}
ROUTE = "direct"

COMPONENTS_A_ROUND = 8
INITIATORS = 4
TURN = 0  # the key of a timer; others are numbers of rounds


class Message(plain.Message):
    """The active components of its sender, their generations, and those that it increments."""

    D: list[list[int]]
    generation: list[int]
    S_incr: list[int]


class Round(NamedTuple):
    """Phase 1, Deactivate or Remove: are the components from ``low`` up to ``high`` unused?"""

    remove: bool
    low: int
    high: int
    number: int
    seals: list[int]


class Ack(NamedTuple):
    """AckDeactivate or AckRemove: unused from ``agreed`` on; the first ``active`` are active."""

    number: int
    active: int
    agreed: int


class Decision(Round):
    """Phase 2, DecisionDeactivate or DecisionRemove: all agree to these components."""


@dataclass
class Component:
    """C_k: the entries, and the messages that have incremented and carried it."""

    C: list[int]
    hit: set[tuple[int, int]] = field(default_factory=set)
    carried: set[tuple[int, int]] = field(default_factory=set)


def less(D1: list[list[int]], D2: list[list[int]]) -> bool:
    """III-C, D1 < D2: as many components, none below that of D1, and one above it."""
    pairs = list(zip(D1, D2, strict=False))
    return (
        len(D1) <= len(D2)
        and all(all(map(le, C1, C2)) for C1, C2 in pairs)
        and any(C1 != C2 for C1, C2 in pairs)
    )


class Process(plain.Process):
    """Process i; of the components D_i the first ``active`` ones are active."""

    messages = Message
    records = (Round, Ack, Decision)
    doubt: int

    def init(self) -> None:
        """IV-B: D_i and S_incr; f(p_j) has entries for each place of S_incr."""
        p, first = self.parameters, self.parameters.components
        if p.detector != "none":
            raise UserError(f"dcs.spec has no detector {p.detector!r}: leave detector out")
        k, self.M = p.per_component, p.component_entries
        f = clocks.entries_of_all(
            entries=self.M, per_process=p.spread * k, nodes=self.nodes, seed=self.seed
        )
        self.f = f.reshape(self.nodes, p.spread, k).tolist()
        self.D = [Component([0] * self.M) for _ in range(first)]
        self.active = first
        self.generation = [0] * p.components_max  # [6]
        self.S_incr = [self.me // first**s % first for s in range(p.spread)]
        self.last_D: list[list[int]] = []  # of the last own message
        self.pending: list[Message] = []
        self.init_rounds()
        self.init_policy()

    # --- III-D: operations ---

    def Activate(self) -> bool:
        """Activate the first inactive component; false if there is none."""
        if self.active == len(self.D):
            return False
        self.active += 1
        self.changed_ns = self.now_ns
        self.doubt = max(self.doubt, self.active)  # a component in use is not removed
        return True

    def Deactivate(self) -> None:
        """Deactivate the last active component."""
        self.active -= 1
        self.changed_ns = self.now_ns

    def Add(self) -> None:
        """Append a component and activate it; those before it are active."""
        self.D.append(Component([0] * self.M))
        self.Activate()

    def Remove(self) -> None:
        """Remove the last component; [6] one that is added in its place is another one."""
        self.D.pop()
        k = len(self.D)
        self.generation[k] += 1
        self.active = min(self.active, k)
        self.doubt = self.parameters.components_max
        self.recent[k] = 0

    # --- IV-B, Algorithm 2: causal broadcast at process p_i ---

    def broadcast(self, m: Message) -> None:
        """Lines 1 and 2; waiting messages may need these entries."""
        self.update_estimate()
        self.expand_or_drain()
        m.generation = self.generation[: self.active]
        m.S_incr = self.S_incr.copy()
        self.increment(m)
        m.D = [component.C.copy() for component in self.D[: self.active]]
        # Theorem 1 says that an own message is less than the next one.
        self.counted["theorem_1_fails"] += bool(self.last_D) and not less(self.last_D, m.D)
        self.last_D = m.D
        self.send_all(m)
        self.afterwards()

    def receive(self, j: int, packet: list[Message | Round | Ack | Decision]) -> None:
        """Line 3, or a packet of a round."""
        self.update_estimate()
        for one in packet:
            if isinstance(one, Message):
                self.checkExpand(one)
                self.pending.append(one)
            elif isinstance(one, Ack):
                self.on_ack(one)
            elif isinstance(one, Decision):
                self.on_decision(j, one)
            else:
                self.on_round(j, one)
        self.afterwards()

    def afterwards(self) -> None:
        """Lines 4 to 7, for all waiting messages; then arm the timer, as the clock may shrink."""
        while m := next((m for m in self.pending if self.deliverable(m)), None):
            self.pending.remove(m)
            self.increment(m)
            self.deliver(m)
        self.arm()

    def checkExpand(self, m: Message) -> None:
        """Line 3: add the components of m; [6] a newer one proves that all removed the older."""
        before = self.active
        for k, newer in enumerate(m.generation):
            if newer > self.generation[k]:
                while len(self.D) > k:
                    self.Remove()
                self.generation[k] = newer
        end = self.common(m)
        if end <= len(self.D):
            news = [k for k in range(self.active, end) if self.is_news(m, k)]
            end = news[-1] + 1 if news else 0
        self.expand(end)
        if self.parameters.redraw and self.active > before:
            self.choose(self.active)  # the third function

    def is_news(self, m: Message, k: int) -> bool:
        """Return whether m has more of an inactive component, or [2] increments it."""
        return k in m.S_incr or any(map(lt, self.D[k].C, m.D[k]))

    def common(self, m: Message) -> int:
        """The number of components of m, from the first on, that are those of this process."""
        k = 0
        while k < len(m.generation) and m.generation[k] == self.generation[k]:
            k += 1
        return k

    def deliverable(self, m: Message) -> bool:
        """Lines 4 and 5; [3] of the components that both have."""
        for k in range(self.common(m)):
            own = {x for x, c in self.hits(m) if c == k}
            if any(m.D[k][x] - (x in own) > self.D[k].C[x] for x in range(self.M)):
                return False
        return True

    def hits(self, m: Message) -> list[tuple[int, int]]:
        """Entries x in f(p_j) and components k in S_incr of m."""
        return [(x, k) for s, k in enumerate(m.S_incr) for x in self.f[m.source][s]]

    def increment(self, m: Message) -> None:
        """Lines 1 and 6; record the message as one that has hit and carried its components."""
        end, name = self.common(m), (m.source, m.sequence)
        for k in m.S_incr:
            if k < end:
                if k >= self.active and self.is_news(m, k):
                    self.expand(k + 1)  # a round has deactivated it while m waited
                self.D[k].hit.add(name)
                self.recent[k] += 1
        for k in range(end):
            self.D[k].carried.add(name)
        self.R1(m, end)
        self.count += 1
        self.idle = 0

    def R1(self, m: Message, end: int) -> None:
        """[1] The sender's entries in its S_incr; the text after line 6 has the receiver's."""
        for x, k in self.hits(m):
            if k < end:
                self.D[k].C[x] += 1

    def message_bytes(self, m: Message) -> int:
        """The name of m, counters of 4 bytes, and one for each component and place of S_incr."""
        return 9 + len(m.S_incr) + len(m.D) * (1 + 4 * self.M)

    # --- IV-C: expand ---

    def expand(self, end: int) -> None:
        """Make ``end`` components active."""
        while self.active < end:
            if not self.Activate():
                self.Add()

    # --- IV-D, IV-E: Deactivation round, Remove round ---

    def init_rounds(self) -> None:
        """The open round of this process, and the effects of the last round of another one."""
        p = self.parameters
        self.round_ns, self.timeout_ns, self.keep_ns = (
            round(ms * NANOSECONDS_PER_MS) for ms in (p.round_ms, p.timeout_ms, p.keep_ms)
        )
        self.round: Round | None = None
        self.number = self.failed = self.idle = self.reach = self.changed_ns = 0
        self.armed = False
        self.blocker: tuple[int, int] | None = None
        self.blocked_until_ns = self.ceiling = 0
        # [6] Others may have removed the components from ``doubt`` on in ``doubt_round``.
        self.doubt, self.doubt_until_ns = p.components_max, 0
        self.doubt_round: tuple[int, int] | None = None
        self.counted: Counter[str] = Counter()

    def seal(self, k: int, remove: bool) -> int:
        """[4] A hash of the messages that hit C_k, or [5] carried it; published: counters."""
        names = self.D[k].carried if remove else self.D[k].hit
        return hash((k, remove, self.generation[k], frozenset(names)))

    def is_same(self, k: int, r: Round) -> bool:
        """Return whether C_k is as it was at the initiator when the round began."""
        return k < len(self.D) and self.seal(k, r.remove) == r.seals[k - r.low]

    def begin(self) -> None:
        """Phase 1: ask about components that this process can do without."""
        remove, low = False, self.width
        high = max(self.active, min(self.reach, len(self.D)))
        if low >= high:
            remove, low, high = True, max(self.active, self.parameters.components), len(self.D)
            if self.now_ns - self.changed_ns < self.keep_ns:
                return
        low = max(low, high - COMPONENTS_A_ROUND)
        if low >= high:
            return
        self.drain(low)
        self.number += 1
        seals = [self.seal(k, remove) for k in range(low, high)]
        self.round = Round(remove, low, high, self.number, seals)
        self.agreed, self.awaited, self.reach = low, self.nodes - 1, 0
        self.block((self.me, self.number), low)
        self.send_all(self.round)
        self.set_timer(self.timeout_ns << self.failed, self.number)

    def block(self, name: tuple[int, int], low: int) -> None:
        """[7] Block this process's own choices alone, and for a limited time."""
        self.blocked_until_ns = self.now_ns + self.timeout_ns
        self.blocker, self.ceiling = name, low

    def on_round(self, j: int, r: Round) -> None:
        """Phase 1: acknowledge the components that this process can do without."""
        agreed = r.high
        if self.now_ns >= self.blocked_until_ns:
            agreed = self.agrees_from(r)
        if agreed < r.high:
            self.block((j, r.number), agreed)
            if r.remove:
                alone = self.doubt >= len(self.D)
                self.doubt_round = (j, r.number) if alone else None
                self.doubt = min(self.doubt, agreed)
                self.doubt_until_ns = self.now_ns + (self.timeout_ns << 6)
        self.send(j, Ack(r.number, self.active, agreed))

    def agrees_from(self, r: Round) -> int:
        """The conditions of IV-D and IV-E: the first component that they hold for."""
        lowest = max(r.low, self.active if r.remove else self.width)
        fits = len(self.D) == r.high if r.remove else self.active <= r.high <= len(self.D)
        if not fits or lowest >= r.high:
            return r.high
        if not r.remove:
            self.drain(lowest)
        agreed = r.high
        while agreed > lowest and self.is_same(agreed - 1, r):
            agreed -= 1
        return agreed

    def on_ack(self, ack: Ack) -> None:
        """Phase 2 begins with the last acknowledgement."""
        if self.round is not None and ack.number == self.round.number:
            self.agreed = max(self.agreed, ack.agreed)
            self.reach = max(self.reach, ack.active)
            self.awaited -= 1
            if self.awaited == 0:
                self.decide(self.round, self.agreed)

    def decide(self, r: Round, agreed: int) -> None:
        """Phase 2: announce the components that all agree to, and leave them."""
        low = r.high
        while low > agreed and self.may_leave(low - 1, r.high, r):
            low -= 1
        self.send_all(Decision(r.remove, low, r.high, r.number, r.seals[low - r.low :]))
        for k in reversed(range(low, r.high)):
            self.leave(k, r)
        self.failed = 0 if low < r.high else min(self.failed + 1, 5)
        self.round, self.blocked_until_ns = None, 0

    def on_decision(self, j: int, r: Decision) -> None:
        """Phase 2: unblock, and leave the components that are unchanged."""
        if self.blocker == (j, r.number):
            self.blocked_until_ns = 0
        if self.doubt_round == (j, r.number):
            self.doubt_round, self.doubt = None, self.parameters.components_max
        for k in reversed(range(r.low, r.high)):
            if not self.may_leave(k, k + 1, r):
                return
            self.leave(k, r)

    def may_leave(self, k: int, high: int, r: Round) -> bool:
        """[8] Return whether C_k is unchanged since the round began, and none above it is used."""
        used = self.active if r.remove else 0
        last = len(self.D) if r.remove else self.active
        return used <= k and last <= high and self.is_same(k, r)

    def leave(self, k: int, r: Round) -> None:
        """Remove or deactivate C_k, the last one."""
        self.counted["removed" if r.remove else "deactivated"] += self.round is r
        self.idle = 0
        if r.remove:
            self.Remove()
        elif self.active == k + 1:
            self.drain(k)
            self.Deactivate()
        self.arm()

    # --- Not in the paper: turns of starting a round ---

    def arm(self) -> None:
        """Set the timer of the next turn, if there is something to shrink."""
        wanted = len(self.D) > self.parameters.components and self.idle < 64
        if wanted and not self.armed and self.me < INITIATORS:
            self.armed = True
            cycle = INITIATORS * self.round_ns
            self.set_timer((self.me * self.round_ns - self.now_ns) % cycle or cycle, TURN)

    def on_timer(self, key: int) -> None:
        """A turn, used less often after rounds that failed; or the time of a round is over."""
        if key == TURN:
            self.armed = False
            self.update_estimate()
            is_free = self.round is None and self.now_ns >= self.blocked_until_ns
            is_used = is_free and self.draw(1 << self.failed) == 0
            if is_used:
                self.begin()
            if is_used or self.failed == 0:
                self.idle += min(1 << self.failed, 8)
        elif self.round is not None and key == self.round.number:
            self.decide(self.round, self.round.high)
        self.afterwards()

    # --- Not in the paper: when to expand, and what to increment ---

    def init_policy(self) -> None:
        """An estimate of the load, and the load that a number of components is enough for."""
        p = self.parameters
        self.limits = loads(p, self.nodes)
        self.interval_ns = round(p.smoothing_ms * NANOSECONDS_PER_MS) // INTERVALS
        self.balance_ns = round(p.balance_ms * NANOSECONDS_PER_MS)
        self.phase_ns = round(p.balance_phase_ms * NANOSECONDS_PER_MS)
        self.interval_end_ns, self.balance_end_ns = self.interval_ns, 0
        self.rate = self.weight = self.count = 0
        self.width = p.components  # that the load requires
        self.over = p.components  # that S_incr is drawn from
        self.recent: Counter[int] = Counter()  # how often components were hit

    def draw(self, count: int) -> int:
        """A random number below ``count``."""
        return (self.random.getrandbits(64) >> 33) % count

    def update_estimate(self) -> None:
        """At the first event after an interval: the mean load, and the components for it."""
        passed = (self.now_ns - self.interval_end_ns) // self.interval_ns + 1
        if passed <= 0:
            return
        self.interval_end_ns += passed * self.interval_ns
        self.rate += (self.count * 10**12 // self.interval_ns - self.rate) >> 3
        self.count = 0
        self.weight += ((1 << 20) - self.weight) >> 3
        for _ in range(min(passed - 1, 128)):
            self.rate -= self.rate >> 3
            self.weight += ((1 << 20) - self.weight) >> 3
        if passed > 128:
            self.rate, self.weight = 0, 1 << 20
        rate = (self.rate << 20) // self.weight
        while self.width < self.parameters.components_max and rate > self.limits[self.width]:
            self.width += 1
        while self.width > self.parameters.components and (
            100 * rate < 92 * self.limits[self.width - 1]
        ):
            self.width -= 1
        if self.balance_ns > 0 and self.now_ns >= self.balance_end_ns:
            self.balance()
            into = (self.now_ns - self.phase_ns) % self.balance_ns
            self.balance_end_ns = self.now_ns - into + self.balance_ns

    def balance(self) -> None:
        """V-C: leave a component that is hit more often than others, with probability 1/2."""
        over = self.over
        total = sum(self.recent[k] for k in range(over))
        if over > 1 and self.now_ns >= self.blocked_until_ns:
            for s, k in enumerate(self.S_incr):
                hits = over * self.recent[k]
                is_crowded = 100 * hits > 130 * total and (hits - total) ** 2 > 9 * total * over
                if is_crowded and self.random.getrandbits(64) >> 40 & 1:
                    other = self.draw(over - 1)
                    self.S_incr[s] = other + (other >= k)
        self.recent.clear()

    def drain(self, end: int) -> None:
        """[9] Increment only the first ``end`` components, which needs no round."""
        if self.over > end:
            self.choose(end)

    def choose(self, end: int) -> None:
        """Choose S_incr among the first ``end`` components, all equally likely."""
        for s, k in enumerate(self.S_incr):
            if end > self.over:
                c = self.draw(end)
                self.S_incr[s] = c if c >= self.over else k
            elif k >= end:
                self.S_incr[s] = self.draw(end)
        self.over = end

    def expand_or_drain(self) -> None:
        """Before a broadcast: adapt to the load, unless a round is in progress."""
        end, doubt = self.width, self.doubt
        if self.now_ns < self.blocked_until_ns:
            end = min(end, self.ceiling, self.active)
        elif min(end, len(self.D)) > doubt:
            if self.now_ns < self.doubt_until_ns:
                end = doubt
            else:
                while len(self.D) > doubt:
                    self.Remove()
        self.expand(end)
        if self.parameters.redraw and self.now_ns >= self.blocked_until_ns:
            end = max(end, min(self.over, self.active))
        if end != self.over:
            self.choose(end)

    def extra(self) -> dict[str, int]:
        """Components that the decisions of this process left behind."""
        return dict(self.counted)
