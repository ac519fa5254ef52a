"""Blocks of JSON lines in which nothing is odd, read by pyarrow.

pyarrow is lenient where ``json`` is not, and the other way round. Whatever the two would not read
alike is left to the reader that goes line by line, and so is every mistake: it can explain them.
"""

from __future__ import annotations

import json
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.json

from precedes.trace.named_rows import BadCell, NamedRows, rows_of

BLOCK_BYTES: Final = 1 << 20
NAMES: Final = ("node", "message")

# Python refuses to nest deeper than some hundreds, and integers of more digits than a limit that
# can be set, but not to less than this. pyarrow takes any.
DEPTH_MAX: Final = 64
DIGITS_MAX: Final = 640
DIGITS: Final = re.compile(rb"[0-9]{%d}" % DIGITS_MAX)

# pyarrow takes Inf for a number, and -NaN. Begins with what can be searched for fast.
INF: Final = re.compile(rb"Inf(?=[\s,}\]])(?<=[-:,\[\s]Inf)")


def parse(block: bytes) -> NamedRows | None:
    """The rows of a block of whole lines, or None if it has to be read line by line."""
    if len(block) > 2 * BLOCK_BYTES:  # one long line; pyarrow's offsets end at 2 GB
        return None
    lines = _count_lines(block)
    if lines == 0 or not _is_plain(block, lines):
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
        return rows_of(**{name: table.column(name).combine_chunks() for name in schema.names})
    except (pa.ArrowException, BadCell):
        return None


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
    return pa.schema([("kind", pa.string()), *zip(NAMES, types, strict=True)])
