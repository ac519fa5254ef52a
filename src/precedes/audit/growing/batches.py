"""Audits rows that come in numbered batches, each perhaps more than once: as a stream hands them.

A batch is judged and noted as judged in one write: what was interrupted before it is done again,
and a batch that comes again after it is passed over. Rows need not come in order. A node's
positions count its rows from ``first`` on: a row is judged when all before it have come. If they
have gaps, each batch must bring a node's rows behind those of the batches before. A stream holds
one run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.audit.growing.auditor import (
    BYTES_MAX,
    Auditor,
    Forgotten,
    Standing,
    Violation,
    unproven,
)
from precedes.audit.report import WITNESSES
from precedes.audit.witness import Witness
from precedes.errors import UserError
from precedes.stores import Place
from precedes.trace import arrays
from precedes.trace.arrays import to_numpy
from precedes.trace.dialect import ONE_RUN, RECEIVERS, refuse_receivers
from precedes.trace.sort.pack import pack
from precedes.trace.tail import NO_ROWS, Naming

COLUMNS: Final = ("node", "local_seq", "kind", "message")
SCHEMA: Final = pa.schema(
    [(name, pa.int64() if name == "local_seq" else pa.string()) for name in COLUMNS]
)
HELD_ROWS_MAX: Final = 1_000_000


class BatchAuditor:
    """The audit of one stream; its state is at ``place``, whole or as before the batch.

    More than ``HELD_ROWS_MAX`` rows that wait for an earlier one of their node are a UserError, and
    so is a node that appears, or delivers, after what it needs was dropped: a stream cannot be read
    again.
    """

    def __init__(
        self,
        place: Place,
        *,
        title: str = "",
        first: int = 0,
        gaps: bool = False,
        witnesses: int = WITNESSES,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._place, self._title = place, title
        self._first, self._gaps = first, gaps
        self._options = {"first": first, "gaps": gaps}
        self._witnesses, self._bytes_max = witnesses, bytes_max
        self._restore()

    def _restore(self) -> None:
        """Be what was written last."""
        self.batch = -1  # the last that was judged
        self._naming = Naming()
        self._next: dict[str, int] = {}  # node: the position that it needs next
        self._held = SCHEMA.empty_table()
        self._explained: list[Witness] = []
        self._auditor = Auditor(
            bytes_max=self._bytes_max,
            origin=self._title,
            node_label=lambda node: self._naming.names[node],
            message_label=self._naming.message_label,
        )
        if (found := arrays.get(self._place)) is not None:
            columns, about = found
            if about["title"] != self._title:
                raise UserError(f"{self._place} is of another stream, {about['title']}")
            if about.get("options") != self._options:
                raise UserError(
                    f"{self._place} was written with other options, {about.get('options')}: repeat "
                    "them, or name another directory"
                )
            self.batch, self._next = about["batch"], about["next"]
            self._naming.unpack(about["naming"])
            self._held = pa.table(about["held"], SCHEMA)
            self._explained = [Witness(**{**kept, "steps": ()}) for kept in about["told"]]
            self._auditor.unpack(columns, about["auditor"])
            self._auditor.feed(NO_ROWS, nodes=self._auditor.nodes, labels=self._naming.labels)
        self._is_whole = True

    def take(self, batch: int, events: pa.Table) -> Standing | None:
        """Judge a batch; None if it was judged before.

        ``events`` has the columns ``COLUMNS``, and may have ``run_id`` and ``to``; a broadcast that
        says to whom it goes is a UserError.
        """
        if not self._is_whole:  # an attempt has failed half-way
            self._restore()
        if batch <= self.batch:
            return None
        self._is_whole = False
        self._check_runs(events)
        ready = self._in_order(events)
        try:
            packed = pack(ready)
        except UserError as error:
            raise UserError(f"{self._title}: {error}") from None
        rows = NO_ROWS if packed is None else self._naming.rows(packed, self._where)
        try:
            violations = self._auditor.feed(
                rows, nodes=len(self._naming.names), labels=self._naming.labels
            )
        except Forgotten as error:
            raise UserError(f"{error}; a stream cannot be read again: audit the whole") from None
        room = max(self._witnesses - len(self._explained), 0)
        self._explained += [self._witness(one) for one in violations[:room]]
        self.batch = batch
        return self.standing()

    def keep(self) -> None:
        """Write the state, with the number of the batch."""
        columns, about = self._auditor.pack()
        explained = [{**vars(witness), "steps": []} for witness in self._explained]
        mine = {
            "title": self._title,
            "options": self._options,
            "batch": self.batch,
            "next": self._next,
            "naming": self._naming.pack(),
            "held": self._held.to_pydict(),
            "told": explained,
            "auditor": about,
        }
        arrays.put(self._place, columns, mine)
        self._is_whole = True

    def standing(self) -> Standing:
        """How the stream stands; violations are told without the path that proves them."""
        standing = self._auditor.standing()
        run_id = self._naming.run_id
        report = replace(standing.report, run_id=run_id, witnesses=tuple(self._explained))
        rows = standing.rows_read + self._held.num_rows
        return replace(standing, report=report, rows_read=rows)

    def end(self, *, complete: bool = False) -> Standing:
        """Judge the stream as one that has ended here; nothing is written."""
        if self._held.num_rows:
            node = self._held.column("node")[0].as_py()
            raise UserError(
                f"{self._title}: node {node} lacks its row {self._next.get(node, self._first)}"
            )
        self._auditor.end(complete=complete)
        self._is_whole = False
        return self.standing()

    def _in_order(self, events: pa.Table) -> pa.Table:
        """The rows that can be judged, each node's in its order; the others are held."""
        missing = [name for name in COLUMNS if name not in events.column_names]
        if missing:
            raise UserError(f"{self._title} has no column {missing[0]!r}")
        if RECEIVERS in events.column_names:
            receivers = events.column(RECEIVERS).filter(
                pc.equal(events.column("kind"), "broadcast")
            )
            if receivers.null_count < len(receivers):
                refuse_receivers([RECEIVERS], title=self._title)
        events = events.select(list(COLUMNS)).cast(SCHEMA)
        for name in ("node", "local_seq"):
            if events.column(name).null_count:
                raise UserError(f"{self._title} has a row without {name}")
        table = pa.concat_tables([self._held, events])
        table = table.sort_by([("node", "ascending"), ("local_seq", "ascending")]).combine_chunks()
        position = to_numpy(_column(table, "local_seq"))
        names = _column(table, "node").dictionary_encode()
        code = to_numpy(names.indices)
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        ready = np.zeros(position.size, np.bool_)
        for first, last in zip(starts, [*starts[1:], position.size], strict=True):
            node = names.dictionary[code[first]].as_py()
            count = self._count_ready(node, position[first:last])
            ready[first : first + count] = True
        self._held = table.filter(pa.array(~ready))
        if self._held.num_rows > HELD_ROWS_MAX:
            node = self._held.column("node")[0].as_py()
            raise UserError(
                f"{self._title}: {self._held.num_rows:,} rows wait, such as those of node {node} "
                f"for its row {self._next.get(node, self._first)}"
            )
        return table.filter(pa.array(ready)).combine_chunks()

    def _count_ready(self, node: str, position: NDArray[np.int64]) -> int:
        """How many of a node's rows, which rise, come next."""
        needed = self._next.get(node, self._first)
        twice = np.flatnonzero(np.diff(position) == 0)
        if twice.size or position[0] < needed:
            at = int(position[twice[0]] if twice.size else position[0])
            raise UserError(
                f"{self._title}: row {at} of node {node} comes twice, or after later ones: a "
                "node's positions must have no gaps, or its rows must share a partition"
            )
        if self._gaps:
            self._next[node] = int(position[-1]) + 1
            return position.size
        run = position == needed + np.arange(position.size)
        count = position.size if run.all() else int(np.argmin(run))
        self._next[node] = needed + count
        return count

    def _check_runs(self, events: pa.Table) -> None:
        runs = pa.array([ONE_RUN] * bool(events.num_rows))
        if "run_id" in events.column_names:
            runs = events.column("run_id").unique().cast(pa.string()).fill_null(ONE_RUN)
        self._naming.take_runs(runs.to_pylist(), self._title)

    def _where(self, node: str, place: int) -> str:
        return f"{self._title}: row {place} of node {node}"

    def _witness(self, violation: Violation) -> Witness:
        who = self._naming.names[violation.node]
        what, lacked = map(self._naming.message_label, (violation.message, violation.lacked))
        return unproven(violation, who=who, what=what, lacked=lacked)


def _column(table: pa.Table, name: str) -> Any:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
