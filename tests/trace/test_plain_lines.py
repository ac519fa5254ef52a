"""pyarrow and the reader that goes line by line say the same of every log."""

import gzip
import io
import json
from unittest import mock

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.errors import UserError
from precedes.trace import load
from precedes.trace.formats import jsonl
from tests.support.processes import printed

FIELDS = ("offsets", "kind", "message", "message_source", "message_sequence")
MEMBERS = ("crashed", "join_node", "join_row", "join_message", "departed")

PLAIN = '{"node": "a", "kind": "deliver", "message": "x"}'
NAMES = ['"a"', '"b"', '"7"', "7", '"9"', '"Info"', '"\\u00e9"', '"é"', '"\\ud83d\\ude00"']
ODD = [
    *("null", "true", "-0", "7.0", "1e2", "01", "+1", "-", "1e999", "NaN", "-NaN", "Infinity"),
    *("-Infinity", "Inf", "-Inf", "[Inf]", '{"a": Inf}', "nul", "0x7", '"', "{}", "[]", "[1,]"),
    *(str(2**63 - 1), str(2**63), str(-(2**63)), "7" * 700, "7" * 5000, "[" * 70 + "]" * 70),
    *("[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, '{"node": "b"}', '[{"kind": 1}]'),
    *('"\\ud800"', '"\\udc00"', '"\\u0000"', '"\\u00zz"', '"\\x"', '"a\nb"', '"a\x01b"', '"a\\/b"'),
    *('"a\x00b"', '"\x7f"', '"a}\\n{b"', '"\u2028"', '" Inf,"', '""', "'a'"),
]
KEYS = ['"node"', '"kind"', '"message"', '"time"', '"\\u006eode"', '"node\\u0000"', '""', "node"]
KINDS = ['"broadcast"', '"deliver"', '"deliver"', '"crash"', '"join"', '"leave"', '"send"']
ENDS = [
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\n\n",
    " \n",
    "\r",
    "\n\r\n",
    "\n ",
    "",
    ",\n",
    "\x00\n",
    "\x0b\n",
]


@st.composite
def lines(draw):
    """An event with whatever may be odd about one."""
    odd = draw(st.integers(0, 3)) == 0
    name = st.sampled_from(NAMES + ODD if odd else NAMES)
    kind = st.sampled_from(KINDS + ODD + ['"shout"'] if odd else KINDS)
    fields = [('"node"', draw(name)), ('"kind"', draw(kind)), ('"message"', draw(name))]
    if odd:
        more = st.tuples(st.sampled_from(KEYS), st.sampled_from(NAMES + KINDS + ODD))
        fields += draw(st.lists(more, max_size=2))
        fields = draw(st.permutations(fields))[draw(st.integers(0, 1)) :]
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields) + "}"


