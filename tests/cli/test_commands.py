"""Common features of commands: working examples, levels of verbosity, and JSON with its origin."""

import argparse
import json
import re
import shlex
import subprocess

import pytest

from precedes import waiting
from precedes.cli.common import examples
from precedes.cli.main import main, make_parser, parse
from precedes.console import Level
from precedes.provenance import made_by
from tests.support import commands
from tests.support.commands import output
from tests.support.places import ROOT

EXAMPLE = re.compile(r"^  (precedes .*?)(?:(?:  +|\n {6})(\S.*))?$", re.MULTILINE)
COLUMNS = 80


def leaves(parser=None):
    """The parsers of commands that run something, by their names."""
    found = {}
    for action in (parser or make_parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                found |= leaves(one) or {one.prog: one}
    return found


LEAVES = leaves()


def examples_of(parser):
    """The examples at the end of a help text, each with what is said of it."""
    _, _, text = (parser.epilog or "").partition("examples:\n")
    return [(match[1], match[2]) for match in EXAMPLE.finditer(text)]


EXAMPLES = sorted({line for parser in LEAVES.values() for line, _ in examples_of(parser)})


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with the examples in it, to run commands in, and a level that is put back."""
    for name in ("examples", "experiments"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(waiting, "_display", None)
    return tmp_path


def test_there_are_commands():
    """The twin of the tests below, which would pass on none."""
    assert {"precedes simulate", "precedes audit", "precedes spark worker"} <= set(LEAVES)
    for width in (1, COLUMNS):
        shown = examples(("x", "what"), ("y --of z", width * "w"))
        assert examples_of(argparse.ArgumentParser(epilog=shown)) == [
            ("precedes x", "what"),
            ("precedes y --of z", width * "w"),
        ]


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_has_examples_levels_and_json(name):
    parser = LEAVES[name]
    assert {"-v", "--verbose", "-q", "--quiet", "--debug", "--json"} <= set(
        parser._option_string_actions
    )
    found = examples_of(parser)
    assert len(found) >= 2
    for line, what in found:
        assert line.startswith(f"{name} ") or line == name
        assert what, line
    help_text = parser.format_help()
    assert all(line in help_text for line, _ in found), "the lines of examples are not filled"
    _, _, shown = parser.epilog.partition("examples:")
    assert max(map(len, shown.splitlines())) <= COLUMNS


# Those that take minutes, run until they are ended, or need a member that runs.
LONG = {"reproduce", "sweep", "node", "members", "spark", "compile", "compare"}


def is_quick(line):
    """Return whether an example takes a second or two."""
    return line.split()[1] not in LONG and "--faults" not in line


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_parses(line, place):
    assert callable(parse(shlex.split(line)[1:]).run)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("line", [line for line in EXAMPLES if is_quick(line)])
def test_an_example_runs(line, place, capsys):
    if "--force" in line:  # in place of what is there
        output(capsys, *shlex.split(line.replace(" --force", ""))[1:])
    if "cluster" in line:  # it forks
        done = commands.run(*shlex.split(line)[1:])
        status, out, error = done.returncode, done.stdout, done.stderr
    else:
        status = main(shlex.split(line)[1:])
        out, error = capsys.readouterr()
    assert status in ((0, 1) if "audit" in line else (0,)), error
    assert out or "--out" in line
    if "--json" in line:
        assert json.loads(out)["precedes"] == made_by()


# A line for each command whose end can be waited for.
QUICK = [
    "--version",
    "protocols",
    "simulate vector --nodes 3 --messages 5",
    "audit examples/chat.jsonl",
    "export examples/chat.jsonl --to csv --out chat.csv",
    "size --rate 100 --nodes 2000 --entries 50",
    "keys keys -n 2",
    "docs",
    "docs live",
    "examples",
    "examples copied",
    "completion bash",
    "view examples/chat.jsonl --out chat.html",
    "audit examples/chat.jsonl --follow --idle 0.1",
]
# Tested with what they run, where that is tested: pipeline, papers and live groups.
ELSEWHERE = {"compile", "sweep", "reproduce", "node", "spark master", "spark worker"}
ELSEWHERE |= {"spark connect", "cluster", "compare", "members"}


def test_every_command_is_quick_or_tested_elsewhere():
    reported = {line.split()[0] for line in QUICK} | ELSEWHERE
    assert {name.removeprefix("precedes ") for name in LEAVES} <= reported


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("line", QUICK)
def test_every_object_names_what_made_it(line, place, capsys):
    assert main([*shlex.split(line), "--json"]) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    texts = lines if "--follow" in line else ["\n".join(lines)]
    found = [json.loads(text) for text in texts]
    assert found
    for one in found:
        assert one["precedes"] == made_by()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("line", QUICK)
def test_quiet_is_the_result_alone_and_verbose_adds_to_it(line, place, capsys):
    """Standard output is the same, but for times; quiet, nothing else is written."""

    def said(*more):
        arguments = shlex.split(line)
        if "keys" in arguments:
            arguments.append("--force")
        assert main([*more, *arguments]) in (0, 1)
        out, error = capsys.readouterr()
        return re.sub(r"(?m)^time .*", "", out), error

    usual, quiet, verbose = said(), said("-q"), said("-v")
    assert quiet[1] == ""
    assert quiet[0] == usual[0] == verbose[0]
    assert set(usual[1].splitlines()) <= set(verbose[1].splitlines())


NOTES = {
    "simulate vector --nodes 3 --messages 5 --interpreted": ["vector: interpreted", "simulate"],
    "simulate --scenario experiments/crash.toml": ["experiments/crash.toml: a scenario"],
    "audit examples/chat.jsonl examples/logs/chat.log": [
        "examples/chat.jsonl: jsonl",
        "examples/logs/chat.log: shiviz",
        "audit: ",
    ],
    "export examples/logs/edits.json --to jsonl --out x.jsonl": [
        "edits.json: edits",
        "writing x.jsonl",
    ],
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("line", NOTES)
def test_verbose_says_what_is_done(line, place, capsys):
    assert main(["-v", *shlex.split(line)]) in (0, 1)
    said = capsys.readouterr().err
    for text in NOTES[line]:
        assert text in said
    assert all(part.startswith("precedes: ") for part in said.splitlines())


def test_a_verbose_cluster_tells_its_phases_and_a_quiet_one_nothing():
    line = "cluster -n 2 --seconds 0.1 --rate 50 --interpreted"
    verbose = commands.run(*line.split(), "-v")
    found = re.findall(r"^precedes: cluster, (\w+): [\d.]+ s$", verbose.stderr, re.MULTILINE)
    assert [name for name in found if name != "settling"] == ["starting", "load", "audit"]
    assert len(found) == len(verbose.stderr.splitlines())
    quiet = commands.run(*line.split(), "-q")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert quiet.stdout.startswith("held: vector, 2 processes\n")


def test_a_warning_is_a_note_and_an_error_is_not(place, capsys):
    line = "simulate probabilistic --nodes 5 --messages 40 --interpreted --duplication 0.1"
    for level, expected in (("-q", 0), ("-v", 1)):
        assert main([*line.split(), level]) == 0
        assert capsys.readouterr().err.count("assumes") == expected
    assert main(["-q", "audit", "nowhere.jsonl"]) == 2
    assert "there is no log" in capsys.readouterr().err


def test_the_last_level_counts():
    more = ["--rate", "1", "--nodes", "9", "--entries", "5"]
    assert parse(["-q", "size", *more, "-v"]).level == Level.VERBOSE
    assert parse(["-v", "size", "-q", *more]).level == Level.QUIET
    assert not hasattr(parse(["size", *more]), "level")


def test_a_daemon_tells_what_it_becomes():
    """Before it is that."""
    with subprocess.Popen(
        commands.command("spark", "master", "--port", "0", "--json"),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        reported = json.loads(process.stdout.readline())
        process.kill()
    assert reported.pop("precedes") == made_by()
    assert reported == {
        "daemon": "master",
        "host": "127.0.0.1",
        "port": None,
        "process": process.pid,
    }
