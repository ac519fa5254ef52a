"""``precedes view``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from precedes import waiting
from precedes.cli import common
from precedes.cli.formats import add_format_options, dialect_of, format_noted
from precedes.console import say
from precedes.errors import UserError
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.audit import Report
    from precedes.viewer import View

EVENTS: Final = 100_000  # that of `precedes.viewer`, which would take its time to import
ENDING: Final = ".view.html"
STANDARD_INPUT: Final = "-"
MS_MAX: Final = 1e12


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "view",
        help="draw who told whom what, and when: a page that opens from disk",
        description="Write the space-time diagram of a log, or of two of one scenario, as a page. "
        "It opens on the first violation, or where most happens.",
        epilog=common.examples(
            ("view examples/chat.jsonl", "a page that opens on what is wrong"),
            ("view examples/waits.jsonl --around m2 --svg waits.svg", "a message and its wait"),
        ),
    )
    parser.add_argument("trace", type=Address.of, metavar="TRACE", help="a trace, a log, or -")
    parser.add_argument(
        "other", type=Address.of, nargs="?", metavar="OTHER", help="one to set beside it, in step"
    )
    parser.add_argument(
        "--out",
        type=Address.of,
        metavar="FILE.html",
        help=f"the page (the log's name with {ENDING}, here; one that is there is replaced)",
    )
    _add_svg(parser)
    _add_choice(parser)
    add_format_options(parser)
    common.add_json(parser)
    parser.set_defaults(run=_run)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """What is to be seen, by the fields of ``Asked``."""
    aim = parser.add_mutually_exclusive_group()
    aim.add_argument("--around", metavar="NAME", help="open on this message, such as 3:7")
    aim.add_argument(
        "--violation", type=int, metavar="K", help="open on this finding of the audit, from 1"
    )
    parser.add_argument("--from-ms", dest="from_us", type=_ms, metavar="A", help="begin here")
    parser.add_argument("--to-ms", dest="to_us", type=_ms, metavar="B", help="end here")
    parser.add_argument(
        "--nodes",
        type=common.listed,
        action="extend",
        default=[],
        metavar="A,B,...",
        help="only these nodes",
    )
    parser.add_argument(
        "--events",
        type=int,
        default=EVENTS,
        metavar="N",
        help=f"hold at most so many events ({EVENTS:,}); the page says what it leaves out",
    )
    parser.add_argument("--run", dest="run_id", metavar="ID", help="of a log with several runs")


def _ms(text: str) -> int:
    """Milliseconds as microseconds, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = MS_MAX * 2
    if not abs(value) <= MS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds")
    return round(value * 1000)


def _run(options: argparse.Namespace) -> int:
    from precedes.viewer import Asked, picture, view, write

    logs = [options.trace, *([] if options.other is None else [options.other])]
    if STANDARD_INPUT in map(str, logs) and (len(logs) > 1 or (options.svg and options.out)):
        raise UserError("standard input can be read only once: name a file")
    chosen = {"nodes": tuple(options.nodes), "run": options.run_id}
    asked = Asked(**{**common.given_of(options, Asked), **chosen})
    dialect = dialect_of(options, pictured=True)
    read: dict[str, Any] = {"format": options.format, "dialect": dialect}
    for log in logs:
        format_noted(log, options.format, dialect)
    if options.svg is not None:
        if options.other is not None:
            raise UserError("a small picture is of one log: leave out the other, or --svg")
        with _reading(logs[0]):
            drawn = picture(logs[0], asked, **read)
    about: dict[str, Any] = {}
    lines: list[str] = []
    if options.out is not None or options.svg is None:
        with _reading(*logs):
            found = view(logs, asked, command=shlex.join(["precedes", *sys.argv[1:]]), **read)
        out = options.out or _page_name(logs)
        write(out, found.text)
        about, lines = _described(out, found), _told(out, found)
    if options.svg is not None:
        write(options.svg, drawn)
        about["svg"] = str(options.svg)
        lines.append(f"{options.svg}: a picture")
    return common.answer(options, about, "\n".join(lines))


