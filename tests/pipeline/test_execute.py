"""Runs of a sweep whose protocol was never compiled. No Spark."""

import shutil
import time

import pytest

from precedes import compiled, waiting
from precedes.compiled import compiler
from precedes.pipeline import execute
from precedes.pipeline.directory import hold, read_records
from precedes.pipeline.execute import FINISHED, run_orders
from precedes.pipeline.plan import ahead_s, expand
from precedes.registry import load
from precedes.sim import Scenario, switch
from precedes.sim.experiment import Experiment
from precedes.stores import Address
from tests.support import compilers
from tests.support.places import ROOT


@pytest.fixture
def protocol(tmp_path):
    """A file of the test's own: this process has compiled nothing of it."""
    path = tmp_path / "unordered.py"
    shutil.copy(ROOT / "src/precedes/protocols/unordered.py", path)
    return str(path)


@pytest.fixture
def planned(protocol):
    small = Scenario(protocol=protocol, nodes=4, messages=20)
    return expand([Experiment("few", tuple(small.replace(seed=seed) for seed in (1, 2)))])


@pytest.fixture
def fresh(monkeypatch, empty_cache):
    """Nothing is compiled, and nobody has said how code is to run; compilers never end."""
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    monkeypatch.setitem(compiler.RECIPES, "simulator", "tests.support.small_loop:endless")
    monkeypatch.setitem(compiler.RECIPES, "live", "tests.support.small_loop:endless")


def carry_out(directory, runs, **more):
    """The results of runs in a directory of their own, without the times."""
    place = Address.of(directory)
    with hold(place):
        orders = [{**run.order(), **more} for run in runs]
        outcomes = list(run_orders(orders, directory=place, here=directory))
    assert [outcome.status for outcome in outcomes] == [FINISHED] * len(runs), outcomes
    found = {}
    for run_id, record in read_records(place, runs).items():
        times = ("cpu_s", "wall_s", "tier")
        found[run_id] = {k: v for k, v in record["result"].items() if k not in times}
    return found


def test_short_runs_wait_for_no_compiler(protocol, planned, tmp_path, fresh, monkeypatch):
    (tmp_path / "runs").mkdir()
    begun = carry_out(tmp_path / "runs", planned)
    assert switch.code_of(load(protocol), name=protocol).is_being_made(), "for the next time"
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    (tmp_path / "again").mkdir()
    assert carry_out(tmp_path / "again", planned) == begun


def test_many_runs_are_worth_a_compiler(protocol, planned, tmp_path, fresh, monkeypatch, capsys):
    """They wait for it, each of them; one that fails leaves them interpreted."""
    monkeypatch.setitem(compiler.RECIPES, "simulator", "tests.support.small_loop:failing")
    monkeypatch.setattr(waiting, "_printed", set())
    (tmp_path / "runs").mkdir()
    carry_out(tmp_path / "runs", planned, ahead_s=switch.COMPILATION_CPU_S + 1)
    waits, fails = capsys.readouterr().err.splitlines()
    assert waits.startswith("precedes: compiling unordered, which is faster than")
    assert fails.startswith("precedes: unordered stays interpreted, which is slow: ")
    code = switch.code_of(load(protocol), name=protocol)
    assert len(compilers.started(compiled.cache_root())) == 1, "for two runs"
    assert code.failure == "it does not compile"


def test_what_the_plan_says_is_ahead_is_what_orders_tell(protocol, planned):
    assert planned[0].order(ahead_s=ahead_s(planned)[protocol])["ahead_s"] > 0


@pytest.mark.parametrize(
    ("compiler", "looks"),
    [([], 1), ([True, True], 4), ([True, False, True], 5)],
)
def test_only_a_compiler_at_work_extends_the_time_of_a_run(tmp_path, compiler, looks):
    """Its end is waited for, then the run has its time once more; without one, it has it once."""
    asked = []

    def is_compiling():
        asked.append(None)
        return len(asked) <= len(compiler) and compiler[len(asked) - 1]

    with (
        (tmp_path / "note").open("w") as note,
        pytest.raises(execute.TimeLimitError),
        execute.limited(0.05, note, is_compiling=is_compiling, look_s=0.01, grace_s=60.0),
    ):
        time.sleep(600)
    assert len(asked) == looks
    assert (tmp_path / "note").read_text() == ""
