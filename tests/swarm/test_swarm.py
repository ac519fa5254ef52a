"""Tens of thousands of random schedules, for `make swarm`.

`PRECEDES_SWARM` is how many schedules of `vector` to run (10,000), `PRECEDES_SWARM_SEED` the first
seed. Every schedule draws its own features; a failure prints the command that repeats it.
"""

import os

import pytest

from precedes.protocols import names
from precedes.testing import observe, random_scenario
from precedes.testing.conformance import check_agreement

COUNT = int(os.environ.get("PRECEDES_SWARM", "10000"))
FIRST = int(os.environ.get("PRECEDES_SWARM_SEED", "1"))
CHUNK = 500

pytestmark = pytest.mark.swarm


def chunks(count):
    """Ranges of seeds, small enough for several processes to share."""
    return [range(s, min(s + CHUNK, FIRST + count)) for s in range(FIRST, FIRST + count, CHUNK)]


def each(protocol, seeds, *, hostile):
    """Run the schedules of these seeds and compare all who count."""
    for seed in seeds:
        repeat = f"python -m precedes.testing {protocol} --seed {seed} --schedules 1"
        repeat += " --hostile" if hostile else ""
        try:
            seen = observe(random_scenario(protocol, seed, hostile=hostile))
            check_agreement(seen)
            yield seen.report, seen.result
        except AssertionError as error:
            raise AssertionError(f"{error}\nrepeat: {repeat}") from error


@pytest.mark.parametrize("seeds", chunks(COUNT), ids=str)
def test_vector_never_violates(seeds):
    """Whatever the network loses, repeats, delays or cuts, and whoever pauses or crashes."""
    deliveries = 0
    for report, result in each("vector", seeds, hostile=True):
        assert report.violations == report.duplicates == report.phantom == 0, report.witnesses
        deliveries += result.deliveries
    assert deliveries > 50 * len(seeds), "the schedules deliver too little to show anything"


@pytest.mark.parametrize("protocol", names())
@pytest.mark.parametrize("seeds", chunks(COUNT // 10), ids=str)
def test_oracle_and_audit_agree(protocol, seeds):
    """On networks that keep to the assumptions and on those that do not."""
    violations = 0
    for hostile in (False, True):
        for report, _ in each(protocol, seeds, hostile=hostile):
            violations += report.violations
    # The twin of "never": the same schedules do convict what keeps no order.
    assert (violations > 0) == (protocol != "vector")
