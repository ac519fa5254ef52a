"""TCP-Flooding: the connection on a bad line, and whole runs."""

import random

import pytest

from precedes.contract.machines import Message
from precedes.errors import UserError
from precedes.protocols.flooding.reno import Connection, RenoSettings
from precedes.sim import Scenario, simulate

SETTINGS = RenoSettings(
    segment=5,
    window=46,
    timeout_ns=200,
    timeout_max_ns=100_000,
    delayed_ack_ns=200,
    nagle=True,
    jitter=0.0,
)


class Line:
    """Two ends of a connection, and a line that loses and mixes up segments."""

    def __init__(self, seed, loss):
        self.rng = random.Random(seed)
        self.loss = loss
        self.now_ns = 0
        self.events = []
        self.segments = 0
        self.got = [[], []]
        self.ends = [self._end(0), self._end(1)]

    def _end(self, which):
        def send(segment):
            self.segments += 1
            if self.rng.random() >= self.loss:
                self._later(self.rng.randint(5, 30), lambda: self.ends[1 - which].receive(segment))

        def timer(delay_ns, kind, number):
            self._later(delay_ns, lambda: self.ends[which].on_timer(kind, number))

        end = Connection(0, 0, SETTINGS, send=send, timer=timer, deliver=self.got[which].append)
        end.ready = True
        return end

    def _later(self, delay_ns, task):
        self.events.append((self.now_ns + delay_ns, len(self.events), task))

    def run(self):
        while self.events:
            self.events.sort(key=lambda event: event[:2])
            self.now_ns, _, task = self.events.pop(0)
            task()
            assert self.segments < 20_000


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.4])
def test_everything_arrives_once_and_in_order(loss):
    line = Line(7, loss)
    sent = [[], []]
    for number in range(120):
        for which in (0, 1):
            message = Message((which, number), b"")
            sent[which].append(message)
            line.ends[which].offer(message)
    line.run()
    assert line.got == [sent[1], sent[0]]
    assert not line.ends[0].waiting
    assert not line.ends[1].early


def test_no_more_is_in_flight_than_the_window():
    line = Line(1, 0.0)
    for number in range(200):
        line.ends[0].offer(Message((0, number), b""))
        assert line.ends[0].sent - line.ends[0].unacknowledged <= SETTINGS.window
    line.run()
    assert len(line.got[1]) == 200


def test_losses_slow_it_down():
    """Timeouts double and the window shrinks: ten times the losses, many times the time."""
    durations = []
    for loss in (0.0, 0.3):
        line = Line(3, loss)
        for number in range(100):
            line.ends[0].offer(Message((0, number), b""))
        line.run()
        durations.append(line.now_ns)
    assert durations[1] > 5 * durations[0]


def test_a_run_delivers_everything_in_causal_order():
    result = simulate(Scenario(protocol="flooding", nodes=30, rate=5.0, duration_s=15.0))
    assert result.complete
    assert result.lost == result.duplicates == result.violations.deliveries == 0
    assert result.deliveries > 28 * result.broadcasts  # but for those before a connection
    assert result.extra["messages_per_delivery"] > 1.0


def test_hosts_that_move_are_refused():
    scenario = Scenario(protocol="flooding", nodes=3, messages=1)
    with pytest.raises(UserError, match="hosts that stay"):
        simulate(scenario.replace(parameters={"mobility": "waypoint"}))
    with pytest.raises(UserError, match="no recovery"):
        simulate(scenario.replace(parameters={"fault_station": 1}))
