"""The record in docs/record is what the code gives: a few of its runs, repeated."""

import copy
import csv
import json
from collections import Counter

import pytest

from precedes_papers.registry import leaves, papers, references
from precedes_papers.rules import OUTCOMES
from tools.record import CHEAP, KEPT, REPEATED, cheap_runs, differences, repeat

RECORDED = json.loads(REPEATED.read_text(encoding="utf-8"))
PLANNED = dict(cheap_runs())


@pytest.mark.parametrize("name", PLANNED)
def test_a_run_gives_what_is_recorded(name):
    """Of another result `make record` makes another record; another comment changes nothing."""
    assert differences(RECORDED[name], repeat(PLANNED[name])) == []


@pytest.mark.parametrize("name", RECORDED)
def test_any_other_recorded_value_is_convicted(name):
    """The twin: each value of the record, changed by a little."""
    for path, value in leaves(RECORDED[name]):
        planted = copy.deepcopy(RECORDED[name])
        place = planted
        for key in path[:-1]:
            place = place[key]
        if isinstance(value, bool) or value is None:
            place[path[-1]] = "planted"
        elif isinstance(value, (int, float)):
            place[path[-1]] = value + (1 if isinstance(value, int) else 1e-6 * (abs(value) or 1.0))
        else:
            place[path[-1]] = f"{value} planted"
        (line,) = differences(planted, RECORDED[name])
        assert str(path[-1]) in line


def test_every_paper_is_repeated_and_nothing_else_is_recorded():
    assert set(CHEAP) == set(papers())
    assert list(RECORDED) == list(PLANNED)
    short = copy.deepcopy(RECORDED)
    name = next(iter(short))
    del short[name]["packets"]
    assert differences(RECORDED[name], short[name])


@pytest.mark.parametrize("page", ["findings.md", "record.md"])
def test_pages_count_the_statements_of_the_record(page):
    with (KEPT / "statements.csv").open(newline="", encoding="utf-8") as file:
        counted = Counter((row["paper"], row["outcome"]) for row in csv.DictReader(file))
    text = (KEPT.parent / page).read_text(encoding="utf-8")
    for number, reference in references().items():
        cells = [reference.citation, *(str(counted[number, outcome]) for outcome in OUTCOMES)]
        assert f"| {' | '.join(cells)} |\n" in text
    totals = (sum(counted[number, outcome] for number in papers()) for outcome in OUTCOMES)
    assert f"| all | {' | '.join(map(str, totals))} |\n" in text
