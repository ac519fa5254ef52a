"""Did every node see causes before effects? The exact audit of one history.

The rules, all from each node's own order of broadcasts and deliveries:

- The past of m is the closure of "broadcast or delivered at m's source before m's broadcast".
- A node's position of y is that of its first delivery of y; at y's source, without a delivery
  of its own, that of the broadcast; never delivered is later than everything.
- A join says what its node begins with. A message that it names, and the earlier ones of that
  message's source, the node has from the join on, unless it delivered them before; to deliver one
  after that is a duplicate. Nothing else is excused.
- A delivery of m at p is a violation iff some y in m's past has a later position at p.
- Messages that nobody broadcast are reported as phantoms and are in nobody's past.
- A message in its own past is a contradiction in the log and is reported. A message is resolved
  if nothing in its past, itself included, lies in such a cycle; only deliveries of resolved
  messages are judged, and first deliveries of the others are counted as unjudged.

``kernel`` holds the loops: time grows with rows plus nodes times generators, memory with four
bytes a row for places, four for generators and 64 a message for one tile of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.audit import kernel, witness
from precedes.audit.cycles import cyclic_messages, resolved_messages
from precedes.audit.witness import Witness
from precedes.trace import History

HELD: Final = "held"
VIOLATED: Final = "violated"
UNKNOWN: Final = "unknown"

WITNESSES_MAX: Final = 5


@dataclass(frozen=True, kw_only=True)
class Report:
    """The verdict on one run and the counts behind it.

    ``deliveries`` are deliver rows at nodes other than the source. ``lost`` is counted only in
    complete histories; in others the same pairs are ``undelivered_at_end``. ``unjudged`` are
    first deliveries, at the source too, of messages with a cycle in their past. ``skipped`` are
    lines that the reader of the log did not understand: anything may have happened in them.
    """

    origin: str
    run_id: int | str
    nodes: int
    messages: int
    verdict: str
    deliveries: int
    violations: int
    violating_messages: int
    lost: int
    duplicates: int
    phantom: int
    cycles: int
    unjudged: int
    undelivered_at_end: int
    skipped: int = 0
    notes: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...]


class Prepared(NamedTuple):
    """A history with its messages renumbered and their generators found."""

    history: History
    log: kernel.Log
    placed: kernel.Placed
    past: kernel.Past
    place_message: NDArray[np.int32]  # place
    correct: NDArray[np.uint8]  # node: never crashed
    joins: kernel.Joins
    resolved: int  # places below are of messages without a cycle in their past


class Judgement(NamedTuple):
    """What ``judge`` found, by node and by place."""

    tallies: NDArray[np.int64]
    violating: NDArray[np.uint8]


def audit(
    history: History,
    *,
    witnesses_max: int = WITNESSES_MAX,
    block_nodes: int = kernel.LANES,
) -> Report:
    """The exact verdict on a history, with up to ``witnesses_max`` witnesses of each kind.

    ``block_nodes`` is how many nodes are judged in one pass; it changes memory and speed,
    never the result.
    """
    prepared = prepare(history)
    judgement = judge(prepared, block_nodes=block_nodes)
    judgement.tallies[:, kernel.PHANTOM] += _phantom_joins(history)
    totals = judgement.tallies.sum(axis=0)
    missing = _missing(prepared, judgement)
    contradictory = prepared.resolved < prepared.place_message.size
    cyclic = cyclic_messages(prepared.log) if contradictory else np.empty(0, np.int64)
    unjudged = _unjudged(prepared) if contradictory else 0
    undelivered = int(missing.sum())
    lost = undelivered if history.complete else 0
    columns = [kernel.VIOLATIONS, kernel.DUPLICATES, kernel.PHANTOM]
    wrong = lost + int(cyclic.size) + int(totals[columns].sum())
    deliveries = int(totals[kernel.DELIVERIES])
    in_doubt = unjudged or history.skipped or not deliveries
    return Report(
        origin=history.origin,
        run_id=history.run_id,
        nodes=history.nodes,
        messages=history.messages,
        verdict=VIOLATED if wrong else UNKNOWN if in_doubt else HELD,
        deliveries=deliveries,
        violations=int(totals[kernel.VIOLATIONS]),
        violating_messages=int(judgement.violating.sum()),
        lost=lost,
        duplicates=int(totals[kernel.DUPLICATES]),
        phantom=int(totals[kernel.PHANTOM]),
        cycles=int(cyclic.size),
        unjudged=unjudged,
        undelivered_at_end=undelivered - lost,
        skipped=history.skipped,
        notes=history.notes,
        witnesses=_witnesses(prepared, judgement, missing, cyclic, witnesses_max),
    )


def prepare(history: History) -> Prepared:
    """Everything that does not depend on which nodes are judged."""
    rows = np.flatnonzero(history.kind == kernel.BROADCAST)
    broadcasts = history.message[rows]
    broadcast_row = np.full(history.messages, -1, np.int64)
    broadcast_row[broadcasts] = rows
    log = kernel.Log(
        offsets=history.offsets,
        kind=history.kind,
        message=history.message,
        message_source=history.message_source,
        broadcast_row=broadcast_row,
    )
    place, heard, resolved = _places(log, rows)
    place_message = np.empty(broadcasts.size, np.int32)
    place_message[place[broadcasts]] = broadcasts
    placed = kernel.Placed(
        offsets=history.offsets,
        kind=history.kind,
        row_place=place[history.message],
        place_source=history.message_source[place_message],
        heard=heard[place_message],
        broadcast_rows=rows,
        broadcast_offsets=np.searchsorted(rows, history.offsets),
    )
    correct = np.ones(history.nodes, np.uint8)
    correct[history.crashed] = 0
    return Prepared(
        history=history,
        log=log,
        placed=placed,
        past=_past(placed, resolved),
        place_message=place_message,
        correct=correct,
        joins=_joins(history, placed, broadcast_row),
        resolved=resolved,
    )


def _joins(
    history: History, placed: kernel.Placed, broadcast_row: NDArray[np.int64]
) -> kernel.Joins:
    """The joins that cover something, each with what the node's earlier ones do not."""
    known = history.join_message >= 0
    known[known] = history.message_source[history.join_message[known]] >= 0
    message = history.join_message[known]
    node, row = history.join_node[known], history.join_row[known]
    source = history.message_source[message]
    # Counted in rows: sequence numbers of a caller are for display only.
    last = np.searchsorted(placed.broadcast_rows, broadcast_row[message], side="right")
    last = last - placed.broadcast_offsets[source]
    order = np.lexsort((row, source, node))
    node, row, source, last = node[order], row[order], source[order], last[order]
    group = np.cumsum(np.diff(node, prepend=-1) | np.diff(source, prepend=-1) != 0)
    top = int(last.max(initial=0)) + 1
    first = np.maximum.accumulate(group * top + last) - group * top
    first = np.where(np.diff(group, prepend=-1) != 0, 0, np.roll(first, 1))
    kept = last > first
    return kernel.Joins(
        offsets=np.searchsorted(node[kept], np.arange(history.nodes + 1)),
        position=(2 * row[kept]).astype(np.int32),
        source=source[kept],
        first=first[kept],
        last=last[kept],
    )


