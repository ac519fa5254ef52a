"""Crashes, pauses and cut links: what happens, what does not, and what happens later."""

import numpy as np
import pytest

from precedes.model import EventKind
from precedes.registry import linked
from precedes.sim import Fault, Scenario
from precedes.sim.engine import layout
from precedes.sim.engine.packets import COPIES
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE, TIME_NS
from precedes.sim.run import Run
from precedes.testing import Collector
from tests.support import traces
from tests.support.places import BATCHES

pytestmark = pytest.mark.usefixtures("engine")

GROUP = {"nodes": 5, "messages": 600, "rate": 200.0, "delay": "uniform:5:60", "seed": 9}
SECOND = 10**9


@pytest.mark.parametrize("protocol", linked())
def test_nothing_after_a_crash(protocol):
    seen = traces.run(protocol, faults=(Fault("crash", node=2, at_s=1.0),), **GROUP)
    rows = seen.rows[seen.rows[:, NODE] == 2]
    assert rows[-1, KIND] == EventKind.CRASH
    assert rows[-1, TIME_NS] == SECOND
    assert (rows[:, KIND] == EventKind.CRASH).sum() == 1
    assert len(rows) > 50, "it had done something before"
    later = seen.rows[(seen.rows[:, TIME_NS] > 1.5 * SECOND)]
    assert set(later[:, NODE].tolist()) == {0, 1, 3, 4}
    assert seen.result.broadcasts < 600, "its own broadcasts are not made by others"
    assert seen.result.lost == 0, "what is due to correct nodes from correct nodes"
    assert seen.result.complete


def test_packets_of_a_crashed_node_are_still_on_their_way():
    seen = traces.run("vector", faults=(Fault("crash", node=2, at_s=1.0),), **GROUP)
    sent = seen.of(EventKind.BROADCAST, 2)
    for node in (0, 1, 3, 4):
        rows = seen.of(EventKind.DELIVER, node)
        delivered = rows[rows[:, SOURCE] == 2]
        assert len(delivered) == len(sent)
        assert delivered[-1, TIME_NS] > sent[-1, TIME_NS]


