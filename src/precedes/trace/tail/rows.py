"""Rows of a growing log as numbers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SHIFT: Final = 32
NO_MESSAGE: Final = -1


class Rows(NamedTuple):
    """Rows of a log, each node's in its own order.

    A message is ``source << 32 | sequence``, NO_MESSAGE if a row has none, or -2 - label if its
    broadcast was not read so far.
    """

    node: NDArray[np.int32]
    kind: NDArray[np.int8]
    message: NDArray[np.int64]

    def at(self, index: NDArray[Any]) -> Rows:
        """The rows that an index chooses."""
        return Rows(self.node[index], self.kind[index], self.message[index])

    def then(self, others: Rows) -> Rows:
        """These rows and others behind them."""
        if not self.node.size:
            return others
        if not others.node.size:
            return self
        return Rows(
            np.concatenate((self.node, others.node)),
            np.concatenate((self.kind, others.kind)),
            np.concatenate((self.message, others.message)),
        )


NO_ROWS: Final = Rows(np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int64))


def message_of(source: int, sequence: int) -> int:
    """The number of a message in ``Rows``."""
    return (source << SHIFT) | sequence


def label_of(message: int) -> str:
    """What a message is called that has no name: its source and its sequence."""
    return f"{message >> SHIFT}:{message & (1 << SHIFT) - 1}"
