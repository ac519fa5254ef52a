"""The VCube failure detector in a synchronous network, and what becomes of a false suspicion.

Whom the processes of the paper test first is a transcript (tests/protocols/test_transcripts.py).
"""

import contextlib
import random

import numpy as np
import pytest

from precedes import contract
from precedes.errors import UserError
from precedes.parts import tester
from precedes.registry import load
from precedes.sim import Fault, Scenario
from precedes.sim.run import Run

SENDS = (contract.SEND, contract.SEND_ASIDE)
INTERVAL_MS, TIMEOUT_MS = 30.0, 4.0
SIZES = (2, 3, 4, 5, 7, 8, 11, 16, 21, 32, 64)


def bits(nodes):
    """The clusters of a node: log2 of the group, rounded up."""
    return (nodes - 1).bit_length()


def scenario(nodes, faults, *, horizon_s, seed=1, **changes):
    """Tests alone, in a network where a test and its reply take 2.2 ms at most."""
    return Scenario(
        protocol="failure_detector",
        nodes=nodes,
        messages=0,
        delay="uniform:0.2:1",
        transmission_ms=0.001,
        faults=tuple(faults),
        seed=seed,
        horizon_s=horizon_s,
        oracle=False,
        parameters={"interval_ms": INTERVAL_MS, "timeout_ms": TIMEOUT_MS, "rounds": 0},
    ).replace(**changes)


def finished(chosen, *, tier="auto"):
    """The detector's arrays after a run."""
    run = Run(chosen)
    run.go(tier=tier)
    return run.state.detector


def suspects(detector, node):
    """Whom a node takes for crashed."""
    return set(np.flatnonzero(detector.state[node] % 2).tolist())


def crash_set(rng, nodes):
    """Some processes, up to all but one."""
    return set(rng.sample(range(nodes), rng.randrange(1, nodes)))


@pytest.mark.parametrize("seed", range(60))
def test_every_crash_is_known_to_all_within_the_square_of_log_n_rounds(seed):
    """Strong completeness and strong accuracy (section 3.1): all who crashed, nobody else."""
    rng = random.Random(seed)
    nodes = rng.choice(SIZES)
    crashed = crash_set(rng, nodes)
    at_s = rng.choice((0.0, rng.uniform(0, 0.2)))
    faults = [Fault("crash", node=node, at_s=at_s) for node in crashed]
    before = finished(scenario(nodes, faults, horizon_s=max(at_s, 1e-6), seed=seed))
    rounds_before = before.process.round
    # A round rests, and waits at worst for all of the others.
    round_s = (INTERVAL_MS + nodes * TIMEOUT_MS) / 1000
    rounds = bits(nodes) ** 2
    detector = finished(scenario(nodes, faults, horizon_s=at_s + (rounds + 1) * round_s, seed=seed))
    for node in set(range(nodes)) - crashed:
        assert suspects(detector, node) == crashed, f"seed {seed}: the view of node {node}"
        took = detector.process.known_round[node] - rounds_before[node]
        assert took <= rounds, f"seed {seed}: node {node} knew after {took} rounds"
    assert not detector.process.fenced.any()


@contextlib.contextmanager
def noting_tests(found):
    """Note every test that is sent: (time, tester, tested)."""
    state = load("failure_detector").state
    dispatch = contract.on_timer.dispatch, contract.start.dispatch
    bodies = [(d, d.implementation(state)) for d in dispatch]

    def around(body):
        def call(state, here, *arguments):
            host = arguments[-1]
            begin = int(host.registers[contract.LENGTH])
            status = body(state, here, *arguments)
            words = host.effects[begin : int(host.registers[contract.LENGTH])].tolist()
            # A round sends packets of one item each, and then sets a timer.
            while words and words[0] in SENDS:
                assert words[2:4] == [1, 1 + tester.TEST]
                found.append((int(host.now_ns()), int(here), words[1]))
                words = words[5:]
            return status

        return call

    try:
        for dispatcher, body in bodies:
            dispatcher.register(state)(around(body))
        yield
    finally:
        for dispatcher, body in bodies:
            dispatcher.register(state)(body)


@pytest.mark.parametrize("seed", range(20))
def test_each_process_has_one_tester_in_each_of_its_clusters(seed):
    """Two testers of one process in one cluster: then the first had crashed before the second."""
    rng = random.Random(seed)
    nodes = rng.choice(SIZES[3:])
    crashed_s = {node: rng.uniform(0, 0.3) for node in crash_set(rng, nodes)}
    faults = [Fault("crash", node=node, at_s=at_s) for node, at_s in crashed_s.items()]
    found = []
    with noting_tests(found):
        finished(scenario(nodes, faults, horizon_s=0.5, seed=seed), tier="interpreted")
    last = {}
    for time_ns, testing, tested in found:
        place = tested, (testing ^ tested).bit_length()
        previous_ns, previous = last.get(place, (0, testing))
        if previous == testing:
            assert last.get(place) is None or time_ns - previous_ns >= INTERVAL_MS * 1e6, (
                f"seed {seed}: {testing} tested {tested} twice in a round"
            )
        else:
            assert previous in crashed_s, f"seed {seed}: {previous} and {testing} test {tested}"
            assert crashed_s[previous] * 1e9 <= time_ns
        last[place] = time_ns, testing
    assert len({place for place in last}) > nodes // 2


def test_who_detects_first_and_when():
    """p1 dead at the start, hops of 1.1 ms: p0 knows after 4 ms, p3 when its turn has come."""
    timed = {"delay": "constant:0.8", "processing_ms": 0.2, "transmission_ms": 0.1}
    detector = finished(scenario(8, [Fault("crash", node=1)], horizon_s=0.0041, **timed))
    assert [node for node in range(8) if suspects(detector, node)] == [0]
    detector = finished(scenario(8, [Fault("crash", node=1)], horizon_s=0.0066, **timed))
    assert [node for node in range(8) if suspects(detector, node)] == [0, 3, 5]
    known = detector.process.known_ns
    assert known[0] == 4_000_000
    assert known[3] == 6_200_000


def test_a_process_suspected_wrongly_is_fenced():
    """A pause longer than the patience: all suspect it, for good, and it learns so and stops."""
    faults = [Fault("pause", node=3, at_s=0.1, for_s=0.3)]
    detector = finished(scenario(8, faults, horizon_s=1.0))
    for node in (0, 1, 2, 4, 5, 6, 7):
        assert suspects(detector, node) == {3}
    fenced = detector.process.fenced
    assert fenced.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    rounds = detector.process.round
    assert rounds[3] < rounds[0] / 2, "a fenced process goes on testing"


def test_comes_to_rest_after_its_rounds():
    """And suspects nobody without crashes."""
    run = Run(scenario(8, [], horizon_s=100.0, parameters={"rounds": 3}))
    assert run.go().complete
    assert (run.state.detector.state == 0).all()
    assert (run.state.detector.process.round == 3).all()
    assert run.state.detector.counter.tests[0] == 3 * 8 * 3


@pytest.mark.parametrize("name", ["interval_ms", "timeout_ms"])
@pytest.mark.parametrize("value", [0, -1, 1e10])
def test_times_out_of_range_are_refused(name, value):
    with pytest.raises(UserError, match=name.removesuffix("_ms")):
        load("failure_detector").make_parameters({name: float(value)})
