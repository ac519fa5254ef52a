"""Reads event logs of one JSON object a line, as docs/trace-format.md describes them."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from array import array
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.assemble import CRASH, JOIN, JUDGED, KINDS, LEAVE, NO_MESSAGE, named_history
from precedes.trace.history import BROADCAST, History
from precedes.trace.importers import plain_lines
from precedes.trace.named_rows import NamedRows
from precedes.trace.source import Log, Source, open_log

GZIP_MAGIC: Final = b"\x1f\x8b"
BOM: Final = b"\xef\xbb\xbf"  # Windows editors put it before UTF-8


def read_jsonl(log: Log) -> History:
    """The history in JSON lines, plain or gzipped, read as a stream.

    Whether the log goes on where the file ends cannot be known, so nothing counts as lost.
    """
    with open_log(log) as source:
        return read_lines(source)


def read_lines(source: Source) -> History:
    """``read_jsonl`` for a log that is open."""
    found = _Log(source.title)
    zipped = source.opening.startswith(GZIP_MAGIC)
    file = gzip.GzipFile(fileobj=source.stream) if zipped else source.stream
    try:
        for block in _blocks(file):
            found.add_block(block)
    except zlib.error as error:
        raise UserError(f"cannot read {source.title}: {error}") from None
    return found.history()


def _blocks(file: io.BufferedReader | gzip.GzipFile) -> Iterator[bytes]:
    """Whole lines, about ``BLOCK_BYTES`` at a time; a longer line comes whole.

    Lines read before an error come first, so that a mistake in them is told, not the error.
    """
    waiting = bytearray()
    while True:
        try:
            part = file.read1(plain_lines.BLOCK_BYTES)
        except BaseException:
            yield bytes(waiting[: waiting.rfind(b"\n") + 1])
            raise
        waiting += part
        if not part:
            yield bytes(waiting)
            return
        if len(waiting) >= plain_lines.BLOCK_BYTES and b"\n" in part:
            end = waiting.rfind(b"\n") + 1
            yield bytes(waiting[:end])
            del waiting[:end]


class _Log:
    """The rows read so far, as numbers."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._lines = 0
        self._nodes: dict[str, int] = {}
        self._messages: dict[str, int] = {}
        self._row_node = array("i")
        self._row_kind = array("b")
        self._row_message = array("i")
        self._broadcast_line = array("q")  # message -> line of its broadcast, or 0

    def add_block(self, block: bytes) -> None:
        """Take some lines, at once if they are plain."""
        first = self._lines + 1
        rows = plain_lines.parse(block.removeprefix(BOM) if first == 1 else block)
        if rows is None or not self._add_rows(first, rows):
            for number, line in enumerate(io.BytesIO(block), start=first):
                if not line.isspace():
                    self._add_line(number, line)
        self._lines += block.count(b"\n")

    def _add_rows(self, first: int, rows: NamedRows) -> bool:
        """Take rows whose line is ``first`` or a later one, unless a message comes twice."""
        sent = rows.kind == BROADCAST
        earlier = (self._messages.get(rows.labels[m]) for m in rows.message[sent])
        if any(m is not None and self._broadcast_line[m] for m in earlier):
            return False
        node = np.array([self._number(self._nodes, name) for name in rows.names], np.int32)
        message = [self._number(self._messages, label) for label in rows.labels]
        numbers = np.array([*message, NO_MESSAGE], np.int32)
        self._row_node.frombytes(node[rows.node].tobytes())
        self._row_kind.frombytes(rows.kind.tobytes())
        self._row_message.frombytes(numbers[rows.message].tobytes())
        added = len(self._messages) - len(self._broadcast_line)
        self._broadcast_line.frombytes(bytes(added * self._broadcast_line.itemsize))
        lines = np.frombuffer(self._broadcast_line, np.int64)
        lines[numbers[rows.message[sent]]] = first + rows.row[sent]
        return True

    def _add_line(self, number: int, line: bytes) -> None:
        try:
            event = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
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
        name = self._value(number, event, "kind")
        kind = KINDS.get(name) if isinstance(name, str) else None
        if kind is None:
            raise self._error(number, f"unknown kind {name!r}; known are {', '.join(KINDS)}")
        if name not in JUDGED:
            return
        self._row_node.append(self._number(self._nodes, self._name(number, event, "node")))
        self._row_kind.append(kind)
        self._row_message.append(self._message(number, kind, event))

    def _message(self, number: int, kind: int, event: dict[str, Any]) -> int:
        """The message of a row; a join need not have one, and other rows about nodes have none."""
        if kind in (CRASH, LEAVE) or (kind == JOIN and event.get("message") is None):
            return NO_MESSAGE
        label = self._name(number, event, "message")
        message = self._number(self._messages, label)
        if message == len(self._broadcast_line):
            self._broadcast_line.append(0)
        if kind == BROADCAST:
            earlier = self._broadcast_line[message]
            if earlier:
                again = f"message {printable(label)} is broadcast again"
                raise self._error(number, f"{again}; the first time is line {earlier}")
            self._broadcast_line[message] = number
        return message

    def history(self) -> History:
        """All that was read."""
        return named_history(
            names=list(self._nodes),
            node=np.frombuffer(self._row_node, np.int32),
            kind=np.frombuffer(self._row_kind, np.int8),
            labels=list(self._messages),
            message=np.frombuffer(self._row_message, np.int32),
            origin=self._title,
        )

    def _name(self, number: int, event: dict[str, Any], key: str) -> str:
        value = self._value(number, event, key)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._error(number, f'"{key}" must be a string or an integer, not {value!r}')
        return str(value)

    def _value(self, number: int, event: dict[str, Any], key: str) -> object:
        if key not in event:
            raise self._error(number, f'"{key}" is missing')
        return event[key]

    @staticmethod
    def _number(table: dict[str, int], name: str) -> int:
        return table.setdefault(name, len(table))

    def _error(self, number: int, what: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {what}")
