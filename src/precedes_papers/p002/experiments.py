"""The runs of section V, and further ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from precedes.parts.sizing import size
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, grid
from precedes_papers.measured import Fitted

# Figure 5: loads, and the shares of deliveries that may be out of causal order. The least clock for
# each is read from runs with clocks of these sizes, each twice the one before.
LOADS: Final = (50.0, 100.0, 200.0)
TARGETS: Final = (1e-4, 5e-5, 1e-5, 5e-6, 1e-6)
SIZES: Final = {
    50.0: (16, 32, 64, 128, 256, 512),
    100.0: (32, 64, 128, 256, 512, 1024),
    200.0: (64, 128, 256, 512, 1024, 2048, 4096),
}
SIZE_RUNS: Final = {"quick": 3, "full": 5}
SIZE_MESSAGES: Final = {"quick": 400, "full": 8000}  # with up to 1,024 entries, then less

# Two ways to build a clock of components. Section V-C has four of 50 entries, and processes that
# increment two entries of one of them.
PAPERS: Final = {
    "component_entries": 50,
    "components_max": 20,
    "spread": 1,
    "per_component": 2,
}
OWN: Final = {"component_entries": 16, "components_max": 128, "spread": 2, "per_component": 1}


class Load(NamedTuple):
    """A load that varies, the targets of the clocks that follow it, and the clock that does not."""

    workload: str
    duration_s: float
    error: float  # with the paper's components
    own_error: float
    fixed: int


# Figures 6 to 9. The paper names neither the error that its clocks aim at nor the shapes of the
# loads. The bell is a Gaussian, of which there are one or two, each of 200 s; the random load stays
# in the lower quarter of its range but for three peaks in the upper one. The targets are those that
# give clocks of the paper's mean size, which is also that of the fixed clock. A pair of messages
# that one process sends in quick succession may go wrong at most receivers: errors are clustered.
BELL_S: Final = 200.0
LOADS_OVER_TIME: Final = {
    "bell": Load("bell:10:200", BELL_S, 2.4e-5, 1.6e-5, 260),
    "two-bells": Load("bell:10:200:2", 2 * BELL_S, 2.4e-5, 1.6e-5, 260),
    "random": Load("random:10:200:3", 300.0, 6.7e-5, 4.2e-5, 97),
    # "According to a Poisson distribution" stands in 003 too, whose senders were near-periodic.
    "bell-periodic": Load("periodic_bell:10:200", BELL_S, 2.4e-5, 1.6e-5, 260),
    "random-periodic": Load("periodic_random:10:200:3", 300.0, 6.7e-5, 4.2e-5, 97),
}
WITH_OWN: Final = ("bell", "random")
ONE_TARGET: Final = "random-bells-target"
LARGER: Final = "bell-fixed-larger"
LARGER_ENTRIES: Final = 325  # a quarter more than the clocks that follow the bell have on average
GROUP: Final = 1000
SEEDS_OVER_TIME: Final = {"quick": range(1, 3), "full": range(1, 11)}
OWN_SEEDS: Final = {"quick": range(1, 2), "full": range(1, 11)}

# The mean sizes of clocks in Figures 7 and 9, and the errors that the text gives.
SIZE: Final = "entries, mean over time"
_SIZE_7: Final = "the mean size of clocks in Figure 7", (), (("Figure 7", SIZE),)
_SIZE_9: Final = "the mean size of clocks in Figure 9", (), (("Figure 9", SIZE),)
_ERRORS: Final = (("Section V-B1", "out of order"),)
_POLICY: Final = "policy of dcs", "estimate 1/8, narrow 92 %, crowded 130 %", "no published value"
FITTED: Final = (
    Fitted("error", LOADS_OVER_TIME["bell"].error, *_SIZE_7),
    Fitted("error", LOADS_OVER_TIME["bell"].own_error, *_SIZE_7),
    Fitted("error", LOADS_OVER_TIME["random"].error, *_SIZE_9),
    Fitted("error", LOADS_OVER_TIME["random"].own_error, *_SIZE_9),
    Fitted("workload", LOADS_OVER_TIME["bell"].workload, "errors in V-B1", (), _ERRORS),
    Fitted("workload", LOADS_OVER_TIME["bell-periodic"].workload, "errors in V-B1", (), _ERRORS),
    Fitted("workload", LOADS_OVER_TIME["two-bells"].workload, "errors in V-B1", (), _ERRORS),
    # The random load is three peaks in the upper quarter of its range.
    Fitted("workload", LOADS_OVER_TIME["random"].workload, "no published value"),
    Fitted("workload", LOADS_OVER_TIME["random-periodic"].workload, "no published value"),
    Fitted(*_POLICY, (*LOADS_OVER_TIME, ONE_TARGET, "bell-own", "random-own", "redrawn")),
    Fitted(*_POLICY, ("balanced", "balanced-early", "balanced-periodic")),
)

# Figure 10: four components of 50 entries. From 50 s on those that start with the first component
# broadcast three quarters of all messages.
SHIFT_S: Final = 50
SHIFT_END_S: Final = 130
SHIFT_SEEDS: Final = {"quick": range(1, 3), "full": range(1, 16)}


class Shift(NamedTuple):
    """A reading of Figure 10: its senders, and the two looks at the balance after the shift."""

    form: str
    first_s: int
    second_s: int
    balance_ms: float = 20_000.0


# Processes look every 20 s; published are 70 and 90 s.
SHIFTS: Final = {
    "balanced": Shift("shift", 70, 90),
    "balanced-early": Shift("shift", 60, 80),
    "balanced-periodic": Shift("periodic_shift", 70, 90),
    "unbalanced": Shift("shift", 70, 90, balance_ms=0.0),
}
SHIFTED: Final = {**PAPERS, "components": 4, "components_max": 4}

# Section II: k = ln(2) R / X entries are best; with X = 10 concurrent messages, 5.5 of 80.
OPTIMUM_LOAD: Final = 100.0
OPTIMUM_ENTRIES: Final = 80
INCREMENTS_TRIED: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10)

ROUND_NODES: Final = (50, 200, 500, 1000, 2000)
BYTE_LOADS: Final = (10.0, 100.0, 400.0)
HASH_ERROR: Final = 1e-3  # the error rate of the clock alone; the hash detects the errors


def experiments(scale: str) -> list[Experiment]:
    """The paper's experiments and further ones."""
    plan = [size_experiment(scale)]
    for name in LOADS_OVER_TIME:
        seeds = SEEDS_OVER_TIME[scale][: 6 if name == "two-bells" else None]
        plan.append(_named(name, [over_time(name, seed) for seed in seeds]))
        plan.append(_named(f"{name}-fixed", [fixed(name, seed) for seed in seeds]))
    plan.append(_named(ONE_TARGET, [bells_target(seed) for seed in SEEDS_OVER_TIME[scale]]))
    plan.append(_named(LARGER, [larger(seed) for seed in SEEDS_OVER_TIME[scale]]))
    for name in WITH_OWN:
        runs = [over_time(name, seed, own=True) for seed in OWN_SEEDS[scale]]
        plan.append(_named(f"{name}-own", runs))
    for name in SHIFTS:
        plan.append(_named(name, [shifted(name, seed) for seed in SHIFT_SEEDS[scale]]))
    return [
        *plan,
        round_experiment(),
        guarantee_experiment(),
        _named("redrawn", [redrawn(seed) for seed in SEEDS_OVER_TIME[scale]]),
        _theorem_experiment(),
        Experiment("static", tuple(theorem(seed, static=True) for seed in (1, 2, 3)), trace=True),
        _optimum_experiment(scale),
        byte_experiment(scale),
    ]


