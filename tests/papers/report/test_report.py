"""The files of a report: complete, well formed, the same for the same input."""

import csv
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from precedes.errors import UserError
from precedes_papers.measured import measure
from precedes_papers.outcome import Outcome, Timing, judge
from precedes_papers.registry import Reference, load
from precedes_papers.report import write_report
from precedes_papers.report.files import summary
from precedes_papers.rules import (
    VERDICTS,
    finding,
    irreproducible,
    outcome_of,
    same_order,
    statements,
    within,
)
from precedes_papers.shown import (
    Figure,
    Published,
    Table,
    measured_series,
    model_series,
    published_series,
)
from tests.support.synthetic import results

VOID = {"meta", "br", "hr", "img", "input", "link"}
NASTY = 'a & b <script>alert(1)</script> "quoted" é'


def of(*values):
    return measure(lambda run: run["x"], [{"x": value} for value in values])


@pytest.fixture(scope="module")
def outcomes():
    """One made-up outcome of a paper of the package, and one with what is awkward to print."""
    paper = load("003")
    about = [(NASTY, f"{key} {NASTY}") for key in "abcd"]
    lines = (
        measured_series(NASTY, [(1.0, of(0.0)), (10.0, of(2.0, 3.0)), (100.0, of(1.0, 9.0))]),
        published_series(NASTY, [(1.0, 1.0), (10.0, 0.0)]),
        model_series("formula", [(1.0, 2.0), (10.0, 3.0)]),
    )
    figures = [
        Figure(f"Figure {n}", NASTY, NASTY, "$y_1$ 100 %", lines, alt=NASTY, log_x=x, log_y=y)
        for n, (x, y) in enumerate([(False, False), (True, True), (False, True)])
    ]
    awkward = Outcome(
        paper="900",
        reference=Reference((f"{NASTY}, x", "y"), NASTY, NASTY, 1999, NASTY, ("vector",)),
        scale="full",
        timings=(Timing("a", 1, 0.26),),
        claims=(
            within(about[0], published=-5.0, measured=of(1.0)),
            irreproducible(about[1], published=9.0, reason=NASTY),
            same_order(about[2], published=[1, 2], measured=[of(1, 1), of(3, 3)]),
            finding(about[3], measured=of(1e-7, 2e-7)),
        ),
        tables=(Table("T", (NASTY, "b"), ((NASTY, None), (1.5, Published(2)), ("x", of(1, 2)))),),
        figures=tuple(figures),
    )
    made_up = results(paper.experiments("quick"), seed=1)
    return [judge(paper, made_up, scale="quick"), awkward]


@pytest.fixture(scope="module")
def report(outcomes, tmp_path_factory):
    """The folder of their report."""
    return write_report(outcomes, tmp_path_factory.mktemp("report")).parent.local


