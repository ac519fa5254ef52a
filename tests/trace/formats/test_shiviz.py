"""Logs with vector clocks: what follows from a clock, and what no clock can say."""

import functools
import itertools
import json
import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.trace.formats import shiviz
from precedes.trace.formats.text import blocks
from tests.support.reading import read, read_one, refused, rows_of


def log(*events, head=True):
    """Events (host, clock) as GoVector writes them, or with the text first."""
    texts = [f"{host} {json.dumps(clock)}" for host, clock in events]
    return "".join(f"{text}\nsomething\n" if head else f"something\n{text}\n" for text in texts)


PING = [("a", {"a": 1}), ("b", {"b": 1}), ("b", {"a": 1, "b": 2}), ("a", {"a": 2, "b": 2})]


@pytest.mark.parametrize("head", [True, False])
def test_an_event_is_a_broadcast_after_deliveries_of_what_is_new(head):
    history = read_one(log(*PING, head=head))
    assert rows_of(history) == {
        "a": ["broadcast a:1", "deliver b:1", "deliver b:2", "broadcast a:2"],
        "b": ["broadcast b:1", "deliver a:1", "broadcast b:2"],
    }
    assert audit(history).verdict == "held"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_deliveries_extend_causal_order(order):
    """By name, by number or as they stand, b:1 could come before c:1, which precedes it."""
    events = [("c", {"c": 1}), ("b", {"b": 1, "c": 1}), ("a", {"a": 1, "b": 1, "c": 1})]
    history = read_one(log(*(events[at] for at in order)))
    assert rows_of(history)["a"] == ["deliver c:1", "deliver b:1", "broadcast a:1"]
    assert audit(history).verdict == "held"


def test_a_clock_that_is_not_closed():
    events = [("c", {"c": 1}), ("b", {"b": 1, "c": 1}), ("a", {"a": 1, "b": 1})]
    report = audit(read_one(log(*events)))
    assert (report.verdict, report.violations) == ("violated", 1)
    assert "node a" in report.witnesses[0].sentence


def test_what_is_below_a_clock_and_not_in_the_log_is_a_phantom():
    report = audit(read_one(log(("a", {"a": 1}), ("b", {"a": 3, "b": 1, "z": 1}))))
    assert (report.phantom, report.violations, report.nodes) == (3, 0, 2)


def test_events_of_a_host_may_stand_in_any_order():
    shuffled = [PING[3], PING[2], PING[0], PING[1]]
    assert rows_of(read_one(log(*shuffled))) == rows_of(read_one(log(*PING)))


@pytest.mark.parametrize(
    ("events", "match"),
    [
        ([("a", {"a": 1}), ("a", {"a": 1})], "line 3: event 1 of a occurs twice"),
        ([("a", {"a": 1}), ("a", {"a": 3})], "line 3: event 3 of a exists, but 2 does not"),
        ([("a", {"a": 2})], "line 1: event 2 of a exists, but 1 does not"),
        (
            [("a", {"a": 1, "b": 2}), ("a", {"a": 2, "b": 1})],
            "line 3: the clock of a decreases for b",
        ),
        ([("a", {"a": 1, "b": 2}), ("a", {"a": 2})], "decreases for b, from 2 to 0"),
        ([("a", {"a": 1}), ("a", {"b": 1})], "line 3: event 0 of a has no number in its own clock"),
        ([("a", {"a": 1}), ("a", {"a": 2.5})], "line 3: the clock has a: 2.5, not a whole number"),
        ([("a", {"a": 1}), ("a", {"a": "x"})], "the clock has a: 'x'"),
        ([("a", {"a": 1}), ("a", {"a": 2, "b": 2**30})], "a component jumped"),
    ],
)
def test_clocks_that_cannot_be(events, match):
    refused(log(*events), match)


def test_no_clock():
    refused('x\na {"a":1}\ny\na {a:2}\n', r"line 3: no clock: \{a:2\}", "shiviz")


def test_lines_that_are_no_events_are_counted():
    text = "some title\n\n" + log(*PING[:2]) + "odd\nodder\n\n" + log(*PING[2:])
    history = read_one(text, "shiviz", parser=shiviz.HOST_FIRST)
    assert (history.skipped, audit(history).verdict) == (3, "unknown")
    history = read_one(text, "shiviz", parser=shiviz.HOST_FIRST + r"|^(some|odd).*$")
    assert (history.skipped, audit(history).verdict) == (0, "held")


def test_line_ends_of_windows():
    assert rows_of(read_one(log(*PING).replace("\n", "\r\n"))) == rows_of(read_one(log(*PING)))


