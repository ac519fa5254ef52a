"""Medium access against timelines made by hand, and against judges that share no code with it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.contract.machines import RadioParameters
from precedes.errors import UserError
from tests.support.radio import TICK_NS, Bench, by_ticks, lost_by_overlap

CSMA = {"mac": "csma", "difs_us": 50.0, "slot_us": 20.0}


@pytest.mark.parametrize(("sense_us", "begins"), [(0.4, 190.0), (5.0, 52.0)])
def test_what_has_just_begun_is_not_heard_yet(sense_us, begins):
    bench = Bench([0.0, 10.0], [50.0], slots={0: [0], 1: [0]}, sense_us=sense_us, **CSMA)
    bench.send(0, "a", 0, size_bytes=90)
    bench.send(1, "b", 2)
    assert bench.begins_us() == {"a": [50], "b": [begins]}


# Acknowledgements: 20 bytes, 10 us after the frame.


def test_what_is_acknowledged_is_sent_once():
    bench = Bench([0.0], [50.0], slots={0: [0, 0]}, mac_retries=3, **CSMA)
    bench.send(0, "a", 0, target=1)
    bench.send(0, "b", 0, target=1)
    # a until 150, its acknowledgement from 160 to 180; the next begins at 200.
    assert bench.begins_us() == {"a": [50], None: [160, 360], "b": [200 + 50]}
    assert (bench.access.repeated, bench.access.given_up) == (0, 0)


def test_what_is_for_everybody_is_not_acknowledged():
    bench = Bench([0.0], [50.0], slots={1: [0]}, mac_retries=3, **CSMA)
    bench.send(1, "a", 0)
    assert bench.begins_us() == {"a": [50]}


def test_what_nobody_acknowledges_is_repeated_and_given_up():
    """Out of reach: a copy every 100 us of air, 50 of waiting for an answer, and 50 of silence."""
    bench = Bench([0.0], [500.0], slots={0: [0, 2, 1, 0]}, mac_retries=2, **CSMA)
    bench.send(0, "a", 0, target=1)
    bench.send(0, "b", 0)
    assert bench.begins_us() == {"a": [50, 290, 510], "b": [710]}
    assert (bench.access.repeated, bench.access.given_up) == (2, 1)


def test_a_lost_acknowledgement_hands_nothing_up_twice():
    """Host 1 is deaf to host 0 and hears the acknowledgement; its own frame covers that of a."""
    bench = Bench([0.0, 90.0], [50.0], slots={0: [0, 9], 1: [0]}, mac_retries=3, **CSMA)
    bench.hears([[2], [0], [0]])
    bench.send(0, "a", 0, target=2)
    bench.send(1, "noise", 115, size_bytes=30)
    # noise reaches host 0 alone, from 165 to 195, over the acknowledgement from 160 to 180.
    assert bench.begins_us()["a"] == [50, 200 + 50 + 180]
    assert bench.access.repeated == 1
    assert bench.taken.count("a") == 1


def test_slots_double_up_to_a_bound():
    bench = Bench([0.0], [50.0], slots_max=200, **CSMA)
    drawn = [{bench.access.draw(0, copies) for _ in range(5000)} for copies in range(5)]
    assert [(min(one), max(one)) for one in drawn] == [
        (0, 31), (0, 63), (0, 127), (0, 199), (0, 199),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"mac_retries": 3}, "mac_retries needs carrier sense"),
        ({"mac": "csma", "mac_retries": 101}, "mac_retries lies between 0 and 100"),
        ({"mac": "csma", "slots_max": 16}, "slots_max lies between slots and"),
        ({"mac": "csma", "difs_us": -1.0}, "difs_us must be between"),
        ({"mac_ack_bytes": 0}, "mac_ack_bytes must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(wrong, text):
    with pytest.raises(UserError, match=text):
        RadioParameters(**wrong)


# Random airs.

NODES = 5
AIRS = st.lists(st.sets(st.integers(0, NODES - 1)), min_size=NODES, max_size=NODES).map(
    lambda rows: [sorted(row - {node}) for node, row in enumerate(rows)]
)
FRAMES = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, 60), st.integers(1, 30)),
    min_size=1,
    max_size=14,
)


def bench_of(reached, frames, **options):
    bench = Bench([0.0] * (NODES - 1), [0.0], **options)
    bench.hears(reached)
    for place, (node, tick, length) in enumerate(sorted(frames, key=lambda row: row[1])):
        bench.send(node, place, 10 * tick, size_bytes=10 * length)
    return bench


def judged(sent, *, half_duplex):
    lost = lost_by_overlap(sent, half_duplex=half_duplex)
    return [sorted(set(one.reached) - lost[place]) for place, one in enumerate(sent)]


@settings(max_examples=100)
@given(AIRS, FRAMES, st.booleans(), st.sampled_from(["aloha", "csma"]))
def test_what_is_lost_is_what_overlaps(reached, frames, half_duplex, mac):
    sent = bench_of(reached, frames, half_duplex=half_duplex, mac=mac).run()
    assert len(sent) == len(frames)
    assert [list(one.heard) for one in sent] == judged(sent, half_duplex=half_duplex)


def test_the_judge_of_overlaps_can_convict():
    """The twin: full duplex is not what half duplex is judged to be."""
    bench = bench_of([[1], [0], [], [], []], [(0, 0, 9), (1, 5, 9)], half_duplex=False)
    sent = bench.run()
    assert [list(one.heard) for one in sent] == judged(sent, half_duplex=False)
    assert [list(one.heard) for one in sent] != judged(sent, half_duplex=True)


@settings(max_examples=100)
@given(
    AIRS,
    FRAMES,
    st.lists(st.integers(0, 7), min_size=14, max_size=14),
    st.booleans(),
    st.integers(1, 6),
)
def test_antennas_begin_when_ticks_say_so(reached, frames, draws, half_duplex, difs):
    slots = {node: draws[node:] + draws[:node] for node in range(NODES)}
    bench = bench_of(
        reached, frames, mac="csma", slots=slots, half_duplex=half_duplex,
        difs_us=10.0 * difs, slot_us=20.0, sense_us=0.0,
    )  # fmt: skip
    sent = bench.run()
    wanted = {}
    for place, (node, tick, length) in enumerate(sorted(frames, key=lambda row: row[1])):
        wanted.setdefault(node, []).append((tick, length, place))
    began = by_ticks(reached, wanted, slots, difs_ticks=difs, slot_ticks=2, ticks=1500)
    assert sorted((one.begin_ns / TICK_NS, one.name) for one in sent) == sorted(began)


def test_ticks_can_convict():
    """The twin: slots that go on while something is heard are seen."""
    frames = [(0, 3, 10), (1, 0, 10)]
    slots = {node: [4 * node] * 14 for node in range(NODES)}
    bench = bench_of([[1], [0], [], [], []], frames, mac="csma", slots=slots, sense_us=0.0)
    bench.access.hold = bench.air.carrier = lambda node, now_ns: None
    wanted = {0: [(3, 10, 1)], 1: [(0, 10, 0)]}
    began = by_ticks([[1], [0], [], [], []], wanted, slots, difs_ticks=5, slot_ticks=2, ticks=200)
    assert sorted((one.begin_ns / TICK_NS, one.name) for one in bench.run()) != sorted(began)
