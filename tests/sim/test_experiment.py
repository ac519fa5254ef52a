"""Experiments: lists of scenarios made from what varies."""

from __future__ import annotations

import pytest

from precedes.errors import UserError
from precedes.sim import Scenario
from precedes.sim.experiment import grid

BASE = Scenario(protocol="probabilistic", nodes=10, parameters={"entries": 4})


def test_every_combination_once_with_every_seed():
    found = grid(BASE, vary={"nodes": [10, 20], "per_process": [1, 2]}, seeds=[5, 6])
    assert [(s.nodes, s.parameters["per_process"], s.seed) for s in found] == [
        (nodes, per_process, seed)
        for nodes in (10, 20)
        for per_process in (1, 2)
        for seed in (5, 6)
    ]
    assert all(s.parameters["entries"] == 4 for s in found)


def test_nothing_varied_is_one_scenario_a_seed():
    assert grid(BASE, vary={}, seeds=[3]) == (BASE.replace(seed=3),)


@pytest.mark.parametrize(
    ("vary", "seeds", "says"),
    [({"nodes": []}, [1], "nodes varies over an empty list"), ({}, [], "a seed or more")],
)
def test_an_experiment_without_runs_is_refused(vary, seeds, says):
    with pytest.raises(UserError, match=says):
        grid(BASE, vary=vary, seeds=seeds)
