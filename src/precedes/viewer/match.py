"""Whether two logs are of one scenario, so that they can be shown in lockstep."""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes.errors import UserError
from precedes.viewer.events import BROADCAST, Events

NAMES_MAX: Final = 3
DRAWN: Final = ("seed", "workload", "rate", "messages", "duration_s", "skew")  # make broadcasts


def check_match(one: Events, other: Events) -> None:
    """Raise unless the nodes are the same, and the messages that each of them broadcast.

    A log that ends earlier than the other may lack the last messages of a node.
    """
    if set(one.nodes) != set(other.nodes):
        odd = sorted(set(one.nodes) ^ set(other.nodes))
        more = ", ..." if len(odd) > NAMES_MAX else ""
        raise UserError(
            f"{one.title} and {other.title} are not of one scenario: {len(one.nodes):,} and "
            f"{len(other.nodes):,} nodes, of which only one has {', '.join(odd[:NAMES_MAX])}{more}"
        )
    for name in DRAWN:
        mine, others = one.scenario.get(name), other.scenario.get(name)
        if one.scenario and other.scenario and mine != others:
            raise UserError(
                f"{one.title} and {other.title} are not of one scenario: {name} is {mine} in one "
                f"and {others} in the other"
            )
    first, second = _sent(one), _sent(other)
    for node in one.nodes:
        for a, b in zip(first.get(node, []), second.get(node, []), strict=False):
            if a != b:
                raise UserError(
                    f"{one.title} and {other.title} are not of one scenario: node {node} broadcast "
                    f"{a} in one and {b} in the other"
                )
    if not any(set(first.get(node, [])) & set(second.get(node, [])) for node in one.nodes):
        raise UserError(
            f"{one.title} and {other.title} are not of one scenario: no message is in both"
        )


def _sent(events: Events) -> dict[str, list[str]]:
    """The names of what each node broadcast, in order."""
    found: dict[str, list[tuple[int, int]]] = {}
    for chunk in events.chunks():
        sent = chunk.at(np.flatnonzero(chunk.kind == BROADCAST))
        columns = (sent.node.tolist(), sent.local_seq.tolist(), sent.message.tolist())
        for node, local_seq, message in zip(*columns, strict=True):
            found.setdefault(events.nodes[node], []).append((local_seq, message))
    return {
        node: [events.name_of(message) for _, message in sorted(rows)]
        for node, rows in found.items()
    }
