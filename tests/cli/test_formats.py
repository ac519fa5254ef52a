"""``precedes audit`` on logs of other systems: what is said of them, and of mistakes."""

import json
import shutil

import pytest

from precedes.cli.main import main
from tests.support.commands import fails, output
from tests.support.places import ROOT

CHAT = ROOT / "examples" / "chat.jsonl"
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
    """A message that ann never delivered is then lost, not only in flight."""
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
    assert "1 line or record of the log skipped, so the verdict is at most unknown" in shown


def test_notes_are_reported(tmp_path, capsys):
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
    """Hidden files and subdirectories are left out."""
    assert "holds no traces or logs" in fails(capsys, "audit", tmp_path)
    shutil.copy(LOGS / "edits.json", tmp_path / "one.json")
    shutil.copy(LOGS / "edits.json", tmp_path / "two.json")
    (tmp_path / ".hidden").write_text("?")
    assert report(capsys, tmp_path, "--format", "edits", status=0)["runs"] == 2
    (tmp_path / "more").mkdir()
    shutil.copy(LOGS / "chat.log", tmp_path / "chat.log")
    assert report(capsys, tmp_path, status=1)["runs"] == 3


@pytest.mark.parametrize("name", ["notes.md", "notes.jsonl", "notebook.ipynb"])
def test_a_file_of_unknown_format_in_a_directory(name, tmp_path, capsys):
    """It is named, and left out only if that is asked for."""
    shutil.copy(LOGS / "edits.json", tmp_path / "one.json")
    (tmp_path / name).write_text({"notebook.ipynb": "{\n}\n"}.get(name, "Ann wrote this.\n"))
    error = fails(capsys, "audit", tmp_path)
    assert f"{tmp_path / name} is not in a format that can be detected" in error
    assert error.endswith("or skip such files with --skip-unknown\n")
    assert main(["audit", str(tmp_path), "--skip-unknown", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["runs"] == 1
    assert f"skipped 1 file of unknown format: {tmp_path / name}\n" in err


def test_keys_of_json_lines_are_mapped_as_columns_are(tmp_path, capsys):
    names = {"node": "host", "kind": "type", "message": "id", "run_id": "session", "local_seq": "n"}
    theirs = [
        {**{names.get(key, key): value for key, value in json.loads(line).items()}, "session": 7,
         "n": number, "node": "unused"}
        for number, line in enumerate(CHAT.read_text().splitlines())
    ]  # fmt: skip
    path = tmp_path / "log.jsonl"
    mapped = ",".join(f"{ours}={name}" for ours, name in names.items())
    for gap in ("", " \n"):  # blocks that pyarrow reads, and lines that are read one by one
        path.write_text("".join(json.dumps(event) + "\n" + gap for event in theirs))
        found = report(capsys, path, "--columns", mapped, status=1)
        assert (found["violations"], found["witnesses"][0]["run_id"]) == (1, 7)
    del theirs[2]["host"]
    path.write_text("".join(json.dumps(event) + "\n" for event in theirs))
    assert 'line 3: "host" is missing' in fails(capsys, "audit", path, "--columns", mapped)


def test_a_file_named_csv_is_csv(tmp_path, capsys):
    """So a missing column is named, although no other format has such a header either."""
    path = tmp_path / "log.csv"
    path.write_text("host,type,id\nann,broadcast,m1\nbob,deliver,m1\n")
    assert "has no column node; it has host, type, id" in fails(capsys, "audit", path)
    columns = "node=host,kind=type,message=id"
    assert report(capsys, path, "--columns", columns, status=0)["deliveries"] == 1
    path = path.rename(tmp_path / "log.txt")
    assert "not in a format that can be detected" in fails(capsys, "audit", path)


@pytest.mark.parametrize(
    ("name", "said", "match"),
    [
        ("chat.txt", [], "name it with --format"),
        ("chat.txt", TEXT, "line 5: unknown kind 'ping'"),
        ("chat.csv", ["--format", "csv"], "has no column node; it has host, offset, type, msg_id"),
        ("chat.csv", COLUMNS, "line 3: unknown kind 'recv' (did you mean 'receive'?)"),
        ("chat.log", ["--format", "jsonl"], "line 1: not a JSON object"),
        ("chat.log", ["--parser", "("], "--parser is not a regular expression"),
        ("chat.otlp.jsonl", ["--format", "automerge"], 'line 1: needs "actor"'),
        ("chat.csv", ["--format", "members"], "is a file: name the directory"),
        ("chat.csv", ["--format", "precedes"], "is not a trace: it is not a Parquet file"),
        ("none.csv", ["--format", "csv"], "there is no log"),
    ],
)
def test_mistakes(name, said, match, capsys):
    assert match in fails(capsys, "audit", LOGS / name, *said)
