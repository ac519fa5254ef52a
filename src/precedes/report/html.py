"""Pieces of the page that several of its parts use."""

from __future__ import annotations

from html import escape
from typing import Final

from precedes.pages.numbers import MINUS, grouped, notation, places_of
from precedes.papers.claims import (
    DIFFERS,
    EQUAL,
    FINDING,
    HOLDS,
    IN_BOUNDS,
    INCONCLUSIVE,
    IRREPRODUCIBLE,
    SAME_TREND,
    Claim,
)
from precedes.papers.outcome import Outcome
from precedes.report.index import file_of, slug

NOTHING: Final = '<span role="img" aria-label="nothing">&ndash;</span>'
# Beside its colour, every verdict has a mark.
MARKS: Final = {
    HOLDS: "\N{CHECK MARK}",
    EQUAL: "=",
    IN_BOUNDS: "\N{ELEMENT OF}",
    SAME_TREND: "\N{NORTH EAST ARROW}",
    INCONCLUSIVE: "?",
    DIFFERS: "\N{NOT EQUAL TO}",
    IRREPRODUCIBLE: "!",
    FINDING: "+",
}


def verdict_mark(verdict: str) -> str:
    """The mark of a verdict, with its name for those who do not see it."""
    return (
        f'<b class="mark" title="{verdict}" aria-label="{verdict}" role="img">{MARKS[verdict]}</b>'
    )


def verdict_words(verdict: str) -> str:
    """A verdict in its colour, with its mark."""
    return (
        f'<span class="verdict {slug(verdict)}"><b aria-hidden="true">{MARKS[verdict]}</b> '
        f"{verdict}</span>"
    )


def verdict_badge(claim: Claim) -> str:
    """A verdict in words, with its mark."""
    fitted = ", fitted" if claim.fitted else ""
    return (
        f'<span class="verdict {slug(claim.verdict)}"><b aria-hidden="true">'
        f"{MARKS[claim.verdict]}</b> {claim.said}{fitted}</span>"
    )


def value(of: float | str | None, unit: str = "") -> str:
    """A number or text of a claim alone."""
    if of is None:
        return NOTHING
    text = of.replace(" -", f" {MINUS}") if isinstance(of, str) else grouped(of)
    if text.startswith("-"):
        text = f"{MINUS}{text[1:]}"
    return escape(f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text)


def is_interval(low: float | None, high: float | None) -> bool:
    """Whether there is an interval to show: one that is a point says nothing."""
    return low is not None and high is not None and low != high


class Row:
    """The numbers of one claim, written alike."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        numbers = [claim.published, claim.measured]
        numbers += [claim.low, claim.high] if is_interval(claim.low, claim.high) else []
        found = [one for one in numbers if isinstance(one, (int, float))]
        places = places_of(claim.published) if isinstance(claim.published, (int, float)) else 0
        self._write = notation(found, places=places)

    def _text(self, of: float | str | None) -> str:
        return escape(self._write(of)) if isinstance(of, (int, float)) else value(of)

    @property
    def published(self) -> str:
        """What is printed, with the digits of print."""
        printed = self.claim.published
        if isinstance(printed, (int, float)) and (places_of(printed) or printed == round(printed)):
            return value(printed)
        return self._text(printed)

    @property
    def measured(self) -> str:
        """What was measured."""
        return self._text(self.claim.measured)

    @property
    def interval(self) -> str:
        """Its interval, "" if there is none or it is a point."""
        low, high = self.claim.low, self.claim.high
        if low is None or high is None or low == high:
            return ""
        return f"{self._text(low)} to {self._text(high)}"


def csv_link(outcome: Outcome, name: str) -> str:
    """A link to the file of a table or of the points of a figure."""
    label = escape(f"{name} as CSV")
    return f'<a class="csv" href="{file_of(outcome, name)}" aria-label="{label}">CSV</a>'


def frame(label: str, inner: str, kind: str = "") -> str:
    """A frame that scrolls by itself where it is too narrow, also by keyboard."""
    return (
        f'<div class="{f"frame {kind}".strip()}" role="region" aria-label="{escape(label)}" '
        f'tabindex="0">{inner}</div>'
    )
