"""A run: allocates the arrays, calls the engine, grows arrays, sums up."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from precedes import compiled, contract, delays, registry
from precedes.compiled.compiler import Work
from precedes.contract import Capacity, Group, Host, grow
from precedes.errors import InternalError, UserError
from precedes.machine import reserve_bytes, resident_bytes
from precedes.model import NANOSECONDS_PER_S, TIME_NS_MAX, Progress
from precedes.parts import pool
from precedes.sim import memory, summary
from precedes.sim.engine import layout, loop, network, oracle, packets, queue, rows
from precedes.sim.engine.rows import Writer
from precedes.sim.engine.world import (
    FAULT_NODE,
    FAULT_TIME_NS,
    LATENCY_BINS,
    World,
    allocate_host,
    allocate_messages,
    allocate_nodes,
)
from precedes.sim.inputs import broadcasts
from precedes.sim.inputs.network import MANY, draw_ns, make_faults, make_network
from precedes.sim.memory import nbytes
from precedes.sim.result import Result
from precedes.sim.scenario import Scenario
from precedes.sim.switch import Switch

# Where every packet has a delay drawn for it, the loop stops for new ones before a slice is over:
# about a million events compiled.
TURNS: Final = 32
CHUNK_ROWS: Final = 1 << 18
SLOTS_FIRST: Final = 256
DRAWS: Final = 1 << 15  # delays drawn at a time: 256 KiB, which the second cache holds


class Run:
    """One run of one scenario; ``sim.simulate`` is all that most callers need."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        writer: Writer | None = None,
        packets: bool = False,
        sharers: int = 1,
        ahead_cpu_s: float = 0.0,
    ) -> None:
        self.scenario = scenario
        self._ahead_cpu_s = ahead_cpu_s
        self.memory_max_bytes = memory.limit_bytes(scenario, sharers=sharers)
        self.protocol = registry.load(scenario.protocol)
        self.parameters = self.protocol.make_parameters(scenario.parameters)
        self.writer = writer
        self.drawn: dict[str, Any] = {}
        # One stream a concern: every protocol meets the same broadcasts and the same faults.
        streams = np.random.SeedSequence(scenario.seed).spawn(5)
        self.generators = [np.random.Generator(np.random.PCG64(stream)) for stream in streams]
        self.capacity = Capacity(slots=SLOTS_FIRST, reserve_bytes=reserve_bytes())
        self.group = Group(
            nodes=scenario.nodes,
            hosted=np.arange(scenario.nodes, dtype=np.int32),
            seed=scenario.seed,
        )
        wanted = memory.world_bytes(scenario)
        self._check_memory(wanted + memory.state_bytes(self.protocol, self.parameters, self.group))
        self.state = self._allocate_state()
        self.world = self._make_world(packets)

    def _allocate_state(self) -> Any:
        return self.protocol.allocate(self.parameters, self.group, self.capacity)

    def _make_world(self, with_packets: bool) -> World:
        scenario, n = self.scenario, self.scenario.nodes
        workload_generator, fault_generator = self.generators[1:3]
        self.delay = delays.read(scenario.delay)
        links = make_network(scenario, self.delay, fault_generator, self.drawn)
        if with_packets:
            links.setting[network.PLAIN] = 0
        failures = make_faults(scenario, fault_generator, self.drawn)
        workload = broadcasts.make_workload(scenario, workload_generator, self.drawn)
        crashes = failures.detection_ns.size > 0
        recording = self.writer is not None
        world = World(
            queue=queue.allocate(4 * n + len(failures.schedule) + 1024),
            network=links,
            workload=workload,
            faults=failures,
            oracle=oracle.allocate(
                on=scenario.oracle, nodes=n, slots=self.capacity.slots, messages=4096
            ),
            packets=packets.allocate_packets(0),
            host=self._make_host(),
            message=allocate_messages(self.capacity.slots),
            node=allocate_nodes(n),
            inbox=np.zeros(2 * 64, np.int64),
            item_class=np.array(self.protocol.items, np.int64),
            delivered=np.zeros((n, n) if crashes else (0, 0), np.int64),
            latency=np.zeros(LATENCY_BINS, np.int64),
            trace=np.zeros((CHUNK_ROWS + 4 * n if recording else 0, 6), np.int64),
        )
        registers = world.host.registers
        registers[layout.RECORDING] = recording
        registers[layout.RECORDING_PACKETS] = recording and with_packets
        registers[layout.SLOW_PATH] = (
            recording or len(scenario.faults) > 0 or len(workload.event) > 0
        )
        for item in scenario.faults:
            if item.after_sends:
                world.node[item.node, layout.SENDS_LEFT] = item.after_sends
        self._schedule_first(world)
        return world

    def _make_host(self) -> Host:
        scenario = self.scenario
        entropy = int(self.generators[3].integers(1 << 63))
        host = allocate_host(self.capacity, seed=entropy, nodes=scenario.nodes)
        horizon_s = scenario.horizon_s
        host.registers[layout.HORIZON_NS] = (
            2 * TIME_NS_MAX if horizon_s is None else round(horizon_s * NANOSECONDS_PER_S)
        )
        return host

    def _schedule_first(self, world: World) -> None:
        if compiled.registered(contract.start, self.protocol.state):
            for node in range(self.scenario.nodes):
                queue.push_one(world.queue, 0, layout.START | node, 0)
        for row in range(len(world.faults.schedule)):
            time_ns = int(world.faults.schedule[row, FAULT_TIME_NS])
            node = int(world.faults.schedule[row, FAULT_NODE])
            queue.push_one(world.queue, time_ns, layout.FAULT | node, row)
        if len(world.workload.issue):
            time_ns, node = world.workload.issue[0].tolist()
            queue.push_one(world.queue, time_ns, layout.ISSUE | node, 0)
        for label, node in broadcasts.first_of_replay(world.workload):
            queue.push_one(world.queue, 0, layout.ISSUE_LATE | node, label)

    def go(self, *, progress: Progress | None = None, tier: str = "auto") -> Result:
        """Run to the end and return the result."""
        switch = self._make_switch(tier)
        switch.begin(self.world, self.state)
        before_bytes = resident_bytes()  # the only measure of plain Python's memory
        for turn in itertools.count(1):
            try:
                status = switch.turn(self.world, self.state)
            except MemoryError:
                pool.check_end(self.state)
                raise
            if status == layout.FINISHED:
                break
            if status != layout.PAUSED:
                self._make_room(status, is_compiled=not switch.is_interpreted)
            if self.protocol.is_plain:
                self._check_memory(nbytes(self.world) + resident_bytes() - before_bytes)
            if progress is not None and (status == layout.PAUSED or turn % TURNS == 0):
                progress(self._done())
            if switch.is_interpreted:
                switch.look(self.world, self.state, done=self._done_of_all())
        self._flush()
        self._check_balance()
        return summary.sum_up(
            self.world,
            self.state,
            scenario=self.scenario,
            protocol=self.protocol,
            # Including the time to draw its inputs.
            echo={
                **self.scenario.echo(),
                "parameters": vars(self.parameters),
                "drawn": self.drawn,
            },
            tier=switch.tier,
            cpu_s=switch.clock.cpu_s(),
            wall_s=switch.clock.wall_s(),
        )

    def _make_switch(self, tier: str) -> Switch:
        name = self.scenario.protocol
        return Switch(self.protocol, name=name, tier=tier, ahead_cpu_s=self._ahead_cpu_s)

    def _done(self) -> float:
        """The estimated completed share of the run.

        Half of it are broadcasts, which a burst has completed at once, half the expected
        deliveries: of those some never come where nodes crash or packets are lost.
        """
        due = self._due()
        if due == 0:
            return self._sent()
        delivered = min(int(self.world.host.registers[layout.DELIVERIES]) / due, 1.0)
        return (self._sent() + delivered) / 2

    def _due(self) -> int:
        """Deliveries without crashes and losses; 0: nothing is broadcast."""
        workload = self.world.workload
        messages = max(len(workload.issue), len(workload.event) - 1)
        return messages * (self.scenario.nodes - 1)

    def _sent(self) -> float:
        """The completed share of the broadcasts, or of their time."""
        scenario, registers = self.scenario, self.world.host.registers
        if scenario.duration_s:
            now_ns = int(self.world.host.registers[contract.NOW_NS])
            return min(now_ns / NANOSECONDS_PER_S / scenario.duration_s, 1.0)
        messages = scenario.messages
        if messages is None:
            messages = max(len(self.world.workload.event) - 1, scenario.nodes)
        return min(int(registers[layout.BROADCASTS]) / max(messages, 1), 1.0)

    def _done_of_all(self) -> float:
        """A lower bound of the completed share: the remaining deliveries may take longest."""
        registers = self.world.host.registers
        if due := self._due():
            return min(self._sent(), int(registers[layout.DELIVERIES]) / due)
        horizon_ns = int(registers[layout.HORIZON_NS])
        return min(int(registers[contract.NOW_NS]) / horizon_ns, 1.0)

    def _make_room(self, status: int, *, is_compiled: bool) -> None:
        """Handle the reason for which the engine stopped: mostly, an array must grow."""
        if status == layout.FLUSH_TRACE:
            self._flush()
            return
        if status == layout.DRAW:
            self._draw(is_compiled=is_compiled)
            return
        if status == layout.EFFECTS_OVERFLOW:
            raise InternalError(
                f"protocol {self.protocol.name}: one call of a handler requested effects of more "
                f"than {self.world.host.effects.size:,} words"
            )
        world = self.world
        if status == layout.GROW_QUEUE:
            size = world.queue.entry.size // queue.WORDS
            self.world = world._replace(queue=grow(world.queue, queue.allocate(2 * size)))
        elif status == layout.GROW_PACKETS:
            self._grow_packets()
        elif status == layout.GROW_ORACLE:
            self._grow_oracle()
        elif status == layout.GROW_SLOTS:
            self.capacity = self.capacity._replace(slots=2 * self.capacity.slots)
            queue.check_slots(self.capacity.slots)
            self._grow_capacity()
        else:
            raise InternalError(f"the engine returned an unknown status {status}")
        self._check_memory(nbytes(self.world) + nbytes(self.state))

    def _draw(self, *, is_compiled: bool) -> None:
        """Draw delays and chances for the packets to come, after the unused ones."""
        links = self.world.network
        setting = links.setting
        delay_ns = links.delay_ns[int(setting[network.DELAYS_USED]) :]
        chances = links.chance[int(setting[network.CHANCES_USED]) :]
        # More than before if none had been used: one effect needs more than there were.
        count = max(DRAWS, 8 * self.scenario.nodes, 2 * len(delay_ns), 2 * len(chances))
        if links.matrix_ns.size == 0:
            many = is_compiled and int(self.world.host.registers[layout.PACKETS]) >= MANY
            more_ns = draw_ns(self.delay, self.generators[0], count - len(delay_ns), many=many)
            delay_ns = np.concatenate([delay_ns, more_ns])
        if not setting[network.PLAIN]:
            more_chances = self.generators[4].random(count - len(chances))
            chances = np.concatenate([chances, more_chances])
        setting[network.DELAYS_USED] = setting[network.CHANCES_USED] = 0
        self.world = self.world._replace(network=links._replace(delay_ns=delay_ns, chance=chances))

    def _grow_packets(self) -> None:
        """Room for more packets or, if one is too long to be unpacked at once, for longer ones."""
        world = self.world
        effect = world.host.effects[int(world.host.registers[layout.EFFECT]) :]
        sends = effect[0] in (contract.SEND, contract.SEND_ASIDE)
        if not sends or 2 * effect[2] <= world.inbox.size:
            count = max(2 * len(world.packets.packet), 1024)
            self.world = world._replace(
                packets=grow(world.packets, packets.allocate_packets(count))
            )
            return
        words = 4 * int(effect[2])
        # The rows of a packet's items go into one chunk of the trace.
        length = len(world.trace) + (words if self.writer else 0)
        self.world = world._replace(
            inbox=grow(world.inbox, np.zeros(words, np.int64)),
            trace=grow(world.trace, np.zeros((length, 6), np.int64)),
        )

    def _grow_oracle(self) -> None:
        judge = self.world.oracle
        larger = oracle.allocate(
            on=True,
            nodes=self.scenario.nodes,
            slots=self.capacity.slots,
            messages=2 * judge.successor.size,
        )
        self.world = self.world._replace(oracle=grow(judge, larger))

    def _grow_capacity(self) -> None:
        """Grow everything that depends on the number of slots, which have run out."""
        world, n = self.world, self.scenario.nodes
        slots = self.capacity.slots
        self._check_memory(nbytes(world) + 2 * nbytes(self.state))
        self.state = grow(self.state, self._allocate_state())
        self.world = world._replace(
            oracle=grow(
                world.oracle,
                oracle.allocate(
                    on=self.scenario.oracle,
                    nodes=n,
                    slots=slots,
                    messages=world.oracle.successor.size,
                ),
            ),
            message=grow(world.message, allocate_messages(slots)),
            host=grow(world.host, allocate_host(self.capacity, seed=1, nodes=n)),
        )

    def _check_memory(self, wanted_bytes: int) -> None:
        limit = self.memory_max_bytes
        if wanted_bytes > limit:
            whose = "" if self.scenario.memory_max_bytes else ", its share of this machine's"
            raise UserError(
                f"this run needs {wanted_bytes / 2**30:.1f} GiB, more than memory_max_bytes "
                f"({limit / 2**30:.1f} GiB{whose}): use fewer nodes, a lower rate, less loss, or "
                "raise it"
            )

    def _flush(self) -> None:
        if self.writer is not None:
            rows.flush(self.world.trace, self.world.host.registers, self.writer)

    def _check_balance(self) -> None:
        """Every reference is held by a node or has ended: the contract's rule 4."""
        held = self.world.node[:, layout.HELD]
        if (held < 0).any():
            node = int(np.argmin(held))
            raise InternalError(
                f"protocol {self.protocol.name} broke the contract: node {node} delivered or "
                f"dropped {-int(held[node])} messages more than it had received"
            )

    def crashed(self) -> list[int]:
        """The nodes that have crashed so far."""
        return summary.crashed(self.world)


def work(protocol: str) -> Work:
    """The engine's loop for a protocol, for a compiler: the types of any run's arrays."""
    run = Run(Scenario(protocol=protocol, nodes=2, messages=0))
    return Work(loop.ENTRY, run.protocol.state, run.protocol.sources, (run.world, run.state, 0))
