"""Times and senders of broadcasts: a schedule drawn before the run, or a causal graph to replay.

A schedule is drawn whole, in Python, from the scenario's seed: the engine draws nothing for it,
and every protocol gets the same broadcasts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.sim.engine import queue
from precedes.sim.engine.layout import ISSUE, ISSUE_LATE
from precedes.sim.engine.queue import Queue

# Columns of ``issue``.
TIME_NS: Final = 0
NODE: Final = 1

# Columns of ``event``.
AGENT: Final = 0  # the node that broadcasts it
MISSING: Final = 1  # number of missing predecessors: parents, and the agent's event before
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
    """Replay: the node now has the event; note which of its own events became ready."""
    event = workload.event
    replay = workload.replay
    for i in range(event[label, FIRST_CHILD], event[label + 1, FIRST_CHILD]):
        child = workload.child[i]
        if child >= 0 and event[child, AGENT] == node:
            # Crossed out: a repeated delivery of a parent does not count again.
            workload.child[i] = ~child
            event[child, MISSING] -= 1
            if event[child, MISSING] == 0:
                replay[FIRST_READY + replay[READY]] = child
                replay[READY] += 1


@compiled.function(inline=False)
def schedule_ready(workload: Workload, events: Queue, now_ns: int) -> None:
    """Replay: schedule the events that the last delivery made ready."""
    replay = workload.replay
    for i in range(replay[READY]):
        label = replay[FIRST_READY + i]
        if replay[LEFT] > 0:
            replay[LEFT] -= 1
            agent = workload.event[label, AGENT]
            queue.push_one(events, now_ns + replay[GAP_NS], ISSUE_LATE | agent, label)
    replay[READY] = 0


@compiled.function(inline=False)
def schedule_next(workload: Workload, events: Queue, row: int) -> None:
    """Queue the broadcast after this row of the schedule: one of them waits at a time."""
    if row + 1 < workload.issue.shape[0]:
        time_ns = workload.issue[row + 1, TIME_NS]
        queue.push_one(events, time_ns, ISSUE | workload.issue[row + 1, NODE], row + 1)
