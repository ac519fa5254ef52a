"""A run: allocate the arrays, call the engine, let grow what is too small, sum up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, contract, registry
from precedes.contract import Capacity, Group, grow
from precedes.errors import InternalError, UserError
from precedes.model import NANOSECONDS_PER_S, TIME_NS_MAX, Progress
from precedes.sim import memory
from precedes.sim.engine import faults as fault
from precedes.sim.engine import loop
from precedes.sim.engine import network as net
from precedes.sim.engine import oracle as judge
from precedes.sim.engine import queue as events
from precedes.sim.engine import world as w
from precedes.sim.inputs import broadcasts, build
from precedes.sim.memory import nbytes
from precedes.sim.result import Result, Violations, further_counts, latency_of, series_of, trimmed
from precedes.sim.scenario import Scenario

# Events between two looks at the outside world: about a fifth of a second compiled.
SLICE_EVENTS: Final = 1 << 20
SLICE_EVENTS_INTERPRETED: Final = 1 << 12
CHUNK_ROWS: Final = 1 << 18
SLOTS_FIRST: Final = 256
DRAWS: Final = 1 << 15  # delays drawn at a time: 256 KiB, which the second cache holds
HELD_FIRST: Final = 256


class Writer(Protocol):
    """Where the events of a run go: chunks of columns, in order of time."""

    def write(
        self,
        time_ns: NDArray[np.int64],
        node: NDArray[np.int32],
        kind: NDArray[np.int8],
        source: NDArray[np.int32],
        sequence: NDArray[np.int32],
        packet: NDArray[np.int64],
    ) -> None:
        """Take one chunk; the arrays are the caller's to reuse."""


