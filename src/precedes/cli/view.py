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
from precedes.cli.common import flag, option
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
EPOCH_US: Final = 1e14  # a later time is a date
SVG_HELP: Final = "write a small figure as SVG"


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "view",
        _run,
        ("view examples/chat.jsonl", "opens on the first violation"),
        ("view examples/waits.jsonl --around m2 --svg waits.svg", "a figure of one message"),
        help="write a space-time diagram as a standalone HTML page",
        description="Write a space-time diagram of a log, or of two logs of one scenario, as a "
        "standalone HTML page. It opens on the first violation or the busiest part.",
    )
    option(parser, "trace", "TRACE", "a trace, a log, or -", Address.of)
    option(parser, "other", "OTHER", "second log, shown in lockstep", Address.of, nargs="?")
    help = f"output page (default: name of the log with {ENDING})"
    option(parser, "--out", "FILE.html", help, Address.of)
    option(parser, "--svg", "FILE", SVG_HELP, Address.of)
    flag(parser, "--open", "open the page in the default browser")
    aim = parser.add_mutually_exclusive_group()
    option(aim, "--around", "NAME", "open on this message, such as 3:7")
    option(aim, "--violation", "K", "open on this finding of the audit, from 1", int)
    option(parser, "--from-ms", "A", "start time in milliseconds", _ms, dest="from_us")
    option(parser, "--to-ms", "B", "end time in milliseconds", _ms, dest="to_us")
    option(parser, "--nodes", "A,B,...", "only these nodes", common.listed, [], action="extend")
    help = f"maximum number of events in the page ({EVENTS:,})"
    option(parser, "--events", "N", help, int, EVENTS)
    option(parser, "--run", "ID", "run to show if the log has several", dest="run_id")
    common.add_format_options(parser)
    common.add_json(parser)


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
    if options.open and options.out is None and options.svg is not None:
        raise UserError("--open opens a page: name one with --out, or leave out --svg")
    if options.open and options.out is not None and not options.out.is_local:
        raise UserError(f"--open takes a page on this machine, not {options.out}")
    if STANDARD_INPUT in map(str, logs) and (len(logs) > 1 or (options.svg and options.out)):
        raise UserError("standard input can be read only once: name a file")
    chosen = {"nodes": tuple(options.nodes), "run": options.run_id}
    asked = Asked(**{**common.values_of(options, Asked), **chosen})
    dialect = common.dialect_of(options, pictured=True)
    read: dict[str, Any] = {"format": options.format, "dialect": dialect}
    for log in logs:
        common.format_noted(log, options.format, dialect)
    if options.svg is not None:
        if options.other is not None:
            raise UserError("a small picture is of one log: leave out the other, or --svg")
        with _reading(logs[0]):
            drawn = picture(logs[0], asked, **read)
    about: dict[str, Any] = {}
    lines: list[str] = []
    if options.out is not None or options.svg is None:
        with _reading(*logs):
            page = view(logs, asked, command=shlex.join(["precedes", *sys.argv[1:]]), **read)
        out = options.out or _page_name(logs)
        write(out, page.text)
        if options.open:
            _open(out)
        about, lines = _described(out, page), _as_text(out, page)
    if options.svg is not None:
        write(options.svg, drawn)
        about["svg"] = str(options.svg)
        lines.append(f"{options.svg}: a picture")
    return common.answer(options, about, "\n".join(lines))


def _reading(*logs: Address) -> AbstractContextManager[object]:
    """Show that logs are being read and judged, which takes a while for large ones."""
    return waiting.shown(f"reading {' and '.join(map(str, logs))}")


def _open(out: Address) -> None:
    import webbrowser

    url = _url(out)
    if url is None or not webbrowser.open(url):
        say(f"there is no browser to open {url} with: set BROWSER, or open it yourself")


def _url(out: Address) -> str | None:
    """The file URL of a page on this machine."""
    return out.local.resolve().as_uri() if out.is_local else None


def _page_name(logs: list[Address]) -> Address:
    """Default output path: in the current directory, named like the logs."""
    names = ["" if str(log) == STANDARD_INPUT else log.name.partition(".")[0] for log in logs]
    return Address.of("-".join(name or "log" for name in names) + ENDING)


def _described(out: Address, page: View) -> dict[str, Any]:
    """A page as JSON: its path, opening, contents and omissions."""
    kept = ("title", "protocol", "verdict", "summary", "events", "messages", "left_out")
    return {
        "path": str(out),
        "url": _url(out),
        "bytes": len(page.text.encode()),
        "opening": page.opening._asdict(),
        "traces": [{name: head[name] for name in kept} for head in page.traces],
    }


def _as_text(out: Address, page: View) -> list[str]:
    """The same as text."""
    opening = page.opening
    head = page.traces[0]
    if opening.violation is not None:
        one = head["violations"][opening.violation]
        part = f"violation {one['number']}: {one['sentence']}"
    elif opening.message is not None:
        part = "the message that was asked for"
    else:
        first, last = max(opening.from_us, head["begin_us"]), min(opening.to_us, head["end_us"])
        base = head["begin_us"] if head["begin_us"] > EPOCH_US else 0
        span = f"{(first - base) / 1000:,.1f} to {(last - base) / 1000:,.1f} ms"
        span += " after the first event" if base else ""
        if not head["has_time"]:
            span = f"steps {first / 1000:,.0f} to {last / 1000:,.0f}"
        part = f"{'what was' if opening.why == 'asked for' else 'the'} {opening.why}, {span}"
    left = [h["left_out"]["sentence"] for h in page.traces if h["left_out"] is not None]
    events = sum(h["events"] - h["edges"] for h in page.traces)
    size = len(page.text.encode()) / 1000
    count = "1 event" if events == 1 else f"{events:,} events"
    url = _url(out)
    return [f"{out}: {count}, {size:,.0f} kB", f"opens on {part}", *left, *([url] if url else [])]


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``check_pictures`` and ``write_pictures``."""
    help = "write a page that opens on the first violation ('precedes view')"
    option(parser, "--view", "FILE.html", help, Address.of)
    option(parser, "--svg", "FILE", SVG_HELP, Address.of)


def check_pictures(options: argparse.Namespace, *, follows: bool, is_table: bool) -> None:
    """Raise early for pictures that could not be drawn after the audit."""
    if options.view is None and options.svg is None:
        return
    if follows:
        raise UserError("a log that grows is not drawn: leave out --follow, or --view and --svg")
    if is_table:
        raise UserError("events that Spark reads are not drawn: leave out --view and --svg")
    if STANDARD_INPUT in map(str, options.path):
        raise UserError("standard input can be read only once: name a file for --view and --svg")


def write_pictures(options: argparse.Namespace, reports: Sequence[Report]) -> None:
    """Draw the first run that is violated, or the first; print its path."""
    if (options.view is None and options.svg is None) or not reports:
        return
    from precedes.viewer import Asked, picture, view, write

    wrong = [report for report in reports if report.verdict == "violated"]
    report = (wrong or reports)[0]
    log = Address.of(report.origin)
    asked = Asked(run=str(report.run_id))
    read = {"format": options.format, "dialect": common.dialect_of(options, pictured=True)}
    if options.view is not None:
        with _reading(log):
            page = view(log, asked, command=shlex.join(["precedes", *sys.argv[1:]]), **read)
        write(options.view, page.text)
        for line in _as_text(options.view, page):
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
