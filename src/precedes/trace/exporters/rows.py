"""The events of a log as lists, for tools that show them: of a small log, or those near a spot."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.assemble import in_order

COUNTED: Final = ("broadcast", "deliver")  # what a position in a report counts


class Row(NamedTuple):
    """An event at a node."""

    kind: str
    message: str | None
    time_us: int | None
    position: int  # among the node's broadcasts and deliveries; of others, how many are before


class Spot(NamedTuple):
    """A broadcast or delivery that somebody wants to look at."""

    node: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What an audit found, and where; ``kind`` as in a report."""

    run_id: str
    kind: str
    sentence: str
    node: str
    message: str
    spots: tuple[Spot, ...] = ()


@dataclass(frozen=True)
class RunRows:
    """The rows of one run, each node's in its own order; nodes in the order of their names."""

    run_id: str
    nodes: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.nodes.values()))

    def near(self, spots: Iterable[Spot], *, rows: int) -> RunRows:
        """Those at most so many positions from a spot, of its node."""
        wanted: dict[str, list[int]] = {}
        for spot in sorted(spots):
            wanted.setdefault(spot.node, []).append(spot.position)
        chosen = {}
        for node, positions in wanted.items():
            inside = []
            for row in self.nodes.get(node, []):
                at = bisect_left(positions, row.position - rows)
                if at < len(positions) and positions[at] <= row.position + rows:
                    inside.append(row)
            if inside:
                chosen[node] = inside
        return RunRows(self.run_id, {node: chosen[node] for node in self.nodes if node in chosen})


def table_of(
    batches: Iterable[pa.RecordBatch], *, title: str, rows_max: int | None
) -> list[pa.RecordBatch]:
    """The batches, unless they are too many rows to be shown."""
    found: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows_max is not None and rows > rows_max:
            raise UserError(
                f"{title} has more than {rows_max:,} events, too many to look at: export what is "
                "near a finding with `around_witness` 1"
            )
        found.append(batch)
    return found


def runs_of(batches: Sequence[pa.RecordBatch]) -> list[RunRows]:
    """The rows by run and node."""
    runs: dict[str, dict[str, list[tuple[int, str, str | None, int | None]]]] = {}
    for batch in batches:
        for run_id, node, local_seq, time_us, kind, message in _rows(batch):
            nodes = runs.setdefault(run_id, {})
            nodes.setdefault(node, []).append((local_seq, kind, message, time_us))
    return [
        RunRows(run_id, {node: _in_order(runs[run_id][node]) for node in in_order([*runs[run_id]])})
        for run_id in in_order([*runs])
    ]


def _in_order(rows: list[tuple[int, str, str | None, int | None]]) -> list[Row]:
    rows.sort(key=lambda row: row[0])
    found = []
    position = 0
    for _, kind, message, time_us in rows:
        found.append(Row(kind, message, time_us, position))
        position += kind in COUNTED
    return found


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, str, int, int | None, str, str | None]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def causal_order(run: RunRows) -> list[tuple[str, int]]:
    """All rows (node, number in its list) so that what precedes another stands before it.

    A UserError names a message in its own past, if there is one.
    """
    sent = {row.message for rows in run.nodes.values() for row in rows if row.kind == "broadcast"}
    done: set[str | None] = set()
    waiting: dict[str | None, list[str]] = {}
    at = dict.fromkeys(run.nodes, 0)
    order: list[tuple[str, int]] = []
    ready = [*run.nodes][::-1]
    while ready:
        node = ready.pop()
        rows = run.nodes[node]
        while at[node] < len(rows):
            row = rows[at[node]]
            if row.kind == "deliver" and row.message in sent and row.message not in done:
                waiting.setdefault(row.message, []).append(node)
                break
            order.append((node, at[node]))
            at[node] += 1
            if row.kind == "broadcast":
                done.add(row.message)
                ready += waiting.pop(row.message, [])[::-1]
    if waiting:
        message = min(filter(None, waiting))
        raise UserError(
            f"the log contradicts itself around message {printable(message)}, which precedes what "
            "precedes it: it has no clocks"
        )
    return order
