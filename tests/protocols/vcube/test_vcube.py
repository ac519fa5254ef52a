"""`vcube`: its invariants, with and without crashes.

The worked examples of the paper are transcripts (tests/protocols/test_transcripts.py).
"""

import numpy as np
import pytest

from precedes import registry
from precedes.contract import Capacity, Group
from precedes.errors import UserError
from precedes.model import EventKind
from precedes.protocols import vcube
from precedes.protocols.vcube.recovery import WINDOW
from precedes.sim import Fault, Scenario, simulate
from precedes.sim.engine.rows import NODE, PACKET, SEQUENCE, SOURCE
from precedes.testing import observe
from tests.support import trees, vcube_checks
from tests.support.seeds import repeat


@pytest.mark.usefixtures("engine")
class TestCompiled:
    """Invariants on compiled runs, most of them by the trace alone."""

    def test_everything_once_in_order_and_over_no_edge_twice(self):
        for seed in range(1000, 1200):
            scenario = vcube_checks.scenario(seed)
            with repeat(f"seed {seed}, {scenario}"):
                vcube_checks.check_everything(scenario, observe(scenario, packets=True))

    @pytest.mark.parametrize("nodes", [64, 100, 128])
    def test_larger_groups(self, nodes):
        for seed in range(2):
            scenario = vcube_checks.scenario(seed, nodes=nodes, workload="window:300:2")
            vcube_checks.check_everything(scenario, observe(scenario, packets=True))

    def test_survivors_of_crashes_agree(self):
        crashed = discarded = 0
        for seed in range(1000, 1250):
            scenario = vcube_checks.with_crashes(seed)
            with repeat(f"seed {seed}, {scenario}"):
                seen = observe(scenario)
                crashed += vcube_checks.check_survivors(scenario, seen)
            discarded += seen.result.extra["discarded"]
        assert crashed > 1000, "too few crashes to show anything"
        assert discarded > 50, "too few messages died with their sources to show anything"

    def test_small_groups_that_crash_in_a_hurry(self):
        for seed in range(1000, 1200):
            scenario = vcube_checks.with_few_left(seed)
            with repeat(f"seed {seed}, {scenario}"):
                vcube_checks.check_survivors(scenario, observe(scenario))

    @pytest.mark.parametrize("nodes", [2, 3, 16, 37, 64, 100, 128])
    def test_delivery_is_not_later_with_aggregation(self, nodes):
        """Fixed latencies, no queue, no MTU: the same mean to the last digit."""
        for seed in range(3):
            base = Scenario(
                protocol="vcube",
                nodes=nodes,
                workload="window:400:2",
                delay="lognormal:80:1",
                per="link",
                seed=seed,
            )
            on, off = (
                simulate(base.replace(parameters={"aggregation": aggregation}))
                for aggregation in (True, False)
            )
            assert on.latency.delivery_mean == off.latency.delivery_mean
            assert on.latency.p99 == off.latency.p99
            assert on.packets <= off.packets == off.messages_sent == on.messages_sent
            if nodes >= 16:
                assert on.packets < off.packets
                assert on.latency.reception_mean > off.latency.reception_mean

    def test_a_queue_makes_the_difference(self):
        """The twin: with a send queue the two means are not the same."""
        base = Scenario(
            protocol="vcube",
            nodes=64,
            workload="window:400",
            delay="lognormal:80:1",
            per="link",
            transmission_ms=1.0,
        )
        on, off = (
            simulate(base.replace(parameters={"aggregation": aggregation})).latency
            for aggregation in (True, False)
        )
        assert on.delivery_mean != off.delivery_mean

    def test_a_shared_tree(self):
        """Everything passes node 0, the root; messages of others go up to it first."""
        scenario = Scenario(
            protocol="vcube",
            nodes=13,
            workload="window:300:3",
            delay="spiky:10:300",
            parameters={"trees": "shared", "tolerant": False},
        )
        seen = observe(scenario, packets=True)
        vcube_checks.check_order(seen)
        n, result = scenario.nodes, seen.result
        assert result.messages_sent == 3 * n * (n - 1) + 3 * (n - 1)
        sent = seen.of(EventKind.SEND)
        received = seen.of(EventKind.RECEIVE)
        target = {(row[PACKET], row[SOURCE], row[SEQUENCE]): row[NODE] for row in received.tolist()}
        for row in sent.tolist():
            to = target[row[PACKET], row[SOURCE], row[SEQUENCE]]
            up = row[NODE] == row[SOURCE] and to == 0
            assert up or trees.parent(to, 0, n) == row[NODE]

    def test_kept_messages_are_let_go(self):
        """In a long run nobody keeps much more than what is in flight."""
        scenario = Scenario(protocol="vcube", nodes=8, messages=8000, rate=200.0)
        result = simulate(scenario)
        assert result.extra["kept_at_end"] < 8 * 8 * WINDOW
        assert result.pending_at_end == result.lost == 0

    def test_silent_nodes_acknowledge(self):
        """One node alone broadcasts: the others tell it what they have, now and then."""
        scenario = Scenario(protocol="vcube", nodes=8, messages=8000, rate=200.0, skew=10.0)
        result = simulate(scenario)
        window = WINDOW
        assert result.extra["kept_at_end"] < 8 * (2 * window + 100)
        assert 0 < result.packets_by_messages[0] < 2 * 8 * 8000 / window

    def test_a_crash_without_tolerance_loses_messages(self):
        """The twin of the tests with crashes: without the method, survivors differ."""
        lost = 0
        for seed in range(20):
            tolerant = vcube_checks.with_crashes(seed)
            scenario = tolerant.replace(parameters={"tolerant": False})
            seen = observe(scenario)
            assert seen.report.violations == seen.report.duplicates == 0
            lost += seen.result.lost > 0
        assert lost > 5

    def test_what_died_with_its_source_is_discarded(self):
        """Node 1 alone gets the message of node 0, answers it, and both are gone."""
        faults = (
            Fault("crash", node=0, after_sends=1, detection_ms=(300.0, 300.0)),
            Fault("crash", node=1, after_sends=2, detection_ms=(300.0, 300.0)),
        )
        base = Scenario(protocol="vcube", nodes=4, workload="window:100:4", delay="constant:10")
        found = 0
        for seed in range(40):
            scenario = base.replace(seed=seed, faults=faults)
            seen = observe(scenario)
            vcube_checks.check_survivors(scenario, seen)
            noted = len(seen.of(EventKind.DISCARD))
            assert seen.result.extra["discarded"] == noted
            found += noted > 0
        assert found > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trees": "oak"}, "trees must be one of source, shared, not 'oak'"),
        ({"trees": "shared"}, "set tolerant=false with trees=shared"),
        ({"aggregation": "perhaps"}, "aggregation takes true or false"),
        ({"tree": "shared"}, "vcube has no parameter 'tree'"),
    ],
)
def test_bad_parameters(given, message):
    with pytest.raises(UserError, match=message):
        registry.load("vcube").make_parameters(given)


