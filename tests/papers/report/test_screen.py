"""The final output of ``precedes reproduce``: one screen, whatever was run."""

import dataclasses

import pytest

from precedes.errors import InternalError
from precedes_papers.outcome import judge
from precedes_papers.registry import load
from precedes_papers.report import screen
from precedes_papers.rules import OUTCOMES, outcome_of, statements
from precedes_papers.shown import Claims, Headlines, Statement, story
from tests.support.synthetic import results


@pytest.fixture(scope="module")
def outcome():
    paper = load("003")
    return judge(paper, results(paper.experiments("quick"), seed=1), scale="quick")


@pytest.mark.parametrize("papers", [0, 1, 5, 9])
def test_it_fits_a_screen(outcome, papers):
    lines = screen([outcome] * papers, seconds=7300.4, page="out/index.html").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert lines[-1] == "page: out/index.html"
    assert lines[-2].endswith("; 122 min from begin to end")


def test_counts_and_headlines_are_those_of_the_claims(outcome):
    lines = screen([outcome], seconds=3, page="p").splitlines()
    found = [outcome_of(readings) for readings in statements(outcome.claims)]
    wanted = [found.count(name) for name in OUTCOMES]
    assert [int(word) for word in lines[1].removeprefix('"Improving accuracy"').split()] == wanted
    claim = next(one for one in outcome.claims if one.key.startswith("out of order, detector none"))
    assert claim.published == 507
    reported = [line for line in lines if line.startswith("  out of order, clock alone")]
    assert len(reported) == 2
    assert all(" 507 " in line for line in reported)


def test_large_numbers_have_commas_and_short_times_seconds():
    paper = load("001")
    outcome = judge(paper, results(paper.experiments("quick"), seed=1), scale="quick")
    lines = screen([outcome], seconds=215.0, page="p").splitlines()
    (line,) = (line for line in lines if line.startswith("  packets, without bundles"))
    assert " 2,095,104 " in line
    assert lines[-2].endswith("; 3 min 35 s from begin to end")


def test_a_long_name_is_cut(outcome):
    reference = dataclasses.replace(outcome.reference, short_title="long " * 40)
    long = dataclasses.replace(outcome, reference=reference)
    lines = screen([long, outcome], seconds=3, page="p").splitlines()
    assert max(map(len, lines)) <= 100
    assert "..." in lines[1]


def test_a_headline_without_its_claim_or_figure_is_refused(outcome):
    names = [figure.name for figure in outcome.figures]
    statement = Statement(says="{}", short="s", item="Table 1", statement="no such key")
    with pytest.raises(InternalError, match="there is no claim Table 1, no such key"):
        story(Headlines((statement,)), Claims(outcome.claims), names)
    with pytest.raises(InternalError, match="name no figure: Figure 99"):
        story(Headlines((), ("Figure 99",)), Claims(outcome.claims), names)
