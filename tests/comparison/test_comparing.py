"""Real comparisons of small loads, with a protocol that keeps no order among the others."""

import json
import re
import shlex

import pytest

from precedes.cli.main import main
from precedes.comparison import carry_out_plan, plan
from precedes.comparison.tables import to_text
from precedes.errors import UserError
from tests.comparison.conftest import LOAD, NAMES
from tests.support.commands import fails
from tests.support.places import ROOT


def test_the_audit_convicts_what_keeps_no_order(kept):
    _, comparison = kept
    rows = {row.label: row for row in comparison.rows}
    assert set(rows) == set(NAMES)
    for name in ("vector", "vcube", "hashed"):
        assert rows[name].errors.violations == 0
        assert rows[name].errors.verdict == "held"
    assert rows["unordered"].errors.violations > 0
    assert rows["unordered"].errors.low > 0
    places = {place.label: place for place in comparison.standings}
    assert places["unordered"].rank is None
    assert comparison.recommendation.label in ("vector", "vcube", "hashed")


def test_every_row_has_all_its_numbers(kept):
    _, comparison = kept
    for row in comparison.rows:
        assert row.deliveries == 7 * row.broadcasts == 7 * 2 * 60
        assert row.lost == 0
        assert row.latency_p50_ms < row.latency_p99_ms
        assert row.wait_ms >= 0
        assert [point.nodes for point in row.points] == [4, 8, 16]
        assert row.crash.due > 0
        assert sum(count for _, _, count in row.histogram) == row.deliveries
    vector = next(row for row in comparison.rows if row.label == "vector")
    # A name, a counter for each node, the payload and the header: 8 + 4 N + 50 + 20.
    assert vector.bytes_per_delivery == 78 + 4 * 8
    assert vector.packets_per_delivery == 1
    assert vector.pending_bytes == vector.pending_messages * (78 + 4 * 8)
    assert vector.largest_packet_bytes == 200
    assert 0 < vector.exponents["bytes_per_delivery"] < 1
    unordered = next(row for row in comparison.rows if row.label == "unordered")
    assert unordered.wait_ms == 0
    assert unordered.exponents["bytes_per_delivery"] == pytest.approx(0)


def test_the_same_load_gives_the_same_result_and_runs_nothing_again(kept, monkeypatch):
    folder, comparison = kept
    monkeypatch.setattr("precedes.pipeline.sweep.simulate_runs", pytest.fail)
    again = carry_out_plan(plan(protocols=NAMES, **LOAD), out=folder)
    assert again == comparison


@pytest.mark.gate
def test_it_goes_on_after_an_interrupt(tmp_path, engine, monkeypatch, capsys):
    words = "compare --nodes 8 --rate 200 --messages 1000 --seeds 3 --protocols vector,unordered"
    records = tmp_path / "runs" / "records"
    total = 2 * (3 + 1 + 2)

    def update(bar, share):
        """Interrupt as soon as two runs are finished."""
        if len(list(records.glob("run-*.json"))) >= 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("precedes.progress.ProgressBar.__call__", update)
        assert main([*words.split(), "--out", str(tmp_path)]) == 130
    assert "finished runs are kept" in capsys.readouterr().err
    before = {path.name: path.stat().st_mtime_ns for path in records.glob("run-*.json")}
    assert 2 <= len(before) <= total
    assert not (tmp_path / "index.html").exists()
    values = {"nodes": 8, "rate": 200, "messages": 1000, "seeds": 3}
    planned = plan(protocols=["vector", "unordered"], **values)
    comparison = carry_out_plan(planned, out=tmp_path)
    after = {path.name: path.stat().st_mtime_ns for path in records.glob("run-*.json")}
    assert len(after) == total
    assert {name: after[name] for name in before} == before
    assert comparison.recommendation.label == "vector"


