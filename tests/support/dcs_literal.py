"""Rules of the Dynamic Clock Set as published, each in place of one method of the spec.

``judge`` runs one of them on a schedule and convicts it by the sets of messages that the nodes have
delivered. Where no short schedule shows a mistake, a directed one of few steps does.
"""

from collections import Counter, defaultdict
from operator import lt

import numpy as np

from precedes import contract
from precedes.protocols.dcs import spec
from precedes.registry import load
from tests.support.convictions import hold
from tests.support.dcs_stress import run
from tests.support.delivered_sets import DeliveredSets


class OwnEntries(spec.Process):
    """The text after Algorithm 2: p_i executes R1, for its own entries and its own S_incr."""

    def R1(self, m, end):
        for s, k in enumerate(self.S_incr):
            for x in self.f[self.me][s]:
                if k < len(self.D):
                    self.D[k].C[x] += 1


class Maximum(spec.Process):
    """III-B, R2: a delivery takes the maximum of both clocks."""

    def R1(self, m, end):
        if m.source == self.me:
            super().R1(m, end)
            return
        for k in range(end):
            self.D[k].C = list(map(max, self.D[k].C, m.D[k]))


class CoveredStaysInactive(spec.Process):
    """checkExpand: a component is reactivated only if an entry of the message is larger."""

    def is_news(self, m, k):
        return any(map(lt, self.D[k].C, m.D[k]))


class RoundBlocksMessages(spec.Process):
    """IV-D: all operations block until the decision, also those that a message asks for."""

    def is_news(self, m, k):
        return self.now_ns >= self.blocked_until_ns and super().is_news(m, k)


class EqualCounters(spec.Process):
    """IV-D: a component is acknowledged if its counters are equal."""

    def seal(self, k, remove):
        if remove:
            return super().seal(k, remove)
        return hash((k, self.generation[k], tuple(self.D[k].C)))


class VectorOfDeliveries(spec.Process):
    """IV-E: who has delivered all that the initiator has agrees, also if it has sent more."""

    def seal(self, k, remove):
        if not remove:
            return super().seal(k, remove)
        sources = Counter(source for source, _ in self.D[0].carried)  # all messages carry C_0
        return sum(count << 10 * source for source, count in sources.items())

    def is_same(self, k, r):
        if not r.remove or k >= len(self.D):
            return super().is_same(k, r)
        own, asked = self.seal(k, True), r.seals[k - r.low]
        return all(own >> 10 * j & 1023 >= asked >> 10 * j & 1023 for j in range(self.nodes))


class SameGeneration(spec.Process):
    """III-D: a component that is added again is the old one."""

    def Remove(self):
        super().Remove()
        self.generation[len(self.D)] -= 1


class LateDecision(spec.Process):
    """Phase 2: a decision applies whatever has happened since."""

    def may_leave(self, k, high, r):
        return k < len(self.D)


MODULE = """'A rule as published.'
from precedes.protocols.dcs.spec import ASSUMES, GUARANTEE, ROUTE, Parameters
from {module} import {name} as Process
"""


def protocol(directory, process):
    """The path of a protocol with this class of processes."""
    path = directory / f"{process.__name__}.py"
    path.write_text(MODULE.format(module=process.__module__, name=process.__name__))
    return str(path)


