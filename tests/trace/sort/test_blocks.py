"""Logs in no order, cut into blocks and merged, are what they are as one table."""

import os
import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.errors import UserError
from precedes.pipeline.audit import audit_tables_here
from precedes.trace import arrays
from precedes.trace.formats.tables import from_arrow
from precedes.trace.sort import naming
from precedes.trace.sort.merge import Merger, sort_events
from precedes.trace.sort.naming import find, index_labels
from tests.support import executions
from tests.support.chat import CHAT, changed, table

SIZES = st.sampled_from([1, 2, 7, 1000])
COUNTS = (
    "violations", "violating_messages", "deliveries", "duplicates", "phantom", "cycles", "unjudged",
)  # fmt: skip


def rows_of(execution, *, name, step):
    """Rows of a table, in the order of nodes; positions are ``step`` apart."""
    return [
        (name(node), at * step - 4, kind, m and f"m{m[0]}/{m[1]}")
        for node, rows in enumerate(executions.rows_of(execution))
        for at, (kind, m) in enumerate(rows)
    ]


@st.composite
def logs(draw):
    """An execution, and its events as a table in no order."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = random.Random(seed)
    if draw(st.booleans()):
        found = executions.scramble(seed, nodes=rng.randint(1, 12), messages=9, rows=40)
    else:
        found = executions.run(seed, nodes=rng.randint(2, 12), messages=15, order="wild", loss=0.2)
    if draw(st.booleans()):
        found = executions.with_members(found, rng)
    name = draw(st.sampled_from([str, "n{}".format]))
    step = draw(st.sampled_from([1, 3, 1000, 2**34]))
    rows = rows_of(found, name=name, step=step)
    rng.shuffle(rows)
    return found, table(rows)


def audited(events, directory, *, block_rows=5, chunk_rows=7):
    """Reports by way of blocks."""
    batches = iter(events.to_batches(max_chunksize=3))
    runs = sort_events(batches, directory, block_rows=block_rows, chunk_rows=chunk_rows)
    return [audit(pickle.loads(pickle.dumps(run)), ranges=2) for run in runs]


def named(reports):
    """The same without what a report calls its log."""
    return [(r.run_id, r.verdict, r.messages, r.nodes, r.violations, r.witnesses) for r in reports]


def assert_judged(report, execution):
    """The report has the counts that the definitions give."""
    expected = executions.judge(execution)
    found = {name: getattr(report, name) for name in COUNTS}
    assert found == {name: expected[name] for name in COUNTS}


@given(logs(), SIZES, SIZES)
@settings(max_examples=40)
def test_blocks_change_nothing(tmp_path_factory, log, block_rows, chunk_rows):
    """Sorted in memory or on disk, the rows are judged as the definitions say."""
    execution, events = log
    expected = [audit(history) for history in from_arrow(events)]
    place = tmp_path_factory.mktemp("blocks")
    found = audited(events, place, block_rows=block_rows, chunk_rows=chunk_rows)
    if events.num_rows:
        assert named(found) == named(expected)
        assert_judged(found[0], execution)


@given(logs(), logs(), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_runs_are_distinguished(tmp_path_factory, first, second, rng):
    """Nodes and messages of two runs have the same names."""
    parts = [
        part.append_column("run_id", pa.array([run] * part.num_rows, pa.string()))
        for run, (_, part) in (("b", first), ("a", second))
    ]
    whole = pa.concat_tables(parts)
    mixed = whole.take(rng.sample(range(whole.num_rows), whole.num_rows))
    expected = [audit(history) for history in from_arrow(mixed)]
    found = audited(mixed, tmp_path_factory.mktemp("blocks"))
    assert named(found) == named(expected)
    for report in found:
        assert_judged(report, {"a": second, "b": first}[report.run_id][0])


def test_kinds_of_columns(tmp_path):
    """Dictionaries with repeated values, numbers as names, source and seq, views of strings."""
    node, place, kind, message = (pa.array(column) for column in zip(*CHAT, strict=True))
    (expected,) = audited(table(CHAT), tmp_path)
    assert expected.violations == 1
    doubled = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 3, 2, 2], pa.int8()), pa.array(["ann", "bob", "eve", "bob"])
    )
    for column in (doubled, node.cast(pa.string_view()), node.cast(pa.large_string())):
        events = pa.table({"node": column, "local_seq": place, "kind": kind, "message": message})
        assert audited(events, tmp_path) == [expected]
    pairs = {"source": pa.array([0, 0, 1, 1, 0]), "seq": pa.array([1, 1, 1, 1, 1])}
    events = pa.table({"node": pa.array([0, 1, 1, 2, 2]), "local_seq": place, "kind": kind} | pairs)
    (found,) = audited(events, tmp_path)
    assert (found.violations, found.witnesses[0].message_name) == (1, "1:1")


def test_times_are_positions(tmp_path):
    """In the units of several writers."""
    for name, unit, part in (("1", "us", CHAT[:4]), ("2", "ms", CHAT[4:])):
        at = pa.array([1000 * row[1] for row in part]).cast(pa.timestamp("ms"))
        events = table(part, local_seq=at.cast(pa.timestamp(unit)))
        pq.write_table(events, tmp_path / f"{name}.parquet")
    (found,) = audit_tables_here([tmp_path])
    assert (found.verdict, found.violations) == ("violated", 1)
    at = pa.array([10, 20, 21, 31, 30]).cast(pa.timestamp("s"))
    (found,) = audited(table(CHAT, local_seq=at), tmp_path)
    assert found.verdict == "held"


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (table(changed(3, kind=None)), "run 0: node eve, local_seq 0: no kind; known are"),
        (table(changed(3, kind="Deliver")), "node eve, local_seq 0: the unknown kind 'Deliver'"),
        (table(changed(3, node=None)), "run 0: the column node has empty cells"),
        (table(changed(3, local_seq=None)), "run 0: the column local_seq has empty cells"),
        (table(changed(3, message=None)), "run 0: the column message has empty cells"),
        (table(changed(4, local_seq=0)), "run 0: two events of node eve share the local_seq"),
        (table(changed(2, message="question")), "message question is broadcast again; the first"),
        (table(CHAT, run_id=pa.array([1, 1, 1, 1, None])), "^the column run_id has empty cells"),
        (table(CHAT, run_id=pa.array([0.5] * 5)), "the column run_id holds double instead of"),
        (table(CHAT, local_seq=pa.array([0.1] * 5)), "local_seq holds double instead of whole"),
        (
            table(CHAT, local_seq=pa.array([7] * 5).cast(pa.timestamp("s"))),
            "two events of node .* share the local_seq",
        ),
        (
            table(CHAT, local_seq=pa.array([2**40] * 5).cast(pa.timestamp("s"))),
            "holds times beyond the years 1677 to 2262",
        ),
        (
            table(CHAT).append_column("node", pa.array(["ann"] * 5)),
            "the table of events has two columns 'node': rename one",
        ),
        (table(CHAT).drop("kind"), "the table of events lacks kind: it needs run_id, node"),
    ],
)
def test_mistakes(tmp_path, events, wrong):
    for block_rows in (1, 100):
        with pytest.raises(UserError, match=wrong):
            audited(events, tmp_path, block_rows=block_rows)


def test_rows_that_are_not_judged_may_be_empty(tmp_path):
    events = table([*CHAT, (None, None, "send", None)])
    assert audited(events, tmp_path) == audited(table(CHAT), tmp_path)


def test_a_long_node_is_merged_in_stretches(tmp_path):
    """Also one whose positions lie at both ends of what 64 bits hold."""
    rng = random.Random(5)
    count = 500
    for far in (0, 2**62, 2**63 - count):
        rows = [
            ("a", at + (far if at > 250 else -far), "broadcast", str(at)) for at in range(count)
        ]
        rng.shuffle(rows)
        batches = iter(table(rows).to_batches())
        (rows,) = sort_events(batches, tmp_path, block_rows=64, chunk_rows=16)
        seq = np.concatenate([chunk.seq for chunk in rows.chunks(0, 1)])
        assert seq.tolist() == list(range(1, count + 1))
        assert [rows.pair_label(0, at + 1) for at in range(count)] == list(map(str, range(count)))


def test_names_that_share_a_digest_are_distinguished(monkeypatch):
    """Under the first salts all names meet."""
    real = naming.digests

    def digests(group, label, *, salt):
        return real(group, label, salt=salt) * np.uint64(salt > 2)

    monkeypatch.setattr(naming, "digests", digests)
    names = pa.array(["", "a", "abcdefgh", "abcdefghi", "a\0"], pa.large_string())
    group = np.zeros(5, np.int32)
    index = index_labels(group, names)
    assert index.salt == 3
    assert find(index, group, names).tolist() == list(range(5))
    assert find(index, group + 1, names).tolist() == [-1] * 5
    with pytest.raises(naming.Twice):
        index_labels(np.zeros(2, np.int32), pa.array(["x", "x"], pa.large_string()))


def handles():
    """The number of open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def maps_of(directory):
    """The number of maps of files in a directory in this process."""
    with open("/proc/self/maps") as lines:
        return sum(str(directory) in line for line in lines)


