"""Traces of one end of a TCP connection, worked out by hand, each with the rule that it judges.

Messages have 100 bytes, segments at most 536, windows 7504; times are in ms. Judges come in an
order in which each needs only the rules before it, so that a mistake is convicted for its own.
"""

from precedes.contract import machines
from precedes.contract.machines import Environment
from tests.support.convictions import hold
from tests.support.flooding.ends import MS, End, Line


def same(found, due, reason):
    hold(found == due, reason, f"{found}, not {due}")


# Time-outs.


def first_timeout(package):
    """Nothing was measured yet: 3 s."""
    end = End(package)
    end.offer()
    end.wait(2999)
    same(end.pieces(), [(0, 100)], "first time-out")
    end.wait(1)
    same(end.pieces(), [(0, 100)], "first time-out")


def stops(package):
    """Acknowledged data are not repeated."""
    end = End(package)
    end.offer()
    end.acknowledge(100)
    end.wait(10**6)
    same(end.pieces(), [(0, 100)], "timer")


def estimate(package):
    """RTO = mean + 4 deviations, gains 1/8, from 0 and 750 on.

    400: mean 0 + 400/8 = 50, deviation 750 + (400 - 750)/8 = 706.25: 2875.
    400: mean 50 + 350/8 = 93.75, deviation 706.25 + (350 - 706.25)/8 = 661.71875: 2740.625.
    100: mean 93.75 + 6.25/8 = 94.53125, deviation 661.71875 + (6.25 - 661.71875)/8 =
    579.78515625: 2413.671875.
    """
    trips = (400, 400, 100)
    for count, due in ((1, 2875.0), (2, 2740.625), (3, 2413.671875)):
        end = End(package)
        for trip in trips[:count]:
            end.exchange(trip)
        hold(abs(end.timeout_ms() - due) < 1e-3, "estimate", f"after {trips[:count]}")


def maximum(package):
    """2900 makes 4437.5, 4400 then 6451.5625, and 6400 9211.5..; 9 s are the most here."""
    end = End(package, timeout_max_ms=9000.0)
    for trip in (2900, 4400, 6400):
        end.exchange(trip)
    same(end.timeout_ms(), 9000.0, "maximum")


def minimum(package):
    """After many round trips of 10 ms the estimate is far below 1 s, the time-out is not."""
    end = End(package)
    for _ in range(60):
        end.exchange(10)
    same(end.timeout_ms(), 1000.0, "minimum")


def doubling(package):
    """3, 6, .. 192 s, then always 240 s."""
    end = End(package)
    end.offer()
    end.wait(1_200_000)
    due, pause = [0.0], 3000.0
    while due[-1] + pause <= 1_200_000:
        due.append(due[-1] + pause)
        pause = min(2 * pause, 240_000.0)
    same(end.times(), due, "doubling")
    same(due[:4], [0.0, 3000.0, 9000.0, 21_000.0], "doubling")


def begins_again(package):
    """An acknowledgement of some of what flies restarts the time-out."""
    end = End(package)
    end.offer(12)
    end.wait(100)
    end.acknowledge(100)  # [100, 636) and [636, 1172) fly; mean 12.5, deviation 668.75: 2687.5
    end.wait(2000)
    end.acknowledge(636)  # timed: mean 260.9375, deviation 833.59375: 3595.3125
    end.sent = []
    end.wait(3595)
    same(end.pieces(), [], "timer")
    end.wait(1)
    same(end.pieces(), [(636, 536)], "timer")


# Windows. The trace that the next four share: 60 messages, the first segment brings one of them.


def flying(package):
    """Acknowledgements have opened the window to four segments: 1172 to 3316 are in flight."""
    end = End(package)
    end.offer(60)
    same(end.pieces(), [(0, 100)], "slow start")  # one segment; Nagle's rule holds the rest
    for expected, due in (
        (100, [(100, 536), (636, 536)]),
        (636, [(1172, 536), (1708, 536)]),
        (1172, [(2244, 536), (2780, 536)]),
    ):
        end.acknowledge(expected)
        same(end.pieces(), due, "slow start")
    return end


