"""The directory of a sweep in a store: the same runs as on disk, whatever is killed. No Spark."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precedes.errors import UserError
from precedes.pipeline.directory import (
    ATTEMPTS_MAX,
    begin,
    begun_names,
    forget_starts,
    hold,
    read_records,
    record_path,
    start_path,
    trace_path,
)
from precedes.pipeline.execute import FAILED, FINISHED, run_orders
from precedes.pipeline.plan import expand
from precedes.pipeline.tables import plain_tables
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.stores import Address

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
    """What runs have left: traces by the byte, and tables of all but times."""
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


@pytest.mark.usefixtures("engine")
def test_a_store_holds_what_a_disk_holds(place, tmp_path):
    runs = plan()
    disk = Address.of(tmp_path / "out")
    for directory in (disk, place):
        assert carry_out(directory, runs) == [(run.run_id, FINISHED, None) for run in runs]
    assert yielded(place, runs) == yielded(disk, runs)
    names = [e.name for e in place.entries(deep=True)]
    assert names == [
        *(f"records/{run.name}.json" for run in sorted(runs, key=lambda run: run.name)),
        "sweep.json",
        *(f"traces/{run.name}.parquet" for run in sorted(runs, key=lambda run: run.name)),
    ]


def lose_trace(directory, run):
    trace_path(directory, run.name).remove()


def replace_trace(directory, run):
    trace = trace_path(directory, run.name)
    content = bytearray(trace.read_bytes())
    content[len(content) // 2] ^= 1
    trace.put(bytes(content))


def damage_record(directory, run):
    record_path(directory, run.name).put(b'{"version": 1, "dig')


def lose_record(directory, run):
    record_path(directory, run.name).remove()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("damage", [lose_trace, replace_trace, damage_record, lose_record])
def test_a_damaged_run_is_not_finished(place, damage):
    runs = plan()
    carry_out(place, runs)
    before = yielded(place, runs)
    assert len(read_records(place, runs)) == 2
    damage(place, runs[0])
    assert set(read_records(place, runs)) == {runs[1].run_id}
    lose_record(place, runs[0])  # as a sweep does with what it does again
    untouched = record_path(place, runs[1].name).version()
    carry_out(place, runs)
    assert yielded(place, runs) == before
    assert record_path(place, runs[1].name).version() == untouched


def kill_and_go_on(place, disk, kind, when):
    runs = plan()
    code = [sys.executable, "-c", KILLED, str(place), kind, when]
    code += map(json.dumps, orders(runs))
    killed = subprocess.run(code, capture_output=True, text=True, timeout=120, check=False)
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


def test_one_process_at_a_time_of_one_version(place):
    at_work = f"process {os.getpid()} of .* is at work"
    with hold(place), pytest.raises(UserError, match=at_work), hold(place):
        pass
    (place / "sweep.json").put(json.dumps({"version": 1, "code_version": "other"}).encode())
    with pytest.raises(UserError, match="of another version of the code"), hold(place):
        pass


@pytest.mark.usefixtures("engine")
def test_a_run_that_processes_die_of_is_given_up(place):
    deadly, fine = plan()
    with hold(place):
        for attempt in range(ATTEMPTS_MAX):
            assert begin(start_path(place, deadly.name, attempt))
            assert not begin(start_path(place, deadly.name, attempt))
        assert begun_names(place) == {deadly.name}
        outcomes = list(run_orders(orders([deadly, fine]), directory=place, here=Path.cwd()))
        assert [outcome.status for outcome in outcomes] == [FAILED, FINISHED]
        assert f"died {ATTEMPTS_MAX} times" in outcomes[0].error
        assert "longer than run_seconds_max" in outcomes[0].error
        forget_starts(place, deadly.name)
        assert begun_names(place) == set()


def test_a_store_that_a_task_cannot_open_fails_its_runs(place, monkeypatch):
    run, _ = plan()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    (outcome,) = run_orders(orders([run]), directory=place, here=Path.cwd())
    assert outcome.status == FAILED
    assert "does not answer: check AWS_ENDPOINT_URL" in outcome.error


def test_nothing_stays_on_the_machine(place, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    carry_out(place, plan())
    assert list(tmp_path.iterdir()) == []
