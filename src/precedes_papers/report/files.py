"""The files of a report. The same outcomes give the same bytes."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Sequence
from typing import Any, Final

from precedes.errors import InternalError, UserError
from precedes.pages.numbers import number
from precedes.stores import Address, Place
from precedes_papers.measured import Measured
from precedes_papers.outcome import Outcome, counts, statement_counts
from precedes_papers.report.claims import slug
from precedes_papers.report.page import Environment, page
from precedes_papers.rules import Claim, outcome_of, statements
from precedes_papers.shown import Figure, Published, Table

CLAIM_FIELDS: Final = (
    "item", "key", "published", "measured", "low", "high", "verdict", "size", "fitted",
    "rule", "reason", "experiments", "statement", "reading", "effect", "mark",
)  # fmt: skip
# Files of tables that a report wrote: others in the folder are not ours to remove.
OWN_TABLES: Final = re.compile(r"[0-9]{3}-[a-z0-9-]+\.csv")


def write_report(
    outcomes: Sequence[Outcome], directory: Place, *, environment: Environment | None = None
) -> Address:
    """Write statements.csv, claims.csv, runs.csv, tables/, timings.csv, summary.txt and the page.

    The address of the page, index.html, is returned. ``environment`` is what made the runs, this
    one if nothing is said.
    Everything is made before anything is written; every file is put whole.
    Tables that an earlier report left and this one does not have are removed.
    """
    directory = Address.of(directory)
    texts = {f"tables/{name}.csv": text for name, text in _tables(outcomes)}
    texts["claims.csv"] = claims_csv(outcomes)
    texts["statements.csv"] = _statements_csv(outcomes)
    texts["runs.csv"] = runs_csv(outcomes)
    texts["timings.csv"] = timings_csv(outcomes)
    texts["summary.txt"] = summary(outcomes)
    texts["index.html"] = page(outcomes, environment or Environment())
    try:
        (directory / "tables").make_folder()
        _write(texts, directory)
        for name in (directory / "tables").names():
            if OWN_TABLES.fullmatch(name) and f"tables/{name}" not in texts:
                (directory / "tables" / name).remove()
    except OSError as error:
        raise UserError(f"cannot write the report into {directory}: {error.strerror}") from None
    return directory / "index.html"


def _write(texts: dict[str, str], directory: Address) -> None:
    with contextlib.ExitStack() as stack:  # all are written before the first is put in place
        for path, text in ((directory / name, text) for name, text in texts.items()):
            stack.enter_context(path.aside()).write_text(text, encoding="utf-8", newline="")
            if path.is_folder():
                raise IsADirectoryError(0, f"{path} is a directory")


def claims_csv(outcomes: Sequence[Outcome]) -> str:
    """The claims, a line each, under the names of their fields."""
    rows = [
        [outcome.paper, *(getattr(claim, name) for name in CLAIM_FIELDS)]
        for outcome in outcomes
        for claim in outcome.claims
    ]
    return _csv(("paper", *CLAIM_FIELDS), rows)


def _statements_csv(outcomes: Sequence[Outcome]) -> str:
    """The published statements, a line each: the outcome, and the verdict under each reading."""
    rows = []
    for outcome in outcomes:
        for readings in statements(outcome.claims):
            said = "; ".join(
                f"{one.reading}: {one.said}" if one.reading else one.said for one in readings
            )
            met = sum(one.agrees for one in readings)
            first = readings[0]
            rows.append(
                [outcome.paper, first.item, first.statement, first.published,
                 outcome_of(readings), len(readings), met, said]
            )  # fmt: skip
    header = ("paper", "item", "statement", "published", "outcome", "readings", "met", "verdicts")
    return _csv(header, rows)


def runs_csv(outcomes: Sequence[Outcome]) -> str:
    """The runs of each experiment; a run's record is a file of its name."""
    rows = [
        [outcome.paper, origin.experiment, origin.run, origin.seed]
        for outcome in outcomes
        for origin in outcome.origins
    ]
    return _csv(("paper", "experiment", "run", "seed"), rows)


def timings_csv(outcomes: Sequence[Outcome]) -> str:
    """CPU time of the simulations of each experiment, in seconds."""
    rows = [
        [outcome.paper, timing.experiment, timing.runs, round(timing.cpu_s, 1)]
        for outcome in outcomes
        for timing in outcome.timings
    ]
    return _csv(("paper", "experiment", "runs", "cpu_s"), rows)


def summary(outcomes: Sequence[Outcome]) -> str:
    """The claims as text, with counts of statements by outcome and of claims by verdict."""
    lines = [
        f"statements: {_counted(statement_counts(outcomes))}",
        f"claims: {_counted(counts(outcomes))}",
    ]
    for outcome in outcomes:
        named = f"{outcome.reference.citation}: {outcome.reference.title}"
        lines += ["", f"{outcome.paper}  {named} ({outcome.scale}, {outcome.runs} runs)"]
        for claim in outcome.claims:
            lines.append(f"  {claim.said}: {claim.item}, {claim.key}: {_values(claim)}")
            if claim.reason:
                lines.append(f"      {claim.reason}")
            if claim.mark:
                lines.append(f"      {claim.mark}: {claim.fitted}")
    return "\n".join(lines) + "\n"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _values(claim: Claim) -> str:
    parts = []
    if claim.published is not None:
        parts.append(f"published {_number(claim.published)}")
    if claim.measured is not None:
        text = f"measured {_number(claim.measured)}"
        if claim.low is not None and claim.high is not None and claim.low != claim.high:
            text += f" ({number(claim.low)} to {number(claim.high)})"
        parts.append(text)
    return ", ".join(parts)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _tables(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Name and text of every file of a table, and of the points of every figure."""
    files = []
    for outcome in outcomes:
        texts = [(table.name, _table_csv(table)) for table in outcome.tables]
        texts += [(figure.name, _points_csv(figure)) for figure in outcome.figures]
        files += [(f"{outcome.paper}-{slug(name)}", text) for name, text in texts]
    names = [name for name, _ in files]
    for name in names:
        if names.count(name) > 1:
            raise InternalError(f"two tables would be written to {name}.csv")
    return files


def _table_csv(table: Table) -> str:
    """A measured column is followed by its bounds."""
    wide = [
        any(isinstance(row[place], Measured) for row in table.rows)
        for place in range(len(table.header))
    ]
    header = []
    for name, measured in zip(table.header, wide, strict=True):
        header += [name, f"{name}, low", f"{name}, high"] if measured else [name]
    rows = []
    for row in table.rows:
        cells: list[Any] = []
        for cell, measured in zip(row, wide, strict=True):
            low, high = (cell.interval if isinstance(cell, Measured) else None) or (None, None)
            cells += [_plain(cell), low, high] if measured else [_plain(cell)]
        rows.append(cells)
    return _csv(header, rows)


def _points_csv(figure: Figure) -> str:
    rows = [
        [series.label, series.kind, point.x, point.y, point.low, point.high]
        for series in figure.series
        for point in series.points
    ]
    return _csv(("series", "kind", figure.x_label, figure.y_label, "low", "high"), rows)


def _plain(cell: Any) -> Any:
    if isinstance(cell, Measured):
        return cell.mean
    return cell.value if isinstance(cell, Published) else cell


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_field(value) for value in row] for row in rows])
    return text.getvalue()


def _field(value: Any) -> str:
    """Ten digits: more than any count here has, and fewer than the last bits of a mean."""
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.10g}"