def slow_start(package):
    """Each acknowledgement opens the window by a segment."""
    flying(package)


def fast_retransmit(package):
    """The third duplicate repeats the first segment, and not before; the others nothing."""
    end = flying(package)
    for _ in range(2):
        end.acknowledge(1172)
        same(end.pieces(), [], "fast retransmit")
    end.acknowledge(1172)
    same(end.pieces()[:1], [(1172, 536)], "fast retransmit")
    end.acknowledge(1172)
    hold((1172, 536) not in end.pieces(), "fast retransmit", "twice")


def duplicates_are_bare(package):
    """A segment with data is not a duplicate, and ends a row of them."""
    end = flying(package)
    end.acknowledge(1172)
    end.acknowledge(1172)
    end.hear(0, 100, expected=1172)
    end.pieces()
    end.acknowledge(1172)
    same(end.pieces(), [], "duplicates")


def recovery(package):
    """Half of 2144 and three segments are 2680: one segment; each duplicate lets one more go.

    Progress ends it, with a window of 1072; then 536 * 536 / 1072 = 268 more.
    """
    end = flying(package)
    for _ in range(3):
        end.acknowledge(1172)
    same(end.pieces(), [(1172, 536), (3316, 536)], "recovery")
    end.acknowledge(1172)
    same(end.pieces(), [(3852, 536)], "recovery")
    end.acknowledge(3316)
    same(end.pieces(), [], "recovery")
    same(end.connection.congestion_bytes, 1072, "recovery")
    end.acknowledge(3852)
    same(end.pieces(), [(4388, 536)], "avoidance")
    same(end.connection.congestion_bytes, 1340, "avoidance")


def back_to_one(package):
    """A time-out repeats one segment, and the rest as acknowledgements let it."""
    end = flying(package)
    end.wait(3000)
    same(end.pieces(), [(1172, 536)], "loss window")
    end.acknowledge(1708)
    same(end.pieces(), [(1708, 536), (2244, 536)], "loss window")
    end.acknowledge(3316)  # the others had arrived: 1608, above half of what flew
    same(end.pieces(), [(3316, 536), (3852, 536)], "loss window")


def pause(package):
    """After more than a time-out without data the window is one segment again."""
    end = flying(package)
    end.acknowledge(6000)
    end.acknowledge(end.connection.sent)
    while end.connection.acknowledged < end.connection.offered:
        end.acknowledge(end.connection.sent)
    end.pieces()
    end.wait(10_000)
    end.offer(6)
    same(end.pieces(), [(6000, 100)], "pause")
    end.acknowledge(6100)
    same(end.connection.congestion_bytes, 2 * 536, "pause")


def window(package):
    """However far the congestion window has opened, 7504 bytes are in flight, not one more."""
    end = End(package)
    end.offer(1000)
    most = 0
    for _ in range(60):
        end.acknowledge(min(end.connection.acknowledged + 1072, end.connection.sent))
        fly = end.connection.sent - end.connection.acknowledged
        hold(fly <= 7504, "window", f"{fly} bytes in flight")
        most = max(most, fly)
    same(most, 7504, "window")


# Karn's rule.


def karn_sample(package):
    """Data that fast retransmit has sent twice are not timed: the estimate stays.

    Its first byte, 1172, is what is being timed when it is repeated.
    """
    end = flying(package)
    before = end.connection.trip.timeout_ns
    end.wait(500)
    for _ in range(3):
        end.acknowledge(1172)
    end.wait(500)
    end.acknowledge(1708)
    same(end.connection.trip.timeout_ns, before, "sample")


def karn_back_off(package):
    """Progress by a repeated segment keeps the doubled time-out; the next sample ends it."""
    end = End(package)
    end.offer()
    end.wait(3100)
    end.acknowledge(100)
    end.pieces()
    end.offer()
    end.wait(5999)
    same(end.pieces(), [(100, 100)], "back-off")
    end.acknowledge(200)  # 5999: mean 749.875, deviation 750 + 5249/8 = 1406.125
    hold(abs(end.timeout_ms() - 6374.375) < 1e-3, "back-off", "a sample does not end it")


