"""A protocol's handlers compared with sets of messages that each node has delivered.

The sets know nothing of clocks, hashes or logs. They are kept from the effects of the handlers
alone, and say at every delivery whether something of the message's past is missing.
"""

import contextlib

from precedes import compiled, contract, registry
from precedes.testing.watch import HANDLERS, _effects
from tests.support.convictions import hold


class DeliveredSets:
    """The deliveries of every node; ``check(state, here, sets)`` is called after each handler."""

    def __init__(self, protocol, nodes, check):
        self.state_class = registry.load(protocol).state
        self.check = check
        self.delivered = [set() for _ in range(nodes)]
        self.past = {}
        self.slots = {}  # name -> the slot it had when it was broadcast
        self.wrong = set()  # (node, name) of deliveries out of causal order
        self.state = None
        self.steps = 0

    @contextlib.contextmanager
    def installed(self):
        found = {
            target: target.dispatch.implementation(self.state_class)
            for target in HANDLERS
            if compiled.registered(target, self.state_class)
        }
        try:
            for target, body in found.items():
                compiled.register(target, self.state_class)(self._around(target.__name__, body))
            yield self
        finally:
            for target, body in found.items():
                compiled.register(target, self.state_class)(body)

    def _around(self, handler, body):
        def call(state, here, *arguments):
            host = arguments[-1]
            start = int(host.registers[contract.LENGTH])
            body(state, here, *arguments)
            if handler == "broadcast":
                name = self._name(host, arguments[0])
                self.past[name] = frozenset(self.delivered[here])
                self.slots[name] = int(arguments[0])
                self.delivered[here].add(name)
            for code, values in _effects(host, start):
                if code == contract.DELIVER:
                    self._deliver(here, self._name(host, values[0]))
            self.state = state
            self.steps += 1
            self.check(state, here, self)

        return call

    def _deliver(self, here, name):
        is_new = name not in self.delivered[here]
        hold(is_new, "twice", f"node {here} delivered {name} twice")
        if not self.past[name] <= self.delivered[here]:
            self.wrong.add((here, name))
        self.delivered[here].add(name)

    @staticmethod
    def _name(host, slot):
        return int(host.source_of(slot)), int(host.sequence_of(slot))
