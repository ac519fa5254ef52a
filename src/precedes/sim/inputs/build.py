"""From a scenario to the arrays of a run: laws of delay, the network, faults."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError, meant
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS, NANOSECONDS_PER_S
from precedes.sim.engine import faults as fault
from precedes.sim.engine import network as net
from precedes.sim.inputs.latency import read_latency
from precedes.sim.scenario import Scenario

# Laws of delay, and how many parameters they take.
LAWS: Final = {
    "constant": 1,
    "uniform": 2,
    "loguniform": 2,
    "normal": 2,
    "lognormal": 2,
    "exponential": 1,
    "spiky": 2,
}
# Tables of round trips, by the unit that they are in.
TABLES_MS: Final = {"matrix": 1.0, "matrix_s": 1000.0}
SPIKE_SHARE: Final = 0.05  # of the packets under the law "spiky"
DELAY_HELP: Final = (
    "constant:MS, uniform:LOW:HIGH, loguniform:LOW:HIGH, normal:MEAN:SD, lognormal:MEDIAN:SIGMA, "
    "exponential:MEAN, spiky:MS:PEAK, matrix:FILE (in ms) or matrix_s:FILE (in s)"
)


@dataclass(frozen=True)
class Delay:
    """A law of delay with its parameters in ns (lognormal: of the logarithm), or a matrix."""

    law: str
    first: float = 0.0
    second: float = 0.0
    matrix_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def draw_ns(self, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
        """So many delays of a law that is not a matrix."""
        values = np.full(count, self.first)
        if self.law == "uniform":
            values += (self.second - self.first) * generator.random(count)
        elif self.law == "exponential":
            values *= generator.standard_exponential(count)
        elif self.law in ("normal", "lognormal"):
            values += self.second * generator.standard_normal(count)
        elif self.law == "loguniform":
            values *= (self.second / self.first) ** generator.random(count)
        elif self.law == "spiky":
            values[generator.random(count) < SPIKE_SHARE] = self.second
        if self.law == "lognormal":
            values = np.exp(np.minimum(values, net.LOG_NS_MAX))
        return np.maximum(values.astype(np.int64), net.DELAY_NS_MIN)


def numbers_of(text: str, *, what: str, count: int, help_text: str) -> tuple[str, list[float]]:
    """``name:1:2`` as its name and ``count`` numbers."""
    name, *rest = text.split(":")
    try:
        values = [float(part) for part in rest]
    except ValueError:
        values = []
    if len(values) != count or not all(0 <= value < 1e12 for value in values):
        raise UserError(f"{what} {text!r} is not understood: use {help_text}")
    return name, values


def make_delay(scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]) -> Delay:
    """The law of delay of a scenario; what is drawn or chosen is noted in ``drawn``."""
    law = scenario.delay.split(":")[0]
    if law in TABLES_MS:
        path = Path(scenario.delay.partition(":")[2])
        matrix_ns = read_latency(path, scenario.nodes, generator, drawn, unit_ms=TABLES_MS[law])
        return Delay("matrix", matrix_ns=matrix_ns)
    if law not in LAWS:
        hint = meant(law, (*LAWS, *TABLES_MS))
        raise UserError(f"delay {scenario.delay!r} is not understood{hint}: use {DELAY_HELP}")
    count = LAWS[law]
    _, values = numbers_of(scenario.delay, what="delay", count=count, help_text=DELAY_HELP)
    if max(values) > DELAY_MS_MAX:
        raise UserError(f"delay {scenario.delay!r} is too long: at most {DELAY_MS_MAX:g} ms")
    first = values[0] * NANOSECONDS_PER_MS
    second = values[1] * NANOSECONDS_PER_MS if count == 2 else 0.0
    if law == "lognormal":
        if values[0] <= 0:
            raise UserError("the median of a lognormal delay must be above 0")
        first, second = float(np.log(first)), values[1]
    if law == "loguniform" and values[0] <= 0:
        raise UserError("the lower bound of a loguniform delay must be above 0")
    if law in ("uniform", "loguniform") and second < first:
        raise UserError(f"delay {scenario.delay!r}: the lower bound comes first")
    delay = Delay(law, first, second)
    if scenario.per == "use":
        return delay
    n = scenario.nodes
    matrix = delay.draw_ns(generator, n * n).reshape(n, n)
    drawn["link_ms"] = _summary_ms(matrix)
    return Delay("matrix", matrix_ns=matrix)


def _summary_ms(matrix: NDArray[np.int64]) -> dict[str, float]:
    links = matrix[~np.eye(len(matrix), dtype=bool)] / NANOSECONDS_PER_MS
    low, middle, high = np.quantile(links, [0, 0.5, 1])
    return {"min": float(low), "median": float(middle), "max": float(high)}


def make_network(scenario: Scenario, delay: Delay) -> net.Network:
    """The network of a scenario."""
    n = scenario.nodes
    number = np.zeros(net.NUMBERS, np.float64)
    number[net.LOSS], number[net.DUPLICATION] = scenario.loss, scenario.duplication
    byte_ps = 0
    if scenario.bandwidth_bytes_per_s > 0:
        byte_ps = round(1e12 / scenario.bandwidth_bytes_per_s)
    queued = scenario.transmission_ms > 0 or byte_ps > 0
    cuts = any(item.kind == "cut" for item in scenario.faults)
    sends = any(item.after_sends for item in scenario.faults)
    careful = queued or cuts or sends or scenario.fifo or scenario.loss or scenario.duplication
    setting = np.zeros(net.SETTINGS, np.int64)
    setting[net.FIFO] = scenario.fifo
    setting[net.PROCESSING_NS] = round(scenario.processing_ms * NANOSECONDS_PER_MS)
    setting[net.QUEUED] = queued
    setting[net.TRANSMISSION_NS] = round(scenario.transmission_ms * NANOSECONDS_PER_MS)
    setting[net.BYTE_PS] = byte_ps
    setting[net.PACKET_BYTES] = scenario.packet_bytes
    setting[net.PAYLOAD_BYTES] = scenario.payload_bytes
    setting[net.MTU_BYTES] = scenario.mtu_bytes
    setting[net.PLAIN] = not careful
    links = (n, n) if scenario.fifo else (0, 0)
    return net.Network(
        number=number,
        setting=setting,
        delay_ns=np.zeros(0, np.int64),
        chance=np.zeros(0),
        matrix_ns=delay.matrix_ns,
        last_arrival_ns=np.zeros(links, np.int64),
        cut_until_ns=np.zeros((n, n) if cuts else (0, 0), np.int64),
        aside_until_ns=np.zeros(n if queued else 0, np.int64),
    )


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
) -> fault.Faults:
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
                rows.append([fault.CRASH, at_ns, item.node, 0, 0])
        elif item.kind == "pause":
            rows.append([fault.PAUSE, at_ns, item.node, 0, until_ns])
        else:
            pairs = [(a, b) for a in item.nodes for b in item.others if a != b]
            pairs += [(b, a) for a, b in pairs] if item.both_ways else []
            for pair in pairs:
                cuts.setdefault(pair, []).append(Cut(at_ns, until_ns, item.holds))
    for (a, b), of_link in cuts.items():
        rows += [[fault.CUT, at_ns, a, b, end_ns] for at_ns, end_ns in _cut_in_turn(of_link)]
    return fault.Faults(
        schedule=np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 5),
        detection_ns=detection_ns,
    )
