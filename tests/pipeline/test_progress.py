"""How far a sweep is, from what is in its directory."""

import contextlib
import json
import os

import pytest

from precedes import waiting
from precedes.compiled import cache
from precedes.pipeline import execute, progress
from precedes.pipeline.directory import record_path, start_path
from precedes.pipeline.plan import expand
from precedes.registry import load
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.sim.switch import code_of
from precedes.stores import Address


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Ten runs that are guessed to cost the same, a directory for them, and a cache."""
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(progress, "LOOK_EVERY", 0)
    for name in ("records", "started", "cache"):
        (tmp_path / name).mkdir()
    base = Scenario(protocol="unordered", nodes=5, messages=10)
    return expand([Experiment("ten", tuple(base.replace(seed=seed) for seed in range(10)))])


def write_record(directory, run, text):
    record_path(Address.of(directory), run.name).local.write_text(text)


def begin(directory, run):
    start_path(Address.of(directory), run.name, 0).local.touch()


def test_records_and_starts_count(runs, tmp_path, monkeypatch):
    """Twice as slow as guessed, by what the records say; a run that has begun counts in part."""
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    shares = []
    watch = progress.RunProgress(Address.of(tmp_path), runs, shares.append)
    watch()
    for run in runs[:3]:
        write_record(tmp_path, run, json.dumps({"task_cpu_s": 2 * run.cost_s}))
    begin(tmp_path, runs[3])
    watch()
    clock[0] += runs[3].cost_s  # half of what it will take
    watch()
    write_record(tmp_path, runs[4], "damaged")
    watch()
    watch.end()
    assert shares == pytest.approx([0, 0.3, 0.35, 0.45, 1])


def test_that_engines_are_compiled_is_shown_while_it_lasts(runs, tmp_path, monkeypatch):
    """Somebody who shares the cache holds the lock of an engine."""
    shown = []

    class Display:
        def __init__(self, text):
            self.text = text

        def __enter__(self):
            shown.append(self.text)

        def __exit__(self, *error):
            shown.append("ended")

    monkeypatch.setattr(waiting, "_display", Display)
    shares = []
    watch = progress.RunProgress(Address.of(tmp_path), runs, shares.append)
    watch()
    assert shown == []
    begin(tmp_path, runs[0])
    lock = code_of(load("unordered"), name="unordered").open_lock(cache.cache_root())
    assert cache.try_lock(lock)
    with contextlib.closing(os.fdopen(lock)):
        assert execute.is_compiling(["vector", "unordered"])
        assert not execute.is_compiling(["vector"])
        watch()
        watch()
        assert shown == ["compiling protocols in the background (then cached)"]
        assert shares[0] == 0
    watch()
    assert shown[1:] == ["ended"]
    watch.close()
    assert shown[1:] == ["ended"]
