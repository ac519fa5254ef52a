"""A table of events of one run, with names of nodes and messages, as a history."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace import History
from precedes.trace.assemble import CRASH, JOIN, JUDGED, KINDS, LEAVE, NO_MESSAGE, named_history
from precedes.trace.history import BROADCAST

COLUMNS: Final = ("run_id", "node", "local_seq", "kind", "message (or source and seq)")
IGNORED: Final = sorted(set(KINDS) - set(JUDGED))  # kinds of which the audit knows nothing to say


def history_of(table: pa.Table, *, run_id: int | str) -> History:
    """The history in columns node, local_seq, kind and message; rows in any order.

    ``node`` and ``message`` are names; a crash and a leave have no message, and a join need not
    have one. Nodes are in the order of their names, as numbers if all are whole numbers.
    """
    title = f"run {printable(str(run_id))}"
    for name in ("node", "local_seq"):
        if table.column(name).null_count:
            raise UserError(f"{title}: the column {name} has empty cells")
    kind = _kinds(table, title)
    kept = np.flatnonzero(kind >= 0)
    table, kind = table.take(pa.array(kept)), kind[kept]
    names, node = _factorise(table.column("node"))
    local_seq = table.column("local_seq").to_numpy()
    order = np.lexsort((local_seq, node))
    node, local_seq, kind = node[order], local_seq[order], kind[order]
    if np.any((node[1:] == node[:-1]) & (local_seq[1:] == local_seq[:-1])):
        raise UserError(f"{title}: two events of a node share a local_seq")
    labels, message = _messages(table.column("message").take(pa.array(order)), kind, title)
    _check_broadcasts(message[kind == BROADCAST], labels, title)
    return named_history(
        names=names,
        node=node,
        kind=kind,
        labels=labels,
        message=message,
        run_id=run_id,
        origin=title,
    )


def _kinds(table: pa.Table, title: str) -> NDArray[np.int8]:
    """Kinds as numbers, -1 for those that the audit ignores; others are refused with their row."""
    coded = pc.dictionary_encode(table.column("kind").combine_chunks(), null_encoding="encode")
    found = coded.dictionary.to_pylist()
    unknown = [number for number, name in enumerate(found) if name not in KINDS]
    index = coded.indices.to_numpy(zero_copy_only=False)
    if unknown:
        row = int(np.flatnonzero(np.isin(index, unknown))[0])
        name = found[index[row]]
        wrong = "no kind" if name is None else f"the unknown kind {name!r}"
        where = printable(str(table.column("node")[row]))
        raise UserError(
            f"{title}: node {where}, local_seq {table.column('local_seq')[row]}: {wrong}; known "
            f"are {', '.join(KINDS)}"
        )
    return np.array([JUDGED.get(name, -1) for name in found] or [-1], np.int8)[index]


def _messages(
    column: pa.ChunkedArray, kind: NDArray[np.int8], title: str
) -> tuple[list[str], NDArray[np.int32]]:
    """The names of messages, and for each row the position of its own, or NO_MESSAGE."""
    bare = (kind == CRASH) | (kind == LEAVE)
    absent = np.asarray(column.is_null().to_numpy())
    if np.any(absent & ~bare & (kind != JOIN)):
        raise UserError(f"{title}: the column message has empty cells")
    named = np.flatnonzero(~absent & ~bare)
    labels, codes = _factorise(column.take(pa.array(named)))
    message = np.full(kind.size, NO_MESSAGE, np.int32)
    message[named] = codes
    return labels, message


def _factorise(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct names, and for each row the position of its own."""
    coded = pc.dictionary_encode(column.combine_chunks())
    names: list[str] = coded.dictionary.to_pylist()
    return names, coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)


def _check_broadcasts(message: NDArray[np.int32], labels: list[str], title: str) -> None:
    twice = np.flatnonzero(np.bincount(message, minlength=len(labels)) > 1)
    if twice.size:
        raise UserError(f"{title}: {printable(labels[twice[0]])} is broadcast twice")
