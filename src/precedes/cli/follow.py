"""``precedes audit --follow``: the audit of a log while it is written."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from precedes.cli.formats import dialect_of
from precedes.cli.terminal import VERDICTS, show_text
from precedes.console import show
from precedes.errors import Exit, UserError
from precedes.model import printable
from precedes.provenance import made_by

if TYPE_CHECKING:
    from precedes.audit import Standing

WAITS_TOLD: Final = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the audit of a growing log."""
    parser.add_argument(
        "--follow",
        action="store_true",
        help="audit a log while it is written: members' logs, JSON lines, CSV; Ctrl-C ends it",
    )
    parser.add_argument(
        "--every", type=float, default=1.0, metavar="S", help="look for rows so often (1)"
    )
    parser.add_argument(
        "--idle", type=float, metavar="S", help="end after S seconds without a new byte (never)"
    )
    parser.add_argument(
        "--until-violated", action="store_true", help="end with the first violation"
    )


def run(options: argparse.Namespace) -> int:
    """Follow one log, and print a line for each change."""
    from precedes.audit import follow

    if len(options.path) != 1:
        raise UserError("one log can be followed at a time: a file, or a directory")
    verdict = "unknown"
    told = Told(is_json=options.json)
    with _stopping() as stopping:
        standings = follow(
            str(options.path[0]),
            format=options.format,
            every_s=options.every,
            work=options.work,
            dialect=dialect_of(options),
            idle_s=options.idle,
            witnesses=options.witnesses,
            fresh=options.fresh,
            is_stopped=lambda: bool(stopping),
        )
        for standing in standings:
            told.tell(standing)
            verdict = standing.report.verdict
            if options.until_violated and verdict == "violated":
                break
    return Exit.of(verdict)


class Told:
    """What was printed of a log so far: nothing is printed twice."""

    def __init__(self, *, is_json: bool, is_brief: bool = False) -> None:
        """``is_brief``: only when a violation is found, and not at the end."""
        self._is_json = is_json
        self._is_brief = is_brief
        self._last = ""
        self._verdict = ""
        self._sentences: set[str] = set()

    def tell(self, standing: Standing) -> None:
        """Print a line, and the witnesses that are new."""
        report = standing.report
        new = [w for w in report.witnesses if w.sentence not in self._sentences]
        self._sentences |= {witness.sentence for witness in new}
        is_news = bool(new) or (report.verdict == "violated") != (self._verdict == "violated")
        self._verdict = report.verdict
        if self._is_brief and (standing.is_final or not is_news):
            return
        if self._is_json:
            text = json.dumps({**as_json(standing), "precedes": made_by()})
        else:
            lines = [f"  - {printable(witness.sentence)}" for witness in new]
            text = "\n".join([_as_line(standing), *lines])
        if text != self._last:
            self._last = text
            show(text) if self._is_json else show_text(text, VERDICTS)


def as_json(standing: Standing) -> dict[str, Any]:
    """A standing as one object: what ``precedes audit --json`` prints, and how far it is."""
    from precedes.audit import to_json

    return {
        **to_json([standing.report]),
        "final": standing.is_final,
        "rows_read": standing.rows_read,
        "rows_judged": standing.rows_judged,
        "waiting": [wait._asdict() for wait in standing.waiting],
        "state_bytes": standing.state_bytes,
    }


def _as_line(standing: Standing) -> str:
    """A standing in a line."""
    from precedes.audit.causal_order import FINDINGS

    report = standing.report
    so_far = "" if standing.is_final or report.verdict == "violated" else " so far"
    parts = [f"{report.deliveries:,} deliveries"]
    for name, (one, many) in FINDINGS.items():
        if count := getattr(report, name):
            parts.append(f"{count:,} {one if count == 1 else many}")
    if not standing.is_final and standing.rows_judged < standing.rows_read:
        parts.append(f"{standing.rows_judged:,} of {standing.rows_read:,} rows judged")
    waits = [printable(str(wait)) for wait in standing.waiting]
    if len(waits) > WAITS_TOLD:
        waits[WAITS_TOLD:] = [f"{len(waits) - WAITS_TOLD} more wait"]
    return f"{report.verdict}{so_far}: {'; '.join([', '.join(parts), *waits])}"


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """A list that Ctrl-C puts something into, the first time: rows that are read are judged."""
    stopping: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)
        reset()

    def reset() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopping
    finally:
        reset()
