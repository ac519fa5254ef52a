"""A chat as a table of events."""

import pyarrow as pa

CHAT = [
    ("ann", 0, "broadcast", "question"),
    ("bob", 0, "deliver", "question"),
    ("bob", 1, "broadcast", "answer"),
    ("eve", 0, "deliver", "answer"),
    ("eve", 1, "deliver", "question"),
]


def table(rows, **columns):
    """A table of events from rows of node, local_seq, kind and message."""
    names = ("node", "local_seq", "kind", "message")
    types = (pa.string(), pa.int64(), pa.string(), pa.string())
    found = {
        name: pa.array([row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    return pa.table({**found, **columns})


def changed(place, **cells):
    """The chat with other cells in one of its rows."""
    rows = [list(row) for row in CHAT]
    for name, value in cells.items():
        rows[place][("node", "local_seq", "kind", "message").index(name)] = value
    return rows
