"""A link between two members that outlives its connections: no loss, no duplicates.

Frames are numbered 1, 2, ... from the start of the group on and kept until the other side
acknowledges them. When a connection breaks and another one is made, each side sends how many
frames it has received, and the other resumes after them.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from precedes.errors import PeerError
from precedes.live.net import wire
from precedes.live.net.wire import CONTROL, DATA

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
        self.received_s = (
            -math.inf
        )  # when bytes were last received over a connection that has ended
        self.sent = 0  # number of the last frame
        self.received = 0  # frames of the other side that have arrived here
        self.acknowledged = 0  # frames that have arrived there
        self._last_sent_ack = 0  # the last value of ``received`` that was sent
        self._sent_before = 0  # the last frame when ``owes_acknowledgement`` was last called
        # The bodies after the acknowledged ones, their epochs, and how many bytes of each are
        # messages.
        self._kept: deque[tuple[bytes, int, int]] = deque()
        self.unacknowledged_bytes = 0  # of all kept bodies,
        self.unacknowledged_messages_bytes = 0  # and of the messages in them

    def put(
        self, body: bytes, checksum: int | None = None, *, epoch: int, messages_bytes: int = 0
    ) -> bytes:
        """Number a body and keep it; the frame to send. ``checksum`` as for ``wire.frame``.

        A body of epoch 0 is a record of the membership.
        """
        number = self.sent = self.sent + 1
        received = self._last_sent_ack = self.received
        self._kept.append((body, epoch, messages_bytes))
        self.unacknowledged_bytes += len(body)
        self.unacknowledged_messages_bytes += messages_bytes
        kind = DATA if epoch else CONTROL
        return wire.frame(kind, number, received, body, checksum, epoch=epoch)

    def is_kept(self, record: bytes) -> bool:
        """Return whether this record of the membership is sent and not acknowledged."""
        return any(body == record and not epoch for body, epoch, _ in self._kept)

    def forget(self) -> None:
        """Drop all kept frames: the other side is banned."""
        self.acknowledged = self.sent
        self._kept.clear()
        self.unacknowledged_bytes = self.unacknowledged_messages_bytes = 0

    def resume(self, received: int) -> list[bytes]:
        """The frames that the other side lacks after this many received ones."""
        self.on_acknowledged(received)
        self._last_sent_ack = self.received
        return [
            wire.frame(DATA if epoch else CONTROL, number, self.received, body, epoch=epoch)
            for number, (body, epoch, _) in enumerate(self._kept, self.acknowledged + 1)
        ]

    def on_acknowledged(self, received: int) -> None:
        """Process an acknowledgement; PeerError if fewer frames were sent."""
        if received > self.sent:
            raise PeerError(wire.REASONS[11])
        # A handshake may be older than the last frames of the connection before it.
        for _ in range(received - self.acknowledged):
            body, _, messages_bytes = self._kept.popleft()
            self.unacknowledged_bytes -= len(body)
            self.unacknowledged_messages_bytes -= messages_bytes
        self.acknowledged = max(self.acknowledged, received)

    def take(self, frames: list[wire.Frame]) -> list[tuple[int, memoryview]]:
        """Epochs and bodies of new frames; PeerError for what no correct member sends."""
        return [
            (epoch, body)
            for kind, number, received, epoch, body in frames
            if self.on_frame(kind, number, received)
        ]

    def on_frame(self, kind: int, number: int, received: int) -> bool:
        """Return whether this frame is new; PeerError if no correct member sends it."""
        if received != self.acknowledged:
            self.on_acknowledged(received)
        if kind in wire.NUMBERED:
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
        """Return whether an acknowledgement is due that no other frame is likely to carry.

        If something was sent since the last call, more is likely to follow.
        """
        is_quiet, self._sent_before = self.sent == self._sent_before, self.sent
        return is_quiet and self.received > self._last_sent_ack

    @property
    def is_overdue(self) -> bool:
        """Return whether an acknowledgement is due at once."""
        return self.received - self._last_sent_ack >= ACK_AFTER

    def acknowledgement(self, kind: int = wire.ACK) -> bytes:
        """A frame that acknowledges all that has arrived."""
        self._last_sent_ack = self.received
        return wire.frame(kind, 0, self.received)
