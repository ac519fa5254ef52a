"""Who broadcasts when: a schedule drawn before the run, or a causal graph to replay.

A schedule is drawn whole, in Python, from the scenario's seed: the engine draws nothing for it,
and every protocol meets the same broadcasts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

# Columns of ``issue``.
TIME_NS: Final = 0
NODE: Final = 1

# Columns of ``event``.
AGENT: Final = 0  # the node that broadcasts it
MISSING: Final = 1  # what it still waits for: its parents, and its agent's event before it
FIRST_CHILD: Final = 2  # where its children begin in ``child``

# Places in ``replay``.
READY: Final = 0  # events that became ready and are not yet scheduled
GAP_NS: Final = 1  # pause of a node before an event of its own
LEFT: Final = 2  # events that may still be broadcast
FIRST_READY: Final = 3  # from here on, the events that became ready


class Workload(NamedTuple):
    """A schedule in order of time, or a graph; the arrays of the other are empty."""

    issue: NDArray[np.int64]
    event: NDArray[np.int64]  # the row after the last one ends the children
    child: NDArray[np.int32]  # ~child once its node knows the parent
    replay: NDArray[np.int64]


@compiled.function(inline=False)
def on_known(workload: Workload, node: int, label: int) -> None:
    """Replay: the node now knows the event; note which of its own events became ready."""
    event = workload.event
    replay = workload.replay
    for i in range(event[label, FIRST_CHILD], event[label + 1, FIRST_CHILD]):
        child = workload.child[i]
        if child >= 0 and event[child, AGENT] == node:
            # Crossed out: a parent that is delivered again does not count again.
            workload.child[i] = ~child
            event[child, MISSING] -= 1
            if event[child, MISSING] == 0:
                replay[FIRST_READY + replay[READY]] = child
                replay[READY] += 1
