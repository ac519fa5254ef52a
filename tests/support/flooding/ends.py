"""Ends of TCP connections with a clock: one that a test talks to, and two on a bad line.

What is judged is the package's ``flooding``, or an edited copy of it.
"""

import heapq
import importlib.util
import itertools
import random
import sys

from precedes.contract.machines import Message
from precedes.protocols import flooding
from tests.support.convictions import hold
from tests.support.edited import protocol

MS = 1_000_000
TIMES = itertools.count()


def edited(directory, *edits):
    """The package of the protocol with these edits made."""
    path = protocol(directory, "flooding", *edits)
    name = f"edited_flooding_{next(TIMES)}"
    spec = importlib.util.spec_from_file_location(
        name, f"{path}/__init__.py", submodule_search_locations=[path]
    )
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings(package=flooding, **changed):
    """INET's, as the protocol has them by default, or with other parameters."""
    return package.Parameters(jitter=0.0, **changed).settings()


def message(number, source=0):
    return Message((source, number), b"")


class End:
    """One end of a connection that is established. The other end is the test."""

    def __init__(self, package=flooding, **changed):
        self.reno = package.reno
        self.settings = settings(package, **changed).reno
        self.now_ms = 0.0
        self.sent = []  # (when in ms, first byte, bytes, what is expected of the other end)
        self.delivered = []
        self.timers = []
        self.count = 0
        self.connection = self.reno.Connection(
            0, 0, self.settings,
            clock=lambda: round(self.now_ms * MS),
            send=self._send,
            timer=lambda delay_ns, kind, number: self.timers.append(
                (self.now_ms + delay_ns / MS, kind, number)
            ),
            deliver=self.delivered.append,
        )  # fmt: skip
        self.connection.is_ready = True

    def _send(self, segment):
        self.sent.append((self.now_ms, segment.first, segment.size, segment.expected))

    def pieces(self):
        """Segments sent since the last call, as (first byte, bytes)."""
        sent, self.sent = self.sent, []
        return [piece[1:3] for piece in sent]

    def times(self):
        """Times of segments sent since the last call."""
        sent, self.sent = self.sent, []
        return [piece[0] for piece in sent]

    def offer(self, count=1):
        """The application has this number of further messages."""
        for _ in range(count):
            self.connection.offer(message(self.count))
            self.count += 1

    def acknowledge(self, expected):
        """The other end expects this byte, and sends nothing else."""
        self.connection.receive(self.reno.Segment(0, 0, 0, 0, (), expected))

    def hear(self, first, size, expected=0):
        """The other end sends these bytes of its stream."""
        each = self.settings.message_bytes
        ended = tuple(message(n, source=1) for n in range(first // each, (first + size) // each))
        self.connection.receive(self.reno.Segment(0, 0, first, size, ended, expected))

    def wait(self, time_ms):
        """Let time pass, and what is due happen."""
        end_ms = self.now_ms + time_ms
        while due := sorted(timer for timer in self.timers if timer[0] <= end_ms):
            self.timers.remove(due[0])
            self.now_ms, kind, number = due[0]
            self.connection.on_timer(kind, number)
        self.now_ms = end_ms

    def exchange(self, trip_ms):
        """One message, acknowledged after so long."""
        self.offer()
        self.wait(trip_ms)
        self.acknowledge(self.connection.offered)

    def timeout_ms(self):
        """Time until the next message is repeated after it was sent."""
        self.sent = []
        self.offer()
        self.wait(10**6)
        (first, again), self.sent = [piece[0] for piece in self.sent[:2]], []
        return again - first


class Line:
    """Two ends, and a line that loses, doubles and mixes up segments.

    Whatever is sent is looked at: segments are as long as they may be, and within the window.
    """

    def __init__(
        self, seed, package=flooding, *, loss=0.0, duplication=0.0, late_ms=0.0, **changed
    ):
        self.rng = random.Random(f"line {seed}")
        self.settings = settings(package, **changed).reno
        self.loss, self.duplication, self.late_ms = loss, duplication, late_ms
        self.now_ns = 0
        self.events = []
        self.serial = itertools.count()
        self.segments = 0
        self.heard = [0, 0]  # the highest acknowledgement that each end has received
        self.got = [[], []]
        self.offered = [[], []]
        self.ends = [self._end(package, which) for which in (0, 1)]

    def _end(self, package, which):
        end = package.reno.Connection(
            0, 0, self.settings,
            clock=lambda: self.now_ns,
            send=lambda segment: self._send(which, segment),
            timer=lambda delay_ns, kind, number: self._later(
                delay_ns, lambda: self.ends[which].on_timer(kind, number)
            ),
            deliver=lambda message: self._deliver(which, message),
        )  # fmt: skip
        end.is_ready = True
        return end

    def _later(self, delay_ns, task):
        heapq.heappush(self.events, (self.now_ns + delay_ns, next(self.serial), task))

    def _send(self, which, segment):
        self.segments += 1
        hold(self.segments < 20_000, "restless", "20,000 segments")
        hold(segment.size <= self.settings.segment_bytes, "size", f"{segment.size} bytes")
        reach = segment.first + segment.size - self.heard[which]
        within = reach <= self.settings.window_bytes or segment.size == 0
        hold(within, "window", f"{reach} bytes beyond the last acknowledged")
        copies = 1 + (self.rng.random() < self.duplication)
        for _ in range(copies):
            if self.rng.random() >= self.loss:
                delay_ns = MS + int(self.rng.random() * self.late_ms * MS)
                self._later(delay_ns, lambda: self._arrive(1 - which, segment))

    def _arrive(self, which, segment):
        self.heard[which] = max(self.heard[which], segment.expected)
        self.ends[which].receive(segment)

    def _deliver(self, which, found):
        place = len(self.got[which])
        due = self.offered[1 - which][place : place + 1]
        hold(due == [found], "order", f"message {place} is {found}, not {due}")
        self.got[which].append(found)

    def offer(self, which, *, at_ms):
        """The application of an end has a message at this time."""

        def now():
            self.offered[which].append(message(len(self.offered[which]), which))
            self.ends[which].offer(self.offered[which][-1])

        heapq.heappush(self.events, (round(at_ms * MS), next(self.serial), now))

    def run(self):
        """Until nothing happens any more; then all must be there."""
        while self.events:
            self.now_ns, _, task = heapq.heappop(self.events)
            task()
        for which in (0, 1):
            got, due = len(self.got[which]), len(self.offered[1 - which])
            hold(got == due, "lost", f"{due - got} of {due}")
            hold(not self.ends[which].queue, "restless", "something is never acknowledged")
            hold(not self.ends[which].received.held, "held", "a message is kept for nobody")
