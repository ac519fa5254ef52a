"""What happened to nodes: crashes, joins, leaves, returns, moves, views, as marks on lanes."""

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
    found = joined(chosen)
    found = found.at(np.lexsort((found.local_seq, found.node)))
    marks: list[dict[str, Any]] = []
    gone = False
    for at in range(found.node.size):
        node, kind = int(found.node[at]), int(found.kind[at])
        first = at == 0 or int(found.node[at - 1]) != node
        gone = gone and not first
        if kind == JOIN and not first and _goes_on(found, at):
            if marks:
                marks[-1]["with"] += _named(events, found, at)
            continue
        time_us = _time(found, at, rows)
        back = gone and kind == JOIN
        gone = kind != JOIN
        mark = {"node": node, "time_us": time_us, "kind": _kind(kind, back=back)}
        marks.append({**mark, "with": _named(events, found, at)})
    told = [m for m in events.marks if shown[m.node] and m.kind in _WORDS]
    # Nothing is told after an end: of the same time, rows come last.
    marks = [*({**mark._asdict(), "with": []} for mark in told), *marks]
    inside = [m for m in marks if m["time_us"] is not None and from_us <= m["time_us"] <= to_us]
    inside.sort(key=lambda mark: (mark["time_us"], mark["node"]))
    return [_told(mark) for mark in inside[:MARKS_MAX]]


def _goes_on(found: Chunk, at: int) -> bool:
    """Whether a join tells more of what its node begins with than the row before."""
    before = int(found.kind[at - 1]) == JOIN
    return before and int(found.time_us[at - 1]) == int(found.time_us[at])


def _named(events: Events, found: Chunk, at: int) -> list[str]:
    key = int(found.message[at])
    if int(found.kind[at]) != JOIN or key == NO_MESSAGE:
        return []
    return [events.name_of(key)]


def _time(found: Chunk, at: int, rows: Chunk) -> int | None:
    if int(found.time_us[at]) != UNTIMED:
        return int(found.time_us[at])
    before = (rows.node == found.node[at]) & (rows.local_seq < found.local_seq[at])
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
    **{how: f"{{other}} is out of the view ({how})" for how in VIEWS},
}


def _told(mark: dict[str, Any]) -> dict[str, Any]:
    other = mark.pop("other", None)
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
