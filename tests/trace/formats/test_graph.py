"""Causal graphs of documents: deliveries of new ancestors, forks, and malformed graphs."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from tests.support.reading import read_one, refused, rows_of


def edits(*transactions, **more):
    """Transactions (agent, parents)."""
    listed = [
        {"parents": list(parents), "numChildren": 1, "agent": agent, "patches": [[0, 0, "x"]]}
        for agent, parents in transactions
    ]
    return json.dumps({"kind": "concurrent", "endContent": "x", "txns": listed, **more})


def changes(*rows):
    """Changes (actor, seq, deps)."""
    return "\n".join(
        json.dumps({"actor": actor, "seq": seq, "deps": deps, "time": 1500000000, "ops": []})
        for actor, seq, deps in rows
    )


def test_a_merge_delivers_what_is_new():
    history = read_one(edits((0, []), (1, [0]), (0, [0]), (0, [1, 2]), (1, [3])))
    assert rows_of(history) == {
        "0": ["broadcast 0", "broadcast 2", "deliver 1", "broadcast 3"],
        "1": ["deliver 0", "broadcast 1", "deliver 2", "deliver 3", "broadcast 4"],
    }
    assert (audit(history).verdict, history.notes) == ("held", ())


def test_an_author_that_forks_is_another_node():
    history = read_one(edits(("a", []), ("a", [0]), ("a", [0]), ("a", [2]), ("a", [1, 3])))
    assert rows_of(history) == {
        "a": ["broadcast 0", "broadcast 1", "deliver 2", "deliver 3", "broadcast 4"],
        "a#2": ["deliver 0", "broadcast 2", "broadcast 3"],
    }
    assert history.notes == (
        "authors forked once: changes not based on their last one are at a node name#2",
    )
    assert audit(history).verdict == "held"


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_every_change_comes_after_its_ancestors_and_nothing_else_does(seed):
    """By sets: before a change its node has broadcast or delivered its ancestors, no more."""
    rng = random.Random(seed)
    transactions = []
    past = []
    for number in range(25):
        size = min(number, rng.choice((0, 1, 1, 1, 2, 3)))
        parents = rng.sample(range(number), size)
        if number and rng.random() < 0.5:
            parents = [number - 1]
        past.append(set(parents).union(*(past[parent] for parent in parents)))
        transactions.append((rng.randrange(3), parents))
    history = read_one(edits(*transactions))
    for rows in rows_of(history).values():
        seen = set()
        for row in rows:
            kind, _, label = row.partition(" ")
            if kind == "broadcast":
                assert seen == past[int(label)]
            assert int(label) not in seen
            seen.add(int(label))
    report = audit(history)
    assert report.violations == report.duplicates == report.phantom == report.cycles == 0
    assert report.messages == 25


def test_changes_of_automerge():
    history = read_one(changes(("a", 1, {}), ("b", 1, {"a": 1}), ("a", 2, {"b": 1}), ("b", 2, {})))
    assert rows_of(history) == {
        "a": ["broadcast a:1", "deliver b:1", "broadcast a:2"],
        "b": ["deliver a:1", "broadcast b:1", "broadcast b:2"],
    }


def test_changes_that_name_hashes():
    lines = [
        {"actor": "a", "seq": 1, "deps": [], "hash": "h1"},
        {"actor": "b", "seq": 1, "deps": ["h1"], "hash": "h2"},
        {"actor": "a", "seq": 2, "deps": ["h1", "h2"], "hash": "h3"},
    ]
    history = read_one("\n".join(map(json.dumps, lines)))
    assert rows_of(history)["a"] == ["broadcast a:1", "deliver b:1", "broadcast a:2"]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (
            edits((0, []), (1, [2]), (0, [0])),
            "transaction 1: has a parent that is not before",
        ),
        (edits((0, []), (1, [-1])), "transaction 1: has a parent"),
        (edits((0, []), (None, [0])), "transaction 1: has the agent None"),
        ('{"kind": "concurrent", "txns": [{"parents": []}]}', 'transaction 0: needs "parents" and'),
        ('{"kind": "concurrent", "txns": [7]}', "transaction 0: needs"),
        ('{"kind": "concurrent", "end": 1}', 'not an editing trace: it has no list "txns"'),
        (edits((0, []))[:-5], "is not a JSON value, as an editing trace is"),
        (json.dumps({"startContent": "", "txns": [{"patches": []}]}), "a sequential editing trace"),
        (
            changes(("a", 1, {}), ("b", 1, {"a": 2})),
            "line 2: builds upon a:2, which is not before it",
        ),
        (changes(("a", 1, {}), ("a", 3, {})), "line 2: builds upon a:2"),
        (changes(("a", 1, {}), ("a", 1, {})), "line 2: a:1 occurs twice"),
        (changes(("a", 0, {})), 'line 1: needs "actor", a string, and "seq"'),
        (changes(("a", 1, 7)), 'line 1: "deps" is neither an object nor a list'),
        (changes(("a", 1, {}), ("b", 1, {"a": "x"})), "line 2: \"deps\" has 'x'"),
        (changes(("a", 1, {})) + "\n[]", "line 2: not a JSON object"),
    ],
)
def test_what_is_no_graph(content, match):
    refused(content, match)


def test_editing_traces_have_a_limit(monkeypatch):
    monkeypatch.setattr("precedes.trace.formats.graph.FILE_BYTES_MAX", 50)
    refused(edits((0, [])), "has more than 0 MB, and an editing trace is read whole")


def test_merges_have_a_limit(monkeypatch):
    monkeypatch.setattr("precedes.trace.formats.graph.ENTRIES_MAX", 3)
    refused(edits((0, []), (1, [0]), (2, [0]), (0, [1, 2])), "4 merges among 3 authors and forks")
