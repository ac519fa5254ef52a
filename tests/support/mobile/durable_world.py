"""The adversary's world with real files: hosts and stations restart from their journals.

A crash comes before a record is written, in the middle of its bytes, or after it and before or
between the sends. Links break with a station, and begin anew where both ends say they are.
"""

import random
from dataclasses import replace

from precedes.contract import machines
from precedes.live.stations.journal import Journal, frame
from precedes.protocols.mobile import restart
from precedes.protocols.mobile.codec import decode_disk, encode_disk
from precedes.protocols.mobile.host import Disk
from tests.support.mobile import world
from tests.support.mobile.options import draw
from tests.support.mobile.oracle import Violation

COMPACT_RECORDS = 40
CONFIRM = 100  # kind of event: a neighbour says what it expects
FRAMED = 101


class DurableWorld(world.World):
    """Machines with journals in ``directory``, which a subclass sets."""

    directory = None

    def __init__(self, options, **classes):
        self.restarts = 0
        self.links_up = {}  # (source, target) -> how often the link has been made
        self.station_up = [True] * options.stations
        super().__init__(options, **classes)
        folder = self.directory
        self.host_journals = [
            Journal(folder / f"h{options.seed}-{n}", sync=False) for n in range(options.hosts)
        ]
        self.journals = [
            Journal(folder / f"s{options.seed}-{n}", sync=False) for n in range(options.stations)
        ]

    def _make_station(self, number):
        if number == 0:
            self.logged = []
        logged = self._new_station(number)
        self.logged.append(logged)
        return logged.machine

    def _new_station(self, number):
        logged = restart.LoggedStation(
            number,
            tuple(self.neighbours[number]),
            tuple(self.routes[number]),
            self.options.settings,
            self.environments[number],
            make=self.station_base,
        )
        self.limit(logged.machine)
        return logged

    def run(self):
        for number in range(self.options.stations):
            if self.options.restart_ms:
                self.push(self.wait_ms(self.options.restart_ms), world.RESTART, number)
        try:
            return super().run()
        finally:
            for journal in (*self.journals, *self.host_journals):
                journal.close()

    def handle(self, kind, target, *rest):
        if kind == world.RESTART:
            if rest:
                self._restarted(target)
            elif self.moving:
                if self.station_up[target]:
                    self._stop(target)
                self.push(self.wait_ms(self.options.restart_ms), world.RESTART, target)
        elif kind in (FRAMED, CONFIRM):
            source, link, *what = rest
            if self.links_up.get((source, target), 0) == link and self.station_up[target]:
                self._logged_call(target, "frame" if kind == FRAMED else "confirmed", source, *what)
        elif kind == world.TIMER and target < 0 and rest[0] != self.lives_of(~target):
            return  # set before a restart
        else:
            super().handle(kind, target, *rest)

    def lives_of(self, number):
        return self.restarts_of.get(number, 0)

    restarts_of: dict

    # Hosts: what is durable is in the file, and a crash reads it.

    def crash(self, host):
        journal = self.host_journals[host]
        journal.close()
        reopened = self.host_journals[host] = Journal(journal.path, sync=False)
        kept = decode_disk(reopened.records[-1]) if reopened.records else Disk()
        if kept != self.disks[host]:
            raise Violation(f"journal: that of host {host} holds {kept}, not {self.disks[host]}")
        super().crash(host)

    def persist(self, host, disk):
        if disk != self.disks[host]:
            journal = self.host_journals[host]
            journal.append(encode_disk(disk))
            if len(journal.records) > COMPACT_RECORDS:
                journal.replace([encode_disk(disk)])
        super().persist(host, disk)

    def tear(self, host, disk):
        self._tear(self.host_journals[host], encode_disk(disk))

    # Stations.

    def at_station(self, number, method, *arguments):
        if not self.station_up[number]:
            return
        name = {"receive": "hear", "receive_wired": None}.get(method, method)
        self._logged_call(number, name, *arguments)

    def _logged_call(self, number, method, *arguments):
        logged, environment = self.logged[number], self.environments[number]
        environment.now_ns = self.clock(~number)
        entry = getattr(logged, method)(*arguments)
        effects, environment.effects = environment.effects, []
        torn = self.moving and self.options.restart_ms and self.rng.random() < 0.01
        journal = self.journals[number]
        if torn and self.rng.random() < 0.5:
            if entry is not None:
                self._tear(journal, restart.encode_entry(entry))
            self._stop(number, whole=False)
            return
        if entry is not None:
            journal.append(restart.encode_entry(entry))
            if len(journal.records) > COMPACT_RECORDS:
                journal.replace([logged.snapshot()])
        self.oracle.check_station(logged.machine)
        stamped = [effect for effect in effects if effect[0] == machines.STAMPED]
        for effect in stamped:
            self.oracle.on_stamp(number, effect[1])
        if torn:
            effects = effects[: self.rng.randrange(len(effects) + 1)]
        self._carry_out(number, effects)
        if torn:
            self._stop(number)

    def _tear(self, journal, record):
        """A part of a record reaches the disk."""
        text = frame(record)
        with journal.path.open("ab") as file:
            file.write(text[: self.rng.randrange(len(text))])

    def _carry_out(self, number, effects):
        for effect in effects:
            if effect[0] == machines.RADIO:
                self.broadcast_radio(number, effect[1])
            elif effect[0] == machines.TIMER:
                self.push(effect[1], world.TIMER, ~number, self.lives_of(number), effect[2])
            elif effect[0] in (restart.FRAME_EFFECT, restart.CONFIRM_EFFECT):
                kind = FRAMED if effect[0] == restart.FRAME_EFFECT else CONFIRM
                self.on_link(kind, number, effect[1], *effect[2:])

    def on_link(self, kind, source, target, *what):
        """In order, while the link lasts."""
        if not self.station_up[target] or not self.station_up[source]:
            return
        delay_ns = self.rng.uniform(*self.options.wire_ms) * world.MS
        at_ns = max(self.now_ns + delay_ns, self.wire_free_ns.get((source, target), 0))
        self.wire_free_ns[source, target] = at_ns
        link = self.links_up.get((source, target), 0)
        self.push(at_ns - self.now_ns, kind, target, source, link, *what)

    def _stop(self, number, *, whole=True):
        """The station is gone, with everything on its links; its journal is what remains."""
        self.restarts += 1
        self.restarts_of[number] = self.lives_of(number) + 1
        self.station_up[number] = False
        for neighbour in self.neighbours[number]:
            for link in ((number, neighbour), (neighbour, number)):
                self.links_up[link] = self.links_up.get(link, 0) + 1
        self.journals[number].close()
        self.journals[number] = Journal(self.journals[number].path, sync=False)
        before = self.logged[number]
        self.environments[number] = machines.Environment(self.rng.random)
        logged = self.logged[number] = self._new_station(number)
        logged.restore(self.journals[number].records)
        self.stations[number] = logged.machine
        if whole and logged.snapshot() != before.snapshot():
            raise Violation(f"journal: station {number} has come back as another")
        self.push(self.rng.uniform(5, 300) * world.MS, world.RESTART, number, "up")

    def _restarted(self, number):
        self.station_up[number] = True
        self._logged_call(number, "begin")
        for neighbour in self.neighbours[number]:
            if self.station_up[neighbour] and self.station_up[number]:
                for one, other in ((number, neighbour), (neighbour, number)):
                    expected = self.logged[other].links[one].expected
                    self.logged[one].resume(other, expected)
                    effects, self.environments[one].effects = self.environments[one].effects, []
                    self._carry_out(one, effects)


def make(directory):
    """A world whose journals are in this directory."""

    class Here(DurableWorld):
        station_base = world.MobileStation

        def __init__(self, options, *, host_class, station_class):
            self.station_base = station_class
            self.restarts_of = {}
            super().__init__(options, host_class=host_class, station_class=station_class)

    Here.directory = directory
    return Here


def restarting(seed):
    """Options of a run in which stations restart, too."""
    rng = random.Random(f"restart {seed}")
    return replace(
        draw(seed),
        restart_ms=rng.choice((400, 1500)),
        crash_ms=rng.choice((300, 1000)),
        torn=0.01,
    )
