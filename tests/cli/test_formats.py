"""``precedes audit`` on logs of other systems: what is said of them, and of mistakes."""

import json
import shutil

import pytest

from precedes.cli.main import main
from tests.support.commands import fails, output
from tests.support.places import ROOT

LOGS = ROOT / "examples" / "logs"
COLUMNS = ["--columns", "node=host,local_seq=offset", "--columns", "kind=type,message=msg_id"]
KINDS = ["--kinds", "broadcast=send,deliver=recv"]
TABLE = [*COLUMNS, *KINDS]
TEXT = ["--parser", r"^\S+ (?<host>\w+) +(?<kind>\w+) ?(?<message>.*)$", *KINDS]


def report(capsys, *arguments, status):
    assert main(["audit", "--json", *map(str, arguments)]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chat.csv", TABLE),
        ("chat.txt", [*TEXT, "--kinds", "ignore=ping"]),
        ("chat.otlp.jsonl", []),
        ("chat.otlp.jsonl", ["--node-by", "service.instance.id"]),
    ],
)
def test_one_chat_in_many_formats(name, said, capsys):
    found = report(capsys, LOGS / name, *said, status=1)
    assert (found["deliveries"], found["violations"], found["skipped"]) == (3, 1, 0)
    assert found["witnesses"][0]["sentence"].startswith("node eve delivered answer before question")


def test_a_log_that_has_ended(capsys):
    """What ann never heard is lost then, and not merely under way."""
    path = LOGS / "edits.json"
    assert report(capsys, path, status=0)["undelivered_at_end"] == 2
    found = report(capsys, path, "--complete", status=1)
    assert (found["lost"], found["undelivered_at_end"]) == (2, 0)


def test_skipped_lines_are_unknown(tmp_path, capsys):
    path = tmp_path / "chat.log"
    path.write_text('a {"a": 1}\nhello\nb {"a": 1, "b": 1}\nhello\nwho knows\n')
    found = report(capsys, path, status=3)
    assert (found["verdict"], found["skipped"], found["deliveries"]) == ("unknown", 1, 1)
    shown = output(capsys, "audit", path, status=3)
    assert "1 line or record of the log skipped, so that nothing is said to have held" in shown


def test_notes_are_told(tmp_path, capsys):
    path = tmp_path / "edits.json"
    transactions = [{"agent": "a", "parents": parents} for parents in ([], [0], [0], [1, 2])]
    path.write_text(json.dumps({"kind": "concurrent", "txns": transactions}))
    (note,) = report(capsys, path, status=0)["notes"]
    assert note["note"].startswith("authors forked once")
    assert "  authors forked once" in output(capsys, "audit", path)


def test_a_directory_of_tables_is_one_log_if_it_is_said(tmp_path, capsys):
    lines = (LOGS / "chat.csv").read_text().splitlines(keepends=True)
    for host in ("ann", "bob", "eve"):
        rows = [line for line in lines[1:] if line.startswith(host)]
        (tmp_path / f"{host}.csv").write_text("".join([lines[0], *rows]))
    found = report(capsys, tmp_path, "--format", "csv", *TABLE, status=1)
    assert (found["runs"], found["violations"]) == (1, 1)
    apart = report(capsys, tmp_path, *TABLE, status=1)
    assert (apart["runs"], apart["phantom"]) == (3, 3)


def test_logs_in_a_directory(tmp_path, capsys):
    """By their endings, or all of them if their format is named."""
    shutil.copy(LOGS / "edits.json", tmp_path / "one.json")
    shutil.copy(LOGS / "edits.json", tmp_path / "two.json")
    (tmp_path / ".hidden").write_text("?")
    assert report(capsys, tmp_path, "--format", "edits", status=0)["runs"] == 2
    assert "holds no traces or logs" in fails(capsys, "audit", tmp_path)


@pytest.mark.parametrize(
    ("name", "said", "match"),
    [
        ("chat.txt", [], "say which with --format"),
        ("chat.txt", TEXT, "line 5: unknown kind 'ping'"),
        ("chat.csv", ["--format", "csv"], "has no column node; it has host, offset, type, msg_id"),
        ("chat.csv", COLUMNS, "line 3: unknown kind 'recv' (did you mean 'receive'?)"),
        ("chat.csv", ["--format", "otel"], "line 1: not a JSON object"),
        ("chat.log", ["--format", "jsonl"], "line 1: not a JSON object"),
        ("chat.log", ["--parser", "("], "--parser is no expression"),
        ("chat.otlp.jsonl", ["--format", "automerge"], 'line 1: needs "actor"'),
        ("edits.json", ["--format", "jsonl"], "line 1: not a JSON object"),
        ("chat.csv", ["--format", "members"], "is a file: name the directory"),
        ("chat.csv", ["--format", "precedes"], "is not a trace: it is not a Parquet file"),
        ("none.csv", ["--format", "csv"], "there is no log"),
    ],
)
def test_mistakes(name, said, match, capsys):
    assert match in fails(capsys, "audit", LOGS / name, *said)
