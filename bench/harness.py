"""Shared code of benchmarks: options, interleaved repeats, child processes, the history.

A shared machine is slow for minutes at a time, so all rows of a question take turns, and the
result of a run is the ratio between them: bench/history.csv, a line for each ratio and commit.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Measured code is compiled from the first event on.
os.environ.setdefault("PRECEDES_TIER", "compiled")

HISTORY = ROOT / "bench" / "history.csv"


def interleaved(rows: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list]:
    """The result of each row, in each repeat; a row that cannot run here returns None."""
    found = {name: [] for name in rows}
    for _ in range(repeats):
        for name, run in rows.items():
            if (value := run()) is not None:
                found[name].append(value)
    return found


def compared(rates: Mapping[str, list[float]], reference: str) -> dict[str, dict[str, float]]:
    """Best and median of each row, and the median as a multiple of the reference's."""
    base = statistics.median(rates[reference])
    return {
        name: {
            "best": max(values),
            "median": statistics.median(values),
            "ratio": statistics.median(values) / base,
        }
        for name, values in rates.items()
    }


def ratios_of(rows: Mapping[str, dict[str, float]], reference: str) -> dict[str, float]:
    """The ratios of ``compared``, without the one that is 1 by definition."""
    return {name: row["ratio"] for name, row in rows.items() if name != reference}


def peak_mib() -> float:
    """The peak memory of this process, in MiB.

    ``getrusage`` does not help here: its peak includes that of the parent before the fork.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def alone(file: str, what: object, *, environment: Mapping[str, str] | None = None) -> dict:
    """The result of ``child`` of a benchmark, in a process of its own.

    Call it while this process is small: a child's peak memory counts its parent's at the fork.
    """
    command = [sys.executable, file, "--child", str(what)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main(
    file: str,
    text: str,
    *,
    measure: Callable[..., dict],
    show: Callable[[dict], None],
    ratios: Callable[[dict], Mapping[str, float]],
    child: Callable[[str], dict] | None = None,
    holds: Callable[[dict], bool] = lambda report: True,
) -> None:
    """Run a benchmark as a command; exit status 1 if a promise does not hold.

    ``measure(quick=...)`` gives the report, ``ratios`` the part for the history.
    """
    parser = argparse.ArgumentParser(description=text.partition("\n")[0], allow_abbrev=False)
    scale = parser.add_mutually_exclusive_group()  # a smoke test is not recorded
    scale.add_argument("--quick", action="store_true", help="small runs, once each: a smoke test")
    scale.add_argument("--record", action="store_true", help=f"append ratios to {HISTORY.name}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", metavar="WHAT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None and child is not None:
        print(json.dumps(child(options.child)))
        return
    report = measure(quick=options.quick)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    if options.record:
        record(Path(file).stem, ratios(report))
    sys.exit(not holds(report))


def record(question: str, ratios: Mapping[str, float]) -> None:
    """Add lines to the history, for the commit that is checked out; ``+`` if it was edited."""
    commit = _git("rev-parse", "--short=7", "HEAD") or "unknown"
    # Except the history itself: the questions of `make bench` are recorded one by one.
    if _git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", f":!{HISTORY.relative_to(ROOT)}"
    ):
        commit += "+"
    is_new = not HISTORY.exists()
    with HISTORY.open("a", newline="", encoding="utf-8") as out:
        rows = csv.writer(out, lineterminator="\n")
        if is_new:
            rows.writerow(("commit", "question", "ratio"))
        rows.writerows(
            (commit, f"{question}: {name}", f"{ratio:.3g}") for name, ratio in ratios.items()
        )


def _git(*arguments: str) -> str:
    """Output of git about the repository; empty if there is none."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
