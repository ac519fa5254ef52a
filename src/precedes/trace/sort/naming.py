"""Gives every name in the blocks of a log its number in the whole.

Runs are in the order of their ids, and the nodes of a run in that of their names, as numbers if all
all are. A message is (source, seq), seq = 1, 2, ... in the order of its source's broadcasts; one
without a broadcast is (PHANTOM, its place among such names of the run). All of it follows from
names and positions alone, however the rows were divided into blocks.

A name is looked up by a hash of 64 bits, which does not depend on the process, and then compared.
If two names share a hash the index is made again with another salt. Names of messages are held once
in memory, with some 60 bytes each; more of them in one run than ``INDEX_MAX`` are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace import arrays
from precedes.trace.arrays import flags, split_texts, strings, to_arrow, to_numpy
from precedes.trace.dialect import by_local_seq
from precedes.trace.rows import INDEX_MAX, in_order
from precedes.trace.sort.pack import Packed, run_title

WORD_BYTES: Final = 8
PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
SALTS: Final = 64  # collisions under all of these are deliberate, or a defect of the sort
MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(WORD_BYTES + 1)], np.uint64)


class _LabelIndex(NamedTuple):
    """Names, distinct within a group, with the place of each."""

    group: NDArray[np.int32]
    label: pa.Array
    digest: NDArray[np.uint64]  # sorted
    place: NDArray[np.int64]  # of the name with this digest
    salt: int


class Twice(Exception):
    """A name occurs twice in a table: the places of both."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first
        self.second = second


def index_labels(group: NDArray[np.int32], label: pa.Array) -> _LabelIndex:
    """An index of these names; raises ``Twice`` for the first that repeats an earlier one."""
    for salt in range(SALTS):
        digest = digests(group, label, salt=salt)
        place = np.argsort(digest, kind="stable")
        digest = digest[place]
        meet = np.flatnonzero(digest[1:] == digest[:-1])
        if meet.size == 0:
            return _LabelIndex(group, label, digest, place, salt)
        first, second = place[meet], place[meet + 1]
        same = _equal(group, label, first, group, label, second)
        if same.any():
            earliest = int(np.argmin(np.where(same, second, np.iinfo(np.int64).max)))
            raise Twice(int(first[earliest]), int(second[earliest]))
    raise AssertionError(f"different names have equal digests under {SALTS} salts")


def find(index: _LabelIndex, group: NDArray[np.int32], label: pa.Array) -> NDArray[np.int64]:
    """The place of each of these names in the table, or -1."""
    if index.digest.size == 0:
        return np.full(group.size, -1, np.int64)
    wanted = digests(group, label, salt=index.salt)
    at = np.minimum(np.searchsorted(index.digest, wanted), index.digest.size - 1)
    place = index.place[at]
    candidates = np.flatnonzero(index.digest[at] == wanted)
    sure = _equal(index.group, index.label, place[candidates], group, label, candidates)
    result = np.full(group.size, -1, np.int64)
    result[candidates[sure]] = place[candidates[sure]]
    return result


def _equal(
    group_a: NDArray[np.int32],
    label_a: pa.Array,
    a: NDArray[np.int64],
    group_b: NDArray[np.int32],
    label_b: pa.Array,
    b: NDArray[np.int64],
) -> NDArray[np.bool_]:
    same = pc.equal(label_a.take(to_arrow(a)), label_b.take(to_arrow(b)))
    whole: NDArray[np.bool_] = flags(same)
    return whole & (group_a[a] == group_b[b])


def digests(group: NDArray[np.int32], label: pa.Array, *, salt: int) -> NDArray[np.uint64]:
    """A hash of each name and its group."""
    offsets, data = split_texts(label)
    begin, length = offsets[:-1], np.diff(offsets)
    padded = np.concatenate((data, np.zeros(WORD_BYTES, np.uint8)))
    # Every eight bytes of the text, at any offset.
    words = np.ndarray((padded.size - WORD_BYTES + 1,), "<u8", padded, strides=(1,))
    hashes = _mixed((group.astype(np.uint64) << np.uint64(32)) + length.astype(np.uint64))
    hashes ^= _mixed(np.full(1, salt + 1, np.uint64))
    rows = np.arange(length.size)
    at = 0
    while rows.size:
        rows = rows[length[rows] > at]
        left = np.minimum(length[rows] - at, WORD_BYTES)
        hashes[rows] = _mixed(hashes[rows] ^ (words[begin[rows] + at] & MASKS[left]))
        at += WORD_BYTES
    return hashes


