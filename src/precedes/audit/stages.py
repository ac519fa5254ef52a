"""The stages of an audit, and what passes between them.

A run of any size is judged in two passes over its nodes, each node alone:

    order   find_order(rows) -> Order                                places of most messages
    A       hear(rows, first, last, order, bound) -> Heard           for each range of nodes
    prune   prune(heard, places, floors) -> Pruned                   for each part of A
    table   make_table(places, pruned) -> Table
    B       judge(rows, first, last, table, facts, ...) -> Judged    for each range of nodes

``hear``, ``prune`` and ``judge`` are pure functions: of rows, a range and shared arrays they make a
part. ``Order``, ``Places``, ``Table``, ``Facts`` and the parts are named tuples of plain arrays,
which ``work`` turns into bytes and back. So a part depends on the input and its range alone, and
is the same whoever makes it, wherever, in whatever order, however often.

``carry_out`` is the driver: it holds what is the same for all ranges, and hands the ranges to a
``Runner``, which does them one after another; one that has Spark do them, or keeps parts in a work
folder (``work``), is a subclass. What ``carry_out`` asks for twice is what phantoms
spoilt: ranges whose deliveries name messages that nobody broadcast are heard again, with the counts
of broadcasts as ``bound``; if the order itself holds phantoms, all of them.

Ranges cover all nodes, rising and without gaps. Nothing in the outcome depends on how they are cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from precedes.audit.bits import words_for
from precedes.audit.cycles import cyclic_messages
from precedes.audit.hear import Heard, hear
from precedes.audit.judge import TALLIES, Facts, Judged, judge
from precedes.audit.order import Order, find_order, without_phantoms
from precedes.audit.settle import Table
from precedes.audit.table import (
    Places,
    Pruned,
    floors_by_place,
    make_table,
    number_places,
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

    def hear(
        self, rows: Rows, spans: Sequence[Span], order: Order, bound: NDArray[np.int64]
    ) -> Sequence[Heard]:
        """Phase A of these ranges."""
        return [
            hear(
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
        self, heard: Sequence[Heard], places: Places, floors: NDArray[np.int32]
    ) -> Sequence[Pruned]:
        """Short lists for these parts."""
        return [prune(part, places=places, floors=floors) for part in heard]

    def table(self, make: Callable[[], Table]) -> Table:
        """What ``make`` makes, unless it is there already."""
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
    """All that the stages found; a message's number is ``base[source] + seq - 1``."""

    base: NDArray[np.int64]
    position: NDArray[np.int64]  # message: of its broadcast
    correct: NDArray[np.uint8]  # node: it never crashed
    departed: NDArray[np.uint8]  # node
    cyclic: NDArray[np.int64]  # messages in their own past
    tallies: NDArray[np.int64]  # node, column
    violating_messages: int
    violations: list[tuple[int, int, int]]  # node, source, seq: the first, by (node, position)
    phantoms: list[tuple[int, int]]  # what nobody broadcast, rising


def cut_evenly(rows: Rows, ranges: int) -> list[Span]:
    """So many ranges of about as many rows each, or fewer; a node is never cut."""
    ends = np.cumsum(rows.counts)
    total = int(ends[-1]) if ends.size else 0
    wanted = [total * (i + 1) // ranges for i in range(ranges - 1)]
    cuts = [0, *np.searchsorted(ends, wanted, side="left").tolist(), rows.nodes]
    return [(a, b) for a, b in itertools.pairwise(cuts) if a < b]


def carry_out(rows: Rows, spans: Sequence[Span], *, runner: Runner, violations_max: int) -> Outcome:
    """Audit a run, range by range."""
    pasts = _pasts(rows, spans, runner)
    judged = runner.judge(rows, spans, pasts.table, pasts.facts, violations_max)
    violating = np.zeros(words_for(pasts.table.place.size), np.uint64)
    violations: list[tuple[int, int, int]] = []
    phantoms: set[tuple[int, int]] = set()
    for part in judged:
        violating |= part.violating
        columns = (part.node.tolist(), part.source.tolist(), part.seq.tolist())
        violations += zip(*columns, strict=True)
        phantoms |= set(zip(part.phantom_source.tolist(), part.phantom_seq.tolist(), strict=True))
    return Outcome(
        base=pasts.table.base,
        position=pasts.position,
        correct=pasts.facts.correct,
        departed=pasts.departed,
        cyclic=pasts.cyclic,
        tallies=np.concatenate([np.empty((0, TALLIES), np.int64), *(p.tallies for p in judged)]),
        violating_messages=int(np.bitwise_count(violating).sum()),
        violations=violations[:violations_max],
        phantoms=sorted(phantoms),
    )


class _Pasts(NamedTuple):
    """What the first pass leaves."""

    table: Table
    facts: Facts
    position: NDArray[np.int64]
    departed: NDArray[np.uint8]
    cyclic: NDArray[np.int64]


def _pasts(rows: Rows, spans: Sequence[Span], runner: Runner) -> _Pasts:
    heard, places = _heard(rows, spans, runner)

    def make() -> Table:
        pruned = runner.prune(heard, places, floors_by_place(places, heard))
        table, is_verified = make_table(places, pruned)
        return table if is_verified else table._replace(counts=resolved_counts(table))

    table = runner.table(make)
    cyclic = np.empty(0, np.int64)
    if np.any(table.counts != np.diff(places.base)):
        cyclic = cyclic_messages(heard, places, table.counts)
    return _Pasts(
        table=table,
        facts=Facts(
            counts=np.diff(places.base).astype(np.int32),
            own=_joined([part.own for part in heard], np.uint8),
            correct=1 - _joined([part.crashed for part in heard], np.uint8),
        ),
        position=_joined([part.position for part in heard], np.int64),
        departed=_joined([part.departed for part in heard], np.uint8),
        cyclic=cyclic,
    )


def _heard(rows: Rows, spans: Sequence[Span], runner: Runner) -> tuple[list[Heard], Places]:
    """Phase A, again where phantoms were met, and the places of all messages."""
    order = runner.order(rows)
    heard = list(runner.hear(rows, spans, order, rows.counts))
    counts = _joined([part.counts for part in heard], np.int64)
    if int(counts.sum()) > MESSAGES_MAX:
        raise UserError(f"{rows.origin}: too many messages for one audit; split it into runs")
    spoilt = [i for i, part in enumerate(heard) if np.any(part.top > counts)]
    if np.any(order.seq > counts[order.source]):
        order = without_phantoms(order, counts)
        spoilt = list(range(len(heard)))
    if spoilt:
        again = runner.hear(rows, [spans[i] for i in spoilt], order, counts)
        for i, part in zip(spoilt, again, strict=True):
            heard[i] = part
    return heard, number_places(order, counts)


def _joined(arrays: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.empty(0, dtype), *arrays])
