"""The stages of an audit, and the data that passes between them.

A run of any size is judged in two passes over its nodes, each node alone:

    order   find_order(rows) -> Order                                places of most messages
    A       find_pasts(rows, first, last, order, bound) -> Pasts     for each range of nodes
    prune   prune(pasts, places, prefixes) -> Pruned                 for each part of A
    table   make_table(places, pruned) -> Table
    B       judge(rows, first, last, table, facts, ...) -> Judged    for each range of nodes

``find_pasts``, ``prune`` and ``judge`` are pure functions of rows, a range and shared arrays.
``Order``, ``Places``, ``Table``, ``Facts`` and the parts are named tuples of plain arrays, which
``work`` serialises. So a part depends on the input and its range alone, and is the
same on every machine, in any order, however often it is made.

``carry_out`` is the driver: it holds the data shared by all ranges, and hands the ranges to a
``Runner``, which processes them one after another; subclasses run them on Spark, or keep parts in a
work folder (``work``). ``carry_out`` repeats only the work that phantoms
invalidate: ranges whose deliveries name messages without a broadcast are read again, with the
counts of broadcasts as ``bound``; if the order itself holds phantoms, all of them.

Ranges cover all nodes, ascending and without gaps. The outcome does not depend on their bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from precedes.audit.judge import TALLIES, Facts, Judged, judge
from precedes.audit.order import Order, find_order, without_phantoms, words_for
from precedes.audit.pasts import Pasts, find_pasts
from precedes.audit.table import (
    Places,
    Pruned,
    Table,
    cyclic_messages,
    make_table,
    number_places,
    prefixes_by_place,
    prune,
    resolved_counts,
)
from precedes.errors import UserError
from precedes.trace.rows import CHUNK_ROWS, Rows

Span = tuple[int, int]

Number = TypeVar("Number", bound=np.generic)

MESSAGES_MAX: Final = 2**31 - 2**10  # numbers of messages and places are int32


class Runner:
    """Makes the parts, in the order of the ranges: one after another, in this process."""

    def __init__(
        self,
        *,
        chunk_rows: int = CHUNK_ROWS,
        references: Sequence[int] | None = None,
        on_rows: Callable[[int], None] | None = None,
    ) -> None:
        self._chunk_rows = chunk_rows
        self._references = references
        self._on_rows = on_rows

    def order(self, rows: Rows) -> Order:
        """The order of places."""
        return find_order(rows, references=self._references)

    def find_pasts(
        self, rows: Rows, spans: Sequence[Span], order: Order, bound: NDArray[np.int64]
    ) -> Sequence[Pasts]:
        """Phase A of these ranges."""
        return [
            find_pasts(
                rows,
                *span,
                order=order,
                bound=bound,
                chunk_rows=self._chunk_rows,
                on_rows=self._on_rows,
            )
            for span in spans
        ]

    def prune(
        self, pasts: Sequence[Pasts], places: Places, prefixes: NDArray[np.int32]
    ) -> Sequence[Pruned]:
        """Short lists for these parts."""
        return [prune(part, places=places, prefixes=prefixes) for part in pasts]

    def table(self, make: Callable[[], Table]) -> Table:
        """The result of ``make``, unless it exists already."""
        return make()

    def judge(
        self,
        rows: Rows,
        spans: Sequence[Span],
        table: Table,
        facts: Facts,
        violations_max: int,
    ) -> Sequence[Judged]:
        """Phase B of these ranges."""
        return [
            judge(
                rows,
                *span,
                table=table,
                facts=facts,
                violations_max=violations_max,
                chunk_rows=self._chunk_rows,
                on_rows=self._on_rows,
            )
            for span in spans
        ]


class Outcome(NamedTuple):
    """All findings of the stages; a message's number is ``base[source] + seq - 1``."""

    base: NDArray[np.int64]
    position: NDArray[np.int64]  # message: of its broadcast
    correct: NDArray[np.uint8]  # node: it never crashed
    departed: NDArray[np.uint8]  # node
    cyclic: NDArray[np.int64]  # messages in their own past
    tallies: NDArray[np.int64]  # node, column
    violating_messages: int
    # Node, source, seq: the first by (node, position), those of FIFO order last.
    violations: list[tuple[int, int, int]]
    phantoms: list[tuple[int, int]]  # pairs without a broadcast, ascending