class Page(HTMLParser):
    """Elements, ids and links of a page; refuses what is not properly nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.elements, self.text = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), (tag, names)
        found = dict(attributes)
        self.elements.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src", "xlink:href") if name in found]
        self.links += re.findall(r"url\((#[^)]*)\)", " ".join(v or "" for v in found.values()))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_well_formed_and_stands_alone(report):
    text = (report / "index.html").read_text(encoding="utf-8")
    found = Page(text)
    assert len(set(found.ids)) == len(found.ids)
    for link in found.links:
        if link.startswith("#"):
            assert link[1:] in found.ids, link
        else:
            assert (report / link).is_file(), link
    code = re.sub(r"/\*.*?\*/|^//.*$", "", text, flags=re.MULTILINE)
    assert "//" not in code  # neither http:// nor //host
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in found.elements}
    assert [names for tag, names in found.elements if tag == "script"] == [{}]
    assert not any(name.startswith("on") for _, names in found.elements for name in names)
    assert "@import" not in text
    assert "alert(1)" in "".join(found.text)  # as text


def test_the_page_can_be_read_aloud(outcomes, report):
    found = Page((report / "index.html").read_text(encoding="utf-8"))
    kinds = [tag for tag, _ in found.elements]
    assert dict(found.elements)["html"]["lang"] == "en"
    assert kinds.count("table") == kinds.count("caption") == kinds.count("thead") > 4
    assert all(
        attributes["scope"] in ("row", "col", "colgroup", "rowgroup")
        for tag, attributes in found.elements
        if tag == "th"
    )
    plots = [attributes for tag, attributes in found.elements if tag == "svg"]
    assert len(plots) == 1 + sum(len(outcome.figures) for outcome in outcomes) > 4
    assert all(plot["aria-labelledby"] in found.ids for plot in plots)
    assert [plot["role"] for plot in plots] == ["group", *["img"] * (len(plots) - 1)]


def test_every_claim_is_there_and_the_filters_know_every_verdict(outcomes, report):
    text = (report / "index.html").read_text(encoding="utf-8")
    found = Page(text)
    rows = [
        attributes
        for tag, attributes in found.elements
        if tag == "tr" and "claim" in (attributes.get("class") or "").split()
    ]
    assert len(rows) == sum(len(outcome.claims) for outcome in outcomes)
    for verdict in VERDICTS:
        name = verdict.replace(" ", "-")
        assert f'[id$="-{name}"]:target) .claim:not(.{name})' in text
        assert f"only-003-{name}" in found.ids or not any(
            claim.verdict == verdict for claim in outcomes[0].claims
        )
    assert len({row["id"] for row in rows}) == len(rows)
    dots = [one for outcome in outcomes for one in statements(outcome.claims)]
    assert sum(tag == "circle" for tag, _ in found.elements) == len(dots)


def test_claims_and_tables_are_csv(outcomes, report):
    with (report / "claims.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    names = (
        "paper,item,key,published,measured,low,high,verdict,size,fitted,rule,reason,experiments,"
        "statement,reading,effect,mark"
    )
    assert ",".join(header) == names
    assert len(rows) == sum(len(outcome.claims) for outcome in outcomes)
    single, contradicted, order, found = [dict(zip(header, r, strict=True)) for r in rows[-4:]]
    assert (single["published"], single["measured"]) == ("-5", "1")
    assert (single["low"], single["high"]) == ("", "")
    assert (contradicted["measured"], contradicted["reason"]) == ("", NASTY)
    assert (order["published"], order["measured"]) == ("1 < 2", "1 < 3")
    assert (found["published"], found["measured"]) == ("", "1.5e-07")
    assert (report / "tables/900-t.csv").read_text().splitlines()[1:] == [
        f'"{NASTY.replace(chr(34), chr(34) * 2)}",,,',
        "1.5,2,,",
        "x,1.5,-4.853102368,7.853102368",
    ]
    names = {path.name for path in (report / "tables").iterdir()}
    assert {"003-table-1.csv", "003-errors-over-load.csv", "900-figure-1.csv"} < names


def test_a_report_replaces_an_earlier_one_and_nothing_else(outcomes, tmp_path):
    write_report(outcomes, tmp_path)
    (tmp_path / "tables/notes.csv").write_text("mine")
    write_report(outcomes[:1], tmp_path)
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert [name for name in names if not name.startswith("003-")] == ["notes.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "claims.csv",
        "index.html",
        "runs.csv",
        "statements.csv",
        "summary.txt",
        "tables",
        "timings.csv",
    ]
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    assert not any(line.startswith("900,") for line in lines)


def test_a_report_that_cannot_be_written_changes_nothing(outcomes, tmp_path):
    write_report(outcomes[:1], tmp_path)
    before = (tmp_path / "claims.csv").read_bytes()
    (tmp_path / "index.html").unlink()
    (tmp_path / "index.html").mkdir()
    with pytest.raises(UserError, match="cannot write the report"):
        write_report(outcomes[:1], tmp_path)
    assert (tmp_path / "claims.csv").read_bytes() == before
    assert not list(tmp_path.rglob("*.tmp-*"))
    with pytest.raises(UserError, match="cannot write the report"):
        write_report(outcomes[:1], tmp_path / "claims.csv")


SCRIPT = """
import pathlib, sys
from precedes_papers.registry import load
from precedes_papers.outcome import judge
from precedes_papers.report import write_report
from tests.support.synthetic import results
paper = load("003")
made_up = results(paper.experiments("quick"), seed=1)
write_report([judge(paper, made_up, scale="quick")], pathlib.Path(sys.argv[1]))
"""


def test_the_same_results_give_the_same_bytes(tmp_path):
    """In two processes with other hash seeds."""
    found = []
    for number in range(2):
        out = tmp_path / f"report{number}"
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        line = [sys.executable, "-c", SCRIPT, str(out)]
        subprocess.run(line, check=True, env=environment, timeout=120)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        found.append({path.relative_to(out): path.read_bytes() for path in files})
    assert len(found[0]) > 4
    assert found[0] == found[1]


def test_the_summary_counts(outcomes):
    lines = summary(outcomes).splitlines()
    assert lines[0].startswith("statements: ")
    assert lines[1].startswith("claims: ")
    verdicts = [claim.verdict for one in outcomes for claim in one.claims]
    assert f", {verdicts.count('irreproducible')} irreproducible" in lines[1]
    found = [outcome_of(one) for outcome in outcomes for one in statements(outcome.claims)]
    assert f"{found.count('met in none')} met in none" in lines[0]
    assert "  same trend: " in "\n".join(lines)
    assert "-inf" not in "\n".join(lines)
    assert summary([]).splitlines() == ["statements: none", "claims: none"]


def test_the_page_begins_with_the_number_of_statements(outcomes, report):
    text = (report / "index.html").read_text(encoding="utf-8")
    found = [one for outcome in outcomes for one in statements(outcome.claims)]
    assert f"Two papers make {len(found)} statements that can be measured" in text
    met = sum(outcome_of(one) == "met in all readings" for one in found)
    assert f"<b>{met} are met</b> in all readings" in text
    values = [claim for outcome in outcomes for claim in outcome.claims]
    judged = sum(one.rule in ("within", "one_run") and one.low is not None for one in values)
    assert f"Of the {judged} values judged by a 95&nbsp;% interval, about" in text


def test_statements_are_csv(outcomes, report):
    with (report / "statements.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = [one for outcome in outcomes for one in statements(outcome.claims)]
    assert [row["outcome"] for row in rows] == [outcome_of(one) for one in found]
    assert [int(row["readings"]) for row in rows] == [len(one) for one in found]
    row = next(row for row in rows if row["statement"] == "out of order, hash")
    assert row["readings"] == "4"
    assert row["verdicts"].startswith("periodic senders, deliveries: ")


def test_timings_are_those_of_the_runs(report, outcomes):
    with (report / "timings.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[-1] == {"paper": "900", "experiment": "a", "runs": "1", "cpu_s": "0.3"}
    assert sum(int(row["runs"]) for row in rows[:-1]) == outcomes[0].runs > len(rows)
