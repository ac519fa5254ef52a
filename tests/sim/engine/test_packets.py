"""Packets in flight and packets that are long: each makes room for itself alone."""

from precedes.sim import Scenario
from precedes.sim.run import Run
from precedes.testing import Collector
from tests.support.places import BATCHES

LONG = Scenario(
    protocol=BATCHES,
    nodes=2,
    messages=400,
    rate=100_000.0,
    parameters={"collect_us": 3_000},
)


def rows_of(scenario):
    collector = Collector()
    run = Run(scenario, writer=collector, packets=True)
    run.go(tier="interpreted")
    return run, collector.rows()


def test_a_packet_longer_than_a_chunk_of_the_trace(monkeypatch):
    run, expected = rows_of(LONG)
    assert run.state.count[:, 6].max() > 64, "longer than what there was room for"
    monkeypatch.setattr("precedes.sim.run.CHUNK_ROWS", 200)
    _, rows = rows_of(LONG)
    assert (rows == expected).all()


def test_many_packets_in_flight_are_no_long_packet():
    """What is taken in at once would otherwise outgrow the trace, which then fills for ever."""
    run = Run(LONG, writer=Collector())
    before = run.world.inbox.size
    for _ in range(6):
        run._grow_packets()
    assert run.world.inbox.size == before
    assert len(run.world.packets.packet) > 10_000
