"""``precedes export``: to a file or to standard output, whole or not at all."""

import json

from precedes.cli.common import FORMATS
from precedes.cli.main import main
from precedes.trace import FORMATS as READ
from precedes.trace import export
from tests.support import logs
from tests.support.commands import fails, output
from tests.support.places import ROOT

CHAT = ROOT / "examples" / "chat.jsonl"


def test_the_options_know_all_formats():
    assert FORMATS == READ


def test_a_file_and_standard_output_are_the_same(tmp_path, capfdbinary):
    for target in ("shiviz", "perfetto", "jsonl", "csv"):
        out = tmp_path / target
        assert main(["export", str(CHAT), "--to", target, "--out", str(out)]) == 0
        assert main(["export", str(CHAT), "--to", target]) == 0
        shown = capfdbinary.readouterr().out
        assert shown == out.read_bytes()
        assert shown
    assert {path.name for path in tmp_path.iterdir()} == {"csv", "jsonl", "perfetto", "shiviz"}


def test_the_finding_is_in_the_trace(tmp_path):
    out = tmp_path / "chat.json"
    assert main(["export", str(CHAT), "--to", "perfetto", "--out", str(out)]) == 0
    events = json.loads(out.read_text())["traceEvents"]
    (found,) = [event for event in events if event.get("cat") == "audit"]
    assert found["args"]["sentence"].startswith("node eve delivered answer before question")


def test_a_large_log_is_shown_around_a_finding(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(export, "SHIVIZ_EVENTS_MAX", 100)
    path = tmp_path / "trace.parquet"
    logs.write(path, logs.workload(nodes=6, messages=60), nodes=6)
    error = fails(capsys, "export", path, "--to", "shiviz")
    assert "more than 100 events" in error
    assert "--around-witness 1" in error
    near = ["export", str(path), "--to", "shiviz", "--around-witness", "1", "--rows", "3"]
    events = output(capsys, *near).splitlines()[::2]
    assert 2 <= len(events) <= 100
    assert main(["audit", str(path), "--json"]) == 1
    witness = next(
        found
        for found in json.loads(capsys.readouterr().out)["witnesses"]
        if found["kind"] == "violation"
    )
    for name in (witness["message_name"], witness["earlier_name"]):
        assert f"broadcast {name}" in events
    assert f"deliver {witness['message_name']}" in events


def test_a_log_that_is_bad_further_down_leaves_no_file(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text(CHAT.read_text() * 1 + '{"kind": "shout"}\n')
    out = tmp_path / "out.csv"
    assert "unknown kind 'shout'" in fails(capsys, "export", path, "--to", "csv", "--out", out)
    assert sorted(tmp_path.iterdir()) == [path]
    out.write_text("old")
    fails(capsys, "export", path, "--to", "csv", "--out", out)
    assert out.read_text() == "old"


def test_skipped_lines_are_reported(tmp_path, capsys):
    log = tmp_path / "x.log"
    log.write_text('hello\na {"a":1}\nodd\n\nhello\nb {"a":1,"b":1}\n')
    assert main(["export", str(log), "--to", "jsonl"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"precedes: 1 line or record of {log} was skipped\n"
    kinds = [json.loads(line)["kind"] for line in captured.out.splitlines()]
    assert kinds == ["broadcast", "deliver", "broadcast"]
