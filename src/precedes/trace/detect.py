"""Loads a log of any format this package reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from precedes.errors import UserError
from precedes.trace.history import History
from precedes.trace.importers.jsonl import BOM, GZIP_MAGIC, read_lines
from precedes.trace.members import holds_member_logs, read_members
from precedes.trace.reader import MAGIC, read_opened
from precedes.trace.source import Log, Source, open_log

FORMATS: Final = ("auto", "precedes", "jsonl", "members")


def load(log: Log, format: str = "auto") -> list[History]:
    """The histories in a log; ``auto`` looks at how its content begins.

    A log is a path (pipes too), ``-`` for standard input, or a file object opened in binary mode.
    A directory of the logs of a live group's members is one log, ``members``; an empty file is a
    log without events.
    """
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    if isinstance(log, str | os.PathLike):
        directory = os.path.isdir(log) and holds_member_logs(Path(log))
        if format == "members" or (format == "auto" and directory):
            return [read_members(log)]
    elif format == "members":
        raise UserError("the logs of members are a directory: give its path")
    with open_log(log) as source:
        if format == "auto":
            format = _format_of(source)
        return read_opened(source) if format == "precedes" else [read_lines(source)]


def _format_of(source: Source) -> str:
    opening = source.opening
    if opening.startswith(MAGIC):
        return "precedes"
    if opening.startswith(GZIP_MAGIC) or opening.removeprefix(BOM).strip()[:1] in (b"", b"{"):
        return "jsonl"
    raise UserError(f"{source.title} is neither a trace nor JSON lines: say which with --format")
