"""Rows from causal graphs: authors whose changes name the changes they build upon.

A change is a message that its author broadcasts; just before it the author delivers those of its
ancestors that are new to it, in the order of the file. An author whose change does not build upon
its last one has forked: it goes on as another node, ``author#2``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.trace.importers.rows import Rows

ENTRIES_MAX: Final = 1 << 27  # a gigabyte


@dataclass
class _Node:
    """An author, or a branch of one: each of its changes builds upon the one before."""

    name: str
    changes: array[int] = field(default_factory=lambda: array("q"))
    known: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: int = 0


class Graph:
    """The changes so far; every change comes after those it builds upon.

    Memory grows by a label and 16 bytes a change, and eight bytes a node for each that merges; more
    than ``ENTRIES_MAX`` of those are a UserError.
    """

    def __init__(self, run_id: str, *, title: str) -> None:
        self._run_id = run_id
        self._title = title
        self._branches: dict[str, list[int]] = {}  # author -> its nodes
        self._nodes: list[_Node] = []
        self._node = array("i")  # change -> its node
        self._place = array("i")  # change -> which of its node's changes it is, from 1
        self._vector = array("q")  # change -> where in ``_vectors`` its past at other nodes is
        self._vectors: list[NDArray[np.int64]] = []
        self._entries = 0
        self._labels: list[str] = []

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self._node)

    @property
    def forks(self) -> int:
        """How many nodes there are beyond one an author."""
        return len(self._nodes) - len(self._branches)

    def add(
        self, rows: Rows, *, author: str, parents: list[int], label: str, time_us: int | None
    ) -> None:
        """The next change, with the deliveries before it."""
        number = self._goes_on(author, parents)
        if number is None:
            past = self._past(parents)
            number = self._branch(author, past)
            self._deliver(rows, number, past)
            self._vector.append(len(self._vectors))
            self._vectors.append(past)
            self._entries += past.size
            if self._entries > ENTRIES_MAX:
                merges, nodes = len(self._vectors), len(self._nodes)
                raise UserError(
                    f"{self._title}: {merges:,} merges among {nodes:,} authors and forks take more "
                    f"than {ENTRIES_MAX:,} numbers: cut the log into parts"
                )
        else:
            self._vector.append(self._vector[parents[0]])
        node = self._nodes[number]
        self._row(rows, node, "broadcast", label, time_us)
        node.changes.append(len(self))
        self._node.append(number)
        self._place.append(len(node.changes))
        self._labels.append(label)

    def _goes_on(self, author: str, parents: list[int]) -> int | None:
        """The node whose last change is the only parent, if it is this author's."""
        if len(parents) != 1:
            return None
        number = self._node[parents[0]]
        is_last = self._nodes[number].changes[-1] == parents[0]
        return number if is_last and number in self._branches.get(author, ()) else None

    def _past(self, parents: list[int]) -> NDArray[np.int64]:
        """How many changes of each node are ancestors: they are its first ones."""
        past = np.zeros(len(self._nodes), np.int64)
        for parent in parents:
            vector = self._vectors[self._vector[parent]]
            np.maximum(past[: vector.size], vector, out=past[: vector.size])
            number = self._node[parent]
            past[number] = max(past[number], self._place[parent])
        return past

    def _branch(self, author: str, past: NDArray[np.int64]) -> int:
        """The node of this author whose last change is an ancestor, or a new one."""
        mine = self._branches.setdefault(author, [])
        for number in mine:
            if past[number] == len(self._nodes[number].changes):
                return number
        mine.append(len(self._nodes))
        name = author if len(mine) == 1 else f"{author}#{len(mine)}"
        self._nodes.append(_Node(name))
        return mine[-1]

    def _deliver(self, rows: Rows, number: int, past: NDArray[np.int64]) -> None:
        node = self._nodes[number]
        known = np.zeros(past.size, np.int64)
        known[: node.known.size] = node.known[: past.size]
        new: list[int] = []
        for other in np.flatnonzero(past > known).tolist():
            if other != number:
                new += self._nodes[other].changes[known[other] : past[other]]
        for change in sorted(new):
            self._row(rows, node, "deliver", self._labels[change], None)
        node.known = np.maximum(past, known)

    def _row(self, rows: Rows, node: _Node, kind: str, label: str, time_us: int | None) -> None:
        rows.add(
            run_id=self._run_id,
            node=node.name,
            local_seq=node.rows,
            kind=kind,
            message=label,
            time_us=time_us,
        )
        node.rows += 1
