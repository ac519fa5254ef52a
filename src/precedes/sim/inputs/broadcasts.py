"""Drawing a workload: from a scenario to its schedule of broadcasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError, meant
from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S, TIME_NS_MAX
from precedes.sim.engine import workload
from precedes.sim.engine.workload import Workload
from precedes.sim.inputs.graph import read_graph
from precedes.sim.inputs.network import numbers_of
from precedes.sim.scenario import Scenario

Drawn = dict[str, Any]
Floats = NDArray[np.float64]

WORKLOAD_HELP: Final = (
    "poisson, periodic, window:MS, window:MS:TIMES, exponential:MS, exponential:MS:TIMES, "
    "burst:NODES:EACH, bell:LOW:HIGH, random:LOW:HIGH, random:LOW:HIGH:PEAKS, "
    "shift:AT_S:SHARE:EVERY or replay:FILE"
)
# Every node broadcasts, once or so many times, at independent times of this law.
STARTS: Final = ("window", "exponential")

# A schedule takes 16 bytes a broadcast and is drawn whole; a run of more would take days.
BROADCASTS_MAX: Final = 200_000_000

# Wilhelm et al. 2023 do not give the shape of their bell; a Gaussian of this width, as a share of
# the duration, reproduces its figures, and a triangle does not.
BELL_WIDTH: Final = 0.16
BELL_KNOTS: Final = 128
TARGET_SECONDS: Final = 20  # Wilhelm et al. 2023: random targets are reached every 20 s


def make_workload(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """The workload of a scenario; what is drawn besides the broadcasts is noted in ``drawn``."""
    name = scenario.workload.split(":")[0]
    makers = {
        "poisson": _poisson,
        "periodic": _periodic,
        "window": _starts,
        "exponential": _starts,
        "burst": _burst,
        "bell": _profile,
        "random": _profile,
        "shift": _shift,
        "replay": _replay,
    }
    if name not in makers:
        hint = meant(name, makers)
        text = f"workload {scenario.workload!r} is not understood{hint}: use {WORKLOAD_HELP}"
        raise UserError(text)
    if name in ("poisson", "periodic") and scenario.workload != name:
        raise UserError(f"workload {name} takes no parameters here: give the load with rate")
    if name in (*STARTS, "burst", "replay") and scenario.duration_s is not None:
        raise UserError(f"workload {name} ends by itself: leave out duration")
    if name in ("poisson", "periodic") and scenario.messages is None and not scenario.duration_s:
        raise UserError("say how long: --messages K or --duration S (a file: messages, duration_s)")
    if name in ("bell", "random", "shift") and not scenario.duration_s:
        raise UserError(f"workload {name} needs a duration")
    return makers[name](scenario, generator, drawn)


def _scheduled(scenario: Scenario, times_ns: Floats, nodes: NDArray[np.int64]) -> Workload:
    """A workload of broadcasts in order of time, cut to the scenario's length."""
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
    """Who sends each of ``count`` broadcasts."""
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