def many_runs(count):
    """The chat, which has a violation, as a number of runs."""
    parts = [table(CHAT) for _ in range(count)]
    return pa.concat_tables(
        part.append_column("run_id", pa.array([run] * part.num_rows))
        for run, part in enumerate(parts)
    )


def test_runs_share_names_and_hold_no_files(tmp_path):
    before = handles()
    runs = sort_events(iter(many_runs(50).to_batches()), tmp_path)
    reports = [audit(run) for run in runs]
    assert [report.violations for report in reports] == [1] * 50
    assert handles() == before
    assert maps_of(tmp_path) <= 2
    # What a task of Spark gets grows with the runs, not with their square.
    assert len(pickle.dumps(runs)) < 3 * len(pickle.dumps(runs[:25]))
    again = pickle.loads(pickle.dumps(runs))
    assert [audit(run) for run in again] == reports
    assert maps_of(tmp_path) <= 4


def test_blocks_hold_no_files(tmp_path, monkeypatch):
    """While all blocks are merged, of which a large log has thousands."""
    most = 0
    merged = Merger.merged

    def counted(merger, first, last):
        nonlocal most
        most = max(most, handles())
        return merged(merger, first, last)

    monkeypatch.setattr(Merger, "merged", counted)
    before = handles()
    (report,) = audited(table(CHAT), tmp_path, block_rows=1)
    assert report.violations == 1
    assert most <= before + 1  # the file that is written


def test_a_mapped_file_is_read_again_after_it_was_forgotten(tmp_path):
    arrays.save(tmp_path / "file", {"first": np.arange(9), "second": np.arange(7, dtype=np.int8)})
    found, _ = arrays.load(tmp_path / "file")
    own = np.arange(100_000)
    for array in (*found.values(), own):
        arrays.forget(array)
    assert found["first"].tolist() == list(range(9))
    assert own.sum() == 4999950000
    with pytest.raises(UserError, match=r"cannot read .*none: No such file or directory$"):
        arrays.load(tmp_path / "none")


def test_batches_of_different_types_are_one_log(tmp_path):
    events = table(CHAT)
    at = events.schema.get_field_index("local_seq")
    narrow = events.set_column(at, "local_seq", events.column("local_seq").cast(pa.int32()))
    batches = [*narrow.slice(0, 2).to_batches(), *events.slice(2).to_batches()]
    (run,) = sort_events(iter(batches), tmp_path)
    assert audit(run).violations == 1
