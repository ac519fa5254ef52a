"""The state of a group: what applications supply, and its transfer to a member that joins.

A state goes over a connection of its own, as frames of ``wire.STATE``: first a label, which tells
the epoch and the messages that the state contains, then chunks, then an empty one. What is cut
short or out of sequence is not a state, and another member is asked.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final, Protocol

from precedes.errors import PeerError, UserError
from precedes.live.member.output import Message
from precedes.live.membership.learning import Label
from precedes.live.membership.records import decode_label, encode_label
from precedes.live.net import wire

CHUNK_BYTES: Final = 1 << 18
# Transfers that a member sends at the same time.
SENT_MAX: Final = 2


class State(Protocol):
    """Replicated state of an application, the same at all members of a group.

    ``apply`` gets every message in causal order, own ones when they are broadcast, and decides by
    the messages alone. ``dump`` is called between two calls of it, in the loop; an iterator that it
    returns is read later, so it iterates over a copy. ``load`` replaces the state by the chunks of
    a dump; it runs in a thread, without a call of ``apply`` until it returns. None of them is
    ``async``; an exception of one ends the membership with ``StateError``.
    """

    def apply(self, message: Message, /) -> object:
        """Apply a message."""

    def dump(self) -> bytes | Iterable[bytes]:
        """Return the state."""

    def load(self, chunks: Iterable[bytes], /) -> object:
        """Replace the state."""


def check_state(state: object) -> None:
    """UserError for an object that cannot be a state."""
    for name in ("apply", "dump", "load"):
        method = getattr(state, name, None)
        if not callable(method):
            raise UserError(f"a state has methods apply, dump and load: {state!r} lacks {name}")
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise UserError(f"{name} of a state is a plain method, not an async one")


class Received:
    """A state that arrives, of at most this many bytes."""

    def __init__(self, first_epoch: int, size_max_bytes: int) -> None:
        self.first_epoch = first_epoch
        self.has_begun = False
        self.label: Label | None = None
        self.chunks: list[bytes] = []
        self.is_complete = self.is_too_large = False
        self._size_bytes = 0
        self._size_max_bytes = size_max_bytes

    def take(self, number: int, body: memoryview) -> bool:
        """Take a frame; return whether no other one is wanted. PeerError if it is out of place."""
        if number != (0 if self.label is None else len(self.chunks) + 1):
            raise PeerError(wire.REASONS[9])
        if self.label is None:
            self.label = decode_label(body)
            return False
        self._size_bytes += len(body)
        self.is_too_large = self._size_bytes > self._size_max_bytes
        self.is_complete = not body
        self.chunks.append(bytes(body))
        return self.is_complete or self.is_too_large


def pieces(state: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of a dump, none of them empty or longer than ``CHUNK_BYTES``."""
    parts = [state] if isinstance(state, bytes | bytearray | memoryview) else state
    for part in parts:
        view = memoryview(part).cast("B")
        for first in range(0, len(view), CHUNK_BYTES):
            yield bytes(view[first : first + CHUNK_BYTES])


async def frames_of(label: Label, state: bytes | Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Frames of a state; the loop takes a turn after each."""
    yield wire.frame(wire.STATE, 0, 0, encode_label(label))
    number = 0
    for number, piece in enumerate(pieces(state), 1):
        yield wire.frame(wire.STATE, number, 0, piece)
        await asyncio.sleep(0)
    yield wire.frame(wire.STATE, number + 1, 0)
