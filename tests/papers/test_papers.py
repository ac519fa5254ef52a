"""Every paper keeps the contract, and no printed number reaches a measured one."""

import copy
import dataclasses
import functools
import json
import math
import random

import pytest

from precedes.errors import InternalError, UserError
from precedes.sim import Result, Scenario
from precedes.sim.experiment import Experiment
from precedes_papers import registry
from precedes_papers.measured import Fitted, Measured, marked, measure
from precedes_papers.outcome import judge, reproduce
from precedes_papers.registry import PaperError, check, leaves, load, papers
from precedes_papers.report.files import claims_csv
from precedes_papers.rules import VERDICTS, finding
from precedes_papers.shown import Headlines, Published
from tests.support.small_paper import paper_module
from tests.support.synthetic import results


@pytest.fixture
def paper(request):
    """A paper whose printed values may be changed."""
    found = load(request.param)
    before = copy.deepcopy(found.published)
    yield found
    found.published.clear()
    found.published.update(before)


def change(data, draw):
    """Replace every printed number in place."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in list(items):
        if isinstance(value, tuple):
            data[key] = value = list(value)
        if isinstance(value, (dict, list)):
            change(value, draw)
        elif not isinstance(value, str):
            data[key] = value * 2 + draw.randint(1, 9)


def measured_in(outcome):
    """All that an outcome says was measured."""
    return (
        [(c.item, c.key, c.low, c.high) for c in outcome.claims],
        [c.measured for c in outcome.claims],
        [
            cell
            for t in outcome.tables
            for row in t.rows
            for cell in row
            if isinstance(cell, Measured)
        ],
        [s for f in outcome.figures for s in f.series if s.kind == "measured"],
    )


def published_in(outcome):
    """All that it says is printed."""
    return (
        [c.published for c in outcome.claims],
        [
            cell
            for t in outcome.tables
            for row in t.rows
            for cell in row
            if isinstance(cell, Published)
        ],
        [s for f in outcome.figures for s in f.series if s.kind == "published"],
    )


@pytest.mark.parametrize("paper", papers(), indirect=True)
def test_published_and_measured_never_mix(paper):
    made_up = results(paper.experiments("quick"), seed=1)
    first = judge(paper, made_up, scale="quick")
    change(paper.published, random.Random(1))
    printed_otherwise = judge(paper, made_up, scale="quick")
    assert measured_in(printed_otherwise) == measured_in(first)
    assert published_in(printed_otherwise) != published_in(first)
    other = judge(paper, results(paper.experiments("quick"), seed=2), scale="quick")
    assert published_in(other) == published_in(printed_otherwise)
    for one, again in zip(first.claims, other.claims, strict=True):
        # Of a share both intervals may be all that it can be.
        before = one.low, one.high, one.measured
        assert before != (again.low, again.high, again.measured) or one.low is None
    assert measured_in(other)[1] != measured_in(first)[1]


def test_the_test_above_finds_a_mixture():
    """Its twin: a module that hands on what is printed as measured is caught."""
    module = paper_module()
    module.claims = lambda results: [
        finding(
            ("Table 1", "deliveries"),
            measured=measure(lambda run: module.PUBLISHED["Table 1"][0], results["table-1"]),
        )
    ]
    mixed = check(module, number="900")
    made_up = results(mixed.experiments("quick"), seed=1)
    first = judge(mixed, made_up, scale="quick")
    change(mixed.published, random.Random(1))
    assert measured_in(judge(mixed, made_up, scale="quick")) != measured_in(first)


def marks(paper, made_up):
    """The fitted parameters in the claims of a paper."""
    return [claim.fitted for claim in paper.claims(marked(made_up, paper.fitted))]


@pytest.mark.parametrize("number", papers())
def test_what_was_fitted_is_named_in_claims_that_depend_on_it(number):
    paper = load(number)

    @functools.cache
    def made_up(scale):
        return results(paper.experiments(scale), seed=1)

    for one in paper.fitted:
        alone = dataclasses.replace(paper, fitted=[one])
        found = (mark for scale in registry.SCALES for mark in marks(alone, made_up(scale)))
        assert any(str(one) in mark for mark in found), one


def test_a_changed_parameter_is_marked_as_it_is_now():
    """A run with the fitted value has the mark, a run without it none."""

    def of(fitted):
        paper = check(paper_module(FITTED=fitted), number="900")
        return marks(paper, results(paper.experiments("quick"), seed=1))

    assert of((Fitted("nodes", 3, "Table 1"),)) == ["nodes 3, by Table 1"]
    assert of((Fitted("nodes", 4, "Table 1"),)) == of(()) == [""]
    whole = Fitted("span", 5, "Table 2", experiments=("table-1",))
    assert of((whole, Fitted("nodes", 3, "Table 1"))) == ["span 5, by Table 2; nodes 3, by Table 1"]
    with pytest.raises(PaperError, match="FITTED must hold a Fitted"):
        of(("nodes",))


@pytest.mark.parametrize("number", papers())
@pytest.mark.parametrize("scale", ["quick", pytest.param("full", marks=pytest.mark.swarm)])
def test_a_paper_makes_the_same_of_the_same_results(number, scale):
    """At both scales; through JSON, as a runner may hand results on; claims are of the paper."""
    paper = load(number)
    made_up = results(paper.experiments(scale), seed=3)
    first = judge(paper, made_up, scale=scale)
    again = judge(paper, json.loads(json.dumps(made_up)), scale=scale)
    assert again == first
    assert first.claims
    assert all(claim.verdict in VERDICTS for claim in first.claims)
    for claim in first.claims:
        assert claim.published is None or isinstance(claim.published, (int, float, str))
        assert (
            claim.measured is None
            or isinstance(claim.measured, str)
            or math.isfinite(claim.measured)
        )
    lines = claims_csv([first]).splitlines()
    names = "paper,item,key,published,measured,low,high,verdict,size,fitted,rule,reason,experiments"
    assert lines[0] == f"{names},statement,reading,effect,mark"


def returns(value):
    return lambda scale: value


SMALL = Experiment("a", (Scenario(protocol="vector", nodes=2),))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"REFERENCE": None}, "REFERENCE is missing in __init__.py"),
        ({"REFERENCE": "A paper"}, "REFERENCE must be a Reference"),
        ({"PUBLISHED": {}}, "PUBLISHED must be a dict"),
        ({"PUBLISHED": {"Table 1": [None]}}, "PUBLISHED holds numbers and text"),
        ({"PUBLISHED": {"Table 1": {"a": True}}}, "PUBLISHED holds numbers and text"),
        ({"HEADLINES": None}, "HEADLINES is missing in items.py"),
        ({"HEADLINES": Headlines()}, "HEADLINES must be Headlines with a statement"),
        ({"shown": None}, r"shown is missing in items.py"),
        ({"claims": lambda: []}, "claims must be a function of results"),
        ({"shown": lambda results: []}, "shown must be a function of results and claims"),
        ({"experiments": returns([])}, "not an empty one"),
        ({"experiments": returns([3])}, "must return Experiment, not int"),
        ({"experiments": returns([Experiment("A b", SMALL.scenarios)])}, "lower case"),
        ({"experiments": returns([Experiment("a", ())])}, "a has no scenarios"),
        ({"experiments": returns([SMALL, SMALL])}, "two experiments alike: a, a"),
    ],
)
def test_a_broken_module_is_refused(changes, says):
    with pytest.raises(PaperError, match=says) as caught:
        check(paper_module(**changes), number="900")
    assert "precedes_papers.p900" in str(caught.value)


def test_made_up_results_look_like_real_ones():
    made_up = results([SMALL], seed=1)["a"][0]
    fields = {item.name for item in dataclasses.fields(Result)}
    assert made_up.keys() == {*fields, "audit"}


def test_leaves():
    assert leaves({"a": [1, (2,)], "b": "c"}) == [(("a", 0), 1), (("a", 1, 0), 2), (("b",), "c")]


def test_claims_that_cannot_be_distinguished_are_refused():
    module = paper_module()
    once = module.claims
    module.claims = lambda results: once(results) * 2
    paper = check(module, number="900")
    with pytest.raises(InternalError, match="occurs twice"):
        judge(paper, results(paper.experiments("quick"), seed=1), scale="quick")
    module.claims = once
    shows = module.shown
    module.shown = lambda results, claims: shows(results, claims) * 2
    paper = check(module, number="900")
    with pytest.raises(InternalError, match="Table 1 occurs twice"):
        judge(paper, results(paper.experiments("quick"), seed=1), scale="quick")


def test_reproduce_refuses(tmp_path):
    with pytest.raises(UserError, match="scale is one of"):
        reproduce(["003"], directory=tmp_path, scale="huge")
    with pytest.raises(UserError, match="master"):
        reproduce(["003"], directory=tmp_path, master="spark://127.0.0.1:1")


def test_a_paper_named_twice_is_reproduced_once(tmp_path):
    """By two of its protocols and by its number."""

    def made_up(experiments, directory, *, master, settings, progress):
        assert all(one.name.startswith("003-") for one in experiments)
        return results(experiments, seed=1)

    (outcome,) = reproduce(["hashed", "003", "probabilistic"], directory=tmp_path, runner=made_up)
    assert outcome.paper == "003"
    assert outcome.reference.citation == '"Improving accuracy"'
    with pytest.raises(UserError, match="paper 'vector' is not here"):
        reproduce(["vector"], directory=tmp_path, runner=made_up)


def test_results_in_another_order_are_refused(tmp_path, monkeypatch):
    module = paper_module()
    monkeypatch.setattr("precedes_papers.outcome.load", lambda n: check(module, number=n))

    def backwards(experiments, directory, *, master, settings, progress):
        return {name: runs[::-1] for name, runs in results(experiments, seed=1).items()}

    with pytest.raises(InternalError, match="not in the order"):
        reproduce(["900"], directory=tmp_path, runner=backwards)
