"""The directory of a sweep in a store: the same runs as on disk, whatever is killed. No Spark."""

import json
import signal
from pathlib import Path

import pytest

from precedes.pipeline.directory import (
    hold,
    read_records,
)
from precedes.pipeline.execute import FAILED, run_orders
from precedes.pipeline.plan import expand
from precedes.pipeline.tables import plain_tables
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.stores import Address
from tests.support.processes import python

BASE = Scenario(protocol="unordered", nodes=4, messages=12, rate=1000.0)

# Ends itself before or after it uploads a file of a kind.
KILLED = """
import json, os, sys
from pathlib import Path
from precedes.pipeline.directory import hold
from precedes.pipeline.execute import run_orders
from precedes.stores import Address
directory, kind, when, *orders = sys.argv[1:]
upload = Address._upload

def killed(self, path):
    inside = str(self).removeprefix(directory + "/")
    if inside.startswith(kind) and when == "before":
        os.kill(os.getpid(), 9)
    upload(self, path)
    if inside.startswith(kind) and when == "after":
        os.kill(os.getpid(), 9)

Address._upload = killed
with hold(Address.of(directory)):
    list(run_orders(map(json.loads, orders), directory=Address.of(directory), here=Path.cwd()))
"""
PARTS = (".lease", "sweep.json", "started", "traces", "records")


def plan(*scenarios, trace=True):
    return expand([Experiment("test", scenarios or (BASE, BASE.replace(seed=2)), trace=trace)])


def orders(runs):
    return [run.order() for run in runs]


def carry_out(directory, runs):
    with hold(directory):
        return list(run_orders(orders(runs), directory=directory, here=Path.cwd()))


def yielded(directory, runs):
    """Results of runs: bytes of traces, and tables without times."""
    found = plain_tables(dict(read_records(directory, runs)))
    del found["timings"]
    assert found["results"].num_rows == len(runs)
    traces = {
        name: (directory / "traces" / name).digest() for name in (directory / "traces").names()
    }
    return found, traces


@pytest.fixture
def place(bucket):
    """A directory in a store, which is not there."""
    return Address.of(f"{bucket}/a/sweep")


def kill_and_go_on(place, disk, kind, when):
    runs = plan()
    killed = python("-c", KILLED, place, kind, when, *map(json.dumps, orders(runs)))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished = set((place / "records").names())
    kept = {name: (place / "records" / name).read_bytes() for name in finished}
    carry_out(place, runs)
    assert yielded(place, runs) == yielded(disk, runs)
    for name, content in kept.items():
        assert (place / "records" / name).read_bytes() == content
    assert (place / "started").names() == []
    assert (place / ".lease").names() == []
    return len(finished)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("kind", "finished"), [("traces", 0), ("records", 1)])
def test_a_kill_between_the_upload_of_a_trace_and_its_record(place, tmp_path, kind, finished):
    disk = Address.of(tmp_path / "out")
    carry_out(disk, plan())
    assert kill_and_go_on(place, disk, kind, "after") == finished


@pytest.mark.swarm
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", PARTS)
def test_a_kill_at_each_kind_of_part(place, tmp_path, kind, when):
    disk = Address.of(tmp_path / "out")
    carry_out(disk, plan())
    kill_and_go_on(place, disk, kind, when)


def test_a_store_that_a_task_cannot_open_fails_its_runs(place, monkeypatch):
    run, _ = plan()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    (outcome,) = run_orders(orders([run]), directory=place, here=Path.cwd())
    assert outcome.status == FAILED
    assert "does not answer: check AWS_ENDPOINT_URL" in outcome.error


@pytest.mark.usefixtures("engine")
def test_nothing_stays_on_the_machine(place, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    carry_out(place, plan())
    assert list(tmp_path.iterdir()) == []
