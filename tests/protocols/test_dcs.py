"""`dcs`: the stress, what its state means, rounds, crashes, and bad packets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes import contract, simulate
from precedes.errors import UserError
from precedes.parts.hash_check import set_hash
from precedes.protocols.dcs import rounds
from precedes.protocols.dcs.state import CARRIES, INCREMENTS
from precedes.registry import load
from precedes.sim import Fault, Scenario
from precedes.sim.run import Run
from precedes.testing import observe
from tests.support import dcs_stress
from tests.support.convictions import Convicted
from tests.support.dcs_watch import Watcher
from tests.support.delivered_sets import DeliveredSets


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("first", "detector"), [(1, "none"), (26, "none"), (51, "none"), (76, "none"), (1, "hash")]
)
def test_the_stress_ends_with_everything_delivered_and_equal(first, detector):
    """100 seeds: no deadlock, exactly once, equal components, hashes and generations at rest."""
    dcs_stress.check_seeds(range(first, first + 25), detector=detector)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("detector", ["none", "hash"])
def test_the_stress_ends_alike_if_messages_have_processes_redraw(detector):
    dcs_stress.check_seeds(range(1, 26), detector=detector, redraw=True)


def test_a_message_that_activates_components_has_its_receiver_redraw():
    """The third function of checkExpand: S_incr among all active components, or as it was."""
    chosen = {}
    for redraw in (False, True):
        chosen[redraw] = set()
        for seed in range(10):
            state, host = state_and_host(seed=seed, spread=1, redraw=redraw)
            host.name[:2] = 1, 1
            state.stamp[0, CARRIES] = 4
            contract.receive(state, 0, 1, packet((0, 0)), 1, host)
            assert state.dcs.components.active[0] == 4
            chosen[redraw].add(int(state.dcs.S_incr[0, 0]))
            contract.broadcast(state, 0, 1, host)  # the load would do with one component
            assert state.stamp[1, CARRIES] == 4
            assert state.stamp[1, INCREMENTS] == state.dcs.S_incr[0, 0] in chosen[redraw]
    assert chosen[False] == {0}
    assert chosen[True] > {0}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("phase_ms", [0.0, 100.0])
def test_looks_at_the_balance_have_a_phase(phase_ms):
    parameters = {"balance_ms": 300.0, "balance_phase_ms": phase_ms}
    made = Run(Scenario(protocol="dcs", nodes=5, rate=50.0, messages=200, parameters=parameters))
    made.go()
    late = made.state.dcs.load.balance_end_ns % 300_000_000
    assert (late == phase_ms * 1_000_000).all()


@pytest.mark.usefixtures("engine")
def test_a_group_at_rest_does_not_give_up_while_rounds_succeed():
    """A schedule in which the first round after the last message succeeds in the last turn."""
    dcs_stress.check_seeds([446], detector="hash")


@pytest.mark.usefixtures("engine")
def test_a_group_at_rest_does_not_give_up_without_a_try():
    """Rounds failed while a link held messages back; all turns after that would be left unused."""
    made, result = dcs_stress.run(dcs_stress.pulses(131056527349))
    dcs_stress.check_at_rest(made, result)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", range(1, 21))
def test_with_the_hash_nothing_is_out_of_order_by_the_audit(seed):
    """The independent audit, under the stress; the same schedule without the hash errs."""
    scenario = dcs_stress.schedule(seed)
    checked = {**scenario.parameters, "detector": "hash"}
    report = observe(scenario.replace(parameters=checked)).report
    assert report.violations == report.duplicates == report.lost == 0, report.witnesses


@pytest.mark.usefixtures("engine")
def test_the_same_schedules_without_the_hash_are_out_of_order():
    """The twin: the audit convicts the clocks alone."""
    wrong = sum(observe(dcs_stress.schedule(seed)).report.violations > 0 for seed in range(1, 11))
    assert wrong >= 5


@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_counts_and_hashes_are_those_of_the_delivered_sets(seed):
    """After every handler V[x] counts the messages that hit x since the component's generation."""
    scenario = dcs_stress.small(seed)
    watcher = Watcher(scenario)
    sets = DeliveredSets("dcs", scenario.nodes, watcher.check)
    with sets.installed():
        made, result = dcs_stress.run(scenario, tier="interpreted")
    dcs_stress.check_at_rest(made, result)
    if scenario.parameters["detector"] == "hash":
        assert not sets.wrong


def test_the_watcher_convicts_a_count_too_many():
    """The twin of the above."""
    scenario = dcs_stress.small(1)
    watcher = Watcher(scenario)

    def spoil(state, here, sets):
        watcher.check(state, here, sets)
        state.dcs.clock[here, 0] += 1

    sets = DeliveredSets("dcs", scenario.nodes, spoil)
    with sets.installed(), pytest.raises(Convicted, match=r"^counts: counts of node"):
        simulate(scenario, tier="interpreted")


