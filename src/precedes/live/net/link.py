"""A link between two members that outlives its connections: nothing lost, nothing twice.

Frames are numbered 1, 2, ... from the start of the group on and kept until the other side
acknowledges them. When a connection breaks and another one is made, each side sends how many
frames it has received, and the other resumes behind them.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from precedes.errors import PeerError
from precedes.live.net import wire
from precedes.live.net.wire import DATA

# Unacknowledged frames after which an acknowledgement is sent by itself.
ACK_AFTER: Final = 32


class Link:
    """One side of a link.

    It keeps what the other side does not acknowledge; ``links.Links`` gives up a member for which
    that is more than windows allow.
    """

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.life = b""  # of the other side, once it has been met
        self.heard_s = -math.inf  # when bytes were last received over a connection that has ended
        self.sent = 0  # number of the last frame
        self.received = 0  # frames of the other side that have arrived here
        self.acknowledged = 0  # frames that have arrived there
        self._last_sent_ack = 0  # the last value of ``received`` that was sent
        self._sent_before = 0  # the last frame when ``owes_acknowledgement`` was asked last
        # The bodies behind the acknowledged ones, and how many bytes of each are messages.
        self._kept: deque[tuple[bytes, int]] = deque()
        self.unacknowledged_bytes = 0  # of all kept bodies,
        self.unacknowledged_messages_bytes = 0  # and of the messages in them

    def put(self, body: bytes, checksum: int | None = None, *, messages_bytes: int = 0) -> bytes:
        """Number a body and keep it; the frame to send. ``checksum`` as for ``wire.frame``."""
        number = self.sent = self.sent + 1
        received = self._last_sent_ack = self.received
        self._kept.append((body, messages_bytes))
        self.unacknowledged_bytes += len(body)
        self.unacknowledged_messages_bytes += messages_bytes
        return wire.frame(DATA, number, received, body, checksum)

    def forget(self) -> None:
        """Drop all that is kept: the other side is banned."""
        self.acknowledged = self.sent
        self._kept.clear()
        self.unacknowledged_bytes = self.unacknowledged_messages_bytes = 0

    def resume(self, received: int) -> list[bytes]:
        """The frames that the other side lacks, which has received so many."""
        self.on_acknowledged(received)
        self._last_sent_ack = self.received
        return [
            wire.frame(DATA, number, self.received, body)
            for number, (body, _) in enumerate(self._kept, self.acknowledged + 1)
        ]

    def on_acknowledged(self, received: int) -> None:
        """The other side has received so many frames; PeerError if fewer were sent."""
        if received > self.sent:
            raise PeerError(wire.REASONS[11])
        # A handshake may be older than the last frames of the connection before it.
        for _ in range(received - self.acknowledged):
            body, messages_bytes = self._kept.popleft()
            self.unacknowledged_bytes -= len(body)
            self.unacknowledged_messages_bytes -= messages_bytes
        self.acknowledged = max(self.acknowledged, received)

    def take(self, frames: list[wire.Frame]) -> list[memoryview]:
        """The bodies of new frames; PeerError for a frame that no correct member sends."""
        return [
            body for kind, number, received, body in frames if self.on_frame(kind, number, received)
        ]

    def on_frame(self, kind: int, number: int, received: int) -> bool:
        """Whether this frame is new; PeerError if no correct member sends it."""
        if received != self.acknowledged:
            self.on_acknowledged(received)
        if kind == DATA:
            if number == self.received + 1:
                self.received = number
                return True
            if number > self.received:
                raise PeerError(wire.REASONS[9])
            return False  # sent again after a reconnection
        if kind not in (wire.ACK, wire.PING):
            raise PeerError(wire.REASONS[10])
        return False

    def owes_acknowledgement(self) -> bool:
        """Whether an acknowledgement is due that no other frame is likely to carry.

        If something was sent since the last call, more is likely to follow.
        """
        is_quiet, self._sent_before = self.sent == self._sent_before, self.sent
        return is_quiet and self.received > self._last_sent_ack

    @property
    def is_overdue(self) -> bool:
        """Whether an acknowledgement is due at once."""
        return self.received - self._last_sent_ack >= ACK_AFTER

    def acknowledgement(self, kind: int = wire.ACK) -> bytes:
        """A frame that acknowledges all that has arrived."""
        self._last_sent_ack = self.received
        return wire.frame(kind, 0, self.received)
