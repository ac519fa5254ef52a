"""``follow``: audits a log while it is written, and yields a ``Standing`` after each change.

If evicted state is required after all, because a node appears late or delivers an old message, the
log is rescanned with a larger window. Earlier findings remain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from precedes.audit.growing import kernel
from precedes.audit.growing.auditor import (
    BYTES_MAX,
    OPEN_BYTES,
    Auditor,
    Forgotten,
    Standing,
    Violation,
    unproven,
)
from precedes.audit.growing.kernel import BROADCAST, MASK, SHIFT
from precedes.audit.logs import audit
from precedes.audit.report import VIOLATED, WITNESSES
from precedes.audit.views import with_views
from precedes.audit.witness import Explainer, Known, Witness
from precedes.errors import UserError
from precedes.trace import History, arrays
from precedes.trace.dialect import Dialect
from precedes.trace.tail import NO_ROWS, Rows, Tail, open_tail, ticks

SAVE_EVERY_S: Final = 30.0
STATE: Final = "follow.state"
# A log up to this size is read again for the path that proves a violation.
EXPLAINED_ROWS_MAX: Final = 20_000_000
PATIENCE_MAX: Final = 6
RING: Final = 1 << 12
REST_ROWS_MIN: Final = 1 << 16
REST_SHARE: Final = 8 * 13  # of the bound, as rows


def follow(source: str, **settings: Any) -> Following:
    """Audit a log while it grows: ``for standing in follow("logs"): ...``.

    ``source`` is a directory of the logs of a live group, a file of JSON lines, or a directory of
    such files; ``settings`` are those of ``Following``.
    """
    return Following(source, **settings)


def prepare() -> None:
    """Compile the loops of the audit, before a process that must not wait for them."""
    auditor = Auditor(nodes=1, is_closed=True)
    auditor.feed(NO_ROWS)
    auditor.make_room()


class Following:
    """A log that is followed: iterate over it for a ``Standing`` after each change.

    The iteration ends with the log: when all members of a live group have ended, after ``idle_s``
    without a write, or when ``is_stopped`` says so; the last standing is final if the log has
    ended, or if the dialect says that it is complete. ``work`` is a directory in which the state is
    kept every 30 s, to go on from there after a restart, unless that is to be ``fresh``.
    """

    def __init__(
        self,
        source: str,
        *,
        format: str = "auto",
        dialect: Dialect | None = None,
        every_s: float = 1.0,
        work: str | None = None,
        fresh: bool = False,
        idle_s: float | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        witnesses: int = WITNESSES,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        if not every_s > 0:
            raise UserError(f"every must be more than 0 seconds, not {every_s:g}")
        self._source, self._format, self._every_s = source, format, every_s
        self._dialect = Dialect() if dialect is None else dialect
        self._idle_s = idle_s
        self._is_stopped = is_stopped
        self._fresh = fresh
        self._state = None if work is None else f"{work}/{STATE}"
        self._witnesses, self._bytes_max = witnesses, bytes_max
        open_tail(source, format, dialect=dialect)  # reports mistakes at once

    def __iter__(self) -> Iterator[Standing]:
        follower: Follower | None = None
        saved_s = written_s = 0.0
        written_bytes = 0
        standing: Standing | None = None
        for now_s in ticks(self._every_s, self._is_stopped):
            if follower is None:
                follower = self._open()
            # Before it is read: what is written meanwhile is a change for the next look.
            size_bytes = 0 if follower is None else follower.tail.written_bytes()
            if size_bytes != written_bytes:
                written_bytes, written_s = size_bytes, now_s
            changed = False
            while follower is not None and follower.poll():
                changed = True
                yield (standing := follower.standing())
            quiet_s = now_s - written_s
            idle = self._idle_s is not None and quiet_s >= self._idle_s
            if follower is None:
                if idle:
                    break
                continue
            if standing is None:
                yield (standing := follower.standing())
            if idle or (not changed and follower.tail.is_over(quiet_s=quiet_s)):
                break
            if self._state is not None and now_s - saved_s >= SAVE_EVERY_S:
                follower.save(self._state)
                saved_s = now_s
        follower = follower or self._open()
        if follower is None:
            return
        if follower.poll():  # rows, or the end of the log, written since the last look
            yield follower.standing()
        if self._state is not None:
            follower.save(self._state)
        complete = self._dialect.complete
        if complete or follower.tail.is_over(quiet_s=float("inf")):
            yield follower.end(complete=complete)

    def _open(self) -> Follower | None:
        tail = open_tail(self._source, self._format, dialect=self._dialect)
        if tail is None:
            return None
        follower = Follower(tail, witnesses=self._witnesses, bytes_max=self._bytes_max)
        if self._state is not None and not self._fresh:
            follower.restore(self._state)
        return follower


class Follower:
    """Reads a log and judges it; no clock, so that tests can say when."""

    def __init__(
        self,
        tail: Tail,
        *,
        witnesses: int = WITNESSES,
        bytes_max: int = BYTES_MAX,
        open_bytes: int = OPEN_BYTES,
        room: kernel.Room | None = None,
    ) -> None:
        self.tail = tail
        self._bytes_max, self._open_bytes, self._room = bytes_max, open_bytes, room
        self._witnesses = witnesses
        self._patience = 0
        self._has_ended = False
        self._auditor = self._make()
        # The first violations, by node and position, and why they are.
        self._explained: dict[tuple[int, int], Witness] = {}

    def _make(self) -> Auditor:
        tail = self.tail
        room = self._room or kernel.room_of_log(tail.nodes)
        if self._patience:
            room = room._replace(ring=RING * 8**self._patience)
        return Auditor(
            nodes=tail.nodes,
            is_closed=tail.is_closed,
            has_states=tail.has_states,
            patient=self._patience > 0,
            room=room,
            open_bytes=self._open_bytes,
            bytes_max=self._bytes_max,
            origin=tail.title,
            node_label=tail.node_label,
            message_label=tail.message_label,
        )

    def poll(self) -> bool:
        """Read new rows and judge those that can be judged; return whether there were any."""
        rows = self.tail.read(resting=self._resting())
        if rows is not None or self.tail.nodes != self._auditor.nodes:
            self._feed(rows or NO_ROWS)
        for node in self.tail.gone():
            self._auditor.gone(node)
        return rows is not None

    def standing(self) -> Standing:
        """State of the log, with the first violations explained."""
        standing = self._auditor.standing()
        witnesses = tuple(self._explained.values())
        report = replace(standing.report, run_id=self.tail.run_id, witnesses=witnesses)
        return replace(standing, report=report)

    def end(self, *, complete: bool = False) -> Standing:
        """Judge the log as ended here; the report is that of ``audit``."""
        while self.poll():
            pass
        self._has_ended = True
        for rows in self._unread():
            self._feed(rows)
        end = self.tail.end()
        complete = complete or end.complete
        try:
            self._auditor.end(complete=complete, crashed=end.crashed)
        except Forgotten:
            self._read_again()
            self._auditor.end(complete=complete, crashed=end.crashed)
        standing = self.standing()
        if standing.report.verdict == VIOLATED and standing.rows_read <= EXPLAINED_ROWS_MAX:
            history = replace(self.tail.history(), complete=complete)
            witnesses = audit(history, witnesses=self._witnesses).witnesses
            standing = replace(standing, report=replace(standing.report, witnesses=witnesses))
        if self.tail.has_states:
            with contextlib.suppress(UserError):  # a member's log is not there
                return replace(standing, report=with_views(standing.report, self.tail.title))
        return standing

    def _unread(self) -> Iterator[Rows]:
        """All remaining rows; at the end of the log also lines without a line break."""
        while (rows := self.tail.read()) is not None:
            yield rows
        if self._has_ended:
            yield self.tail.finish()

    def _resting(self) -> list[int]:
        """Nodes whose rows wait already: reading more of them would not help."""
        limit = self._bytes_max // REST_SHARE // max(self._auditor.nodes, 1)
        return self._auditor.with_left(max(limit, REST_ROWS_MIN))

    def _feed(self, rows: Rows) -> None:
        tail = self.tail
        if tail.size_bytes() + self._auditor.size_bytes() > self._bytes_max:
            raise UserError(
                f"{tail.title} needs more than {self._bytes_max >> 20} MB to follow, much of it "
                "for names of messages: audit it when it has ended"
            )
        try:
            violations = self._auditor.feed(rows, nodes=tail.nodes, labels=tail.labels)
        except Forgotten:
            violations = self._read_again()
        self._explain(violations)

    def _read_again(self) -> list[Violation]:
        """Judge the log from its beginning, with a larger window."""
        while True:
            self._patience += 1
            self.tail.rewind()
            self._auditor = self._make()
            violations: list[Violation] = []
            try:
                for rows in self._unread():
                    violations += self._auditor.feed(
                        rows, nodes=self.tail.nodes, labels=self.tail.labels
                    )
                    del violations[self._witnesses :]
                return violations
            except Forgotten:
                if self._patience == PATIENCE_MAX:
                    raise

    # Witnesses ------------------------------------------------------------------------------

    def _explain(self, violations: list[Violation]) -> None:
        """Remember the first violations, and the paths that prove them."""
        new = [one for one in violations if (one.node, one.position) not in self._explained]
        del new[max(self._witnesses - len(self._explained), 0) :]
        if not new:
            return
        history = None
        if self._auditor.rows_read <= EXPLAINED_ROWS_MAX:
            try:
                history = self.tail.history()
            except UserError:  # a member's log is not there yet
                history = None
        for one in new:
            self._explained[one.node, one.position] = self._witness(one, history)

    def _witness(self, violation: Violation, history: History | None) -> Witness:
        tail = self.tail
        name, label = tail.node_label(violation.node), tail.message_label(violation.message)
        if history is None:
            lacked = tail.message_label(violation.lacked)
            return unproven(violation, node_name=name, message_name=label, lacked=lacked)
        node, source = (
            tail.node_in(history, one) for one in (violation.node, violation.message >> SHIFT)
        )
        explainer = Explainer(history, _known(history))
        witness = explainer.violation(node, source, violation.message & MASK)
        missed = witness.earlier_name
        never = f"node {name} delivered {label} but never delivered {missed}, which precedes it"
        if witness.sentence.startswith(never):  # it may come yet
            so_far = f"node {name} delivered {label} before {missed}, but {missed} precedes {label}"
            witness = replace(witness, sentence=so_far + witness.sentence[len(never) :])
        return witness

    # Restarts -------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Save the state, to resume from."""
        columns, about = self._auditor.pack()
        mine = {"auditor": about, "tail": self.tail.pack(), "patience": self._patience}
        of = {"title": self.tail.title, "options": self.tail.options}
        arrays.put(path, columns, {**mine, **of})

    def restore(self, path: str) -> None:
        """Resume from a saved state, if there is one."""
        state = arrays.get(path)
        if state is None:
            return
        columns, about = state
        if about["title"] != self.tail.title:
            raise UserError(f"{path} is of another log, {about['title']}: name another directory")
        if about.get("options") != self.tail.options:
            raise UserError(
                f"{path} was written with other options, {about.get('options')}: repeat them, or "
                "start over with `fresh`"
            )
        self.tail.unpack(about["tail"])
        self._patience = about["patience"]
        self._auditor = self._make()
        self._auditor.unpack(columns, about["auditor"])
        self._feed(NO_ROWS)  # so that it knows who waits


def _known(history: History) -> Known:
    """Position of each message's broadcast in a history."""
    rows = np.flatnonzero(history.kind == BROADCAST)
    node = np.searchsorted(history.offsets, rows, side="right") - 1
    counts = np.bincount(node, minlength=history.nodes)
    return Known(
        base=np.concatenate(([0], np.cumsum(counts))),
        position=rows - history.offsets[node],
        correct=np.ones(history.nodes, np.uint8),
        phantoms=[],
    )