def test_runs():
    text = "=== one ===\n" + log(*PING) + "=== two ===\n" + log(*PING[:2]) + "=== three ===\n"
    named = read(text, delimiter=r"^=== (?<trace>.*) ===$")
    assert [(h.run_id, h.kind.size) for h in named] == [("one", 7), ("two", 2)]
    numbered = read(text, delimiter=r"^===.*$")
    assert [(h.run_id, h.kind.size) for h in numbered] == [(1, 7), (2, 2)]
    refused(
        text.replace("two", "one"),
        "line 10: a second run is called one",
        delimiter=r"^=== (?<trace>.*) ===$",
    )


TEXTS = """\
10:01 [node-1] send m1
10:02 [node-2] got m1
10:03 [node-2] ack m1
10:04 [node-2] down
10:05 [node-3] joined
10:06 [node-3] joined m1
"""
SAID = {
    "parser": r"^\S+ \[(?<host>.*?)\] (?<kind>\w+) ?(?<message>\S*)$",
    "kinds": {
        "send": "broadcast",
        "got": "deliver",
        "down": "crash",
        "joined": "join",
        "ack": "ignore",
    },
}


def test_what_the_text_says():
    history = read_one(TEXTS, **SAID)
    assert rows_of(history) == {
        "node-1": ["broadcast m1"],
        "node-2": ["deliver m1"],
        "node-3": [],
    }
    assert history.crashed.tolist() == [1]
    assert history.join_message.tolist() == [-1, 0]
    assert audit(history).undelivered_at_end == 0


@pytest.mark.parametrize(
    ("kinds", "text", "match"),
    [
        ({"send": "broadcast"}, TEXTS, "line 2: unknown kind 'got'.*`kinds` maps others"),
        (SAID["kinds"], TEXTS + "10:07 [a] gott m1\n", "unknown kind 'gott' .did you mean 'got'"),
        (SAID["kinds"], TEXTS + "10:07 [a] got\n", "line 7: a deliver without a message"),
        (SAID["kinds"], TEXTS + TEXTS[:23], "line 7: message m1 is broadcast again; the first"),
    ],
)
def test_texts_that_say_nothing(kinds, text, match):
    refused(text, match, parser=SAID["parser"], kinds=kinds)


def test_the_rest_may_be_ignored():
    history = read_one(TEXTS, parser=SAID["parser"], kinds={"send": "broadcast", "*": "ignore"})
    assert history.kind.size == 1


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"parser": "(?<host>a"}, "`parser` is not a regular expression: missing"),
        ({"parser": "(?<event>.*)"}, "`parser` has no group host"),
        ({"parser": "(?<host>.*)"}, "`parser` has no group clock"),
        ({"delimiter": "(", "parser": shiviz.HOST_FIRST}, "`delimiter` is not a regular exp"),
        ({"kinds": {"x": "recieve"}}, "`kinds` names 'recieve'"),
    ],
)
def test_expressions_that_are_none(said, match):
    refused(log(*PING), match, **said)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (r"(?<a>x)(?<=y)(?<!z)\k<a>", r"(?P<a>x)(?<=y)(?<!z)(?P=a)"),
        (r"(?<host>\S*) (?<clock>{.*})", r"(?P<host>\S*) (?P<clock>{.*})"),
    ],
)
def test_expressions_of_javascript(theirs, ours):
    assert shiviz.compiled(theirs, option="`parser`").pattern == ours


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_blocks_make_no_difference(seed):
    """However the text is cut, the same events are found and the same lines skipped."""
    rng = random.Random(seed)
    pieces = []
    clocks = {name: {} for name in "abc"}
    for _ in range(60):
        host = rng.choice("abc")
        for name, value in clocks[rng.choice("abc")].items():
            clocks[host][name] = max(clocks[host].get(name, 0), value)
        clocks[host][host] = clocks[host].get(host, 0) + 1
        pieces.append(f"text {'x' * rng.randrange(9)}\n{host} {json.dumps(clocks[host])}\n")
        if rng.random() < 0.1:
            pieces.append("\nlost words\n")
        if rng.random() < 0.05:
            pieces.append("=====\n")
            clocks = {name: {} for name in "abc"}
    text = "".join(pieces)
    said = {"delimiter": "^=====$", "parser": shiviz.EVENT_FIRST}
    expected = [(h.run_id, rows_of(h), h.skipped) for h in read(text, **said)]
    size = rng.randrange(1, 200)
    with (
        mock.patch.object(shiviz, "EVENT_CHARS_MAX", 150),
        mock.patch.object(shiviz, "blocks", functools.partial(blocks, block_bytes=size)),
    ):
        found = [(h.run_id, rows_of(h), h.skipped) for h in read(text, **said)]
    assert found == expected
    assert sum(skipped for _, _, skipped in found) == text.count("lost words")


def test_an_expression_that_swallows_the_log():
    text = "begin\n" + "x\n" * 400 + 'a {"a":1}\n'
    with mock.patch.object(shiviz, "EVENT_CHARS_MAX", 100):
        refused(
            text,
            "line 1: `parser` takes more than 100 characters for one event",
            parser=r"begin[^{]*\n(?<host>\w+) (?<clock>\{.*\})",
        )
