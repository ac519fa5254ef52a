"""`hashed` under random schedules: order whatever the network does."""

import random

import pytest

from precedes import simulate
from precedes.errors import UserError
from precedes.live.member.node import Node, Settings
from precedes.sim import Scenario
from precedes.testing import check_scenario, observe, random_scenario
from tests.support import warm
from tests.support.network import Network, out_of_order


def parameters(seed):
    """Clocks that err all the time, and every way to treat what is suspect."""
    draw = random.Random(seed)
    entries = draw.choice((1, 2, 3, 5, 8))
    return {
        "entries": entries,
        "per_process": draw.randint(1, min(entries, 3)),
        "hashes": draw.choice((1, 5, 100)),
        "search": draw.choice(("peeling", "literal")),
        "grace_ms": draw.choice((0.0, 0.0, 5.0, 100.0)),
        "retry": draw.random() < 0.5,
        "sender_order": draw.random() < 0.5,
    }


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("search", ["literal", "peeling"])
def test_a_search_gives_the_same_in_every_way(seed, search):
    """Compiled and interpreted, with little room, and whatever is recorded."""
    warm.up()
    scenario = random_scenario("hashed", seed)
    given = parameters(seed) | {"search": search}
    seen = check_scenario(scenario.replace(parameters=given, messages=min(scenario.messages, 40)))
    assert seen.result.extra["hashes"] > 0


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"search": "fast"}, "search must be peeling or literal, not 'fast'"),
        ({"detector": "none"}, "detector must be hash or mostefaoui, not 'none'"),
        ({"hash_bits": 63}, "hash_bits must be between 1 and 62"),
    ],
)
def test_what_nobody_knows_is_refused(given, match):
    with pytest.raises(UserError, match=match):
        simulate(Scenario(protocol="hashed", nodes=3, messages=5, parameters=given))


ERRING = Scenario("hashed", nodes=12, messages=80, rate=60.0)


@pytest.mark.parametrize(("bits", "collides"), [(4, True), (62, False)])
def test_narrow_hashes_collide_and_wide_ones_do_not(bits, collides):
    """Of the sets that a small clock leaves, one in 16 has the hash of 4 bits."""
    given = {"entries": 4, "hashes": 20, "grace_ms": 20.0, "hash_bits": bits}
    result = simulate(ERRING.replace(parameters=given), tier="interpreted")
    assert result.lost == result.duplicates == 0
    assert (result.violations.deliveries > 0) == collides


def test_mostefaouis_detector_asks_and_still_errs():
    """Active: what it suspects waits for the answer; all comes, but not all in order."""
    scenario = ERRING.replace(parameters={"entries": 8, "detector": "mostefaoui"})
    report = observe(scenario, tier="interpreted")
    result = report.result
    assert result.lost == result.duplicates == result.pending_at_end == 0
    assert result.extra["requests"] > 100
    assert result.extra["hashes"] == 0
    assert result.violations.deliveries == report.report.violations > 0


@pytest.mark.parametrize("given", [{"detector": "mostefaoui"}, {"hash_bits": 32}])
def test_what_lets_errors_pass_is_refused_in_a_live_group(given):
    with pytest.raises(UserError, match="let errors pass"):
        Node(Settings(protocol="hashed", member=0, members=3, parameters=given))


def test_the_same_schedules_convict_the_clock_alone():
    """The twin: the same clocks without the hash are out of order again and again."""
    warm.up()
    wrong = 0
    for seed in range(30):
        given = parameters(seed)
        clock = {name: given[name] for name in ("entries", "per_process")}
        scenario = random_scenario("probabilistic", seed).replace(parameters=clock)
        wrong += observe(scenario).report.violations > 0
    assert wrong > 5


@pytest.mark.parametrize(("nodes", "log"), [(4, 512), (40, 64)])
def test_the_log_is_bounded(nodes, log):
    """A run of 20 logs: what everybody has delivered is let go, and the ring is the limit."""
    warm.up()
    scenario = Scenario(
        protocol="hashed",
        nodes=nodes,
        messages=20 * log,
        parameters={"log": log, "entries": 20, "per_process": 2},
    )
    result = simulate(scenario)
    assert result.lost == result.violations.deliveries == 0
    assert result.extra["requests_unanswered"] == 0
    # Four nodes hear from everybody every few messages, forty do not: there the ring is full.
    assert result.extra["log_max"] < log if nodes == 4 else result.extra["log_max"] == log


def test_a_request_that_comes_too_late_is_counted():
    """At the bound: the sender has forgotten, and says so; nothing is delivered out of order."""
    warm.up()
    lost = unanswered = 0
    for seed in range(1, 9):
        scenario = Scenario(
            protocol="hashed",
            nodes=30,
            messages=3000,
            rate=400.0,
            seed=seed,
            parameters={"entries": 4, "log": 64, "grace_ms": 0.0, "hashes": 1, "retry": False},
        )
        result = simulate(scenario)
        assert result.violations.deliveries == result.duplicates == 0
        unanswered += result.extra["requests_unanswered"]
        lost += result.lost
    assert unanswered > 0
    assert lost > 0


# All broadcast at once: what one process has delivered and another lacks goes into the hundreds.
BURST = Scenario(protocol="hashed", nodes=3, messages=300, rate=1e6, delay="uniform:1:9")
DETECTING = pytest.mark.parametrize(
    ("protocol", "given"), [("hashed", {}), ("dcs", {"detector": "hash"})]
)


@DETECTING
def test_a_burst_of_concurrent_messages_is_delivered_without_waiting(protocol, given):
    """Nothing is missing for long, so nothing is suspected, awaited or asked about."""
    seen = observe(BURST.replace(protocol=protocol, parameters=given), tier="interpreted")
    assert seen.report.verdict == "held"
    assert seen.result.lost == 0
    assert seen.result.extra["accepted"] == seen.result.deliveries
    assert (seen.result.extra["suspected"], seen.result.extra["requests"]) == (0, 0)


def test_a_burst_in_a_group_larger_than_its_clock_is_asked_about_at_once():
    """Requests overlap, so that a burst takes about as long as one request, not a grace each."""
    scenario = BURST.replace(nodes=6, messages=120, parameters={"entries": 5})
    seen = observe(scenario, tier="interpreted")
    assert seen.report.verdict == "held"
    assert seen.result.lost == 0
    assert seen.result.extra["requests"] > 100
    assert seen.result.simulated_s < 0.5


@DETECTING
def test_a_live_group_has_a_clock_that_tells_its_members_apart(protocol, given):
    """A clock far too small for what the window lets be in flight is made large enough."""
    small = {"hashed": {"entries": 2}, "dcs": {"component_entries": 2}}[protocol]
    network = Network(protocol, 5, 1, parameters=given | small)
    for _ in range(30):
        for member in range(5):
            network.broadcast(member)
    network.settle()
    assert network.lacking() == []
    assert out_of_order(network.order) == []
    counts = [node.state.counts for node in network.nodes]
    assert sum(count.accepted[0] for count in counts) == 4 * 150
    assert sum(count.suspected[0] + count.requests[0] for count in counts) == 0


def test_the_printed_search_is_refused_where_more_is_in_flight_than_it_looks_at():
    settings = {
        "member": 0,
        "members": 3,
        "protocol": "hashed",
        "parameters": {"search": "literal"},
    }
    Node(Settings(**settings, window=32))
    with pytest.raises(UserError, match=r"66 messages can be in flight .* set search to peeling"):
        Node(Settings(**settings, window=33))
