"""A support station of ``mobile``: admits hosts, hands them over, and releases them.

The corrected form of the paper's Algorithms 2 to 4 (docs/protocols/mobile.md). Each life of a host
has one *record* that counts: OWN at a station, FROZEN while it is being granted, or in flight in a
``Handover``. Why it is never lost and never duplicated:

1. Requests are flooded on the same FIFO links on which records travel, so a request meets the
   record, or the record meets a WANTED one that is older and keeps the request as ``pending``.
2. A grant goes to a larger session only, and freezes the record: nothing that was sent in the old
   session is accepted from then on.
3. ``Cancel`` deletes only WANTED records that can no longer be granted.
4. ``memory`` outlives records: an old join or init, however late, finds its session used up.

The new station's handling of a handover (IV-D): of the messages below its mark, those that are
neither undelivered nor newly received at the old station have been delivered there, and are
skipped; those that it has discarded itself come first, as catch-up messages.
"""

from __future__ import annotations

from typing import Any, Final

from precedes.contract.machines import WIRE, Environment, Flood

from .cell import FROZEN, OWN, WANTED, Cell, Record
from .messages import (
    NONE,
    ROUTED,
    Cancel,
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
    Settings,
    Want,
)

LEASE: Final = 3  # a kind of timer, after those of a cell


