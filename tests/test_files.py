"""Files that are there whole or not at all, and leavings of processes that died."""

import os
import platform
import subprocess
import sys

import pytest

from precedes.errors import UserError
from precedes.files import aside, asides_in, make_directory, own_directory, write_aside


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_as_before_or_whole(tmp_path, sync):
    path = tmp_path / "state[1]"
    write_aside(path, b"before")

    def fail():
        with aside(path, sync=sync) as temporary:
            temporary.write_bytes(b"half")
            assert list(asides_in(tmp_path)) == [temporary]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]
    with aside(path, sync=sync) as temporary:
        temporary.write_bytes(b"after")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"after"]


def test_leavings_of_dead_processes_alone_are_removed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    here = f"mine-{platform.node()}-"
    kept = {f"{here}{os.getpid()}-a", f"mine-elsewhere-{ended.pid}-b", f"other-{ended.pid}-c"}
    for name in (*kept, f"{here}{ended.pid}-d"):
        (tmp_path / name).mkdir()
    made = own_directory(tmp_path, "mine-")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, made.name}


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot make the directory"):
        make_directory(tmp_path / "file" / "below")
