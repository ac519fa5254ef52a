"""Latency with and without the times in which a member was missing.

Who is killed, paused or cut off holds back the others until it is evicted or comes back: they have
no credit, and what was under way waits. Such a wait is the patience of the failure detector and
says nothing about the speed of a group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Interval = tuple[int, int]


@dataclass(kw_only=True)
class Spell:
    """A time in which a member was missing, or several were cut off (None).

    It ends ``until_us`` (None: not by itself), or earlier, when the others have evicted the member.
    """

    member: int | None
    since_us: int
    until_us: int | None = None


def disturbances(
    spells: Iterable[Spell], evicted_us: Sequence[Mapping[str, int]], *, end_us: int
) -> list[Interval]:
    """When members were missing until the end of a run, in order and without overlaps.

    ``evicted_us`` says for each of the others when it has evicted whom.
    """
    merged: list[Interval] = []
    for spell in sorted(spells, key=lambda spell: spell.since_us):
        since, until = spell.since_us, end_us if spell.until_us is None else spell.until_us
        seen = [times[str(spell.member)] for times in evicted_us if str(spell.member) in times]
        until = max((at_us for at_us in seen if since <= at_us <= until), default=until)
        if merged and since <= merged[-1][1]:
            since, until = merged[-1][0], max(merged.pop()[1], until)
        merged.append((since, until))
    return merged


def latencies(samples: Sequence[tuple[int, int]], disturbed: Sequence[Interval]) -> dict[str, Any]:
    """Quantiles of samples (when it was sent, how long it took) in us, and of the undisturbed."""
    ends = [until for _, until in disturbed]

    def is_quiet(sent_us: int, took_us: int) -> bool:
        next_one = bisect_left(ends, sent_us)
        return next_one == len(ends) or sent_us + took_us < disturbed[next_one][0]

    every = sorted(took_us for _, took_us in samples)
    quiet = sorted(took_us for sent_us, took_us in samples if is_quiet(sent_us, took_us))
    return {
        "p50_ms": _quantile_ms(every, 0.50),
        "p99_ms": _quantile_ms(every, 0.99),
        "p50_undisturbed_ms": _quantile_ms(quiet, 0.50),
        "p99_undisturbed_ms": _quantile_ms(quiet, 0.99),
        "disturbed_s": sum(until - since for since, until in disturbed) / 1e6,
    }


def _quantile_ms(values: Sequence[int], share: float) -> float | None:
    return values[min(int(share * len(values)), len(values) - 1)] / 1000 if values else None
