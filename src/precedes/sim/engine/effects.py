"""Effects of handlers: deliveries, packets, timers."""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled, contract
from precedes.contract import Host, Int64s
from precedes.model import EventKind
from precedes.sim.engine import layout, network, oracle, packets, queue, rows, workload
from precedes.sim.engine.layout import (
    ARRIVAL,
    DRAW,
    EFFECTS_OVERFLOW,
    FINISHED,
    FLUSH_TRACE,
    GROW_PACKETS,
    GROW_QUEUE,
    NONE,
    SUSPECT,
    TIMER,
)
from precedes.sim.engine.network import Network
from precedes.sim.engine.world import FOR_EVER_NS, World, latency_bin

RECEIVE_KIND: Final = int(EventKind.RECEIVE)
DELIVER_KIND: Final = int(EventKind.DELIVER)
CRASH_KIND: Final = int(EventKind.CRASH)
TAG_KIND: Final = int(EventKind.TAG)

REFERENCE_BYTES: Final = 8  # source and sequence
NUMBER_BYTES: Final = 8


@compiled.function(inline=False)
def carry_out(world: World, state: Any) -> int:
    """Carry out the effects of the last handler, from where an earlier call stopped."""
    host = world.host
    if host.registers[contract.OVERFLOW] != 0:
        return EFFECTS_OVERFLOW
    node = world.host.registers[layout.HERE]
    status = FINISHED
    at = world.host.registers[layout.EFFECT]
    while at < host.registers[contract.LENGTH]:
        if rows.needs_flush(
            world.trace, world.host.registers, world.inbox.size + world.node.shape[0]
        ):
            status = FLUSH_TRACE
            break
        code = host.effects[at]
        if code == contract.DELIVER:
            _deliver(world, node, host.effects[at + 1])
            at += 2
            continue
        world.host.registers[layout.EFFECT] = at
        if code == contract.SEND_ALL:
            status = _send_all(world, state, node, at)
        else:
            status = _carry_out_other(world, state, node, at)
        if status != FINISHED:
            break
        at = contract.next_effect(host.effects, at)
    world.host.registers[layout.EFFECT] = at
    return _after_effects(world, node) if status == FINISHED else status


@compiled.function()
def _after_effects(world: World, node: int) -> int:
    host = world.host
    registers = host.registers
    if world.workload.replay[workload.READY] > 0:
        if not queue.has_room(world.queue, world.workload.replay[workload.READY]):
            return GROW_QUEUE
        now_ns = registers[contract.NOW_NS]
        workload.schedule_ready(world.workload, world.queue, now_ns)
    held = world.node[node, layout.HELD]
    if held > 0:
        registers[layout.PENDING_MAX] = max(registers[layout.PENDING_MAX], held)
        if registers[layout.RECORDING] != 0 and registers[layout.RECORDING_PACKETS] == 0:
            if rows.needs_flush(world.trace, registers, world.inbox.size + world.node.shape[0]):
                return FLUSH_TRACE
            _record_held(host, world.inbox, world.item_class, world.trace, node)
    registers[contract.LENGTH] = 0
    registers[layout.EFFECT] = 0
    registers[layout.ARRIVED] = 0
    return FINISHED


@compiled.function(inline=False)
def _record_held(host: Host, inbox: Int64s, item_class: Int64s, trace: Int64s, node: int) -> None:
    """Record the reception of messages that are neither delivered nor dropped."""
    length = host.registers[contract.LENGTH]
    for i in range(host.registers[layout.ARRIVED]):
        slot = contract.value_of(inbox, i)
        is_message = item_class[contract.tag_of(inbox, i)] == contract.MESSAGE
        if is_message and not contract.ends(host.effects, length, slot):
            rows.record_message(trace, host, RECEIVE_KIND, node, slot, -1)


