"""Compiled code draws the normal delays that NumPy draws."""

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from precedes import delays
from precedes.sim.engine.network import DELAY_NS_MIN
from precedes.sim.inputs import network

LAW = delays.Normal(mean_ms=100.0, deviation_ms=20.0)


@pytest.mark.parametrize("seed", [1, 2])
def test_compiled_code_draws_the_same_and_leaves_the_generator_the_same(seed):
    """A million numbers: thousands of them from the tails, which take another way."""
    compiled, plain = Generator(PCG64(seed)), Generator(PCG64(seed))
    for count in (1, 7, 500_000, 500_000):
        found = network.draw_ns(LAW, compiled, count, many=True)
        assert (found == network.draw_ns(LAW, plain, count)).all()
    assert compiled.bit_generator.state == plain.bit_generator.state


def test_interpreted_it_draws_the_same():
    loop, plain = Generator(PCG64(3)), Generator(PCG64(3))
    found = np.empty(2000, np.int64)
    network.fill(loop, found, 1e8, 2e7)
    assert (found == network.draw_ns(LAW, plain, 2000)).all()


@pytest.mark.parametrize("many", [False, True])
def test_delays_are_at_least_the_least(many):
    law = delays.Normal(mean_ms=0.0, deviation_ms=20.0)
    found = network.draw_ns(law, Generator(PCG64(4)), 1000, many=many)
    assert found.min() == DELAY_NS_MIN
    assert found.max() > DELAY_NS_MIN
