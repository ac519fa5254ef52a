"""``precedes export``."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from precedes.cli import common
from precedes.cli.common import option
from precedes.console import OutputFailed, phase, say
from precedes.errors import Exit, UserError
from precedes.stores import Address

if TYPE_CHECKING:
    import pyarrow as pa

    from precedes.audit import Witness
    from precedes.trace import History, Notes
    from precedes.trace.export import Mark, RunRows, Spot

TARGETS: Final = ("shiviz", "perfetto", "jsonl", "csv")
ROWS: Final = 25
WITNESSES_MAX: Final = 100
STANDARD: Final = Address.of("-")


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "export",
        _run,
        ("export examples/chat.jsonl --to shiviz", "to standard output"),
        ("export examples/chat.jsonl --to csv --out chat.csv", "to a file"),
        help="convert a log to ShiViz, Perfetto, JSON lines or CSV",
        description="Convert a log to another format, to a file or to standard output.",
    )
    option(parser, "path", "LOG", "a trace, a log, or -", Address.of)
    parser.add_argument("--to", required=True, choices=TARGETS)
    option(parser, "--out", "FILE", "output file (default: standard output)", Address.of, STANDARD)
    help = "shiviz, perfetto: only the surroundings of witness N"
    option(parser, "--around-witness", "N", help, int)
    option(parser, "--rows", "K", f"rows before and after each step of the witness ({ROWS})", int)
    common.add_format_options(parser)
    common.add_json(parser, help="with --out: print JSON about the file")


def _run(options: argparse.Namespace) -> int:
    from precedes.trace import Notes
    from precedes.trace.source import title_of

    if options.rows is not None and options.around_witness is None:
        raise UserError("--rows says how near to a finding: name one with --around-witness")
    if options.around_witness is not None and options.to not in TARGETS[:2]:
        raise UserError(f"--around-witness is for {' and '.join(TARGETS[:2])}: leave it out")
    if options.json and options.out == STANDARD:
        raise UserError("--json describes a file, but the log goes to standard output: add --out")
    common.format_noted(options.path, options.format, common.dialect_of(options))
    reader_notes = Notes()
    pieces = _begun(_pieces(options, title_of(options.path), reader_notes))
    if options.out == STANDARD:
        _to_standard_output(pieces)
    else:
        with phase(f"writing {options.out}"):
            size_bytes = _to_file(options.out, pieces)
    skipped = sum(reader_notes.skipped.values())
    if skipped:
        unit = "line or record" if skipped == 1 else "lines or records"
        verb = "was" if skipped == 1 else "were"
        say(f"{skipped:,} {unit} of {title_of(options.path)} {verb} skipped")
    notes = [note for several in reader_notes.doubts.values() for note in several]
    for note in notes:
        say(note)
    if options.json:
        common.show_json(
            {
                "log": title_of(options.path),
                "to": options.to,
                "out": str(options.out),
                "bytes": size_bytes,
                "skipped": skipped,
                "notes": notes,
            }
        )
    return Exit.DONE


def _pieces(options: argparse.Namespace, title: str, notes: Notes) -> Iterator[bytes]:
    from precedes.trace import event_batches
    from precedes.trace.export import to_csv, to_jsonl

    batches = event_batches(
        options.path, options.format, dialect=common.dialect_of(options), notes=notes
    )
    if options.to == "jsonl":
        return to_jsonl(batches, title=title)
    if options.to == "csv":
        return to_csv(batches, title=title)
    return _shown(options, title, batches, notes)


def _shown(
    options: argparse.Namespace, title: str, batches: Iterable[pa.RecordBatch], notes: Notes
) -> Iterator[bytes]:
    """The pieces for tools that draw a log, with the findings of the audit."""
    from precedes.trace import export
    from precedes.trace.sort.merge import histories

    limit = export.SHIVIZ_EVENTS_MAX if options.to == "shiviz" else export.PERFETTO_EVENTS_MAX
    around = options.around_witness
    table = export.table_of(batches, title=title, rows_max=limit if around is None else None)
    runs = export.runs_of(table)
    marks: list[Mark] = []
    if around is not None or options.to == "perfetto":
        marks = _marks(histories(table, notes, title=title, complete=options.complete))
    if around is not None:
        runs, marks = _near(
            runs, marks, around, title, ROWS if options.rows is None else options.rows
        )
    if options.to == "shiviz":
        return export.to_shiviz(runs, title=title)
    return export.to_perfetto(runs, marks)


def _near(
    runs: list[RunRows], marks: list[Mark], number: int, title: str, rows: int
) -> tuple[list[RunRows], list[Mark]]:
    if not 1 <= number <= len(marks):
        there = f"there are {len(marks)}" if marks else "there is none"
        raise UserError(f"the audit of {title} has no witness {number}: {there}")
    mark = marks[number - 1]
    chosen = [run.near(mark.spots, rows=rows) for run in runs if run.run_id == mark.run_id]
    return chosen, [mark]


def _marks(histories: Iterable[History]) -> list[Mark]:
    """The findings of the audit in the runs, for display."""
    from precedes.audit import audit
    from precedes.trace.export import Mark

    marks = []
    for history in histories:
        for witness in audit(history, witnesses=WITNESSES_MAX).witnesses:
            marks.append(
                Mark(
                    run_id=str(history.run_id),
                    kind=witness.kind,
                    sentence=witness.sentence,
                    node=witness.node_name,
                    message=witness.message_name,
                    spots=_spots(history, witness),
                )
            )
    return marks


def _spots(history: History, witness: Witness) -> tuple[Spot, ...]:
    """The path of a finding, and the positions of its messages at its node."""
    import numpy as np

    from precedes.trace.export import Spot

    path = [Spot(step.node_name, step.position) for step in witness.steps]
    here = history.message[history.rows_of(witness.node)]
    named = [witness.message, *([] if witness.earlier is None else [witness.earlier])]
    positions = np.flatnonzero(np.isin(here, named)).tolist()
    return (*path, *(Spot(witness.node_name, position) for position in positions))


def _begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, with the first ones made: most errors in a log are raised before it begins.

    Titles of columns are a piece, so that one is not enough.
    """
    first = list(itertools.islice(pieces, 2))
    return itertools.chain(first, pieces)


def _to_standard_output(pieces: Iterator[bytes]) -> None:
    try:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise OutputFailed(error) from None


def _to_file(path: Address, pieces: Iterator[bytes]) -> int:
    """Write the pieces atomically; return the number of bytes."""
    try:
        with path.aside() as temporary, temporary.open("wb") as file:
            size_bytes = 0
            for piece in pieces:
                size_bytes += file.write(piece)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write {path}: {reason}; choose another file") from None
    return size_bytes
