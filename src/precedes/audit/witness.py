"""Witnesses: findings that can be checked by hand, with the rows of the log that contradict."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.trace.rows import BROADCAST, DELIVER, JOIN, Chunk, Rows

NEVER: Final = np.iinfo(np.int64).max

# A sentence names at most this many nodes of a path; the structure always has them all.
CLAUSES_MAX: Final = 5


@dataclass(frozen=True)
class Step:
    """One event of a path of happened-before; ``position`` counts the node's rows from 0.

    A step follows the one before it either at the same node, further down its log, or as the
    delivery of the message that the step before broadcast.
    """

    node: int
    node_name: str
    kind: str
    message: int
    message_name: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Witness:
    """One finding: the sentence for people, and the same as data.

    ``kind`` is violation, lost, duplicate, phantom or cycle. A violation at ``node`` is that
    ``message`` was delivered before ``earlier``, from which ``steps`` lead to ``message``.
    """

    kind: str
    sentence: str
    node: int
    node_name: str
    message: int
    message_name: str
    earlier: int | None = None
    earlier_name: str | None = None
    steps: tuple[Step, ...] = ()


class Known(NamedTuple):
    """Results of the audit about messages; one's number is ``base[source] + seq - 1``."""

    base: NDArray[np.int64]  # source; the last is how many there are
    position: NDArray[np.int64]  # message: of its broadcast, at its source
    correct: NDArray[np.uint8]  # source: it never crashed
    phantoms: list[tuple[int, int]]  # pairs without a broadcast, ascending


class _Stretch(NamedTuple):
    """Rows of a node that precede its broadcast of a message, found by the search."""

    node: int
    first: int
    last: int  # the position of that broadcast
    message: int
    parent: int  # the stretch in which that message was delivered, or -1
    parent_row: int


class _Piece(NamedTuple):
    """Broadcasts and deliveries of one node, in order, without phantoms."""

    position: NDArray[np.int64]
    is_broadcast: NDArray[np.bool_]
    source: NDArray[np.int32]
    message: NDArray[np.int64]


class _Holding(NamedTuple):
    """A node's messages and their positions, odd for rows and even for joins between them."""

    node: int
    delivered: NDArray[np.int64]  # first delivery, or NEVER
    times: NDArray[np.int32]  # deliveries
    position: NDArray[np.int64]  # by the rules of the audit, or NEVER
    own_joined: int  # number of its own messages that it joined with
    phantoms: list[tuple[int, int]]  # delivered
    joined_phantoms: list[tuple[int, int]]


