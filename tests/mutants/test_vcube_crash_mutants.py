"""What makes ``vcube`` survive crashes, each step left out in turn: the survivors must differ."""

import pytest

from precedes.testing import conformance, observe
from tests.support import vcube_checks
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


def convictions(file):
    """How many schedules with crashes convict a protocol, and why."""
    found = []
    for seed in SEEDS:
        scenario = vcube_checks.with_few_left(seed).replace(protocol=file)
        try:
            vcube_checks.check_survivors(scenario, observe(scenario, tier="interpreted"))
        except Exception as error:
            found.append(f"seed {seed}: {type(error).__name__}: {error}")
            break
    return found


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_step_left_out_is_noticed(tmp_path, mistake):
    found = convictions(protocol(tmp_path, "vcube", MUTANTS[mistake]))
    print(f"{mistake}: {found}")
    assert found, f"{mistake}: nobody noticed"


def test_a_reference_that_was_not_taken_is_noticed(tmp_path):
    """The suite watches over ``retain`` and ``release`` too."""
    mutant = protocol(tmp_path, "vcube", ("    retain(host, slot)\n", ""))
    found = conformance(mutant, schedules=20, compiled=False, failures_max=1)
    assert "without holding a reference" in found.failures[0]


def test_the_original_passes(tmp_path):
    assert convictions(protocol(tmp_path, "vcube")) == []
