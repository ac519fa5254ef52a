"""Reading returns the recorded events, from a small file, in bounded memory."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.model import EventKind, Events
from precedes.trace import SCHEMA, SCHEMA_VERSION, load, read_metadata, read_trace
from precedes.trace.writer import TraceWriter
from tests.support import logs
from tests.support.logs import BROADCAST, CRASH, DELIVER, RECEIVE


def rows_of(history):
    """Each node's own (kind, message label) list."""
    return [
        [
            (int(history.kind[row]), history.message_label(int(history.message[row])))
            for row in range(history.offsets[node], history.offsets[node + 1])
        ]
        for node in range(history.nodes)
    ]


def test_file_is_the_documented_table(tmp_path):
    path = tmp_path / "run.parquet"
    columns = logs.workload(nodes=7, messages=300)
    columns["packet"][::5] = np.arange(columns["packet"][::5].size)
    logs.write(path, columns, nodes=7, piece=131, chunk_rows=200, group_rows=500, run_id=3)
    file = pq.ParquetFile(path)
    table = file.read()
    assert table.schema.remove_metadata() == SCHEMA
    assert file.num_row_groups > 1
    order = np.argsort(columns["node"], kind="stable")
    expected = {
        "run_id": np.full(2100, 3),
        "node": columns["node"][order],
        "local_seq": np.tile(np.arange(300), 7),
        "time_us": columns["time_ns"][order] // 1000,
        "source": columns["source"][order],
        "seq": columns["sequence"][order],
    }
    for name, values in expected.items():
        assert np.array_equal(table.column(name).to_numpy(), values), name
    names = [EventKind(kind).name.lower() for kind in columns["kind"][order].tolist()]
    assert table.column("kind").to_pylist() == names
    packets = [packet if packet >= 0 else None for packet in columns["packet"][order].tolist()]
    assert table.column("packet").to_pylist() == packets


def test_small_on_disk(tmp_path):
    """At most 4 bytes an event with 200 nodes at 100 broadcasts a second."""
    path = tmp_path / "run.parquet"
    columns = logs.workload(nodes=200, messages=6000)
    logs.write(path, columns, nodes=200, piece=200_000)
    assert path.stat().st_size / columns["node"].size <= 4.0


def test_memory_is_bounded(tmp_path):
    """Neither writing nor merging holds more than a few chunks, one node's long log included."""
    path = tmp_path / "run.parquet"
    piece, pieces = 10_000, 60
    rng = np.random.default_rng(1)
    writer = TraceWriter(path, nodes=4, chunk_rows=piece, group_rows=piece)
    tracemalloc.start()
    try:
        for _ in range(pieces):
            rows = np.zeros((piece, 4), np.int64)
            rows[:, 0] = np.where(rng.random(piece) < 0.9, 2, 1)
            writer.write(Events(**logs.events(rows)))
        writer.close()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    file = pq.ParquetFile(path)
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sum(sizes) == piece * pieces
    assert max(sizes) <= 2 * piece
    assert peak_bytes < 5_000_000  # the columns of the whole run are 29 MB
    table = file.read(columns=["node", "local_seq"])
    local_seq = table.column("local_seq").to_numpy()[table.column("node").to_numpy() == 2]
    assert np.array_equal(local_seq, np.arange(local_seq.size))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([BROADCAST, RECEIVE, DELIVER])), max_size=60
    ),
    st.integers(1, 7),
    st.integers(1, 9),
    st.integers(1, 9),
)
@settings(max_examples=40)
def test_every_cut_gives_the_same_history(tmp_path_factory, made, piece, chunk_rows, group_rows):
    path = tmp_path_factory.mktemp("cut") / "run.parquet"
    sent = [0, 0, 0, 0]
    rows, expected = [], [[], [], [], []]
    for i, (node, kind) in enumerate(made):
        source = node if kind == BROADCAST else i % 4
        sent[source] += kind == BROADCAST
        row = (node, kind, source, max(sent[source], 1))
        rows.append(row)
        if kind != RECEIVE:
            expected[node].append((kind, f"{source}:{row[3]}"))
    logs.write(
        path, logs.events(rows), nodes=4, piece=piece, chunk_rows=chunk_rows,
        group_rows=group_rows,
    )  # fmt: skip
    (history,) = read_trace(path)
    assert rows_of(history) == expected


