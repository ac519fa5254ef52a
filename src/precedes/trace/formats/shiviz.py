"""Reads logs with vector clocks, as ShiViz, TSViz and GoVector write them.

An expression matches the events: its groups ``host`` and ``clock`` identify an event.
An event is a message that its host broadcasts, called ``host:k`` by its own component k; just
before it the host delivers every event that is below this clock and was below none of its earlier
ones, in the order of the sums of their clocks, which extends causal order. So the audit checks
whether the clocks are closed: whether what is below an event's clock is below those above it.

For a picture, an event has its text, and instead of these deliveries an edge from each event that
precedes it directly: with no other one of them in between.

With a group ``kind`` the text names the kind of event, and the clock only orders a host's events.

A run is held in memory until it ends: about 40 bytes an event and 20 for each entry of a clock
that rises.
"""

from __future__ import annotations

import bisect
import io
import json
import re
from array import array
from collections import defaultdict
from collections.abc import Generator, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.arrays import repeated, strings, to_arrow
from precedes.trace.dialect import Dialect, Notes, by_line
from precedes.trace.formats.text import BATCH_ROWS, EventRows, blocks, one_line
from precedes.trace.schema import EDGE, EVENTS

# ShiViz takes the first unless configured otherwise; GoVector writes the second. Without the anchor
# each is tried at every character of a line that it does not match.
EVENT_FIRST: Final = r"^(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
HOST_FIRST: Final = r"^(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
CLOCK_LINE: Final = re.compile(r"(\S+) (\{.*\})\s*", re.ASCII)

# An expression may span lines: its matches are searched with this much text after it.
EVENT_CHARS_MAX: Final = 1 << 20
# Of a line that an expression without an anchor is tried at: that takes quadratic time.
LINE_CHARS_MAX: Final = 1 << 14


class Event(NamedTuple):
    """A match of the expression."""

    line: int
    groups: dict[str, str | None]


class Section(NamedTuple):
    """The beginning of a run."""

    line: int
    name: str | None  # None without a group for it


def batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """The events of a log, run by run."""
    log = _Text(text, title=title, dialect=dialect)
    groups = log.parser.groupindex
    has_kinds = "kind" in groups
    if has_kinds and not {"clock", "local_seq"} & groups.keys():
        notes.place = by_line
    run_id, names = dialect.one_run, set[str]()
    runs = 0
    run = _Kinds(title, dialect, notes) if has_kinds else _Clocks(title, dialect)
    for item in log.items():
        if isinstance(item, Event):
            run.add(item)
            continue
        if isinstance(item, int):
            notes.skipped[run_id] += item
            continue
        yield from run.batches(run_id)
        runs += 1
        run_id = str(runs) if item.name is None else item.name
        if run_id in names:
            raise UserError(
                f"{title}, line {item.line}: a second run is called {printable(run_id)}: leave "
                "the group trace out of `delimiter`, and they are numbered"
            )
        names.add(run_id)
        run = _Kinds(title, dialect, notes) if has_kinds else _Clocks(title, dialect)
    yield from run.batches(run_id)


def compiled(expression: str, *, option: str) -> re.Pattern[str]:
    """An expression as ShiViz accepts it: JavaScript's names of groups, anchors at every line."""
    python = re.sub(r"\(\?<(?![=!])", "(?P<", expression)
    python = re.sub(r"\\k<(\w+)>", r"(?P=\1)", python)
    try:
        return re.compile(python, re.MULTILINE | re.ASCII)
    except re.error as error:
        raise UserError(f"{option} is not a regular expression: {error}: {expression!r}") from None


def parser_for(opening: str) -> str | None:
    """The one of the two usual expressions that matches the beginning of a log, if any."""
    lines = [line for line in opening.splitlines() if line.strip()][:3]
    clocks = [is_clock_line(line) for line in lines]
    if clocks[:1] == [True]:
        return HOST_FIRST
    return EVENT_FIRST if True in clocks else None


