"""A claim: a published value beside a measured one, and what can be said of the two."""

from __future__ import annotations

import csv
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from precedes.model import UserError

HOLDS: Final = "holds"  # the published value lies within the measured interval
DIFFERS: Final = "differs"

# Two-sided 95 % quantiles of Student's t for 1, 2, .. degrees of freedom; 1.96 beyond.
STUDENT_T: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
STUDENT_T_LIMIT: Final = 1.96


@dataclass(frozen=True)
class Claim:
    """One line of claims.csv; low and high bound the mean over seeds with 95 % confidence."""

    paper: str
    item: str
    key: str
    published: float
    measured: float
    low: float
    high: float
    verdict: str
    reason: str


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean over replications and its 95 % interval; one replication has no bounds."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    quantile = STUDENT_T[len(values) - 2] if len(values) - 2 < len(STUDENT_T) else STUDENT_T_LIMIT
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def compare(
    *,
    paper: str,
    item: str,
    key: str,
    published: float,
    values: Sequence[float],
    reason: str = "",
) -> Claim:
    """A claim from the values measured with several seeds; the reason is for one that differs."""
    measured, low, high = interval(values)
    verdict = HOLDS if low <= published <= high else DIFFERS
    return Claim(
        paper=paper,
        item=item,
        key=key,
        published=published,
        measured=measured,
        low=low,
        high=high,
        verdict=verdict,
        reason=reason if verdict == DIFFERS else "",
    )


def write_claims(claims: Sequence[Claim], directory: Path) -> Path:
    """Write claims.csv and a readable summary.txt; each appears whole or not at all."""
    names = [item.name for item in fields(Claim)]
    path = directory / "claims.csv"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        aside = directory / f".claims.csv.tmp-{os.getpid()}"
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(asdict(claim) for claim in claims)
        aside.replace(path)
        aside = directory / f".summary.txt.tmp-{os.getpid()}"
        aside.write_text(summary(claims), encoding="utf-8")
        aside.replace(directory / "summary.txt")
    except OSError as error:
        for left in directory.glob(f".*.tmp-{os.getpid()}"):
            left.unlink()
        raise UserError(f"cannot write the claims into {directory}: {error.strerror}") from None
    return path


def summary(claims: Sequence[Claim]) -> str:
    """The claims as text."""
    lines = []
    for claim in claims:
        lines.append(
            f"{claim.paper} {claim.item}, {claim.key}: published {claim.published:g}, measured "
            f"{claim.measured:.0f} ({claim.low:.0f} to {claim.high:.0f}): {claim.verdict}"
        )
        if claim.reason:
            lines.append(f"    {claim.reason}")
    return "\n".join(lines) + "\n"
