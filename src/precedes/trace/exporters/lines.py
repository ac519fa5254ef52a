"""Logs as JSON lines and as CSV, batch by batch: what was read is forgotten when it is written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.dialect import ONE_RUN
from precedes.trace.schema import EVENTS


def to_jsonl(batches: Iterable[pa.RecordBatch], *, title: str) -> Iterator[bytes]:
    """An object a line; the order of a node's lines is its order, so its rows must come in it."""
    last: dict[tuple[str, str], int] = {}
    texts: dict[str, str] = {}

    def quoted(name: str) -> str:
        found = texts.get(name)
        if found is None:
            if len(texts) >= 1 << 20:  # names of messages are many, and most come close together
                texts.clear()
            found = texts[name] = json.dumps(name)
        return found

    for batch in batches:
        lines = []
        for run_id, node, local_seq, time_us, kind, message in _rows(batch):
            if last.get((run_id, node), local_seq - 1) >= local_seq:
                raise UserError(
                    f"{title}: the events of node {printable(node)} do not stand in their order, "
                    "which JSON lines cannot say otherwise: export csv"
                )
            last[run_id, node] = local_seq
            run = "" if run_id == ONE_RUN else f', "run_id": {quoted(run_id)}'
            named = "" if message is None else f', "message": {quoted(message)}'
            time = "" if time_us is None else f', "time_us": {time_us}'
            lines.append(f'{{"node": {quoted(node)}, "kind": "{kind}"{named}{time}{run}}}\n')
        yield "".join(lines).encode()


def to_csv(batches: Iterable[pa.RecordBatch], *, title: str) -> Iterator[bytes]:
    """A header and a row an event, in the order in which they come; ``local_seq`` is a column."""
    yield (",".join(EVENTS.names) + "\n").encode()
    for batch in batches:
        text = io.StringIO()
        rows = list(_rows(batch))
        # Python's writer sees no need to quote this end of a line, which its reader takes for one.
        odd = any("\r" in (cell or "") for row in rows for cell in (row[0], row[1], row[5]))
        writer = csv.writer(
            text,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if odd else csv.QUOTE_MINIMAL,
        )
        for row in rows:
            if "" in row:
                raise UserError(
                    f"{title}: a name is empty, which an empty cell cannot say: export jsonl"
                )
            writer.writerow(row)
        yield text.getvalue().encode()


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, str, int, int | None, str, str | None]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
