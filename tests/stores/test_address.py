"""Addresses: what texts mean, and the same work on this machine and in a store."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.errors import UserError
from precedes.stores import Address, StoreError, local_path, look
from tests.support.processes import printed, python


@pytest.fixture(params=["disk", "s3"])
def place(request, tmp_path):
    """A folder, which is not there, on this machine and in a store."""
    if request.param == "disk":
        return Address.of(tmp_path / "folder")
    return Address.of(f"{request.getfixturevalue('bucket')}/folder")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a/b", "a/b"),
        ("a//b/", "a/b"),
        ("/", "/"),
        ("-", "-"),
        ("a:b/c", "a:b/c"),
        ("s3:x", "s3:x"),
        ("file:///x/y", "/x/y"),
        ("file:///x%20y", "/x y"),
        ("FILE://localhost/x", "/x"),
        ("s3://b", "s3://b"),
        ("s3://b/x//y/", "s3://b/x/y"),
        ("s3://b/x%20y?z#w", "s3://b/x%20y?z#w"),
        ("S3://b/X", "s3://b/X"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("hdfs://host:8020/x/y", "hdfs://host:8020/x/y"),
    ],
)
def test_a_text_means_a_path_or_a_url(text, shown):
    address = Address.of(text)
    assert str(address) == shown
    assert Address.of(address) is address
    assert address.is_local == ("://" not in shown)
    assert address / "n" == Address.of(f"{shown.rstrip('/')}/n")
    assert (address / "n").name == "n"
    assert (address / "a/n").parent == address / "a"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("ftp://h/x", "there is no store ftp://"),
        ("s3a://b/x", "did you mean 's3'?"),
        ("s3:/b/x", "write s3://"),
        (Path("s3://b/x"), "write s3://"),
        ("s3://", "names no bucket"),
        ("s3:///x", "names no bucket"),
        ("file://host/x", "on another machine"),
    ],
)
def test_a_wrong_url_is_reported(text, reported):
    with pytest.raises(UserError, match=r".") as caught:
        Address.of(text)
    assert reported in str(caught.value)


def test_no_url_is_taken_for_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = Address.of("s3://b/x")
    for use in (Path, open, os.mkdir, os.fspath, lambda a: local_path(str(a))):
        with pytest.raises(UserError, match="a path on this machine is needed"):
            use(address)
    assert Path(Address.of("a/b")) == Path("a/b")
    assert list(tmp_path.iterdir()) == []


def test_put_list_read_remove(place):
    place.make_folder()
    (place / "sub").make_folder()
    assert (place / "x").kind() is None
    (place / "x").put(b"one")
    (place / "x").put(b"other")
    (place / "sub/y").put(b"")
    assert (place / "x").read_bytes() == b"other"
    assert (place / "x").kind() == "file"
    assert place.kind() == "folder"
    assert place.names() == ["sub", "x"]
    assert [(e.name, e.kind) for e in place.entries()] == [("sub", "folder"), ("x", "file")]
    deep = place.entries(deep=True)
    assert [(e.name, e.kind, e.size_bytes) for e in deep] == [
        ("sub/y", "file", 0),
        ("x", "file", 5),
    ]
    assert all(entry.mtime_ns > 0 for entry in deep)
    assert (place / "x").size_bytes() == 5
    digest = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
    assert (place / "x").digest() == digest
    with (place / "x").open() as file:
        file.seek(2)
        assert file.read() == b"her"
    (place / "x").remove()
    (place / "x").remove()
    assert (place / "x").kind() is None
    place.remove_folder()
    place.remove_folder()
    assert place.kind() is None


def test_a_missing_file_is_one_everywhere(place):
    for read in ("read_bytes", "open", "digest", "version", "size_bytes"):
        with pytest.raises(FileNotFoundError):
            getattr(place / "x", read)()


def test_versions_tell_contents_apart(place):
    place.make_folder()
    (place / "x").put(b"one")
    before = (place / "x").version()
    assert (place / "x").version() == before
    (place / "x").put(b"two")
    assert (place / "x").version() != before


def test_a_block_that_raises_puts_nothing(place, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    place.make_folder()
    (place / "x").put(b"before")
    seen = []

    def interrupted():
        with (place / "x").aside() as written:
            written.write_bytes(b"half")
            seen.append(written)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (place / "x").read_bytes() == b"before"
    assert not seen[0].exists()
    assert place.names() == ["x"]
    with (place / "x").aside() as written:
        written.write_bytes(b"after")
    assert (place / "x").read_bytes() == b"after"
    assert not list(tmp_path.glob("precedes-upload-*"))


def test_what_a_killed_upload_leaves_goes_with_the_next(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = (
        "import os, sys; from precedes.stores import Address\n"
        "with Address.of(sys.argv[1]).aside() as path:\n"
        "    path.write_bytes(b'half'); os.kill(os.getpid(), 9)"
    )
    address = Address.of(f"{bucket}/x")
    python("-c", code, address)
    assert len(list(tmp_path.iterdir())) == 1
    assert address.kind() is None
    address.put(b"whole")
    assert list(tmp_path.iterdir()) == []


def test_row_groups_are_read_by_range(place):
    place.make_folder()
    table = pa.table({"n": list(range(1000))})
    with (place / "t.parquet").aside() as path:
        pq.write_table(table, path, row_group_size=100)
    with (place / "t.parquet").open() as opened, pq.ParquetFile(opened) as file:
        assert file.read_row_group(7).column("n").to_pylist() == list(range(700, 800))


def test_large_files_go_up_in_parts(bucket):
    content = os.urandom(1 << 20) * 23
    address = Address.of(f"{bucket}/large")
    address.put(content)
    assert address.read_bytes() == content


def test_many_are_looked_at_with_few_requests(place, monkeypatch):
    place.make_folder()
    (place / "sub").make_folder()
    (place / "sub/z").put(b"123")
    files = [place / f"{number}" for number in range(5)]
    for number, file in enumerate(files[:4]):
        file.put(b"x" * number)
    asked = []
    listed = Address.entries
    monkeypatch.setattr(Address, "entries", lambda self: asked.append(self) or listed(self))
    found = look([*files, place / "sub", place / "sub/z"])
    kinds = [None if entry is None else (entry.kind, entry.size_bytes) for entry in found]
    size = found[5].size_bytes
    assert kinds == [*(("file", n) for n in range(4)), None, ("folder", size), ("file", 3)]
    assert [entry.name for entry in found if entry] == ["0", "1", "2", "3", "sub", "z"]
    assert asked == ([] if place.is_local else [place])


def test_start_up_imports_no_pyarrow():
    code = (
        "import sys; from precedes.stores import Address, lease\n"
        "Address.of('s3://b/x') / 'y'; Address.of('x').kind(); assert 'pyarrow' not in sys.modules"
    )
    printed("-c", code)


def test_a_missing_bucket_is_reported(bucket):
    nowhere = Address.of("s3://no-such-bucket/x")
    for use in (nowhere.kind, nowhere.names, nowhere.read_bytes, lambda: nowhere.put(b"")):
        with pytest.raises(StoreError, match="there is no bucket no-such-bucket at http"):
            use()
