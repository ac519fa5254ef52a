"""Files that grow byte by byte: a follower's verdict is that of the audit of the same bytes."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from precedes.audit import audit, follow
from precedes.audit.growing import Follower
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.trace import Dialect, load
from precedes.trace.tail import open_tail
from tests.audit.growing.test_cuts import SEEDS, grown
from tests.support import growing

BOM = b"\xef\xbb\xbf"
STYLES = ("{}", '5" disk {}', 'a "b" {}', '"{}"', "{};x,y", "{}\nz", "{}\u00e9")


def events(execution, seed, rng):
    """The rows of an execution with odd names, among rows of kinds that are not judged."""
    found, names = [], {}
    for node, line in growing.lines(execution, seed):
        event = json.loads(line)
        if message := event.get("message"):
            event["message"] = names.setdefault(message, rng.choice(STYLES).format(message))
        found.append((node, event))
        if rng.random() < 0.2:
            found.append((node, {"node": event["node"], "kind": "send", "message": "other"}))
    return found


def files_of(execution, seed, rng, format):
    """The bytes of each file of a log, in which something may be wrong."""
    rows = events(execution, seed, rng)
    count = rng.choice((1, 1, 2, 3))
    runs = rng.choice((None, None, None, "7", "r", "several"))
    placed = rng.choice(((False,), (False,), (True,), (True, False)))
    parts = [[] for _ in range(count)]
    for node, event in rows:
        if runs is not None:
            run = str(node % count if count > 1 else len(parts[0]) % 2)
            event["run_id"] = run if runs == "several" else runs
        parts[node % count].append(event)
    for part in parts:
        if rng.choice(placed):
            for at, event in enumerate(part):
                event["local_seq"] = 3 * at
    as_bytes = as_json if format == "jsonl" else as_table
    return {f"{at}.{format}": damaged(as_bytes(part, rng), rng) for at, part in enumerate(parts)}


def damaged(data, rng):
    """The end of a file that its writer has left in any way."""
    fate = rng.random()
    if fate < 0.3:
        return data.rstrip(b"\r\n")
    return data[: -rng.randrange(1, 9)] if fate < 0.4 else data


def as_json(rows, rng):
    end = rng.choice(("\n", "\r\n"))
    return b"".join((json.dumps(row) + end).encode() for row in rows)


def as_table(rows, rng):
    """A table with its own order of columns, mark and line ends; few cells are quoted."""
    end, mark = rng.choice(("\n", "\n", "\r\n", "\r")), rng.choice(",;\t|")
    header = ["node", "kind", "message"]
    header += [name for name in ("run_id", "local_seq") if rows and name in rows[0]]
    rng.shuffle(header)
    if header[-1] == "local_seq":  # the end may be cut off: half a number is out of order
        header.reverse()
    lines = [mark.join(header)]
    for row in rows:
        cells = [str(row.get(name, "")) for name in header]
        lines.append(mark.join(cell(text, mark, rng) for text in cells))
    data = "".join(line + end for line in lines).encode()
    return BOM + data if rng.random() < 0.1 else data


def cell(text, mark, rng):
    if text.startswith('"') or mark in text or "\n" in text or rng.random() < 0.1:
        doubled = text.replace('"', '""')
        return f'"{doubled}"' + "x" * (rng.random() < 0.005)
    return text


def audited(folder, files, format, dialect):
    """The report of the batch audit, or None if it has none on one run."""
    source = folder
    if format == "jsonl":
        source = folder / "whole"
        source.write_bytes(b"\n".join(data for _, data in sorted(files.items())))
    try:
        runs = load(source, format, dialect=dialect)
    except UserError:
        return None
    return audit(runs[0]) if len(runs) == 1 else None


def followed(folder, files, format, dialect, rng):
    """The report of a follower that is restarted now and then, or None if it refuses the log."""

    def opened():
        return Follower(open_tail(folder, format, dialect=dialect))

    left = {name: list(growing.pieces(data, rng)) for name, data in files.items()}
    follower, state = opened(), folder / "work/state"
    try:
        while any(left.values()):
            name = rng.choice([name for name, pieces in left.items() if pieces])
            with (folder / name).open("ab") as file:
                file.write(left[name].pop(0))
            if rng.random() < 0.3:
                follower.poll()
            if rng.random() < 0.1:
                follower.save(state)
                follower = opened()
                follower.restore(state)
        return follower.end(complete=dialect.complete).report
    except UserError:
        for name, pieces in left.items():
            with (folder / name).open("ab") as file:
                file.write(b"".join(pieces))
        return None


FORMATS = pytest.mark.parametrize("format", ["jsonl", "csv"])
LOGS = given(execution=grown(), seed=SEEDS)


@pytest.mark.swarm
@FORMATS
@LOGS
@settings(max_examples=5_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_verdicts_are_those_of_the_audit(tmp_path_factory, format, execution, seed):
    ends_as_the_audit(tmp_path_factory.mktemp("log"), format, execution, seed)


@FORMATS
@LOGS
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_verdict_is_that_of_the_audit(tmp_path_factory, format, execution, seed):
    ends_as_the_audit(tmp_path_factory.mktemp("log"), format, execution, seed)


def ends_as_the_audit(folder, format, execution, seed):
    rng = random.Random(seed)
    files, dialect = files_of(execution, seed, rng, format), Dialect(complete=execution.complete)
    found = followed(folder, files, format, dialect, rng)
    expected = audited(folder, files, format, dialect)
    assert found == (None if expected is None else replace(expected, origin=str(folder)))


def rows_of(*, swapped=False):
    """Three nodes, one of which delivers b before a, which precedes it, if ``swapped``."""
    last = ["b", "a"] if swapped else ["a", "b"]
    rows = [("n0", "broadcast", "a"), ("n1", "deliver", "a"), ("n1", "broadcast", "b")]
    return [*rows, ("n0", "deliver", "b"), *(("n2", "deliver", message) for message in last)]


def line_of(row, **more):
    return json.dumps({**dict(zip(("node", "kind", "message"), row, strict=True)), **more}) + "\n"


def command(*arguments):
    return main(["audit", "--follow", "--every", "0.01", "--idle", "0.01", *map(str, arguments)])


TWICE = pytest.mark.parametrize(("swapped", "status"), [(False, 0), (True, 1)])


@TWICE
@pytest.mark.parametrize("end", ["", "--complete"])
def test_files_of_different_runs_are_refused(tmp_path, capsys, swapped, status, end):
    """Each has a run of its own, or all have the same."""
    for runs in ("777", "789"):
        for node, run in zip(("n0", "n1", "n2"), runs, strict=True):
            rows = [row for row in rows_of(swapped=swapped) if row[0] == node]
            text = "".join(line_of(row, run_id=run) for row in rows)
            (tmp_path / f"{node}.jsonl").write_text(text)
        found = command(tmp_path, "--json", *filter(None, [end]))
        printed = capsys.readouterr()
        if runs == "777":
            assert found == status
            witnesses = json.loads(printed.out.splitlines()[-1])["witnesses"]
            assert [witness["run_id"] for witness in witnesses] == [7] * swapped
        else:
            assert found == 2
            assert printed.err.splitlines() == [
                f"precedes: {tmp_path} holds several runs, 7 and 8: one can be followed at a time"
            ]


@TWICE
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quote_inside_a_cell_is_one_of_its_characters(tmp_path, capsys, swapped, status, end):
    names = {"a": "a", "b": '5" disk'}
    rows = [(node, kind, names[message]) for node, kind, message in rows_of(swapped=swapped)]
    path = tmp_path / "log.csv"
    path.write_text(end.join(map(",".join, [("node", "kind", "message"), *rows, ()])), newline="")
    assert command(path) == status
    assert "4 deliveries" in capsys.readouterr().out


def skipped(count):
    return '{"node": "n0", "kind": "send", "message": "a", "text": "%s"}\n' % ("x" * 400) * count


@TWICE
@pytest.mark.parametrize("end", ["", "--complete"])
def test_rows_behind_many_that_are_not_judged(tmp_path, swapped, status, end):
    """Megabytes without an event do not count as a pause of the writer."""
    *first, last = map(line_of, rows_of(swapped=swapped))
    (tmp_path / "log.jsonl").write_text("".join(first[:-1]) + skipped(12_000) + first[-1] + last)
    assert command(tmp_path / "log.jsonl", *filter(None, [end])) == status


@pytest.mark.parametrize("looks", [0, 20])
def test_idle_means_that_nothing_is_written(tmp_path, looks):
    """Each look finds bytes: rows that are not judged, or parts of a line, before a violation."""
    *first, last = map(line_of, rows_of(swapped=True)[:-1])
    path = tmp_path / "log.jsonl"
    path.write_text("".join(first))
    late = [skipped(1), '{"node": "n0", ', '"kind": "send", ', '"message": "a"}\n'] * (looks // 4)
    writes = iter([*late, last])

    def is_stopped():
        if looks:
            with path.open("a") as file:
                file.write(next(writes, ""))
        return False

    *_, standing = follow(str(path), every_s=0.001, idle_s=1e-9, is_stopped=is_stopped)
    assert standing.report.violations == bool(looks)


def test_idle_in_a_directory_without_a_log(tmp_path):
    looks = iter(range(100))
    is_stopped = lambda: next(looks) == 98  # noqa: E731
    found = follow(str(tmp_path), every_s=1e-9, idle_s=1e-9, is_stopped=is_stopped)
    assert (list(found), next(looks) < 90) == ([], True)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"node": "n0", "kind": "delivr", "message": "b"}', "unknown kind 'delivr'"),
        ('{"node": "n0", "kind": "del', "not a JSON object"),
        (line_of(("n0", "deliver", "b")).rstrip(), ""),
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_is_judged_as_in_any_log(tmp_path, capsys, line, what, end):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(map(line_of, rows_of())) + line + end)
    status = main(["audit", str(path), "--complete"])
    expected = capsys.readouterr()
    assert status == (2 if what else 1)
    assert command(path, "--complete") == status
    found = capsys.readouterr()
    assert (found.err, what in found.err) == (expected.err, True)
    assert ("1 duplicate" in found.out) == (not what)


def test_files_glued_for_a_witness(tmp_path):
    """Lines without their ends, columns in other orders: each file is read by itself."""
    for at, header in enumerate((["node", "kind", "message"], ["message", "node", "kind"])):
        rows = [row for row in rows_of(swapped=True) if (row[0] == "n2") == bool(at)]
        named = [dict(zip(("node", "kind", "message"), row, strict=True)) for row in rows]
        lines = [header, *([row[name] for name in header] for row in named)]
        (tmp_path / f"{at}.csv").write_text("\n".join(map(",".join, lines)))
    follower = Follower(open_tail(tmp_path, "csv"))
    report = follower.end().report
    assert report == replace(audit(*load(tmp_path, "csv")), origin=str(tmp_path))
    assert [witness.node_name for witness in report.witnesses] == ["n2"]


def test_other_options_are_refused(tmp_path, capsys):
    path, work = tmp_path / "log.csv", tmp_path / "work"
    path.write_text("node,kind,message,id\nn0,sent,x,a\nn1,deliver,x,a\n")
    options = ["--columns", "message=id", "--kinds", "broadcast=sent"]
    assert command(path, "--work", work, *options) == 0
    assert command(path, "--work", work, *options) == 0
    for others in (options[2:], ["--columns", "message=message", *options[2:]], options[:2]):
        assert command(path, "--work", work, *others) == 2
        assert "was written with other options" in capsys.readouterr().err
    assert command(path, "--work", work, "--fresh", *options[2:]) == 0


def test_files_that_are_not_followed(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("".join(map(line_of, rows_of())))
    (tmp_path / ".a.swp").touch()
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "work").mkdir()
    assert command(tmp_path) == 0
    follower = Follower(open_tail(tmp_path))
    follower.poll()
    (tmp_path / "a.jsonl.1").touch()
    assert command(tmp_path) == 2
    assert "holds a.jsonl.1, which does not end with .jsonl" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"holds a\.jsonl\.1"):
        follower.poll()


def test_tables_with_tabs(tmp_path):
    table = "".join("\t".join(row) + "\n" for row in [("node", "kind", "message"), *rows_of()])
    (tmp_path / "a.tsv").write_text(table)
    assert command(tmp_path) == command(tmp_path / "a.tsv") == 0


@TWICE
def test_positions_of_lines(tmp_path, capsys, swapped, status):
    """They must rise at each node, be it in another file or after a restart, or be nowhere."""
    rows = rows_of(swapped=swapped)
    path, other, work = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "work"
    path.write_text("".join(line_of(row, local_seq=at) for at, row in enumerate(rows)))
    assert command(tmp_path, "--work", work) == command(tmp_path, "--complete") == status
    with path.open("a") as file:
        file.write(line_of(("n2", "broadcast", "c"), local_seq=4))
    for options in ([], ["--work", work]):
        assert command(tmp_path, *options) == 2
        assert "node n2 has position 4 after 5: a log that is followed" in capsys.readouterr().err
    path.write_text("".join(line_of(row, local_seq=at) for at, row in enumerate(rows)))
    other.write_text(line_of(("n3", "deliver", "a")))
    for options in ([], ["--work", work]):
        assert command(tmp_path, *options) == 2
        assert "lacks a local_seq, which rows before have" in capsys.readouterr().err


def test_a_run_that_a_folder_names(tmp_path):
    path = tmp_path / "run_id=7/log.jsonl"
    path.parent.mkdir()
    path.write_text("".join(map(line_of, rows_of(swapped=True))))
    report = Follower(open_tail(path)).end().report
    assert (report, report.run_id) == (audit(*load(path)), 7)


def test_positions_of_a_table(tmp_path):
    """They are a column of that name, not one whose name contains it; errors name them."""
    path = tmp_path / "log.csv"
    path.write_text("old_local_seq,node,kind,message\n9,a,broadcast,x\n")
    follower = Follower(open_tail(path))
    assert follower.poll()
    with path.open("a") as file:
        file.write("8,a,broadcast,y\n")
    assert follower.poll()
    with path.open("a") as file:
        file.write("8,b,deliver,y\n7,a,broadcast,y\n")
    with pytest.raises(UserError, match="line 5: message y is broadcast again"):
        follower.poll()
    path.write_text("local_seq,node,kind,message\n8,a,broadcast,x\n9,a,broadcast,x\n")
    with pytest.raises(UserError, match=r"log\.csv, local_seq 9: message x is broadcast again"):
        Follower(open_tail(path)).poll()
