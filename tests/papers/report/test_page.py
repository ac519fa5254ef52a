"""The page of a report in a browser: at both widths and schemes, with and without scripts."""

import dataclasses
import re

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from precedes_papers.measured import measure, ranged
from precedes_papers.outcome import judge
from precedes_papers.registry import check, load
from precedes_papers.report import Environment, write_report
from precedes_papers.rules import finding, outcome_of, same_sign, statements, within
from tests.support.browser import (
    SCHEMES,
    WAIT_S,
    WIDTHS,
    complaints,
    is_dark,
    overlapping,
    show,
    too_wide,
    without_words,
)
from tests.support.small_paper import paper_module
from tests.support.synthetic import results

OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"
SHOWN = """
const rows = [...document.querySelectorAll(arguments[0])];
return rows.filter((row) => row.checkVisibility()).map((row) => row.id);
"""


def shown_claims(browser, count):
    """The claims on the screen, once there are ``count``: a fragment applies after the page."""

    def shown(_):
        names = browser.execute_script(SHOWN, ".claim")
        return names if len(names) == count else None

    return WebDriverWait(browser, WAIT_S, poll_frequency=0.02).until(shown)


def judged(paper):
    return judge(paper, results(paper.experiments("quick"), seed=1), scale="quick")


@pytest.fixture(scope="module")
def small():
    return judged(check(paper_module(), number="900"))


@pytest.fixture(scope="module")
def outcomes():
    """Of two papers, with made-up results."""
    return [judged(load(number)) for number in ("001", "003")]


@pytest.fixture(scope="module")
def page(outcomes, tmp_path_factory):
    environment = Environment(command="precedes reproduce --out out", date="2001-02-03")
    folder = tmp_path_factory.mktemp("page")
    return write_report(outcomes, folder, environment=environment).local


