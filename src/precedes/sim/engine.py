"""The engine loop: one for every protocol, compiled once for each state class.

``run`` takes events in order, calls the protocol's handlers and carries out their effects. When
an array is too small it returns what must grow, with its place kept in ``world.progress``;
``sim.run`` grows it and calls again. Nothing is drawn or changed twice.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from precedes import compiled
from precedes.model import EventKind
from precedes.protocols import contract
from precedes.protocols.contract import Host
from precedes.sim import faults as fault
from precedes.sim import network as net
from precedes.sim import oracle as judge
from precedes.sim import queue as events
from precedes.sim import workload as load
from precedes.sim import world as w
from precedes.sim.world import World

# What ``run`` returns.
FINISHED: Final = 0
GROW_QUEUE: Final = 1
GROW_SLOTS: Final = 2
GROW_STATE: Final = 3
GROW_PACKETS: Final = 4
GROW_ORACLE: Final = 5
FLUSH_TRACE: Final = 6
EFFECTS_OVERFLOW: Final = 7
PAUSED: Final = 8  # the time slice is over: report progress and go on

# Kinds of queue entries, above the node in ``where``.
ARRIVAL: Final = 0 << events.WHERE_BITS
ISSUE: Final = 1 << events.WHERE_BITS
TIMER: Final = 2 << events.WHERE_BITS
FAULT: Final = 3 << events.WHERE_BITS
SUSPECT: Final = 4 << events.WHERE_BITS

BROADCAST_KIND: Final = int(EventKind.BROADCAST)
SEND_KIND: Final = int(EventKind.SEND)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)
DELIVER_KIND: Final = int(EventKind.DELIVER)
CRASH_KIND: Final = int(EventKind.CRASH)


def run(
    world: World,
    state: Any,
    network_generator: np.random.Generator,
    workload_generator: np.random.Generator,
    slice_events: int,
) -> int:
    """Go on until the queue is empty, something must grow, or the slice is over."""
    for _ in range(slice_events):
        status = _carry_out(world, state, network_generator)
        if status != FINISHED:
            return status
        entry = events.pop(world.queue)
        if entry == events.NONE:
            return FINISHED
        time_ns = world.queue.time_ns[entry]
        if time_ns > world.horizon_ns[0]:
            events.unpop(world.queue)
            return FINISHED
        world.host.now_ns[0] = time_ns
        where = world.queue.where[entry]
        what = world.queue.what[entry]
        node = where & events.WHERE_MASK
        kind = where - node
        world.progress[w.NODE] = node
        if kind != FAULT and world.faults.blocked_until_ns[node] > time_ns:
            events.release(world.queue, entry)
            _hold_back(world, where, node, what)
            continue
        if kind == ARRIVAL:
            status = _arrive(world, state, node, what)
        elif kind == ISSUE:
            status = _issue(world, state, node, what, workload_generator)
        else:
            status = _other(world, state, kind, node, what)
        if status != FINISHED:
            events.unpop(world.queue)
            return status
        events.release(world.queue, entry)
        if kind == ISSUE:
            _schedule_next(world, node, workload_generator)
    return PAUSED


@compiled.function()
def _arrive(world: World, state: Any, node: int, what: int) -> int:
    """Hand a packet to the protocol: ``what`` is ~slot, or the number of a packet."""
    inbox = world.inbox
    if what < 0:
        slot = ~what
        inbox.tag[0] = 0
        inbox.value[0] = slot
        inbox.count[0] = 1
        sender = world.host.source[slot]
        if contract.receive(state, node, sender, inbox, world.host) != contract.DONE:
            return GROW_STATE
        world.held[node] += 1
        world.counters[w.RECEPTIONS] += 1
        world.counters[w.RECEPTION_NS] += world.host.now_ns[0] - world.messages.born_ns[slot]
    else:
        sender = world.packets.sender[what]
        _unpack(world, what)
        if contract.receive(state, node, sender, inbox, world.host) != contract.DONE:
            return GROW_STATE
        _after_packet(world, node, what)
    world.progress[w.ARRIVED] = inbox.count[0]
    return FINISHED


@compiled.function(inline=False)
def _unpack(world: World, packet: int) -> None:
    inbox = world.inbox
    item = world.packets.first[packet]
    count = 0
    while item != w.NONE:
        inbox.tag[count] = world.packets.item_tag[item]
        inbox.value[count] = world.packets.item_value[item]
        count += 1
        item = world.packets.item_link[item]
    inbox.count[0] = count


@compiled.function(inline=False)
def _after_packet(world: World, node: int, packet: int) -> None:
    """Count what arrived, let references that are not the protocol's go, free the packet."""
    inbox = world.inbox
    for i in range(inbox.count[0]):
        item_class = world.item_class[inbox.tag[i]]
        slot = inbox.value[i]
        if item_class == contract.MESSAGE:
            world.held[node] += 1
            world.counters[w.RECEPTIONS] += 1
            world.counters[w.RECEPTION_NS] += world.host.now_ns[0] - world.messages.born_ns[slot]
        elif item_class == contract.REFERENCE:
            w.end_reference(world.messages, slot)
    if world.recorder.packets[0]:
        w.record(world, RECEIVE_KIND, node, world.packets.sender[packet], 0, packet)
    _free_packet(world, packet)


