"""Reads the logs that the members of a live group leave in a directory, as one run.

A member whose log has neither a mark that it ended with the group nor one that rows are missing has
crashed, left early or been excluded: it need not have delivered anything, and its last broadcasts
may be lost. The run is complete if at least one member ended with the group.

A member that joins a running group begins with a state, which its log has as JOIN rows: what the
state contains need not be delivered. One that ends without a state has not begun, and counts as
crashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from precedes.errors import UserError
from precedes.model import EventKind, Events
from precedes.stores import Address, Place
from precedes.trace.formats.text import EventRows
from precedes.trace.member_log import (
    BROKEN,
    ENDED,
    HEADER_BYTES,
    ROW_BYTES,
    SUFFIX,
    Joins,
    MemberLog,
    ViewLine,
    decode_rows,
    is_member_log,
    read_header,
    read_member_log,
    view_lines,
    with_joins,
)
from precedes.trace.rows import CHUNK_ROWS, CRASH, JUDGED, Chunk, History, Rows, numbered_history
from precedes.trace.writer import TraceWriter

# Keys of a member's log that identify its writer.
MADE_BY: Final = ("version", "code_version")
MARKS_MAX: Final = 10_000
ROWS_MAX: Final = 1 << 62


def holds_member_logs(directory: Address) -> bool:
    """Return whether a directory holds logs of members."""
    return bool(_files_of(directory))


def _files_of(directory: Address) -> list[Address]:
    try:
        return [directory / name for name in directory.names() if is_member_log(name)]
    except FileNotFoundError:
        raise UserError(f"there is no directory {directory}: check the path") from None
    except NotADirectoryError:
        raise UserError(f"{directory} is a file: name the directory of the members' logs") from None
    except OSError as error:
        raise UserError(f"cannot read {directory}: {error.strerror}") from None


class Member(NamedTuple):
    """A member of a group: its log, its lines about views, and the states it begins with."""

    path: Address
    about: dict[str, Any]  # the header of the log
    lines: list[ViewLine] | None  # about views; None if there is no file of them
    joins: Joins
    has_ended: bool  # with the group

    def log(self) -> MemberLog:
        """The log, with rows of the states."""
        return with_joins(read_member_log(self.path), self.joins)


class Ends:
    """Final counts of members that ended before a view, from the lines of all logs."""

    def __init__(self, lines: Iterable[ViewLine]) -> None:
        self._final: dict[str, dict[int, tuple[int, int]]] = {}  # by group and uid: epoch, count
        known = set()
        for line in lines:
            view = line.group, line.epoch
            if line.kind == "state" or line.counts is None or view in known:
                continue
            known.add(view)
            members = {uid for uid, _, _ in line.entries}
            for uid, count in line.counts.items():
                if uid not in members:
                    self._final.setdefault(line.group, {})[uid] = line.epoch, count

    def contents(self, state: ViewLine) -> dict[int, int]:
        """By uid, the number of messages that a state contains."""
        final = self._final.get(state.group, {})
        ended = {uid: count for uid, (epoch, count) in final.items() if epoch <= state.epoch}
        return {**ended, **(state.counts or {})}

    def joins(self, lines: Iterable[ViewLine]) -> Joins:
        """The states of a member as rows."""
        rows = []
        for line in lines:
            if line.kind == "state":
                rows.append((line.rows, line.uid - 1, 0))
                counts = sorted(self.contents(line).items())
                rows += [(line.rows, uid - 1, count) for uid, count in counts if count]
        return Joins.of(rows)


def has_begun(lines: Iterable[ViewLine]) -> bool:
    """Return whether a member with these lines has a state, or needed none."""
    kinds = {line.kind for line in lines}
    return not kinds or kinds != {"learning"}


def read_members(directory: Place) -> History:
    """The history of a group from the logs of its members, which must all be there."""
    members = members_of(directory)
    logs = [member.log() for member in members]
    chosen = [np.isin(log.kind, list(JUDGED.values())) for log in logs]
    pairs = list(zip(logs, chosen, strict=True))
    ended = np.array([member.has_ended for member in members])
    history = numbered_history(
        nodes=len(members),
        offsets=np.concatenate(([0], np.cumsum([int(which.sum()) for which in chosen]))),
        kind=np.concatenate([log.kind[which] for log, which in pairs]),
        source=np.concatenate([log.source[which] for log, which in pairs]),
        seq=np.concatenate([log.sequence[which] for log, which in pairs]),
        title=str(Address.of(directory)),
        complete=bool(ended.any()),
        has_end=True,
        time_us=np.concatenate([log.time_ns[which] // 1000 for log, which in pairs]),
        origin=str(Address.of(directory)),
    )
    return replace(history, crashed=np.union1d(history.crashed, np.flatnonzero(~ended)))


class MemberRows(Rows):
    """The same run, read from the logs in chunks: one chunk of each is in memory."""

    has_end = True

    def __init__(self, directory: Place) -> None:
        self.address = self.origin = str(Address.of(directory))
        members = members_of(directory)
        self._paths = [member.path for member in members]
        self._joins = [member.joins for member in members]
        self._crashed = [not member.has_ended for member in members]
        self.nodes = len(members)
        # A member that did not end with the group has one more row, a crash.
        sizes = [path.size_bytes() - HEADER_BYTES for path in self._paths]
        joins = np.array([joins.row.size for joins in self._joins])
        self.counts = np.array(sizes, np.int64) // ROW_BYTES + joins + self._crashed
        self.complete = not all(self._crashed)
        self.run_id = 0

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``; a log is in its member's order."""
        for member in range(first, last):
            path, joins, before = self._paths[member], self._joins[member], 0
            try:
                with path.open() as file:
                    file.read(HEADER_BYTES)
                    while data := file.read(chunk_rows * ROW_BYTES):
                        rows = decode_rows(data, path)
                        after = before + rows.kind.size
                        rows = with_joins(rows, joins.between(before, after))
                        before = after
                        bounds = np.array([0, rows.kind.size])
                        yield Chunk(member, bounds, rows.kind, rows.source, rows.sequence)
            except OSError as error:
                raise UserError(f"cannot read {path}: {error.strerror}") from None
            rows = with_joins(decode_rows(b"", path), joins.between(before, ROWS_MAX))
            if rows.kind.size:
                bounds = np.array([0, rows.kind.size])
                yield Chunk(member, bounds, rows.kind, rows.source, rows.sequence)
            if self._crashed[member]:
                crash = (np.full(1, CRASH, np.int8), np.full(1, member, np.int32))
                yield Chunk(member, np.array([0, 1]), *crash, np.zeros(1, np.int32))


