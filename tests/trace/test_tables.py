"""Tables of events, from Spark and from whoever has one: what is judged, and what is refused."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import precedes
from precedes.audit import audit
from precedes.errors import UserError
from precedes.sim import Scenario, simulate
from precedes.trace import load
from tests.support import executions
from tests.support.chat import CHAT, changed, table


def audit_of(rows, **columns):
    """The report on the one run of a table."""
    (history,) = precedes.from_arrow(table(rows, **columns))
    return audit(history)


def test_rows_of_other_kinds_are_passed_over():
    more = [("eve", 2, "receive", None), ("eve", 3, "tag", "answer"), ("ann", 0, "send", "x")]
    assert audit_of(CHAT + more) == audit_of(CHAT)


def reported(history):
    """All that a history says, but for where it is from."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(history).items()
        if name != "origin"
    }


def frame(rows):
    """Rows of node, local_seq, kind and message for pandas."""
    return pd.DataFrame(rows, columns=["node", "local_seq", "kind", "message"])


@given(st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_a_table_is_judged_as_its_lines_are(tmp_path_factory, seed, rng):
    execution = executions.scramble(seed, nodes=4, messages=8, rows=20)
    executions.with_members(execution, rng)
    lines = [line for node in range(4) for line in executions.as_lines(execution, node)]
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    path.write_text("\n".join(lines))
    rows = [json.loads(line) for line in lines]
    expected = reported(load(path, "jsonl")[0])
    schema = pa.schema([(name, pa.string()) for name in ("node", "kind", "message", "colour")])
    (found,) = precedes.from_arrow(pa.Table.from_pylist(rows, schema))
    assert reported(found) == expected
    (found,) = precedes.from_pandas(pd.DataFrame(rows, columns=["message", "kind", "node"]))
    assert reported(found) == expected
    numbered = pa.Table.from_pylist(rows, schema).append_column("local_seq", [range(len(rows))])
    shuffled = numbered.take(rng.sample(range(len(rows)), len(rows)))
    assert reported(precedes.from_arrow(shuffled)[0]) == expected


def test_a_trace_as_a_table(tmp_path):
    """Columns source and seq, joins that begin with nothing, and types that need a cast."""
    path = tmp_path / "mobile.parquet"
    scenario = Scenario(
        protocol="mobile", nodes=6, rate=10.0, duration_s=4.0, parameters={"joins_s": 3.0}
    )
    simulate(scenario, trace=path)
    (expected,) = load(path)
    events = pa.parquet.read_table(path)
    for found in (precedes.from_arrow(events), precedes.from_pandas(events.to_pandas())):
        reports = [audit(history) for history in (expected, *found)]
        assert reports[0].verdict == reports[1].verdict == "held"
        assert reports[0].deliveries == reports[1].deliveries
        assert (found[0].join_message >= 0).sum() == (expected.join_message >= 0).sum() > 0
        assert found[0].join_node.tolist() == expected.join_node.tolist()


def test_an_empty_table_is_unknown():
    (history,) = precedes.from_arrow(table([]))
    assert audit(history).verdict == "unknown"
    assert precedes.from_arrow(table([], run_id=pa.array([], pa.int64()))) == []


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_whatever_offers_a_stream_is_a_table(kind):
    whole = table(CHAT)
    types = [kind if pa.types.is_string(field.type) else field.type for field in whole.schema]
    stream = whole.cast(pa.schema(list(zip(whole.column_names, types, strict=True)))).to_reader(2)
    assert reported(precedes.from_arrow(stream)[0]) == reported(precedes.from_arrow(whole)[0])


def test_pandas_may_mix_names():
    rows = [(7, 0, "broadcast", 1), ("8", 0, "deliver", "1"), (8, 1, "leave", None)]
    (history,) = precedes.from_pandas(frame(rows))
    assert (history.node_names, history.message_names) == (["7", "8"], ["1"])
    assert audit(history).verdict == "held"
    named = frame(CHAT).astype({"kind": "category", "node": "category"})
    assert reported(precedes.from_pandas(named)[0]) == reported(precedes.from_arrow(table(CHAT))[0])


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (changed(3, kind=None), "row 3: kind is empty"),
        (changed(3, kind="Deliver"), "row 3: unknown kind 'Deliver' .did you mean 'deliver'"),
        (changed(1, node=None), "row 1: node is empty"),
        (changed(1, local_seq=None), "row 1: local_seq is empty"),
        (changed(1, message=None), "row 1: message is empty"),
    ],
)
def test_mistakes_name_column_and_row(rows, wrong):
    with pytest.raises(UserError, match=f"^the table, {wrong}"):
        precedes.from_arrow(table(rows))
    second = [*(("zoe", 0, "crash", None),) * 1, *rows]
    runs = pa.array([2] + [1] * len(rows))
    at = int(wrong.split()[1].rstrip(":")) + 1
    with pytest.raises(UserError, match=f"^the table, row {at}: "):
        precedes.from_arrow(table(second, run_id=runs))


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ({"node": [0.5] * 5}, "the column node holds double instead of strings or whole numbers"),
        ({"node": [True] * 5}, "the column node holds bool instead of"),
        ({"kind": [1] * 5}, "the table, row 0: unknown kind '1'"),
        ({"local_seq": list("abcde")}, "the table, row 0: local_seq is 'a', not a whole number"),
        ({"run_id": [1, 1, None, 1, 1]}, "the table, row 2: run_id is empty"),
        ({"local_seq": [0, 0, 1, 0, 0]}, "two events of node eve share the local_seq 0"),
        (
            {"message": ["question", "question", "question", "x", "x"]},
            "bob, local_seq 1: message question is broadcast again; the first time is node ann",
        ),
        ({"message": [[1]] * 5}, "the column message holds list"),
    ],
)
def test_columns_of_other_types_are_refused(columns, wrong):
    whole = {name: table(CHAT).column(name) for name in table(CHAT).column_names}
    with pytest.raises(UserError, match=wrong):
        precedes.from_arrow(pa.table({**whole, **columns}))


