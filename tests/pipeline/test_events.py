"""Tables of events, by themselves and on Spark: what is judged, and what is refused."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline.audit import audit_events, audit_files, check_tables, read_tables
from precedes.pipeline.events import history_of
from precedes.sim import Scenario, simulate
from precedes.trace import load

CHAT = [
    ("ann", 0, "broadcast", "question"),
    ("bob", 0, "deliver", "question"),
    ("bob", 1, "broadcast", "answer"),
    ("eve", 0, "deliver", "answer"),
    ("eve", 1, "deliver", "question"),
]


def table(rows, **columns):
    """A table of events from rows of node, local_seq, kind and message."""
    names = ("node", "local_seq", "kind", "message")
    types = (pa.string(), pa.int64(), pa.string(), pa.string())
    found = {
        name: pa.array([row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    return pa.table({**found, **columns})


def changed(place, **cells):
    """The chat with other cells in one of its rows."""
    rows = [list(row) for row in CHAT]
    for name, value in cells.items():
        rows[place][("node", "local_seq", "kind", "message").index(name)] = value
    return rows


def test_a_chat():
    report = audit(history_of(table(CHAT[::-1]), run_id=7))
    assert (report.verdict, report.violations, report.run_id) == ("violated", 1, 7)
    assert "node eve delivered answer before question" in report.witnesses[0].sentence


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (changed(3, kind=None), "run 7: node eve, local_seq 0: no kind; known are broadcast, "),
        (changed(3, kind="Deliver"), "node eve, local_seq 0: the unknown kind 'Deliver'"),
        (changed(1, kind="delivered"), "node bob, local_seq 0: the unknown kind 'delivered'"),
        (changed(1, node=None), "the column node has empty cells"),
        (changed(1, local_seq=None), "the column local_seq has empty cells"),
        (changed(1, message=None), "the column message has empty cells"),
        (changed(4, local_seq=0), "two events of a node share a local_seq"),
        (changed(2, message="question"), "question is broadcast twice"),
        (
            [*changed(2, message="x\x1b"), ("ann", 9, "broadcast", "x\x1b")],
            r"x\\x1b is broadcast twice",
        ),
    ],
)
def test_mistakes_are_refused(rows, wrong):
    with pytest.raises(UserError, match=wrong):
        history_of(table(rows), run_id=7)


@pytest.mark.parametrize("name", ["9" * 5000, "", "-"])
def test_any_text_is_a_name(name):
    rows = [(name, 0, "broadcast", name), ("8", 0, "deliver", name)]
    assert audit(history_of(table(rows), run_id=name)).verdict == "held"


def test_rows_of_other_kinds_are_passed_over():
    more = [("eve", 2, "receive", None), ("eve", 3, "tag", "answer"), ("ann", 0, "send", "x")]
    assert audit(history_of(table(CHAT + more), run_id=0)) == audit(
        history_of(table(CHAT), run_id=0)
    )


def test_joins_and_leaves_count():
    joined = [("eve", -2, "join", None), ("eve", -1, "join", "question"), *CHAT[:4]]
    assert audit(history_of(table(joined), run_id=0)).verdict == "held"
    assert audit(history_of(table(joined[:1] + joined[2:]), run_id=0)).verdict == "violated"
    missing = audit(history_of(table(CHAT[:3]), run_id=0)).undelivered_at_end
    gone = audit(history_of(table([*CHAT[:3], ("ann", 1, "leave", None)]), run_id=0))
    assert (missing, gone.undelivered_at_end) == (1, 0)


def test_a_mobile_trace_is_judged_as_the_trace_is(spark, tmp_path):
    """Joins with what they begin with, in columns source and seq."""
    scenario = Scenario(
        protocol="mobile", nodes=6, rate=10.0, duration_s=4.0, parameters={"joins_s": 3.0}
    )
    path = tmp_path / "[mobile] {1}.parquet"
    simulate(scenario, trace=path)
    (history,) = load(path)
    assert (history.join_message >= 0).any()
    expected = audit(history)
    assert expected.verdict == "held"
    (found,) = audit_events(spark, read_tables(spark, [str(path)]))
    assert (found.verdict, found.deliveries, found.violations) == ("held", expected.deliveries, 0)
    assert audit_files(spark, [str(path)]) == [expected]


def test_runs_may_have_names(spark):
    names = [str(uuid.UUID(int=number)) for number in (3, 1, 2)]
    parts = [table(CHAT, run_id=[name] * len(CHAT)) for name in names]
    parts[1] = parts[1].slice(0, 3)
    reports = audit_events(spark, spark.createDataFrame(pa.concat_tables(parts)))
    assert [report.run_id for report in reports] == sorted(names)
    assert [report.verdict for report in reports] == ["held", "violated", "violated"]
    assert names[2] in reports[1].origin


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (table(changed(3, kind=None)), "node eve, local_seq 0: no kind"),
        (table(changed(3, kind="Deliver")), "the unknown kind 'Deliver'"),
        (table(CHAT, run_id=pa.array([1, 1, 1, 1, None])), "run_id has empty cells"),
        (table(CHAT, run_id=pa.array([0.5] * 5)), "the column run_id holds double"),
        (table(CHAT, local_seq=pa.array([0.1] * 5)), "the column local_seq holds double"),
        (
            table(CHAT, source=pa.array([0, None, 1, 1, 0]), seq=[1, 1, 1, 1, 1]).drop("message"),
            "the column message has empty cells",
        ),
    ],
)
def test_mistakes_are_refused_on_spark(spark, events, wrong):
    with pytest.raises(UserError, match=wrong):
        audit_events(spark, spark.createDataFrame(events))


def test_only_parquet_is_handed_to_spark(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"node": "a", "kind": "crash"}))
    assert main(["audit", str(path), "--format", "events"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"precedes: {path} is no Parquet file")
    assert len(error.splitlines()) == 1
    pq.write_table(table(CHAT), tmp_path / "chat.parquet")
    with pytest.raises(UserError, match="is no Parquet file, as tables of events are"):
        check_tables([tmp_path])
    path.rename(tmp_path / "_log.jsonl")
    check_tables([tmp_path])
    with pytest.raises(UserError, match="there is no table"):
        check_tables([tmp_path / "none"])


def test_spark_reads_no_pipes(spark):
    for path in ("-", "/dev/null", "/none"):
        with pytest.raises(UserError, match=f"there is no file {path}"):
            audit_files(spark, [path])