@compiled.function(inline=False)
def _free_packet(world: World, packet: int) -> None:
    packets = world.packets
    packets.copies[packet] -= 1
    if packets.copies[packet] > 0:
        return
    item = packets.first[packet]
    while item != w.NONE:
        following = packets.item_link[item]
        packets.item_link[item] = packets.mark[2]
        packets.mark[2] = item
        item = following
    packets.link[packet] = packets.mark[0]
    packets.mark[0] = packet


@compiled.function(inline=False)
def _issue(
    world: World, state: Any, node: int, label: int, generator: np.random.Generator
) -> int:
    """The application at this node broadcasts."""
    number = world.counters[w.BROADCASTS]
    if not judge.has_room(world.oracle, number):
        return GROW_ORACLE
    if not events.has_room(world.queue, 1):
        return GROW_QUEUE
    if world.recorder.on[0] and _recorder_is_full(world):
        return FLUSH_TRACE
    messages = world.messages
    slot = w.take_slot(messages)
    if slot == w.NONE:
        return GROW_SLOTS
    world.host.source[slot] = node
    world.host.sequence[slot] = world.sequence[node] + 1
    messages.references[slot] = 1
    if contract.broadcast(state, node, slot, world.host) != contract.DONE:
        w.end_reference(messages, slot)
        return GROW_STATE
    world.sequence[node] += 1
    world.counters[w.BROADCASTS] = number + 1
    messages.born_ns[slot] = world.host.now_ns[0]
    messages.number[slot] = number
    messages.label[slot] = label
    judge.on_broadcast(world.oracle, node, slot, number)
    if world.recorder.on[0]:
        w.record(world, BROADCAST_KIND, node, node, world.sequence[node], -1)
    if label >= 0:
        load.on_known(world.workload, node, label)
    # The host's own reference ends when the effects have been carried out.
    contract.drop(world.host, slot)
    world.held[node] += 1
    world.counters[w.DROPPED] -= 1
    return FINISHED


@compiled.function(inline=False)
def _schedule_next(world: World, node: int, generator: np.random.Generator) -> None:
    time_ns = load.next_time_ns(world.workload, node, world.host.now_ns[0], generator)
    if time_ns != load.NEVER:
        node = load.next_node(world.workload, node, world.sequence.size, generator)
        events.push(world.queue, time_ns, ISSUE | node, -1)


