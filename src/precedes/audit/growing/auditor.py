"""``Auditor``: audits the rows of a growing log and reports the state of the audit at any time.

Findings are final: later rows can add violations, duplicates and cycles, but never remove one.
Phantom and lost messages are known only at the end of the log.

A node's rows are judged up to its first delivery of a message whose broadcast, or that of a message
in its past, was not read. The node waits there, and ``Standing.waiting`` names it. Its further rows
are kept, 13 bytes each. The state is bounded by ``bytes_max``: beyond it, a UserError names the
node that holds it back.
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
# While unknown nodes may appear, nothing is dropped before this much is kept.
OPEN_BYTES: Final = 32 << 20
FINDINGS: Final = 1 << 12  # violations of one call of the kernel
NO_LABELS: Final[NDArray[np.int64]] = np.empty(0, np.int64)


class Forgotten(PrecedesError):
    """Required state was evicted; rescan with a larger window."""


class Violation(NamedTuple):
    """A delivery out of order: node, row from 0, message, and the message that was missing."""

    node: int
    position: int
    message: int
    lacked: int


def unproven(violation: Violation, *, node_name: str, message_name: str, lacked: str) -> Witness:
    """The witness of a violation without the path that proves it; names are for people."""
    return Witness(
        kind="violation",
        sentence=f"node {node_name} delivered {message_name} before {lacked}, which precedes it.",
        node=violation.node,
        node_name=node_name,
        message=violation.message,
        message_name=message_name,
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
    """State of a log: the report on the audited rows, and what is not audited yet.

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

    ``nodes`` are known from the beginning if ``is_closed``; else more may appear, and nothing is
    dropped before ``open_bytes`` are kept. With ``has_states``, one that appears after that begins
    with a state, and needs what was dropped only if it delivers that. ``room`` has the start sizes;
    rings grow up to ``ring_max`` places. ``findings`` bounds a call of the kernel. ``patient`` is
    for the second reading after ``Forgotten``.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        is_closed: bool = False,
        has_states: bool = False,
        patient: bool = False,
        room: kernel.Room | None = None,
        ring_max: int = 0,
        open_bytes: int = OPEN_BYTES,
        findings: int = FINDINGS,
        bytes_max: int = BYTES_MAX,
        origin: str = "",
        run_id: int | str = 0,
        node_label: Callable[[int], str] = str,
        message_label: Callable[[int], str] = label_of,
    ) -> None:
        self.nodes = nodes
        self._node_label, self._message_label = node_label, message_label
        self.is_closed, self.has_states = is_closed, has_states
        self.origin = origin
        self.run_id = run_id
        self.bytes_max = bytes_max
        self.rows_read = 0
        self._ring_max, self._open_bytes, self._findings = ring_max, open_bytes, findings
        self._state = kernel.make(nodes, room or kernel.room_of_log(nodes), patient=patient)
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
        """Judge these rows, and those that waited, as far as possible; return the violations.

        ``labels`` has the message of each label, or -1; ``nodes`` is how many there are now.
        """
        self._admit(self.nodes if nodes is None else nodes)
        self.rows_read += rows.node.size
        sent = rows.node[rows.kind == kernel.BROADCAST]
        self._read += np.bincount(sent, minlength=self.nodes)
        self._labels = labels
        violations = self._take(rows, kernel.WAIT)
        self._count_cycles()
        self._check_size()
        return violations

    def end(self, *, complete: bool, crashed: Iterable[int] = ()) -> list[Violation]:
        """Judge the remaining rows at the end of the log; ``crashed`` are nodes that have crashed.

        With ``complete``, undelivered messages are lost.
        """
        self._state.crashed[list(crashed)] = 1
        self._phantoms = len({message for _, message in self.phantoms()})
        violations = self._take(NO_ROWS, kernel.SKIP_PHANTOMS)
        if self._left.node.size:
            self._count_cycles(at_end=True)
            message = self._messages_left()
            first = (self._left.kind == kernel.DELIVER) & self._is_read(message)
            first &= ~self._is_taken(message)
            pairs = np.stack((self._left.node[first], message[first]))
            self._unjudged = np.unique(pairs, axis=1).shape[1]
            violations += self._take(NO_ROWS, kernel.SKIP_ALL)
        self._waiting = ()
        self._complete = complete
        return violations

    def gone(self, node: int) -> None:
        """Note that a node has no more rows: no state has to be kept for it."""
        self._state.gone[node] = 1

    def with_left(self, rows: int) -> list[int]:
        """The nodes with at least this number of waiting rows."""
        counts = np.bincount(self._left.node, minlength=self.nodes)
        return [int(node) for node in np.flatnonzero(counts >= rows)]

    def standing(self) -> Standing:
        """The report so far, or at the end, without witnesses."""
        counts = self._state.counts.sum(axis=0)
        undelivered = int(self._absent().sum())
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
            fifo_violations=int(counts[kernel.FIFO]),
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
            rows_judged=int(counts[kernel.PROCESSED]),
            waiting=tuple(
                Wait(self._node_label(node), position, self._message_label(message))
                for node, position, message in self._waiting
            ),
            state_bytes=self.size_bytes(),
            is_final=self._complete is not None,
        )

    @property
    def cycles(self) -> int:
        """The number of messages in their own past so far."""
        return self._cycles

    def duplicates(self) -> list[int]:
        """The number of duplicate deliveries of each node so far."""
        counts: list[int] = self._state.counts[:, kernel.DUPLICATES].tolist()
        return counts

    def phantoms(self) -> list[tuple[int, int]]:
        """Nodes and the messages they delivered, or joined with, whose broadcast was not read."""
        named = (self._left.kind != kernel.BROADCAST) & (self._left.message != kernel.NOBODYS)
        rows = self._left.at(named & ~self._is_read(self._messages_left()))
        return list(zip(rows.node.tolist(), rows.message.tolist(), strict=True))

    def lost(self, limit: int) -> list[tuple[int, int]]:
        """The first nodes and messages that count as lost, at the end of a complete log."""
        pairs: list[tuple[int, int]] = []
        state, sent = self._state, self._sent()
        for node, source in np.argwhere(self._absent()).tolist():
            if len(pairs) == limit:
                break
            of_pair = np.flatnonzero(state.gap_pair == node * self.nodes + source)
            gaps = sorted((int(state.gap_first[g]), int(state.gap_last[g])) for g in of_pair)
            gaps.append((int(state.top[node, source]) + 1, int(sent[source])))
            joined = int(state.own_joined[node]) if node == source else 0
            for first, last in gaps:
                stop = min(last + 1, max(first, joined + 1) + limit - len(pairs))
                pairs += [
                    (node, (source << SHIFT) | sequence)
                    for sequence in range(max(first, joined + 1), stop)
                ]
        return pairs

    def size_bytes(self) -> int:
        """Size of the retained state in bytes, without names."""
        return kernel.size_bytes(self._state) + sum(column.nbytes for column in self._left)

    def _sent(self) -> NDArray[np.int64]:
        return self._state.taken if self._complete is None else self._read

    def _absent(self) -> NDArray[np.int64]:
        """For each node and source the messages that are due and were not delivered.

        Only correct nodes and sources count. Own messages are due too in a run in which sources
        deliver theirs.
        """
        kept = self._state
        correct = kept.crashed == 0
        absent = kernel.missing(kept, self._sent())
        if not kept.counts[:, kernel.OWN].any():
            np.fill_diagonal(absent, 0)
        absent[~(correct & (kept.departed == 0))] = 0
        absent[:, ~correct] = 0
        return absent

    # Rows -----------------------------------------------------------------------------------

    def _admit(self, nodes: int) -> None:
        if nodes == self.nodes:
            return
        if self._state.registers[kernel.DROPPED] and not self.has_states:
            raise Forgotten(f"{self.origin}: a node appears after messages were dropped")
        self._state = kernel.with_more_nodes(self._state, nodes)
        self._read = np.concatenate((self._read, np.zeros(nodes - self.nodes, np.int64)))
        self.nodes = nodes
        self._check_size()

    def _take(self, rows: Rows, mode: int) -> list[Violation]:
        """Process the rows that waited and these, and keep those that still have to wait."""
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
        # No row adds more than one place.
        needed = (self._state.ring_count + np.diff(offsets)).max(initial=0)
        if (places := min(int(needed), self._ring_max)) > self._state.ring_known.shape[1]:
            self._state = kernel.with_larger_rings(self._state, places)
        queue = self._queue(offsets)
        self._state.registers[kernel.MODE] = mode
        violations = self._run(batch, queue)
        left = np.arange(rows.node.size) >= queue.cursor[rows.node]
        self._left = rows.at(left)
        waiting = np.flatnonzero(queue.is_waiting).tolist()
        positions = self._state.counts[:, kernel.ROWS].tolist()
        self._waiting = tuple(
            _Wait(node, positions[node], int(rows.message[queue.cursor[node]])) for node in waiting
        )
        self._at_join = {node for node in waiting if rows.kind[queue.cursor[node]] == kernel.JOIN}
        return violations

    def _queue(self, offsets: NDArray[np.int64]) -> kernel.Queue:
        nodes = self.nodes
        ready = np.zeros(max(nodes, 1), np.int32)
        able = np.flatnonzero(np.diff(offsets))
        ready[: able.size] = able
        self._state.registers[kernel.FIRST] = 0
        self._state.registers[kernel.READY] = able.size
        self._state.registers[kernel.NEW] = 0
        return kernel.Queue(
            cursor=offsets[:-1].copy(),
            ready=ready,
            waits_for=np.full(nodes, kernel.NOBODYS, np.int64),
            is_waiting=np.zeros(nodes, np.uint8),
            waiter=np.full(nodes, -1, np.int32),
            following=np.full(nodes, -1, np.int32),
            new=np.zeros((self._findings + self._state.ring_known.shape[1], 4), np.int64),
        )

    def _run(self, batch: kernel.Batch, queue: kernel.Queue) -> list[Violation]:
        """Process all rows that can be processed; grow arrays as needed."""
        findings: list[Violation] = []
        while True:
            code = paced(kernel.TAKE)(batch, self._state, queue)
            registers = self._state.registers
            findings += [Violation(*row) for row in queue.new[: registers[kernel.NEW]].tolist()]
            registers[kernel.NEW] = 0
            if code == kernel.DONE:
                return findings
            if code == kernel.FORGOTTEN:
                raise Forgotten(f"{self.origin}: a delivery comes after its message was dropped")
            if code == kernel.NO_ENTRY:
                self.make_room()
            elif code == kernel.NO_GAP:
                self._state = kernel.with_more_gaps(self._state)
                self._check_size()

    def make_room(self) -> None:
        """Drop entries that no node needs, or enlarge the table."""
        lowest = np.zeros(self.nodes, np.int64)
        held = np.zeros(self.nodes, np.int64)
        sweep = paced(kernel.SWEEP)
        entries = self._state.entry_message.size
        if self.is_closed or kernel.size_bytes(self._state) > self._open_bytes:
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
        """The state of the auditor as arrays and plain values; only before the end of the log."""
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
        """Restore the result of ``pack``."""
        self.nodes, self.is_closed = about["nodes"], about["is_closed"]
        self.rows_read, self._cycles = about["rows_read"], about["cycles"]
        self._in_cycles = frozenset(about["in_circles"])
        self._state = kernel.State(**{name: arrays[name] for name in kernel.State._fields})
        self._read = arrays["read"]
        self._left = Rows(*(arrays[f"left_{name}"] for name in Rows._fields))

    # Cycles ---------------------------------------------------------------------------------

    def _messages_left(self) -> NDArray[np.int64]:
        """The messages of waiting rows, -1 where no node has broadcast them."""
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
        nodes = _waiting_in_cycles(waits_for, self._read)
        if at_end or not nodes <= self._in_cycles:
            self._in_cycles |= nodes
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
    nodes: set[int] = set()
    for start in follows:
        node = start
        while node in follows and node not in seen:
            seen[node] = start
            node = follows[node]
        if node in follows and seen[node] == start:
            while node not in nodes:
                nodes.add(node)
                node = follows[node]
    return frozenset(nodes)
