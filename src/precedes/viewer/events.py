"""The events of one run of a log, of any format, as chunks of numbers that can be read again.

An audit needs broadcasts and deliveries alone, and no times; a picture needs times, receptions,
drops, and what happened to nodes. Logs that are not large are kept in memory once they were read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.errors import UserError, meant
from precedes.model import EventKind
from precedes.stores import Address
from precedes.trace import Dialect, event_batches, schema
from precedes.trace.arrays import to_numpy
from precedes.trace.reader import check_columns, damaged, integers, kind_numbers, opened_parquet
from precedes.trace.rows import KINDS, in_order
from precedes.trace.schema import decode_metadata
from precedes.trace.source import open_log

BROADCAST, _, RECEIVE, DELIVER, CRASH, DISCARD, _, _, JOIN, LEAVE = [*map(int, EventKind)][:10]
# A broadcast with what it follows directly, in logs that say so instead of what was delivered: rows
# of this kind stand before it, with its time. It is part of that event, not one of its own.
EDGE: Final = 100
COUNTED: Final = (BROADCAST, DELIVER, DISCARD)  # what is an event of a picture; receptions may be
SHOWN: Final = (*COUNTED, EDGE)
KIND_NUMBERS: Final = {**KINDS, schema.EDGE: EDGE}

UNTIMED: Final = np.iinfo(np.int64).min
NO_MESSAGE: Final = -1
KEPT_ROWS: Final = 4_000_000  # 29 bytes each
VIEWS: Final = ("excluded", "left", "joined")  # changes of a member in a node's view
BATCH_ROWS: Final = 1 << 17
SEQ_BITS: Final = 32
COLUMNS: Final = ["run_id", "node", "local_seq", "time_us", "kind", "source", "seq"]

STEP_US: Final = 1_000
ROWS_MAX: Final = 4_000_000


class Chunk(NamedTuple):
    """Some rows of a run, in no particular order; ``local_seq`` orders those of a node."""

    node: NDArray[np.int32]
    local_seq: NDArray[np.int64]
    time_us: NDArray[np.int64]  # or UNTIMED
    kind: NDArray[np.int8]  # of EventKind
    message: NDArray[np.int64]  # a key, or NO_MESSAGE

    def at(self, rows: NDArray[Any] | slice) -> Chunk:
        """These rows."""
        return Chunk._make(column[rows] for column in self)


def joined(chunks: list[Chunk]) -> Chunk:
    """The rows of several chunks."""
    types = (np.int32, np.int64, np.int64, np.int8, np.int64)
    parts = [Chunk._make(np.empty(0, kind) for kind in types), *chunks]
    return Chunk._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class Mark(NamedTuple):
    """A change of a node's state."""

    time_us: int
    node: int
    kind: str
    other: int | None  # a station, or who is out of a view


