"""The network of a run and its faults: laws of delay, measured latencies, fault schedules."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, delays
from precedes.delays import Delay, Matrix
from precedes.errors import InternalError, UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS, NANOSECONDS_PER_S
from precedes.sim.engine import network
from precedes.sim.engine.network import DELAY_NS_MIN, LOG_NS_MAX, Network
from precedes.sim.engine.world import CRASH, CUT, PAUSE, Faults
from precedes.sim.scenario import Scenario

SPIKE_SHARE: Final = 0.05  # of the packets under the law "spiky"

# Number of delays above which compiled code draws them: it takes a second to compile, once on a
# machine, and a tenth of one to load.
MANY: Final = 4_000_000


def fill(
    generator: np.random.Generator, delay_ns: NDArray[np.int64], mean_ns: float, deviation_ns: float
) -> None:
    """Fill an array with normal delays, from NumPy's own stream of numbers.

    Compiled, it gets the numbers that NumPy would have filled an array with, to the last bit and
    with the generator left in the same state, in two fifths of the time: drawing was a fifth of a
    long run.
    """
    for i in range(delay_ns.size):
        drawn_ns = int(mean_ns + deviation_ns * generator.standard_normal())
        delay_ns[i] = max(drawn_ns, DELAY_NS_MIN)


ENTRY: Final = compiled.Entry(fill, label="the drawing of delays")


def draw_ns(
    law: Delay, generator: np.random.Generator, count: int, *, many: bool = False
) -> NDArray[np.int64]:
    """This many delays of a law that is not a matrix; ``many`` if compiled code is worth it."""
    match law:
        case delays.LogUniform(low_ms, high_ms):  # a uniform one, too
            values = _ns(low_ms) * (_ns(high_ms) / _ns(low_ms)) ** generator.random(count)
        case delays.Uniform(low_ms, high_ms):
            values = _ns(low_ms) + (_ns(high_ms) - _ns(low_ms)) * generator.random(count)
        case delays.Normal() if many:
            delay_ns = np.empty(count, np.int64)
            arguments = (generator, delay_ns, _ns(law.mean_ms), _ns(law.deviation_ms))
            ENTRY.prepare(None, (), *arguments)(*arguments)
            return delay_ns
        case delays.Normal():
            values = generator.standard_normal(count) * _ns(law.deviation_ms) + _ns(law.mean_ms)
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
            raise InternalError(f"no function draws {law}")
    return np.maximum(values.astype(np.int64), DELAY_NS_MIN)


def _ns(delay_ms: float) -> float:
    """Milliseconds in nanoseconds, unrounded."""
    return delay_ms * NANOSECONDS_PER_MS


def _make_matrix(
    law: Delay, scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> NDArray[np.int64]:
    """Delays that are drawn once for many packets; random choices are noted in ``drawn``."""
    n = scenario.nodes
    if isinstance(law, Matrix):
        if scenario.per in ("message", "node"):
            raise UserError(f"a matrix has delays of links: leave out per = {scenario.per!r}")
        return _read_latency(law.path, n, generator, drawn, unit_ms=law.UNIT_MS)
    if scenario.per == "use":
        return np.zeros((0, 0), np.int64)
    if scenario.per == "message":
        count = network.MESSAGE_DELAYS
        return draw_ns(law, generator, n * count).reshape(n, count)
    if scenario.per == "node":
        matrix = np.repeat(draw_ns(law, generator, n)[:, None], n, axis=1)
    else:
        matrix = draw_ns(law, generator, n * n).reshape(n, n)
    links = matrix[~np.eye(n, dtype=bool)] / NANOSECONDS_PER_MS
    low, middle, high = np.quantile(links, [0, 0.5, 1])
    drawn["link_ms"] = {"min": float(low), "median": float(middle), "max": float(high)}
    return matrix


def make_network(
    scenario: Scenario, law: Delay, generator: np.random.Generator, drawn: dict[str, Any]
) -> Network:
    """The network of a scenario; random choices are noted in ``drawn``."""
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
    setting[network.PER_MESSAGE] = scenario.per == "message"
    setting[network.PLAIN] = not special and not setting[network.PER_MESSAGE]
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
        raise UserError(f"{path} has {len(table)} hosts, fewer than the {nodes} nodes requested")
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


class Cut(NamedTuple):
    """A time in which a link is cut; packets wait for its end (``holds``) or are lost."""

    at_ns: int
    until_ns: int
    holds: bool


def _cut_in_turn(cuts: list[Cut]) -> list[tuple[int, int]]:
    """Cuts of one link that may overlap, as the times and ends of cuts that follow one another.

    While one of them loses packets, they are lost; packets that wait do so for the end of all
    cuts that hold them. An end is negative if packets wait for it.
    """
    held: list[tuple[int, int]] = []
    for at_ns, until_ns in sorted((cut.at_ns, cut.until_ns) for cut in cuts if cut.holds):
        if held and at_ns <= held[-1][1]:
            held[-1] = (held[-1][0], max(held[-1][1], until_ns))
        else:
            held.append((at_ns, until_ns))
    spans: list[tuple[int, int]] = []
    edges = sorted({edge for cut in cuts for edge in (cut.at_ns, cut.until_ns)})
    for at_ns, next_ns in itertools.pairwise(edges):
        if any(not cut.holds and cut.at_ns <= at_ns < cut.until_ns for cut in cuts):
            end_ns = next_ns
        else:
            end_ns = -max((until for since, until in held if since <= at_ns < until), default=0)
        if end_ns:
            spans.append((at_ns, end_ns))
    return spans


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
                rows.append([CRASH, at_ns, item.node, 0, 0])
        elif item.kind == "pause":
            rows.append([PAUSE, at_ns, item.node, 0, until_ns])
        else:
            pairs = [(a, b) for a in item.nodes for b in item.others if a != b]
            pairs += [(b, a) for a, b in pairs] if item.both_ways else []
            for pair in pairs:
                cuts.setdefault(pair, []).append(Cut(at_ns, until_ns, item.holds))
    for (a, b), of_link in cuts.items():
        rows += [[CUT, at_ns, a, b, end_ns] for at_ns, end_ns in _cut_in_turn(of_link)]
    return Faults(
        schedule=np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 5),
        detection_ns=detection_ns,
    )
