"""Reads changes of Automerge documents, one JSON object a line.

A change is its ``actor``'s with the number ``seq``; ``deps`` are the latest changes of others that
it builds upon, by actor and seq, or by their ``hash`` as later versions write them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.dialect import Dialect, Found
from precedes.trace.importers.edits import forked
from precedes.trace.importers.graph import Graph
from precedes.trace.importers.lines import blocks
from precedes.trace.importers.rows import Rows

SECOND_MAX: Final = 2**43


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, found: Found
) -> Iterator[pa.RecordBatch]:
    """Each change as a broadcast, after deliveries of its new ancestors."""
    changes, rows = _Changes(title, dialect.one_run), Rows()
    for block in blocks(text, title=title):
        for number, line in enumerate(io.BytesIO(block.text), start=block.first):
            if not line.isspace():
                changes.add(rows, number, line)
            if rows.full:
                yield rows.take()
    if changes.graph.forks:
        found.note(dialect.one_run, forked(changes.graph.forks))
    yield rows.take()


class _Changes:
    """The changes so far, by what later ones call them."""

    def __init__(self, title: str, run_id: str) -> None:
        self._title = title
        self.graph = Graph(run_id, title=title)
        self._by_name: dict[tuple[str, int], int] = {}
        self._by_hash: dict[str, int] = {}

    def add(self, rows: Rows, number: int, line: bytes) -> None:
        """Take a line."""
        change = self._object(number, line)
        actor, seq, deps = change.get("actor"), change.get("seq"), change.get("deps", {})
        if not isinstance(actor, str) or type(seq) is not int or seq < 1:
            raise self._error(number, 'needs "actor", a string, and "seq", 1 or more')
        if not isinstance(deps, dict | list):
            raise self._error(number, '"deps" is neither an object nor a list')
        if (actor, seq) in self._by_name:
            raise self._error(number, f"{_label(actor, seq)} is there twice")
        if isinstance(deps, list):
            parents = [self._known(self._by_hash, number, str(name), str(name)) for name in deps]
        else:
            names = [(str(name), self._count(number, of)) for name, of in deps.items()]
            names += [(actor, seq - 1)] if seq > 1 else []
            parents = [
                self._known(self._by_name, number, name, _label(*name))
                for name in dict.fromkeys(names)
            ]
        at = len(self.graph)
        time = change.get("time")
        is_time = isinstance(time, int) and 0 < time < SECOND_MAX
        self.graph.add(
            rows,
            author=actor,
            parents=parents,
            label=_label(actor, seq),
            time_us=int(time or 0) * 1_000_000 if is_time else None,
        )
        self._by_name[actor, seq] = at
        if isinstance(change.get("hash"), str):
            self._by_hash[change["hash"]] = at

    def _known(self, table: dict[Any, int], number: int, name: Any, label: str) -> int:
        if name not in table:
            raise self._error(
                number,
                f"builds upon {printable(label)}, which does not stand before it: write changes "
                "after those they build upon",
            )
        return table[name]

    def _count(self, number: int, value: object) -> int:
        if type(value) is not int:
            raise self._error(number, f'"deps" says {value!r}, no whole number')
        return value

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._error(number, f"not a JSON object ({error})") from None
        if not isinstance(found, dict):
            raise self._error(number, "not a JSON object")
        return found

    def _error(self, number: int, what: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {what}")


def _label(actor: str, seq: int) -> str:
    return f"{actor}:{seq}"
