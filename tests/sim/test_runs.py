"""One way to run a scenario, found in two places, that costs nothing until it is used."""

import contextlib
import dataclasses
import inspect
import itertools
import typing

import pytest

import precedes
from precedes import Scenario, UserError, sim, simulate, waiting
from precedes.sim.runs import OPTIONS
from precedes.sim.scenario import RunFields
from tests.support.processes import printed


def test_there_is_one_simulate():
    assert precedes.simulate is sim.simulate


def imported_by(code):
    """The large libraries that some code imports, in a separate process."""
    names = "numpy", "numba", "pyarrow"
    check = f"import sys; {code}; print(*[name for name in {names} if name in sys.modules])"
    return printed("-c", check).split()


@pytest.mark.parametrize(
    "code",
    [
        "import precedes.sim, precedes.cli.simulate",
        "from precedes import Scenario; Scenario(protocol='vector', nodes=2)",
    ],
)
def test_neither_the_command_nor_a_scenario_imports_the_engine(code):
    assert imported_by(code) == []


def test_a_run_without_a_trace_imports_no_writer():
    scenario = "Scenario(protocol='vector', nodes=2, messages=1)"
    code = f"from precedes import Scenario, simulate; simulate({scenario}, tier='interpreted')"
    assert "pyarrow" not in imported_by(code)


def plain(result):
    return {**result.as_dict(), "cpu_s": None, "wall_s": None, "tier": None}


def test_a_name_and_fields_are_a_scenario():
    fields = {"nodes": 4, "messages": 30, "delay": "exponential:20", "seed": 9}
    by_name = simulate("unordered", **fields, tier="interpreted")
    scenario = Scenario(protocol="unordered", **fields)
    assert plain(by_name) == plain(simulate(scenario, tier="interpreted"))


def test_every_field_is_a_keyword_for_type_checkers():
    by_scenario, by_name = typing.get_overloads(simulate)
    given = inspect.signature(by_name).parameters
    assert given["fields"].annotation == "Unpack[RunFields]"
    assert set(given) == {"scenario", "nodes", "fields", *OPTIONS}
    kinds = {item.name: item.type for item in dataclasses.fields(Scenario)}
    del kinds["protocol"], kinds["nodes"]
    typed = {name: kind.__forward_arg__ for name, kind in RunFields.__annotations__.items()}
    assert typed == {**kinds, "faults": "Sequence[Fault]"}
    required = {name for name in given if given[name].default is inspect.Parameter.empty}
    assert required == {"scenario", "nodes", "fields"}
    assert {*OPTIONS} < set(inspect.signature(by_scenario).parameters)


@pytest.mark.parametrize(
    ("first", "fields", "text"),
    [
        ("vector", {"node": 5}, "simulate has no argument 'node' (did you mean 'nodes'?)"),
        ("vector", {"nodes": 5, "trase": ""}, "no argument 'trase' (did you mean 'trace'?)"),
        ("vector", {"messages": 5}, "nodes is missing: simulate('vector', nodes=50, ...)"),
        ("vector", {"nodes": 5}, "no length: give `messages` or `duration_s`"),
        ("vectr", {"nodes": 5, "messages": 1}, "no protocol 'vectr' (did you mean 'vector'?)"),
        (Scenario("vector", 2), {"nodes": 5}, "given already: use scenario.replace(...)"),
        (Scenario("vector", 2), {"prog": 5}, "simulate has no argument 'prog'"),
        (7, {}, "simulate takes a Scenario, or the name of a protocol"),
    ],
)
def test_mistakes_are_reported_in_the_words_of_python(first, fields, text):
    with pytest.raises(UserError) as raised:
        simulate(first, **fields)
    assert text in str(raised.value)
    assert "--" not in str(raised.value)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    "load",
    [
        {"messages": 300},
        {"duration_s": 3.0},
        {"workload": "window:0:40"},  # all is broadcast in the first moment
        {"messages": 300, "trace": "trace.parquet"},
    ],
    ids=str,
)
def test_progress_moves_through_the_whole_run(load, tier, engine, tmp_path, monkeypatch):
    """Reported often, it rises step by step, and nearly all of the way before the end."""
    monkeypatch.setattr("precedes.sim.switch.SLICE_EVENTS", 100)
    monkeypatch.setattr("precedes.sim.switch.SLICE_EVENTS_INTERPRETED", 100)
    monkeypatch.chdir(tmp_path)
    shares = []
    simulate("vector", nodes=8, tier=tier, progress=shares.append, **load)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    steps = [after - before for before, after in itertools.pairwise([0.0, *shares])]
    assert len(set(shares)) > 10
    assert max(steps[1:]) < 0.25, "it stands still, or jumps"
    assert steps[0] < 0.6, "half of a burst is over at once"


def test_progress_of_a_radio_moves_too(monkeypatch):
    monkeypatch.setattr("precedes.sim.radio.run.PROGRESS_EVENTS", 500)
    shares = []
    simulate("mobile", nodes=10, duration_s=10.0, rate=20.0, progress=shares.append)
    assert shares == sorted(shares)
    assert len(set(shares)) > 10
    assert max(after - before for before, after in itertools.pairwise([0.0, *shares])) < 0.2


def test_a_long_trace_is_waited_for_with_a_word(tmp_path, monkeypatch):
    said = []

    def display(text):
        said.append(text)
        return contextlib.nullcontext()

    monkeypatch.setattr(waiting, "_display", display)
    run = {"nodes": 4, "messages": 20, "tier": "interpreted"}
    simulate("vector", trace=tmp_path / "short.parquet", **run)
    assert said == []
    monkeypatch.setattr("precedes.sim.runs.ROWS_MANY", 10)
    simulate("vector", trace=tmp_path / "long.parquet", **run)
    assert said == ["writing the trace"]
