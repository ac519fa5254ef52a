"""Every complete trace with one delivery taken out is convicted, whatever protocol made it."""

import dataclasses

import numpy as np
import pytest

from precedes import audit
from precedes.registry import load, names
from precedes.sim import Scenario, simulate
from precedes.sim.runs import open_run
from precedes.testing import Collector
from precedes.trace import read_trace
from precedes.trace.rows import DELIVER

ON_THE_AIR = {
    "protocol": "mobile",
    "nodes": 5,
    "rate": 8.0,
    "duration_s": 4.0,
    "parameters": {"stations": 2, "joins_s": 3.0},
}


def recorded(tmp_path, **fields):
    """The history of a run, from its trace."""
    path = tmp_path / "run.parquet"
    simulate(Scenario(**fields), trace=path, tier="interpreted")
    (history,) = read_trace(path)
    assert history.complete
    return history


def without(history, row):
    """The same without one row."""
    node = int(np.searchsorted(history.offsets, row, side="right")) - 1
    later = (history.join_node == node) & (history.join_row > row - history.offsets[node])
    return dataclasses.replace(
        history,
        offsets=history.offsets - (np.arange(history.nodes + 1) > node),
        kind=np.delete(history.kind, row),
        message=np.delete(history.message, row),
        join_row=history.join_row - later,
    )


def never_held(history):
    """How many deliveries were taken out, one at a time."""
    rows = np.flatnonzero(history.kind == DELIVER)
    for row in rows:
        assert audit.audit(without(history, row), witnesses=0).verdict == "violated", row
    return rows.size


@pytest.mark.parametrize("protocol", sorted(set(names()) - {"mobile", "flooding"}))
def test_a_dropped_delivery_is_missed(tmp_path, protocol):
    history = recorded(tmp_path, protocol=protocol, nodes=4, messages=12, rate=1000.0)
    if load(protocol).guarantee == "causal":
        assert audit.audit(history).verdict == "held"
    assert never_held(history) == 36


@pytest.mark.parametrize("protocol", ["mobile", "flooding"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_dropped_delivery_is_missed_on_the_air(tmp_path, protocol, seed):
    """Hosts join while others broadcast, and deliver their own messages too."""
    history = recorded(tmp_path, **{**ON_THE_AIR, "protocol": protocol, "seed": seed})
    assert (history.join_message >= 0).any()
    assert audit.audit(history).verdict == "held"
    assert never_held(history) > 50


def test_a_trace_in_memory_says_the_same(tmp_path):
    """Joins are kept there too, with what hosts begin with."""
    history = recorded(tmp_path, **ON_THE_AIR)
    collector = Collector()
    open_run(Scenario(**ON_THE_AIR), writer=collector).go()
    again = collector.history(nodes=history.nodes)
    assert audit.audit(again) == dataclasses.replace(audit.audit(history), origin="")
    assert again.join_message.tolist() == history.join_message.tolist()
