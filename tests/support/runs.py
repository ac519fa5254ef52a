"""An experiment that takes some seconds, and what it leaves in its directory."""

from pathlib import Path

from precedes.pipeline.directory import record_path, trace_path
from precedes.sim.experiment import from_file
from precedes.stores import Address

EXPERIMENT = """protocol = "probabilistic"
nodes = 30

[workload]
rate = 200
messages = 3_000

[network]
delay = "normal:100:20"

[sweep]
seeds = 3
protocols = ["probabilistic", "unordered", "vector"]
entries = [10, 40]
trace = true
"""
RUNS = 12


def write(directory, text=EXPERIMENT):
    """The experiment as a file; the names of sweeps are those of their files."""
    path = Path(directory) / "sample.toml"
    path.write_text(text)
    return path


def experiment(directory, text=EXPERIMENT):
    """The same as an object."""
    return from_file(write(directory, text))


def tables(directory):
    """The bytes of all tables but the timings, which alone may differ."""
    folder = Address.of(directory)
    found = {
        name: (folder / name).read_bytes()
        for name in folder.names()
        if name.endswith((".csv", ".parquet")) and not name.startswith("timings")
    }
    assert len(found) == 20
    return found


def records(directory):
    """The names of finished runs and when they were."""
    paths = sorted(Path(directory, "records").glob("run-*.json"))
    return {path.name: path.stat().st_mtime_ns for path in paths}


def record_of(directory, name):
    """The path of a run's record."""
    return record_path(Address.of(directory), name).local


def trace_of(directory, name):
    """The path of a run's trace."""
    return trace_path(Address.of(directory), name).local
