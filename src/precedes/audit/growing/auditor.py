"""``Auditor``: takes the rows of a log as it grows, and reports at any time how it stands.

Findings stay: rows to come can add violations, duplicates and cycles, and remove none. Which
messages nobody broadcast, and which are lost, is known at the end alone.

A node's rows are judged up to its first delivery of a message whose broadcast, or something in
whose past, was not read: the node waits there, and ``Standing.waiting`` names it. Rows behind it
are kept, 13 bytes each. All that is kept is bounded by ``bytes_max``: beyond it, a UserError says
which node holds it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.audit.growing import kernel
from precedes.audit.growing.kernel import MASK, SHIFT
from precedes.audit.report import HELD, UNKNOWN, VIOLATED, Report
from precedes.audit.stages import Runner, carry_out, cut_evenly
from precedes.audit.witness import Witness
from precedes.compiled.tiers import paced
from precedes.errors import PrecedesError, UserError
from precedes.trace.rows import numbered_history
from precedes.trace.tail import NO_ROWS, Rows, label_of

BYTES_MAX: Final = 256 << 20
# As long as nodes may appear that nobody knows of, this much is kept before anything is dropped.
OPEN_BYTES: Final = 32 << 20
FINDINGS: Final = 1 << 12
NO_LABELS: Final[NDArray[np.int64]] = np.empty(0, np.int64)


class Forgotten(PrecedesError):
    """A row needs what was dropped: read the log again from its beginning, with more patience."""


class Violation(NamedTuple):
    """A delivery out of order: who, in which row from 0, what, and what it lacked then."""

    node: int
    position: int
    message: int
    lacked: int


def unproven(violation: Violation, *, who: str, what: str, lacked: str) -> Witness:
    """The witness of a violation without the path that proves it; names are for people."""
    return Witness(
        kind="violation",
        sentence=f"node {who} delivered {what} before {lacked}, which precedes it.",
        node=violation.node,
        node_name=who,
        message=violation.message,
        message_name=what,
        earlier=violation.lacked,
        earlier_name=lacked,
    )


class Wait(NamedTuple):
    """A node's next broadcast or delivery, counted from 0, and the message that it waits for."""

    node: str
    position: int
    message: str

    def __str__(self) -> str:
        return f"node {self.node}, row {self.position}, waits for {self.message}"


