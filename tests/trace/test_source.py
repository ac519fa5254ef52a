"""Logs from files, pipes, standard input and file objects: read once, and whole."""

import gzip
import io
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from precedes import audit
from precedes.cli.audit import named_logs
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline.directory import logs_in
from precedes.stores import Address
from precedes.trace import load, read_trace
from tests.support import commands, logs

HEAD_BYTES = 4096


def log_bytes():
    """A violated log whose first 4,096 bytes end a line; what follows them alone is held."""
    rows = [
        ("ann", "broadcast", "question"),
        ("bob", "deliver", "question"),
        ("bob", "broadcast", "answer"),
        ("eve", "deliver", "answer"),
        ("ann", "broadcast", "bye"),
        ("bob", "deliver", "bye"),
    ]
    lines = [
        json.dumps({"node": node, "kind": kind, "message": message}).encode() + b"\n"
        for node, kind, message in rows
    ]
    head = b"".join(lines[:4])
    padding = json.dumps({"node": "eve", "kind": "send", "text": ""}).encode() + b"\n"
    text = b"x" * (HEAD_BYTES - len(head) - len(padding))
    head += padding.replace(b'""', b'"' + text + b'"')
    assert len(head) == HEAD_BYTES
    return head + b"".join(lines[4:])


@pytest.fixture
def feed():
    """Writes bytes into pipes while the test reads them."""
    threads = []

    def write(open_file, pieces):
        with open_file() as file:
            for piece in pieces:
                file.write(piece)
                file.flush()

    def start(open_file, *pieces):
        thread = threading.Thread(target=write, args=(open_file, pieces), daemon=True)
        thread.start()
        threads.append(thread)

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def fifo(tmp_path, feed):
    """A named pipe from which these bytes can be read once."""

    def make(*pieces):
        path = tmp_path / f"fifo-{len(list(tmp_path.iterdir()))}"
        os.mkfifo(path)
        feed(lambda: path.open("wb"), *pieces)
        return path

    return make


def counts(histories):
    report = audit.to_json([audit.audit(history) for history in histories])
    return {key: value for key, value in report.items() if key != "witnesses"}


def test_a_pipe_keeps_its_head(tmp_path, fifo):
    whole = log_bytes()
    assert counts([load(io.BytesIO(whole[HEAD_BYTES:]), "jsonl")[0]])["verdict"] == "held"
    path = tmp_path / "log.jsonl"
    path.write_bytes(whole)
    expected = counts(load(path))
    assert expected["verdict"] == "violated"
    assert counts(load(fifo(whole))) == expected
    assert counts([load(fifo(whole), "jsonl")[0]]) == expected
    assert counts(load(fifo(*(bytes([byte]) for byte in whole[:50]), whole[50:]))) == expected
    assert counts(load(fifo(gzip.compress(whole)))) == expected


def test_traces_come_through_pipes(tmp_path, fifo):
    path = tmp_path / "run.parquet"
    logs.write(path, logs.workload(nodes=4, messages=300), nodes=4)
    assert path.stat().st_size > HEAD_BYTES
    expected = counts(load(path))
    assert expected["verdict"] == "violated"
    assert counts(load(fifo(path.read_bytes()))) == expected
    assert counts(read_trace(fifo(b"P", path.read_bytes()[1:]))) == expected
    with pytest.raises(UserError, match="is cut short or damaged"):
        load(fifo(path.read_bytes()[:-9]))


def test_a_trace_from_a_pipe_needs_room(tmp_path, monkeypatch):
    path = tmp_path / "run.parquet"
    logs.write(path, logs.workload(nodes=4, messages=300), nodes=4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    file = io.BytesIO(path.read_bytes())
    assert len(load(file)) == 1  # needs no copy
    file.seek(0)
    with pytest.raises(UserError, match="cannot copy log to a temporary file: No such file"):
        load(Unseekable(file))


class Unseekable(io.RawIOBase):
    """A file object that can only be read on."""

    def __init__(self, file):
        self.file = file

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.file.readinto(buffer)


def test_file_objects(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_bytes())
    expected = counts(load(path))
    with path.open("rb") as file:
        (history,) = load(file)
        assert not file.closed
        assert (counts([history]), history.origin) == (expected, str(path))
    assert counts(load(io.BytesIO(log_bytes()))) == expected
    assert counts(load(Unseekable(io.BytesIO(log_bytes())))) == expected
    with gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(log_bytes()))) as file:
        assert counts(load(file)) == expected
    with path.open() as file, pytest.raises(UserError, match="open it in binary mode"):
        load(file)
    with pytest.raises(UserError, match="directory: give its path"):
        load(io.BytesIO(), format="members")


def test_the_command_reads_a_pipe():
    found = commands.run("audit", "--json", "/dev/stdin", input=log_bytes(), text=False)
    said = json.loads(found.stdout)
    assert (found.returncode, said["verdict"], said["violations"]) == (1, "violated", 1)


def test_standard_input(feed, monkeypatch, capsys):
    end, start = os.pipe()
    feed(lambda: os.fdopen(start, "wb"), log_bytes())
    with os.fdopen(end) as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(["audit", "-"]) == 1
    assert capsys.readouterr().out.startswith("violated: 1 of 3 deliveries out of causal order\n")
    assert main(["audit", "-", "-"]) == 2
    assert "standard input can be read only once" in capsys.readouterr().err


def test_logs_of_members_are_a_directory(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_bytes())
    with pytest.raises(UserError, match="is a file: name the directory"):
        load(path, format="members")
    with pytest.raises(UserError, match="there is no directory"):
        load(tmp_path / "none", format="members")


@pytest.fixture
def closed():
    """A directory that this process may not look into, even if it is root's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        inside = Path(name) / "closed"
        inside.mkdir(mode=0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield inside
        os.seteuid(user)
        inside.chmod(0o700)


def test_a_directory_that_may_not_be_read(closed):
    for path in (closed, closed / "log.jsonl"):
        with pytest.raises(UserError, match=f"cannot read {path}: Permission denied"):
            load(path)
    with pytest.raises(UserError, match=f"cannot read {closed}: Permission denied"):
        named_logs([logs_in(Address.of(closed))])
    log = Address.of(closed / "log.jsonl")
    assert named_logs([logs_in(log)]) == [log]
