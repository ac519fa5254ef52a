"""Rows that an importer makes one by one, on their way into record batches."""

from __future__ import annotations

from typing import Final, cast

import pyarrow as pa

from precedes.trace.arrow_arrays import integers, strings
from precedes.trace.schema import EVENTS

BATCH_ROWS: Final = 1 << 16


class Rows:
    """Takes rows until ``full``, then gives them as a batch of ``EVENTS``."""

    def __init__(self) -> None:
        self._columns: list[list[str | int | None]] = [[] for _ in EVENTS.names]

    def add(
        self,
        *,
        run_id: str,
        node: str,
        local_seq: int,
        kind: str,
        message: str | None,
        time_us: int | None = None,
    ) -> None:
        """One event."""
        row = (run_id, node, local_seq, time_us, kind, message)
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._columns[0])

    @property
    def full(self) -> bool:
        """Whether it is time to take them."""
        return len(self) >= BATCH_ROWS

    def take(self) -> pa.RecordBatch:
        """What waits, which waits no longer."""
        run_id, node, local_seq, time_us, kind, message = self._columns
        columns = [
            *(strings(cast("list[str]", column)) for column in (run_id, node)),
            *(integers(cast("list[int]", column)) for column in (local_seq, time_us)),
            *(strings(cast("list[str]", column)) for column in (kind, message)),
        ]
        for column in self._columns:
            column.clear()
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
