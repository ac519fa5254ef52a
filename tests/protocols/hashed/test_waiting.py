"""Messages that wait in `hashed` and `dcs`: after an own broadcast, and when a duplicate comes.

m precedes m', and nodes 2 and 3 increment the same entries of the clock as the source of m.
"""

import pytest

from tests.support.transcripts import Processes

ONE_COMPONENT = {"component_entries": 3, "components_max": 1, "spread": 1, "per_component": 2}
SETTINGS = {
    "hashed": {"entries": 3},
    "hashed, literal": {"entries": 3, "search": "literal"},
    "dcs, hash": ONE_COMPONENT | {"detector": "hash"},
    "dcs": ONE_COMPONENT,
}
DETECTING = [setting for setting in SETTINGS if setting != "dcs"]


def group(setting):
    """Node 1 has delivered m and broadcast m'."""
    tags = ("REQUEST", "ANNOUNCE", "DEPENDENCY")
    made = Processes(setting.partition(",")[0], 4, tags=tags, **SETTINGS[setting])
    made.state.own[:] = [[0, 1], [0, 2], [0, 1], [0, 1]]
    made.broadcast(0, "m")
    made.receive(1, 0)
    made.broadcast(1, "m'")
    return made


def effects(made, action, *arguments):
    """The requests of a node in one step."""
    before = len(made.lines)
    action(*arguments)
    return [line.strip() for line in made.lines[before + 1 :]]


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_waits_is_examined_after_an_own_broadcast(setting):
    """The broadcast completes the clock of m'; the hash shows that m is missing."""
    made = group(setting)
    assert effects(made, made.receive, 2, 1) == []
    then = "deliver m'" if setting == "dcs" else "timer in 100 ms"
    assert effects(made, made.broadcast, 2, "n") == ["send all: n", then]
    delivered = ["deliver m"] if setting == "dcs" else ["deliver m", "deliver m'"]
    assert effects(made, made.receive, 2, 0) == delivered


@pytest.mark.parametrize("setting", DETECTING)
@pytest.mark.parametrize("stage", ["clock", "suspect", "asked", "answered"])
def test_a_duplicate_of_what_waits_is_dropped(setting, stage):
    """And the sender is asked once."""
    made = group(setting)
    made.packets[1, 2] *= 2
    if stage != "clock":
        made.broadcast(3, "n")
        assert effects(made, made.receive, 2, 3) == ["deliver n"]
    suspected = [] if stage == "clock" else ["timer in 100 ms"]
    assert effects(made, made.receive, 2, 1) == suspected
    if stage in ("asked", "answered"):
        assert effects(made, made.expire, 2) == ["send 1: REQUEST 1"]
    if stage == "answered":
        made.receive(1, 2)
        made.packets[1, 2].rotate()
        assert effects(made, made.receive, 2, 1) == []
    assert effects(made, made.receive, 2, 1) == ["drop m'"]
    if stage == "suspect":
        assert effects(made, made.expire, 2) == ["send 1: REQUEST 1"]
    assert not made.timers[2]
    assert effects(made, made.receive, 2, 0) == ["deliver m", "deliver m'"]