def state_of(*hosted, tolerant=False):
    """The state of these processes of a group of 8."""
    group = Group(nodes=8, hosted=np.array(hosted, np.int32), seed=1)
    parameters = vcube.Parameters(tolerant=tolerant)
    return vcube.allocate(parameters, group, Capacity(slots=16, reserve_bytes=1))


def test_nodes_are_counted_by_what_waited_at_them():
    state = state_of(*range(8))
    state.process.waiting_max[:] = [0, 50, 51, 100, 101, 200, 250, 251]
    names = ("up_to_50", "51_to_100", "101_to_150", "151_to_200", "201_to_250", "over_250")
    counts = vcube.extra(state)
    assert [counts[f"nodes_waiting_{name}"] for name in names] == [2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("tolerant", [False, True])
def test_one_hosted_process_is_counted_once(tolerant):
    """Its tables have a second row, which is nobody's."""
    counts = vcube.extra(state_of(4, tolerant=tolerant))
    assert sum(count for name, count in counts.items() if name.startswith("nodes_waiting")) == 1
    assert counts["waiting_at_end"] == counts["kept_at_end"] == 0


def test_a_group_too_large_for_the_memory_is_refused_at_once():
    with pytest.raises(UserError, match=r"needs .* GiB, more than memory_max_bytes"):
        simulate(
            Scenario(
                protocol="vcube",
                nodes=65_536,
                workload="window:1",
                oracle=False,
                memory_max_bytes=8 << 30,
            )
        )
