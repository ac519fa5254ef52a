"""Builds a history from the rows of a log, whatever its format.

A ``join`` may name a message: its node begins with that one and the earlier ones of its source.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.model import EventKind
from precedes.trace.history import BROADCAST, DELIVER, History
from precedes.trace.message_index import index_messages

CRASH: Final = int(EventKind.CRASH)
JOIN: Final = int(EventKind.JOIN)
LEAVE: Final = int(EventKind.LEAVE)
KINDS: Final = {kind.name.lower(): int(kind) for kind in EventKind}
JUDGED: Final = {name: KINDS[name] for name in ("broadcast", "deliver", "crash", "join", "leave")}
NO_MESSAGE: Final = -1

# Names that sort as numbers: what traces and databases usually call their nodes.
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


def numbered_history(
    *,
    offsets: NDArray[np.int64],
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    title: str,
    **fields: Any,
) -> History:
    """The history of rows whose messages are pairs (source, seq), sorted by node and its order.

    A seq of 0 in a row about a node names no message.
    """
    bare = (kind == CRASH) | (kind == LEAVE) | ((kind == JOIN) & (seq == 0))
    if not bare.any():
        index = index_messages(offsets, kind, source, seq, title=title)
        message = index.message
    else:
        kept = ~bare
        inside = offsets - np.searchsorted(np.flatnonzero(bare), offsets)
        index = index_messages(inside, kind[kept], source[kept], seq[kept], title=title)
        message = np.full(kind.size, NO_MESSAGE, np.int32)
        message[kept] = index.message
    return _history(
        offsets=offsets,
        kind=kind,
        message=message,
        message_source=index.source,
        message_sequence=index.sequence,
        message_names=index.names,
        phantom_names=index.phantom_names,
        **fields,
    )


def named_history(
    *,
    names: list[str],
    node: NDArray[np.int32],
    kind: NDArray[np.int8],
    labels: list[str],
    message: NDArray[np.int32],
    complete: bool = False,
    **fields: Any,
) -> History:
    """The history of rows with names: each node's in its own order, nodes in any.

    ``node`` and ``message`` are positions in ``names`` and ``labels``. Numbers are given by names
    and the nodes' own orders alone: however nodes are interleaved, the history is the same.
    Whether the log goes on is not known, unless the caller says so.
    """
    ordered = in_order(names)
    rank = np.empty(len(names), np.int32)
    position = {name: number for number, name in enumerate(ordered)}
    rank[:] = [position[name] for name in names]
    node = rank[node]
    order = np.argsort(node, kind="stable")
    node, kind, message = node[order], kind[order], message[order]
    rows = np.flatnonzero(kind == BROADCAST)
    sent, source = message[rows], node[rows]
    unsent = np.ones(len(labels), np.bool_)
    unsent[sent] = False
    phantoms = sorted(np.flatnonzero(unsent).tolist(), key=labels.__getitem__)
    number = np.empty(len(labels) + 1, np.int32)
    number[sent] = np.arange(sent.size)
    number[phantoms] = np.arange(sent.size, len(labels))
    number[NO_MESSAGE] = NO_MESSAGE
    sequence = np.arange(rows.size) - np.searchsorted(source, source) + 1
    counts = np.bincount(node, minlength=len(names))
    return _history(
        nodes=len(names),
        offsets=np.concatenate(([0], np.cumsum(counts))),
        kind=kind,
        message=number[message],
        message_source=np.concatenate((source, np.full(len(phantoms), -1))),
        message_sequence=np.concatenate((sequence, np.zeros(len(phantoms), np.int64))),
        node_names=ordered,
        message_names=[labels[m] for m in (*sent.tolist(), *phantoms)],
        complete=complete,
        **fields,
    )


def in_order(names: list[str]) -> list[str]:
    """Names sorted, as numbers if all are."""
    if all(_NUMBER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def _history(
    *,
    offsets: NDArray[np.int64],
    kind: NDArray[np.int8],
    message: NDArray[np.int32],
    time_us: NDArray[np.int64] | None = None,
    **fields: Any,
) -> History:
    """A history of these rows; those about membership are taken out."""
    about = (kind != BROADCAST) & (kind != DELIVER)
    if about.any():
        rows = np.flatnonzero(about)
        fields |= _members(rows, kind[rows], message[rows], offsets)
        offsets = offsets - np.searchsorted(rows, offsets)
        kind, message = kind[~about], message[~about]
        time_us = time_us[~about] if time_us is not None else None
    return History(offsets=offsets, kind=kind, message=message, time_us=time_us, **fields)


def _members(
    rows: NDArray[np.int64],
    kind: NDArray[np.int8],
    message: NDArray[np.int32],
    offsets: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """Crashes, joins and leaves, from the rows that tell of them."""
    node = (np.searchsorted(offsets, rows, side="right") - 1).astype(np.int32)
    # How many broadcasts and deliveries of the same node come before.
    first = np.searchsorted(rows, offsets[node])
    own = rows - offsets[node] - (np.arange(rows.size) - first)
    joins = kind == JOIN
    last = {int(n): int(k) for n, k in zip(node[kind != CRASH], kind[kind != CRASH], strict=True)}
    departed = sorted(n for n, k in last.items() if k == LEAVE)
    return {
        "crashed": np.unique(node[kind == CRASH]),
        "join_node": node[joins],
        "join_row": own[joins],
        "join_message": message[joins],
        "departed": np.array(departed, np.int32),
    }
