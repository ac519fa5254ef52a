"""From logs to a page: read, judge, choose, write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from precedes.errors import UserError
from precedes.stores import Address, Place
from precedes.trace import Dialect
from precedes.trace.source import Log
from precedes.viewer.match import check_match
from precedes.viewer.opened import opened
from precedes.viewer.page import page
from precedes.viewer.picture import picture_of
from precedes.viewer.shown import Opening, Shown, show
from precedes.viewer.svg import svg
from precedes.viewer.window import Asked

TRACES_MAX = 2


class View(NamedTuple):
    """A page: its text, what it opens on, and what it says of each trace."""

    text: str
    opening: Opening
    traces: list[dict[str, Any]]


def view(
    sources: Log | Sequence[Log],
    asked: Asked | None = None,
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
    command: str = "",
) -> View:
    """The diagram of a log, or of two of one scenario in lockstep.

    A log is whatever ``precedes.trace.load`` takes. A log larger than memory is cut while it is
    read; more than ``asked.events`` events are cut to those around what is looked at.
    """
    shown = shown_of(sources, asked or Asked(), format=format, dialect=dialect)
    text = page(shown, command=command)
    return View(text, shown[0].opening, [one.packed.head for one in shown])


def shown_of(
    sources: Log | Sequence[Log], asked: Asked, *, format: str, dialect: Dialect | None
) -> list[Shown]:
    """What is shown of one log or two."""
    logs: list[Any] = [*sources] if isinstance(sources, list | tuple) else [sources]
    if not 1 <= len(logs) <= TRACES_MAX:
        raise UserError(f"a page shows one log, or two of one scenario, not {len(logs)}")
    with ExitStack() as stack:
        runs = [
            stack.enter_context(opened(log, format, dialect=dialect, run=asked.run)) for log in logs
        ]
        if len(runs) == TRACES_MAX:
            check_match(runs[0].events, runs[1].events)
        first = show(runs[0], asked)
        return [first, *(show(run, asked, beside=first) for run in runs[1:])]


def picture(
    source: Log,
    asked: Asked | None = None,
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
) -> str:
    """The small picture of one finding, or of a message and what it waited for, as SVG."""
    asked = asked or Asked()
    with opened(source, format, dialect=dialect, run=asked.run) as run:
        return svg(picture_of(run, asked))


def html(sources: Log | Sequence[Log], **options: Any) -> str:
    """The page as text, for a notebook; options are those of ``Asked`` and of ``view``."""
    return _of_options(sources, options).text


def write_view(sources: Log | Sequence[Log], out: Place, **options: Any) -> View:
    """Write the page, whole or not at all; options are those of ``Asked`` and of ``view``."""
    found = _of_options(sources, options)
    write(out, found.text)
    return found


def _of_options(sources: Log | Sequence[Log], options: dict[str, Any]) -> View:
    chosen = {name: options.pop(name) for name in [*options] if name in Asked.__annotations__}
    return view(sources, Asked(**chosen), **options)


def write(out: Place, text: str) -> None:
    """Put a text into its place, whole or not at all; a UserError if that cannot be."""
    address = Address.of(out)
    try:
        if address.is_folder():
            raise UserError(f"{address} is a directory: name a file in it")
        with address.aside() as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"cannot write {os.fspath(address)}: {reason}; choose another file"
        ) from None