class Run:
    """One run of one scenario; ``simulate`` below is all that most callers need."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        writer: Writer | None = None,
        packets: bool = False,
        sharers: int = 1,
    ) -> None:
        self.scenario = scenario
        self.memory_max_bytes = memory.limit_bytes(scenario, sharers=sharers)
        self.protocol = registry.load(scenario.protocol)
        self.parameters = self.protocol.make_parameters(scenario.parameters)
        self.writer = writer
        self.drawn: dict[str, Any] = {}
        # One stream a concern: every protocol meets the same broadcasts and the same faults.
        streams = np.random.SeedSequence(scenario.seed).spawn(5)
        self.generators = [np.random.Generator(np.random.PCG64(stream)) for stream in streams]
        self.capacity = Capacity(slots=SLOTS_FIRST, held=HELD_FIRST)
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

    def _make_world(self, packets: bool) -> w.World:
        scenario, n = self.scenario, self.scenario.nodes
        workload_generator, fault_generator = self.generators[1:3]
        self.delay = build.make_delay(scenario, fault_generator, self.drawn)
        network = build.make_network(scenario, self.delay)
        if packets:
            network.setting[net.PLAIN] = 0
        faults = build.make_faults(scenario, fault_generator, self.drawn)
        workload = broadcasts.make_workload(scenario, workload_generator, self.drawn)
        crashes = faults.detection_ns.size > 0
        recording = self.writer is not None
        words = self.protocol.effects_words(self.capacity, n)
        entropy = int(self.generators[3].integers(1 << 63))
        host = w.allocate_host(slots=self.capacity.slots, effects=words, seed=entropy, nodes=n)
        host.registers[w.RECORDING] = recording
        host.registers[w.RECORDING_PACKETS] = recording and packets
        host.registers[w.CARE] = recording or len(scenario.faults) > 0 or len(workload.event) > 0
        horizon_s = scenario.horizon_s
        host.registers[w.HORIZON_NS] = (
            2 * TIME_NS_MAX if horizon_s is None else round(horizon_s * NANOSECONDS_PER_S)
        )
        world = w.World(
            queue=events.allocate(4 * n + len(faults.schedule) + 1024),
            network=network,
            workload=workload,
            faults=faults,
            oracle=judge.allocate(
                on=scenario.oracle, nodes=n, slots=self.capacity.slots, messages=4096
            ),
            packets=w.allocate_packets(0),
            host=host,
            message=np.zeros(8 * self.capacity.slots, np.int64),
            node=w.allocate_nodes(n),
            inbox=np.zeros(2 * 64, np.int64),
            item_class=np.array(self.protocol.items, np.int64),
            delivered=np.zeros((n, n) if crashes else (0, 0), np.int64),
            latency=np.zeros(w.HISTOGRAM_BINS, np.int64),
            trace=np.zeros((CHUNK_ROWS + 4 * n if recording else 0, 6), np.int64),
        )
        for item in scenario.faults:
            if item.after_sends:
                world.node[8 * item.node + w.SENDS_LEFT] = item.after_sends
        self._schedule_first(world)
        return world

    def _schedule_first(self, world: w.World) -> None:
        if compiled.registered(contract.start, self.protocol.state):
            for node in range(self.scenario.nodes):
                events.push(world.queue, 0, w.START | node, 0)
        for row in range(len(world.faults.schedule)):
            time_ns = int(world.faults.schedule[row, fault.TIME_NS])
            node = int(world.faults.schedule[row, fault.NODE])
            events.push(world.queue, time_ns, w.FAULT | node, row)
        if len(world.workload.issue):
            time_ns, node = world.workload.issue[0].tolist()
            events.push(world.queue, time_ns, w.ISSUE | node, 0)
        for label, node in broadcasts.first_of_replay(world.workload):
            events.push(world.queue, 0, w.ISSUE_LATE | node, label)

    def go(self, *, progress: Progress | None = None, interpreted: bool = False) -> Result:
        """Run to the end and sum up."""
        body: Callable[..., int] = loop.run
        slice_events = SLICE_EVENTS_INTERPRETED
        if not interpreted:
            slice_events = SLICE_EVENTS
            # A slice of no events compiles or loads the loop, which is no part of the run's time.
            body = loop.ENTRY.prepare(
                self.protocol.state,
                self.protocol.sources,
                self.world,
                self.state,
                0,
            )
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        while True:
            status = body(self.world, self.state, slice_events)
            if status == w.FINISHED:
                break
            if status == w.PAUSED:
                if progress is not None:
                    progress(self._done())
            else:
                self._attend(status)
        if self.writer is not None:
            self._flush()
        self._check_balance()
        return self._sum_up(cpu_s=time.process_time() - cpu_s, wall_s=time.perf_counter() - wall_s)

    def _done(self) -> float:
        """The share of the run that is over, as far as one can tell."""
        scenario, registers = self.scenario, self.world.host.registers
        if scenario.duration_s:
            now_ns = int(self.world.host.registers[contract.NOW_NS])
            return min(now_ns / NANOSECONDS_PER_S / scenario.duration_s, 1.0)
        messages = scenario.messages
        if messages is None:
            messages = max(len(self.world.workload.event) - 1, scenario.nodes)
        return min(int(registers[w.BROADCASTS]) / max(messages, 1), 1.0)

    def _attend(self, status: int) -> None:
        """Do what the engine stopped for."""
        if status == w.FLUSH_TRACE:
            self._flush()
            return
        if status == w.DRAW:
            self._draw()
            return
        if status == w.EFFECTS_OVERFLOW:
            raise InternalError(
                f"protocol {self.protocol.name}: a handler asked for more effects than its "
                "effects_words allows"
            )
        if status == w.NEITHER:
            raise InternalError(
                f"protocol {self.protocol.name}: a handler returned neither DONE nor FULL"
            )
        world = self.world
        if status == w.GROW_QUEUE:
            size = world.queue.entry.size // events.WORDS
            self.world = world._replace(queue=grow(world.queue, events.allocate(2 * size)))
        elif status == w.GROW_PACKETS:
            self._grow_packets()
        elif status == w.GROW_ORACLE:
            self._grow_oracle()
        elif status == w.GROW_SLOTS:
            self.capacity = self.capacity._replace(slots=2 * self.capacity.slots)
            self._grow_capacity()
        elif status == w.GROW_STATE:
            self.capacity = self.capacity._replace(held=2 * self.capacity.held)
            self._grow_capacity()
        else:
            raise InternalError(f"the engine returned an unknown status {status}")
        self._check_memory(nbytes(self.world) + nbytes(self.state))

    def _draw(self) -> None:
        """Draw delays and chances for the packets to come, behind what is left of them."""
        network = self.world.network
        setting = network.setting
        delays = network.delay_ns[int(setting[net.DELAYS_USED]) :]
        chances = network.chance[int(setting[net.CHANCES_USED]) :]
        # More than before if nothing had been used: one effect needs more than there was.
        count = max(DRAWS, 8 * self.scenario.nodes, 2 * len(delays), 2 * len(chances))
        if self.delay.law != "matrix":
            more = self.delay.draw_ns(self.generators[0], count - len(delays))
            delays = np.concatenate([delays, more])
        if not setting[net.PLAIN]:
            more_chances = self.generators[4].random(count - len(chances))
            chances = np.concatenate([chances, more_chances])
        setting[net.DELAYS_USED] = setting[net.CHANCES_USED] = 0
        self.world = self.world._replace(network=network._replace(delay_ns=delays, chance=chances))

    def _grow_packets(self) -> None:
        """Room for more packets or, if one is too long to be taken in at once, for longer ones."""
        world = self.world
        effect = world.host.effects[int(world.host.registers[w.EFFECT]) :]
        sends = effect[0] in (contract.SEND, contract.SEND_ASIDE)
        if not sends or 2 * effect[2] <= world.inbox.size:
            count = max(2 * len(world.packets.packet), 1024)
            self.world = world._replace(packets=grow(world.packets, w.allocate_packets(count)))
            return
        words = 4 * int(effect[2])
        # The rows of a packet's items go into one chunk of the trace.
        rows = max(len(world.trace), words + len(world.trace) if self.writer else 0)
        self.world = world._replace(
            inbox=grow(world.inbox, np.zeros(words, np.int64)),
            trace=grow(world.trace, np.zeros((rows, 6), np.int64)),
        )

    def _grow_oracle(self) -> None:
        oracle = self.world.oracle
        larger = judge.allocate(
            on=True,
            nodes=self.scenario.nodes,
            slots=self.capacity.slots,
            messages=2 * oracle.successor.size,
        )
        self.world = self.world._replace(oracle=grow(oracle, larger))

    def _grow_capacity(self) -> None:
        """Slots or held messages have run out: whatever depends on them grows."""
        world, n = self.world, self.scenario.nodes
        slots = self.capacity.slots
        self._check_memory(nbytes(world) + 2 * nbytes(self.state))
        self.state = grow(self.state, self._allocate_state())
        words = self.protocol.effects_words(self.capacity, n)
        self.world = world._replace(
            oracle=grow(
                world.oracle,
                judge.allocate(
                    on=self.scenario.oracle,
                    nodes=n,
                    slots=slots,
                    messages=world.oracle.successor.size,
                ),
            ),
            message=grow(world.message, np.zeros(8 * slots, np.int64)),
            host=grow(world.host, w.allocate_host(slots=slots, effects=words, seed=1, nodes=n)),
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
        assert self.writer is not None
        registers = self.world.host.registers
        rows = self.world.trace[: int(registers[w.ROWS])]
        if len(rows):
            self.writer.write(
                rows[:, w.ROW_TIME_NS].copy(),
                rows[:, w.ROW_NODE].astype(np.int32),
                rows[:, w.ROW_KIND].astype(np.int8),
                rows[:, w.ROW_SOURCE].astype(np.int32),
                rows[:, w.ROW_SEQUENCE].astype(np.int32),
                rows[:, w.ROW_PACKET].copy(),
            )
        registers[w.ROWS] = 0

    def _check_balance(self) -> None:
        """Every reference is held by a node or has ended: the contract's rule 4."""
        held = self.world.node[w.HELD :: 8]
        if (held < 0).any():
            node = int(np.argmin(held))
            raise InternalError(
                f"protocol {self.protocol.name} broke the contract: node {node} delivered or "
                f"dropped {-int(held[node])} messages more than it had received"
            )

    def crashed(self) -> list[int]:
        """The nodes that have crashed so far."""
        blocked = self.world.node[w.BLOCKED_UNTIL_NS :: 8]
        return [int(node) for node in np.flatnonzero(blocked == fault.FOR_EVER_NS)]

    def _lost(self) -> int | None:
        """Deliveries due to a correct node from a correct source that never came."""
        if not self.scenario.oracle and self.scenario.duplication > 0:
            return None
        sent = self.world.node[w.SEQUENCE :: 8]
        n = self.scenario.nodes
        if self.world.delivered.size == 0:
            due = int(self.world.host.registers[w.BROADCASTS]) * (n - 1)
            extra = int(self.world.host.registers[w.DUPLICATES])
            return max(due - int(self.world.host.registers[w.DELIVERIES]) + extra, 0)
        correct = np.ones(n, bool)
        correct[self.crashed()] = False
        missing = np.maximum(sent[np.newaxis, :] - self.world.delivered, 0)
        np.fill_diagonal(missing, 0)
        return int(missing[np.ix_(correct, correct)].sum())

    def _sum_up(self, *, cpu_s: float, wall_s: float) -> Result:
        registers = self.world.host.registers
        held = self.world.node[w.HELD :: 8]
        oracle = self.scenario.oracle
        scenario = self.scenario.echo()
        scenario["parameters"] = vars(self.parameters)
        scenario["drawn"] = self.drawn
        return Result(
            protocol=self.protocol.name,
            nodes=self.scenario.nodes,
            seed=self.scenario.seed,
            broadcasts=int(registers[w.BROADCASTS]),
            deliveries=int(registers[w.DELIVERIES]),
            packets=int(registers[w.PACKETS]),
            messages_sent=int(registers[w.MESSAGES_SENT]),
            packets_by_messages=trimmed(registers[w.PACKETS_OF : w.PACKETS_SIZED]),
            packets_by_bytes=trimmed(registers[w.PACKETS_SIZED : w.VIOLATIONS_TIMED]),
            nodes_by_largest_packet=trimmed(np.bincount(registers[w.REGISTERS :])),
            bytes_sent=int(registers[w.BYTES_SENT]),
            violations=Violations(
                int(registers[w.VIOLATIONS]), int(registers[w.VIOLATING_MESSAGES])
            )
            if oracle
            else None,
            lost=self._lost(),
            duplicates=int(registers[w.DUPLICATES]) if oracle else None,
            pending_max=int(registers[w.PENDING_MAX]),
            pending_at_end=int(held.sum()),
            latency=latency_of(registers, self.world.latency),
            cpu_s=cpu_s,
            wall_s=wall_s,
            simulated_s=int(self.world.host.registers[contract.NOW_NS]) / NANOSECONDS_PER_S,
            complete=int(self.world.queue.mark[events.SIZE]) == 0,
            extra={
                **further_counts(registers, oracle=oracle),
                **self.protocol.extra(self.state),
            },
            series={**series_of(registers, oracle=oracle), **self.protocol.series(self.state)},
            scenario=scenario,
        )
