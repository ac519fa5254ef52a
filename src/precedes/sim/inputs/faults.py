"""The fault schedule of a run: crashes and how they are noticed, pauses, cut links."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S
from precedes.sim.engine import faults
from precedes.sim.engine.faults import Faults
from precedes.sim.scenario import Scenario


class Cut(NamedTuple):
    """A time in which a link is cut; packets wait for its end (``holds``) or are lost."""

    at_ns: int
    until_ns: int
    holds: bool


def _cut_in_turn(cuts: list[Cut]) -> list[tuple[int, int]]:
    """Cuts of one link that may overlap, as the times and ends of cuts that follow one another.

    While one of them loses packets, they are lost; a packet that waits, waits for the end of all
    that hold it. An end is negative if packets wait for it.
    """
    held: list[tuple[int, int]] = []
    for at_ns, until_ns in sorted((cut.at_ns, cut.until_ns) for cut in cuts if cut.holds):
        if held and at_ns <= held[-1][1]:
            held[-1] = (held[-1][0], max(held[-1][1], until_ns))
        else:
            held.append((at_ns, until_ns))
    found: list[tuple[int, int]] = []
    edges = sorted({edge for cut in cuts for edge in (cut.at_ns, cut.until_ns)})
    for at_ns, next_ns in itertools.pairwise(edges):
        if any(not cut.holds and cut.at_ns <= at_ns < cut.until_ns for cut in cuts):
            end_ns = next_ns
        else:
            end_ns = -max((until for since, until in held if since <= at_ns < until), default=0)
        if end_ns:
            found.append((at_ns, end_ns))
    return found


def make_faults(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Faults:
    """The fault schedule of a scenario, with the detection delays drawn."""
    n = scenario.nodes
    rows: list[list[int]] = []
    cuts: dict[tuple[int, int], list[Cut]] = {}
    crashes = any(item.kind == "crash" for item in scenario.faults)
    detection_ns = np.zeros((n, n) if crashes else (0, 0), np.int64)
    for item in scenario.faults:
        at_ns = round(item.at_s * NANOSECONDS_PER_S)
        until_ns = at_ns + round(item.for_s * NANOSECONDS_PER_S)
        if item.kind == "crash":
            low, high = (value * NANOSECONDS_PER_MS for value in item.detection_ms)
            detection_ns[item.node] = generator.uniform(low, high, n).astype(np.int64)
            drawn.setdefault("detection_ms", {})[item.node] = (
                detection_ns[item.node] / NANOSECONDS_PER_MS
            ).tolist()
            if not item.after_sends:
                rows.append([faults.CRASH, at_ns, item.node, 0, 0])
        elif item.kind == "pause":
            rows.append([faults.PAUSE, at_ns, item.node, 0, until_ns])
        else:
            pairs = [(a, b) for a in item.nodes for b in item.others if a != b]
            pairs += [(b, a) for a, b in pairs] if item.both_ways else []
            for pair in pairs:
                cuts.setdefault(pair, []).append(Cut(at_ns, until_ns, item.holds))
    for (a, b), of_link in cuts.items():
        rows += [[faults.CUT, at_ns, a, b, end_ns] for at_ns, end_ns in _cut_in_turn(of_link)]
    return Faults(
        schedule=np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 5),
        detection_ns=detection_ns,
    )
