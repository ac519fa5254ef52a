"""What ``precedes sweep`` and ``precedes audit --master`` do, and what they print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from precedes.audit import Report
from precedes.cli.bar import Bar
from precedes.console import say, show
from precedes.errors import Exit

# Of the many metrics in the summary, those that are printed.
SHOWN: Final = {
    "violating_deliveries": "out of order",
    "delivery_ms_mean": "latency ms",
    "bytes_per_delivery": "bytes/delivery",
    "pending_max": "pending max",
}


def sweep(options: argparse.Namespace) -> int:
    """Sweep, print what came out, and return the exit status."""
    from precedes.pipeline.sweep import raise_failures, run_sweep
    from precedes.sim.experiment import from_file
    from precedes.sim.runs import warnings

    experiment = from_file(options.experiment)
    for line in dict.fromkeys(line for one in experiment.scenarios for line in warnings(one)):
        say(line)
    try:
        with Bar(f"sweep {experiment.name}") as bar:
            done = run_sweep(experiment, options.out, master=options.master, progress=bar.update)
    except KeyboardInterrupt:
        say(f"interrupted; finished runs are kept in {options.out}, and the same command goes on")
        return Exit.INTERRUPTED
    total = len({run.run_id for run in done.runs})
    summary = _summary(options.out)
    if options.json:
        show(
            json.dumps(
                {
                    "directory": str(options.out),
                    "runs": total,
                    "finished": len(done.found),
                    "kept": done.kept,
                    "failed": [asdict(failure) for failure in done.failures],
                    "summary": summary,
                }
            )
        )
    else:
        show(f"{total} runs, {done.kept} of them finished before, {len(done.failures)} failed")
        for line in _lines(summary):
            show(line)
        show(f"tables      {options.out}")
    raise_failures(done)
    return Exit.DONE


def _summary(directory: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(directory / "protocol_summary.parquet").to_pylist()
    return rows


def _lines(summary: Sequence[dict[str, Any]]) -> list[str]:
    """The metrics that are shown, a line a cell, as mean and half of the 95 % interval."""
    cells: dict[str, dict[str, str]] = {}
    for row in summary:
        cell = cells.setdefault(f"{row['protocol']} {row['params']}".strip(), {})
        if row["metric"] in SHOWN:
            half = "" if row["high"] is None else f" +- {row['high'] - row['mean']:.4g}"
            cell[row["metric"]] = f"{row['mean']:.6g}{half}"
    width = max((len(name) for name in cells), default=0)
    head = "".join(f"{title:>22}" for title in SHOWN.values())
    lines = [f"{'':{width}}{head}"]
    for name, cell in cells.items():
        lines.append(f"{name:{width}}" + "".join(f"{cell.get(m, '-'):>22}" for m in SHOWN))
    return lines


def audit_on_spark(paths: Sequence[Path], *, format: str, master: str | None) -> list[Report]:
    """The reports on logs, by Spark; ``events`` are tables that hold many runs in any order."""
    from precedes.pipeline.audit import audit_events, audit_files, check_tables, read_tables
    from precedes.pipeline.spark.session import open_session

    if format == "events":
        check_tables(paths)
    with Bar("audit") as bar, open_session(master=master) as spark:
        if format != "events":
            return audit_files(spark, paths, format=format, progress=bar.update)
        return audit_events(spark, read_tables(spark, paths))