class Explainer:
    """Makes the witnesses of one run, by reading the relevant rows again.

    Memory grows with messages, not with rows; time with the rows of the nodes that a witness
    names, and for a violation or a cycle with those that precede it on the shortest path.
    """

    def __init__(self, rows: Rows, known: Known) -> None:
        self._rows = rows
        self._known = known
        counts = np.diff(known.base)
        self._source = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
        self._sent_counts = np.append(counts, 0)  # the last is that of no source
        self._held: _Holding | None = None

    def violation(self, node: int, source: int, seq: int) -> Witness:
        """The witness of a violation: the missed message with the shortest path."""
        message = int(self._known.base[source]) + seq - 1
        position = self._holding(node).position
        earlier, steps = self._path(message, position > position[message])
        assert steps, f"no path to {source}:{seq}: the kernels and the rows disagree"
        name, label = self._node(node), self._label(message)
        missed = self._label(earlier)
        if position[earlier] == NEVER:
            opening = f"{name} delivered {label} but never delivered {missed}, which precedes it"
        elif position[earlier] % 2 == 0:
            opening = f"{name} delivered {label} before it joined with {missed}, which precedes it"
        else:
            opening = f"{name} delivered {label} before {missed}, but {missed} precedes {label}"
        return Witness(
            kind="violation",
            sentence=f"{opening}: {tell(steps)}.",
            node=node,
            node_name=self._rows.node_label(node),
            message=self._number(message),
            message_name=label,
            earlier=self._number(earlier),
            earlier_name=missed,
            steps=steps,
        )

    def precedence(self, earlier: tuple[int, int], message: tuple[int, int]) -> tuple[Step, ...]:
        """The shortest path from one message to another; empty if there is none.

        Both are pairs of a source and a seq, of messages with a broadcast.
        """
        wanted = np.zeros(self._source.size, np.bool_)
        wanted[self._known.base[earlier[0]] + earlier[1] - 1] = True
        _, steps = self._path(int(self._known.base[message[0]]) + message[1] - 1, wanted)
        return steps

    def cycle(self, message: int) -> Witness:
        """The path from a message to itself."""
        wanted = np.zeros(self._source.size, np.bool_)
        wanted[message] = True
        _, steps = self._path(message, wanted)
        source, label = int(self._source[message]), self._label(message)
        if all(step.node == source for step in steps):
            sentence = f"{self._node(source)} delivered {label} before it broadcast it."
        else:
            sentence = f"{label} precedes itself, which is impossible: {tell(steps)}."
        return self._plain("cycle", source, message, sentence, steps)

    def lost(self, nodes: NDArray[np.int64], limit: int, *, own: bool) -> list[Witness]:
        """Messages of correct sources that these correct nodes never delivered.

        ``own``: sources deliver their own messages in this run.
        """
        due = self._known.correct[self._source] != 0
        witnesses: list[Witness] = []
        for node in nodes[:limit].tolist():
            held = self._holding(node)
            absent = due & (self._source != node) & (held.position == NEVER)
            if own:
                first, last = self._known.base[node : node + 2]
                absent[first:last] = held.times[first:last] == 0
                absent[first : first + held.own_joined] = False
            for message in np.flatnonzero(absent)[: limit - len(witnesses)].tolist():
                sentence = f"{self._node(node)} never delivered {self._label(message)}, "
                source = int(self._source[message])
                if source == node:
                    sentence += (
                        "which it broadcast, though the run is complete, it did not crash, and "
                        "in this run sources deliver their own messages."
                    )
                else:
                    sender = self._node(source)
                    sentence += f"though the run is complete and neither it nor {sender} crashed."
                witnesses.append(self._plain("lost", node, message, sentence))
        return witnesses

    def duplicates(self, nodes: NDArray[np.int64], limit: int) -> list[Witness]:
        """Messages that these nodes delivered more than once, or after they joined with them."""
        witnesses: list[Witness] = []
        for node in nodes[:limit].tolist():
            held = self._holding(node)
            joined = (held.times > 0) & (held.position % 2 == 0)
            repeated = np.flatnonzero((held.times > 1) | joined)[: limit - len(witnesses)]
            for message in repeated.tolist():
                name, label = self._node(node), self._label(message)
                if joined[message]:
                    sentence = f"{name} delivered {label}, which it had joined with."
                else:
                    sentence = f"{name} delivered {label} {held.times[message]} times."
                witnesses.append(self._plain("duplicate", node, message, sentence))
        return witnesses

    def phantoms(self, nodes: NDArray[np.int64], limit: int) -> list[Witness]:
        """Messages without a broadcast that these nodes delivered, or joined with."""
        rows = self._rows
        witnesses: list[Witness] = []
        for node in nodes[:limit].tolist():
            held = self._holding(node)
            named = [(pair, "delivered") for pair in held.phantoms]
            named += [(pair, "joined with") for pair in held.joined_phantoms]
            for (source, seq), verb in named[: limit - len(witnesses)]:
                label = rows.pair_label(source, seq)
                number = self._source.size + bisect_left(self._known.phantoms, (source, seq))
                witnesses.append(
                    Witness(
                        kind="phantom",
                        sentence=f"{self._node(node)} {verb} {label}, which nobody broadcast.",
                        node=node,
                        node_name=rows.node_label(node),
                        message=rows.message_number(number, source, seq),
                        message_name=label,
                    )
                )
        return witnesses

    def _holding(self, node: int) -> _Holding:
        """The holding of a node; only the most recent one is cached."""
        if self._held is None or self._held.node != node:
            self._held = None
            self._held = self._read_holding(node)
        return self._held

    def _read_holding(self, node: int) -> _Holding:
        base, size = self._known.base, self._source.size
        delivered = np.full(size, NEVER, np.int64)
        joined = np.full(size, NEVER, np.int64)
        sent = np.full(size, NEVER, np.int64)
        times = np.zeros(size, np.int32)
        own_joined = 0
        phantoms: set[tuple[int, int]] = set()
        joined_phantoms: set[tuple[int, int]] = set()
        before = 0
        for chunk in self._rows.chunks(node, node + 1):
            is_known = self._is_known(chunk)
            position, before = _positions(chunk.kind, before)
            first = base[np.where(is_known, chunk.source, 0)] + chunk.seq - 1
            is_delivery = chunk.kind == DELIVER
            rows = np.flatnonzero(is_delivery & is_known)
            np.add.at(times, first[rows], 1)
            new = rows[delivered[first[rows]] == NEVER][::-1]
            # Filled backwards, so that the first delivery is the one that stays.
            delivered[first[new]] = 2 * position[new] + 1
            rows = np.flatnonzero((chunk.kind == BROADCAST) & is_known)
            sent[first[rows]] = 2 * position[rows] + 1
            phantoms |= _pairs(chunk, is_delivery & ~is_known)
            is_join = (chunk.kind == JOIN) & (chunk.seq != 0)
            joined_phantoms |= _pairs(chunk, is_join & ~is_known)
            for row in np.flatnonzero(is_join & is_known).tolist():
                source, seq = int(chunk.source[row]), int(chunk.seq[row])
                if source == node:
                    own_joined = max(own_joined, seq)
                else:
                    covered = joined[base[source] : base[source] + seq]
                    np.minimum(covered, 2 * position[row], out=covered)
        position = np.where(delivered == NEVER, sent, delivered)
        return _Holding(
            node=node,
            delivered=delivered,
            times=times,
            position=np.minimum(position, joined),
            own_joined=own_joined,
            phantoms=sorted(phantoms),
            joined_phantoms=sorted(joined_phantoms),
        )

    def _is_known(self, chunk: Chunk) -> NDArray[np.bool_]:
        """For each row, whether its message has a broadcast."""
        nodes = self._rows.nodes
        inside = (chunk.source >= 0) & (chunk.source < nodes)
        source = np.where(inside, chunk.source, nodes)
        return (chunk.seq >= 1) & (chunk.seq <= self._sent_counts[source])

    def _pieces(self, node: int, first: int, last: int) -> Iterator[_Piece]:
        """A node's rows from one position to another, without phantoms."""
        before = 0
        for chunk in self._rows.chunks(node, node + 1):
            position, before = _positions(chunk.kind, before)
            is_row = (chunk.kind == BROADCAST) | (chunk.kind == DELIVER)
            inside = is_row & (position >= first) & (position < last) & self._is_known(chunk)
            rows = np.flatnonzero(inside)
            yield _Piece(
                position=position[rows],
                is_broadcast=chunk.kind[rows] == BROADCAST,
                source=chunk.source[rows],
                message=self._known.base[chunk.source[rows]] + chunk.seq[rows] - 1,
            )
            if before >= last:
                return

    def _path(self, message: int, wanted: NDArray[np.bool_]) -> tuple[int, tuple[Step, ...]]:
        """A wanted message, and the steps from it to this one over the fewest deliveries, if any.

        Breadth first and backwards: of every node a prefix of its rows is known to precede the
        message; what deliveries in the newest stretches add to other nodes' prefixes is the
        next level. A row is visited once. Of equals, the lowest message, then the earliest row.
        """
        source = int(self._source[message])
        last = int(self._known.position[message])
        stretches = [_Stretch(source, 0, last, message, -1, -1)]
        covered = np.zeros(self._rows.nodes, np.int64)
        covered[source] = last
        level = [0]
        reached = _Reached.nothing(self._rows.nodes)
        while level:
            best: tuple[int, int, int, bool] | None = None  # message, stretch, row, broadcast
            for at in level:
                stretch = stretches[at]
                for piece in self._pieces(stretch.node, stretch.first, stretch.last):
                    hits = np.flatnonzero(wanted[piece.message])
                    if hits.size:
                        hit = hits[np.argmin(piece.message[hits])]
                        earlier = int(piece.message[hit])
                        if best is None or earlier < best[0]:
                            row, sent = int(piece.position[hit]), bool(piece.is_broadcast[hit])
                            best = (earlier, at, row, sent)
                    elif best is None:
                        reached.add(piece, self._known.position, covered, at, stretch.node)
            if best is not None:
                return best[0], self._steps(stretches, best)
            level = self._extend(stretches, covered, reached)
        return -1, ()

    def _extend(
        self, stretches: list[_Stretch], covered: NDArray[np.int64], reached: _Reached
    ) -> list[int]:
        """Append the stretches that lead to what was reached; return their indices."""
        level = []
        for source in reached.sources():
            level.append(len(stretches))
            stretches.append(
                _Stretch(
                    node=source,
                    first=int(covered[source]),
                    last=int(reached.last[source]),
                    message=int(reached.message[source]),
                    parent=int(reached.stretch[source]),
                    parent_row=int(reached.row[source]),
                )
            )
            covered[source] = reached.last[source]
        reached.clear()
        return level

    def _steps(
        self, stretches: list[_Stretch], best: tuple[int, int, int, bool]
    ) -> tuple[Step, ...]:
        """From the row found, forwards along the stretches to the message searched from."""
        message, at, row, is_broadcast = best
        steps = [self._sent(message)]
        if not is_broadcast:
            steps.append(self._step(stretches[at].node, "deliver", message, row))
        while True:
            stretch = stretches[at]
            steps.append(self._sent(stretch.message))
            if stretch.parent < 0:
                return tuple(steps)
            at = stretch.parent
            node = stretches[at].node
            steps.append(self._step(node, "deliver", stretch.message, stretch.parent_row))

    def _sent(self, message: int) -> Step:
        position = int(self._known.position[message])
        return self._step(int(self._source[message]), "broadcast", message, position)

    def _step(self, node: int, kind: str, message: int, position: int) -> Step:
        return Step(
            node=node,
            node_name=self._rows.node_label(node),
            kind=kind,
            message=self._number(message),
            message_name=self._label(message),
            position=position,
        )

    def _plain(
        self,
        kind: str,
        node: int,
        message: int,
        sentence: str,
        steps: tuple[Step, ...] = (),
    ) -> Witness:
        return Witness(
            kind=kind,
            sentence=sentence,
            node=node,
            node_name=self._rows.node_label(node),
            message=self._number(message),
            message_name=self._label(message),
            steps=steps,
        )

    def _node(self, node: int) -> str:
        return f"node {self._rows.node_label(node)}"

    def _pair(self, message: int) -> tuple[int, int]:
        source = int(self._source[message])
        return source, message - int(self._known.base[source]) + 1

    def _label(self, message: int) -> str:
        return self._rows.pair_label(*self._pair(message))

    def _number(self, message: int) -> int:
        return self._rows.message_number(message, *self._pair(message))


