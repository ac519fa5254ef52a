"""Logs by address: whatever stands in them, in memory or on disk, the report is the same."""

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.audit.order import find_order
from precedes.audit.pasts import find_pasts
from precedes.errors import UserError
from precedes.trace import Dialect, History, TraceWriter, read_trace
from precedes.trace.reader import TraceRows, trace_rows
from precedes.trace.rows import NoOrder
from tests.support import executions
from tests.support.audits import write_trace


@pytest.fixture
def log(tmp_path):
    execution = executions.run(3, nodes=6, messages=60, order="wild", loss=0.1)
    return write_trace(tmp_path / "t.parquet", execution, group_rows=50)


def rewritten(path, change):
    """The same trace with its table changed, and the rows in groups of a few."""
    table = pq.read_table(path)
    changed = change(table).replace_schema_metadata(table.schema.metadata)
    target = path.with_name("changed.parquet")
    pq.write_table(changed, target, row_group_size=40)
    return target


def as_histories(path):
    return [audit(history) for history in read_trace(path)]


def test_a_history_is_one_run_and_a_log_a_list_of_them(tmp_path, log):
    (history,) = read_trace(log)
    report = audit(history)
    assert report.verdict == "violated"
    assert audit(log) == audit(str(log)) == audit([log]) == audit((str(log),)) == [report]
    (rows,) = trace_rows(str(log))
    assert audit(rows) == report
    assert audit([]) == []


def test_no_history_is_made_of_a_trace_in_order(log, monkeypatch):
    expected = audit(log)
    monkeypatch.setattr(History, "__post_init__", lambda _: pytest.fail("read into memory"))
    assert audit(log) == expected


def reversed_rows(table):
    return table.take(pa.array(np.arange(table.num_rows)[::-1]))


def swapped_within_a_node(table):
    order = np.arange(table.num_rows)
    order[[0, 1]] = [1, 0]
    return table.take(pa.array(order))


def seq_from_ten(table):
    at = table.schema.get_field_index("seq")
    wider = pa.array(table.column("seq").to_numpy() * 10, pa.int32())
    return table.set_column(at, table.schema.field("seq"), wider)


def heard_in(path):
    for rows in trace_rows(str(path)):
        find_pasts(rows, 0, rows.nodes, order=find_order(rows), bound=rows.counts)


@pytest.mark.parametrize("change", [reversed_rows, swapped_within_a_node, seq_from_ten])
def test_a_trace_without_order_is_gathered_first(log, change):
    path = rewritten(log, change)
    with pytest.raises(NoOrder):
        heard_in(path)
    expected = [replace(report, origin=str(path)) for report in audit(log)]
    assert audit(path) == as_histories(path)
    if change is not seq_from_ten:
        assert audit(path) == expected


def test_several_runs_in_a_file(tmp_path, log):
    """A run ends in the middle of a row group."""
    other = executions.run(9, nodes=6, messages=20, order="causal")
    second = write_trace(tmp_path / "u.parquet", other)
    table = pq.read_table(second)
    at = table.schema.get_field_index("run_id")
    runs = pa.array(np.full(table.num_rows, 7), pa.int32())
    table = table.set_column(at, table.schema.field("run_id"), runs)
    path = rewritten(log, lambda first: pa.concat_tables([first, table]))
    reports = audit(path, ranges=2)
    assert [(report.run_id, report.verdict) for report in reports] == [(0, "violated"), (7, "held")]
    assert reports == as_histories(path)
    assert len(trace_rows(str(path))) == 2


def test_a_trace_without_rows_is_a_run_without_events(tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(path, nodes=3, run_id=4):
        pass
    (report,) = audit(path)
    assert (report.verdict, report.run_id, report.nodes) == ("unknown", 4, 3)
    assert [report] == as_histories(path)


def test_statistics_save_reading_the_nodes(log, monkeypatch):
    """Groups of one node each, and files without statistics."""
    table = pq.read_table(log)
    bare = log.with_name("bare.parquet")
    pq.write_table(table, bare, row_group_size=33, write_statistics=False)
    assert [replace(report, origin=str(log)) for report in audit(bare)] == audit(log)
    single = log.with_name("single.parquet")
    with pq.ParquetWriter(single, table.schema) as writer:
        for node in range(6):
            writer.write_table(table.filter(pa.compute.equal(table.column("node"), node)))
    read = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda file, group, columns, **more: (
            read.extend(columns) or original(file, group, columns=columns, **more)
        ),
    )
    assert [replace(report, origin=str(log)) for report in audit(single)] == audit(log)
    assert "kind" in read
    assert "node" not in read[: read.index("kind")]


def test_complete_makes_what_is_missing_lost(tmp_path):
    execution = executions.run(3, nodes=4, messages=20, order="causal", loss=0.2)
    execution.complete = False
    path = write_trace(tmp_path / "t.parquet", execution)
    (report,) = audit(path)
    assert (report.lost, report.undelivered_at_end > 0) == (0, True)
    (said,) = audit(path, dialect=Dialect(complete=True))
    assert (said.lost, said.undelivered_at_end) == (report.undelivered_at_end, 0)


def test_a_log_that_changes_meanwhile_is_refused(log, monkeypatch):
    original = TraceRows.chunks

    def changing(rows, *args, **more):
        yield from original(rows, *args, **more)
        os.utime(log, ns=(5, 5))

    monkeypatch.setattr(TraceRows, "chunks", changing)
    with pytest.raises(UserError, match="has changed while it was read: audit it again"):
        audit(log)


def test_progress_rises_to_the_end(log):
    reported = []
    audit([log, log], progress=reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
    assert len(set(reported)) > 4


def test_counts_that_mean_nothing_are_refused(log):
    for options in ({"witnesses": -1}, {"ranges": 0}):
        with pytest.raises(UserError, match="or more, not"):
            audit(log, **options)
