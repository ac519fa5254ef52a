"""The engine loop: one for every protocol, compiled once for each state class.

``run`` takes events in order, calls the protocol's handlers and carries out their effects. When
an array is too small it returns what must grow, with its place kept in ``host.registers``;
``sim.run`` grows it and calls again. Nothing is drawn or changed twice.
"""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled, contract
from precedes.model import EventKind
from precedes.sim.engine import faults as fault
from precedes.sim.engine import oracle as judge
from precedes.sim.engine import queue as events
from precedes.sim.engine import workload as load
from precedes.sim.engine import world as w
from precedes.sim.engine.effects import carry_out, count_delivery
from precedes.sim.engine.world import (
    ARRIVAL,
    FAULT,
    FINISHED,
    FLUSH_TRACE,
    GROW_ORACLE,
    GROW_QUEUE,
    GROW_SLOTS,
    GROW_STATE,
    ISSUE,
    ISSUE_LATE,
    NEITHER,
    PAUSED,
    START,
    SUSPECT,
    TIMER,
    World,
)

BROADCAST_KIND: Final = int(EventKind.BROADCAST)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)
CRASH_KIND: Final = int(EventKind.CRASH)


def run(world: World, state: Any, slice_events: int) -> int:
    """Go on until the queue is empty, something must grow, or the slice is over."""
    queue = world.queue
    registers = world.host.registers
    for _ in range(slice_events):
        if registers[contract.LENGTH] > 0 or registers[w.ARRIVED] > 0:
            status = carry_out(world, state)
            if status != FINISHED:
                return status
        entry = events.pop(queue)
        if entry == events.NONE:
            return FINISHED
        time_ns = queue.entry[entry + events.TIME]
        where = queue.entry[entry + events.WHERE]
        what = queue.entry[entry + events.WHAT]
        if time_ns > registers[w.HORIZON_NS]:
            events.unpop(queue)
            return FINISHED
        registers[contract.NOW_NS] = time_ns
        node = where & events.WHERE_MASK
        if where < ISSUE and what < 0 and registers[w.CARE] == 0:
            status = _arrive_quickly(world, state, node, ~what, time_ns)
        else:
            status = _process(world, state, where - node, node, what)
        if status != FINISHED:
            events.unpop(queue)
            return status
        events.release(queue, entry)
        if where - node == ISSUE:
            _schedule_next(queue, world.workload, what)
    return PAUSED


