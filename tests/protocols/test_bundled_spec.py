"""The specification of `bundled` under crashes, and with the published errors.

``test_specs.py`` compares the two on random schedules, most of them without a crash. These here are
made of crashes, of other sizes of bundles, and of packets that come twice.
"""

import functools
from pathlib import Path

import pytest

from precedes.errors import UserError
from precedes.sim import simulate
from precedes.testing import check_same
from tests.support import crashing
from tests.support.convictions import Raises, assert_convicted, conviction
from tests.support.protocols import bundled_errors
from tests.support.seeds import repeat
from tests.support.specs import schedule as random_schedule

# What each published error is convicted for.
REASONS = {
    "line 7": Raises(UserError, "KeyError"),
    "lines 12-13": "twice",
    "line 33": "never completed",
    "line 53": Raises(UserError, "on_crash of process .* KeyError: ACK"),
    "lines 66-69": "never completed",
    "lines 70-72": "never completed",
}
# Each brings some of the errors out; the later ones take what is rare: an early message that comes
# twice, two parents that wait for one child, and one that still waits when the other is done.
SEEDS = (1, 48, 526, 1005)
BLOCKS = (1, *(pytest.param(first, marks=pytest.mark.gate) for first in range(21, 501, 20)))


def schedule(seed, protocol="bundled", **parameters):
    """An adversarial schedule of a small group."""
    scenario = crashing.schedule(seed, protocol=protocol, nodes_max=17)
    return scenario.replace(parameters={**scenario.parameters, **parameters}, horizon_s=20.0)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("first", BLOCKS)
def test_the_compiled_protocol_does_the_same_under_crashes(first):
    for seed in range(first, first + 20):
        with repeat(f"tests.support.crashing.schedule({seed}, nodes_max=17)"):
            check_same(schedule(seed), schedule(seed, "bundled.spec"))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_bytes_differ_by_the_size_of_an_ack_alone(seed):
    """An ACK is a reference of 8 bytes, and as a record 4 numbers of 8 bytes."""
    # Without crashes all ACKs are sent.
    compiled, spec = (one.replace(faults=()) for one in random_schedule("bundled", seed))
    result = simulate(compiled)
    more_bytes = simulate(spec).bytes_sent - result.bytes_sent
    assert more_bytes == 3 * 8 * result.extra["acks"] > 0


def trials(error):
    """The schedules, each as a function that judges the specification with this error."""
    for seed in SEEDS:
        scenario = schedule(seed, str(Path(bundled_errors.__file__)), error=error)
        yield functools.partial(
            crashing.check, scenario, tier="interpreted", rest=crashing.check_spec_rest
        )


@pytest.mark.parametrize("error", REASONS)
def test_published_errors_are_convicted(error):
    assert_convicted(error, trials(error), REASONS[error])


def test_the_specification_passes_the_same_schedules():
    assert REASONS.keys() | {"none"} == bundled_errors.ERRORS.keys()
    assert conviction(trials("none")) is None
