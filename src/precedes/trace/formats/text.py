"""Helpers of importers: text cut into blocks of whole lines, and rows collected into batches."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from precedes.errors import UserError
from precedes.trace.arrays import integers, strings
from precedes.trace.schema import DRAWN, EVENTS
from precedes.trace.source import BOM

BATCH_ROWS: Final = 1 << 16

BLOCK_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 64 << 20
TEXT_CHARS_MAX: Final = 1_000


def one_line(text: object) -> str | None:
    """The text of an event for a picture, cut after ``TEXT_CHARS_MAX``; None if it is empty."""
    words = " ".join(text.split())[:TEXT_CHARS_MAX] if isinstance(text, str) else ""
    return words.encode(errors="replace").decode() or None  # JSON may hold half a character


class EventRows:
    """Collects rows until ``full``, then yields them as a batch of ``EVENTS``, or ``DRAWN``."""

    def __init__(self, *, drawn: bool = False) -> None:
        self._schema = DRAWN if drawn else EVENTS
        self._rows: list[tuple[str, str, int, int | None, str, str | None, str | None]] = []

    def add(
        self,
        *,
        run_id: str,
        node: str,
        local_seq: int,
        kind: str,
        message: str | None,
        time_us: int | None = None,
        text: str | None = None,
    ) -> None:
        """Add an event."""
        self._rows.append((run_id, node, local_seq, time_us, kind, message, text))

    def __len__(self) -> int:
        """Number of collected rows."""
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Return whether the batch should be taken."""
        return len(self._rows) >= BATCH_ROWS

    def take(self) -> pa.RecordBatch:
        """The collected rows, which are removed."""
        columns: list[Any] = list(zip(*self._rows, strict=True)) or [()] * len(DRAWN)
        self._rows.clear()
        arrays = [
            integers(column) if field.type == pa.int64() else strings(column)
            for column, field in zip(columns, self._schema, strict=False)  # the text is last
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class Block(NamedTuple):
    """Some whole lines and the number of the first, from 1."""

    first: int
    text: bytes


def blocks(
    file: io.BufferedReader, *, title: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Whole lines, about ``block_bytes`` at a time; a longer line is not cut, up to a limit.

    A line of more than ``LINE_BYTES_MAX`` is a UserError. Lines read before an error come first,
    so that a mistake in them is reported, not the error.
    """
    waiting = bytearray()
    first = 1
    at_start = True
    while True:
        try:
            part = file.read1(block_bytes)
        except BaseException:
            yield Block(first, bytes(waiting[: waiting.rfind(b"\n") + 1]))
            raise
        waiting += part
        if at_start and (len(waiting) >= len(BOM) or not part):
            del waiting[: len(BOM) if waiting.startswith(BOM) else 0]
            at_start = False
        if not part:
            yield Block(first, bytes(waiting))
            return
        if len(waiting) >= block_bytes and b"\n" in part:
            end = waiting.rfind(b"\n") + 1
            text = bytes(waiting[:end])
            yield Block(first, text)
            first += text.count(b"\n")
            del waiting[:end]
        elif len(waiting) > max(LINE_BYTES_MAX, block_bytes):
            number = first + waiting.count(b"\n")
            raise UserError(
                f"{title}, line {number}: more than {LINE_BYTES_MAX >> 20} MB without a line end: "
                "a record is a line"
            )
