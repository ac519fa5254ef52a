"""Files that are not traces, or damaged, are refused in one line."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.errors import UserError
from precedes.trace import load, read_metadata, read_trace
from tests.support import logs


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.parquet"
    logs.write(path, logs.workload(nodes=4, messages=100), nodes=4)
    return path


def refused(path, match, *reads):
    """By whoever reads it whole, and by the audit, which reads it by row groups."""
    for read in reads or (read_trace, audit):
        with pytest.raises(UserError, match=match) as raised:
            read(path)
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)


def restore(path, table, **metadata):
    found = read_metadata(path)
    text = json.dumps({**found, **metadata}).encode()
    pq.write_table(table.replace_schema_metadata({b"precedes": text}), path)


@pytest.mark.parametrize("read", [read_trace, load])
def test_missing(tmp_path, read):
    refused(tmp_path / "none.parquet", "there is no .*: check the path", read)
    refused(tmp_path, "is a directory: name the", read)


def test_not_parquet(tmp_path):
    path = tmp_path / "run.parquet"
    path.write_text("hello\n")
    refused(path, "is not a trace: it is not a Parquet file", read_trace)
    refused(path, "is not in a format that can be detected: name it with `format`", load)
    path.write_bytes(b"")
    refused(path, "it is not a Parquet file", read_trace)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.95, 0.999])
def test_cut_short(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: max(5, int(len(content) * share))])
    refused(path, "is cut short or damaged: record it again")
    refused(path, "is cut short or damaged", load)


def test_damaged_inside(path):
    content = bytearray(path.read_bytes())
    content[50 : len(content) // 2] = b"\xff" * (len(content) // 2 - 50)
    path.write_bytes(content)
    refused(path, "is cut short or damaged")


def test_newer(path):
    restore(path, pq.read_table(path), schema_version=7)
    refused(path, r"was written by a newer precedes \(schema 7, this one reads up to 1\): upgrade")


@pytest.mark.parametrize("name", ["node", "kind", "local_seq"])
def test_missing_column(path, name):
    restore(path, pq.read_table(path).drop_columns([name]))
    refused(path, f"lacks the column {name}")


def change(path, name, values):
    table = pq.read_table(path)
    restore(path, table.set_column(table.column_names.index(name), name, values))


def test_columns_of_another_type(path):
    rows = pq.read_metadata(path).num_rows
    change(path, "node", pa.array(["a"] * rows))
    refused(path, "the column node holds string instead of integers")


def test_numbers_out_of_range(path):
    rows = pq.read_metadata(path).num_rows
    change(path, "source", pa.array([2**40] * rows))
    refused(path, "is cut short or damaged")


def test_empty_cells(path):
    rows = pq.read_metadata(path).num_rows
    change(path, "seq", pa.array([None] * rows, pa.int32()))
    refused(path, "the column seq has empty cells")


def test_shared_local_seq(path):
    rows = pq.read_metadata(path).num_rows
    change(path, "local_seq", pa.array([5] * rows))
    refused(path, "share a local_seq")


def test_nodes_out_of_range(path):
    restore(path, pq.read_table(path), nodes=3)
    refused(path, r"at a node outside 0\.\.2")
    change(path, "node", pa.array([-1] * pq.read_metadata(path).num_rows))
    refused(path, "at a negative node")


def test_not_of_precedes(path):
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    refused(path, "is a Parquet file but not a trace of precedes", read_trace)
    table = pq.read_table(path).replace_schema_metadata({b"precedes": b"{}"})
    pq.write_table(table, path)
    refused(path, "has damaged trace metadata")


def test_broadcast_twice(tmp_path):
    path = tmp_path / "run.parquet"
    logs.write(path, logs.events([(0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 1)]), nodes=1)
    refused(path, "0:1 is broadcast twice")


def test_broadcast_of_another_nodes_message(tmp_path):
    path = tmp_path / "run.parquet"
    logs.write(path, logs.events([(0, 0, 0, 1), (1, 0, 0, 2)]), nodes=2)
    refused(path, "node 1 broadcasts 0:2, a message of another node")


def test_unknown_format(path):
    with pytest.raises(UserError, match="unknown format 'xml': choose one of auto, precedes"):
        load(path, format="xml")
