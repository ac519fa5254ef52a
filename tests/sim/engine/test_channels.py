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
        (BROADCAST, "send_all(...)", "send_all(...); set_timer(host, slot, 12_000_000)"),
        ("", "", ON_TIMER),
    )
    both = {"nodes": 2, "workload": "window:0", "tier": "interpreted"}
    plain = traces.run(timed, delay="constant:12", **both)
    queued = traces.run(timed, delay="constant:10", transmission_ms=2.0, **both)
    for seen, first in ((plain, EventKind.DELIVER), (queued, EventKind.COMPLETE)):
        rows = seen.rows[(seen.rows[:, NODE] == 1) & (seen.rows[:, TIME_NS] > 0)]
        assert rows[0, KIND] == first
        assert (rows[:, TIME_NS] // 2 * 2 == 12_000_000).all()


BROADCAST = "_broadcast(state, here, slot, host)"
ON_TIMER = """
from precedes.contract import note, on_timer, set_timer
@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    note(host, 6, here)
    return DONE
"""


def test_the_second_channel_has_a_queue_of_its_own(tmp_path):
    """Three broadcasts at once, the second one aside: it waits for nobody, nobody waits for it."""
    aside = edited.protocol(
        tmp_path,
        "unordered",
        (BROADCAST, "send_all(...)", SEND_SECOND_ASIDE),
        ("", "", "from precedes.contract import open_packet_aside, put, sequence_of"),
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
if sequence_of(host, slot) == 2:
    open_packet_aside(host, 1 - here)
    put(host, DATA, slot)
else:
    send_all(...)
"""
