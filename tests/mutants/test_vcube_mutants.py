"""Mistakes in ``vcube``, each of which must be convicted: the paper's own, and others.

The printed ones are made in the specification, which is otherwise the package's protocol
packet for packet (tests/protocols/test_specs.py); the others are edits of the package's.
All run interpreted on schedules that the originals pass.
"""

import contextlib
import functools
from pathlib import Path

import pytest

from precedes.testing import Breach, check_same, observe
from tests.support import vcube_checks
from tests.support.convictions import assert_convicted, conviction
from tests.support.edited import protocol
from tests.support.protocols import vcube_printed

PRINTED = str(Path(vcube_printed.__file__))
SEEDS = range(1, 15)
SEVERAL = {"nodes": 8, "workload": "window:200:4", "delay": "spiky:10:300", "mtu_bytes": 0}


def trials(file, parameters, check):
    """The schedules, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        scenario = vcube_checks.scenario(seed, **SEVERAL).replace(
            protocol=file, parameters=parameters, horizon_s=60.0
        )
        yield functools.partial(judge, scenario, check)


def judge(scenario, check):
    check(scenario, observe(scenario, tier="interpreted", packets=True))


def check_printed(scenario, seen):
    """Everything but what the package's protocol alone reports."""
    seen.result.extra.setdefault("waiting_at_end", seen.result.pending_at_end)
    vcube_checks.check_everything(scenario, seen)


# What each printed mistake is convicted for.
REASONS_PRINTED = {
    "line 3 of Algorithm 1: 1 < s": "lost",
    "line 22: delivery inside the loop": "lost",
    "line 19: only m triggers": "waiting",
    "line 27: only the trigger is sent": "lost",
    "line 26: no first condition": "waiting",
    "line 32: for all k, the source too": "lost",
}


@pytest.mark.parametrize("error", REASONS_PRINTED)
def test_printed_mistakes_are_convicted(error):
    judged = trials(PRINTED, {"error": error, "aggregation": True}, check_printed)
    assert_convicted(error, judged, REASONS_PRINTED[error])


def test_the_specification_passes_the_same_schedules():
    judged = trials(PRINTED, {"error": "none", "aggregation": True}, check_printed)
    assert conviction(judged) is None


# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    "cluster 1 is never served": (
        "lost", ("_check_aggregation", "range(1, top + 1)", "range(2, top + 1)"),
    ),
    "a broadcast leaves out cluster 1": (
        "lost", ("_send_to_children", "range(1, height + 1)", "range(2, height + 1)"),
    ),
    "delivered before forwarded": (
        "lost", ("_take_packet", "_check_aggregation(...)", ""),
        (
            "_take_packet", "_check_delivery(state, here, chosen, arrivals, host)",
            "_check_delivery(state, here, chosen, arrivals, host)\n"
            "_check_aggregation(state, here, chosen, host)",
        ),
    ),
    "what was sent is not remembered": (
        "sent", ("_check_aggregation", "rows.unserved[row] = ...", ""),
    ),
    "a stamp says nothing": (
        "order", ("_write_stamp", "stamp[ENTRIES] = ...", "stamp[ENTRIES] = 0"),
    ),
    "a stamp leaves out one change": (
        "order", ("_write_stamp", "delivered[l] != stamped[l]", "l"),
    ),
    "the source's earlier message is not awaited": (
        "order", ("_misses_delivery", "... < sequence - 1", "... < sequence - 9"),
    ),
    "what blocks the earlier message is forgotten": (
        "seen by the literal algorithm alone",
        ("_find_blocked", "rows.blocked[earlier] > rows.blocked[row]", "False"),
    ),
    "the past is not compared": ("order", ("_misses_delivery", "entry == NONE", "True")),
    "a message waits for itself": (
        "lost",
        ("_find_blocked", "before > delivered[source]", "before >= delivered[source]"),
    ),
    "what waits for a delivery is looked at once": (
        "lost",
        (
            "_check_delivery",
            "waiting.take_off(...); waiting.enqueue(...)", "waiting.take_off(...)",
        ),
    ),
}  # fmt: skip
# Harmless to order and to edges: only a comparison with the literal algorithm shows them.
UNSEEN = ("what blocks the earlier message is forgotten",)


@pytest.mark.parametrize("mistake", [name for name in MUTANTS if name not in UNSEEN])
def test_mutants_are_convicted(tmp_path, mistake):
    reason, *edits = MUTANTS[mistake]
    mutant = protocol(tmp_path, "vcube", *edits)
    parameters = {"aggregation": True, "tolerant": False}
    judged = trials(mutant, parameters, vcube_checks.check_everything)
    assert_convicted(mistake, judged, reason)


def test_the_original_passes_the_same_schedules():
    parameters = {"aggregation": True, "tolerant": False}
    assert conviction(trials("vcube", parameters, vcube_checks.check_everything)) is None


@pytest.mark.parametrize("mistake", UNSEEN)
def test_the_specification_convicts_the_rest(tmp_path, mistake):
    """A message sent too early is in order all the same, but not in the same packet."""
    mutant = protocol(tmp_path, "vcube", *MUTANTS[mistake][1:])
    parameters = {"aggregation": True, "tolerant": False}
    differing = 0
    for seed in SEEDS:
        base = vcube_checks.scenario(seed, **SEVERAL)
        scenario = base.replace(protocol=mutant, parameters=parameters)
        with contextlib.suppress(Breach):
            check_same(scenario, base.replace(protocol="vcube.spec", parameters={}), compiled=False)
            continue
        differing += 1
    assert differing > 0
