"""The specification of `bundled` under crashes.

``test_specs.py`` compares the two on random schedules, most of them without a crash. These here are
made of crashes, of other sizes of bundles, and of packets that come twice.
"""

import pytest

from precedes.sim import simulate
from precedes.testing import check_same
from tests.support import crashing
from tests.support.seeds import repeat
from tests.support.specs import schedule as random_schedule

BLOCKS = (1, *(pytest.param(first, marks=pytest.mark.gate) for first in range(21, 501, 20)))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("first", BLOCKS)
def test_the_compiled_protocol_does_the_same_under_crashes(first):
    for seed in range(first, first + 20):
        with repeat(f"tests.support.crashing.schedule({seed}, nodes_max=17)"):
            scenario = crashing.schedule(seed, nodes_max=17).replace(horizon_s=20.0)
            check_same(scenario, scenario.replace(protocol="bundled.spec"))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_bytes_differ_by_the_size_of_an_ack_alone(seed):
    """An ACK is a reference of 8 bytes, and as a record 4 numbers of 8 bytes."""
    # Without crashes all ACKs are sent.
    compiled, spec = (one.replace(faults=()) for one in random_schedule("bundled", seed))
    result = simulate(compiled)
    more_bytes = simulate(spec).bytes_sent - result.bytes_sent
    assert more_bytes == 3 * 8 * result.extra["acks"] > 0