def karn_after_timeout(package):
    """Data that acknowledgements trigger again after a time-out are not timed either."""
    end = flying(package)
    end.wait(3000)
    end.acknowledge(1708)
    timeout_ns = end.connection.trip.timeout_ns
    end.wait(10)
    end.acknowledge(2244)
    same(end.connection.trip.timeout_ns, timeout_ns, "sample")


# Nagle's rule.


def nagle(package):
    """Short segments wait while something is in flight; a full one goes, with all there is."""
    end = End(package)
    end.connection.congestion_bytes = 7504
    end.offer(6)
    same(end.pieces(), [(0, 100)], "Nagle")
    end.offer(1)
    same(end.pieces(), [(100, 536), (636, 64)], "Nagle")
    end.offer(2)
    same(end.pieces(), [], "Nagle")
    end.acknowledge(100)
    same(end.pieces(), [(700, 200)], "Nagle")


def nagle_off(package):
    """Everything goes at once."""
    end = End(package, nagle=False)
    end.connection.congestion_bytes = 7504
    end.offer(3)
    same(end.pieces(), [(0, 100), (100, 100), (200, 100)], "Nagle")


# Acknowledgements.


def delayed(package):
    """0.2 s after the first segment that has none, once for all that came meanwhile."""
    end = End(package)
    end.hear(0, 100)
    end.wait(150)
    end.hear(100, 100)
    same(end.sent, [], "delayed")
    end.wait(49)
    same(end.sent, [], "delayed")
    end.wait(1)
    same(end.sent, [(200.0, 0, 0, 200)], "delayed")
    end.wait(1000)
    same(len(end.sent), 1, "delayed")


def carried(package):
    """Data carry it, and then it is not sent by itself."""
    end = End(package)
    end.hear(0, 100)
    end.wait(100)
    end.offer()
    same(end.sent, [(100.0, 0, 100, 100)], "carried")
    end.wait(150)
    end.hear(100, 100, expected=100)
    end.wait(199)
    same(len(end.sent), 1, "carried")
    end.wait(1)
    same(end.sent[1:], [(450.0, 100, 0, 200)], "carried")


def second_full_segment(package):
    """Every second full segment is acknowledged at once."""
    end = End(package)
    end.hear(0, 536)
    same(end.sent, [], "every second")
    end.hear(536, 536)
    same(end.sent, [(0.0, 0, 0, 1072)], "every second")
    end.hear(1072, 536)
    same(len(end.sent), 1, "every second")


def at_once(package):
    """Out of order, filling a gap, or known: such segments are acknowledged at once."""
    end = End(package)
    end.hear(100, 100)
    same(end.sent, [(0.0, 0, 0, 0)], "out of order")
    end.hear(0, 100)
    same(end.sent[1:], [(0.0, 0, 0, 200)], "gap")
    end.hear(0, 100)
    same(end.sent[2:], [(0.0, 0, 0, 200)], "known")


# Streams.


def overlap(package):
    """A segment that begins with what is known and goes on brings the rest, once."""
    end = End(package)
    end.hear(0, 100)
    end.hear(50, 300)
    same([found.name for found in end.delivered], [(1, 0), (1, 1), (1, 2)], "order")
    hold(not end.connection.received.held, "held", "a message is kept for nobody")


def gaps(package):
    """Data between two gaps do not extend over the gaps."""
    end = End(package)
    end.hear(200, 100)
    end.hear(400, 100)
    end.hear(0, 200)
    same([found.name[1] for found in end.delivered], [0, 1, 2], "order")
    end.hear(300, 100)
    same([found.name[1] for found in end.delivered], [0, 1, 2, 3, 4], "order")


