"""Clocks that are written: by the definition of a vector clock, and by the importer of clocks."""

import io
import json
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.errors import UserError
from precedes.trace import event_batches, load
from precedes.trace.exporters.rows import runs_of
from precedes.trace.exporters.shiviz import to_shiviz
from tests.support import executions


def lines_of(execution):
    nodes = range(len(execution.logs))
    return "\n".join(line for node in nodes for line in executions.as_lines(execution, node))


def exported(text):
    runs = runs_of(list(event_batches(io.BytesIO(text.encode()))))
    return b"".join(to_shiviz(runs, title="log"))


def below(rows):
    """Which rows (node, place) happened before which, by sets: program order and messages."""
    sent = {
        m: (n, at) for n, log in enumerate(rows) for at, (k, m) in enumerate(log) if k[0] == "b"
    }
    known = {}

    def past(row):
        if row not in known:
            node, at = row
            direct = [(node, at - 1)] if at else []
            kind, m = rows[node][at]
            if kind == "deliver" and m in sent:
                direct.append(sent[m])
            known[row] = set(direct).union(*map(past, direct)) if direct else set()
        return known[row]

    return {(n, at): past((n, at)) for n, log in enumerate(rows) for at in range(len(log))}


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_clocks_count_what_happened_before(seed):
    order = random.Random(seed).choice(["causal", "fifo", "wild"])
    execution = executions.run(seed, nodes=4, messages=7, order=order)
    expected = below(execution.logs)
    text = exported(lines_of(execution)).decode().splitlines()
    seen = dict.fromkeys(range(4), 0)
    for event, stamp in zip(text[::2], text[1::2], strict=True):
        host, _, clock = stamp.partition(" ")
        node = int(host[1:])
        at, seen[node] = seen[node], seen[node] + 1
        kind, (source, number) = execution.logs[node][at]
        assert event == f"{kind} {source}:{number}"
        counts = {f"n{n}": sum(1 for row in expected[node, at] if row[0] == n) for n in range(4)}
        counts[host] += 1
        assert json.loads(clock) == {name: count for name, count in counts.items() if count}
    assert list(seen.values()) == list(map(len, execution.logs))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_written_clocks_are_closed_and_a_spoilt_one_is_not(seed):
    execution = executions.run(seed, nodes=3, messages=6, order="wild")
    content = exported(lines_of(execution))
    (history,) = load(io.BytesIO(content))
    report = audit(history)
    assert report.verdict in ("held", "unknown")  # unknown: nothing was delivered
    assert report.messages == sum(map(len, execution.logs))
    assert report.phantom == report.violations == 0
    # Somebody knows an event whose past it does not know.
    stamps = content.decode().splitlines()[1::2]
    deepest = max(stamps, key=lambda stamp: len(json.loads(stamp.partition(" ")[2])))
    host, _, text = deepest.partition(" ")
    clock = json.loads(text)
    assume(len(clock) > 1)
    event = f'look\nnew {{"{host}":{clock[host]},"new":1}}\n'.encode()
    assert audit(load(io.BytesIO(content + event))[0]).violations


def test_contradictions_have_no_clocks():
    text = "\n".join(
        json.dumps({"node": node, "kind": kind, "message": m})
        for node, kind, m in [
            ("a", "deliver", "y"),
            ("a", "broadcast", "x"),
            ("b", "deliver", "x"),
            ("b", "broadcast", "y"),
        ]
    )
    with pytest.raises(UserError, match="contradicts itself around message x"):
        exported(text)