def test_decisions_are_right_when_they_are_taken():
    """All increments are delivered everywhere; nothing that carries a removed one is in flight."""
    deactivated = removed = 0
    for seed in range(1, 13):
        scenario = dcs_stress.small(seed)
        watcher = Watcher(scenario)
        sets = DeliveredSets("dcs", scenario.nodes, watcher.check)
        with sets.installed():
            simulate(scenario, tier="interpreted")
        deactivated += watcher.deactivations
        removed += watcher.removals
    assert deactivated > 20
    assert removed > 10


def test_components_come_back_in_another_generation():
    """Removed and added again, in the middle of the traffic, many times."""
    generations = []
    for seed in range(1, 9):
        made, result = dcs_stress.run(dcs_stress.pulses(seed))
        dcs_stress.check_at_rest(made, result)
        generations.append(int(made.state.dcs.part.generation[0].max()))
    assert max(generations) >= 3, generations
    assert sum(generations) >= 16, generations


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", range(1, 31))
def test_a_crash_of_an_initiator_stops_nobody(seed):
    """Nodes that start rounds crash in mid-send; the others deliver everything all the same."""
    scenario = dcs_stress.schedule(seed)
    crashes = tuple(
        Fault("crash", node=node, after_sends=200 + 137 * node + seed, detection_ms=(50.0, 400.0))
        for node in range(seed % 4 + 1)
    )
    for detector in ("none", "hash"):
        parameters = {**scenario.parameters, "detector": detector}
        made = Run(scenario.replace(faults=crashes, parameters=parameters))
        result = made.go()
        assert result.complete, "it never quiesced"
        assert result.duplicates == 0
        assert result.deliveries > 100
        # What a crash in mid-send has kept from some, and what follows it, may be missing.
        assert detector == "none" or result.violations.deliveries == 0


@pytest.mark.usefixtures("engine")
def test_rounds_go_on_after_their_initiators_have_crashed():
    """Crashes between broadcasts, so that nothing is missing: the rest shrinks to one component."""
    faults = tuple(
        Fault("crash", node=node, at_s=3.5 + 0.01 * node, detection_ms=(10.0, 60.0))
        for node in range(4)
    )
    scenario = Scenario(
        protocol="dcs",
        nodes=12,
        workload="bell:1:200",
        duration_s=3.0,
        faults=faults,
        horizon_s=300.0,
        parameters={"error": 1e-2, "component_entries": 8, "components_max": 8, "keep_ms": 0.0},
    )
    made = Run(scenario)
    result = made.go()
    assert result.complete
    assert made.crashed() == [0, 1, 2, 3]
    assert (made.state.dcs.components.size[4:] == 1).all()
    assert (made.state.dcs.components.size[:4] > 1).any(), "they crashed before there was a round"


@pytest.mark.usefixtures("engine")
def test_what_rounds_cost_is_counted_by_their_kind():
    """Three packets for each other process; of a seal or more but for answers, of nine at most."""
    scenario = Scenario(
        protocol="dcs",
        nodes=12,
        workload="bell:1:200",
        duration_s=20.0,
        parameters={"error": 1e-2, "component_entries": 8, "components_max": 8, "keep_ms": 0.0},
    )
    result = simulate(scenario)
    extra = result.extra
    for kind in ("deactivate", "remove"):
        rounds_of, packets, values = (
            extra[f"{kind}_{what}"] for what in ("rounds", "packets", "values")
        )
        assert rounds_of > 0
        assert packets == 3 * 11 * rounds_of
        assert 4 * 11 * rounds_of <= values <= 19 * 11 * rounds_of
    assert extra["rounds"] == extra["deactivate_rounds"] + extra["remove_rounds"]
    assert extra["rounds_packets"] == extra["deactivate_packets"] + extra["remove_packets"]
    assert result.packets == result.messages_sent + extra["rounds_packets"]
    assert sum(result.series["broadcasts"]) == result.broadcasts
    assert len(result.series["broadcasts"]) == len(result.series["entries"])


