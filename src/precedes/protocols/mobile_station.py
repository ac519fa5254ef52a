"""A support station of ``mobile``: takes hosts in, hands them over, and lets them go.

The corrected form of the paper's Algorithms 2 to 4 (docs/protocols/mobile.md). Each life of a host
has one *record* that counts: OWN at a station, FROZEN while it is being granted, or under way in a
``Handover``. Why it is never lost and never doubled:

1. Requests are flooded on the same FIFO links on which records travel, so a request meets the
   record, or the record meets a WANTED one that is older and keeps the request as ``pending``.
2. A grant goes to a larger session only, and freezes the record: nothing that was sent in the old
   session is accepted from then on.
3. ``Cancel`` deletes WANTED records alone, and only those that can be granted no more.
4. ``memory`` outlives records: an old join or init, however late, finds its session used up.

What the new station does with a handover (IV-D): of the messages below its mark, those that are
neither undelivered nor newly received at the old station have been delivered there, and are
skipped; those that it has discarded itself come first, as catch-up messages.
"""

from __future__ import annotations

from typing import Any

from precedes.protocols.mobile_cell import Cell
from precedes.protocols.mobile_messages import (
    NONE,
    ROUTED,
    WIRE,
    Cancel,
    Flood,
    FromHost,
    Grant,
    Handover,
    HostAck,
    Init,
    Join,
    Joined,
    Leave,
    Left,
    Request,
    Want,
)
from precedes.protocols.mobile_record import FROZEN, OWN, WANTED, Record


