"""Partial results of an audit: the same call resumes, repeats nothing, and detects damage."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from precedes.audit import audit, work
from precedes.audit.judge import Facts, Judged
from precedes.audit.work import PartStore
from precedes.errors import UserError
from precedes.stores import Address, lease
from tests.support import executions
from tests.support.audits import write_trace
from tests.support.processes import printed

PARTS = ["order", "a/0-3", "a/3-6", "prune/0-3", "prune/3-6", "table", "b/0-3", "b/3-6"]


@pytest.fixture
def log(tmp_path):
    """A trace with violations."""
    execution = executions.run(3, nodes=6, messages=60, order="wild", loss=0.1)
    return write_trace(tmp_path / "t.parquet", execution)


def kept(folder):
    """Every file below a folder with what would change if it were written again."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and path.name not in (".lock", "plan.json"):
            about = path.stat()
            found[str(path.relative_to(folder))] = (about.st_ino, about.st_mtime_ns)
    return found


def parts_in(folder):
    return {name.removeprefix("run-0/") for name in kept(folder)} - {"ranges.json"}


def test_parts_are_kept_and_the_report_is_the_same(tmp_path, log):
    folder = tmp_path / "work"
    expected = audit(log, ranges=2)
    assert expected[0].verdict == "violated"
    assert audit(log, ranges=2, work=folder) == expected
    before = kept(folder)
    assert parts_in(folder) == set(PARTS)
    # The ranges are those of the plan, whatever is asked for now.
    assert audit(log, ranges=5, work=folder) == expected
    assert kept(folder) == before


@pytest.mark.parametrize("name", [*PARTS, "ranges.json"])
def test_a_part_that_is_gone_or_damaged_is_made_again(tmp_path, log, name):
    folder = tmp_path / "work"
    expected = audit(log, ranges=2, work=folder)
    path = folder / "run-0" / name
    whole, before = path.read_bytes(), kept(folder)
    for content in (None, whole[:-1], b"", whole[:100] + b"?" + whole[101:]):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        if name.startswith("prune"):  # with a table there is no need of it
            (folder / "run-0" / "table").unlink()
        assert audit(log, ranges=2, work=folder) == expected
        assert path.read_bytes() == whole
    after = kept(folder)
    changed = {n.removeprefix("run-0/") for n in after if after[n] != before[n]}
    assert changed == {name} | ({"table"} if name.startswith("prune") else set())


KILLED = """
import os, signal, sys
from precedes import audit, files
from precedes.audit.work import PartStore
from tests.support import executions
log, folder, *kinds = sys.argv[1:]
put, replace = PartStore.put, files.Path.replace
audit.audit(executions.run(3, nodes=3, messages=9, order="wild").history())  # loads compiled code

def stopping(last):
    def put_and_stop(store, name, content):
        put(store, name, content)
        if name == last:
            os.kill(os.getpid(), signal.SIGKILL)
    return put_and_stop

def stop_half_way(path, target):
    if target.name == "table":
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

for kind in kinds:
    child = os.fork()
    if child == 0:
        if kind == "half":
            files.Path.replace = stop_half_way
        else:
            PartStore.put = stopping(kind)
        audit.audit(log, ranges=2, work=f"{folder}/{kind.replace('/', '-')}")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(kind, os.WTERMSIG(status))
"""


def test_killed_after_any_part(tmp_path, log):
    """The parts that were there are left as they are, and the report is that of one go."""
    expected = audit(log, ranges=2)
    whole = tmp_path / "whole"
    audit(log, ranges=2, work=whole)
    kinds = ["order", "a/0-3", "prune/3-6", "half", "table", "b/0-3"]
    assert printed("-c", KILLED, log, tmp_path, *kinds).splitlines() == [f"{k} 9" for k in kinds]
    for kind in kinds:
        folder = tmp_path / kind.replace("/", "-")
        before = kept(folder)
        done = parts_in(folder)
        assert ("table" in done) == (kind in ("table", "b/0-3")), kind
        assert "b/3-6" not in done
        assert audit(log, work=folder) == expected
        after = kept(folder)
        finished = {name for name in before if "/." not in name}
        assert {name: after[name] for name in finished} == {name: before[name] for name in finished}
        assert parts_in(folder) == set(PARTS)
        for name in PARTS:
            contents = [(where / "run-0" / name).read_bytes() for where in (folder, whole)]
            assert contents[0] == contents[1], (kind, name)


