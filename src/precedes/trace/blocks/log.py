"""The way of a log in no order through blocks, step by step, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from precedes.trace.blocks.merge import CHUNK_ROWS, Merger
from precedes.trace.blocks.naming import (
    load_naming,
    load_phantoms,
    load_translation,
    name_blocks,
    name_phantoms,
    save_naming,
    save_phantoms,
    save_translation,
    translate,
)
from precedes.trace.blocks.pack import (
    BLOCK_ROWS,
    checked_columns,
    load_block,
    pack,
    save_block,
    tables_of,
)
from precedes.trace.blocks.rows import (
    NAMES,
    PHANTOMS,
    SortedLog,
    SortedRows,
    Stretch,
    write_stretch,
)
from precedes.trace.dialect import Found

NUMBERS: Final = ".numbers"


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
            save_block(directory / names[-1], block)
    return names


def name_all(names: Sequence[str], directory: Path) -> None:
    """Give the names in all blocks their numbers."""
    found = name_blocks([load_block(directory / name) for name in names])
    save_naming(directory / NAMES, found)


def translate_block(name: str, directory: Path) -> None:
    """Look up the names of one block."""
    found = translate(load_block(directory / name), load_naming(directory / NAMES))
    save_translation(directory / f"{name}{NUMBERS}", found)


def name_rest(names: Sequence[str], directory: Path) -> None:
    """Give the messages that nobody broadcast their numbers, when all blocks are translated."""
    translations = [load_translation(directory / f"{name}{NUMBERS}") for name in names]
    runs = len(load_naming(directory / NAMES).runs)
    save_phantoms(directory / PHANTOMS, name_phantoms(translations, runs))


def merge_nodes(
    names: Sequence[str],
    directory: Path,
    first: int,
    last: int,
    *,
    chunk_rows: int = CHUNK_ROWS,
) -> Stretch:
    """The rows of nodes ``first`` up to and without ``last``, from all blocks, in a file."""
    merger = Merger(
        load_naming(directory / NAMES),
        load_phantoms(directory / PHANTOMS),
        [load_block(directory / name) for name in names],
        [load_translation(directory / f"{name}{NUMBERS}") for name in names],
        chunk_rows=chunk_rows,
    )
    return write_stretch(merger, first, last, directory / f"rows-{first:08d}-{last:08d}")


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
    chunk_rows: int = CHUNK_ROWS,
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
