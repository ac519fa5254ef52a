"""`hashed` under the published load, as long as it is."""

import pytest

from precedes.audit import audit
from precedes.sim import simulate
from precedes.trace import load as load_trace
from precedes_papers.p003 import experiments
from tests.support.seeds import FIRST

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


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
