"""A `logging` handler that writes the events of a program as JSON lines for the audit."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path


class EventHandler(logging.FileHandler):
    """Append the events of one node to a file of JSON lines.

    An event is a log record with the attribute ``event``, a pair of its kind (``broadcast``,
    ``deliver``, ...) and the name of its message; the handler ignores all other records. Log a
    broadcast before the message is sent, and a delivery before the application acts on it. Each
    line is written with one call and flushed. A program that is killed leaves at most half a line,
    which the next handler for the file removes.

    >>> import logging, pathlib, tempfile
    >>> log, path = logging.getLogger("chat"), pathlib.Path(tempfile.mkdtemp()) / "ann.jsonl"
    >>> log.setLevel(logging.INFO)
    >>> handler = EventHandler(path, node="ann")
    >>> log.addHandler(handler)
    >>> log.info("asked a question", extra={"event": ("broadcast", "question")})
    >>> print(path.read_text().partition(', "time_us"')[0])
    {"node": "ann", "kind": "broadcast", "message": "question"
    >>> handler.close()
    """

    def __init__(self, path: str | os.PathLike[str], *, node: str | int) -> None:
        """Open the file of one node; several nodes of a process have a handler each."""
        _remove_half_a_line(Path(path))
        super().__init__(path, encoding="utf-8")
        self._node = node

    def filter(self, record: logging.LogRecord) -> bool:
        """Return false for records that are not events."""
        return hasattr(record, "event") and bool(super().filter(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the event as a line of JSON."""
        kind, message = record.event  # type: ignore[attr-defined]
        time_us = int(record.created * 1e6)
        event = {"node": self._node, "kind": kind, "message": message, "time_us": time_us}
        return json.dumps(event)


def _remove_half_a_line(path: Path) -> None:
    if path.exists() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)
