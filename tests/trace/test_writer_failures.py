"""Whatever goes wrong while writing: one line for the user, and nothing left behind."""

import errno
import gc
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from precedes.errors import UserError
from precedes.model import Events
from precedes.trace import read_trace
from precedes.trace.writer import Spool, TraceWriter
from tests.support import logs
from tests.support.processes import python

COLUMNS = logs.workload(nodes=5, messages=200)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out" / "run.parquet"


@pytest.fixture(autouse=True)
def directory(target):
    target.parent.mkdir()
    return target.parent


def fails(target, *, match, **options):
    """Writing raises one line that names the file."""
    with pytest.raises(UserError, match=match) as raised:
        logs.write(target, COLUMNS, nodes=5, **options)
    assert str(target) in str(raised.value)
    assert "\n" not in str(raised.value)


def no_space(*_arguments, **_keywords):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_nothing_goes_wrong(target, directory):
    logs.write(target, COLUMNS, nodes=5, chunk_rows=100)
    assert os.listdir(directory) == ["run.parquet"]


def test_no_such_directory(tmp_path):
    fails(tmp_path / "none" / "run.parquet", match="create the directory first")


def test_parent_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    fails(tmp_path / "file" / "run.parquet", match="Not a directory; its directory is a file")


def test_target_is_a_directory(directory):
    fails(directory, match="Is a directory; give the name of a file")
    assert os.listdir(directory) == []


def test_directory_may_not_be_written(target, monkeypatch):
    def refuse(**_keywords):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    fails(target, match="Permission denied; choose a directory you may write to")


@pytest.mark.parametrize(
    "place",
    ["os.replace", "pyarrow.parquet.ParquetWriter.write_table", "pyarrow.memory_map"],
)
def test_disk_is_full(target, directory, monkeypatch, place):
    target.write_text("an older trace")
    monkeypatch.setattr(place, no_space)
    fails(target, match="No space left on device; free some space", chunk_rows=100)
    assert os.listdir(directory) == ["run.parquet"]
    assert target.read_text() == "an older trace"


LIMITED = """
import os, resource, sys
from precedes.errors import UserError
from tests.support import logs
columns = logs.workload(nodes=5, messages=4000)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    logs.write(sys.argv[1], columns, nodes=5, chunk_rows=int(sys.argv[2]))
except UserError as error:
    print(error)
print(os.listdir(os.path.dirname(sys.argv[1])))
"""


@pytest.mark.parametrize("chunk_rows", [10_000, 1_000_000], ids=["spooling", "merging"])
def test_writes_really_fail(target, chunk_rows):
    """The operating system refuses to let a file grow: the nearest thing to a full disk."""
    pytest.importorskip("resource")
    done = python("-W", "error", "-c", LIMITED, target, chunk_rows)
    assert done.stderr == ""
    first, last = done.stdout.splitlines()
    assert first.startswith(f"cannot write the trace {target}: File too large; free some space")
    assert last == "[]"


@pytest.mark.parametrize("method", ["add", "groups"])
def test_interrupted_inside(target, directory, monkeypatch, method):
    def interrupt(*_arguments, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(Spool, method, interrupt)
    with pytest.raises(KeyboardInterrupt):
        logs.write(target, COLUMNS, nodes=5)
    assert os.listdir(directory) == []


def test_aborted_or_forgotten(target, directory):
    writer = TraceWriter(target, nodes=5)
    writer.abort()
    writer.abort()
    assert os.listdir(directory) == []
    writer = TraceWriter(target, nodes=5, chunk_rows=10)
    writer.write(Events(**COLUMNS))
    assert len(os.listdir(directory)) == 1
    del writer
    gc.collect()
    assert os.listdir(directory) == []


def test_leavings_of_a_dead_process(target, directory):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = directory / ".run.parquet.tmp"
    names = [f"{platform.node()}-{pid}-x" for pid in (dead.pid, os.getpid())]
    names.append(f"elsewhere-{dead.pid}-x")
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "chunk-000000").touch()
    logs.write(target, COLUMNS, nodes=5)
    assert sorted(os.listdir(folder)) == sorted(names[1:])
    assert sorted(os.listdir(directory)) == [folder.name, "run.parquet"]


def test_other_files_next_to_it_are_not_looked_at(target, directory, monkeypatch):
    """A folder of a hundred thousand traces would take longer to list than a trace to write."""
    listed = []

    def noted(path, real=os.listdir):
        listed.append(Path(path))
        return real(path)

    monkeypatch.setattr("os.listdir", noted)
    logs.write(target, COLUMNS, nodes=5)
    assert directory not in listed


def test_closed_is_closed(target):
    writer = TraceWriter(target, nodes=5)
    writer.write(Events(**COLUMNS))
    writer.close()
    writer.abort()
    assert len(read_trace(target)) == 1
    for call in (writer.close, lambda: writer.write(Events(**COLUMNS))):
        with pytest.raises(UserError, match="is closed: make another writer"):
            call()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"node": np.full(3, 5)}, r"node outside 0\.\.4"),
        ({"node": np.full(3, -1)}, r"node outside 0\.\.4"),
        ({"kind": np.full(3, 100)}, "of a kind outside"),
        ({"packet": np.full(2, -1)}, "differ in length"),
    ],
)
def test_rows_that_no_reader_would_take(target, directory, change, match):
    with pytest.raises(UserError, match=match):
        logs.write(target, {**logs.events([(0, 0, 0, 1)] * 3), **change}, nodes=5)
    assert os.listdir(directory) == []


@pytest.mark.parametrize("nodes", [0, 65_537])
def test_number_of_nodes(target, nodes):
    with pytest.raises(UserError, match="1 to 65536 nodes"):
        TraceWriter(target, nodes=nodes)


def test_metadata_that_is_not_json(target, directory):
    with pytest.raises(UserError, match="plain JSON values"):
        TraceWriter(target, nodes=5, metadata={"path": target})
    writer = TraceWriter(target, nodes=5)
    with pytest.raises(UserError, match="plain JSON values"):
        writer.close(when={1, 2})
    assert os.listdir(directory) == []
