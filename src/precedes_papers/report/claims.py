"""Claims on the page: places, marks, numbers in one notation, and the reasons of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from string import ascii_lowercase
from typing import Final

from precedes.pages.numbers import MINUS, grouped, notation, places_of
from precedes_papers import rules
from precedes_papers.measured import Measured
from precedes_papers.outcome import Outcome
from precedes_papers.rules import Claim
from precedes_papers.shown import evidence_of

# Every verdict has a mark in addition to its colour.
MARKS: Final = {
    rules.HOLDS: "\N{CHECK MARK}",
    rules.EQUAL: "=",
    rules.IN_BOUNDS: "\N{ELEMENT OF}",
    rules.SAME_TREND: "\N{NORTH EAST ARROW}",
    rules.COMPATIBLE: "\N{ALMOST EQUAL TO}",
    rules.INCONCLUSIVE: "?",
    rules.DIFFERS: "\N{NOT EQUAL TO}",
    rules.IRREPRODUCIBLE: "!",
    rules.FINDING: "+",
    # And every outcome of a statement.
    rules.MET: "\N{CHECK MARK}",
    rules.PARTLY: "\N{CIRCLE WITH LEFT HALF BLACK}",
    rules.UNDECIDED: "?",
    rules.UNMET: "\N{NOT EQUAL TO}",
}


def slug(text: str) -> str:
    """A text as an anchor or as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def anchor(outcome: Outcome) -> str:
    """The place of a paper's section."""
    return f"paper-{slug(outcome.reference.citation)}"


def filter_of(outcome: Outcome, verdict: str) -> str:
    """The place that shows a paper's claims of one verdict alone, or "all" of them."""
    return f"only-{outcome.paper}-{slug(verdict)}"


def file_of(outcome: Outcome, name: str) -> str:
    """The file of a table or of a figure's points, from the page on."""
    return f"tables/{outcome.paper}-{slug(name)}.csv"


def command_of(outcome: Outcome) -> str:
    """Command that runs the paper again."""
    return f"precedes reproduce {outcome.reference.protocols[0]} --{outcome.scale} --out DIR"


@dataclass(frozen=True)
class Index:
    """The claims of a paper by place, by what they were measured by, and by reason."""

    outcome: Outcome

    @cached_property
    def places(self) -> dict[tuple[str, str], str]:
        """The anchor of each claim, by item and key."""
        return {
            (claim.item, claim.key): f"c{self.outcome.paper}-{number}"
            for number, claim in enumerate(self.outcome.claims, start=1)
        }

    def place(self, claim: Claim) -> str:
        """The anchor of a claim."""
        return self.places[claim.item, claim.key]

    @cached_property
    def _by_evidence(self) -> dict[Hashable, list[Claim]]:
        claims: dict[Hashable, list[Claim]] = {}
        for claim in self.outcome.claims:
            if len(claim.evidence) == 1 and claim.evidence[0].origins:
                claims.setdefault(evidence_of(claim.evidence[0]), []).append(claim)
        return claims

    def claim_of(self, item: str, source: Hashable) -> Claim | None:
        """The claim that judges this evidence of a table or figure.

        If there are several, one about the same item; one about a mistake in the paper comes last.
        """
        claims = self._by_evidence.get(source, [])
        return min(
            claims,
            key=lambda claim: (
                not item.startswith(claim.item),
                claim.verdict == rules.IRREPRODUCIBLE,
            ),
            default=None,
        )

    def of_cell(self, item: str, measured: Measured) -> Claim | None:
        """The claim about a cell of a table."""
        return self.claim_of(item, evidence_of(measured))

    @cached_property
    def letters(self) -> dict[str, str]:
        """Letters of the reasons that several claims share; the page gives each reason once."""
        counted = Counter(text for claim in self.outcome.claims for text in _texts(claim))
        several = [text for text, count in counted.items() if count > 1]
        return {text: _letter(number) for number, text in enumerate(several)}


def _texts(claim: Claim) -> tuple[str, ...]:
    """The reasons of a claim and its fitted parameters, a text each."""
    return (*claim.reasons, *(f"fitted: {mark}" for mark in claim.marks))


def _letter(number: int) -> str:
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]


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
        values = [one for one in numbers if isinstance(one, (int, float))]
        places = places_of(claim.published) if isinstance(claim.published, (int, float)) else 0
        self._write = notation(values, places=places)

    def _text(self, of: float | str | None) -> str:
        return self._write(of) if isinstance(of, (int, float)) else value(of)

    @property
    def published(self) -> str:
        """The published value, with its own digits."""
        listed = self.claim.published
        if isinstance(listed, (int, float)) and (places_of(listed) or listed == round(listed)):
            return value(listed)
        return self._text(listed)

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
    texts += [text for text in _texts(claim) if text not in index.letters]
    return "; ".join(texts), [index.letters[one] for one in _texts(claim) if one in index.letters]


def _difference(claim: Claim) -> str:
    """The difference from the published value, as a share of it where there is one."""
    if isinstance(claim.published, (int, float)) and isinstance(claim.measured, (int, float)):
        by = claim.measured - claim.published
        if claim.published:
            return f"{by / abs(claim.published):+.1%}".replace("-", MINUS).replace("%", "\xa0%")
    return claim.difference.replace("-", MINUS)
