"""The receiving half of a connection: bytes in any order become messages in theirs."""

from __future__ import annotations

from collections.abc import Sequence

from precedes.contract.machines import Message


class Reassembly:
    """What has been received of a stream of messages of one size.

    Nothing is kept beyond the window: a segment that reaches farther is dropped, which no sender
    that keeps to the window sends.
    """

    __slots__ = ("expected", "held", "message_bytes", "pieces", "window_bytes")

    def __init__(self, message_bytes: int, window_bytes: int) -> None:
        self.message_bytes, self.window_bytes = message_bytes, window_bytes
        self.expected = 0  # the first byte that is missing
        self.pieces: list[tuple[int, int]] = []  # beyond it: from, to; apart, in order
        self.held: dict[int, Message] = {}  # whose last byte is here, by number

    def insert(self, first: int, end: int, messages: Sequence[Message]) -> list[Message]:
        """Take bytes ``first..end-1`` and what ends in them; return what is complete, in order."""
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
