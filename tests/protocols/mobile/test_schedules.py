"""The schedules that break weaker versions of ``mobile``, one by one, each with its mutant.

Every schedule is played twice: by the package's machines, which must come through, and by machines
with the defect that it was found with, which must be convicted.
"""

import pytest

from precedes.protocols.mobile import cell, messages
from precedes.protocols.mobile.host import ACK, CONNECT
from tests.support.mobile.mutants import MUTANTS, classes
from tests.support.mobile.oracle import Violation
from tests.support.mobile.stage import Stage


def stage_of(at=(0, 0, 0), **options):
    """Hosts that have joined at these stations, in a quiet network; None: not yet."""
    stage = Stage(hosts=len(at), **options)
    for host, station in enumerate(at):
        if station is not None:
            stage.attach(host, station)
    return stage


def ask(stage, host, station):
    """Move, and have the new station hear of it."""
    stage.move(host, station)
    stage.pass_on(messages.Init)


def hand_over(stage, host, station):
    """Move and complete the handoff, up to the answer in the air."""
    ask(stage, host, station)
    stage.pump()


def schedule_a(**options):
    """An acknowledgement of own messages after deliveries leaves the position alone."""
    stage = stage_of((0, 0), **options)
    stage.broadcast(1, 3)
    stage.pass_all(messages.FromHost, messages.FromStation)
    stage.broadcast(0)
    stage.pass_all(messages.FromHost)
    stage.lose(messages.FromStation)
    stage.fire(~0, cell.ACK)
    stage.pass_all(messages.StationAck)
    return stage


def schedule_b(**options):
    """What was received out of order at one station means nothing at the next."""
    stage = stage_of((0, 0, 1), **options)
    first, second = stage.broadcast(1), stage.broadcast(2)
    stage.pass_all(messages.FromHost)  # both stations stamp their own host's message first
    stage.pump()
    kept = [row for row in stage.air if row[0] == 0 and row[1].message.name == second]
    stage.lose()
    stage.hand(kept[0])
    assert list(stage.hosts[0].early) == [1]
    hand_over(stage, 0, 1)
    assert stage.stations[1].cell.stored[1].name == first
    stage.pass_on(messages.InitAck)
    stage.fire(~1, cell.REPEAT)
    lowest = [row for row in stage.air if row[0] == 0 and getattr(row[1], "stamp", None) == 0]
    stage.hand(lowest[0])
    return stage


def schedule_c(**options):
    """A message reaches the old station after the grant and the new one before it."""
    stage = stage_of((0, 1), **options)
    ask(stage, 0, 1)
    stage.broadcast(1)
    stage.wire(1, 0)  # the request alone
    stage.pass_on(messages.FromHost)  # stamped at 1, behind the request on the wire
    stage.wire(0, 1, 2)  # cancel, grant
    assert stage.stations[1].cell.records[0].mark == 1
    stage.wire(1, 0)  # the message
    assert stage.stations[0].cell.next_stamp == 1
    return stage


def schedule_d(**options):
    """A message is heard at the new station before it is known to be delivered."""
    stage = stage_of((0, 0, 1), **options)
    stage.broadcast(1)
    stage.broadcast(2)
    stage.pass_all(messages.FromHost)  # both stations stamp their own host's message first
    stage.pass_on(messages.FromStation, to=0)
    stage.pump()
    stage.lose()
    assert stage.delivered[0] == [(1, 0)]
    stage.move(0, 1)
    stage.fire(~1, cell.REPEAT)
    stage.hand(next(row for row in stage.air if getattr(row[1], "stamp", None) == 1))
    assert stage.hosts[0].early[1].name == (1, 0)
    stage.pass_on(messages.Init)
    stage.pump()
    return stage


def schedule_e(**options):
    """An own message reaches the old station after it has granted the record."""
    stage = stage_of((0, 1), **options)
    stage.broadcast(0)
    late = stage.keep(messages.FromHost)
    ask(stage, 0, 1)
    stage.wire(1, 0)
    assert stage.stations[0].cell.records[0].mode == cell.FROZEN
    stage.hand(late)
    stage.pump()
    return stage