def test_history_of_a_trace(tmp_path):
    path = tmp_path / "run.parquet"
    rows = [
        (1, BROADCAST, 1, 1),
        (0, RECEIVE, 1, 1),
        (0, BROADCAST, 0, 1),
        (0, DELIVER, 1, 1),
        (2, CRASH, 2, 0),
        (1, DELIVER, 0, 1),
        (1, DELIVER, 7, 5),
        (1, DELIVER, 0, 2),
        (1, BROADCAST, 1, 2),
    ]
    logs.write(path, logs.events(rows), nodes=3, complete=False, run_id=9)
    (history,) = load(path)
    assert history.message_source.tolist() == [0, 1, 1, -1, -1]
    assert history.message_sequence.tolist() == [1, 1, 2, 0, 0]
    assert history.message_names is None
    assert rows_of(history) == [
        [(BROADCAST, "0:1"), (DELIVER, "1:1")],
        [(0, "1:1"), (3, "0:1"), (3, "7:5"), (3, "0:2"), (0, "1:2")],
        [],
    ]
    assert history.crashed.tolist() == [2]
    assert (history.complete, history.run_id, history.origin) == (False, 9, str(path))
    assert history.time_us.tolist() == [2000, 3000, 0, 5000, 6000, 7000, 8000]
    (without,) = read_trace(path)
    assert without.time_us is None


def test_sequences_with_gaps_keep_their_names(tmp_path):
    path = tmp_path / "run.parquet"
    rows = [(0, 0, 0, 10), (0, 0, 0, 20), (1, 3, 0, 20), (1, 3, 0, 1), (1, 3, 0, 10)]
    logs.write(path, logs.events(rows), nodes=2)
    (history,) = read_trace(path)
    assert rows_of(history) == [[(0, "0:10"), (0, "0:20")], [(3, "0:20"), (3, "0:1"), (3, "0:10")]]
    assert history.message_source.tolist() == [0, 0, -1]
    assert history.message_sequence.tolist() == [1, 2, 0]


def test_metadata(tmp_path):
    path = tmp_path / "run.parquet"
    reported = {"protocol": "vector", "seed": 7, "nodes": "overruled"}
    with TraceWriter(path, nodes=5, metadata=reported, run_id=4) as writer:
        writer.close(complete=False, counts={"deliveries": 3})
    found = read_metadata(path)
    assert found == {
        "schema_version": SCHEMA_VERSION, "nodes": 5, "complete": False, "run_id": 4,
        "protocol": "vector", "seed": 7, "counts": {"deliveries": 3},
    }  # fmt: skip
    (history,) = read_trace(path)
    assert (history.nodes, history.run_id, history.messages) == (5, 4, 0)


def rewrite(path, table):
    """The same trace as another tool would store it."""
    metadata = pq.read_schema(path).metadata
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=37)


@pytest.mark.parametrize("runs", [1, 3])
def test_order_of_rows_in_the_file_does_not_matter(tmp_path, runs):
    path = tmp_path / "run.parquet"
    columns = logs.workload(nodes=5, messages=40)
    tables = []
    for run_id in range(runs):
        logs.write(path, columns, nodes=5, run_id=run_id)
        tables.append(pq.read_table(path))
    table = pa.concat_tables(tables)
    rewrite(path, table)
    in_order = read_trace(path)
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    plain = shuffled.column("kind").cast(pa.string())
    shuffled = shuffled.set_column(table.column_names.index("kind"), "kind", plain)
    rewrite(path, shuffled.append_column("colour", pa.nulls(table.num_rows)))
    again = read_trace(path)
    assert [history.run_id for history in in_order] == list(range(runs))
    assert [rows_of(history) for history in again] == [rows_of(history) for history in in_order]
    assert sum(history.message.size for history in again) == table.num_rows
