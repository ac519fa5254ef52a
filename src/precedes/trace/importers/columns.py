"""Tables whose columns and kinds may have other names than ours, as common rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from precedes.errors import UserError, meant
from precedes.model import printable
from precedes.trace.arrow_arrays import (
    integers,
    nanoseconds,
    repeated,
    strings,
    to_arrow,
    to_numpy,
)
from precedes.trace.dialect import COLUMNS, Dialect, refuse_receivers, refuse_twins
from precedes.trace.schema import EVENTS

WHOLE: Final = ("local_seq", "seq")


class BadRow(Exception):
    """A row that no event can be made of: which of the batch, from 0, and why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.why = why


def chosen_columns(present: Sequence[str], dialect: Dialect, *, title: str) -> dict[str, str]:
    """Which of a table's columns are ours: our name -> its name.

    Those that only its folders name are not among them, and not missing either.
    """
    known = {*present, *dialect.folders}
    refuse_receivers(known - set(dialect.columns.values()), title=title)
    for ours, theirs in dialect.columns.items():
        if theirs not in known:
            raise UserError(
                f"{title} has no column {theirs!r}{meant(theirs, present)}, which `columns` names "
                f"for {ours}; it has {_listed(present)}"
            )
    taken = {ours: dialect.columns.get(ours, ours) for ours in COLUMNS}
    found = {ours: theirs for ours, theirs in taken.items() if theirs in known}
    wanted = ["node", "kind", *([] if "message" in found else ["source", "seq"])]
    missing = [name for name in wanted if name not in found]
    if missing:
        lacks = "message" if missing == ["source", "seq"] else missing[0]
        raise UserError(
            f"{title} has no column {lacks}; it has {_listed(present)}: say which is meant with "
            f"`columns` {lacks}=..."
        )
    if "message" in found:
        found.pop("source", None)
        found.pop("seq", None)
    refuse_twins(present, found.values(), title=title)
    return {ours: theirs for ours, theirs in found.items() if theirs in present}


def _listed(present: Sequence[str]) -> str:
    shown = [printable(name) for name in present[:12]]
    return ", ".join(shown) + (", ..." if len(present) > 12 else "")


def events_of(columns: Mapping[str, pa.Array], dialect: Dialect, *, first: int) -> pa.RecordBatch:
    """Rows of a table as events; those of kinds that are not taken are left out.

    ``columns`` has our names; folders may add some. Without ``local_seq`` a row's is its place in
    the table, the first of these rows being ``first``. What is wrong is a ``BadRow``.
    """
    columns = {name: _typed(column, name) for name, column in columns.items()}
    columns |= _in_folders(columns, dialect)
    kind, kept = _kinds(columns["kind"], dialect)
    place = np.arange(first, first + kept.size)[kept]
    if not kept.all():
        rows = to_arrow(np.flatnonzero(kept))
        columns = {name: column.take(rows) for name, column in columns.items()}
        kind = kind.take(rows)
    row = np.flatnonzero(kept)
    message = columns["message"] if "message" in columns else _pairs(kind, columns)
    bare = pc.is_in(kind, strings(["crash", "leave"]))
    owed = pc.is_in(kind, strings(["broadcast", "deliver"]))
    for name in ("run_id", "node", "local_seq"):
        if name in columns and columns[name].null_count:
            raise BadRow(int(row[_first(pc.is_null(columns[name]))]), f"{name} is empty")
    empty = pc.and_(owed, pc.is_null(message))
    if pc.any(empty).as_py():
        raise BadRow(int(row[_first(empty)]), "message is empty")
    size = len(kind)
    message = pc.if_else(bare, pa.nulls(size, pa.string()), message)
    return pa.RecordBatch.from_arrays(
        [
            columns.get("run_id", repeated(dialect.one_run, size)),
            columns["node"],
            columns.get("local_seq", to_arrow(place)),
            columns.get("time_us", pa.nulls(size, pa.int64())),
            kind,
            message,
        ],
        schema=EVENTS,
    )


def _in_folders(columns: Mapping[str, pa.Array], dialect: Dialect) -> dict[str, pa.Array]:
    """Columns that folders name; one that the table has too must hold the same."""
    found = {}
    for ours in COLUMNS:
        theirs = dialect.columns.get(ours, ours)
        if theirs in dialect.folders:
            value = dialect.folders[theirs]
            size = len(next(iter(columns.values())))
            found[ours] = _typed(repeated(value, size), ours)
            if ours in columns and not found[ours].equals(columns[ours]):
                row = int(np.argmax([cell != value for cell in columns[ours].to_pylist()]))
                raise BadRow(row, disagree(theirs, value, columns[ours][row].as_py()))
    return found


def disagree(name: str, value: str | None, cell: object) -> str:
    """What is wrong if a column and a folder of one name differ."""
    return f"{name} is {cell!r}, and the folder says {name}={value}: rename one"


def _typed(column: pa.Array, name: str) -> pa.Array:
    """A column as strings, or as whole numbers if it is one of those."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.int64() if name in (*WHOLE, "time_us") else pa.string())
    if name == "local_seq" and pa.types.is_timestamp(kind):
        return nanoseconds(column)
    is_text = any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )
    if not is_text and not pa.types.is_integer(kind):
        if name == "time_us":  # for people only
            return pa.nulls(len(column), pa.int64())
        raise UserError(f"the column {name} holds {kind} instead of strings or whole numbers")
    if name == "time_us":
        return _whole(column, name) if not is_text else _times(column)
    return _whole(column, name) if name in WHOLE else column.cast(pa.string())


def _whole(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        for row, value in enumerate(column.to_pylist()):
            try:
                if value is None or -(2**63) <= int(str(value)) < 2**63:
                    continue
            except ValueError:
                pass
            raise BadRow(row, f"{name} is {value!r}, no whole number") from None
        raise


def _times(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.nulls(len(column), pa.int64())


def _kinds(column: pa.Array, dialect: Dialect) -> tuple[pa.Array, np.ndarray]:
    """Our names of kinds, and which rows are judged."""
    if column.null_count:
        raise BadRow(_first(pc.is_null(column)), "kind is empty")
    coded = column.dictionary_encode()
    codes = to_numpy(coded.indices)
    ours: list[str | None] = []
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            ours.append(dialect.kind_of(text))
        except ValueError as error:
            raise BadRow(int(np.argmax(codes == number)), str(error)) from None
    judged = np.array([name is not None for name in ours] or [False])[codes]
    return strings(ours).take(coded.indices), judged


def _pairs(kind: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """source:seq as the name of a message; none if a join names nothing."""
    pair = pc.binary_join_element_wise(columns["source"], columns["seq"].cast(pa.string()), ":")
    seq = columns["seq"]
    first = pc.is_in(seq, integers([0]))
    nothing = pc.and_(pc.is_in(kind, strings(["join"])), first)
    return pc.if_else(nothing, pa.nulls(len(kind), pa.string()), pair)


def _first(mask: pa.Array) -> int:
    return int(np.argmax(mask.to_numpy(zero_copy_only=False)))
