"""The engine loop: one for every protocol, compiled once for each state class.

``run`` takes events in order, calls the protocol's handlers and carries out their effects. When
an array is too small it returns which one must grow, with its place kept in ``host.registers``;
``sim.run`` grows it and calls again. Nothing is drawn or changed twice.
"""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled, contract
from precedes.model import EventKind
from precedes.sim.engine import layout, oracle, packets, queue, rows, workload
from precedes.sim.engine.effects import carry_out, count_delivery, crash
from precedes.sim.engine.layout import (
    ARRIVAL,
    FAULT,
    FINISHED,
    FLUSH_TRACE,
    GROW_ORACLE,
    GROW_QUEUE,
    GROW_SLOTS,
    ISSUE,
    ISSUE_LATE,
    NONE,
    PAUSED,
    START,
    SUSPECT,
    TIMER,
)
from precedes.sim.engine.queue import Queue
from precedes.sim.engine.world import (
    CRASH,
    FAULT_KIND,
    FAULT_NODE,
    FAULT_OTHER,
    FAULT_UNTIL_NS,
    FOR_EVER_NS,
    PAUSE,
    World,
)

# Events between the prefetch and the event itself.
AHEAD: Final = 12

BROADCAST_KIND: Final = int(EventKind.BROADCAST)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)


def run(world: World, state: Any, slice_events: int) -> int:
    """Process events until the queue is empty, something must grow, or the slice is over."""
    events = world.queue
    registers = world.host.registers
    for _ in range(slice_events):
        if registers[contract.LENGTH] > 0 or registers[layout.ARRIVED] > 0:
            status = carry_out(world, state)
            if status != FINISHED:
                return status
        event = queue.pop(events)
        if event == NONE:
            return FINISHED
        _look_ahead(events, state)
        time_ns = queue.time_ns_of(events, event)
        if time_ns > registers[layout.HORIZON_NS]:
            queue.unpop(events)
            return FINISHED
        registers[contract.NOW_NS] = time_ns
        node = queue.node_of(event)
        kind = queue.kind_of(events, event)
        subject = queue.argument_of(events, event)
        if event & queue.OTHER == 0 and registers[layout.SLOW_PATH] == 0:
            status = _arrive_quickly(world, state, node, ~subject, time_ns)
        else:
            status = _process(world, state, kind, node, subject)
        if status != FINISHED:
            queue.unpop(events)
            return status
        queue.release(events, event)
        if kind == ISSUE:
            workload.schedule_next(world.workload, events, subject)
    return PAUSED


@compiled.function()
def _look_ahead(events: Queue, state: Any) -> None:
    """Prefetch for an event to come, in groups so large that buckets are.

    The state that it will read is not in the cache then. In small groups it is, and looking
    into the next bucket costs more than it gains.
    """
    place = events.mark[queue.POSITION] + AHEAD
    if place < events.mark[queue.COUNT]:
        contract.expect(state, queue.node_of(events.opened[place]))


