"""Tables as text and as Parquet, with names of their own, in one file or many."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.errors import UserError
from precedes.trace import Dialect, event_batches, load
from tests.support.reading import read, read_one, refused, rows_of

HEADER = "host,offset,type,msg_id"
ROWS = ["ann,1,send,question", "bob,1,recv,question", "bob,2,send,answer", "eve,1,recv,answer"]
SAID = {
    "columns": {"node": "host", "local_seq": "offset", "kind": "type", "message": "msg_id"},
    "kinds": {"send": "broadcast", "recv": "deliver"},
}
CHAT = {
    "ann": ["broadcast question"],
    "bob": ["deliver question", "broadcast answer"],
    "eve": ["deliver answer"],
}
PLAIN = "node,kind,message\nann,broadcast,question\nbob,deliver,question\n"


def text(*rows, header=HEADER):
    return "\n".join((header, *rows)) + "\n"


def parquet(**columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def cells():
    return list(zip(*(row.split(",") for row in ROWS), strict=True))


def test_other_names():
    for rows in (ROWS, ROWS[::-1]):  # the column orders them, not the lines
        history = read_one(text(*rows), **SAID)
        assert rows_of(history) == CHAT
    report = audit(history)
    assert (report.verdict, report.violations) == ("violated", 1)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_what_stands_between_cells(mark):
    content = text(*ROWS).replace(",", mark)
    assert rows_of(read_one(content, **SAID)) == CHAT
    assert rows_of(read_one(content, "csv", delimiter=mark, **SAID)) == CHAT
    if mark == "\t":
        assert rows_of(read_one(content, "csv", delimiter="tab", **SAID)) == CHAT


def test_without_a_position_the_lines_are_the_order():
    history = read_one(PLAIN)
    assert rows_of(history) == {"ann": ["broadcast question"], "bob": ["deliver question"]}
    assert audit(history).verdict == "held"


def test_quotes_blank_lines_and_a_mark_at_the_start():
    content = '\ufeffnode,kind,message\n\n"a, b",broadcast,"two\nlines"\n\nc,deliver,"two\nlines"\n'
    history = read_one(content)
    assert rows_of(history) == {"a, b": ["broadcast two\nlines"], "c": ["deliver two\nlines"]}


def test_members_and_runs():
    content = (
        "run_id,node,kind,message\n2,a,broadcast,x\n10,a,broadcast,x\n10,b,join,x\n2,b,join,\n"
        "10,c,crash,\n10,d,leave,ignored\n2,b,send,\n"
    )
    two, ten = read(content)
    assert (two.run_id, ten.run_id) == (2, 10)
    assert two.join_message.tolist() == [-1]
    assert ten.join_message.tolist() == [0]
    assert (ten.crashed.tolist(), ten.departed.tolist()) == ([2], [3])
    rows = [
        row for batch in event_batches(io.BytesIO(content.encode())) for row in batch.to_pylist()
    ]
    assert [row["message"] for row in rows] == ["x", "x", "x", None, None, None]


def test_source_and_seq():
    content = "node,kind,source,seq\n0,broadcast,0,1\n1,deliver,0,1\n2,join,2,0\n"
    history = read_one(content)
    assert rows_of(history) == {"0": ["broadcast 0:1"], "1": ["deliver 0:1"], "2": []}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (text(*ROWS, "ann,x,recv,answer"), "line 6: local_seq is 'x', not a whole number"),
        (text(*ROWS, "ann,,recv,answer"), "line 6: local_seq is empty"),
        (text(*ROWS, "ann,9,recv,"), "line 6: message is empty"),
        (text(*ROWS, ",9,recv,answer"), "line 6: node is empty"),
        (text(*ROWS, "ann,9,,answer"), "line 6: kind is empty"),
        (text(*ROWS, "ann,9,recvd,answer"), "line 6: unknown kind 'recvd' .did you mean 'recv'"),
        (text(*ROWS, "ann,9,recv"), "line 6: 3 cells, where the header has 4"),
        (text(*ROWS, "bob,2,recv,answer"), "two events of node bob share the local_seq 2"),
        (text(*ROWS, "eve,7,send,answer"), "node eve, local_seq 7: message answer is broadcast"),
        (text(*ROWS, "eve,99999999999999999999,recv,answer"), "line 6: local_seq is '9999"),
        (text(*ROWS, '"eve,7,recv,answer'), "line 6: unexpected end of data"),
        (text(*ROWS, header="host,offset,type,id"), "no column 'msg_id'"),
        (text(*ROWS, header="host,host,type,msg_id"), "has no column 'offset'"),
    ],
)
def test_rows_that_are_refused(content, match):
    refused(content, match, "csv", **SAID)


@pytest.mark.parametrize(
    ("content", "match", "said"),
    [
        (
            PLAIN.replace("node", "nod"),
            "has no column node; it has nod, kind, message.*`columns`",
            {},
        ),
        (PLAIN.replace("message", "id"), "has no column message.*`columns` message=...", {}),
        (PLAIN.replace(",", ""), "cannot detect the separator of the header", {}),
        (PLAIN, "`delimiter` is one character in a table, not '::'", {"delimiter": "::"}),
        (PLAIN.replace("node,kind", "node,node,kind"), "has two columns 'node'", {}),
        (PLAIN.encode() + b"\xff,deliver,x\n", "not UTF-8 text", {}),
        ("", "cannot detect", {}),
    ],
)
def test_headers_that_are_refused(content, match, said):
    refused(content, match, "csv", **said)


def test_a_cell_has_a_limit():
    refused(PLAIN + "a,deliver," + "x" * (1 << 20) + "y\n", "line 4: field larger than", "csv")


def test_tables_in_parquet():
    host, offset, kind, message = cells()
    content = parquet(host=host, offset=list(map(int, offset)), type=kind, msg_id=message, odd=host)
    assert rows_of(read_one(content, **SAID)) == CHAT
    coded = parquet(
        host=pa.array(host).dictionary_encode(),
        offset=pa.array(list(map(int, offset)), pa.int16()),
        type=pa.array(kind, pa.large_string()),
        msg_id=pa.array(message, pa.string_view()),
    )
    assert rows_of(read_one(coded, **SAID)) == CHAT


def test_tables_without_positions_are_in_the_order_of_rows():
    history = read_one(
        parquet(node=[1, 2, 2], kind=["broadcast", "deliver", "deliver"], message=[7, 7, 7])
    )
    assert rows_of(history) == {"1": ["broadcast 7"], "2": ["deliver 7", "deliver 7"]}
    assert audit(history).duplicates == 1


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"node": ["a", None], "kind": ["crash"] * 2, "message": ["", ""]}, "row 1: node is empty"),
        ({"node": [1.5], "kind": ["crash"], "message": ["x"]}, "node holds double instead of"),
        ({"node": ["a"], "kind": [None], "message": ["x"]}, "row 0: kind is empty"),
        ({"node": ["a"], "kind": ["fly"], "message": ["x"]}, "row 0: unknown kind 'fly'"),
        ({"node": ["a"], "kind": ["deliver"], "message": [None]}, "row 0: message is empty"),
        ({"node": ["a"], "kind": ["deliver"]}, "has no column message"),
        (
            {"node": ["a"] * 2, "kind": ["broadcast"] * 2, "message": ["x"] * 2},
            "row 1: message x is broadcast again; the first time is row 0",
        ),
    ],
)
def test_tables_that_are_refused(columns, match):
    refused(parquet(**columns), match)


def test_damaged_tables():
    refused(parquet(node=["a"])[:-9] + b"x" * 9, "cut short or damaged", "parquet")
    refused("PARIS", "is not a Parquet file", "parquet")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_folders_are_columns(tmp_path, form):
    """As ``df.write.partitionBy("day", "host")`` leaves them; other folders say nothing."""
    rows = [("1", "ann", "send", "question"), ("1", "b=b", "recv", "question")]
    rows += [("2", "ann", "send", "question"), ("2", "b=b", "recv", "question")]
    for number, (day, host, *cells) in enumerate(rows):
        folder = tmp_path / f"day={day}" / "zone=x" / f"host={host.replace('=', '%3D')}"
        folder.mkdir(parents=True)
        if form == "csv":
            (folder / f"{number}.csv").write_text("type,msg_id\n" + ",".join(cells))
        else:
            content = parquet(type=[cells[0]], msg_id=[cells[1]])
            (folder / f"{number}.parquet").write_bytes(content)
    (tmp_path / "_SUCCESS").touch()
    columns = {"run_id": "day", "node": "host", "kind": "type", "message": "msg_id"}
    dialect = Dialect(columns=columns, kinds=SAID["kinds"])
    found = load(tmp_path, form, dialect=dialect)
    assert [history.run_id for history in found] == [1, 2]
    for history in found:
        assert rows_of(history) == {"ann": ["broadcast question"], "b=b": ["deliver question"]}
    (history,) = load(folder / f"3.{form}", form, dialect=dialect)
    assert (history.run_id, rows_of(history)) == (2, {"b=b": ["deliver question"]})


def test_folders_that_are_refused(tmp_path):
    folder = tmp_path / "run_id=7"
    folder.mkdir()
    (folder / "log.csv").write_text("node,kind,message,run_id\nann,broadcast,x,7\n")
    assert load(tmp_path, "csv")[0].run_id == 7
    (folder / "log.csv").write_text(
        "node,kind,message,run_id\nann,broadcast,x,7\nann,broadcast,y,8\n"
    )
    with pytest.raises(UserError, match=r"line 3: run_id is '8', and the folder says run_id=7"):
        load(tmp_path, "csv")
    folder.rename(tmp_path / "run_id=__HIVE_DEFAULT_PARTITION__")
    (tmp_path / "run_id=__HIVE_DEFAULT_PARTITION__" / "log.csv").write_text(PLAIN)
    with pytest.raises(UserError, match="line 2: run_id is empty"):
        load(tmp_path, "csv")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_which_some_have_positions(tmp_path, form):
    for number, column in enumerate(("local_seq", "ignored")):
        content = f"node,kind,message,{column}\nann,broadcast,{number},1\n".encode()
        if form == "parquet":
            cells = {"node": ["ann"], "kind": ["broadcast"], "message": [number], column: [1]}
            content = parquet(**cells)
        (tmp_path / f"{number}.{form}").write_bytes(content)
    with pytest.raises(UserError, match=rf"1\.{form} lacks a local_seq, which rows before have"):
        load(tmp_path, form)


def test_two_columns_of_one_name():
    columns = [pa.array([cell]) for cell in ("ann", "bob", "crash", "x")]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, names=["node", "node", "kind", "message"]), sink)
    refused(sink.getvalue(), "has two columns 'node': rename one")
    renamed = pa.table(columns, names=["more", "more", "kind", "message"])
    sink = io.BytesIO()
    pq.write_table(renamed.append_column("node", columns[0]), sink)
    assert rows_of(read_one(sink.getvalue())) == {"ann": []}


def test_files_of_a_directory_follow_each_other(tmp_path):
    """Without positions: the second goes on where the first ends."""
    (tmp_path / "1.csv").write_text(PLAIN)
    (tmp_path / "2.csv").write_text("node,kind,message\nbob,deliver,late\nbob,broadcast,late\n")
    (history,) = load(tmp_path, "csv")
    assert rows_of(history)["bob"] == ["deliver question", "deliver late", "broadcast late"]
    (tmp_path / "3.csv").write_text("node,kind,message\nbob,broadcast,late\n")
    with pytest.raises(UserError, match="message late is broadcast again"):
        load(tmp_path, "csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no tables"):
        load(tmp_path / "empty", "csv")