def _named(name: str, runs: Sequence[Scenario]) -> Experiment:
    return Experiment(name, tuple(runs))


def byte_nodes(scale: str) -> tuple[int, ...]:
    """Groups in which the bytes of messages are measured."""
    return (100, 500, 1000, 2000, 5000) if scale == "full" else (100, 1000)


def over_time(name: str, seed: int, *, own: bool = False) -> Scenario:
    """A run of a load that varies, with the paper's components or those of this project."""
    load = LOADS_OVER_TIME[name]
    target = {"error": load.own_error, **OWN} if own else {"error": load.error, **PAPERS}
    return Scenario(
        protocol="dcs",
        nodes=GROUP,
        workload=load.workload,
        duration_s=load.duration_s,
        seed=seed,
        parameters=target,
    )


def fixed(name: str, seed: int) -> Scenario:
    """The same load with a probabilistic clock of the paper's mean size."""
    entries = {"entries": LOADS_OVER_TIME[name].fixed}
    return over_time(name, seed).replace(protocol="probabilistic", parameters=entries)


def larger(seed: int) -> Scenario:
    """The bell with a fixed clock that takes more memory than those that follow it."""
    return fixed("bell", seed).replace(parameters={"entries": LARGER_ENTRIES})


def bells_target(seed: int) -> Scenario:
    """The random load with the target that was chosen by the bell's clock."""
    target = {"error": LOADS_OVER_TIME["bell"].error, **PAPERS}
    return over_time("random", seed).replace(parameters=target)