def refused(log, folder, match, **options):
    before = kept(folder)
    with pytest.raises(UserError, match=match) as error:
        audit(log, work=folder, **options)
    assert "\n" not in str(error.value)
    assert kept(folder) == before


def test_another_audit_is_refused_and_fresh_starts_over(tmp_path, log, monkeypatch):
    folder = tmp_path / "work"
    audit(log, ranges=2, work=folder)
    refused(log, folder, "other options: `fresh`", witnesses=7)
    refused([log, log], folder, "of other logs: `fresh`")
    os.utime(log, ns=(1, 1))
    refused(log, folder, "begun before .*t.parquet changed: `fresh`")
    expected = audit(log, ranges=3, work=folder, fresh=True)
    assert expected == audit(log)
    assert "b/0-2" in parts_in(folder)
    assert "b/0-3" not in parts_in(folder)
    monkeypatch.setattr(work.arrays, "MAGIC", b"prcdarr0")
    refused(log, folder, "another version of precedes: `fresh`")


def test_a_folder_of_others_is_refused(tmp_path, log):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.tex").write_text("...")
    for fresh in (False, True):
        refused(log, folder, "holds other files than an audit's", fresh=fresh)
    (folder / "plan.json").write_text("{")
    refused(log, folder, "plan.json is damaged: `fresh`")
    refused(log, log, "cannot keep parts in .*t.parquet")
    with pytest.raises(UserError, match="requires `work`"):
        audit(log, fresh=True)
    with pytest.raises(UserError, match="standard input and objects in memory cannot"):
        audit("-", work=tmp_path / "new")
    with pytest.raises(UserError, match="there is no log"):
        audit(tmp_path / "none", work=tmp_path / "new")


def test_one_process_at_a_time(tmp_path, log):
    folder = tmp_path / "work"
    audit(log, work=folder)
    with lease(Address.of(folder)):
        refused(log, folder, "uses ")
    assert audit(log, work=folder) == audit(log)


def test_a_full_disk_is_reported(tmp_path, log, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Address, "put", full)
    with pytest.raises(UserError, match="No space left on device; choose another folder"):
        audit(log, work=tmp_path / "work")
    monkeypatch.undo()
    assert audit(log, work=tmp_path / "work") == audit(log)


def test_several_runs_and_logs(tmp_path, log):
    """Each run has a folder, and one that must be gathered first has another."""
    lines = tmp_path / "a.jsonl"
    execution = executions.run(4, nodes=3, messages=9, order="wild")
    lines.write_text("\n".join("\n".join(executions.as_lines(execution, n)) for n in range(3)))
    logs = [log, lines]
    expected = audit(logs)
    assert [report.origin for report in expected] == [str(log), str(lines)]
    for _ in range(2):
        assert audit(logs, work=tmp_path / "work") == expected
    assert {name.split("/")[0] for name in kept(tmp_path / "work")} == {"run-0", "run-1"}
    plan = json.loads((tmp_path / "work" / "plan.json").read_text())
    assert [name for name, _ in plan["inputs"]] == [str(log), str(lines)]


def test_in_a_store(bucket, log):
    folder = f"{bucket}/work"
    expected = audit(log, ranges=2)
    assert audit(log, ranges=2, work=folder) == expected
    names = {entry.name for entry in Address.of(folder).entries(deep=True)}
    assert {f"run-0/{name}" for name in PARTS} <= names
    (Address.of(folder) / "run-0" / "table").put(b"damaged")
    assert audit(log, ranges=2, work=folder) == expected


def test_parts_of_another_kind_are_not_taken(tmp_path):
    store = PartStore(Address.of(tmp_path))
    facts = Facts(*(np.array([1, 2, 3], dtype) for dtype in (np.int32, np.uint8, np.uint8)))
    store.save("b/x", facts)
    assert store.load("b/x", Judged) is None
    found = store.load("b/x", Facts)
    assert [array.tolist() for array in found] == [[1, 2, 3]] * 3
    assert all(array.flags.writeable for array in found)
