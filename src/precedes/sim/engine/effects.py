"""Carrying out what a handler asked for: deliveries, packets, timers."""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled, contract
from precedes.contract import Host, Int64s
from precedes.model import EventKind
from precedes.sim.engine import faults as fault
from precedes.sim.engine import network as net
from precedes.sim.engine import oracle as judge
from precedes.sim.engine import queue as events
from precedes.sim.engine import workload as load
from precedes.sim.engine import world as w
from precedes.sim.engine.world import (
    ARRIVAL,
    DRAW,
    EFFECTS_OVERFLOW,
    FINISHED,
    FLUSH_TRACE,
    GROW_PACKETS,
    GROW_QUEUE,
    ISSUE_LATE,
    TIMER,
    World,
)

RECEIVE_KIND: Final = int(EventKind.RECEIVE)
DELIVER_KIND: Final = int(EventKind.DELIVER)

REFERENCE_BYTES: Final = 8  # source and sequence
NUMBER_BYTES: Final = 8


@compiled.function(inline=False)
def carry_out(world: World, state: Any) -> int:
    """Carry out the effects of the last handler, from where an earlier call stopped."""
    host = world.host
    node = world.host.registers[w.HERE]
    status = FINISHED
    at = world.host.registers[w.EFFECT]
    while at < host.registers[contract.LENGTH]:
        if w.needs_flush(
            world.trace, world.host.registers, world.inbox.size + world.node.size // 8
        ):
            status = FLUSH_TRACE
            break
        code = host.effects[at]
        if code == contract.DELIVER:
            _deliver(world, node, host.effects[at + 1])
            at += 2
            continue
        world.host.registers[w.EFFECT] = at
        if code == contract.SEND_ALL:
            status = _send_all(world, state, node, at)
        else:
            status = _carry_out_other(world, state, node, at)
        if status != FINISHED:
            break
        at = contract.next_effect(host.effects, at)
    world.host.registers[w.EFFECT] = at
    return _after_effects(world, node) if status == FINISHED else status


@compiled.function()
def _after_effects(world: World, node: int) -> int:
    host = world.host
    if host.registers[contract.OVERFLOW] != 0:
        return EFFECTS_OVERFLOW
    if world.workload.replay[load.READY] > 0:
        if not events.has_room(world.queue, world.workload.replay[load.READY]):
            return GROW_QUEUE
        _schedule_ready(world.queue, world.workload, host.registers[contract.NOW_NS])
    held = world.node[8 * node + w.HELD]
    if held > 0:
        world.host.registers[w.PENDING_MAX] = max(world.host.registers[w.PENDING_MAX], held)
        if host.registers[w.RECORDING] != 0 and host.registers[w.RECORDING_PACKETS] == 0:
            if w.needs_flush(
                world.trace, world.host.registers, world.inbox.size + world.node.size // 8
            ):
                return FLUSH_TRACE
            _record_held(host, world.inbox, world.item_class, world.trace, node)
    host.registers[contract.LENGTH] = 0
    world.host.registers[w.EFFECT] = 0
    world.host.registers[w.ARRIVED] = 0
    return FINISHED


@compiled.function(inline=False)
def _record_held(host: Host, inbox: Int64s, item_class: Int64s, trace: Int64s, node: int) -> None:
    """Record the reception of what was received just now and neither delivered nor dropped."""
    effects = host.effects
    for i in range(host.registers[w.ARRIVED]):
        if item_class[inbox[2 * i]] != contract.MESSAGE:
            continue
        slot = inbox[2 * i + 1]
        held = True
        at = 0
        while at < host.registers[contract.LENGTH]:
            code = effects[at]
            if (code == contract.DELIVER or code == contract.DROP) and effects[at + 1] == slot:
                held = False
            at = contract.next_effect(effects, at)
        if held:
            w.record_message(trace, host, RECEIVE_KIND, node, slot, -1)