class _Reached(NamedTuple):
    """The latest broadcast of each source that deliveries lead to, with the earliest of those.

    A level of a search reaches few of many sources, so only those are visited and cleared.
    """

    last: NDArray[np.int64]
    message: NDArray[np.int64]
    stretch: NDArray[np.int64]
    node: NDArray[np.int64]
    row: NDArray[np.int64]
    touched: list[NDArray[np.int32]]

    @classmethod
    def nothing(cls, nodes: int) -> _Reached:
        last, message, stretch, node, row = np.full((5, nodes), -1, np.int64)
        return cls(last, message, stretch, node, row, touched=[])

    def sources(self) -> list[int]:
        """The sources with a reached message, ascending."""
        return sorted({source for part in self.touched for source in part.tolist()})

    def clear(self) -> None:
        """Clear the reached messages."""
        for part in self.touched:
            self.last[part] = -1
        self.touched.clear()

    def add(
        self,
        piece: _Piece,
        sent: NDArray[np.int64],
        covered: NDArray[np.int64],
        stretch: int,
        node: int,
    ) -> None:
        """Add the messages that these rows of a node lead to, beyond the covered ones."""
        last = sent[piece.message]
        rows = np.flatnonzero(last > covered[piece.source])
        # By source, its latest broadcast first, and of that the earliest delivery.
        order = rows[np.lexsort((piece.position[rows], -last[rows], piece.source[rows]))]
        first = order[np.flatnonzero(np.diff(piece.source[order], prepend=-1))]
        source, last = piece.source[first], last[first]
        is_earlier = (self.node[source] > node) & (last == self.last[source])
        better = (last > self.last[source]) | is_earlier
        source, first = source[better], first[better]
        self.touched.append(source)
        self.last[source] = last[better]
        self.message[source] = piece.message[first]
        self.stretch[source] = stretch
        self.node[source] = node
        self.row[source] = piece.position[first]


