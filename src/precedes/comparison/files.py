"""A comparison as files: a page, tables, and a diagram of one run of each row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from precedes.comparison import tables
from precedes.comparison.page import page
from precedes.pipeline.directory import make_folder, write_aside
from precedes.stores import Address, Place

if TYPE_CHECKING:
    from precedes.comparison.result import Comparison

INDEX: Final = "index.html"
VIEWS: Final = "views"
# A diagram shows what is worth seeing first; the whole trace is in ``runs``.
VIEW_EVENTS: Final = 10_000


def write_files(comparison: Comparison, out: Place, *, command: str = "") -> Address:
    """Write everything beside the runs, each file whole or not at all; where the page is."""
    folder = Address.of(out)
    make_folder(folder)
    links = _write_views(comparison, folder, command)
    texts = {
        "comparison.json": json.dumps(comparison.as_dict(), indent=1) + "\n",
        "table.md": comparison.to_markdown(),
        "table.tex": comparison.to_latex(),
        "table.csv": _csv(tables.flat(comparison)),
        "sizes.csv": _csv(_sizes(comparison)),
        "latency.csv": _csv(_latency(comparison)),
        INDEX: page(comparison, links=links, command=command),  # last: what it links to is there
    }
    for name, text in texts.items():
        write_aside(folder / name, text.encode())
    return folder / INDEX


def _write_views(comparison: Comparison, folder: Address, command: str) -> dict[str, str]:
    from precedes.viewer import write_view

    make_folder(folder / VIEWS)
    links = {}
    for row in comparison.rows:
        if row.trace is None or row.deliveries == 0:
            continue
        name = f"{VIEWS}/{re.sub(r'[^A-Za-z0-9+.-]+', '-', row.label).strip('-')}.html"
        write_view(Address.of(row.trace), folder / name, events=VIEW_EVENTS, command=command)
        links[row.label] = name
    return links


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _sizes(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "protocol": row.label,
            "nodes": point.nodes,
            "bytes_per_delivery": point.bytes_per_delivery,
            "packets_per_delivery": point.packets_per_delivery,
            "latency_p99_ms": point.latency_p99_ms,
        }
        for row in comparison.rows
        for point in row.points
    ]


def _latency(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {"protocol": row.label, "low_us": low, "high_us": high, "deliveries": count}
        for row in comparison.rows
        for low, high, count in row.histogram
    ]
