"""The first pass: the past of each broadcast, as far as its node's own rows show it.

A node's own broadcasts are in each other's past, so its knowledge of a source is one number, the
highest seq. The list of a message names the sources of which that rose since its node's previous
broadcast; with that one it generates the past. ``prefix`` adds more in one number: all places of
its block below it are in the past of the message; 0 adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.audit.order import NONE, Order, bit, words_for
from precedes.compiled.tiers import paced
from precedes.trace.rows import BROADCAST, CHUNK_ROWS, CRASH, DELIVER, JOIN, LEAVE, NoOrder, Rows


class Pasts(NamedTuple):
    """The part of nodes ``span[0]`` up to ``span[1]``; their messages in order of (node, seq).

    The list of message i is units ``unit_end[i - 1]`` to ``unit_end[i]``, each a word of places
    and its bits, and pairs (source, seq) of messages without a place.
    """

    span: NDArray[np.int64]
    counts: NDArray[np.int64]  # node: its broadcasts
    crashed: NDArray[np.uint8]  # node
    departed: NDArray[np.uint8]  # node: its last row about itself is that it left
    prefix: NDArray[np.int32]
    position: NDArray[np.int64]  # of the broadcast, among the node's broadcasts and deliveries
    own: NDArray[np.uint8]  # the source has a delivery of it
    unit_end: NDArray[np.int64]
    unit_word: NDArray[np.int32]
    unit_bits: NDArray[np.uint64]
    pair_end: NDArray[np.int64]
    pair_source: NDArray[np.int32]
    pair_seq: NDArray[np.int32]
    top: NDArray[np.int32]  # source: the highest seq that was delivered at one of these nodes


class _Lists(NamedTuple):
    """Arrays that grow while rows are read."""

    prefix: NDArray[np.int32]
    position: NDArray[np.int64]
    unit_end: NDArray[np.int64]
    unit_word: NDArray[np.int32]
    unit_bits: NDArray[np.uint64]
    pair_end: NDArray[np.int64]
    pair_source: NDArray[np.int32]
    pair_seq: NDArray[np.int32]
    own_node: NDArray[np.int32]
    own_seq: NDArray[np.int32]


class _Frontier(NamedTuple):
    """The latest known message of each source at the current node."""

    registers: NDArray[np.int64]
    known: NDArray[np.int32]  # source
    stamp: NDArray[np.int64]  # source: the list that it is in
    changed: NDArray[np.int32]
    sources: NDArray[np.int32]  # those with anything known
    scratch: NDArray[np.uint64]  # words of places
    touched: NDArray[np.int32]
    top: NDArray[np.int32]
    counts: NDArray[np.int64]
    crashed: NDArray[np.uint8]
    departed: NDArray[np.uint8]


_NODE: Final = 0
_SEQ: Final = 1  # of the node's latest broadcast
_POSITION: Final = 2
_CHANGED: Final = 3
_SOURCES: Final = 4
_AHEAD: Final = 5  # the highest own seq delivered
_REACH: Final = 6
_SINCE: Final = 7  # rows since the latest broadcast
_STAMP: Final = 8
_MESSAGES: Final = 9
_UNITS: Final = 10
_PAIRS: Final = 11
_OWN: Final = 12
_WRONG: Final = 13  # a broadcast of another's message, or not the next seq
_FIRST: Final = 14  # node of the part
_REGISTERS: Final = 15

# Of each array of ``_Lists``: the register that has its length, and its type.
_LENGTHS: Final = (
    _MESSAGES, _MESSAGES, _MESSAGES, _UNITS, _UNITS, _MESSAGES, _PAIRS, _PAIRS, _OWN, _OWN,
)  # fmt: skip
_DTYPES: Final[tuple[Any, ...]] = (
    np.int32, np.int64, np.int64, np.int32, np.uint64, np.int64, np.int32, np.int32, np.int32,
    np.int32,
)  # fmt: skip


def find_pasts(
    rows: Rows,
    first: int,
    last: int,
    *,
    order: Order,
    bound: NDArray[np.int64],
    chunk_rows: int = CHUNK_ROWS,
    on_rows: Callable[[int], None] | None = None,
) -> Pasts:
    """The part of nodes ``first`` up to ``last``; deliveries above ``bound`` are ignored.

    ``on_rows`` gets the number of rows read. Raises ``NoOrder`` if a node's broadcasts are not
    its messages 1, 2, 3, ...
    """
    nodes = rows.nodes
    frontier = _Frontier(
        registers=np.zeros(_REGISTERS, np.int64),
        known=np.zeros(nodes, np.int32),
        stamp=np.zeros(nodes, np.int64),
        changed=np.empty(nodes + 1, np.int32),
        sources=np.empty(nodes + 1, np.int32),
        scratch=np.zeros(words_for(order.source.size), np.uint64),
        touched=np.empty(nodes + 1, np.int32),
        top=np.zeros(nodes, np.int32),
        counts=np.zeros(last - first, np.int64),
        crashed=np.zeros(last - first, np.uint8),
        departed=np.zeros(last - first, np.uint8),
    )
    frontier.registers[_NODE] = -1
    frontier.registers[_STAMP] = 1
    frontier.registers[_FIRST] = first
    lists = _Lists._make(np.empty(0, dtype) for dtype in _DTYPES)
    bound = np.minimum(bound, np.iinfo(np.int32).max)
    for chunk in rows.chunks(first, last, chunk_rows=chunk_rows, check=True):
        lists = _with_room(lists, frontier.registers, chunk.kind.size, nodes)
        paced(FIND_PASTS, rows=chunk.kind.size)(*chunk, order, bound, frontier, lists)
        if frontier.registers[_WRONG]:
            raise NoOrder("a broadcast is not its node's next message")
        if on_rows is not None:
            on_rows(chunk.kind.size)
    paced(RESET)(frontier)
    return _part(first, last, frontier, lists)


def _with_room(lists: _Lists, registers: NDArray[np.int64], more: int, nodes: int) -> _Lists:
    """The lists with room for the entries that a chunk of this many rows can add."""
    # A list has an entry for a source that changed, before this chunk or in it, and for the
    # node itself.
    entries = 2 * more + nodes
    room = {_MESSAGES: more, _UNITS: entries, _PAIRS: entries, _OWN: more}
    arrays: list[NDArray[Any]] = [*lists]
    columns = zip(arrays, _LENGTHS, strict=True)
    return _Lists._make(_grown(array, int(registers[at]), room[at]) for array, at in columns)


def _grown(array: NDArray[Any], count: int, room: int) -> NDArray[Any]:
    if array.size >= count + room:
        return array
    grown = np.empty(count + count // 2 + room, array.dtype)
    grown[:count] = array[:count]
    return grown


def _part(first: int, last: int, frontier: _Frontier, lists: _Lists) -> Pasts:
    arrays: list[NDArray[Any]] = [*lists]
    columns = zip(_Lists._fields, arrays, _LENGTHS, strict=True)
    cut = {name: array[: frontier.registers[length]].copy() for name, array, length in columns}
    base = np.concatenate(([0], np.cumsum(frontier.counts)))
    node, seq = cut.pop("own_node") - first, cut.pop("own_seq")
    sent = seq <= frontier.counts[node]
    own = np.zeros(cut["prefix"].size, np.uint8)
    own[base[node[sent]] + seq[sent] - 1] = 1
    return Pasts(
        span=np.array([first, last], np.int64),
        counts=frontier.counts,
        crashed=frontier.crashed,
        departed=frontier.departed,
        own=own,
        top=frontier.top,
        **cut,
    )


def find_in_rows(
    first: int,
    bounds: NDArray[np.int64],
    kind: NDArray[np.int8],
    source: NDArray[np.int32],
    seq: NDArray[np.int32],
    order: Order,
    bound: NDArray[np.int64],
    frontier: _Frontier,
    lists: _Lists,
) -> None:
    """Read the rows of a chunk."""
    registers = frontier.registers
    nodes = frontier.known.size
    for i in range(bounds.size - 1):
        node = first + i
        if bounds[i] == bounds[i + 1]:
            continue
        if node != registers[_NODE]:
            _begin(node, order, frontier)
        position = registers[_POSITION]
        since = registers[_SINCE]
        for row in range(bounds[i], bounds[i + 1]):
            event_kind = kind[row]
            if event_kind == DELIVER:
                position += 1
                since += 1
                s = source[row]
                q = seq[row]
                if s < 0 or s >= nodes or q < 1 or q > bound[s]:
                    continue
                if s == node:
                    lists.own_node[registers[_OWN]] = node
                    lists.own_seq[registers[_OWN]] = q
                    registers[_OWN] += 1
                    registers[_AHEAD] = max(registers[_AHEAD], np.int64(q))
                elif q > frontier.known[s]:
                    if frontier.stamp[s] != registers[_STAMP]:
                        _change(s, frontier)
                    frontier.known[s] = q
            elif event_kind == BROADCAST:
                if source[row] != node or seq[row] != registers[_SEQ] + 1:
                    registers[_WRONG] = 1
                    return
                _broadcast(node, position, since, order, frontier, lists)
                position += 1
                since = 0
            elif event_kind == CRASH:
                frontier.crashed[node - registers[_FIRST]] = 1
            elif event_kind == JOIN:
                frontier.departed[node - registers[_FIRST]] = 0
            elif event_kind == LEAVE:
                frontier.departed[node - registers[_FIRST]] = 1
        registers[_POSITION] = position
        registers[_SINCE] = since


@compiled.function()
def _change(source: int, frontier: _Frontier) -> None:
    """Register a source whose known prefix rose for the first time since the latest broadcast."""
    registers = frontier.registers
    if frontier.known[source] == 0:
        frontier.sources[registers[_SOURCES]] = source
        registers[_SOURCES] += 1
    frontier.stamp[source] = registers[_STAMP]
    frontier.changed[registers[_CHANGED]] = source
    registers[_CHANGED] += 1


@compiled.function(inline=False)
def _begin(node: int, order: Order, frontier: _Frontier) -> None:
    """Start another node, with nothing known yet."""
    reset(frontier)
    registers = frontier.registers
    registers[_NODE] = node
    registers[_SEQ] = 0
    registers[_POSITION] = 0
    registers[_CHANGED] = 0
    registers[_AHEAD] = 0
    registers[_SINCE] = 0
    registers[_STAMP] += 1
    block = order.block[node]
    registers[_REACH] = order.bounds[block] if block >= 0 else 0


@compiled.function(inline=False)
def reset(frontier: _Frontier) -> None:
    """Fold ``known`` into ``top``, then reset it."""
    registers = frontier.registers
    for i in range(registers[_SOURCES]):
        s = frontier.sources[i]
        frontier.top[s] = max(frontier.top[s], frontier.known[s])
        frontier.known[s] = 0
    registers[_SOURCES] = 0
    node = registers[_NODE]
    if node >= 0:
        frontier.known[node] = 0
        frontier.top[node] = max(np.int64(frontier.top[node]), registers[_AHEAD])
        frontier.counts[node - registers[_FIRST]] = registers[_SEQ]


@compiled.function(inline=False)
def _broadcast(
    node: int, position: int, since: int, order: Order, frontier: _Frontier, lists: _Lists
) -> None:
    """Store the list and the prefix of the node's next message."""
    registers = frontier.registers
    seq = registers[_SEQ] + 1
    message = registers[_MESSAGES]
    touched = 0
    for i in range(registers[_CHANGED]):
        s = frontier.changed[i]
        touched = _list(s, frontier.known[s], order, frontier, lists, touched)
    if registers[_AHEAD] >= seq:
        # The node delivered this message, or a later one of its own, before: a cycle.
        touched = _list(node, registers[_AHEAD], order, frontier, lists, touched)
    units = registers[_UNITS]
    for i in range(touched):
        word = frontier.touched[i]
        lists.unit_word[units + i] = word
        lists.unit_bits[units + i] = frontier.scratch[word]
        frontier.scratch[word] = NONE
    registers[_UNITS] = units + touched
    lists.prefix[message] = _reach(node, since, order, frontier)
    lists.position[message] = position
    lists.unit_end[message] = registers[_UNITS]
    lists.pair_end[message] = registers[_PAIRS]
    registers[_MESSAGES] = message + 1
    registers[_CHANGED] = 0
    registers[_STAMP] += 1
    registers[_SEQ] = seq
    frontier.known[node] = seq


