"""Reproduces all papers at full length and keeps its small files: `make record`.

    python -m tools.record [OUT] [--kept]

OUT, by default build/record, has the runs; stopped at any place and called again, it resumes.
The claims, the page and its tables, the versions, the pictures of docs/findings.md, and the
results of a few cheap runs, which a test repeats, go into docs/record. With --kept nothing is run:
the page is made again from the runs that docs/record/environment.json names by the digest of their
sources.
"""

import argparse
import datetime
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from precedes.audit import audit
from precedes.errors import UserError
from precedes.pages.charts import picture
from precedes.pipeline.execute import counts_and_findings
from precedes.pipeline.plan import PlannedRun, expand
from precedes.progress import ProgressBar
from precedes.provenance import versions
from precedes.sim import simulate
from precedes.sim.experiment import Experiment
from precedes.trace import read_trace
from precedes_papers.outcome import Outcome, counts, reproduce, statement_counts
from precedes_papers.registry import load
from precedes_papers.report import Environment, write_report
from precedes_papers.report.claims import Index
from precedes_papers.report.tables import body
from precedes_papers.rules import OUTCOMES, expected_false
from precedes_papers.shown import Table

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "record"
REPEATED = KEPT / "repeated.json"
FILES = ("statements.csv", "claims.csv", "index.html")
# The pictures of docs/findings.md: paper and figure.
PICTURES = {"packets.svg": ("000", "Packets saved"), "latency.svg": ("001", "Figure 3, latency")}
# Tables that docs/record.md shows, by paper: those of readings next to what is published.
TABLES = {"004": "Section V-A, 5.6 per s", "002": "Figure 10, phases"}
COMMAND = "precedes reproduce --full --out build/record"
# Cheap runs of each paper: an experiment, and the place of a scenario in it.
CHEAP = {
    "000": (("with-a", 60), ("alone-c", 60), ("shared-b", 0), ("packets-a", 0)),
    "001": (("trees", 2), ("one-crash", 6), ("crashes", 31), ("traced", 0)),
    "002": (("theorem-1", 0), ("guarantees", 0), ("guarantees", 3), ("bytes", 1)),
    "003": (("sizes", 0), ("sizes", 9), ("figure-1-peeling", 0)),
    "004": (("size", 0), ("static", 0), ("static", 120), ("lives", 0)),
}
# Of a result: what was asked for, and what depends on the machine.
NO_RESULT = frozenset({"scenario", "cpu_s", "wall_s", "tier"})
# Sums of the same numbers in another order.
SAME = 1e-9


class Clock:
    """The total time, across stops and kills."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before_s = float(path.read_text()) if path.exists() else 0.0
        self.began_s = time.monotonic()

    def note(self) -> float:
        """The seconds until now, which are stored."""
        seconds = self.before_s + time.monotonic() - self.began_s
        aside = self.path.with_suffix(".aside")
        aside.write_text(f"{seconds:.0f}\n")
        aside.replace(self.path)
        return seconds


def kept_runs(folder: Path) -> Any:
    """A runner that reads the records of finished runs, made by any code."""

    def run(experiments: Sequence[Experiment], *_: Any, **__: Any) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {experiment.name: [] for experiment in experiments}
        for planned in expand(experiments):
            path = folder / "records" / f"{planned.name}.json"
            if not path.exists():
                raise UserError(f"{path} is missing: a run that the papers ask for was not kept")
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["digest"] != planned.digest:
                raise UserError(f"{path} is of another scenario than the papers ask for")
            trace = str(folder / "traces" / f"{planned.name}.parquet") if planned.trace else None
            kept = {**record["result"], "trace": trace, "audit": record["audit"]}
            found[planned.experiment].append(kept)
        return found

    return run


def runs_in(out: Path, environment: Environment) -> Path:
    """The directory of the runs, named by the digest of the sources that made them."""
    return out / "runs" / (environment.versions["sources"] or "")[:12]


def cheap_runs() -> Iterator[tuple[str, PlannedRun]]:
    """Names and plans of the runs that are repeated, as the papers ask for them now."""
    for number, chosen in CHEAP.items():
        experiments = {one.name: one for one in load(number).experiments("full")}
        for name, place in chosen:
            (planned,) = (one for one in expand([experiments[name]]) if one.number == place)
            yield f"{number}-{name}-{place}", planned


def result_of(result: dict[str, Any], counted: dict[str, Any] | None) -> dict[str, Any]:
    """Result of a run, without what depends on the machine, and the counts of its audit."""
    found = {name: value for name, value in result.items() if name not in NO_RESULT}
    if counted is not None:
        found["audit"] = {name: value for name, value in counted.items() if name != "findings"}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def repeat(planned: PlannedRun) -> dict[str, Any]:
    """Run it here."""
    if not planned.trace:
        return result_of(simulate(planned.scenario, tier="interpreted").as_dict(), None)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "run.parquet"
        result = simulate(
            planned.scenario, trace=trace, packets=planned.packets, tier="interpreted"
        )
        (history,) = read_trace(trace)
        return result_of(result.as_dict(), counts_and_findings(audit(history), history))


def differences(recorded: Any, found: Any, name: str = "") -> list[str]:
    """The values that are not as recorded, a line each. A counter that is new is ignored."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return [
            line
            for key in recorded
            for line in differences(recorded[key], found.get(key), f"{name}.{key}".lstrip("."))
        ]
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        pairs = enumerate(zip(recorded, found, strict=True))
        return [line for n, pair in pairs for line in differences(*pair, f"{name}[{n}]")]
    if isinstance(recorded, float) and isinstance(found, float):
        is_same = math.isclose(recorded, found, rel_tol=SAME)
    else:
        is_same = recorded == found
    return [] if is_same else [f"{name}: recorded {recorded}, now {found}"]


