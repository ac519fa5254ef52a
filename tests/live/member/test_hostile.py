"""Malformed items for each protocol: it refuses them, and continues for the others."""

import functools
import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.live.member import arrays, records
from precedes.live.member.node import Node, Room, Settings
from precedes.protocols.dcs import components
from precedes.protocols.dcs.state import GENERATION_MASK, GENERATIONS
from precedes.registry import linked, load
from tests.support import bodies, byzantine, edited
from tests.support.convictions import assert_convicted
from tests.support.hostile import ALL, FEW, Scene
from tests.support.network import Network
from tests.support.processes import printed

VARIANTS = [*((name, {}) for name in linked()), ("dcs", {"detector": "hash"})]


@pytest.mark.parametrize("protocol", linked())
def test_lies_are_refused_and_spoil_nothing(protocol):
    """Interpreted, with arrays that know no negative index."""
    assert Scene(protocol, protocol).judge() > 140


@pytest.mark.swarm
@pytest.mark.parametrize("seed", range(1, 12))
@pytest.mark.parametrize(("protocol", "parameters"), VARIANTS, ids=str)
def test_lies_in_other_groups(protocol, parameters, seed):
    assert Scene(protocol, protocol, seed=seed, **parameters).judge(much=ALL) > 140


@pytest.fixture(scope="module")
def scenes():
    """A scene of each protocol, with its lies."""
    return {name: (scene := Scene(name, name), [*scene.lies(**FEW)]) for name in linked()}


@settings(max_examples=60)
@given(st.data())
def test_one_lie_upon_the_other_spoils_nothing(scenes, data):
    """A member that is not thrown out at once goes on lying."""
    scene, lies = scenes[data.draw(st.sampled_from(linked()))]
    scene.stack(data.draw(st.lists(st.sampled_from(lies), min_size=2, max_size=5)))


def test_the_same_convicts_who_lets_everything_in(tmp_path):
    """The twin: with tests of its own, `bundled` would look up who tests whom."""
    mutant = edited.protocol(tmp_path, "bundled", CLAUSES["bundled: its detector"])
    scene = Scene(mutant, "bundled")
    numbers = [lie for lie in scene.lies(**FEW) if lie.name.startswith("a number")]
    assert_convicted("everything", [functools.partial(scene.stack, numbers[:5])], "fell")


@pytest.mark.swarm
@pytest.mark.parametrize(("protocol", "parameters"), VARIANTS)
def test_the_same_compiled_with_bounds_checks(protocol, parameters):
    """In a process of its own: code without the checks would be loaded in this one."""
    text = (
        "import json, sys\n"
        "from tests.support.hostile import Scene\n"
        "name, given = json.loads(sys.argv[1])\n"
        "print(Scene(name, name, compiled=True, **given).judge())\n"
    )
    given = json.dumps([protocol, parameters])
    assert int(printed("-c", text, given, env={"PRECEDES_BOUNDS_CHECKS": "1"})) > 150


# What is taken out of ``admits`` and of what it calls.
CLAUSES = {
    "vector: everything": ("admits", "bool(...)", "True"),
    "vector: the counts": ("admits", "clocks.are_counts(...)", "True"),
    "vector: the sender's own": ("admits", "need[source] == host.sequence_of(...) - 1", "True"),
    "vector: ours": ("admits", "need[me] <= state.clock[here, me]", "True"),
    "probabilistic: everything": ("admits", "clocks.are_sums(...)", "True"),
    "hashed: the sums": ("admits", "clocks.are_sums(...)", "True"),
    "hashed: the hash": ("admits", "0 <= state.past[value] <= ...", "True"),
    "hashed: requests": ("admits", "requests.is_possible(...)", "True"),
    "dcs: what it names": ("admits", "_is_sound(...)", "True"),
    "dcs: the hash": ("admits", "0 <= state.past[value] <= ...", "True"),
    "dcs: the hits": ("admits", "_are_hits(...)", "True"),
    "dcs: rounds": ("admits", "value >= 0", "True"),
    "dcs: nobody asks": (
        "admits",
        "if state.has_detector == 0: return False",
        "if state.has_detector == 0: return True",
    ),
    "bundled: its detector": ("admits", "tag <= ACK", "True"),
    "failure_detector: its detector": ("admits", "tag == DATA", "True"),
    "vcube: the stamp": ("admits", "_is_stamp(...)", "True"),
    "vcube: entries": (
        "_is_stamp",
        "stamp[ENTRIES] < 0 or stamp[ENTRIES] >= state.nodes or ...",
        "...",
    ),
    "vcube: stable": ("_is_stamp", "not 0 <= stamp[STABLE] <= sequence", "False"),
    "vcube: members": ("_is_stamp", "not before < node < state.nodes", "False"),
    "vcube: counts": ("_is_stamp", "not 0 <= count <= ...", "False"),
}
# Without these an index or a count is out of range; without the others the input is believed.
FALL = {
    "hashed: the hash", "hashed: requests", "bundled: its detector", "vcube: the stamp",
    "vcube: entries", "vcube: members",
}  # fmt: skip


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_that_is_missing_is_noticed(tmp_path, clause):
    protocol = clause.partition(":")[0]
    mutant = edited.protocol(tmp_path, protocol, CLAUSES[clause])
    scene = Scene(mutant, protocol)
    assert_convicted(clause, [scene.judge], "fell" if clause in FALL else "believed")


