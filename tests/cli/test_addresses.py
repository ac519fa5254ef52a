"""Addresses on the command line: what is in a store, and mistakes in one line."""

import json
from pathlib import Path

import pytest

from precedes.cli.main import main
from precedes.stores import Address
from precedes.trace import TraceWriter, load, read_trace
from tests.support import runs
from tests.support.commands import output

SMALL = ("simulate", "unordered", "--nodes", "4", "--messages", "20", "--seed", "3")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("engine")
def test_a_trace_in_a_store_is_audited_there(here, bucket, capsys):
    said = output(capsys, *SMALL, "--trace", "traces").splitlines()[-1].split()[-1]
    there = output(capsys, *SMALL, "--trace", f"{bucket}/deep/traces").splitlines()[-1].split()[-1]
    assert there == f"{bucket}/deep/{said}"
    assert Address.of(there).read_bytes() == Path(said).read_bytes()
    found = []
    for place in (said, there, f"{bucket}/deep/traces", f"file://{here}/traces"):
        assert main(["audit", place, "--json"]) == 1
        found.append(capsys.readouterr().out.replace(f"{bucket}/deep/", "").replace(f"{here}/", ""))
    assert len(set(found)) == 1
    assert sorted(path.name for path in here.iterdir()) == ["traces"]


def test_json_lines_are_read_from_a_store(bucket, capsys):
    log = Address.of(f"{bucket}/log.jsonl")
    rows = [("a", "broadcast", "m"), ("a", "broadcast", "n"), ("b", "deliver", "n")]
    lines = [json.dumps(dict(zip(("node", "kind", "message"), row, strict=True))) for row in rows]
    log.put("\n".join(lines).encode())
    assert "never delivered m, which precedes it" in output(capsys, "audit", log, status=1)


@pytest.mark.usefixtures("engine")
def test_a_scenario_may_be_in_a_store(here, bucket, capsys):
    file = Address.of(f"{bucket}/own.toml")
    file.put(b'protocol = "unordered"\nnodes = 4\n[workload]\nmessages = 20\n')
    assert main(["simulate", "--scenario", str(file)]) == 0
    file.put(b'protocol = "unordered"\nnodes = "x"\n')
    assert main(["simulate", "--scenario", str(file)]) == 2
    assert f"{file}:2" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["s3://no-such-bucket/x", "s4://b/x", "s3:/b/x"])
@pytest.mark.parametrize(
    "line",
    [
        ("audit", "{}"),
        ("sweep", "sample.toml", "--out", "{}"),
        ("sweep", "{}", "--out", "out"),
        ("reproduce", "000", "--out", "{}"),
        ("simulate", "unordered", "--nodes", "3", "--messages", "2", "--trace", "{}"),
        ("simulate", "--scenario", "{}"),
        ("cluster", "-n", "3", "--seconds", "1", "--trace", "{}"),
    ],
)
def test_a_wrong_address_is_one_line(here, bucket, capsys, monkeypatch, line, place):
    runs.write(here)
    (here / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(here / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert main([word.format(place) for word in line]) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert place.rpartition("/")[0] in said
    assert sorted(path.name for path in here.iterdir()) == ["sample.toml", "temporary"]
    assert list((here / "temporary").iterdir()) == []


def test_functions_take_urls(bucket):
    address = f"{bucket}/a/b.parquet"
    with TraceWriter(address, nodes=2) as writer:
        writer.close()
    assert len(read_trace(address)) == len(load(Address.of(address))) == 1
    assert load(address)[0].origin == address
    with TraceWriter(f"{bucket}/a/c.parquet", nodes=2) as writer:
        writer.abort()
    assert Address.of(f"{bucket}/a").names() == ["b.parquet"]