def schedule_f(**options):
    """The first own message of long ago reaches a station that only wants the record."""
    stage = stage_of((1, 0), **options)
    stage.broadcast(0)
    late = stage.keep(messages.FromHost)
    hand_over(stage, 0, 0)
    stage.quiet()
    ask(stage, 0, 1)
    assert stage.stations[1].cell.records[0].mode == cell.WANTED
    stage.hand(late)
    return stage


def schedule_g(**options):
    """Of two requests the newer one arrives first."""
    stage = stage_of((0, 0), stations=3, **options)
    ask(stage, 0, 1)
    ask(stage, 0, 2)
    stage.wire(2, 0)
    stage.wire(1, 0)
    return stage


def schedule_h(**options):
    """A newer session asks while the record is under way to an older one."""
    stage = stage_of((0, 0), stations=3, **options)
    ask(stage, 0, 1)
    stage.wire(1, 0, len(stage.wires[1, 0]))
    ask(stage, 0, 2)
    stage.wire(2, 0, len(stage.wires[2, 0]))
    return stage


def schedule_i(**options):
    """A request that has been overtaken leaves no record behind that keeps messages."""
    stage = stage_of((0, 0), **options)
    ask(stage, 0, 1)
    ask(stage, 0, 0)
    stage.wire(1, 0)
    stage.pump()
    return stage


def schedule_j(**options):
    """The answer to a join is lost, and the host joins elsewhere with messages to send."""
    stage = stage_of((None, 0), **options)
    stage.move(0, 0)
    stage.call(0, "join")
    stage.broadcast(0)
    stage.pass_on(messages.Join)
    stage.pass_all(messages.FromHost)
    stage.lose()
    stage.move(0, 1)
    return stage


def schedule_k(**options):
    """A copy of the join arrives when the host has long moved on."""
    stage = stage_of((None, 0), **options)
    stage.move(0, 0)
    stage.call(0, "join")
    join = stage.keep(messages.Join)
    stage.hand(join)
    stage.quiet()
    hand_over(stage, 0, 1)
    stage.quiet()
    stage.hand(join)
    return stage


def schedule_l(**options):
    """The answer to a leave is lost and the host asks at another station."""
    stage = stage_of((0, 0), **options)
    stage.call(0, "leave")
    stage.pass_on(messages.Leave)
    stage.lose()
    stage.pump()
    stage.move(0, 1)
    return stage


def schedule_m(**options):
    """A host leaves and joins again where messages of its old life still wait."""
    stage = stage_of((0, 1, 0), **options)
    stage.broadcast(1)
    stage.pass_on(messages.FromHost)
    stage.pump()
    stage.pass_on(messages.FromStation, to=0)
    stage.lose()
    stage.broadcast(2)  # this one stays on the wire, with the news of the leave behind it
    stage.pass_on(messages.FromHost)
    stage.pass_on(messages.FromStation, to=0)
    stage.lose()
    assert len(stage.delivered[0]) == 2
    stage.call(0, "leave")
    stage.pass_all(messages.Leave, messages.LeaveAck)
    stage.move(0, 1)
    stage.call(0, "join")
    stage.pass_on(messages.Join)
    if stage.stations[1].cell.records.get(0) is None:  # the news of the leave is on its way
        stage.pump()
        stage.fire(0, CONNECT)
        stage.pass_on(messages.Join)
    return stage


def schedule_n(**options):
    """A crash between a delivery and the next acknowledgement."""
    stage = stage_of((0, 0), strict=False, **options)
    stage.broadcast(1)
    stage.pass_all(messages.FromHost, messages.FromStation)
    assert len(stage.delivered[0]) == 1
    stage.crash(0)
    return stage


