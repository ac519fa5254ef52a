"""Probabilistic"""
from __future__ import annotations
from typing import NamedTuple
import numpy as np
from numpy.typing import NDArray
from precedes import compiled
from precedes.protocols.contract import *
from precedes.protocols import contract

class Probabilistic(NamedTuple):
    clock: NDArray[np.int32]
    need: NDArray[np.int32]
    entries: NDArray[np.int32]
    head: NDArray[np.int32]
    held_slot: NDArray[np.int32]
    held_entry: NDArray[np.int32]
    held_value: NDArray[np.int32]
    held_next: NDArray[np.int32]
    held_mark: NDArray[np.int64]

@compiled.register(broadcast, Probabilistic)
def _(state, here, slot, host):
    clock = state.clock[here]
    need = state.need[slot]
    for x in range(clock.size):
        need[x] = clock[x]
    own = state.entries[host.source[slot]]
    for i in range(own.size):
        clock[own[i]] += 1
    send_all(host, 0, slot)
    return 0

@compiled.function()
def missing(clock, need):
    ready = True
    for x in range(clock.size):
        ready &= clock[x] >= need[x]
    if ready:
        return -1
    for x in range(clock.size):
        if clock[x] < need[x]:
            return x
    return -1

@compiled.function()
def take(state, here, slot, host):
    clock = state.clock[here]
    own = state.entries[host.source[slot]]
    for i in range(own.size):
        clock[own[i]] += 1
    deliver(host, slot)

@compiled.register(receive, Probabilistic)
def _(state, here, sender, inbox, host):
    slot = inbox.value[0]
    x = missing(state.clock[here], state.need[slot])
    if x >= 0:
        p = state.held_mark[0]
        if p >= 0:
            state.held_mark[0] = state.held_next[p]
        else:
            p = state.held_mark[1]
            if p == state.held_next.size:
                return 1
            state.held_mark[1] = p + 1
        state.held_slot[p] = slot
        state.held_entry[p] = x
        state.held_value[p] = state.need[slot, x]
        state.held_next[p] = state.head[here]
        state.head[here] = p
        return 0
    take(state, here, slot, host)
    if state.head[here] >= 0:
        again(state, here, host)
    return 0

@compiled.function(inline=False)
def again(state, here, host):
    progress = True
    while progress:
        progress = False
        before = -1
        p = state.head[here]
        while p >= 0:
            nxt = state.held_next[p]
            if state.clock[here, state.held_entry[p]] >= state.held_value[p]:
                slot = state.held_slot[p]
                x = missing(state.clock[here], state.need[slot])
                if x < 0:
                    if before >= 0:
                        state.held_next[before] = nxt
                    else:
                        state.head[here] = nxt
                    state.held_next[p] = state.held_mark[0]
                    state.held_mark[0] = p
                    take(state, here, slot, host)
                    progress = True
                    p = nxt
                    continue
                state.held_entry[p] = x
                state.held_value[p] = state.need[slot, x]
            before = p
            p = nxt

@compiled.register(message_bytes, Probabilistic)
def _(state, slot):
    return 8 + 4 * state.need.shape[1]
