"""The frame of every page, in a browser; and that the checks of pages find what is wrong."""

import pytest

from precedes.pages import document
from tests.support.browser import (
    NO_BROWSER,
    SCHEMES,
    complaints,
    is_dark,
    overlapping,
    show,
    too_wide,
    without_words,
)
from tests.support.processes import python

WIDE = "<table><tr>" + "<td>wide</td>" * 60 + "</tr></table>"
LABELS = (
    '<svg viewBox="0 0 99 99" aria-label="l"><text y="20">one</text><text y="{}">two</text></svg>'
)


def write(folder, body):
    path = folder / "page.html"
    path.write_text(document(title="A page", body=body), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", SCHEMES)
def test_light_and_dark_without_a_complaint(tmp_path, browser, scheme):
    show(browser, write(tmp_path, "<p>words</p>"), scheme=scheme)
    assert complaints(browser) == []
    assert is_dark(browser) == (scheme == "dark")
    assert browser.title == "A page"


def test_a_page_that_complains(tmp_path, browser):
    show(browser, write(tmp_path, "<script>missing()</script>"))
    assert "missing is not defined" in complaints(browser)[0]


@pytest.mark.parametrize(
    ("body", "is_cut"),
    [
        (WIDE, True),
        (f'<div style="overflow: hidden">{WIDE}</div>', True),
        (f'<div style="overflow: auto">{WIDE}</div>', True),  # not everywhere by keyboard
        (f'<div class="frame" tabindex="0">{WIDE}</div>', False),
        ("<p>words</p>", False),
    ],
)
def test_what_is_cut_at_the_right(tmp_path, browser, body, is_cut):
    show(browser, write(tmp_path, body), width=390)
    assert bool(too_wide(browser)) == is_cut


@pytest.mark.parametrize(("second", "found"), [(11, ["one | two"]), (60, [])])
def test_labels_that_overlap(tmp_path, browser, second, found):
    show(browser, write(tmp_path, LABELS.format(second)))
    assert overlapping(browser) == found


def test_pictures_without_words(tmp_path, browser):
    body = '<canvas></canvas><svg aria-labelledby="t"><title id="t">words</title></svg>'
    show(browser, write(tmp_path, body))
    assert without_words(browser) == ["<canvas></canvas>"]


OUTSIDE = """
def test_of_a_page(browser):
    raise AssertionError("there is no browser")
"""


@pytest.mark.parametrize(("gate", "status", "said"), [("", 0, "1 skipped"), ("true", 1, "1 error")])
def test_without_a_browser(tmp_path, gate, status, said):
    """Python alone is enough for the tests, but not for the gate."""
    (tmp_path / "test_outside.py").write_text(OUTSIDE, encoding="utf-8")
    line = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    done = python("-m", "pytest", *line, env={"PATH": str(tmp_path), "CI": gate})
    assert (done.returncode, f"{said} in " in done.stdout) == (status, True), done.stdout
    assert NO_BROWSER in done.stdout
