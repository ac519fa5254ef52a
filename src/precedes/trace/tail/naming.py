"""Gives nodes and messages of a growing log their numbers, as they appear, and holds its one run.

A message has its number from its broadcast on. What is delivered before that was read has a label,
whose message is known later. Names are kept for good, about 200 bytes each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.collect import RUN_NUMBER, NamedRows
from precedes.trace.dialect import ONE_RUN
from precedes.trace.rows import BROADCAST
from precedes.trace.tail.rows import NO_MESSAGE, SHIFT, Rows, message_of

NAME_BYTES: Final = 200
FIRST_LABEL: Final = -2


class Naming:
    """The names that were met."""

    def __init__(self) -> None:
        self.names: list[str] = []  # of nodes
        self._nodes: dict[str, int] = {}
        self._numbers: dict[str, int] = {}  # a message's number, or its label's
        self._sent: list[list[str]] = []  # node: names of its messages
        self._labels: list[str] = []
        self._label_message = array("q")
        self._run: str | None = None  # of the first row

    @property
    def run_id(self) -> int | str:
        """The run, a number if its id is one."""
        run = ONE_RUN if self._run is None else self._run
        return int(run) if RUN_NUMBER.fullmatch(run) else run

    def take_runs(self, runs: Iterable[str], where: str) -> None:
        """Take note of the run of some rows; a second one is a UserError."""
        for run in runs:
            if self._run is None:
                self._run = run
            if run != self._run:
                raise UserError(
                    f"{where} holds several runs, {printable(self._run)} and {printable(run)}: "
                    "one can be followed at a time"
                )

    def forget_messages(self) -> None:
        """Before all is read again: nodes keep their numbers."""
        self._numbers, self._labels, self._label_message = {}, [], array("q")
        self._sent = [[] for _ in self.names]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return np.array(self._label_message, np.int64)

    def rows(self, found: NamedRows, where: Callable[[int], str]) -> Rows:
        """The same rows as numbers; ``where`` says what people call a row."""
        node = np.array([self._node(name) for name in found.names], np.int32)[found.node]
        for at in np.flatnonzero(found.kind == BROADCAST):
            name = found.labels[found.message[at]]
            if not self._broadcast(int(node[at]), name):
                again = f"message {printable(name)} is broadcast again"
                raise UserError(f"{where(int(found.row[at]))}: {again}")
        numbers = [self._number(name) for name in found.labels]
        message = np.array([*numbers, NO_MESSAGE], np.int64)[found.message]
        return Rows(node, found.kind, message)

    def _node(self, name: str) -> int:
        if name not in self._nodes:
            self._nodes[name] = len(self.names)
            self.names.append(name)
            self._sent.append([])
        return self._nodes[name]

    def _broadcast(self, node: int, name: str) -> bool:
        """Number a message; False if it was broadcast before."""
        number = self._numbers.get(name, NO_MESSAGE)
        if number >= 0:
            return False
        self._sent[node].append(name)
        message = message_of(node, len(self._sent[node]))
        if number <= FIRST_LABEL:
            self._label_message[FIRST_LABEL - number] = message
        self._numbers[name] = message
        return True

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = FIRST_LABEL - len(self._labels)
            self._labels.append(name)
            self._label_message.append(NO_MESSAGE)
        return self._numbers[name]

    def message_label(self, message: int) -> str:
        """A message's name."""
        if message <= FIRST_LABEL:
            return self._labels[FIRST_LABEL - message]
        return self._sent[message >> SHIFT][(message & (1 << SHIFT) - 1) - 1]

    def size_bytes(self) -> int:
        """What names take, about."""
        return NAME_BYTES * len(self._numbers)

    def pack(self) -> dict[str, Any]:
        """All names, as plain values."""
        return {
            "run": self._run,
            "names": self.names,
            "sent": self._sent,
            "labels": self._labels,
            "label_message": list(self._label_message),
        }

    def unpack(self, about: dict[str, Any]) -> None:
        """Know what another one knew."""
        self.names, self._sent, self._run = about["names"], about["sent"], about["run"]
        self._labels = about["labels"]
        self._label_message = array("q", about["label_message"])
        self._nodes = {name: number for number, name in enumerate(self.names)}
        self._numbers = {name: FIRST_LABEL - at for at, name in enumerate(self._labels)}
        for node, names in enumerate(self._sent):
            self._numbers |= {name: message_of(node, at + 1) for at, name in enumerate(names)}
