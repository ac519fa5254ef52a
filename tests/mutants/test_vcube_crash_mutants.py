"""The steps of crash recovery of ``vcube``, each removed in turn: the survivors must differ."""

import functools

import pytest

from precedes.testing import Kind, conformance, observe
from tests.support import vcube_checks
from tests.support.convictions import assert_convicted, conviction
from tests.support.edited import protocol

SEEDS = range(140)

# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    "packets of the dead are listened to": (
        "lost", ("_take_packet", "state.knows_crashed(...)", "False"),
    ),
    "nothing is relayed": ("lost", ("_learn", "_relay(...)", "")),
    "what arrives later is not relayed": (
        "survivors", ("remember_arrival", "_relay_latest(...)", ""),
    ),
    "nothing is sent again to whom a relay failed": (
        "lost", ("_receive_item", "_send_missing(...)", ""),
    ),
    "broadcasts go over trees while some still pass to the dead": (
        "lost", ("broadcast", "state.recovery.own.direct_from[here] != 0", "False"),
    ),
    "ended before the relayed messages have arrived": (
        "lost", ("_announce", "own.unacknowledged[here] != 0", "False"),
    ),
    "discarded before the others have ended": (
        "lost", ("_resume_after_crashes", "_is_calm(...)", "True"),
    ),
    "nothing is discarded": ("waiting", ("_resume_after_crashes", "_discard_dead(...)", "")),
    "what needs something dead is kept waiting": (
        "waiting", ("_is_dead", "stamp[i + 1] > ...", "False"),
    ),
}  # fmt: skip


def trials(file):
    """Schedules with crashes, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        yield functools.partial(judge, vcube_checks.with_few_left(seed).replace(protocol=file))


def judge(scenario):
    vcube_checks.check_survivors(scenario, observe(scenario, tier="interpreted"))


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_step_left_out_is_noticed(tmp_path, mistake):
    reason, *edits = MUTANTS[mistake]
    mutant = protocol(tmp_path, "vcube", *edits)
    assert_convicted(mistake, trials(mutant), reason)


def test_a_reference_that_was_not_taken_is_noticed(tmp_path):
    """The suite watches over ``retain`` and ``release`` too."""
    mutant = protocol(tmp_path, "vcube", ("remember", "host.retain(...)", ""))
    found = conformance(mutant, schedules=20, compiled=False, failures_max=1)
    assert found.failures[0].kind == Kind.REFERENCE


def test_the_original_passes(tmp_path):
    assert conviction(trials(protocol(tmp_path, "vcube"))) is None
