"""What makes ``vcube`` survive crashes, each step left out in turn: the survivors must differ."""

import functools

import pytest

from precedes.testing import Kind, conformance, observe
from tests.support import vcube_checks
from tests.support.convictions import assert_convicted, conviction
from tests.support.edited import protocol

SEEDS = range(140)

# The mistake, then what stands in a file of the protocol and what the mutant has instead.
MUTANTS = {
    "packets of the dead are listened to": (
        "    if knows_crashed(state, here, sender):\n",
        "    if False:\n",
    ),
    "nothing is relayed": (
        "    if recovery.peer[at + FIRST_KEPT] != NONE:\n        _relay(",
        "    if False:\n        _relay(",
    ),
    "what arrives later is not relayed": (
        "        _relay_latest(state, here, source, host)\n",
        "",
    ),
    "nothing is sent again to whom a relay failed": (
        "        _send_missing(state, here, sender, value, host)\n",
        "",
    ),
    "broadcasts go over trees while some still pass to the dead": (
        "        if state.recovery.own[here, DIRECT_FROM] != 0:\n",
        "        if False:\n",
    ),
    "ended before the relayed messages have arrived": (
        "    if mine[UNACKNOWLEDGED] != 0:\n        return\n",
        "",
    ),
    "discarded before the others have ended": (
        " and _is_calm(state, here):\n",
        ":\n",
    ),
    "nothing is discarded": (
        "        _discard_dead(state, here, host)\n",
        "",
    ),
    "what needs something dead is kept waiting": (
        "> peer[peer_of(state, here, stamp[i]) + LIMIT]:",
        "> 1 << 40:",
    ),
}
# What each is convicted for.
REASONS = {
    "packets of the dead are listened to": "lost",
    "nothing is relayed": "lost",
    "what arrives later is not relayed": "survivors",
    "nothing is sent again to whom a relay failed": "lost",
    "broadcasts go over trees while some still pass to the dead": "lost",
    "ended before the relayed messages have arrived": "lost",
    "discarded before the others have ended": "lost",
    "nothing is discarded": "waiting",
    "what needs something dead is kept waiting": "waiting",
}


def trials(file):
    """Schedules with crashes, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        yield functools.partial(judge, vcube_checks.with_few_left(seed).replace(protocol=file))


def judge(scenario):
    vcube_checks.check_survivors(scenario, observe(scenario, tier="interpreted"))


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_step_left_out_is_noticed(tmp_path, mistake):
    mutant = protocol(tmp_path, "vcube", MUTANTS[mistake])
    assert_convicted(mistake, trials(mutant), REASONS[mistake])


def test_a_reference_that_was_not_taken_is_noticed(tmp_path):
    """The suite watches over ``retain`` and ``release`` too."""
    mutant = protocol(tmp_path, "vcube", ("    retain(host, slot)\n", ""))
    found = conformance(mutant, schedules=20, compiled=False, failures_max=1)
    assert found.failures[0].kind == Kind.REFERENCE


def test_the_original_passes(tmp_path):
    assert conviction(trials(protocol(tmp_path, "vcube"))) is None
