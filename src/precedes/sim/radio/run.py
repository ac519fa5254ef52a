"""A run on a radio: hosts and stations of a protocol, the air, the wires and a seed.

The machines (``protocols/mobile/host.py`` and others) run unchanged under any other host of theirs.
Their effects are carried out in the order of the contract: durable state first, then
deliveries, then datagrams and messages. Time is in whole nanoseconds, ties are in order of
insertion, and everything random comes from the scenario's seed.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

from precedes import registry
from precedes.contract import machines
from precedes.contract.machines import Environment
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S, TIME_NS_MAX, EventKind, Progress
from precedes.registry import MachineProtocol
from precedes.sim.engine.rows import Writer
from precedes.sim.inputs import broadcasts
from precedes.sim.radio.access import Aloha, CarrierSense
from precedes.sim.radio.air import Air, Transmission
from precedes.sim.radio.measures import Measures, RadioTrace
from precedes.sim.radio.mobility import Mobility, station_places, tree_of
from precedes.sim.result import Result
from precedes.sim.scenario import Scenario
from precedes.sim.workloads import replayed

WIRE_HEADER_BYTES: Final = 60  # TCP, IPv4 and MAC
PROGRESS_EVENTS: Final = 1 << 14
# Fields of a scenario about links, of which a radio has none.
OF_LINKS: Final = (
    *("delay", "per", "duplication", "fifo", "processing_ms", "transmission_ms"),
    *("bandwidth_bytes_per_s", "packet_bytes", "payload_bytes", "mtu_bytes", "gap_ms"),
)

Task = Callable[[], None]


class RadioRun:
    """One run of one scenario on a radio."""

    def __init__(
        self, scenario: Scenario, *, writer: Writer | None = None, packets: bool = False
    ) -> None:
        _check_fields(scenario, packets=packets)
        self.scenario = scenario
        protocol = registry.load(scenario.protocol)
        assert isinstance(protocol, MachineProtocol)
        self.protocol = protocol
        self.parameters = protocol.make_parameters(scenario.parameters)
        streams = np.random.SeedSequence(scenario.seed).spawn(5)
        generators = [np.random.Generator(np.random.PCG64(stream)) for stream in streams]
        self.random = Random(int(generators[3].integers(1 << 63)))
        self.chance = Random(int(generators[4].integers(1 << 63)))
        self.now_ns = 0
        self.serial = 0
        self.heap: list[tuple[int, int, Task]] = []
        self.workload = broadcasts.make_workload(scenario, generators[1], {}).issue.tolist()
        self.duration_ns = self._duration_ns()
        self._place(generators[2])
        self._make_machines()
        self.trace = RadioTrace(writer, hosts=scenario.nodes, stations=self.parameters.stations)
        self.measures = Measures(self)

    def _duration_ns(self) -> int:
        if self.scenario.duration_s is not None:
            return round(self.scenario.duration_s * NANOSECONDS_PER_S)
        return int(self.workload[-1][0]) if self.workload else 0

    def _place(self, generator: np.random.Generator) -> None:
        parameters, hosts = self.parameters, self.scenario.nodes
        self.places = station_places(parameters.stations, parameters.spacing_m)
        self.mobility = Mobility(parameters, self.places, hosts, generator)
        self.air = Air(parameters, hosts=hosts, stations=self.places)
        self.access = (
            CarrierSense(parameters, self.air, at=self.at, done=self._ended, random=self.random)
            if parameters.mac == "csma"
            else Aloha(parameters, self.air, at=self.at, done=self._ended)
        )
        self.air.place(self.mobility.hosts)
        self.joins_ns = [
            int(share * parameters.joins_s * NANOSECONDS_PER_S)
            for share in generator.random(hosts).tolist()
        ]

    def _make_machines(self) -> None:
        hosts, stations = self.scenario.nodes, self.parameters.stations
        neighbours, routes = tree_of(self.places, self.parameters.tree)
        self.environments = [Environment(self.random.random) for _ in range(hosts + stations)]
        self.hosts: list[Any] = [
            self.protocol.make_host(host, self.parameters, self.environments[host], None)
            for host in range(hosts)
        ]
        self.stations: list[Any] = [
            self.protocol.make_station(
                station,
                neighbours[station],
                routes[station],
                self.parameters,
                self.environments[hosts + station],
            )
            for station in range(stations)
        ]
        self.cells: list[int | None] = [None] * hosts
        self.members: list[dict[int, None]] = [{} for _ in range(stations)]
        self.up = [True] * hosts
        self.down_ns: dict[int, int] = {}  # since when, of hosts that are down
        self.lives = [0] * hosts  # timers of before a crash are void
        self.leaving: set[int] = set()  # hosts that have requested to leave and are still members
        self.disks: list[Any] = [None] * hosts
        self.wire_free_ns: dict[tuple[int, int], int] = {}
        self.on_wires = 0  # messages between two stations

    # Time.

    def at(self, time_ns: int, task: Task) -> None:
        """Schedule a task, after those that are due at the same time already."""
        self.serial += 1
        heapq.heappush(self.heap, (time_ns, self.serial, task))

    def go(self, *, progress: Progress | None = None, tier: str = "auto") -> Result:
        """Run to the end and return the result; the machines are interpreted in every tier."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        self._schedule_first()
        heap, pop = self.heap, heapq.heappop
        events = 0
        self.resting = False
        horizon_s = self.scenario.horizon_s
        horizon_ns = 2 * TIME_NS_MAX if horizon_s is None else horizon_s * NANOSECONDS_PER_S
        while heap and not self.resting and heap[0][0] <= horizon_ns:
            self.now_ns, _, task = pop(heap)
            task()
            events += 1
            if progress is not None and events % PROGRESS_EVENTS == 0:
                progress(min(self.now_ns / max(self.duration_ns, 1), 1.0))
        if self.workload and self.measures.skipped == len(self.workload):
            raise UserError(self._why_nothing())
        self.trace.end(self.now_ns, self.down_ns)
        return self.measures.result(
            cpu_s=time.process_time() - cpu_s, wall_s=time.perf_counter() - wall_s
        )

    def _why_nothing(self) -> str:
        last_s = self.workload[-1][0] / NANOSECONDS_PER_S
        return (
            f"none of the {len(self.workload)} broadcasts happened: their hosts were out, or had "
            f"not joined when the last was due, after {last_s:.3g} s; hosts join within joins_s, "
            f"{self.parameters.joins_s:g} s: broadcast for longer, or set joins_s"
        )

    def _schedule_first(self) -> None:
        parameters = self.parameters
        for station in range(parameters.stations):
            self.at_station(station, self.stations[station].begin)
        for host, time_ns in enumerate(self.joins_ns):
            self.at(time_ns, lambda host=host: self._join(host))  # type: ignore[misc]
        if self.workload:
            self.at(self.workload[0][0], lambda: self._issue(0))
        if self.mobility.moves:
            self._every(parameters.step_ms, self._step)
        self._every(parameters.sample_ms, self._sample)
        if parameters.fault_station >= 0:
            first_ns = round(parameters.fault_start_s * NANOSECONDS_PER_S)
            self.at(first_ns, lambda: self._fail(0))
        if parameters.leave_every_s > 0:
            self._every(parameters.leave_every_s * 1000, self._leave)
        for fault in self.scenario.faults:
            time_ns = round(fault.at_s * NANOSECONDS_PER_S)
            length_s = fault.for_s if fault.kind == "pause" else 0.0
            self.at(time_ns, lambda f=fault, s=length_s: self._down(f.node, s))  # type: ignore[misc]

    def _every(self, period_ms: float, task: Task) -> None:
        period_ns = max(1, round(period_ms * NANOSECONDS_PER_MS))

        def again() -> None:
            task()
            self.at(self.now_ns + period_ns, again)

        self.at(period_ns, again)

    def _sample(self) -> None:
        self.measures.sample()
        if self.now_ns < self.duration_ns:
            return
        late_ns = self.now_ns - self.duration_ns
        over = late_ns > self.parameters.drain_s * NANOSECONDS_PER_S
        self.resting = over or self._is_quiet()

    def _is_quiet(self) -> bool:
        """Return whether nothing is pending, unacknowledged or in flight.

        A host that was expelled and does not know it yet still lacks later messages.
        """
        under_way = self.on_wires or any(self.access.sending)
        if under_way or not all(station.is_quiet() for station in self.stations):
            return False
        up = {host for host in range(len(self.hosts)) if self.up[host]}
        if not all(self.hosts[host].is_quiet() for host in up):
            return False
        return all(
            station.serves(self.hosts[host])
            for station, members in zip(self.stations, self.members, strict=True)
            for host in members
            if host in up and self.measures.living[host]
        )

    # Hosts and their changes.

    def _join(self, host: int) -> None:
        self._attach(host)
        self.at_host(host, self.hosts[host].join)

    def _attach(self, host: int) -> None:
        """Report the station with the strongest signal to a host, if it has changed."""
        nearest = self.air.nearest[host]
        cell = None if nearest < 0 else nearest
        before = self.cells[host]
        if before is not None:
            del self.members[before][host]
        self.cells[host] = cell
        if cell is not None:
            self.members[cell][host] = None
        machine = self.hosts[host]
        self.at_host(host, lambda: machine.move(cell))

    def _step(self) -> None:
        step_s = self.parameters.step_ms / 1000
        self.mobility.advance(self.now_ns / NANOSECONDS_PER_S, step_s)
        self.air.place(self.mobility.hosts)
        for host, nearest in enumerate(self.air.nearest):
            if self.up[host] and self.now_ns >= self.joins_ns[host]:
                cell = None if nearest < 0 else nearest
                if cell != self.cells[host]:
                    self.measures.moves += 1
                    self.measures.out_of_reach += cell is None
                    self.trace.mark(self.now_ns, host, "handoff", cell)
                    self._attach(host)

    def _issue(self, row: int) -> None:
        """The broadcast of a row of the schedule; those of hosts that are out do not happen."""
        host = self.workload[row][1]
        if self.up[host]:
            machine = self.hosts[host]
            self.at_host(host, lambda: self._broadcast(host, machine))
        else:
            self.measures.skipped += 1
        if row + 1 < len(self.workload):
            self.at(self.workload[row + 1][0], lambda: self._issue(row + 1))

    def _broadcast(self, host: int, machine: Any) -> None:
        number = machine.broadcast(b"")
        if number is None:
            self.measures.skipped += 1
            return
        self.measures.on_broadcast(host, number)
        self.trace.message(self.now_ns, host, EventKind.BROADCAST, host, number)

    def _fail(self, count: int) -> None:
        """A transient fault of some host that is attached to the station (V-C)."""
        parameters = self.parameters
        station = parameters.fault_station
        chosen = [host for host in self.members[station] if self.up[host]]
        if chosen:
            length_s = parameters.fault_length_s + count * parameters.fault_longer_s
            self._down(self.random.choice(chosen), length_s)
        next_ns = self.now_ns + round(parameters.fault_every_s * NANOSECONDS_PER_S)
        if next_ns < self.duration_ns:
            self.at(next_ns, lambda: self._fail(count + 1))

    def _leave(self) -> None:
        """A random member leaves (IV-C), as long as the load lasts."""
        staying = [
            host
            for host, lives in enumerate(self.measures.living)
            if lives and self.up[host] and host not in self.leaving
        ]
        if staying and self.now_ns < self.duration_ns:
            host = self.random.choice(staying)
            self.leaving.add(host)
            self.at_host(host, self.hosts[host].leave)

    def _left(self, host: int) -> None:
        """Handle the end of a life; a host that requested it stays away, and may join later."""
        self.measures.on_left(host)
        self.trace.leave(self.now_ns, host)
        if host in self.leaving and self.parameters.away_s > 0:
            self._return_later(host)

    def _return_later(self, host: int) -> None:
        away_ns = round(self.parameters.away_s * NANOSECONDS_PER_S)
        self.at(self.now_ns + away_ns, lambda: self._return(host))

    def _return(self, host: int) -> None:
        """Begin another life; a host that is down tries again later."""
        if self.up[host]:
            self.leaving.discard(host)
            self.at_host(host, self.hosts[host].join)
        else:
            self._return_later(host)

    def _down(self, host: int, length_s: float) -> None:
        """Stop a host, which loses all but its disk; 0 seconds: permanently."""
        if not self.up[host]:
            return
        self.up[host] = False
        self.down_ns[host] = self.now_ns
        self.lives[host] += 1
        self.disks[host] = self.hosts[host].disk()
        self.mobility.standing.add(host)
        self.measures.faults.append((self.now_ns, length_s))
        if length_s > 0:
            self.trace.mark(self.now_ns, host, "crash")
            up_ns = self.now_ns + round(length_s * NANOSECONDS_PER_S)
            self.at(up_ns, lambda: self._recover(host))

    def _recover(self, host: int) -> None:
        self.trace.mark(self.now_ns, host, "recover")
        self.up[host] = True
        del self.down_ns[host]
        self.mobility.standing.discard(host)
        self.environments[host].effects = []
        self.hosts[host] = self.protocol.make_host(
            host, self.parameters, self.environments[host], self.disks[host]
        )
        self._attach(host)

    # Calls of machines, and their effects.

    def at_host(self, host: int, call: Task) -> None:
        """Call a host's machine and carry out its effects."""
        environment = self.environments[host]
        environment.now_ns = self.now_ns
        call()
        if environment.effects:
            self._carry_out(host, environment)

    def _carry_out(self, host: int, environment: Environment) -> None:
        effects, environment.effects = environment.effects, []
        for effect in effects:
            kind = effect[0]
            if kind == machines.DELIVER:
                source, number = effect[1].name
                self.measures.on_deliver(host, source, number)
                self.trace.message(self.now_ns, host, EventKind.DELIVER, source, number)
            elif kind == machines.RADIO:
                self._transmit(host, effect[1])
            elif kind == machines.TIMER:
                self._set_host_timer(host, effect[1], effect[2])
            elif kind == machines.PERSIST:
                self.measures.persists += 1
            elif kind == machines.JOINED:
                self.measures.on_join(host, effect[2], effect[3])
                self.trace.join(self.now_ns, host, effect[2], effect[3])
            elif kind == machines.LEFT:
                self._left(host)
            elif kind == machines.EXPELLED:
                self.measures.expelled += 1
                if host not in self.leaving:
                    self.at_host(host, self.hosts[host].join)
                elif not self.parameters.away_s:  # it leaves once its messages are acknowledged
                    self.at_host(host, self.hosts[host].join)
                    self.at_host(host, self.hosts[host].leave)

    def _set_host_timer(self, host: int, delay_ns: int, key: Any) -> None:
        life = self.lives[host]

        def run_out() -> None:
            if self.up[host] and self.lives[host] == life:
                machine = self.hosts[host]
                self.at_host(host, lambda: machine.on_timer(key))

        self.at(self.now_ns + delay_ns, run_out)

    def at_station(self, station: int, call: Task) -> None:
        """Call a station's machine and carry out its effects."""
        environment = self.environments[self.scenario.nodes + station]
        environment.now_ns = self.now_ns
        machine = self.stations[station]
        call()
        effects, environment.effects = environment.effects, []
        for effect in effects:
            kind = effect[0]
            if kind == machines.RADIO:
                self._transmit(self.scenario.nodes + station, effect[1])
            elif kind == machines.STAMPED:
                self.measures.on_stamp(station, effect[1])
                self.trace.stamp(station, effect[1][0])
            elif kind == machines.WIRE:
                self._wire(station, effect[1], effect[2])
            elif kind == machines.TIMER:
                key = effect[2]
                self.at(
                    self.now_ns + effect[1],
                    lambda key=key: self.at_station(station, lambda: machine.on_timer(key)),  # type: ignore[misc]
                )

    # The air and the wires.

    def _transmit(self, node: int, datagram: Any) -> None:
        size_bytes = self.protocol.air_bytes(datagram, self.parameters)
        self.measures.on_send(node, datagram, size_bytes)
        self.access.send(node, datagram, size_bytes, self.now_ns, self._addressee(node, datagram))

    def _addressee(self, node: int, datagram: Any) -> int | None:
        """The one antenna that a datagram is addressed to; None: all hosts of a cell."""
        if node < self.scenario.nodes:
            return self.scenario.nodes + int(datagram.cell)
        return getattr(datagram, "host", None)

    def _ended(self, sent: Transmission, is_copy: bool) -> list[int]:
        """End a transmission: pass it to the addressed antennas that received it."""
        hosts = self.scenario.nodes
        datagram, bad = sent.datagram, sent.bad
        loss = self.scenario.loss
        only = self._addressee(sent.node, datagram)
        targets: Any = self.members[sent.node - hosts] if only is None else (only,)
        well = []
        intended = lost = 0
        for target in sent.reached if len(targets) > 8 else targets:
            if target in targets if len(targets) > 8 else target in sent.reached:
                intended += 1
                if target in bad:
                    lost += 1
                elif loss == 0.0 or self.chance.random() >= loss:
                    well.append(target)
        self.measures.on_receptions(len(sent.reached), len(bad), intended, lost)
        if is_copy:
            return well
        for target in well:
            if target >= hosts:
                machine = self.stations[target - hosts]
                self.at_station(target - hosts, lambda m=machine: m.receive(datagram))  # type: ignore[misc]
            elif self.up[target]:
                environment = self.environments[target]
                environment.now_ns = self.now_ns
                self.hosts[target].receive(datagram)
                if environment.effects:
                    self._carry_out(target, environment)
        return [target for target in well if target >= hosts or self.up[target]]

    def _wire(self, source: int, target: int, message: Any) -> None:
        """A reliable FIFO link: a delay, and the serialisation time of the bytes."""
        parameters = self.parameters
        size_bytes = WIRE_HEADER_BYTES + self.protocol.wire_bytes(message, parameters)
        self.measures.on_wire(size_bytes)
        free_ns = max(self.now_ns, self.wire_free_ns.get((source, target), 0))
        free_ns += int(size_bytes * 8 * NANOSECONDS_PER_S / parameters.wire_bps)
        self.wire_free_ns[source, target] = free_ns
        machine = self.stations[target]
        self.on_wires += 1

        def arrive() -> None:
            self.on_wires -= 1
            self.at_station(target, lambda: machine.receive_wired(source, message))

        self.at(free_ns + round(parameters.wire_ms * NANOSECONDS_PER_MS), arrive)


def _check_fields(scenario: Scenario, *, packets: bool) -> None:
    """Raise UserError for fields without an effect on a radio."""
    usual = Scenario(protocol=scenario.protocol, nodes=scenario.nodes)
    for name in OF_LINKS:
        if getattr(scenario, name) != getattr(usual, name):
            raise UserError(
                f"{scenario.protocol} runs on a radio, where {name} means nothing: "
                "see its own parameters with 'precedes protocols'"
            )
    if packets:
        raise UserError(f"{scenario.protocol} runs on a radio: its packets are not recorded")
    if replayed(scenario.workload) is not None:
        raise UserError("a replay needs a network of links: choose another protocol or workload")
    for fault in scenario.faults:
        if fault.kind == "cut" or fault.after_sends:
            raise UserError("on a radio a fault is a crash, or a pause from which a host recovers")