DIRECT = ("vector", "probabilistic", "hashed", "dcs", "unordered", "failure_detector")


@pytest.mark.parametrize("protocol", DIRECT)
def test_a_message_comes_from_its_source_and_once(protocol):
    """Whatever a clock says of it: counted twice, it would be delivered twice."""
    scene = Scene(protocol, protocol)
    message = next(item for record in scene.parsed[0] for item in record.items or [])
    lies = {"of another": [replace(message, source=1)], "twice": [message, message]}
    for name, items in lies.items():
        scene.restore()
        body = scene.layout.build([bodies.Record(bodies.PACKET, (), items)])
        assert scene.tell([(2, body)]).malformed == [(2, -records.MISROUTED)], name


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
def test_nobody_but_a_source_says_that_it_has_finished(protocol):
    """Over a tree, those who are above in it pass that on."""
    node = Node(Settings(member=0, members=8, protocol=protocol))
    node.start()
    down = functools.partial(struct.pack, "<BHIB", records.DOWN)
    node.receive(1, down(6, 0, 1))
    assert node.run(0).malformed == ([] if protocol == "vcube" else [(1, -records.MISROUTED)])
    node.receive(4, down(1, 0, 1))
    assert node.run(0).malformed == [(4, -records.MISROUTED)]
    assert node.member.known[1, arrays.FINISHED] == 0
    node.receive(1, down(1, 0, 1))
    assert node.run(0).malformed == []
    assert node.member.known[1, arrays.FINISHED] == 1


def test_a_generation_never_becomes_too_large_to_travel():
    """A peer leads the others to the last one there is; after it comes the first, for all."""
    given = {"component_entries": 2, "components": 2, "components_max": 4}
    network = Network("dcs", 3, 1, parameters=given)
    attacker = network.nodes[2]
    half = GENERATION_MASK // 2
    for claimed in (half, 2 * half, GENERATION_MASK):
        attacker.state.dcs.part.generation[0, 1] = claimed
        network.broadcast(2)
        network.settle()
        assert {int(node.state.dcs.part.generation[0, 1]) for node in network.nodes} == {claimed}
    node = network.nodes[0]
    components.remove(node.state.dcs, 0, 1)
    components.activate(node.state.dcs, 0, 2, node.member.host)
    assert node.state.dcs.part.generation[0, 1] == 0
    for _ in range(3):
        for i in range(3):
            network.broadcast(i)
        network.settle()
    assert network.refused == []
    assert network.lacking() == []
    assert all(node.state.dcs.part.generation[0, 1] == 0 for node in network.nodes)
    assert (node.state.stamp[:, GENERATIONS:] >= 0).all()


def test_newer_generations_are_half_of_all():
    half = GENERATION_MASK // 2
    for one in (0, 1, half, GENERATION_MASK):
        assert not components.is_newer(one, one)
        assert components.is_newer((one + 1) & GENERATION_MASK, one)
        assert not components.is_newer(one, (one + 1) & GENERATION_MASK)
        assert components.is_newer((one + half) & GENERATION_MASK, one)
        assert not components.is_newer((one + half + 1) & GENERATION_MASK, one)


def test_a_message_behind_a_round_is_let_go():
    """No correct process sends one there; it must not be kept forever."""
    one, other = (Node(Settings(member=i, members=3, protocol="dcs")) for i in (0, 2))
    for node in (one, other):
        node.start()
    other.broadcast(b"x")
    body = byzantine.body_for(other.run(0), 0)
    assert body[:3] == struct.pack("<BH", records.PACKET, 1)
    one.receive(2, struct.pack("<BHBq", records.PACKET, 2, 7, 0) + body[3:])
    assert one.run(0).deliveries == []
    assert one.counts()["pending"] == 0


@pytest.mark.parametrize("protocol", linked())
def test_a_packet_of_many_messages_is_no_defect_here(protocol):
    """No member sends this many at once, but they are within the window."""
    given = {"members": 2, "protocol": protocol, "window": 128}
    one, other = (Node(Settings(member=i, **given), room=Room(slots=16)) for i in (0, 1))
    for node in (one, other):
        node.start()
    other.broadcast_many([b""] * 100)
    layout = bodies.Layout(load(protocol))
    said = layout.parse(
        byzantine.body_for(other.run(0), 0) + byzantine.body_for(other.run(10**7), 0)
    )
    items = [item for record in said for item in record.items or [] if item.fields is not None]
    one.receive(1, layout.build([bodies.Record(bodies.PACKET, (), items)]))
    output = one.run(0)
    assert output.malformed == []
    assert sum(map(len, output.deliveries)) == len(items) == 100
