"""Waiting times of deliveries since their messages arrived, and undelivered messages."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes.viewer.events import (
    DELIVER,
    DISCARD,
    NO_MESSAGE,
    RECEIVE,
    UNTIMED,
    Chunk,
    Events,
    joined,
)

UNKNOWN_WAIT: Final = 2**32 - 1
ENDS: Final = (DELIVER, DISCARD)


def waits_of(events: Events, rows: Chunk, *, receptions: int) -> NDArray[np.uint32]:
    """Waiting time of each row's message at its node; unknown for a log without receptions."""
    waits = np.full(rows.node.size, UNKNOWN_WAIT, np.uint32)
    ends = np.flatnonzero(np.isin(rows.kind, ENDS) & (rows.time_us != UNTIMED))
    if events.tells_waits:
        waits[ends] = 0
    if receptions == 0 or not ends.size:
        return waits
    pairs = _Pairs(rows.node[ends], rows.message[ends])
    arrived = np.full(pairs.size, np.iinfo(np.int64).max, np.int64)
    for chunk in events.chunks():
        came = chunk.at((chunk.kind == RECEIVE) & (chunk.time_us != UNTIMED))
        at, inside = pairs.find(came.node, came.message)
        np.minimum.at(arrived, at[inside], came.time_us[inside])
    first = arrived[pairs.own]
    known = first <= rows.time_us[ends]
    lasted = np.minimum(rows.time_us[ends] - first, UNKNOWN_WAIT - 1)
    waits[ends[known]] = lasted[known]
    return waits


def pending(
    events: Events, shown: NDArray[np.bool_], *, from_us: int, to_us: int, limit: int
) -> Chunk:
    """The first arrivals in a window that their nodes never deliver, up to a limit."""
    kept: list[Chunk] = []
    rows = 0
    for chunk in events.chunks():
        inside = (chunk.time_us >= from_us) & (chunk.time_us <= to_us) & shown[chunk.node]
        named = chunk.message != NO_MESSAGE
        part = chunk.at(inside & named & (chunk.kind == RECEIVE))
        kept.append(part)
        rows += part.node.size
        if rows > (1 << 20) + 2 * limit:
            kept = [_first(joined(kept))]
            rows = kept[0].node.size
    came = _first(joined(kept))
    if not came.node.size:
        return came
    pairs = _Pairs(came.node, came.message)
    done = np.zeros(pairs.size, np.bool_)
    for chunk in events.chunks():
        ended = chunk.at(np.isin(chunk.kind, ENDS))
        at, is_pair = pairs.find(ended.node, ended.message)
        done[at[is_pair]] = True
    left = came.at(~done[pairs.own])
    order = np.lexsort((left.local_seq, left.node, left.time_us))
    return left.at(order[:limit])


def _first(rows: Chunk) -> Chunk:
    """Earliest arrival of each message at a node."""
    order = np.lexsort((rows.local_seq, rows.message, rows.node))
    rows = rows.at(order)
    new = np.ones(rows.node.size, np.bool_)
    new[1:] = (rows.node[1:] != rows.node[:-1]) | (rows.message[1:] != rows.message[:-1])
    return rows.at(new)


class _Pairs:
    """Pairs of a node and a message as numbers, to be looked up in any rows."""

    def __init__(self, node: NDArray[np.int32], message: NDArray[np.int64]) -> None:
        self._messages = np.unique(message)
        codes = self._code(node, np.searchsorted(self._messages, message))
        self._codes, self.own = np.unique(codes, return_inverse=True)
        self.size = self._codes.size

    def _code(self, node: NDArray[np.int32], place: NDArray[np.int64]) -> NDArray[np.int64]:
        return node.astype(np.int64) * self._messages.size + place

    def find(
        self, node: NDArray[np.int32], message: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each row the number of its pair, and whether it is one."""
        place = np.minimum(np.searchsorted(self._messages, message), self._messages.size - 1)
        code = self._code(node, place)
        at = np.minimum(np.searchsorted(self._codes, code), self.size - 1)
        return at, (self._codes[at] == code) & (self._messages[place] == message)
