"""Failures that a directory of a sweep survives, and isolation of runs. No Spark."""

import contextlib
import dataclasses
import json
import os
import resource
import shutil
import signal
import textwrap
import time
import tracemalloc
from pathlib import Path

import pytest

from precedes import sources, waiting
from precedes.compiled import cache, sources_digest
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
from precedes.pipeline.execute import FAILED, FINISHED, is_compiling, run_orders
from precedes.pipeline.plan import expand
from precedes.pipeline.sweep import RunWatch
from precedes.registry import load
from precedes.sim import Scenario, memory, simulate
from precedes.sim.experiment import Experiment
from precedes.sim.switch import code_of
from precedes.stores import Address
from precedes.trace import read_metadata
from tests.support.processes import python
from tests.support.runs import record_of

BASE = Scenario(protocol="unordered", nodes=5, messages=30, rate=1000.0)


def plan(*scenarios, trace=True):
    return expand([Experiment("test", scenarios or (BASE,), trace=trace)])


def held_at(directory):
    return hold(Address.of(directory))


def carry_out(directory, runs):
    with held_at(directory):
        return execute(directory, runs)


def execute(directory, runs):
    """Their outcomes in the order of the runs."""
    orders = [run.order() for run in runs]
    outcomes = run_orders(orders, directory=Address.of(directory), here=Path.cwd())
    found = {outcome.run_id: outcome for outcome in outcomes}
    return [found[run.run_id] for run in runs]


@pytest.mark.usefixtures("engine")
def test_a_record_says_what_the_run_yields(tmp_path):
    (run,) = plan()
    assert carry_out(tmp_path, [run]) == [(run.run_id, FINISHED, None)]
    record = read_records(Address.of(tmp_path), [run])[run.run_id]
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


@pytest.mark.usefixtures("engine")
def test_records_are_read_when_they_are_asked_for(tmp_path):
    """A sweep may have a hundred thousand, of which each takes tens of kilobytes."""
    runs = plan(*(BASE.replace(seed=seed) for seed in range(20)))
    carry_out(tmp_path, runs)
    tracemalloc.start()
    found = read_records(Address.of(tmp_path), runs)
    kept, _ = tracemalloc.get_traced_memory()
    in_memory = {run_id: found[run_id] for run_id in found}
    all_of_them = tracemalloc.get_traced_memory()[0] - kept
    tracemalloc.stop()
    assert len(in_memory) == 20
    assert kept < all_of_them / 5
    assert set(found.costs_s) == {run.run_id for run in runs}
    assert min(found.costs_s.values()) > 0
    with pytest.raises(KeyError):
        found[runs[0].run_id ^ 1]
    record_of(tmp_path, runs[0].name).unlink()
    with pytest.raises(UserError, match="has changed"):
        found[runs[0].run_id]


@pytest.mark.usefixtures("engine")
def test_the_sources_are_read_once_a_process(tmp_path, monkeypatch):
    """Whatever is read for every run makes a sweep of many small ones slow."""
    simulate(BASE, trace=tmp_path / "first.parquet")
    monkeypatch.setattr(sources, "digest_of_file", lambda path: pytest.fail(f"{path} is read"))
    simulate(BASE, trace=tmp_path / "second.parquet")
    assert read_metadata(tmp_path / "second.parquet")["code_version"] == sources_digest()


def test_the_records_are_looked_at_as_often_as_that_is_quick(tmp_path, monkeypatch):
    runs = plan(*(BASE.replace(seed=seed) for seed in range(4)))
    looks, shares = [], []

    def look(directory):
        time.sleep(0.02)  # as long as some ten thousand records take
        looks.append(directory)
        return {run.name for run in runs[: len(looks)]}

    monkeypatch.setattr("precedes.pipeline.sweep.finished_names", look)
    with held_at(tmp_path) as held:
        watch = RunWatch(held, runs, shares.append)
        for _ in range(50):
            watch()
        assert len(looks) == 1
        for _ in range(4):
            watch._next_s = 0.0
            watch()
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_that_engines_are_compiled_is_shown_while_it_lasts(tmp_path, monkeypatch):
    """Somebody who shares the cache holds the lock of an engine."""
    shown = []

    class Display:
        def __init__(self, text):
            self.text = text

        def __enter__(self):
            shown.append(self.text)

        def __exit__(self, *error):
            shown.append("ended")

    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("precedes.pipeline.sweep.LOOK_EVERY", 0)
    monkeypatch.setattr(waiting, "_display", Display)
    lock = code_of(load("unordered"), name="unordered").open_lock(cache.cache_root())
    with held_at(tmp_path / "out") as held:
        watch = RunWatch(held, plan(), lambda share: None)
        watch()
        assert shown == []
        assert cache.try_lock(lock)
        with contextlib.closing(os.fdopen(lock)):
            assert is_compiling(["vector", "unordered"])
            assert not is_compiling(["vector"])
            watch._next_s = 0.0
            watch()
            assert shown == ["compiling protocols in the background (then cached)"]
        watch._next_s = 0.0
        watch()
        assert shown[1:] == ["ended"]
        watch.close()
        assert shown[1:] == ["ended"]


