"""Reads tables of events as text: a header, then a row an event."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.trace.arrow_arrays import integers, strings
from precedes.trace.dialect import Dialect, Found, by_line
from precedes.trace.importers.batches import BATCH_ROWS
from precedes.trace.importers.columns import BadRow, chosen_columns, events_of

SEPARATORS: Final = (",", ";", "\t", "|")
TYPED: Final = {"tab": "\t", "\\t": "\t"}  # what people write for it
CELL_CHARS_MAX: Final = 1 << 20


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, found: Found
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; without ``local_seq`` a row's is its line.

    A cell of more than ``CELL_CHARS_MAX`` characters is a UserError.
    """
    csv.field_size_limit(CELL_CHARS_MAX)
    # Left open: it is the caller's.
    lines = io.TextIOWrapper(text, encoding="utf-8-sig", newline="")
    try:
        yield from _Table(lines, title, dialect, found).batches()
    finally:
        with contextlib.suppress(ValueError):  # closed before this stream was read to its end
            lines.detach()


def separator_of(header: str, dialect: Dialect) -> str | None:
    """The character between cells: what was said, or what the header has most of."""
    if dialect.delimiter is not None:
        given = TYPED.get(dialect.delimiter, dialect.delimiter)
        if len(given) != 1:
            raise UserError(f"`delimiter` is one character in a table, not {dialect.delimiter!r}")
        return given
    counts = sorted(((header.count(mark), mark) for mark in SEPARATORS), reverse=True)
    (most, mark), (second, _) = counts[:2]
    return mark if most > second else None


def whole_rows(lines: bytes, mark: str) -> int:
    """How many bytes of whole lines are whole rows: a quoted cell may go on in lines to come.

    A malformed row counts as whole, since no more lines can make it right.
    """
    if b'"' not in lines:
        return len(lines)
    csv.field_size_limit(CELL_CHARS_MAX)
    text = io.TextIOWrapper(io.BytesIO(lines), "utf-8", errors="surrogateescape", newline="")
    read = whole = 0
    is_read = False

    def counted() -> Iterator[str]:
        nonlocal read, is_read
        for line in text:
            read += len(line.encode("utf-8", "surrogateescape"))
            yield line
        is_read = True

    try:
        for _ in csv.reader(counted(), delimiter=mark, strict=True):
            whole = read
    except csv.Error:
        return whole if is_read else len(lines)
    return whole


class _Table:
    def __init__(self, lines: io.TextIOWrapper, title: str, dialect: Dialect, found: Found) -> None:
        self._title = title
        self._dialect = dialect
        try:
            first = lines.readline()
        except UnicodeDecodeError:
            raise self._error(1, "not UTF-8 text") from None
        mark = separator_of(first, dialect)
        if mark is None:
            raise UserError(
                f"{title}: it cannot be told what stands between the cells of the header "
                f"{first.strip()[:80]!r}: say so with `delimiter`"
            )
        self._header = next(csv.reader([first], delimiter=mark), [])
        columns = chosen_columns(self._header, dialect, title=title)
        self._at = {ours: self._header.index(theirs) for ours, theirs in columns.items()}
        self._rows = csv.reader(lines, delimiter=mark, strict=True)
        self._before = found.rows
        self._found = found
        found.note_order("local_seq" in columns, title)
        if not found.has_order:
            found.place = by_line if found.rows == 0 else _by_row

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, many at a time."""
        while True:
            numbers, rows, problem = self._take()
            if rows:
                yield self._batch(numbers, rows)
            if problem is not None:
                raise problem
            if len(rows) < BATCH_ROWS:
                self._found.rows = self._before + self._rows.line_num + 1
                return

    def _take(self) -> tuple[list[int], list[list[str]], UserError | None]:
        """Some rows and their lines, and what is wrong with the next one."""
        numbers: list[int] = []
        rows: list[list[str]] = []
        while len(rows) < BATCH_ROWS:
            number = self._rows.line_num + 2  # the header is line 1
            try:
                row = next(self._rows, None)
            except (csv.Error, UnicodeDecodeError) as error:
                what = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
                return numbers, rows, self._error(number, what)
            if row is None:
                break
            if not row:
                continue
            if len(row) != len(self._header):
                what = f"{len(row)} cells, where the header has {len(self._header)}"
                return numbers, rows, self._error(number, what)
            numbers.append(number)
            rows.append(row)
        return numbers, rows, None

    def _batch(self, numbers: list[int], rows: list[list[str]]) -> pa.RecordBatch:
        columns = {
            ours: strings([row[at] or None for row in rows]) for ours, at in self._at.items()
        }
        if "local_seq" not in columns:
            place = [self._before + number for number in numbers]
            columns["local_seq"] = integers(place)
        try:
            return events_of(columns, self._dialect, first=0)
        except BadRow as bad:
            raise self._error(numbers[bad.row], bad.why) from None

    def _error(self, number: int, what: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {what}")


def _by_row(node: str, local_seq: int) -> str:
    return f"row {local_seq} of all files"
