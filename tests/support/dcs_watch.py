"""Invariants of the state of `dcs`, from the sets of messages that its nodes have delivered.

Nothing of the protocol's hashes or rounds is used: a message's increments and components are read
from its stamp when it is sent, and everything else follows from who has delivered what.
"""

from collections import Counter, defaultdict

import numpy as np

from precedes.protocols.dcs.state import CARRIES, GENERATIONS, INCREMENTS
from tests.support.convictions import hold


class Watcher:
    """``check`` is called after every handler; ``DeliveredSets`` keeps the sets."""

    def __init__(self, scenario):
        self.nodes = scenario.nodes
        self.stamps = {}  # name -> S_incr, and the generations of the components it carried
        self.carriers = defaultdict(set)  # component, generation -> names of messages
        self.hitters = defaultdict(set)
        self.before = {}  # node -> size, active, generations
        self.deactivations = 0
        self.removals = 0

    def check(self, state, here, sets):
        """The state of a node whose handler has run, and what it changed."""
        self._note_broadcasts(state, sets, here)
        components = state.dcs.components
        size, active = int(components.size[here]), int(components.active[here])
        what = "the active components are a prefix of all, and one is there"
        hold(1 <= active <= size, "prefix", what)
        generations = state.dcs.part.generation[here, : state.dcs.most].copy()
        self._check_counts(state, here, sets.delivered[here], size)
        old = self.before.get(here)
        if old is not None:
            for c in range(old["size"]):
                if generations[c] > old["generations"][c]:
                    self._on_removal(c, int(old["generations"][c]), sets)
        self._check_inactive(state, here, sets)
        self.before[here] = {"size": size, "active": active, "generations": generations}

    def _note_broadcasts(self, state, sets, here):
        """Read the stamp of what this node has just broadcast; slots are found by their name."""
        mine = [name for name in sets.delivered[here] if name[0] == here]
        if not mine:
            return
        name = max(mine)
        if name in self.stamps:
            return
        slot = sets.slots[name]
        carries = int(state.stamp[slot, CARRIES])
        generations = state.stamp[slot, GENERATIONS : GENERATIONS + carries].tolist()
        spread = state.dcs.spread
        increments = state.stamp[slot, INCREMENTS : INCREMENTS + spread].tolist()
        hold(all(0 <= c < carries for c in increments), "stamp", increments)
        self.stamps[name] = increments, generations
        for c, generation in enumerate(generations):
            self.carriers[c, generation].add(name)
        for c in increments:
            self.hitters[c, generations[c]].add(name)

    def _check_counts(self, state, here, delivered, size):
        """V[x]: delivered messages that hit x since the generation; nothing beyond the last."""
        entries = state.dcs.entries
        each = state.dcs.per_component
        counts = Counter()
        for name in delivered:
            increments, generations = self.stamps[name]
            for s, c in enumerate(increments):
                if c < size and generations[c] == state.dcs.part.generation[here, c]:
                    for x in state.own[name[0], s * each : (s + 1) * each]:
                        counts[c * entries + int(x)] += 1
        expected = np.zeros(state.dcs.clock.shape[1], np.int64)
        for x, count in counts.items():
            expected[x] = count
        same = np.array_equal(state.dcs.clock[here], expected)
        hold(same, "counts", f"counts of node {here}")

    def _on_removal(self, c, generation, sets):
        """At a removal nothing that carries the component is in flight, and never will be."""
        self.removals += 1
        for name in self.carriers[c, generation]:
            lacking = [node for node in range(self.nodes) if name not in sets.delivered[node]]
            what = f"component {c} is removed, {name} has yet to reach {lacking}"
            hold(not lacking, "removed early", what)

    def _check_inactive(self, state, here, sets):
        """Of an inactive component everybody has delivered what was delivered here."""
        components = state.dcs.components
        active, size = int(components.active[here]), int(components.size[here])
        old = self.before.get(here)
        if old is not None and size >= old["size"]:
            self.deactivations += max(old["active"] - active, 0)
        for c in range(active, size):
            generation = int(state.dcs.part.generation[here, c])
            for name in self.hitters[c, generation] & sets.delivered[here]:
                lacking = [n for n in range(self.nodes) if name not in sets.delivered[n]]
                what = f"{c} is inactive at {here}, {name} is not at {lacking}"
                hold(not lacking, "deactivated early", what)
