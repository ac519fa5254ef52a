"""``precedes view``, and what ``audit`` writes: where it goes, what is said, what is refused."""

import io
import json
import os
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from precedes.cli.main import main
from tests.support import logs
from tests.support.commands import output, parsed
from tests.support.places import ROOT
from tests.support.unpacked import head_of, traces_of

CHAT = ROOT / "examples" / "chat.jsonl"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_page_is_a_single_file(here, capsys):
    first, second, url = output(capsys, "view", CHAT).splitlines()
    assert url == (here / "chat.view.html").as_uri()
    assert first.startswith("chat.view.html: 6 events, ")
    assert second.startswith("opens on violation 1: node eve delivered answer before question")
    assert names(here) == ["chat.view.html"]
    assert "the message" in output(capsys, "view", CHAT, "--out", "x.html", "--around", "answer")
    assert names(here) == ["chat.view.html", "x.html"]


def test_a_page_is_opened_in_the_browser(here):
    """In the one that BROWSER names, which gets the URL that is printed."""
    program = here / "browser"
    program.write_text('#!/bin/sh\nprintf %s "$1" > opened\n')
    program.chmod(0o755)
    command = [sys.executable, "-m", "precedes.cli", "view", str(CHAT), "--open"]
    shown = subprocess.run(
        command, env={**os.environ, "BROWSER": f"{program} %s"}, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert (here / "opened").read_text() == (here / "chat.view.html").as_uri()
    assert shown.stdout.splitlines()[-1] == (here / "opened").read_text()


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        (["--from-ms", "2", "--to-ms", "4"], ["what was asked for, steps 2 to 4", "before step 2"]),
        (["--nodes", "ann,bob"], ["the first violation, steps 1 to 4", "at 1 node (eve)"]),
        (["--events", "3"], ["violation 1: node eve", "1 of 6 events is left out"]),
    ],
)
def test_a_log_without_times_has_steps(here, capsys, more, lines):
    shown = output(capsys, "view", CHAT, *more)
    assert all(line in shown for line in lines), shown
    assert " ms" not in shown


def test_json(here, capsys):
    found = parsed(capsys, "view", CHAT, "--json", "--nodes", "ann,eve")
    page = (here / found["path"]).read_text(encoding="utf-8")
    assert found["bytes"] == len(page.encode())
    assert {**found["opening"], "trace": 0} == head_of(page)["opening"]
    (trace,) = found["traces"]
    assert (trace["verdict"], trace["events"]) == ("violated", 4)
    assert trace["left_out"]["lanes"] == ["bob"]
    assert set(found["precedes"]) == {"version", "sources"}


def test_standard_input(here, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CHAT.read_bytes())))
    assert main(["view", "-"]) == 0
    assert names(here) == ["log.view.html"]
    (trace,) = traces_of((here / "log.view.html").read_text(encoding="utf-8"))
    assert trace.head["title"] == "standard input"
    assert main(["view", "-", "-"]) == 2
    assert "read only once" in capsys.readouterr().err


def test_an_audit_writes_what_it_found(here, capsys):
    status = main(["audit", str(CHAT), "--view", "a.html", "--svg", "a.svg"])
    assert status == 1
    said = capsys.readouterr()
    assert said.out.startswith("violated")
    assert "a.html: 6 events" in said.err
    page = (here / "a.html").read_text(encoding="utf-8")
    assert head_of(page)["opening"]["why"] == "first violation"
    assert "too early" in (here / "a.svg").read_text(encoding="utf-8")
    held = here / "held.jsonl"
    held.write_text("\n".join(CHAT.read_text().splitlines()[:2]))
    assert main(["audit", str(held), "--view", "b.html", "--svg", "b.svg"]) == 0
    assert "b.svg is not written" in capsys.readouterr().err
    page = (here / "b.html").read_text(encoding="utf-8")
    assert head_of(page)["opening"]["why"] == "busiest window"
    assert names(here) == ["a.html", "a.svg", "b.html", "held.jsonl"]


