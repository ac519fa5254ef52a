"""What a node of ``vcube`` does about crashes: who has what, who must be sent what, what is dead.

de Araujo et al. 2018 leave node failures to future work; this is how they are handled here.

Crash model. Nodes stop for good, at any time, also between two packets of one broadcast. Links
deliver every packet exactly once, in any order, also those of a node that has crashed since. A
failure detector tells every correct node of every crash after some time, and never falsely.

Guarantee among the nodes that do not crash: a message of a correct source reaches everybody; of
a crashed source's messages all deliver the same ones, at least those that any of them delivered;
exactly once and in causal order. A message that needs another which died with its source is
discarded: dropped, counted, and noted in the trace. It holds up nothing else.

How. Every node keeps each message until its source says that everybody has it (*stable*). A
source knows that from the stamps of the others, or from acknowledgements of those who received
``WINDOW`` messages without broadcasting one. When a node learns of the crash of x, it

1. ignores all further packets from x, and leaves x out of its trees;
2. relays the messages of x that it keeps, now and when others arrive, to everybody, and waits
   until everybody has acknowledged them;
3. then tells everybody that it has *ended* with x, and how many of their messages it has. Who
   hears that learns of the crash too, and sends what is missing of its own messages directly;
4. sends its own broadcasts directly until all others have ended with every crash it knows of.
   Until then relays might still pass messages to the dead; afterwards nobody does.

At that moment the node also knows that no live node has, or will ever get, a message of a
crashed source that it lacks: each of them has shown it all that it had after it stopped to
listen to the dead. So gaps in what it has of crashed sources will never close.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.protocols import vcube_waiting as wait
from precedes.protocols.contract import (
    Host,
    Int32s,
    Int64s,
    open_packet,
    put,
    release,
    retain,
    send,
    sequence_of,
)

NONE: Final = -1

# Tags of a packet's items.
DATA: Final = 0  # a message on its way down a tree
DIRECT: Final = 1  # a message from its source, not to be passed on
RELAY: Final = 2  # a message of a crashed source, to be acknowledged
ENDED: Final = 3  # a crashed node, and how many messages of the receiver the sender has
ACKNOWLEDGED: Final = 4  # how many messages of the receiver the sender has
RELAYED: Final = 5  # how many relayed messages have arrived

NODE_BITS: Final = 20  # of a node's number in an ENDED item; the count is above it
NODE_MASK: Final = (1 << NODE_BITS) - 1

ALL: Final = 1 << 31  # more messages than a source can have

WINDOW: Final = 64  # messages of a source that a silent node takes before it acknowledges them

# Words of a process and another node.
CONFIRMED: Final = 0  # how many of my messages it has, as far as I know
ENDS: Final = 1  # how many crashes it has ended with
OUTSTANDING: Final = 2  # relayed messages that it has not acknowledged
TOLD: Final = 3  # how many of its messages I have acknowledged
FIRST: Final = 4  # the messages of it that I keep: a list, in order of arrival
LAST: Final = 5
LIMIT: Final = 6  # its messages beyond this one are dead
WORDS: Final = 7

# Words of a process.
KNOWN: Final = 0  # crashes that it knows of
ANNOUNCED: Final = 1  # and has ended with
DIRECT_FROM: Final = 2  # from this message on it broadcasts directly; 0: over its tree
STABLE: Final = 3  # how many of its own messages everybody has
AT_STABLE: Final = 4  # nodes that have confirmed no more than that
UNACKNOWLEDGED: Final = 5  # relayed messages that somebody has not acknowledged
KEPT: Final = 6  # messages that it keeps
DISCARDED: Final = 7
OWN_WORDS: Final = 8

# Places in ``mark``.
FREE: Final = 0
HIGH: Final = 1
USED: Final = 2


class Recovery(NamedTuple):
    """All arrays are empty when crashes are not tolerated."""

    crashed: NDArray[np.int8]  # process, node: whether it knows of the crash
    order: Int32s  # process, crashes in the order in which it learned of them
    word: Int32s
    own: Int64s
    kept: Int32s  # a pool of (slot, link)
    mark: Int32s


def allocate(*, on: bool, processes: int, nodes: int, rows: int) -> Recovery:
    """Nobody has crashed and nothing is kept; room for keeping ``rows`` messages in all."""
    h, n, r = (processes, nodes, rows) if on else (0, 0, 0)
    word = np.zeros((h * n, WORDS), np.int32)
    word[:, [FIRST, LAST]] = NONE
    word[:, LIMIT] = np.iinfo(np.int32).max
    own = np.zeros((h, OWN_WORDS), np.int64)
    own[:, AT_STABLE] = nodes - 1
    return Recovery(
        crashed=np.zeros((h, n), np.int8),
        order=np.zeros((h, n), np.int32),
        word=word.reshape(-1),
        own=own,
        kept=np.zeros(2 * r, np.int32),
        mark=np.array([NONE, 0, 0], np.int32),
    )


@compiled.function()
def has_room(recovery: Recovery, count: int) -> bool:
    """Whether that many more messages can be kept."""
    return 2 * (recovery.mark[USED] + count) <= recovery.kept.size


@compiled.function(inline=False)
def remember(recovery: Recovery, here: int, source: int, slot: int, host: Host) -> None:
    """Keep a message, behind the others of its source."""
    row = recovery.mark[FREE]
    if row != NONE:
        recovery.mark[FREE] = recovery.kept[row + 1]
    else:
        row = recovery.mark[HIGH]
        recovery.mark[HIGH] = row + 2
    recovery.mark[USED] += 1
    recovery.own[here, KEPT] += 1
    recovery.kept[row] = slot
    recovery.kept[row + 1] = NONE
    at = WORDS * (here * recovery.crashed.shape[1] + source)
    if recovery.word[at + FIRST] == NONE:
        recovery.word[at + FIRST] = row
    else:
        recovery.kept[recovery.word[at + LAST] + 1] = row
    recovery.word[at + LAST] = row
    retain(host, slot)


@compiled.function(inline=False)
def forget(recovery: Recovery, here: int, source: int, stable: int, host: Host) -> None:
    """Let go of a source's messages up to its stable one.

    They are taken from the front of the list: one that overtook others waits for them.
    """
    at = WORDS * (here * recovery.crashed.shape[1] + source)
    row = recovery.word[at + FIRST]
    while row != NONE and sequence_of(host, recovery.kept[row]) <= stable:
        following = recovery.kept[row + 1]
        release(host, recovery.kept[row])
        recovery.kept[row + 1] = recovery.mark[FREE]
        recovery.mark[FREE] = row
        recovery.mark[USED] -= 1
        recovery.own[here, KEPT] -= 1
        row = following
    recovery.word[at + FIRST] = row


@compiled.function(inline=False)
def confirm(recovery: Recovery, here: int, node: int, other: int, count: int, host: Host) -> None:
    """Another node is known to have so many of our messages."""
    at = WORDS * (here * recovery.crashed.shape[1] + other)
    before = recovery.word[at + CONFIRMED]
    if count <= before:
        return
    recovery.word[at + CONFIRMED] = count
    if before == recovery.own[here, STABLE]:
        recovery.own[here, AT_STABLE] -= 1
        if recovery.own[here, AT_STABLE] == 0:
            _find_stable(recovery, here, node, host)


@compiled.function(inline=False)
def _find_stable(recovery: Recovery, here: int, node: int, host: Host) -> None:
    """How many of our messages everybody has who is not known to have crashed."""
    nodes = recovery.crashed.shape[1]
    least = ALL
    holders = 0
    for other in range(nodes):
        if other != node and recovery.crashed[here, other] == 0:
            confirmed = recovery.word[WORDS * (here * nodes + other) + CONFIRMED]
            if confirmed < least:
                least = int(confirmed)
                holders = 0
            if confirmed == least:
                holders += 1
    recovery.own[here, STABLE] = least
    recovery.own[here, AT_STABLE] = holders
    forget(recovery, here, node, least, host)


@compiled.function()
def acknowledge(
    recovery: Recovery, here: int, source: int, received: int, stamped: int, host: Host
) -> None:
    """Tell a source what we have of it, if no stamp of ours has for a long time."""
    at = WORDS * (here * recovery.crashed.shape[1] + source) + TOLD
    if received - max(recovery.word[at], stamped) >= WINDOW:
        recovery.word[at] = received
        send(host, source, ACKNOWLEDGED, received)


@compiled.function(inline=False)
def length(recovery: Recovery, here: int, source: int) -> int:
    """How many messages of a source a process keeps."""
    count = 0
    row = recovery.word[WORDS * (here * recovery.crashed.shape[1] + source) + FIRST]
    while row != NONE:
        count += 1
        row = recovery.kept[row + 1]
    return count


@compiled.function(inline=False)
def learn(recovery: Recovery, here: int, node: int, crashed: int, own: int, host: Host) -> None:
    """Step 1 and 2: a node has crashed. ``own`` is how many messages we have broadcast."""
    nodes = recovery.crashed.shape[1]
    mine = recovery.own[here]
    at = WORDS * (here * nodes + crashed)
    recovery.crashed[here, crashed] = 1
    recovery.order[here, mine[KNOWN]] = crashed
    mine[KNOWN] += 1
    mine[UNACKNOWLEDGED] -= recovery.word[at + OUTSTANDING]
    recovery.word[at + OUTSTANDING] = 0
    if mine[DIRECT_FROM] == 0:
        mine[DIRECT_FROM] = own + 1
    _find_stable(recovery, here, node, host)
    if recovery.word[at + FIRST] != NONE:
        relay(recovery, here, node, int(recovery.word[at + FIRST]), host)


@compiled.function(inline=False)
def relay(recovery: Recovery, here: int, node: int, first: int, host: Host) -> None:
    """Send the messages of a list, from this one on, to everybody who may be alive."""
    nodes = recovery.crashed.shape[1]
    for target in range(nodes):
        if target != node and recovery.crashed[here, target] == 0:
            open_packet(host, target)
            count = 0
            row = first
            while row != NONE:
                put(host, RELAY, recovery.kept[row])
                count += 1
                row = recovery.kept[row + 1]
            recovery.word[WORDS * (here * nodes + target) + OUTSTANDING] += count
            recovery.own[here, UNACKNOWLEDGED] += count


@compiled.function(inline=False)
def relay_latest(recovery: Recovery, here: int, node: int, source: int, host: Host) -> None:
    """Step 2 for a message of a crashed source that has just arrived."""
    at = WORDS * (here * recovery.crashed.shape[1] + source)
    relay(recovery, here, node, int(recovery.word[at + LAST]), host)


@compiled.function(inline=False)
def hear(
    recovery: Recovery,
    here: int,
    node: int,
    sender: int,
    tag: int,
    value: int,
    own: int,
    host: Host,
) -> None:
    """An item that is no message."""
    nodes = recovery.crashed.shape[1]
    at = WORDS * (here * nodes + sender)
    if tag == RELAYED:
        recovery.word[at + OUTSTANDING] -= value
        recovery.own[here, UNACKNOWLEDGED] -= value
        return
    if tag == ENDED:
        crashed = value & NODE_MASK
        value >>= NODE_BITS
        if recovery.crashed[here, crashed] == 0:
            learn(recovery, here, node, crashed, own, host)
        recovery.word[at + ENDS] += 1
        _send_missing(recovery, here, node, sender, value, host)
    confirm(recovery, here, node, sender, value, host)


@compiled.function()
def _send_missing(
    recovery: Recovery, here: int, node: int, target: int, has: int, host: Host
) -> None:
    """Step 3: of our messages that went over trees, those that the target may lack."""
    nodes = recovery.crashed.shape[1]
    row = recovery.word[WORDS * (here * nodes + node) + FIRST]
    opened = False
    while row != NONE:
        sequence = sequence_of(host, recovery.kept[row])
        if has < sequence < recovery.own[here, DIRECT_FROM]:
            if not opened:
                open_packet(host, target)
                opened = True
            put(host, DIRECT, recovery.kept[row])
        row = recovery.kept[row + 1]


@compiled.function(inline=False)
def announce(recovery: Recovery, here: int, node: int, clock: Int32s, host: Host) -> None:
    """Step 3: once all relayed messages have arrived, say so and let go of them."""
    mine = recovery.own[here]
    if mine[UNACKNOWLEDGED] != 0:
        return
    nodes = recovery.crashed.shape[1]
    for target in range(nodes):
        if target == node or recovery.crashed[here, target] != 0 or mine[ANNOUNCED] == mine[KNOWN]:
            continue
        received = clock[wait.CLOCK_WORDS * (here * nodes + target) + wait.RECEIVED]
        open_packet(host, target)
        for i in range(mine[ANNOUNCED], mine[KNOWN]):
            put(host, ENDED, recovery.order[here, i] | (np.int64(received) << NODE_BITS))
    mine[ANNOUNCED] = mine[KNOWN]
    for i in range(mine[KNOWN]):
        forget(recovery, here, int(recovery.order[here, i]), ALL, host)


@compiled.function(inline=False)
def is_calm(recovery: Recovery, here: int, node: int) -> bool:
    """Step 4: whether all others have ended with every crash that is known here."""
    nodes = recovery.crashed.shape[1]
    for other in range(nodes):
        ends = recovery.word[WORDS * (here * nodes + other) + ENDS]
        waits = other != node and recovery.crashed[here, other] == 0
        if waits and ends != recovery.own[here, KNOWN]:
            return False
    return True