class Watcher:
    """What the components of a node must mean, by what all have delivered."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.carriers = defaultdict(set)  # component, generation -> messages that were sent
        self.stamps = {}
        self.generation = {}

    def check(self, state, here, sets):
        process = state.process[here]
        self._note_broadcasts(state, sets)
        old = self.generation.get(here, process.generation)
        for k, generation in enumerate(old):
            if process.generation[k] > generation:
                self._hold_everywhere(self.carriers[k, generation], sets, "removed early")
        self.generation[here] = process.generation.copy()
        for component in process.D[process.active :]:
            self._hold_everywhere(component.hit, sets, "deactivated early")

    def _note_broadcasts(self, state, sets):
        for name in sets.slots.keys() - self.stamps.keys():
            m = self.stamps[name] = state.message[sets.slots[name]]
            for k, generation in enumerate(m.generation):
                self.carriers[k, generation].add(name)

    def _hold_everywhere(self, names, sets, reason):
        for name in names:
            lacking = [node for node in range(self.nodes) if name not in sets.delivered[node]]
            hold(not lacking, reason, f"{name} is not at {lacking}")


def judge(scenario):
    """Convict a protocol that deadlocks, miscounts, or leaves a component that is in use."""
    watcher = Watcher(scenario.nodes)
    with DeliveredSets(scenario.protocol, scenario.nodes, watcher.check).installed():
        made, result = run(scenario, tier="interpreted")
    hold(result.complete, "restless")
    hold(result.lost == 0, "lost", result)
    for process in made.state.process:
        for k, component in enumerate(process.D):
            each = process.parameters.per_component
            hits = sum(watcher.stamps[name].S_incr.count(k) for name in component.hit)
            hold(sum(component.C) == each * hits, "counts", f"C_{k} of {process.me}")


class Steps:
    """A group of two components whose processes all count in one entry, step by step."""

    def __init__(self, name):
        made = load(name)
        group = contract.Group(nodes=4, hosted=np.arange(4, dtype=np.int32), seed=3)
        shape = {"component_entries": 2, "components": 2, "spread": 1, "per_component": 1}
        capacity = contract.Capacity(slots=8, reserve_bytes=1 << 16)
        self.state = made.allocate(made.make_parameters(shape), group, capacity)
        self.host = contract.allocate_host(capacity, seed=1)
        self.process = self.state.process
        self.slots = 0
        for one in self.process:
            one.f, one.S_incr, one._host = [[[0]]] * 4, [1], self.host

    def broadcast(self, source):
        """The slot of a message."""
        slot, self.slots = self.slots, self.slots + 1
        sequence = 1 + sum(m.source == source for m in self.state.message.values())
        self.host.name[2 * slot : 2 * slot + 2] = source, sequence
        contract.broadcast(self.state, source, slot, self.host)
        return slot

    def receive(self, here, slot):
        """Whether it is delivered at once."""
        source = self.state.message[slot].source
        contract.receive(self.state, here, source, np.array([0, slot], np.int64), 1, self.host)
        return self.state.message[slot] not in self.process[here].pending

    def agrees(self, here, initiator, *, remove):
        """Whether a process agrees to leave C_1 in a round of another one."""
        seals = [self.process[initiator].seal(1, remove)]
        return self.process[here].agrees_from(spec.Round(remove, 1, 2, 1, seals)) == 1


def hit_by_different_messages(name):
    """Two processes have delivered a message each that hits the same entry."""
    steps = Steps(name)
    for source, here in ((0, 2), (1, 3)):
        steps.receive(here, steps.broadcast(source))
    steps.process[3].width = 1  # of its own accord it would agree
    agrees = steps.agrees(3, 2, remove=False)
    hold(not agrees, "deactivated early", "0:1 is under way, and increments C_1")


def hits_a_covered_entry(name):
    """A message increments an entry of an inactive component that another one has raised."""
    steps = Steps(name)
    first, second = steps.broadcast(0), steps.broadcast(1)
    steps.receive(2, first)
    steps.process[2].Deactivate()
    steps.receive(2, second)
    hold(steps.process[2].active == 2, "deactivated early", "1:1 is only in an inactive component")


def newer_than_the_initiator_knows(name):
    """A process has broadcast a message that carries an inactive component."""
    steps = Steps(name)
    steps.process[1].S_incr = [0]
    steps.broadcast(1)
    for one in steps.process:
        one.Deactivate()
    agrees = steps.agrees(1, 0, remove=True)
    hold(not agrees, "removed early", "1:1 is under way, and carries C_1")


def added_again(name):
    """A process has removed a component and added it again, another one has the old one still."""
    steps = Steps(name)
    steps.receive(1, steps.broadcast(0))
    for one in steps.process[:2]:
        one.Deactivate()
    steps.process[0].Remove()
    steps.process[0].expand(2)
    steps.receive(1, steps.broadcast(0))
    hold(steps.receive(0, steps.broadcast(1)), "lost", "1:1 waits for what was removed")
