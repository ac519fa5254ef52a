"""A member that changes to compiled code in any turn: every byte that it leaves is the same."""

import pytest

from precedes.live.member import credit, effects, records, step
from precedes.live.member.node import Node, Room, Settings
from tests.support.network import Network
from tests.support.warm import LIVE

# `make swarm` compiles the others as well.
OTHERS = ("probabilistic", "dcs", "unordered", "failure_detector")
PROTOCOLS = (*LIVE, *(pytest.param(name, marks=pytest.mark.swarm) for name in OTHERS))
MEMBERS, LOST = 4, 2
SHORT = 28  # turns
LONG = [pytest.param(seed, 90, marks=pytest.mark.swarm) for seed in (3, 4, 5)]


# Room for next to nothing: all that can grow does so on the way, and frames are cut.
TIGHT = Room(slots=4, blocks=2, input_bytes=64, segments=1, trace_rows=1, packets=16)


def run(protocol, seed, turns, *, on_turn=None):
    """A group that loses a member on the way."""
    network = Network(
        protocol, MEMBERS, seed, on_turn=on_turn, room=TIGHT, payload_max_bytes=512,
        test_interval_ms=7.0,
    )  # fmt: skip
    network.random_run(turns, victims=[LOST], until=0.8)
    return network


def left_by(network):
    """All that a run leaves behind: frames, deliveries and logs to the byte, and the arrays."""
    return {
        "frames": network.frames,
        "delivered": network.delivered,
        "rows": network.rows,
        "refused": network.refused,
        "reports": network.reports,
        "gone": [node.is_gone(LOST) for node in network.nodes],
        "timers": [node._timers for node in network.nodes],
        "known": [node.member.known.tobytes() for node in network.nodes],
        "state": [
            [array.tobytes() for array in node.state if hasattr(array, "tobytes")]
            for node in network.nodes
        ],
    }


def differing(one, other):
    """The names of what differs between two runs."""
    one, other = left_by(one), left_by(other)
    return [name for name in one if one[name] != other[name]]


def compiled_step(protocol):
    """The compiled step, as a member loads it."""
    node = Node(Settings(member=0, members=2, protocol=protocol))
    node.prepare()
    return node._body


def grown(network):
    """Names of the arrays that have grown since the members were made."""
    node = network.nodes[0]
    sizes = {
        "slots": node.capacity.slots > TIGHT.slots,
        "blocks": node.member.blocks.link.size > TIGHT.blocks,
        "input": len(node.member.input) > TIGHT.input_bytes,
        "segments": len(node.member.segment) > TIGHT.segments,
    }
    return {name for name, has_grown in sizes.items() if has_grown}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("seed", "turns"), [(2, SHORT), *LONG])
def test_a_switch_in_any_turn_changes_nothing(protocol, seed, turns, live):
    body = compiled_step(protocol)

    def switch_at(number):
        def on_turn(network, turn):
            if turn == number:
                for node in network.nodes:
                    node.use(body)

        return on_turn

    def switch_one_by_one(network, turn):
        """Members of one group are in different tiers for most of the run."""
        if turn % 5 == 0 and turn // 5 < MEMBERS:
            network.nodes[turn // 5].use(body)

    interpreted = run(protocol, seed, turns)
    assert len(interpreted.frames) > turns
    goes_on = interpreted.nodes[0].protocol.on_loss == "crash"
    assert any(node.is_gone(LOST) for node in interpreted.nodes) == goes_on
    assert grown(interpreted) >= {"slots", "input", "segments"}
    assert all(node._body is step.run for node in interpreted.nodes)
    for number in range(interpreted.turns):
        switched = run(protocol, seed, turns, on_turn=switch_at(number))
        assert all(node._body is body for node in switched.nodes)
        assert differing(switched, interpreted) == [], f"seed {seed}, switched in turn {number}"
    assert differing(run(protocol, seed, turns, on_turn=switch_one_by_one), interpreted) == []


PLANTED = {
    "a byte of a frame": (records, "write_up", lambda old: lambda *a: old(*a[:4], 0), {"frames"}),
    "a row of a log": (effects, "trace_event", lambda old: lambda *a: None, {"rows"}),
    "credit": (credit, "apply_down", lambda old: lambda *a: None, {"known"}),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_step_that_differs_is_seen(planted, monkeypatch):
    """The twin: from some turn on the step is another one, if only a little."""
    module, name, made, expected = PLANTED[planted]

    def on_turn(network, turn):
        if turn == 5:
            monkeypatch.setattr(module, name, made(getattr(module, name)))

    same = run("vector", 2, 28)
    assert differing(run("vector", 2, 28), same) == []
    assert set(differing(run("vector", 2, 28, on_turn=on_turn), same)) >= expected
