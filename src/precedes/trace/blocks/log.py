"""A log in no order, sorted on disk: the loop in one process, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.trace.assemble import numbered_history
from precedes.trace.blocks.merge import CHUNK_ROWS, Merger, unpacked
from precedes.trace.blocks.naming import (
    Naming,
    Phantoms,
    load_naming,
    load_translation,
    name_blocks,
    name_phantoms,
    save_naming,
    save_translation,
    translate,
)
from precedes.trace.blocks.pack import (
    BLOCK_ROWS,
    checked_columns,
    load_block,
    pack,
    run_title,
    save_block,
    tables_of,
)
from precedes.trace.history import History


class SortedLog:
    """The runs of a log, in the order of their ids, each sorted by node and its own order."""

    def __init__(self, naming: Naming, phantoms: Phantoms, merger: Merger) -> None:
        self.naming = naming
        self.phantoms = phantoms
        self._merger = merger

    @property
    def runs(self) -> list[int | str]:
        """The ids of the runs."""
        return self.naming.runs

    def rows_of(self, run: int) -> int:
        """How many rows a run has."""
        first, last = self.naming.run_first[run : run + 2]
        return int(self.naming.rows[first:last].sum())

    def chunks(self, run: int, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        """The rows of some nodes of a run, as ``merge.unpacked`` takes them."""
        base = int(self.naming.run_first[run])
        return self._merger.merged(base + first, base + last)

    def history(self, run: int) -> History:
        """A run as a whole, in memory."""
        naming = self.naming
        first, last = (int(node) for node in naming.run_first[run : run + 2])
        packed = [np.empty(0, np.int64), *self._merger.merged(first, last)]
        rows = unpacked(np.concatenate(packed))
        title = run_title(naming.runs[run])
        history = numbered_history(
            nodes=last - first,
            offsets=np.concatenate(([0], np.cumsum(naming.rows[first:last]))),
            kind=rows.kind,
            source=rows.source,
            seq=rows.seq,
            title=title,
            complete=False,
            run_id=naming.runs[run],
            origin=title,
        )
        sent = slice(int(naming.sent_first[first]), int(naming.sent_first[last]))
        unsent = slice(*self.phantoms.run_first[run : run + 2].tolist())
        labels = naming.labels.label[sent].to_pylist() + self.phantoms.label[unsent].to_pylist()
        names = naming.node[first:last].to_pylist()
        return replace(history, node_names=names, message_names=labels)


def pack_batches(
    batches: Iterator[pa.RecordBatch], directory: Path, *, block_rows: int = BLOCK_ROWS
) -> list[Path]:
    """Batches of events as blocks in a directory."""
    paths: list[Path] = []
    for table in tables_of(batches, block_rows=block_rows):
        block = pack(table.select(checked_columns(table.schema)))
        if block is not None:
            paths.append(directory / f"block-{len(paths):06d}")
            save_block(paths[-1], block)
    return paths


def sort_blocks(
    paths: Sequence[Path], directory: Path, *, chunk_rows: int = CHUNK_ROWS
) -> SortedLog:
    """The log that blocks hold together; what it takes besides them goes to a directory."""
    blocks = [load_block(path) for path in paths]
    save_naming(directory / "names", name_blocks(blocks))
    naming = load_naming(directory / "names")
    translated = [directory / f"{path.name}.numbers" for path in paths]
    for path, block in zip(translated, blocks, strict=True):
        save_translation(path, translate(block, naming))
    translations = [load_translation(path) for path in translated]
    phantoms = name_phantoms(translations, len(naming.runs))
    merger = Merger(naming, phantoms, blocks, translations, chunk_rows=chunk_rows)
    return SortedLog(naming, phantoms, merger)


def sort_events(
    batches: Iterator[pa.RecordBatch],
    directory: Path,
    *,
    block_rows: int = BLOCK_ROWS,
    chunk_rows: int = CHUNK_ROWS,
) -> SortedLog:
    """A log of any size and in any order, sorted with blocks in a directory.

    The batches have the columns of ``checked_columns``; they are read once.
    """
    paths = pack_batches(batches, directory, block_rows=block_rows)
    return sort_blocks(paths, directory, chunk_rows=chunk_rows)
