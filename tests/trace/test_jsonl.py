"""Logs of JSON lines: order, names, and errors that give the line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes import audit
from precedes.errors import UserError
from precedes.trace import load
from tests.support import executions


def read_jsonl(log):
    (history,) = load(log, "jsonl")
    return history


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
    assert list(rows_of(history)) == ["a", "b"]
    assert history.message_sequence.tolist() == [1, 1]
    assert not history.complete
    assert audit.audit(history).verdict == "held"


@given(st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_reports_do_not_depend_on_the_interleaving(tmp_path_factory, seed, rng):
    """Not even of logs that contradict themselves, and not even their witnesses."""
    execution = executions.scramble(seed, nodes=4, messages=8, rows=20)
    executions.with_members(execution, rng)
    by_node = [executions.as_lines(execution, node) for node in range(4)]
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    reports = []
    for _ in range(2):
        waiting = [list(lines) for lines in by_node]
        mixed = []
        while any(waiting):
            mixed.append(rng.choice([lines for lines in waiting if lines]).pop(0))
        path.write_text("\n".join(mixed))
        reports.append(audit.audit(read_jsonl(path)))
    assert reports[0] == reports[1]
    expected = executions.judge(execution)
    for name in ("violations", "duplicates", "phantom", "cycles", "unjudged"):
        assert getattr(reports[0], name) == expected[name], name


def test_joins_and_leaves(write):
    """A node need not deliver its initial messages, and none after it left."""
    lines = [*(event("a", "broadcast", name) for name in "xyz"), event("b", "deliver", "z")]
    for joins, violations in ((["y"], 0), ([None, "y"], 0), (["x"], 1), ([None], 1)):
        began = [event("b", "join", name) for name in joins]
        assert audit.audit(read_jsonl(write(began + lines))).violations == violations
    lines.append(event("b", "join", "y"))
    for kinds, missing in ((["leave"], 0), (["leave", "join"], 3)):
        rows = [*lines, *(f'{{"node": "c", "kind": "{kind}"}}' for kind in kinds)]
        assert audit.audit(read_jsonl(write(rows))).undelivered_at_end == missing


def test_integers_are_names_and_order_nodes(write):
    lines = [event(10, "broadcast", 7), event(9, "deliver", "7"), event("10", "broadcast", 5)]
    history = read_jsonl(write(lines))
    assert rows_of(history) == {"9": [(3, "7")], "10": [(0, "7"), (0, "5")]}
    assert list(rows_of(history)) == ["9", "10"]
    assert history.message_source.tolist() == [1, 1]
    assert history.message_sequence.tolist() == [1, 2]


def test_phantom_and_violation_are_reported_by_name(write):
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
        ("[" * 100_000, "nested too deeply"),
        ('{"node": ' + "7" * 5000 + "}", "a number has more than 4,300 digits"),
        (event("a", "shout", "x"), "unknown kind 'shout'; known are broadcast, "),
        (event("a", 3, "x"), "unknown kind 3"),
        ('{"node": "a", "message": "x"}', '"kind" is missing'),
        ('{"node": "a", "kind": "deliver"}', '"message" is missing'),
        ('{"kind": "deliver", "message": "x"}', '"node" is missing'),
        (event(None, "deliver", "x"), '"node" must be a string or an integer, not None'),
        (event("a", "deliver", 1.5), '"message" must be a string or an integer, not 1.5'),
        (event(True, "deliver", "x"), '"node" must be a string'),
        (event("\ud800", "deliver", "x"), '"node" holds half a character'),
        (event("a", "delivr", "x"), r"unknown kind 'delivr' \(did you mean 'deliver'\?\)"),
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
    refused(path, r"line 1: not a JSON object \(not UTF-8 text\)")


def test_byte_order_mark(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(GOOD).encode())
    assert rows_of(load(path)[0])["b"] == [(0, "x"), (3, "y")]


@pytest.mark.parametrize("name", ["9" * 5000, "\u0663", "", "-"])
def test_any_text_is_a_name(write, name):
    lines = [event(name, "broadcast", name), event("8", "deliver", name)]
    (history,) = load(write(lines))
    assert name in rows_of(history)
    report = audit.audit(history)
    assert report.verdict == "held"
    report = audit.audit(load(write([*lines, lines[1]]))[0])
    text = audit.to_text([report])
    assert text.encode()
    json.dumps(audit.to_json([report]))


def test_names_cannot_steer_a_terminal(write):
    name = "a\x1b[2J\r\nb\u202e\x9b"
    lines = [
        event("1", "broadcast", name),
        event("2", "deliver", name),
        event("2", "deliver", name),
    ]
    report = audit.audit(read_jsonl(write(lines)))
    text = audit.to_text([report])
    assert text.splitlines()[-1] == (r"  - node 2 delivered a\x1b[2J\r\nb\u202e\x9b 2 times.")
    assert audit.to_json([report])["witnesses"][0]["message_name"] == name
    refused(write([*lines, lines[0]]), r"message a\\x1b\[2J\\r\\nb.* is broadcast again")


def numbered(*places):
    """A violation if the last two lines stand in their order; ``None`` leaves a place out."""
    rows = [("a", "broadcast", "x"), ("a", "broadcast", "y")]
    rows += [("b", "deliver", "y"), ("b", "deliver", "x")]
    return [
        event(*row, **({} if place is None else {"local_seq": place}))
        for row, place in zip(rows, places, strict=True)
    ]


@pytest.mark.parametrize("above", [[], [""]], ids=["plain", "line by line"])
def test_a_position_orders_the_events_of_a_node(write, above):
    for places, verdict in [
        ((0, 1, 5, -7), "held"),
        ((0, 1, -7, 5), "violated"),
        ((None,) * 4, "violated"),
    ]:
        history = read_jsonl(write([*above, *numbered(*places)]))
        assert audit.audit(history).verdict == verdict


@pytest.mark.parametrize("above", [[], [""]], ids=["plain", "line by line"])
@pytest.mark.parametrize(
    ("places", "match"),
    [
        ((0, 1, None, 5), "line {} lacks a local_seq, which rows before have"),
        ((None, None, 0, 1), "line {} has a local_seq, which rows before lack"),
        ((0, 1, "5", 6), "line {}: \"local_seq\" must be an integer of 64 bits, not '5'"),
        ((0, 1, 1.5, 6), 'line {}: "local_seq" must be an integer of 64 bits, not 1.5'),
        ((0, 1, True, 6), 'line {}: "local_seq" must be an integer of 64 bits, not True'),
        ((0, 1, 2**63, 6), 'line {}: "local_seq" must be an integer of 64 bits'),
        ((0, 1, 5, 5), "two events of node b share the local_seq 5"),
    ],
)
def test_positions_that_are_refused(write, above, places, match):
    refused(write([*above, *numbered(*places)]), match.format(3 + len(above)))


def test_positions_that_begin_in_a_later_block(write):
    """A block that is plain by itself."""
    lines = [event("c", "broadcast", f"m{number}") for number in range(30_000)]
    path = write([*lines, *numbered(0, 1, 2, 3)])
    refused(path, "line 30001 has a local_seq, which rows before lack")


def test_a_folder_names_the_run_or_the_node(write, tmp_path):
    (tmp_path / "run_id=7" / "node=a%2Fb").mkdir(parents=True)
    line = '{"kind": "broadcast", "message": "x"}'
    history = read_jsonl(write([line], "run_id=7/node=a%2Fb/log.jsonl"))
    assert (history.run_id, rows_of(history)) == (7, {"a/b": [(0, "x")]})
    history = read_jsonl(write(GOOD, "run_id=7/log.jsonl"))
    assert (history.run_id, history.nodes) == (7, 2)
    agreeing = read_jsonl(write([event("a", "broadcast", "x", run_id=7)], "run_id=7/log.jsonl"))
    assert agreeing.run_id == 7
    path = write([event("a", "broadcast", "x", run_id=8)], "run_id=7/log.jsonl")
    refused(path, "line 1: run_id is 8, and the folder says run_id=7")
