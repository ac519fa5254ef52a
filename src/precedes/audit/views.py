"""The audit of views: what members of a live group had delivered when their epochs began.

The rules, over the logs of all members and the lines about views next to them:

- V1: an epoch has one view in all logs, in which a name occurs once.
- V2: the broadcasts of a uid are those of one life of one process, numbered 1, 2, 3, ...
- V3: a member that installs a view, or leaves with it, has broadcast or delivered exactly the
  messages that the view counts as delivered: of each sender the first ones, that many.
- V7: a member that ends with the group has every message of the last epoch whose sender ends with
  it.

A killed member need not have reached the next view. Logs without lines about views are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import EventKind
from precedes.stores import Place
from precedes.trace.member_log import ENDED, MemberLog, read_views
from precedes.trace.members import member_logs

BROADCAST: Final = int(EventKind.BROADCAST)
DELIVER: Final = int(EventKind.DELIVER)
SHIFT: Final = 32  # of the source in a key; the sequence is below


class Finding(NamedTuple):
    """A violation of a rule in the log of a member, at the view of an epoch."""

    rule: str
    member: int
    epoch: int
    text: str


class _Line(NamedTuple):
    """A line about a view."""

    rows: int
    kind: str
    epoch: int
    group: str
    uid: int
    entries: tuple[tuple[int, str, str], ...]  # uid, name and life
    counts: dict[int, int] | None  # by uid

    @classmethod
    def parse(cls, line: dict[str, Any]) -> _Line:
        counts = line["counts"]
        return cls(
            rows=int(line["rows"]),
            kind=str(line["kind"]),
            epoch=int(line["epoch"]),
            group=str(line["group"]),
            uid=int(line["uid"]),
            entries=tuple((int(uid), str(name), str(life)) for uid, name, life in line["entries"]),
            counts=None if counts is None else {int(uid): int(n) for uid, n in counts.items()},
        )

    def __str__(self) -> str:
        return f"{'left with' if self.kind == 'leave' else 'installed'} view {self.epoch}"


class _Ended(NamedTuple):
    """A member that ended with the group."""

    member: int
    uid: int
    epoch: int
    broadcasts: int
    delivered: NDArray[np.int64]  # by sender: the first ones, that many


def check_views(directory: Place) -> list[Finding]:
    """Check the logs of all members of a group; a log at a time is in memory."""
    check = _Check()
    for log in member_logs(directory):
        check.add(log)
    return [*check.findings, *check.at_the_end()]


class _Check:
    """State of a check across the logs of a group."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._views: dict[tuple[str, int], tuple[int, _Line]] = {}  # with the member of its log
        self._life_of: dict[tuple[str, int], tuple[str, int]] = {}  # with the epoch of its view
        self._uid_of: dict[tuple[str, str], int] = {}
        self._writer: dict[tuple[str, int], int] = {}
        self._ended: dict[tuple[str, int], list[_Ended]] = {}

    def add(self, log: MemberLog) -> None:
        """Check a log, also against those before it."""
        parsed = read_views(log.path)
        if parsed is None:
            return
        member = log.about["member"]
        try:
            lines = [_Line.parse(line) for line in parsed]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UserError(f"{log.path} has damaged lines about views next to it") from None
        if not lines:
            if log.kind.size:
                self._report("V3", member, 0, f"member {member} has events, but installed no view")
            return
        for line in lines:
            self._check_view(member, line)
        broadcasts = self._check_broadcasts(log, member, lines[-1])
        delivered = self._check_counts(log, member, lines)
        if log.status == ENDED:
            last = lines[-1]
            # Views that end no epoch belong to the same one.
            key = last.group, 0 if last.counts is None else last.epoch
            one = _Ended(member, last.uid, last.epoch, broadcasts, delivered)
            self._ended.setdefault(key, []).append(one)

    def _report(self, rule: str, member: int, epoch: int, text: str) -> None:
        self.findings.append(Finding(rule, member, epoch, f"{text}."))

    def _check_view(self, member: int, line: _Line) -> None:
        """V1, and the lives of V2."""
        names = [name for _, name, _ in line.entries]
        for name in sorted({name for name in names if names.count(name) > 1}):
            text = f"view {line.epoch} of member {member} has the name {name!r} twice"
            self._report("V1", member, line.epoch, text)
        key = line.group, line.epoch
        other, known = self._views.setdefault(key, (member, line))
        if known.counts is None:
            self._views[key] = member, line
        differs = [
            what
            for what, mine, theirs in (
                ("members", line.entries, known.entries),
                ("counts", line.counts or known.counts, known.counts or line.counts),
            )
            if mine != theirs
        ]
        if differs:
            text = f"members {other} and {member} have different {' and '.join(differs)} in view"
            self._report("V1", member, line.epoch, f"{text} {line.epoch}")
        for uid, _, life in line.entries:
            first, epoch = self._life_of.setdefault((line.group, uid), (life, line.epoch))
            if life != first:
                text = f"uid {uid} is life {life} in view {line.epoch} of member {member}"
                text += f", and life {first} in view {epoch}"
                self._report("V2", member, line.epoch, text)
            elif (same := self._uid_of.setdefault((line.group, life), uid)) != uid:
                text = f"life {life} is uid {uid} in view {line.epoch} of member {member}"
                self._report("V2", member, line.epoch, f"{text}, and uid {same} before")

    def _check_broadcasts(self, log: MemberLog, member: int, last: _Line) -> int:
        """V2; return the number of broadcasts."""
        writer = self._writer.setdefault((last.group, last.uid), member)
        if writer != member:
            text = f"the logs of members {writer} and {member} are both of uid {last.uid}"
            self._report("V2", member, last.epoch, text)
        is_own = log.kind == BROADCAST
        source, sequence = log.source[is_own], log.sequence[is_own]
        if (others := np.flatnonzero(source != last.uid - 1)).size:
            at = others[0]
            text = f"member {member} broadcast message {source[at]}:{sequence[at]}"
            self._report("V2", member, last.epoch, f"{text}, which is not its own")
        elif (wrong := np.flatnonzero(sequence != np.arange(1, sequence.size + 1))).size:
            at = wrong[0]
            text = f"member {member} broadcast message {source[at]}:{sequence[at]}"
            self._report("V2", member, last.epoch, f"{text} instead of {source[at]}:{at + 1}")
        return int(sequence.max(initial=0))

    def _check_counts(self, log: MemberLog, member: int, lines: list[_Line]) -> NDArray[np.int64]:
        """V3; return how many of each sender's first messages are delivered in the end."""
        uids = [uid for line in lines for uid in line.counts or ()]
        size = max([int(log.source.max(initial=0)) + 1, *uids])
        delivered = _Delivered(size)
        counts = np.zeros(size, np.int64)
        start = 0
        for line in lines:
            delivered.add(log, start, line.rows)
            start = line.rows
            if line.counts is None:
                continue
            for uid, count in line.counts.items():
                counts[uid - 1] = count
            for source, sequence in delivered.lacking(counts):
                text = f"member {member} {line} without message {source}:{sequence}, which counts"
                self._report("V3", member, line.epoch, f"{text} as delivered before it")
            for source, sequence in delivered.excess(counts):
                text = f"member {member} had message {source}:{sequence} when it {line}, where only"
                text += f" {counts[source]} of member {source} count as delivered"
                self._report("V3", member, line.epoch, text)
            delivered = _Delivered(size, counts)  # a defect is reported once
        delivered.add(log, start, log.kind.size)
        return delivered.first

    def at_the_end(self) -> Iterator[Finding]:
        """V7."""
        for members in self._ended.values():
            for one in members:
                for sender in members:
                    at = sender.uid - 1
                    count = int(one.delivered[at]) if at < one.delivered.size else 0
                    if count < sender.broadcasts:
                        text = f"member {one.member} ended with the group in view {one.epoch}"
                        text += f" without message {at}:{count + 1}"
                        text += f" of member {sender.member}, which ended with it, too."
                        yield Finding("V7", one.member, one.epoch, text)


