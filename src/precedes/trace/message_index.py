"""Gives the messages of a trace their numbers: (source, seq) becomes an index."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.trace.history import BROADCAST

# Rows at a time, so that intermediate arrays stay in the cache.
STRIDE: Final = 1 << 16


class MessageIndex(NamedTuple):
    """The message of every row, and the table of messages; phantoms come last."""

    message: NDArray[np.int32]  # row
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    names: list[str] | None  # only if a ``seq`` is not the position among its source's
    phantom_names: dict[int, str]


def index_messages(
    offsets: NDArray[np.int64],
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    *,
    title: str,
) -> MessageIndex:
    """Number the broadcasts in the order of rows, and find them again in the deliveries."""
    nodes = offsets.size - 1
    rows = np.flatnonzero(kind == BROADCAST)
    node = np.searchsorted(offsets, rows, side="right") - 1
    foreign = np.flatnonzero(source[rows] != node)
    if foreign.size:
        row = rows[foreign[0]]
        raise UserError(
            f"{title}: node {node[foreign[0]]} broadcasts {source[row]}:{seq[row]}, a message "
            "of another node: record the trace again"
        )
    first = np.searchsorted(node, np.arange(nodes + 1)).astype(np.int32)
    rank = (np.arange(rows.size) - first[node] + 1).astype(np.int32)
    names: list[str] | None = None
    if np.array_equal(seq[rows], rank):
        message = _by_rank(first, source, seq)
    else:
        message = _by_search(_keys(source, seq), rows, source, seq, title)
        pairs = zip(source[rows].tolist(), seq[rows].tolist(), strict=True)
        names = [f"{s}:{q}" for s, q in pairs]
    phantom = np.flatnonzero(message < 0)
    unknown, inverse = np.unique(_keys(source[phantom], seq[phantom]), return_inverse=True)
    message[phantom] = rows.size + inverse
    labels = [f"{key >> 32}:{(key & 0xFFFFFFFF) - 2**31}" for key in unknown.tolist()]
    return MessageIndex(
        message=message,
        source=np.concatenate((node, np.full(len(labels), -1))).astype(np.int32),
        sequence=np.concatenate((rank, np.zeros(len(labels)))).astype(np.int32),
        names=None if names is None else names + labels,
        phantom_names={rows.size + i: label for i, label in enumerate(labels)},
    )


def _by_rank(
    first: NDArray[np.int32], source: NDArray[np.int32], seq: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The usual trace: a source's messages are 1, 2, 3, ... and need no search."""
    message = np.empty(source.size, np.int32)
    nodes = first.size - 1
    counts = np.diff(first)
    for start in range(0, source.size, STRIDE):
        rows = slice(start, start + STRIDE)
        known = np.clip(source[rows], 0, nodes - 1)
        inside = (known == source[rows]) & (seq[rows] >= 1) & (seq[rows] <= counts[known])
        message[rows] = np.where(inside, first[known] + (seq[rows] - 1), -1)
    return message


def _by_search(
    keys: NDArray[np.int64],
    rows: NDArray[np.int64],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    title: str,
) -> NDArray[np.int32]:
    order = np.argsort(keys[rows], kind="stable")
    ordered = keys[rows][order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        row = rows[order[twice[0]]]
        raise UserError(
            f"{title}: {source[row]}:{seq[row]} is broadcast twice: record the trace again"
        )
    if rows.size == 0:
        return np.full(keys.size, -1, np.int32)
    at = np.minimum(np.searchsorted(ordered, keys), rows.size - 1)
    return np.where(ordered[at] == keys, order[at], -1).astype(np.int32)


def _keys(source: NDArray[np.int32], seq: NDArray[np.int32]) -> NDArray[np.int64]:
    return (source.astype(np.int64) << 32) + (seq.astype(np.int64) + 2**31)
