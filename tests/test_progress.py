"""The bar for whoever calls Python: drawn in a notebook or on a terminal, and then gone."""

import io
import sys
from types import SimpleNamespace

import pytest

from precedes import ProgressBar, progress, simulate


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock on which every look takes a second."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_it_is_a_line_that_goes_away(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = ProgressBar("work")
    for share in (0.0, 0.5, 1.0):
        bar(share)
    first, half, end = sys.stderr.getvalue().split("\r")[1:]
    assert first == f"work [{' ' * 30}]   0%"
    assert half == f"work [{'=' * 15}{' ' * 15}]  50%"
    assert end == "\x1b[2K"


def test_in_a_pipe_it_is_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for share in (0.2, 1.0):
        ProgressBar("work")(share)
    assert sys.stderr.getvalue() == ""


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
    bar = ProgressBar("<b>")
    for share in (0.25, 0.5, 1.0):
        bar(share)
    assert [how for how, _ in shown] == ["display", "update", "update"]
    assert '<progress max="1" value="0.250"' in shown[0][1]
    assert "&lt;b&gt;" in shown[0][1]
    assert shown[-1][1] == ""


def test_a_simulation_draws_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress_seen = ProgressBar("simulate vector")
    simulate("vector", nodes=4, messages=400, tier="interpreted", progress=progress_seen)
    text = sys.stderr.getvalue()
    assert "simulate vector [" in text
    assert text.endswith("\x1b[2K")
