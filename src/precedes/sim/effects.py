"""Carrying out what a handler asked for: deliveries, packets, timers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from precedes import compiled
from precedes.model import EventKind
from precedes.protocols import contract
from precedes.sim import faults as fault
from precedes.sim import network as net
from precedes.sim import oracle as judge
from precedes.sim import queue as events
from precedes.sim import workload as load
from precedes.sim import world as w
from precedes.sim.status import (
    EFFECTS_OVERFLOW,
    FINISHED,
    FLUSH_TRACE,
    GROW_PACKETS,
    GROW_QUEUE,
    recorder_is_full,
)
from precedes.sim.world import ARRIVAL, ISSUE, TIMER, World

SEND_KIND: Final = int(EventKind.SEND)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)
DELIVER_KIND: Final = int(EventKind.DELIVER)

REFERENCE_BYTES: Final = 8  # source and sequence
NUMBER_BYTES: Final = 8


@compiled.function()
def carry_out(world: World, state: Any, generator: np.random.Generator) -> int:
    """Carry out the effects of the last handler, from where an earlier call stopped."""
    host = world.host
    if host.cursor[contract.LENGTH] == 0 and world.progress[w.ARRIVED] == 0:
        return FINISHED
    node = world.progress[w.HERE]
    recording = world.recorder.setting[w.RECORDING] != 0
    status = FINISHED
    at = world.progress[w.EFFECT]
    while at < host.cursor[contract.LENGTH]:
        if recording and recorder_is_full(world):
            status = FLUSH_TRACE
            break
        code = host.effects[at]
        if code == contract.DELIVER:
            _deliver(world, node, host.effects[at + 1])
            at += 2
            continue
        world.progress[w.EFFECT] = at
        if code == contract.SEND_ALL:
            status = _send_all(world, state, node, at, generator)
        else:
            status = _carry_out_other(world, state, node, at, generator)
        if status != FINISHED:
            break
        at = _next_effect(host.effects, at)
    world.progress[w.EFFECT] = at
    return _after_effects(world, node, recording) if status == FINISHED else status


@compiled.function()
def _after_effects(world: World, node: int, recording: bool) -> int:
    host = world.host
    if host.cursor[contract.OVERFLOW] != 0:
        return EFFECTS_OVERFLOW
    if world.workload.setting[load.READY] > 0:
        if not events.has_room(world.queue, world.workload.setting[load.READY]):
            return GROW_QUEUE
        _schedule_ready(world)
    held = world.node[2 * node + w.HELD]
    if held > 0:
        world.counter[w.PENDING_MAX] = max(world.counter[w.PENDING_MAX], held)
        if recording:
            if recorder_is_full(world):
                return FLUSH_TRACE
            _record_held(world, node)
    host.cursor[contract.LENGTH] = 0
    world.progress[w.EFFECT] = 0
    world.progress[w.ARRIVED] = 0
    return FINISHED


@compiled.function(inline=False)
def _record_held(world: World, node: int) -> None:
    """Record the reception of what was received just now and neither delivered nor dropped."""
    effects = world.host.effects
    for i in range(world.progress[w.ARRIVED]):
        if world.item_class[world.inbox[2 * i]] != contract.MESSAGE:
            continue
        slot = world.inbox[2 * i + 1]
        held = True
        at = 0
        while at < world.host.cursor[contract.LENGTH]:
            code = effects[at]
            if (code == contract.DELIVER or code == contract.DROP) and effects[at + 1] == slot:
                held = False
            at = _next_effect(effects, at)
        if held:
            w.record_message(world.recorder, world.host, RECEIVE_KIND, node, slot, -1)


@compiled.function()
def _next_effect(effects: contract.Int64s, at: int) -> int:
    """Where the effect after this one begins."""
    code = effects[at]
    if code == contract.SEND:
        return at + 3 + 2 * effects[at + 2]
    if code <= contract.RELEASE:
        return at + 2
    return at + 3


@compiled.function(inline=False)
def _schedule_ready(world: World) -> None:
    """Replay: schedule the events that the last delivery made ready."""
    workload = world.workload
    for i in range(workload.setting[load.READY]):
        label = workload.ready[i]
        if workload.setting[load.ISSUED] < workload.setting[load.MESSAGES_MAX]:
            workload.setting[load.ISSUED] += 1
            time_ns = world.host.cursor[contract.NOW_NS] + workload.setting[load.GAP_NS]
            agent = workload.event[label, load.AGENT]
            events.push_one(world.queue, time_ns, ISSUE | agent, label)
    workload.setting[load.READY] = 0


@compiled.function()
def _deliver(world: World, node: int, slot: int) -> None:
    host = world.host
    message = world.messages.slot
    at = 8 * slot
    source = np.int64(host.name[2 * slot + contract.SOURCE])
    latency_ns = host.cursor[contract.NOW_NS] - message[at + w.BORN_NS]
    world.counter[w.DELIVERIES] += 1
    world.counter[w.DELIVERY_NS] += latency_ns
    world.latency[w.latency_bin(latency_ns)] += 1
    world.node[2 * node + w.HELD] -= 1
    if judge.is_on(world.oracle):
        sequence = np.int64(host.name[2 * slot + contract.SEQUENCE])
        verdict = judge.on_deliver(
            world.oracle, node, slot, message[at + w.NUMBER], source, sequence
        )
        if verdict != judge.IN_ORDER:
            _count_error(world.oracle, world.counter, slot, verdict)
    if world.delivered.size > 0:
        world.delivered[node, source] += 1
    if world.recorder.setting[w.RECORDING] != 0:
        w.record_message(world.recorder, host, DELIVER_KIND, node, slot, -1)
    if message[at + w.LABEL] >= 0:
        load.on_known(world.workload, node, message[at + w.LABEL])
    w.end_reference(world.messages, slot)


@compiled.function(inline=False)
def _count_error(
    oracle: judge.Oracle, counter: contract.Int64s, slot: int, verdict: int
) -> None:
    if verdict == judge.DUPLICATE:
        counter[w.DUPLICATES] += 1
        return
    counter[w.VIOLATIONS] += 1
    if not oracle.flagged[slot]:
        oracle.flagged[slot] = True
        counter[w.VIOLATING_MESSAGES] += 1


@compiled.function()
def _send_all(
    world: World, state: Any, node: int, at: int, generator: np.random.Generator
) -> int:
    """A packet of one item to everybody else."""
    nodes = world.network.busy_until_ns.size
    if not events.has_room(world.queue, 3 * nodes):
        return GROW_QUEUE
    tag = world.host.effects[at + 1]
    slot = world.host.effects[at + 2]
    network = world.network
    direct = tag == 0 and world.host.name[2 * slot + contract.SOURCE] == node
    if not (direct and network.setting[net.PLAIN] != 0):
        return _send_all_with_care(world, state, node, at, direct, generator)
    now_ns = world.host.cursor[contract.NOW_NS] + network.setting[net.PROCESSING_NS]
    size_bytes = item_bytes(world, state, tag, slot) + network.setting[net.PACKET_BYTES]
    for i in range(1, nodes):
        target = node + i
        if target >= nodes:
            target -= nodes
        time_ns = now_ns + net.travel_ns(network, node, target, generator)
        events.push(world.queue, time_ns, ARRIVAL | target, ~slot)
    world.messages.slot[8 * slot + w.REFERENCES] += nodes - 1
    world.counter[w.PACKETS] += nodes - 1
    world.counter[w.MESSAGES_SENT] += nodes - 1
    world.counter[w.BYTES_SENT] += size_bytes * (nodes - 1)
    return FINISHED


@compiled.function()
def item_bytes(world: World, state: Any, tag: int, value: int) -> int:
    """The size of an item on the wire."""
    item_class = world.item_class[tag]
    if item_class == contract.MESSAGE:
        return contract.message_bytes(state, value) + world.network.setting[net.PAYLOAD_BYTES]
    return REFERENCE_BYTES if item_class == contract.REFERENCE else NUMBER_BYTES


@compiled.function(inline=False)
def _send_all_with_care(
    world: World, state: Any, node: int, at: int, direct: bool, generator: np.random.Generator
) -> int:
    """To everybody else through a network that loses, repeats, orders or queues packets."""
    tag = world.host.effects[at + 1]
    value = world.host.effects[at + 2]
    packet = w.NONE
    what = ~value
    if not direct or world.recorder.setting[w.RECORDING_PACKETS] != 0:
        if not w.has_packet_room(world.packets, 1):
            return GROW_PACKETS
        packet = w.new_packet(world.packets, node)
        w.add_item(world.packets, packet, w.NONE, tag, value)
        what = packet
    nodes = world.network.busy_until_ns.size
    size_bytes = item_bytes(world, state, tag, value)
    for i in range(1, nodes):
        target = node + i
        if target >= nodes:
            target -= nodes
        _transmit(world, node, target, what, size_bytes, generator)
    if packet != w.NONE and world.packets.packet[packet, w.COPIES] == 0:
        w.free_packet(world.packets, packet)
    return FINISHED


@compiled.function(inline=False)
def _transmit(
    world: World, node: int, target: int, what: int, size_bytes: int, generator: np.random.Generator
) -> None:
    """Put one packet on its way: through the sender's queue, then the link, perhaps twice."""
    if world.faults.blocked_until_ns[node] == fault.FOR_EVER_NS:
        return
    network = world.network
    size_bytes += network.setting[net.PACKET_BYTES]
    world.counter[w.PACKETS] += 1
    world.counter[w.BYTES_SENT] += size_bytes
    w.count_sent(world, node, what)
    leaves_ns = net.depart_ns(network, node, size_bytes, world.host.cursor[contract.NOW_NS])
    copies = 1
    duplication = network.number[net.DUPLICATION]
    if duplication > 0.0 and generator.random() < duplication:
        copies = 2
    for _ in range(copies):
        time_ns = net.arrival_ns(network, node, target, leaves_ns, generator)
        if time_ns == net.LOST:
            world.counter[w.PACKETS_LOST] += 1
        else:
            w.refer(world, what)
            events.push_one(world.queue, time_ns, ARRIVAL | target, what)
    if world.faults.sends_left[node] > 0:
        world.faults.sends_left[node] -= 1
        if world.faults.sends_left[node] == 0:
            w.crash(world, node)


