"""Bars and spinners: drawn in a notebook or on a terminal, and then gone; a pipe has none."""

import io
import re
import sys
import time
from types import SimpleNamespace

import pytest

from precedes import ProgressBar, simulate
from precedes.progress import EVERY_S
from tests.support import terminals
from tests.support.processes import python

ERASE = "\x1b[2K"
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-9;]*m")
QUIET = "from precedes import console; console.set_level(console.Level.QUIET)\n"

BAR = """
import sys, time
from precedes.progress import EVERY_S, ProgressBar
with ProgressBar("work [1]", first_s=float(sys.argv[1])) as bar:
    for share in (0.25, 0.5):
        bar(share)
        time.sleep(EVERY_S)
print("done")
"""

# A loop that compiles in a moment, by a process of its own.
LOOP = """
from precedes import progress
from tests.support import small_loop
progress.show_waiting()
with progress.ProgressBar("work", first_s=0) as bar:
    bar(0.5)
    (numbers,) = small_loop.arguments()
    print(small_loop.code().wait(numbers)(numbers))
"""
COMPILING = "compiling a small loop for first use (some seconds; then cached)"


def test_a_bar_is_drawn_and_taken_away():
    out, shown = terminals.run("-c", BAR, 0)
    assert out == "done\n"
    assert shown.index("work [1]") < shown.index("%"), "no percentage without a text"
    assert shown.index(" 25%") < shown.index(" 50%") < shown.rindex(ERASE)
    assert COLOUR.search(shown)
    without = terminals.run("-c", BAR, 0, NO_COLOR="1")[1]
    assert " 50%" in without
    assert not COLOUR.search(without)


def test_short_work_and_a_quiet_command_have_no_bar_and_no_spinner(empty_cache):
    assert terminals.run("-c", BAR, 60) == ("done\n", "")
    assert terminals.run("-c", QUIET + BAR, 0) == ("done\n", "")
    assert terminals.run("-c", QUIET + LOOP) == ("5\n", "")


@pytest.mark.parametrize("forced", ["", "1"])
def test_a_pipe_has_no_bar(forced, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", forced)  # Rich would take it for a terminal
    done = python("-c", BAR, 0)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_spinner_turns_while_a_loop_is_compiled(empty_cache):
    """Below the bar, if there is one; from the cache there is nothing to wait for."""
    out, shown = terminals.run("-c", LOOP)
    assert out == "5\n"
    assert COMPILING in shown
    assert re.search(r"0:\d\d:\d\d", shown)
    assert shown.rindex(COMPILING) < shown.rindex(ERASE)
    out, shown = terminals.run("-c", LOOP)
    assert out == "5\n"
    assert COMPILING not in shown


# A long run of which a tenth took a minute until a compiler was done, and the next tenth a second.
PACES = """
import time
clock = [0.0]
time.monotonic = lambda: clock[0]
from rich.progress import Progress
from precedes import progress, waiting
first = Progress.__init__
Progress.__init__ = lambda self, *columns, **more: first(
    self, *columns, **more, get_time=lambda: clock[0]
)
progress.show_waiting()
with progress.ProgressBar("work", first_s=0) as bar:
    for part in range(11):
        bar(part / 100)
        clock[0] += 6.0
    with waiting.shown("a compiler"):
        pass
    for part in range(11, 20):
        bar(part / 100)
        clock[0] += 0.1
"""


def test_the_time_left_is_estimated_again_after_a_compiler():
    shown = terminals.run("-c", PACES)[1]
    slow, fast = shown.split("a compiler")[0], shown.split("a compiler")[-1]
    assert re.findall(r"\d\d:\d\d", slow)[-1] == "09:00"
    assert re.findall(r"\d\d:\d\d", fast)[-1] in ("00:08", "00:09")


def test_a_bar_whose_work_fails_stays_and_the_next_one_is_alone(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    ProgressBar("failed", first_s=0)(0.5)
    failed = sys.stderr.getvalue()
    assert failed.rindex("failed") > failed.rindex(ERASE)
    bar = ProgressBar("simulate vector", first_s=0)
    simulate("vector", nodes=4, messages=400, tier="interpreted", progress=bar)
    shown = sys.stderr.getvalue().removeprefix(failed)
    assert shown.rindex("simulate vector ") < shown.rindex(ERASE)
    assert "failed" not in shown


def test_in_a_notebook_it_is_one_output_that_ends_empty(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(("update", data["text/html"]))

    def display(data, raw, display_id):
        shown.append(("display", data["text/html"]))
        return Handle()

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    bar = ProgressBar("<b>", first_s=0)
    for share in (0.25, 0.5, 1.0):
        bar(share)
        time.sleep(EVERY_S)
    assert [how for how, _ in shown] == ["display", "update", "update"]
    assert '<progress max="1" value="0.250"' in shown[0][1]
    assert "&lt;b&gt;" in shown[0][1]
    assert shown[-1][1] == ""
