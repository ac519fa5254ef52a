"""Reads editing traces: one JSON object with the transactions of people typing together.

docs/formats.md says where they come from. A transaction names its ``parents`` by their places in
the list, and its ``agent``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.trace.dialect import Dialect, Found
from precedes.trace.importers.graph import Graph
from precedes.trace.importers.rows import Rows

# The file is one JSON value, and is read whole; Python takes about ten times as much for it.
FILE_BYTES_MAX: Final = 256 << 20


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, found: Found
) -> Iterator[pa.RecordBatch]:
    """Each transaction as a broadcast, after deliveries of its new ancestors."""
    graph, rows = Graph(dialect.one_run, title=title), Rows()
    for number, transaction in enumerate(_transactions(text, title)):
        try:
            parents = [int(parent) for parent in transaction["parents"]]
            author = transaction["agent"]
        except (KeyError, TypeError, ValueError):
            raise _error(title, number, 'needs "parents" and "agent"') from None
        if isinstance(author, bool) or not isinstance(author, int | str):
            raise _error(title, number, f"has the agent {author!r}, no name or number")
        if any(not 0 <= parent < number for parent in parents):
            raise _error(title, number, "has a parent that does not stand before it")
        graph.add(
            rows,
            author=str(author),
            parents=parents,
            label=str(number),
            time_us=_time_us(transaction.get("time")),
        )
        if rows.full:
            yield rows.take()
    if graph.forks:
        found.note(dialect.one_run, forked(graph.forks))
    yield rows.take()


def forked(forks: int) -> str:
    """What to say of authors that forked."""
    times = "once" if forks == 1 else f"{forks:,} times"
    return f"authors forked {times}: what does not build upon their last change is a node name#2"


def _transactions(text: io.BufferedReader, title: str) -> list[Any]:
    content = text.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UserError(
            f"{title} has more than {FILE_BYTES_MAX >> 20} MB, and an editing trace is read whole: "
            "write it as JSON lines"
        )
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{title} is no JSON value, as an editing trace is: {error}") from None
    transactions = found.get("txns") if isinstance(found, dict) else None
    if not isinstance(transactions, list):
        raise UserError(f'{title} is no editing trace: it has no list "txns"')
    if found.get("kind", "concurrent") != "concurrent" or (
        transactions and isinstance(transactions[0], dict) and "parents" not in transactions[0]
    ):
        raise UserError(
            f"{title} is a sequential editing trace: without parents there is no order to judge; "
            "take the concurrent one"
        )
    return transactions


def _time_us(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return round(moment.timestamp() * 1_000_000) if moment.tzinfo is not None else None


def _error(title: str, number: int, what: str) -> UserError:
    return UserError(f"{title}, transaction {number}: {what}")
