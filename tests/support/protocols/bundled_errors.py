"""The specification of `bundled` with one error of the published pseudo-code at a time.

Each error overrides one method. Not here, because they cannot be run or make no difference:
Algorithm 1, line 3 uses an undefined name and line 7 a cluster where a process is meant; line 35
records after it has sent, but the effects of a handler take place after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from precedes.protocols.bundled import spec
from precedes.protocols.bundled.spec import ANY, ASSUMES, GUARANTEE, ROUTE, name

__all__ = ["ASSUMES", "GUARANTEE", "ROUTE"]


@dataclass(frozen=True)
class Parameters(spec.Parameters):
    """The published error to make."""

    error: str = "none"


class Process(spec.Process):
    """The specification, or the subclass with the error that the parameters name."""

    def __new__(cls, parameters, me, group):
        """A process of the subclass."""
        return super().__new__(ERRORS[parameters.error])


class NeighboursOnly(Process):
    """Line 7: no bundles but to the first process of each cluster."""

    def init(self):
        """Bundles to others do not exist."""
        super().init()
        self.delay_msg = {k: [] for k in self.subtree(self.me)}


class WindowUnread(Process):
    """Lines 12 and 13: before the first message in order has come, every message is new."""

    def is_new(self, m):
        """``rcv_base`` is 0 for bottom."""
        return self.rcv_base[m.source] == 0 or super().is_new(m)


class UpTheTree(Process):
    """Line 33: children in the tree of the source, whoever sent the message."""

    def FORWARD(self, m, j):
        """As in the specification otherwise."""
        if self.is_pending(j, ANY, name(m)):
            return
        for k in self.subtree(m.source):
            if not self.is_pending(ANY, k, name(m)):
                self.CHECK_BUNDLE(m, k)
            self.ack_set.append((j, k, name(m)))


class Forgetful(Process):
    """Line 53: the message is forgotten when one parent of several is done."""

    def forget(self, ack):
        """Others may wait."""
        if ack in self.msg_set:
            self.release(self.msg_set.pop(ack))


class OneParent(Process):
    """Lines 66 to 69: an ACK answers for one parent of several."""

    def RECEIVE_ACK(self, ack, j):
        """Removes one element of ``ack_set``."""
        for k in [x for x, y, z in self.ack_set if (y, z) == (j, ack)][:1]:
            self.ack_set.remove((k, j, ack))
            self.CHECK_ACKS(ack, k)


class TimerStaysOn(Process):
    """Lines 70 to 72: a timer that has expired is not turned off."""

    def on_timer(self, key):
        """The bundle leaves, and the next one to the same process has no timer."""
        k, number = key
        if self.timer[k] == number:
            self.send_bundle(k)
            self.timer[k] = number


ERRORS = {
    "none": Process,
    "line 7": NeighboursOnly,
    "lines 12-13": WindowUnread,
    "line 33": UpTheTree,
    "line 53": Forgetful,
    "lines 66-69": OneParent,
    "lines 70-72": TimerStaysOn,
}
