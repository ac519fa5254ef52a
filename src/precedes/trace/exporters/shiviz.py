"""Logs with vector clocks, for ShiViz and for all who read its format.

Every row is an event of its host: ``deliver 0:1``, and below it the host and its clock. A delivery
takes over the clock of the broadcast; other rows only count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.exporters.rows import RunRows, causal_order

EVENTS_MAX: Final = 100_000  # what a browser draws
ENTRIES_MAX: Final = 50_000_000  # of the clocks that wait for deliveries, four bytes each

# What reads the file again; ShiViz's own default does too, where no host has blanks in its name.
PARSER: Final = r"(?<event>(?<kind>\w+) ?(?<message>.*))\n(?<host>.+) (?<clock>\{.*\})"
DELIMITER: Final = r"^=== (?<trace>.*) ===$"


def to_shiviz(runs: Sequence[RunRows], *, title: str) -> Iterator[bytes]:
    """The events of the runs, in an order that extends causal order; a title before each run.

    A run alone that is called 0 has no title. Contradictory ones have no clocks and are refused,
    and so are names with line ends or without letters.
    """
    for run in runs:
        _check(run, title)
    for run in runs:
        if len(runs) > 1 or run.run_id != "0":
            yield f"=== {run.run_id} ===\n".encode()
        try:
            yield from _events(run)
        except UserError as error:
            raise UserError(f"{title}: {error}") from None


def _check(run: RunRows, title: str) -> None:
    if run.size > EVENTS_MAX or run.size * len(run.nodes) > ENTRIES_MAX:
        raise UserError(
            f"{title} has {run.size:,} events of {len(run.nodes):,} nodes, too many for clocks: "
            "export what is near a finding with `around_witness` 1"
        )
    messages = {
        row.message for rows in run.nodes.values() for row in rows if row.message is not None
    }
    for name in (run.run_id, *run.nodes, *messages):
        if not name or len(name.splitlines()) > 1 or name != name.strip():
            raise UserError(
                f"{title}: ShiViz cannot read the name '{printable(name)}' from a line: rename it"
            )


def _events(run: RunRows) -> Iterator[bytes]:
    number = {node: at for at, node in enumerate(run.nodes)}
    # No blank stands in a clock, so that the last one of a line is before it.
    names = [json.dumps(node).replace(" ", "\\u0020") for node in run.nodes]
    clocks = np.zeros((len(names), len(names)), np.int32)
    sent: dict[str | None, NDArray[np.int32]] = {}
    for node, at in causal_order(run):
        row = run.nodes[node][at]
        own = number[node]
        clock = clocks[own]
        if row.kind == "deliver" and row.message in sent:
            np.maximum(clock, sent[row.message], out=clock)
        clock[own] += 1
        if row.kind == "broadcast":
            sent[row.message] = clock.copy()
        entries = ",".join(f"{names[n]}:{clock[n]}" for n in np.flatnonzero(clock).tolist())
        event = row.kind if row.message is None else f"{row.kind} {row.message}"
        yield f"{event}\n{node} {{{entries}}}\n".encode()
