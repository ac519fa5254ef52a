"""All that a step of a live member leaves, as one value that two members can be compared by."""

from typing import NamedTuple


class Shown(NamedTuple):
    """The output of one run of a node, down to the last byte, and its state afterwards."""

    member: int
    frames: tuple  # (bytes for all, ((target, bytes), ..), ((target, bytes of messages), ..))
    deliveries: tuple  # batches of (sender, sequence, payload)
    rows: tuple  # of the log, as bytes
    reports: tuple
    left: tuple  # timers, credit and counts


def show(member, node, output):
    """Take all of an output down before somebody takes it apart; orders are part of it."""
    frames = tuple(
        (bytes(common), tuple(own.items()), tuple(messages_bytes.items()))
        for common, own, messages_bytes in output.frames
    )
    deliveries = tuple(
        tuple((message.sender, message.sequence, bytes(message.payload)) for message in batch)
        for batch in output.deliveries
    )
    reports = (output.broadcasts, output.suspected, output.malformed)
    counts = tuple(node.counts().items())
    left = (node.next_timer_ns, node.credit, node.own_stable, counts)
    return Shown(
        member, frames, deliveries, tuple(map(bytes, output.trace)), _frozen(reports), left
    )


def _frozen(value):
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
