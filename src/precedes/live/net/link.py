"""A link between two members that outlives its connections: nothing lost, nothing twice.

Frames are numbered 1, 2, ... from the start of the group on and kept until the other side says
that they have arrived. When a connection breaks and another one is made, each side says how many
frames it has, and the other goes on behind them.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from precedes.errors import PeerError
from precedes.live.net import wire
from precedes.live.net.wire import DATA

# An acknowledgement goes out by itself when so many frames have come and nothing was sent back.
ACK_AFTER: Final = 32


class Link:
    """One side of a link.

    It keeps what the other side does not acknowledge; ``links.Links`` gives up a member for which
    that is more than windows allow.
    """

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.life = b""  # of the other side, once it has been met
        self.heard_s = -math.inf  # when bytes last came over a connection that has ended
        self.sent = 0  # number of the last frame
        self.received = 0  # frames of the other side that have come
        self.acknowledged = 0  # frames that have come there
        self._last_sent_ack = 0  # what the other side was told to have come here
        self._sent_before = 0  # the last frame when ``owes_acknowledgement`` was asked last
        # The bodies behind the acknowledged ones, and how many bytes of each are messages.
        self._kept: deque[tuple[bytes, int]] = deque()
        self.unacknowledged_bytes = 0  # what has not come at the other side as far as is known,
        self.unacknowledged_messages_bytes = 0  # and what of it is messages

    def put(self, body: bytes, checksum: int | None = None, *, messages_bytes: int = 0) -> bytes:
        """Number a body and keep it; the frame to send. ``checksum`` as for ``wire.frame``."""
        number = self.sent = self.sent + 1
        received = self._last_sent_ack = self.received
        self._kept.append((body, messages_bytes))
        self.unacknowledged_bytes += len(body)
        self.unacknowledged_messages_bytes += messages_bytes
        return wire.frame(DATA, number, received, body, checksum)

    def forget(self) -> None:
        """Keep nothing: the other side will not be spoken to again."""
        self.acknowledged = self.sent
        self._kept.clear()
        self.unacknowledged_bytes = self.unacknowledged_messages_bytes = 0

    def resume(self, received: int) -> list[bytes]:
        """The other side has so many frames: those that it lacks, to be sent again."""
        self.on_acknowledged(received)
        self._last_sent_ack = self.received
        return [
            wire.frame(DATA, number, self.received, body)
            for number, (body, _) in enumerate(self._kept, self.acknowledged + 1)
        ]

    def on_acknowledged(self, received: int) -> None:
        """So many frames have come at the other side; PeerError if there were never as many."""
        if received > self.sent:
            raise PeerError(wire.REASONS[11])
        # A greeting may be older than what came over the connection before it.
        for _ in range(received - self.acknowledged):
            body, messages_bytes = self._kept.popleft()
            self.unacknowledged_bytes -= len(body)
            self.unacknowledged_messages_bytes -= messages_bytes
        self.acknowledged = max(self.acknowledged, received)

    def take(self, frames: list[wire.Frame]) -> list[memoryview]:
        """The bodies that are to be looked at; PeerError if a frame cannot be right."""
        found = []
        for kind, number, received, body in frames:
            if kind == DATA and number == self.received + 1 and received == self.acknowledged:
                self.received = number
            elif not self.on_frame(kind, number, received):
                continue
            found.append(body)
        return found

    def on_frame(self, kind: int, number: int, received: int) -> bool:
        """Whether the body of this frame is to be looked at; PeerError if it cannot be right."""
        if received != self.acknowledged:
            self.on_acknowledged(received)
        if kind == DATA:
            if number == self.received + 1:
                self.received = number
                return True
            if number > self.received:
                raise PeerError(wire.REASONS[9])
            return False  # what came over the connection before this one comes again
        if kind not in (wire.ACK, wire.PING):
            raise PeerError(wire.REASONS[10])
        return False

    def owes_acknowledgement(self) -> bool:
        """Whether the other side waits to hear what has come, and no frame will tell it soon.

        If something was sent since the last time it was asked, more is likely to be on its way.
        """
        is_quiet, self._sent_before = self.sent == self._sent_before, self.sent
        return is_quiet and self.received > self._last_sent_ack

    @property
    def is_overdue(self) -> bool:
        """Whether it should hear so at once."""
        return self.received - self._last_sent_ack >= ACK_AFTER

    def acknowledgement(self, kind: int = wire.ACK) -> bytes:
        """A frame that says what has come; a PING if nothing has."""
        self._last_sent_ack = self.received
        return wire.frame(kind, 0, self.received)
