"""What a host of ``mobile`` keeps and sends: its disk, its session, its window, its timers.

``MobileHost`` adds what it hears and what the application asks for.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from precedes.model import PeerError
from precedes.protocols import mobile_codec as codec
from precedes.protocols.mobile_messages import (
    NONE,
    NUMBER_BYTES,
    PERSIST,
    RADIO,
    TIMER,
    Datagram,
    FromHost,
    HostAck,
    Init,
    InitAck,
    Join,
    Leave,
    Message,
    Settings,
    Surroundings,
)

# Modes.
OUT: Final = 0
JOINING: Final = 1
IN: Final = 2
DRAINING: Final = 3  # leave asked for, own messages not all acknowledged
LEAVING: Final = 4  # leave sent or about to be: delivers nothing any more

# Kinds of timers, first in their keys; the epoch after it makes those of old sessions void.
CONNECT: Final = 0
REPEAT: Final = 1
ACK: Final = 2
LEAVE: Final = 3
HEARTBEAT: Final = 4

BEYOND_BITS: Final = 256  # of a selective acknowledgement


class Disk(NamedTuple):
    """What a host must find again after a crash."""

    session: int = 0
    birth: int = NONE
    mode: int = OUT
    last: int = NONE
    caught_up: int = 0
    next_stamp: int = NONE
    number: int = 0
    previous: int = NONE
    leave_wanted: bool = False
    unacknowledged: tuple[tuple[int, Any], ...] = ()


DISK: Final = codec.layout_of(Disk)


def encode_disk(disk: Disk) -> bytes:
    """A host's disk as a record of a journal."""
    out = bytearray()
    DISK.write(out, disk)
    return bytes(out)


def decode_disk(text: bytes) -> Disk:
    """The disk that a record holds."""
    found, end = DISK.read(text, 0)
    if end != len(text):
        raise PeerError("a record of a host's disk has bytes too many")
    disk: Disk = found
    return disk


