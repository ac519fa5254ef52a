"""Fields of a scenario as typed columns of the table of runs."""

import pytest

from precedes.pipeline import tables
from precedes.sim import Scenario
from precedes.sim.scenario import Fault


def cells(**fields):
    scenario = Scenario(protocol="probabilistic", nodes=4, messages=3, **fields)
    types = {**tables.scenario_types(), **tables.parameter_types(["probabilistic", "vcube"])}
    return types, tables.cells(scenario, types)


def test_values_have_their_own_types():
    types, found = cells(rate=7, parameters={"entries": 12}, faults=(Fault("crash", 1, 2.0),))
    assert types["param_entries"] is int
    assert found["param_entries"] == 12
    assert isinstance(found["rate"], float)
    assert found["loss"] == 0.0
    assert found["fifo"] is False
    assert found["duration_s"] is None
    assert found["faults"] == "crash(node=1,at_s=2.0)"


def test_defaults_are_there_and_foreign_parameters_are_not():
    types, found = cells()
    own = {name for name in found if name.startswith(tables.PARAMETER)}
    assert "param_entries" in own
    foreign = {name for name in types if name.startswith(tables.PARAMETER)} - own
    assert foreign  # those of vcube: null in the row of this run
    assert found["faults"] == "none"


@pytest.mark.parametrize(
    ("kinds", "common"),
    [({int}, int), ({int, float}, float), ({bool, int}, str), ({str, float}, str)],
)
def test_two_protocols_may_differ_in_a_type(kinds, common):
    assert tables._common(kinds) is common


def test_long_faults_are_a_digest():
    faults = tuple(Fault("crash", node, node / 3) for node in range(9))
    word = tables.faults_word(faults)
    assert len(word) < tables.FAULTS_CHARACTERS_MAX
    assert word != tables.faults_word((*faults[:8], Fault("crash", 8, 1.0)))
