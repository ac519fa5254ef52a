"""``precedes sweep``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from precedes.cli import common
from precedes.cli.common import option
from precedes.cli.terminal import show_table
from precedes.console import note, phase, say, show
from precedes.errors import Exit
from precedes.progress import ProgressBar
from precedes.stores import Address

# Of the many metrics in the summary, those that are printed.
SHOWN: Final = {
    "violating_deliveries": "out of order",
    "delivery_ms_mean": "latency, ms",
    "bytes_per_delivery": "bytes/delivery",
    "pending_max": "pending, messages",
}


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "sweep",
        _run,
        ("sweep experiments/sweep.toml --out out", "on all cores"),
        ("sweep experiments/sweep.toml --out out --master local[2]", "two cores, on Spark"),
        help="run all scenarios of an experiment file",
        description="Run all scenarios of an experiment file, a scenario file with a [sweep] "
        "table (see 'precedes docs sweeps'). The same command resumes after an interrupt. Exit "
        "status 3 if runs failed.",
    )
    option(parser, "experiment", "EXPERIMENT.toml", None, Address.of)
    help = "directory for records, traces and tables"
    option(parser, "--out", "DIR", help, common.folder, required=True)
    common.add_spark(parser, help="run on this Spark master (local[*]: all cores)")
    common.add_json(parser)


def _run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from precedes.pipeline.sweep import raise_failures, run_sweep
    from precedes.sim.experiment import from_file
    from precedes.sim.runs import warnings

    experiment = from_file(options.experiment)
    for line in dict.fromkeys(line for one in experiment.scenarios for line in warnings(one)):
        say(line)
    note(f"{options.experiment}: {len(experiment.scenarios):,} runs")
    label = f"sweep {experiment.name}"
    with (
        common.kept_in(options.out),
        common.spark_reported(options),
        phase(label),
        ProgressBar(label) as bar,
    ):
        done = run_sweep(experiment, options.out, progress=bar, **common.spark_of(options))
    note(f"{len(done.records):,} runs are finished, {done.kept:,} of them before this")
    total = len({run.run_id for run in done.runs})
    summary = _summary(options.out)
    if options.json:
        common.show_json(
            {
                "directory": str(options.out),
                "runs": total,
                "finished": len(done.records),
                "kept": done.kept,
                "failed": [asdict(failure) for failure in done.failures],
                "summary": summary,
            }
        )
    else:
        failed = len(done.failures)
        show(f"{total:,} runs, {done.kept:,} of them finished before, {failed:,} failed")
        show_table(["", *SHOWN.values()], _cells(summary))
        if any(row["high"] is not None for row in summary):
            show("means over seeds, +- half of the 95 % interval")
        show(f"tables      {options.out}")
    raise_failures(done)
    return Exit.DONE


def _summary(directory: Address) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    # In this thread alone: a thread of pyarrow that still holds a Python object when the
    # interpreter ends aborts the process.
    with (
        (directory / "protocol_summary.parquet").open() as file,
        pq.ParquetFile(file, pre_buffer=False) as table,
    ):
        rows: list[dict[str, Any]] = table.read(use_threads=False).to_pylist()
    return rows


def _cells(summary: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The displayed metrics, a row a cell, as mean and half of the 95 % interval."""
    names = list(dict.fromkeys(_name(row) for row in summary))
    columns = []
    for metric in SHOWN:
        rows = {_name(row): row for row in summary if row["metric"] == metric}
        shown = dict(zip(rows, _column(list(rows.values())), strict=True))
        columns.append([shown.get(name, "-") for name in names])
    return [[name, *cells] for name, *cells in zip(names, *columns, strict=True)]


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['protocol']} {row['params']}".strip()


def _column(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Means in one notation, with their intervals below each other."""
    halves = [None if row["high"] is None else row["high"] - row["mean"] for row in rows]
    values = [*(row["mean"] for row in rows), *(half for half in halves if half is not None)]
    decimals = 0 if all(float(value).is_integer() for value in values) else 2
    texts = ["" if half is None else f"{half:,.{decimals}f}" for half in halves]
    width = max(map(len, texts), default=0)
    return [
        f"{row['mean']:,.{decimals}f}" + (f" +- {text:>{width}}" if width else "")
        for row, text in zip(rows, texts, strict=True)
    ]