def _mixed(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    word = (word + PRIME) * PRIME
    word ^= word >> np.uint64(29)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    return word ^ (word >> np.uint64(32))


# Ids that are numbers to people, and are written in one way only.
RUN_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
SEQ_BITS: Final = 32
PHANTOM: Final = (1 << 28) - 1  # the source of a message without a broadcast


class Naming(NamedTuple):
    """Everything with a name: runs, their nodes, and what these broadcast, one after the other."""

    runs: list[int | str]
    run_first: NDArray[np.int64]  # runs + 1: nodes of a run
    node: pa.Array  # names
    rows: NDArray[np.int64]  # node: how many
    low: NDArray[np.int64]  # node: smallest position
    high: NDArray[np.int64]  # node: largest position
    sent_first: NDArray[np.int64]  # nodes + 1: messages of a node
    labels: _LabelIndex  # of messages, by run
    key_first: NDArray[np.int64]  # blocks + 1
    key_node: NDArray[np.int32]  # for the keys of all blocks: the node


class Translation(NamedTuple):
    """The numbers of a block's messages: source and seq in one, source counted in its run."""

    pair: NDArray[np.int64]  # message, and 0 for rows that name none
    unknown: NDArray[np.int32]  # the messages without a broadcast
    unknown_run: NDArray[np.int32]
    unknown_label: pa.Array


class Phantoms(NamedTuple):
    """Messages without a broadcast, by run and name, and their numbers in every block."""

    run_first: NDArray[np.int64]  # runs + 1
    label: pa.Array
    block_first: NDArray[np.int64]  # blocks + 1
    number: NDArray[np.int64]  # for the unknown messages of all blocks: 1, 2, ... in the run


def name_blocks(
    blocks: Sequence[Packed],
    *,
    title: str | None = None,
    place: Callable[[str, int], str] = by_local_seq,
    more_runs: Iterable[str] = (),
) -> Naming:
    """The numbers of all names; a message that is broadcast twice is a UserError.

    ``place`` names a row by its node and ``local_seq``; ``more_runs`` have no rows.
    """
    runs, run_numbers = _runs(blocks, more_runs)
    key_run = _joined([numbers[b.key_run] for b, numbers in zip(blocks, run_numbers, strict=True)])
    order, first = _unique(key_run, _texts([block.key_node for block in blocks]))
    run_first, names, number = _nodes(len(runs), *order, first)
    sizes = _joined([np.diff(block.bounds) for block in blocks])
    rows = np.zeros(len(names), np.int64)
    np.add.at(rows, number, sizes)
    low = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(low, number, _joined([block.low for block in blocks]))
    high = np.full(len(names), np.iinfo(np.int64).min)
    np.maximum.at(high, number, _joined([block.high for block in blocks]))
    key_first = np.cumsum([0, *(block.low.size for block in blocks)])
    keys = [number[a:b] for a, b in itertools.pairwise(key_first)]
    sent_first, label, position = _broadcasts(blocks, keys, len(names))
    group = np.repeat(np.arange(len(runs), dtype=np.int32), np.diff(sent_first[run_first]))
    if np.any(np.bincount(group) > INDEX_MAX) or np.any(np.diff(run_first) >= PHANTOM):
        raise UserError("a run has too many messages for one audit; split it into runs")
    try:
        index = index_labels(group, label)
    except Twice as twice:
        sent = [twice.first, twice.second]
        node = np.searchsorted(sent_first, sent, side="right") - 1
        at = sorted((int(position[i]), names[n]) for i, n in zip(sent, node, strict=True))
        before, here = (place(printable(name), local_seq) for local_seq, name in at)
        raise UserError(
            f"{title or run_title(runs[int(group[twice.second])])}, {here}: message "
            f"{printable(str(label[twice.second]))} is broadcast again; the first time is {before}"
        ) from None
    return Naming(
        runs, run_first, strings(names).cast(pa.large_string()), rows, low, high, sent_first, index,
        key_first, number,
    )  # fmt: skip


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _texts(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([strings([]).cast(pa.large_string()), *parts])


def _runs(
    blocks: Sequence[Packed], more_runs: Iterable[str]
) -> tuple[list[int | str], list[NDArray[np.int32]]]:
    """The ids of runs in order, as numbers if all are, and the number of each run of each block."""
    ids = [[str(run) for run in block.runs.to_pylist()] for block in blocks]
    distinct = {run for inside in ids for run in inside} | {*more_runs}
    whole = all(RUN_NUMBER.fullmatch(run) for run in distinct)
    ordered = sorted(distinct, key=int) if whole else sorted(distinct)
    number = {run: at for at, run in enumerate(ordered)}
    runs: list[int | str] = [int(run) for run in ordered] if whole else [*ordered]
    return runs, [np.array([number[run] for run in inside], np.int32) for inside in ids]


def _unique(
    run: NDArray[np.int32], label: pa.Array
) -> tuple[tuple[NDArray[np.int32], pa.Array, NDArray[np.int64]], NDArray[np.int64]]:
    """Pairs in order, with their original places, and where in that order another pair begins."""
    table = pa.table({"run": to_arrow(run), "label": label})
    order = pc.sort_indices(table, [("run", "ascending"), ("label", "ascending")])
    run, label = run[to_numpy(order)], label.take(order)
    if run.size == 0:
        return (run, label, np.empty(0, np.int64)), np.empty(0, np.int64)
    same = flags(pc.equal(label[1:], label[:-1]))
    new = np.concatenate(([True], ~same | (run[1:] != run[:-1])))
    return (run, label, to_numpy(order).astype(np.int64)), np.flatnonzero(new)


def _nodes(
    runs: int,
    run: NDArray[np.int32],
    label: pa.Array,
    origin: NDArray[np.int64],
    first: NDArray[np.int64],
) -> tuple[NDArray[np.int64], list[str], NDArray[np.int32]]:
    """The nodes of each run, their names in order, and the number of each key."""
    labels = label.take(to_arrow(first)).to_pylist()
    run_first = np.searchsorted(run[first], np.arange(runs + 1))
    names: list[str] = []
    number = np.empty(first.size, np.int32)
    for begin, end in itertools.pairwise(run_first.tolist()):
        ordered = in_order(labels[begin:end])
        place = {name: at for at, name in enumerate(ordered, begin)}
        number[begin:end] = [place[name] for name in labels[begin:end]]
        names += ordered
    keys = np.empty(run.size, np.int32)
    keys[origin] = np.repeat(number, np.diff(first, append=run.size))
    return run_first, names, keys


def _broadcasts(
    blocks: Sequence[Packed], keys: Sequence[NDArray[np.int32]], nodes: int
) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64]]:
    """The first message of each node, and all messages in the order of broadcasts.

    With them the positions of their broadcasts.
    """
    node, position, label = [], [], []
    for block, number in zip(blocks, keys, strict=True):
        key = np.searchsorted(block.bounds, block.sent, side="right") - 1
        node.append(number[key])
        position.append(block.low[key] + block.position[block.sent].astype(np.int64))
        label.append(block.label.take(to_arrow(block.message[block.sent])))
    source, positions = _joined(node), _joined(position)
    order = np.lexsort((positions, source))
    first = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=nodes), out=first[1:])
    return first, _texts(label).take(to_arrow(order)), positions[order]