class MobileStation(Cell):
    """One station; see ``Cell`` for what it is made of."""

    def receive(self, datagram: Any) -> None:
        """A datagram from a host; those for other cells are passed over."""
        if datagram.cell != self.station:
            return
        kind = type(datagram)
        if kind is FromHost:
            self.on_from_host(datagram)
        elif kind is HostAck:
            self.on_host_ack(datagram)
        elif kind is Init:
            self._on_init(datagram)
        elif kind is Join:
            self._on_join(datagram)
        elif kind is Leave:
            self._on_leave(datagram)

    def receive_wired(self, source: int, message: Any) -> None:
        """A message from a neighbour: pass it on, then act on it."""
        kind = type(message)
        if kind is Flood:
            self.disseminate(message.message, source)
            return
        if kind in ROUTED:
            if message.target != self.station:
                self._route(message)
                return
        else:
            self.flood(message, source)
        if kind is Request:
            self._on_request(message)
        elif kind is Grant:
            self._on_grant(message)
        elif kind is Want:
            self._on_want(message)
        elif kind is Handover:
            self._on_handover(message)
        elif kind is Cancel:
            self._on_cancel(message)
        elif kind is Joined:
            self._on_joined(message)
        elif kind is Left:
            self._on_left(message.host, message.birth, message.number)

    def _route(self, message: Grant | Want | Handover) -> None:
        self.around.effects.append((WIRE, self.routes[message.target], message))

    # Joining and leaving.

    def _on_join(self, datagram: Join) -> None:
        host, session = datagram.host, datagram.session
        record = self.records.get(host)
        if record is not None and record.mode == OWN and record.birth == record.session == session:
            self.repeat_answer(record)
            return
        memory = self.remember(host)
        if session == memory.left:
            self.tell_if_over(host, session)
            return
        if session <= memory.birth or session <= memory.session:
            return
        if datagram.previous != NONE and memory.left < datagram.previous:
            return  # news of the end of the life before is still on its way; the host asks again
        # A first life begins with the oldest message stored. A later one begins with what comes:
        # this station has all that the life before can have delivered.
        pointer = self.base if datagram.previous == NONE else self.next_stamp
        record = Record(OWN, session, session, number=datagram.first, pointer=pointer)
        self.records[host] = record
        memory.birth = session
        self.start(host, record, datagram.echo)
        self.flood(Joined(host, session))
        self.collect()

    def _on_joined(self, message: Joined) -> None:
        memory = self.remember(message.host)
        memory.birth = max(memory.birth, message.birth)
        self._drop_older(message.host, message.birth)

    def _on_leave(self, datagram: Leave) -> None:
        if self.tell_if_over(datagram.host, datagram.birth):
            return
        record = self.serves(datagram.host, datagram.session, datagram.birth)
        if record is not None:
            self._end_life(datagram.host, record)
            self.tell_if_over(datagram.host, datagram.birth)

    def _end_life(self, host: int, record: Record) -> None:
        self.flood(Left(host, record.birth, record.number))
        self._on_left(host, record.birth, record.number)

    def _on_left(self, host: int, birth: int, number: int) -> None:
        memory = self.remember(host)
        if birth > memory.left:
            memory.left, memory.number = birth, number
        self._drop_older(host, birth + 1)

    def expel_silent(self) -> None:
        """End the lives of hosts that were silent for a whole lease, as if they had left."""
        limit_ns = self.around.now_ns - self.settings.lease_ns
        for host, record in list(self.records.items()):
            if record.mode == OWN and record.heard_ns < limit_ns:
                self._end_life(host, record)

    def _drop_older(self, host: int, birth: int) -> None:
        """Delete a record of a life before this birth."""
        record = self.records.get(host)
        if record is not None and record.birth < birth:
            del self.records[host]
            self.collect()

    # Attaching.

    def _on_init(self, datagram: Init) -> None:
        host, birth, session = datagram.host, datagram.birth, datagram.session
        if self.tell_if_over(host, birth):
            return
        memory = self.remember(host)
        if birth < memory.birth:
            return
        # An init proves that the birth was adopted: joins of older ones are void from now on.
        memory.birth = birth
        self._drop_older(host, birth)
        record = self.records.get(host)
        if record is None:
            if session > memory.session:
                self.records[host] = Record(
                    WANTED, birth, session, pointer=self.base, echo=datagram.echo
                )
                self.flood(Request(self.station, host, birth, session, *datagram[4:7]))
        elif record.mode == OWN:
            self._attach(host, record, datagram)
        elif session > record.session:
            self._keep_pending(record, datagram)

    def _attach(self, host: int, record: Record, datagram: Init) -> None:
        """An init at the station that owns the record."""
        if datagram.session < record.session:
            return
        if datagram.session == record.session:
            self.repeat_answer(record)
            return
        if datagram.last == record.session:
            self.position(record, datagram.caught_up, datagram.next_stamp)
        record.session = datagram.session
        self.start(host, record, datagram.echo)
        memory = self.remember(host)
        memory.session = max(memory.session, datagram.session)
        self.flood(Cancel(host, record.birth, record.session))
        self.collect()

    def _keep_pending(self, record: Record, request: Init | Request) -> None:
        if record.pending is None or request.session > record.pending.session:
            record.pending = request

    # Handing over.

    def _on_request(self, message: Request) -> None:
        host, birth = message.host, message.birth
        memory = self.remember(host)
        if birth <= memory.left or birth < memory.birth:
            return
        memory.birth = birth
        self._drop_older(host, birth)
        record = self.records.get(host)
        if record is None:
            return
        if record.mode == OWN:
            if message.session > record.session:
                self._give(host, record, message)
            elif message.session < record.session:
                self.flood(Cancel(host, birth, record.session))
        elif record.mode == WANTED and message.session > record.session:
            self._keep_pending(record, message)

    def _give(self, host: int, record: Record, request: Request) -> None:
        """Freeze the record, and tell the asking station what the host has not delivered."""
        if request.last == record.session:
            self.position(record, request.caught_up, request.next_stamp)
        undelivered = [message.name for message in record.catch_up]
        undelivered += [
            self.stored[stamp].name
            for stamp in range(record.pointer, self.next_stamp)
            if stamp not in record.skip
        ]
        record.mode = FROZEN
        record.session = request.session
        record.mark = self.next_stamp
        record.answer = ()
        record.early = {}
        memory = self.remember(host)
        memory.session = max(memory.session, request.session)
        self.flood(Cancel(host, record.birth, request.session))
        self._route(
            Grant(
                target=request.origin,
                origin=self.station,
                host=host,
                birth=record.birth,
                session=request.session,
                number=record.number,
                undelivered=tuple(undelivered),
            )
        )
        self.collect()

    def _matching(self, mode: int, message: Grant | Want | Handover) -> Record | None:
        record = self.records.get(message.host)
        if record is None or record.mode != mode:
            return None
        same = record.birth == message.birth and record.session == message.session
        return record if same else None

    def _on_grant(self, message: Grant) -> None:
        record = self._matching(WANTED, message)
        if record is None:
            return
        record.number = message.number
        record.undelivered = message.undelivered
        record.mark = self.next_stamp
        wanted = tuple(name for name in message.undelivered if name not in self.stamps)
        self._route(
            Want(message.origin, self.station, message.host, message.birth, message.session, wanted)
        )

    def _on_want(self, message: Want) -> None:
        record = self._matching(FROZEN, message)
        if record is None:
            return
        # From the mark on, itself included: the first message after the grant has that stamp.
        since = tuple(self.stored[stamp].name for stamp in range(record.mark, self.next_stamp))
        bodies = {kept.name: kept for kept in record.catch_up}
        messages = tuple(
            bodies[name] if name in bodies else self.stored[self.stamps[name]]
            for name in message.wanted
        )
        del self.records[message.host]
        self._route(
            Handover(
                target=message.origin,
                origin=self.station,
                host=message.host,
                birth=message.birth,
                session=message.session,
                messages=messages,
                since=since,
            )
        )
        self.collect()
        if isinstance(record.pending, Init):
            self._on_init(record.pending)

    def _on_handover(self, message: Handover) -> None:
        record = self._matching(WANTED, message)
        if record is None:
            return
        missing = {*record.undelivered, *message.since}
        record.skip = {
            stamp
            for stamp in range(record.pointer, record.mark)
            if self.stored[stamp].name not in missing
        }
        record.catch_up = list(message.messages)
        record.undelivered = ()
        record.mode = OWN
        record.heard_ns = self.around.now_ns
        memory = self.remember(message.host)
        memory.session = max(memory.session, record.session)
        self.step_over(record)
        pending, record.pending = record.pending, None
        if isinstance(pending, Init):
            self._attach(message.host, record, pending)
        elif pending is not None:
            self._give(message.host, record, pending)
        else:
            self.start(message.host, record, record.echo)
        self.collect()

    def _on_cancel(self, message: Cancel) -> None:
        memory = self.remember(message.host)
        memory.session = max(memory.session, message.session)
        record = self.records.get(message.host)
        if record is None or record.mode != WANTED or record.birth != message.birth:
            return
        if record.session < message.session:
            del self.records[message.host]
            self.collect()
            if isinstance(record.pending, Init):
                self._on_init(record.pending)
