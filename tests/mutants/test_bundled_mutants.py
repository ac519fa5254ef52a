"""The published errors of `bundled`, and a few more, each of which crash schedules must detect.

Every mutant is `bundled` with an edit or two, run interpreted on the schedules that
the original passes. Not here, because they cannot be run: Algorithm 1, line 3 uses an undefined
name and line 7 a cluster where a process is meant; line 35 records after it has sent, which
cannot be distinguished where a handler's effects take place after it.
"""

import functools

import pytest

from precedes.sim import Scenario, simulate
from tests.support.convictions import assert_convicted, conviction, hold
from tests.support.crashing import check, schedule
from tests.support.edited import protocol

# The last ones are for what only a rare constellation brings out: an early message that comes
# twice, and two parents that wait for one child, of which the older is still correct.
SEEDS = (*range(1, 16), 48, 49, 135, 526)
HORIZON_S = 20.0  # several times what the original takes; a mutant may never end

# Scenario BIG2 of the paper with 64 processes, and the packets that its Table 4 gives for it.
BIG2 = Scenario(
    protocol="bundled",
    nodes=64,
    workload="window:0",
    delay="constant:0.8",
    processing_ms=0.2,
    transmission_ms=0.1,
    parameters={"tree_bytes": 500},
)
BIG2_PACKETS = 3584

# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    "line 33: children of the tree of the source, not of who sent it": (
        "never completed",
        (
            "_receive_tree(state, here, sender)", "topology.cluster(..., sender)",
            "topology.cluster(..., source)", "source = host.source_of(...)",
        ),
    ),
    "lines 12-13: before the first message in order, all is new": (
        "twice",
        (
            "Delivered.is_new(self, here, source)", "while row != NONE: ...",
            "while self.source.base[here, source] > 0 and row != NONE: ...",
        ),
    ),
    "line 53: the message is forgotten when one parent of several is done": (
        "lost", ("", "COMPLETE_KIND: Final = ...", "COMPLETE_KIND: Final = ...; FORGOTTEN = set()"),
        (
            "_check_acks", "_finish(state, here, parent, slot, host)",
            "_finish(state, here, parent, slot, host)\n"
            "FORGOTTEN.add((here, host.source_of(slot), host.sequence_of(slot)))",
        ),
        (
            "_replace(state, here, s, host)", "state.awaited.asks_first(...)",
            "(here, host.source_of(slot), host.sequence_of(slot)) not in FORGOTTEN"
            " and state.awaited.asks_first(...)",
            "slot = int(rows.slot[row])",
        ),
    ),
    "lines 35, 67: an ACK answers for one parent of several": (
        "never completed",
        (
            "_receive_ack", "_check_acks(...)", "if following == NONE: _check_acks(...)",
            "row = following",
        ),
    ),
    "line 7: no bundles but to neighbours": (
        "lost",
        (
            "Bundles._check_bundle(self, here, target)", "",
            "if (here ^ target) & ((here ^ target) - 1) != 0: return",
        ),
    ),
    "line 70: a timer that has run out stays on": (
        "never completed",
        (
            "Bundles.expire", "self.flush(here, target, host)",
            "running = self.bundle.generation[here, target]\n"
            "self.flush(here, target, host)\n"
            "self.bundle.generation[here, target] = running",
        ),
    ),
    "a stopped timer fires": ("packets", ("Bundles.expire", "... == key >> TARGET_BITS", "True")),
    "a crashed child is not replaced": ("never completed", ("_crash", "_replace(...)", "")),
    "a parent of a crashed child gets no answer when no child is left": (
        "never completed", ("_replace", "_check_acks(...)", ""),
    ),
    "a crashed parent's answers are awaited forever": (
        "awaited", ("_crash", "... or host.source_of(...) == crashed", "False"),
    ),
    "the new child is not asked": ("lost", ("_replace", "state.awaited.asks_first(...)", "False")),
    "answered before the clusters below are covered": (
        "completed early",
        (
            "_forward(state, here, parent, top, slot, host)", "state.awaited.add_row(...)",
            "state.awaited.add_row(...)\n"
            "if parent != state.hosted[here]: _finish(state, here, parent, slot, host)",
        ),
    ),
}  # fmt: skip


def trials(name):
    """The schedules, then the packets that 64 nodes take, each as a function that judges."""
    for seed in SEEDS:
        scenario = schedule(seed, protocol=name, nodes_max=17).replace(horizon_s=HORIZON_S)
        yield functools.partial(check, scenario, tier="interpreted")
    yield functools.partial(count_packets, name)


def count_packets(name):
    packets = simulate(BIG2.replace(protocol=name), tier="interpreted").packets
    hold(packets == BIG2_PACKETS, "packets", f"{packets}, not {BIG2_PACKETS}")


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    reason, *edits = MUTANTS[mistake]
    mutant = protocol(tmp_path, "bundled", *edits)
    assert_convicted(mistake, trials(mutant), reason)


def test_the_original_passes_the_same_schedules():
    assert conviction(trials("bundled")) is None
