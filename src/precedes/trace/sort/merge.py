"""Sorts the rows of a log, whatever their order, by node and each node's own order.

``pack`` makes blocks of them, each with its own short numbers for nodes and messages. When all are
made, ``naming`` gives every name its number in the whole log, and a ``Merger`` merges the rows of
a range of nodes together from all blocks. ``histories`` does so in memory. For larger logs, each
step is a function from files to a file, so that a loop in one process and tasks on many machines do
the same; the result is the audit's input: eight bytes a row on disk, read in chunks.

Positions are usually dense, so that rows are put straight into their places; others are sorted.
Memory holds ``MERGE_ROWS`` rows, some 60 bytes each: of a node with more, a stretch of positions at
a time, for which its rows in all blocks that reach into the stretch are looked through.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.files import aside
from precedes.model import printable
from precedes.trace import arrays
from precedes.trace.arrays import forget
from precedes.trace.dialect import Notes
from precedes.trace.rows import (
    CHUNK_ROWS,
    NO_MESSAGE,
    Chunk,
    History,
    Rows,
    cut_chunks,
    make_history,
)
from precedes.trace.sort.naming import (
    PHANTOM,
    SEQ_BITS,
    Naming,
    Phantoms,
    Translation,
    load_naming,
    name_blocks,
    name_phantoms,
    save_naming,
    translate,
)
from precedes.trace.sort.pack import BLOCK_ROWS, Packed, checked_columns, pack, run_title, tables_of

MERGE_ROWS: Final = 1 << 20
MEMORY_BLOCK_ROWS: Final = 1 << 20  # of a log that is sorted in memory
SPARSE: Final = 8  # places for each row, up to which no sort is needed

HELD_ROWS: Final = 4 << 20  # after this many, mapped memory of the blocks is released

KIND_BITS: Final = 60  # a row is kind, source and seq in one number
SOURCE_MASK: Final = np.int64((1 << (KIND_BITS - SEQ_BITS)) - 1)
SEQ_MASK: Final = np.int64((1 << SEQ_BITS) - 1)
KIND_MASK: Final = np.int64(15)  # four bits, with that of the sign
NOTHING: Final = np.int64(-1)  # of no kind


class Columns(NamedTuple):
    """Rows of consecutive nodes, or some of one node's, in order; a phantom's source is -1."""

    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]


def unpacked(rows: NDArray[np.int64]) -> Columns:
    """Rows that are one number each as columns."""
    source = ((rows >> SEQ_BITS) & SOURCE_MASK).astype(np.int32)
    source[source == PHANTOM] = -1
    return Columns(
        ((rows >> KIND_BITS) & KIND_MASK).astype(np.int8),
        source,
        (rows & SEQ_MASK).astype(np.int32),
    )


class _Part(NamedTuple):
    """A block with the numbers of the whole log: its keys by node."""

    node: NDArray[np.int32]  # rising
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    block: Packed
    pair: NDArray[np.int64]  # message; the last for rows without one, which find it at -1


class Merger:
    """All blocks of a log, ready to be merged node by node."""

    def __init__(
        self,
        naming: Naming,
        phantoms: Phantoms,
        blocks: Sequence[Packed],
        translations: Sequence[Translation],
        *,
        title: str | None = None,
        chunk_rows: int = MERGE_ROWS,
    ) -> None:
        self._naming = naming
        self._title = title
        self._chunk_rows = chunk_rows
        self._parts = [
            _part(naming, phantoms, number, block, translation)
            for number, (block, translation) in enumerate(zip(blocks, translations, strict=True))
        ]

    def merged(self, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        """The rows of nodes ``first`` up to and without ``last``, a chunk at a time.

        Each is one number, as ``unpacked`` takes it. Two rows of a node that share a position are a
        UserError.
        """
        ends = np.cumsum(self._naming.rows[first:last])
        at = first
        held = 0
        while at < last:
            before = int(ends[at - first - 1]) if at > first else 0
            until = first + int(np.searchsorted(ends, before + self._chunk_rows, side="right"))
            if until > at:
                yield self._nodes(at, until)
            else:
                until = at + 1
                yield from self._long_node(at)
            held += int(ends[until - first - 1]) - before
            at = until
            if held > HELD_ROWS:
                for part in self._parts:
                    forget(part.block.position)
                    forget(part.pair)
                held = 0

    def _nodes(self, first: int, last: int) -> NDArray[np.int64]:
        naming = self._naming
        span = naming.high[first:last] - naming.low[first:last] + 1
        rows = int(naming.rows[first:last].sum())
        pieces = [_rows_of(part, keys, first) for part, keys in self._reaching(first, last)]
        node, position, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
        low = naming.low[first:last]
        # A span wraps around if positions lie at both ends of int64.
        if span.min(initial=1) < 1 or float(span.sum(dtype=np.float64)) > SPARSE * rows + 1024:
            return self._sorted(first, node, position, row)
        base = np.cumsum(span) - span - low
        place = base[node] + position
        return self._placed(first, node, position, row, place, int(span.sum()))

    def _reaching(self, first: int, last: int) -> Iterator[tuple[_Part, slice]]:
        """The blocks with rows of these nodes, and which of their keys these are."""
        for part in self._parts:
            begin, end = np.searchsorted(part.node, (first, last)).tolist()
            if begin < end:
                yield part, slice(begin, end)

    def _long_node(self, node: int) -> Iterator[NDArray[np.int64]]:
        """One node's rows by stretches of positions with about a chunk of rows each."""
        parts = [part for part, _ in self._reaching(node, node + 1)]
        bounds = self._stretches(parts, node)
        for low, high in itertools.pairwise(bounds):
            pieces = [_rows_between(part, node, low, high) for part in parts]
            position, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
            same = np.zeros(position.size, np.int64)
            if high - low <= SPARSE * position.size:
                yield self._placed(node, same, position, row, position - low, high - low)
            elif position.size:
                yield self._sorted(node, same, position, row)

    def _stretches(self, parts: Sequence[_Part], node: int) -> list[int]:
        """Positions that cut a node's rows into chunks, from a sample of them."""
        sample = []
        for part in parts:
            position, _ = _positions(part, node)
            step = max(1, self._chunk_rows // (64 * len(parts)))
            sample.append(position[::step])
        ordered = np.sort(np.concatenate(sample))
        chunks = -(-int(self._naming.rows[node]) // self._chunk_rows)
        cuts = ordered[np.arange(1, chunks) * ordered.size // chunks]
        low, high = int(self._naming.low[node]), int(self._naming.high[node]) + 1
        return sorted({low, *(int(cut) for cut in cuts), high})

    def _placed(
        self,
        first: int,
        node: NDArray[np.int64],
        position: NDArray[np.int64],
        row: NDArray[np.int64],
        place: NDArray[np.int64],
        size: int,
    ) -> NDArray[np.int64]:
        places = np.full(size, NOTHING)
        places[place] = row
        ordered = places if size == row.size else places[places != NOTHING]
        if ordered.size < row.size or (size == row.size and np.any(ordered == NOTHING)):
            raise self._shared(first, node, position)
        return ordered

    def _sorted(
        self,
        first: int,
        node: NDArray[np.int64],
        position: NDArray[np.int64],
        row: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        order = np.lexsort((position, node))
        if _shared_rows(node[order], position[order]).any():
            raise self._shared(first, node, position)
        return row[order]

    def _shared(
        self, first: int, node: NDArray[np.int64], position: NDArray[np.int64]
    ) -> UserError:
        order = np.lexsort((position, node))
        at = order[np.argmax(_shared_rows(node[order], position[order]))]
        number = first + int(node[at])
        run = int(np.searchsorted(self._naming.run_first, number, side="right")) - 1
        name = printable(str(self._naming.node[number]))
        return UserError(
            f"{self._title or run_title(self._naming.runs[run])}: two events of node {name} share "
            f"the local_seq {position[at]}: each needs its own, and a node with events in several "
            "files needs that column"
        )


def _shared_rows(node: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row but the last whether the next one has its node and position."""
    shared: NDArray[np.bool_] = (node[1:] == node[:-1]) & (position[1:] == position[:-1])
    return shared


def _part(
    naming: Naming, phantoms: Phantoms, number: int, block: Packed, translation: Translation
) -> _Part:
    keys = naming.key_node[naming.key_first[number] : naming.key_first[number + 1]]
    order = np.argsort(keys, kind="stable")
    pair = translation.pair
    if translation.unknown.size:
        pair = pair.copy()
        known = slice(int(phantoms.block_first[number]), int(phantoms.block_first[number + 1]))
        pair[translation.unknown] = (PHANTOM << SEQ_BITS) + phantoms.number[known]
    return _Part(
        node=keys[order],
        begin=block.bounds[:-1][order],
        end=block.bounds[1:][order],
        low=block.low[order],
        high=block.high[order],
        block=block,
        pair=pair,
    )


def _values(part: _Part, rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    kind = part.block.kind[rows].astype(np.int64) << KIND_BITS
    kind |= part.pair[part.block.message[rows]]
    return kind


def _rows_of(
    part: _Part, keys: slice, first: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A block's rows of some keys: node from ``first`` on, position, and the row."""
    begin, end = part.begin[keys], part.end[keys]
    counts = end - begin
    rows: slice | NDArray[np.int64]
    if np.array_equal(begin[1:], end[:-1]):
        rows = slice(int(begin[0]), int(end[-1]))
    else:
        ends = np.cumsum(counts)
        rows = np.repeat(begin - (ends - counts), counts) + np.arange(int(ends[-1]))
    node = np.repeat(part.node[keys].astype(np.int64) - first, counts)
    position = part.block.position[rows].astype(np.int64) + np.repeat(part.low[keys], counts)
    return node, position, _values(part, rows)


def _positions(part: _Part, node: int) -> tuple[NDArray[np.int64], int]:
    """A node's positions in a block, and where its rows begin there."""
    key = int(np.searchsorted(part.node, node))
    begin, end = int(part.begin[key]), int(part.end[key])
    return part.block.position[begin:end].astype(np.int64) + part.low[key], begin


def _rows_between(
    part: _Part, node: int, low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    key = int(np.searchsorted(part.node, node))
    if int(part.high[key]) < low or int(part.low[key]) >= high:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    position, begin = _positions(part, node)
    chosen = np.flatnonzero((position >= low) & (position < high))
    return position[chosen], _values(part, begin + chosen)


NAMES: Final = "names"
NUMBERS: Final = ".numbers"
PHANTOMS: Final = "phantoms"
ROW_BYTES: Final = 8


class Stretch(NamedTuple):
    """A file with the rows of consecutive nodes."""

    first: int
    last: int
    path: str


def pack_batches(
    batches: Iterator[pa.RecordBatch],
    directory: Path,
    *,
    prefix: str = "block",
    block_rows: int = BLOCK_ROWS,
) -> list[str]:
    """Batches of events as blocks in a directory; their names, which begin with a prefix."""
    names: list[str] = []
    for table in tables_of(batches, block_rows=block_rows):
        block = pack(table.select(checked_columns(table.schema)))
        if block is not None:
            names.append(f"{prefix}-{len(names):06d}")
            arrays.save(directory / names[-1], block._asdict())
    return names


def name_all(names: Sequence[str], directory: Path) -> None:
    """Give the names in all blocks their numbers."""
    naming = name_blocks([_block(directory, name) for name in names])
    save_naming(directory / NAMES, naming)


def translate_block(name: str, directory: Path) -> None:
    """Look up the names of one block."""
    numbers = translate(_block(directory, name), load_naming(directory / NAMES))
    arrays.save(directory / f"{name}{NUMBERS}", numbers._asdict())


def name_rest(names: Sequence[str], directory: Path) -> None:
    """Number the messages without a broadcast, when all blocks are translated."""
    translations = [_translation(directory, name) for name in names]
    runs = len(load_naming(directory / NAMES).runs)
    arrays.save(directory / PHANTOMS, name_phantoms(translations, runs)._asdict())


def merge_nodes(
    names: Sequence[str],
    directory: Path,
    first: int,
    last: int,
    *,
    chunk_rows: int = MERGE_ROWS,
) -> Stretch:
    """The rows of nodes ``first`` up to and without ``last``, from all blocks, in a file."""
    merger = Merger(
        load_naming(directory / NAMES),
        _phantoms(directory),
        [_block(directory, name) for name in names],
        [_translation(directory, name) for name in names],
        chunk_rows=chunk_rows,
    )
    path = directory / f"rows-{first:08d}-{last:08d}"
    with aside(path) as temporary, temporary.open("wb") as file:
        for part in merger.merged(first, last):
            file.write(part.data)
    return Stretch(first, last, str(path))


def _block(directory: Path, name: str) -> Packed:
    return Packed(**arrays.load(directory / name)[0])


def _translation(directory: Path, name: str) -> Translation:
    return Translation(**arrays.load(directory / f"{name}{NUMBERS}")[0])


def _phantoms(directory: Path) -> Phantoms:
    return Phantoms(**arrays.load(directory / PHANTOMS)[0])


def sorted_runs(
    directory: Path,
    stretches: Sequence[Stretch],
    *,
    complete: bool = False,
    origin: str | None = None,
    notes: Notes | None = None,
) -> list[SortedRows]:
    """The runs of a log whose nodes are all merged, in the order of their ids.

    ``origin`` is the log's name in reports, and ``notes`` the notes of its reader.
    """
    log = SortedLog(directory, stretches)
    return [
        SortedRows(log, run, complete=complete, origin=origin, notes=notes)
        for run in range(len(log.naming.runs))
    ]


def sort_events(
    batches: Iterator[pa.RecordBatch],
    directory: Path,
    *,
    complete: bool = False,
    origin: str | None = None,
    notes: Notes | None = None,
    block_rows: int = BLOCK_ROWS,
    chunk_rows: int = MERGE_ROWS,
) -> list[SortedRows]:
    """The runs of a log of any size and in any order, sorted by way of blocks in a directory.

    The batches have the columns of ``checked_columns``, and are read once. Blocks take 9 to 20
    bytes a row and are removed at the end; the result takes 8 and is read from the directory.
    """
    names = pack_batches(batches, directory, block_rows=block_rows)
    name_all(names, directory)
    for name in names:
        translate_block(name, directory)
    name_rest(names, directory)
    nodes = load_naming(directory / NAMES).rows.size
    stretch = merge_nodes(names, directory, 0, nodes, chunk_rows=chunk_rows)
    for name in names:
        (directory / name).unlink()
        (directory / f"{name}{NUMBERS}").unlink()
    return sorted_runs(directory, [stretch], complete=complete, origin=origin, notes=notes)


def histories(
    batches: Iterable[pa.RecordBatch], notes: Notes, *, title: str, complete: bool = False
) -> list[History]:
    """The runs in batches of ``EVENTS``, sorted in memory, in the order of their ids.

    Ids that are all whole numbers are numbers; a log without any has an empty run 0. Rows of a node
    may come in any order; two with the same ``local_seq`` are refused, and so is a message that is
    broadcast twice.
    """
    tables = tables_of(iter(batches), block_rows=MEMORY_BLOCK_ROWS)
    blocks = [block for table in tables if (block := pack(table)) is not None]
    empty = [*notes.skipped] or ([] if blocks else ["0"])
    naming = name_blocks(blocks, title=title, place=notes.place, more_runs=empty)
    translations = [translate(block, naming) for block in blocks]
    phantoms = name_phantoms(translations, len(naming.runs))
    merger = Merger(naming, phantoms, blocks, translations, title=title)
    rows = [*merger.merged(0, naming.rows.size)]
    columns = unpacked(np.concatenate([np.empty(0, np.int64), *rows]))
    offsets = np.concatenate(([0], np.cumsum(naming.rows)))
    return [
        _history(
            run, naming, phantoms, offsets, columns,
            complete=complete,
            origin=title,
            skipped=notes.skipped[str(run_id)],
            notes=tuple(notes.doubts.get(str(run_id), ())),
        )
        for run, run_id in enumerate(naming.runs)
    ]  # fmt: skip


def _history(
    run: int,
    naming: Naming,
    phantoms: Phantoms,
    offsets: NDArray[np.int64],
    columns: Columns,
    **about: Any,
) -> History:
    """One run of a log whose rows are in memory, messages in the order of nodes and broadcasts."""
    first, last = naming.run_first[run : run + 2].tolist()
    sent = naming.sent_first[first : last + 1]
    unsent = slice(*phantoms.run_first[run : run + 2].tolist())
    rows = slice(int(offsets[first]), int(offsets[last]))
    kind, source, seq = columns.kind[rows], columns.source[rows], columns.seq[rows]
    base = np.append(sent[:-1] - sent[0], sent[-1] - sent[0])  # phantoms, of source -1, come last
    message = np.where(seq > 0, base[source] + seq - 1, NO_MESSAGE).astype(np.int32)
    count = unsent.stop - unsent.start
    ranks = np.arange(sent[0], sent[-1]) - np.repeat(sent[:-1], np.diff(sent)) + 1
    labels = naming.labels.label[int(sent[0]) : int(sent[-1])].to_pylist()
    return make_history(
        nodes=last - first,
        offsets=offsets[first : last + 1] - offsets[first],
        kind=kind,
        message=message,
        message_source=np.append(np.repeat(np.arange(last - first), np.diff(sent)), [-1] * count),
        message_sequence=np.append(ranks, [0] * count),
        node_names=naming.node[first:last].to_pylist(),
        message_names=labels + phantoms.label[unsent].to_pylist(),
        run_id=naming.runs[run],
        **about,
    )


class SortedLog:
    """The names and files of a sorted log: its runs share it, and a process maps it once."""

    def __init__(self, directory: Path, stretches: Sequence[Stretch]) -> None:
        self._directory = str(directory)
        self.stretches = list(stretches)

    def __getstate__(self) -> dict[str, Any]:
        return {"_directory": self._directory, "stretches": self.stretches}

    @functools.cached_property
    def naming(self) -> Naming:
        """The names of nodes and of what they broadcast."""
        return load_naming(Path(self._directory) / NAMES)

    @functools.cached_property
    def phantoms(self) -> Phantoms:
        """The names of messages without a broadcast."""
        return _phantoms(Path(self._directory))

    @functools.cached_property
    def row_first(self) -> NDArray[np.int64]:
        """Nodes + 1: the number of rows before those of a node."""
        return np.concatenate(([0], np.cumsum(self.naming.rows)))


class SortedRows(Rows):
    """One run of a log that was in no order."""

    def __init__(
        self,
        log: SortedLog,
        run: int,
        *,
        complete: bool = False,
        origin: str | None = None,
        notes: Notes | None = None,
    ) -> None:
        self._log = log
        self._run = run
        naming = log.naming
        self._base, last = (int(node) for node in naming.run_first[run : run + 2])
        self.nodes = last - self._base
        self.counts = np.array(naming.rows[self._base : last])
        self.complete = complete
        self.run_id = naming.runs[run]
        self.origin = run_title(self.run_id) if origin is None else origin
        if notes is not None:
            self.skipped = notes.skipped[str(self.run_id)]
            self.notes = tuple(notes.doubts.get(str(self.run_id), ()))

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``; merging has put the rows in order."""
        row_first = self._log.row_first
        for stretch in self._log.stretches:
            low = max(first + self._base, stretch.first)
            high = min(last + self._base, stretch.last)
            if low < high:
                inside = row_first[low : high + 1] - row_first[stretch.first]
                read = functools.partial(_read, stretch.path)
                yield from cut_chunks(low - self._base, inside, chunk_rows, read)

    def node_label(self, node: int) -> str:
        """See ``Rows``."""
        return str(self._log.naming.node[self._base + node])

    def pair_label(self, source: int, seq: int) -> str:
        """See ``Rows``."""
        naming, phantoms = self._log.naming, self._log.phantoms
        if source < 0:
            return str(phantoms.label[int(phantoms.run_first[self._run]) + seq - 1])
        return str(naming.labels.label[int(naming.sent_first[self._base + source]) + seq - 1])


def _read(path: str, start: int, stop: int) -> tuple[NDArray[Any], ...]:
    """Rows of a file from one number to another."""
    try:
        rows = np.fromfile(path, np.int64, stop - start, offset=start * ROW_BYTES)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if rows.size < stop - start:
        raise UserError(f"{path} is damaged: start over")
    return tuple(unpacked(rows))
