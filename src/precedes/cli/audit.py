"""``precedes audit``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from precedes.cli.common import add_json, add_master
from precedes.cli.terminal import VERDICTS, Bar, show_text
from precedes.console import show
from precedes.errors import Exit, UserError

if TYPE_CHECKING:
    from precedes.audit import Report
    from precedes.cli.common import Commands

FORMATS: Final = ("auto", "precedes", "jsonl", "members", "events")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="check causal order in logs, with a witness for what is wrong",
        description="Check causal order. Exit status 0: held, 1: violated, 3: unknown.",
    )
    parser.add_argument(
        "path",
        nargs="+",
        type=Path,
        help="traces, logs, directories of them, or - (standard input)",
    )
    parser.add_argument("--format", default="auto", choices=FORMATS)
    add_master(parser, help="use Spark, on this master")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from precedes.audit import to_json, to_text

    reports = _reports(options)
    combined = to_json(reports)
    if options.json:
        show(json.dumps(combined))
    else:
        show_text(to_text(reports).rstrip(), VERDICTS)
    return Exit.of(combined["verdict"])


def _reports(options: argparse.Namespace) -> list[Report]:
    """What the audit says of each run: few and small logs here, others on Spark."""
    from precedes.audit import audit
    from precedes.pipeline.audit import is_for_spark
    from precedes.pipeline.directory import logs_in
    from precedes.trace import load

    tables = options.format == "events"
    paths = options.path if tables else named_logs([logs_in(path) for path in options.path])
    if tables or is_for_spark(paths, master=options.master):
        return _on_spark(paths, format=options.format, master=options.master)
    reports = []
    with Bar("audit") as bar:
        for number, path in enumerate(paths):
            reports += [audit(history) for history in load(path, format=options.format)]
            bar.update((number + 1) / len(paths))
    return reports


def _on_spark(paths: Sequence[Path], *, format: str, master: str | None) -> list[Report]:
    """The reports on logs, by Spark; ``events`` are tables that hold many runs in any order."""
    from precedes.pipeline.audit import audit_events, audit_files, check_tables, read_tables
    from precedes.pipeline.spark.session import open_session

    if format == "events":
        check_tables(paths)
    with Bar("audit") as bar, open_session(master=master) as spark:
        if format != "events":
            return audit_files(spark, paths, format=format, progress=bar.update)
        return audit_events(spark, read_tables(spark, paths))


def named_logs(paths: list[Path]) -> list[Path]:
    """The files named, and those in the directories named."""
    from precedes.trace.members import holds_member_logs
    from precedes.trace.source import STANDARD_INPUT

    if paths.count(STANDARD_INPUT) > 1:
        raise UserError("standard input can be read only once: name - once")
    endings = (".parquet", ".jsonl", ".jsonl.gz")
    found: list[Path] = []
    for path in paths:
        # Path.is_dir raises for what may not be looked at.
        if os.path.isdir(path) and not holds_member_logs(path):
            inside = sorted(p for p in path.iterdir() if p.name.endswith(endings))
            if not inside:
                raise UserError(f"{path} holds no traces or logs ({', '.join(endings)})")
            found += inside
        else:
            found.append(path)
    return found
