"""An adversary for the machines of ``mobile``: everything that the model allows, drawn by a seed.

Datagrams are lost, repeated, late and out of order; hosts move at any moment, also out of reach,
crash in the middle of what they do, leave and join again; the wires are reliable and FIFO, and
nothing else. The oracle judges every step.
"""

import heapq
import random

from precedes.contract import machines
from precedes.protocols.mobile.host import IN, OUT, Disk, MobileHost
from precedes.protocols.mobile.station import MobileStation
from tests.support.mobile.options import MS, draw, tree
from tests.support.mobile.oracle import Oracle, Violation, watch_stamps

REST_NS = 900_000 * MS  # a run that has not quiesce by then has stalled
REST_TRIALS, REST_TRIAL_NS = 300, 3000 * MS  # the same for runs that never fall silent

DATAGRAM, WIRED, TIMER, MOVE, CRASH, RECOVER, BROADCAST, CHURN, REJOIN = range(9)


class World:
    """One run."""

    checks_disk = True  # that nothing durable changes without PERSIST
    events_max = 1_000_000  # twice what the longest of thousands of runs takes, with heartbeats

    def __init__(self, options, *, host_class=MobileHost, station_class=MobileStation):
        self.options = options
        self.rng = rng = random.Random(options.seed)
        self.host_class = host_class
        self.oracle = oracle = Oracle(options.hosts, options.stations)
        self.now_ns = 0
        self.serial = 0
        self.heap = []
        self.moving = True
        self.events = 0
        self.orphans = 0
        self.expelled = 0
        self.neighbours, self.routes = tree(rng, options.stations, options.shape)
        self.wire_free_ns = {}

        class Watched(station_class):
            """Tells the oracle what is stamped, and what finds no record."""

            def __init__(self, *arguments):
                super().__init__(*arguments)
                watch_stamps(self, oracle)

            def _end_life(self, host, record):
                oracle.ended.add((host, record.birth))
                super()._end_life(host, record)

            def _matching(watched, mode, message):
                found = super()._matching(mode, message)
                self.orphans += found is None
                return found

        self.station_class = Watched
        self.environments = [machines.Environment(rng.random) for _ in range(options.stations)]
        self.stations = [self._make_station(number) for number in range(options.stations)]
        self.host_environments = [machines.Environment(rng.random) for _ in range(options.hosts)]
        self.disks = [Disk()] * options.hosts
        self.hosts = [self._make_host(host) for host in range(options.hosts)]
        self.up = [True] * options.hosts
        self.lives = [0] * options.hosts  # incarnations: timers of earlier ones are void
        self.cells = [rng.randrange(options.stations) for _ in range(options.hosts)]
        self.broadcasts = 0
        self.deaf = set()  # hosts that hear nothing, and ~host of those that nobody hears
        nodes = [*range(options.hosts), *(~number for number in range(options.stations))]
        self.rates = {node: 1 + rng.uniform(-options.drift, options.drift) for node in nodes}

    def _make_station(self, number):
        station = self.station_class(
            number,
            tuple(self.neighbours[number]),
            tuple(self.routes[number]),
            self.options.settings,
            self.environments[number],
        )
        if self.options.settings.body_max_bytes == 1:
            # The smallest datagrams hold one bit: answers to hosts come in pieces.
            station.cell.bitmap_bits = 1
        return station

    def _make_host(self, host):
        environment = self.host_environments[host]
        environment.effects = []
        return self.host_class(host, self.options.settings, environment, self.disks[host])

    # Time.

    def push(self, delay_ns, *event):
        self.serial += 1
        heapq.heappush(self.heap, (self.now_ns + int(delay_ns), self.serial, event))

    def clock(self, node):
        """The time on the clock of a host, or of ~station."""
        return int(self.now_ns * self.rates[node])

    def wait_ms(self, mean_ms):
        return self.rng.expovariate(1.0 / mean_ms) * MS

    def run(self):
        """The active part, rest, and a last broadcast by everybody."""
        options, rng = self.options, self.rng
        for number in range(options.stations):
            self.at_station(number, "begin")
        for host in range(options.hosts):
            self.at_host(host, "move", self.cells[host])
            if rng.random() < 0.8:
                self.at_host(host, "join")
            self.push(rng.uniform(*options.move_ms) * MS, MOVE, host)
            self.push(self.wait_ms(options.broadcast_ms), BROADCAST, host)
            if options.crash_ms:
                self.push(self.wait_ms(options.crash_ms), CRASH, host)
            if options.churn_ms:
                self.push(self.wait_ms(options.churn_ms), CHURN, host)
        self.go(until_ns=int(options.active_ms * MS))
        self.settle()
        self.oracle.check_rest(self.hosts, self.stations)
        for host in range(options.hosts):
            if self.hosts[host].mode == IN:
                self.at_host(host, "broadcast", b"")
        self.settle()
        try:
            self.oracle.check_rest(self.hosts, self.stations)
        except Violation as error:
            raise Violation(f"I10: {error}") from None
        if self.orphans:
            raise Violation(f"orphans: {self.orphans} handoff messages found no record")
        return self.oracle

    def settle(self):
        """Nobody moves or crashes any more; the radio goes on losing things."""
        self.moving = False
        self.deaf.clear()
        for host in range(self.options.hosts):
            if self.up[host] and self.cells[host] is None:
                self._move(host, self.rng.randrange(self.options.stations))
            if self.up[host] and self.hosts[host].mode == OUT and not self.options.churn_ms:
                self.at_host(host, "join")
        if self.options.settings.lease_ns:
            self._settle_alive()
            return
        self.go(until_ns=self.now_ns + REST_NS)
        if self.heap:
            raise Violation("restless: the run stalls")

    def _settle_alive(self):
        """With leases there is no silence: wait until all is well at some moment."""
        for trial in range(REST_TRIALS):
            self.go(until_ns=self.now_ns + REST_TRIAL_NS)
            try:
                self.oracle.check_rest(self.hosts, self.stations)
            except Violation:
                if trial == REST_TRIALS - 1:
                    raise
            else:
                return

    def go(self, *, until_ns):
        while self.heap and self.heap[0][0] <= until_ns:
            self.now_ns, _, event = heapq.heappop(self.heap)
            self.events += 1
            if self.events > self.events_max:
                raise Violation("restless: too many events")
            self.handle(*event)
        if self.heap:
            self.now_ns = until_ns

    def handle(self, kind, target, *rest):
        options, rng = self.options, self.rng
        if kind == DATAGRAM:
            datagram = rest[0]
            if target >= 0:
                if self.up[target]:
                    self.at_host(target, "receive", datagram)
            else:
                self.at_station(~target, "receive", datagram)
        elif kind == WIRED:
            self.at_station(target, "receive_wired", *rest)
        elif kind == TIMER:
            self._on_timer(target, *rest)
        elif kind == MOVE:
            if self.moving:
                away = rng.random() < options.nowhere
                self.deaf -= {target, ~target}
                if options.deaf and rng.random() < options.deaf:
                    self.deaf.add(target if rng.random() < 0.5 else ~target)
                if self.up[target]:
                    self._move(target, None if away else rng.randrange(options.stations))
                self.push(rng.uniform(*options.move_ms) * MS, MOVE, target)
        elif kind == CRASH:
            if self.moving:
                if self.up[target]:
                    self.crash(target)
                self.push(self.wait_ms(options.crash_ms), CRASH, target)
        elif kind == RECOVER:
            self.recover(target)
        elif kind == BROADCAST:
            if self.moving:
                if self.up[target]:
                    self.at_host(target, "broadcast", b"")
                self.push(self.wait_ms(options.broadcast_ms), BROADCAST, target)
        elif kind == REJOIN:
            if self.up[target]:
                self.at_host(target, "join")
        elif kind == CHURN and self.moving:
            if self.up[target]:
                out = self.hosts[target].mode == OUT
                self.at_host(target, "join" if out else "leave")
            self.push(self.wait_ms(options.churn_ms), CHURN, target)

    def _on_timer(self, target, life, key):
        if target < 0:
            self.at_station(~target, "on_timer", key)
        elif self.up[target] and self.lives[target] == life:
            self.at_host(target, "on_timer", key)

    def _move(self, host, station):
        self.cells[host] = station
        self.at_host(host, "move", station)

    def crash(self, host):
        """The machine is gone; its disk remains."""
        self.up[host] = False
        self.lives[host] += 1
        self.hosts[host] = self._make_host(host)
        self.push(self.rng.uniform(*self.options.down_ms) * MS, RECOVER, host)

    def recover(self, host):
        self.up[host] = True
        if self.rng.random() < 0.3 or self.cells[host] is None:
            self.cells[host] = self.rng.randrange(self.options.stations)
        self.at_host(host, "move", self.cells[host])

    # Calls of machines.

    def at_host(self, host, method, *arguments):
        machine, environment = self.hosts[host], self.host_environments[host]
        environment.now_ns = self.clock(host)
        result = getattr(machine, method)(*arguments)
        effects, environment.effects = environment.effects, []
        torn = self.moving and self.rng.random() < self.options.torn
        disk = machine.disk()
        if torn and self.rng.random() < 0.5:
            self.crash(host)  # before anything was durable: none of it has happened
            return
        if (machines.PERSIST,) in effects:
            self.disks[host] = disk
        elif self.checks_disk and disk != self.disks[host]:
            raise Violation(f"disk: host {host} has changed {disk} without making it durable")
        if method == "broadcast" and result is not None:
            self.broadcasts += 1
            self.oracle.on_broadcast(host, result)
        sends = []
        for effect in effects:
            self._at_once(host, effect, sends)
        left = any(effect[0] == machines.LEFT for effect in effects)
        if left and machine.unacknowledged and (machines.EXPELLED,) not in effects:
            raise Violation(f"left: host {host} has left before its messages were sent")
        self.oracle.check_host(host, machine, self.stations)
        if torn:
            sends = sends[: self.rng.randrange(len(sends) + 1)]
        for effect in sends:
            if effect[0] == machines.RADIO:
                if ~host not in self.deaf:
                    self.radio(~effect[1].cell, effect[1])
            else:
                self.push(effect[1], TIMER, host, self.lives[host], effect[2])
        if torn:
            self.crash(host)

    def _at_once(self, host, effect, sends):
        if effect[0] == machines.DELIVER:
            self.oracle.on_deliver(host, effect[1].name)
        elif effect[0] == machines.JOINED:
            self.oracle.on_join(host, *effect[1:])
        elif effect[0] == machines.LEFT:
            self.oracle.on_left(host)
        elif effect[0] == machines.EXPELLED:
            self.expelled += 1
            self.push(self.rng.uniform(1, 300) * MS, REJOIN, host)
        elif effect[0] in (machines.RADIO, machines.TIMER):
            sends.append(effect)

    def at_station(self, number, method, *arguments):
        station, environment = self.stations[number], self.environments[number]
        environment.now_ns = self.clock(~number)
        getattr(station, method)(*arguments)
        effects, environment.effects = environment.effects, []
        self.oracle.check_station(station)
        host = getattr(arguments[-1], "host", None) if arguments else None
        if host is not None:
            self.oracle.check_host(host, self.hosts[host], self.stations)
        for effect in effects:
            if effect[0] == machines.RADIO:
                self.broadcast_radio(number, effect[1])
            elif effect[0] == machines.WIRE:
                self.wire(number, effect[1], effect[2])
            elif effect[0] == machines.TIMER:
                self.push(effect[1], TIMER, ~number, 0, effect[2])

    # Networks.

    def radio(self, target, datagram):
        options, rng = self.options, self.rng
        copies = 1 + (rng.random() < options.duplication)
        for _ in range(copies):
            if rng.random() >= options.loss:
                delay_ms = rng.uniform(0.1, options.late_ms if rng.random() < 0.2 else 2.0)
                self.push(delay_ms * MS, DATAGRAM, target, datagram)

    def broadcast_radio(self, number, datagram):
        only = getattr(datagram, "host", None)
        for host in range(self.options.hosts):
            if self.cells[host] == number and only in (None, host) and host not in self.deaf:
                self.radio(host, datagram)

    def wire(self, source, target, message):
        """Reliable and in order; a link may be slow for a while."""
        delay_ns = self.rng.uniform(*self.options.wire_ms) * MS
        at_ns = max(self.now_ns + delay_ns, self.wire_free_ns.get((source, target), 0))
        self.wire_free_ns[source, target] = at_ns
        self.push(at_ns - self.now_ns, WIRED, target, source, message)


def run(seed, *, host_class=MobileHost, station_class=MobileStation, world=World, options=draw):
    """One run; a violation names the options that bring it about again."""
    options = options(seed)
    world = world(options, host_class=host_class, station_class=station_class)
    try:
        world.run()
    except Violation as error:
        raise Violation(f"{error}\n  seed {seed}: {options}") from None
    return world
