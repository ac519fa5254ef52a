"""Reads causal graphs: authors whose changes name the changes they build upon.

An editing trace is one JSON object with the transactions of people typing together (docs/formats.md
says where they come from): each names its ``agent``, and its ``parents`` by their places in the
list. Changes of Automerge documents are a JSON object a line: ``actor``'s change with the number
``seq``; ``deps`` are the latest changes of others that it builds upon, by actor and seq, or by
their ``hash`` as later versions write them.

A change is a message that its author broadcasts; just before it the author delivers those of its
ancestors that are new to it, in the order of the file. An author whose change does not build upon
its last one has forked: it continues as another node, ``author#2``.

For a picture, a change has a text, and instead of these deliveries an edge from each parent at
another node.
"""

from __future__ import annotations

import io
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.dialect import Dialect, Notes
from precedes.trace.formats.text import EventRows, blocks, one_line
from precedes.trace.schema import EDGE

ENTRIES_MAX: Final = 1 << 27  # a gigabyte

# The file is one JSON value, and is read whole; Python takes about ten times as much for it.
FILE_BYTES_MAX: Final = 256 << 20
SECOND_MAX: Final = 2**43


@dataclass
class _Node:
    """An author, or a branch of one: each of its changes builds upon the one before."""

    name: str
    changes: array[int] = field(default_factory=lambda: array("q"))
    known: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: int = 0


class Graph:
    """The changes so far; every change comes after those it builds upon.

    Memory grows by a label and 16 bytes a change, and eight bytes a node for each that merges; more
    than ``ENTRIES_MAX`` of those are a UserError.
    """

    def __init__(self, run_id: str, *, title: str, drawn: bool = False) -> None:
        self._run_id = run_id
        self._drawn = drawn
        self._title = title
        self._branches: dict[str, list[int]] = {}  # author -> its nodes
        self._nodes: list[_Node] = []
        self._node = array("i")  # change -> its node
        self._place = array("i")  # change -> which of its node's changes it is, from 1
        self._vector = array("q")  # change -> where in ``_vectors`` its past at other nodes is
        self._vectors: list[NDArray[np.int64]] = []
        self._entries = 0
        self._labels: list[str] = []

    def __len__(self) -> int:
        """Number of changes."""
        return len(self._node)

    @property
    def forks(self) -> int:
        """Number of nodes beyond one for each author."""
        return len(self._nodes) - len(self._branches)

    def add(
        self,
        rows: EventRows,
        *,
        author: str,
        parents: list[int],
        label: str,
        time_us: int | None,
        text: str | None = None,
    ) -> None:
        """The next change, with the deliveries before it."""
        number = self._goes_on(author, parents)
        if number is None:
            past = self._past(parents)
            number = self._branch(author, past)
            if self._drawn:
                for parent in parents:
                    if self._node[parent] != number:
                        self._row(rows, number, EDGE, self._labels[parent], time_us)
            else:
                self._deliver(rows, number, past)
            self._vector.append(len(self._vectors))
            self._vectors.append(past)
            self._entries += past.size
            if self._entries > ENTRIES_MAX:
                merges, nodes = len(self._vectors), len(self._nodes)
                raise UserError(
                    f"{self._title}: {merges:,} merges among {nodes:,} authors and forks take more "
                    f"than {ENTRIES_MAX:,} numbers: split the log"
                )
        else:
            self._vector.append(self._vector[parents[0]])
        node = self._nodes[number]
        self._row(rows, number, "broadcast", label, time_us, text)
        node.changes.append(len(self))
        self._node.append(number)
        self._place.append(len(node.changes))
        self._labels.append(label)

    def _goes_on(self, author: str, parents: list[int]) -> int | None:
        """The node whose last change is the only parent, if it is this author's."""
        if len(parents) != 1:
            return None
        number = self._node[parents[0]]
        is_last = self._nodes[number].changes[-1] == parents[0]
        return number if is_last and number in self._branches.get(author, ()) else None

    def _past(self, parents: list[int]) -> NDArray[np.int64]:
        """The number of changes of each node that are ancestors: its first ones."""
        past = np.zeros(len(self._nodes), np.int64)
        for parent in parents:
            vector = self._vectors[self._vector[parent]]
            np.maximum(past[: vector.size], vector, out=past[: vector.size])
            number = self._node[parent]
            past[number] = max(past[number], self._place[parent])
        return past

    def _branch(self, author: str, past: NDArray[np.int64]) -> int:
        """The node of this author whose last change is an ancestor, or a new one."""
        mine = self._branches.setdefault(author, [])
        for number in mine:
            if past[number] == len(self._nodes[number].changes):
                return number
        mine.append(len(self._nodes))
        name = author if len(mine) == 1 else f"{author}#{len(mine)}"
        self._nodes.append(_Node(name))
        return mine[-1]

    def _deliver(self, rows: EventRows, number: int, past: NDArray[np.int64]) -> None:
        node = self._nodes[number]
        known = np.zeros(past.size, np.int64)
        known[: node.known.size] = node.known[: past.size]
        new: list[int] = []
        for other in np.flatnonzero(past > known).tolist():
            if other != number:
                new += self._nodes[other].changes[known[other] : past[other]]
        for change in sorted(new):
            self._row(rows, number, "deliver", self._labels[change], None)
        node.known = np.maximum(past, known)

    def _row(
        self,
        rows: EventRows,
        number: int,
        kind: str,
        label: str,
        time_us: int | None,
        text: str | None = None,
    ) -> None:
        node = self._nodes[number]
        rows.add(
            run_id=self._run_id,
            node=node.name,
            local_seq=node.rows,
            kind=kind,
            message=label,
            time_us=time_us,
            text=text,
        )
        node.rows += kind != EDGE


