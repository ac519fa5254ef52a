"""The audit of views: what members of a live group had delivered when their epochs began.

The rules, over the logs of all members and the lines about views next to them:

- V1: an epoch has one view in all logs, in which a name occurs once.
- V2: the broadcasts of a uid are those of one life of one process, numbered 1, 2, 3, ...
- V3: a member that installs a view, or leaves with it, has broadcast or delivered exactly the
  messages that the view counts as delivered: of each sender the first ones, that many. A member
  that joins has those of its state from then on; before that its views are not checked.
- V4: no log has a message twice, or one that the member's state contains already.
- V5: every message that is delivered, or in a state, was broadcast. A member's broadcasts are in
  its log before they are sent, so that only a log without anything in it is an excuse.
- V6: a message is delivered after its past, a state contains the past of its messages, and is in
  the past of what its member broadcasts. The deliveries out of order at which no state is involved
  are those that the audit of causal order has found.
- V7: a member that ends with the group has every message of the last epoch whose sender ends with
  it.

A killed member need not have reached the next view. Logs without lines about views are not checked.
Of V4 and V5 the first ``FINDINGS_MAX`` messages of each log are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.audit.report import VIOLATED, Report
from precedes.model import EventKind
from precedes.stores import Place
from precedes.trace.member_log import ENDED, MemberLog, ViewLine, read_member_log
from precedes.trace.members import Ends, Member, has_begun, members_of

BROADCAST: Final = int(EventKind.BROADCAST)
DELIVER: Final = int(EventKind.DELIVER)
SHIFT: Final = 32  # of the source in a key; the sequence is below
FINDINGS_MAX: Final = 10


class Finding(NamedTuple):
    """A violation of a rule in the log of a member, at the view of an epoch."""

    rule: str
    member: int
    epoch: int
    text: str


class _State(NamedTuple):
    """The state that a member begins with: of each source the first messages, that many."""

    member: int
    line: ViewLine
    counts: NDArray[np.int64]  # by number


class _Ended(NamedTuple):
    """A member that ended with the group."""

    member: int
    uid: int
    epoch: int
    broadcasts: int
    delivered: NDArray[np.int64]  # by sender: the first ones, that many


def check_views(directory: Place, report: Report | None = None) -> list[Finding]:
    """Check the logs of all members of a group; a log at a time is in memory.

    ``report`` is that of the audit of the same logs: without one, V6 is of states only.
    """
    members = members_of(directory)
    if not any(member.lines for member in members):
        return []
    check = _Check(members)
    for number in range(len(members)):
        check.find_broadcasts(number)
    for number in range(len(members)):
        check.add(number, report)
    return [*check.findings, *check.at_the_end()]


def with_views(report: Report, directory: Place) -> Report:
    """The report on a group, with the findings about its views."""
    findings = tuple(finding.text for finding in check_views(directory, report))
    if not findings:
        return report
    return replace(report, verdict=VIOLATED, view_findings=findings)


class _Check:
    """State of a check across the logs of a group."""

    def __init__(self, members: list[Member]) -> None:
        self.findings: list[Finding] = []
        self._members = members
        self._names = [_name_of(member) for member in members]
        uids = [1, *(u for m in members for line in m.lines or () for u in line.counts or ())]
        self._size = max(len(members), *uids)
        self._sent = np.zeros(self._size, np.int64)  # by number: the highest that was broadcast
        self._states = self._all_states()
        self._views: dict[tuple[str, int], tuple[int, ViewLine]] = {}  # with the member of its log
        self._life_of: dict[tuple[str, int], tuple[str, int]] = {}  # with the epoch of its view
        self._uid_of: dict[tuple[str, str], int] = {}
        self._writer: dict[tuple[str, int], int] = {}
        self._ended: dict[tuple[str, int], list[_Ended]] = {}

    def _all_states(self) -> list[_State]:
        ends = Ends(line for member in self._members for line in member.lines or ())
        states = []
        for number, member in enumerate(self._members):
            for line in member.lines or ():
                if line.kind == "state":
                    counts = np.zeros(self._size, np.int64)
                    for uid, count in ends.contents(line).items():
                        counts[uid - 1] = count
                    states.append(_State(number, line, counts))
        return states

    def find_broadcasts(self, number: int) -> None:
        """Note which messages a member broadcast; before any log is checked."""
        member = self._members[number]
        log = read_member_log(member.path)
        self._sent[number] = log.sequence[log.kind == BROADCAST].max(initial=0)
        if not member.lines and not log.kind.size:
            self._sent[number] = np.iinfo(np.int64).max

    def add(self, number: int, report: Report | None) -> None:
        """Check a log, also against those before it."""
        member = self._members[number]
        lines = member.lines
        if lines is None:
            return
        log = read_member_log(member.path)
        if not lines:
            if log.kind.size:
                self._report(
                    "V3", number, 0, f"{self._who(number)} has events, but installed no view"
                )
            return
        for line in lines:
            self._check_view(number, line)
        self._check_life(number, lines[-1])
        broadcasts = self._check_broadcasts(log, number, lines[-1])
        delivered = self._check_counts(log, number, lines)
        self._check_messages(log, number, lines)
        self._check_states(log, number)
        self._check_after_states(log, number, lines)
        for witness in () if report is None else report.witnesses:
            if witness.kind == "violation" and witness.node == number:
                self._report_violation(
                    log, lines, number, witness.message_name, witness.earlier_name
                )
        last = next((line for line in reversed(lines) if line.kind != "state"), None)
        if log.status == ENDED and last is not None and has_begun(lines):
            # Views that end no epoch belong to the same one.
            key = last.group, 0 if last.counts is None else last.epoch
            one = _Ended(number, last.uid, last.epoch, broadcasts, delivered)
            self._ended.setdefault(key, []).append(one)

    def _who(self, number: int) -> str:
        """A member for people: with its name, if that is not its number."""
        name = self._names[number] if number < len(self._names) else None
        return f"member {number}" + ("" if name in (None, str(number)) else f" ({name})")

    def _report(self, rule: str, member: int, epoch: int, text: str) -> None:
        self.findings.append(Finding(rule, member, epoch, f"{text}."))

    def _check_view(self, member: int, line: ViewLine) -> None:
        """V1, and the lives of V2."""
        if line.kind == "state":
            if not line.entries:
                return
            line = line._replace(counts=None)  # those of the state, not of the view
        who = self._who(member)
        names = [name for _, name, _ in line.entries]
        for name in sorted({name for name in names if names.count(name) > 1}):
            text = f"view {line.epoch} of {who} has the name {name!r} twice"
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
                text = f"uid {uid} is life {life} in view {line.epoch} of {who}"
                text += f", and life {first} in view {epoch}"
                self._report("V2", member, line.epoch, text)
            elif (same := self._uid_of.setdefault((line.group, life), uid)) != uid:
                text = f"life {life} is uid {uid} in view {line.epoch} of {who}"
                self._report("V2", member, line.epoch, f"{text}, and uid {same} before")

    def _check_life(self, member: int, last: ViewLine) -> None:
        """V2: the life in the header of a log is that of its uid."""
        life = self._members[member].about.get("life")
        known, _ = self._life_of.get((last.group, last.uid), (life, 0))
        if life is not None and life != known:
            text = f"the log of {self._who(member)} is of life {life}, but uid {last.uid} is life"
            self._report("V2", member, last.epoch, f"{text} {known}")

    def _check_broadcasts(self, log: MemberLog, member: int, last: ViewLine) -> int:
        """V2; return the number of broadcasts."""
        writer = self._writer.setdefault((last.group, last.uid), member)
        if writer != member:
            text = f"the logs of members {writer} and {member} are both of uid {last.uid}"
            self._report("V2", member, last.epoch, text)
        is_own = log.kind == BROADCAST
        source, sequence = log.source[is_own], log.sequence[is_own]
        who = self._who(member)
        if (others := np.flatnonzero(source != last.uid - 1)).size:
            at = others[0]
            text = f"{who} broadcast message {source[at]}:{sequence[at]}"
            self._report("V2", member, last.epoch, f"{text}, which is not its own")
        elif (wrong := np.flatnonzero(sequence != np.arange(1, sequence.size + 1))).size:
            at = wrong[0]
            text = f"{who} broadcast message {source[at]}:{sequence[at]}"
            self._report("V2", member, last.epoch, f"{text} instead of {source[at]}:{at + 1}")
        return int(sequence.max(initial=0))

    def _check_counts(
        self, log: MemberLog, member: int, lines: list[ViewLine]
    ) -> NDArray[np.int64]:
        """V3; return how many of each sender's first messages are delivered in the end."""
        size = max(int(log.source.max(initial=0)) + 1, self._size)
        delivered = _Delivered(size)
        counts = np.zeros(size, np.int64)
        states = (state for state in self._states if state.member == member)
        has_state = False
        start = 0
        for line, after in zip(lines, [*lines[1:], None], strict=True):
            delivered.add(log, start, line.rows)
            start = line.rows
            if line.kind == "state":
                contents = np.zeros(size, np.int64)
                contents[: self._size] = next(states).counts
                delivered = _Delivered(size, contents)
                # Members may have ended while this one was learning.
                counts = contents.copy()
                for learned in lines[: lines.index(line)]:
                    if learned.epoch > line.epoch:
                        _count(learned, counts)
                has_state = True
                continue
            if line.counts is None:
                continue
            _count(line, counts)
            is_next = after is not None and after.kind == "state" and after.rows == line.rows
            if not has_state and (line.kind == "learning" or is_next):
                continue
            has_state = True
            self._report_counts(member, line, delivered, counts)
            delivered = _Delivered(size, counts)  # a defect is reported once
        delivered.add(log, start, log.kind.size)
        return delivered.first

    def _report_counts(
        self, member: int, line: ViewLine, delivered: _Delivered, counts: NDArray[np.int64]
    ) -> None:
        who = self._who(member)
        for source, sequence in delivered.lacking(counts):
            text = f"{who} {line} without message {source}:{sequence}, which counts"
            self._report("V3", member, line.epoch, f"{text} as delivered before it")
        for source, sequence in delivered.excess(counts):
            text = f"{who} had message {source}:{sequence} when it {line}, where only"
            text += f" {counts[source]} of member {source} count as delivered"
            self._report("V3", member, line.epoch, text)

    def _check_messages(self, log: MemberLog, member: int, lines: list[ViewLine]) -> None:
        """V4 and V5."""
        who = self._who(member)
        rows = np.flatnonzero((log.kind == BROADCAST) | (log.kind == DELIVER))
        source, sequence = log.source[rows].astype(np.int64), log.sequence[rows].astype(np.int64)
        is_delivery = log.kind[rows] == DELIVER
        keys = source << SHIFT | sequence
        order = np.argsort(keys, kind="stable")
        is_again = np.zeros(rows.size, np.bool_)
        is_again[order[1:]] = keys[order[1:]] == keys[order[:-1]]
        for at in np.flatnonzero(is_again & is_delivery)[:FINDINGS_MAX].tolist():
            epoch = _epoch_at(lines, rows[at])
            text = f"{who} delivered message {source[at]}:{sequence[at]} again in view {epoch}"
            self._report("V4", member, epoch, text)
        for state in self._states:
            if state.member != member:
                continue
            is_in = (rows >= state.line.rows) & (source < self._size)
            is_in[is_in] = sequence[is_in] <= state.counts[source[is_in]]
            for at in np.flatnonzero(is_in & ~is_again)[:FINDINGS_MAX].tolist():
                epoch = _epoch_at(lines, rows[at])
                text = f"{who} delivered message {source[at]}:{sequence[at]} in view {epoch}"
                self._report("V4", member, epoch, f"{text}, which its state contains")
            for number in np.flatnonzero(state.counts > self._sent)[:FINDINGS_MAX].tolist():
                text = f"{who} begins with a state of view {state.line.epoch} that contains message"
                text += f" {number}:{state.counts[number]}, which member {number} did not broadcast"
                self._report("V5", member, state.line.epoch, text)
        is_sent = source < self._size
        is_sent[is_sent] = sequence[is_sent] <= self._sent[source[is_sent]]
        for at in np.flatnonzero(is_delivery & ~is_sent & ~is_again)[:FINDINGS_MAX].tolist():
            epoch = _epoch_at(lines, rows[at])
            text = f"{who} delivered message {source[at]}:{sequence[at]} in view {epoch}"
            self._report(
                "V5", member, epoch, f"{text}, which member {source[at]} did not broadcast"
            )

    def _check_states(self, log: MemberLog, sender: int) -> None:
        """V6, of states: with the last message of a sender they contain what it had before.

        That has its own past in the state too, by the same check of its sender.
        """
        own = np.flatnonzero(log.kind == BROADCAST)
        for state in self._states:
            count = int(state.counts[sender])
            last = own[log.sequence[own] == count]
            if not last.size:
                continue
            before = slice(0, int(last[0]))
            rows = np.flatnonzero(log.kind[before] == DELIVER)
            source, sequence = log.source[rows].astype(np.int64), log.sequence[rows]
            lacking = source < self._size
            counts, sent = (c[source[lacking]] for c in (state.counts, self._sent))
            lacking[lacking] = (sequence[lacking] > counts) & (sequence[lacking] <= sent)
            lacked = [f"{source[at]}:{sequence[at]}" for at in np.flatnonzero(lacking)[:1]]
            for begun in self._states:
                if begun.member == sender and begun.line.rows <= last[0]:
                    contents = np.minimum(begun.counts, self._sent)
                    more = np.flatnonzero(contents > state.counts)[:1]
                    lacked += [f"{number}:{begun.counts[number]}" for number in more.tolist()]
            if lacked:
                text = f"{self._who(state.member)} begins with a state of view {state.line.epoch}"
                text += f" that contains message {sender}:{count}, but not message {lacked[0]}"
                self._report("V6", state.member, state.line.epoch, f"{text}, which precedes it")

    def _check_after_states(self, log: MemberLog, member: int, lines: list[ViewLine]) -> None:
        """V6, of deliveries: with the first message of a member they need what its state contains.

        Whoever installs a later view than that of the state has all of it, by V3.
        """
        for state in self._states:
            is_first = (log.kind == DELIVER) & (log.source == state.member)
            first = np.flatnonzero(is_first)[:1]
            if not first.size or _epoch_at(lines, first[0]) > state.line.epoch:
                continue
            delivered = _Delivered(max(int(log.source.max(initial=0)) + 1, self._size))
            for begun in self._states:
                if begun.member == member and begun.line.rows <= first[0]:
                    delivered.first[: self._size] = begun.counts
            delivered.add(log, 0, int(first[0]))
            needed = np.zeros(delivered.first.size, np.int64)
            needed[: self._size] = np.minimum(state.counts, self._sent)
            for source, sequence in delivered.lacking(needed)[:1]:
                epoch = _epoch_at(lines, first[0])
                text = f"{self._who(member)} delivered message {state.member}:"
                text += (
                    f"{log.sequence[first[0]]} in view {epoch} before message {source}:{sequence}"
                )
                text += f", which the state of {self._who(state.member)} contains"
                self._report("V6", member, epoch, text)

    def _report_violation(
        self, log: MemberLog, lines: list[ViewLine], member: int, message: str, earlier: str | None
    ) -> None:
        """V6, of a delivery out of order."""
        source, _, sequence = message.partition(":")
        is_it = (log.kind == DELIVER) & (log.source == int(source))
        rows = np.flatnonzero(is_it & (log.sequence == int(sequence)))
        epoch = _epoch_at(lines, int(rows[0])) if rows.size else 0
        text = f"{self._who(member)} delivered message {message} in view {epoch} before message"
        self._report("V6", member, epoch, f"{text} {earlier}, which precedes it")

    def at_the_end(self) -> Iterator[Finding]:
        """V7."""
        for members in self._ended.values():
            for one in members:
                for sender in members:
                    at = sender.uid - 1
                    count = int(one.delivered[at]) if at < one.delivered.size else 0
                    if count < sender.broadcasts:
                        text = f"{self._who(one.member)} ended with the group in view {one.epoch}"
                        text += f" without message {at}:{count + 1}"
                        text += f" of {self._who(sender.member)}, which ended with it, too."
                        yield Finding("V7", one.member, one.epoch, text)


def _name_of(member: Member) -> str | None:
    """The name of a member, from its header or its views."""
    for line in member.lines or ():
        for uid, name, _ in line.entries:
            if uid == line.uid:
                return name
    return member.about.get("name")


def _count(line: ViewLine, counts: NDArray[np.int64]) -> None:
    """Set what counts as delivered by a line."""
    for uid, count in (line.counts or {}).items():
        counts[uid - 1] = count


def _epoch_at(lines: list[ViewLine], row: int) -> int:
    """The epoch of the last view that was installed before an event."""
    views = [line.epoch for line in lines if line.kind != "state" and line.rows <= row]
    return views[-1] if views else 0


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
