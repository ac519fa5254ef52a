"""Reads event logs of one JSON object a line.

``{"node": ..., "kind": "broadcast" | "deliver", "message": ..., "time": optional}``, in each
node's own order; how nodes are interleaved does not matter, and ``time`` is not used. Names of
nodes and messages are strings or integers, and ``7`` is the same name as ``"7"``.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.model import EventKind, UserError
from precedes.trace.history import BROADCAST, DELIVER, History

GZIP_MAGIC: Final = b"\x1f\x8b"
KINDS: Final = {kind.name.lower(): kind for kind in EventKind}


def read_jsonl(path: str | os.PathLike[str]) -> History:
    """The history in a file of JSON lines, plain or gzipped, read as a stream.

    Whether the log goes on where the file ends cannot be known, so nothing counts as lost.
    """
    path = Path(path)
    log = _Log(str(path))
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.isspace():
                    log.add(number, line)
    except FileNotFoundError:
        raise UserError(f"there is no log {path}: check the path") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a directory: name the logs in it") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read {path}: {reason}") from None
    return log.history()


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        zipped = file.peek(2)[:2] == GZIP_MAGIC
        if not zipped:
            yield file
            return
        with gzip.open(file) as unzipped:
            yield unzipped  # type: ignore[misc]


class _Log:
    """The rows read so far, as numbers."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._nodes: dict[str, int] = {}
        self._messages: dict[str, int] = {}
        self._row_node = array("i")
        self._row_kind = array("b")
        self._row_message = array("i")
        self._broadcast_line = array("q")  # message -> line of its broadcast, or 0
        self._source = array("i")
        self._crashed: set[int] = set()

    def add(self, number: int, line: bytes) -> None:
        """Take one line."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "not UTF-8 text")
            raise self._error(number, f"not a JSON object ({reason})") from None
        if not isinstance(event, dict):
            raise self._error(number, "not a JSON object")
        name = self._value(number, event, "kind")
        kind = KINDS.get(name) if isinstance(name, str) else None
        if kind is None:
            raise self._error(number, f"unknown kind {name!r}; known are {', '.join(KINDS)}")
        if kind not in (BROADCAST, DELIVER, EventKind.CRASH):
            return
        node = self._number(self._nodes, self._name(number, event, "node"))
        if kind == EventKind.CRASH:
            self._crashed.add(node)
            return
        label = self._name(number, event, "message")
        message = self._number(self._messages, label)
        if message == len(self._source):
            self._source.append(-1)
            self._broadcast_line.append(0)
        if kind == BROADCAST:
            if self._broadcast_line[message]:
                earlier = self._broadcast_line[message]
                raise self._error(
                    number, f"message {label} is broadcast again; the first time is line {earlier}"
                )
            self._broadcast_line[message] = number
            self._source[message] = node
        self._row_node.append(node)
        self._row_kind.append(kind)
        self._row_message.append(message)

    def history(self) -> History:
        """All that was read, its nodes in the order of their numbers or of appearance."""
        names = list(self._nodes)
        if all(_is_integer(name) for name in names):
            names.sort(key=int)
        rank = np.empty(len(names), np.int32)
        rank[[self._nodes[name] for name in names]] = np.arange(len(names))
        node = rank[np.frombuffer(self._row_node, np.int32)]
        order = np.argsort(node, kind="stable")
        kind = np.frombuffer(self._row_kind, np.int8)[order]
        message = np.frombuffer(self._row_message, np.int32)[order]
        source = np.frombuffer(self._source, np.int32)
        source = np.where(source >= 0, rank[source], -1) if rank.size else source
        return History(
            nodes=len(names),
            offsets=np.concatenate(([0], np.cumsum(np.bincount(node, minlength=len(names))))),
            kind=kind,
            message=message,
            message_source=source,
            message_sequence=_sequence(message[kind == BROADCAST], source),
            complete=False,
            crashed=np.sort(rank[sorted(self._crashed)]),
            node_names=names,
            message_names=list(self._messages),
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


def _is_integer(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _sequence(broadcasts: NDArray[np.int32], source: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each message, in the order of rows, its position among its source's broadcasts."""
    sequence = np.zeros(source.size, np.int32)
    by_source = source[broadcasts]  # rising, because rows are in the order of nodes
    first = np.searchsorted(by_source, by_source)
    sequence[broadcasts] = np.arange(broadcasts.size) - first + 1
    return sequence
