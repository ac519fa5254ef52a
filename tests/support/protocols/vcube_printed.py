"""``vcube``'s specification with one of the errors of the printed algorithm, or with none."""

from dataclasses import dataclass

from precedes.protocols.vcube import spec

GUARANTEE = "causal"
ASSUMES = {"reliable", "unique"}


@dataclass(frozen=True)
class Parameters(spec.Parameters):
    """The error to make."""

    error: str = "none"


class Process(spec.Process):
    """The corrected algorithm, or the class of an error."""

    def __new__(cls, parameters, *_group):
        return super().__new__(ERRORS[parameters.error])


class Line3(Process):
    """Cluster 1 has no child."""

    def children(self, r):
        return [k for k in super().children(r) if spec.CLUSTER(self.me, k) > 1]


class ByMessage(Process):
    """Lines 13 to 28 message by message, as published; an arrival advances and triggers others."""

    def receive(self, j, m_set):
        for m in m_set:
            self.pending.append(m)
            while advanced := self.next_received():
                self.vector_max[advanced.source] += 1
                trigger = self.trigger(m, advanced)
                for k in self.children(trigger.source):
                    if agg := self.aggregated(k, trigger):
                        self.send(k, *agg)
                self.after_forwarding()
        self.CHECKDELIVERY()

    def trigger(self, m, advanced):
        return advanced

    def aggregated(self, k, trigger):
        source = trigger.source
        waiting = [m for m in self.pending if k in self.children(m.source)]
        later = [m for m in waiting if m.vc[source] >= trigger.vc[source]]
        return [m for m in later if not self.blocked(m, k)]

    def after_forwarding(self):
        """Nothing is delivered yet."""


class Line22(ByMessage):
    def after_forwarding(self):
        self.CHECKDELIVERY()


class Line19(ByMessage):
    def trigger(self, m, advanced):
        return m


class Line27(ByMessage):
    def aggregated(self, k, trigger):
        return [] if self.blocked(trigger, k) else [trigger]


class Line26(ByMessage):
    def aggregated(self, k, trigger):
        waiting = [m for m in self.pending if k in self.children(m.source)]
        return [m for m in waiting if not self.blocked(m, k)]


class Line32(Process):
    def deliverable(self, m):
        return super().deliverable(m) and m.vc[m.source] <= self.vector_clock[m.source]


ERRORS = {
    "none": Process,
    "line 3 of Algorithm 1: 1 < s": Line3,
    "line 22: delivery inside the loop": Line22,
    "line 19: only m triggers": Line19,
    "line 27: only the trigger is sent": Line27,
    "line 26: no first condition": Line26,
    "line 32: for all k, the source too": Line32,
}
