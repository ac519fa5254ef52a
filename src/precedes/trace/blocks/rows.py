"""Merged blocks on disk as the audit's input: eight bytes a row, read piece by piece."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.files import aside
from precedes.trace.blocks.merge import Merger, unpacked
from precedes.trace.blocks.naming import Naming, Phantoms, load_naming, load_phantoms
from precedes.trace.blocks.pack import run_title
from precedes.trace.dialect import Found
from precedes.trace.rows import CHUNK_ROWS, Chunk, Rows, cut_chunks

ROW_BYTES: Final = 8
NAMES: Final = "names"
PHANTOMS: Final = "phantoms"


class Stretch(NamedTuple):
    """A file with the rows of consecutive nodes."""

    first: int
    last: int
    path: str


def write_stretch(merger: Merger, first: int, last: int, path: Path) -> Stretch:
    """Merge the rows of some nodes into a file, whole or not at all."""
    with aside(path) as temporary, temporary.open("wb") as file:
        for rows in merger.merged(first, last):
            file.write(rows.data)
    return Stretch(first, last, str(path))


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
        return load_phantoms(Path(self._directory) / PHANTOMS)

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
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``; merging has put the rows in order."""
        row_first = self._log.row_first
        for stretch in self._log.stretches:
            low = max(first + self._base, stretch.first)
            high = min(last + self._base, stretch.last)
            if low < high:
                inside = row_first[low : high + 1] - row_first[stretch.first]
                read = _Reader(stretch.path)
                yield from cut_chunks(low - self._base, inside, chunk_rows, read)

    def node_label(self, node: int) -> str:
        """See ``Rows``."""
        return str(self._log.naming.node[self._base + node])

    def message_label(self, source: int, seq: int) -> str:
        """See ``Rows``."""
        naming, phantoms = self._log.naming, self._log.phantoms
        if source < 0:
            return str(phantoms.label[int(phantoms.run_first[self._run]) + seq - 1])
        return str(naming.labels.label[int(naming.sent_first[self._base + source]) + seq - 1])


class _Reader:
    """Rows of a file from one number to another."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        try:
            rows = np.fromfile(self._path, np.int64, stop - start, offset=start * ROW_BYTES)
        except OSError as error:
            raise UserError(f"cannot read {self._path}: {error.strerror}") from None
        if rows.size < stop - start:
            raise UserError(f"{self._path} is damaged: start over")
        return tuple(unpacked(rows))