@compiled.function(inline=False)
def _schedule_ready(queue: events.Queue, workload: load.Workload, now_ns: int) -> None:
    """Replay: schedule the events that the last delivery made ready."""
    replay = workload.replay
    for i in range(replay[load.READY]):
        label = replay[load.FIRST_READY + i]
        if replay[load.LEFT] > 0:
            replay[load.LEFT] -= 1
            agent = workload.event[label, load.AGENT]
            events.push_one(queue, now_ns + replay[load.GAP_NS], ISSUE_LATE | agent, label)
    replay[load.READY] = 0


@compiled.function()
def _deliver(world: World, node: int, slot: int) -> None:
    """Hand a message to the application, which may be recorded or react to it."""
    host = world.host
    source = int(host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
    latency_ns = host.registers[contract.NOW_NS] - world.message[8 * slot + w.BORN_NS]
    verdict = count_delivery(world, node, slot, source, latency_ns)
    world.node[8 * node + w.HELD] -= 1
    if world.delivered.size > 0 and verdict != judge.DUPLICATE:
        world.delivered[node, source] += 1
    if host.registers[w.RECORDING] != 0:
        w.record_message(world.trace, host, DELIVER_KIND, node, slot, -1)
    label = world.message[8 * slot + w.LABEL]
    if label >= 0:
        load.on_known(world.workload, node, label)
    w.end_reference(world.message, host.registers, slot)


@compiled.function()
def count_delivery(world: World, node: int, slot: int, source: int, latency_ns: int) -> int:
    """Count a delivery, and let the oracle judge it; without one all seem to be in order."""
    registers = world.host.registers
    registers[w.DELIVERIES] += 1
    registers[w.DELIVERY_NS] += latency_ns
    world.latency[w.latency_bin(latency_ns)] += 1
    verdict = judge.IN_ORDER
    if judge.is_on(world.oracle):
        sequence = int(world.host.name[2 * slot + contract.SEQUENCE])
        number = world.message[8 * slot + w.NUMBER]
        verdict = judge.on_deliver(world.oracle, world.node, node, slot, number, source, sequence)
        if verdict != judge.DUPLICATE:
            world.message[8 * slot + w.DELIVERED] += 1
        if verdict != judge.IN_ORDER:
            _count_error(world.message, registers, node, slot, verdict)
    return verdict


@compiled.function(inline=False)
def _count_error(message: Int64s, registers: Int64s, node: int, slot: int, verdict: int) -> None:
    if verdict == judge.DUPLICATE:
        registers[w.DUPLICATES] += 1
        return
    registers[w.VIOLATIONS] += 1
    interval = min(registers[contract.NOW_NS] // w.TIMED_STEP_NS, w.TIMED_MAX)
    registers[w.VIOLATIONS_TIMED + interval] += 1
    flagged = message[8 * slot + w.FLAGGED]
    if flagged == 0:
        flagged = 1
        registers[w.VIOLATING_MESSAGES] += 1
    if registers[w.TAGGED] != w.delivery_key(message, node, slot):
        registers[w.UNTAGGED_VIOLATIONS] += 1
        registers[w.UNTAGGED_MESSAGES] += flagged == 1
        flagged = 3
    message[8 * slot + w.FLAGGED] = flagged


@compiled.function()
def _send_all(world: World, state: Any, node: int, at: int) -> int:
    """A packet of one item to everybody else."""
    nodes = world.node.size // 8
    if not events.has_room(world.queue, 3 * nodes):
        return GROW_QUEUE
    if net.needs_draws(world.network, nodes):
        return DRAW
    tag = world.host.effects[at + 1]
    slot = world.host.effects[at + 2]
    network = world.network
    direct = tag == 0 and world.host.name[2 * slot + contract.SOURCE] == node
    if not (direct and network.setting[net.PLAIN] != 0):
        return _send_all_with_care(world, state, node, at, direct)
    now_ns = world.host.registers[contract.NOW_NS] + network.setting[net.PROCESSING_NS]
    size_bytes = (
        item_bytes(world.item_class, network, state, tag, slot) + network.setting[net.PACKET_BYTES]
    )
    for i in range(1, nodes):
        target = node + i
        if target >= nodes:
            target -= nodes
        time_ns = now_ns + net.travel_ns(network, node, target)
        events.push(world.queue, time_ns, ARRIVAL | target, ~slot)
    world.message[8 * slot + w.REFERENCES] += nodes - 1
    world.host.registers[w.PACKETS] += nodes - 1
    world.host.registers[w.PACKETS_OF + 1] += nodes - 1
    world.host.registers[w.PACKETS_SIZED + _size_step(size_bytes)] += nodes - 1
    largest = w.REGISTERS + node
    world.host.registers[largest] = max(world.host.registers[largest], 1)
    world.host.registers[w.MESSAGES_SENT] += nodes - 1
    world.host.registers[w.BYTES_SENT] += size_bytes * (nodes - 1)
    return FINISHED


@compiled.function()
def _size_step(size_bytes: int) -> int:
    """In which step of sizes a packet is counted."""
    return min(max(size_bytes - 1, 0) // w.SIZE_STEP_BYTES, w.SIZES_MAX)


@compiled.function()
def item_bytes(item_class: Int64s, network: net.Network, state: Any, tag: int, value: int) -> int:
    """The size of an item on the wire."""
    if item_class[tag] == contract.MESSAGE:
        return contract.message_bytes(state, value) + network.setting[net.PAYLOAD_BYTES]
    return REFERENCE_BYTES if item_class[tag] == contract.REFERENCE else NUMBER_BYTES


@compiled.function(inline=False)
def _send_all_with_care(world: World, state: Any, node: int, at: int, direct: bool) -> int:
    """To everybody else through a network that loses, repeats, orders or queues packets."""
    registers = world.host.registers
    tag = world.host.effects[at + 1]
    value = world.host.effects[at + 2]
    nodes = world.node.size // 8
    # A message from its source needs no packet of its own unless packets are to be recorded.
    direct = direct and registers[w.RECORDING_PACKETS] == 0
    if not direct and not w.has_packet_room(world.packets, registers, nodes):
        return GROW_PACKETS
    size_bytes = item_bytes(world.item_class, world.network, state, tag, value)
    what = ~value
    for i in range(1, nodes):
        target = node + i
        if target >= nodes:
            target -= nodes
        if not direct:
            what = w.new_packet(world.packets, registers, node)
            w.add_item(world.packets, registers, what, w.NONE, tag, value)
        _transmit(world, node, target, what, size_bytes)
    return FINISHED


@compiled.function(inline=False)
def _transmit(world: World, node: int, target: int, what: int, size_bytes: int) -> None:
    """Put one packet on its way: through the sender's queue, then the link, perhaps twice."""
    if what >= 0:
        # The sender's own copy: the packet is freed below if every other one is lost.
        world.packets.packet[what, w.COPIES] += 1
    if world.node[8 * node + w.BLOCKED_UNTIL_NS] < fault.FOR_EVER_NS:
        _transmit_copies(world, node, target, what, size_bytes)
    if what >= 0:
        w.end_copy(world.packets, world.host.registers, what, 1)


@compiled.function()
def _transmit_copies(world: World, node: int, target: int, what: int, size_bytes: int) -> None:
    network = world.network
    size_bytes += network.setting[net.PACKET_BYTES]
    world.host.registers[w.PACKETS] += 1
    world.host.registers[w.BYTES_SENT] += size_bytes
    world.host.registers[w.PACKETS_SIZED + _size_step(size_bytes)] += 1
    w.count_sent(world.packets, world.host, world.trace, world.item_class, node, what)
    leaves_ns = world.host.registers[contract.NOW_NS]
    if network.setting[net.QUEUED] != 0:
        aside = world.host.registers[w.ASIDE] != 0
        own_ns = world.node[8 * node + w.BUSY_UNTIL_NS]
        wait_ns = max((network.aside_until_ns[node] if aside else own_ns) - leaves_ns, 0)
        world.host.registers[w.WAITED_NS] += wait_ns
        leaves_ns += wait_ns + net.busy_ns(network, size_bytes)
        if aside:
            network.aside_until_ns[node] = leaves_ns
        else:
            world.node[8 * node + w.BUSY_UNTIL_NS] = leaves_ns
    copies = 1
    if net.happens(network, network.number[net.DUPLICATION]):
        copies = 2
    for _ in range(copies):
        time_ns = net.arrival_ns(network, node, target, leaves_ns)
        if time_ns == net.LOST:
            world.host.registers[w.PACKETS_LOST] += 1
        else:
            w.refer(world.packets, world.message, world.item_class, what)
            events.push_one(world.queue, time_ns, ARRIVAL | target, what)
    if world.node[8 * node + w.SENDS_LEFT] > 0:
        world.node[8 * node + w.SENDS_LEFT] -= 1
        if world.node[8 * node + w.SENDS_LEFT] == 0:
            w.crash(world, node)


@compiled.function(inline=False)
def _carry_out_other(world: World, state: Any, node: int, at: int) -> int:
    """The rarer effects."""
    effects = world.host.effects
    code = effects[at]
    slot = effects[at + 1]
    if code == contract.RELEASE:
        w.end_reference(world.message, world.host.registers, slot)
    elif code == contract.DROP:
        world.node[8 * node + w.HELD] -= 1
        world.host.registers[w.DROPPED] += 1
        w.end_reference(world.message, world.host.registers, slot)
    elif code == contract.KEEP:
        world.node[8 * node + w.HELD] += 1
        world.message[8 * slot + w.REFERENCES] += 1
    elif code == contract.RETAIN:
        world.message[8 * slot + w.REFERENCES] += 1
    elif code == contract.SEND or code == contract.SEND_ASIDE:
        world.host.registers[w.ASIDE] = code == contract.SEND_ASIDE
        status = _send(world, state, node, at)
        world.host.registers[w.ASIDE] = 0
        if status != FINISHED:
            return status
    elif code == contract.SET_TIMER:
        if not events.has_room(world.queue, 1):
            return GROW_QUEUE
        now_ns = world.host.registers[contract.NOW_NS]
        time_ns = net.expiry_ns(world.network, now_ns, effects[at + 2])
        events.push_one(world.queue, time_ns, TIMER | node, effects[at + 1])
    else:
        if effects[at + 1] == w.TAG_KIND:
            key = w.delivery_key(world.message, node, effects[at + 2])
            world.host.registers[w.TAGGED] = key
        if world.host.registers[w.RECORDING] != 0:
            w.record_message(world.trace, world.host, effects[at + 1], node, effects[at + 2], -1)
    return FINISHED


@compiled.function()
def _send(world: World, state: Any, node: int, at: int) -> int:
    """Items to one node, in as many packets as the MTU asks for."""
    effects = world.host.effects
    target = effects[at + 1]
    count = effects[at + 2]
    if not events.has_room(world.queue, 2 * count + world.node.size // 8):
        return GROW_QUEUE
    if net.needs_draws(world.network, count):
        return DRAW
    if count > world.inbox.size // 2 or not w.has_packet_room(
        world.packets, world.host.registers, count
    ):
        return GROW_PACKETS
    setting = world.network.setting
    packet = last = w.NONE
    size_bytes = 0
    for i in range(count):
        tag = effects[at + 3 + 2 * i]
        value = effects[at + 4 + 2 * i]
        more_bytes = item_bytes(world.item_class, world.network, state, tag, value)
        full = size_bytes + more_bytes + setting[net.PACKET_BYTES] > setting[net.MTU_BYTES]
        if packet != w.NONE and setting[net.MTU_BYTES] > 0 and full:
            _transmit(world, node, target, packet, size_bytes)
            packet = w.NONE
        if packet == w.NONE:
            packet = w.new_packet(world.packets, world.host.registers, node)
            last = w.NONE
            size_bytes = 0
        last = w.add_item(world.packets, world.host.registers, packet, last, tag, value)
        size_bytes += more_bytes
    if packet != w.NONE:
        _transmit(world, node, target, packet, size_bytes)
    return FINISHED