def test_mistakes_in_pandas_name_column_and_row():
    rows = [*CHAT, ("eve", 2, "deliver", 1.5)]
    with pytest.raises(UserError, match=r"row 5: message is 1.5, neither a string"):
        precedes.from_pandas(frame(rows))
    with pytest.raises(UserError, match="the table has no column kind; it has node: map them"):
        precedes.from_pandas(frame(rows)[["node"]])


def test_times_are_positions():
    """Of any unit; two of a node at one time are refused."""
    rows = [*CHAT[:3], *CHAT[:2:-1]]
    at = [10**9 * (row[1] + 1) for row in rows]
    for kind in (pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("s")):
        times = table(rows, local_seq=pa.array(at, pa.int64()).cast(kind))
        (history,) = precedes.from_arrow(times)
        assert audit(history).violations == 1
        (history,) = precedes.from_pandas(times.to_pandas())
        assert audit(history).violations == 1
    far = table(CHAT, local_seq=pa.array([10**11] * 5).cast(pa.timestamp("s")))
    with pytest.raises(UserError, match="holds times beyond the years 1677 to 2262"):
        precedes.from_arrow(far)
    same = table(CHAT, local_seq=pa.array([7] * 5).cast(pa.timestamp("us")))
    with pytest.raises(UserError, match="two events of node bob share the local_seq 7000"):
        precedes.from_arrow(same)


def test_two_columns_of_one_name():
    twice = table(CHAT).append_column("node", pa.array(["ann"] * 5))
    with pytest.raises(UserError, match="the table has two columns 'node': rename one"):
        precedes.from_arrow(twice)
    doubled = frame(CHAT)
    doubled.insert(0, "node", "ann", allow_duplicates=True)
    with pytest.raises(UserError, match="the table has two columns 'node': rename one"):
        precedes.from_pandas(doubled)


def test_numbers_beyond_64_bits_in_pandas():
    """They are names like others, and no positions."""
    numbers = {"question": 2**70, "answer": 2**71}
    rows = [(node, place, kind, numbers[message]) for node, place, kind, message in CHAT]
    (history,) = precedes.from_pandas(frame(rows))
    assert (audit(history).violations, str(2**70) in history.message_names) == (1, True)
    rows = [(node, place + 2**70, *more) for node, place, *more in CHAT]
    with pytest.raises(UserError, match=r"row 0: local_seq is .*, not a whole number"):
        precedes.from_pandas(frame(rows))
