"""Drawing a workload: from a scenario, or a causal graph, to its schedule of broadcasts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import InternalError, UserError
from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S, TIME_NS_MAX
from precedes.sim import workloads
from precedes.sim.engine import workload
from precedes.sim.engine.workload import Workload
from precedes.sim.scenario import Scenario
from precedes.sim.workloads import (
    TARGET_SECONDS,
    Bell,
    Kind,
    Random,
    Replay,
    Shift,
    Varying,
    Window,
)

Drawn = dict[str, Any]
Floats = NDArray[np.float64]
Times = tuple[Floats, NDArray[np.int64]]  # in ns, with the node of each

# A schedule takes 16 bytes a broadcast and is drawn whole; a run of more would take days.
BROADCASTS_MAX: Final = 200_000_000

# Wilhelm et al. 2023 do not give the shape of their bell; a Gaussian of this width, as a share of
# a bell's duration, reproduces its figures, and a triangle does not.
BELL_WIDTH: Final = 0.16
BELL_KNOTS: Final = 128
# Near-periodic senders: rates between two points of a profile, and the shortest gap, of the mean.
REFINED: Final = 64
GAP_MIN: Final = 1e-6


def make_workload(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """The workload of a scenario; other random choices are noted in ``drawn``."""
    kind = workloads.workload_of(scenario)
    if isinstance(kind, workloads.Replay):
        return _replay(kind, scenario, drawn)
    times_ns, nodes = _draw(kind, scenario, generator, drawn)
    order = np.argsort(times_ns, kind="stable")
    stop_ns = TIME_NS_MAX
    if scenario.duration_s is not None:
        stop_ns = min(stop_ns, round(scenario.duration_s * NANOSECONDS_PER_S))
    order = order[times_ns[order] <= stop_ns][: scenario.messages]
    issue = np.stack([times_ns[order].astype(np.int64), nodes[order]], axis=1)
    return Workload(
        issue=np.ascontiguousarray(issue, np.int64),
        event=np.zeros((0, 3), np.int64),
        child=np.zeros(0, np.int32),
        replay=np.zeros(workload.FIRST_READY, np.int64),
    )


def _draw(kind: Kind, scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Times:
    """Times in ns, in any order, and the node of each."""
    match kind:
        case workloads.Poisson():
            times_ns = _poisson_times(
                generator, scenario.rate, count=scenario.messages, duration_s=scenario.duration_s
            )
            return times_ns, _senders(scenario, generator, len(times_ns))
        case workloads.Periodic():
            return _periodic(scenario, generator)
        # Both are windows, too.
        case workloads.Exponential():
            return _starts(kind, scenario, generator.standard_exponential)
        case workloads.Triangle():
            return _starts(kind, scenario, lambda count: generator.random((2, count)).mean(axis=0))
        case workloads.Window():
            return _starts(kind, scenario, generator.random)
        case workloads.Burst():
            # The first nodes send their messages at the start (Rodrigues et al. 2018, 6.2).
            _check_length(kind.nodes * kind.each)
            nodes = np.tile(np.arange(int(kind.nodes), dtype=np.int64), int(kind.each))
            return np.zeros(len(nodes)), nodes
        case workloads.Varying():
            return _profile(kind, scenario, generator, drawn)
        case workloads.Shift():
            return _shift(kind, scenario, generator)
    raise InternalError(f"no function draws {kind}")


def _check_length(broadcasts: float) -> None:
    if broadcasts > BROADCASTS_MAX:
        raise UserError(
            f"about {broadcasts:.2g} broadcasts are too many for one run (at most "
            f"{BROADCASTS_MAX:.0e}): lower messages, duration or rate"
        )


def _shares(scenario: Scenario) -> Floats:
    """The share of each node in the load: equal, or a Zipf law by node number."""
    weight = np.arange(1, scenario.nodes + 1, dtype=np.float64) ** -scenario.skew
    return weight / weight.sum()


def _senders(scenario: Scenario, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
    """The senders of ``count`` broadcasts."""
    if scenario.skew == 0:
        return generator.integers(scenario.nodes, size=count, dtype=np.int64)
    places = np.searchsorted(np.cumsum(_shares(scenario)), generator.random(count))
    return np.minimum(places, scenario.nodes - 1).astype(np.int64)


def _poisson_times(
    generator: np.random.Generator, rate: float, *, count: int | None, duration_s: float | None
) -> Floats:
    """Points of a Poisson process in ns: the first ``count``, or all within the duration."""
    if count is None:
        assert duration_s is not None
        _check_length(rate * duration_s)
        # Given their number, the points of a Poisson process are independent and uniform.
        count = int(generator.poisson(rate * duration_s))
        return np.sort(generator.random(count)) * duration_s * NANOSECONDS_PER_S
    _check_length(count)
    gaps_s = generator.standard_exponential(count) / rate
    return np.cumsum(gaps_s) * NANOSECONDS_PER_S


def _profile(
    kind: Varying, scenario: Scenario, generator: np.random.Generator, drawn: Drawn
) -> Times:
    """A rate that varies, by thinning: bells over the duration, or random targets."""
    assert scenario.duration_s is not None
    low, high = kind.low, kind.high
    if isinstance(kind, Random):
        rates = _targets(kind, kind.targets(scenario), generator)
        times_s = np.arange(len(rates), dtype=np.float64) * TARGET_SECONDS
        drawn["targets_per_s"] = rates.tolist()
    else:
        assert isinstance(kind, Bell)
        bells = np.linspace(0, kind.times, BELL_KNOTS * int(kind.times) + 1)
        rates = low + (high - low) * np.exp(-((bells % 1 - 0.5) ** 2) / (2 * BELL_WIDTH**2))
        times_s = bells / kind.times * scenario.duration_s
    if isinstance(kind, workloads.NEARLY_PERIODIC):
        shares = _shares(scenario)
        left = generator.random(scenario.nodes)
        return _nearly_periodic(generator, left, shares, times_s, rates)
    points_ns = _poisson_times(generator, high, count=None, duration_s=scenario.duration_s)
    rate = np.interp(points_ns / NANOSECONDS_PER_S, times_s, rates)
    kept = points_ns[generator.random(len(points_ns)) * high < rate]
    return kept, _senders(scenario, generator, len(kept))


def _targets(kind: Random, count: int, generator: np.random.Generator) -> Floats:
    """Random targets of a load: anything between low and high, or low ones and some peaks.

    Wilhelm et al. 2023 have a load that stays small except for three peaks. Peaks are drawn from
    the upper quarter of the range, other targets from the lower one; no two peaks follow each
    other.
    """
    low, high = kind.low, kind.high
    if kind.peaks is None:
        return np.asarray(generator.uniform(low, high, count))
    peaks = int(kind.peaks)
    quarter = (high - low) / 4
    rates = np.asarray(generator.uniform(low, low + quarter, count))
    # Places of peaks with a gap between them: places without gaps, spread out by their rank.
    free = count - 1 - peaks
    places = np.sort(generator.choice(free, peaks, replace=False)) + np.arange(peaks) + 1
    rates[places] = generator.uniform(high - quarter, high, peaks)
    return rates


def _shift(kind: Shift, scenario: Scenario, generator: np.random.Generator) -> Times:
    """A Poisson process whose senders change: from a given time some have a share of the load.

    They are the nodes whose number is a multiple of EVERY (Wilhelm et al. 2023,
    Fig. 10: those that increment one component of four).
    """
    busy = np.arange(0, scenario.nodes, int(kind.every), dtype=np.int64)
    others = np.setdiff1d(np.arange(scenario.nodes, dtype=np.int64), busy)
    if isinstance(kind, workloads.NEARLY_PERIODIC):
        assert scenario.duration_s is not None
        shares = np.empty(scenario.nodes)
        shares[busy], shares[others] = kind.share / len(busy), (1 - kind.share) / len(others)
        ends = np.array([0.0, min(kind.at_s, scenario.duration_s), scenario.duration_s])
        rates = np.full(2, scenario.rate)
        left = generator.random(scenario.nodes)
        before = _nearly_periodic(generator, left, _shares(scenario), ends[:2], rates)
        after = _nearly_periodic(generator, left, shares, ends[1:], rates)
        return np.concatenate([before[0], after[0]]), np.concatenate([before[1], after[1]])
    times_ns = _poisson_times(generator, scenario.rate, count=None, duration_s=scenario.duration_s)
    nodes = _senders(scenario, generator, len(times_ns))
    later = times_ns >= kind.at_s * NANOSECONDS_PER_S
    chosen = np.where(
        generator.random(len(times_ns)) < kind.share,
        generator.choice(busy, len(times_ns)),
        generator.choice(others, len(times_ns)),
    )
    return times_ns, np.where(later, chosen, nodes)


def _periodic(scenario: Scenario, generator: np.random.Generator) -> Times:
    """Gaps that are a Poisson number of milliseconds, a possible reading of "Improving accuracy".

    The Gaussian limit of that law: mean P ms, standard deviation sqrt(P) ms. The phases are
    uniform, so the group is in its steady state from the start.
    """
    period_ms = 1000.0 / (scenario.rate * _shares(scenario))
    if scenario.duration_s is not None:
        length_ms = scenario.duration_s * 1000.0
    else:
        assert scenario.messages is not None
        length_ms = scenario.messages / scenario.rate * 1000.0
    _check_length(scenario.rate * length_ms / 1000.0)
    times, nodes = [], []
    for node in range(scenario.nodes):
        mean = float(period_ms[node])
        # Enough gaps to pass the end even if all are short; the schedule is cut at its length.
        count = int(1.2 * length_ms / mean + 10 * np.sqrt(length_ms / mean) + 10)
        gaps = np.maximum(generator.normal(mean, np.sqrt(mean), count), 0.001)
        times.append(generator.random() * mean + np.cumsum(gaps) - gaps[0])
        nodes.append(np.full(count, node, np.int64))
    return np.concatenate(times) * NANOSECONDS_PER_MS, np.concatenate(nodes)


def _nearly_periodic(
    generator: np.random.Generator, left: Floats, shares: Floats, times_s: Floats, rates: Floats
) -> Times:
    """Gaps as in ``_periodic``, of a period that follows the rate; shares are those of the nodes.

    Between ``times_s`` the rate is linear. Time runs in each node's own mean number of broadcasts:
    the next one is due ``left`` of these after the first time, and at the end after the last.
    """
    places = np.linspace(0, len(rates) - 1, REFINED * (len(rates) - 1) + 1)
    times_s, rates = (np.interp(places, range(len(row)), row) for row in (times_s, rates))
    steps = np.diff(times_s) * (rates[1:] + rates[:-1]) / 2
    passed = np.concatenate([[0.0], np.cumsum(steps)])
    _check_length(passed[-1])
    total = shares * passed[-1]
    here = np.flatnonzero(left < total)
    times, nodes = [np.zeros(0)], [here[:0]]
    while here.size:
        at_s = np.interp(left[here] / shares[here], passed, times_s)
        times.append(at_s * NANOSECONDS_PER_S)
        nodes.append(here)
        deviation = np.sqrt(shares[here] * np.interp(at_s, times_s, rates) / 1000.0)
        left[here] += np.maximum(generator.normal(1.0, deviation), GAP_MIN)
        here = here[left[here] < total[here]]
    left -= total
    return np.concatenate(times), np.concatenate(nodes)


def _starts(kind: Window, scenario: Scenario, draw: Callable[[int], Floats]) -> Times:
    """Every node broadcasts, at times of a law in units of the window."""
    _check_length(scenario.nodes * kind.times)
    nodes = np.repeat(np.arange(scenario.nodes, dtype=np.int64), int(kind.times))
    return draw(len(nodes)) * kind.ms * NANOSECONDS_PER_MS, nodes


def _replay(kind: Replay, scenario: Scenario, drawn: Drawn) -> Workload:
    graph = read_graph(kind.path)
    if graph.agents > scenario.nodes:
        raise UserError(
            f"the replayed graph has {graph.agents} agents: give at least as many nodes, "
            f"not {scenario.nodes}"
        )
    events = len(graph.event) - 1
    drawn["replay"] = {"events": events, "agents": graph.agents}
    replay = np.zeros(workload.FIRST_READY + events, np.int64)
    replay[workload.GAP_NS] = round(scenario.gap_ms * NANOSECONDS_PER_MS)
    replay[workload.LEFT] = events if scenario.messages is None else scenario.messages
    return Workload(
        issue=np.zeros((0, 2), np.int64), event=graph.event, child=graph.child, replay=replay
    )


def first_of_replay(replayed: Workload) -> list[tuple[int, int]]:
    """Replay: the (event, node) pairs without predecessors, broadcast at the start."""
    free = np.flatnonzero(replayed.event[:-1, workload.MISSING] == 0).tolist()
    free = free[: int(replayed.replay[workload.LEFT])]
    replayed.replay[workload.LEFT] -= len(free)
    return [(label, int(replayed.event[label, workload.AGENT])) for label in free]


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
        raise UserError(f"{path} is not an editing trace: it has no list 'txns'")
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
