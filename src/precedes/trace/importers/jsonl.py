"""Reads event logs of one JSON object a line, as docs/formats.md describes them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from precedes.errors import UserError, meant
from precedes.trace.assemble import KINDS
from precedes.trace.dialect import (
    COLUMNS,
    ONE_RUN,
    PICTURED,
    RECEIVERS,
    Dialect,
    Found,
    by_line,
)
from precedes.trace.importers import plain_lines
from precedes.trace.importers.columns import disagree
from precedes.trace.importers.lines import Block, blocks
from precedes.trace.importers.rows import Rows

BARE: Final = ("crash", "leave")
NAMELESS: Final = ("join", *PICTURED)  # they may name a message
INTEGER_MAX: Final = 2**63 - 1


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, found: Found
) -> Iterator[pa.RecordBatch]:
    """The events of JSON lines, block by block; without ``local_seq`` a row's is its line."""
    for block in blocks(text, title=title, block_bytes=plain_lines.BLOCK_BYTES):
        yield from block_batches(block, title=title, dialect=dialect, found=found)


def block_batches(
    block: Block, *, title: str, dialect: Dialect, found: Found
) -> Iterator[pa.RecordBatch]:
    """The events of some lines."""
    # What other kinds mean is known line by line.
    plain = None
    if not dialect.kinds:
        plain = plain_lines.parse(
            block.text, first=block.first, taken=dialect.taken, folders=dialect.folders
        )
    if plain is None or found.has_order not in (None, plain.has_order):
        yield from _Lines(title, dialect, found).read(block)
    elif plain.rows.num_rows:
        _note_order(found, plain.has_order, title)
        yield plain.rows


def _note_order(found: Found, has_order: bool, where: str) -> None:
    found.note_order(has_order, where)
    if not has_order:
        found.place = by_line


class _Lines:
    """Reads a block line by line, and can say what is wrong with it."""

    def __init__(self, title: str, dialect: Dialect, found: Found) -> None:
        self._title = title
        self._dialect = dialect
        self._found = found
        self._folders = {
            key: value
            for key, value in dialect.folders.items()
            if key in (*COLUMNS, RECEIVERS) and value is not None
        }
        self._rows = Rows()

    def read(self, block: Block) -> Iterator[pa.RecordBatch]:
        """The rows of a block; those above a mistake come before it is raised."""
        try:
            for number, line in enumerate(io.BytesIO(block.text), start=block.first):
                if not line.isspace():
                    self._add(number, line)
        except UserError:
            yield self._rows.take()
            raise
        yield self._rows.take()

    def _add(self, number: int, line: bytes) -> None:
        event = self._object(number, line)
        name = self._value(number, event, "kind")
        if not isinstance(name, str):
            raise self._error(number, f"unknown kind {name!r}; known are {', '.join(KINDS)}")
        kind = self._kind(number, name)
        if kind is None:
            return
        if kind == "broadcast" and event.get(RECEIVERS) is not None:
            raise self._error(
                number,
                f'"{RECEIVERS}" says to whom the message goes, and messages to some nodes alone '
                "cannot be judged: leave it out if all go to everybody",
            )
        node = self._name(number, event, "node")
        bare = kind in BARE or (kind in NAMELESS and event.get("message") is None)
        time_us = event.get("time_us")
        is_time = type(time_us) is int and abs(time_us) <= INTEGER_MAX
        run_id = event.get("run_id")
        self._rows.add(
            run_id=ONE_RUN if run_id is None else self._name(number, event, "run_id"),
            node=node,
            local_seq=self._local_seq(number, event),
            time_us=time_us if is_time else None,
            kind=kind,
            message=None if bare else self._name(number, event, "message"),
        )

    def _local_seq(self, number: int, event: dict[str, Any]) -> int:
        local_seq = event.get("local_seq")
        _note_order(self._found, local_seq is not None, f"{self._title}, line {number}")
        if local_seq is None:
            return number
        if type(local_seq) is not int or abs(local_seq) > INTEGER_MAX:
            what = f'"local_seq" must be an integer of 64 bits, not {local_seq!r}'
            raise self._error(number, what)
        return local_seq

    def _kind(self, number: int, name: str) -> str | None:
        if self._dialect.kinds:
            try:
                return self._dialect.kind_of(name)
            except ValueError as error:
                raise self._error(number, str(error)) from None
        if name not in KINDS:
            known = f"known are {', '.join(KINDS)}"
            raise self._error(number, f"unknown kind {name!r}{meant(name, KINDS)}; {known}")
        return name if name in self._dialect.taken else None

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            event = json.loads(line.decode())
        except UnicodeDecodeError:
            raise self._error(number, "not a JSON object (not UTF-8 text)") from None
        except json.JSONDecodeError as error:
            raise self._error(number, f"not a JSON object ({error.msg})") from None
        except RecursionError:
            raise self._error(number, "nested too deeply") from None
        except ValueError:
            limit = sys.get_int_max_str_digits()
            raise self._error(number, f"a number has more than {limit:,} digits") from None
        if not isinstance(event, dict):
            raise self._error(number, "not a JSON object")
        for key, value in self._folders.items():
            if event.get(key) is None:
                event[key] = value
            elif str(event[key]) != value:
                raise self._error(number, disagree(key, value, event[key]))
        return event

    def _name(self, number: int, event: dict[str, Any], key: str) -> str:
        value = self._value(number, event, key)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._error(number, f'"{key}" must be a string or an integer, not {value!r}')
        name = str(value)
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise self._error(number, f'"{key}" holds half a character: {value!r}') from None
        return name

    def _value(self, number: int, event: dict[str, Any], key: str) -> object:
        if key not in event:
            raise self._error(number, f'"{key}" is missing')
        return event[key]

    def _error(self, number: int, what: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {what}")
