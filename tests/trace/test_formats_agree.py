"""One log in every format: the audit says the same of all of them."""

import io
import json
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.errors import UserError
from precedes.pipeline.audit import audit_tables_here
from precedes.trace import EVENTS, Dialect, event_batches, from_arrow, from_pandas, load
from precedes.trace.export import DELIMITER, PARSER, runs_of, to_csv, to_jsonl, to_shiviz
from tests.support import executions, logs, otlp
from tests.support.executions import BROADCAST
from tests.support.seeds import COUNT, blocks, repeat

SEEDS = st.integers(0, 2**32 - 1)
WITH_KINDS = Dialect(parser=PARSER)
RENAMED = {"node": "host", "message": "msg_id", "kind": "type", "local_seq": "offset"}


def rows_of(execution, rng):
    """Events (node, kind, message or None), nodes interleaved at random, each in its order."""
    rows = executions.named_rows(execution)
    waiting = [[row for row in rows if row[0] == f"n{node}"] for node in range(len(execution.logs))]
    found = []
    while any(waiting):
        found.append(rng.choice([rows for rows in waiting if rows]).pop(0))
    return found


def as_jsonl(rows):
    lines = [
        {"node": node, "kind": kind, **({} if message is None else {"message": message})}
        for node, kind, message in rows
    ]
    return "\n".join(map(json.dumps, lines)).encode()


def report_on(content, **said):
    """The report on a log with one run, in any format."""
    (history,) = load(io.BytesIO(content), dialect=Dialect(**said))
    return replace(audit(history), origin="")


def batches(content):
    return list(event_batches(io.BytesIO(content)))


def exported(content):
    """The log in the formats that we write, each with what has to be said of it."""
    yield b"".join(to_jsonl(batches(content), title="log")), {}
    yield b"".join(to_csv(batches(content), title="log")), {}
    runs = runs_of(batches(content))
    if report_on(content).cycles:
        with pytest.raises(UserError, match="contradicts itself"):
            b"".join(to_shiviz(runs, title="log"))
    else:
        yield b"".join(to_shiviz(runs, title="log")), {"parser": WITH_KINDS.parser}


def as_parquet(content, rng):
    """A table with other names and kinds, its rows in no order."""
    table = pa.Table.from_batches(batches(content), EVENTS).drop_columns(["run_id", "time_us"])
    table = table.take(pa.array(rng.sample(range(table.num_rows), table.num_rows), pa.int64()))
    kinds = pa.array([{"deliver": "recv"}.get(k, k) for k in table.column("kind").to_pylist()])
    table = table.set_column(table.column_names.index("kind"), "kind", kinds.cast(pa.string()))
    table = table.rename_columns([RENAMED[name] for name in table.column_names])
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue(), {"columns": RENAMED, "kinds": {"recv": "deliver"}}


def scrambled(seed):
    rng = random.Random(seed)
    return executions.with_members(drawn(seed), rng)


def drawn(seed):
    """Logs that contradict themselves, which few clocks can say, or runs that lost messages."""
    if seed % 2:
        return executions.scramble(seed, nodes=4, messages=8, rows=20)
    order = random.Random(seed).choice(["causal", "fifo", "wild"])
    return executions.run(seed, nodes=4, messages=8, order=order, loss=0.1)


@settings(max_examples=30)
@given(SEEDS)
def test_reports_are_equal(seed):
    check_tables_and_texts(seed)


@settings(max_examples=30)
@given(SEEDS)
def test_spans_are_judged_as_lines_are(seed):
    check_spans(seed)


