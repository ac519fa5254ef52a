"""A real causal graph to replay: who wrote what, after having seen what."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.sim.engine import workload


@dataclass(frozen=True)
class CausalGraph:
    """Events in file order; ``event`` has one row more, which ends the last one's children."""

    agents: int
    event: NDArray[np.int64]
    child: NDArray[np.int32]


def read_graph(path: Path) -> CausalGraph:
    """The graph of an editing trace: ``{"txns": [{"agent": 0, "parents": [..]}, ..]}``.

    An event is broadcast by its agent once the agent has delivered the event's parents; an
    agent's own events keep their order in the file, which is part of the causal order.
    """
    try:
        raw = path.read_bytes()
        table = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    except OSError as error:
        raise UserError(f"cannot read the graph in {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(table, dict) or not isinstance(table.get("txns"), list):
        raise UserError(f"{path} is no editing trace: it has no list 'txns'")
    return _graph(table["txns"], path)


def _graph(events: list[Any], path: Path) -> CausalGraph:
    children: list[list[int]] = [[] for _ in events]
    rows = np.zeros((len(events) + 1, 3), np.int64)
    previous: dict[int, int] = {}
    for number, event in enumerate(events):
        agent, parents = _read_event(event, number, path)
        waits = set(parents)
        if agent in previous:
            waits.add(previous[agent])
        previous[agent] = number
        rows[number, workload.AGENT] = agent
        rows[number, workload.MISSING] = len(waits)
        for parent in sorted(waits):
            children[parent].append(number)
    rows[1:, workload.FIRST_CHILD] = np.cumsum([len(row) for row in children], dtype=np.int64)
    flat = [child for row in children for child in row]
    agents = max(previous, default=-1) + 1
    return CausalGraph(agents=agents, event=rows, child=np.array(flat, np.int32))


def _read_event(event: Any, number: int, path: Path) -> tuple[int, list[int]]:
    try:
        agent, parents = event["agent"], event["parents"]
        valid = isinstance(agent, int) and 0 <= agent < 1 << 20
        valid = valid and all(isinstance(p, int) and 0 <= p < number for p in parents)
    except (TypeError, KeyError):
        valid = False
    if not valid:
        raise UserError(
            f"{path}: txns[{number}] needs an agent and parents among the events before it"
        )
    return agent, parents
