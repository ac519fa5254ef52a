"""From a scenario to the arrays of a run: laws of delay, workloads, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S, TIME_NS_MAX, UserError
from precedes.sim import faults as fault
from precedes.sim import network as net
from precedes.sim import workload as load
from precedes.sim.graph import CausalGraph, read_graph
from precedes.sim.latency import read_latency
from precedes.sim.scenario import Scenario

LAWS: Final = {
    "constant": (net.CONSTANT, 1),
    "uniform": (net.UNIFORM, 2),
    "normal": (net.NORMAL, 2),
    "lognormal": (net.LOGNORMAL, 2),
    "exponential": (net.EXPONENTIAL, 1),
}
DELAY_HELP: Final = (
    "constant:MS, uniform:LOW:HIGH, normal:MEAN:SD, lognormal:MEDIAN:SIGMA, exponential:MEAN "
    "or matrix:FILE"
)
WORKLOAD_HELP: Final = "poisson, periodic, window:MS, bell:LOW:HIGH, random:LOW:HIGH or replay:FILE"

# Paper 002 does not give the shape of its bell; a Gaussian of this width, as a share of the
# duration, reproduces its figures, and a triangle does not.
BELL_WIDTH: Final = 0.16
BELL_KNOTS: Final = 128
TARGET_SECONDS: Final = 20  # paper 002: random targets are reached every 20 s


class Delay(NamedTuple):
    """A law of delay with its parameters in ns, or a matrix."""

    law: int
    first: float
    second: float
    matrix_ns: NDArray[np.int64]


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


def make_delay(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Delay:
    """The law of delay of a scenario; what is drawn or chosen is noted in ``drawn``."""
    none = np.zeros((0, 0), np.int64)
    name = scenario.delay.split(":")[0]
    if name == "matrix":
        path = Path(scenario.delay.partition(":")[2])
        matrix = read_latency(path, scenario.nodes, generator, drawn)
        return Delay(net.MATRIX, 0.0, 0.0, matrix)
    if name not in LAWS:
        raise UserError(f"delay {scenario.delay!r} is not understood: use {DELAY_HELP}")
    law, count = LAWS[name]
    _, values = numbers_of(scenario.delay, what="delay", count=count, help_text=DELAY_HELP)
    first = values[0] * NANOSECONDS_PER_MS
    second = values[1] * NANOSECONDS_PER_MS if count == 2 else 0.0
    if law == net.LOGNORMAL:
        if values[0] <= 0:
            raise UserError("the median of a lognormal delay must be above 0")
        first, second = float(np.log(first)), values[1]
    if law == net.UNIFORM and second < first:
        raise UserError(f"delay {scenario.delay!r}: the lower bound comes first")
    if scenario.per == "use":
        return Delay(law, first, second, none)
    n = scenario.nodes
    links = [net.draw_ns(law, first, second, generator) for _ in range(n * n)]
    matrix = np.array(links, np.int64).reshape(n, n)
    drawn["link_ms"] = _summary_ms(matrix)
    return Delay(net.MATRIX, 0.0, 0.0, matrix)


def _summary_ms(matrix: NDArray[np.int64]) -> dict[str, float]:
    links = matrix[~np.eye(len(matrix), dtype=bool)] / NANOSECONDS_PER_MS
    low, middle, high = np.quantile(links, [0, 0.5, 1])
    return {"min": float(low), "median": float(middle), "max": float(high)}


def make_network(scenario: Scenario, delay: Delay) -> net.Network:
    """The network of a scenario."""
    n = scenario.nodes
    number = np.zeros(net.NUMBERS, np.float64)
    number[net.FIRST], number[net.SECOND] = delay.first, delay.second
    number[net.LOSS], number[net.DUPLICATION] = scenario.loss, scenario.duplication
    byte_ps = 0
    if scenario.bandwidth_bytes_per_s > 0:
        byte_ps = round(1e12 / scenario.bandwidth_bytes_per_s)
    queued = scenario.transmission_ms > 0 or byte_ps > 0
    cuts = any(item.kind == "cut" for item in scenario.faults)
    sends = any(item.after_sends for item in scenario.faults)
    careful = queued or cuts or sends or scenario.fifo or scenario.loss or scenario.duplication
    setting = np.zeros(net.SETTINGS, np.int64)
    setting[net.LAW] = delay.law
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
        matrix_ns=delay.matrix_ns,
        last_arrival_ns=np.zeros(links, np.int64),
        busy_until_ns=np.zeros(n, np.int64),
        cut_until_ns=np.zeros((n, n) if cuts else (0, 0), np.int64),
    )


def make_faults(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> fault.Faults:
    """The fault schedule of a scenario, with the detection delays drawn."""
    n = scenario.nodes
    rows: list[list[int]] = []
    crashes = any(item.kind == "crash" for item in scenario.faults)
    detection_ns = np.zeros((n, n) if crashes else (0, 0), np.int64)
    sends_left = np.full(n, -1, np.int64)
    for item in scenario.faults:
        at_ns = round(item.at_s * NANOSECONDS_PER_S)
        until_ns = at_ns + round(item.for_s * NANOSECONDS_PER_S)
        if item.kind == "crash":
            low, high = (value * NANOSECONDS_PER_MS for value in item.detection_ms)
            detection_ns[item.node] = generator.uniform(low, high, n).astype(np.int64)
            drawn.setdefault("detection_ms", {})[item.node] = (
                detection_ns[item.node] / NANOSECONDS_PER_MS
            ).tolist()
            if item.after_sends:
                sends_left[item.node] = item.after_sends
            else:
                rows.append([fault.CRASH, at_ns, item.node, 0, 0])
        elif item.kind == "pause":
            rows.append([fault.PAUSE, at_ns, item.node, 0, until_ns])
        else:
            end_ns = -until_ns if item.holds else until_ns
            pairs = [(a, b) for a in item.nodes for b in item.others if a != b]
            pairs += [(b, a) for a, b in pairs] if item.both_ways else []
            rows += [[fault.CUT, at_ns, a, b, end_ns] for a, b in pairs]
    return fault.Faults(
        schedule=np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 5),
        blocked_until_ns=np.zeros(n, np.int64),
        sends_left=sends_left,
        detection_ns=detection_ns,
    )


class Issues(NamedTuple):
    """A workload, and the broadcasts that are in the queue from the start."""

    workload: load.Workload
    first: list[tuple[int, int, int]]  # time in ns, node, replayed event or -1


def make_workload(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Issues:
    """The workload of a scenario."""
    name = scenario.workload.split(":")[0]
    makers = {
        "poisson": _poisson,
        "periodic": _periodic,
        "window": _window,
        "bell": _profile,
        "random": _profile,
        "replay": _replay,
    }
    if name not in makers:
        raise UserError(f"workload {scenario.workload!r} is not understood: use {WORKLOAD_HELP}")
    if name in ("poisson", "periodic") and scenario.workload != name:
        raise UserError(f"workload {name} takes no parameters here: give the load with rate")
    if name in ("window", "replay") and scenario.duration_s is not None:
        raise UserError(f"workload {name} ends by itself: leave out duration")
    if name in ("poisson", "periodic") and scenario.messages is None and not scenario.duration_s:
        raise UserError("say how long: give messages or duration")
    if name in ("bell", "random") and not scenario.duration_s:
        raise UserError(f"workload {name} needs a duration")
    return makers[name](scenario, generator, drawn)


def _setting(scenario: Scenario, kind: int) -> NDArray[np.int64]:
    setting = np.zeros(load.SETTINGS, np.int64)
    setting[load.KIND] = kind
    messages = scenario.messages
    setting[load.MESSAGES_MAX] = np.iinfo(np.int64).max if messages is None else messages
    stop_s = scenario.duration_s
    setting[load.STOP_NS] = TIME_NS_MAX if stop_s is None else round(stop_s * NANOSECONDS_PER_S)
    setting[load.GAP_NS] = round(scenario.gap_ms * NANOSECONDS_PER_MS)
    return setting


def _workload(
    setting: NDArray[np.int64],
    *,
    knot: list[tuple[float, float]] | None = None,
    cumulative: NDArray[np.float64] | None = None,
    pace: NDArray[np.float64] | None = None,
    graph: CausalGraph | None = None,
) -> load.Workload:
    return load.Workload(
        setting=setting,
        knot=np.array(knot or [], np.float64).reshape(-1, 2),
        cumulative=np.zeros(0) if cumulative is None else cumulative,
        pace=np.zeros((0, 2)) if pace is None else pace,
        event=np.zeros((0, 3), np.int64) if graph is None else graph.event,
        child=np.zeros(0, np.int32) if graph is None else graph.child,
        ready=np.zeros(0 if graph is None else len(graph.event), np.int32),
    )


def _shares(scenario: Scenario) -> NDArray[np.float64]:
    """The share of each node in the load: equal, or a Zipf law by node number."""
    weight = np.arange(1, scenario.nodes + 1, dtype=np.float64) ** -scenario.skew
    return weight / weight.sum()


def _cumulative(scenario: Scenario) -> NDArray[np.float64]:
    return np.cumsum(_shares(scenario)) if scenario.skew > 0 else np.zeros(0)


def _first_of_chain(
    workload: load.Workload, scenario: Scenario, generator: np.random.Generator
) -> list[tuple[int, int, int]]:
    time_ns = load.next_time_ns(workload, 0, 0, generator)
    if time_ns == load.NEVER:
        return []
    return [(int(time_ns), int(load.next_node(workload, 0, scenario.nodes, generator)), -1)]


def _poisson(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Issues:
    setting = _setting(scenario, load.POISSON)
    knot = [(0.0, scenario.rate / NANOSECONDS_PER_S)]
    workload = _workload(setting, knot=knot, cumulative=_cumulative(scenario))
    return Issues(workload, _first_of_chain(workload, scenario, generator))


def _profile(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Issues:
    """A rate that varies: a bell over the duration, or random targets."""
    name, (low, high) = numbers_of(
        scenario.workload, what="workload", count=2, help_text=WORKLOAD_HELP
    )
    if not 0 <= low <= high or high == 0:
        raise UserError(f"workload {scenario.workload!r}: rates are LOW:HIGH with HIGH above 0")
    assert scenario.duration_s is not None
    if name == "bell":
        share = np.linspace(0, 1, BELL_KNOTS + 1)
        rates = low + (high - low) * np.exp(-((share - 0.5) ** 2) / (2 * BELL_WIDTH**2))
        times_s = share * scenario.duration_s
    else:
        count = int(np.ceil(scenario.duration_s / TARGET_SECONDS)) + 1
        times_s = np.arange(count) * float(TARGET_SECONDS)
        rates = generator.uniform(low, high, count)
        drawn["targets_per_s"] = rates.tolist()
    knot = [
        (float(time_s * NANOSECONDS_PER_S), float(rate / NANOSECONDS_PER_S))
        for time_s, rate in zip(times_s, rates, strict=True)
    ]
    setting = _setting(scenario, load.POISSON)
    workload = _workload(setting, knot=knot, cumulative=_cumulative(scenario))
    return Issues(workload, _first_of_chain(workload, scenario, generator))


def _periodic(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Issues:
    """Gaps that are a Poisson number of milliseconds, which is how paper 003 can be read.

    The Gaussian limit of that law: mean P ms, standard deviation sqrt(P) ms. The phases are
    uniform, so the group is in its steady state from the start.
    """
    period_ms = 1000.0 / (scenario.rate * _shares(scenario))
    pace = np.stack([period_ms, np.sqrt(period_ms)], axis=1) * NANOSECONDS_PER_MS
    setting = _setting(scenario, load.PERIODIC)
    phases = (generator.random(scenario.nodes) * pace[:, load.PERIOD_NS]).astype(np.int64)
    first = []
    for node in np.argsort(phases, kind="stable").tolist():
        within = phases[node] <= setting[load.STOP_NS]
        if within and setting[load.ISSUED] < setting[load.MESSAGES_MAX]:
            setting[load.ISSUED] += 1
            first.append((int(phases[node]), node, -1))
    return Issues(_workload(setting, pace=pace), first)


def _window(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Issues:
    _, (window_ms,) = numbers_of(
        scenario.workload, what="workload", count=1, help_text=WORKLOAD_HELP
    )
    times = (generator.random(scenario.nodes) * window_ms * NANOSECONDS_PER_MS).astype(np.int64)
    issued = scenario.nodes if scenario.messages is None else scenario.messages
    first = [(int(times[node]), node, -1) for node in range(min(issued, scenario.nodes))]
    return Issues(_workload(_setting(scenario, load.SCHEDULED)), first)


def _replay(
    scenario: Scenario, generator: np.random.Generator, drawn: dict[str, Any]
) -> Issues:
    graph = read_graph(Path(scenario.workload.partition(":")[2]))
    if graph.agents > scenario.nodes:
        raise UserError(
            f"the replayed graph has {graph.agents} agents: give at least as many nodes, "
            f"not {scenario.nodes}"
        )
    drawn["replay"] = {"events": len(graph.event) - 1, "agents": graph.agents}
    setting = _setting(scenario, load.REPLAY)
    first = []
    for label in np.flatnonzero(graph.event[:-1, load.MISSING] == 0).tolist():
        if setting[load.ISSUED] < setting[load.MESSAGES_MAX]:
            setting[load.ISSUED] += 1
            first.append((0, int(graph.event[label, load.AGENT]), label))
    return Issues(_workload(setting, graph=graph), first)