@compiled.function()
def _deliver(world: World, node: int, slot: int) -> None:
    """Deliver a message to the application; it may be recorded or trigger replayed events."""
    host = world.host
    source = int(host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
    latency_ns = host.registers[contract.NOW_NS] - world.message[slot, layout.BORN_NS]
    verdict = count_delivery(world, node, slot, source, latency_ns)
    world.node[node, layout.HELD] -= 1
    if world.delivered.size > 0 and verdict != oracle.DUPLICATE:
        world.delivered[node, source] += 1
    if host.registers[layout.RECORDING] != 0:
        rows.record_message(world.trace, host, DELIVER_KIND, node, slot, -1)
    label = world.message[slot, layout.LABEL]
    if label >= 0:
        workload.on_known(world.workload, node, label)
    packets.end_reference(world.message, host.registers, slot)


@compiled.function()
def count_delivery(world: World, node: int, slot: int, source: int, latency_ns: int) -> int:
    """Count a delivery, and let the oracle judge it; without one all count as in order."""
    registers = world.host.registers
    registers[layout.DELIVERIES] += 1
    registers[layout.DELIVERY_NS] += latency_ns
    world.latency[latency_bin(latency_ns)] += 1
    verdict = oracle.IN_ORDER
    if oracle.is_on(world.oracle):
        sequence = int(world.host.name[2 * slot + contract.SEQUENCE])
        number = world.message[slot, layout.NUMBER]
        verdict = oracle.on_deliver(world.oracle, world.node, node, slot, number, source, sequence)
        if verdict != oracle.DUPLICATE:
            delivered = world.message[slot, layout.DELIVERED] + 1
            world.message[slot, layout.DELIVERED] = delivered
            if delivered == world.node.shape[0] - 1:
                oracle.on_everywhere(world.oracle, slot)
        if verdict != oracle.IN_ORDER:
            _count_error(world.message, registers, node, slot, verdict)
    return verdict


@compiled.function(inline=False)
def _count_error(message: Int64s, registers: Int64s, node: int, slot: int, verdict: int) -> None:
    if verdict == oracle.DUPLICATE:
        registers[layout.DUPLICATES] += 1
        return
    registers[layout.VIOLATIONS] += 1
    interval = min(registers[contract.NOW_NS] // layout.TIMED_STEP_NS, layout.TIMED_MAX)
    registers[layout.VIOLATIONS_TIMED + interval] += 1
    flagged = message[slot, layout.FLAGGED]
    if flagged == 0:
        flagged = 1
        registers[layout.VIOLATING_MESSAGES] += 1
    if registers[layout.TAGGED] != packets.delivery_key(message, node, slot):
        registers[layout.UNTAGGED_VIOLATIONS] += 1
        registers[layout.UNTAGGED_MESSAGES] += flagged == 1
        flagged = 3
    message[slot, layout.FLAGGED] = flagged


@compiled.function()
def _send_all(world: World, state: Any, node: int, at: int) -> int:
    """A packet of one item to all other nodes."""
    nodes = world.node.shape[0]
    if not queue.has_room(world.queue, 3 * nodes):
        return GROW_QUEUE
    if network.needs_draws(world.network, nodes):
        return DRAW
    tag = world.host.effects[at + 1]
    slot = world.host.effects[at + 2]
    setting = world.network.setting
    direct = tag == 0 and world.host.name[2 * slot + contract.SOURCE] == node
    if not (direct and setting[network.PLAIN] != 0):
        return _send_all_slowly(world, state, node, at, direct)
    now_ns = world.host.registers[contract.NOW_NS] + setting[network.PROCESSING_NS]
    size_bytes = item_bytes(world.item_class, world.network, state, tag, slot)
    size_bytes += setting[network.PACKET_BYTES]
    for i in range(1, nodes):
        target = node + i
        if target >= nodes:
            target -= nodes
        time_ns = now_ns + network.travel_ns(world.network, node, target)
        queue.push(world.queue, time_ns, target, slot)
    world.message[slot, layout.REFERENCES] += nodes - 1
    world.host.registers[layout.PACKETS] += nodes - 1
    world.host.registers[layout.PACKETS_OF + 1] += nodes - 1
    world.host.registers[layout.PACKETS_SIZED + _size_step(size_bytes)] += nodes - 1
    largest = layout.REGISTERS + node
    world.host.registers[largest] = max(world.host.registers[largest], 1)
    world.host.registers[layout.MESSAGES_SENT] += nodes - 1
    world.host.registers[layout.BYTES_SENT] += size_bytes * (nodes - 1)
    return FINISHED


@compiled.function()
def _size_step(size_bytes: int) -> int:
    """The index of the size class of a packet."""
    return min(max(size_bytes - 1, 0) // layout.SIZE_STEP_BYTES, layout.SIZES_MAX)


@compiled.function()
def item_bytes(item_class: Int64s, links: Network, state: Any, tag: int, value: int) -> int:
    """The size of an item on the wire."""
    if item_class[tag] == contract.MESSAGE:
        return contract.message_bytes(state, value) + links.setting[network.PAYLOAD_BYTES]
    return REFERENCE_BYTES if item_class[tag] == contract.REFERENCE else NUMBER_BYTES


@compiled.function(inline=False)
def _send_all_slowly(world: World, state: Any, node: int, at: int, direct: bool) -> int:
    """To all others through a network that loses, repeats, orders or queues packets."""
    registers = world.host.registers
    tag = world.host.effects[at + 1]
    value = world.host.effects[at + 2]
    nodes = world.node.shape[0]
    # A message from its source needs no packet of its own unless packets are to be recorded.
    direct = direct and registers[layout.RECORDING_PACKETS] == 0
    if not direct and not packets.has_packet_room(world.packets, registers, nodes):
        return GROW_PACKETS
    size_bytes = item_bytes(world.item_class, world.network, state, tag, value)
    packet = ~value
    for i in range(1, nodes):
        target = node + i
        if target >= nodes:
            target -= nodes
        if not direct:
            packet = packets.new_packet(world.packets, registers, node)
            packets.add_item(world.packets, registers, packet, NONE, tag, value)
        _transmit(world, node, target, packet, size_bytes)
    return FINISHED


@compiled.function(inline=False)
def _transmit(world: World, node: int, target: int, argument: int, size_bytes: int) -> None:
    """Send one packet: through the sender's queue, then the link, perhaps twice."""
    if argument >= 0:
        # The sender's own copy: the packet is freed below if every other one is lost.
        world.packets.packet[argument, packets.COPIES] += 1
    if world.node[node, layout.BLOCKED_UNTIL_NS] < FOR_EVER_NS:
        _transmit_copies(world, node, target, argument, size_bytes)
    if argument >= 0:
        packets.end_copy(world.packets, world.host.registers, argument, 1)


@compiled.function()
def _transmit_copies(world: World, node: int, target: int, argument: int, size_bytes: int) -> None:
    links = world.network
    size_bytes += links.setting[network.PACKET_BYTES]
    world.host.registers[layout.PACKETS] += 1
    world.host.registers[layout.BYTES_SENT] += size_bytes
    world.host.registers[layout.PACKETS_SIZED + _size_step(size_bytes)] += 1
    packets.count_sent(world.packets, world.host, world.trace, world.item_class, node, argument)
    leaves_ns = world.host.registers[contract.NOW_NS]
    if links.setting[network.QUEUED] != 0:
        second = world.host.registers[layout.SECOND_CHANNEL] != 0
        own_ns = world.node[node, layout.BUSY_UNTIL_NS]
        wait_ns = max((links.second_until_ns[node] if second else own_ns) - leaves_ns, 0)
        world.host.registers[layout.WAITED_NS] += wait_ns
        leaves_ns += wait_ns + network.busy_ns(links, size_bytes)
        if second:
            links.second_until_ns[node] = leaves_ns
        else:
            world.node[node, layout.BUSY_UNTIL_NS] = leaves_ns
    copies = 1
    if network.happens(links, links.number[network.DUPLICATION]):
        copies = 2
    row, column = node, target
    if links.setting[network.PER_MESSAGE] != 0:
        slot = packets.first_message(world.packets, world.item_class, argument)
        number = target
        if slot != NONE:
            row = int(world.host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
            number = int(world.host.name[2 * slot + contract.SEQUENCE]) + compiled.ZERO
        column = number % network.MESSAGE_DELAYS
    for _ in range(copies):
        time_ns = network.arrival_ns(links, node, target, leaves_ns, row, column)
        if time_ns == network.LOST:
            world.host.registers[layout.PACKETS_LOST] += 1
        else:
            packets.refer(world.packets, world.message, world.item_class, argument)
            queue.push_one(world.queue, time_ns, ARRIVAL | target, argument)
    if world.node[node, layout.SENDS_LEFT] > 0:
        world.node[node, layout.SENDS_LEFT] -= 1
        if world.node[node, layout.SENDS_LEFT] == 0:
            crash(world, node)


@compiled.function(inline=False)
def crash(world: World, node: int) -> None:
    """Stop the node permanently, and report it to the others after their detection delays."""
    registers = world.host.registers
    if world.node[node, layout.BLOCKED_UNTIL_NS] == FOR_EVER_NS:
        return
    world.node[node, layout.BLOCKED_UNTIL_NS] = FOR_EVER_NS
    world.node[node, layout.HELD] = 0
    if registers[layout.HERE] == node:
        # A crash in mid-send: the effects after this packet never happen.
        registers[contract.LENGTH] = registers[layout.EFFECT]
        registers[layout.ARRIVED] = 0
    if registers[layout.RECORDING] != 0:
        rows.record(world.trace, registers, CRASH_KIND, node, node, 0, NONE)
    for observer in range(world.node.shape[0]):
        if observer != node:
            time_ns = registers[contract.NOW_NS] + world.faults.detection_ns[node, observer]
            queue.push_one(world.queue, time_ns, SUSPECT | observer, node)


@compiled.function(inline=False)
def _carry_out_other(world: World, state: Any, node: int, at: int) -> int:
    """The rarer effects."""
    effects = world.host.effects
    code = effects[at]
    slot = effects[at + 1]
    if code == contract.RELEASE:
        packets.end_reference(world.message, world.host.registers, slot)
    elif code == contract.DROP:
        world.node[node, layout.HELD] -= 1
        world.host.registers[layout.DROPPED] += 1
        packets.end_reference(world.message, world.host.registers, slot)
    elif code == contract.KEEP:
        world.node[node, layout.HELD] += 1
        world.message[slot, layout.REFERENCES] += 1
    elif code == contract.RETAIN:
        world.message[slot, layout.REFERENCES] += 1
    elif code == contract.SEND or code == contract.SEND_ASIDE:
        world.host.registers[layout.SECOND_CHANNEL] = code == contract.SEND_ASIDE
        status = _send(world, state, node, at)
        world.host.registers[layout.SECOND_CHANNEL] = 0
        if status != FINISHED:
            return status
    elif code == contract.SET_TIMER:
        if not queue.has_room(world.queue, 1):
            return GROW_QUEUE
        now_ns = world.host.registers[contract.NOW_NS]
        time_ns = network.expiry_ns(world.network, now_ns, effects[at + 2])
        queue.push_one(world.queue, time_ns, TIMER | node, effects[at + 1])
    else:
        if effects[at + 1] == TAG_KIND:
            key = packets.delivery_key(world.message, node, effects[at + 2])
            world.host.registers[layout.TAGGED] = key
        if world.host.registers[layout.RECORDING] != 0:
            rows.record_message(world.trace, world.host, effects[at + 1], node, effects[at + 2], -1)
    return FINISHED


@compiled.function()
def _send(world: World, state: Any, node: int, at: int) -> int:
    """Items to one node, in as many packets as the MTU requires."""
    effects = world.host.effects
    target = effects[at + 1]
    count = effects[at + 2]
    if not queue.has_room(world.queue, 2 * count + world.node.shape[0]):
        return GROW_QUEUE
    if network.needs_draws(world.network, count):
        return DRAW
    if count > world.inbox.size // 2 or not packets.has_packet_room(
        world.packets, world.host.registers, count
    ):
        return GROW_PACKETS
    setting = world.network.setting
    packet = last = NONE
    size_bytes = 0
    whole = 0  # numbers of a record that are still to come
    for i in range(count):
        tag = effects[at + 3 + 2 * i]
        value = effects[at + 4 + 2 * i]
        more_bytes = item_bytes(world.item_class, world.network, state, tag, value)
        least_bytes = size_bytes + more_bytes + setting[network.PACKET_BYTES]
        may_cut = whole == 0
        if world.item_class[tag] == contract.RECORD:
            least_bytes += value * NUMBER_BYTES
            whole = value
        elif whole > 0:
            whole -= 1
        full = may_cut and least_bytes > setting[network.MTU_BYTES]
        if packet != NONE and setting[network.MTU_BYTES] > 0 and full:
            _transmit(world, node, target, packet, size_bytes)
            packet = NONE
        if packet == NONE:
            packet = packets.new_packet(world.packets, world.host.registers, node)
            last = NONE
            size_bytes = 0
        last = packets.add_item(world.packets, world.host.registers, packet, last, tag, value)
        size_bytes += more_bytes
    if packet != NONE:
        _transmit(world, node, target, packet, size_bytes)
    return FINISHED