@st.composite
def logs(draw):
    """Lines and what stands between them; perhaps torn, or with a byte that is not text."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = "".join(
        line + (draw(st.sampled_from(ENDS)) if draw(st.integers(0, 9)) == 0 else end)
        for line in draw(st.lists(lines(), max_size=8))
    )
    data = draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b"\n"])) + text.encode()
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data)))
        middle = draw(st.sampled_from([b"", b"\xff", b"\xef\xbb\xbf", b"}", b"{", b'"', b"\n"]))
        data = data[:at] + middle + data[at + draw(st.integers(0, 2)) :]
    return data[: len(data) - draw(st.sampled_from([0, 0, 1, 2, 9]))]


def reading(data, *, block_bytes=jsonl.BLOCK_BYTES):
    """All that a reader says of a log: its history, or its error."""
    try:
        with mock.patch.object(jsonl, "BLOCK_BYTES", block_bytes):
            history = load(io.BytesIO(data), "jsonl")[0]
    except UserError as error:
        return str(error)
    arrays = [getattr(history, name).tolist() for name in (*FIELDS, *MEMBERS)]
    return arrays, history.node_names, history.message_names


def reading_by_lines(data):
    with mock.patch.object(jsonl, "parse", return_value=None):
        return reading(data)


@given(logs(), st.sampled_from([60, 300, jsonl.BLOCK_BYTES]))
def test_both_readers_say_the_same(data, block_bytes):
    assert reading(data, block_bytes=block_bytes) == reading_by_lines(data)


@pytest.mark.parametrize("value", ODD)
def test_both_readers_say_the_same_of_odd_values(value):
    """In each place where they could stand, in a log that is plain otherwise."""
    for odd in (
        f'{{"node": {value}, "kind": "deliver", "message": "x"}}',
        f'{{"node": "a", "kind": {value}, "message": "x"}}',
        f'{{"node": "a", "kind": "deliver", "message": {value}}}',
        f'{{"node": "a", "kind": "join", "message": {value}}}',
        f'{{"node": "a", "kind": "leave", "message": {value}}}',
        f'{{"node": "a", "kind": "deliver", "message": "x", "time": {value}}}',
        f'{{"node": "a", "kind": "deliver", "message": "x", "node": {value}}}',
    ):
        for text in (f"{PLAIN}\n{odd}\n{PLAIN}\n", f"{odd}\n{PLAIN}"):
            data = text.encode()
            assert reading(data) == reading_by_lines(data)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN + PLAIN,
        PLAIN + " " + PLAIN,
        PLAIN + "\n" + PLAIN + PLAIN,
        PLAIN.replace(", ", ",\n"),
        PLAIN + "\n" + PLAIN + PLAIN + "\n" + PLAIN.replace(": ", ":\n", 1),
        PLAIN + "\n" + PLAIN.replace('"a"', '"a", "node": "b"'),
        PLAIN + "\n" + PLAIN.replace('"a"', 'null, "\\u006eode": "b"'),
    ],
)
def test_pyarrow_does_not_join_or_part_lines(text):
    """It would read some of these otherwise, silently."""
    assert reading(text.encode()) == reading_by_lines(text.encode())


@pytest.mark.parametrize("key", ["message", "time"])
def test_both_readers_refuse_what_is_not_utf8(key):
    lines = [PLAIN, PLAIN[:-1] + f', "{key}": "caf?"}}']
    data = "\n".join(lines).encode().replace(b"?", b"\xe9")
    assert reading(data) == reading_by_lines(data)
    assert reading(data) == "log, line 2: not a JSON object (not UTF-8 text)"


def no_lines(*_):
    raise AssertionError("read line by line")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("names", [("a", "b", "x{}"), (1, 2, 7), ("é", "\U0001f600", "Info {}")])
def test_plain_logs_are_never_read_line_by_line(names, end, monkeypatch):
    one, two, label = names
    lines = []
    for number in range(300):
        message = label + number if isinstance(label, int) else label.format(number)
        more = {"time": number / 7, "level": "Info", "tags": {"at": [1, {"node": 2}]}}
        lines.append({"node": one, "kind": "broadcast", "message": message, **more})
        lines.append({"node": two, "kind": "deliver", "message": message})
    lines += [{"node": two, "kind": "crash"}, {"node": one, "kind": "join"}]
    text = end.join(json.dumps(line, ensure_ascii=end == "\n") for line in lines)
    expected = reading_by_lines(text.encode())
    monkeypatch.setattr(jsonl._Lines, "_add", no_lines)
    for data in (text, text + end, "\ufeff" + text):
        for block_bytes in (1000, jsonl.BLOCK_BYTES):
            assert reading(data.encode(), block_bytes=block_bytes) == expected


def test_a_message_that_comes_again_in_a_later_block():
    first = '{"node": "a", "kind": "broadcast", "message": "x"}\n'
    data = (first + "\n" + (PLAIN + "\n") * 50 + first.replace('"a"', '"b"')).encode()
    for block_bytes in (100, jsonl.BLOCK_BYTES):
        assert reading(data, block_bytes=block_bytes) == (
            "log, line 53: message x is broadcast again; the first time is line 1"
        )


def test_a_mistake_before_the_end_of_a_torn_file_comes_first():
    whole = gzip.compress((PLAIN + "\n").encode() * 5000, compresslevel=0)
    assert "cannot read log" in reading(whole[:-20])
    torn = gzip.compress((PLAIN + "\n" + "{}\n").encode() * 5000, compresslevel=0)[:-20]
    assert reading(torn) == 'log, line 2: "kind" is missing'


def test_logs_are_read_and_written_without_pandas(tmp_path):
    """pyarrow imports it when asked for NumPy arrays, which takes longer than most logs."""
    code = """
import sys
import numpy as np
import precedes
from precedes.model import Events
from precedes.trace import TraceWriter

precedes.load("examples/chat.jsonl")
rows = [(1, 0, 0, 0, 1, -1), (2, 1, 2, 0, 1, 7), (3, 1, 3, 0, 1, -1)]
with TraceWriter(sys.argv[1], nodes=2) as writer:
    writer.write(Events.of(np.array(rows)))
precedes.load(sys.argv[1])
assert "pandas" not in sys.modules and "numba" not in sys.modules
"""
    path = tmp_path / "trace.parquet"
    printed("-c", code, path)
    found = pq.read_table(path).to_pylist()
    assert [row["packet"] for row in found] == [None, 7, None]
    assert [row["kind"] for row in found] == ["broadcast", "receive", "deliver"]
