"""Workloads and laws of delay as values: one list for help, page, schedule and cost."""

import numpy as np
import pytest

from precedes import delays
from precedes.errors import UserError
from precedes.sim import Scenario, workloads
from precedes.sim.inputs.broadcasts import make_workload
from tests.support.places import ROOT

ROOM = {"nodes": 40, "rate": 50.0}


@pytest.mark.parametrize("laws", [workloads.KINDS, delays.LAWS], ids=["workloads", "delays"])
def test_every_form_is_on_the_page_and_in_the_help(laws):
    page = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    for law in laws.laws:
        for form in law.FORMS:
            assert f"`{form.partition(' ')[0]}`" in page, form
            assert form in laws.help


@pytest.mark.parametrize(
    "fields",
    [
        {"workload": "poisson", "duration_s": 60.0},
        {"workload": "periodic", "messages": 500},
        {"workload": "window:100"},
        {"workload": "window:100:7"},
        {"workload": "exponential:100"},
        {"workload": "exponential:100:7", "messages": 33},
        {"workload": "triangle:100"},
        {"workload": "triangle:100:7"},
        {"workload": "burst:3:50"},
        {"workload": "bell:10:90", "duration_s": 60.0},
        {"workload": "random:10:90", "duration_s": 400.0},
        {"workload": "random:10:90:2", "duration_s": 100.0},
        {"workload": "shift:5:0.5:4", "duration_s": 60.0},
        {"workload": "periodic_bell:10:90:2", "duration_s": 60.0},
        {"workload": "periodic_random:10:90:2", "duration_s": 100.0},
        {"workload": "periodic_shift:5:0.5:4", "duration_s": 60.0},
    ],
    ids=lambda fields: fields["workload"],
)
def test_what_a_workload_costs_is_what_is_drawn(fields):
    scenario = Scenario(protocol="vector", **ROOM, **fields)
    drawn = make_workload(scenario, np.random.default_rng(1), {})
    assert workloads.broadcasts(scenario) == pytest.approx(len(drawn.issue), rel=0.5)


def test_a_workload_with_mistakes_costs_something():
    scenario = Scenario(protocol="vector", **ROOM, duration_s=10.0)
    for text in ("nonsense", "bell:x", "window:1:2:3", "poisson:3"):
        assert workloads.broadcasts(scenario.replace(workload=text)) == 500
    assert workloads.broadcasts(Scenario(protocol="vector", nodes=2)) == 0


def test_texts_and_values():
    assert delays.read("normal:100:20") == delays.Normal(mean_ms=100.0, deviation_ms=20.0)
    assert workloads.KINDS.read("window:5") == workloads.Window(ms=5.0, times=1.0)
    assert str(workloads.replayed("replay:a:b.json")) == "a:b.json"
    for text in ("replay", "replays:a", "poisson"):
        assert workloads.replayed(text) is None
    with pytest.raises(UserError, match=r"did you mean 'uniform'.*: use constant:MS, "):
        delays.read("unifrm:1:2")
