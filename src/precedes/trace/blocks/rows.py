"""Merged blocks on disk as the audit's input: eight bytes a row, read piece by piece."""

from __future__ import annotations

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


class SortedRows(Rows):
    """One run of a log that was in no order; ``folder`` is what goes when nobody has it."""

    folder: object = None

    def __init__(
        self,
        directory: Path,
        run: int,
        stretches: Sequence[Stretch],
        *,
        complete: bool = False,
        origin: str | None = None,
        found: Found | None = None,
    ) -> None:
        self._directory = str(directory)
        self._run = run
        self._opened: tuple[Naming, Phantoms] | None = None
        naming = self._naming
        self._base, last = (int(node) for node in naming.run_first[run : run + 2])
        self._stretches = [s for s in stretches if s.first < last and s.last > self._base]
        self._offsets = [
            np.concatenate(([0], np.cumsum(naming.rows[s.first : s.last]))) for s in self._stretches
        ]
        self.nodes = last - self._base
        self.counts = np.array(naming.rows[self._base : last])
        self.complete = complete
        self.run_id = naming.runs[run]
        self.origin = run_title(self.run_id) if origin is None else origin
        if found is not None:
            self.skipped = found.skipped[str(self.run_id)]
            self.notes = tuple(found.notes.get(str(self.run_id), ()))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    @property
    def _names(self) -> tuple[Naming, Phantoms]:
        if self._opened is None:
            place = Path(self._directory)
            self._opened = load_naming(place / NAMES), load_phantoms(place / PHANTOMS)
        return self._opened

    @property
    def _naming(self) -> Naming:
        return self._names[0]

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``; merging has put the rows in order."""
        for stretch, offsets in zip(self._stretches, self._offsets, strict=True):
            low = max(first + self._base, stretch.first)
            high = min(last + self._base, stretch.last)
            if low < high:
                inside = offsets[low - stretch.first : high - stretch.first + 1]
                read = _Reader(stretch.path)
                yield from cut_chunks(low - self._base, inside, chunk_rows, read)

    def node_label(self, node: int) -> str:
        """See ``Rows``."""
        return str(self._naming.node[self._base + node])

    def message_label(self, source: int, seq: int) -> str:
        """See ``Rows``."""
        naming, phantoms = self._names
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
