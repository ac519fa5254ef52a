"""The network of a run: laws of delay, measured latencies, and the arrays made of them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError, meant
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.sim.engine import network
from precedes.sim.engine.network import DELAY_NS_MIN, LOG_NS_MAX, Network
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
            values = np.exp(np.minimum(values, LOG_NS_MAX))
        return np.maximum(values.astype(np.int64), DELAY_NS_MIN)


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
        matrix_ns = _read_latency(path, scenario.nodes, generator, drawn, unit_ms=TABLES_MS[law])
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


def make_network(scenario: Scenario, delay: Delay) -> Network:
    """The network of a scenario."""
    n = scenario.nodes
    number = np.zeros(network.NUMBERS, np.float64)
    number[network.LOSS], number[network.DUPLICATION] = scenario.loss, scenario.duplication
    byte_ps = 0
    if scenario.bandwidth_bytes_per_s > 0:
        byte_ps = round(1e12 / scenario.bandwidth_bytes_per_s)
    queued = scenario.transmission_ms > 0 or byte_ps > 0
    cuts = any(item.kind == "cut" for item in scenario.faults)
    sends = any(item.after_sends for item in scenario.faults)
    special = queued or cuts or sends or scenario.fifo or scenario.loss or scenario.duplication
    setting = np.zeros(network.SETTINGS, np.int64)
    setting[network.FIFO] = scenario.fifo
    setting[network.PROCESSING_NS] = round(scenario.processing_ms * NANOSECONDS_PER_MS)
    setting[network.QUEUED] = queued
    setting[network.TRANSMISSION_NS] = round(scenario.transmission_ms * NANOSECONDS_PER_MS)
    setting[network.BYTE_PS] = byte_ps
    setting[network.PACKET_BYTES] = scenario.packet_bytes
    setting[network.PAYLOAD_BYTES] = scenario.payload_bytes
    setting[network.MTU_BYTES] = scenario.mtu_bytes
    setting[network.PLAIN] = not special
    links = (n, n) if scenario.fifo else (0, 0)
    return Network(
        number=number,
        setting=setting,
        delay_ns=np.zeros(0, np.int64),
        chance=np.zeros(0),
        matrix_ns=delay.matrix_ns,
        last_arrival_ns=np.zeros(links, np.int64),
        cut_until_ns=np.zeros((n, n) if cuts else (0, 0), np.int64),
        second_until_ns=np.zeros(n if queued else 0, np.int64),
    )


def _read_latency(
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
