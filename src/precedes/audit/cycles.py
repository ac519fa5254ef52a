"""Which messages lie in their own past, and which are free of such cycles?

Only asked of logs that contradict themselves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.kernel import BROADCAST, Log

DONE: Final = 3


class Search(NamedTuple):
    """The arrays of Tarjan's algorithm; its vertices are rows."""

    opens: NDArray[np.uint8]  # row: the first of its node
    reached: NDArray[np.int64]  # row: when it was reached, from 1
    low: NDArray[np.int64]  # row: the earliest it leads back to
    edge: NDArray[np.uint8]  # row: edges taken so far; DONE when its component is complete
    calls: NDArray[np.int64]
    kept: NDArray[np.int64]  # rows reached whose component is not complete


def cyclic_messages(log: Log) -> NDArray[np.int64]:
    """The messages that lie in their own past, in order."""
    rows = log.message.size
    opens = np.zeros(rows, np.uint8)
    opens[log.offsets[:-1][np.diff(log.offsets) > 0]] = 1
    search = Search(
        opens=opens,
        reached=np.zeros(rows, np.int64),
        low=np.zeros(rows, np.int64),
        edge=np.zeros(rows, np.uint8),
        calls=np.empty(rows, np.int64),
        kept=np.empty(rows, np.int64),
    )
    cyclic = np.zeros(log.message_source.size, np.uint8)
    CYCLES.compiled()(log, search, cyclic)
    return np.flatnonzero(cyclic)


class Reading(NamedTuple):
    """How far Kahn's algorithm has read each node's rows, and who waits for which message."""

    cursor: NDArray[np.int64]  # node: the next row to read
    ready: NDArray[np.int32]  # nodes that may read on
    waiting: NDArray[np.int32]  # message: the last node that waits for it, or -1
    following: NDArray[np.int32]  # node: the one that waits for the same message, or -1


def resolved_messages(log: Log) -> NDArray[np.bool_]:
    """For each message whether it was broadcast and no cycle lies in its past or includes it.

    Of each source these are its first messages, up to some number.
    """
    nodes = log.offsets.size - 1
    reading = Reading(
        cursor=log.offsets[:-1].copy(),
        ready=np.arange(nodes, dtype=np.int32),
        waiting=np.full(log.message_source.size, -1, np.int32),
        following=np.full(nodes, -1, np.int32),
    )
    resolved = np.zeros(log.message_source.size, np.uint8)
    RESOLVE.compiled()(log, reading, resolved)
    return resolved.astype(np.bool_)


def find_resolved(log: Log, reading: Reading, resolved: NDArray[np.uint8]) -> None:
    """Read every node's rows as far as each delivery comes after its broadcast was read.

    What lies in a cycle, or after one, waits for ever.
    """
    depth = reading.ready.size
    while depth > 0:
        depth -= 1
        node = reading.ready[depth]
        row = reading.cursor[node]
        while row < log.offsets[node + 1]:
            m = log.message[row]
            if log.kind[row] == BROADCAST:
                resolved[m] = 1
                waiter = reading.waiting[m]
                while waiter >= 0:
                    reading.ready[depth] = waiter
                    depth += 1
                    waiter = reading.following[waiter]
            elif log.message_source[m] >= 0 and resolved[m] == 0:
                reading.following[node] = reading.waiting[m]
                reading.waiting[m] = node
                break
            row += 1
        reading.cursor[node] = row


def find_cycles(log: Log, search: Search, cyclic: NDArray[np.uint8]) -> None:
    """Mark the messages whose broadcast is in a strongly connected component of several rows.

    A row follows the one before it at its node, and a delivery follows its broadcast.
    """
    count = 0
    kept_count = 0
    for root in range(log.message.size):
        depth = 0
        visit = root if search.reached[root] == 0 else -1
        while visit >= 0 or depth > 0:
            if visit >= 0:
                count += 1
                search.reached[visit] = count
                search.low[visit] = count
                search.calls[depth] = visit
                search.kept[kept_count] = visit
                depth += 1
                kept_count += 1
            row = search.calls[depth - 1]
            visit = -1
            if search.edge[row] < 2:
                search.edge[row] += 1
                cause = _cause(log, search, row)
                if cause >= 0 and search.reached[cause] == 0:
                    visit = cause
                elif cause >= 0 and search.edge[cause] < DONE:
                    search.low[row] = min(search.low[row], search.reached[cause])
                continue
            depth -= 1
            if depth > 0:
                caller = search.calls[depth - 1]
                search.low[caller] = min(search.low[caller], search.low[row])
            if search.low[row] == search.reached[row]:
                kept_count = _close_component(log, search, row, kept_count, cyclic)


@compiled.function()
def _cause(log: Log, search: Search, row: int) -> int:
    """Where the edge of a row just taken leads, or -1."""
    if search.edge[row] == 1:
        return -1 if search.opens[row] != 0 else row - 1
    if log.kind[row] == BROADCAST:
        return -1
    return int(log.broadcast_row[log.message[row]])


@compiled.function(inline=False)
def _close_component(
    log: Log, search: Search, row: int, kept_count: int, cyclic: NDArray[np.uint8]
) -> int:
    alone = search.kept[kept_count - 1] == row
    while True:
        kept_count -= 1
        member = search.kept[kept_count]
        search.edge[member] = DONE
        if not alone and log.kind[member] == BROADCAST:
            cyclic[log.message[member]] = 1
        if member == row:
            return kept_count


CYCLES: Final = compiled.Entry(find_cycles, label="the audit")
RESOLVE: Final = compiled.Entry(find_resolved, label="the audit")
