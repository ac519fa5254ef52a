"""Reads a page of the viewer back, by what docs/view.md says of it and nothing of the package."""

import base64
import gzip
import json
import re
import struct
from dataclasses import dataclass

KINDS = {0: "broadcast", 1: "deliver", 2: "pending", 3: "deliver", 4: "discard", 5: "edge"}
UNKNOWN = 0xFFFFFFFF
NOBODY = 0xFFFF


@dataclass(frozen=True)
class Event:
    """An event as the page has it, with names."""

    time_us: float
    lane: str
    kind: str
    message: str
    wait_us: int | None
    is_violation: bool


@dataclass(frozen=True)
class Unpacked:
    """One trace of a page."""

    head: dict
    events: list[Event]
    sources: list[str | None]
    sequences: list[int]
    names: list[str]
    texts: list[str | None]  # of each event, if the log has any

    def lane(self, name):
        """The events of a node, in its order."""
        return [(e.kind, e.message) for e in self.events if e.lane == name]


def head_of(page):
    """The head of the page."""
    (text,) = re.findall(r'<script type="application/json" id="precedes-head">(.*?)</script>', page)
    return json.loads(text)


def traces_of(page):
    """The traces of a page."""
    head = head_of(page)
    return [_trace(page, number, one) for number, one in enumerate(head["traces"])]


def _trace(page, number, head):
    opening = f'<script type="application/octet-stream;base64" id="precedes-events-{number}">'
    text = page.partition(opening)[2].partition("</script>")[0]
    data = gzip.decompress(base64.b64decode(text))
    n, m = head["events"], head["messages"]
    layout = [("d", n), ("I", n), ("I", n), ("H", n), ("B", n), ("H", m), ("I", m)]
    columns = []
    at = 0
    for letter, count in layout:
        form = struct.Struct(f"<{count}{letter}")
        columns.append(form.unpack_from(data, at))
        at += form.size
    assert at == len(data), "the arrays are longer than their description"
    time_us, message, wait_us, lane, kind, source, sequence = columns
    lanes = head["lanes"]
    sources = [None if s == NOBODY else lanes[s] for s in source]
    names = head["message_names"]
    if names is None:
        names = [f"{s}:{k}" for s, k in zip(sources, sequence, strict=True)]
    assert len(names) == m
    events = [
        Event(t, lanes[p], KINDS[k], names[what], None if w == UNKNOWN else w, is_violation=k == 3)
        for t, what, w, p, k in zip(time_us, message, wait_us, lane, kind, strict=True)
    ]
    return Unpacked(head, events, sources, list(sequence), names, _texts(page, number))


def _texts(page, number):
    opening = f'<script type="application/json+gzip;base64" id="precedes-texts-{number}">'
    text = page.partition(opening)[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(text))) if text else []
