"""Results as frames, and what a notebook shows of them."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pyarrow as pa
import pytest

from precedes import frames, simulate
from precedes.audit import Reports, audit
from precedes.pipeline import tables
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def result():
    return simulate("unordered", nodes=4, messages=40, tier="interpreted")


@pytest.fixture(scope="module")
def reports():
    return audit(ROOT / "examples/chat.jsonl")


class Cells(HTMLParser):
    """The texts of cells with whether they stand to the right; every tag must be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.said = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append(["", ("class", "number") in attributes])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" in self.open:
            return
        if {"td", "th"} & set(self.open):
            self.cells[-1][0] += text
        self.said += text


def test_a_run_is_a_row_of_the_table_of_a_sweep(result):
    table = result.to_arrow()
    assert table.num_rows == 1
    names = [name for name in table.column_names if not name.startswith("extra_")]
    assert names == ["protocol", "nodes", "seed", *tables.RESULTS.names[1:]]
    row = table.to_pylist()[0]
    assert row["violating_deliveries"] == result.violations.deliveries > 0
    assert row["delivery_ms_p99"] == result.latency.p99
    assert {f"extra_{name}" for name in result.extra} < set(row)


def test_frames_of_pandas_have_the_same(result, reports):
    for one in (result, reports, reports[0]):
        frame = one.to_pandas()
        assert isinstance(frame, pd.DataFrame)
        assert frame.to_dict("records") == one.to_arrow().to_pylist()


def test_an_audit_is_a_frame_of_its_runs(reports):
    assert reports.to_arrow().column("verdict").to_pylist() == ["violated"]
    mixed = Reports([reports[0], replace(reports[0], run_id="second")])
    assert mixed.to_arrow().column("run_id").to_pylist() == [str(reports[0].run_id), "second"]
    assert "witnesses" not in mixed.to_arrow().column_names


def test_a_notebook_shows_a_run(result):
    shown = Cells(result._repr_html_())
    cells = [text for text, _ in shown.cells]
    assert cells[cells.index("out of causal order") + 1] == f"{result.violations.deliveries:,}"
    assert all(right for _, right in shown.cells[1::2])
    assert "unordered: 4 nodes, seed 1" in shown.said
    assert "did not quiesce" in replace(result, complete=False)._repr_html_()
    unknown = replace(result, violations=None, lost=None)._repr_html_()
    assert '<td class="number">\u2013</td>' in unknown


def test_a_notebook_shows_a_verdict_in_words_and_with_a_mark(reports):
    shown = Cells(reports._repr_html_())
    assert "\u2717 violated: 1 of 4 deliveries out of causal order" in shown.said
    assert reports[0].witnesses[0].sentence in shown.said
    assert shown.said == Cells(reports[0]._repr_html_()).said
    assert "? unknown: 0 runs" in Cells(Reports()._repr_html_()).said


def test_names_of_a_log_are_text(reports):
    nasty = "<script>alert(1)</script>\x1b[2J"
    witness = replace(reports[0].witnesses[0], sentence=nasty)
    report = replace(reports[0], origin=nasty, run_id=nasty, witnesses=(witness,))
    html = report._repr_html_()
    assert "<script" not in html
    assert "<li>&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J</li>" in html


def test_long_tables_are_cut_and_say_so():
    shown = Cells(frames.table(["name", "value"], [(f"n{i}", i * 1000) for i in range(50)], more=7))
    assert len(shown.cells) == 2 + 2 * frames.ROWS_MAX
    assert "and 27 more rows: to_pandas() has them all" in shown.said
    assert shown.cells[1] == ["value", True]
    assert shown.cells[5] == ["1,000", True]
    assert shown.cells[0] == ["name", False]


def test_styles_stay_inside():
    style = frames.shown().partition("<style>")[2].partition("</style>")[0]
    rules = re.findall(r"^([^ }\n][^{]*)\{", style, re.MULTILINE)
    assert rules
    assert all(rule.startswith(".precedes-shown") for rule in rules)


def test_values_are_written_as_people_read_them():
    values = [None, True, 1234567, 0.123456, 12345.6, "text"]
    reported = ["\u2013", "yes", "1,234,567", "0.1235", "12,346", "text"]
    assert list(map(frames.cell, values)) == reported
    assert isinstance(frames.arrow_of([{"a": 1}]), pa.Table)
