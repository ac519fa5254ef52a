"""Results on a terminal: lines that fit it and colour, which a pipe never has."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.cli.terminal import wrapped
from tests.support import terminals
from tests.support.processes import python

RESET = "\x1b[0m"
BOLD = "\x1b[1m"
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-9;]*m")

LOG = """{"node": "a", "kind": "broadcast", "message": "[bold]one"}
{"node": "a", "kind": "broadcast", "message": "two"}
{"node": "b", "kind": "deliver", "message": "two"}
{"node": "b", "kind": "deliver", "message": "[bold]one"}
"""


def plain(shown):
    """The text on a terminal, without colour."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.replace("\r\n", "\n"))


@pytest.mark.gate
@pytest.mark.usefixtures("engine")
def test_colour_adds_to_the_text_of_a_pipe_and_changes_nothing(tmp_path):
    (tmp_path / "log.jsonl").write_text(LOG)
    wide = {"COLUMNS": "400"}
    log = str(tmp_path / "log.jsonl")
    for style, line in ((re.escape(BOLD), ["protocols"]), (COLOUR, ["audit", log])):
        command = ["-m", "precedes.cli", *line]
        done = python(*command)
        coloured = terminals.run(*command, terminal="stdout", **wide)[1]
        without = terminals.run(*command, terminal="stdout", NO_COLOR="1", **wide)[1]
        # Numba imports colorama where that is installed, which resets a terminal at its exit.
        assert without.replace("\r\n", "\n").removesuffix(RESET) == done.stdout != ""
        assert re.search(style, coloured)
        assert plain(coloured) == done.stdout


@pytest.mark.usefixtures("engine")
def test_an_audit_fits_the_terminal_and_is_a_line_a_witness_in_a_pipe(tmp_path):
    (tmp_path / "first.jsonl").write_text(LOG)
    (tmp_path / "second.jsonl").write_text(LOG)
    command = ["-m", "precedes.cli", "audit", str(tmp_path)]
    piped = python(*command).stdout
    heads = [line for line in piped.splitlines() if line.startswith(str(tmp_path))]
    assert [Path(head.partition(":")[0]).name for head in heads] == ["first.jsonl", "second.jsonl"]
    assert piped.count("\n  - ") == 2
    assert piped.count("FIFO order of one sender") == 1
    assert len(piped.splitlines()) == 2 + 2 * 2
    shown = plain(terminals.run(*command, terminal="stdout", COLUMNS="50")[1])
    witness = shown[shown.index("  - ") :].splitlines()[:3]
    assert all(len(line) <= 50 for line in witness)
    assert witness[1].startswith("    ")
    assert " ".join(shown.split()) == " ".join(piped.split())


TABLE = """
from precedes.cli import terminal
terminal.show_table(["", "latency ms"], [["vector", "1.5 +- 0.1"], ["[red]", "-"]])
"""


def test_a_table():
    done = python("-c", TABLE)
    assert done.stdout == "        latency ms\nvector  1.5 +- 0.1\n[red]            -\n"
    shown = terminals.run("-c", TABLE, terminal="stdout")[1].replace("\r\n", "\n")
    assert BOLD in shown
    assert plain(shown) == done.stdout


NARROW = """
from precedes.cli import terminal
head = ["", "latency, ms", "bytes/delivery"]
terminal.show_table(head, [["vector", "1.50 +- 0.10", "278.00"], ["hashed k=2", "11.25", "-"]])
"""


def test_a_table_that_is_too_wide_for_a_terminal_is_one_of_blocks():
    def lines(columns):
        shown = terminals.run("-c", NARROW, terminal="stdout", COLUMNS=columns, NO_COLOR="1")[1]
        return shown.split("\r\n")[:-1]

    assert lines("40") == lines("60") == [
        "             latency, ms  bytes/delivery",
        "vector      1.50 +- 0.10          278.00",
        "hashed k=2         11.25               -",
    ]  # fmt: skip
    assert lines("39") == [
        "vector",
        "  latency, ms     1.50 +- 0.10",
        "  bytes/delivery        278.00",
        "hashed k=2",
        "  latency, ms            11.25",
        "  bytes/delivery             -",
    ]


WITNESS = "  - node a b delivered 1:2 before 1:1, but 1:1 precedes 1:2: 12,345 later."


def test_a_long_line_goes_on_below_its_text():
    assert wrapped(WITNESS, width=40).split("\n") == [
        "  - node a b delivered 1:2 before 1:1,",
        "    but 1:1 precedes 1:2: 12,345 later.",
    ]
    assert wrapped("formula     checked for some", width=25).split("\n") == [
        "formula     checked for",
        "            some",
    ]
    assert wrapped("  " + "word " * 3 + "end", width=12).split("\n") == [
        "  word word",
        "    word end",
    ]
    assert wrapped(WITNESS, width=11, names=["a b"]).split("\n")[:2] == ["  - node", "    a b"]
    assert wrapped(WITNESS, width=len(WITNESS)) == WITNESS


words = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
names = st.lists(words, min_size=1, max_size=3).map(" ".join)


@given(st.lists(st.one_of(words, names), min_size=1), names, st.integers(8, 60), st.data())
def test_no_line_ends_inside_a_word_or_a_name(pieces, name, width, data):
    pieces.insert(data.draw(st.integers(0, len(pieces))), name)
    bullet = data.draw(st.sampled_from(["", "  ", "  - ", "label   "]))
    line = bullet + " ".join(pieces)
    lines = wrapped(line, width=width, names=[name]).split("\n")
    assert " ".join(line.split()) == " ".join(" ".join(lines).split())
    assert any(name in part for part in lines)
    whole = line.replace(name, name.replace(" ", "_")).split()
    for part in lines:
        part = part.replace(name, name.replace(" ", "_"))
        assert set(part.split()) <= set(whole)
        assert len(part) <= width or len(part.split()) <= 2  # a bullet or label, and a long word
