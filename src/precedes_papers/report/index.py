"""Where things of a report stand on its page: claims, their reasons, files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase

from precedes_papers.measured import Measured
from precedes_papers.outcome import Outcome
from precedes_papers.rules import IRREPRODUCIBLE, Claim
from precedes_papers.shown import evidence_of


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
    """What runs the paper again."""
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
        found: dict[Hashable, list[Claim]] = {}
        for claim in self.outcome.claims:
            if len(claim.evidence) == 1 and claim.evidence[0].origins:
                found.setdefault(evidence_of(claim.evidence[0]), []).append(claim)
        return found

    def claim_of(self, item: str, source: Hashable) -> Claim | None:
        """The claim that judges what was measured so, and shown in a table or figure.

        Of several, that about the same item; one that is about print's own mistake comes last.
        """
        found = self._by_evidence.get(source, [])
        return min(
            found,
            key=lambda claim: (not item.startswith(claim.item), claim.verdict == IRREPRODUCIBLE),
            default=None,
        )

    def of_cell(self, item: str, measured: Measured) -> Claim | None:
        """The claim about a cell of a table."""
        return self.claim_of(item, evidence_of(measured))

    @cached_property
    def letters(self) -> dict[str, str]:
        """Letters of the reasons that stand under several claims: each is told once."""
        counted = Counter(text for claim in self.outcome.claims for text in told(claim))
        several = [text for text, count in counted.items() if count > 1]
        return {text: _letter(number) for number, text in enumerate(several)}


def told(claim: Claim) -> tuple[str, ...]:
    """The reasons of a claim and what was fitted, as texts of their own."""
    return (*claim.reasons, *(f"fitted: {mark}" for mark in claim.marks))


def _letter(number: int) -> str:
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]
