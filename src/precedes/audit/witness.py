"""Findings a person can check by hand: which rows of the log contradict each other, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.model import EventKind
from precedes.trace import History

BROADCAST: Final = int(EventKind.BROADCAST)
NEVER: Final = np.iinfo(np.int64).max

# A sentence tells at most this many nodes of a path; the structure always has them all.
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


class _Stretch(NamedTuple):
    """Rows of a node that precede its broadcast in the row ``last``, found by the search."""

    node: int
    first: int
    last: int  # the row of that broadcast
    parent: int  # the stretch in which the message of the last row was delivered, or -1
    parent_row: int


def first_positions(
    history: History, broadcast_row: NDArray[np.int64], node: int
) -> NDArray[np.int64]:
    """For each message its position at this node by the audit's rules, or NEVER.

    Positions are odd for rows and even for joins between them.
    """
    rows = history.rows_of(node)
    message, kind = history.message[rows], history.kind[rows]
    index = 2 * np.arange(message.size) + 1
    position = np.full(history.messages, NEVER, np.int64)
    sent = kind == BROADCAST
    position[message[sent]] = index[sent]
    # Written backwards, the first delivery is the one that stays.
    position[message[~sent][::-1]] = index[~sent][::-1]
    others = history.message_source != node
    for join in np.flatnonzero(history.join_node == node):
        covered = begins_with(history, broadcast_row, int(join)) & others
        position[covered] = np.minimum(position[covered], 2 * history.join_row[join])
    return position


def begins_with(history: History, broadcast_row: NDArray[np.int64], join: int) -> NDArray[np.bool_]:
    """For each message whether the node has it by this join."""
    named = int(history.join_message[join])
    if named < 0 or history.message_source[named] < 0:
        return np.zeros(history.messages, np.bool_)
    of_source = history.message_source == history.message_source[named]
    return of_source & (broadcast_row <= broadcast_row[named])


class Explainer:
    """Makes the witnesses of one history."""

    def __init__(self, history: History, broadcast_row: NDArray[np.int64]) -> None:
        self._history = history
        self._broadcast_row = broadcast_row

    def violation(self, node: int, message: int) -> Witness:
        """Why this delivery is a violation: the message missed by the shortest path."""
        position = self._positions(node)
        steps = self._path(message, position > position[message])
        assert steps, f"no path to message {message}: the kernel and the rows disagree"
        earlier = steps[0].message
        who, what = self._node(node), self._message(message)
        missed = self._message(earlier)
        if position[earlier] == NEVER:
            opening = f"{who} delivered {what} but never delivered {missed}, which precedes it"
        elif position[earlier] % 2 == 0:
            opening = f"{who} delivered {what} before it joined with {missed}, which precedes it"
        else:
            opening = f"{who} delivered {what} before {missed}, but {missed} precedes {what}"
        return Witness(
            kind="violation",
            sentence=f"{opening}: {_tell(steps)}.",
            node=node,
            node_name=self._history.node_label(node),
            message=message,
            message_name=what,
            earlier=earlier,
            earlier_name=missed,
            steps=steps,
        )

    def cycle(self, message: int) -> Witness:
        """How a message precedes itself."""
        wanted = np.zeros(self._history.messages, np.bool_)
        wanted[message] = True
        steps = self._path(message, wanted)
        source, what = int(self._history.message_source[message]), self._message(message)
        if all(step.node == source for step in steps):
            sentence = f"{self._node(source)} delivered {what} before it broadcast it."
        else:
            sentence = f"{what} precedes itself, which no true log can say: {_tell(steps)}."
        return self._plain("cycle", source, message, sentence, steps)

    def lost(
        self, nodes: NDArray[np.int64], correct: NDArray[np.uint8], limit: int, *, own: bool
    ) -> list[Witness]:
        """Messages of correct sources that these correct nodes never delivered.

        ``own``: sources deliver their own messages in this run.
        """
        source = self._history.message_source
        due = (source >= 0) & (correct[source] != 0)
        found: list[Witness] = []
        for node in nodes[:limit]:
            absent = due & (source != node) & (self._positions(node) == NEVER)
            if own:
                absent |= (source == node) & self._lacks_own(int(node))
            for message in np.flatnonzero(absent)[: limit - len(found)]:
                sentence = f"{self._node(node)} never delivered {self._message(message)}, "
                if source[message] == node:
                    sentence += (
                        "which it broadcast, though the run is complete, it did not crash, and "
                        "in this run sources deliver their own messages."
                    )
                else:
                    sender = self._node(int(source[message]))
                    sentence += f"though the run is complete and neither it nor {sender} crashed."
                found.append(self._plain("lost", node, message, sentence))
        return found

    def _positions(self, node: int) -> NDArray[np.int64]:
        return first_positions(self._history, self._broadcast_row, node)

    def _lacks_own(self, node: int) -> NDArray[np.bool_]:
        """For each message whether this node neither delivered it nor joined with it."""
        history = self._history
        lacking = np.ones(history.messages, np.bool_)
        lacking[self._delivered(node, phantom=False)[0]] = False
        for join in np.flatnonzero(history.join_node == node):
            lacking &= ~begins_with(history, self._broadcast_row, int(join))
        return lacking

    def duplicates(self, nodes: NDArray[np.int64], limit: int) -> list[Witness]:
        """Messages that these nodes delivered more than once, or after they joined with them."""
        found: list[Witness] = []
        for node in nodes[:limit]:
            message, count = self._delivered(node, phantom=False)
            joined = self._positions(node)[message] % 2 == 0
            for i in np.flatnonzero((count > 1) | joined)[: limit - len(found)]:
                who, what, times = self._node(node), self._message(message[i]), count[i]
                if joined[i]:
                    sentence = f"{who} delivered {what}, which it had joined with."
                else:
                    sentence = f"{who} delivered {what} {times} times."
                found.append(self._plain("duplicate", node, message[i], sentence))
        return found

    def phantoms(self, nodes: NDArray[np.int64], limit: int) -> list[Witness]:
        """Messages that these nodes delivered, or joined with, and nobody broadcast."""
        history = self._history
        found: list[Witness] = []
        for node in nodes[:limit]:
            named = history.join_message[history.join_node == node]
            joined = np.unique(named[named >= 0])
            joined = joined[history.message_source[joined] < 0]
            rows = [(m, "delivered") for m in self._delivered(node, phantom=True)[0]]
            rows += [(m, "joined with") for m in joined]
            for m, verb in rows[: limit - len(found)]:
                sentence = f"{self._node(node)} {verb} {self._message(m)}, which nobody broadcast."
                found.append(self._plain("phantom", node, m, sentence))
        return found

    def _delivered(
        self, node: int, *, phantom: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """What a node delivered, by message, and how often."""
        history = self._history
        rows = history.rows_of(node)
        message = history.message[rows][history.kind[rows] != BROADCAST]
        chosen = message[(history.message_source[message] < 0) == phantom]
        return np.unique(chosen, return_counts=True)

    def _path(self, message: int, wanted: NDArray[np.bool_]) -> tuple[Step, ...]:
        """The steps from a wanted message to this one, over as few deliveries as possible, if any.

        Breadth first and backwards: of every node a prefix of its rows is known to precede the
        message; what deliveries in the newest stretches add to other nodes' prefixes is the
        next level. A row is looked at once.
        """
        history = self._history
        source = int(history.message_source[message])
        last = int(self._broadcast_row[message])
        stretches = [_Stretch(source, int(history.offsets[source]), last, -1, -1)]
        covered = history.offsets[:-1].copy()
        covered[source] = last
        level = [0]
        while level:
            rows = np.concatenate([np.arange(stretches[i].first, stretches[i].last) for i in level])
            origin = np.repeat(level, [stretches[i].last - stretches[i].first for i in level])
            hits = np.flatnonzero(wanted[history.message[rows]] & self._known(rows))
            if hits.size:
                hit = hits[np.argmin(history.message[rows[hits]])]
                return self._steps(stretches, int(origin[hit]), int(rows[hit]))
            level = self._extend(stretches, covered, rows, origin)
        return ()

    def _known(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._broadcast_row[self._history.message[rows]] >= 0

    def _extend(
        self,
        stretches: list[_Stretch],
        covered: NDArray[np.int64],
        rows: NDArray[np.int64],
        origin: NDArray[np.int64],
    ) -> list[int]:
        """Append the stretches that deliveries in these rows add; return their indices."""
        history = self._history
        known = self._known(rows)
        rows, origin = rows[known], origin[known]
        reached = self._broadcast_row[history.message[rows]]
        source = history.message_source[history.message[rows]]
        new = reached > covered[source]
        rows, origin, reached, source = rows[new], origin[new], reached[new], source[new]
        # By source, its latest broadcast first, and of that the earliest delivery.
        order = np.lexsort((rows, -reached, source))
        first = np.flatnonzero(np.diff(source[order], prepend=-1))
        level = []
        for i in order[first]:
            node, last = int(source[i]), int(reached[i])
            start = int(covered[node])
            level.append(len(stretches))
            stretches.append(_Stretch(node, start, last, int(origin[i]), int(rows[i])))
            covered[node] = last
        return level

    def _steps(self, stretches: list[_Stretch], at: int, row: int) -> tuple[Step, ...]:
        """From the row found, forwards along the stretches to the message searched from."""
        history = self._history
        message = int(history.message[row])
        steps = [self._step(int(self._broadcast_row[message]))]
        if history.kind[row] != BROADCAST:
            steps.append(self._step(row))
        while True:
            stretch = stretches[at]
            steps.append(self._step(stretch.last))
            if stretch.parent < 0:
                return tuple(steps)
            steps.append(self._step(stretch.parent_row))
            at = stretch.parent

    def _step(self, row: int) -> Step:
        history = self._history
        node = int(np.searchsorted(history.offsets, row, side="right")) - 1
        message = int(history.message[row])
        return Step(
            node=node,
            node_name=history.node_label(node),
            kind=EventKind(int(history.kind[row])).name.lower(),
            message=message,
            message_name=history.message_label(message),
            position=row - int(history.offsets[node]),
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
            node=int(node),
            node_name=self._history.node_label(int(node)),
            message=int(message),
            message_name=self._message(message),
            steps=steps,
        )

    def _node(self, node: int) -> str:
        return f"node {self._history.node_label(int(node))}"

    def _message(self, message: int) -> str:
        return self._history.message_label(int(message))


def _tell(steps: tuple[Step, ...]) -> str:
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
