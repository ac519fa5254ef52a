"""Logs that are bytes in a test."""

import io

import pytest

from precedes.errors import UserError
from precedes.trace import Dialect, load


def read(content, format="auto", **said):
    """The histories in bytes or text."""
    data = content.encode() if isinstance(content, str) else content
    return load(io.BytesIO(data), format, dialect=Dialect(**said))


def read_one(content, format="auto", **said):
    (history,) = read(content, format, **said)
    return history


def refused(content, match, format="auto", **said):
    """The mistake in one line, which names the log."""
    with pytest.raises(UserError, match=match) as raised:
        read(content, format, **said)
    assert "\n" not in str(raised.value)


def rows_of(history):
    """Each node's own list of kinds and names, by name."""
    kinds = {0: "broadcast", 3: "deliver"}
    return {
        history.node_label(node): [
            f"{kinds[int(history.kind[row])]} {history.message_label(int(history.message[row]))}"
            for row in range(history.offsets[node], history.offsets[node + 1])
        ]
        for node in range(history.nodes)
    }