@compiled.function()
def _arrive_quickly(world: World, state: Any, node: int, slot: int, time_ns: int) -> int:
    """The fast path: a message straight from its source, without faults, trace or replay."""
    host = world.host
    registers = host.registers
    world.inbox[0] = 0
    world.inbox[1] = slot
    source = int(host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
    contract.receive(state, node, source, world.inbox, 1, host)
    latency_ns = time_ns - world.message[slot, layout.BORN_NS]
    registers[layout.RECEPTIONS] += 1
    registers[layout.RECEPTION_NS] += latency_ns
    at_once = host.effects[0] == contract.DELIVER and host.effects[1] == slot
    if registers[contract.LENGTH] == 2 and at_once:
        registers[contract.LENGTH] = 0
        count_delivery(world, node, slot, source, latency_ns)
        packets.end_reference(world.message, registers, slot)
    else:
        world.node[node, layout.HELD] += 1
        registers[layout.HERE] = node
        registers[layout.ARRIVED] = 1
    return FINISHED


@compiled.function(inline=False)
def _process(world: World, state: Any, kind: int, node: int, argument: int) -> int:
    """Any event, on the general path."""
    registers = world.host.registers
    registers[layout.HERE] = node
    if rows.needs_flush(world.trace, registers, world.inbox.size + world.node.shape[0]):
        return FLUSH_TRACE
    if kind == FAULT:
        return _fail(world, argument)
    if world.node[node, layout.BLOCKED_UNTIL_NS] > registers[contract.NOW_NS]:
        return _hold_back(world, kind, node, argument)
    if kind == ARRIVAL:
        return _arrive(world, state, node, argument)
    if kind in (ISSUE, ISSUE_LATE):
        return _issue(world, state, node, NONE if kind == ISSUE else argument)
    if kind == START:
        contract.start(state, node, world.host)
    elif kind == TIMER:
        contract.on_timer(state, node, argument, world.host)
    elif kind == SUSPECT:
        contract.on_crash(state, node, argument, world.host)
    return FINISHED


@compiled.function()
def _arrive(world: World, state: Any, node: int, argument: int) -> int:
    """Pass a packet to the protocol: ``argument`` is ~slot, or the number of a packet."""
    inbox = world.inbox
    count = 1
    if argument < 0:
        inbox[0] = 0
        inbox[1] = ~argument
        sender = int(world.host.name[2 * (~argument) + contract.SOURCE])
    else:
        sender = world.packets.packet[argument, packets.SENDER]
        count = packets.unpack(world.packets, inbox, argument)
    contract.receive(state, node, sender, inbox, count, world.host)
    world.host.registers[layout.ARRIVED] = count
    _count_arrival(world, node, argument, count)
    return FINISHED


@compiled.function()
def _count_arrival(world: World, node: int, argument: int, count: int) -> None:
    """Count what arrived, end references that are not the protocol's, free the packet."""
    registers = world.host.registers
    number = NONE if argument < 0 else world.packets.packet[argument, packets.PACKET_NUMBER]
    for i in range(count):
        item_class = world.item_class[world.inbox[2 * i]]
        slot = world.inbox[2 * i + 1]
        if item_class == contract.MESSAGE:
            world.node[node, layout.HELD] += 1
            registers[layout.RECEPTIONS] += 1
            registers[layout.RECEPTION_NS] += (
                registers[contract.NOW_NS] - world.message[slot, layout.BORN_NS]
            )
            if registers[layout.RECORDING_PACKETS] != 0:
                rows.record_message(world.trace, world.host, RECEIVE_KIND, node, slot, number)
        elif item_class == contract.REFERENCE:
            packets.end_reference(world.message, registers, slot)
    if argument >= 0:
        packets.end_copy(world.packets, registers, argument, 1)


@compiled.function()
def _issue(world: World, state: Any, node: int, label: int) -> int:
    """Broadcast for the application at this node."""
    number = world.host.registers[layout.BROADCASTS]
    if not oracle.has_room(world.oracle, number):
        return GROW_ORACLE
    if not queue.has_room(world.queue, 2):
        return GROW_QUEUE
    fresh = world.host.registers[layout.SLOT_HIGH]
    slot = packets.take_slot(world.message, world.host.registers)
    if slot == NONE:
        return GROW_SLOTS
    sequence = world.node[node, layout.SEQUENCE] + 1
    world.host.name[2 * slot + contract.SOURCE] = node
    world.host.name[2 * slot + contract.SEQUENCE] = sequence
    world.message[slot, layout.REFERENCES] = 1
    contract.broadcast(state, node, slot, world.host)
    world.host.release(slot)
    world.node[node, layout.SEQUENCE] = sequence
    world.host.registers[layout.BROADCASTS] = number + 1
    world.message[slot, layout.BORN_NS] = world.host.registers[contract.NOW_NS]
    world.message[slot, layout.NUMBER] = number
    world.message[slot, layout.LABEL] = label
    world.message[slot, layout.FLAGGED] = 0
    delivered = world.message[slot, layout.DELIVERED]
    everywhere = slot == fresh or delivered == world.node.shape[0] - 1
    world.message[slot, layout.DELIVERED] = 0
    oracle.on_broadcast(world.oracle, world.node, node, slot, number, everywhere)
    if world.host.registers[layout.RECORDING] != 0:
        rows.record_message(world.trace, world.host, BROADCAST_KIND, node, slot, -1)
    if label >= 0:
        workload.on_known(world.workload, node, label)
    return FINISHED


@compiled.function()
def _fail(world: World, row: int) -> int:
    """Apply one scheduled fault."""
    schedule = world.faults.schedule
    node = schedule[row, FAULT_NODE]
    until_ns = schedule[row, FAULT_UNTIL_NS]
    if schedule[row, FAULT_KIND] == CRASH:
        if not queue.has_room(world.queue, world.node.shape[0]):
            return GROW_QUEUE
        crash(world, node)
    elif schedule[row, FAULT_KIND] == PAUSE:
        blocked_ns = world.node[node, layout.BLOCKED_UNTIL_NS]
        world.node[node, layout.BLOCKED_UNTIL_NS] = max(blocked_ns, until_ns)
    else:
        world.network.cut_until_ns[node, schedule[row, FAULT_OTHER]] = until_ns
    return FINISHED


@compiled.function()
def _hold_back(world: World, kind: int, node: int, argument: int) -> int:
    """Postpone an event for a node that cannot act, or drop it if the node has crashed."""
    if not queue.has_room(world.queue, 2):
        return GROW_QUEUE
    until_ns = world.node[node, layout.BLOCKED_UNTIL_NS]
    if until_ns < FOR_EVER_NS:
        if kind == ISSUE:
            # The broadcasts after it do not wait for this node.
            kind = ISSUE_LATE
            argument = NONE
        queue.push_one(world.queue, until_ns, kind | node, argument)
        return FINISHED
    if kind == ARRIVAL and argument < 0:
        packets.end_reference(world.message, world.host.registers, ~argument)
    elif kind == ARRIVAL:
        count = packets.unpack(world.packets, world.inbox, argument)
        for i in range(count):
            if world.item_class[world.inbox[2 * i]] < contract.NUMBER:
                packets.end_reference(world.message, world.host.registers, world.inbox[2 * i + 1])
        packets.end_copy(world.packets, world.host.registers, argument, 1)
    return FINISHED


# The state is passed by address: it has up to a hundred arrays, of which a helper reads a few. The
# world's arrays are few, and by value Numba keeps more of them in registers.
ENTRY: Final = compiled.Entry(run, label="the simulator", job="simulator", by_reference=("state",))
