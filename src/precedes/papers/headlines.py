"""What a paper is read for: its main statements, and the figures that show them best.

A paper package lists them as ``HEADLINES``. A statement names the claims that judge it and has no
numbers of its own: what is printed and what was measured are read from the claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from precedes.errors import InternalError
from precedes.papers.claims import Claim


@dataclass(frozen=True)
class Statement:
    """Something that a paper says: ``says`` has ``{}`` where the printed value stands."""

    says: str  # "aggregation saves {} of the packets of 1,024 nodes"
    short: str  # "packets saved, 1,024 nodes": a line of the terminal begins with it
    item: str  # "Table 1"
    keys: Mapping[str, str]  # by reading, "" if there is one alone
    unit: str = ""  # follows a number: "%", "s"


@dataclass(frozen=True)
class Headlines:
    """The statements, the most important first, and the names of the two most telling figures."""

    statements: tuple[Statement, ...] = ()
    figures: tuple[str, ...] = ()
    readings: str = ""  # what the readings are, or what else holds for all tables


class Told(NamedTuple):
    """A statement with the claims that judge it, by reading."""

    statement: Statement
    claims: Mapping[str, Claim]


@dataclass(frozen=True)
class Story:
    """The headlines of a paper with their claims."""

    told: tuple[Told, ...] = ()
    figures: tuple[str, ...] = ()
    readings: str = ""


def story(headlines: Headlines, claims: Iterable[Claim], figures: Iterable[str]) -> Story:
    """Find the claims and figures that are named; one that is not there is an error."""
    found = {(claim.item, claim.key): claim for claim in claims}
    told = []
    for one in headlines.statements:
        for key in one.keys.values():
            if (one.item, key) not in found:
                raise InternalError(f"a headline names no claim: {one.item}, {key}")
        told.append(Told(one, {reading: found[one.item, key] for reading, key in one.keys.items()}))
    missing = set(headlines.figures) - set(figures)
    if missing:
        raise InternalError(f"headlines name no figure: {', '.join(sorted(missing))}")
    return Story(tuple(told), headlines.figures, headlines.readings)
