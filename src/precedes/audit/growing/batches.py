"""Audits rows in numbered batches, as a stream passes them, each perhaps more than once.

The state is bytes, which a caller stores together with what it reports of a batch: a batch that was
interrupted before that is judged again, and one that comes again after it is skipped. Rows need not
come in order. A node's positions count its rows from ``first`` on: a row is judged when all before
it have come. If they have gaps, each batch must bring a node's rows behind those of the batches
before. A stream holds one run.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any, Final, NamedTuple

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
from precedes.audit.growing.kernel import SMALL
from precedes.audit.report import WITNESSES
from precedes.audit.witness import Witness
from precedes.errors import UserError
from precedes.trace import arrays
from precedes.trace.arrays import to_numpy
from precedes.trace.dialect import ONE_RUN, RECEIVERS, refuse_receivers
from precedes.trace.sort.pack import pack
from precedes.trace.tail import NO_ROWS, Naming

COLUMNS: Final = ("node", "local_seq", "kind", "message")
SCHEMA: Final = pa.schema(
    [(name, pa.int64() if name == "local_seq" else pa.string()) for name in COLUMNS]
)
EARLY_ROWS_MAX: Final = 1_000_000
LATE_BYTES: Final = 8 << 20
RING_MAX: Final = 1 << 12
ZLIB_LEVEL: Final = 1  # start sizes are mostly zeros


class Finding(NamedTuple):
    """A finding: a violation, a lost, phantom or duplicate delivery, or a cycle."""

    kind: str
    sentence: str
    node: str | None = None
    message: str | None = None
    earlier: str | None = None


class BatchAuditor:
    """The audit of one stream, resumed from ``content`` if that is passed.

    More than ``early_rows_max`` rows that wait for an earlier one of their node are a UserError, as
    are more than ``bytes_max`` bytes of rows, names and state, and a node that appears, or
    delivers, after what it needs was dropped: a stream cannot be read again. Nothing is dropped
    before the state has ``open_bytes``. After an error, go on from the last content.
    """

    def __init__(
        self,
        content: bytes | None = None,
        *,
        title: str = "the stream",
        first: int = 0,
        gaps: bool = False,
        witnesses: int = WITNESSES,
        bytes_max: int = BYTES_MAX,
        open_bytes: int = LATE_BYTES,
        early_rows_max: int = EARLY_ROWS_MAX,
    ) -> None:
        self._title = title
        self._first, self._gaps = first, gaps
        self._options = {"first": first, "gaps": gaps}
        self._witnesses, self._bytes_max = witnesses, bytes_max
        self._early_rows_max = early_rows_max
        self.batch = -1  # the last that was judged
        self.findings: list[Finding] = []  # of the last batch, or of the end
        self._naming = Naming()
        self._next: dict[str, int] = {}  # node: the position that it needs next
        self._held = SCHEMA.empty_table()
        self._explained: list[Witness] = []
        self._auditor = Auditor(
            room=SMALL,
            ring_max=RING_MAX,
            open_bytes=open_bytes,
            bytes_max=bytes_max,
            origin=title,
            node_label=lambda node: self._naming.names[node],
            message_label=self._naming.message_label,
        )
        if content is not None:
            self._restore(content)
        self._is_whole = True

    def _restore(self, content: bytes) -> None:
        """Restore the result of ``content``."""
        try:
            columns, about = arrays.parse(bytearray(zlib.decompress(content)))
        except (arrays.Damaged, ValueError, zlib.error):
            raise UserError(f"the state of {self._title} is damaged: start over") from None
        if about["title"] != self._title:
            raise UserError(f"this is the state of {about['title']}, not of {self._title}")
        if about["options"] != self._options:
            raise UserError(
                f"the state of {self._title} was written with other options, {about['options']}: "
                "repeat them, or start over"
            )
        self.batch, self._next = about["batch"], about["next"]
        self._naming.unpack(about["naming"])
        self._held = pa.table(about["held"], SCHEMA)
        self._explained = [Witness(**{**kept, "steps": ()}) for kept in about["explained"]]
        self._auditor.unpack(columns, about["auditor"])
        self._auditor.feed(NO_ROWS, nodes=self._auditor.nodes, labels=self._naming.labels)

    def content(self) -> bytes:
        """The state after the last batch, to resume from."""
        columns, about = self._auditor.pack()
        mine = {
            "title": self._title,
            "options": self._options,
            "batch": self.batch,
            "next": self._next,
            "naming": self._naming.pack(),
            "held": self._held.to_pydict(),
            "explained": [{**vars(witness), "steps": []} for witness in self._explained],
            "auditor": about,
        }
        return zlib.compress(arrays.dump(columns, mine), ZLIB_LEVEL)

    def take(self, batch: int, events: pa.Table) -> Standing | None:
        """Judge a batch; None if it was judged before. ``findings`` has what is wrong in it.

        ``events`` has the columns ``COLUMNS``, and may have ``run_id`` and ``to``; a broadcast that
        names receivers is a UserError.
        """
        if not self._is_whole:
            raise UserError(f"{self._title}: an earlier batch failed; go on from the last content")
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
        self._check_size()
        duplicates, cycles = self._auditor.duplicates(), self._auditor.cycles
        try:
            violations = self._auditor.feed(
                rows, nodes=len(self._naming.names), labels=self._naming.labels
            )
        except Forgotten as error:
            raise UserError(f"{error}; a stream cannot be read again: audit the whole") from None
        self._note(violations, duplicates, cycles)
        room = max(self._witnesses - len(self._explained), 0)
        self._explained += [self._witness(one) for one in violations[:room]]
        self.batch = batch
        self._is_whole = True
        return self.standing()

    def standing(self) -> Standing:
        """State of the stream; violations are reported without the path that proves them."""
        standing = self._auditor.standing()
        run_id = self._naming.run_id
        report = replace(standing.report, run_id=run_id, witnesses=tuple(self._explained))
        rows = standing.rows_read + self._held.num_rows
        return replace(standing, report=report, rows_read=rows)

    def end(self, *, complete: bool = False) -> Standing:
        """Judge the stream as one that has ended here.

        ``findings`` has at most ``witnesses`` lost deliveries, and as many of phantom messages.
        """
        if self._held.num_rows:
            node = self._held.column("node")[0].as_py()
            raise UserError(
                f"{self._title}: node {node} lacks its row {self._next.get(node, self._first)}"
            )
        names, label = self._naming.names, self._naming.message_label
        duplicates, cycles = self._auditor.duplicates(), self._auditor.cycles
        phantoms = self._auditor.phantoms()[: self._witnesses]
        self._note(self._auditor.end(complete=complete), duplicates, cycles)
        self.findings += [
            Finding(
                "phantom",
                f"node {names[node]} names {label(message)}, which nobody broadcast.",
                names[node],
                label(message),
            )
            for node, message in phantoms
        ]
        self.findings += [
            Finding(
                "lost",
                f"node {names[node]} never delivered {label(message)}, though the run is complete.",
                names[node],
                label(message),
            )
            for node, message in (self._auditor.lost(self._witnesses) if complete else ())
        ]
        self._is_whole = False
        return self.standing()

    def _note(self, violations: list[Violation], duplicates: list[int], cycles: int) -> None:
        """Findings in addition to the given numbers of duplicates and cycles."""
        self.findings = []
        for violation in violations:
            witness = self._witness(violation)
            names = (witness.node_name, witness.message_name, witness.earlier_name)
            self.findings.append(Finding("violation", witness.sentence, *names))
        counts = self._auditor.duplicates()
        for node, count in enumerate(counts):
            before = duplicates[node] if node < len(duplicates) else 0
            if more := count - before:
                name = self._naming.names[node]
                sentence = f"node {name} repeated {more} deliver{'y' if more == 1 else 'ies'}."
                self.findings.append(Finding("duplicate", sentence, name))
        if more := self._auditor.cycles - cycles:
            text = "message is in its" if more == 1 else "messages are in their"
            self.findings.append(Finding("cycle", f"{more} more {text} own past."))

    def _check_size(self) -> None:
        size = self._naming.size_bytes() + self._held.nbytes + self._auditor.size_bytes()
        if size > self._bytes_max:
            raise UserError(
                f"{self._title} needs more than {self._bytes_max >> 20} MB, much of it for names "
                "of messages: audit it when it has ended"
            )

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
        if self._held.num_rows > self._early_rows_max:
            node = self._held.column("node")[0].as_py()
            raise UserError(
                f"{self._title}: {self._held.num_rows:,} rows wait, such as those of node {node} "
                f"for its row {self._next.get(node, self._first)}"
            )
        return table.filter(pa.array(ready)).combine_chunks()

    def _count_ready(self, node: str, position: NDArray[np.int64]) -> int:
        """Number of a node's rows, which ascend, that come next."""
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
        name = self._naming.names[violation.node]
        label, lacked = map(self._naming.message_label, (violation.message, violation.lacked))
        return unproven(violation, node_name=name, message_name=label, lacked=lacked)


def _column(table: pa.Table, name: str) -> Any:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
