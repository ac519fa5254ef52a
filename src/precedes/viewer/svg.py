"""Draws a small picture as an SVG file that stands alone, light and dark; the same bytes each time.

Points stand in columns, one after another, as wide as what is written there: time is an order here,
and the page is for lengths of it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import textwrap
from html import escape
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

_STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: var(--ink); }
.back { fill: var(--paper); }
.lane { stroke: var(--line); stroke-width: 1.5; }
.quiet { fill: var(--quiet); }
.label { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.bad { fill: var(--bad); font-weight: 600; }
.arrow { fill: none; stroke-width: 1.5; }
.way { fill: none; stroke-width: 3; }
.cross { stroke: var(--bad); stroke-width: 2.5; fill: none; }
.hollow { fill: var(--paper); stroke-width: 2.5; }
"""


class _Place(NamedTuple):
    x: float
    y: float


def svg(picture: Picture) -> str:
    """The picture as the text of a file."""
    return _Drawing(picture).text()


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        # Pictures may stand beside each other in one page.
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
        """Where each point stands: right of the one before it, by half of what both say."""
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
        absent = self._absent()
        self._right = max(self._right, WIDTH_MIN)
        width = round(self._right + 24 + _width(TIME))
        lines = textwrap.wrap(
            printable(picture.sentence), max(20, int((width - 32) / CAPTION_LETTER))
        )
        bottom = TOP + (len(picture.lanes) - 1) * LANE_HEIGHT + 56
        height = round(bottom + LINE_HEIGHT * len(lines) + 8)
        drawn = [
            *self._lanes(),
            *self._ways(),
            *self._arrows(),
            *self._bars(),
            *(self._mark(at) for at in range(len(picture.points))),
            *(self._words(at) for at in range(len(picture.points))),
            *absent,
        ]
        heads = f"<defs>{''.join(self._heads())}</defs>"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-labelledby="{self._id}-title" '
            f'aria-describedby="{self._id}-desc">',
            f'<title id="{self._id}-title">{escape(printable(picture.title))}</title>',
            f'<desc id="{self._id}-desc">{escape(printable(picture.sentence))}</desc>',
            f"<style>\n{_colours(_STYLE, heads, *drawn)}{_STYLE}</style>",
            heads,
            f'<rect class="back" width="{width}" height="{height}" rx="6"/>',
            *drawn,
            *(
                f'<text class="caption" x="16" y="{bottom + LINE_HEIGHT * n}">{escape(line)}</text>'
                for n, line in enumerate(lines)
            ),
            "</svg>",
            "",
        ]
        return "\n".join(part for part in parts if part)

    def _heads(self) -> list[str]:
        """Heads of arrows, one a colour: a marker does not take the colour of its line."""
        colours = sorted({*self._colours.values(), "var(--bad)"})
        return [
            f'<marker id="{self._id}-{_id(colour)}" viewBox="0 0 10 10" refX="9" refY="5" '
            f'markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0.8 L9.5 5 L0 9.2 z" fill="{colour}"/></marker>'
            for colour in colours
        ]

    def _lanes(self) -> list[str]:
        found = []
        for lane, y in self._y.items():
            name = escape(_short(lane))
            found += [
                f'<text class="name" x="16" y="{y + 5}">node {name}</text>',
                f'<line class="lane" x1="{self._left:.1f}" x2="{self._right + 8:.1f}" '
                f'y1="{y}" y2="{y}"/>',
                f'<path class="lane" fill="none" d="M{self._right + 2:.1f} {y - 4} l7 4 l-7 4"/>',
            ]
        found.append(f'<text class="quiet" x="{self._right + 16:.1f}" y="{y + 5}">{TIME}</text>')
        return found

    def _ways(self) -> list[str]:
        """The path along lanes; what it does between them is an arrow."""
        found = []
        points, path = self._picture.points, self._picture.path
        for one, other in itertools.pairwise(path):
            if points[one].lane == points[other].lane:
                a, b = self._place(one), self._place(other)
                colour = self._colours[points[one].message]
                found.append(
                    f'<line class="way" stroke="{colour}" x1="{a.x:.1f}" y1="{a.y}" '
                    f'x2="{b.x:.1f}" y2="{b.y}"/>'
                )
        return found

    def _arrows(self) -> list[str]:
        picture = self._picture
        steps = {*itertools.pairwise(picture.path)}
        found = []
        for one, other in picture.arrows():
            a, b = self._place(one), self._place(other)
            colour = self._colours[picture.points[one].message]
            if other == picture.wrong:
                colour = "var(--bad)"
            kind = "way" if (one, other) in steps else "arrow"
            gap = RADIUS + 2.5 if picture.points[other].kind != RECEIVE else 4.0
            length = ((b.x - a.x) ** 2 + (b.y - a.y) ** 2) ** 0.5 or 1.0
            x, y = b.x - (b.x - a.x) * gap / length, b.y - (b.y - a.y) * gap / length
            found.append(
                f'<line class="{kind}" stroke="{colour}" x1="{a.x:.1f}" y1="{a.y:.1f}" '
                f'x2="{x:.1f}" y2="{y:.1f}" marker-end="url(#{self._id}-{_id(colour)})"/>'
            )
        return found

    def _bars(self) -> list[str]:
        """Waits: thin bars from arrivals to deliveries, and how long they were."""
        found = []
        for arrival, delivery in self._picture.waits():
            a, b = self._place(arrival), self._place(delivery)
            colour = self._colours[self._picture.points[arrival].message]
            words = escape(self._wait_words(arrival, delivery))
            y = a.y + (24 if self._is_from_above(arrival) else -14)
            found += [
                f'<rect class="wait" x="{a.x:.1f}" y="{a.y - 2.5}" width="{b.x - a.x:.1f}" '
                f'height="5" fill="{colour}" opacity="0.55"/>',
                f'<path d="M{a.x:.1f} {a.y - 7} v14" stroke="{colour}" stroke-width="2.5"/>',
                f'<text class="label quiet" x="{a.x + 2:.1f}" y="{y}">{words}</text>',
            ]
        return found

    def _wait_words(self, arrival: int, delivery: int) -> str:
        points = self._picture.points
        lasted = milliseconds(points[delivery].time_us - points[arrival].time_us)
        return f"{_short(points[arrival].message)} waits {lasted}"

    def _mark(self, at: int) -> str:
        point, (x, y) = self._picture.points[at], self._place(at)
        colour = self._colours[point.message]
        if point.kind == RECEIVE:
            return ""
        if point.kind == BROADCAST:
            return f'<circle class="sent" cx="{x:.1f}" cy="{y}" r="{RADIUS}" fill="{colour}"/>'
        if at == self._picture.wrong:
            r = RADIUS + 2.5
            return (
                f'<path class="hollow" stroke="var(--bad)" d="M{x:.1f} {y - r} l{r} {r} l{-r} {r} '
                f'l{-r} {-r} z"/><path class="cross" d="M{x - 3:.1f} {y - 3} l6 6 m0 -6 l-6 6"/>'
            )
        return f'<circle class="hollow" cx="{x:.1f}" cy="{y}" r="{RADIUS - 1}" stroke="{colour}"/>'

    def _words(self, at: int) -> str:
        x, y = self._place(at)
        label = escape(self._labels[at])
        if not label:
            return ""
        bad = " bad" if at == self._picture.wrong else ""
        return (
            f'<text class="label{bad}" text-anchor="middle" x="{x:.1f}" '
            f'y="{y + 24 if self._is_below(at) else y - 14}">{label}</text>'
        )

    def _is_below(self, at: int) -> bool:
        """On which side the words of a point stand: where fewer arrows pass through them."""
        first = self._is_from_above(at)
        if at == self._picture.wrong or self._has_bar(at):
            return first
        return min((first, not first), key=lambda below: self._passing(at, below=below))

    def _has_bar(self, at: int) -> bool:
        """Whether words about a wait may stand near by."""
        lane = self._picture.points[at].lane
        return any(
            self._picture.points[arrival].lane == lane for arrival, _ in self._picture.waits()
        )

    def _passing(self, at: int, *, below: bool) -> int:
        """How many arrows pass through the words of a point."""
        x, y = self._place(at)
        half = _width(self._labels[at]) / 2 + 2
        middle = y + 20 if below else y - 18
        found = 0
        for one, other in self._picture.arrows():
            a, b = self._place(one), self._place(other)
            if min(a.y, b.y) > middle + 8 or max(a.y, b.y) < middle - 8 or a.y == b.y:
                continue
            share = (middle - a.y) / (b.y - a.y)
            found += 0 <= share <= 1 and abs(a.x + share * (b.x - a.x) - x) < half
        return found

    def _is_from_above(self, at: int) -> bool:
        """Whether words stand below: the arrows of a point come from above, or go up."""
        picture = self._picture
        y = self._place(at).y
        if picture.points[at].kind == BROADCAST:
            ends = [self._place(b).y for a, b in picture.arrows() if a == at]
            return bool(ends) and all(end < y for end in ends)
        source = picture.sources[picture.points[at].message]
        return self._y.get(source, y - 1) < y

    def _absent(self) -> list[str]:
        """Words at the end of the lane that never gets what it lacks."""
        picture = self._picture
        if picture.absent is None or picture.wrong is None:
            return []
        words = f"{_short(picture.absent)} never delivered"
        y = self._y[picture.points[picture.wrong].lane]
        x = self._right
        self._right = x + _width(words) + 12
        return [
            f'<text class="label bad" x="{x:.1f}" y="{y + 24}">{escape(words)}</text>',
        ]


def _colours(*parts: str) -> str:
    """The colours that these parts name, of those that pages share."""
    used = set(re.findall(r"var\((--[\w-]+)\)", "".join(parts)))
    kept = re.sub(
        r"\s*(--[\w-]+):[^;]*;", lambda one: one[0] if one[1] in used else "", pages.colours()
    )
    return re.sub(r"\n\s*\n", "\n", kept)


def _id(colour: str) -> str:
    return colour.removeprefix("var(--").removesuffix(")")


def _width(text: str) -> float:
    return len(text) * LETTER


def _short(name: str) -> str:
    """A name that has room, without what could steer a reader's eye or break the file."""
    name = printable(name)
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"
