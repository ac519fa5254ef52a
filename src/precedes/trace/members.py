"""Reads the logs that the members of a live group leave in a directory, as one history.

A member whose log says neither that it ended with the group nor that rows are missing has
crashed, left early or been evicted: nothing is owed to it, and what it broadcast last may be
lost. The run is complete if at least one member ended with the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from precedes.errors import UserError
from precedes.model import EventKind, Events
from precedes.stores import Address, Place
from precedes.trace.assemble import JUDGED, numbered_history
from precedes.trace.history import History
from precedes.trace.importers.rows import Rows
from precedes.trace.member_log import (
    BROKEN,
    ENDED,
    SUFFIX,
    MemberLog,
    is_member_log,
    read_member_log,
)
from precedes.trace.writer import TraceWriter

# What the log of a member says of who wrote it.
MADE_BY: Final = ("version", "code_version")
MARKS_MAX: Final = 10_000


def holds_member_logs(directory: Address) -> bool:
    """Whether a directory holds logs of members."""
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
    logs = _logs_of(Address.of(directory))
    chosen = [np.isin(log.kind, list(JUDGED.values())) for log in logs]
    pairs = list(zip(logs, chosen, strict=True))
    ended = np.array([log.status == ENDED for log in logs])
    history = numbered_history(
        nodes=logs[0].about["members"],
        offsets=np.concatenate(([0], np.cumsum([int(rows.sum()) for rows in chosen]))),
        kind=np.concatenate([log.kind[rows] for log, rows in pairs]),
        source=np.concatenate([log.source[rows] for log, rows in pairs]),
        seq=np.concatenate([log.sequence[rows] for log, rows in pairs]),
        title=str(Address.of(directory)),
        complete=bool(ended.any()),
        time_us=np.concatenate([log.time_ns[rows] // 1000 for log, rows in pairs]),
        origin=str(Address.of(directory)),
    )
    return replace(history, crashed=np.union1d(history.crashed, np.flatnonzero(~ended)))


def member_batches(directory: Place) -> Iterator[pa.RecordBatch]:
    """The same as common rows, a member at a time; one that did not end with the group crashed."""
    numbers = {number: name for name, number in JUDGED.items()}
    for member, log in enumerate(_logs_of(Address.of(directory))):
        rows = Rows()
        columns = (log.time_ns, log.kind, log.source, log.sequence)
        for time_ns, kind, source, seq in zip(*(c.tolist() for c in columns), strict=True):
            name = numbers.get(kind)
            if name is None:
                continue
            bare = name in ("crash", "leave") or (name == "join" and seq == 0)
            rows.add(
                run_id="0",
                node=str(member),
                local_seq=len(rows),
                time_us=time_ns // 1000,
                kind=name,
                message=None if bare else f"{source}:{seq}",
            )
        if log.status != ENDED:
            last = "crash"
        elif len(rows) == 0:
            last = "join"  # with nothing, which says no more than that it is a member
        else:
            last = ""
        if last:
            rows.add(run_id="0", node=str(member), local_seq=len(rows), kind=last, message=None)
        yield rows.take()


def _logs_of(directory: Address) -> list[MemberLog]:
    """One log for each member of one group, in order."""
    paths = _files_of(directory)
    if not paths:
        raise UserError(f"{directory} holds no logs of members (*{SUFFIX})")
    found = {}
    for path in paths:
        log = read_member_log(path)
        if log.status == BROKEN:
            raise UserError(
                f"{path} lacks events: the member could not write them, so nothing can be judged"
            )
        if log.about["member"] in found:
            raise UserError(f"{directory} holds two logs of member {log.about['member']}")
        found[log.about["member"]] = log
    first = next(iter(found.values())).about
    for log in found.values():
        if any(log.about.get(key) != first.get(key) for key in ("members", "group", "protocol")):
            raise UserError(f"{directory} holds logs of different groups: {log.path}")
    missing = sorted(set(range(first["members"])) - set(found))
    if missing:
        raise UserError(f"{directory} lacks the log of member {missing[0]}: collect all of them")
    return [found[member] for member in range(first["members"])]


def join(directory: Place, path: Place) -> None:
    """Write the logs of a group as one trace file, for tools that read those."""
    logs = _logs_of(Address.of(directory))
    starts = [int(log.about.get("started_unix_ns", 0)) for log in logs]
    metadata = {key: logs[0].about.get(key) for key in ("group", "protocol", "window", *MADE_BY)}
    if marks := _marks(logs, starts):
        metadata["marks"] = marks
    with TraceWriter(path, nodes=len(logs), metadata=metadata) as writer:
        for member, log in enumerate(logs):
            late_ns = starts[member] - min(starts)
            crashed = log.status != ENDED
            told_ns = (log.time_ns[-1:], log.views.time_ns[-1:])
            last_ns = max(np.concatenate(told_ns).tolist(), default=0)
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
    """Changes of views, the first ``MARKS_MAX``: microseconds, whose, how, and who is out of it."""
    found = []
    for member, (log, start) in enumerate(zip(logs, starts, strict=True)):
        time_us = (log.views.time_ns + start - min(starts)) // 1000
        columns = (time_us, log.views.member, log.views.left)
        for at_us, who, left in zip(*(column.tolist() for column in columns), strict=True):
            if who < len(logs):
                found.append((at_us, member, "left" if left else "evicted", who))
    return sorted(found)[:MARKS_MAX]
