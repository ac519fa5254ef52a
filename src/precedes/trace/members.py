"""Reads the logs that the members of a live group leave in a directory, as one run.

A member whose log has neither a mark that it ended with the group nor one that rows are missing has
crashed, left early or been excluded: it need not have delivered anything, and its last broadcasts
may be lost. The run is complete if at least one member ended with the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

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
    MemberLog,
    decode_rows,
    is_member_log,
    read_header,
    read_member_log,
)
from precedes.trace.rows import CHUNK_ROWS, CRASH, JUDGED, Chunk, History, Rows, numbered_history
from precedes.trace.writer import TraceWriter

# Keys of a member's log that identify its writer.
MADE_BY: Final = ("version", "code_version")
MARKS_MAX: Final = 10_000


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


def read_members(directory: Place) -> History:
    """The history of a group from the logs of its members, which must all be there."""
    logs = list(member_logs(directory))
    chosen = [np.isin(log.kind, list(JUDGED.values())) for log in logs]
    pairs = list(zip(logs, chosen, strict=True))
    ended = np.array([log.status == ENDED for log in logs])
    history = numbered_history(
        nodes=logs[0].about["members"],
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
        headers = _headers_of(Address.of(directory))
        self._paths = [path for path, _ in headers]
        self._crashed = [about["status"] != ENDED for _, about in headers]
        self.nodes = len(headers)
        # A member that did not end with the group has one more row, a crash.
        sizes = [path.size_bytes() - HEADER_BYTES for path in self._paths]
        self.counts = np.array(sizes, np.int64) // ROW_BYTES + self._crashed
        self.complete = not all(self._crashed)
        self.run_id = 0

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``; a log is in its member's order."""
        for member in range(first, last):
            path = self._paths[member]
            try:
                with path.open() as file:
                    file.read(HEADER_BYTES)
                    while data := file.read(chunk_rows * ROW_BYTES):
                        rows = decode_rows(data, path)
                        bounds = np.array([0, rows.kind.size])
                        yield Chunk(member, bounds, rows.kind, rows.source, rows.sequence)
            except OSError as error:
                raise UserError(f"cannot read {path}: {error.strerror}") from None
            if self._crashed[member]:
                crash = (np.full(1, CRASH, np.int8), np.full(1, member, np.int32))
                yield Chunk(member, np.array([0, 1]), *crash, np.zeros(1, np.int32))


def member_batches(directory: Place) -> Iterator[pa.RecordBatch]:
    """The same as common rows, a member at a time; one that did not end with the group crashed."""
    numbers = {number: name for name, number in JUDGED.items()}
    for member, log in enumerate(member_logs(directory)):
        events = EventRows()
        columns = (log.time_ns, log.kind, log.source, log.sequence)
        for time_ns, kind, source, seq in zip(*(c.tolist() for c in columns), strict=True):
            name = numbers.get(kind)
            if name is None:
                continue
            bare = name in ("crash", "leave") or (name == "join" and seq == 0)
            events.add(
                run_id="0",
                node=str(member),
                local_seq=len(events),
                time_us=time_ns // 1000,
                kind=name,
                message=None if bare else f"{source}:{seq}",
            )
        if log.status != ENDED:
            last = "crash"
        elif len(events) == 0:
            last = "join"  # an empty join, which only marks it as a member
        else:
            last = ""
        if last:
            events.add(run_id="0", node=str(member), local_seq=len(events), kind=last, message=None)
        yield events.take()


def member_logs(directory: Place) -> Iterator[MemberLog]:
    """One log for each member of one group, in order; each is read when it is due."""
    for path, _ in _headers_of(Address.of(directory)):
        yield read_member_log(path)


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
        if any(about.get(key) != first.get(key) for key in ("members", "group", "protocol")):
            raise UserError(f"{directory} holds logs of different groups: {path}")
    missing = sorted(set(range(first["members"])) - set(logs))
    if missing:
        raise UserError(f"{directory} lacks the log of member {missing[0]}: collect all of them")
    return [logs[member] for member in range(first["members"])]


def join(directory: Place, path: Place) -> None:
    """Write the logs of a group as one trace file, for tools that read those."""
    logs = list(member_logs(directory))
    starts = [int(log.about.get("started_unix_ns", 0)) for log in logs]
    metadata = {key: logs[0].about.get(key) for key in ("group", "protocol", "window", *MADE_BY)}
    if marks := _marks(logs, starts):
        metadata["marks"] = marks
    with TraceWriter(path, nodes=len(logs), metadata=metadata) as writer:
        for member, log in enumerate(logs):
            late_ns = starts[member] - min(starts)
            crashed = log.status != ENDED
            logged_ns = (log.time_ns[-1:], log.views.time_ns[-1:])
            last_ns = max(np.concatenate(logged_ns).tolist(), default=0)
            end = np.full(int(crashed), last_ns)
            rows = log.time_ns.size + end.size
            writer.write(
                Events(
                    np.concatenate((log.time_ns, end)) + late_ns,
                    np.full(rows, member, np.int32),
                    np.concatenate((log.kind, np.full(end.size, EventKind.CRASH))).astype(np.int8),
                    np.concatenate((log.source, np.full(end.size, member))).astype(np.int32),
                    np.concatenate((log.sequence, np.zeros(end.size))).astype(np.int32),
                    np.full(rows, -1, np.int64),
                )
            )
        writer.close(complete=any(log.status == ENDED for log in logs))


def _marks(logs: list[MemberLog], starts: list[int]) -> list[tuple[int, int, str, int]]:
    """Changes of views, the first ``MARKS_MAX``: microseconds, whose, how, and who left it."""
    marks = []
    for member, (log, start) in enumerate(zip(logs, starts, strict=True)):
        time_us = (log.views.time_ns + start - min(starts)) // 1000
        columns = (time_us, log.views.member, log.views.left)
        for at_us, leaver, left in zip(*(column.tolist() for column in columns), strict=True):
            if leaver < len(logs):
                marks.append((at_us, member, "left" if left else "excluded", leaver))
    return sorted(marks)[:MARKS_MAX]
