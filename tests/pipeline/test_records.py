"""What a directory of a sweep survives, and what a run may do to its neighbours. No Spark."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precedes.model import UserError
from precedes.pipeline import layout, records
from precedes.pipeline.execute import ATTEMPTS_MAX, FAILED, FINISHED, run_orders
from precedes.pipeline.plan import expand
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment

BASE = Scenario(protocol="unordered", nodes=5, messages=30, rate=1000.0)


def plan(*scenarios, trace=True):
    return expand([Experiment("test", scenarios or (BASE,), trace=trace)])


def carry_out(directory, runs):
    with records.hold(directory):
        return execute(directory, runs)


def execute(directory, runs):
    orders = [json.dumps(run.order()) for run in runs]
    return list(run_orders(orders, directory=directory, here=Path.cwd()))


@pytest.mark.usefixtures("engine")
def test_a_record_says_what_the_run_yields(tmp_path):
    (run,) = plan()
    assert carry_out(tmp_path, [run]) == [(run.run_id, FINISHED, None)]
    record = records.read_records(tmp_path, [run])[run.run_id]
    assert record["result"]["deliveries"] == record["audit"]["deliveries"] == 120
    found = record["audit"]["violations"]
    assert found == record["result"]["violations"]["deliveries"] > 0
    assert len(record["audit"]["findings"]) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "records",
        "started",
        "sweep.json",
        "traces",
    ]
    assert list((tmp_path / "started").iterdir()) == []


def damage_record(directory, run):
    layout.record_path(directory, run.name).write_bytes(b'{"version": 1, "dig')


def empty_record(directory, run):
    layout.record_path(directory, run.name).write_bytes(b"[]")


def lose_trace(directory, run):
    layout.trace_path(directory, run.name).unlink()


def cut_trace(directory, run):
    path = layout.trace_path(directory, run.name)
    path.write_bytes(path.read_bytes()[:-1])


def flip_trace(directory, run):
    path = layout.trace_path(directory, run.name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("damage", [damage_record, empty_record, lose_trace, cut_trace, flip_trace])
def test_a_damaged_run_counts_as_not_done(tmp_path, damage):
    runs = plan(BASE, BASE.replace(seed=2))
    carry_out(tmp_path, runs)
    whole = layout.trace_path(tmp_path, runs[0].name).read_bytes()
    damage(tmp_path, runs[0])
    assert set(records.read_records(tmp_path, runs)) == {runs[1].run_id}
    layout.record_path(tmp_path, runs[0].name).unlink()
    carry_out(tmp_path, runs)
    assert set(records.read_records(tmp_path, runs)) == {run.run_id for run in runs}
    assert layout.trace_path(tmp_path, runs[0].name).read_bytes() == whole


@pytest.mark.usefixtures("engine")
def test_other_code_is_refused(tmp_path, monkeypatch):
    (run,) = plan()
    carry_out(tmp_path, [run])
    monkeypatch.setattr(records, "sources_digest", lambda: "f" * 24)
    with pytest.raises(UserError, match=r"another version of the code .*, this is ffff"):
        carry_out(tmp_path, [run])
    assert layout.record_path(tmp_path, run.name).exists()
    record = json.loads(layout.record_path(tmp_path, run.name).read_bytes())
    layout.record_path(tmp_path, run.name).write_text(json.dumps({**record, "code_version": "x"}))
    with pytest.raises(UserError, match="as it was before a change"):
        records.read_records(tmp_path, [run])


def test_one_at_a_time(tmp_path):
    with records.hold(tmp_path):
        (tmp_path / "records" / ".run-1.json.tmp-here-1").write_text("half")
        (tmp_path / "started" / "run-1-0").touch()
        with pytest.raises(UserError, match="another process is at work"), records.hold(tmp_path):
            pass
    with records.hold(tmp_path):
        assert list((tmp_path / "records").iterdir()) == []
        assert list((tmp_path / "started").iterdir()) == []
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"), records.hold(tmp_path):
        pass


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(UserError, match="cannot work in"), records.hold(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "here"


@pytest.mark.usefixtures("engine")
def test_a_failure_stops_nothing_but_its_run(tmp_path):
    fails = BASE.replace(delay="matrix:/none")
    broken = BASE.replace(memory_max_bytes=1)
    runs = plan(fails, BASE, broken, BASE.replace(seed=2))
    outcomes = carry_out(tmp_path, runs)
    assert [outcome.status for outcome in outcomes] == [FAILED, FINISHED, FAILED, FINISHED]
    assert "cannot read the latencies" in outcomes[0].error
    assert "more than memory_max_bytes" in outcomes[2].error
    assert len(records.read_records(tmp_path, runs)) == 2


@pytest.mark.usefixtures("engine")
def test_a_run_that_kills_its_process_is_given_up(tmp_path):
    """As often as Spark would try a task again; the run beside it is done once."""
    deadly, fine = plan(BASE, BASE.replace(seed=2))
    with records.hold(tmp_path):
        for attempt in range(ATTEMPTS_MAX):
            (tmp_path / "started" / f"{deadly.name}-{attempt}").touch()
            outcomes = execute(tmp_path, [deadly, fine])
            if attempt < ATTEMPTS_MAX - 1:
                assert [outcome.status for outcome in outcomes] == [FINISHED] * 2
                layout.record_path(tmp_path, deadly.name).unlink()
    assert [outcome.status for outcome in outcomes] == [FAILED, FINISHED]
    assert f"died {ATTEMPTS_MAX} times" in outcomes[0].error


def test_machines_that_do_not_share(tmp_path):
    (run,) = plan()
    (outcome,) = execute(tmp_path, [run])
    assert outcome.status == FAILED
    assert "must share it" in outcome.error


@pytest.mark.usefixtures("engine")
def test_other_code_on_a_machine(tmp_path):
    (run,) = plan()
    with records.hold(tmp_path):
        order = json.dumps({**run.order(), "code_version": "0" * 24})
        (outcome,) = run_orders([order], directory=tmp_path, here=tmp_path)
    assert "another version of the code" in outcome.error
    assert not layout.record_path(tmp_path, run.name).exists()


FULL_DISK = """
import json, sys
from pathlib import Path
from precedes.pipeline import records
from precedes.pipeline.execute import run_orders
directory = Path(sys.argv[1])
with records.hold(directory):
    for outcome in run_orders(sys.argv[2:], directory=directory, here=directory):
        print(json.dumps(outcome))
"""


@pytest.mark.usefixtures("engine")
def test_a_full_disk_fails_runs_and_keeps_the_finished(tmp_path):
    """A large trace between two small ones, with room for files of 20 kB only."""
    small = BASE.replace(seed=2)
    runs = plan(BASE, BASE.replace(nodes=20, messages=2000), small)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    orders = [json.dumps(run.order()) for run in runs]
    line = [sys.executable, "-c", FULL_DISK, str(tmp_path), *orders]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, preexec_fn=limit)
    outcomes = [json.loads(row) for row in done.stdout.splitlines()]
    assert [status for _, status, _ in outcomes] == [FINISHED, FAILED, FINISHED], done.stderr
    assert "cannot write the trace" in outcomes[1][2]
    assert "free some space" in outcomes[1][2]
    assert set(records.read_records(tmp_path, runs)) == {runs[0].run_id, runs[2].run_id}
    assert len(list((tmp_path / "traces").iterdir())) == 2
    assert os.listdir(tmp_path / "started") == []
