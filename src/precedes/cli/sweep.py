"""``precedes sweep``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from precedes.cli.common import add_json, add_out, add_spark, spark_of, spark_told
from precedes.cli.terminal import Bar, show_table
from precedes.console import say, show
from precedes.errors import Exit
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.cli.common import Commands

# Of the many metrics in the summary, those that are printed.
SHOWN: Final = {
    "violating_deliveries": "out of order",
    "delivery_ms_mean": "latency ms",
    "bytes_per_delivery": "bytes/delivery",
    "pending_max": "pending max",
}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "sweep",
        help="run an experiment file: protocols, parameters, seeds, on all cores or a cluster",
        description="Run a scenario file with a [sweep] table (see 'precedes docs pipeline') on "
        "Spark. The same command goes on after an interrupt. Exit status 3 if runs failed.",
    )
    parser.add_argument("experiment", type=Address.of, metavar="EXPERIMENT.toml")
    add_out(parser, help="for records, traces and tables")
    add_spark(parser, help="a Spark master (local[*]: all cores)")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from precedes.pipeline.sweep import raise_failures, run_sweep
    from precedes.sim.experiment import from_file
    from precedes.sim.runs import warnings

    experiment = from_file(options.experiment)
    for line in dict.fromkeys(line for one in experiment.scenarios for line in warnings(one)):
        say(line)
    try:
        with spark_told(options), Bar(f"sweep {experiment.name}") as bar:
            done = run_sweep(experiment, options.out, progress=bar.update, **spark_of(options))
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
        show_table(["", *SHOWN.values()], _cells(summary))
        show(f"tables      {options.out}")
    raise_failures(done)
    return Exit.DONE


def _summary(directory: Address) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    # In this thread alone: one of pyarrow's that still holds something of Python's when the
    # interpreter ends takes the process with it.
    with (
        (directory / "protocol_summary.parquet").open() as file,
        pq.ParquetFile(file, pre_buffer=False) as table,
    ):
        rows: list[dict[str, Any]] = table.read(use_threads=False).to_pylist()
    return rows


def _cells(summary: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The metrics that are shown, a row a cell, as mean and half of the 95 % interval."""
    cells: dict[str, dict[str, str]] = {}
    for row in summary:
        cell = cells.setdefault(f"{row['protocol']} {row['params']}".strip(), {})
        if row["metric"] in SHOWN:
            half = "" if row["high"] is None else f" +- {row['high'] - row['mean']:.4g}"
            cell[row["metric"]] = f"{row['mean']:.6g}{half}"
    return [[name, *(cell.get(metric, "-") for metric in SHOWN)] for name, cell in cells.items()]
