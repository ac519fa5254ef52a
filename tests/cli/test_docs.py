"""`precedes docs` and `precedes examples`: what messages point to is there once installed."""

import ast
import os
import re
import stat

import pytest

from precedes import sources
from precedes.cli import docs
from precedes.cli.main import main
from precedes.errors import UserError
from tests.support import terminals
from tests.support.commands import output
from tests.support.places import ROOT

NAMED = re.compile(r"'precedes docs ([\w-]+)'")
PATH = re.compile(r"\b(?:docs/[\w/-]+\.md|README(?:\.md)?|[A-Z]+\.md)\b")


def strings(text):
    """The strings of a source file, each with whether it is a docstring."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    explaining = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, id(node) in explaining


def misleading(text):
    """Paths in messages of a file that do not exist in an installed wheel.

    Docstrings are read next to the code: they may name a page by its path, if that exists.
    """
    for value, is_docstring in strings(text):
        names = NAMED.findall(value)
        yield from (name for name in names if name not in docs.pages())
        for path in PATH.findall(value):
            if not is_docstring or not (ROOT / path).is_file():
                yield path


# The command itself says where pages are, and finding a clone is its business.
FINDS_PAGES = "cli/docs.py"


def test_messages_name_pages_that_can_be_shown():
    named = 0
    for path in sources.files():
        text = path.read_text(encoding="utf-8")
        named += len(NAMED.findall(text))
        if path.relative_to(sources.PACKAGE).as_posix() != FINDS_PAGES:
            assert list(misleading(text)) == [], path
    assert named > 5


def test_messages_that_lead_nowhere_are_found():
    text = '"""See docs/live.md and docs/gone.md."""\nx = "see docs/live.md"\n'
    assert sorted(misleading(text)) == ["docs/gone.md", "docs/live.md"]
    assert list(misleading("x = f\"see 'precedes docs gone' of {y}, README\"")) == [
        "gone",
        "README",
    ]
    assert list(misleading("x = \"see 'precedes docs live'\"")) == []


def test_every_page_has_a_name_of_its_own():
    pages = docs.pages()
    files = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")}
    assert set(pages.values()) == files
    assert len(pages) == len(files)
    for name, path in pages.items():
        assert docs.page(name) == path
        assert name == "index" or docs.page(path.relative_to(ROOT).as_posix()) == path


def test_a_page_comes_as_it_is(capsys):
    text = (ROOT / "docs/trace-format.md").read_text(encoding="utf-8")
    assert output(capsys, "docs", "trace-format") == text


def test_the_list_has_every_page(capsys):
    assert main(["docs"]) == 0
    words = re.split(r"[\s,]+", capsys.readouterr().out)
    assert set(docs.pages()) <= set(words)


def test_a_terminal_gets_the_pager(tmp_path):
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged; head -n 3 | grep -i groups\n")
    pager.chmod(pager.stat().st_mode | stat.S_IXUSR)
    ours, theirs = os.openpty()
    try:
        _, shown = terminals.run(
            "-m", "precedes.cli", "docs", "live", terminal="stdout", stdin=theirs, PAGER=str(pager)
        )
    finally:
        os.close(ours)
        os.close(theirs)
    paged, title, _ = shown.split("\r\n")
    assert paged == "paged"
    assert "Live groups" in title
    assert "#" not in title
    assert "\x1b" not in title  # nobody knows what this pager makes of colours


def test_pages_lie_next_to_the_package_or_in_it(tmp_path, monkeypatch):
    package = tmp_path / "site" / "precedes"
    monkeypatch.setattr(sources, "PACKAGE", package)
    monkeypatch.setattr(sources, "SHARE", package / "share")
    with pytest.raises(UserError, match="install precedes from its wheel"):
        docs.share()
    for folder in (tmp_path, package / "share"):
        (folder / "docs").mkdir(parents=True)
        (folder / "docs/README.md").touch()
        assert docs.share() == folder


def test_examples_are_copied_where_pages_expect_them(tmp_path, capsys):
    assert main(["examples", str(tmp_path / "new")]) == 0
    copied = {
        path.relative_to(tmp_path / "new").as_posix(): path.read_bytes()
        for path in (tmp_path / "new").rglob("*")
        if path.is_file()
    }
    assert copied == {name: (ROOT / name).read_bytes() for name in docs.examples()}
    assert {"examples/chat.jsonl", "experiments/sweep.toml", "examples/logs/chat.txt"} <= set(
        copied
    )
    assert set(copied) <= set(output(capsys, "examples").split())


def test_a_file_of_the_user_is_never_replaced(tmp_path, capsys):
    path = tmp_path / "experiments/sweep.toml"
    path.parent.mkdir()
    path.write_text("mine")
    assert main(["examples", str(tmp_path)]) == 2
    assert "is not the example: name another directory" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert [path] == [path for path in tmp_path.rglob("*") if path.is_file()]
    path.unlink()
    for _ in range(2):  # copying the same files again is allowed
        assert main(["examples", str(tmp_path)]) == 0