@pytest.fixture
def without_scripts(browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    yield browser
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_cut_and_no_labels_touch(page, browser, width, scheme):
    show(browser, page, width=width, scheme=scheme)
    assert is_dark(browser) == (scheme == "dark")
    tall = browser.execute_script("return document.documentElement.scrollHeight")
    assert tall < (6_000 if width == 1280 else 9_000)  # what is folded is not in the way
    browser.execute_script(OPEN_ALL)
    assert too_wide(browser) == []
    assert overlapping(browser) == []
    assert without_words(browser) == []
    assert complaints(browser) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_of_one_small_paper(small, tmp_path, browser, width):
    show(browser, write_report([small], tmp_path).local, width=width)
    browser.execute_script(OPEN_ALL)
    assert too_wide(browser) == overlapping(browser) == without_words(browser) == []
    assert complaints(browser) == []


def test_the_picture_comes_first_and_every_dot_leads_to_its_claim(page, browser, outcomes):
    show(browser, page)
    top = browser.execute_script(
        "return document.querySelector('.dots').getBoundingClientRect().top"
    )
    assert top < 400
    dots = browser.execute_script(
        "return [...document.querySelectorAll('.dots a')].map((dot) => [dot.getAttribute('href'),"
        " dot.querySelector('title').textContent, dot.closest('g').getAttribute('class')])"
    )
    every = [(outcome, readings) for outcome in outcomes for readings in statements(outcome.claims)]
    assert len(dots) == len({address for address, _, _ in dots}) == len(every)
    words = {text.partition(". Published")[0]: (text, kind) for _, text, kind in dots}
    for outcome, readings in every:
        first = readings[0]
        text, kind = words[f"{outcome.reference.citation}, {first.item}: {first.statement}"]
        assert kind == outcome_of(readings).replace(" ", "-")
        assert all(claim.said in text and claim.reading in text for claim in readings)
    address = dots[-1][0]
    browser.execute_script("location.hash = arguments[0]", address)
    waits = WebDriverWait(browser, WAIT_S, poll_frequency=0.02)
    assert waits.until(lambda _: address[1:] in browser.execute_script(SHOWN, ".claim"))


def verdict_counts(outcome):
    found = {}
    for claim in outcome.claims:
        found[claim.verdict] = found.get(claim.verdict, 0) + 1
    return found


@pytest.mark.parametrize("scripts", [True, False])
def test_a_number_of_the_matrix_shows_those_claims_alone(page, browser, outcomes, scripts, request):
    if not scripts:
        request.getfixturevalue("without_scripts")
    outcome = outcomes[-1]
    for verdict, count in verdict_counts(outcome).items():
        kind = verdict.replace(" ", "-")
        show(browser, f"{page}#only-003-{kind}")
        assert all(name.startswith("c003-") for name in shown_claims(browser, count))
    show(browser, f"{page}#only-003-all")
    judged = sum(claim.verdict != "finding" for claim in outcome.claims)
    assert shown_claims(browser, judged)  # findings stay folded
    search = browser.execute_script("return document.querySelector('#claims-003 label').hidden")
    assert search == (not scripts)


def test_search_and_arrow_keys(page, browser):
    show(browser, f"{page}#only-003-all")
    waits = WebDriverWait(browser, WAIT_S, poll_frequency=0.02)
    waits.until(lambda _: browser.execute_script(SHOWN, "#claims-003 .claim"))
    field = browser.find_element("css selector", "#claims-003 input")
    field.send_keys("POISSON")
    shown = browser.execute_script(SHOWN, "#claims-003 .claim")
    text = browser.execute_script(
        "return [...document.querySelectorAll('#claims-003 .claim')]"
        ".filter((row) => row.textContent.toLowerCase().includes('poisson')"
        " && !row.closest('.findings')).map((row) => row.id)"
    )
    assert shown == text
    assert shown
    chart = browser.find_element("css selector", ".pair svg")
    browser.execute_script("arguments[0].focus()", chart)
    chart.send_keys(Keys.ARROW_RIGHT)
    reported = browser.find_element("css selector", ".pair .readout").text
    assert re.search(
        r"processes 8: .*seeds? 1.* of fault-free; .*precedes reproduce bundled", reported
    )


def test_a_cell_shows_the_interval_that_it_was_judged_by(page, outcomes):
    """Of one more run in Table 1 of "Improving accuracy", which is printed of one run."""
    text = page.read_text(encoding="utf-8")
    table = text[text.index('id="table-003-table-1"') :]
    judged = r'href="#c003-(\d+)">[^<]*<b[^>]*>[^<]*</b></a>(?:<span class="interval">([^<]*))?'
    cells = re.findall(judged, table[: table.index("</table>")])
    assert len(cells) >= 4
    for place, interval in cells:
        claim = outcomes[-1].claims[int(place) - 1]
        low = float(interval.partition(" to ")[0].replace(",", "")) if interval else claim.low
        assert low == pytest.approx(claim.low, rel=0.02, abs=1)


def test_every_dot_can_be_walked_to(page, browser):
    show(browser, page)
    chart = browser.find_element("css selector", ".dots")
    browser.execute_script("arguments[0].focus()", chart)
    chart.send_keys(Keys.ARROW_LEFT)  # from the first to the last
    reported = browser.find_element("css selector", ".question .readout").text
    last = browser.execute_script(
        "return [...document.querySelectorAll('.dots a title')].at(-1).textContent"
    )
    assert reported == last
    chart.send_keys(Keys.ENTER)
    assert (
        browser.execute_script("return document.querySelector(':target').className.slice(0, 5)")
        == "claim"
    )


def of(read, *values):
    return measure(read, [{"x": value, "fitted": [], "seed": 1} for value in values])


@ranged(0)
def count(run):
    return run["x"]


def test_reasons_once_points_no_interval_and_directions(small, tmp_path):
    reason = "the paper does not give the length of runs"
    claims = (
        *(
            within(("Table 1", f"cell {n}"), published=9, measured=of(count, 1, 2),
                   reason=reason)
            for n in range(8)
        ),
        within(("Table 1", "same"), published=240, measured=of(count, 240, 240)),
        same_sign(("Table 1", "more"), published=1, measured=of(count, 3, 4),
                  is_size=False),
        finding(("Table 1", "found"), measured=of(count, 0, 0, 1)),
    )  # fmt: skip
    outcome = dataclasses.replace(small, claims=claims, story=type(small.story)())
    text = write_report([outcome], tmp_path).local.read_text(encoding="utf-8")
    assert text.count(reason) == 1
    assert text.count('class="letter">a</a>') == 8
    assert "240 to 240" not in text
    assert ">above 0<" in text
    rows = re.findall(r'<td class="number interval"[^>]*>([^<]+)', text)
    assert rows
    assert not any("\N{MINUS SIGN}" in row for row in rows)  # no count below 0
    assert "1 findings" in text


def test_what_made_it_is_reported(page, outcomes):
    text = page.read_text(encoding="utf-8")
    for wanted in ("2001-02-03", "precedes reproduce --out out", "digest of the sources"):
        assert wanted in text
    for outcome in outcomes:
        assert outcome.reference.title in text
        assert outcome.reference.doi in text
        assert outcome.reference.hal in text
    words = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert not re.search(r"\bpaper 00\d|(?<![,.\d])00[0-4]\b", words)  # by name, not by number


def test_cells_are_marked_by_the_verdict_about_them(page, outcomes):
    """Table 2 of Rodrigues et al.: every measured cell has a claim, and stands for its verdict."""
    text = page.read_text(encoding="utf-8")
    table = text[text.index('id="table-001-table-2-messages"') :]
    table = table[: table.index("</table>")]
    cells = re.findall(r'class="number judged ([a-z-]+)"><a href="#(c001-\d+)"', table)
    assert len(cells) == 25
    places = {f"c001-{n}": one for n, one in enumerate(outcomes[0].claims, start=1)}
    for kind, place in cells:
        assert places[place].verdict.replace(" ", "-") == kind
        assert places[place].item == "Table 2, messages"
