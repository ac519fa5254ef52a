"""Events made with NumPy, in the order of time, as a run records them."""

import numpy as np

from precedes.model import Events
from precedes.trace import TraceWriter

BROADCAST, RECEIVE, DELIVER, CRASH = 0, 2, 3, 4


def workload(*, nodes, messages, seed=1, rate=100.0):
    """Columns of a run in which everybody delivers on arrival, delays N(100, 20) ms."""
    rng = np.random.default_rng(seed)
    sent_s = np.cumsum(rng.exponential(1 / rate, messages))
    source = rng.integers(0, nodes, messages)
    sequence = np.empty(messages, np.int64)
    for node in range(nodes):
        own = np.flatnonzero(source == node)
        sequence[own] = np.arange(1, own.size + 1)
    time_s = sent_s[:, None] + rng.normal(0.1, 0.02, (messages, nodes))
    time_s[np.arange(messages), source] = sent_s
    kind = np.full((messages, nodes), DELIVER)
    kind[np.arange(messages), source] = BROADCAST
    columns = {
        "time_ns": (time_s * 1e9).astype(np.int64).ravel(),
        "node": np.tile(np.arange(nodes, dtype=np.int32), messages),
        "kind": kind.ravel().astype(np.int8),
        "source": np.repeat(source, nodes).astype(np.int32),
        "sequence": np.repeat(sequence, nodes).astype(np.int32),
        "packet": np.full(messages * nodes, -1, np.int64),
    }
    order = np.argsort(columns["time_ns"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def events(rows):
    """Columns of a few events given as (node, kind, source, sequence)."""
    node, kind, source, sequence = np.array(rows, np.int64).reshape(-1, 4).T
    return {
        "time_ns": np.arange(len(rows)) * 1_000_000,
        "node": node,
        "kind": kind,
        "source": source,
        "sequence": sequence,
        "packet": np.full(len(rows), -1),
    }


def write(path, columns, *, nodes, piece=10_000, complete=True, **options):
    """Record these columns in pieces, from one buffer that is used again and again."""
    with TraceWriter(path, nodes=nodes, **options) as writer:
        for start in range(0, columns["node"].size, piece):
            buffer = {
                name: column[start : start + piece].copy() for name, column in columns.items()
            }
            writer.write(Events(**buffer))
            for column in buffer.values():
                column.fill(0)
        writer.close(complete=complete)