def is_clock_line(line: str) -> bool:
    """Return whether a line is a host and a clock that has it."""
    match = CLOCK_LINE.fullmatch(line)
    if match is None:
        return False
    try:
        clock = json.loads(match[2])
    except (ValueError, RecursionError):
        return False
    return isinstance(clock, dict) and match[1] in clock


class _Text:
    """Events, beginnings of runs and counts of other lines, in the order of the text."""

    def __init__(self, text: io.BufferedReader, *, title: str, dialect: Dialect) -> None:
        self._blocks = blocks(text, title=title)
        self._title = title
        self._first = next(self._blocks).text
        self._line = 1
        self._delimiter = None
        if dialect.delimiter is not None:
            self._delimiter = compiled(dialect.delimiter, option="`delimiter`")
        opening = self._first[:65536].decode(errors="replace")
        if self._delimiter is not None:
            opening = self._delimiter.sub("", opening)
        expression = dialect.parser or parser_for(opening) or EVENT_FIRST
        self.parser = compiled(expression, option="`parser`")
        groups = self.parser.groupindex
        self._is_anchored = expression.startswith("^")
        wanted = ("host",) if "kind" in groups else ("host", "clock")
        missing = [name for name in wanted if name not in groups]
        if missing:
            raise UserError(f"`parser` has no group {missing[0]}: write (?<{missing[0]}>...)")

    def items(self) -> Iterator[Event | Section | int]:
        """The items of the text; a number is a count of skipped lines."""
        waiting = self._decoded(self._first)
        for block in self._blocks:
            waiting += self._decoded(block.text)
            if len(waiting) > 2 * EVENT_CHARS_MAX:
                at = yield from self._scan(waiting, len(waiting) - EVENT_CHARS_MAX)
                waiting = waiting[at:]
        yield from self._scan(waiting, len(waiting))

    def _decoded(self, text: bytes) -> str:
        if not self._is_anchored:
            self._check_lines(text)
        try:
            return text.decode().replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            number = self._line + text.count(b"\n", 0, error.start)
            raise UserError(
                f"cannot read {self._title}: about line {number}: not UTF-8 text"
            ) from None

    def _check_lines(self, text: bytes) -> None:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        longest = int(np.diff(ends, prepend=-1, append=len(text)).max())
        if longest > LINE_CHARS_MAX:
            raise UserError(
                f"{self._title} has a line of {longest:,} characters, in which to look for events "
                "takes long: begin `parser` with ^ if they begin with a line"
            )

    def _scan(self, text: str, end: int) -> Generator[Event | Section | int, None, int]:
        """The items that begin before ``end``; return the position to continue from."""
        at = 0
        while at < end or (at == end == len(text)):
            cut = self._delimiter.search(text, at) if self._delimiter else None
            stop = len(text) if cut is None else cut.start()
            at = yield from self._events(text, at, stop, end)
            if cut is None or cut.start() >= end:
                break
            name = cut.groupdict().get("trace")
            yield Section(self._line, name)
            self._pass(text, cut.start(), max(cut.end(), cut.start() + 1))
            at = max(cut.end(), cut.start() + 1)
        return at

    def _events(self, text: str, at: int, stop: int, end: int) -> Generator[Event | int, None, int]:
        """The events of one run that begin before ``end``; what is between them is counted."""
        for match in self.parser.finditer(text, at, stop):
            if match.start() >= end or match.end() == match.start():
                if match.end() > match.start():
                    break
                continue
            if match.end() - match.start() > EVENT_CHARS_MAX:
                raise UserError(
                    f"{self._title}, line {self._line}: `parser` takes more than "
                    f"{EVENT_CHARS_MAX:,} characters for one event: make it narrower"
                )
            yield from self._skip(text, at, match.start())
            # A match without a host is for text to skip on purpose.
            if match["host"] is not None:
                yield Event(self._line, match.groupdict())
            self._pass(text, match.start(), match.end())
            at = match.end()
        if stop <= end:
            last = stop
        else:  # whole lines only: the rest of one may be part of an event
            last = max(at, text.rfind("\n", at, end) + 1)
        yield from self._skip(text, at, last)
        return last

    def _skip(self, text: str, first: int, last: int) -> Iterator[int]:
        lines = sum(1 for line in text[first:last].split("\n") if line.strip())
        self._pass(text, first, last)
        if lines:
            yield lines

    def _pass(self, text: str, first: int, last: int) -> None:
        self._line += text.count("\n", first, last)


