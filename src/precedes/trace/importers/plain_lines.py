"""Blocks of JSON lines in which nothing is odd, read by pyarrow.

pyarrow is lenient where ``json`` is not, and the other way round. Whatever the two would not read
alike is left to the reader that goes line by line, and so is every mistake: it can explain them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from precedes.trace.arrow_arrays import mask, repeated, to_arrow, to_numpy
from precedes.trace.assemble import JUDGED, KINDS
from precedes.trace.dialect import COLUMNS, ONE_RUN, RECEIVERS
from precedes.trace.schema import EVENTS

BLOCK_BYTES: Final = 1 << 20
NAMES: Final = ("node", "message")
# And whether they are numbers only.
OPTIONAL: Final = (("run_id", False), ("time_us", True), ("local_seq", True))

# Python refuses to nest deeper than some hundreds, and integers of more digits than a limit that
# can be set, but not to less than this. pyarrow takes any.
DEPTH_MAX: Final = 64
DIGITS_MAX: Final = 640
DIGITS: Final = re.compile(rb"[0-9]{%d}" % DIGITS_MAX)

# A letter may be written as an escape, and so a key.
LETTER: Final = re.compile(rb"\\u00[567]")

# pyarrow takes Inf for a number, and -NaN. Begins with what can be searched for fast.
INF: Final = re.compile(rb"Inf(?=[\s,}\]])(?<=[-:,\[\s]Inf)")
RECEIVERS_KEY: Final = f'"{RECEIVERS}"'.encode()


class Plain(NamedTuple):
    """The rows of a block, and whether they have a ``local_seq``; without, it is their line."""

    rows: pa.RecordBatch
    has_order: bool


def parse(
    block: bytes,
    *,
    first: int,
    taken: Sequence[str] = (*JUDGED,),
    folders: Mapping[str, str | None] | None = None,
) -> Plain | None:
    """The rows of a block of whole lines, or None if it has to be read line by line.

    ``first`` is the number of the first line, ``folders`` what the path of the file says.
    """
    constants = {key: folders[key] for key in (*COLUMNS, RECEIVERS) if folders and key in folders}
    if constants.keys() - {"run_id"} or any(key.encode() in block for key in constants):
        return None
    if len(block) > 2 * BLOCK_BYTES:  # one long line; pyarrow's offsets end at 2 GB
        return None
    lines = _count_lines(block)
    if lines == 0 or RECEIVERS_KEY in block or LETTER.search(block) or not _is_plain(block, lines):
        return None
    schema = _schema_of(block)
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
        columns = {name: table.column(name).combine_chunks() for name in schema.names}
        rows = _events(columns, first, taken, run_id=constants.get("run_id") or ONE_RUN)
        return None if rows is None else Plain(rows, "local_seq" in columns)
    except pa.ArrowException:
        return None


def _events(
    columns: dict[str, pa.Array], first: int, taken: Sequence[str], *, run_id: str
) -> pa.RecordBatch | None:
    """The rows of kinds that are taken; None if a cell is missing that should be there."""
    kind = columns["kind"]
    coded = kind.dictionary_encode()
    names = coded.dictionary.to_pylist()
    if kind.null_count or not KINDS.keys() >= set(names):
        return None
    is_taken = np.array([name in taken for name in names])
    is_owed = np.array([name in ("broadcast", "deliver") for name in names])
    codes = to_numpy(coded.indices)
    kept_rows = is_taken[codes]
    line = np.arange(first, first + codes.size)
    if not kept_rows.all():
        kept = to_arrow(np.flatnonzero(kept_rows))
        columns = {name: column.take(kept) for name, column in columns.items()}
        codes, line = codes[kept_rows], line[kept_rows]
    owed = np.count_nonzero(is_owed[codes])
    message = columns["message"]
    given = message if owed == codes.size else message.filter(mask(is_owed[codes]))
    if columns["node"].null_count or given.null_count:
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
    """How many lines there are if each begins and ends with a brace; otherwise 0.

    Strings hold no raw line ends, so in valid JSON an object then ends where its line does.
    """
    first, end, _ = block.partition(b"\n")
    end = b"\r\n" if first.endswith(b"\r") else end
    if not block.startswith(b"{") or not block.removesuffix(end).endswith(b"}"):
        return 0
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    return lines if block.count(b"}" + end + b"{") == lines - 1 else 0


def _is_plain(block: bytes, lines: int) -> bool:
    """Whether there is nothing that pyarrow accepts and ``json`` does not."""
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


def _schema_of(block: bytes) -> pa.Schema | None:
    """The types of the names in the first line: all lines have them, or the block is not plain."""
    try:
        first = json.loads(block.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return None
    types = [pa.int64() if isinstance(first.get(key), int) else pa.string() for key in NAMES]
    fields = [("kind", pa.string()), *zip(NAMES, types, strict=True)]
    for key, whole_only in OPTIONAL:
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