def member_batches(directory: Place) -> Iterator[pa.RecordBatch]:
    """The same as common rows, a member at a time; one that did not end with the group crashed."""
    names = {number: name for name, number in JUDGED.items()}
    for number, member in enumerate(members_of(directory)):
        log = member.log()
        events = EventRows()
        columns = (log.time_ns, log.kind, log.source, log.sequence)
        for time_ns, kind, source, seq in zip(*(c.tolist() for c in columns), strict=True):
            name = names.get(kind)
            if name is None:
                continue
            bare = name in ("crash", "leave") or (name == "join" and seq == 0)
            events.add(
                run_id="0",
                node=str(number),
                local_seq=len(events),
                time_us=time_ns // 1000,
                kind=name,
                message=None if bare else f"{source}:{seq}",
            )
        if not member.has_ended:
            last = "crash"
        elif len(events) == 0:
            last = "join"  # an empty join, which only marks it as a member
        else:
            last = ""
        if last:
            events.add(run_id="0", node=str(number), local_seq=len(events), kind=last, message=None)
        yield events.take()


def members_of(directory: Place) -> list[Member]:
    """The members of one group by their numbers, with their logs and lines about views."""
    headers = _headers_of(Address.of(directory))
    lines = [view_lines(path) for path, _ in headers]
    everything = [line for own in lines for line in own or ()]
    counted = {uid for line in everything for uid, count in (line.counts or {}).items() if count}
    if (last := max(counted, default=0)) > len(headers):
        raise UserError(f"{directory} lacks the log of member {last - 1}: collect all of them")
    ends = Ends(everything)
    members = []
    for (path, about), own in zip(headers, lines, strict=True):
        has_ended = about["status"] == ENDED and has_begun(own or ())
        members.append(Member(path, about, own, ends.joins(own or ()), has_ended))
    return members


