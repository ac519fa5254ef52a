"""Measured latencies: a square table of round-trip times as delays of links."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.sim.engine.network import DELAY_NS_MIN


def read_latency(
    path: Path,
    nodes: int,
    generator: np.random.Generator,
    drawn: dict[str, Any],
    *,
    unit_ms: float,
) -> NDArray[np.int64]:
    """One-way delays in ns between ``nodes`` hosts drawn from a table of round trips.

    The table is text, a row a line, in units of ``unit_ms``, gzipped or not. Zeros off the diagonal
    are missing measurements: the reverse direction stands in, else the median of the table.
    """
    table = _read_table(path)
    if len(table) < nodes:
        raise UserError(f"{path} has {len(table)} hosts, fewer than the {nodes} nodes asked for")
    hosts = np.sort(generator.choice(len(table), nodes, replace=False))
    chosen = table[np.ix_(hosts, hosts)]
    measured = table[table > 0]
    off_diagonal = ~np.eye(nodes, dtype=bool)
    missing = (chosen <= 0) & off_diagonal
    filled = np.where(missing, chosen.T, chosen)
    filled = np.where((filled <= 0) & off_diagonal, np.median(measured), filled)
    if filled.max() * unit_ms > DELAY_MS_MAX:
        raise UserError(f"{path} has round trips of more than {DELAY_MS_MAX:g} ms")
    one_way_ns = (filled * unit_ms * NANOSECONDS_PER_MS / 2).astype(np.int64)
    drawn["latency"] = {
        "hosts": hosts.tolist(),
        "missing_links": int(missing.sum()),
        "unit_ms": unit_ms,
    }
    return np.maximum(one_way_ns, DELAY_NS_MIN)


def _read_table(path: Path) -> NDArray[np.float64]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("ascii")
        rows = [
            [float(cell) for cell in line.replace(",", "\t").split()]
            for line in text.splitlines()
            if line.strip()
        ]
        table = np.array(rows, np.float64)
    except OSError as error:
        raise UserError(f"cannot read the latencies in {path}: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise UserError(
            f"{path} is not a table of numbers, one row of round trips a line"
        ) from None
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise UserError(f"{path} is not a square table of round-trip times")
    if not np.isfinite(table).all() or (table < 0).any() or not (table > 0).any():
        raise UserError(f"{path} holds negative or infinite times, or none at all")
    return table
