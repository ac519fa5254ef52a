"""The oracle in the loop, the audit's kernel and the definition by sets count the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes import audit
from precedes.model import EventKind
from precedes.sim import Fault, Scenario, simulate
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE
from precedes.sim.run import Run
from precedes.testing import Collector, check_agreement, observe, random_scenario
from tests.support import executions
from tests.support.audits import pairs
from tests.support.executions import BROADCAST, DELIVER, Execution
from tests.support.seeds import repeat

pytestmark = pytest.mark.usefixtures("engine")

# Protocols that err: at once, rarely, and not at all.
ERRING = {
    "unordered": {},
    "probabilistic": {"entries": 2, "per_process": 1},
    "vector": {},
}
COUNTS = ("violations", "violating_messages", "deliveries", "duplicates", "phantom", "cycles")


def execution_of(collector, *, nodes, complete):
    """The trace as plain lists, for the oracle that knows nothing but sets."""
    logs = [[] for _ in range(nodes)]
    crashed = []
    names = {EventKind.BROADCAST: BROADCAST, EventKind.DELIVER: DELIVER}
    for row in collector.rows().tolist():
        if row[KIND] in names:
            logs[row[NODE]].append((names[row[KIND]], (row[SOURCE], row[SEQUENCE])))
        elif row[KIND] == EventKind.CRASH:
            crashed.append(row[NODE])
    return Execution(logs, complete=complete, crashed=crashed)


@given(st.sampled_from(sorted(ERRING)), st.integers(0, 2**32))
@settings(max_examples=300)
def test_all_three_agree(protocol, seed):
    scenario = random_scenario(protocol, seed, hostile=True).replace(parameters=ERRING[protocol])
    collector = Collector()
    result = Run(scenario, writer=collector).go()
    execution = execution_of(collector, nodes=scenario.nodes, complete=result.complete)
    expected = executions.judge(execution)
    assert result.violations.deliveries == expected["violations"]
    assert result.violations.messages == expected["violating_messages"]
    assert result.duplicates == expected["duplicates"]
    assert result.lost == expected["lost"] + expected["undelivered_at_end"]
    history = collector.history(nodes=scenario.nodes, complete=result.complete)
    report = audit.audit(history)
    assert {name: getattr(report, name) for name in COUNTS} == {
        name: expected[name] for name in COUNTS
    }
    assert pairs(history) == expected["pairs"]


def test_the_random_runs_err():
    """The test above means something only if there is something to count."""
    totals = dict.fromkeys(("violations", "duplicates", "lost"), 0)
    for seed in range(40):
        seen = observe(random_scenario("unordered", seed, hostile=True))
        for name in totals:
            totals[name] += getattr(seen.report, name)
    assert all(total > 10 for total in totals.values()), totals


# Few and many nodes, messages in flight by the dozen and by the thousand, gaps that last.
LOADS = {
    "few": {"nodes": 3, "messages": 3000, "rate": 100.0},
    "many in flight": {"nodes": 20, "messages": 3000, "rate": 20_000.0},
    "many nodes": {"nodes": 130, "messages": 1500, "rate": 2000.0},
    "heavy tails": {"nodes": 10, "messages": 3000, "rate": 500.0, "delay": "lognormal:20:2"},
    "repeated": {"nodes": 10, "messages": 2000, "rate": 500.0, "duplication": 0.3},
    "lossy": {"nodes": 10, "messages": 2000, "rate": 500.0, "loss": 0.002, "duplication": 0.1},
    "one sender": {"nodes": 6, "messages": 2000, "rate": 500.0, "skew": 10.0},
    "faults": {
        "nodes": 10,
        "messages": 2000,
        "rate": 500.0,
        "faults": (
            Fault("pause", node=1, at_s=0.5, for_s=1.0),
            Fault("cut", nodes=(0, 2), others=(3, 4), at_s=1.0, for_s=0.2, holds=True),
            Fault("crash", node=5, at_s=1.5),
            Fault("crash", node=6, after_sends=700),
        ),
    },
}


@pytest.mark.parametrize("protocol", ERRING)
@pytest.mark.parametrize("load", LOADS)
def test_agrees_with_the_audit_on_longer_runs(protocol, load):
    """Long enough for arrays to grow and for slots to be used many times over."""
    scenario = Scenario(protocol=protocol, seed=7, parameters=ERRING[protocol], **LOADS[load])
    seen = observe(scenario)
    check_agreement(seen)
    # Without a trace to write, the engine takes a quicker way.
    quick = simulate(scenario)
    assert quick.violations == seen.result.violations
    assert (quick.lost, quick.duplicates) == (seen.result.lost, seen.result.duplicates)
    assert seen.report.deliveries > 0
    if protocol == "vector":
        assert seen.report.violations == seen.report.duplicates == 0
    else:
        assert seen.report.violations > 0


# Errors so rare that nodes are hardly ever behind when they meet one, and losses so rare that
# slots are used again for long before the first of them.
RARE = {
    "errors": {"rate": 100.0},
    "many in flight": {"rate": 1500.0, "delay": "normal:300:5"},
    "repeated": {"rate": 60.0, "duplication": 0.05},
    "lossy": {"rate": 60.0, "loss": 2e-5},
    "lossy and repeated": {"rate": 60.0, "loss": 2e-5, "duplication": 0.1},
    "cut": {
        "rate": 60.0,
        "faults": (
            Fault("cut", nodes=(0,), others=(1,), at_s=100.0, for_s=0.1),
            Fault("crash", node=3, at_s=200.0),
        ),
    },
}


@pytest.mark.parametrize(
    ("protocol", "load"),
    [
        *(("unordered", load) for load in RARE),
        *(("probabilistic", load) for load in list(RARE)[:2]),
    ],
)
def test_agrees_with_the_audit_when_errors_are_rare(protocol, load):
    parameters = {"entries": 10} if protocol == "probabilistic" else {}
    for seed in range(5):
        fields = {"nodes": 12, "messages": 15_000, "seed": seed, **RARE[load]}
        seen = observe(Scenario(protocol=protocol, parameters=parameters, **fields))
        with repeat(f"seed {seed}"):
            check_agreement(seen)
        assert seen.report.violations > 0


@pytest.mark.parametrize("delay", ["exponential:50", "uniform:1:200"])
def test_agrees_with_the_audit_when_more_are_in_flight_than_have_bits(delay):
    """The missing message has no bit, at a node without earlier errors."""
    scenario = Scenario(
        protocol="probabilistic",
        nodes=60,
        messages=3000,
        rate=3000.0,
        delay=delay,
        seed=7,
        parameters={"entries": 1000, "per_process": 3},
    )
    seen = observe(scenario)
    check_agreement(seen)
    assert seen.report.violations > 0
    assert simulate(scenario).violations == seen.result.violations


@pytest.mark.parametrize("protocol", ERRING)
def test_switched_off_it_changes_nothing_else(protocol):
    scenario = Scenario(
        protocol=protocol, nodes=8, messages=800, rate=500.0, parameters=ERRING[protocol]
    )
    on, off = observe(scenario), observe(scenario.replace(oracle=False))
    assert (on.rows == off.rows).all()
    assert off.result.violations is None
    assert off.result.duplicates is None
    assert off.result.deliveries == on.result.deliveries
