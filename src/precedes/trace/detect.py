"""Loads a log of any format this package reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from precedes.model import UserError
from precedes.trace.history import History
from precedes.trace.importers.jsonl import GZIP_MAGIC, read_jsonl
from precedes.trace.members import holds_member_logs, read_members
from precedes.trace.reader import MAGIC, read_trace

BOM: Final = b"\xef\xbb\xbf"  # Windows editors put it before UTF-8
FORMATS: Final = ("auto", "precedes", "jsonl", "members")


def load(path: str | os.PathLike[str], format: str = "auto") -> list[History]:
    """The histories in a file; ``auto`` looks at how its content begins."""
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    if format == "auto":
        format = detect(path)
    if format == "members":
        return [read_members(path)]
    return read_trace(path) if format == "precedes" else [read_jsonl(path)]


def detect(path: str | os.PathLike[str]) -> str:
    """``precedes`` or ``jsonl``, by content; an empty file is a log without events.

    A directory of the logs of a live group's members is one log, ``members``.
    """
    if Path(path).is_dir() and holds_member_logs(Path(path)):
        return "members"
    try:
        with Path(path).open("rb") as file:
            opening = file.read(4096)
    except FileNotFoundError:
        raise UserError(f"there is no log {path}: check the path") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a directory: name the logs in it") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if opening.startswith(MAGIC):
        return "precedes"
    if opening.startswith(GZIP_MAGIC) or opening.removeprefix(BOM).strip()[:1] in (b"", b"{"):
        return "jsonl"
    raise UserError(f"{path} is neither a trace nor JSON lines: say which with --format")