class _Kinds:
    """A run whose text says what happened."""

    def __init__(self, title: str, dialect: Dialect, notes: Notes) -> None:
        self._title = title
        self._dialect = dialect
        self._notes = notes
        self._has_order: bool | None = None
        self._own: set[tuple[str, int]] = set()
        self._events: list[tuple[str, int, str, str | None, str | None]] = []

    def add(self, event: Event) -> None:
        """Add an event; those without a kind, or of one that is ignored, are skipped."""
        host = event.groups["host"] or ""
        place = self._place(host, event)
        text = (event.groups["kind"] or "").strip()
        if not text:
            return
        try:
            kind = self._dialect.kind_of(text)
        except ValueError as error:
            raise _error(self._title, event.line, str(error)) from None
        if kind is None:
            return
        message = event.groups.get("message")
        if not message and kind in ("broadcast", "deliver"):
            raise _error(
                self._title, event.line, f"a {kind} without a message: give `parser` that group"
            )
        bare = kind in ("crash", "leave")
        words = one_line(event.groups.get("event")) if self._dialect.drawn else None
        self._events.append((host, place, kind, None if bare else message or None, words))

    def _place(self, host: str, event: Event) -> int:
        """A host's events are ordered by local_seq, or its own component; else by their lines."""
        local_seq = event.groups.get("local_seq")
        has_order = local_seq is not None or event.groups.get("clock") is not None
        if self._has_order is None:
            self._has_order = self._notes.has_order = has_order
        if has_order != self._has_order:
            raise _error(
                self._title, event.line, "some events have a clock or a local_seq, others neither"
            )
        if not has_order:
            return event.line
        if local_seq is None:
            own = _clock(self._title, event).get(host, 0)
        elif re.fullmatch(r"-?[0-9]{1,18}", local_seq):
            own = int(local_seq)
        else:
            wrong = f"local_seq is {local_seq!r}, not a whole number of up to 18 digits"
            raise _error(self._title, event.line, wrong)
        if (local_seq is None and own < 1) or (host, own) in self._own:
            raise _misnumbered(self._title, event.line, own, host)
        self._own.add((host, own))
        return own

    def batches(self, run_id: str) -> Iterator[pa.RecordBatch]:
        """The run's rows."""
        rows = EventRows(drawn=self._dialect.drawn)
        for host, place, kind, message, words in self._events:
            said: dict[str, Any] = {"kind": kind, "message": message, "text": words}
            rows.add(run_id=run_id, node=host, local_seq=place, **said)
            if rows.full:
                yield rows.take()
        if len(rows):
            yield rows.take()


class _Waiting(NamedTuple):
    line: int
    clock: dict[str, int]
    time_us: int  # or -1
    text: str | None