class Events(ABC):
    """One run: its nodes, its messages, and its rows, as often as they are asked for."""

    title: str
    run_id: int | str
    protocol: str | None = None
    timed: bool = True  # False: ``give_depths`` has put steps in place of times
    tells_waits: bool = False  # what was delivered without a reception did not wait
    nodes: list[str]
    labels: list[str] | None = None  # of lanes, if not the nodes' names
    replaces_names: bool  # messages have names of their own

    def __init__(self) -> None:
        self.scenario: dict[str, Any] = {}  # of a simulation, as its trace has it
        self.marks: list[Mark] = []  # what happened to nodes and is in no row
        self._kept: list[Chunk] | None = None

    def chunks(self) -> Iterator[Chunk]:
        """The rows; of a log that is not large from memory, from the second time on."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Chunk] = []
        rows = 0
        for chunk in self._read():
            rows += chunk.node.size
            if rows <= KEPT_ROWS:
                kept.append(chunk)
            yield chunk
        if rows <= KEPT_ROWS:
            self._kept = kept

    def keep(self, rows: Chunk) -> None:
        """Have these be the rows from now on."""
        self._kept = [rows]

    @abstractmethod
    def _read(self) -> Iterator[Chunk]:
        """The rows, from the log."""

    def texts_of(self, rows: Chunk) -> list[str | None]:
        """The text of each of these rows; empty if the log has none."""
        return []

    def events_after(self, deliveries: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """In logs with edges: the event whose clock says first that a node delivered a message.

        ``deliveries`` are nodes and keys of messages; an event is the key of its message.
        """
        return {}

    @abstractmethod
    def key_of(self, name: str) -> int | None:
        """The key of a message, if it can be one of this run."""

    @abstractmethod
    def name_of(self, key: int) -> str:
        """The name of a message."""

    @abstractmethod
    def origin_of(self, key: int) -> tuple[int, int]:
        """Source of a message (-1 if unknown) and its 1-based sequence number."""

    @abstractmethod
    def names_like(self, name: str) -> str:
        """Hint for the name of an unknown message: the existing ones."""

    def node_of(self, name: str) -> int | None:
        """The number of a node."""
        return self._numbers.get(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        labels = {label: number for number, label in enumerate(self.labels or ())}
        return labels | {name: number for number, name in enumerate(self.nodes)}


class TraceEvents(Events):
    """A run of a trace file, by row groups; a message's key is its source and sequence."""

    replaces_names = False

    def __init__(self, address: Address, *, title: str, run_id: int) -> None:
        super().__init__()
        self._address = address
        self.title = title
        self.run_id = run_id
        with open_log(address) as source, opened_parquet(source) as file:
            about = decode_metadata(file.schema_arrow.metadata, path=title)
            check_columns(title, file.schema_arrow, times=True)
        protocol = about.get("protocol")
        self.protocol = protocol if isinstance(protocol, str) else None
        self.nodes = [str(node) for node in range(about["nodes"])]
        scenario = about.get("scenario")
        self.scenario = scenario if isinstance(scenario, dict) else {}
        # A radio's rows say nothing of arrivals; others leave out only those without a wait.
        self.tells_waits = "stations" not in str(self.scenario.get("parameters"))
        self.marks = _marks(about.get("marks"), len(self.nodes))
        labels = about.get("labels")  # of members with names
        if isinstance(labels, list) and len(set(map(str, labels))) == len(self.nodes):
            self.labels = [str(label) for label in labels]
        self._sent = np.zeros(len(self.nodes), np.int64)

    def _read(self) -> Iterator[Chunk]:
        with open_log(self._address) as source, opened_parquet(source) as file:
            try:
                for batch in file.iter_batches(BATCH_ROWS, columns=COLUMNS, use_threads=False):
                    table = pa.table(batch)
                    chunk = self._chunk(table)
                    sent = chunk.message[chunk.kind == BROADCAST]
                    np.maximum.at(self._sent, sent >> SEQ_BITS, sent & (2**SEQ_BITS - 1))
                    yield chunk
            except (pa.ArrowException, OSError) as error:
                raise damaged(self.title, error) from None

    def _chunk(self, table: pa.Table) -> Chunk:
        kind = kind_numbers(table.column("kind"), KINDS)
        rows = np.flatnonzero((integers(table, "run_id") == self.run_id) & (kind >= 0))
        source, seq = integers(table, "source")[rows], integers(table, "seq")[rows]
        named = (source >= 0) & (source < len(self.nodes)) & (seq > 0)
        # A delivery of what cannot be a message is the audit's to tell of.
        kept = named | ~np.isin(kind[rows], (*SHOWN, RECEIVE))
        rows, source, seq, named = rows[kept], source[kept], seq[kept], named[kept]
        key = (source.astype(np.int64) << SEQ_BITS) | seq
        return Chunk(
            node=integers(table, "node")[rows],
            local_seq=integers(table, "local_seq")[rows],
            time_us=integers(table, "time_us")[rows],
            kind=kind[rows],
            message=np.where(named, key, NO_MESSAGE),
        )

    def key_of(self, name: str) -> int | None:
        """See ``Events``."""
        source, _, seq = name.partition(":")
        if not (source.isdecimal() and seq.isdecimal() and 0 < int(seq) < 2**31):
            return None
        return (int(source) << SEQ_BITS) | int(seq) if int(source) < len(self.nodes) else None

    def name_of(self, key: int) -> str:
        """See ``Events``."""
        return f"{key >> SEQ_BITS}:{key & (2**SEQ_BITS - 1)}"

    def origin_of(self, key: int) -> tuple[int, int]:
        """See ``Events``."""
        return key >> SEQ_BITS, key & (2**SEQ_BITS - 1)

    def names_like(self, name: str) -> str:
        """See ``Events``."""
        source, _, _ = name.partition(":")
        if not source.isdecimal() or int(source) >= len(self.nodes):
            return f": messages are NODE:NUMBER, of nodes 0 to {len(self.nodes) - 1}"
        sent = int(self._sent[int(source)])
        return f": node {source} broadcast {f'{source}:1 to {source}:{sent}' if sent else 'none'}"