def _poisson(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    times_ns = _poisson_times(
        generator, scenario.rate, count=scenario.messages, duration_s=scenario.duration_s
    )
    return _scheduled(scenario, times_ns, _senders(scenario, generator, len(times_ns)))


def _profile(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """A rate that varies, by thinning: a bell over the duration, or random targets."""
    count = 3 if scenario.workload.startswith("random") and scenario.workload.count(":") == 3 else 2
    name, (low, high, *peaks) = numbers_of(
        scenario.workload, what="workload", count=count, help_text=WORKLOAD_HELP
    )
    if low > high or high == 0:
        raise UserError(f"workload {scenario.workload!r}: rates are LOW:HIGH with HIGH above 0")
    assert scenario.duration_s is not None
    if name == "bell":
        share = np.linspace(0, 1, BELL_KNOTS + 1)
        rates: Floats = low + (high - low) * np.exp(-((share - 0.5) ** 2) / (2 * BELL_WIDTH**2))
        times_s = share * scenario.duration_s
    else:
        count = int(np.ceil(scenario.duration_s / TARGET_SECONDS)) + 1
        times_s = np.arange(count, dtype=np.float64) * TARGET_SECONDS
        rates = _targets(scenario, generator, low, high, count, *peaks)
        drawn["targets_per_s"] = rates.tolist()
    points_ns = _poisson_times(generator, high, count=None, duration_s=scenario.duration_s)
    rate = np.interp(points_ns / NANOSECONDS_PER_S, times_s, rates)
    kept = points_ns[generator.random(len(points_ns)) * high < rate]
    return _scheduled(scenario, kept, _senders(scenario, generator, len(kept)))


def _targets(
    scenario: Scenario,
    generator: np.random.Generator,
    low: float,
    high: float,
    count: int,
    peaks: float | None = None,
) -> Floats:
    """Random targets of a load: anything between low and high, or low ones and so many peaks.

    Wilhelm et al. 2023 have a load that stays small but for three peaks. Peaks are drawn from the
    upper quarter of the range, other targets from the lower one; no two peaks follow each other.
    """
    if peaks is None:
        return np.asarray(generator.uniform(low, high, count))
    if peaks != round(peaks) or not 1 <= peaks <= (count - 1) // 2:
        raise UserError(
            f"workload {scenario.workload!r}: PEAKS is a whole number from 1 to half of the "
            f"targets, of which there is one every {TARGET_SECONDS} s"
        )
    quarter = (high - low) / 4
    rates = np.asarray(generator.uniform(low, low + quarter, count))
    # Places of peaks with a gap between them: places without gaps, spread out by their rank.
    free = count - 1 - int(peaks)
    places = np.sort(generator.choice(free, int(peaks), replace=False)) + np.arange(int(peaks)) + 1
    rates[places] = generator.uniform(high - quarter, high, int(peaks))
    return rates


def _shift(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """A Poisson process whose senders change: from a time on some have a share of the workload.

    They are the nodes whose number is a multiple of EVERY (Wilhelm et al. 2023,
    Fig. 10: those that increment one component of four).
    """
    _, (at_s, share, every) = numbers_of(
        scenario.workload, what="workload", count=3, help_text=WORKLOAD_HELP
    )
    if not share < 1 or not 2 <= every <= scenario.nodes or every % 1:
        raise UserError(
            f"workload {scenario.workload!r}: SHARE is below 1, EVERY a whole number from 2 to "
            f"{scenario.nodes}"
        )
    times_ns = _poisson_times(generator, scenario.rate, count=None, duration_s=scenario.duration_s)
    nodes = _senders(scenario, generator, len(times_ns))
    later = times_ns >= at_s * NANOSECONDS_PER_S
    busy = np.arange(0, scenario.nodes, int(every), dtype=np.int64)
    others = np.setdiff1d(np.arange(scenario.nodes, dtype=np.int64), busy)
    chosen = np.where(
        generator.random(len(times_ns)) < share,
        generator.choice(busy, len(times_ns)),
        generator.choice(others, len(times_ns)),
    )
    return _scheduled(scenario, times_ns, np.where(later, chosen, nodes))


def _periodic(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """Gaps that are a Poisson number of milliseconds, as "Improving accuracy" can be read.

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
    return _scheduled(scenario, np.concatenate(times) * NANOSECONDS_PER_MS, np.concatenate(nodes))


def _starts(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """Every node broadcasts, at times uniform in a window or exponential with a mean."""
    count = 2 if scenario.workload.count(":") == 2 else 1
    name, values = numbers_of(
        scenario.workload, what="workload", count=count, help_text=WORKLOAD_HELP
    )
    times = values[1] if count == 2 else 1.0
    if times != round(times) or times < 1:
        raise UserError(
            f"workload {scenario.workload!r}: a node broadcasts a whole number of times, from 1 on"
        )
    _check_length(scenario.nodes * times)
    nodes = np.repeat(np.arange(scenario.nodes, dtype=np.int64), int(times))
    draw = generator.random if name == "window" else generator.standard_exponential
    times_ns = draw(len(nodes)) * values[0] * NANOSECONDS_PER_MS
    return _scheduled(scenario, times_ns, nodes)


def _burst(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    """The first so many nodes send so many messages each at once (Rodrigues et al. 2018, 6.2)."""
    _, (senders, each) = numbers_of(
        scenario.workload, what="workload", count=2, help_text=WORKLOAD_HELP
    )
    if not 1 <= senders <= scenario.nodes or senders % 1 or each < 1 or each % 1:
        raise UserError(
            f"workload {scenario.workload!r}: burst takes a number of nodes up to "
            f"{scenario.nodes} and how many messages each of them broadcasts"
        )
    _check_length(senders * each)
    nodes = np.tile(np.arange(int(senders), dtype=np.int64), int(each))
    return _scheduled(scenario, np.zeros(len(nodes)), nodes)


def _replay(scenario: Scenario, generator: np.random.Generator, drawn: Drawn) -> Workload:
    graph = read_graph(Path(scenario.workload.partition(":")[2]))
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


def first_of_replay(given: Workload) -> list[tuple[int, int]]:
    """Replay: the (event, node) pairs that wait for nothing and are broadcast at the start."""
    free = np.flatnonzero(given.event[:-1, workload.MISSING] == 0).tolist()
    free = free[: int(given.replay[workload.LEFT])]
    given.replay[workload.LEFT] -= len(free)
    return [(label, int(given.event[label, workload.AGENT])) for label in free]