def _positions(kind: NDArray[np.int8], before: int) -> tuple[NDArray[np.int64], int]:
    """The number of broadcasts and deliveries before each row, and in total."""
    is_row = (kind == BROADCAST) | (kind == DELIVER)
    after = before + np.cumsum(is_row)
    return after - is_row, int(after[-1]) if kind.size else before


def _pairs(chunk: Chunk, chosen: NDArray[np.bool_]) -> set[tuple[int, int]]:
    """The messages of the chosen rows, as pairs."""
    rows = np.flatnonzero(chosen)
    return set(zip(chunk.source[rows].tolist(), chunk.seq[rows].tolist(), strict=True))


def tell(steps: tuple[Step, ...]) -> str:
    """A path in words, one clause for each stay at a node; the middle of a long one is left out."""
    clauses: list[str] = []
    before: Step | None = None
    for step in steps:
        verb = "broadcast" if step.kind == "broadcast" else "delivered"
        if before is None or before.node != step.node:
            clauses.append(f"node {step.node_name} {verb} {step.message_name}")
        elif before.kind == step.kind:
            clauses[-1] += f" and then {step.message_name}"
        else:
            clauses[-1] += f" and then {verb} {step.message_name}"
        before = step
    if len(clauses) > CLAUSES_MAX:
        left_out = len(clauses) - CLAUSES_MAX + 1
        clauses[2 : 2 + left_out] = [f"... {left_out} more steps ..."]
    return ", ".join(clauses)
