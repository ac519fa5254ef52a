"""Which messages precede themselves, among the rows that wait?

A row that was taken comes after all that precedes it, so a circle lies in rows that were not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from precedes.audit.growing.kernel import BROADCAST, DELIVER, MASK, SHIFT


def waiting_in_circles(waits_for: dict[int, int], read: NDArray[np.int64]) -> frozenset[int]:
    """The nodes that wait for each other; each waits for one message, which may be unread."""
    follows = {
        node: message >> SHIFT
        for node, message in waits_for.items()
        if message >= 0
        and message >> SHIFT < read.size
        and message & MASK <= read[message >> SHIFT]
    }
    seen: dict[int, int] = {}
    found: set[int] = set()
    for start in follows:
        node = start
        while node in follows and node not in seen:
            seen[node] = start
            node = follows[node]
        if node in follows and seen[node] == start:
            while node not in found:
                found.add(node)
                node = follows[node]
    return frozenset(found)


def cyclic_messages(
    offsets: NDArray[np.int64], kind: NDArray[np.int8], message: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The messages in circles of these rows, each node's in its own order, lowest first.

    Tarjan's algorithm; an event of the graph is a broadcast, or a delivery of one of them.
    """
    chosen = np.flatnonzero(kind == BROADCAST)
    sent = {int(message[row]): int(row) for row in chosen}
    keep = [
        int(row)
        for row in np.flatnonzero((kind == BROADCAST) | (kind == DELIVER))
        if int(message[row]) in sent
    ]
    owner = np.searchsorted(offsets, keep, side="right") - 1
    before = {row: keep[i - 1] for i, row in enumerate(keep) if i and owner[i - 1] == owner[i]}
    found: list[int] = []
    for component in _components(keep, before, kind, message, sent):
        if len(component) > 1:
            found += [int(message[row]) for row in component if kind[row] == BROADCAST]
    return np.array(sorted(found), np.int64)


def _components(
    rows: list[int],
    before: dict[int, int],
    kind: NDArray[np.int8],
    message: NDArray[np.int64],
    sent: dict[int, int],
) -> Iterator[list[int]]:
    """The strongly connected components of rows and what directly precedes them."""

    def causes(row: int) -> list[int]:
        found = [before[row]] if row in before else []
        return [*found, sent[int(message[row])]] if kind[row] == DELIVER else found

    reached: dict[int, int] = {}
    low: dict[int, int] = {}
    kept: list[int] = []
    is_kept: set[int] = set()
    for root in rows:
        if root in reached:
            continue
        calls = [(root, iter(causes(root)))]
        reached[root] = low[root] = len(reached)
        kept.append(root)
        is_kept.add(root)
        while calls:
            row, left = calls[-1]
            cause = next(left, None)
            if cause is None:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[row])
                if low[row] == reached[row]:
                    component = [kept.pop()]
                    while component[-1] != row:
                        component.append(kept.pop())
                    is_kept.difference_update(component)
                    yield component
            elif cause not in reached:
                reached[cause] = low[cause] = len(reached)
                kept.append(cause)
                is_kept.add(cause)
                calls.append((cause, iter(causes(cause))))
            elif cause in is_kept:
                low[row] = min(low[row], reached[cause])
