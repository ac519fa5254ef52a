"""Live members without sockets: frames that arrive in any order of links, members that are lost."""

from precedes.registry import load
from tests.support.network import Network, out_of_order
from tests.support.swarm.counts import Schedule

PROTOCOLS = ("vector", "vcube", "bundled", "hashed")
MEMBERS = 8


def check(protocol, seed, directory):
    """A random run of an epoch; nobody lacks a message.

    Up to three members are lost if the protocol goes on without them in the same epoch.
    """
    network = Network(protocol, MEMBERS, seed)
    count = seed % 4 if load(protocol).on_loss == "crash" else 0
    network.random_run(300, victims=network.rng.sample(range(MEMBERS), count))
    for _ in range(10):  # bundles wait for a while
        network.settle()
    assert network.refused == []
    lacking = network.lacking()
    assert not lacking, f"a member lacks messages: {lacking[:5]}"
    if load(protocol).guarantee == "causal":
        assert out_of_order(network.order) == []
    return Schedule(sum(map(len, network.delivered)))
