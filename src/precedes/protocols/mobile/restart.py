"""Stations of ``mobile`` that restart from what they have written down.

A station is the sum of its inputs. ``LoggedStation`` turns each input that changes it into an
``Entry``; whoever runs it makes the entry durable and only then lets the effects go. After a crash
the entries are played again, on top of the newest snapshot, and the station is what it was:

- Radio: an input that was not durable has not happened: its datagram is lost, as datagrams may be.
- Wires: messages are numbered on each link and kept until the neighbour says that it has made them
  durable. Both ends tell after a restart what they expect next, and the rest is sent again, so that
  links stay reliable and FIFO over restarts.
- Timers are not written down: ``begin`` sets them anew, and leases begin anew.

Guarantee: all that ``mobile`` promises, as long as no disk is lost; while a station is down, its
cell stands still and messages wait on the links to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from precedes.contract.machines import (
    WIRE,
    Effect,
    Environment,
    Message,
    Name,
)
from precedes.errors import PeerError

from . import codec
from .cell import Memory, Record
from .messages import (
    Init,
    InitAck,
    Request,
    Settings,
)
from .station import LEASE, MobileStation

# What an entry is about.
HEARD: Final = 0  # a datagram
FRAME: Final = 1  # a message on a link, with its number there
CONFIRMED: Final = 2  # a neighbour has everything below a number
EXPELS: Final = 3  # the time of a lease check
BEGINS: Final = 4  # a start or a restart: leases begin anew

FRAME_EFFECT: Final = 10  # neighbour, number, message
CONFIRM_EFFECT: Final = 11  # neighbour, number: tell it that everything below is durable


class Entry(NamedTuple):
    """One input; ``body`` is a message as ``codec`` writes it, or nothing."""

    kind: int
    now_ns: int
    source: int
    number: int
    body: bytes


class RecordDisk(NamedTuple):
    """A record without what a restart forgets: copies sent, and selective acknowledgements."""

    host: int
    mode: int
    birth: int
    session: int
    number: int
    pointer: int
    done: int
    total: int
    mark: int
    echo: int
    heard_ns: int
    early: tuple[tuple[int, bytes], ...]
    skip: tuple[int, ...]
    catch_up: tuple[Message, ...]
    undelivered: tuple[Name, ...]
    answer: tuple[InitAck, ...]
    pending: Init | Request | None


class LinkDisk(NamedTuple):
    """A link: what the neighbour has not confirmed, and what is expected of it."""

    neighbour: int
    first: int
    waiting: tuple[bytes, ...]
    expected: int


class StationDisk(NamedTuple):
    """A whole station."""

    next_stamp: int
    base: int
    stored: tuple[Message, ...]
    records: tuple[RecordDisk, ...]
    memory: tuple[tuple[int, int, int, int, int], ...]
    links: tuple[LinkDisk, ...]


ENTRY: Final = codec.layout_of(Entry)
STATION: Final = codec.layout_of(StationDisk)
SNAPSHOT: Final = b"s"
INPUT: Final = b"i"


def encode_entry(entry: Entry) -> bytes:
    """An entry as a record of a journal."""
    out = bytearray(INPUT)
    ENTRY.write(out, entry)
    return bytes(out)


class Link:
    """One link to a neighbour, numbered from 0 in each direction."""

    __slots__ = ("expected", "first", "waiting")

    def __init__(self) -> None:
        self.first = 0  # number of the first message that waits
        self.waiting: list[Any] = []
        self.expected = 0


class LoggedStation:
    """A station whose inputs are entries of a journal."""

    def __init__(
        self,
        station: int,
        neighbours: tuple[int, ...],
        routes: tuple[int, ...],
        settings: Settings,
        environment: Environment,
        *,
        make: type[MobileStation] = MobileStation,
    ) -> None:
        self.machine = make(station, neighbours, routes, settings, environment)
        self.environment = environment
        self.links = {neighbour: Link() for neighbour in neighbours}

    # Inputs that change it: an entry each, to be made durable before its effects are let go.

    def hear(self, datagram: Any) -> Entry:
        """A datagram has arrived."""
        return self._enter(HEARD, 0, 0, codec.encode(datagram))

    def frame(self, neighbour: int, number: int, message: Any) -> Entry | None:
        """A message on a link; None: one that came before, or a gap that a restart will fill."""
        link = self.links[neighbour]
        if number != link.expected:
            self.environment.effects.append((CONFIRM_EFFECT, neighbour, link.expected))
            return None
        return self._enter(FRAME, neighbour, number, codec.encode(message))

    def confirmed(self, neighbour: int, number: int) -> Entry | None:
        """A neighbour has everything below a number; None: that is no news."""
        if number <= self.links[neighbour].first:
            return None
        return self._enter(CONFIRMED, neighbour, number, b"")

    def on_timer(self, key: tuple[int, ...]) -> Entry | None:
        """A timer; only the end of a lease changes anything."""
        if key[0] != LEASE:
            self.machine.on_timer(key)
            return None
        entry = self._enter(EXPELS, 0, 0, b"")
        self.machine.watch_leases()
        return entry

    def _enter(self, kind: int, source: int, number: int, body: bytes) -> Entry:
        entry = Entry(kind, self.environment.now_ns, source, number, body)
        self._play(entry)
        return entry

    def _play(self, entry: Entry) -> None:
        self.environment.now_ns = entry.now_ns
        if entry.kind == HEARD:
            self.machine.receive(codec.decode(entry.body))
        elif entry.kind == FRAME:
            self.links[entry.source].expected = entry.number + 1
            self.machine.receive_wired(entry.source, codec.decode(entry.body))
            self.environment.effects.append((CONFIRM_EFFECT, entry.source, entry.number + 1))
        elif entry.kind == CONFIRMED:
            link = self.links[entry.source]
            if entry.number > link.first + len(link.waiting):
                raise PeerError(f"neighbour {entry.source} confirms what it was never sent")
            del link.waiting[: entry.number - link.first]
            link.first = entry.number
        elif entry.kind == EXPELS:
            self.machine.expel_silent()
        elif entry.kind == BEGINS:
            self.machine.begin()
        else:
            raise PeerError(f"a journal holds an entry of unknown kind {entry.kind}")
        self.environment.effects = [self._numbered(effect) for effect in self.environment.effects]

    def _numbered(self, effect: Effect) -> Effect:
        """A message for a neighbour gets its number on the link, and waits to be confirmed."""
        if effect[0] != WIRE:
            return effect
        link = self.links[effect[1]]
        link.waiting.append(effect[2])
        number = link.first + len(link.waiting) - 1
        return (FRAME_EFFECT, effect[1], number, effect[2])

    # Restarts.

    def begin(self) -> Entry:
        """Begin, or begin again: set the timers and greet the neighbours."""
        entry = self._enter(BEGINS, 0, 0, b"")
        for neighbour, link in self.links.items():
            self.environment.effects.append((CONFIRM_EFFECT, neighbour, link.expected))
        return entry

    def resume(self, neighbour: int, expected: int) -> None:
        """A link is there again, and the neighbour says what it expects: send the rest anew."""
        link = self.links[neighbour]
        for place in range(max(expected - link.first, 0), len(link.waiting)):
            number = link.first + place
            self.environment.effects.append((FRAME_EFFECT, neighbour, number, link.waiting[place]))

    def snapshot(self) -> bytes:
        """Everything, as a record of a journal that takes the place of all before it."""
        cell = self.machine.cell
        disk = StationDisk(
            next_stamp=cell.next_stamp,
            base=cell.base,
            stored=tuple(cell.stored.values()),
            records=tuple(_record_disk(host, one) for host, one in cell.records.items()),
            memory=tuple(
                (host, one.birth, one.session, one.left, one.number)
                for host, one in cell.memory.items()
            ),
            links=tuple(
                LinkDisk(
                    neighbour, link.first, tuple(map(codec.encode, link.waiting)), link.expected
                )
                for neighbour, link in self.links.items()
            ),
        )
        out = bytearray(SNAPSHOT)
        STATION.write(out, disk)
        return bytes(out)

    def restore(self, records: Iterable[bytes]) -> None:
        """Restore the state from a journal's records; call it once, on a new station."""
        for text in records:
            layout = STATION if text[:1] == SNAPSHOT else ENTRY
            found, end = layout.read(text, 1)
            if end != len(text) or text[:1] not in (SNAPSHOT, INPUT):
                raise PeerError("a journal holds a record that is no station's")
            if text[:1] == SNAPSHOT:
                self._load(found)
            else:
                self._play(found)
            self.environment.effects = []

    def _load(self, disk: StationDisk) -> None:
        cell = self.machine.cell
        cell.next_stamp = disk.next_stamp
        cell.base = cell.on_air = disk.base
        cell.stored = dict(enumerate(disk.stored, disk.base))
        cell.stamps = {message.name: stamp for stamp, message in cell.stored.items()}
        cell.records = {one.host: _record(one) for one in disk.records}
        cell.memory = {row[0]: Memory(*row[1:]) for row in disk.memory}
        for kept in disk.links:
            link = self.links[kept.neighbour]
            link.first, link.expected = kept.first, kept.expected
            link.waiting = [codec.decode(text) for text in kept.waiting]


def _record_disk(host: int, record: Record) -> RecordDisk:
    return RecordDisk(
        host=host,
        mode=record.mode,
        birth=record.birth,
        session=record.session,
        number=record.number,
        pointer=record.pointer,
        done=record.done,
        total=record.total,
        mark=record.mark,
        echo=record.echo,
        heard_ns=record.heard_ns,
        early=tuple(record.early.items()),
        skip=tuple(sorted(record.skip)),
        catch_up=tuple(record.catch_up),
        undelivered=record.undelivered,
        answer=record.answer,
        pending=record.pending,
    )


def _record(disk: RecordDisk) -> Record:
    return Record(
        mode=disk.mode,
        birth=disk.birth,
        session=disk.session,
        number=disk.number,
        pointer=disk.pointer,
        early=dict(disk.early),
        skip=set(disk.skip),
        catch_up=list(disk.catch_up),
        done=disk.done,
        total=disk.total,
        sent=disk.done,
        pending=disk.pending,
        undelivered=disk.undelivered,
        mark=disk.mark,
        answer=disk.answer,
        heard_ns=disk.heard_ns,
        echo=disk.echo,
    )
