"""Findings of the audit beyond its report, and executions as trace files."""

import numpy as np

from precedes.audit.stages import Runner, carry_out, cut_evenly
from precedes.model import EventKind, Events
from precedes.trace import TraceWriter
from precedes.trace.rows import CHUNK_ROWS, Chunk, Rows
from tests.support.executions import rows_of

KINDS = {kind.name.lower(): kind for kind in EventKind}


def pairs(history, *, ranges=2):
    """All violating deliveries, as (node, (source, number))."""
    spans = cut_evenly(history, ranges)
    outcome = carry_out(history, spans, runner=Runner(), violations_max=history.kind.size)
    return {(node, (source, seq)) for node, source, seq in outcome.violations}


def trace_rows_of(execution):
    """The rows of a trace of an execution: (node, kind, source, seq), nodes in order."""
    return [
        (node, KINDS[kind], *(m or (node, 0)))
        for node, rows in enumerate(rows_of(execution))
        for kind, m in rows
    ]


class ExecutionRows(Rows):
    """An execution as rows, with the pairs that it has, phantoms too."""

    def __init__(self, execution):
        self.nodes = len(execution.logs)
        self.complete = execution.complete
        self.run_id, self.origin = 0, ""
        self._rows = trace_rows_of(execution)
        self.counts = np.bincount([row[0] for row in self._rows], minlength=self.nodes)

    def chunks(self, first, last, *, chunk_rows=CHUNK_ROWS, check=False):
        """Chunks of one node each."""
        for node in range(first, last):
            rows = [row[1:] for row in self._rows if row[0] == node]
            for at in range(0, len(rows), chunk_rows):
                kind, source, seq = zip(*rows[at : at + chunk_rows], strict=True)
                bounds = np.array([0, len(kind)])
                columns = (np.array(kind, np.int8), np.array(source, np.int32))
                yield Chunk(node, bounds, *columns, np.array(seq, np.int32))


def write_trace(path, execution, *, group_rows=1_000_000):
    """A trace file of an execution."""
    fields = {"complete": execution.complete, "group_rows": group_rows}
    return write_rows(path, trace_rows_of(execution), nodes=len(execution.logs), **fields)


def write_rows(path, rows, *, nodes, complete=False, group_rows=1_000_000):
    """A trace file of rows (node, kind, source, seq)."""
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    with TraceWriter(path, nodes=nodes, group_rows=group_rows) as writer:
        times = np.arange(len(rows)) * 1000
        writer.write(Events(times, *columns, np.full(len(rows), -1)))
        writer.close(complete=complete)
    return path