def _places(
    log: kernel.Log, broadcast_rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    """Each message's place, whether it may lie in a past, and how many are resolved.

    Messages that are not come last, in no order that means anything.
    """
    broadcasts = log.message[broadcast_rows]
    source = log.message_source[broadcasts]
    # Starting from broadcasts by how far down their node's log they stand keeps places close to
    # time, even for nodes that deliver nothing: so most generators can be pruned.
    lengths = np.diff(log.offsets)
    progress = (broadcast_rows - log.offsets[source]) / np.maximum(lengths[source], 1)
    roots = broadcasts[np.argsort(progress, kind="stable")]
    place, heard, in_cycles = _walk(log, roots)
    if in_cycles:
        resolved = resolved_messages(log)
        roots = roots[resolved[roots]]
        place, heard, _ = _walk(log, roots)
        left = broadcasts[~resolved[broadcasts]]
        place[left] = np.arange(roots.size, broadcasts.size)
    # All but a source's last message lie in the past of the next.
    heard[broadcasts[:-1][source[:-1] == source[1:]]] = 1
    return place, heard, roots.size


def _walk(
    log: kernel.Log, roots: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    """Places of these messages and their pasts, and how many rows stand in cycles."""
    nodes = log.offsets.size - 1
    walk = kernel.Walk(
        cursor=log.offsets[:-1].copy(),
        goal=np.zeros(nodes, np.int64),
        stack=np.zeros(nodes, np.int32),
        on_stack=np.zeros(nodes, np.uint8),
    )
    place = np.full(log.message_source.size, -1, np.int32)
    heard = np.zeros(log.message_source.size, np.uint8)
    return place, heard, kernel.ORDER.compiled()(log, walk, roots, place, heard)


def _past(placed: kernel.Placed, resolved: int) -> kernel.Past:
    nodes, messages = placed.offsets.size - 1, placed.place_source.size
    past = kernel.Past(
        # A row gives one generator at most; pages of the array that stay unused cost nothing.
        generators=np.empty(placed.row_place.size, np.int32),
        begin=np.zeros(messages, np.int64),
        end=np.zeros(messages, np.int64),
        floor=np.zeros(messages, np.int32),
    )
    known = np.full(nodes, -1, np.int32)
    slot = np.full(nodes, -1, np.int64)
    kernel.FIND.compiled()(placed, past, known, slot)
    kernel.PRUNE.compiled()(past)
    past.end[resolved:] = past.begin[resolved:]  # what is not judged needs no past
    return past


def judge(
    prepared: Prepared,
    *,
    first_node: int = 0,
    last_node: int | None = None,
    block_nodes: int = kernel.LANES,
) -> Judgement:
    """Judge the deliveries at nodes ``first_node`` up to and without ``last_node``."""
    placed, past = prepared.placed, prepared.past
    nodes, messages = prepared.history.nodes, past.begin.size
    end = nodes if last_node is None else last_node
    block_nodes = max(1, min(block_nodes, end - first_node))
    tile = kernel.Tile(
        position=np.empty((messages, block_nodes), np.int32),
        need=np.empty(block_nodes, np.int32),
    )
    findings = kernel.Findings(
        self_delivered=np.zeros(messages, np.uint8),
        violating=np.zeros(messages, np.uint8),
        tallies=np.zeros((nodes, kernel.TALLIES), np.int64),
    )
    for first in range(first_node, end, block_nodes):
        last = min(first + block_nodes, end)
        tile.position.fill(kernel.NEVER)
        kernel.JUDGE.compiled()(
            first, last, placed, past, prepared.correct, prepared.joins, tile, findings
        )
    return Judgement(findings.tallies, findings.violating)


def violations_at(prepared: Prepared, node: int) -> NDArray[np.int32]:
    """The messages whose delivery at this node is a violation, in the order of delivery."""
    judgement = judge(prepared, first_node=node, last_node=node + 1, block_nodes=1)
    messages = prepared.place_message[np.flatnonzero(judgement.violating)]
    position = witness.first_positions(prepared.history, prepared.log.broadcast_row, node)
    return messages[np.argsort(position[messages], kind="stable")]


def _phantom_joins(history: History) -> NDArray[np.int64]:
    """How many joins of each node name a message that nobody broadcast."""
    known = history.join_message >= 0
    phantom = history.message_source[history.join_message[known]] < 0
    return np.bincount(history.join_node[known][phantom], minlength=history.nodes)


def _unjudged(prepared: Prepared) -> int:
    """How many first deliveries are of messages with a cycle in their past."""
    placed = prepared.placed
    chosen = (placed.kind != kernel.BROADCAST) & (placed.row_place >= prepared.resolved)
    rows = np.flatnonzero(chosen)
    node = np.searchsorted(placed.offsets, rows, side="right") - 1
    return int(np.unique(node * placed.place_source.size + placed.row_place[rows]).size)


def _missing(prepared: Prepared, judgement: Judgement) -> NDArray[np.int64]:
    """How many messages of correct sources each correct node never delivered.

    Own ones are due too in a run in which sources deliver theirs.
    """
    correct = prepared.correct.astype(bool)
    tallies = judgement.tallies
    sent = np.bincount(prepared.placed.place_source, minlength=correct.size)
    due = int(sent[correct].sum()) - sent - tallies[:, kernel.DUE] - tallies[:, kernel.EXCUSED]
    if tallies[:, kernel.OWN].any():
        due += sent - tallies[:, kernel.OWN] - tallies[:, kernel.OWN_EXCUSED]
    # What comes after a member has left is not due to it.
    correct[prepared.history.departed] = False
    return np.where(correct, due, 0)


def _witnesses(
    prepared: Prepared,
    judgement: Judgement,
    missing: NDArray[np.int64],
    cyclic: NDArray[np.int64],
    limit: int,
) -> tuple[Witness, ...]:
    history = prepared.history
    explain = witness.Explainer(history, prepared.log.broadcast_row)
    found = [explain.cycle(int(m)) for m in cyclic[:limit]]
    violations: list[Witness] = []
    for node in np.flatnonzero(judgement.tallies[:, kernel.VIOLATIONS])[:limit]:
        late = violations_at(prepared, int(node))[: limit - len(violations)]
        violations += [explain.violation(int(node), int(m)) for m in late]
    found += violations
    if history.complete:
        own = bool(judgement.tallies[:, kernel.OWN].any())
        found += explain.lost(np.flatnonzero(missing), prepared.correct, limit, own=own)
    duplicated = np.flatnonzero(judgement.tallies[:, kernel.DUPLICATES])
    found += explain.duplicates(duplicated, limit)
    found += explain.phantoms(np.flatnonzero(judgement.tallies[:, kernel.PHANTOM]), limit)
    return tuple(found)
