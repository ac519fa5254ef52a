"""The arrays of the audit of a growing log: made, enlarged, packed for a restart.

Memory is 16 bytes for each pair of nodes, 12 for each place of the rings, and for each message that
some node may still deliver 4 bytes a node. It grows up to ``bytes_max``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.audit.growing import kernel
from precedes.audit.growing.kernel import State

ENTRIES_BYTES: Final = 1 << 22  # of the first table of messages
ENTRIES_MIN: Final = 1 << 10
ENTRIES_MAX: Final = 1 << 16
RING_PLACES: Final = 1 << 19  # of all nodes together
RING_MIN: Final = 1 << 10
RING_MAX: Final = 1 << 16
GAPS: Final = 1 << 10

_BY_NODE: Final = ("taken", "ring_begin", "ring_count", "ring_dropped", "joined", "own_joined")
_FLAGS: Final = ("crashed", "departed", "gone")
_BY_PAIR: Final = ("known", "have", "top", "gap")


def make(nodes: int, *, patient: bool = False, ring: int | None = None) -> State:
    """The state before the first row; ``ring`` is how many places a node's ring has."""
    entries = _power(min(max(ENTRIES_BYTES // (4 * max(nodes, 1)), ENTRIES_MIN), ENTRIES_MAX))
    places = _power(ring or min(max(RING_PLACES // max(nodes, 1), RING_MIN), RING_MAX))
    registers = np.zeros(kernel.REGISTERS, np.int64)
    registers[kernel.PATIENT] = patient
    state = State(
        registers=registers,
        counts=np.zeros((nodes, kernel.COUNTS), np.int64),
        taken=np.zeros(nodes, np.int64),
        known=np.zeros((nodes, nodes), np.int32),
        have=np.zeros((nodes, nodes), np.int32),
        top=np.zeros((nodes, nodes), np.int32),
        gap=np.full((nodes, nodes), -1, np.int32),
        gap_pair=np.full(GAPS, -1, np.int64),
        gap_first=np.zeros(GAPS, np.int32),
        gap_last=np.zeros(GAPS, np.int32),
        gap_next=_chain(0, GAPS),
        table_message=np.full(2 * entries, kernel.NOBODYS, np.int64),
        table_entry=np.zeros(2 * entries, np.int32),
        clock=np.zeros((entries, nodes), np.int32),
        entry_message=np.full(entries, kernel.NOBODYS, np.int64),
        entry_violating=np.zeros(entries, np.uint8),
        entry_next=_chain(0, entries),
        ring_known=np.zeros((nodes, places), np.int32),
        ring_row=np.zeros((nodes, places), np.int64),
        ring_entry=np.zeros((nodes, places), np.int32),
        ring_begin=np.zeros(nodes, np.int64),
        ring_count=np.zeros(nodes, np.int64),
        ring_dropped=np.zeros(nodes, np.int32),
        joined=np.zeros(nodes, np.uint8),
        own_joined=np.zeros(nodes, np.int64),
        crashed=np.zeros(nodes, np.uint8),
        departed=np.zeros(nodes, np.uint8),
        gone=np.zeros(nodes, np.uint8),
    )
    return state


def _power(number: int) -> int:
    return 1 << max(number - 1, 1).bit_length()


def _chain(first: int, end: int) -> NDArray[np.int32]:
    """A list of free places ``first`` to ``end``."""
    chain = np.arange(first + 1, end + 1, dtype=np.int32)
    chain[-1] = -1
    return chain


def size_bytes(state: State) -> int:
    """What the arrays take."""
    return sum(array.nbytes for array in state)


def with_more_entries(state: State) -> State:
    """Room for twice as many messages."""
    entries = state.entry_message.size
    state.registers[kernel.FREE_ENTRY] = entries
    larger = state._replace(
        clock=_longer(state.clock, 2 * entries, 0),
        entry_message=_longer(state.entry_message, 2 * entries, kernel.NOBODYS),
        entry_violating=_longer(state.entry_violating, 2 * entries, 0),
        entry_next=np.concatenate((state.entry_next, _chain(entries, 2 * entries))),
        table_message=np.full(4 * entries, kernel.NOBODYS, np.int64),
        table_entry=np.zeros(4 * entries, np.int32),
    )
    return larger


def with_more_gaps(state: State) -> State:
    """Room for twice as many gaps; there is no free one."""
    gaps = state.gap_pair.size
    state.registers[kernel.FREE_GAP] = gaps
    return state._replace(
        gap_pair=_longer(state.gap_pair, 2 * gaps, -1),
        gap_first=_longer(state.gap_first, 2 * gaps, 0),
        gap_last=_longer(state.gap_last, 2 * gaps, 0),
        gap_next=np.concatenate((state.gap_next, _chain(gaps, 2 * gaps))),
    )


def with_more_nodes(state: State, nodes: int) -> State:
    """Room for nodes that have just appeared."""
    before = state.taken.size
    if nodes == before:
        return state
    changed: dict[str, Any] = {}
    for name in ("counts", *_BY_NODE, *_FLAGS, "ring_known", "ring_row", "ring_entry"):
        changed[name] = _longer(getattr(state, name), nodes, 0)
    for name in _BY_PAIR:
        fill = -1 if name == "gap" else 0
        wider = np.full((nodes, nodes), fill, np.int32)
        wider[:before, :before] = getattr(state, name)
        changed[name] = wider
    changed["clock"] = np.zeros((state.clock.shape[0], nodes), np.int32)
    changed["clock"][:, :before] = state.clock
    used = state.gap_pair >= 0
    pair = state.gap_pair.copy()
    pair[used] = pair[used] // before * nodes + pair[used] % before
    return state._replace(gap_pair=pair, **changed)


def _longer(array: NDArray[Any], length: int, fill: int) -> NDArray[Any]:
    longer = np.full((length, *array.shape[1:]), fill, array.dtype)
    longer[: array.shape[0]] = array
    return longer


def missing(state: State, sent: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each node and source how many of its messages the node does not have."""
    nodes = state.taken.size
    absent: NDArray[np.int64] = sent[None, :] - state.top
    used = np.flatnonzero(state.gap_pair >= 0)
    lengths = state.gap_last[used].astype(np.int64) - state.gap_first[used] + 1
    np.add.at(absent.reshape(-1), state.gap_pair[used], lengths)
    for node in np.flatnonzero(state.own_joined):
        # Own messages that the node joined with and never delivered.
        covered = int(state.own_joined[node])
        lacked = max(covered - int(state.top[node, node]), 0)
        for gap in used[state.gap_pair[used] == node * nodes + node]:
            first, last = int(state.gap_first[gap]), int(state.gap_last[gap])
            lacked += max(min(last, covered) - first + 1, 0)
        absent[node, node] -= lacked
    return absent