def cut_evenly(rows: Rows, ranges: int) -> list[Span]:
    """About this number of ranges with similar numbers of rows; a node is never cut."""
    ends = np.cumsum(rows.counts)
    total = int(ends[-1]) if ends.size else 0
    wanted = [total * (i + 1) // ranges for i in range(ranges - 1)]
    cuts = [0, *np.searchsorted(ends, wanted, side="left").tolist(), rows.nodes]
    return [(a, b) for a, b in itertools.pairwise(cuts) if a < b]


def carry_out(rows: Rows, spans: Sequence[Span], *, runner: Runner, violations_max: int) -> Outcome:
    """Audit a run, range by range."""
    pasts, places = _all_pasts(rows, spans, runner)

    def make() -> Table:
        pruned = runner.prune(pasts, places, prefixes_by_place(places, pasts))
        table, is_verified = make_table(places, pruned)
        return table if is_verified else table._replace(counts=resolved_counts(table))

    table = runner.table(make)
    cyclic = np.empty(0, np.int64)
    if np.any(table.counts != np.diff(places.base)):
        cyclic = cyclic_messages(pasts, places, table.counts)
    facts = Facts(
        counts=np.diff(places.base).astype(np.int32),
        own=_joined([part.own for part in pasts], np.uint8),
        correct=1 - _joined([part.crashed for part in pasts], np.uint8),
    )
    judged = runner.judge(rows, spans, table, facts, violations_max)
    violating = np.zeros(words_for(table.place.size), np.uint64)
    stored: list[tuple[int, int, int, int]] = []
    phantoms: set[tuple[int, int]] = set()
    for part in judged:
        violating |= part.violating
        columns = (part.is_fifo, part.node, part.source, part.seq)
        stored += zip(*(column.tolist() for column in columns), strict=True)
        phantoms |= set(zip(part.phantom_source.tolist(), part.phantom_seq.tolist(), strict=True))
    return Outcome(
        base=table.base,
        position=_joined([part.position for part in pasts], np.int64),
        correct=facts.correct,
        departed=_joined([part.departed for part in pasts], np.uint8),
        cyclic=cyclic,
        tallies=np.concatenate([np.empty((0, TALLIES), np.int64), *(p.tallies for p in judged)]),
        violating_messages=int(np.bitwise_count(violating).sum()),
        violations=[one[1:] for one in sorted(stored, key=_is_fifo)[:violations_max]],
        phantoms=sorted(phantoms),
    )


def _all_pasts(rows: Rows, spans: Sequence[Span], runner: Runner) -> tuple[list[Pasts], Places]:
    """Phase A, repeated where phantoms were met, and the places of all messages."""
    order = runner.order(rows)
    pasts = list(runner.find_pasts(rows, spans, order, rows.counts))
    counts = _joined([part.counts for part in pasts], np.int64)
    if int(counts.sum()) > MESSAGES_MAX:
        raise UserError(f"{rows.origin}: too many messages for one audit; split it into runs")
    spoilt = [i for i, part in enumerate(pasts) if np.any(part.top > counts)]
    if np.any(order.seq > counts[order.source]):
        order = without_phantoms(order, counts)
        spoilt = list(range(len(pasts)))
    if spoilt:
        again = runner.find_pasts(rows, [spans[i] for i in spoilt], order, counts)
        for i, part in zip(spoilt, again, strict=True):
            pasts[i] = part
    return pasts, number_places(order, counts)


def _is_fifo(violation: tuple[int, int, int, int]) -> int:
    return violation[0]


def _joined(arrays: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.empty(0, dtype), *arrays])
