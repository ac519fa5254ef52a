"""The log of a live member: what is written is what is read, and a node's rows are its rows."""

import errno
import os
import struct

import pytest

from precedes.audit import audit
from precedes.audit.stages import Runner
from precedes.errors import UserError
from precedes.live.member.node import Node, Settings
from precedes.model import EventKind
from precedes.trace import members, read_members
from precedes.trace.member_log import (
    BROKEN,
    ENDED,
    OPEN,
    LogWriter,
    log_path,
    read_member_log,
    read_views,
    view_lines,
    view_row,
)
from tests.support import executions
from tests.support.audits import KINDS
from tests.support.executions import BROADCAST, Execution


def write(directory, rows, *, member=0, about=()):
    log = LogWriter(str(directory), member=member, members=1024, about=dict(about))
    assert log.append(rows, at_once=True)
    log.close(ENDED)
    return read_member_log(log_path(directory, member))


def test_the_rows_of_a_node_are_read_as_its_events(tmp_path):
    node = Node(Settings(member=1023, members=1024), recording=True)
    node.start()
    node.run(0)
    node.broadcast(b"hello")
    node.broadcast(b"again")
    found = write(tmp_path, node.run(3_000_000_007).trace, member=1023)
    assert found.time_ns.tolist() == [3_000_000_007] * 2
    assert found.kind.tolist() == [EventKind.BROADCAST] * 2
    assert found.source.tolist() == [1023] * 2
    assert found.sequence.tolist() == [1, 2]


def test_the_header_says_whose_log_it_is_and_how_it_ended(tmp_path):
    found = write(tmp_path, [], member=7, about={"group": "g", "window": 9})
    assert (found.about["member"], found.about["members"]) == (7, 1024)
    assert (found.about["group"], found.about["window"]) == ("g", 9)
    assert found.about["started_unix_ns"] > 0
    assert found.status == ENDED
    assert found.kind.size == 0


def test_changes_of_the_view_are_no_events(tmp_path):
    event = struct.pack("<qQ", 5, EventKind.DELIVER << 56 | 3 << 32 | 8)
    rows = [view_row(4, 1023, left=True), event, view_row(2**40, 0, left=False)]
    found = write(tmp_path, rows)
    assert [c.tolist() for c in found.views] == [[4, 2**40], [1023, 0], [True, False]]
    assert (found.time_ns.tolist(), found.kind.tolist()) == ([5], [EventKind.DELIVER])
    assert (found.source.tolist(), found.sequence.tolist()) == ([3], [8])


@pytest.mark.parametrize("kind", [len(EventKind), 63, 65, 255])
def test_other_kinds_of_rows_are_damage(tmp_path, kind):
    with pytest.raises(UserError, match="unknown kinds"):
        write(tmp_path, [struct.pack("<qQ", 5, kind << 56), view_row(6, 0, left=False)])


EVENT = struct.pack("<qQ", 5, EventKind.DELIVER << 56 | 3 << 32 | 8)


def test_a_line_about_a_view_counts_the_events_before_it(tmp_path):
    log = LogWriter(str(tmp_path), member=0, members=4, about={})
    assert read_views(log.path) == []
    assert log.append_view({"kind": "view", "epoch": 1})
    assert log.append([EVENT, EVENT * 2], at_once=False)
    assert log.append([view_row(4, 3, left=True)], at_once=False)
    assert log.append_view({"kind": "leave", "epoch": 2})
    assert read_member_log(log.path).kind.size == 3, "rows are written first"
    lines = read_views(log.path)
    assert [(line["rows"], line["kind"]) for line in lines] == [(0, "view"), (3, "leave")]
    views = log.path.with_suffix(".views")
    views.write_bytes(views.read_bytes()[:-1])
    assert read_views(log.path) == lines[:1], "an unfinished line is left out"
    views.unlink()
    assert read_views(log.path) is None


def test_a_view_that_cannot_be_written_stops_the_log(tmp_path, monkeypatch):
    log = LogWriter(str(tmp_path), member=0, members=4, about={})
    assert log.append([EVENT], at_once=True)

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_space)
        assert not log.append_view({})
    assert log.failure == os.strerror(errno.ENOSPC)
    assert log.append([EVENT], at_once=True), "a failure is reported once"
    log.close(ENDED)
    found = read_member_log(log.path)
    assert (found.status, found.kind.size) == (BROKEN, 1)


def write_group(directory, execution):
    """The logs of a group, with changes of views among the events."""
    for member, log in enumerate(execution.logs):
        rows = [view_row(0, member, left=False)]
        for at, (kind, (source, seq)) in enumerate(log):
            rows.append(struct.pack("<qQ", at, KINDS[kind] << 56 | source << 32 | seq))
        writer = LogWriter(str(directory), member=member, members=len(execution.logs), about={})
        assert writer.append(rows, at_once=True)
        writer.close(OPEN if member in execution.crashed else ENDED)


