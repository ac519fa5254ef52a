"""Reads event logs of one JSON object a line, as docs/formats.md describes them.

Blocks of regular lines are parsed by pyarrow, which is lenient where ``json`` is not,
and the other way round. Lines that the two would parse differently are left to the parser that goes
line by line, and so is every error, which it can explain.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from precedes.errors import UserError, meant
from precedes.trace.arrays import mask, repeated, to_arrow, to_numpy
from precedes.trace.dialect import (
    COLUMNS,
    ONE_RUN,
    PICTURED,
    RECEIVERS,
    Dialect,
    Notes,
    by_line,
)
from precedes.trace.formats.tables import disagree
from precedes.trace.formats.text import BLOCK_BYTES, Block, EventRows, blocks, one_line
from precedes.trace.rows import KINDS
from precedes.trace.schema import EVENTS

BARE: Final = ("crash", "leave")
NAMELESS: Final = ("join", *PICTURED)  # they may or may not name a message
INTEGER_MAX: Final = 2**63 - 1

NAMES: Final = ("node", "message")
# And names that are all numbers.
OPTIONAL: Final = (("run_id", False), ("time_us", True), ("local_seq", True))
# Python refuses to nest deeper than some hundreds, and integers of more digits than a limit that
# can be set, but not to less than this. pyarrow takes any.
DEPTH_MAX: Final = 64
DIGITS_MAX: Final = 640
DIGITS: Final = re.compile(rb"[0-9]{%d}" % DIGITS_MAX)
# A character may be written as an escape, also in a key.
LETTER: Final = re.compile(rb"\\u00[567]")
# pyarrow accepts Inf as a number, and -NaN. Begins with what can be searched for fast.
INF: Final = re.compile(rb"Inf(?=[\s,}\]])(?<=[-:,\[\s]Inf)")
RECEIVERS_KEY: Final = f'"{RECEIVERS}"'.encode()


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """The events of JSON lines, block by block; without ``local_seq`` a row's is its line."""
    for block in blocks(text, title=title, block_bytes=BLOCK_BYTES):
        yield from block_batches(block, title=title, dialect=dialect, notes=notes)


