"""Places for events of a log without times: how many stand before them on the longest path."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.viewer.events import BROADCAST, DELIVER, Events, joined

STEP_US: Final = 1_000
ROWS_MAX: Final = 4_000_000


def give_depths(events: Events) -> None:
    """Have every row's time be its depth in happened-before, ``STEP_US`` apart.

    It takes all rows at once: a UserError if there are more than ``ROWS_MAX``. Where a log
    contradicts itself, a delivery comes before its broadcast.
    """
    chunks = []
    rows = 0
    for chunk in events.chunks():
        chunks.append(chunk)
        rows += chunk.node.size
        if rows > ROWS_MAX:
            raise UserError(
                f"{events.title} has more than {ROWS_MAX:,} events and no times for them: log "
                "time_us, or cut the log"
            )
    whole = joined(chunks)
    whole = whole.at(np.lexsort((whole.local_seq, whole.node)))
    depth = _depths(whole.node, whole.kind, whole.message, len(events.nodes))
    events.keep(whole._replace(time_us=depth * STEP_US))


def _depths(
    node: NDArray[np.int32], kind: NDArray[np.int8], message: NDArray[np.int64], nodes: int
) -> NDArray[np.int64]:
    """Depths of rows that stand by node, in each one's own order."""
    ends = np.searchsorted(node, np.arange(nodes), side="right").tolist()
    at = np.searchsorted(node, np.arange(nodes)).tolist()
    kinds, messages = kind.tolist(), message.tolist()
    to_come = {m for k, m in zip(kinds, messages, strict=True) if k == BROADCAST}
    sent: dict[int, int] = {}
    reached = [0] * nodes
    depth = np.zeros(node.size, np.int64)
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    ready = [*range(nodes)][::-1]
    while ready or waiting:
        if not ready:  # a cycle: go on with the first who waits, as if it had been sent
            stuck = min((min(who), m) for m, who in waiting.items())[1]
            to_come.discard(stuck)
            ready = sorted(waiting.pop(stuck), reverse=True)
        lane = ready.pop()
        while at[lane] < ends[lane]:
            row = at[lane]
            what = messages[row]
            if kinds[row] == DELIVER and what in to_come:
                waiting[what].append(lane)
                break
            is_event = kinds[row] in (BROADCAST, DELIVER)
            before = (
                max(reached[lane], sent.get(what, 0)) if kinds[row] == DELIVER else reached[lane]
            )
            reached[lane] = before + is_event
            depth[row] = reached[lane]
            at[lane] += 1
            if kinds[row] == BROADCAST:
                sent[what] = reached[lane]
                to_come.discard(what)
                ready += waiting.pop(what, [])[::-1]
    return depth
