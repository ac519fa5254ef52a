"""A table of events of one run, with names of nodes and messages, as a history."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.model import UserError
from precedes.trace import History
from precedes.trace.history import BROADCAST, DELIVER

COLUMNS: Final = ("run_id", "node", "local_seq", "kind", "message (or source and seq)")


def history_of(table: pa.Table, *, run_id: int) -> History:
    """The history in columns node, local_seq, kind and message; rows in any order.

    ``node`` and ``message`` are names. Nodes are in the order of their names, as numbers if all
    are whole numbers.
    """
    title = f"run {run_id}"
    for name in ("node", "local_seq", "kind"):
        if table.column(name).null_count:
            raise UserError(f"{title}: the column {name} has empty cells")
    names, node = _factorise(table.column("node"))
    local_seq = table.column("local_seq").to_numpy()
    order = np.lexsort((local_seq, node))
    node, local_seq = node[order], local_seq[order]
    if np.any((node[1:] == node[:-1]) & (local_seq[1:] == local_seq[:-1])):
        raise UserError(f"{title}: two events of a node share a local_seq")
    kind_names = table.column("kind").combine_chunks().to_numpy(zero_copy_only=False)[order]
    crash = kind_names == "crash"
    kept = np.flatnonzero(~crash)
    crashed = np.unique(node[crash]).astype(np.int32)
    kind = np.where(kind_names[kept] == "broadcast", BROADCAST, DELIVER).astype(np.int8)
    node = node[kept]
    column = table.column("message").take(pa.array(order[kept]))
    if column.null_count:
        raise UserError(f"{title}: the column message has empty cells")
    message_names, message = _factorise(column)
    source, sequence = _messages(node, kind, message, message_names, title)
    counts = np.bincount(node, minlength=len(names))
    return History(
        nodes=len(names),
        offsets=np.concatenate(([0], np.cumsum(counts))),
        kind=kind,
        message=message,
        message_source=source,
        message_sequence=sequence,
        complete=False,
        crashed=crashed,
        node_names=names,
        message_names=message_names,
        run_id=run_id,
        origin=title,
    )


def _factorise(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct names in order, and for each row the position of its own."""
    coded = pc.dictionary_encode(column.combine_chunks())
    names: list[str] = coded.dictionary.to_pylist()
    numbers = all(name.removeprefix("-").isdecimal() for name in names)
    ordered = sorted(names, key=lambda name: (int(name), name) if numbers else (0, name))
    rank = np.empty(len(names), np.int32)
    position = {name: number for number, name in enumerate(ordered)}
    rank[:] = [position[name] for name in names]
    return ordered, rank[coded.indices.to_numpy(zero_copy_only=False)]


def _messages(
    node: NDArray[np.int32],
    kind: NDArray[np.int8],
    message: NDArray[np.int32],
    names: list[str],
    title: str,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Who broadcast each message, and as its how-many-th."""
    rows = np.flatnonzero(kind == BROADCAST)
    count = np.bincount(message[rows], minlength=len(names))
    if np.any(count > 1):
        raise UserError(f"{title}: {names[int(np.argmax(count > 1))]} is broadcast twice")
    source = np.full(len(names), -1, np.int32)
    source[message[rows]] = node[rows]
    sequence = np.zeros(len(names), np.int32)
    first = np.searchsorted(node[rows], node[rows])
    sequence[message[rows]] = np.arange(rows.size) - first + 1
    return source, sequence