def translate(block: Packed, naming: Naming) -> Translation:
    """The numbers of a block's messages in the whole log."""
    number = {str(run): at for at, run in enumerate(naming.runs)}
    own = [number[str(run)] for run in block.runs.to_pylist()]
    run = np.array(own, np.int32)[block.label_run]
    place = find(naming.labels, run, block.label)
    source = np.searchsorted(naming.sent_first, place, side="right") - 1
    seq = place - naming.sent_first[source] + 1
    pair = np.zeros(place.size + 1, np.int64)
    pair[:-1] = ((source - naming.run_first[run]) << SEQ_BITS) + seq
    unknown = np.flatnonzero(place < 0).astype(np.int32)
    pair[unknown] = (PHANTOM << SEQ_BITS) + np.arange(unknown.size)
    return Translation(pair, unknown, run[unknown], block.label.take(to_arrow(unknown)))


def name_phantoms(translations: Sequence[Translation], runs: int) -> Phantoms:
    """The numbers of messages without a broadcast."""
    run = _joined([one.unknown_run for one in translations]).astype(np.int32)
    (run, label, origin), first = _unique(run, _texts([one.unknown_label for one in translations]))
    run_first = np.searchsorted(run[first], np.arange(runs + 1))
    within = np.arange(first.size) - run_first[run[first]] + 1
    number = np.empty(run.size, np.int64)
    number[origin] = np.repeat(within, np.diff(first, append=run.size))
    return Phantoms(
        run_first=run_first,
        label=label.take(to_arrow(first)),
        block_first=np.cumsum([0, *(one.unknown.size for one in translations)]),
        number=number,
    )


def save_naming(path: Path, naming: Naming) -> None:
    """Write the names and numbers of a log."""
    columns = {**naming._asdict(), **naming.labels._asdict()}
    about = {name: columns.pop(name) for name in ("runs", "salt")}
    del columns["labels"]
    arrays.save(path, columns, about)


def load_naming(path: Path) -> Naming:
    """The result of ``save_naming``, as views of its file."""
    columns, about = arrays.load(path)
    labels = {name: columns.pop(name) for name in _LabelIndex._fields if name in columns}
    return Naming(**columns, runs=about["runs"], labels=_LabelIndex(**labels, salt=about["salt"]))
