"""`dcs.spec`: clocks that grow and shrink as the compiled one does."""

import pytest

from precedes import simulate
from precedes.protocols.dcs import spec
from precedes.testing import check_same
from tests.support import dcs_stress


def gate(seeds):
    return [pytest.param(seed, marks=pytest.mark.gate) for seed in seeds]


# Two of these deliver something in a broadcast: it waited for an entry that the broadcast raised.
SMALL = (1, 11, *gate(seed for seed in range(2, 41) if seed != 11))
PULSES = (2, 5, *gate(seed for seed in range(1, 31) if seed not in (2, 5)))


def check_shrinking(scenario):
    """The same events, in a run whose clock grows, is deactivated and removed."""
    scenario = scenario.replace(parameters={**scenario.parameters, "detector": "none"})
    other = scenario.replace(protocol="dcs.spec")
    compiled = check_same(scenario, other).result.extra
    plain = simulate(other).extra
    one = scenario.parameters["component_entries"] * scenario.parameters["components"]
    assert compiled["entries_sent_mean"] > one, "no component was activated"
    for what in ("deactivated", "removed"):
        assert compiled[what] == plain[what] > 0, what


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", SMALL)
def test_clocks_follow_the_load_alike(seed):
    check_shrinking(dcs_stress.small(seed))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", PULSES)
def test_components_come_and_go_alike(seed):
    check_shrinking(dcs_stress.pulses(seed))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("schedule", [dcs_stress.small, dcs_stress.pulses])
def test_they_redraw_and_balance_alike(schedule):
    scenario = schedule(4)
    given = {"redraw": True, "balance_ms": 300.0, "balance_phase_ms": 70.0}
    check_shrinking(scenario.replace(parameters={**scenario.parameters, **given}))


def test_theorem_1_fails_once_components_are_deactivated():
    """The counterexample: the later of two own messages carries fewer components."""
    scenario = dcs_stress.pulses(2).replace(protocol="dcs.spec")
    assert simulate(scenario).extra["theorem_1_fails"] > 0
    static = {**scenario.parameters, "components": scenario.parameters["components_max"]}
    assert simulate(scenario.replace(parameters=static)).extra["theorem_1_fails"] == 0


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([[0, 1]], [[0, 2]], True),
        ([[0, 1]], [[0, 1]], False),
        ([[0, 1]], [[1, 0]], False),
        ([[0, 1]], [[0, 2], [0, 0]], True),
        ([[0, 1]], [[0, 1], [5, 5]], False),  # no component that both have is larger
        ([[0, 1], [0, 0]], [[0, 2]], False),
        ([[1, 1], [0, 1]], [[1, 2], [0, 0]], False),
    ],
)
def test_the_comparison_of_section_iii_c(one, other, expected):
    assert spec.less(one, other) is expected


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_messages_have_the_same_size(seed):
    """Without rounds, whose packets are records here and larger than compiled ones."""
    scenario = dcs_stress.small(seed)
    parameters = {**scenario.parameters, "detector": "none", "round_ms": 1e9}
    scenario = scenario.replace(parameters=parameters)
    compiled, plain = simulate(scenario), simulate(scenario.replace(protocol="dcs.spec"))
    assert compiled.packets == plain.packets
    assert compiled.bytes_sent == plain.bytes_sent