def test_the_clock_is_bounded():
    """At the bound the clock stays as it is, and errors grow; nothing else happens."""
    parameters = {"error": 1e-6, "component_entries": 4, "components_max": 3}
    scenario = Scenario(protocol="dcs", nodes=10, duration_s=3.0, rate=200.0, parameters=parameters)
    made, result = dcs_stress.run(scenario, tier="interpreted")
    dcs_stress.check_at_rest(made, result)
    assert result.extra["entries_sent_mean"] <= 12
    assert result.violations.deliveries > 0


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"error": 0.0}, "error must be a share"),
        ({"delay": "uniform:1:2"}, "delay 'uniform:1:2' is not understood"),
        ({"components": 3, "components_max": 2}, "components and components_max"),
        ({"components_max": 129}, "between 1 and 128"),
        ({"spread": 5}, "spread must be between 1 and 4"),
        ({"per_component": 0}, "per_component must be at least 1"),
        ({"component_entries": 1}, "component_entries must be between"),
        ({"detector": "mostefaoui"}, "detector must be none or hash"),
        ({"round_ms": 0.0}, "round_ms must be between 1"),
        ({"keep_ms": -1.0}, "keep_ms must be between 0"),
        ({"balance_phase_ms": -1.0}, "balance_phase_ms must be between 0"),
        ({"hashes": 0}, "hashes must be at least 1"),
        ({"log": 1}, "log must be between 64"),
    ],
    ids=str,
)
def test_refused_parameters(given, match):
    with pytest.raises(UserError, match=match):
        load("dcs").make_parameters(given)


def state_and_host(*, seed=3, **parameters):
    protocol = load("dcs")
    group = contract.Group(nodes=4, hosted=np.arange(4, dtype=np.int32), seed=7)
    capacity = contract.Capacity(slots=4, reserve_bytes=1 << 16)
    state = protocol.allocate(protocol.make_parameters(parameters), group, capacity)
    return state, contract.allocate_host(capacity, seed=seed)


def copies(part):
    """Copies of all arrays and numbers in a named tuple."""
    if isinstance(part, tuple):
        return [one for inner in part for one in copies(inner)]
    return [np.array(part)]


def packet(*items):
    return np.array([word for item in items for word in item], np.int64)


BAD_PACKETS = {
    "no such components": [(rounds.ASK, (5 << 40) | (70 << 32) | 1)],
    "nothing to be about": [(rounds.ASK, (0 << 40) | (1 << 32) | 1), (rounds.SEAL, 5)],
    "fewer seals than components": [(rounds.ASK, (1 << 40) | (3 << 32) | 1), (6, 5)],
    "more seals than components": [(rounds.DECIDE, (1 << 40) | (1 << 32) | 1), (6, 5)],
    "no seals": [(rounds.ASK, (1 << 40) | (2 << 32) | 1), (rounds.ANSWER, 5)],
    "upside down": [(rounds.DECIDE, (3 << 40) | (2 << 32) | 1)],
    "negative": [(rounds.ASK, -1)],
    "another kind": [(rounds.ASK, (2 << 48) | (1 << 40) | (2 << 32)), (rounds.SEAL, 5)],
    "a seal alone": [(rounds.SEAL, 5)],
    "a negative answer": [(rounds.ANSWER, -5)],
    "a question that nobody asks": [(1, 1)],
}


@pytest.mark.parametrize("what", BAD_PACKETS)
def test_packets_that_no_correct_process_sends_change_nothing(what):
    state, host = state_and_host()
    before = copies(state.dcs)
    items = BAD_PACKETS[what]
    contract.receive(state, 0, 1, packet(*items), len(items), host)
    assert state.dcs.malformed[0] == 1
    assert host.registers[contract.LENGTH] == 0, "it was answered"
    state.dcs.malformed[0] = 0
    assert all(map(np.array_equal, before, copies(state.dcs)))


@pytest.mark.parametrize(
    "stamp", [(0, 0, 0), (65, 0, 0), (-3, 0, 0), (2, 2, 0), (2, -1, 0), (3, 0, 9)], ids=str
)
@pytest.mark.parametrize("detector", ["none", "hash"])
def test_messages_that_name_what_does_not_exist_are_dropped(stamp, detector):
    state, host = state_and_host(detector=detector)
    host.name[:2] = 1, 1
    state.stamp[0, :3] = stamp
    contract.receive(state, 0, 1, packet((0, 0)), 1, host)
    assert state.dcs.malformed[0] == 1
    assert host.effects[: int(host.registers[contract.LENGTH])].tolist() == [contract.DROP, 0]


def test_an_answer_from_a_round_that_is_over_is_no_mistake():
    state, host = state_and_host()
    contract.receive(state, 0, 1, packet((rounds.ANSWER, 1 << 16)), 1, host)
    assert state.dcs.malformed[0] == 0


def test_seals_tell_sets_kinds_indexes_and_generations_apart():
    state, _ = state_and_host()
    hashed = int(set_hash.encipher(state.dcs.key, 1, 1))
    seen = {rounds.seal(state.dcs, 0, c, kind) for c in range(4) for kind in (0, 1)}
    state.dcs.part.generation[0, 1] = 1
    seen.add(rounds.seal(state.dcs, 0, 1, 0))
    state.dcs.part.hash[0, 1] = hashed
    seen.add(rounds.seal(state.dcs, 0, 1, 0))
    assert len(seen) == 10