@pytest.fixture(params=["disk", "s3"])
def place(request, tmp_path):
    """A directory, which is not there, on this machine and in a store."""
    if request.param == "disk":
        return Address.of(tmp_path / "sweep")
    return Address.of(f"{request.getfixturevalue('bucket')}/a/sweep")


def flipped(trace):
    content = bytearray(trace.read_bytes())
    content[len(content) // 2] ^= 1
    return bytes(content)


DAMAGE = {
    "a torn record": lambda trace, record: record.put(b'{"version": 1, "dig'),
    "an empty record": lambda trace, record: record.put(b"[]"),
    "no record": lambda trace, record: record.remove(),
    "no trace": lambda trace, record: trace.remove(),
    "a cut trace": lambda trace, record: trace.put(trace.read_bytes()[:-1]),
    "a changed trace": lambda trace, record: trace.put(flipped(trace)),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_counts_as_not_done(place, damage):
    runs = plan(BASE, BASE.replace(seed=2))
    carry_out(place, runs)
    (record, other), trace = (
        (record_path(place, r.name) for r in runs),
        trace_path(place, runs[0].name),
    )
    whole, untouched = trace.read_bytes(), other.version()
    DAMAGE[damage](trace, record)
    assert set(read_records(place, runs)) == {runs[1].run_id}
    record.remove()  # as a sweep does with what it does again
    carry_out(place, runs)
    assert set(read_records(place, runs)) == {run.run_id for run in runs}
    assert (trace.read_bytes(), other.version()) == (whole, untouched)


@pytest.mark.usefixtures("engine")
def test_other_code_is_refused(tmp_path, monkeypatch):
    (run,) = plan()
    carry_out(tmp_path, [run])
    monkeypatch.setattr("precedes.pipeline.directory.sources_digest", lambda: "f" * 24)
    with pytest.raises(UserError, match=r"another version of the code .*, this is ffff"):
        carry_out(tmp_path, [run])
    assert record_of(tmp_path, run.name).exists()
    record = json.loads(record_of(tmp_path, run.name).read_bytes())
    record_of(tmp_path, run.name).write_text(json.dumps({**record, "code_version": "x"}))
    with pytest.raises(UserError, match="as it was before a change"):
        read_records(Address.of(tmp_path), [run])


def test_one_at_a_time(tmp_path):
    with held_at(tmp_path):
        (tmp_path / "records" / ".run-1.json.tmp-here-1").write_text("half")
        (tmp_path / "started" / "run-1-0").touch()
        with (
            pytest.raises(UserError, match="another process uses"),
            held_at(tmp_path),
        ):
            pass
    with held_at(tmp_path):
        assert list((tmp_path / "records").iterdir()) == []
        assert list((tmp_path / "started").iterdir()) == []
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"), held_at(tmp_path):
        pass


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(UserError, match="cannot work in"), held_at(tmp_path / "file"):
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
    assert len(read_records(Address.of(tmp_path), runs)) == 2


@pytest.mark.usefixtures("engine")
def test_tasks_at_once_share_the_memory_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "machine_bytes", lambda: 64 << 20)
    (run,) = plan(BASE.replace(nodes=1000, messages=5))
    order = run.order()
    with held_at(tmp_path):
        for sharers, status in ((8, FAILED), (1, FINISHED)):
            (outcome,) = run_orders(
                [order], directory=Address.of(tmp_path), here=tmp_path, sharers=sharers
            )
            assert outcome.status == status, outcome.error
            assert ("its share of this machine's" in (outcome.error or "")) == (sharers == 8)


@pytest.mark.usefixtures("engine")
def test_a_run_that_kills_its_process_is_given_up(place):
    """As often as Spark would try a task again; the other run is done once."""
    deadly, fine = plan(BASE, BASE.replace(seed=2))
    with held_at(place):
        for attempt in range(ATTEMPTS_MAX):
            assert begin(start_path(place, deadly.name, attempt))
            assert not begin(start_path(place, deadly.name, attempt))
            assert begun_names(place) == {deadly.name}
            outcomes = execute(place, [deadly, fine])
            if attempt < ATTEMPTS_MAX - 1:
                assert [outcome.status for outcome in outcomes] == [FINISHED] * 2
                record_path(place, deadly.name).remove()
        assert [outcome.status for outcome in outcomes] == [FAILED, FINISHED]
        assert f"died {ATTEMPTS_MAX} times" in outcomes[0].error
        forget_starts(place, deadly.name)
        assert begun_names(place) == set()


CARRY_OUT = """
import json, sys
from precedes.pipeline.directory import hold
from precedes.pipeline.execute import run_orders
from precedes.stores import Address
directory = Address.of(sys.argv[1])
orders = map(json.loads, sys.argv[2:])
with hold(directory):
    for outcome in run_orders(orders, directory=directory, here=directory.local):
        print(json.dumps(outcome), flush=True)
"""


# On a radio: nothing of it has to be compiled.
MISBEHAVING = '''"""A protocol that misbehaves in groups of five."""
from precedes.protocols import flooding
from precedes.protocols.flooding import *

def make_host(host, *arguments):
    if host == 4:
        misbehave()
    return flooding.make_host(host, *arguments)
'''


def misbehaving(folder, body, *, before="", run_seconds_max=60.0):
    """Runs of a protocol of its own, of which the second calls ``body``, and has a limit."""
    path = folder / "own.py"
    function = f"def misbehave():\n{textwrap.indent(body, '    ')}\n"
    path.write_text(f"{MISBEHAVING}\n{before}\n\n{function}")
    fine = Scenario(protocol=str(path), nodes=3, messages=2)
    first, bad, last = plan(fine, fine.replace(nodes=5), fine.replace(seed=2), trace=False)
    return [first, dataclasses.replace(bad, run_seconds_max=run_seconds_max), last]


@contextlib.contextmanager
def interrupts(handler):
    """Have interrupts handled like this."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("while True: pass", "longer than run_seconds_max, 0.3 s"),
        (
            "while True:\n    try:\n        while True: pass\n    except Exception: pass",
            "longer than run_seconds_max, 0.3 s",
        ),
    ],
)
def test_a_protocol_that_would_end_it_all_ends_one_run(tmp_path, body, said):
    runs = misbehaving(tmp_path, body, run_seconds_max=0.3 if "while" in body else 60.0)
    with interrupts(signal.SIG_IGN):  # as in a task
        outcomes = carry_out(tmp_path / "out", runs)
    errors = [outcome.error for outcome in outcomes]
    assert [outcome.status for outcome in outcomes] == [FINISHED, FAILED, FINISHED], errors
    assert said in outcomes[1].error
    assert len(read_records(Address.of(tmp_path / "out"), runs)) == 2


def test_an_interrupt_from_the_keyboard_is_nobodys_failure(tmp_path):
    runs = misbehaving(tmp_path, "raise KeyboardInterrupt")
    # A shell that starts the tests with & has them ignored.
    with interrupts(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        carry_out(tmp_path / "out", runs)


# Compiled when the file is loaded, so that a run calls it at once.
ENDLESS = """
import numba, numpy

@numba.njit("void(int64[:])")
def spin(cells):
    while cells[0] >= 0:
        cells[0] ^= 1
"""


def test_a_compiled_handler_that_does_not_return(tmp_path):
    """No signal stops it: its process is ended, and the next one knows why."""
    call = "spin(numpy.zeros(1, numpy.int64))"
    runs = misbehaving(tmp_path, call, before=ENDLESS, run_seconds_max=1.0)
    orders = [json.dumps(run.order()) for run in runs]
    done = python("-c", CARRY_OUT, tmp_path / "out", *orders)
    assert (done.returncode, done.stderr) == (1, "")
    (note,) = (tmp_path / "out" / "started").iterdir()
    assert note.name == f"{runs[1].name}-0"
    with held_at(tmp_path / "again"):
        shutil.copy(note, tmp_path / "again" / "started")
        forget_starts(Address.of(tmp_path / "again"), runs[1].name)
        outcomes = execute(tmp_path / "again", runs)
    assert [outcome.status for outcome in outcomes] == [FINISHED, FAILED, FINISHED]
    assert "longer than run_seconds_max, 1 s" in outcomes[1].error


def test_machines_that_do_not_share(tmp_path):
    (run,) = plan()
    (outcome,) = execute(tmp_path, [run])
    assert outcome.status == FAILED
    assert "must share it" in outcome.error


@pytest.mark.usefixtures("engine")
def test_other_code_on_a_machine(tmp_path):
    (run,) = plan()
    with held_at(tmp_path):
        order = {**run.order(), "code_version": "0" * 24}
        (outcome,) = run_orders([order], directory=Address.of(tmp_path), here=tmp_path)
    assert "another version of the code" in outcome.error
    assert not record_of(tmp_path, run.name).exists()


@pytest.mark.usefixtures("engine")
def test_a_full_disk_fails_runs_and_keeps_the_finished(tmp_path):
    """A large trace between two small ones, with room for files of 20 kB only."""
    small = BASE.replace(seed=2)
    runs = plan(BASE, BASE.replace(nodes=20, messages=2000), small)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    orders = [json.dumps(run.order()) for run in runs]
    done = python("-c", CARRY_OUT, tmp_path, *orders, preexec_fn=limit)
    outcomes = [json.loads(row) for row in done.stdout.splitlines()]
    assert [status for _, status, _ in outcomes] == [FINISHED, FAILED, FINISHED], done.stderr
    assert "cannot write the trace" in outcomes[1][2]
    assert "free some space" in outcomes[1][2]
    assert set(read_records(Address.of(tmp_path), runs)) == {runs[0].run_id, runs[2].run_id}
    assert len(list((tmp_path / "traces").iterdir())) == 2
    assert os.listdir(tmp_path / "started") == []
