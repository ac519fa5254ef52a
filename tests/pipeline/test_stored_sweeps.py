"""Sweeps and audits on Spark whose files are in a store: the same tables, to the byte."""

import shlex
import signal

import pytest

from precedes.audit import audit
from precedes.cli.main import main
from precedes.pipeline import Experiment, audit_files, run_experiments, run_sweep
from precedes.pipeline.directory import hold
from precedes.pipeline.sweep import RunsFailed
from precedes.pipeline.views import open_tables
from precedes.sim import Scenario
from precedes.stores import Address
from precedes.trace import load
from precedes_papers.registry import check
from tests.support import commands, runs
from tests.support.processes import python
from tests.support.small_paper import paper_module

SMALL = """protocol = "unordered"
nodes = 4
[workload]
rate = 1000
messages = 30
[sweep]
seeds = 2
protocols = ["unordered", "vector"]
trace = true
"""

# On a radio: nothing of it has to be compiled.
DEADLY = '''"""A protocol whose first run kills the first process that does it."""
import os
from pathlib import Path
from precedes.protocols import flooding
from precedes.protocols.flooding import *

def make_host(host, *arguments):
    died = Path({died!r})
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), 9)
    return flooding.make_host(host, *arguments)
'''

# A command that ends itself before or after it uploads a file of a kind.
KILLED = """
import os, sys
from precedes.cli.main import main
from precedes.stores import Address
directory, kind, when, *line = sys.argv[1:]
upload = Address._upload

def killed(self, path):
    chosen = str(self).removeprefix(directory + "/").startswith(kind)
    if chosen and when == "before":
        os.kill(os.getpid(), 9)
    upload(self, path)
    if chosen and when == "after":
        os.kill(os.getpid(), 9)

Address._upload = killed
sys.exit(main(line))
"""


@pytest.fixture(scope="module")
def disk(spark, tmp_path_factory):
    """A finished sweep on disk."""
    folder = tmp_path_factory.mktemp("disk")
    run_sweep(runs.experiment(folder, SMALL), folder / "out", session=spark)
    return folder / "out"


@pytest.mark.gate
def test_a_sweep_in_a_store_is_that_on_disk(spark, disk, bucket, tmp_path):
    experiment = runs.experiment(tmp_path, SMALL)
    place = f"{bucket}/sweeps/one"
    done = run_sweep(experiment, place, session=spark)
    assert (len(done.records), done.kept, done.failures) == (4, 0, [])
    tables = runs.tables(disk)
    assert runs.tables(place) == tables
    names = {entry.name for entry in Address.of(place).entries() if entry.kind == "file"}
    assert {name for name in names if not name.startswith("timings")} == {"sweep.json", *tables}
    traces = Address.of(place) / "traces"
    assert {n: (traces / n).read_bytes() for n in traces.names()} == {
        path.name: path.read_bytes() for path in (disk / "traces").iterdir()
    }

    lost = done.runs[1].name
    (Address.of(place) / "records" / f"{lost}.json").remove()
    before = {
        n: (traces.parent / "records" / n).version() for n in (traces.parent / "records").names()
    }
    again = run_sweep(experiment, place, session=spark)
    assert again.kept == 3
    assert runs.tables(place) == tables
    for name, version in before.items():
        assert (traces.parent / "records" / name).version() == version

    found = audit_files(spark, [traces / name for name in traces.names()])
    assert found == [audit(one) for name in traces.names() for one in load(traces / name)]
    assert {report.verdict for report in found} == {"held", "violated"}

    here, there = open_tables(spark, disk), open_tables(spark, place)
    assert set(here) == set(there)
    for name, frame in there.items():
        assert frame.schema == here[name].schema, name
        if not name.startswith("timings"):
            columns = frame.columns
            assert frame.sort(columns).collect() == here[name].sort(columns).collect(), name


def test_a_failed_run_is_repeated_from_the_store(spark, bucket, capsys):
    fine = Scenario(protocol="unordered", nodes=4, messages=30)
    experiment = Experiment("fails", (fine,), trace=True, run_seconds_max=1e-6)
    with pytest.raises(RunsFailed, match="longer than run_seconds_max") as caught:
        run_experiments([experiment], f"{bucket}/out", session=spark)
    command = shlex.split(str(caught.value).split("'")[-2])
    assert command[:3] == ["precedes", "simulate", "--scenario"]
    assert command[3].startswith(f"{bucket}/out/failed/run-")
    assert main(command[1:]) == 0
    trace = capsys.readouterr().out.split()[-1]
    assert trace.startswith(f"{bucket}/out/failed/unordered-4-1-")
    assert load(trace)[0].messages == 30
    results = run_experiments(
        [Experiment("fails", (fine,), trace=True)], f"{bucket}/out", session=spark
    )
    (result,) = results["fails"]
    assert load(result["trace"])[0].messages == result["broadcasts"] == 30
    assert (Address.of(f"{bucket}/out") / "failed").names() == [trace.rpartition("/")[2]]


def test_a_process_that_dies_of_a_run_in_a_store(spark, bucket, tmp_path):
    """The next one does the run; the note of the first is there until the next sweep."""
    died = tmp_path / "died"
    protocol = tmp_path / "own.py"
    protocol.write_text(DEADLY.format(died=str(died)))
    base = Scenario(protocol=str(protocol), nodes=3, messages=2)
    experiment = Experiment("deadly", tuple(base.replace(seed=seed) for seed in (1, 2, 3)))
    results = run_experiments([experiment], f"{bucket}/out", session=spark)["deadly"]
    assert died.exists()
    assert [result["seed"] for result in results] == [1, 2, 3]
    place = Address.of(f"{bucket}/out")
    assert len((place / "started").names()) == 1
    with hold(place):
        assert (place / "started").names() == []


def test_a_report_in_a_store(spark, bucket, tmp_path, monkeypatch, capsys):
    module = paper_module()
    monkeypatch.setattr("precedes_papers.outcome.load", lambda n: check(module, number=n))
    places = [Address.of(tmp_path / "report"), Address.of(f"{bucket}/deep/report")]
    for place in places:
        assert main(["reproduce", "900", "--out", str(place)]) == 0
        assert capsys.readouterr().out.endswith(f"page: {place}/index.html\n")
    here, there = (
        {
            entry.name: (place / entry.name).read_bytes()
            for entry in place.entries(deep=True)
            if not entry.name.startswith("runs/")
        }
        for place in places
    )
    assert {"claims.csv", "index.html", "summary.txt"} < set(here)
    assert there == here


@pytest.mark.swarm
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["runs.parquet", "audit_runs.csv"])
def test_a_driver_killed_at_each_kind_of_part(disk, bucket, tmp_path, kind, when):
    """Uploads of tasks are tested in test_stored_runs.py."""
    experiment = runs.write(tmp_path, SMALL)
    place = f"{bucket}/out"
    line = ["sweep", str(experiment), "--out", place, "--master", "local[2]"]
    killed = python("-c", KILLED, place, kind, when, *line)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = commands.run(*line)
    assert done.returncode == 0, done.stderr
    assert runs.tables(place) == runs.tables(disk)
    assert Address.of(f"{place}/.lease").names() == []
