"""A mobile host of ``mobile``: joins, moves, crashes and recovers, broadcasts and delivers.

The corrected form of the paper's Algorithm 1 (docs/protocols/mobile.md lists the corrections).
Five rules carry the proof:

1. Nothing is ever reset: sessions and own numbers continue over crashes and lives.
2. A delivery and the new position are made durable in one step, and the session before it is used.
3. Data received in one session are invalid in the next: stamps are a station's own.
4. An acknowledgement of own messages never touches the position of deliveries.
5. Nothing is transmitted before the station's ``InitAck`` has been received in this session.

A host that holds a lease delivers only until ``lease_share`` of it has passed since it *sent* the
last acknowledgement that the station is known to have received; the station counts from when it
received it, so the host is silent before it can be expelled, for any delay of datagrams.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from precedes.contract.machines import (
    DELIVER,
    EXPELLED,
    JOINED,
    LEFT,
    PERSIST,
    RADIO,
    TIMER,
    Environment,
    Message,
    memory_bytes,
)

from .messages import (
    NONE,
    CatchUp,
    Datagram,
    FromHost,
    FromStation,
    HostAck,
    Init,
    InitAck,
    Join,
    Leave,
    LeaveAck,
    Settings,
    StationAck,
)

# Modes.
OUT: Final = 0
JOINING: Final = 1
IN: Final = 2
DRAINING: Final = 3  # leave requested, own messages not all acknowledged
LEAVING: Final = 4  # leave sent or about to be: delivers nothing any more

# Kinds of timers, first in their keys; the epoch after it makes those of old sessions void.
CONNECT: Final = 0
REPEAT: Final = 1
ACK: Final = 2
LEAVE: Final = 3
HEARTBEAT: Final = 4

BEYOND_BITS: Final = 256  # of a selective acknowledgement


class Disk(NamedTuple):
    """A host's state that survives a crash."""

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