@compiled.function()
def _arrive_quickly(world: World, state: Any, node: int, slot: int, time_ns: int) -> int:
    """A message straight from its source, in a run without faults, trace or replay."""
    host = world.host
    registers = host.registers
    world.inbox[0] = 0
    world.inbox[1] = slot
    source = int(host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
    status = contract.receive(state, node, source, world.inbox, 1, host)
    if status != contract.DONE:
        return _after_refusal(status)
    latency_ns = time_ns - world.message[8 * slot + w.BORN_NS]
    registers[w.RECEPTIONS] += 1
    registers[w.RECEPTION_NS] += latency_ns
    at_once = host.effects[0] == contract.DELIVER and host.effects[1] == slot
    if registers[contract.LENGTH] == 2 and at_once:
        registers[contract.LENGTH] = 0
        count_delivery(world, node, slot, source, latency_ns)
        w.end_reference(world.message, registers, slot)
    else:
        world.node[8 * node + w.HELD] += 1
        registers[w.HERE] = node
        registers[w.ARRIVED] = 1
    return FINISHED


@compiled.function()
def _after_refusal(status: int) -> int:
    """What to do when a handler did not return DONE."""
    return GROW_STATE if status == contract.FULL else NEITHER


@compiled.function(inline=False)
def _process(world: World, state: Any, kind: int, node: int, what: int) -> int:
    """Any event, with all that may go wrong."""
    registers = world.host.registers
    registers[w.HERE] = node
    if w.needs_flush(world.trace, registers, world.inbox.size + world.node.size // 8):
        return FLUSH_TRACE
    if kind == FAULT:
        return _fail(world, what)
    if world.node[8 * node + w.BLOCKED_UNTIL_NS] > registers[contract.NOW_NS]:
        return _hold_back(world, kind, node, what)
    if kind == ARRIVAL:
        return _arrive(world, state, node, what)
    if kind in (ISSUE, ISSUE_LATE):
        return _issue(world, state, node, w.NONE if kind == ISSUE else what)
    status = contract.DONE
    if kind == START:
        status = contract.start(state, node, world.host)
    elif kind == TIMER:
        status = contract.on_timer(state, node, what, world.host)
    elif kind == SUSPECT:
        status = contract.on_crash(state, node, what, world.host)
    return FINISHED if status == contract.DONE else _after_refusal(status)


@compiled.function()
def _arrive(world: World, state: Any, node: int, what: int) -> int:
    """Hand a packet to the protocol: ``what`` is ~slot, or the number of a packet."""
    inbox = world.inbox
    count = 1
    if what < 0:
        inbox[0] = 0
        inbox[1] = ~what
        sender = int(world.host.name[2 * (~what) + contract.SOURCE])
    else:
        sender = world.packets.packet[what, w.SENDER]
        count = _unpack(world.packets, inbox, what)
    status = contract.receive(state, node, sender, inbox, count, world.host)
    if status != contract.DONE:
        return _after_refusal(status)
    world.host.registers[w.ARRIVED] = count
    _count_arrival(world, node, what, count)
    return FINISHED


@compiled.function(inline=False)
def _unpack(packets: w.Packets, inbox: Any, packet: int) -> int:
    item = packets.packet[packet, w.FIRST_ITEM]
    count = 0
    while item != w.NONE:
        inbox[2 * count] = packets.item[item, w.TAG]
        inbox[2 * count + 1] = packets.item[item, w.VALUE]
        count += 1
        item = packets.item[item, w.ITEM_LINK]
    return count


@compiled.function()
def _count_arrival(world: World, node: int, what: int, count: int) -> None:
    """Count what arrived, let references that are not the protocol's go, free the packet."""
    registers = world.host.registers
    number = w.NONE if what < 0 else world.packets.packet[what, w.PACKET_NUMBER]
    for i in range(count):
        item_class = world.item_class[world.inbox[2 * i]]
        slot = world.inbox[2 * i + 1]
        if item_class == contract.MESSAGE:
            world.node[8 * node + w.HELD] += 1
            registers[w.RECEPTIONS] += 1
            registers[w.RECEPTION_NS] += (
                registers[contract.NOW_NS] - world.message[8 * slot + w.BORN_NS]
            )
            if registers[w.RECORDING_PACKETS] != 0:
                w.record_message(world.trace, world.host, RECEIVE_KIND, node, slot, number)
        elif item_class == contract.REFERENCE:
            w.end_reference(world.message, registers, slot)
    if what >= 0:
        w.end_copy(world.packets, registers, what, 1)


@compiled.function()
def _issue(world: World, state: Any, node: int, label: int) -> int:
    """The application at this node broadcasts."""
    number = world.host.registers[w.BROADCASTS]
    if not judge.has_room(world.oracle, number):
        return GROW_ORACLE
    if not events.has_room(world.queue, 2):
        return GROW_QUEUE
    fresh = world.host.registers[w.SLOT_HIGH]
    slot = w.take_slot(world.message, world.host.registers)
    if slot == w.NONE:
        return GROW_SLOTS
    sequence = world.node[8 * node + w.SEQUENCE] + 1
    world.host.name[2 * slot + contract.SOURCE] = node
    world.host.name[2 * slot + contract.SEQUENCE] = sequence
    world.message[8 * slot + w.REFERENCES] = 1
    status = contract.broadcast(state, node, slot, world.host)
    if status != contract.DONE:
        w.end_reference(world.message, world.host.registers, slot)
        return _after_refusal(status)
    contract.release(world.host, slot)
    world.node[8 * node + w.SEQUENCE] = sequence
    world.host.registers[w.BROADCASTS] = number + 1
    world.message[8 * slot + w.BORN_NS] = world.host.registers[contract.NOW_NS]
    world.message[8 * slot + w.NUMBER] = number
    world.message[8 * slot + w.LABEL] = label
    world.message[8 * slot + w.FLAGGED] = 0
    delivered = world.message[8 * slot + w.DELIVERED]
    everywhere = slot == fresh or delivered == world.node.size // 8 - 1
    world.message[8 * slot + w.DELIVERED] = 0
    judge.on_broadcast(world.oracle, world.node, node, slot, number, everywhere)
    if world.host.registers[w.RECORDING] != 0:
        w.record_message(world.trace, world.host, BROADCAST_KIND, node, slot, -1)
    if label >= 0:
        load.on_known(world.workload, node, label)
    return FINISHED


@compiled.function(inline=False)
def _schedule_next(queue: events.Queue, workload: load.Workload, row: int) -> None:
    """Queue the broadcast after this row of the schedule: one of them waits at a time."""
    if row + 1 < workload.issue.shape[0]:
        time_ns = workload.issue[row + 1, load.TIME_NS]
        events.push_one(queue, time_ns, ISSUE | workload.issue[row + 1, load.NODE], row + 1)


@compiled.function()
def _fail(world: World, row: int) -> int:
    """A line of the fault schedule comes true."""
    schedule = world.faults.schedule
    node = schedule[row, fault.NODE]
    until_ns = schedule[row, fault.UNTIL_NS]
    if schedule[row, fault.KIND] == fault.CRASH:
        if not events.has_room(world.queue, world.node.size // 8):
            return GROW_QUEUE
        w.crash(world, node)
    elif schedule[row, fault.KIND] == fault.PAUSE:
        blocked_ns = world.node[8 * node + w.BLOCKED_UNTIL_NS]
        world.node[8 * node + w.BLOCKED_UNTIL_NS] = max(blocked_ns, until_ns)
    else:
        world.network.cut_until_ns[node, schedule[row, fault.OTHER]] = until_ns
    return FINISHED


@compiled.function()
def _hold_back(world: World, kind: int, node: int, what: int) -> int:
    """An event for a node that cannot act: put it off, or let it go if the node has crashed."""
    if not events.has_room(world.queue, 2):
        return GROW_QUEUE
    until_ns = world.node[8 * node + w.BLOCKED_UNTIL_NS]
    if until_ns < fault.FOR_EVER_NS:
        if kind == ISSUE:
            # The broadcasts after it do not wait for this node.
            kind = ISSUE_LATE
            what = w.NONE
        events.push_one(world.queue, until_ns, kind | node, what)
        return FINISHED
    if kind in (ISSUE, ISSUE_LATE):
        world.host.registers[w.SKIPPED] += 1
    elif kind == ARRIVAL and what < 0:
        w.end_reference(world.message, world.host.registers, ~what)
    elif kind == ARRIVAL:
        count = _unpack(world.packets, world.inbox, what)
        for i in range(count):
            if world.item_class[world.inbox[2 * i]] != contract.NUMBER:
                w.end_reference(world.message, world.host.registers, world.inbox[2 * i + 1])
        w.end_copy(world.packets, world.host.registers, what, 1)
    return FINISHED


ENTRY: Final = compiled.Entry(run, label="the simulator")
