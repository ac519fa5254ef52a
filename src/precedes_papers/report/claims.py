"""Claims on the page: their marks, their numbers in one notation, and the reasons of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from precedes.pages.numbers import MINUS, grouped, notation, places_of
from precedes_papers.report.index import Index, told
from precedes_papers.rules import (
    COMPATIBLE,
    DIFFERS,
    EQUAL,
    FINDING,
    HOLDS,
    IN_BOUNDS,
    INCONCLUSIVE,
    IRREPRODUCIBLE,
    MET,
    PARTLY,
    SAME_TREND,
    UNDECIDED,
    UNMET,
    Claim,
)

# Beside its colour, every verdict has a mark.
MARKS: Final = {
    HOLDS: "\N{CHECK MARK}",
    EQUAL: "=",
    IN_BOUNDS: "\N{ELEMENT OF}",
    SAME_TREND: "\N{NORTH EAST ARROW}",
    COMPATIBLE: "\N{ALMOST EQUAL TO}",
    INCONCLUSIVE: "?",
    DIFFERS: "\N{NOT EQUAL TO}",
    IRREPRODUCIBLE: "!",
    FINDING: "+",
    # And every outcome of a statement.
    MET: "\N{CHECK MARK}",
    PARTLY: "\N{CIRCLE WITH LEFT HALF BLACK}",
    UNDECIDED: "?",
    UNMET: "\N{NOT EQUAL TO}",
}


def value(of: float | str | None, unit: str = "") -> str:
    """A number or text of a claim alone; "" for nothing."""
    if of is None:
        return ""
    text = of.replace(" -", f" {MINUS}") if isinstance(of, str) else grouped(of)
    if text.startswith("-"):
        text = f"{MINUS}{text[1:]}"
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


class Row:
    """The numbers of one claim, written alike; "" for what there is not."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        numbers = [claim.published, claim.measured]
        numbers += [claim.low, claim.high] if claim.low != claim.high else []
        found = [one for one in numbers if isinstance(one, (int, float))]
        places = places_of(claim.published) if isinstance(claim.published, (int, float)) else 0
        self._write = notation(found, places=places)

    def _text(self, of: float | str | None) -> str:
        return self._write(of) if isinstance(of, (int, float)) else value(of)

    @property
    def published(self) -> str:
        """The published value, with its own digits."""
        printed = self.claim.published
        if isinstance(printed, (int, float)) and (places_of(printed) or printed == round(printed)):
            return value(printed)
        return self._text(printed)

    @property
    def measured(self) -> str:
        """The measured value."""
        return self._text(self.claim.measured)

    @property
    def interval(self) -> str:
        """Its interval, "" if there is none or it is a point."""
        low, high = self.claim.low, self.claim.high
        if low is None or high is None or low == high:
            return ""
        return f"{self._text(low)} to {self._text(high)}"


def by_item(claims: Iterable[Claim]) -> list[tuple[str, list[Claim]]]:
    """Claims that follow each other about one item."""
    return [(item, list(group)) for item, group in groupby(claims, key=lambda claim: claim.item)]


def why(index: Index, claim: Claim) -> tuple[str, list[str]]:
    """The difference and the reasons of this claim alone, and letters for what others share."""
    texts = [_difference(claim)] if claim.difference else []
    texts += [text for text in told(claim) if text not in index.letters]
    return "; ".join(texts), [index.letters[text] for text in told(claim) if text in index.letters]


def _difference(claim: Claim) -> str:
    """The difference from the published value, as a share of it where there is one."""
    if isinstance(claim.published, (int, float)) and isinstance(claim.measured, (int, float)):
        by = claim.measured - claim.published
        if claim.published:
            return f"{by / abs(claim.published):+.1%}".replace("-", MINUS).replace("%", "\xa0%")
    return claim.difference.replace("-", MINUS)
