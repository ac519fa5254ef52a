"""Tables of events on Spark: what is judged, and what is refused."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline.audit import audit_events, audit_files, check_tables, read_tables
from precedes.sim import Scenario, simulate
from precedes.trace import load
from tests.support.chat import CHAT, changed, table


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
