"""All that a step of a live member leaves, as one value that two members can be compared by."""

from typing import NamedTuple


class Shown(NamedTuple):
    """What one run of a node gave, down to the last byte, and what it was left with."""

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
    reports = (output.broadcasts, output.evicted, output.left, output.malformed)
    counts = tuple(node.counts().items())
    left = (node.next_timer_ns, node.credit, node.own_stable, node.is_fenced, counts)
    return Shown(
        member, frames, deliveries, tuple(map(bytes, output.trace)), _frozen(reports), left
    )


def _frozen(value):
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def difference(one, other, where="runs"):
    """Where the two first differ, in words, or None if they do not at all."""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        names = getattr(one, "_fields", range(len(one)))
        for name, mine, its in zip(names, one, other, strict=False):
            if found := difference(mine, its, f"{where}.{name}"):
                return found
        return None if len(one) == len(other) else f"{where}: {len(one)} against {len(other)}"
    if type(one) is bytes and type(other) is bytes and one != other:
        end = min(len(one), len(other))
        at = next((at for at in range(end) if one[at] != other[at]), end)
        return f"{where}: byte {at} of {len(one)} against {len(other)}"
    return None if one == other else f"{where}: {one!r} against {other!r}"


def body_of(shown, target):
    """What goes to one member, of all frames of a run."""
    return b"".join(common + dict(own).get(target, b"") for common, own, _ in shown.frames)
