"""The events of a run on a radio, handed to a writer in chunks."""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes.model import EventKind
from precedes.sim.run import Writer

CHUNK_ROWS: Final = 1 << 16


class RadioTrace:
    """Collects rows; without a writer it does nothing."""

    def __init__(self, writer: Writer | None) -> None:
        self.writer = writer
        self.rows: list[tuple[int, int, int, int, int]] = []

    def message(self, time_ns: int, host: int, kind: EventKind, source: int, number: int) -> None:
        """An event of a message; own numbers begin with 0, sequences of a trace with 1."""
        if self.writer is not None:
            self._add(time_ns, host, kind, source, number + 1)

    def membership(self, time_ns: int, host: int, kind: EventKind) -> None:
        """A life begins or ends."""
        if self.writer is not None:
            self._add(time_ns, host, kind, host, 0)

    def _add(self, time_ns: int, host: int, kind: EventKind, source: int, sequence: int) -> None:
        self.rows.append((time_ns, host, kind, source, sequence))
        if len(self.rows) >= CHUNK_ROWS:
            self.close()

    def close(self) -> None:
        """Hand over what there is."""
        if self.writer is None or not self.rows:
            return
        columns = np.array(self.rows, np.int64).T
        self.writer.write(
            columns[0].copy(),
            columns[1].astype(np.int32),
            columns[2].astype(np.int8),
            columns[3].astype(np.int32),
            columns[4].astype(np.int32),
            np.full(len(self.rows), -1, np.int64),
        )
        self.rows = []