class Attachment:
    """The sending half of a host; ``disk`` is what it had made durable, or a fresh ``Disk()``."""

    __slots__ = (
        "ack_armed",
        "around",
        "birth",
        "catch_up_early",
        "caught_up",
        "cell",
        "confirmed_ns",
        "copies",
        "early",
        "epoch",
        "hello",
        "host",
        "last",
        "leave_wanted",
        "mode",
        "next_stamp",
        "number",
        "ok",
        "parts",
        "previous",
        "session",
        "settings",
        "skip",
        "total",
        "unacknowledged",
    )

    def __init__(self, host: int, settings: Settings, around: Surroundings, disk: Disk) -> None:
        self.host = host
        self.settings = settings
        self.around = around
        self.session = disk.session  # this attachment
        self.birth = disk.birth  # the session in which this life was begun
        self.mode = disk.mode
        self.last = disk.last  # the session that the position belongs to
        self.caught_up = disk.caught_up
        self.next_stamp = disk.next_stamp
        self.number = disk.number  # of the next own broadcast
        self.previous = disk.previous
        self.leave_wanted = disk.leave_wanted
        self.unacknowledged: dict[int, Any] = dict(disk.unacknowledged)
        self.cell: int | None = None
        self.hello: Join | Init | None = None
        self.epoch = 0
        self._forget_session()

    def disk(self) -> Disk:
        """What PERSIST makes durable."""
        return Disk(
            session=self.session,
            birth=self.birth,
            mode=self.mode,
            last=self.last,
            caught_up=self.caught_up,
            next_stamp=self.next_stamp,
            number=self.number,
            previous=self.previous,
            leave_wanted=self.leave_wanted,
            unacknowledged=tuple(self.unacknowledged.items()),
        )

    def is_quiet(self) -> bool:
        """Whether everything of this host is on its way."""
        return self.mode == OUT or (self.mode == IN and self.ok and not self.unacknowledged)

    def early_count(self) -> int:
        """Messages received and not yet delivered."""
        return len(self.early) + len(self.catch_up_early)

    def unacknowledged_count(self) -> int:
        """Own messages that no station has acknowledged."""
        return len(self.unacknowledged)

    def size_bytes(self, message_bytes: int) -> int:
        """About what the state takes."""
        messages = self.early_count() + len(self.unacknowledged)
        return NUMBER_BYTES * (16 + len(self.skip) + messages) + message_bytes * messages

    def _new_session(self) -> None:
        assert self.cell is not None
        self.session += 1
        if self.mode == JOINING:
            self.birth = self.session
        self._forget_session()
        self._persist()
        now_us = self.around.now_ns // 1000
        if self.mode == JOINING:
            first = next(iter(self.unacknowledged), self.number)
            self.hello = Join(self.cell, self.host, self.session, first, self.previous, now_us)
        else:
            self.hello = Init(
                self.cell,
                self.host,
                self.session,
                self.birth,
                self.last,
                self.caught_up,
                self.next_stamp,
                now_us,
            )
        self._say_hello()

    def _forget_session(self) -> None:
        self.epoch += 1
        self.ok = False
        self.hello = None
        self.early: dict[int, Message] = {}
        self.catch_up_early: dict[int, Message] = {}
        self.skip: set[int] = set()
        self.total = NONE
        self.parts: dict[int, InitAck] = {}
        self.copies: dict[int, int] = {}
        self.ack_armed = False
        self.confirmed_ns = NONE

    # What the host sends.

    def _persist(self) -> None:
        self.around.effects.append((PERSIST,))

    def _radio(self, datagram: Datagram) -> None:
        self.around.effects.append((RADIO, datagram))

    def _timer(self, delay_ns: int, *key: int) -> None:
        self.around.effects.append((TIMER, delay_ns, (key[0], self.epoch, *key[1:])))

    def _say_hello(self) -> None:
        assert self.hello is not None
        self._radio(self.hello)
        self._timer(self.settings.delay_ns(self.around, self.settings.connect_ns), CONNECT)

    def _fill_window(self) -> None:
        """Put the lowest numbers on the air that are not there yet."""
        if not self.ok or self.mode not in (IN, DRAINING) or not self.unacknowledged:
            return
        first = next(iter(self.unacknowledged))
        for number in range(first, min(first + self.settings.window, self.number)):
            if number not in self.copies:
                self._transmit(number)

    def _transmit(self, number: int) -> None:
        assert self.cell is not None
        copies = self.copies.get(number, 0) + 1
        self.copies[number] = copies
        data = self.unacknowledged[number]
        self._radio(FromHost(self.cell, self.host, self.session, self.birth, number, data))
        self._timer(self.settings.repeat_ns(self.around, copies), REPEAT, number)

    def _ask_for_ack(self) -> None:
        if not self.ack_armed:
            self.ack_armed = True
            self._timer(self.settings.delay_ns(self.around, self.settings.ack_ns), ACK)

    def _send_ack(self) -> None:
        if self.last != self.session or self.cell is None or self.mode not in (IN, DRAINING):
            return
        beyond = 0
        if self.settings.selective and self.ok:
            for stamp in self.early:
                place = stamp - self.next_stamp - 1
                if 0 <= place < BEYOND_BITS:
                    beyond |= 1 << place
        self._radio(
            HostAck(
                self.cell,
                self.host,
                self.session,
                self.birth,
                self.caught_up,
                self.next_stamp,
                beyond,
                self.around.now_ns // 1000,
            )
        )

    def _try_leave(self) -> None:
        if self.mode == DRAINING and not self.unacknowledged:
            self.mode = LEAVING
            self._persist()
        if self.mode == LEAVING and self.ok:
            self._say_leave()

    def _say_leave(self) -> None:
        assert self.cell is not None
        self._radio(Leave(self.cell, self.host, self.session, self.birth))
        self._timer(self.settings.delay_ns(self.around, self.settings.connect_ns), LEAVE)

    def on_timer(self, key: tuple[int, ...]) -> None:
        """A timer set here has run out; those of earlier sessions say nothing."""
        if key[1] != self.epoch or self.mode == OUT:
            return
        kind = key[0]
        if kind == CONNECT:
            if not self.ok:
                self._say_hello()
        elif kind == REPEAT:
            if key[2] in self.unacknowledged:
                self._transmit(key[2])
        elif kind == ACK:
            self.ack_armed = False
            self._send_ack()
        elif kind == LEAVE:
            if self.mode == LEAVING:
                self._say_leave()
        elif kind == HEARTBEAT and self.mode in (IN, DRAINING):
            self._send_ack()
            self._timer(self.settings.lease_ns // 8, HEARTBEAT)

    def _acknowledged(self, number: int) -> bool:
        """Forget own messages below a number; whether there were any."""
        found = [own for own in self.unacknowledged if own < number]
        for own in found:
            del self.unacknowledged[own]
            self.copies.pop(own, None)
        return bool(found)
