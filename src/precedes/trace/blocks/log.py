"""The way of a log in no order through blocks, step by step, in one process.

What is left in the end is the audit's input: eight bytes a row on disk, read piece by piece.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.files import aside
from precedes.trace import arrays, rows
from precedes.trace.blocks import merge
from precedes.trace.blocks.merge import Merger, unpacked
from precedes.trace.blocks.naming import (
    Naming,
    Phantoms,
    Translation,
    load_naming,
    name_blocks,
    name_phantoms,
    save_naming,
    translate,
)
from precedes.trace.blocks.pack import (
    BLOCK_ROWS,
    Block,
    checked_columns,
    pack,
    run_title,
    tables_of,
)
from precedes.trace.dialect import Found
from precedes.trace.rows import Chunk, Rows, cut_chunks

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
    found = name_blocks([_block(directory, name) for name in names])
    save_naming(directory / NAMES, found)


def translate_block(name: str, directory: Path) -> None:
    """Look up the names of one block."""
    found = translate(_block(directory, name), load_naming(directory / NAMES))
    arrays.save(directory / f"{name}{NUMBERS}", found._asdict())


def name_rest(names: Sequence[str], directory: Path) -> None:
    """Give the messages that nobody broadcast their numbers, when all blocks are translated."""
    translations = [_translation(directory, name) for name in names]
    runs = len(load_naming(directory / NAMES).runs)
    arrays.save(directory / PHANTOMS, name_phantoms(translations, runs)._asdict())


def merge_nodes(
    names: Sequence[str],
    directory: Path,
    first: int,
    last: int,
    *,
    chunk_rows: int = merge.CHUNK_ROWS,
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


def _block(directory: Path, name: str) -> Block:
    return Block(**arrays.load(directory / name)[0])


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
    found: Found | None = None,
) -> list[SortedRows]:
    """The runs of a log whose nodes are all merged, in the order of their ids.

    ``origin`` is what reports call the log, and ``found`` what its reader told beside the rows.
    """
    log = SortedLog(directory, stretches)
    return [
        SortedRows(log, run, complete=complete, origin=origin, found=found)
        for run in range(len(log.naming.runs))
    ]


def sort_events(
    batches: Iterator[pa.RecordBatch],
    directory: Path,
    *,
    complete: bool = False,
    origin: str | None = None,
    found: Found | None = None,
    block_rows: int = BLOCK_ROWS,
    chunk_rows: int = merge.CHUNK_ROWS,
) -> list[SortedRows]:
    """The runs of a log of any size and in any order, sorted by way of blocks in a directory.

    The batches have the columns of ``checked_columns``, and are read once. Blocks take 9 to 20
    bytes a row and are gone in the end; what is left takes 8 and is read from the directory.
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
    return sorted_runs(directory, [stretch], complete=complete, origin=origin, found=found)


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
        """The names of what nobody broadcast."""
        return _phantoms(Path(self._directory))

    @functools.cached_property
    def row_first(self) -> NDArray[np.int64]:
        """Nodes + 1: how many rows stand before those of a node."""
        return np.concatenate(([0], np.cumsum(self.naming.rows)))


class SortedRows(Rows):
    """One run of a log that was in no order; ``folder`` is what goes when nobody has it."""

    folder: object = None

    def __init__(
        self,
        log: SortedLog,
        run: int,
        *,
        complete: bool = False,
        origin: str | None = None,
        found: Found | None = None,
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
        if found is not None:
            self.skipped = found.skipped[str(self.run_id)]
            self.notes = tuple(found.notes.get(str(self.run_id), ()))

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = rows.CHUNK_ROWS, check: bool = False
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
        found = np.fromfile(path, np.int64, stop - start, offset=start * ROW_BYTES)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if found.size < stop - start:
        raise UserError(f"{path} is damaged: start over")
    return tuple(unpacked(found))