class _Clocks:
    """A run with clocks only, without kinds."""

    def __init__(self, title: str, dialect: Dialect) -> None:
        self._title = title
        self._drawn = dialect.drawn
        self._texts: dict[int, list[str | None]] = {}
        self._hosts: dict[str, int] = {}
        self._waiting: dict[int, dict[int, _Waiting]] = {}  # host -> events ahead of their turn
        self._last: dict[int, dict[str, int]] = {}  # host -> its last clock
        self._sums: dict[int, array[int]] = {}  # host -> sum of each of its clocks
        self._times: dict[int, array[int]] = {}
        # Entries that rose: at which event of the host, of which host, from what, to what.
        self._rises: dict[int, tuple[array[int], ...]] = {}

    def add(self, event: Event) -> None:
        """Add an event; those of a host may come in any order, since they are numbered."""
        host = event.groups["host"] or ""
        clock = _clock(self._title, event)
        number = self._hosts.setdefault(host, len(self._hosts))
        waiting = self._waiting.setdefault(number, {})
        own = clock.get(host, 0)
        if own <= len(self._sums.get(number, ())) or own in waiting:
            raise _misnumbered(self._title, event.line, own, host)
        words = one_line(event.groups.get("event")) if self._drawn else None
        waiting[own] = _Waiting(event.line, clock, _time_us(event), words)
        while (following := len(self._sums.get(number, ())) + 1) in waiting:
            self._take(host, number, waiting.pop(following))

    def _take(self, host: str, number: int, event: _Waiting) -> None:
        """The next event of a host in its own order."""
        last = self._last.get(number, {})
        before = last.get(host, 0)
        rises = self._rises.setdefault(number, tuple(array("q") for _ in range(4)))
        for name, value in event.clock.items():
            old = last.get(name, 0)
            if value > old and name != host:
                of = self._hosts.setdefault(name, len(self._hosts))
                for column, entry in zip(rises, (before, of, old, value), strict=True):
                    column.append(entry)
        lower = next((name for name, old in last.items() if event.clock.get(name, 0) < old), None)
        if lower is not None:
            raise _error(
                self._title,
                event.line,
                f"the clock of {printable(host)} decreases for {printable(lower)}, from "
                f"{last[lower]} to {event.clock.get(lower, 0)}",
            )
        self._last[number] = event.clock
        self._sums.setdefault(number, array("q")).append(sum(event.clock.values()))
        self._times.setdefault(number, array("q")).append(event.time_us)
        if self._drawn:
            self._texts.setdefault(number, []).append(event.text)

    def _check_whole(self) -> None:
        for host, number in self._hosts.items():
            for own, event in sorted(self._waiting.get(number, {}).items()):
                missing = len(self._sums.get(number, ())) + 1
                raise _error(
                    self._title,
                    event.line,
                    f"event {own} of {printable(host)} exists, but {missing} does not: a host "
                    "counts 1, 2, 3, ...",
                )

    def batches(self, run_id: str) -> Iterator[pa.RecordBatch]:
        """The run's rows, host by host."""
        self._check_whole()
        names = strings(list(self._hosts))
        if self._drawn:
            yield from self._drawn_batches(run_id)
            return
        sums = [np.array(self._sums.get(n, ()), np.int64) for n in range(len(self._hosts))]
        for name, number in self._hosts.items():
            if number in self._sums:
                rows = self._rows_of(number, sums)
                yield from _cut(run_id, name, names, rows)

    def _drawn_batches(self, run_id: str) -> Iterator[pa.RecordBatch]:
        """The same as one row for each event and edge."""
        names = list(self._hosts)
        rows = EventRows(drawn=True)
        # (host, of whom) -> at which of its events that component rose, and up to what
        rises: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for number, (event, of, _, high) in self._rises.items():
            for at, other, value in zip(event, of, high, strict=True):
                where, up_to = rises.setdefault((number, other), ([], []))
                where.append(at)
                up_to.append(value)

        def known(cause: tuple[int, int], other: int) -> int:
            """The component of another host in the clock of an event."""
            where, up_to = rises.get((cause[0], other), ([], []))
            at = bisect.bisect_left(where, cause[1])  # its number is one more than its place
            return up_to[at - 1] if at else 0

        for number, times in self._times.items():
            causes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
            event, of, _, high = self._rises[number]
            for at, other, value in zip(event, of, high, strict=True):
                causes[at].append((other, value))
            for at, time_us in enumerate(times):
                about: dict[str, Any] = {"run_id": run_id, "node": names[number], "local_seq": at}
                about["time_us"] = None if time_us < 0 else time_us
                for other, value in causes[at]:
                    if not any(known(cause, other) >= value for cause in causes[at]):
                        rows.add(**about, kind=EDGE, message=f"{names[other]}:{value}")
                message, words = f"{names[number]}:{at + 1}", self._texts[number][at]
                rows.add(**about, kind="broadcast", message=message, text=words)
                if rows.full:
                    yield rows.take()
        yield rows.take()

    def _rows_of(self, number: int, sums: list[NDArray[np.int64]]) -> _HostRows:
        """Deliveries and broadcasts of a host in its order."""
        event, of, low, high = (np.array(column, np.int64) for column in self._rises[number])
        counts = high - low
        total = int(counts.sum())
        if total > ROWS_MAX:
            raise UserError(
                f"{self._title}: {total:,} deliveries at one host follow from its clocks, more "
                f"than {ROWS_MAX:,}: a component jumped"
            )
        each = np.repeat(np.arange(counts.size), counts)
        k = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + low[each] + 1
        sizes = np.array([part.size for part in sums], np.int64)
        starts = np.cumsum(sizes) - sizes
        every = np.concatenate((*sums, np.zeros(1, np.int64)))
        known = k <= sizes[of[each]]
        # Messages that are not in the log come first: they have no clock, and are in no past.
        weight = np.where(known, every[np.where(known, starts[of[each]] + k - 1, 0)], -1)
        order = np.lexsort((k, of[each], weight, event[each]))
        own = sums[number].size
        at = np.concatenate((event[each][order], np.arange(own)))
        source = np.concatenate((of[each][order], np.full(own, number)))
        k = np.concatenate((k[order], np.arange(1, own + 1)))
        is_own = np.arange(at.size) >= total
        time_us = np.full(at.size, -1, np.int64)
        time_us[total:] = np.array(self._times[number], np.int64)
        order = np.lexsort((is_own, at))  # stable: deliveries keep their order
        return _HostRows(source[order], k[order], is_own[order], time_us[order])


