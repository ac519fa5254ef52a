"""Send queues: which of two simultaneous events comes first, and the second channel."""

import pytest

from precedes.model import EventKind
from precedes.sim.engine.rows import KIND, NODE, TIME_NS
from tests.support import edited, traces

pytestmark = pytest.mark.usefixtures("engine")

# Packets from a send queue arrive at odd nanoseconds, after timers of the same time.
ODD_MS = 1.5e-6


def test_timers_come_before_packets_that_were_queued(tmp_path):
    """A timer that ends when a packet sent before it was set arrives: with a queue it is first."""
    timed = edited.protocol(
        tmp_path,
        "unordered",
        (BROADCAST, "host.send_all(...)", "host.send_all(...); host.set_timer(slot, 12_000_000)"),
        ("", "", ON_TIMER),
    )
    both = {"nodes": 2, "workload": "window:0", "tier": "interpreted"}
    plain = traces.run(timed, delay="constant:12", **both)
    queued = traces.run(timed, delay="constant:10", transmission_ms=2.0, **both)
    for seen, first in ((plain, EventKind.DELIVER), (queued, EventKind.COMPLETE)):
        rows = seen.rows[(seen.rows[:, NODE] == 1) & (seen.rows[:, TIME_NS] > 0)]
        assert rows[0, KIND] == first
        assert (rows[:, TIME_NS] // 2 * 2 == 12_000_000).all()


BROADCAST = "broadcast(state, here, slot, host)"
ON_TIMER = """
@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    host.note(6, here)
"""


def test_the_second_channel_has_a_queue_of_its_own(tmp_path):
    """Three broadcasts at once, the second one aside: it waits for nobody, nobody waits for it."""
    aside = edited.protocol(
        tmp_path,
        "unordered",
        (BROADCAST, "host.send_all(...)", SEND_SECOND_ASIDE),
    )
    one = {"nodes": 2, "workload": "burst:1:3", "delay": "constant:30", "tier": "interpreted"}
    seen = traces.run(aside, transmission_ms=2.0, **one)
    assert traces.delays_ms(seen).tolist() == pytest.approx([32.0, 32.0, 34.0], abs=ODD_MS)
    assert traces.delays_ms(traces.run(aside, **one)).tolist() == [30.0, 30.0, 30.0]
    queued = {"transmission_ms": 2.0, **one}
    assert traces.delays_ms(traces.run(**queued)).tolist() == pytest.approx(
        [32.0, 34.0, 36.0], abs=ODD_MS
    )


SEND_SECOND_ASIDE = """
if host.sequence_of(slot) == 2:
    host.open_packet_aside(1 - here)
    host.put(DATA, slot)
else:
    host.send_all(...)
"""