def stream(package):
    """On a line that loses, doubles and mixes up, what is offered arrives once and in order."""
    for seed in range(6):
        line = Line(seed, package, loss=0.2, duplication=0.2, late_ms=400.0)
        for number in range(60):
            line.offer(number % 2, at_ms=number * 40.0 if seed % 2 else 0.0)
        line.run()


# Connections.


def numbered(environment):
    """Requests and answers among the effects since the last call, by their attempts."""
    effects, environment.effects = environment.effects, []
    sent = [effect[1] for effect in effects if effect[0] == machines.RADIO]
    timers = [effect[1:] for effect in effects if effect[0] == machines.TIMER]
    return [datagram.attempt for datagram in sent if hasattr(datagram, "attempt")], timers


def repeated(machine, environment, until_s, reason):
    """Times of the attempts, in seconds, without any answer."""
    times = []
    while environment.now_ns <= until_s * 1000 * MS:
        numbers, timers = numbered(environment)
        times += [(environment.now_ns // (1000 * MS), number) for number in numbers]
        hold(len(timers) == 1, reason, f"{len(timers)} timers after {times}")
        environment.now_ns += timers[0][0]
        machine.on_timer(timers[0][1])
    environment.effects = []
    return times


def connecting(package):
    """SYN at 0, 3, 9, 21 and 45 s; at 75 s that has failed, and the second attempt begins."""
    environment = Environment(lambda: 0.0)
    host = package.make_host(0, package.Parameters(jitter=0.0), environment, None)
    host.move(2)
    host.join()
    due = [(0, 1), (3, 1), (9, 1), (21, 1), (45, 1), (75, 2), (78, 2), (84, 2), (96, 2)]
    same(repeated(host, environment, 100, "connect"), due, "connect")
    host.receive(package.machines.Opened(2, 0, 1, 0))
    hold(host.connection is None, "attempt", "an answer to what had failed is taken")
    host.receive(package.machines.Opened(2, 0, 2, 7))
    hold((machines.JOINED, 0, 2, 7) in environment.effects, "connect", "the answer is not taken")
    sent = [effect[1] for effect in environment.effects if effect[0] == machines.RADIO]
    same([(one.size, one.expected) for one in sent], [(0, 0)], "connect")


def answering(package):
    """A station repeats its answer after 3, 6 and 12 s, until it hears of the host."""
    environment = Environment(lambda: 0.0)
    station = package.make_station(2, (), (), package.Parameters(jitter=0.0), environment)
    station.receive(package.machines.Open(2, 5, 1))
    same(repeated(station, environment, 10, "answer"), [(0, 1), (3, 1), (9, 1)], "answer")
    station.receive(package.reno.Segment(2, 5, 0, 0, (), 0))
    station.on_timer((package.machines.CONNECT, 1, 5))
    same(numbered(environment), ([], []), "answer")


def asked_again(package):
    """A host that starts again gets what is flooded from then on; its old request is void."""
    environment = Environment(lambda: 0.0)
    station = package.make_station(2, (), (), package.Parameters(jitter=0.0), environment)
    station.receive(package.machines.Open(2, 5, 1))
    station.receive_wired(1, machines.Flood(machines.Message((9, 0), b"")))
    environment.effects = []
    station.receive(package.machines.Open(2, 5, 2))
    opened = [effect[1] for effect in environment.effects if effect[0] == machines.RADIO]
    same([(one.attempt, one.start) for one in opened], [(2, 1)], "attempt")
    same(station.stored_count(), 0, "attempt")
    environment.effects = []
    station.receive(package.machines.Open(2, 5, 1))
    same(numbered(environment)[0], [], "attempt")


JUDGES = (
    *(first_timeout, stops, estimate, minimum, maximum, begins_again, doubling),
    *(nagle, nagle_off, slow_start, fast_retransmit, duplicates_are_bare, recovery, back_to_one),
    *(pause, window, karn_sample, karn_after_timeout, karn_back_off),
    *(delayed, carried, second_full_segment, at_once, overlap, gaps, stream, connecting, answering),
    asked_again,
)