def shifted(name: str, seed: int) -> Scenario:
    """A run of Figure 10."""
    shift = SHIFTS[name]
    balance = {"balance_ms": shift.balance_ms, "balance_phase_ms": shift.first_s * 1000.0 % 20_000}
    return Scenario(
        protocol="dcs",
        nodes=GROUP,
        rate=100.0,
        workload=f"{shift.form}:{SHIFT_S}:0.75:4",
        duration_s=float(SHIFT_END_S),
        seed=seed,
        parameters={**SHIFTED, **balance},
    )


def size_experiment(scale: str) -> Experiment:
    """Figure 5: clocks of all sizes under all loads.

    Each run has a seed of its own. With one seed, processes that share entries in a clock share
    them in one half as large too, and what goes wrong would go wrong with all sizes.
    """
    messages = SIZE_MESSAGES[scale]
    base = Scenario(protocol="probabilistic", nodes=2000)
    scenarios = [
        base.replace(
            rate=load,
            messages=min(messages, messages * 1024 // entries),
            parameters={"entries": entries},
        )
        for load in LOADS
        for entries in SIZES[load]
        for _ in range(SIZE_RUNS[scale])
    ]
    return _named("figure-5", [one.replace(seed=seed) for seed, one in enumerate(scenarios, 1)])


def _comes_and_goes(**parameters: Any) -> Scenario:
    """A load that goes up and down once."""
    return Scenario(
        protocol="dcs",
        nodes=50,
        workload="bell:1:30",
        duration_s=15.0,
        parameters={"component_entries": OWN["component_entries"], "keep_ms": 2000.0, **parameters},
    )


def round_experiment() -> Experiment:
    """Cost of the rounds in groups of several sizes."""
    return Experiment("rounds", grid(_comes_and_goes(), vary={"nodes": ROUND_NODES}, seeds=(1,)))


def guarantee_experiment() -> Experiment:
    """Clocks that grow and shrink, for an audit of who delivers what."""
    runs = [
        _comes_and_goes(**shape).replace(seed=seed)
        for shape in (PAPERS, OWN)
        for seed in range(1, 4)
    ]
    return Experiment("guarantees", tuple(runs), trace=True)


def redrawn(seed: int) -> Scenario:
    """The bell, with the third function of checkExpand."""
    base = over_time("bell", seed)
    return base.replace(parameters={**base.parameters, "redraw": True})


def theorem(seed: int, *, static: bool) -> Scenario:
    """A small group whose clock comes and goes, or has all its components all the time."""
    most = {"components_max": 5, "components": 5 if static else 1}
    base = _comes_and_goes(error=1e-2, round_ms=100.0, smoothing_ms=100.0, **most)
    return base.replace(nodes=8, seed=seed)


def _theorem_experiment() -> Experiment:
    """Clocks of the specification, which compares those of own messages as in III-C."""
    runs = [theorem(seed, static=static) for static in (False, True) for seed in (1, 2, 3)]
    return _named("theorem-1", [one.replace(protocol="dcs.spec") for one in runs])


def _optimum_experiment(scale: str) -> Experiment:
    """Clocks of which a process increments more and more entries."""
    base = Scenario(protocol="probabilistic", nodes=500, rate=OPTIMUM_LOAD, messages=4000)
    seeds = range(1, 4) if scale == "quick" else range(1, 11)
    runs = [
        base.replace(seed=seed, parameters={"entries": OPTIMUM_ENTRIES, "per_process": k})
        for k in INCREMENTS_TRIED
        for seed in seeds
    ]
    return _named("optimum", runs)


def byte_experiment(scale: str) -> Experiment:
    """Exact order with a clock that follows the load; an equally large fixed one; a vector."""
    scenarios = []
    for nodes in byte_nodes(scale):
        for load in BYTE_LOADS:
            entries = size(rate=load, nodes=nodes, error=HASH_ERROR).entries
            base = Scenario(
                protocol="dcs",
                nodes=nodes,
                rate=load,
                messages=600 if scale == "full" and nodes < 5000 else 150,
                parameters={
                    **OWN,
                    "detector": "hash",
                    "error": HASH_ERROR,
                    "components": math.ceil(entries / OWN["component_entries"]),
                },
            )
            # The fixed clock has to be enough for the largest load that is expected.
            most = size(rate=BYTE_LOADS[-1], nodes=nodes, error=HASH_ERROR).entries
            fixed_size = {"entries": most}
            scenarios += [
                base,
                base.replace(protocol="probabilistic", parameters=fixed_size),
                base.replace(protocol="vector", parameters={}),
            ]
    return Experiment("bytes", tuple(scenarios))
