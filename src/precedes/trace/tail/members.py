"""Follows the logs that the members of a live group write into a directory.

A member that starts later is waited for; a row that is half written is left for later; a member
that was restarted has begun its log anew, so that its earlier rows are gone: a UserError. The group
has ended when all members have, or some have and nothing has been written for a while: a member
that was killed leaves no mark.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np

from precedes.errors import UserError
from precedes.model import EventKind
from precedes.trace import member_log
from precedes.trace.history import History
from precedes.trace.members import read_members
from precedes.trace.rows import JUDGED
from precedes.trace.tail.rows import (
    NO_MESSAGE,
    NO_ROWS,
    SHIFT,
    End,
    GrowingFile,
    Rows,
    Tail,
    message_of,
)

READ_BYTES: Final = member_log.ROW_BYTES << 17  # of a member at a time
QUIET_S: Final = 10.0  # without a row, after a member has ended: the others were killed
JUDGED_KINDS: Final = np.array(sorted(JUDGED.values()), np.int8)


class MemberTail(Tail):
    """All members' logs as one growing log; the nodes are the members."""

    is_closed = True

    def __init__(self, directory: Path) -> None:
        self.title = str(directory)
        self.options = {"format": "members"}
        self._directory = directory
        self._files: dict[int, GrowingFile] = {}
        self._about: dict[int, dict[str, Any]] = {}
        self._status: dict[int, int] = {}
        self._sent: dict[int, int] = {}

    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """New rows of all members but those that rest."""
        self._find()
        before = self._read_bytes()
        found = [self._read_of(m) for m in sorted(self._files) if m not in resting]
        if self._read_bytes() == before:
            return None
        return Rows(*map(np.concatenate, zip(NO_ROWS, *found, strict=True)))

    def _read_bytes(self) -> int:
        return sum(file.offset for file in self._files.values())

    def written_bytes(self) -> int:
        """Size of all members' logs now."""
        self._find()
        return sum(file.written_bytes() for file in self._files.values())

    def end(self) -> End:
        """How the log ends, if this is its end."""
        crashed = [m for m in range(self.nodes) if self._status.get(m) != member_log.ENDED]
        return End(len(crashed) < self.nodes, crashed)

    def is_over(self, *, quiet_s: float) -> bool:
        """Whether no more rows will come, after so long a time without one."""
        status = [self._status.get(member, member_log.OPEN) for member in range(self.nodes)]
        if member_log.OPEN in status:
            return member_log.ENDED in status and quiet_s >= QUIET_S
        return bool(status)

    def gone(self) -> list[int]:
        """Members that will write no more rows."""
        return [m for m, status in self._status.items() if status != member_log.OPEN]

    def rewind(self) -> None:
        """Read all again."""
        self._sent = {}
        for file in self._files.values():
            file.rewind()

    def history(self) -> History:
        """What the batch audit reads; rows that were written since then among it."""
        return read_members(self._directory)

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        return {
            "nodes": self.nodes,
            "files": {str(member): file.pack() for member, file in self._files.items()},
            "sent": {str(member): count for member, count in self._sent.items()},
            "started": {str(m): about["started_unix_ns"] for m, about in self._about.items()},
        }

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        self._find()
        for name, place in about["files"].items():
            member = int(name)
            if self._about.get(member, {}).get("started_unix_ns") != about["started"][name]:
                raise UserError(f"{self.title} is not the log that was followed: begin anew")
            self._files[member].unpack(place)
        self._sent = {int(member): count for member, count in about["sent"].items()}

    def _find(self) -> None:
        """Look for members that have begun their logs."""
        try:
            paths = sorted(p for p in self._directory.iterdir() if member_log.is_member_log(p))
        except OSError as error:
            raise UserError(f"cannot read {self._directory}: {error.strerror}") from None
        known = {file.path for file in self._files.values()}
        for path in paths:
            if path not in known and (found := member_log.read_header(path)) is not None:
                self._add(path, found)

    def _add(self, path: Path, about: dict[str, Any]) -> None:
        member = about["member"]
        if member in self._files:
            raise UserError(f"{self._directory} holds two logs of member {member}")
        first = next(iter(self._about.values()), about)
        if any(about.get(key) != first.get(key) for key in ("members", "group", "protocol")):
            raise UserError(f"{self._directory} holds logs of different groups: {path}")
        self.nodes = about["members"]
        self._files[member] = GrowingFile(path)
        self._about[member] = about

    def _read_of(self, member: int) -> Rows:
        file = self._files[member]
        now = member_log.read_header(file.path)
        if now is None or now["started_unix_ns"] != self._about[member]["started_unix_ns"]:
            raise UserError(
                f"{file.path} was begun anew: member {member} was restarted, and what it had "
                "logged is gone; follow the logs anew"
            )
        # The mark comes after the last row: read in this order, it says that no row is missing.
        self._status[member] = now["status"]
        if now["status"] == member_log.BROKEN:
            raise UserError(
                f"{file.path} lacks events: the member could not write them, so nothing more can "
                "be judged"
            )
        if file.offset == 0:
            file.advance(file.read(member_log.HEADER_BYTES))
        data = file.read(READ_BYTES)
        data = data[: len(data) // member_log.ROW_BYTES * member_log.ROW_BYTES]
        file.advance(data)
        return self._rows(member, member_log.decode_rows(data, file.path))

    def _rows(self, member: int, log: member_log.DecodedRows) -> Rows:
        judged = np.isin(log.kind, JUDGED_KINDS)
        kind = log.kind[judged]
        sequence = log.sequence[judged].astype(np.int64)
        message = (log.source[judged].astype(np.int64) << SHIFT) | sequence
        bare = ((kind != EventKind.BROADCAST) & (kind != EventKind.DELIVER)) & (sequence == 0)
        message[bare | (kind == EventKind.CRASH) | (kind == EventKind.LEAVE)] = NO_MESSAGE
        sent = message[kind == EventKind.BROADCAST]
        first = message_of(member, self._sent.get(member, 0) + 1)
        self._sent[member] = self._sent.get(member, 0) + sent.size
        if not np.array_equal(sent, first + np.arange(sent.size)):
            raise UserError(
                f"{self._files[member].path} is damaged: member {member}'s broadcasts are not "
                "numbered one by one"
            )
        return Rows(np.full(kind.size, member, np.int32), kind, message)
