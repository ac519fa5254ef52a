"""One end of a TCP connection as ``flooding`` needs it: Reno, counted in messages.

Slow start, congestion avoidance, fast retransmit at the third duplicate, doubled timeouts, delayed
acknowledgements and Nagle's rule. A segment carries whole messages; sequence numbers count them.
The window is the paper's (7504 bytes, 46 messages), the first timeout 0.2 s (section V-A).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from precedes.contract.machines import Message

# Kinds of timers.
TIMEOUT: Final = 0
DELAYED_ACK: Final = 1

DUPLICATES: Final = 3  # acknowledgements that make a sender repeat at once


class Segment(NamedTuple):
    """Messages ``first``, ``first + 1``, .. of one direction, and what is expected of the other."""

    cell: int
    host: int
    first: int
    messages: tuple[Message, ...]
    expected: int


@dataclass(frozen=True, slots=True)
class RenoSettings:
    """Sizes in messages, times in ns."""

    segment: int
    window: int
    timeout_ns: int
    timeout_max_ns: int
    delayed_ack_ns: int
    nagle: bool
    jitter: float


class Connection:
    """Sends what is offered in order, and hands what it receives in order to ``deliver``."""

    __slots__ = (
        "ack_pending",
        "cell",
        "deliver",
        "duplicates",
        "early",
        "expected",
        "host",
        "offered",
        "ready",
        "send",
        "sent",
        "settings",
        "threshold",
        "timeout_ns",
        "timer",
        "timer_round",
        "unacknowledged",
        "waiting",
        "window",
    )

    def __init__(
        self,
        cell: int,
        host: int,
        settings: RenoSettings,
        *,
        send: Callable[[Segment], None],
        timer: Callable[[int, int, int], None],
        deliver: Callable[[Message], None],
    ) -> None:
        """``timer(delay_ns, kind, round)`` has ``on_timer(kind, round)`` called."""
        self.cell, self.host = cell, host
        self.settings = settings
        self.send, self.timer, self.deliver = send, timer, deliver
        self.ready = False  # nothing is sent before the connection is established
        self.waiting: dict[int, Message] = {}  # offered and not acknowledged
        self.offered = 0
        self.sent = 0  # next to be sent
        self.unacknowledged = 0  # lowest not acknowledged
        self.window = float(2 * settings.segment)
        self.threshold = float(settings.window)
        self.duplicates = 0
        self.timeout_ns = settings.timeout_ns
        self.timer_round = 0
        self.expected = 0
        self.early: dict[int, Message] = {}
        self.ack_pending = False

    # Sending.

    def offer(self, message: Message) -> None:
        """Send a message when there is room."""
        self.waiting[self.offered] = message
        self.offered += 1
        self.push()

    def push(self) -> None:
        """Send what the window allows."""
        if not self.ready:
            return
        limit = min(int(self.window), self.settings.window)
        while self.sent < self.offered:
            flying = self.sent - self.unacknowledged
            count = min(self.offered - self.sent, self.settings.segment)
            if flying + count > limit and flying > 0:
                return
            if self.settings.nagle and flying > 0 and count < self.settings.segment:
                return
            self._segment(self.sent, count)
            if flying == 0:
                self._arm()
            self.sent += count

    def _segment(self, first: int, count: int) -> None:
        messages = tuple(self.waiting[place] for place in range(first, first + count))
        self.ack_pending = False
        self.send(Segment(self.cell, self.host, first, messages, self.expected))

    def _repeat(self) -> None:
        count = min(self.offered - self.unacknowledged, self.settings.segment)
        self._segment(self.unacknowledged, count)
        self.sent = max(self.sent, self.unacknowledged + count)
        self._arm()

    def _arm(self) -> None:
        self.timer_round += 1
        self.timer(self.timeout_ns, TIMEOUT, self.timer_round)

    def _shrink(self) -> None:
        flying = self.sent - self.unacknowledged
        self.threshold = max(flying / 2, 2.0 * self.settings.segment)

    def on_timer(self, kind: int, number: int) -> None:
        """A timeout, or an acknowledgement that nothing has carried."""
        if kind == DELAYED_ACK:
            if self.ack_pending:
                self._ack()
        elif number == self.timer_round and self.unacknowledged < self.sent:
            self._shrink()
            self.window = float(self.settings.segment)
            self.timeout_ns = min(2 * self.timeout_ns, self.settings.timeout_max_ns)
            self.duplicates = 0
            self.sent = self.unacknowledged
            self._repeat()

    def _on_expected(self, expected: int, *, bare: bool) -> None:
        fresh = expected - self.unacknowledged
        if fresh > 0:
            for place in range(self.unacknowledged, expected):
                self.waiting.pop(place, None)
            self.unacknowledged = expected
            self.sent = max(self.sent, expected)
            self.timeout_ns = self.settings.timeout_ns
            if self.duplicates >= DUPLICATES:
                self.window = self.threshold
            elif self.window < self.threshold:
                self.window += fresh
            else:
                self.window += self.settings.segment * fresh / self.window
            self.duplicates = 0
            if self.unacknowledged < self.sent:
                self._arm()
            self.push()
        elif bare and fresh == 0 and self.unacknowledged < self.sent:
            self.duplicates += 1
            if self.duplicates == DUPLICATES:
                self._shrink()
                self.window = self.threshold + DUPLICATES * self.settings.segment
                self._repeat()

    # Receiving.

    def receive(self, segment: Segment) -> None:
        """Take in a segment of the other end."""
        self._on_expected(segment.expected, bare=not segment.messages)
        if not segment.messages:
            return
        in_order = segment.first == self.expected
        for place, message in enumerate(segment.messages, segment.first):
            if place >= self.expected:
                self.early[place] = message
        while self.expected in self.early:
            message = self.early.pop(self.expected)
            self.expected += 1
            self.deliver(message)
        if not in_order or self.early or self.ack_pending:
            self._ack()
        else:
            self.ack_pending = True
            self.timer(self.settings.delayed_ack_ns, DELAYED_ACK, 0)

    def _ack(self) -> None:
        self.ack_pending = False
        self.send(Segment(self.cell, self.host, 0, (), self.expected))

    def counts(self) -> tuple[int, int]:
        """Messages offered and not acknowledged, and messages out of order."""
        return len(self.waiting), len(self.early)