def schedule_o(*, aside=False, **options):
    """Application messages and handoffs share their links; aside, they do not."""
    stage = stage_of((0, 0), **options)
    stage.broadcast(1)
    stage.pass_on(messages.FromHost)
    stage.pass_on(messages.FromStation, to=0)
    stage.lose()
    assert len(stage.delivered[0]) == 1
    ask(stage, 0, 1)
    if aside:
        held = stage.wires[0, 1].popleft()
        stage.pump()
        stage.wires[0, 1].append(held)
    stage.pump()
    return stage


def schedule_p(**options):
    """A host has more to send than its window holds."""
    stage = stage_of((0, 0), window=2, **options)
    stage.broadcast(0, 7)
    return stage


def schedule_q(**options):
    """Catch-up messages are numbered apart from stamps, however small those are."""
    stage = stage_of((0, 1), **options)
    stage.broadcast(1, 2)
    stage.pass_all(messages.FromHost)
    stage.pump()
    stage.air = [row for row in stage.air if row[0] == 1]
    stage.pass_all(messages.FromStation)
    stage.fire(1, ACK)
    stage.pass_all(messages.HostAck)
    stage.lose()
    assert not stage.stations[1].cell.stored
    hand_over(stage, 0, 1)
    assert stage.stations[1].cell.records[0].total == 2
    stage.pass_on(messages.InitAck)
    stage.pass_on(messages.CatchUp)
    stage.fire(0, ACK)
    stage.pass_on(messages.HostAck)
    stage.lose()
    return stage


def schedule_s(**options):
    """A join of before reaches a station that waits for the record of a later life."""
    stage = stage_of((None, 0), **options)
    stage.move(0, 0)
    stage.call(0, "join")
    old = stage.keep(messages.Join)
    stage.move(0, 1)
    stage.pass_on(messages.Join)
    stage.pass_on(messages.InitAck)  # the news of it stays on the wire to station 0
    ask(stage, 0, 0)
    assert stage.stations[0].cell.records[0].mode == cell.WANTED
    stage.hand(old)
    return stage


def schedule_t(**options):
    """What was acknowledged out of order is lost in a crash."""
    stage = stage_of((0, 0), selective=True, **options)
    stage.broadcast(1, 2)
    stage.pass_all(messages.FromHost)
    kept = [row for row in stage.air if row[0] == 0]
    stage.air = [row for row in stage.air if row[0] == 1]
    stage.hand(kept[1])
    stage.fire(0, ACK)
    stage.pass_on(messages.HostAck)
    assert stage.stations[0].cell.records[0].beyond == 1
    stage.crash(0)
    return stage


SCHEDULES = {
    "A": schedule_a, "B": schedule_b, "C": schedule_c, "D": schedule_d, "E": schedule_e,
    "F": schedule_f, "G": schedule_g, "H": schedule_h, "I": schedule_i, "J": schedule_j,
    "K": schedule_k, "L": schedule_l, "M": schedule_m, "N": schedule_n, "O": schedule_o,
    "P": schedule_p, "Q": schedule_q, "S": schedule_s, "T": schedule_t,
}  # fmt: skip


@pytest.mark.parametrize("letter", SCHEDULES)
def test_comes_through(letter):
    SCHEDULES[letter]().finish()


@pytest.mark.parametrize("name", [name for name in MUTANTS if name[1] == ":"])
def test_convicts_its_mutant(name):
    """The same schedule with the defect that it is about."""
    defective = classes(*MUTANTS[name][1:])
    with pytest.raises(Violation):
        SCHEDULES[name[0]](classes=defective).finish()


def test_convicts_a_side_channel():
    with pytest.raises(Violation):
        schedule_o(aside=True).finish()


def test_every_letter_has_a_mutant():
    """R is about collisions and is played on the radio, O about the wires."""
    assert set(SCHEDULES) == {name[0] for name in MUTANTS if name[1] == ":"} | {"O"}
    assert set("ABCDEFGHIJKLMNOPQRST") - set(SCHEDULES) == {"R"}