def _marks(recorded: object, nodes: int) -> list[Mark]:
    """Marks in the metadata of a trace; malformed ones are skipped."""
    marks = []
    for one in recorded if isinstance(recorded, list) else []:
        match one:
            case [int(time_us), int(node), str(kind), (int() | None) as other]:
                is_complete = other is not None or kind not in VIEWS
                if 0 <= node < nodes and is_complete:
                    marks.append(Mark(time_us, node, kind, other))
    return marks


class NamedEvents(Events):
    """A run of any other log; a message's key counts names in the order they come."""

    replaces_names = True

    def __init__(
        self, address: Address, *, title: str, run_id: int | str, format: str, dialect: Dialect
    ) -> None:
        super().__init__()
        self._address = address
        self._format = format
        self._dialect = dialect
        self.title = title
        self.run_id = run_id
        self._codes: dict[str, int] = {}
        self._messages: dict[str, int] = {}
        self.nodes = []
        self._learn()

    def _learn(self) -> None:
        """Find the nodes, and who broadcast what: the first time that the log is read."""
        sent = [chunk.at(chunk.kind == BROADCAST) for chunk in self.chunks()]
        # Only now are all nodes known, and with them their order.
        names = list(self._codes)
        self.nodes = in_order(names)
        rank = self._rank = np.array([self._numbers[name] for name in names], np.int32)
        if self._kept is not None:
            self._kept = [chunk._replace(node=rank[chunk.node]) for chunk in self._kept]
        rows = joined(sent)
        node = rank[rows.node] if rows.node.size else rows.node
        order = np.lexsort((rows.local_seq, node))
        node, message = node[order], rows.message[order]
        self._source = np.full(len(self._messages), -1, np.int32)
        self._sequence = np.zeros(len(self._messages), np.int64)
        self._source[message] = node
        self._sequence[message] = np.arange(node.size) - np.searchsorted(node, node) + 1
        self._names = list(self._messages)

    def _read(self) -> Iterator[Chunk]:
        rank: NDArray[np.int32] | None = getattr(self, "_rank", None)
        for table in self._tables():
            chunk = self._chunk(table)
            yield chunk if rank is None else chunk._replace(node=rank[chunk.node])

    def texts_of(self, rows: Chunk) -> list[str | None]:
        """See ``Events``: the log is read again, so that no texts are held that are not shown."""
        wanted = {
            (self.nodes[node], local_seq): at
            for at, (node, local_seq, kind) in enumerate(
                zip(rows.node.tolist(), rows.local_seq.tolist(), rows.kind.tolist(), strict=True)
            )
            if kind != EDGE
        }
        texts: list[str | None] = [None] * rows.node.size
        for table in self._tables():
            if "text" not in table.column_names:
                continue
            table = table.filter(pc.is_valid(table.column("text")))
            columns = (table.column(name).to_pylist() for name in ("node", "local_seq", "text"))
            for node, local_seq, text in zip(*columns, strict=True):
                if (at := wanted.get((node, local_seq))) is not None:
                    texts[at] = text
        return texts if any(texts) else []

    def events_after(self, deliveries: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """See ``Events``: what a clock says is in the rows that an audit reads."""
        owners: dict[tuple[int, int], int] = {}
        waiting: defaultdict[int, list[int]] = defaultdict(list)
        for table in self._tables(drawn=False):
            columns = (table.column(name).to_pylist() for name in ("node", "kind", "message"))
            for name, kind, message in zip(*columns, strict=True):
                node, key = self._numbers.get(name, -1), self._messages.get(message, NO_MESSAGE)
                if kind == "deliver" and (node, key) in deliveries:
                    waiting[node].append(key)
                elif kind == "broadcast" and node in waiting:
                    owners |= {(node, one): key for one in waiting.pop(node)}
        return owners

    def _tables(self, *, drawn: bool = True) -> Iterator[pa.Table]:
        """The rows of this run."""
        dialect = replace(self._dialect, drawn=drawn)
        for batch in event_batches(self._address, self._format, dialect=dialect):
            table = pa.table(batch)
            run = table.column("run_id").combine_chunks().dictionary_encode()
            ids = run.dictionary.to_pylist()
            if str(self.run_id) not in ids:
                continue
            if len(ids) > 1:
                code = to_numpy(run.indices)
                table = table.filter(pa.array(code == ids.index(str(self.run_id))))
            yield table

    def _chunk(self, table: pa.Table) -> Chunk:
        times = table.column("time_us")
        return Chunk(
            node=_codes(table.column("node"), self._codes).astype(np.int32),
            local_seq=to_numpy(table.column("local_seq")).astype(np.int64),
            time_us=to_numpy(times.fill_null(UNTIMED)).astype(np.int64),
            kind=kind_numbers(table.column("kind"), KIND_NUMBERS),
            message=_codes(table.column("message"), self._messages),
        )

    def key_of(self, name: str) -> int | None:
        """See ``Events``."""
        return self._messages.get(name)

    def name_of(self, key: int) -> str:
        """See ``Events``."""
        return self._names[key]

    def origin_of(self, key: int) -> tuple[int, int]:
        """See ``Events``."""
        return int(self._source[key]), int(self._sequence[key])

    def names_like(self, name: str) -> str:
        """See ``Events``."""
        return meant(name, self._names)


def _codes(column: pa.ChunkedArray, known: dict[str, int]) -> NDArray[np.int64]:
    """Names as numbers, which new ones get; NO_MESSAGE for what is empty."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    numbers = [
        NO_MESSAGE if name is None else known.setdefault(name, len(known))
        for name in coded.dictionary.to_pylist()
    ]
    return np.array(numbers or [0], np.int64)[to_numpy(coded.indices)]


def node_numbers(events: Events, names: list[str]) -> list[int]:
    """The nodes of these names, in the order of the log; a UserError if one is not there."""
    numbers = set()
    for name in names:
        node = events.node_of(name)
        if node is None:
            hint = meant(name, events.nodes)
            raise UserError(f"{events.title} has no node {name!r}{hint}")
        numbers.add(node)
    return sorted(numbers)


def give_depths(events: Events) -> None:
    """Replace the time of every row by its depth in happened-before, in steps of ``STEP_US``.

    It takes all rows at once: a UserError if there are more than ``ROWS_MAX``. Where a log
    contradicts itself, a delivery comes before its broadcast. The log is not ``timed`` then.
    """
    chunks = []
    rows = 0
    for chunk in events.chunks():
        chunks.append(chunk)
        rows += chunk.node.size
        if rows > ROWS_MAX:
            raise UserError(
                f"{events.title} has more than {ROWS_MAX:,} events and no times for them: log "
                "time_us, or cut the log"
            )
    whole = joined(chunks)
    whole = whole.at(np.lexsort((whole.local_seq, whole.node)))
    depth = _depths(whole.node, whole.kind, whole.message, len(events.nodes))
    for row in np.flatnonzero(whole.kind == EDGE)[::-1].tolist():  # that of its event
        depth[row] = depth[min(row + 1, depth.size - 1)]
    events.keep(whole._replace(time_us=depth * STEP_US))
    events.timed = False


def _depths(
    node: NDArray[np.int32], kind: NDArray[np.int8], message: NDArray[np.int64], nodes: int
) -> NDArray[np.int64]:
    """Depths of rows that stand by node, in each one's own order."""
    ends = np.searchsorted(node, np.arange(nodes), side="right").tolist()
    at = np.searchsorted(node, np.arange(nodes)).tolist()
    kinds, messages = kind.tolist(), message.tolist()
    to_come = {m for k, m in zip(kinds, messages, strict=True) if k == BROADCAST}
    sent: dict[int, int] = {}
    reached = [0] * nodes
    depth = np.zeros(node.size, np.int64)
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    ready = [*range(nodes)][::-1]
    while ready or waiting:
        if not ready:  # a cycle: go on with the first who waits, as if it had been sent
            stuck = min((min(lanes), m) for m, lanes in waiting.items())[1]
            to_come.discard(stuck)
            ready = sorted(waiting.pop(stuck), reverse=True)
        lane = ready.pop()
        while at[lane] < ends[lane]:
            row = at[lane]
            key = messages[row]
            if kinds[row] in (DELIVER, EDGE) and key in to_come:
                waiting[key].append(lane)
                break
            is_event = kinds[row] in (BROADCAST, DELIVER)
            before = sent.get(key, 0) if kinds[row] in (DELIVER, EDGE) else 0
            depth[row] = reached[lane] = max(reached[lane], before) + is_event
            at[lane] += 1
            if kinds[row] == BROADCAST:
                sent[key] = reached[lane]
                to_come.discard(key)
                ready += waiting.pop(key, [])[::-1]
    return depth