class _HostRows(NamedTuple):
    source: NDArray[np.int64]
    k: NDArray[np.int64]
    is_own: NDArray[np.bool_]
    time_us: NDArray[np.int64]


# At one host; arrays of that many rows take some gigabytes.
ROWS_MAX: Final = 1 << 26


def _cut(run_id: str, host: str, names: pa.Array, rows: _HostRows) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows.k.size, BATCH_ROWS):
        part = _HostRows._make(column[first : first + BATCH_ROWS] for column in rows)
        size = part.k.size
        kind = strings(["broadcast" if own else "deliver" for own in part.is_own])
        message = pc.binary_join_element_wise(
            names.take(to_arrow(part.source)), to_arrow(part.k).cast(pa.string()), ":"
        )
        yield pa.RecordBatch.from_arrays(
            [
                repeated(run_id, size),
                repeated(host, size),
                to_arrow(np.arange(first, first + size)),
                to_arrow(part.time_us, null=part.time_us < 0),
                kind,
                message,
            ],
            schema=EVENTS,
        )


def _clock(title: str, event: Event) -> dict[str, int]:
    """The clock of an event; quotes in it may be escaped."""
    text = event.groups["clock"] or ""
    try:
        clock = json.loads(text.replace('\\"', '"') if text.startswith('{\\"') else text)
    except (ValueError, RecursionError):
        raise _error(title, event.line, f"no clock: {printable(text[:80])}") from None
    if not isinstance(clock, dict):
        raise _error(title, event.line, f"no clock: {printable(text[:80])}")
    for name, value in clock.items():
        if type(value) is not int or not 0 <= value < 2**31:
            raise _error(
                title,
                event.line,
                f"the clock has {printable(name)}: {value!r}, not a whole number",
            )
    return clock


def _time_us(event: Event) -> int:
    """TSViz's time in nanoseconds as microseconds, or -1."""
    stamp = event.groups.get("timestamp") or ""
    return int(stamp) // 1000 if stamp.isdecimal() and len(stamp) < 20 else -1


def _misnumbered(title: str, line: int, own: int, host: str) -> UserError:
    reason = "has no number in its own clock"
    if own:
        reason = "occurs twice; of a log of several runs, give their separator with `delimiter`"
    return _error(title, line, f"event {own} of {printable(host)} {reason}")


def _error(title: str, line: int, reason: str) -> UserError:
    return UserError(f"{title}, line {line}: {reason}")