def block_batches(
    block: Block, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """The events of some lines."""
    # Mapped kinds are resolved line by line, and texts are read there.
    plain = None
    has_texts = dialect.drawn and dialect.key("text").encode() in block.text
    if not dialect.kinds and not has_texts:
        plain = parse(block.text, first=block.first, dialect=dialect)
    if plain is None or notes.has_order not in (None, plain.has_order):
        yield from _Lines(title, dialect, notes).read(block)
    elif plain.rows.num_rows:
        _note_order(notes, plain.has_order, title)
        yield plain.rows


def _note_order(notes: Notes, has_order: bool, where: str) -> None:
    notes.note_order(has_order, where)
    if not has_order:
        notes.place = by_line


class _Lines:
    """Reads a block line by line, with precise error messages."""

    def __init__(self, title: str, dialect: Dialect, notes: Notes) -> None:
        self._title = title
        self._dialect = dialect
        self._notes = notes
        self._folders = {
            key: value
            for key, value in dialect.folders.items()
            if key in (*map(dialect.key, COLUMNS), RECEIVERS) and value is not None
        }
        self._rows = EventRows(drawn=dialect.drawn)

    def read(self, block: Block) -> Iterator[pa.RecordBatch]:
        """The rows of a block; those before an error come before it is raised."""
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
                f'"{RECEIVERS}" names receivers, and messages to some nodes alone '
                "cannot be judged: leave it out if every message goes to all nodes",
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
            text=one_line(event.get("text")) if self._dialect.drawn else None,
        )

    def _local_seq(self, number: int, event: dict[str, Any]) -> int:
        local_seq = event.get("local_seq")
        _note_order(self._notes, local_seq is not None, f"{self._title}, line {number}")
        if local_seq is None:
            return number
        if type(local_seq) is not int or abs(local_seq) > INTEGER_MAX:
            reason = f'"local_seq" must be an integer of 64 bits, not {local_seq!r}'
            raise self._error(number, reason)
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
        return name if name in self._dialect.kinds_read else None

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
        if not self._dialect.columns:
            return event
        named = {o: event[t] for o, t in self._dialect.columns.items() if t in event}
        return {k: v for k, v in event.items() if k not in self._dialect.columns} | named

    def _name(self, number: int, event: dict[str, Any], key: str) -> str:
        value = self._value(number, event, key)
        key = self._dialect.key(key)
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
            key = self._dialect.key(key)
            raise self._error(number, f'"{key}" is missing')
        return event[key]

    def _error(self, number: int, reason: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {reason}")


class Plain(NamedTuple):
    """The rows of a block, and whether they have a ``local_seq``; without, it is their line."""

    rows: pa.RecordBatch
    has_order: bool


def parse(
    block: bytes,
    *,
    first: int,
    dialect: Dialect,
) -> Plain | None:
    """The rows of a block of whole lines, or None if it has to be read line by line.

    ``first`` is the number of the first line.
    """
    keys = [dialect.key(name) for name in COLUMNS]
    named = {key for key in (*keys, RECEIVERS) if key in dialect.folders}
    if named - {dialect.key("run_id")} or any(key.encode() in block for key in named):
        return None
    if len(block) > 2 * BLOCK_BYTES:  # one long line; pyarrow's offsets end at 2 GB
        return None
    lines = _count_lines(block)
    if lines == 0 or RECEIVERS_KEY in block or LETTER.search(block) or not _is_plain(block, lines):
        return None
    if len(set(keys)) < len(keys):
        return None
    schema = _schema_of(block, dialect)
    if schema is None:
        return None
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(block),
            # One chunk, and no threads: a process that forks, as Spark's do, must own none.
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != lines:  # pyarrow reads two objects of a line as two rows
            return None
        ours = dict(zip(keys, COLUMNS, strict=True))
        columns = {ours[name]: table.column(name).combine_chunks() for name in schema.names}
        rows = _events(columns, first, dialect.kinds_read, run_id=dialect.one_run)
        return None if rows is None else Plain(rows, "local_seq" in columns)
    except pa.ArrowException:
        return None


def _events(
    columns: dict[str, pa.Array], first: int, kinds_read: Sequence[str], *, run_id: str
) -> pa.RecordBatch | None:
    """The rows of kinds that are read; None if a required cell is missing."""
    kind = columns["kind"]
    coded = kind.dictionary_encode()
    names = coded.dictionary.to_pylist()
    if kind.null_count or not KINDS.keys() >= set(names):
        return None
    is_read = np.array([name in kinds_read for name in names])
    is_owed = np.array([name in ("broadcast", "deliver") for name in names])
    codes = to_numpy(coded.indices)
    kept_rows = is_read[codes]
    line = np.arange(first, first + codes.size)
    if not kept_rows.all():
        kept = to_arrow(np.flatnonzero(kept_rows))
        columns = {name: column.take(kept) for name, column in columns.items()}
        codes, line = codes[kept_rows], line[kept_rows]
    owed = np.count_nonzero(is_owed[codes])
    message = columns["message"]
    required_cells = message if owed == codes.size else message.filter(mask(is_owed[codes]))
    if columns["node"].null_count or required_cells.null_count:
        return None
    bare = np.array([name in ("crash", "leave") for name in names])[codes]
    if bare.any():
        message = pc.if_else(mask(bare), pa.nulls(bare.size, message.type), message)
    if "run_id" in columns:
        run = columns["run_id"].cast(pa.string())
        if run.null_count:
            return None
    else:
        run = repeated(run_id, codes.size)
    local_seq = columns.get("local_seq", to_arrow(line))
    if local_seq.null_count:
        return None
    time = columns.get("time_us", pa.nulls(codes.size, pa.int64()))
    text = [columns["node"].cast(pa.string()), columns["kind"], message.cast(pa.string())]
    return pa.RecordBatch.from_arrays(
        [run, text[0], local_seq, time, text[1], text[2]], schema=EVENTS
    )


def _count_lines(block: bytes) -> int:
    """The number of lines if each begins and ends with a brace; otherwise 0.

    Strings hold no raw line ends, so in valid JSON an object then ends where its line does.
    """
    first, end, _ = block.partition(b"\n")
    end = b"\r\n" if first.endswith(b"\r") else end
    if not block.startswith(b"{") or not block.removesuffix(end).endswith(b"}"):
        return 0
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    return lines if block.count(b"}" + end + b"{") == lines - 1 else 0


def _is_plain(block: bytes, lines: int) -> bool:
    """Return whether the block contains nothing that pyarrow accepts and ``json`` does not."""
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            return False
    if b"-NaN" in block or INF.search(block):
        return False
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    longest = int(np.diff(ends, prepend=-1, append=data.size).max())
    if longest > DIGITS_MAX and DIGITS.search(block):
        return False
    if longest > DEPTH_MAX and block.count(b"{") + block.count(b"[") > lines:
        opened = np.cumsum((data == ord("{")) | (data == ord("[")))
        depths = np.diff(opened[ends], prepend=0, append=opened[-1])
        return int(depths.max()) <= DEPTH_MAX
    return True


def _schema_of(block: bytes, dialect: Dialect) -> pa.Schema | None:
    """The types of the names in the first line: all lines have them, or the block is not plain."""
    try:
        first = json.loads(block.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return None
    names = [dialect.key(name) for name in NAMES]
    types = [pa.int64() if isinstance(first.get(key), int) else pa.string() for key in names]
    fields = [(dialect.key("kind"), pa.string()), *zip(names, types, strict=True)]
    for name, whole_only in OPTIONAL:
        key = dialect.key(name)
        if key not in first:
            if key.encode() in block:
                return None
            continue
        if type(first[key]) is int:
            fields.append((key, pa.int64()))
        elif isinstance(first[key], str) and not whole_only:
            fields.append((key, pa.string()))
        else:
            return None
    return pa.schema(fields)
