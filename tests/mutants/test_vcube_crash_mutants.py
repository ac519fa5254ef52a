"""What makes ``vcube`` survive crashes, each step left out in turn: the survivors must differ."""

import shutil
import sys
from pathlib import Path

import pytest

from precedes.protocols import registry
from precedes.testing import conformance, observe
from tests import vcube_checks
from tests.edited import edit

FOLDER = Path(registry.__file__).parent
PARTS = ("arrivals", "crashes", "recovery", "state", "waiting")
SEEDS = range(140)

# The mistake: the part of the protocol, what stands there, what the mutant has instead.
MUTANTS = {
    "packets of the dead are listened to": (
        "vcube",
        "    if state.setting[TOLERANT] != 0 and state.recovery.crashed[here, sender] != 0:\n",
        "    if False:\n",
    ),
    "nothing is relayed": (
        "vcube_recovery",
        "    if recovery.word[at + FIRST] != NONE:\n        relay(",
        "    if False:\n        relay(",
    ),
    "what arrives later is not relayed": (
        "vcube_crashes",
        "        recover.relay_latest(recovery, here, node, source, host)\n",
        "",
    ),
    "nothing is sent again to whom a relay failed": (
        "vcube_recovery",
        "        _send_missing(recovery, here, node, sender, value, host)\n",
        "",
    ),
    "broadcasts go over trees while some still pass to the dead": (
        "vcube",
        "        if state.recovery.own[here, recover.DIRECT_FROM] != 0:\n",
        "        if False:\n",
    ),
    "ended before the relayed messages have arrived": (
        "vcube_recovery",
        "    if mine[UNACKNOWLEDGED] != 0:\n        return\n",
        "",
    ),
    "discarded before the others have ended": (
        "vcube_crashes",
        " and recover.is_calm(recovery, here, node):\n",
        ":\n",
    ),
    "nothing is discarded": (
        "vcube_crashes",
        "        state.process[here, WAITING] -= _discard_dead(\n"
        "            recovery, here, state.waiting, state.clock, state.stamp, host\n"
        "        )\n",
        "",
    ),
    "what needs something dead is kept waiting": (
        "vcube_crashes",
        "> recovery.word[recover.WORDS * (at + entry) + recover.LIMIT]:",
        "> 1 << 40:",
    ),
}


def copy(directory, *edits):
    """The protocol and its parts under names of their own, with edits (part, old, new)."""
    mark = directory.name.replace("-", "_")
    for name in ("vcube", *(f"vcube_{part}" for part in PARTS)):
        text = (FOLDER / f"{name}.py").read_text()
        text = edit(text, *[(old, new) for part, old, new in edits if part == name])
        for part in PARTS:
            text = text.replace(
                f"from precedes.protocols.vcube_{part} import", f"from {mark}_{part} import"
            )
            text = text.replace(
                f"from precedes.protocols import vcube_{part} as", f"import {mark}_{part} as"
            )
            text = text.replace(
                f"from precedes.protocols import vcube_{part}\n", f"import {mark}_{part}\n"
            )
            text = text.replace(f"vcube_{part}.", f"{mark}_{part}.")
        (directory / name.replace("vcube_", f"{mark}_")).with_suffix(".py").write_text(text)
    return str(directory / "vcube.py")


def convictions(file):
    """How many schedules with crashes convict a protocol, and why."""
    found = []
    for seed in SEEDS:
        scenario = vcube_checks.with_few_left(seed).replace(protocol=file)
        try:
            vcube_checks.check_survivors(scenario, observe(scenario, interpreted=True))
        except Exception as error:
            found.append(f"seed {seed}: {type(error).__name__}: {error}")
            break
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(tmp_path.name.replace("-", "_"))]:
        del sys.modules[name]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_step_left_out_is_noticed(folder, mistake):
    found = convictions(copy(folder, MUTANTS[mistake]))
    print(f"{mistake}: {found}")
    assert found, f"{mistake}: nobody noticed"


def test_a_reference_that_was_not_taken_is_noticed(folder):
    """The suite watches over ``retain`` and ``release`` too."""
    mutant = copy(folder, ("vcube_recovery", "    retain(host, slot)\n", ""))
    found = conformance(mutant, schedules=20, compiled=False, failures_max=1)
    assert "without holding a reference" in found.failures[0]


def test_the_original_passes(folder):
    assert convictions(copy(folder)) == []
