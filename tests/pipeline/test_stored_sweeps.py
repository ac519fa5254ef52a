"""Sweeps and audits on Spark whose files are in a store: the same tables, to the byte."""

import shlex

import pytest

from precedes.audit import audit
from precedes.cli.main import main
from precedes.pipeline import Experiment, audit_files, run_experiments, run_sweep
from precedes.pipeline.sweep import RunsFailed
from precedes.pipeline.views import open_tables
from precedes.sim import Scenario
from precedes.stores import Address
from precedes.trace import load
from tests.support import runs

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


@pytest.fixture(scope="module")
def disk(spark, tmp_path_factory):
    """A finished sweep on disk."""
    folder = tmp_path_factory.mktemp("disk")
    run_sweep(runs.experiment(folder, SMALL), folder / "out", session=spark)
    return folder / "out"


def test_a_sweep_in_a_store_is_that_on_disk(spark, disk, bucket, tmp_path):
    experiment = runs.experiment(tmp_path, SMALL)
    place = f"{bucket}/sweeps/one"
    done = run_sweep(experiment, place, session=spark)
    assert (len(done.found), done.kept, done.failures) == (4, 0, [])
    tables = runs.tables(disk)
    assert runs.tables(place) == tables
    names = [entry.name for entry in Address.of(place).entries() if entry.kind == "file"]
    timed = [
        f"{name}.{kind}" for name in ("timings", "timings_spark") for kind in ("csv", "parquet")
    ]
    assert set(names) == {"sweep.json", *timed, *tables}
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

    for name, frame in open_tables(spark, place).items():
        there = open_tables(spark, disk)[name]
        assert frame.schema == there.schema, name
        columns = frame.columns
        same = frame.sort(columns).collect() == there.sort(columns).collect()
        assert same or name.startswith("timings"), name


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
