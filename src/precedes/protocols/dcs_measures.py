"""What a run of ``dcs`` tells of its clocks and rounds."""

from __future__ import annotations

import numpy as np

from precedes.parts.hash_check import check, search
from precedes.protocols.contract import Int64s
from precedes.protocols.dcs_state import (
    ACTIVE,
    ACTIVE_COUNT,
    ACTIVE_SUM,
    DEACTIVATED,
    DETECTOR,
    ENTRIES,
    LIMIT,
    MALFORMED,
    PACKETS,
    REMOVED,
    SENT_COUNT,
    SENT_SUM,
    SERIES,
    SERIES_WORDS,
    STARTED,
    State,
)


def extra(state: State) -> dict[str, float]:
    """The clock over the run, what the rounds did, and what the detector did if there is one."""
    plan = state.dcs.plan
    found: dict[str, float] = {
        "entries_mean": _mean(state, ACTIVE_SUM, ACTIVE_COUNT),
        "entries_sent_mean": _mean(state, SENT_SUM, SENT_COUNT),
        "entries_at_end": int(plan[ENTRIES]) * float(state.dcs.word[:, ACTIVE].mean()),
        "rounds": int(plan[STARTED]),
        "rounds_packets": int(plan[PACKETS]),
        "deactivated": int(plan[DEACTIVATED]),
        "removed": int(plan[REMOVED]),
        "malformed": int(plan[MALFORMED]),
    }
    if state.dcs.plan[DETECTOR] != 0:
        found["hashes"] = int(state.peel.mark[search.HASHES])
        found |= check.counts(state)
    return found


def _rows(state: State) -> Int64s:
    """The words of intervals of 10 s, up to the last one with a broadcast."""
    rows = state.dcs.plan[SERIES:LIMIT].reshape(-1, SERIES_WORDS)
    sent = np.flatnonzero(rows[:, SENT_COUNT])
    return rows[: int(sent[-1]) + 1 if len(sent) else 1]


def _mean(state: State, total: int, count: int) -> float:
    """A mean number of entries."""
    rows = _rows(state)
    entries = int(state.dcs.plan[ENTRIES])
    return entries * int(rows[:, total].sum()) / max(int(rows[:, count].sum()), 1)


def series(state: State) -> dict[str, list[float]]:
    """Entries of a clock, a mean over processes, in every 10 s."""
    rows = _rows(state)
    means = rows[:, ACTIVE_SUM] / np.maximum(rows[:, ACTIVE_COUNT], 1)
    return {"entries": [float(one) for one in means * state.dcs.plan[ENTRIES]]}
