"""Members whose clocks claim what never was: nodes of a protocol with one count changed by hand."""

from precedes.live.member.node import Node

ABOUT = 1  # whose messages a byzantine claims to have delivered


def _vector(node, ahead):
    node.state.clock[0, ABOUT] += ahead


def _vcube(node, ahead):
    node.state.clock.delivered[0, ABOUT] += ahead


def _hits(node, ahead):
    """An entry that nobody but the other member hits, or the bound would be a sum of windows."""
    own = node.state.own
    (entry,) = set(own[ABOUT]) - set(own[[x for x in range(len(own)) if x != ABOUT]].ravel())
    node.state.clock[0, entry] += ahead


def _component(node, ahead):
    """Any message may hit any entry of a component: as many windows as there are others."""
    others = node.settings.members - 1
    node.state.dcs.clock[0, 0] += others * (ahead // node.settings.window * node.settings.window)
    node.state.dcs.clock[0, 0] += ahead % node.settings.window


LIES = {
    "vector": _vector,
    "vcube": _vcube,
    "probabilistic": _hits,
    "hashed": _hits,
    "dcs": _component,
}
# One entry for a member: which of them nobody else hits is known then.
PARAMETERS = {name: {"entries": 64, "per_process": 1} for name in ("probabilistic", "hashed")}


def broadcast_claiming(settings, ahead, *, target):
    """Bytes of a member to another that claim a number of messages of a third one."""
    node = Node(settings)
    node.start()
    LIES[settings.protocol](node, ahead)
    node.broadcast(b"false")
    return body_for(node.run(0, force=True), target)


def body_for(output, target):
    """All that a node sends to one member."""
    return b"".join(common + own.get(target, b"") for common, own, _ in output.frames)
