"""Large logs are sorted on disk; nothing else changes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from precedes.audit import audit
from precedes.trace.opening import open_rows
from precedes.trace.sort.merge import SortedRows
from tests.support import executions, logs


def test_json_lines(tmp_path):
    execution = executions.run(4, nodes=5, messages=30, order="wild", loss=0.1)
    path = tmp_path / "log.jsonl"
    lines = [line for node in range(5) for line in executions.as_lines(execution, node)]
    path.write_text("\n".join(lines) + "\n")
    (rows,) = open_rows(path, large_rows=1)
    assert isinstance(rows, SortedRows)
    found = audit(rows)
    assert found.violations
    (place,) = {rows.folder.path}
    assert place.is_dir()
    del rows
    assert not place.exists()
    assert audit([path]) == [found]


def test_a_trace_in_no_order(tmp_path):
    """It is complete, and has all its nodes, also those that say nothing."""
    path = tmp_path / "trace.parquet"
    logs.write(path, logs.workload(nodes=6, messages=50), nodes=7)
    table = pq.read_table(path)
    rows = np.random.default_rng(1).permutation(table.num_rows)
    pq.write_table(table.take(pa.array(rows)), path)
    found = audit(*open_rows(path, large_rows=1))
    assert (found.nodes, found.lost > 0) == (7, True)
    assert audit([path]) == [found]
    assert found.verdict == "violated"