def _headers_of(directory: Address) -> list[tuple[Address, dict[str, Any]]]:
    """The logs of all members of one group, in order, with their headers."""
    paths = _files_of(directory)
    if not paths:
        raise UserError(f"{directory} holds no logs of members (*{SUFFIX})")
    logs: dict[int, tuple[Address, dict[str, Any]]] = {}
    for path in paths:
        about = read_header(path)
        if about is None:
            raise UserError(f"{path} is not a log of a member: its header is damaged")
        if about["status"] == BROKEN:
            raise UserError(
                f"{path} lacks events: the member could not write them, so nothing can be judged"
            )
        if about["member"] in logs:
            raise UserError(f"{directory} holds two logs of member {about['member']}")
        logs[about["member"]] = path, about
    first = next(iter(logs.values()))[1]
    for path, about in logs.values():
        if not are_of_one_group(first, about):
            raise UserError(f"{directory} holds logs of different groups: {path}")
    members = max(about["members"] for _, about in logs.values())
    missing = sorted(set(range(members)) - set(logs))
    if missing:
        raise UserError(f"{directory} lacks the log of member {missing[0]}: collect all of them")
    return [logs[member] for member in range(members)]


def are_of_one_group(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two headers can be of one group; without lives nobody joins."""
    keys = ["group", "protocol"]
    if "life" not in one and "life" not in other:
        keys.append("members")
    return all(one.get(key) == other.get(key) for key in keys)


def labels_of(members: list[Member]) -> list[str]:
    """The names of members, with their numbers if names are not these, or occur twice."""
    names = [str(member.about.get("name", number)) for number, member in enumerate(members)]
    return [
        name if name == str(number) and names.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(names)
    ]


def join(directory: Place, path: Place) -> None:
    """Write the logs of a group as one trace file, for tools that read those."""
    members = members_of(directory)
    logs = [read_member_log(member.path) for member in members]
    starts = [int(log.about.get("started_unix_ns", 0)) for log in logs]
    metadata = {key: logs[0].about.get(key) for key in ("group", "protocol", "window", *MADE_BY)}
    if marks := _marks(members, logs, starts):
        metadata["marks"] = marks
    labels = labels_of(members)
    if labels != [str(number) for number in range(len(members))]:
        metadata["labels"] = labels
    with TraceWriter(path, nodes=len(logs), metadata=metadata) as writer:
        for number, (member, raw) in enumerate(zip(members, logs, strict=True)):
            log = with_joins(raw, member.joins)
            late_ns = starts[number] - min(starts)
            logged_ns = (log.time_ns[-1:], log.views.time_ns[-1:])
            last_ns = max(np.concatenate(logged_ns).tolist(), default=0)
            end = np.full(int(not member.has_ended), last_ns)
            rows = log.time_ns.size + end.size
            writer.write(
                Events(
                    np.concatenate((log.time_ns, end)) + late_ns,
                    np.full(rows, number, np.int32),
                    np.concatenate((log.kind, np.full(end.size, EventKind.CRASH))).astype(np.int8),
                    np.concatenate((log.source, np.full(end.size, number))).astype(np.int32),
                    np.concatenate((log.sequence, np.zeros(end.size))).astype(np.int32),
                    np.full(rows, -1, np.int64),
                )
            )
        writer.close(complete=any(member.has_ended for member in members))


def _marks(
    members: list[Member], logs: list[MemberLog], starts: list[int]
) -> list[tuple[int, int, str, int]]:
    """Changes of views, the first ``MARKS_MAX``: microseconds, whose, how, and whom it is about.

    Lines about views have no time: who joins does so at the event before the line.
    """
    marks = []
    for number, (log, start) in enumerate(zip(logs, starts, strict=True)):
        late_us = (start - min(starts)) // 1000
        time_us = log.views.time_ns // 1000 + late_us
        columns = (time_us, log.views.member, log.views.left)
        for at_us, leaver, left in zip(*(column.tolist() for column in columns), strict=True):
            if leaver < len(logs):
                marks.append((at_us, number, "left" if left else "excluded", leaver))
        before: set[int] | None = None
        for line in members[number].lines or ():
            if line.kind not in ("view", "learning"):
                continue
            now = {uid - 1 for uid, _, _ in line.entries if uid <= len(logs)}
            at_ns = log.time_ns[: line.rows][-1:].tolist() or [0]
            joined = sorted(now - before) if before is not None else []
            marks += [(at_ns[0] // 1000 + late_us, number, "joined", who) for who in joined]
            before = now
    return sorted(marks)[:MARKS_MAX]