class MobileHost:
    """One host; ``disk`` is its durable state, or a fresh ``Disk()``."""

    __slots__ = (
        "ack_armed",
        "birth",
        "catch_up_early",
        "caught_up",
        "cell",
        "confirmed_ns",
        "copies",
        "early",
        "environment",
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

    def __init__(self, host: int, settings: Settings, environment: Environment, disk: Disk) -> None:
        self.host = host
        self.settings = settings
        self.environment = environment
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
        """The state that PERSIST makes durable."""
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
        """Return whether nothing of this host is in flight or pending."""
        return not self.unacknowledged and (self.mode == OUT or (self.mode == IN and self.ok))

    def early_count(self) -> int:
        """Messages received and not yet delivered."""
        return len(self.early) + len(self.catch_up_early)

    def unacknowledged_count(self) -> int:
        """Own messages that no station has acknowledged."""
        return len(self.unacknowledged)

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        messages = self.early_count() + len(self.unacknowledged)
        numbers = 16 + len(self.skip) + messages
        return memory_bytes(numbers=numbers, messages=messages, message_bytes=message_bytes)

    # Sessions.

    def _new_session(self) -> None:
        assert self.cell is not None
        self.session += 1
        if self.mode == JOINING:
            self.birth = self.session
        self._forget_session()
        self._persist()
        now_us = self.environment.now_ns // 1000
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

    # Requests of the application and of the radio's carrier detection.

    def join(self) -> None:
        """Begin a life; nothing happens unless the host is out."""
        if self.mode != OUT:
            return
        self.mode = JOINING
        self.last, self.caught_up, self.next_stamp = NONE, 0, NONE
        self.leave_wanted = False
        self._persist()
        if self.cell is not None:
            self._new_session()

    def leave(self) -> None:
        """End this life when all own messages have been acknowledged."""
        if self.mode == JOINING:
            self.leave_wanted = True
            self._persist()
        elif self.mode == IN:
            self.mode = DRAINING
            self._persist()
            self._try_leave()

    def broadcast(self, data: Any) -> int | None:
        """Broadcast; return the message's number, or None if the host is out or leaving."""
        if self.mode not in (JOINING, IN):
            return None
        number = self.number
        self.unacknowledged[number] = data
        self.number += 1
        self._persist()
        self._fill_window()
        return number

    def move(self, cell: int | None) -> None:
        """Another station has the strongest signal, or none; also called after a recovery."""
        self.cell = cell
        if self.mode == OUT:
            return
        if cell is None:
            self._forget_session()
        else:
            self._new_session()

    # Incoming datagrams.

    def receive(self, datagram: Any) -> None:
        """A datagram that reached the antenna; those of other cells and hosts are ignored."""
        if datagram.cell != self.cell or self.mode == OUT:
            return
        kind = type(datagram)
        if kind is FromStation:
            self._on_message(datagram)
        elif kind is StationAck:
            self._on_ack(datagram)
        elif kind in (CatchUp, InitAck, LeaveAck) and datagram.host == self.host:
            if kind is LeaveAck:
                self._on_leave_ack(datagram)
            elif datagram.session == self.session:
                if kind is CatchUp:
                    self._on_catch_up(datagram)
                else:
                    self._on_init_ack(datagram)

    def _on_message(self, datagram: FromStation) -> None:
        if self.mode == LEAVING:
            return
        stamp = datagram.stamp
        if not self.ok:
            if len(self.early) < self.settings.early_max:
                self.early[stamp] = datagram.message
            return
        if stamp >= self.next_stamp and stamp not in self.skip:
            if stamp == self.next_stamp or len(self.early) < self.settings.early_max:
                self.early[stamp] = datagram.message
            self._drain()
        # Also for a message that was delivered before: its acknowledgement must have been lost.
        self._ask_for_ack()

    def _on_catch_up(self, datagram: CatchUp) -> None:
        if self.mode not in (IN, DRAINING):
            return
        self._enter_session()
        if datagram.place >= self.caught_up:
            self.catch_up_early[datagram.place] = datagram.message
            self._drain()
        self._ask_for_ack()

    def _enter_session(self) -> None:
        """Make the position one of this session from here on."""
        if self.last != self.session:
            self.last, self.caught_up, self.next_stamp = self.session, 0, NONE
            self._persist()

    def _on_init_ack(self, datagram: InitAck) -> None:
        if self.ok:
            return
        self.parts[datagram.part] = datagram
        if len(self.parts) < datagram.parts:
            return
        self._enter_session()
        self.ok = True
        self.next_stamp = datagram.start
        self.total = datagram.total
        self.skip = {
            part.skip_from + place
            for part in self.parts.values()
            for place in range(part.skip.bit_length())
            if part.skip >> place & 1
        }
        self.parts = {}
        self.confirmed_ns = datagram.echo * 1000
        if self.mode == JOINING:
            self.mode = DRAINING if self.leave_wanted else IN
            self.environment.effects.append((JOINED, self.birth, self.cell, datagram.start))
        for stamp in [stamp for stamp in self.early if stamp < datagram.start]:
            del self.early[stamp]
        self._acknowledged(datagram.number)
        self._persist()
        self._try_leave()
        self._fill_window()
        self._drain()
        self._ask_for_ack()
        if self.settings.lease_ns:
            self._timer(self.settings.lease_ns // 8, HEARTBEAT)

    def _has_lease(self) -> bool:
        lease_ns = self.settings.lease_ns
        if not lease_ns:
            return True
        passed_ns = self.environment.now_ns - self.confirmed_ns
        return self.confirmed_ns != NONE and passed_ns < lease_ns * self.settings.lease_share

    def _drain(self) -> None:
        """Deliver the next messages: the catch-up messages, then stamp after stamp."""
        if self.mode not in (IN, DRAINING):
            return
        # Before InitAck the host holds no lease in this session, and catch-up messages wait.
        if self.settings.lease_ns and not (self.ok and self._has_lease()):
            return
        before = self.caught_up, self.next_stamp
        effects = self.environment.effects
        while self.caught_up in self.catch_up_early:
            effects.append((DELIVER, self.catch_up_early.pop(self.caught_up)))
            self.caught_up += 1
        if self.ok and self.caught_up == self.total:
            early, skip = self.early, self.skip
            while True:
                stamp = self.next_stamp
                if stamp in skip:
                    skip.discard(stamp)
                    early.pop(stamp, None)
                elif stamp in early:
                    effects.append((DELIVER, early.pop(stamp)))
                else:
                    break
                self.next_stamp = stamp + 1
        if before != (self.caught_up, self.next_stamp):
            self._persist()

    def _on_ack(self, datagram: StationAck) -> None:
        for host, number, echo in datagram.hosts:
            if host != self.host:
                continue
            if self.ok:
                self.confirmed_ns = max(self.confirmed_ns, echo * 1000)
            if self._acknowledged(number):
                self._persist()
                self._try_leave()
                self._fill_window()
            if self.settings.lease_ns:
                self._drain()

    def _on_leave_ack(self, datagram: LeaveAck) -> None:
        """End the life: as requested, or because the host was silent for too long."""
        if datagram.birth != self.birth:
            return
        if self.mode == JOINING:
            # Expelled before the answer to the join arrived: this birth is used up.
            if self.session == self.birth:
                self.previous = self.birth
                self._new_session()
            return
        expelled = self.mode in (IN, DRAINING)
        self.mode = OUT
        self.previous = self.birth
        self._acknowledged(datagram.number)
        self._forget_session()
        self._persist()
        self.environment.effects.append((LEFT, self.birth))
        if expelled:
            self.environment.effects.append((EXPELLED,))

    # Outgoing datagrams.

    def _persist(self) -> None:
        self.environment.effects.append((PERSIST,))

    def _radio(self, datagram: Datagram) -> None:
        self.environment.effects.append((RADIO, datagram))

    def _timer(self, delay_ns: int, *key: int) -> None:
        self.environment.effects.append((TIMER, delay_ns, (key[0], self.epoch, *key[1:])))

    def _say_hello(self) -> None:
        assert self.hello is not None
        self._radio(self.hello)
        self._timer(self.settings.delay_ns(self.environment, self.settings.connect_ns), CONNECT)

    def _fill_window(self) -> None:
        """Send the lowest own numbers that are not on the air yet, as far as the window allows."""
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
        pending = len(self.unacknowledged)
        delay_ns = self.settings.repeat_ns(self.environment, copies=copies, pending=pending)
        self._timer(delay_ns, REPEAT, number)

    def _ask_for_ack(self) -> None:
        if not self.ack_armed:
            self.ack_armed = True
            self._timer(self.settings.delay_ns(self.environment, self.settings.ack_ns), ACK)

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
                self.environment.now_ns // 1000,
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
        self._timer(self.settings.delay_ns(self.environment, self.settings.connect_ns), LEAVE)

    def on_timer(self, key: tuple[int, ...]) -> None:
        """Handle an expired timer; those of earlier sessions are void."""
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
        """Forget own messages below a number; return whether there were any."""
        numbers = [own for own in self.unacknowledged if own < number]
        for own in numbers:
            del self.unacknowledged[own]
            self.copies.pop(own, None)
        return bool(numbers)
