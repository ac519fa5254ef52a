"""Plans: ids that last, tasks that are even, files that mean what they say."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.errors import UserError
from precedes.pipeline import plan
from precedes.pipeline.plan import TASK_S, ahead_s, cost_s, expand, pack
from precedes.pipeline.sweep import params_of, to_toml
from precedes.sim import Fault, Scenario, from_toml
from precedes.sim.experiment import Experiment, from_file
from precedes.sim.scenario import from_echo
from tests.support import runs

BASE = Scenario(protocol="vector", nodes=5, messages=20)
FAULTS = (
    Fault(kind="crash", node=1, after_sends=3, detection_ms=(1.5, 2.0)),
    Fault(kind="cut", nodes=(0, 1), others=(2,), at_s=1.0, for_s=0.5, holds=True),
)


def experiment(name, seeds, **fields):
    scenarios = tuple(BASE.replace(seed=seed) for seed in seeds)
    return Experiment(name=name, scenarios=scenarios, **fields)


def test_a_run_has_the_same_id_in_any_plan():
    alone = {run.scenario.seed: run.run_id for run in expand([experiment("a", [1, 2])])}
    others = experiment("b", [9, 8, 7])
    longer = expand([others, experiment("a", [3, 2, 4, 1])])
    among = {run.scenario.seed: run.run_id for run in longer if run.experiment == "a"}
    assert {seed: among[seed] for seed in alone} == alone
    assert len({run.run_id for run in longer}) == len(longer)
    assert all(0 <= run.run_id < 1 << 31 for run in longer)


def test_what_changes_a_run_changes_its_id():
    changed = [
        BASE,
        BASE.replace(seed=2),
        BASE.replace(protocol="unordered"),
        BASE.replace(loss=0.1),
        BASE.replace(faults=FAULTS[:1]),
    ]
    (traced,) = expand([Experiment("traced", (BASE,), trace=True)])
    ids = {run.run_id for run in expand([Experiment("all", tuple(changed))])}
    assert len(ids) == len(changed)
    assert traced.run_id not in ids


def test_how_a_number_is_written_changes_no_id():
    written = {
        "rate": (50, 50.0),
        "duration_s": (3, 3.0),
        "faults": tuple(
            (Fault(kind="crash", node=1, at_s=one, detection_ms=(one, 2)),) for one in (1, 1.0)
        ),
    }
    for name, (whole, decimal) in written.items():
        pair = [BASE.replace(**{name: value}) for value in (whole, decimal)]
        assert [str(scenario) for scenario in pair] == [str(pair[0])] * 2
        first, second = expand([Experiment("all", tuple(pair))])
        assert first.run_id == second.run_id, name


def test_ids_that_meet_are_distinguished(monkeypatch):
    seen = {}

    def digest(scenario, **_):
        return seen.setdefault(scenario.seed, f"ffffffff{scenario.seed:056x}")

    monkeypatch.setattr(plan, "digest_of", digest)
    runs = expand([experiment("a", [1, 2, 3]), experiment("b", [2])])
    assert [run.run_id for run in runs] == [2**31 - 1, 0, 1, 0]


def test_bounds_of_a_plan(monkeypatch):
    monkeypatch.setattr(plan, "RUNS_MAX", 3)
    assert len(expand([experiment("a", [1, 2, 3])])) == 3
    with pytest.raises(UserError, match="4 runs are more than 3"):
        expand([experiment("a", [1, 2]), experiment("b", [1, 2])])
    with pytest.raises(UserError, match="same name"):
        expand([experiment("a", [1]), experiment("a", [2])])


@given(st.lists(st.floats(0.001, 60), max_size=60), st.integers(1, 5))
def test_packing(costs, at_least):
    tasks = pack(costs, at_least=at_least)
    assert sorted(itertools.chain(*tasks)) == list(range(len(costs)))
    assert all(tasks)
    loads = [sum(costs[i] for i in task) for task in tasks]
    assert loads == sorted(loads, reverse=True)
    if len(tasks) > 1:
        assert max(loads) <= min(loads) + max(costs) + 1e-9
        assert len(tasks) <= max(at_least, sum(costs) / TASK_S + 1)


def test_many_small_runs_share_few_tasks_and_large_ones_do_not():
    assert len(pack([0.01] * 1000)) == 5
    assert len(pack([10.0] * 16)) == 16


def test_costs_follow_the_work():
    small, large = cost_s(BASE, trace=False), cost_s(BASE.replace(messages=10**6), trace=False)
    assert large > 50 * small
    assert cost_s(BASE.replace(messages=10**6), trace=True) > 2 * large
    timed = BASE.replace(messages=None, duration_s=1000.0, rate=1000.0)
    assert cost_s(timed, trace=False) == pytest.approx(large)
    for workload in ("window:5", "bell:1:9", "random:1:9", "replay:/none", "nonsense"):
        assert cost_s(timed.replace(workload=workload), trace=False) > 0


def test_costs_differ_by_protocol():
    """Machines on a radio are interpreted: a sweep over them is many tasks, not one."""
    mobile = Scenario(protocol="mobile", nodes=70, rate=35.0, duration_s=60.0)
    costs = [cost_s(mobile.replace(seed=seed), trace=True) for seed in range(16)]
    assert 0.5 < costs[0] < 5
    assert len(pack(costs)) >= 8
    linked = cost_s(mobile.replace(protocol="vector"), trace=True)
    assert costs[0] > 10 * linked
    trees = cost_s(mobile.replace(protocol="vcube"), trace=False)
    assert trees > 2 * cost_s(mobile.replace(protocol="vector"), trace=False)


def test_costs_follow_finished_runs():
    """Of the same protocol, traced or not; others stay as they were guessed."""
    slow, other = (Experiment(name, (BASE.replace(protocol=name),)) for name in ("dcs", "hashed"))
    more = Experiment("more", (BASE.replace(protocol="dcs", messages=4000),))
    traced = dataclasses.replace(more, name="traced", trace=True)
    runs = expand([slow, other, more, traced])
    found = plan.learned(runs, {runs[0].run_id: 50 * runs[0].cost_s})
    ratios = [new.cost_s / old.cost_s for new, old in zip(found, runs, strict=True)]
    assert ratios == pytest.approx([50, 1, 50, 1])
    assert plan.learned(runs, {}) == runs


@pytest.mark.parametrize(
    "scenario",
    [
        BASE,
        BASE.replace(faults=FAULTS, horizon_s=3.0, messages=None, duration_s=0.1),
        BASE.replace(protocol="probabilistic", parameters={"entries": 9, "x y": 'a"\n\\é'}),
        BASE.replace(rate=1e-6, loss=0.30000000000000004, seed=2**63 - 1, workload="bell:1:2"),
    ],
)
def test_scenarios_survive_their_journeys(scenario, tmp_path):
    (run,) = expand([Experiment("one", (scenario,))])
    assert from_echo(run.order()["scenario"]) == scenario
    path = tmp_path / "again.toml"
    path.write_text(to_toml(scenario))
    assert from_toml(path) == scenario


def test_an_experiment_file(tmp_path):
    found = runs.experiment(tmp_path)
    assert (found.name, found.trace, found.packets) == ("sample", True, False)
    assert found.run_seconds_max == 3600
    text = runs.EXPERIMENT.replace("trace = true", "trace = true\nrun_seconds_max = 7")
    assert {run.run_seconds_max for run in expand([runs.experiment(tmp_path, text)])} == {7}
    assert len(found.scenarios) == runs.RUNS
    cells = {(s.protocol, *s.parameters.items()) for s in found.scenarios}
    assert cells == {
        ("probabilistic", ("entries", 10)),
        ("probabilistic", ("entries", 40)),
        ("vector",),
        ("unordered",),
    }
    assert {s.seed for s in found.scenarios} == {1, 2, 3}


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("", "no .sweep. table"),
        ("[sweep]\nseeds = 0", ":4: seeds is a list, or a count"),
        ("[sweep]\nseeds = [1, 1]", ":4: seeds names a value twice"),
        ("[sweep]\nseeds = [1.5]", ":4: seeds are whole numbers"),
        ("[sweep]\nrun_seconds_max = 0", ":4: run_seconds_max is a number of seconds"),
        ('[sweep]\nrun_seconds_max = "1h"', ":4: run_seconds_max is a number of seconds"),
        ("[sweep]\ntrace = 1", ":4: trace takes true or false"),
        ("[sweep]\npackets = true", ":4: packets are events of a trace"),
        ("[sweep]\nloss = 0.5", ":4: loss takes a list"),
        ("[sweep]\nloss = []", ":4: loss takes a list"),
        ("[sweep]\nloss = [2.0]", "probability"),
        ("[sweep]\nseed = [1]", ":4: seed is not varied in this way: use seeds"),
        ("[sweep]\nfaults = [1]", "a file for each set"),
        ("[sweep]\nentries = [5]", ":4: entries is neither"),
        ('[sweep]\nprotocols = ["nobody"]', "no protocol 'nobody'"),
        ('[sweep]\nprotocols = ["probabilistic"]\nentries = ["x"]', "a whole number"),
    ],
)
def test_mistakes_in_an_experiment_file(tmp_path, sweep, said):
    path = runs.write(tmp_path, f'protocol = "vector"\nnodes = 5\n{sweep}\n')
    with pytest.raises(UserError, match=said) as caught:
        from_file(path)
    assert str(caught.value).startswith(str(path))


def texts(*scenarios):
    return list(params_of(Experiment("all", scenarios)).values())


def test_runs_of_one_cell_differ_in_the_seed_alone():
    """Whatever else differs is in the text that means are grouped by, faults too."""
    assert texts(BASE, BASE.replace(seed=2)) == ["", ""]
    assert texts(BASE, BASE.replace(loss=0.5)) == ["loss=0.0", "loss=0.5"]
    crash = BASE.replace(faults=FAULTS[:1])
    both = texts(BASE, crash, crash.replace(seed=2), BASE.replace(faults=FAULTS))
    assert both[:3] == [
        "faults=none",
        "faults=crash(node=1,after_sends=3,detection_ms=1.5/2.0)",
        "faults=crash(node=1,after_sends=3,detection_ms=1.5/2.0)",
    ]
    assert both[3].startswith("faults=2-"), "a long list is represented by a digest"
    assert texts(crash, crash.replace(seed=2)) == ["", ""]


def test_a_run_that_would_count_twice_is_refused():
    with pytest.raises(UserError, match=r"scenarios 0 and 2 of all are the same run \(vector"):
        texts(BASE, BASE.replace(seed=2), BASE)


def test_what_all_runs_of_a_protocol_would_take_interpreted():
    """Within a factor of two or so of what they do take, by their deliveries."""
    vector = Scenario(protocol="vector", nodes=11, messages=1000)
    dcs = vector.replace(protocol="dcs")
    runs = expand([Experiment("one", (vector, vector.replace(seed=2), dcs))])
    found = ahead_s(runs)
    assert found["vector"] == pytest.approx(2 * 11_000 * 0.1e-6 * 500)
    assert found["dcs"] == pytest.approx(11_000 * 0.3e-6 * 500)
