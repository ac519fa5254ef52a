"""Draws a small picture as an SVG file that stands alone, light and dark; the same bytes each time.

Points stand in columns, one after another, as wide as what is written there: time is an order here,
and the page is for lengths of it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import textwrap
from typing import Final, NamedTuple

from precedes import pages
from precedes.model import printable
from precedes.viewer.events import BROADCAST, RECEIVE
from precedes.viewer.picture import Picture, milliseconds

FONT: Final = 14
LETTER: Final = 0.62 * FONT  # as wide as letters are in wide fonts, about
CAPTION_LETTER: Final = 0.57 * FONT
TIME: Final = "time"
LANE_HEIGHT: Final = 92
TOP: Final = 46
COLUMN_MIN: Final = 72
RADIUS: Final = 6.5
LINE_HEIGHT: Final = 20
NAME_MAX: Final = 28
WIDTH_MIN: Final = 420.0


class _Place(NamedTuple):
    x: float
    y: float


def svg(picture: Picture) -> str:
    """The picture as the text of a file."""
    return _Drawing(picture).text()


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        # One page may contain several pictures.
        words = f"{picture.title} {picture.sentence} {picture.points}"
        self._id = "p" + hashlib.sha256(words.encode()).hexdigest()[:10]
        self._y = {lane: TOP + at * LANE_HEIGHT for at, lane in enumerate(picture.lanes)}
        self._left = 24 + max(_width(f"node {_short(lane)}") for lane in picture.lanes)
        self._labels = [self._label(at) for at in range(len(picture.points))]
        self._x = self._columns()
        self._colours = self._palette()

    def _label(self, at: int) -> str:
        point = self._picture.points[at]
        if point.kind == RECEIVE:
            return ""
        note = f", {point.note}" if point.note else ""
        return _short(point.message) + note

    def _columns(self) -> list[float]:
        """Positions of the points, apart by half the widths of both labels."""
        waits = {
            arrival: _width(self._wait_words(arrival, delivery))
            for arrival, delivery in self._picture.waits()
        }
        x: list[float] = []
        at_x = self._left + 24
        reach = 0.0  # where the words of a wait end
        before = 0.0
        for at, label in enumerate(self._labels):
            half = max(COLUMN_MIN, _width(label) + 14) / 2
            at_x += before + half if at else half - COLUMN_MIN / 2 + 8
            if self._picture.points[at].kind != RECEIVE and at_x < reach:
                at_x = reach
            x.append(at_x)
            if at in waits:
                reach = at_x + waits[at] + 12 + RADIUS
            before = half
        self._right = max(x, default=self._left) + before
        return x

    def _palette(self) -> dict[str, str]:
        """A colour for the messages of each source."""
        sources = [*dict.fromkeys(self._picture.sources.values())]
        order = [lane for lane in self._picture.lanes if lane in sources]
        order += [lane for lane in sources if lane not in order]
        return {
            message: f"var(--series-{1 + order.index(source) % 8})"
            for message, source in self._picture.sources.items()
        }

    def _place(self, at: int) -> _Place:
        return _Place(self._x[at], self._y[self._picture.points[at].lane])

    def text(self) -> str:
        picture = self._picture
        points = picture.points
        absent = self._absent()
        self._right = max(self._right, WIDTH_MIN)
        width = round(self._right + 24 + _width(TIME))
        letters = max(20, int((width - 32) / CAPTION_LETTER))
        caption = textwrap.wrap(printable(picture.sentence), letters)
        bottom = TOP + (len(picture.lanes) - 1) * LANE_HEIGHT
        text = pages.template(__package__, "picture.svg").render(
            id=self._id,
            width=width,
            height=round(bottom + 56 + LINE_HEIGHT * len(caption) + 8),
            title=printable(picture.title),
            sentence=printable(picture.sentence),
            # One a colour: a marker does not take the colour of its line.
            heads=sorted({*self._colours.values(), "var(--bad)"}),
            lanes=[(_short(lane), y) for lane, y in self._y.items()],
            left=self._left,
            right=self._right,
            bottom=bottom,
            # The path along lanes; what it does between them is an arrow.
            ways=[
                (self._colour(one), self._place(one), self._place(other))
                for one, other in itertools.pairwise(picture.path)
                if points[one].lane == points[other].lane
            ],
            arrows=self._arrows(),
            waits=[self._wait(*ends) for ends in picture.waits()],
            marks=[
                (self._colour(at), self._place(at), self._kind(at))
                for at in range(len(points))
                if points[at].kind != RECEIVE
            ],
            labels=[self._words(at) for at in range(len(points)) if self._labels[at]],
            absent=absent,
            caption=caption,
            caption_y=bottom + 56,
            r=RADIUS,
            f="{:.1f}".format,
            short=_id,
            TIME=TIME,
            LINE_HEIGHT=LINE_HEIGHT,
        )
        return text.replace("<style>\n", f"<style>\n{_colours(text)}", 1)

    def _colour(self, at: int) -> str:
        return self._colours[self._picture.points[at].message]

    def _arrows(self) -> list[tuple[str, str, _Place, _Place]]:
        picture = self._picture
        steps = {*itertools.pairwise(picture.path)}
        arrows = []
        for one, other in picture.arrows():
            a, b = self._place(one), self._place(other)
            kind = "way" if (one, other) in steps else "arrow"
            gap = RADIUS + 2.5 if picture.points[other].kind != RECEIVE else 4.0
            length = ((b.x - a.x) ** 2 + (b.y - a.y) ** 2) ** 0.5 or 1.0
            end = _Place(b.x - (b.x - a.x) * gap / length, b.y - (b.y - a.y) * gap / length)
            colour = "var(--bad)" if other == picture.wrong else self._colour(one)
            arrows.append((kind, colour, a, end))
        return arrows

    def _wait(self, arrival: int, delivery: int) -> tuple[str, _Place, _Place, float, str]:
        a, b = self._place(arrival), self._place(delivery)
        y = a.y + (24 if self._is_from_above(arrival) else -14)
        return self._colour(arrival), a, b, y, self._wait_words(arrival, delivery)

    def _wait_words(self, arrival: int, delivery: int) -> str:
        points = self._picture.points
        lasted = milliseconds(points[delivery].time_us - points[arrival].time_us)
        return f"{_short(points[arrival].message)} waits {lasted}"

    def _kind(self, at: int) -> str:
        if self._picture.points[at].kind == BROADCAST:
            return "sent"
        return "wrong" if at == self._picture.wrong else "delivered"

    def _words(self, at: int) -> tuple[str, float, float, str]:
        x, y = self._place(at)
        kind = "label bad" if at == self._picture.wrong else "label"
        return kind, x, y + 24 if self._is_below(at) else y - 14, self._labels[at]

    def _is_below(self, at: int) -> bool:
        """The side of a point on which fewer arrows pass through its label."""
        first = self._is_from_above(at)
        if at == self._picture.wrong or self._has_bar(at):
            return first
        return min((first, not first), key=lambda below: self._passing(at, below=below))

    def _has_bar(self, at: int) -> bool:
        """Return whether the label of a wait may be placed nearby."""
        lane = self._picture.points[at].lane
        return any(
            self._picture.points[arrival].lane == lane for arrival, _ in self._picture.waits()
        )

    def _passing(self, at: int, *, below: bool) -> int:
        """Number of arrows that cross the label of a point."""
        x, y = self._place(at)
        half = _width(self._labels[at]) / 2 + 2
        middle = y + 20 if below else y - 18
        count = 0
        for one, other in self._picture.arrows():
            a, b = self._place(one), self._place(other)
            if min(a.y, b.y) > middle + 8 or max(a.y, b.y) < middle - 8 or a.y == b.y:
                continue
            share = (middle - a.y) / (b.y - a.y)
            count += 0 <= share <= 1 and abs(a.x + share * (b.x - a.x) - x) < half
        return count

    def _is_from_above(self, at: int) -> bool:
        """Return whether a label is placed below: its arrows come from above, or go up."""
        picture = self._picture
        y = self._place(at).y
        if picture.points[at].kind == BROADCAST:
            ends = [self._place(b).y for a, b in picture.arrows() if a == at]
            return bool(ends) and all(end < y for end in ends)
        source = picture.sources[picture.points[at].message]
        return self._y.get(source, y - 1) < y

    def _absent(self) -> tuple[float, float, str] | None:
        """Text at the end of a lane that never delivers the missing message."""
        picture = self._picture
        if picture.absent is None or picture.wrong is None:
            return None
        words = f"{_short(picture.absent)} never delivered"
        x, y = self._right, self._y[picture.points[picture.wrong].lane]
        self._right = x + _width(words) + 12
        return x, y + 24, words


def _colours(text: str) -> str:
    """The shared colours that a text names."""
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    kept = re.sub(
        r"\s*(--[\w-]+):[^;]*;", lambda one: one[0] if one[1] in used else "", pages.colours()
    )
    return re.sub(r"\n\s*\n", "\n", kept)


def _id(colour: str) -> str:
    return colour.removeprefix("var(--").removesuffix(")")


def _width(text: str) -> float:
    return len(text) * LETTER


def _short(name: str) -> str:
    """A name cut to fit, without control characters that could mislead or break the file."""
    name = printable(name)
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"