@compiled.function(inline=False)
def _other(world: World, state: Any, kind: int, node: int, what: int) -> int:
    if kind == TIMER:
        contract.on_timer(state, node, what, world.host)
    elif kind == SUSPECT:
        contract.on_crash(state, node, what, world.host)
    elif world.faults.kind[what] == fault.CRASH:
        if not events.has_room(world.queue, world.sequence.size):
            return GROW_QUEUE
        if world.recorder.on[0] and _recorder_is_full(world):
            return FLUSH_TRACE
        _crash(world, node)
    elif world.faults.kind[what] == fault.PAUSE:
        until_ns = max(world.faults.blocked_until_ns[node], world.faults.until_ns[what])
        world.faults.blocked_until_ns[node] = until_ns
    else:
        other = world.faults.other[what]
        until_ns = max(world.network.cut_until_ns[node, other], world.faults.until_ns[what])
        world.network.cut_until_ns[node, other] = until_ns
        world.network.cut_holds[node, other] = world.faults.holds[what]
    return FINISHED


@compiled.function(inline=False)
def _crash(world: World, node: int) -> None:
    """The node stops for good, and the others learn it after their detection delays."""
    if world.faults.blocked_until_ns[node] == fault.FOR_EVER_NS:
        return
    world.faults.blocked_until_ns[node] = fault.FOR_EVER_NS
    world.held[node] = 0
    if world.recorder.on[0]:
        w.record(world, CRASH_KIND, node, node, 0, -1)
    for observer in range(world.sequence.size):
        if observer != node:
            delay_ns = world.faults.detection_ns[node, observer]
            events.push(world.queue, world.host.now_ns[0] + delay_ns, SUSPECT | observer, node)


@compiled.function(inline=False)
def _hold_back(world: World, where: int, node: int, what: int) -> None:
    """An event for a node that cannot act: put it off, or let it go if the node has crashed."""
    until_ns = world.faults.blocked_until_ns[node]
    kind = where - node
    if until_ns < fault.FOR_EVER_NS:
        events.push(world.queue, until_ns, where, what)
    elif kind == ARRIVAL and what < 0:
        w.end_reference(world.messages, ~what)
    elif kind == ARRIVAL:
        _unpack(world, what)
        for i in range(world.inbox.count[0]):
            if world.item_class[world.inbox.tag[i]] != contract.NUMBER:
                w.end_reference(world.messages, world.inbox.value[i])
        _free_packet(world, what)
    elif kind == ISSUE:
        world.counters[w.SKIPPED] += 1


@compiled.function()
def _recorder_is_full(world: World) -> bool:
    margin = 4 + (3 * world.sequence.size if world.recorder.packets[0] else 0)
    return world.recorder.length[0] + margin > world.recorder.time_ns.size


@compiled.function()
def _carry_out(world: World, state: Any, generator: np.random.Generator) -> int:
    """Carry out the effects of the last handler, from where an earlier call stopped."""
    host = world.host
    length = host.cursor[contract.LENGTH]
    if length == 0:
        return FINISHED
    node = world.progress[w.NODE]
    at = world.progress[w.EFFECT]
    while at < length:
        code = host.effects[at]
        if world.recorder.on[0] and _recorder_is_full(world):
            world.progress[w.EFFECT] = at
            return FLUSH_TRACE
        if code == contract.DELIVER:
            _deliver(world, node, host.effects[at + 1])
            at += 2
        elif code == contract.SEND_ALL:
            tag, value = host.effects[at + 1], host.effects[at + 2]
            status = _send_all(world, state, node, tag, value, generator)
            if status != FINISHED:
                world.progress[w.EFFECT] = at
                return status
            at += 3
        else:
            status = _carry_out_other(world, state, node, at, generator)
            if status < 0:
                world.progress[w.EFFECT] = at
                return -status
            at = status
    return _after_effects(world, node)


@compiled.function()
def _after_effects(world: World, node: int) -> int:
    host = world.host
    if host.cursor[contract.OVERFLOW] != 0:
        return EFFECTS_OVERFLOW
    if world.workload.issued[load.READY] > 0:
        status = _schedule_ready(world)
        if status != FINISHED:
            world.progress[w.EFFECT] = host.cursor[contract.LENGTH]
            return status
    host.cursor[contract.LENGTH] = 0
    world.progress[w.EFFECT] = 0
    if world.held[node] > world.counters[w.PENDING_MAX]:
        world.counters[w.PENDING_MAX] = world.held[node]
    return FINISHED


