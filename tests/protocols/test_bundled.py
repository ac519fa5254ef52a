"""`bundled`: exactly once under crashes, completion, and what a false suspicion comes to."""

import numpy as np
import pytest

from precedes.errors import UserError
from precedes.model import EventKind
from precedes.registry import load
from precedes.sim import Fault, Scenario, simulate
from precedes_papers.p001 import experiments
from tests.support.crashing import check, check_trace, run, schedule
from tests.support.seeds import repeat

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("first", range(1001, 1401, 50))
def test_exactly_once_and_one_completion_under_crashes(first):
    """Hundreds of adversarial schedules; thousands are in the swarm."""
    broadcasts = 0
    for seed in range(first, first + 50):
        with repeat(f"tests.support.crashing.schedule({seed})"):
            broadcasts += check(schedule(seed)).broadcasts
    assert broadcasts > 200


def test_the_check_finds_planted_violations():
    """The twin: a trace with one event taken out, repeated or made up does not pass."""
    scenario = schedule(1003).replace(faults=())
    _, _, rows = run(scenario)
    everybody = list(range(scenario.nodes))
    check_trace(rows, everybody)
    deliveries = np.flatnonzero(rows[:, 2] == EventKind.DELIVER)
    completions = np.flatnonzero(rows[:, 2] == EventKind.COMPLETE)
    early = rows.copy()
    early[completions[-1], 0] = 0
    stranger = rows[deliveries[-1]].copy()
    stranger[4] += 1000
    planted = {
        "never delivered": np.delete(rows, deliveries[0], axis=0),
        "delivered .* twice": np.vstack([rows, rows[deliveries[0]]]),
        "never completed": np.delete(rows, completions[0], axis=0),
        "completed twice": np.vstack([rows, rows[completions[0]]]),
        "completed too early": early,
        "nobody broadcast": np.vstack([rows, stranger]),
    }
    for says, changed in planted.items():
        with pytest.raises(AssertionError, match=says):
            check_trace(changed, everybody)


def test_all_but_one_crash_at_once():
    faults = tuple(Fault("crash", node=n, at_s=0.0, detection_ms=(0, 50)) for n in range(1, 9))
    scenario = schedule(1).replace(nodes=9, faults=faults, workload="window:0", messages=None)
    assert check(scenario).broadcasts == 1


@pytest.mark.parametrize("seed", range(12))
def test_with_tests_instead_of_being_reported(seed):
    """The detector of section 3.1 in place of the host's word: the same guarantee end to end."""
    scenario = schedule(seed, nodes_max=33)
    parameters = {**scenario.parameters, "tests": True, "timeout_ms": 4.0, "rounds": 60}
    # A synchronous network: a test and its reply take less than the timeout.
    synchronous = scenario.replace(delay="uniform:0.1:1", per="use", parameters=parameters)
    check(synchronous.replace(transmission_ms=0.01))


def overloaded(nodes, *, own_channel):
    """Everybody broadcasts at once, unbundled, and tests; nobody crashes."""
    parameters = {"rounds": 2, "own_channel": own_channel, **experiments.TESTS}
    return experiments.scenario("NO-AGGR", nodes, **parameters)


def test_a_shared_port_leads_to_false_suspicions():
    """Replies that queue behind broadcasts come too late; on their own channel they do not."""
    apart = simulate(overloaded(256, own_channel=True))
    assert apart.extra["suspicions_by_test"] == 0
    assert apart.extra["fenced"] == 0
    assert apart.extra["completions"] == 256
    shared = simulate(overloaded(256, own_channel=False))
    assert shared.extra["suspicions_by_test"] > 0
    assert shared.complete


def test_a_process_suspected_wrongly_is_fenced_and_the_others_go_on():
    """It pauses longer than the others' patience: nobody listens to it, and it falls silent."""
    scenario = Scenario(
        protocol="bundled",
        nodes=8,
        messages=200,
        rate=200.0,
        faults=(Fault("pause", node=3, at_s=0.2, for_s=0.2),),
        parameters={"rounds": 60, **experiments.TESTS},
        **experiments.NETWORK,
    )
    done, result, rows = run(scenario)
    detector = done.state.detector
    assert detector.process.fenced.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    others = [node for node in range(8) if node != 3]
    check_trace(rows, others)
    assert result.complete
    deliveries = rows[rows[:, 2] == EventKind.DELIVER]
    # What it did before it knew may still arrive; nothing of after does.
    knew_ns = 600_000_000
    assert not ((deliveries[:, 1] == 3) & (deliveries[:, 0] > knew_ns)).any()
    assert not ((deliveries[:, 3] == 3) & (deliveries[:, 0] > knew_ns)).any()
    assert (rows[(rows[:, 2] == EventKind.BROADCAST) & (rows[:, 1] == 3), 0] > knew_ns).any()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload_max_bytes", 0),
        ("tree_bytes", 0),
        ("ack_bytes", -1),
        ("delay_max_ms", -1.0),
        ("profile_ms", 0.0),
        ("profile_slices", 0),
        ("timeout_ms", 0.0),
        ("rounds", -1),
    ],
)
def test_parameters_out_of_range_are_refused(name, value):
    with pytest.raises(UserError, match=f"{name} must be between"):
        load("bundled").make_parameters({name: value})