@pytest.mark.parametrize("after_sends", [1, 3, 4, 5, 11])
def test_a_crash_in_the_middle_of_a_broadcast(after_sends):
    """The first packets leave, the rest of the broadcast never does."""
    seen = traces.run(faults=(Fault("crash", node=1, after_sends=after_sends),), **GROUP)
    sent = seen.of(EventKind.BROADCAST, 1)
    assert len(sent) == -(-after_sends // 4), "the last one in part"
    deliveries = seen.of(EventKind.DELIVER)
    assert (deliveries[:, SOURCE] == 1).sum() == after_sends
    rows = seen.rows[seen.rows[:, NODE] == 1]
    assert rows[-1, KIND] == EventKind.CRASH
    # Targets are served in turn, beginning after the sender.
    last = deliveries[(deliveries[:, SOURCE] == 1) & (deliveries[:, SEQUENCE] == len(sent))]
    expected = [(1 + i) % 5 for i in range(1, (after_sends - 1) % 4 + 2)]
    assert sorted(last[:, NODE].tolist()) == sorted(expected)


def test_a_half_sent_message_stops_those_who_wait_for_it():
    """With vector clocks alone, messages that depend on a crashed source wait forever."""
    faults = (Fault("crash", node=1, after_sends=2),)
    seen = traces.run("vector", faults=faults, **GROUP)
    assert seen.result.lost > 0
    assert seen.result.pending_at_end > 0
    assert seen.report.violations == 0


def run_batches(**fields):
    collector = Collector()
    run = Run(Scenario(protocol=BATCHES, **GROUP, **fields), writer=collector)
    return run, run.go(tier="interpreted"), collector.rows()


def test_the_failure_detector_speaks_to_every_other_node():
    fault = Fault("crash", node=3, at_s=1.0, detection_ms=(200.0, 400.0))
    run, result, _ = run_batches(faults=(fault,))
    learned = run.state.learned_ns[:, 3]
    assert learned[3] == -1, "the dead hear nothing"
    delays_ms = (np.delete(learned, 3) - SECOND) / 1e6
    assert ((delays_ms >= 200) & (delays_ms <= 400)).all()
    assert len(set(delays_ms.tolist())) == 4, "each in its own time"
    drawn = result.scenario["drawn"]["detection_ms"][3]
    assert delays_ms.tolist() == pytest.approx([drawn[i] for i in (0, 1, 2, 4)], abs=1e-5)
    others = np.delete(run.state.learned_ns, 3, axis=1)
    assert (others == -1).all(), "nobody else is suspected"
    assert result.extra["started"] == 5


def test_the_detector_speaks_after_a_crash_by_packets_too():
    fault = Fault("crash", node=3, after_sends=5, detection_ms=(10.0, 10.0))
    run, _, rows = run_batches(faults=(fault,))
    crash = rows[rows[:, KIND] == EventKind.CRASH]
    assert len(crash) == 1
    assert (np.delete(run.state.learned_ns[:, 3], 3) == crash[0, TIME_NS] + 10 * 10**6).all()


def test_no_timer_rings_at_a_crashed_node():
    """Broadcasts that it was still collecting are never sent."""
    run, result, rows = run_batches(
        faults=(Fault("crash", node=3, at_s=1.0),), parameters={"collect_us": 200_000}
    )
    noted = rows[(rows[:, KIND] == EventKind.COMPLETE) & (rows[:, NODE] == 3)]
    made = rows[(rows[:, KIND] == EventKind.BROADCAST) & (rows[:, NODE] == 3)]
    assert len(noted) < len(made)
    assert run.crashed() == [3]
    assert result.complete


@pytest.mark.parametrize("protocol", linked())
def test_a_pause_puts_off_everything(protocol):
    fault = Fault("pause", node=2, at_s=1.0, for_s=0.7)
    seen = traces.run(protocol, faults=(fault,), **GROUP)
    free = traces.run(protocol, **GROUP)
    rows = seen.rows[seen.rows[:, NODE] == 2]
    during = (rows[:, TIME_NS] > SECOND) & (rows[:, TIME_NS] < 1.7 * SECOND)
    assert not during.any()
    assert (rows[:, TIME_NS] == 1.7 * SECOND).sum() > 50, "all of it at once, at the end"
    assert seen.result.broadcasts == free.result.broadcasts == 600
    assert seen.result.lost == 0
    assert seen.result.complete
    others = seen.of(EventKind.BROADCAST)
    others = others[others[:, NODE] != 2]
    expected = free.of(EventKind.BROADCAST)
    assert (others == expected[expected[:, NODE] != 2]).all(), "nobody else waits"


def test_a_pause_keeps_the_order_of_a_link():
    fault = Fault("pause", node=2, at_s=1.0, for_s=0.7)
    seen = traces.run(fifo=True, faults=(fault,), **GROUP)
    rows = seen.of(EventKind.DELIVER, 2)
    for source in (0, 1, 3, 4):
        assert (np.diff(rows[rows[:, SOURCE] == source, SEQUENCE]) > 0).all()


def test_pauses_add_up_and_a_crash_ends_them():
    faults = (
        Fault("pause", node=2, at_s=1.0, for_s=0.5),
        Fault("pause", node=2, at_s=1.2, for_s=0.6),
        Fault("pause", node=2, at_s=1.3, for_s=0.1),
    )
    seen = traces.run(faults=faults, **GROUP)
    rows = seen.rows[seen.rows[:, NODE] == 2]
    during = (rows[:, TIME_NS] > SECOND) & (rows[:, TIME_NS] < 1.8 * SECOND)
    assert not during.any()
    assert seen.result.lost == 0
    seen = traces.run(faults=(*faults, Fault("crash", node=2, at_s=1.4)), **GROUP)
    rows = seen.rows[seen.rows[:, NODE] == 2]
    assert rows[-1, [TIME_NS, KIND]].tolist() == [1.4 * SECOND, EventKind.CRASH]


def crossing(seen, source, target):
    """Times on the way of the packets of one link, by the time of the broadcast, in seconds."""
    found = [t for t in traces.travels(seen) if t[0] == source and t[1] == target]
    return np.array([[born / SECOND, ns / SECOND] for _, _, _, born, ns in found])


@pytest.mark.parametrize("both_ways", [True, False])
def test_a_cut_loses_what_is_sent_during_it(both_ways):
    cut = Fault("cut", nodes=(0,), others=(1, 2), at_s=1.0, for_s=0.5, both_ways=both_ways)
    seen = traces.run(faults=(cut,), **GROUP)
    free = traces.run(**GROUP)

    def lost(source, target):
        born = set(crossing(free, source, target)[:, 0]) - set(crossing(seen, source, target)[:, 0])
        assert all(1.0 < time < 1.5 for time in born)
        expected = crossing(free, source, target)[:, 0]
        inside = ((expected > 1.0) & (expected < 1.5)).sum()
        assert len(born) in (0, inside)
        return len(born) > 0

    assert lost(0, 1)
    assert lost(0, 2)
    assert lost(1, 0) == lost(2, 0) == both_ways
    assert not any(lost(a, b) for a, b in ((1, 2), (2, 1), (0, 3), (3, 0), (4, 1)))
    assert seen.result.lost == seen.result.extra["packets_lost"] > 0


def test_a_cut_that_holds_delivers_afterwards():
    cut = Fault("cut", nodes=(0,), others=(1, 2), at_s=1.0, for_s=0.5, holds=True)
    seen = traces.run(faults=(cut,), **GROUP)
    assert seen.result.lost == 0
    assert seen.result.extra["packets_lost"] == 0
    times = crossing(seen, 0, 1)
    inside = (times[:, 0] > 1.0) & (times[:, 0] < 1.5)
    assert inside.sum() > 5
    arrived = times[inside].sum(axis=1)
    assert (arrived >= 1.505).all(), "the shortest delay after the end of the cut"
    assert (arrived <= 1.561).all()
    assert times[~inside, 1].max() <= 0.0601
    assert crossing(seen, 0, 3)[:, 1].max() <= 0.0601


def test_packets_already_under_way_cross_a_cut():
    cut = Fault("cut", nodes=(0,), others=(1,), at_s=1.0, for_s=5.0)
    seen = traces.run(faults=(cut,), **{**GROUP, "delay": "constant:300"})
    times = crossing(seen, 0, 1)
    assert times[:, 0].max() < 1.0
    assert times.sum(axis=1).max() > 1.2


@pytest.mark.parametrize("packets", [False, True])
@pytest.mark.parametrize("protocol", ["unordered", BATCHES])
def test_references_end_whatever_goes_wrong(protocol, packets):
    """After a run that quiesced no slot and no packet is in use.

    But for what a crashed node had not sent yet: that slot is never used again.
    """
    faults = (Fault("pause", node=0, at_s=0.2, for_s=0.3), Fault("crash", node=4, at_s=0.5))
    scenario = Scenario(
        protocol=protocol, **GROUP, faults=faults, loss=0.1, duplication=0.2, mtu_bytes=150
    )
    run = Run(scenario, writer=Collector(), packets=packets)
    assert run.go(tier="interpreted").complete
    unsent = 0 if protocol == "unordered" else run.state.count[4, -1]
    references = run.world.message[:, layout.REFERENCES]
    assert references.min() == 0
    assert references.sum() == unsent
    assert (run.world.packets.packet[:, COPIES] == 0).all()


def cut(at_s, for_s, *, holds=False):
    return Fault("cut", nodes=(0,), others=(1,), at_s=at_s, for_s=for_s, holds=holds)


def lost_times(seen, free):
    """Times of lost packets from 0 to 1, in seconds."""
    return sorted(set(crossing(free, 0, 1)[:, 0]) - set(crossing(seen, 0, 1)[:, 0]))


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((cut(0.5, 1.5), cut(1.0, 0.2)), id="a shorter one within a longer"),
        pytest.param((cut(1.0, 0.2), cut(0.5, 1.5)), id="named the other way round"),
        pytest.param((cut(0.5, 0.7), cut(1.0, 1.0)), id="one after the other began"),
        pytest.param((cut(0.5, 1.5), cut(1.0, 0.2, holds=True)), id="one that holds within"),
        pytest.param((cut(0.5, 0.7), cut(0.5, 1.5)), id="the same beginning"),
    ],
)
def test_cuts_of_one_link_may_overlap(faults):
    seen = traces.run("unordered", faults=faults, **GROUP)
    free = traces.run("unordered", **GROUP)
    expected = [t for t in crossing(free, 0, 1)[:, 0] if 0.5 <= t < 2.0]
    assert lost_times(seen, free) == sorted(expected)
    assert len(expected) > 20


def test_a_cut_that_loses_within_one_that_holds():
    faults = (cut(0.5, 1.5, holds=True), cut(1.0, 0.2), cut(1.8, 0.7, holds=True))
    seen = traces.run("unordered", faults=faults, **GROUP)
    free = traces.run("unordered", **GROUP)
    sent = crossing(free, 0, 1)[:, 0]
    assert lost_times(seen, free) == sorted(t for t in sent if 1.0 <= t < 1.2)
    times = crossing(seen, 0, 1)
    waited = times[(times[:, 0] > 0.5) & (times[:, 0] < 2.5)].sum(axis=1)
    assert len(waited) > 20
    assert (waited >= 2.5).all(), "for the end of the last cut of those that overlap"