@compiled.function(inline=False)
def _schedule_ready(world: World) -> int:
    """Replay: schedule the events that the last delivery made ready."""
    workload = world.workload
    if not events.has_room(world.queue, workload.issued[load.READY]):
        return GROW_QUEUE
    for i in range(workload.issued[load.READY]):
        event = workload.ready[i]
        if workload.issued[load.COUNT] < workload.messages_max[0]:
            workload.issued[load.COUNT] += 1
            time_ns = world.host.now_ns[0] + workload.gap_ns[0]
            events.push(world.queue, time_ns, ISSUE | workload.agent[event], event)
    workload.issued[load.READY] = 0
    return FINISHED


@compiled.function()
def _deliver(world: World, node: int, slot: int) -> None:
    host = world.host
    messages = world.messages
    source = host.source[slot]
    sequence = host.sequence[slot]
    latency_ns = host.now_ns[0] - messages.born_ns[slot]
    world.counters[w.DELIVERIES] += 1
    world.counters[w.DELIVERY_NS] += latency_ns
    world.latency[w.latency_bin(latency_ns)] += 1
    world.held[node] -= 1
    if world.oracle.on[0]:
        number = messages.number[slot]
        verdict = judge.on_deliver(world.oracle, node, slot, number, source, sequence)
        if verdict != judge.IN_ORDER:
            _count_error(world, slot, verdict)
    if world.delivered.size > 0:
        world.delivered[node, source] += 1
    if world.recorder.on[0]:
        w.record(world, DELIVER_KIND, node, source, sequence, -1)
    if messages.label[slot] >= 0:
        load.on_known(world.workload, node, messages.label[slot])
    w.end_reference(messages, slot)


@compiled.function(inline=False)
def _count_error(world: World, slot: int, verdict: int) -> None:
    if verdict == judge.DUPLICATE:
        world.counters[w.DUPLICATES] += 1
        return
    world.counters[w.VIOLATIONS] += 1
    if not world.oracle.flagged[slot]:
        world.oracle.flagged[slot] = True
        world.counters[w.VIOLATING_MESSAGES] += 1


@compiled.function()
def _send_all(
    world: World, state: Any, node: int, tag: int, value: int, generator: np.random.Generator
) -> int:
    """A packet of one item to everybody else."""
    nodes = world.sequence.size
    if not events.has_room(world.queue, 2 * nodes):
        return GROW_QUEUE
    network = world.network
    direct = tag == 0 and world.host.source[value] == node
    if direct and network.plain[0] and not world.recorder.packets[0]:
        now_ns = world.host.now_ns[0]
        size_bytes = _message_bytes(world, state, value) + network.packet_bytes[0]
        for i in range(1, nodes):
            target = node + i
            if target >= nodes:
                target -= nodes
            time_ns = now_ns + net.travel_ns(network, node, target, generator)
            time_ns += network.processing_ns[0]
            events.push(world.queue, time_ns, ARRIVAL | target, ~value)
        world.messages.references[value] += nodes - 1
        world.counters[w.PACKETS] += nodes - 1
        world.counters[w.MESSAGES_SENT] += nodes - 1
        world.counters[w.BYTES_SENT] += size_bytes * (nodes - 1)
        return FINISHED
    for i in range(1, nodes):
        pass
    return FINISHED


@compiled.function()
def _message_bytes(world: World, state: Any, slot: int) -> int:
    return contract.message_bytes(state, slot) + world.network.payload_bytes[0]


@compiled.function(inline=False)
def _carry_out_other(
    world: World, state: Any, node: int, at: int, generator: np.random.Generator
) -> int:
    """The rarer effects; returns where the next one begins, or minus what must grow."""
    effects = world.host.effects
    code = effects[at]
    slot = effects[at + 1]
    if code == contract.DROP:
        world.held[node] -= 1
        world.counters[w.DROPPED] += 1
        w.end_reference(world.messages, slot)
        return at + 2
    return at + 3


ENTRY: Final = compiled.Entry(run, label="the engine")