@compiled.function()
def _list(
    source: int, seq: int, order: Order, frontier: _Frontier, lists: _Lists, touched: int
) -> int:
    """Add a message to the current list; return the number of words with places."""
    place = _place(source, seq, order)
    if place < 0:
        pairs = frontier.registers[_PAIRS]
        lists.pair_source[pairs] = source
        lists.pair_seq[pairs] = seq
        frontier.registers[_PAIRS] = pairs + 1
        return touched
    word = place >> 6
    if frontier.scratch[word] == NONE:
        frontier.touched[touched] = word
        touched += 1
    frontier.scratch[word] |= bit(place)
    return touched


@compiled.function()
def _place(source: int, seq: int, order: Order) -> int:
    first = order.first[source]
    return int(order.place[first + seq - 1]) if seq <= order.first[source + 1] - first else -1


@compiled.function(inline=False)
def _reach(node: int, since: int, order: Order, frontier: _Frontier) -> int:
    """The prefix of places that are all known; two steps a row at most, so it may be too low."""
    reach = frontier.registers[_REACH]
    block = order.block[node]
    if block < 0:
        return 0
    end = order.bounds[block + 1]
    steps = 2 * (since + 1)
    # It ends at the message itself at the latest, which its node does not know yet.
    while steps > 0 and reach < end and order.seq[reach] <= frontier.known[order.source[reach]]:
        reach += 1
        steps -= 1
    frontier.registers[_REACH] = reach
    # Before its block begins the prefix is 0, which says nothing about other blocks.
    return int(reach) if reach > order.bounds[block] else 0


FIND_PASTS: Final = compiled.Entry(find_in_rows, label="the audit", job="audit")
RESET: Final = compiled.Entry(reset, label="the audit", job="audit")
