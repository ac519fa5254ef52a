"""Figures of paper 003 that the spine's protocols cover, against an independent model of it.

The workload of Table 1: 200 nodes, 100 broadcasts a second, delays N(100, 20) ms, a clock of 50
entries of which every process owns two. Errors come in clusters, so single seeds vary by a
third; means over five seeds are compared.
"""

import statistics

import pytest

from precedes import Scenario, simulate
from precedes.papers import paper_003
from precedes.papers.claims import DIFFERS, HOLDS, compare, interval, write_claims

SEEDS = range(1, 6)

# Out-of-order deliveries, and distinct messages with one, per 100,000 broadcasts.
MODEL = {"periodic": (2372, 1273), "poisson": (14181, 1832)}


@pytest.mark.parametrize("reading", MODEL)
def test_errors_of_probabilistic_are_those_of_the_model(reading: str) -> None:
    """Both ways of counting, both readings of "Poisson": within 25 % of the model."""
    results = [simulate(paper_003.table_1(reading, seed)) for seed in SEEDS]
    deliveries = statistics.fmean(r.violations.deliveries for r in results)
    messages = statistics.fmean(r.violations.messages for r in results)
    print(f"{reading}, seeds {SEEDS}: {deliveries:.0f} deliveries of {messages:.0f} messages")
    assert all(result.deliveries == 199 * 100_000 for result in results)
    assert all(result.pending_at_end == 0 for result in results)
    assert deliveries == pytest.approx(MODEL[reading][0], rel=0.25)
    assert messages == pytest.approx(MODEL[reading][1], rel=0.25)


def test_unordered_always_violates_and_vector_never_does() -> None:
    """The negative control errs far more often than any clock, the baseline never."""
    table_1 = paper_003.table_1("poisson", 1).replace(messages=20_000, parameters={})
    for seed in SEEDS:
        unordered = simulate(table_1.replace(protocol="unordered", seed=seed))
        # 0.74 to 0.76 % of receptions find something missing, by the model of clocks.md.
        assert unordered.violations.deliveries / unordered.deliveries > 0.005
    vector = simulate(table_1.replace(protocol="vector"))
    assert vector.violations.deliveries == 0
    assert vector.latency.delivery_mean > vector.latency.reception_mean


def test_a_larger_clock_errs_less() -> None:
    """The one knob does what it is for."""
    table_1 = paper_003.table_1("poisson", 1).replace(messages=30_000)
    errors = [
        simulate(table_1.replace(parameters={"entries": entries})).violations.deliveries
        for entries in (25, 50, 100, 200)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 10


def test_verdicts() -> None:
    """Each verdict from values that must give it."""
    about = {"paper": "003", "item": "Table 1", "key": "k", "reason": "because"}
    inside = compare(**about, published=10.0, values=[9.0, 11.0, 10.5])
    outside = compare(**about, published=20.0, values=[9.0, 11.0, 10.5])
    assert (inside.verdict, inside.reason) == (HOLDS, "")
    assert (outside.verdict, outside.reason) == (DIFFERS, "because")
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.303 / 3**0.5)
    assert mean - low == pytest.approx(high - mean)


def test_measured_values_are_never_the_published_ones(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with no errors at all is reported as zero, whatever is printed in the paper."""

    def table_1(reading: str, seed: int) -> Scenario:
        return Scenario(protocol="vector", nodes=3, messages=10, seed=seed)

    monkeypatch.setattr(paper_003, "table_1", table_1)
    claims = paper_003.claims(quick=True, progress=lambda share: None)
    assert [claim.measured for claim in claims] == [0.0] * 4
    assert {claim.verdict for claim in claims} == {DIFFERS}
    path = write_claims(claims, tmp_path / "report")
    header = "paper,item,key,published,measured,low,high,verdict,reason"
    assert path.read_text().splitlines()[0] == header
    assert sorted(p.name for p in path.parent.iterdir()) == ["claims.csv", "summary.txt"]
