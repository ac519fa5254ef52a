"""Paper 003: causal broadcast with probabilistic clocks and a hash error detector.

Table 1 as far as ``probabilistic`` covers it: messages delivered out of causal order without a
detector. 200 processes, a clock of 50 entries, 100 broadcasts per second, 100,000 of them.
"""

from __future__ import annotations

from typing import Final

from precedes.papers.claims import Claim, compare
from precedes.sim import Scenario
from precedes.sim.run import Progress, simulate

PAPER: Final = "003"
TABLE_1_NONE: Final = 507.0  # out of order without a detector

# "Poisson with parameter delta" can mean gaps that are a Poisson number of milliseconds, which
# are nearly periodic, or a Poisson process, whose gaps are exponential. The paper counts
# "messages": deliveries out of order, or distinct messages with one.
READINGS: Final = ("periodic", "poisson")
REASON: Final = (
    "the paper gives neither the entries per process nor the way of counting; with larger clocks "
    "its value is passed (docs/protocols/probabilistic.md), so this number is no claim to hold"
)


def table_1(reading: str, seed: int) -> Scenario:
    """One run of Table 1 without a detector."""
    return Scenario(
        protocol="probabilistic",
        nodes=200,
        messages=100_000,
        rate=100.0,
        workload=reading,
        delay="normal:100:20",
        seed=seed,
        parameters={"entries": 50, "per_process": 2},
    )


def claims(*, quick: bool, progress: Progress) -> list[Claim]:
    """Table 1 for both readings and both ways of counting."""
    seeds = range(1, 4 if quick else 11)
    found = []
    done = 0
    for reading in READINGS:
        deliveries, messages = [], []
        for seed in seeds:
            result = simulate(table_1(reading, seed))
            assert result.violations is not None
            deliveries.append(float(result.violations.deliveries))
            messages.append(float(result.violations.messages))
            done += 1
            progress(done / (len(READINGS) * len(seeds)))
        for key, values in (("deliveries", deliveries), ("messages", messages)):
            found.append(
                compare(
                    paper=PAPER,
                    item="Table 1",
                    key=f"out of order without detector, {reading} senders, {key}",
                    published=TABLE_1_NONE,
                    values=values,
                    reason=REASON,
                )
            )
    return found
