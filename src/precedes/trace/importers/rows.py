"""Rows that an importer makes one by one, on their way into record batches."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from precedes.trace.arrow_arrays import integers, strings
from precedes.trace.schema import EVENTS

BATCH_ROWS: Final = 1 << 16


class Rows:
    """Takes rows until ``full``, then gives them as a batch of ``EVENTS``."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, int, int | None, str, str | None]] = []

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
        self._rows.append((run_id, node, local_seq, time_us, kind, message))

    def __len__(self) -> int:
        """How many wait."""
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether it is time to take them."""
        return len(self._rows) >= BATCH_ROWS

    def take(self) -> pa.RecordBatch:
        """What waits, which waits no longer."""
        columns: list[Any] = list(zip(*self._rows, strict=True)) or [()] * len(EVENTS)
        self._rows.clear()
        arrays = [
            integers(column) if field.type == pa.int64() else strings(column)
            for column, field in zip(columns, EVENTS, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)
