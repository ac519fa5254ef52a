"""Hosts and stations of ``mobile`` on a stage: every datagram and wire is moved by hand.

What is sent stands in ``air`` and ``wires`` until a schedule moves, loses or keeps it;
``finish`` then lets everything happen and asks the oracle whether all is well at rest.
"""

import heapq
import random
from collections import deque

from precedes.contract import machines
from precedes.protocols.mobile import messages
from precedes.protocols.mobile.host import IN, Disk, MobileHost
from precedes.protocols.mobile.station import MobileStation
from tests.support.mobile.oracle import Oracle, Violation, watch_stamps

STEPS_MAX = 4000


class Stage:
    """Stations 1, 2, .. are neighbours of station 0."""

    def __init__(
        self, *, hosts=3, stations=2, classes=(MobileHost, MobileStation), strict=True, **settings
    ):
        self.settings = messages.Settings(**settings)
        self.strict = strict  # what is durable must not change without PERSIST
        self.host_class, station_class = classes
        self.oracle = oracle = Oracle(hosts, stations)
        rng = random.Random(1)
        self.now_ns = 0
        self.air = []  # (host or ~station that it is for, datagram)
        self.wires = {}  # (source, target) -> messages in order
        self.timers = []
        self.serial = 0
        self.cells = [None] * hosts
        self.delivered = [[] for _ in range(hosts)]

        class Watched(station_class):
            """Tells the oracle what is stamped."""

            def __init__(self, *arguments):
                super().__init__(*arguments)
                watch_stamps(self, oracle)

        self.stations = []
        for number in range(stations):
            neighbours = (0,) if number else tuple(range(1, stations))
            routes = tuple(0 if number else other for other in range(stations))
            environment = machines.Environment(rng.random)
            self.stations.append(Watched(number, neighbours, routes, self.settings, environment))
        self.environments = [machines.Environment(rng.random) for _ in range(hosts)]
        self.disks = [Disk()] * hosts
        self.lives = [0] * hosts
        self.hosts = [
            self.host_class(host, self.settings, self.environments[host], Disk())
            for host in range(hosts)
        ]

    # What hosts do.

    def attach(self, host, station):
        """Join at a station and wait for the answer."""
        self.move(host, station)
        self.call(host, "join")
        self.pass_on(messages.Join)
        self.pass_on(messages.InitAck)
        self.pump()

    def move(self, host, station):
        self.cells[host] = station
        self.call(host, "move", station)

    def broadcast(self, host, count=1):
        for _ in range(count):
            number = self.call(host, "broadcast", b"")
        return (host, number)

    def crash(self, host):
        """Crash, and recover in the same cell."""
        self.lives[host] += 1
        self.environments[host].effects = []
        self.hosts[host] = self.host_class(
            host, self.settings, self.environments[host], self.disks[host]
        )
        self.call(host, "move", self.cells[host])

    def call(self, host, method, *arguments):
        machine, environment = self.hosts[host], self.environments[host]
        environment.now_ns = self.now_ns
        result = getattr(machine, method)(*arguments)
        effects, environment.effects = environment.effects, []
        if (machines.PERSIST,) in effects:
            self.disks[host] = machine.disk()
        elif self.strict and self.disks[host] != machine.disk():
            raise Violation(f"disk: host {host} changed without making it durable")
        if method == "broadcast" and result is not None:
            self.oracle.on_broadcast(host, result)
        for effect in effects:
            if effect[0] == machines.DELIVER:
                self.oracle.on_deliver(host, effect[1].name)
                self.delivered[host].append(effect[1].name)
            elif effect[0] == machines.JOINED:
                self.oracle.on_join(host, *effect[1:])
            elif effect[0] == machines.LEFT:
                self.oracle.on_left(host)
            elif effect[0] == machines.RADIO:
                self.air.append((~effect[1].cell, effect[1]))
            elif effect[0] == machines.TIMER:
                self._set_timer(effect[1], host, self.lives[host], effect[2])
        self.oracle.check_host(host, machine, self.stations)
        return result

    # What stations do.

    def at_station(self, number, method, *arguments):
        station = self.stations[number]
        station.environment.now_ns = self.now_ns
        getattr(station, method)(*arguments)
        effects, station.environment.effects = station.environment.effects, []
        self.oracle.check_station(station)
        for effect in effects:
            if effect[0] == machines.WIRE:
                self.wires.setdefault((number, effect[1]), deque()).append(effect[2])
            elif effect[0] == machines.TIMER:
                self._set_timer(effect[1], ~number, 0, effect[2])
            elif effect[0] == machines.RADIO:
                only = getattr(effect[1], "host", None)
                for host, cell in enumerate(self.cells):
                    if cell == number and only in (None, host):
                        self.air.append((host, effect[1]))
        for host, machine in enumerate(self.hosts):
            self.oracle.check_host(host, machine, self.stations)

    def _set_timer(self, delay_ns, target, life, key):
        self.serial += 1
        heapq.heappush(self.timers, (self.now_ns + delay_ns, self.serial, target, life, key))

    # Moving things.

    def find(self, kind, to=None):
        """Where in the air the first datagram of a kind stands."""
        for place, (target, datagram) in enumerate(self.air):
            if type(datagram) is kind and to in (None, target):
                return place
        raise AssertionError(f"no {kind.__name__} in the air: {self.air}")

    def keep(self, kind, to=None):
        """Take a datagram out of the air, to be handed over later with ``hand``."""
        return self.air.pop(self.find(kind, to))

    def hand(self, kept):
        target, datagram = kept
        if target >= 0:
            self.call(target, "receive", datagram)
        else:
            self.at_station(~target, "receive", datagram)

    def pass_on(self, kind, to=None):
        self.hand(self.keep(kind, to))

    def pass_all(self, *kinds):
        """Hand over everything of these kinds, and what follows from it of these kinds."""
        while found := [p for p, (_, d) in enumerate(self.air) if not kinds or type(d) in kinds]:
            self.hand(self.air.pop(found[0]))

    def lose(self, *kinds):
        """Lose what is in the air; with kinds, only those."""
        self.air = [row for row in self.air if kinds and type(row[1]) not in kinds]

    def wire(self, source, target, count=1):
        """The next messages of a link arrive."""
        for _ in range(count):
            self.at_station(target, "receive_wired", source, self.wires[source, target].popleft())

    def pump(self):
        """Everything on the wires arrives."""
        while ready := [link for link, queue in self.wires.items() if queue]:
            self.wire(*ready[0])

    def quiet(self):
        """Everything on its way arrives; no timer runs out."""
        while self.air or any(self.wires.values()):
            self.pump()
            if self.air:
                self.hand(self.air.pop(0))

    def tick(self):
        """The next timer runs out."""
        self._run_out(heapq.heappop(self.timers))

    def _run_out(self, timer):
        due_ns, _, target, life, key = timer
        self.now_ns = max(self.now_ns, due_ns)
        if target < 0:
            self.at_station(~target, "on_timer", key)
        elif self.lives[target] == life:
            self.call(target, "on_timer", key)

    def fire(self, target, kind):
        """All timers of a kind run out at a host, or at ~station."""
        for row in sorted(self.timers):
            if row[2] == target and row[4][0] == kind:
                self.timers.remove(row)
                heapq.heapify(self.timers)
                self._run_out(row)

    def finish(self):
        """Let everything happen that is due and judge the rest, twice: messages still arrive."""
        self._settle()
        for host, machine in enumerate(self.hosts):
            if machine.mode == IN:
                self.broadcast(host)
        self._settle()

    def _settle(self):
        for _ in range(STEPS_MAX):
            self.quiet()
            if not self.timers:
                break
            self.tick()
        else:
            raise Violation("restless: the stage does not come to rest")
        self.oracle.check_rest(self.hosts, self.stations)