class _Wait(NamedTuple):
    """The same in numbers, the message as ``Rows`` has it."""

    node: int
    position: int
    message: int


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a log stands: the report on the rows that are judged, and what is not.

    In a report that is not final, nothing is lost or phantom yet, and *held* means: so far.
    """

    report: Report
    rows_read: int
    rows_judged: int
    waiting: tuple[Wait, ...]
    state_bytes: int
    is_final: bool


class Auditor:
    """The audit of one growing log.

    ``nodes`` are known from the beginning if ``is_closed``; else more may appear. ``patient`` and
    ``ring`` are for the second reading after ``Forgotten``.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        is_closed: bool = False,
        patient: bool = False,
        ring: int | None = None,
        bytes_max: int = BYTES_MAX,
        origin: str = "",
        run_id: int | str = 0,
        node_label: Callable[[int], str] = str,
        message_label: Callable[[int], str] = label_of,
    ) -> None:
        self.nodes = nodes
        self._node_label, self._message_label = node_label, message_label
        self.is_closed = is_closed
        self.origin = origin
        self.run_id = run_id
        self.bytes_max = bytes_max
        self.rows_read = 0
        self._state = kernel.make(nodes, patient=patient, ring=ring)
        self._left = NO_ROWS
        self._labels = NO_LABELS
        self._read = np.zeros(nodes, np.int64)
        self._waiting: tuple[_Wait, ...] = ()
        self._at_join: set[int] = set()  # of those that wait
        self._in_cycles: frozenset[int] = frozenset()
        self._cycles = self._unjudged = self._phantoms = 0
        self._complete: bool | None = None  # None: the log goes on
        self._check_size()

    def feed(
        self, rows: Rows, *, nodes: int | None = None, labels: NDArray[np.int64] = NO_LABELS
    ) -> list[Violation]:
        """Take these rows, and those that waited, as far as possible; the violations found.

        ``labels`` has the message of each label, or -1; ``nodes`` is how many there are now.
        """
        self._admit(self.nodes if nodes is None else nodes)
        self.rows_read += rows.node.size
        sent = rows.node[rows.kind == kernel.BROADCAST]
        self._read += np.bincount(sent, minlength=self.nodes)
        self._labels = labels
        found = self._take(rows, kernel.WAIT)
        self._count_cycles()
        self._check_size()
        return found

    def end(self, *, complete: bool, crashed: Iterable[int] = ()) -> list[Violation]:
        """Judge what is left: the log has ended. ``complete``: what was not delivered is lost."""
        self._state.crashed[list(crashed)] = 1
        unread = ~self._is_read(self._messages_left()) & (self._left.kind != kernel.BROADCAST)
        named = unread & (self._left.message != kernel.NOBODYS)
        self._phantoms = np.unique(self._left.message[named]).size
        found = self._take(NO_ROWS, kernel.SKIP_PHANTOMS)
        if self._left.node.size:
            self._count_cycles(at_end=True)
            message = self._messages_left()
            first = (self._left.kind == kernel.DELIVER) & self._is_read(message)
            first &= ~self._is_taken(message)
            pairs = np.stack((self._left.node[first], message[first]))
            self._unjudged = np.unique(pairs, axis=1).shape[1]
            found += self._take(NO_ROWS, kernel.SKIP_ALL)
        self._waiting = ()
        self._complete = complete
        return found

    def gone(self, node: int) -> None:
        """No more rows will come of this node: nothing has to be kept for it."""
        self._state.gone[node] = 1

    def with_left(self, rows: int) -> list[int]:
        """The nodes of which so many rows, or more, wait."""
        counts = np.bincount(self._left.node, minlength=self.nodes)
        return [int(node) for node in np.flatnonzero(counts >= rows)]

    def standing(self) -> Standing:
        """The report so far, or at the end, without witnesses."""
        counts = self._state.counts.sum(axis=0)
        undelivered = self._undelivered()
        lost = undelivered if self._complete else 0
        duplicates, phantom = int(counts[kernel.DUPLICATES]), int(counts[kernel.PHANTOM])
        violations, deliveries = int(counts[kernel.VIOLATIONS]), int(counts[kernel.DELIVERIES])
        wrong = violations + duplicates + phantom + lost + self._cycles
        unknown = self._unjudged or not deliveries
        report = Report(
            origin=self.origin,
            run_id=self.run_id,
            nodes=self.nodes,
            messages=int(self._sent().sum()) + self._phantoms,
            verdict=VIOLATED if wrong else UNKNOWN if unknown else HELD,
            deliveries=deliveries,
            violations=violations,
            violating_messages=int(self._state.registers[kernel.VIOLATING]),
            lost=lost,
            duplicates=duplicates,
            phantom=phantom,
            cycles=self._cycles,
            unjudged=self._unjudged,
            undelivered_at_end=undelivered - lost,
            witnesses=(),
        )
        return Standing(
            report=report,
            rows_read=self.rows_read,
            rows_judged=int(counts[kernel.TAKEN]),
            waiting=tuple(
                Wait(self._node_label(node), position, self._message_label(message))
                for node, position, message in self._waiting
            ),
            state_bytes=self.size_bytes(),
            is_final=self._complete is not None,
        )

    def size_bytes(self) -> int:
        """What is kept, without names."""
        return kernel.size_bytes(self._state) + sum(column.nbytes for column in self._left)

    def _sent(self) -> NDArray[np.int64]:
        return self._state.taken if self._complete is None else self._read

    def _undelivered(self) -> int:
        """How many messages of correct sources correct nodes have not delivered.

        Own ones are due too in a run in which sources deliver theirs.
        """
        kept = self._state
        correct = kept.crashed == 0
        absent = kernel.missing(kept, self._sent())
        if not kept.counts[:, kernel.OWN].any():
            np.fill_diagonal(absent, 0)
        return int(absent[correct & (kept.departed == 0)][:, correct].sum())

    # Rows -----------------------------------------------------------------------------------

    def _admit(self, nodes: int) -> None:
        if nodes == self.nodes:
            return
        if self._state.registers[kernel.DROPPED]:
            raise Forgotten(f"{self.origin}: a node appears after messages were dropped")
        self._state = kernel.with_more_nodes(self._state, nodes)
        self._read = np.concatenate((self._read, np.zeros(nodes - self.nodes, np.int64)))
        self.nodes = nodes
        self._check_size()

    def _take(self, rows: Rows, mode: int) -> list[Violation]:
        """Take the rows that waited and these, and keep those that still have to wait."""
        rows = self._left.then(rows)
        # Nodes fit 16 bits, for which NumPy's stable sort is a radix sort.
        rows = rows.at(np.argsort(rows.node.astype(np.uint16), kind="stable"))
        offsets = np.searchsorted(rows.node, np.arange(self.nodes + 1))
        batch = kernel.Batch(
            offsets=offsets,
            kind=rows.kind,
            message=rows.message,
            label_message=self._labels,
            read=self._read,
        )
        queue = self._queue(offsets)
        self._state.registers[kernel.MODE] = mode
        found = self._run(batch, queue)
        left = np.arange(rows.node.size) >= queue.cursor[rows.node]
        self._left = rows.at(left)
        waiting = np.flatnonzero(queue.is_waiting).tolist()
        positions = self._state.counts[:, kernel.ROWS].tolist()
        self._waiting = tuple(
            _Wait(node, positions[node], int(rows.message[queue.cursor[node]])) for node in waiting
        )
        self._at_join = {node for node in waiting if rows.kind[queue.cursor[node]] == kernel.JOIN}
        return found

    def _queue(self, offsets: NDArray[np.int64]) -> kernel.Queue:
        nodes = self.nodes
        ready = np.zeros(max(nodes, 1), np.int32)
        able = np.flatnonzero(np.diff(offsets))
        ready[: able.size] = able
        self._state.registers[kernel.FIRST] = 0
        self._state.registers[kernel.READY] = able.size
        self._state.registers[kernel.FOUND] = 0
        return kernel.Queue(
            cursor=offsets[:-1].copy(),
            ready=ready,
            waits_for=np.full(nodes, kernel.NOBODYS, np.int64),
            is_waiting=np.zeros(nodes, np.uint8),
            waiter=np.full(nodes, -1, np.int32),
            following=np.full(nodes, -1, np.int32),
            found=np.zeros((FINDINGS + self._state.ring_known.shape[1], 4), np.int64),
        )

    def _run(self, batch: kernel.Batch, queue: kernel.Queue) -> list[Violation]:
        """Take all rows that can be, making room on the way."""
        found: list[Violation] = []
        while True:
            code = paced(kernel.TAKE)(batch, self._state, queue)
            registers = self._state.registers
            found += [Violation(*row) for row in queue.found[: registers[kernel.FOUND]].tolist()]
            registers[kernel.FOUND] = 0
            if code == kernel.DONE:
                return found
            if code == kernel.FORGOTTEN:
                raise Forgotten(f"{self.origin}: a delivery comes after its message was dropped")
            if code == kernel.NO_ENTRY:
                self.make_room()
            elif code == kernel.NO_GAP:
                self._state = kernel.with_more_gaps(self._state)
                self._check_size()

    def make_room(self) -> None:
        """Drop entries that nobody needs, or have a larger table."""
        lowest = np.zeros(self.nodes, np.int64)
        held = np.zeros(self.nodes, np.int64)
        sweep = paced(kernel.SWEEP)
        entries = self._state.entry_message.size
        if self.is_closed or kernel.size_bytes(self._state) > OPEN_BYTES:
            free = sweep(self._state, lowest, held, 1)
            if 2 * free >= entries:
                return
        self._check_size(more=self._state.clock.nbytes + 50 * entries, held=held)
        self._state = kernel.with_more_entries(self._state)
        sweep(self._state, lowest, np.zeros(self.nodes, np.int64), 0)

    def _check_size(self, *, more: int = 0, held: NDArray[np.int64] | None = None) -> None:
        if self.size_bytes() + more <= self.bytes_max:
            return
        limit = f"{self.origin or 'the log'} needs more than {self.bytes_max >> 20} MB to follow"
        if held is not None and held.any():
            node = self._node_label(int(np.argmax(held)))
            raise UserError(f"{limit}: node {node} holds it back, it lacks what others delivered")
        if self._waiting:
            rows = np.bincount(self._left.node, minlength=self.nodes)
            node = self._node_label(int(np.argmax(rows)))
            raise UserError(f"{limit}: node {node} holds it back, it waits for a broadcast")
        raise UserError(f"{limit}: {self.nodes} nodes are too many; audit it when it has ended")

    # Restarts -------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that an auditor is, as arrays and plain values; before the end of the log."""
        arrays = {**self._state._asdict(), "read": self._read}
        arrays |= {f"left_{name}": column for name, column in self._left._asdict().items()}
        about = {
            "nodes": self.nodes,
            "is_closed": self.is_closed,
            "rows_read": self.rows_read,
            "cycles": self._cycles,
            "in_circles": sorted(self._in_cycles),
        }
        return arrays, about

    def unpack(self, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
        """Go on where another one was packed."""
        self.nodes, self.is_closed = about["nodes"], about["is_closed"]
        self.rows_read, self._cycles = about["rows_read"], about["cycles"]
        self._in_cycles = frozenset(about["in_circles"])
        self._state = kernel.State(**{name: arrays[name] for name in kernel.State._fields})
        self._read = arrays["read"]
        self._left = Rows(*(arrays[f"left_{name}"] for name in Rows._fields))

    # Cycles ---------------------------------------------------------------------------------

    def _messages_left(self) -> NDArray[np.int64]:
        """The messages of rows that wait, -1 where nobody has broadcast them."""
        message = self._left.message.copy()
        labelled = message < kernel.NOBODYS
        message[labelled] = self._labels[-2 - message[labelled]]
        return message

    def _is_read(self, message: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._is_one_of(message, self._read)

    def _is_taken(self, message: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._is_one_of(message, self._state.taken)

    def _is_one_of(
        self, message: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        source, sequence = message >> kernel.SHIFT, message & kernel.MASK
        known = (message >= 0) & (source < self.nodes) & (sequence > 0)
        known[known] = sequence[known] <= counts[source[known]]
        return known

    def _count_cycles(self, *, at_end: bool = False) -> None:
        """Count messages in their own past when nodes are found to wait for each other."""
        if not self._waiting:
            return
        waits_for = {}
        for wait in self._waiting:
            message = wait.message
            if message < kernel.NOBODYS:
                message = int(self._labels[-2 - message])
            if wait.node not in self._at_join:
                waits_for[wait.node] = message
        found = _waiting_in_cycles(waits_for, self._read)
        if at_end or not found <= self._in_cycles:
            self._in_cycles |= found
            self._cycles = self._cycles_left()

    def _cycles_left(self) -> int:
        """Count the messages in their own past: none was judged, so all of them are left."""
        message = self._messages_left()
        kept = self._left.kind == kernel.BROADCAST
        kept |= (self._left.kind == kernel.DELIVER) & np.isin(message, message[kept])
        rows = numbered_history(
            nodes=self.nodes,
            offsets=np.searchsorted(self._left.node[kept], np.arange(self.nodes + 1)),
            kind=self._left.kind[kept],
            source=(message[kept] >> kernel.SHIFT).astype(np.int32),
            seq=(message[kept] & kernel.MASK).astype(np.int32),
            title=self.origin,
            complete=False,
        )
        outcome = carry_out(rows, cut_evenly(rows, 1), runner=Runner(), violations_max=0)
        return int(outcome.cyclic.size)


def _waiting_in_cycles(waits_for: dict[int, int], read: NDArray[np.int64]) -> frozenset[int]:
    """The nodes that wait for each other; each waits for one message, which may be unread."""
    follows = {
        node: message >> SHIFT
        for node, message in waits_for.items()
        if message >= 0
        and message >> SHIFT < read.size
        and message & MASK <= read[message >> SHIFT]
    }
    seen: dict[int, int] = {}
    found: set[int] = set()
    for start in follows:
        node = start
        while node in follows and node not in seen:
            seen[node] = start
            node = follows[node]
        if node in follows and seen[node] == start:
            while node not in found:
                found.add(node)
                node = follows[node]
    return frozenset(found)
