"""One end of a TCP connection: Reno over a stream of bytes, as INET's TCP has it.

Slow start, congestion avoidance, fast retransmit and fast recovery of RFC 2581 (``TcpReno``),
Nagle's rule and delayed acknowledgements (``TcpBaseAlg``), the window of the receiver. Sequence
numbers count bytes, as on the wire: five messages of 100 bytes and a third of the sixth fill a
segment of 536, and the window holds 14 of those, for any message sizes. A segment carries the
messages whose last byte is in it. Where INET and the rules it cites differ the rules are followed:
data that were sent twice are not timed (Karn), and data that fill a gap are acknowledged at once
(RFC 2581, 4.2).

The unacknowledged data are bounded by ``queue_messages``: the caller of ``offer``
must respect ``is_full``. Data received out of order are bounded by the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from precedes.contract.machines import Message

# Kinds of timers.
TIMEOUT: Final = 0
DELAYED_ACK: Final = 1

DUPLICATES: Final = 3  # acknowledgements after which a sender retransmits at once
FULL_SEGMENTS: Final = 2  # that are acknowledged at once
NO_LIMIT: Final = 1 << 32  # of slow start, before anything was lost
GAIN: Final = 8  # a new sample of the round trip counts for one part in this many
DEVIATIONS: Final = 4  # the time-out is this many of them above the mean


class Segment(NamedTuple):
    """``size`` bytes of one direction from ``first`` on, and the next byte of the other."""

    cell: int
    host: int
    first: int
    size: int
    messages: tuple[Message, ...]  # that end in it
    expected: int


@dataclass(frozen=True, slots=True)
class RenoSettings:
    """Sizes in bytes, times in ns."""

    message_bytes: int
    segment_bytes: int
    window_bytes: int
    timeout_first_ns: int
    timeout_min_ns: int
    timeout_max_ns: int
    delayed_ack_ns: int  # 0: every segment is acknowledged at once
    nagle: bool
    queue_messages: int


class RoundTrip:
    """The mean round trip and its deviation, with the resulting time-out; integers in ns.

    Jacobson's estimate with Karn's rule, as in INET's TCP (``TcpBaseAlg``): both gains are 1/8,
    and the deviation starts at the value of the first time-out, so that several round trips pass
    until the estimate has come down.
    """

    __slots__ = ("deviation_ns", "max_ns", "mean_ns", "min_ns", "timeout_ns")

    def __init__(self, *, first_ns: int, min_ns: int, max_ns: int) -> None:
        self.min_ns, self.max_ns = min_ns, max_ns
        self.mean_ns = 0
        self.deviation_ns = first_ns // DEVIATIONS
        self.timeout_ns = first_ns

    def sample(self, trip_ns: int) -> None:
        """Add the round trip of a segment that was sent once: this ends a back-off."""
        error_ns = trip_ns - self.mean_ns
        self.mean_ns += error_ns // GAIN
        self.deviation_ns += (abs(error_ns) - self.deviation_ns) // GAIN
        timeout_ns = self.mean_ns + DEVIATIONS * self.deviation_ns
        self.timeout_ns = min(max(timeout_ns, self.min_ns), self.max_ns)

    def back_off(self) -> None:
        """A time-out: the next is twice as long, until there is a sample again (Karn's rule)."""
        self.timeout_ns = min(2 * self.timeout_ns, self.max_ns)


class Reassembly:
    """The receiving half: bytes of a stream in any order become messages in the stream's order.

    Nothing is kept beyond the window: a segment that reaches farther is dropped, which no correct
    sender sends.
    """

    __slots__ = ("expected", "held", "message_bytes", "pieces", "window_bytes")

    def __init__(self, message_bytes: int, window_bytes: int) -> None:
        self.message_bytes, self.window_bytes = message_bytes, window_bytes
        self.expected = 0  # the first byte that is missing
        self.pieces: list[tuple[int, int]] = []  # beyond it: from, to; apart, in order
        self.held: dict[int, Message] = {}  # whose last byte is here, by number

    def insert(self, first: int, end: int, messages: Sequence[Message]) -> list[Message]:
        """Add bytes ``first..end-1`` and the messages that end in them; return complete ones."""
        if end > self.expected + self.window_bytes or end <= self.expected:
            return []
        complete = self.expected // self.message_bytes
        for number, message in enumerate(messages, first // self.message_bytes):
            if number >= complete:
                self.held[number] = message
        if first > self.expected:
            self._keep(first, end)
            return []
        self.expected = end
        while self.pieces and self.pieces[0][0] <= self.expected:
            self.expected = max(self.expected, self.pieces.pop(0)[1])
        now_complete = self.expected // self.message_bytes
        return [self.held.pop(number) for number in range(complete, now_complete)]

    def _keep(self, first: int, end: int) -> None:
        """Unite a piece with those that it touches."""
        apart = []
        for piece in self.pieces:
            if piece[1] < first or end < piece[0]:
                apart.append(piece)
            else:
                first, end = min(first, piece[0]), max(end, piece[1])
        self.pieces = sorted([*apart, (first, end)])


class Connection:
    """Sends offered messages in order, and passes received ones in order to ``deliver``."""

    __slots__ = (
        "ack_is_due",
        "ack_round",
        "acknowledged",
        "cell",
        "clock",
        "congestion_bytes",
        "deliver",
        "duplicates",
        "full_segments",
        "host",
        "is_ready",
        "next",
        "offered",
        "queue",
        "received",
        "send",
        "sent",
        "sent_ns",
        "settings",
        "threshold_bytes",
        "timed",
        "timed_ns",
        "timer",
        "timer_round",
        "timer_runs",
        "trip",
    )

    def __init__(
        self,
        cell: int,
        host: int,
        settings: RenoSettings,
        *,
        clock: Callable[[], int],
        send: Callable[[Segment], None],
        timer: Callable[[int, int, int], None],
        deliver: Callable[[Message], None],
    ) -> None:
        """``timer(delay_ns, kind, round)`` has ``on_timer(kind, round)`` called."""
        self.cell, self.host = cell, host
        self.settings = settings
        self.clock, self.send, self.timer, self.deliver = clock, send, timer, deliver
        self.is_ready = False  # nothing is sent before the connection is established
        self.queue: deque[Message] = deque()  # not acknowledged to their last byte
        self.offered = 0  # bytes so far
        self.sent = 0  # the first that was never sent
        self.next = 0  # the next to be sent; less than ``sent`` after a time-out
        self.acknowledged = 0  # the first that is not
        self.congestion_bytes = settings.segment_bytes
        self.threshold_bytes = NO_LIMIT
        self.duplicates = 0
        self.trip = RoundTrip(
            first_ns=settings.timeout_first_ns,
            min_ns=settings.timeout_min_ns,
            max_ns=settings.timeout_max_ns,
        )
        self.timed = -1  # the byte whose acknowledgement is timed; -1: none
        self.timed_ns = 0
        self.sent_ns = 0  # when data were sent last
        self.timer_round = 0
        self.timer_runs = False
        self.received = Reassembly(settings.message_bytes, settings.window_bytes)
        self.full_segments = 0  # received and not acknowledged
        self.ack_is_due = False
        self.ack_round = 0

    # Sending.

    def is_full(self) -> bool:
        """Return whether the queue is full."""
        return len(self.queue) >= self.settings.queue_messages

    def offer(self, message: Message) -> None:
        """Send a message when there is room."""
        self.queue.append(message)
        self.offered += self.settings.message_bytes
        if self.is_ready:
            self._push(nagle=self.settings.nagle)

    def establish(self, *, active: bool) -> None:
        """Establish the connection: both ends are known; the one that requested it confirms."""
        self.is_ready = True
        if not self._push() and active:
            self.acknowledge()

    def _push(self, *, nagle: bool = False) -> bool:
        """Send what the windows allow; with Nagle's rule nothing short while data are in flight.

        As in INET, the rule is for offered data: an acknowledgement may trigger short segments.
        """
        settings = self.settings
        first, waiting = self.next, self.offered - self.next
        if waiting == 0:
            return False
        segment = settings.segment_bytes
        now_ns = self.clock()
        if now_ns - self.sent_ns > self.trip.timeout_ns:
            self.congestion_bytes = segment  # after an idle time (RFC 2581, 4.1)
        window = min(self.congestion_bytes, settings.window_bytes)
        count = min(window - (first - self.acknowledged), waiting)
        if count <= 0 or (nagle and count < segment and self.acknowledged < self.sent):
            return False
        end = first + count
        while end - self.next >= segment:
            self._send(self.next, segment)
            self.next += segment
        rest = end - self.next
        if rest and (count < segment or end == self.offered):
            self._send(self.next, rest)
            self.next = end
        if first >= self.sent and self.timed < 0:
            self.timed, self.timed_ns = first, now_ns
        self.sent = max(self.sent, self.next)
        self.sent_ns = now_ns
        if not self.timer_runs:
            self._arm()
        return True

    def _send(self, first: int, count: int) -> None:
        each = self.settings.message_bytes
        begin = self.acknowledged // each  # the number of the first that is kept
        ended = islice(self.queue, first // each - begin, (first + count) // each - begin)
        self.send(Segment(self.cell, self.host, first, count, tuple(ended), self.received.expected))
        self._acknowledgement_sent()

    def _repeat(self) -> int:
        """Retransmit the first segment that is not acknowledged; return its size."""
        count = min(self.sent - self.acknowledged, self.settings.segment_bytes)
        self.timed = -1
        self._send(self.acknowledged, count)
        return count

    def _arm(self) -> None:
        self.timer_round += 1
        self.timer_runs = True
        self.timer(self.trip.timeout_ns, TIMEOUT, self.timer_round)

    def _halve(self) -> None:
        segment = self.settings.segment_bytes
        window = min(self.congestion_bytes, self.settings.window_bytes)
        self.threshold_bytes = max(window // 2, 2 * segment)

    def on_timer(self, kind: int, number: int) -> None:
        """A time-out, or an acknowledgement that no segment has carried."""
        if kind == DELAYED_ACK:
            if number == self.ack_round and self.ack_is_due:
                self.acknowledge()
        elif number == self.timer_round and self.timer_runs:
            self._halve()
            self.congestion_bytes = self.settings.segment_bytes
            self.duplicates = 0
            self.next = self.acknowledged + self._repeat()
            self.sent_ns = self.clock()
            self.trip.back_off()
            self._arm()

    def _on_acknowledgement(self, expected: int, *, is_bare: bool) -> None:
        if self.acknowledged < expected <= self.sent:
            self._on_progress(expected)
        elif expected == self.acknowledged < self.sent and is_bare:
            self.duplicates += 1
            if self.duplicates == DUPLICATES:
                self._halve()
                recovery = DUPLICATES * self.settings.segment_bytes
                self.congestion_bytes = self.threshold_bytes + recovery
                self._repeat()
                self._push()
            elif self.duplicates > DUPLICATES:
                self.congestion_bytes += self.settings.segment_bytes
                self._push()
        else:
            self.duplicates = 0

    def _on_progress(self, expected: int) -> None:
        each, segment = self.settings.message_bytes, self.settings.segment_bytes
        for _ in range(expected // each - self.acknowledged // each):
            self.queue.popleft()
        self.acknowledged = expected
        self.next = max(self.next, expected)
        if 0 <= self.timed < expected:
            self.trip.sample(self.clock() - self.timed_ns)
            self.timed = -1
        if expected < self.sent:
            self._arm()
        else:
            self.timer_runs = False
        if self.duplicates >= DUPLICATES:
            self.congestion_bytes = self.threshold_bytes
        elif self.congestion_bytes < self.threshold_bytes:
            self.congestion_bytes += segment
        else:
            self.congestion_bytes += max(segment * segment // self.congestion_bytes, 1)
        self.duplicates = 0
        self._push()

    # Receiving.

    def receive(self, segment: Segment) -> None:
        """Process a segment of the other end."""
        if segment.size == 0:
            self._on_acknowledgement(segment.expected, is_bare=True)
            return
        received = self.received
        expected, had_pieces = received.expected, bool(received.pieces)
        complete = received.insert(segment.first, segment.first + segment.size, segment.messages)
        was_due, self.ack_is_due = self.ack_is_due, True
        self._on_acknowledgement(segment.expected, is_bare=False)
        for message in complete:
            self.deliver(message)
        if received.expected == expected:
            self.acknowledge()  # out of order, or a duplicate: the other end counts these
        elif self.ack_is_due:
            self._acknowledge_later(segment.size, fills_gap=had_pieces, is_timed=was_due)

    def _acknowledge_later(self, size: int, *, fills_gap: bool, is_timed: bool) -> None:
        """Within the delay; at once if it fills a gap, and for every second full segment."""
        settings = self.settings
        self.full_segments += size == settings.segment_bytes
        if fills_gap or self.full_segments >= FULL_SEGMENTS or settings.delayed_ack_ns == 0:
            self.acknowledge()
        elif not is_timed:
            self.timer(settings.delayed_ack_ns, DELAYED_ACK, self.ack_round)

    def acknowledge(self) -> None:
        """Send an acknowledgement alone."""
        self.send(Segment(self.cell, self.host, self.next, 0, (), self.received.expected))
        self._acknowledgement_sent()

    def _acknowledgement_sent(self) -> None:
        self.full_segments = 0
        self.ack_is_due = False
        self.ack_round += 1
