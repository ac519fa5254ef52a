"""Logs of JSON lines: order, names, and errors that give the line."""

import gzip
import json

import pytest

from precedes import audit
from precedes.model import UserError
from precedes.trace import load, read_jsonl


def event(node, kind, message, **more):
    return json.dumps({"node": node, "kind": kind, "message": message, **more})


GOOD = [
    event("b", "broadcast", "x", time=3.5),
    "",
    event("a", "send", "x"),
    event("a", "deliver", "x", colour="red"),
    event("a", "broadcast", "y", time="later"),
    event("b", "deliver", "y"),
]


@pytest.fixture
def write(tmp_path):
    def write(lines, name="log.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def rows_of(history):
    """Each node's own list of kinds and names."""
    return {
        history.node_label(node): [
            (int(history.kind[row]), history.message_label(int(history.message[row])))
            for row in range(history.offsets[node], history.offsets[node + 1])
        ]
        for node in range(history.nodes)
    }


def refused(path, match, read=read_jsonl):
    with pytest.raises(UserError, match=match) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_order_and_names(write):
    history = read_jsonl(write(GOOD))
    assert rows_of(history) == {"b": [(0, "x"), (3, "y")], "a": [(3, "x"), (0, "y")]}
    assert list(rows_of(history)) == ["b", "a"]
    assert history.message_sequence.tolist() == [1, 1]
    assert not history.complete
    assert audit.audit(history).verdict == "held"


def test_interleaving_of_nodes_does_not_matter(write):
    by_node = sorted((line for line in GOOD if line), key=lambda line: json.loads(line)["node"])
    assert rows_of(read_jsonl(write(by_node))) == rows_of(read_jsonl(write(GOOD)))


def test_integers_are_names_and_order_nodes(write):
    lines = [event(10, "broadcast", 7), event(9, "deliver", "7"), event("10", "broadcast", 5)]
    history = read_jsonl(write(lines))
    assert rows_of(history) == {"9": [(3, "7")], "10": [(0, "7"), (0, "5")]}
    assert list(rows_of(history)) == ["9", "10"]
    assert history.message_source.tolist() == [1, 1]
    assert history.message_sequence.tolist() == [1, 2]


def test_delivery_may_stand_above_its_broadcast(write):
    history = read_jsonl(write(GOOD[::-1]))
    assert history.message_source.tolist() == [0 if history.node_label(0) == "a" else 1, 0]


def test_phantom_and_violation_are_told_by_name(write):
    lines = [
        *GOOD,
        event("c", "deliver", "y"),
        event("c", "deliver", "x"),
        event("c", "deliver", "z"),
    ]
    report = audit.audit(read_jsonl(write(lines)))
    assert (report.violations, report.phantom) == (1, 1)
    assert [witness.sentence for witness in report.witnesses] == [
        "node c delivered y before x, but x precedes y: node b broadcast x, node a delivered x "
        "and then broadcast y.",
        "node c delivered z, which nobody broadcast.",
    ]


def test_crash(write):
    lines = [*GOOD, '{"node": "c", "kind": "crash"}']
    report = audit.audit(read_jsonl(write(lines)))
    assert report.undelivered_at_end == 0
    lines[-1] = '{"node": "c", "kind": "deliver", "message": "x"}'
    assert audit.audit(read_jsonl(write(lines))).undelivered_at_end == 1


@pytest.mark.parametrize("name", ["log.jsonl.gz", "log"])
def test_gzip(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress("\n".join(GOOD).encode()))
    assert rows_of(read_jsonl(path))["b"] == [(0, "x"), (3, "y")]
    assert rows_of(load(path)[0])["b"] == [(0, "x"), (3, "y")]
    path.write_bytes(path.read_bytes()[:-12])
    refused(path, "cannot read")


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_empty_is_unknown(tmp_path, text):
    path = tmp_path / "log"
    path.write_text(text)
    (history,) = load(path)
    assert audit.audit(history).verdict == "unknown"


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("7", "not a JSON object"),
        (event("a", "shout", "x"), "unknown kind 'shout'; known are broadcast, "),
        (event("a", 3, "x"), "unknown kind 3"),
        ('{"node": "a", "message": "x"}', '"kind" is missing'),
        ('{"node": "a", "kind": "deliver"}', '"message" is missing'),
        ('{"kind": "deliver", "message": "x"}', '"node" is missing'),
        (event(None, "deliver", "x"), '"node" must be a string or an integer, not None'),
        (event("a", "deliver", 1.5), '"message" must be a string or an integer, not 1.5'),
        (event(True, "deliver", "x"), '"node" must be a string'),
        (event("b", "broadcast", "x"), "message x is broadcast again; the first time is line 1"),
        (event("c", "broadcast", "x"), "message x is broadcast again; the first time is line 1"),
    ],
)
def test_errors_give_the_line(write, line, match):
    refused(write([*GOOD, line]), f"line 7: {match}")
    refused(write([*GOOD, line]), "line 7", load)


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"node": "\xff\xfe", "kind": "deliver", "message": 1}\n')
    refused(path, "line 1: not a JSON object")


def test_byte_order_mark(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(GOOD).encode())
    assert rows_of(load(path)[0])["b"] == [(0, "x"), (3, "y")]


def test_missing_file(tmp_path):
    refused(tmp_path / "none", "there is no log")
    refused(tmp_path, "is a directory")
