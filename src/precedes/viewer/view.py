"""Makes a page from logs: read, audit, select, write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import numpy as np

from precedes.errors import UserError
from precedes.stores import Address, Place
from precedes.trace import Dialect
from precedes.trace.opening import Readable
from precedes.viewer.events import BROADCAST, Events
from precedes.viewer.opened import opened
from precedes.viewer.page import page
from precedes.viewer.picture import picture_of
from precedes.viewer.shown import Opening, show
from precedes.viewer.svg import svg
from precedes.viewer.window import Asked

TRACES_MAX = 2

NAMES_MAX: Final = 3
DRAWN: Final = ("seed", "workload", "rate", "messages", "duration_s", "skew")  # make broadcasts


class View(NamedTuple):
    """A page: its text, its opening window, and the head of each trace."""

    text: str
    opening: Opening
    traces: list[dict[str, Any]]


def view(
    sources: Readable | Sequence[Readable],
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
    asked = asked or Asked()
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
        shown = [first, *(show(run, asked, reference=first) for run in runs[1:])]
    text = page(shown, command=command)
    return View(text, first.opening, [one.packed.head for one in shown])


def picture(
    source: Readable,
    asked: Asked | None = None,
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
) -> str:
    """The small picture of one finding, or of a message and the one it waited for, as SVG."""
    asked = asked or Asked()
    with opened(source, format, dialect=dialect, run=asked.run) as run:
        return svg(picture_of(run, asked))


def html(sources: Readable | Sequence[Readable], **options: Any) -> str:
    """The page as text, for a notebook; options are those of ``Asked`` and of ``view``."""
    return _of_options(sources, options).text


def write_view(sources: Readable | Sequence[Readable], out: Place, **options: Any) -> View:
    """Write the page, whole or not at all; options are those of ``Asked`` and of ``view``."""
    new_view = _of_options(sources, options)
    write(out, new_view.text)
    return new_view


def _of_options(sources: Readable | Sequence[Readable], options: dict[str, Any]) -> View:
    chosen = {name: options.pop(name) for name in [*options] if name in Asked.__annotations__}
    return view(sources, Asked(**chosen), **options)


def write(out: Place, text: str) -> None:
    """Write a text atomically; a UserError if it cannot be written."""
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


def check_match(one: Events, other: Events) -> None:
    """Raise unless the nodes are the same, and the messages that each of them broadcast.

    A log that ends earlier than the other may lack the last messages of a node.
    """
    if set(one.nodes) != set(other.nodes):
        odd = sorted(set(one.nodes) ^ set(other.nodes))
        more = ", ..." if len(odd) > NAMES_MAX else ""
        raise UserError(
            f"{one.title} and {other.title} are not of one scenario: {len(one.nodes):,} and "
            f"{len(other.nodes):,} nodes, of which only one has {', '.join(odd[:NAMES_MAX])}{more}"
        )
    for name in DRAWN:
        mine, others = one.scenario.get(name), other.scenario.get(name)
        if one.scenario and other.scenario and mine != others:
            raise UserError(
                f"{one.title} and {other.title} are not of one scenario: {name} is {mine} in one "
                f"and {others} in the other"
            )
    first, second = _sent(one), _sent(other)
    for node in one.nodes:
        for a, b in zip(first.get(node, []), second.get(node, []), strict=False):
            if a != b:
                raise UserError(
                    f"{one.title} and {other.title} are not of one scenario: node {node} broadcast "
                    f"{a} in one and {b} in the other"
                )
    if not any(set(first.get(node, [])) & set(second.get(node, [])) for node in one.nodes):
        raise UserError(
            f"{one.title} and {other.title} are not of one scenario: no message is in both"
        )


def _sent(events: Events) -> dict[str, list[str]]:
    """The names of the messages that each node broadcast, in order."""
    broadcasts: dict[str, list[tuple[int, int]]] = {}
    for chunk in events.chunks():
        sent = chunk.at(np.flatnonzero(chunk.kind == BROADCAST))
        columns = (sent.node.tolist(), sent.local_seq.tolist(), sent.message.tolist())
        for node, local_seq, message in zip(*columns, strict=True):
            broadcasts.setdefault(events.nodes[node], []).append((local_seq, message))
    return {
        node: [events.name_of(message) for _, message in sorted(rows)]
        for node, rows in broadcasts.items()
    }