def test_an_audit_of_many_draws_the_first_that_is_violated(here, capsys):
    lines = CHAT.read_text().splitlines()
    (here / "a.jsonl").write_text("\n".join(lines[:2]))
    shutil.copy(CHAT, here / "b.jsonl")
    output(capsys, "audit", "a.jsonl", "b.jsonl", "--view", "out.html", status=1)
    (trace,) = traces_of((here / "out.html").read_text(encoding="utf-8"))
    assert trace.head["title"] == "b.jsonl"


def _newer(path):
    logs.write(path, logs.events([(0, 0, 0, 1), (1, 3, 0, 1)]), nodes=2)
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"precedes"])
    metadata = {b"precedes": json.dumps({**about, "schema_version": 9}).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


ONE_NODE = '{"node": "a", "kind": "broadcast", "message": "x"}\n'

BAD = [
    (["empty.jsonl"], "empty.jsonl holds no events: there is nothing to look at"),
    (["one.jsonl"], "one.jsonl has one node"),
    (["newer.parquet"], "was written by a newer precedes (schema 9"),
    (["none.jsonl"], "there is no log none.jsonl"),
    ([str(CHAT), "--from-ms", "100"], "has no events in that window: it goes from step 1 to 5"),
    ([str(CHAT), "--from-ms", "3", "--to-ms", "2"], "its beginning lies after its end"),
    ([str(CHAT), "--from-ms", "x"], "'x' is not a number of milliseconds"),
    ([str(CHAT), "--around", "answr"], "no message 'answr' (did you mean 'answer'?)"),
    (["ours.parquet", "--around", "0:9"], "no message '0:9': node 0 broadcast 0:1 to 0:1"),
    (["ours.parquet", "--around", "what"], "messages are NODE:NUMBER, of nodes 0 to 1"),
    ([str(CHAT), "--violation", "2"], "has no violation 2: there is one"),
    (["ours.parquet", "--violation", "1"], "has no violation 1: there is none"),
    ([str(CHAT), "--nodes", "anne"], "has no node 'anne' (did you mean 'ann'?)"),
    ([str(CHAT), "--around", "answer", "--from-ms", "1"], "choose one"),
    ([str(CHAT), "--events", "0"], "events are 1 to 20,000,000, not 0"),
    ([str(CHAT), "ours.parquet"], "are not of one scenario: 3 and 2 nodes"),
    ([str(CHAT), str(CHAT), "--svg", "x.svg"], "a small picture is of one log"),
    ([str(CHAT), "--out", "no/such/page.html"], "cannot write no/such/page.html"),
    ([str(CHAT), "--out", "folder"], "folder is a directory: name a file in it"),
    (["ours.parquet", "--svg", "x.svg"], "has no violation to draw"),
    ([str(CHAT), "--run", "3"], "has no run '3': there are 0"),
    ([str(CHAT), "--open", "--svg", "x.svg"], "--open opens a page: name one with --out"),
    ([str(CHAT), "--open", "--out", "s3://b/x.html"], "--open takes a page on this machine"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda part: str(part)[-40:])
def test_a_mistake_is_one_line_and_leaves_nothing(here, capsys, arguments, words):
    (here / "empty.jsonl").write_text("")
    (here / "one.jsonl").write_text(ONE_NODE)
    (here / "folder").mkdir()
    _newer(here / "newer.parquet")
    logs.write(here / "ours.parquet", logs.events([(0, 0, 0, 1), (1, 3, 0, 1)]), nodes=2)
    before = names(here)
    assert main(["view", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert words in line
    assert names(here) == before


@pytest.mark.parametrize("option", ["--view", "--svg"])
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--follow"], "a log that grows is not drawn"),
        (["--format", "events"], "events that Spark reads are not drawn"),
    ],
)
def test_an_audit_refuses_early_what_it_cannot_draw(here, capsys, option, more, words):
    assert main(["audit", str(CHAT), option, "x", *more]) == 2
    assert words in capsys.readouterr().err
    assert main(["audit", "-", option, "x"]) == 2
    assert "read only once" in capsys.readouterr().err
    assert names(here) == []