@pytest.mark.swarm
@pytest.mark.parametrize("seeds", blocks(COUNT // 100), ids=str)
def test_many_reports_are_equal(seeds, tmp_path_factory):
    for seed in seeds:
        with repeat(f"check_tables_and_texts({seed}), check_spans({seed}), check_numbered({seed})"):
            check_tables_and_texts(seed)
            check_spans(seed)
            check_numbered(seed, tmp_path_factory.mktemp("numbered"))


def check_tables_and_texts(seed):
    rng = random.Random(seed)
    content = as_jsonl(rows_of(scrambled(seed), rng))
    expected = report_on(content)
    for other, said in (*exported(content), as_parquet(content, rng)):
        assert report_on(other, **said) == expected


NUMBERED = ("run_id", "node", "local_seq", "kind", "message")


def numbered(execution, run_id, rng):
    """The events of a run with positions that have gaps, in no order."""
    last = dict.fromkeys(range(len(execution.logs)), rng.randrange(-40, 40))
    rows = []
    for node, kind, message in rows_of(execution, rng):
        last[node] = last.get(node, -7) + rng.choice((1, 1, 1, 5, 1000))
        rows.append((run_id, node, last[node], kind, message))
    rng.shuffle(rows)
    return rows


def as_table(rows, rng=None):
    """With an rng, columns have types of several writers."""
    types = {name: [pa.string()] for name in NUMBERED} | {"local_seq": [pa.int64()]}
    if rng is not None:
        texts = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
        types |= dict.fromkeys(("node", "kind", "message"), texts)
        types |= {"local_seq": [pa.int64(), pa.int32()]}
    columns = zip(*rows, strict=True) if rows else [()] * len(NUMBERED)
    return pa.table(
        {
            name: pa.array(cells, (rng or random).choice(types[name]))
            for name, cells in zip(NUMBERED, columns, strict=True)
        }
    )


def written(runs, folder, rng):
    """The runs as files: each log's path, its format and what is said of it."""
    rows = [row for rows in runs.values() for row in rows]
    rng.shuffle(rows)
    objects = [
        {name: cell for name, cell in zip(NUMBERED, row, strict=True) if cell is not None}
        for row in rows
    ]
    lines = [json.dumps(line) for line in objects]
    (folder / "log.jsonl").write_text("\n".join(lines))
    # The first object has no plain form, so that the block is read line by line.
    (folder / "odd.jsonl").write_text("\n".join(["", *lines]))
    pq.write_table(as_table(rows), folder / "log.parquet")
    (folder / "log.csv").write_bytes(csv_of(rows))
    for name in ("log.jsonl", "odd.jsonl", "log.parquet", "log.csv"):
        yield folder / name, "auto", {}
    for run_id, part in runs.items():
        for form in ("parquet", "csv", "jsonl", "txt"):
            (folder / form / f"run_id={run_id}").mkdir(parents=True)
        cut = rng.randrange(len(part) + 1)
        for number, some in enumerate((part[:cut], part[cut:])):
            table = as_table(some, rng).drop("run_id")
            pq.write_table(table, folder / "parquet" / f"run_id={run_id}" / f"{number}.parquet")
            csv = folder / "csv" / f"run_id={run_id}" / f"{number}.csv"
            csv.write_bytes(csv_of([row[1:] for row in some], NUMBERED[1:]))
    yield folder / "parquet", "parquet", {}
    yield folder / "csv", "csv", {}


def csv_of(rows, names=NUMBERED):
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join([",".join(names), *lines]).encode()


def one_run_each(runs, folder):
    """Logs of one run, whose name is that of their folder."""
    for run_id, rows in runs.items():
        names = NUMBERED[1:]
        cells = [dict(zip(names, row[1:], strict=True)) for row in rows]
        kept = [{name: cell for name, cell in row.items() if cell is not None} for row in cells]
        lines = folder / "jsonl" / f"run_id={run_id}" / "log.jsonl"
        lines.write_text("\n".join(map(json.dumps, kept)))
        yield lines, {}
        text = folder / "txt" / f"run_id={run_id}" / "log.txt"
        said = [
            f"{row['local_seq']} {row['node']} {row['kind']} {row['message'] or ''}"
            for row in cells
        ]
        text.write_text("\n".join(said))
        expression = r"^(?<local_seq>\S+) (?<host>\S+) (?<kind>\S+) (?<message>.*)$"
        yield text, {"parser": expression}


def readings(runs, folder, rng):
    """The reports of every batch reader on the same runs."""
    for path, form, said in written(runs, folder, rng):
        yield audit([path], format=form, dialect=Dialect(**said))
    for suffix in (".jsonl", ".txt"):
        yield [
            report
            for path, said in one_run_each(runs, folder)
            if path.suffix == suffix
            for report in audit([path], dialect=Dialect(**said))
        ]
    yield audit_tables_here([folder / "parquet"])
    yield audit_tables_here([folder / "log.parquet"])
    whole = as_table([row for rows in runs.values() for row in rows])
    yield [audit(history) for history in from_arrow(whole)]
    yield [audit(history) for history in from_pandas(whole.to_pandas())]


def check_numbered(seed, folder):
    """By the literal definition, which shares no code with readers and audit."""
    rng = random.Random(seed)
    executed = {}
    for run_id in ("3", "11"):
        execution = scrambled(rng.randrange(2**32))
        execution.complete = False
        execution.joins += [(node, 0, None) for node in range(len(execution.logs))]
        executed[run_id] = execution
    runs = {run_id: numbered(one, run_id, rng) for run_id, one in executed.items()}
    sentences = set()
    for reports in readings(runs, folder, rng):
        reports = sorted(reports, key=lambda report: int(report.run_id))
        assert [str(report.run_id) for report in reports] == [*runs]
        for report, execution in zip(reports, executed.values(), strict=True):
            expected = executions.judge(execution)
            assert {name: getattr(report, name) for name in executions.COUNTS} == {
                name: expected[name] for name in executions.COUNTS
            }
            wrong = ("violations", "duplicates", "phantom", "cycles")
            doubt = expected["unjudged"] or not expected["deliveries"]
            held = "unknown" if doubt else "held"
            assert report.verdict == ("violated" if any(map(expected.get, wrong)) else held)
            for witness in report.witnesses:
                if witness.kind == "violation":
                    executions.check_path(execution, witness)
        sentences.add(tuple(one.sentence for report in reports for one in report.witnesses))
    assert len(sentences) == 1


@settings(max_examples=6)
@given(SEEDS)
def test_positions_folders_and_types_make_no_difference(tmp_path_factory, seed):
    check_numbered(seed, tmp_path_factory.mktemp("numbered"))


def check_spans(seed):
    """They have no joins, leaves and crashes, and what nobody sent is skipped."""
    rng = random.Random(seed)
    execution = drawn(seed)
    execution.crashed = []
    known = execution.broadcasts()
    execution.logs = [[row for row in log if row[1] in known] for log in execution.logs]
    rows = rows_of(execution, rng)
    spans = "\n".join(otlp.as_spans(rows, rng)).encode()
    assert report_on(spans) == report_on(as_jsonl(rows))


def test_a_trace_is_judged_alike_when_it_is_exported(tmp_path):
    """With its silent nodes; that it is complete has to be said, since no other format can."""
    columns = logs.workload(nodes=5, messages=60)
    quiet = {name: column[columns["node"] != 3] for name, column in columns.items()}
    kept = quiet["source"] != 3
    quiet = {name: column[kept] for name, column in quiet.items()}
    path = tmp_path / "trace.parquet"
    logs.write(path, quiet, nodes=5)
    (history,) = load(path)
    expected = replace(audit(history), origin="")
    assert expected.nodes == 5
    assert expected.lost
    assert expected.violations
    rows = list(event_batches(path))
    for content in (to_jsonl(rows, title="t"), to_csv(rows, title="t")):
        assert report_on(b"".join(content), complete=True) == expected
    clocked = b"".join(to_shiviz(runs_of(rows), title="t"))
    assert report_on(clocked, parser=WITH_KINDS.parser, complete=True) == expected


def test_several_runs(tmp_path):
    lines = []
    for run in ("7", "12"):
        lines += [
            {"run_id": run, "node": "a", "kind": "broadcast", "message": "x"},
            {"run_id": run, "node": "b", "kind": "deliver", "message": "x"},
        ]
    lines.append({"run_id": 7, "node": "b", "kind": "deliver", "message": "x"})
    content = "\n".join(map(json.dumps, lines)).encode()

    def reports(data, **said):
        found = load(io.BytesIO(data), dialect=Dialect(**said))
        return [replace(audit(history), origin="") for history in found]

    expected = reports(content)
    assert [(r.run_id, r.duplicates) for r in expected] == [(7, 1), (12, 0)]
    for form in (to_jsonl, to_csv):
        assert reports(b"".join(form(batches(content), title="log"))) == expected
    clocked = b"".join(to_shiviz(runs_of(batches(content)), title="log"))
    said = {"parser": PARSER, "delimiter": DELIMITER}
    assert reports(clocked, **said) == expected
    assert BROADCAST.encode() in clocked


@pytest.mark.parametrize("name", ["", "two\nlines", " blank"])
def test_names_that_a_format_cannot_say_are_refused(name):
    content = as_jsonl([("a", "broadcast", name), ("b", "deliver", name)])
    with pytest.raises(UserError, match="ShiViz cannot read the name"):
        b"".join(to_shiviz(runs_of(batches(content)), title="log"))
    if not name:
        with pytest.raises(UserError, match="a name is empty"):
            b"".join(to_csv(batches(content), title="log"))
        return
    for form in (to_jsonl, to_csv):
        assert report_on(b"".join(form(batches(content), title="log"))) == report_on(content)


@pytest.mark.parametrize(
    "name", ['a"b', "a,b;c\td|e", "=1+1", "a b {c} d", "\r", "é\u2028x", "\x00"]
)
def test_odd_names_come_back(name):
    content = as_jsonl([(name, "broadcast", name), ("b", "deliver", name), ("b", "deliver", name)])
    expected = report_on(content)
    assert expected.duplicates == 1
    for form in (to_jsonl, to_csv):
        assert report_on(b"".join(form(batches(content), title="log"))) == expected
    if len(name.splitlines()) == 1 and name == name.strip():
        clocked = b"".join(to_shiviz(runs_of(batches(content)), title="log"))
        assert report_on(clocked, parser=PARSER) == expected
