"""Marks on lanes: crashes, joins, leaves, returns, moves and views of nodes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.viewer.events import (
    CRASH,
    JOIN,
    LEAVE,
    NO_MESSAGE,
    UNTIMED,
    VIEWS,
    Chunk,
    Events,
    joined,
)

MARKS_MAX: Final = 10_000
NAMED_MAX: Final = 5
KINDS: Final = (CRASH, JOIN, LEAVE)


def marks_of(
    events: Events, shown: NDArray[np.bool_], rows: Chunk, *, from_us: int, to_us: int
) -> list[dict[str, Any]]:
    """Marks in a window, in order of time, at most ``MARKS_MAX``: the first; nodes as numbers.

    One without a time stands where the row of ``rows`` before it does.
    """
    chosen = [c.at(np.isin(c.kind, KINDS) & shown[c.node]) for c in events.chunks()]
    changes = joined(chosen)
    changes = changes.at(np.lexsort((changes.local_seq, changes.node)))
    marks: list[dict[str, Any]] = []
    gone = False
    for at in range(changes.node.size):
        node, kind = int(changes.node[at]), int(changes.kind[at])
        first = at == 0 or int(changes.node[at - 1]) != node
        gone = gone and not first
        if kind == JOIN and not first and _goes_on(changes, at):
            if marks:
                marks[-1]["with"] += _named(events, changes, at)
            continue
        time_us = _time(changes, at, rows)
        back = gone and kind == JOIN
        gone = kind != JOIN
        mark = {"node": node, "time_us": time_us, "kind": _kind(kind, back=back)}
        marks.append({**mark, "with": _named(events, changes, at)})
    recorded = [m for m in events.marks if shown[m.node] and m.kind in _WORDS]
    # Sorting is stable: at equal times, the end of a node follows its recorded marks.
    marks = [*({**mark._asdict(), "with": []} for mark in recorded), *marks]
    inside = [m for m in marks if m["time_us"] is not None and from_us <= m["time_us"] <= to_us]
    inside.sort(key=lambda mark: (mark["time_us"], mark["node"]))
    return [_described(mark, events.labels) for mark in inside[:MARKS_MAX]]


def _goes_on(changes: Chunk, at: int) -> bool:
    """Return whether a join continues the list of initial messages that the row before began."""
    before = int(changes.kind[at - 1]) == JOIN
    return before and int(changes.time_us[at - 1]) == int(changes.time_us[at])


def _named(events: Events, changes: Chunk, at: int) -> list[str]:
    key = int(changes.message[at])
    if int(changes.kind[at]) != JOIN or key == NO_MESSAGE:
        return []
    return [events.name_of(key)]


def _time(changes: Chunk, at: int, rows: Chunk) -> int | None:
    if int(changes.time_us[at]) != UNTIMED:
        return int(changes.time_us[at])
    before = (rows.node == changes.node[at]) & (rows.local_seq < changes.local_seq[at])
    return int(rows.time_us[before].max()) if before.any() else None


def _kind(kind: int, *, back: bool) -> str:
    if kind == JOIN:
        return "recover" if back else "join"
    return "crash" if kind == CRASH else "leave"


_WORDS: Final = {
    "crash": "crashed",
    "leave": "left",
    "join": "joined",
    "recover": "came back",
    "handoff": "moved to station {other}",
    "joined": "{other} is in the view (joined)",
    **{how: f"{{other}} is out of the view ({how})" for how in ("excluded", "left")},
}


def _described(mark: dict[str, Any], labels: list[str] | None) -> dict[str, Any]:
    other = mark.pop("other", None)
    if labels is not None and mark["kind"] in VIEWS and other < len(labels):
        other = labels[other]
    text = _WORDS[mark["kind"]].format(other=other)
    if mark["kind"] == "handoff" and other is None:
        text = "out of reach of all stations"
    elif mark["kind"] in VIEWS:
        mark["kind"] = "view"
    named = mark.pop("with")
    if named:
        more = f" and {len(named) - NAMED_MAX:,} more" if len(named) > NAMED_MAX else ""
        text += (
            f", beginning with {', '.join(named[:NAMED_MAX])}{more} and what precedes each there"
        )
    return {"lane": mark.pop("node"), **mark, "text": text}
