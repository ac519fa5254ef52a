"""A growing log: the audit agrees with the definitions at every cut, and takes nothing back."""

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.audit.growing import Auditor, Forgotten
from precedes.audit.growing.kernel import Room
from precedes.trace.tail import Rows
from tests.support import cuts, executions

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def grown(draw):
    """Executions of every kind."""
    seed, nodes, messages = draw(SEEDS), draw(st.integers(1, 6)), draw(st.integers(0, 14))
    if draw(st.booleans()):
        execution = executions.scramble(seed, nodes=nodes, messages=messages, rows=30)
    else:
        execution = executions.run(
            seed,
            nodes=nodes,
            messages=messages,
            order=draw(st.sampled_from(("causal", "fifo", "wild"))),
            loss=draw(st.sampled_from((0.0, 0.0, 0.3))),
            own=draw(st.sampled_from(("none", "now", "later"))),
            drain=draw(st.booleans()),
        )
    if draw(st.booleans()):
        executions.with_members(execution, random.Random(draw(SEEDS)))
    return execution


def followed(execution, seed, **settings):
    """Follow an execution to its end; the auditor and all violations."""
    judge = Auditor(nodes=len(execution.logs), is_closed=True, **settings)
    read = [[] for _ in execution.logs]
    known, found, before = set(), set(), (0, 0, 0)
    for node, piece in cuts.schedule(execution, seed):
        read[node] += piece
        known |= {m for kind, m in piece if kind == executions.BROADCAST}
        for one in judge.feed(Rows(*cuts.numbered(node, piece))):
            pair = (one.node, one.position, (one.message >> 32, one.message & (2**32 - 1)))
            assert pair not in found
            found.add(pair)
        before = agree(judge, read, execution, known, found, before)
    ended = judge.end(complete=execution.complete)
    found |= {(v.node, v.position, (v.message >> 32, v.message & (2**32 - 1))) for v in ended}
    return judge, found


def agree(judge, read, execution, known, found, before):
    """At a cut the rows judged and all that is found are those of the definitions."""
    at, resolved = cuts.judged_prefixes(read)
    standing = judge.standing()
    report = standing.report
    part = cuts.as_execution(read, at, execution)
    assert (standing.rows_read, standing.rows_judged) == (sum(map(len, read)), sum(at))
    assert report.messages == len(resolved)
    assert {wait.node for wait in standing.waiting} == {
        str(node) for node, rows in enumerate(read) if at[node] < len(rows)
    }
    assert found == cuts.violations(part, known)
    assert report.violating_messages == len({m for _, _, m in found})
    counts = (report.violations, report.duplicates, report.cycles)
    assert counts[:2] == (len(found), cuts.duplicates(part, known))
    circular = cuts.cycles(read)
    assert report.cycles <= len(circular)
    waited = [rows[at[node]] for node, rows in enumerate(read) if at[node] < len(rows)]
    if waited and all(kind == "deliver" and m in known for kind, m in waited):
        assert report.cycles  # nobody waits for what was not read
    assert all(now >= then for now, then in zip(counts, before, strict=True))
    assert (report.phantom, report.lost) == (0, 0)
    return counts


def without_witnesses(report):
    return dataclasses.replace(report, witnesses=())


@pytest.mark.swarm
@given(grown(), SEEDS)
@settings(max_examples=10_000)
def test_every_cut_of_many(execution, seed):
    ends_as_the_whole(execution, seed)


@given(grown(), SEEDS)
@settings(max_examples=150)
def test_every_cut_agrees_with_the_definitions(execution, seed):
    ends_as_the_whole(execution, seed)


def ends_as_the_whole(execution, seed):
    judge, found = followed(execution, seed)
    history = execution.history()
    assert judge.standing().report == without_witnesses(audit(history))
    assert {(node, m) for node, _, m in found} == executions.judge(execution)["pairs"]
    assert judge.standing().is_final


# Arrays that have to grow, and rings that forget, after a few rows.
CRAMPED = {"room": Room(entries=2, ring=2, gaps=1), "findings": 1}


@given(grown(), SEEDS)
def test_room_is_made_and_what_was_dropped_is_read_again(execution, seed):
    expected, (patience, settings) = audit(execution.history()), (0, CRAMPED)
    while True:
        try:
            found, _ = followed(execution, seed, **settings)
            break
        except Forgotten:
            patience += 1
            room = CRAMPED["room"]._replace(ring=2 * 8**patience)
            settings = {**CRAMPED, "patient": True, "room": room}
            assert patience < 4
    assert found.standing().report == without_witnesses(expected)


@given(grown(), SEEDS)
def test_rings_grow(execution, seed):
    """Own deliveries find what hangs on them, however small the rings are at first."""
    found, _ = followed(execution, seed, **CRAMPED, ring_max=1 << 10, patient=True)
    assert found.standing().report == without_witnesses(audit(execution.history()))


@given(grown(), SEEDS)
@settings(max_examples=10)
def test_interpreted_is_compiled(execution, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECEDES_TIER", "interpreted")
        judge, found = followed(execution, seed)
    again, same = followed(execution, seed)
    assert (judge.standing(), found) == (again.standing(), same)


def test_what_an_own_delivery_turns_into_violations_is_kept():
    """All have delivered it, but its source may still show that it came too early."""
    own, late, count = (0, 1), (0, 2), 20
    judge = Auditor(nodes=2, is_closed=True, room=Room(entries=2, ring=64, gaps=1))

    def feed(node, *rows):
        return judge.feed(Rows(*cuts.numbered(node, rows)))

    feed(0, ("broadcast", own), ("deliver", own), ("broadcast", late))
    feed(1, ("deliver", own), ("deliver", late))
    for number in range(1, count + 1):
        assert not feed(1, ("broadcast", (1, number)))
        assert not feed(0, ("deliver", (1, number)))
    found = feed(0, ("deliver", late))
    assert [one.message for one in found] == [(1 << 32) | n for n in range(1, count + 1)]
    assert [one.position for one in found] == list(range(3, 3 + count))
    assert judge.standing().report.violating_messages == count