@pytest.mark.parametrize("order", ["causal", "wild"])
def test_the_audit_of_a_group_reads_logs_piece_by_piece(tmp_path, monkeypatch, order):
    """The verdict is that on the whole history, which is not made."""
    execution = executions.run(3, nodes=5, messages=40, order=order, loss=0.1)
    execution.crashed = [2]
    write_group(tmp_path, execution)
    expected = audit(read_members(tmp_path), witnesses=100)
    assert expected.verdict == "violated"
    assert (expected.violations > 0) == (order == "wild")
    rows = members.MemberRows(tmp_path)
    sizes = [chunk.kind.size for chunk in rows.chunks(0, 5, chunk_rows=7)]
    assert max(sizes) <= 7 < sum(sizes)
    assert audit(rows, witnesses=100, ranges=3, runner=Runner(chunk_rows=7)) == expected
    monkeypatch.delattr(members, "read_members")
    assert audit(tmp_path, witnesses=100) == [expected]


def test_a_group_whose_messages_are_not_numbered_in_order_is_read_whole(tmp_path):
    write_group(tmp_path, Execution([[(BROADCAST, (0, 2)), (BROADCAST, (0, 1))], []]))
    assert audit(tmp_path) == [audit(read_members(tmp_path))]


def test_states_are_rows_of_joins(tmp_path):
    """Of a member that joins with the messages of two others, of which one ended before."""
    group = [[1, "a", "01"], [2, "b", "02"]]
    about = {"group": "g", "protocol": "vector"}
    first = {"kind": "view", "epoch": 1, "group": "aa", "entries": group, "counts": {"1": 0}}
    now = [[1, "a", "01"], [3, "b", "03"]]
    second = {"epoch": 2, "group": "aa", "entries": now, "counts": {"1": 5, "2": 7, "3": 0}}
    state = {"kind": "state", "epoch": 2, "group": "aa", "entries": now, "counts": {"1": 6}}
    for member, lines in enumerate(
        [
            [{**first, "uid": 1}, {**second, "kind": "view", "uid": 1}],
            [{**first, "uid": 2}],
            [{**second, "kind": "learning", "uid": 3}, {**state, "uid": 3}],
        ]
    ):
        named = {**about, "name": "abb"[member], "life": f"0{member + 1}"}
        log = LogWriter(str(tmp_path), member=member, members=2 + member // 2, about=named)
        for line in lines:
            assert log.append_view(line)
        assert log.append(
            [struct.pack("<qQ", 9, EventKind.BROADCAST << 56 | member << 32 | 1)], at_once=True
        )
        log.close(OPEN if member == 1 else ENDED)
    *_, joined = members.members_of(tmp_path)
    log = joined.log()
    assert (joined.about["name"], joined.about["life"]) == ("b", "03")
    kinds = [EventKind.JOIN] * 3 + [EventKind.BROADCAST]
    rows = zip(*(column.tolist() for column in log[3:7]), strict=True)
    assert [*rows] == [
        (9, kind, source, seq)
        for kind, source, seq in zip(kinds, [2, 0, 1, 2], [0, 6, 7, 1], strict=True)
    ]
    rows = members.MemberRows(tmp_path)
    chunks = [chunk for chunk in rows.chunks(2, 3, chunk_rows=1)]
    assert [kind for chunk in chunks for kind in chunk.kind.tolist()] == kinds
    assert rows.counts.tolist() == [1, 2, 4]
    assert members.labels_of(members.members_of(tmp_path)) == ["a (0)", "b (1)", "b (2)"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("kind", "era"), ("uid", 0), ("counts", {"1": -1}), ("counts", {"1": 2**31}), ("rows", -1)],
)
def test_damaged_lines_about_views(tmp_path, key, value):
    line = {"kind": "view", "epoch": 1, "group": "aa", "uid": 1, "entries": [], "counts": {}}
    log = LogWriter(str(tmp_path), member=0, members=1, about={"life": "01"})
    assert log.append_view(line)
    assert view_lines(log.path)[0].epoch == 1
    assert log.append_view({**line, key: value})
    with pytest.raises(UserError, match="damaged lines"):
        view_lines(log.path)


def test_logs_of_groups_that_cannot_be_one(tmp_path):
    for member, size, life in ((0, 2, {}), (1, 3, {})):
        LogWriter(str(tmp_path), member=member, members=size, about=life).close(ENDED)
    with pytest.raises(UserError, match="different groups"):
        members.members_of(tmp_path)
    LogWriter(str(tmp_path), member=1, members=3, about={"life": "01"}).close(ENDED)
    with pytest.raises(UserError, match="lacks the log of member 2"):
        members.members_of(tmp_path)
    LogWriter(str(tmp_path), member=1, members=3, about={"life": 1}).close(ENDED)
    with pytest.raises(UserError, match="header is damaged"):
        members.members_of(tmp_path)