class _Delivered:
    """Messages that a member has: of each sender the first ones, and others beyond a gap."""

    def __init__(self, size: int, first: NDArray[np.int64] | None = None) -> None:
        self.first = np.zeros(size, np.int64) if first is None else first.copy()
        self._beyond = np.zeros(0, np.int64)  # sorted

    def add(self, log: MemberLog, start: int, end: int) -> None:
        """Add the messages in these rows of a log."""
        kind = log.kind[start:end]
        chosen = (kind == BROADCAST) | (kind == DELIVER)
        source = log.source[start:end][chosen].astype(np.int64)
        keys = source << SHIFT | log.sequence[start:end][chosen]
        keys = np.unique(np.concatenate([self._beyond, keys]))
        source, sequence = _parts(keys)
        is_new = sequence > self.first[source]
        keys, source, sequence = keys[is_new], source[is_new], sequence[is_new]
        place = np.arange(keys.size) - np.searchsorted(keys, source << SHIFT)  # in its sender's
        is_next = sequence == self.first[source] + 1 + place
        self.first += np.bincount(source[is_next], minlength=self.first.size)
        self._beyond = keys[~is_next]

    def lacking(self, counts: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The first missing message of each sender of which these many should be here."""
        sources = np.flatnonzero(self.first < counts)
        return list(zip(sources.tolist(), (self.first[sources] + 1).tolist(), strict=True))

    def excess(self, counts: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The first message of each sender beyond these counts."""
        source, sequence = _parts(self._beyond)
        extra = self._beyond[sequence > counts[source]]
        more = np.flatnonzero(self.first > counts)
        source, sequence = _parts(
            np.unique(np.concatenate([more << SHIFT | counts[more] + 1, extra]))
        )
        source, at = np.unique(source, return_index=True)
        return list(zip(source.tolist(), sequence[at].tolist(), strict=True))


def _parts(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return keys >> SHIFT, keys & (1 << SHIFT) - 1
