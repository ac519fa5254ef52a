"""The errors of `bundled` as printed, and a few more, each of which crash schedules must convict.

Every mutant is `bundled` with an edit or two, run interpreted on the schedules that
the original passes. Not here, because they cannot be run: Algorithm 1, line 3 uses an undefined
name and line 7 a cluster where a process is meant; line 35 records after it has sent, which
cannot be told apart where a handler's effects take place after it.
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
HORIZON_S = 20.0  # several times what the original takes; a mutant may go on for ever

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

# The mistake, then what stands in the protocol and what the mutant has instead.
MUTANTS = {
    "line 33: children of the tree of the source, not of who sent it": (
        (
            "topology.cluster(state.process[here, PROCESS], sender) - 1\n        _forward",
            "topology.cluster(state.process[here, PROCESS], source) - 1\n        _forward",
        ),
    ),
    "lines 12-13: before the first message in order, all is new": (
        (
            "    while row != NONE:\n        if",
            "    while source[BASE] > 0 and row != NONE:\n        if",
        ),
    ),
    "line 53: the message is forgotten when one parent of several is done": (
        (
            "        _finish(state, here, parent, slot, host)\n    else:",
            "        _finish(state, here, parent, slot, host)\n"
            "        FORGOTTEN.add((here, source_of(host, slot), sequence_of(host, slot)))\n"
            "    else:",
        ),
        ("COMPLETE_KIND:", "FORGOTTEN: set[tuple[int, int, int]] = set()\nCOMPLETE_KIND:"),
        (
            "            elif ack_set.asks_first(",
            "            elif (\n"
            "                here, source_of(host, slot), sequence_of(host, slot)\n"
            "            ) not in FORGOTTEN and ack_set.asks_first(",
        ),
    ),
    "lines 35, 67: an ACK answers for one parent of several": (
        (
            "        _check_acks(state, here, row, s, host)\n        row = following",
            "        if following == NONE:\n            _check_acks(state, here, row, s, host)\n"
            "        row = following",
        ),
    ),
    "line 7: no bundles but to neighbours": (
        (
            "    size_bytes = bundles.setting[tag]\n",
            "    if (here ^ target) & ((here ^ target) - 1) != 0:\n        return\n"
            "    size_bytes = bundles.setting[tag]\n",
        ),
    ),
    "line 70: a timer that has run out stays on": (
        (
            "        flush(bundles, pool, here, target, host)\n"
            "\n\n@compiled.function()\ndef _count",
            "        running = bundles.bundle[here, target, GENERATION]\n"
            "        flush(bundles, pool, here, target, host)\n"
            "        bundles.bundle[here, target, GENERATION] = running\n"
            "\n\n@compiled.function()\ndef _count",
        ),
    ),
    "a stopped timer fires": (("== key >> TARGET_BITS:", "!= -1:"),),
    "a crashed child is not replaced": (
        ("        _replace(state, here, s, host)\n    return DONE", "    return DONE"),
    ),
    "who asks for a crashed child is not told that nobody is left": (
        (
            "                _check_acks(state, here, row, s, host)\n                _forget",
            "                pass\n                _forget",
        ),
    ),
    "what a crashed parent asked for is awaited for ever": (
        ("== crashed or source_of(host, slot) == crashed:", "== -2:"),
    ),
    "the new child is not asked": (
        ("elif ack_set.asks_first(state.awaited, state.pool, here, row, s):", "elif False:"),
    ),
    "answered before the clusters below are covered": (
        (
            "    ack_set.begin(state.awaited, state.pool, here, slot, parent, clusters)",
            "    ack_set.begin(state.awaited, state.pool, here, slot, parent, clusters)\n"
            "    if parent != state.process[here, PROCESS]:\n"
            "        _finish(state, here, parent, slot, host)",
        ),
    ),
}
# What each is convicted for.
REASONS = {
    "line 33: children of the tree of the source, not of who sent it": "never completed",
    "lines 12-13: before the first message in order, all is new": "twice",
    "line 53: the message is forgotten when one parent of several is done": "lost",
    "lines 35, 67: an ACK answers for one parent of several": "never completed",
    "line 7: no bundles but to neighbours": "lost",
    "line 70: a timer that has run out stays on": "never completed",
    "a stopped timer fires": "packets",
    "a crashed child is not replaced": "never completed",
    "who asks for a crashed child is not told that nobody is left": "never completed",
    "what a crashed parent asked for is awaited for ever": "awaited",
    "the new child is not asked": "lost",
    "answered before the clusters below are covered": "completed early",
}


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
    mutant = protocol(tmp_path, "bundled", *MUTANTS[mistake])
    assert_convicted(mistake, trials(mutant), REASONS[mistake])


def test_the_original_passes_the_same_schedules():
    assert conviction(trials("bundled")) is None
