"""The radio side of a station of ``mobile``: stamps, stores, repeats and acknowledges messages.

A station stamps every message in the order in which it arrives, and keeps it until every record
has passed it. ``base`` is the lowest pointer of all records, in any mode: messages are
discarded from the bottom only, which the proof of causal order needs. Which hosts the cell serves
is decided by its station (``MobileStation``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from precedes.contract.machines import (
    RADIO,
    STAMPED,
    TIMER,
    WIRE,
    Environment,
    Flood,
    Message,
    Name,
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
    LeaveAck,
    Request,
    Settings,
    StationAck,
    Wired,
)

# Kinds of timers, first in their keys.
REPEAT: Final = 0
CATCH_UP: Final = 1
ACK: Final = 2

ACK_ENTRY_BYTES: Final = 20  # host, number and echo of a StationAck, as varying-length integers


# Modes of a record.
OWN: Final = 0  # this station serves the host
WANTED: Final = 1  # it has asked for the record
FROZEN: Final = 2  # it has granted the record and waits to hand it over


@dataclass(slots=True)
class Record:
    """A station's state of one host."""

    mode: int
    birth: int
    session: int
    number: int = 0  # next own number of the host that is expected
    pointer: int = 0  # lowest stamp not known to be delivered or skipped
    early: dict[int, Any] = field(default_factory=dict)  # own number -> data
    skip: set[int] = field(default_factory=set)  # stamps >= pointer delivered elsewhere
    catch_up: list[Message] = field(default_factory=list)  # the rest of it
    done: int = 0  # number of catch-up messages of this session that are acknowledged
    total: int = 0  # their total
    sent: int = 0  # number that have been on the air
    copies: dict[int, int] = field(default_factory=dict)  # index of a catch-up message -> copies
    pending: Init | Request | None = None  # the newest request that arrived while not OWN
    undelivered: tuple[Name, ...] = ()
    mark: int = 0  # the station's next stamp when it froze, or was granted, the record
    answer: tuple[InitAck, ...] = ()  # repeated unchanged until the host shows that it has it
    beyond: int = 0  # bit i: stamp pointer_beyond + 1 + i is there
    beyond_from: int = 0
    last_seen_ns: int = 0
    echo: int = NONE


@dataclass(slots=True)
class Memory:
    """State that outlives a host's record."""

    birth: int = NONE  # newest known life
    session: int = NONE  # newest session that the record has reached, as far as known
    left: int = NONE  # newest life that has ended
    number: int = 0  # next own number when it ended