class MobileStation:
    """One station: its members, and the cell in which it serves them."""

    def __init__(
        self,
        station: int,
        neighbours: tuple[int, ...],
        routes: tuple[int, ...],
        settings: Settings,
        environment: Environment,
    ) -> None:
        """``routes[s]`` is the next hop towards station s."""
        self.station = station
        self.routes = routes
        self.environment = environment
        self.cell = Cell(station, neighbours, settings, environment)
        # Lengths of the lists of handoffs that began here (IV-D).
        self.handed_over = self.discarded = 0
        self.undelivered_max = self.discarded_max = self.since_max = 0

    def begin(self) -> None:
        """Schedule the search for silent hosts, if there are leases."""
        if self.cell.settings.lease_ns:
            self.cell.timer(self.cell.settings.lease_ns // 8, LEASE)

    def is_quiet(self) -> bool:
        """Return whether everything has been delivered and no handoff is under way."""
        return self.cell.is_quiet()

    def serves(self, host: Any) -> bool:
        """Return whether this is the station of the host's current session, as the host sees it."""
        return self.cell.serves(host.host, host.session, host.birth) is not None

    def stored_count(self) -> int:
        """Messages kept for hosts that may lack them."""
        return self.cell.stored_count()

    def early_count(self) -> int:
        """Messages of hosts that arrived before an earlier one."""
        return self.cell.early_count()

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        return self.cell.size_bytes(message_bytes)

    def counts(self) -> dict[str, int]:
        """Handoffs, their lists, and the number of ids in a copy of the paper's form (M_d)."""
        return {
            "handoffs": self.handed_over,
            "discarded": self.discarded,
            "discarded_max": self.discarded_max,
            "undelivered_max": self.undelivered_max,
            "since_max": self.since_max,
            "copies": self.cell.sent_count,
            "copies_skipped_by_one": self.cell.skipped_by_one,
            "copies_skipped_by_more": self.cell.skipped_by_more,
        }

    def on_timer(self, key: tuple[int, ...]) -> None:
        """Handle an expired timer."""
        if key[0] == LEASE:
            self._expel_silent()
            self.begin()
        else:
            self.cell.on_timer(key)

    def receive(self, datagram: Any) -> None:
        """A datagram from a host; those for other cells are ignored."""
        if datagram.cell != self.station:
            return
        kind = type(datagram)
        if kind is FromHost:
            self.cell.on_from_host(datagram)
        elif kind is HostAck:
            self.cell.on_host_ack(datagram)
        elif kind is Init:
            self._on_init(datagram)
        elif kind is Join:
            self._on_join(datagram)
        elif kind is Leave:
            self._on_leave(datagram)

    def receive_wired(self, source: int, message: Any) -> None:
        """Forward a message from a neighbour, then act on it."""
        kind = type(message)
        if kind is Flood:
            self.cell.disseminate(message.message, source)
            return
        if kind in ROUTED:
            if message.target != self.station:
                self._route(message)
                return
        else:
            self.cell.flood(message, source)
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
        self.environment.effects.append((WIRE, self.routes[message.target], message))

    # Joining and leaving.

    def _on_join(self, datagram: Join) -> None:
        host, session = datagram.host, datagram.session
        record = self.cell.records.get(host)
        if record is not None and record.mode == OWN and record.birth == record.session == session:
            self.cell.repeat_answer(record)
            return
        memory = self.cell.remember(host)
        if session == memory.left:
            self.cell.tell_if_over(host, session)
            return
        if session <= memory.birth or session <= memory.session:
            return
        if datagram.previous != NONE and memory.left < datagram.previous:
            return  # news of the end of the previous life is still in flight; the host asks again
        # A first life begins with the oldest message stored. A later one begins with the next
        # message: this station has all that the life before can have delivered.
        pointer = self.cell.base if datagram.previous == NONE else self.cell.next_stamp
        record = Record(OWN, session, session, number=datagram.first, pointer=pointer)
        self.cell.records[host] = record
        memory.birth = session
        self.cell.start(host, record, datagram.echo)
        self.cell.flood(Joined(host, session))
        self.cell.collect()

    def _on_joined(self, message: Joined) -> None:
        memory = self.cell.remember(message.host)
        memory.birth = max(memory.birth, message.birth)
        self._drop_older(message.host, message.birth)

    def _on_leave(self, datagram: Leave) -> None:
        if self.cell.tell_if_over(datagram.host, datagram.birth):
            return
        record = self.cell.serves(datagram.host, datagram.session, datagram.birth)
        if record is not None:
            self._end_life(datagram.host, record)
            self.cell.tell_if_over(datagram.host, datagram.birth)

    def _end_life(self, host: int, record: Record) -> None:
        self.cell.flood(Left(host, record.birth, record.number))
        self._on_left(host, record.birth, record.number)

    def _on_left(self, host: int, birth: int, number: int) -> None:
        memory = self.cell.remember(host)
        if birth > memory.left:
            memory.left, memory.number = birth, number
        self._drop_older(host, birth + 1)

    def _expel_silent(self) -> None:
        """End the lives of hosts that were silent for a whole lease, as if they had left."""
        limit_ns = self.environment.now_ns - self.cell.settings.lease_ns
        for host, record in list(self.cell.records.items()):
            if record.mode == OWN and record.last_seen_ns < limit_ns:
                self._end_life(host, record)

    def _drop_older(self, host: int, birth: int) -> None:
        """Delete a record of a life before this birth."""
        record = self.cell.records.get(host)
        if record is not None and record.birth < birth:
            del self.cell.records[host]
            self.cell.collect()

    # Attaching.

    def _on_init(self, datagram: Init) -> None:
        host, birth, session = datagram.host, datagram.birth, datagram.session
        if self.cell.tell_if_over(host, birth):
            return
        memory = self.cell.remember(host)
        if birth < memory.birth:
            return
        # An init proves that the birth was adopted: joins of older ones are void from now on.
        memory.birth = birth
        self._drop_older(host, birth)
        record = self.cell.records.get(host)
        if record is None:
            if session > memory.session:
                self.cell.records[host] = Record(
                    WANTED, birth, session, pointer=self.cell.base, echo=datagram.echo
                )
                self.cell.flood(Request(self.station, host, birth, session, *datagram[4:7]))
        elif record.mode == OWN:
            self._attach(host, record, datagram)
        elif session > record.session:
            self._keep_pending(record, datagram)

    def _attach(self, host: int, record: Record, datagram: Init) -> None:
        """An init at the station that owns the record."""
        if datagram.session < record.session:
            return
        if datagram.session == record.session:
            self.cell.repeat_answer(record)
            return
        if datagram.last == record.session:
            self.cell.position(record, datagram.caught_up, datagram.next_stamp)
        record.session = datagram.session
        self.cell.start(host, record, datagram.echo)
        memory = self.cell.remember(host)
        memory.session = max(memory.session, datagram.session)
        self.cell.flood(Cancel(host, record.birth, record.session))
        self.cell.collect()

    def _keep_pending(self, record: Record, request: Init | Request) -> None:
        if record.pending is None or request.session > record.pending.session:
            record.pending = request

    # Handing over.

    def _on_request(self, message: Request) -> None:
        host, birth = message.host, message.birth
        memory = self.cell.remember(host)
        if birth <= memory.left or birth < memory.birth:
            return
        memory.birth = birth
        self._drop_older(host, birth)
        record = self.cell.records.get(host)
        if record is None:
            return
        if record.mode == OWN:
            if message.session > record.session:
                self._give(host, record, message)
            elif message.session < record.session:
                self.cell.flood(Cancel(host, birth, record.session))
        elif record.mode == WANTED and message.session > record.session:
            self._keep_pending(record, message)

    def _give(self, host: int, record: Record, request: Request) -> None:
        """Freeze the record, and send the requester the host's undelivered messages."""
        if request.last == record.session:
            self.cell.position(record, request.caught_up, request.next_stamp)
        undelivered = [message.name for message in record.catch_up]
        undelivered += [
            self.cell.stored[stamp].name
            for stamp in range(record.pointer, self.cell.next_stamp)
            if stamp not in record.skip
        ]
        self.undelivered_max = max(self.undelivered_max, len(undelivered))
        record.mode = FROZEN
        record.session = request.session
        record.mark = self.cell.next_stamp
        record.answer = ()
        record.early = {}
        memory = self.cell.remember(host)
        memory.session = max(memory.session, request.session)
        self.cell.flood(Cancel(host, record.birth, request.session))
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
        self.cell.collect()

    def _matching(self, mode: int, message: Grant | Want | Handover) -> Record | None:
        record = self.cell.records.get(message.host)
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
        record.mark = self.cell.next_stamp
        wanted = tuple(name for name in message.undelivered if name not in self.cell.stamps)
        self._route(
            Want(message.origin, self.station, message.host, message.birth, message.session, wanted)
        )

    def _on_want(self, message: Want) -> None:
        record = self._matching(FROZEN, message)
        if record is None:
            return
        # From the mark on, itself included: the first message after the grant has that stamp.
        cell = self.cell
        since = tuple(cell.stored[stamp].name for stamp in range(record.mark, cell.next_stamp))
        bodies = {kept.name: kept for kept in record.catch_up}
        messages = tuple(
            bodies[name] if name in bodies else self.cell.stored[self.cell.stamps[name]]
            for name in message.wanted
        )
        self.handed_over += 1
        self.discarded += len(messages)
        self.discarded_max = max(self.discarded_max, len(messages))
        self.since_max = max(self.since_max, len(since))
        del self.cell.records[message.host]
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
        self.cell.collect()
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
            if self.cell.stored[stamp].name not in missing
        }
        record.catch_up = list(message.messages)
        record.undelivered = ()
        record.mode = OWN
        record.last_seen_ns = self.environment.now_ns
        memory = self.cell.remember(message.host)
        memory.session = max(memory.session, record.session)
        self.cell.step_over(record)
        pending, record.pending = record.pending, None
        if isinstance(pending, Init):
            self._attach(message.host, record, pending)
        elif pending is not None:
            self._give(message.host, record, pending)
        else:
            self.cell.start(message.host, record, record.echo)
        self.cell.collect()

    def _on_cancel(self, message: Cancel) -> None:
        memory = self.cell.remember(message.host)
        memory.session = max(memory.session, message.session)
        record = self.cell.records.get(message.host)
        if record is None or record.mode != WANTED or record.birth != message.birth:
            return
        if record.session < message.session:
            del self.cell.records[message.host]
            self.cell.collect()
            if isinstance(record.pending, Init):
                self._on_init(record.pending)
