"""Tens of thousands of random schedules of every protocol; each draws its own features."""

import pytest

from precedes.audit import audit
from precedes.papers.p003 import experiments
from precedes.registry import linked, load
from precedes.sim import simulate
from precedes.testing import assert_conforms, check_agreement, observe, random_scenario
from precedes.trace import load as load_trace
from tests.support.seeds import COUNT, FIRST, blocks, repeat

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


def each(protocol, seeds, check, *, hostile):
    """Run the schedules of these seeds, compare all who count, and ``check`` what was seen."""
    for seed in seeds:
        command = f"python -m precedes.testing {protocol} --seed {seed} --schedules 1"
        with repeat(command + " --hostile" * hostile):
            seen = observe(random_scenario(protocol, seed, hostile=hostile))
            check_agreement(seen)
            check(seen)


@pytest.mark.parametrize("protocol", ["vector", "hashed"])
@pytest.mark.parametrize("seeds", blocks(), ids=str)
def test_causal_protocols_never_violate(protocol, seeds):
    """Whatever the network loses, repeats, delays or cuts, and whoever pauses or crashes."""
    deliveries = 0

    def check(seen):
        nonlocal deliveries
        report = seen.report
        assert report.violations == report.duplicates == report.phantom == 0, report.witnesses
        deliveries += report.deliveries

    each(protocol, seeds, check, hostile=True)
    assert deliveries > 50 * len(seeds), "the schedules deliver too little to show anything"


@pytest.mark.parametrize("protocol", linked())
@pytest.mark.parametrize("seeds", blocks(COUNT // 10), ids=str)
def test_oracle_and_audit_agree(protocol, seeds):
    """On networks that keep to the assumptions and on those that do not."""
    violations = 0

    def check(seen):
        nonlocal violations
        violations += seen.report.violations

    for hostile in (False, True):
        each(protocol, seeds, check, hostile=hostile)
    # The twin of "never": the same schedules do convict what keeps no order.
    assert (violations > 0) == (load(protocol).guarantee != "causal")


@pytest.mark.parametrize("protocol", linked())
@pytest.mark.parametrize("seeds", blocks(COUNT // 50), ids=str)
def test_conforms(protocol, seeds):
    """The whole suite, in every way: rules, promises, compiled and interpreted."""
    for hostile in (False, True):
        count = len(seeds)
        assert_conforms(protocol, schedules=count, seed=seeds[0], hostile=hostile)


@pytest.mark.parametrize("reading", experiments.READINGS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + 5))
def test_table_1_with_the_hash_detector(reading, seed, tmp_path):
    """100,000 messages: none out of order by the audit, one hash a delivery, no idle requests."""
    trace = tmp_path / "trace.parquet"
    result = simulate(experiments.table_1_hashed(reading, seed), trace=trace)
    (history,) = load_trace(trace)
    report = audit(history)
    assert report.deliveries == result.deliveries == 199 * 100_000
    assert report.violations == report.duplicates == report.lost == 0, report.witnesses
    assert result.pending_at_end == 0
    assert result.extra["hashes"] <= 1.1 * result.deliveries
    assert result.extra["requests_false"] <= 1e-5 * result.deliveries
