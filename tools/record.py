"""Reproduces all papers at full length and keeps the small files of it: `make record`.

    python -m tools.record [OUT] [--kept]

OUT, by default build/record, has the runs; stopped at any place and called again, it goes on there.
What is kept goes into docs/record: the claims, the page and its tables, what it took, by which
versions, and the pictures of docs/findings.md. With --kept nothing is run: the page is made again
from the runs that docs/record/environment.json names by the digest of their sources.
"""

import argparse
import datetime
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from precedes.errors import UserError
from precedes.pages.charts import picture
from precedes.pipeline.plan import expand
from precedes.progress import ProgressBar
from precedes.provenance import versions
from precedes.sim.experiment import Experiment
from precedes_papers.outcome import Outcome, counts, reproduce, statement_counts
from precedes_papers.report import Environment, write_report

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "record"
FILES = ("statements.csv", "claims.csv", "runs.csv", "timings.csv", "summary.txt", "index.html")
# The pictures of docs/findings.md: paper and figure.
PICTURES = {"packets.svg": ("000", "Packets saved"), "latency.svg": ("001", "Figure 3, latency")}
COMMAND = "precedes reproduce --full --out build/record"


class Clock:
    """The time it took in all, through stops and kills."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before_s = float(path.read_text()) if path.exists() else 0.0
        self.began_s = time.monotonic()

    def note(self) -> float:
        """The seconds until now, which are kept."""
        seconds = self.before_s + time.monotonic() - self.began_s
        aside = self.path.with_suffix(".aside")
        aside.write_text(f"{seconds:.0f}\n")
        aside.replace(self.path)
        return seconds


def kept_runs(folder: Path) -> Any:
    """A runner that reads the records of finished runs, whatever code made them."""

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


def keep(outcomes: list[Outcome], out: Path, seconds: float, environment: Environment) -> None:
    """Put the small files of a report into the repository."""
    shutil.rmtree(KEPT, ignore_errors=True)
    shutil.copytree(out / "tables", KEPT / "tables")
    for name in FILES:
        shutil.copyfile(out / name, KEPT / name)
    made = json.dumps(asdict(environment), indent=2)
    (KEPT / "environment.json").write_text(f"{made}\n", encoding="utf-8")
    figures = {(one.paper, figure.name): figure for one in outcomes for figure in one.figures}
    for name, which in PICTURES.items():
        (KEPT / name).write_text(picture(figures[which]), encoding="utf-8")
    about = about_record(outcomes, seconds, environment)
    KEPT.with_suffix(".md").write_text(about, encoding="utf-8")


def about_record(outcomes: list[Outcome], seconds: float, environment: Environment) -> str:
    """The page of the record: what was run, what it took, and what came of it."""
    cpu_s = sum(timing.cpu_s for one in outcomes for timing in one.timings)
    runs = sum(outcome.runs for outcome in outcomes)
    made = dict(environment.versions)
    if made["sources"] != versions()["sources"]:
        made["page made again by sources"] = versions()["sources"]
    tables = (
        ("outcome", "statements", statement_counts(outcomes)),
        ("verdict", "claims", counts(outcomes)),
        ("what", "version", {name: text or "not installed" for name, text in made.items()}),
    )
    rows = []
    for first, second, values in tables:
        rows += [f"| {first} | {second} |", "| --- | --- |"]
        rows += [*(f"| {name} | {value} |" for name, value in values.items()), ""]
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
            "reading, [summary.txt](record/summary.txt) the same for reading,"
            " [runs.csv](record/runs.csv) the runs, [timings.csv](record/timings.csv) what each"
            " experiment took; [findings.md](findings.md) tells what came of it.",
            "",
            *rows,
        ]
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Reproduce everything and keep its small files.")
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "build" / "record")
    parser.add_argument("--kept", action="store_true", help="run nothing, make the page anew")
    options = parser.parse_args()
    out: Path = options.out
    if options.kept:
        made = json.loads((KEPT / "environment.json").read_text(encoding="utf-8"))
        environment = Environment(**made)
        runner = kept_runs(out / "runs" / made["versions"]["sources"][:12])
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
