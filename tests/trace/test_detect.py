"""Detection of formats, by content and by options."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.trace import Dialect, event_batches
from precedes.trace.formats import text
from tests.support import logs
from tests.support.reading import read_one, refused, rows_of

TABLE = {"node": ["a", "b"], "kind": ["broadcast", "deliver"], "message": ["x", "x"]}


def parquet():
    sink = io.BytesIO()
    pq.write_table(pa.table(TABLE), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"node": "a", "kind": "broadcast", "message": "x"}\n', {}),
        ('\n{"message": "x", "kind": "broadcast", "node": "a"}\n', {}),
        ("node,kind,message\na,broadcast,x\n", {}),
        ('"kind";"node";"message"\nbroadcast;a;x\n', {}),
        ("who\twhat\tmessage\na\tbroadcast\tx\n", {"columns": {"node": "who", "kind": "what"}}),
        ("broadcast x @ a\n", {"parser": r"(?<kind>\w+) (?<message>\w+) @ (?<host>\w+)"}),
    ],
)
def test_known_by_content(content, said):
    assert rows_of(read_one(content, **said)) == {"a": ["broadcast x"]}


@pytest.mark.parametrize(
    "content",
    ["hello\n", "a,b,c\n1,2,3\n", "a {1}\n", "# a {}\n", "\x00\x01", "[1]", "who,what,message\n"],
)
def test_what_is_not_known_is_asked_for(content):
    refused(content, "name it with `format` .precedes, jsonl, ")


def test_a_line_has_a_limit(monkeypatch):
    monkeypatch.setattr(text, "LINE_BYTES_MAX", 3 << 20)
    long = '{"node": "a", "kind": "send", "text": "' + "x" * (5 << 20) + '"}\n'
    for form in ("jsonl", "otel", "automerge"):
        refused(
            '{"node": "a", "kind": "send"}\n' * (form == "jsonl") + long,
            "MB without a line end",
            form,
        )


def test_batches_are_small_and_hold_what_the_history_holds(tmp_path):
    path = tmp_path / "trace.parquet"
    logs.write(path, logs.workload(nodes=4, messages=50), nodes=5)
    rows = [row for batch in event_batches(path) for row in batch.to_pylist()]
    assert len(rows) == 4 * 50 + 1
    assert rows[-1] == {
        "run_id": "0",
        "node": "4",
        "local_seq": 0,
        "time_us": None,
        "kind": "join",
        "message": None,
    }
    assert [row["kind"] for row in rows].count("broadcast") == 50
    assert all(row["time_us"] is not None for row in rows[:-1])


def test_a_long_log_is_not_held():
    """A log of JSON lines is a stream: one block of it is in memory at a time."""
    row = b'{"node": "a", "kind": "deliver", "message": "x"}\n'

    class Endless(io.RawIOBase):
        given = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            at = self.given % len(row)
            part = (row * (len(buffer) // len(row) + 2))[at : at + len(buffer)]
            buffer[:] = part
            self.given += len(part)
            return len(part)

    log = Endless()
    batches = event_batches(log, "jsonl", dialect=Dialect())
    for _ in range(20):
        batch = next(batches)
        assert 0 < batch.num_rows < 100_000
    assert log.given < 30 << 20
