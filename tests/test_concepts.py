"""The commands in docs/concepts.md reproduce its output and pictures."""

import re
import shlex

import pytest

from precedes.cli.main import main
from tests.support.places import ROOT

PAGE = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(precedes .*)\n```$", PAGE, re.MULTILINE)
PICTURES = re.findall(r"^!\[.+\]\((pictures/\S+\.svg)\)$", PAGE, re.MULTILINE)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder that looks like the repository; gives what it prints."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "docs/pictures").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def run(line):
        assert main(shlex.split(line)[1:]) == 0, line
        return capsys.readouterr().out

    return run


@pytest.mark.usefixtures("engine")
def test_pictures_are_the_same_bytes(run, tmp_path):
    for line in COMMANDS:
        if not line.startswith("precedes compare "):
            run(line)
    assert len(PICTURES) == 3
    for name in PICTURES:
        assert (tmp_path / "docs" / name).read_bytes() == (ROOT / "docs" / name).read_bytes(), name


def test_each_picture_stands_next_to_its_command():
    drawn = [line.split()[-1] for line in COMMANDS if " --svg " in line]
    assert sorted(drawn) == sorted(f"docs/{name}" for name in PICTURES)


def beginnings():
    """The comparisons of the page, each with the text that is shown of it."""
    pattern = r"^```sh\n(precedes compare .*)\n```\n(?:\n.*\n)?\n```text\n((?:(?!```).*\n)*)```$"
    return re.findall(pattern, PAGE, re.MULTILINE)


def test_there_are_two_comparisons():
    first, second = (text for _, text in beginnings())
    assert first.startswith("vcube: exact order (0 of ")
    assert second.startswith("probabilistic: ")


@pytest.mark.swarm
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("line", "text"), beginnings())
def test_comparisons_begin_as_shown(run, line, text):
    assert run(line).startswith(text)