def recorded_runs(folder: Path) -> dict[str, Any]:
    """Results of the cheap runs, by name, from the records of a reproduction."""
    found = {}
    for name, planned in cheap_runs():
        record = json.loads((folder / "records" / f"{planned.name}.json").read_text("utf-8"))
        found[name] = result_of(record["result"], record["audit"])
    return found


def keep(outcomes: list[Outcome], out: Path, seconds: float, environment: Environment) -> None:
    """Put the small files of a report into the repository."""
    repeated = recorded_runs(runs_in(out, environment))
    shutil.rmtree(KEPT, ignore_errors=True)
    shutil.copytree(out / "tables", KEPT / "tables")
    for name in FILES:
        shutil.copyfile(out / name, KEPT / name)
    REPEATED.write_text(f"{json.dumps(repeated, indent=1)}\n", encoding="utf-8")
    made = json.dumps(asdict(environment), indent=2)
    (KEPT / "environment.json").write_text(f"{made}\n", encoding="utf-8")
    figures = {(one.paper, figure.name): figure for one in outcomes for figure in one.figures}
    for name, which in PICTURES.items():
        (KEPT / name).write_text(picture(figures[which]), encoding="utf-8")
    about = about_record(outcomes, seconds, environment)
    KEPT.with_suffix(".md").write_text(about, encoding="utf-8")


def shown(outcome: Outcome, table: Table) -> list[list[str]]:
    """A table of a paper as text, a reading a line, each value with its interval."""
    rows = [
        [f"{cell.text} ({cell.interval})" if cell.interval else cell.text for cell in cells]
        for cells in body(Index(outcome), table)
    ]
    every = [list(table.header), *rows]
    return [list(column) for column in zip(*every, strict=True)] if table.by_row else every


def lines(rows: Sequence[Sequence[object]]) -> list[str]:
    """A table in Markdown, with an empty line after it."""
    text = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return [text[0], "| --- " * len(rows[0]) + "|", *text[1:], ""]


def about_record(outcomes: list[Outcome], seconds: float, environment: Environment) -> str:
    """The page of the record: runs, duration, results."""
    cpu_s = sum(timing.cpu_s for one in outcomes for timing in one.timings)
    runs = sum(outcome.runs for outcome in outcomes)
    made = dict(environment.versions)
    if made["sources"] != versions()["sources"]:
        made["page made again by sources"] = versions()["sources"]
    intervals, by_chance = expected_false(claim for one in outcomes for claim in one.claims)
    rows = [
        "Published statements by outcome:",
        "",
        *lines(
            [
                ["paper", *OUTCOMES],
                *([one.reference.citation, *statement_counts([one]).values()] for one in outcomes),
                ["all", *statement_counts(outcomes).values()],
            ]
        ),
        f"Claims, a statement under a reading each. Of {intervals:,} values judged by a 95 % "
        f"interval, about {by_chance:.0f} differ by chance if all are reproduced.",
        "",
        *lines([["verdict", "claims"], *map(list, counts(outcomes).items())]),
    ]
    for one in outcomes:
        for table in one.tables:
            if TABLES.get(one.paper) == table.name:
                rows += [f"{one.reference.citation}, {table.name}. {table.note}".strip(), ""]
                rows += lines(shown(one, table))
    rows += lines(
        [["what", "version"], *([n, text or "not installed"] for n, text in made.items())]
    )
    return "\n".join(
        [
            "# Record of a full reproduction",
            "",
            f"Made by `{COMMAND}` (`make record`) on {environment.date}: {runs:,} runs, "
            f"{cpu_s / 60:.0f} minutes of CPU time in simulations, {seconds / 60:.0f} minutes from "
            f"begin to end, on a machine ({environment.machine}) with other work.",
            "",
            "[index.html](record/index.html) is the page, [statements.csv](record/statements.csv) "
            "every published statement, [claims.csv](record/claims.csv) each of them under each "
            "reading. [findings.md](findings.md) summarizes the results. "
            "[repeated.json](record/repeated.json) has the results of a few cheap runs of each "
            "paper: `make test` repeats them, and fails if they differ.",
            "",
            *rows,
        ]
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Reproduce everything and keep its small files.")
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "build" / "record")
    parser.add_argument("--kept", action="store_true", help="run nothing, rewrite the page")
    options = parser.parse_args()
    out: Path = options.out
    if options.kept:
        made = json.loads((KEPT / "environment.json").read_text(encoding="utf-8"))
        environment = Environment(**made)
        runner = kept_runs(runs_in(out, environment))
        outcomes = reproduce([], directory=out, scale="full", runner=runner)
        seconds = float((out / "seconds.txt").read_text())
    else:
        out.mkdir(parents=True, exist_ok=True)
        clock = Clock(out / "seconds.txt")
        with ProgressBar("record") as bar:

            def progress(share: float) -> None:
                clock.note()
                bar(share)

            outcomes = reproduce([], directory=out, scale="full", progress=progress)
        environment = Environment(command=COMMAND, date=f"{datetime.date.today()}")
        seconds = clock.note()
    write_report(outcomes, out, environment=environment)
    keep(outcomes, out, seconds, environment)
    print(f"kept in {KEPT}")


if __name__ == "__main__":
    main()
