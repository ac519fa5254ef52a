"""The page of a comparison and the files next to it, in a browser."""

import csv
import json

import pytest

from precedes.comparison.load import load_of
from precedes.comparison.page import page
from precedes.comparison.ranking import ranked, recommend
from precedes.comparison.result import Comparison
from tests.support.browser import (
    SCHEMES,
    WIDTHS,
    complaints,
    is_dark,
    overlapping,
    show,
    too_wide,
    without_words,
)
from tests.support.rows import row


@pytest.fixture(scope="module")
def written(kept, tmp_path_factory):
    _, comparison = kept
    folder = tmp_path_factory.mktemp("written")
    return comparison, comparison.write(folder, command="precedes compare <&>").local


def made_up(*rows, error=None):
    order = ranked(rows, error=error)
    return Comparison(
        load=load_of(nodes=100, rate=50),
        rows=tuple(one for one, _ in order),
        standings=tuple(place for _, place in order),
        excluded=(),
        recommendation=recommend(order),
        made_by={"version": "1", "sources": "a" * 64},
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_or_covered(written, browser, width, scheme):
    _, index = written
    show(browser, index, width=width, scheme=scheme)
    assert complaints(browser) == []
    assert too_wide(browser) == []
    assert overlapping(browser) == []
    assert without_words(browser) == []
    assert is_dark(browser) == (scheme == "dark")


def test_it_says_what_the_result_says(written, browser):
    comparison, index = written
    show(browser, index)
    text = browser.find_element("css selector", "body").text
    assert comparison.recommendation.sentence in text
    assert "precedes compare <&>" in text
    rows = browser.find_elements("css selector", ".ranked tbody tr")
    assert [one.find_element("css selector", "th").text for one in rows] == [
        one.label for one in comparison.rows
    ]
    assert len(browser.find_elements("css selector", "figure svg")) == 5


def test_every_row_leads_to_a_diagram_of_its_run(written, browser):
    comparison, index = written
    show(browser, index)
    links = browser.find_elements("css selector", ".ranked tbody th a")
    places = {one.text: one.get_attribute("href") for one in links}
    assert set(places) == {one.label for one in comparison.rows}
    browser.get(places["unordered"])
    assert "unordered" in browser.page_source
    assert [one for one in complaints(browser) if "SEVERE" in one] == []


def test_the_files_agree_with_the_result(written):
    comparison, index = written
    values = json.loads((index.parent / "comparison.json").read_text())
    assert values == json.loads(json.dumps(comparison.as_dict()))
    assert (index.parent / "table.md").read_text() == comparison.to_markdown()
    assert (index.parent / "table.tex").read_text() == comparison.to_latex()
    with (index.parent / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [one["protocol"] for one in rows] == [one.label for one in comparison.rows]
    assert [float(one["bytes_per_delivery"]) for one in rows] == [
        one.bytes_per_delivery for one in comparison.rows
    ]
    with (index.parent / "latency.csv").open() as file:
        counts = [int(one["deliveries"]) for one in csv.DictReader(file)]
    assert sum(counts) == sum(one.deliveries for one in comparison.rows)


def test_the_same_result_gives_the_same_page(written, tmp_path):
    comparison, index = written
    again = comparison.write(tmp_path, command="precedes compare <&>").local
    assert again.read_text() == index.read_text()


def test_nobody_serves_the_load(tmp_path, browser):
    path = tmp_path / "page.html"
    path.write_text(page(made_up(row("a", guarantee="none", violations=9)), links={}))
    show(browser, path)
    assert "None: none serves this load" in browser.find_element("css selector", ".answer").text
    assert too_wide(browser) == []


def test_no_more_lines_than_can_be_distinguished():
    rows = [row(f"p{number:02}", size=100.0 + number) for number in range(12)]
    text = page(made_up(*rows), links={})
    assert text.count('<tr class="fit"') == 11
    assert "p11, N^" not in text