@compiled.function(inline=False)
def _carry_out_other(
    world: World, state: Any, node: int, at: int, generator: np.random.Generator
) -> int:
    """The rarer effects."""
    effects = world.host.effects
    code = effects[at]
    slot = effects[at + 1]
    if code == contract.RELEASE:
        w.end_reference(world.messages, slot)
    elif code == contract.DROP:
        world.node[2 * node + w.HELD] -= 1
        world.counter[w.DROPPED] += 1
        w.end_reference(world.messages, slot)
    elif code == contract.KEEP:
        world.node[2 * node + w.HELD] += 1
        world.messages.slot[8 * slot + w.REFERENCES] += 1
    elif code == contract.SEND:
        status = _send(world, state, node, at, generator)
        if status != FINISHED:
            return status
    elif code == contract.SET_TIMER:
        if not events.has_room(world.queue, 1):
            return GROW_QUEUE
        time_ns = world.host.cursor[contract.NOW_NS] + max(effects[at + 2], 0)
        events.push_one(world.queue, time_ns, TIMER | node, effects[at + 1])
    elif world.recorder.setting[w.RECORDING] != 0:
        w.record_message(
            world.recorder, world.host, effects[at + 1], node, effects[at + 2], -1
        )
    return FINISHED


@compiled.function()
def _send(
    world: World, state: Any, node: int, at: int, generator: np.random.Generator
) -> int:
    """Items to one node, in as many packets as the MTU asks for."""
    effects = world.host.effects
    target = effects[at + 1]
    count = effects[at + 2]
    if not events.has_room(world.queue, 2 * count + world.network.busy_until_ns.size):
        return GROW_QUEUE
    if count > world.inbox.size // 2 or not w.has_packet_room(world.packets, count):
        return GROW_PACKETS
    setting = world.network.setting
    packet = last = w.NONE
    size_bytes = 0
    for i in range(count):
        tag = effects[at + 3 + 2 * i]
        value = effects[at + 4 + 2 * i]
        more_bytes = item_bytes(world, state, tag, value)
        full = size_bytes + more_bytes + setting[net.PACKET_BYTES] > setting[net.MTU_BYTES]
        if packet != w.NONE and setting[net.MTU_BYTES] > 0 and full:
            _transmit_packet(world, node, target, packet, size_bytes, generator)
            packet = w.NONE
        if packet == w.NONE:
            packet = w.new_packet(world.packets, node)
            last = w.NONE
            size_bytes = 0
        last = w.add_item(world.packets, packet, last, tag, value)
        size_bytes += more_bytes
    if packet != w.NONE:
        _transmit_packet(world, node, target, packet, size_bytes, generator)
    return FINISHED


@compiled.function(inline=False)
def _transmit_packet(
    world: World, node: int, target: int, packet: int, size_bytes: int, generator: np.random.Generator
) -> None:
    _transmit(world, node, target, packet, size_bytes, generator)
    if world.packets.packet[packet, w.COPIES] == 0:
        w.free_packet(world.packets, packet)
