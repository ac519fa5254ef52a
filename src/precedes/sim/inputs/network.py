"""The network of a run: laws of delay, measured latencies, and the arrays made of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes import delays
from precedes.delays import Delay, Matrix
from precedes.errors import InternalError, UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.sim.engine import network
from precedes.sim.engine.network import DELAY_NS_MIN, LOG_NS_MAX, Network
from precedes.sim.inputs import normals
from precedes.sim.scenario import Scenario

SPIKE_SHARE: Final = 0.05  # of the packets under the law "spiky"


def draw_ns(
    law: Delay, generator: np.random.Generator, count: int, *, many: bool = False
) -> NDArray[np.int64]:
    """So many delays of a law that is not a matrix; ``many`` if compiled code is worth it."""
    match law:
        case delays.LogUniform(low_ms, high_ms):  # a uniform one, too
            values = _ns(low_ms) * (_ns(high_ms) / _ns(low_ms)) ** generator.random(count)
        case delays.Uniform(low_ms, high_ms):
            values = _ns(low_ms) + (_ns(high_ms) - _ns(low_ms)) * generator.random(count)
        case delays.Normal():
            return normals.draw_ns(
                generator,
                count,
                mean_ns=_ns(law.mean_ms),
                deviation_ns=_ns(law.deviation_ms),
                least_ns=DELAY_NS_MIN,
                compile_it=many,
            )
        case delays.LogNormal():
            logarithms = np.log(_ns(law.median_ms)) + law.sigma * generator.standard_normal(count)
            values = np.exp(np.minimum(logarithms, LOG_NS_MAX))
        case delays.Exponential():
            values = _ns(law.mean_ms) * generator.standard_exponential(count)
        case delays.Spiky():
            values = np.full(count, _ns(law.usual_ms))
            values[generator.random(count) < SPIKE_SHARE] = _ns(law.peak_ms)
        case delays.Constant():
            values = np.full(count, _ns(law.always_ms))
        case _:
            raise InternalError(f"nobody draws {law}")
    return np.maximum(values.astype(np.int64), DELAY_NS_MIN)


def _ns(delay_ms: float) -> float:
    """Milliseconds in nanoseconds, unrounded."""
    return delay_ms * NANOSECONDS_PER_MS


def _make_matrix(
    law: Delay, scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> NDArray[np.int64]:
    """The delay of each link, if it has one for good; what is drawn is noted in ``drawn``."""
    n = scenario.nodes
    if isinstance(law, Matrix):
        return _read_latency(law.path, n, generator, drawn, unit_ms=law.UNIT_MS)
    if scenario.per == "use":
        return np.zeros((0, 0), np.int64)
    matrix = draw_ns(law, generator, n * n).reshape(n, n)
    drawn["link_ms"] = _summary_ms(matrix)
    return matrix


def _summary_ms(matrix: NDArray[np.int64]) -> dict[str, float]:
    links = matrix[~np.eye(len(matrix), dtype=bool)] / NANOSECONDS_PER_MS
    low, middle, high = np.quantile(links, [0, 0.5, 1])
    return {"min": float(low), "median": float(middle), "max": float(high)}


def make_network(
    scenario: Scenario, law: Delay, generator: np.random.Generator, drawn: dict[str, Any]
) -> Network:
    """The network of a scenario; what is drawn or chosen for it is noted in ``drawn``."""
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
        matrix_ns=_make_matrix(law, scenario, generator, drawn),
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