def test_processes_that_cannot_start_end_it(tmp_path, monkeypatch):
    start = "import sys; sys.exit('no room on this machine')"
    monkeypatch.setattr("precedes.pipeline.runner._START", start)
    with pytest.raises(UserError, match="its process died: no room on this machine; finished runs"):
        carry_out_plan(plan(protocols=["vector"], **LOAD), out=tmp_path)


@pytest.mark.swarm
def test_on_spark(kept, tmp_path):
    planned = plan(protocols=NAMES, **LOAD)
    found = carry_out_plan(planned, out=tmp_path, master="local[2]")
    _, comparison = kept

    def lasting(one):
        values = one.as_dict()
        return [{**row, "cpu_us_per_delivery": None} for row in values["rows"]]

    assert lasting(found) == lasting(comparison)


def test_json_markdown_and_latex_agree(kept):
    _, comparison = kept
    values = json.loads(json.dumps(comparison.as_dict()))
    assert values["precedes"]["version"]
    assert values["recommendation"]["label"] == values["rows"][0]["label"]
    markdown = comparison.to_markdown()
    latex = comparison.to_latex()
    assert comparison.recommendation.sentence.replace("<", "\\<").replace("_", "\\_") in markdown
    table = [
        [cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")]
        for line in markdown.splitlines()
        if line.startswith("|")
    ]
    lines = [line.removesuffix(r" \\").split(" & ") for line in latex.splitlines() if " & " in line]
    signs = {"\\textgreater{}": ">", "\\textasciicircum{}": "^", "\\": ""}
    plain = lines
    for written, sign in signs.items():
        plain = [[cell.replace(written, sign) for cell in line] for line in plain]
    assert plain == [table[0], *table[2:]]
    for row, cells in zip(values["rows"], table[2:], strict=True):
        assert cells[1] == row["label"]
        shown = dict(zip(table[0], cells, strict=True))
        assert shown["size (bytes a delivery)"] == f"{row['bytes_per_delivery']:,.0f}"
        assert shown["latency p99 (ms)"] == f"{row['latency_p99_ms']:,.1f}"
    assert r"\toprule" in latex
    assert not re.search(r"(?<!\\)[%_#]", latex.split("\\toprule")[1])


def test_frames(kept):
    _, comparison = kept
    table = comparison.to_arrow()
    assert table.column("protocol").to_pylist() == [row.label for row in comparison.rows]
    frame = comparison.to_pandas()
    assert list(frame["bytes_per_delivery"]) == [row.bytes_per_delivery for row in comparison.rows]
    assert comparison.recommendation.sentence.split(":")[0] in comparison._repr_html_()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_has_fewer_columns(kept, width):
    _, comparison = kept
    text = to_text(comparison, width=width)
    assert text.startswith(comparison.recommendation.sentence.split(",")[0][:50])
    assert max(map(len, text.splitlines())) <= min(width, 100)
    assert " p99" in text
    assert (" pending" in text.partition("cost:")[0]) == (width > 80)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nodes", "10", "--rate", "5", "--json", "--format", "latex"], "choose one"),
        (["--nodes", "10", "--rate", "5", "--format", "pdf"], "there is no 'pdf'"),
        (["no-such-file.toml"], "cannot read no-such-file.toml"),
        (["--nodes", "10", "--rate", "5", "--out", "/dev/null/x"], "cannot"),
    ],
)
def test_mistakes_of_the_command(words, text, capsys):
    assert text in fails(capsys, "compare", *words)


def repeated(number, capsys):
    """The output of a command on the page on comparisons, and its real output."""
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    found = re.findall(r"```sh\n(.*?)\n```\n\n```text\n(.*?)```", page, re.DOTALL)
    line, shown = found[number]
    assert main(shlex.split(line)[1:]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return shown, said.out


def test_the_page_shows_what_the_command_prints(engine, capsys):
    shown, printed = repeated(1, capsys)
    assert printed == shown


@pytest.mark.swarm
def test_the_page_shows_what_the_whole_command_prints(engine, capsys):
    shown, printed = repeated(0, capsys)
    assert printed == shown
