"""Medium access: the times at which an antenna may send.

``Aloha`` sends as soon as its own antenna is free. ``CarrierSense`` is CSMA/CA as in 802.11 without
reservations, after INET's CsmaCaMac: it waits until the channel was idle for ``difs_us``, then for
a random number of slots, which are paused while the channel is busy. It senses what is in reach of
its own antenna and nothing else: two stations out of each other's reach collide at the hosts
between them. Antennas whose slots end together collide as well, since neither senses the other in
time.

With ``mac_retries`` a datagram that has one addressee is acknowledged ``sifs_us`` after its end, by
a frame of its own that may be lost like any other. Unacknowledged datagrams are sent again, each
time with twice as many slots, up to ``slots_max``; after the last repetition they are dropped.
Duplicates are passed up once. Without retries, and for datagrams to a whole cell, there
is one copy and no acknowledgement.

A queue holds ``queue_max`` datagrams; more are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from precedes.contract.machines import RadioParameters
from precedes.sim.radio.air import Air, Transmission

NANOSECONDS_PER_US: Final = 1000

At = Callable[[int, Callable[[], None]], None]


class Frame:
    """A datagram in the queue of an antenna; ``target`` is the one to acknowledge it."""

    __slots__ = ("copies", "datagram", "received", "size_bytes", "target")

    def __init__(self, datagram: Any, size_bytes: int, target: int | None) -> None:
        self.datagram = datagram
        self.size_bytes = size_bytes
        self.target = target
        self.copies = 0
        self.received = False  # by its target


class Aloha:
    """Queues of all antennas. ``at(time, what)`` schedules a call.

    ``done(sent, is_copy)`` is called at the end of a transmission with the addressed antennas
    that it reached; a copy of a datagram that the target has is only counted.
    """

    def __init__(
        self,
        parameters: RadioParameters,
        air: Air,
        *,
        at: At,
        done: Callable[[Transmission, bool], list[int]],
    ) -> None:
        self.parameters = parameters
        self.air = air
        self.at = at
        self.done = done
        nodes = len(air.reached)
        self.queue: list[deque[Frame]] = [deque() for _ in range(nodes)]
        self.sending = [False] * nodes
        self.dropped = self.repeated = self.given_up = 0

    def send(
        self, node: int, datagram: Any, size_bytes: int, now_ns: int, target: int | None = None
    ) -> None:
        """Send when it is allowed; a full queue drops the datagram."""
        if len(self.queue[node]) >= self.parameters.queue_max:
            self.dropped += 1
            return
        self.queue[node].append(Frame(datagram, size_bytes, target))
        if not self.sending[node]:
            self.sending[node] = True
            self.ready(node, now_ns)

    def ready(self, node: int, now_ns: int) -> None:
        """Start access: the antenna is free and its queue is not empty."""
        self.begin(node, now_ns)

    def begin(self, node: int, now_ns: int) -> None:
        """Put the first of the queue on the air."""
        frame = self.queue[node].popleft()
        frame.copies += 1
        sent = self.air.begin(node, frame.datagram, frame.size_bytes, now_ns)
        self.at(sent.end_ns, lambda: self.end(sent, frame))

    def end(self, sent: Transmission, frame: Frame) -> None:
        """End a transmission."""
        self.done(sent, frame.received)
        self.follow(sent.node, sent.end_ns)

    def follow(self, node: int, now_ns: int) -> None:
        """Continue with the next datagram of the queue."""
        if self.queue[node]:
            self.ready(node, now_ns)
        else:
            self.sending[node] = False


class CarrierSense(Aloha):
    """Waits for an idle channel, then for a random number of slots; with retries, for acks."""

    def __init__(
        self,
        parameters: RadioParameters,
        air: Air,
        *,
        at: At,
        done: Callable[[Transmission, bool], list[int]],
        random: Random,
    ) -> None:
        super().__init__(parameters, air, at=at, done=done)
        self.random = random
        nodes = len(air.reached)
        self.slot_ns = _ns(parameters.slot_us)
        self.difs_ns = _ns(parameters.difs_us)
        self.sifs_ns = _ns(parameters.sifs_us)
        self.sense_ns = _ns(parameters.sense_us)
        self.slots_left = [0] * nodes
        self.from_ns = [0] * nodes  # when the remaining slots begin to pass
        self.due_ns = [0] * nodes  # when they will have passed
        self.answers_until_ns = [0] * nodes  # end of an acknowledgement by the antenna
        self.answered: list[Frame | None] = [None] * nodes  # last acknowledged by this antenna
        air.carrier = self.hold

    def draw(self, node: int, copies: int) -> int:
        """The slots to wait before a frame that was sent this often."""
        parameters = self.parameters
        most = max(parameters.slots, parameters.slots_max)
        # Beyond 20 doublings of one slot every bound has been reached.
        return self.random.randrange(min(parameters.slots << min(copies, 20), most))

    def ready(self, node: int, now_ns: int) -> None:
        """Draw the slots, and wait for them."""
        self.slots_left[node] = self.draw(node, self.queue[node][0].copies)
        self.air.listening[node] = True
        self._wait(node, now_ns)

    def _wait(self, node: int, now_ns: int) -> None:
        silent_ns = max(now_ns, self.air.busy_until_ns[node], self.answers_until_ns[node])
        self.from_ns[node] = silent_ns + self.difs_ns
        due_ns = self.from_ns[node] + self.slots_left[node] * self.slot_ns
        self.due_ns[node] = due_ns
        self.at(due_ns, lambda: self._due(node, due_ns))

    def _due(self, node: int, due_ns: int) -> None:
        if self.air.listening[node] and self.due_ns[node] == due_ns:
            self.air.listening[node] = False
            self.begin(node, due_ns)

    def hold(self, node: int, now_ns: int) -> None:
        """Pause the slots of a waiting antenna while the channel is busy, unless it is too late."""
        if self.due_ns[node] > now_ns + self.sense_ns:
            self._stop(node, now_ns)

    def _stop(self, node: int, now_ns: int) -> None:
        passed_ns = now_ns - self.from_ns[node]
        if self.slot_ns and passed_ns > 0:
            passed = min(passed_ns // self.slot_ns, self.slots_left[node])
            self.slots_left[node] -= passed
        self._wait(node, now_ns)

    def end(self, sent: Transmission, frame: Frame) -> None:
        """End a transmission; wait for an acknowledgement if there is to be one."""
        node, target = sent.node, frame.target
        well = self.done(sent, frame.received)
        if target is None or not self.parameters.mac_retries:
            self.follow(node, sent.end_ns)
            return
        if target in well:
            frame.received = True
            answer_ns = sent.end_ns + self.sifs_ns
            self.at(answer_ns, lambda: self._answer(target, frame, node, answer_ns))
        answer_length_ns = self.air.length_ns(self.parameters.mac_ack_bytes)
        limit_ns = sent.end_ns + self.sifs_ns + answer_length_ns + self.slot_ns
        self.at(limit_ns, lambda: self._look(node, frame, limit_ns))

    def _answer(self, target: int, frame: Frame, node: int, now_ns: int) -> None:
        """Acknowledge without sensing, unless the antenna sends or waits for an ack itself."""
        waits = self.air.listening[target]
        if (self.sending[target] and not waits) or self.answers_until_ns[target] > now_ns:
            return
        sent = self.air.begin(target, None, self.parameters.mac_ack_bytes, now_ns)
        self.answers_until_ns[target] = sent.end_ns
        if waits:
            self._stop(target, now_ns)

        def arrive() -> None:
            if node in sent.reached and node not in sent.bad:
                self.answered[node] = frame

        self.at(sent.end_ns, arrive)

    def _look(self, node: int, frame: Frame, now_ns: int) -> None:
        """End the wait for an acknowledgement."""
        if self.answered[node] is not frame:
            if frame.copies <= self.parameters.mac_retries:
                self.repeated += 1
                self.queue[node].appendleft(frame)
            else:
                self.given_up += 1
        self.follow(node, now_ns)


def _ns(time_us: float) -> int:
    return round(time_us * NANOSECONDS_PER_US)
