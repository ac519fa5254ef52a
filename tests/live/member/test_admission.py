"""Bounds of a clock: the messages delivered here and a window, of every member."""

import struct

import pytest

from precedes import compiled, contract, registry
from precedes.live.member import records
from precedes.live.member.node import Node, Settings
from precedes.parts import pool
from precedes.parts.hash_check import requests, set_hash
from precedes.registry import ContractError
from tests.support import edited
from tests.support.byzantine import ABOUT, LIES, PARAMETERS, body_for, broadcast_claiming
from tests.support.network import Network
from tests.support.places import ROOT

WINDOW = 16
ME, BYZANTINE = 0, 2


def settings(protocol, member, *, members=3, **more):
    parameters = {**PARAMETERS.get(protocol, {}), **more}
    return Settings(
        member=member, members=members, protocol=protocol, parameters=parameters, window=WINDOW
    )


def hear(protocol, ahead, delivered=0):
    """Refusals by a member of an attacker that claims more messages than are delivered here."""
    node, about, attacker = (Node(settings(protocol, member)) for member in (ME, ABOUT, BYZANTINE))
    for one in (node, about, attacker):
        one.start()
    for _ in range(delivered):
        about.broadcast(b"true")
    body = about.run(0, force=True)
    for one in (node, attacker):
        one.receive(ABOUT, body_for(body, one.settings.member))
        for batch in one.run(0).deliveries:
            one.consume_batch(batch)
    LIES[protocol](attacker, ahead)
    attacker.broadcast(b"false")
    lie = attacker.run(0, force=True)
    node.receive(BYZANTINE, body_for(lie, ME))
    output = node.run(0)
    assert node.counts()["received"] == delivered + (not output.malformed)
    return [reason for _, reason in output.malformed]


@pytest.mark.parametrize("delivered", [0, 5])
@pytest.mark.parametrize("protocol", LIES)
def test_no_clock_claims_more_than_a_window(protocol, delivered):
    assert hear(protocol, WINDOW, delivered) == []
    assert hear(protocol, WINDOW + 1, delivered) == [5]


@pytest.mark.parametrize("protocol", ["vector", "vcube", "probabilistic", "hashed"])
def test_the_claim_of_our_own_messages_is_exact(protocol, monkeypatch):
    """Nobody has more of them than there are; a component of ``dcs`` counts all together."""
    monkeypatch.setattr("tests.support.byzantine.ABOUT", ME)
    lie = broadcast_claiming(settings(protocol, BYZANTINE), 1, target=ME)
    node = Node(settings(protocol, ME))
    node.start()
    node.receive(BYZANTINE, lie)
    assert [reason for _, reason in node.run(0).malformed] == [5]


@pytest.mark.parametrize(
    ("protocol", "victims"),
    [*((protocol, []) for protocol in LIES), ("vector", [1, 3]), ("vcube", [1, 3]), ("dcs", [2])],
)
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.swarm) for seed in range(2, 12))]
)
def test_what_correct_members_send_is_let_in(protocol, victims, seed):
    """The twin: windows so small that members are as far ahead as they may be."""
    network = Network(protocol, 5, seed, window=2, parameters=PARAMETERS.get(protocol, {}))
    network.random_run(400, victims=victims)
    print(f"seed {seed}")
    assert network.refused == []
    assert network.lacking() == []


@pytest.mark.parametrize("protocol", ["vector", "vcube", "probabilistic", "hashed"])
def test_a_bound_that_is_one_message_tighter_refuses_correct_members(protocol):
    """So the schedules above do come as far as the bound."""
    network = Network(protocol, 5, 1, window=2, parameters=PARAMETERS.get(protocol, {}))
    for node in network.nodes:
        node.registers[contract.WINDOW] -= 1
    network.random_run(400)
    assert network.refused


def admits(protocol, tag, value, **parameters):
    node = Node(settings(protocol, ME, **parameters))
    node.start()
    for _ in range(3):
        node.broadcast(b"")
    node.run(0)
    return contract.admits(node.state, 0, BYZANTINE, tag, value, node.member.host)


@pytest.mark.parametrize(
    ("protocol", "parameters"), [("hashed", {}), ("dcs", {"detector": "hash"})]
)
def test_questions_and_answers_name_what_can_be(protocol, parameters):
    def asks(tag, value):
        return admits(protocol, tag, value, **parameters)

    assert asks(requests.REQUEST, 3)
    assert not asks(requests.REQUEST, 4)
    assert not asks(requests.REQUEST, 0)
    assert asks(requests.DEPENDENCY, set_hash.packed(ABOUT, WINDOW))
    assert not asks(requests.DEPENDENCY, set_hash.packed(ABOUT, WINDOW + 1))
    assert asks(requests.DEPENDENCY, set_hash.packed(ME, 3))
    assert not asks(requests.DEPENDENCY, set_hash.packed(ME, 4))
    assert not asks(requests.DEPENDENCY, set_hash.packed(3, 1))
    assert asks(requests.ANNOUNCE, 3)
    assert asks(requests.ANNOUNCE, requests.FORGOTTEN)
    assert not asks(requests.ANNOUNCE, 4)


def test_an_answer_without_end_takes_no_memory():
    """The sender of a message that cannot be explained names what it needs again and again."""
    node, attacker = (Node(settings("hashed", member, grace_ms=0)) for member in (ME, BYZANTINE))
    for one in (node, attacker):
        one.start()
    attacker.state.hash[0] = 12345  # of messages that never were
    attacker.broadcast(b"suspect")
    node.receive(BYZANTINE, body_for(attacker.run(0), ME))
    assert body_for(node.run(0), BYZANTINE), "nothing was asked"
    part = requests.WHICH_SHIFT
    items = [(requests.DEPENDENCY, 1 << part | set_hash.packed(ABOUT, 1))] * 4000
    body = struct.pack("<BH", records.PACKET, len(items))
    body += b"".join(struct.pack("<BQ", *item) for item in items)
    for _ in range(5):
        node.receive(BYZANTINE, body)
        assert node.run(0).malformed == []
    assert node.state.held.dependencies.mark[pool.COUNT] <= requests.REPEATS_MAX * 3


def test_without_its_detector_nobody_asks_in_dcs():
    assert not admits("dcs", requests.REQUEST, 1)


def test_every_protocol_of_the_package_says_what_it_admits():
    for name in registry.linked():
        assert compiled.registered(contract.admits, registry.load(name).state), name


def test_a_protocol_that_lets_everything_in_is_refused(tmp_path):
    """Also a user's own, in one line, before anything is allocated; a simulation needs none."""
    mute = edited.protocol(tmp_path, "unordered", ("admits", "handler(State)", "lambda body: body"))
    registry.load(mute)
    with pytest.raises(ContractError, match=r"has no admits.*register one") as raised:
        Node(settings(mute, ME))
    assert mute in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_protocol_of_a_user_goes_live():
    fifo = str(ROOT / "examples/fifo_broadcast.py")
    network = Network(fifo, 3, 1, window=2)
    network.random_run(60)
    assert network.refused == []
    assert network.lacking() == []
    node = network.nodes[ME]
    for name in ((BYZANTINE, 1 << 20), (ABOUT, 1)):
        node.member.host.name[:2] = name
        assert not contract.admits(node.state, 0, BYZANTINE, 0, 0, node.member.host)
