"""What a terminal gets beside the result, and a pipe never."""

import os
import re
import subprocess
import sys

import pytest

from precedes.cli.terminal import Pace, clock
from tests.support import terminals

ERASE = "\x1b[2K"
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-9;]*m")

# Draws each share before the next one, however busy the machine is.
BAR = """
import sys
from precedes.cli import terminal
terminal.FIRST_S = float(sys.argv[1])
with terminal.Bar("work [1]") as bar:
    for share in (0.25, 0.5):
        bar.update(share)
        if bar._drawn:
            bar._drawn.refresh()
print("done")
"""

# A loop that compiles in a moment, in a file: Numba caches nothing else.
LOOP = """
from precedes.cli import terminal
from precedes import compiled
def run(x):
    return x + 1
terminal.show_waiting()
with terminal.Bar("work") as bar:
    bar._first_s = 0
    bar.update(0.5)
    print(compiled.Entry(run, label="a small loop").compiled()(1))
"""
COMPILING = "compiling a small loop for first use (some seconds; then cached)"


def test_a_bar_is_drawn_and_taken_away():
    out, shown = terminals.run("-c", BAR, 0)
    assert out == "done\n"
    assert "work [1]" in shown
    assert " 25%" in shown
    assert shown.index(" 25%") < shown.index(" 50%") < shown.rindex(ERASE)
    assert COLOUR.search(shown)


def test_the_time_that_is_left():
    """By shares and clocks alone: a start that lasts half a minute is no measure of the work."""
    pace = Pace()
    assert [pace.left_s(0.0, now_s) for now_s in (0, 10, 30)] == [None, None, None]
    assert pace.left_s(0.005, 31) is None, "too little is known"
    assert pace.left_s(0.1, 40) == pytest.approx(90)
    assert pace.left_s(0.1, 50) == pytest.approx(180), "nothing came of ten seconds"
    assert pace.left_s(0.5, 80) == pytest.approx(50)
    assert pace.left_s(1.0, 130) == 0
    resumed = Pace()
    assert resumed.left_s(0.5, 0) is None
    assert resumed.left_s(0.75, 10) == pytest.approx(10), "what was done before took no time"
    assert [clock(s) for s in (None, 0, 59.7, 3725)] == ["", "0:00 left", "1:00 left",
                                                         "1:02:05 left"]  # fmt: skip


def test_short_work_has_no_bar():
    assert terminals.run("-c", BAR, 60) == ("done\n", "")


def test_a_bar_without_colour():
    shown = terminals.run("-c", BAR, 0, NO_COLOR="1")[1]
    assert " 50%" in shown
    assert not COLOUR.search(shown)


@pytest.mark.parametrize("forced", ["", "1"])
def test_a_pipe_has_no_bar(forced, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", forced)  # Rich would take it for a terminal
    done = subprocess.run([sys.executable, "-c", BAR, "0"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_spinner_turns_while_a_loop_is_compiled(tmp_path):
    """Below the bar, if there is one; from the cache there is nothing to wait for."""
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    cache = {"PRECEDES_CACHE": str(tmp_path / "cache")}
    out, shown = terminals.run(script, **cache)
    assert out == "2\n"
    assert COMPILING in shown
    assert re.search(r"0:\d\d:\d\d", shown)
    assert shown.rindex(COMPILING) < shown.rindex(ERASE)
    out, shown = terminals.run(script, **cache)
    assert out == "2\n"
    assert COMPILING not in shown


def test_a_pipe_is_told_in_a_line_that_something_is_compiled(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True,
        env={**os.environ, "PRECEDES_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("2\n", f"precedes: {COMPILING}\n")


LOG = """{"node": "a", "kind": "broadcast", "message": "[bold]one"}
{"node": "a", "kind": "broadcast", "message": "two"}
{"node": "b", "kind": "deliver", "message": "two"}
{"node": "b", "kind": "deliver", "message": "[bold]one"}
"""


@pytest.mark.usefixtures("engine")
def test_colour_adds_to_the_text_of_a_pipe_and_changes_nothing(tmp_path):
    (tmp_path / "log.jsonl").write_text(LOG)
    for line in (["protocols"], ["audit", str(tmp_path / "log.jsonl")]):
        command = ["-m", "precedes.cli", *line]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        coloured = terminals.run(*command, terminal="stdout")[1].replace("\r\n", "\n")
        plain = terminals.run(*command, terminal="stdout", NO_COLOR="1")[1].replace("\r\n", "\n")
        assert plain == done.stdout != ""
        assert COLOUR.search(coloured)
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == done.stdout


TABLE = """
from precedes.cli import terminal
terminal.show_table(["", "latency ms"], [["vector", "1.5 +- 0.1"], ["[red]", "-"]])
"""


def test_a_table():
    done = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True)
    assert done.stdout == (f"      {'latency ms':>22}\nvector{'1.5 +- 0.1':>22}\n[red] {'-':>22}\n")
    shown = terminals.run("-c", TABLE, terminal="stdout")[1]
    assert "\u2500" * 10 in shown
    assert "[red]" in shown
