"""Live members without sockets: frames that arrive in any order of links, members that are lost."""

from precedes.registry import load
from tests.support.network import Network, out_of_order
from tests.support.swarm.counts import Schedule

SURVIVES = ("vector", "vcube", "bundled")  # what a lost member has sent is passed on
PROTOCOLS = (*SURVIVES, "hashed")
MEMBERS = 8


def check(protocol, seed, directory):
    """A random run of a group, in which up to three members are lost; nobody lacks a message."""
    network = Network(protocol, MEMBERS, seed)
    count = seed % 4 if protocol in SURVIVES else 0
    network.random_run(300, victims=network.rng.sample(range(MEMBERS), count))
    assert network.refused == []
    lacking = network.lacking()
    assert not lacking, f"a member lacks messages: {lacking[:5]}"
    if load(protocol).guarantee == "causal":
        assert out_of_order(network.order) == []
        got = {
            tuple(sorted(m[:2] for m in network.delivered[i] if m.sender in network.dead))
            for i in network.alive
        }
        assert len(got) == 1, "survivors differ in what they delivered of the lost"
    faults = frozenset({"crash"} if count else ())
    return Schedule(faults, sum(map(len, network.delivered)))
