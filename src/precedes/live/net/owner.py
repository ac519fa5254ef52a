"""What the links of a member know of it, and whom they report to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from precedes.errors import PeerError


class Owner(Protocol):
    """The member that links belong to."""

    @property
    def is_over(self) -> bool:
        """Whether it has left the group: what is under way may still arrive."""

    @property
    def is_finished(self) -> bool:
        """Whether all in the view have finished, and may end without a word."""

    @property
    def largest_message_bytes(self) -> int:
        """The most that a message has taken on the wire so far."""

    def is_gone(self, member: int) -> bool:
        """Whether a member is out of the view."""

    def on_bodies(self, peer: int, bodies: Iterable[bytes | memoryview]) -> None:
        """Frames have come from a peer; their bodies are good until this returns."""

    def on_peer_error(self, peer: int | None, error: PeerError, where: str) -> None:
        """Somebody sent what no correct member sends."""

    def on_no_handshake(self, where: str) -> None:
        """A connection has ended without a handshake: the peer is busy, or not a member."""

    def on_damaged(self, peer: int | None, where: str) -> None:
        """Bytes have changed on the way; what is missing comes again over another connection."""

    def on_refused(self, peer: int | None, reason: str, *, evicted: bool) -> None:
        """A peer does not want to speak to this member."""

    def on_disconnected(self, peer: int, error: Exception | None) -> None:
        """A connection broke; the link goes on when there is another."""
