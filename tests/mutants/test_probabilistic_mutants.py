"""The detector of Mostefaoui and Weiss, and its published form."""

import numpy as np
import pytest

from precedes.model import EventKind
from precedes.parts import clocks
from precedes.sim import Scenario
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE
from precedes.testing import observe
from tests.support.edited import protocol

# "There is an entry of the sender that is one below the message's": true of what is in order.
PRINTED = [
    ("_looks_late", "return True", "return False"),
    (
        "_looks_late",
        "if state.clock[here, x] <= state.need[slot, x]: return False",
        "if state.clock[here, x] == state.need[slot, x]: return True",
    ),
]
ENTRIES, NODES = 8, 15


def run(name, *, seed=1, entries=ENTRIES):
    return observe(
        Scenario(
            protocol=name,
            nodes=NODES,
            messages=200,
            rate=100.0,
            seed=seed,
            parameters={"entries": entries, "detector": "mostefaoui"},
        ),
        tier="interpreted",
    )


def expected(rows, *, seed=1, entries=ENTRIES):
    """Tags and wrong deliveries, by sets of messages and counts over them."""
    own = [
        clocks.own_entries(entries=entries, per_process=2, process=i, seed=seed)
        for i in range(NODES)
    ]
    clock = np.zeros((NODES, entries), int)
    delivered = [set() for _ in range(NODES)]
    stamp, past, tags, wrong = {}, {}, set(), set()
    for row in rows:
        node, kind = int(row[NODE]), row[KIND]
        name = int(row[SOURCE]), int(row[SEQUENCE])
        if kind == EventKind.DELIVER:
            mine = own[name[0]]
            if (clock[node][mine] >= stamp[name][mine]).all():
                tags.add((node, name))
            if not past[name] <= delivered[node]:
                wrong.add((node, name))
        if kind in (EventKind.BROADCAST, EventKind.DELIVER):
            clock[node][own[name[0]]] += 1
        if kind == EventKind.BROADCAST:
            stamp[name] = clock[node].copy()
            past[name] = frozenset(delivered[node])
        if kind in (EventKind.BROADCAST, EventKind.DELIVER):
            delivered[node].add(name)
    return tags, wrong


def noted(seen):
    return {(int(r[NODE]), (int(r[SOURCE]), int(r[SEQUENCE]))) for r in seen.of(EventKind.TAG)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_detector_tags_what_it_should(seed):
    seen = run("probabilistic", seed=seed)
    tags, wrong = expected(seen.rows, seed=seed)
    assert noted(seen) == tags
    assert seen.result.extra["tagged"] == len(tags)
    assert len(wrong) == seen.report.violations > 0
    assert seen.result.extra["untagged_violations"] == len(wrong - tags)
    untagged = {name for _, name in wrong - tags}
    assert seen.result.extra["untagged_messages"] == len(untagged)
    assert len(wrong - tags) > 0


def test_the_printed_form_is_convicted(tmp_path):
    """It tags nearly everything but what is late."""
    seen = run(protocol(tmp_path, "probabilistic", *PRINTED), entries=50)
    tags, _ = expected(seen.rows, entries=50)
    assert noted(seen) != tags
    assert seen.result.extra["tagged"] > 0.5 * seen.result.deliveries
    assert len(tags) < 0.2 * seen.result.deliveries
