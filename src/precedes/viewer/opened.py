"""Opens a log of any format for a picture: its runs for the audit, its events for the eye."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import Dialect
from precedes.trace.members import holds_member_logs, join
from precedes.trace.opening import is_trace, open_rows
from precedes.trace.source import STANDARD_INPUT, Log, open_log, title_of
from precedes.viewer.events import Events, NamedEvents, TraceEvents
from precedes.viewer.judged import Judged, choose_run


class Opened(NamedTuple):
    """One run of a log."""

    events: Events
    judged: Judged


@contextlib.contextmanager
def opened(
    log: Log, format: str = "auto", *, dialect: Dialect | None = None, run: str | None = None
) -> Iterator[Opened]:
    """The run of a log that is to be shown, judged.

    What can be read only once is copied to a temporary file, and the logs of a live group's
    members are joined into one trace there; both are gone after the block.
    """
    title = title_of(log)
    with tempfile.TemporaryDirectory(prefix="precedes-view-") as folder:
        address, format = _again(log, format, Path(folder))
        runs = open_rows(address, format, dialect=dialect)
        judged = choose_run(runs, run, title=title)
        if format in ("auto", "precedes") and is_trace(address):
            number = int(judged.rows.run_id)
            events: Events = TraceEvents(address, title=title, run_id=number)
        else:
            events = NamedEvents(
                address,
                title=title,
                run_id=judged.rows.run_id,
                format=format,
                dialect=replace(dialect or Dialect(), pictured=True),
            )
        yield Opened(events, judged)


def _again(log: Log, format: str, folder: Path) -> tuple[Address, str]:
    """Where the log can be read as often as one likes, and in which format."""
    address = Address.of(log) if isinstance(log, str | os.PathLike) else None
    if address is not None and address != STANDARD_INPUT:
        if format == "members" or (
            format == "auto" and address.is_folder() and holds_member_logs(address)
        ):
            join(address, folder / "members.parquet")
            return Address.of(folder / "members.parquet"), "precedes"
        if address.is_folder() or address.is_file():
            return address, format
    copy = folder / "log"
    with open_log(log) as source:
        try:
            with copy.open("wb") as file:
                shutil.copyfileobj(source.stream, file)
        except OSError as error:
            raise UserError(
                f"cannot copy {source.title} to a temporary file: {error.strerror}; name a "
                "directory with room for it in TMPDIR"
            ) from None
    return Address.of(copy), format
