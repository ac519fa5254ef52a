"""Changes of the view in a group of real processes, and the audit of them."""

import pytest

from precedes.live.cluster.run import Cluster, run
from precedes.live.driver import Driver
from precedes.live.epoch import Epoch

pytestmark = pytest.mark.usefixtures("live")

KILLED_EARLY = 35  # a seed that draws one kill, at once
SETTINGS = {"members": 4, "seconds": 1.5, "rate": 300.0, "evict_after_s": 1.0}


@pytest.mark.parametrize("loses", [False, True])
def test_a_change_that_loses_a_message_is_convicted(tmp_path, monkeypatch, loses):
    """One member gets the messages of the killed one with the change, or all but the first."""
    cluster = Cluster(**SETTINGS, faults=KILLED_EARLY)
    (kill,) = cluster.schedule()
    (killed,) = kill.members
    deaf = (killed + 1) % 4
    on_bodies, flushed = Driver.on_bodies, Epoch.flushed

    def hear(driver, peer, bodies):
        if (driver.member, peer) == (deaf, killed):
            bodies = [(epoch, body) for epoch, body in bodies if epoch == 0]
        on_bodies(driver, peer, bodies)

    # The processes are forked from this one.
    monkeypatch.setattr(Driver, "on_bodies", hear)
    monkeypatch.setattr(
        Epoch, "flushed", lambda epoch, messages, now: flushed(epoch, messages[loses:], now)
    )
    found = run(cluster, directory=tmp_path)
    print(found["ended"], found["view_findings"])
    if not loses:
        assert (found["verdict"], found["view_findings"]) == ("held", [])
        return
    assert found["verdict"] == "violated"
    start = f"member {deaf} installed view 2 without message {killed}:1, which counts"
    assert any(text.startswith(start) for text in found["view_findings"])