class Cell:
    """Stamps, windows, repetitions and acknowledgements of one station."""

    def __init__(
        self,
        station: int,
        neighbours: tuple[int, ...],
        settings: Settings,
        environment: Environment,
    ) -> None:
        self.station = station
        self.neighbours = neighbours
        self.settings = settings
        self.environment = environment
        self.next_stamp = 0
        self.base = 0  # lowest stamp stored
        self.on_air = 0  # stamps below have been sent at least once
        self.stored: dict[int, Message] = {}
        self.stamps: dict[Name, int] = {}  # of what is stored
        self.copies: dict[int, int] = {}
        self.records: dict[int, Record] = {}
        self.memory: dict[int, Memory] = {}
        self.ack_armed = False
        self.bitmap_bits = 8 * settings.body_max_bytes  # stamps in one datagram
        # Copies sent; those that one host, or several, had from elsewhere.
        self.sent_count = self.skipped_by_one = self.skipped_by_more = 0

    def remember(self, host: int) -> Memory:
        """The memory of a host, made if there is none."""
        memory = self.memory.get(host)
        if memory is None:
            memory = self.memory[host] = Memory()
        return memory

    # For the simulator.

    def is_quiet(self) -> bool:
        """Return whether everything has been delivered and no handoff is under way."""
        return not self.stored and all(
            record.mode == OWN and not record.catch_up for record in self.records.values()
        )

    def stored_count(self) -> int:
        """Messages kept for hosts that may lack them."""
        return len(self.stored)

    def early_count(self) -> int:
        """Messages of hosts that arrived before an earlier one."""
        return sum(len(record.early) for record in self.records.values())

    def size_bytes(self, message_bytes: int) -> int:
        """Approximate size of the state."""
        numbers = 6 + 4 * len(self.memory)
        messages = len(self.stored)
        for record in self.records.values():
            numbers += 16 + len(record.skip) + len(record.early) + len(record.undelivered)
            messages += len(record.catch_up) + len(record.early)
        return memory_bytes(numbers=numbers, messages=messages, message_bytes=message_bytes)

    # Effects.

    def radio(self, datagram: Datagram) -> None:
        """Send to the cell."""
        self.environment.effects.append((RADIO, datagram))

    def timer(self, delay_ns: int, *key: int) -> None:
        """Have ``on_timer`` called with this key."""
        self.environment.effects.append((TIMER, delay_ns, key))

    def flood(self, message: Wired, source: int = NONE) -> None:
        """Send to all neighbours except the one that it came from."""
        for neighbour in self.neighbours:
            if neighbour != source:
                self.environment.effects.append((WIRE, neighbour, message))

    # Messages to the cell.

    def disseminate(self, message: Message, source: int = NONE) -> None:
        """Stamp a message, send it to the other stations and to the cell."""
        stamp = self.next_stamp
        self.next_stamp = stamp + 1
        self.environment.effects.append((STAMPED, message.name))
        self.flood(Flood(message), source)
        if not self.records:
            self.base = self.on_air = self.next_stamp
            return
        self.stored[stamp] = message
        self.stamps[message.name] = stamp
        self._fill_window()

    def _fill_window(self) -> None:
        end = min(self.base + self.settings.window, self.next_stamp)
        while self.on_air < end:
            self._transmit(self.on_air)
            self.on_air += 1

    def _transmit(self, stamp: int) -> None:
        copies = self.copies.get(stamp, 0) + 1
        self.copies[stamp] = copies
        skipping = sum(stamp in record.skip for record in self.records.values())
        self.sent_count += 1
        self.skipped_by_one += skipping == 1
        self.skipped_by_more += skipping > 1
        self.radio(FromStation(self.station, stamp, self.stored[stamp]))
        delay_ns = self.settings.repeat_ns(
            self.environment, copies=copies, pending=len(self.stored)
        )
        self.timer(delay_ns, REPEAT, stamp)

    def _on_repeat(self, stamp: int) -> None:
        if stamp not in self.stored or stamp not in self.copies:
            return
        if self._is_missed(stamp):
            self._transmit(stamp)
        else:
            self.timer(
                self.settings.delay_ns(self.environment, self.settings.ack_ns), REPEAT, stamp
            )

    def _is_missed(self, stamp: int) -> bool:
        """Return whether some host here may lack the message.

        The lowest one that a host lacks is always repeated, also if the host has reported
        later ones: the copy also asks for an acknowledgement that may have been lost.
        """
        for record in self.records.values():
            if record.mode != OWN or record.pointer > stamp or stamp in record.skip:
                continue
            place = stamp - record.beyond_from - 1
            if stamp == record.pointer or place < 0 or not record.beyond >> place & 1:
                return True
        return False

    def collect(self) -> None:
        """Discard messages that every record has passed, and advance the window."""
        base = self.next_stamp
        for record in self.records.values():
            if record.pointer < base:
                base = record.pointer
        for stamp in range(self.base, base):
            del self.stamps[self.stored.pop(stamp).name]
            self.copies.pop(stamp, None)
        self.base = base
        self.on_air = max(self.on_air, base)
        self._fill_window()

    # One host.

    def position(self, record: Record, caught_up: int, next_stamp: int) -> None:
        """The host reports its position; a late report changes nothing."""
        fresh = caught_up - record.done
        if fresh > 0:
            del record.catch_up[:fresh]
            record.done += fresh
        record.pointer = max(record.pointer, next_stamp)
        self.step_over(record)

    def step_over(self, record: Record) -> None:
        """Move the pointer past the messages that the host has from elsewhere."""
        while record.pointer in record.skip:
            record.skip.discard(record.pointer)
            record.pointer += 1
        if record.skip and min(record.skip) < record.pointer:
            record.skip = {stamp for stamp in record.skip if stamp > record.pointer}

    def start(self, host: int, record: Record, echo: int) -> None:
        """Answer the host in a new session, and begin to catch up."""
        record.done = record.sent = 0
        record.total = len(record.catch_up)
        record.early = {}
        record.copies = {}
        record.beyond = record.beyond_from = 0
        record.last_seen_ns = self.environment.now_ns
        record.echo = echo
        record.answer = self._init_ack(host, record)
        self.repeat_answer(record)
        self._fill_catch_up(host, record)

    def repeat_answer(self, record: Record) -> None:
        """Send the answer of the session, again or for the first time."""
        for part in record.answer:
            self.radio(part)

    def _init_ack(self, host: int, record: Record) -> tuple[InitAck, ...]:
        """The answer, in as many parts as the bitmap of skipped stamps needs."""
        size_bits = self.bitmap_bits
        bits = 0
        for stamp in record.skip:
            bits |= 1 << (stamp - record.pointer)
        chunks = max(1, -(-bits.bit_length() // size_bits))
        return tuple(
            InitAck(
                cell=self.station,
                host=host,
                session=record.session,
                birth=record.birth,
                number=record.number,
                start=record.pointer,
                total=record.total,
                part=part,
                parts=chunks,
                skip_from=record.pointer + part * size_bits,
                skip=bits >> (part * size_bits) & ((1 << size_bits) - 1),
                echo=record.echo,
            )
            for part in range(chunks)
        )

    def _fill_catch_up(self, host: int, record: Record) -> None:
        end = min(record.done + self.settings.window, record.total)
        while record.sent < end:
            if record.sent >= record.done:
                self._send_catch_up(host, record, record.sent)
            record.sent += 1

    def _send_catch_up(self, host: int, record: Record, index: int) -> None:
        copies = record.copies.get(index, 0) + 1
        record.copies[index] = copies
        message = record.catch_up[index - record.done]
        self.radio(CatchUp(self.station, host, record.session, index, message))
        pending = len(record.catch_up)
        delay_ns = self.settings.repeat_ns(self.environment, copies=copies, pending=pending)
        self.timer(delay_ns, CATCH_UP, host, record.session, index)

    def _on_catch_up_timer(self, host: int, session: int, index: int) -> None:
        record = self.records.get(host)
        if record is None or record.mode != OWN or record.session != session:
            return
        if index >= record.done:
            self._send_catch_up(host, record, index)

    def serves(self, host: int, session: int, birth: int) -> Record | None:
        """The record of a host that is here, in this session; None for all others."""
        record = self.records.get(host)
        if record is None or record.mode != OWN:
            return None
        return record if record.session == session and record.birth == birth else None

    def on_from_host(self, datagram: FromHost) -> None:
        """An own message of a host: stamp it when it is the next of its source."""
        record = self.serves(datagram.host, datagram.session, datagram.birth)
        if record is None:
            self.tell_if_over(datagram.host, datagram.birth)
            return
        record.last_seen_ns = self.environment.now_ns
        if datagram.number == record.number:
            data = datagram.data
            while True:
                number = record.number
                record.number += 1
                self.disseminate(Message((datagram.host, number), data))
                if record.number not in record.early:
                    break
                data = record.early.pop(record.number)
        elif datagram.number > record.number and len(record.early) < self.settings.early_max:
            record.early[datagram.number] = datagram.data
        self.ask_for_ack()

    def on_host_ack(self, datagram: HostAck) -> None:
        """A host reports its position."""
        record = self.serves(datagram.host, datagram.session, datagram.birth)
        if record is None:
            self.tell_if_over(datagram.host, datagram.birth)
            return
        record.last_seen_ns = self.environment.now_ns
        record.echo = max(record.echo, datagram.echo)
        if datagram.next_stamp != NONE:
            record.answer = ()
            if datagram.next_stamp >= record.beyond_from:
                record.beyond, record.beyond_from = datagram.beyond, datagram.next_stamp
        self.position(record, datagram.caught_up, datagram.next_stamp)
        self._fill_catch_up(datagram.host, record)
        self.collect()
        if self.settings.lease_ns:
            self.ask_for_ack()

    def tell_if_over(self, host: int, birth: int) -> bool:
        """Answer a host whose life has ended; return whether it has."""
        memory = self.memory.get(host)
        if memory is None or birth > memory.left:
            return False
        self.radio(LeaveAck(self.station, host, birth, memory.number))
        return True

    # Acknowledgements to the cell.

    def ask_for_ack(self) -> None:
        """Schedule an acknowledgement."""
        if not self.ack_armed:
            self.ack_armed = True
            self.timer(self.settings.delay_ns(self.environment, self.settings.ack_ns), ACK)

    def _send_acks(self) -> None:
        self.ack_armed = False
        rows = [
            (host, record.number, record.echo)
            for host, record in self.records.items()
            if record.mode == OWN
        ]
        step = max(1, self.settings.body_max_bytes // ACK_ENTRY_BYTES)
        for first in range(0, len(rows), step):
            self.radio(StationAck(self.station, tuple(rows[first : first + step])))

    def on_timer(self, key: tuple[int, ...]) -> None:
        """Handle an expired timer."""
        kind = key[0]
        if kind == REPEAT:
            self._on_repeat(key[1])
        elif kind == CATCH_UP:
            self._on_catch_up_timer(*key[1:])
        elif kind == ACK:
            self._send_acks()
