"""A mobile host of ``mobile``: joins, moves, crashes and recovers, broadcasts and delivers.

The corrected form of the paper's Algorithm 1 (docs/protocols/mobile.md lists what had to change).
Five rules carry the proof:

1. Nothing is ever reset: sessions and own numbers go on over crashes and lives.
2. A delivery and the new position are made durable in one step, and the session before it is used.
3. What was received in one session means nothing in the next: stamps are a station's own.
4. An acknowledgement of own messages never touches the position of deliveries.
5. Nothing is transmitted before the station's ``InitAck`` has been received in this session.

A host that holds a lease delivers only until ``lease_share`` of it has passed since it *sent* the
last acknowledgement that the station is known to have heard; the station counts from when it
heard it, so the host is silent before it can be expelled, however late datagrams are.
"""

from __future__ import annotations

from typing import Any

from precedes.protocols.mobile_attachment import (
    DRAINING,
    HEARTBEAT,
    IN,
    JOINING,
    LEAVING,
    OUT,
    Attachment,
)
from precedes.protocols.mobile_messages import (
    DELIVER,
    EXPELLED,
    JOINED,
    LEFT,
    NONE,
    CatchUp,
    FromStation,
    InitAck,
    LeaveAck,
    StationAck,
)


class MobileHost(Attachment):
    """One host; see ``Attachment`` for what it is made of."""

    __slots__ = ()

    # What the application and the radio's carrier detection ask for.

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
        """Broadcast; the message's number, or None if the host is out or about to leave."""
        if self.mode not in (JOINING, IN):
            return None
        number = self.number
        self.unacknowledged[number] = data
        self.number += 1
        self._persist()
        self._fill_window()
        return number

    def move(self, cell: int | None) -> None:
        """The host hears another station best, or none; also called after a recovery."""
        self.cell = cell
        if self.mode == OUT:
            return
        if cell is None:
            self._forget_session()
        else:
            self._new_session()

    # What the host hears.

    def receive(self, datagram: Any) -> None:
        """A datagram that reached the antenna; those of other cells and hosts are passed over."""
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
        # Also for what was delivered before: the acknowledgement of it must have been lost.
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
        """The position from here on is one of this session."""
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
            self.around.effects.append((JOINED, self.birth, self.cell, datagram.start))
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
        passed_ns = self.around.now_ns - self.confirmed_ns
        return self.confirmed_ns != NONE and passed_ns < lease_ns * self.settings.lease_share

    def _drain(self) -> None:
        """Deliver what is next: the catch-up messages, then stamp after stamp."""
        if self.mode not in (IN, DRAINING):
            return
        # Before InitAck no lease is held in this session, and catch-up messages wait.
        if self.settings.lease_ns and not (self.ok and self._has_lease()):
            return
        before = self.caught_up, self.next_stamp
        effects = self.around.effects
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
        """The life is over: as asked for, or because the host was silent for too long."""
        if datagram.birth != self.birth:
            return
        if self.mode == JOINING:
            # Expelled before the answer to the join came through: this birth is used up.
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
        self.around.effects.append((LEFT, self.birth))
        if expelled:
            self.around.effects.append((EXPELLED,))