def _reading(*logs: Address) -> AbstractContextManager[object]:
    """Show that logs are read and judged, which takes a while for large ones."""
    return waiting.shown(f"reading {' and '.join(map(str, logs))}")


def _page_name(logs: list[Address]) -> Address:
    """Default output path: in the current directory, named like the logs."""
    names = ["" if str(log) == STANDARD_INPUT else log.name.partition(".")[0] for log in logs]
    return Address.of("-".join(name or "log" for name in names) + ENDING)


def _described(out: Address, found: View) -> dict[str, Any]:
    """A page for programs: where it is, what it opens on, what it holds and what it lacks."""
    kept = ("title", "protocol", "verdict", "summary", "events", "messages", "left_out")
    return {
        "path": str(out),
        "bytes": len(found.text.encode()),
        "opening": found.opening._asdict(),
        "traces": [{name: head[name] for name in kept} for head in found.traces],
    }


def _told(out: Address, found: View) -> list[str]:
    """The same for people."""
    opening = found.opening
    head = found.traces[0]
    if opening.violation is not None:
        one = head["violations"][opening.violation]
        what = f"violation {one['number']}: {one['sentence']}"
    elif opening.message is not None:
        what = "the message that was asked for"
    else:
        first, last = max(opening.from_us, head["begin_us"]), min(opening.to_us, head["end_us"])
        span = f"{first / 1000:,.1f} to {last / 1000:,.1f} ms"
        what = f"{'the ' if opening.why == 'busiest window' else 'what was '}{opening.why}, {span}"
    left = [h["left_out"]["sentence"] for h in found.traces if h["left_out"] is not None]
    events = sum(h["events"] for h in found.traces)
    size = len(found.text.encode()) / 1000
    return [f"{out}: {events:,} events, {size:,.0f} kB", f"opens on {what}", *left]


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Pages and pictures of what an audit found, for ``check_pictures`` and ``write_pictures``."""
    parser.add_argument(
        "--view",
        type=Address.of,
        metavar="FILE.html",
        help="write a page that opens on the first violation ('precedes view')",
    )
    _add_svg(parser)


def _add_svg(parser: argparse.ArgumentParser) -> None:
    """The small picture."""
    parser.add_argument(
        "--svg", type=Address.of, metavar="FILE", help="write a small picture of it, as SVG"
    )


def check_pictures(options: argparse.Namespace, *, follows: bool, is_table: bool) -> None:
    """Refuse early what could not be drawn after the audit."""
    if options.view is None and options.svg is None:
        return
    if follows:
        raise UserError("a log that grows is not drawn: leave out --follow, or --view and --svg")
    if is_table:
        raise UserError("events that Spark reads are not drawn: leave out --view and --svg")
    if STANDARD_INPUT in map(str, options.path):
        raise UserError("standard input can be read only once: name a file for --view and --svg")


def write_pictures(options: argparse.Namespace, reports: Sequence[Report]) -> None:
    """Draw the first run that is violated, or the first; say where it is."""
    if (options.view is None and options.svg is None) or not reports:
        return
    from precedes.viewer import Asked, picture, view, write

    wrong = [report for report in reports if report.verdict == "violated"]
    report = (wrong or reports)[0]
    log = Address.of(report.origin)
    asked = Asked(run=str(report.run_id))
    read = {"format": options.format, "dialect": dialect_of(options, pictured=True)}
    if options.view is not None:
        with _reading(log):
            found = view(log, asked, command=shlex.join(["precedes", *sys.argv[1:]]), **read)
        write(options.view, found.text)
        for line in _told(options.view, found):
            say(line)
    if options.svg is not None:
        try:
            drawn = picture(log, asked, **read)
        except UserError as error:
            if wrong:
                raise
            say(f"{options.svg} is not written: {error}")
            return
        write(options.svg, drawn)
        say(f"{options.svg}: a picture")