def edit_batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """Each transaction as a broadcast, after deliveries of its new ancestors."""
    graph = Graph(dialect.one_run, title=title, drawn=dialect.drawn)
    rows = EventRows(drawn=dialect.drawn)
    for number, transaction in enumerate(_transactions(text, title)):
        try:
            parents = [int(parent) for parent in transaction["parents"]]
            author = transaction["agent"]
        except (KeyError, TypeError, ValueError):
            raise _edit_error(title, number, 'needs "parents" and "agent"') from None
        if isinstance(author, bool) or not isinstance(author, int | str):
            raise _edit_error(title, number, f"has the agent {author!r}, not a name or a number")
        if any(not 0 <= parent < number for parent in parents):
            raise _edit_error(title, number, "has a parent that is not before it")
        graph.add(
            rows,
            author=str(author),
            parents=parents,
            label=str(number),
            time_us=_edit_time_us(transaction.get("time")),
            text=_edit_text(transaction.get("patches")) if dialect.drawn else None,
        )
        if rows.full:
            yield rows.take()
    if graph.forks:
        notes.note(dialect.one_run, forked(graph.forks))
    yield rows.take()


def forked(forks: int) -> str:
    """The note about authors that forked."""
    times = "once" if forks == 1 else f"{forks:,} times"
    return f"authors forked {times}: changes not based on their last one are at a node name#2"


def _transactions(text: io.BufferedReader, title: str) -> list[Any]:
    content = text.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UserError(
            f"{title} has more than {FILE_BYTES_MAX >> 20} MB, and an editing trace is read whole: "
            "write it as JSON lines"
        )
    try:
        trace = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{title} is not a JSON value, as an editing trace is: {error}") from None
    transactions = trace.get("txns") if isinstance(trace, dict) else None
    if not isinstance(transactions, list):
        raise UserError(f'{title} is not an editing trace: it has no list "txns"')
    if trace.get("kind", "concurrent") != "concurrent" or (
        transactions and isinstance(transactions[0], dict) and "parents" not in transactions[0]
    ):
        raise UserError(
            f"{title} is a sequential editing trace: without parents there is no order to judge; "
            "take the concurrent one"
        )
    return transactions


def _edit_time_us(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return round(moment.timestamp() * 1_000_000) if moment.tzinfo is not None else None


def _edit_text(patches: object) -> str | None:
    """The changes of a transaction, as ``12: -1 +'e'``, without those of another form."""
    edits = []
    for patch in patches if isinstance(patches, list) else []:
        match patch:
            case [int(at), int(deleted), str(inserted)]:
                parts = [f"-{deleted}"] if deleted else []
                parts += [f"+{inserted!r}"] if inserted else []
                edits.append(f"{at}: {' '.join(parts)}")
    return one_line(", ".join(edits))


def _edit_error(title: str, number: int, reason: str) -> UserError:
    return UserError(f"{title}, transaction {number}: {reason}")


def change_batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """Each change as a broadcast, after deliveries of its new ancestors."""
    changes, rows = _Changes(title, dialect), EventRows(drawn=dialect.drawn)
    for block in blocks(text, title=title):
        for number, line in enumerate(io.BytesIO(block.text), start=block.first):
            if not line.isspace():
                changes.add(rows, number, line)
            if rows.full:
                yield rows.take()
    if changes.graph.forks:
        notes.note(dialect.one_run, forked(changes.graph.forks))
    yield rows.take()


class _Changes:
    """The changes so far, by the names that later ones refer to."""

    def __init__(self, title: str, dialect: Dialect) -> None:
        self._title = title
        self.graph = Graph(dialect.one_run, title=title, drawn=dialect.drawn)
        self._by_name: dict[tuple[str, int], int] = {}
        self._by_hash: dict[str, int] = {}

    def add(self, rows: EventRows, number: int, line: bytes) -> None:
        """Add a line."""
        change = self._object(number, line)
        actor, seq, deps = change.get("actor"), change.get("seq"), change.get("deps", {})
        if not isinstance(actor, str) or type(seq) is not int or seq < 1:
            raise self._error(number, 'needs "actor", a string, and "seq", 1 or more')
        if not isinstance(deps, dict | list):
            raise self._error(number, '"deps" is neither an object nor a list')
        if (actor, seq) in self._by_name:
            raise self._error(number, f"{_label(actor, seq)} occurs twice")
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
            text=one_line(change.get("message")),
        )
        self._by_name[actor, seq] = at
        if isinstance(change.get("hash"), str):
            self._by_hash[change["hash"]] = at

    def _known(self, table: dict[Any, int], number: int, name: Any, label: str) -> int:
        if name not in table:
            raise self._error(
                number,
                f"builds upon {printable(label)}, which is not before it: write changes "
                "after those they build upon",
            )
        return table[name]

    def _count(self, number: int, value: object) -> int:
        if type(value) is not int:
            raise self._error(number, f'"deps" has {value!r}, not a whole number')
        return value

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._error(number, f"not a JSON object ({error})") from None
        if not isinstance(value, dict):
            raise self._error(number, "not a JSON object")
        return value

    def _error(self, number: int, reason: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {reason}")


def _label(actor: str, seq: int) -> str:
    return f"{actor}:{seq}"
