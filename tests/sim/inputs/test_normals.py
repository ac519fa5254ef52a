"""Compiled code draws what NumPy draws."""

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from precedes.sim.inputs import normals

LAW = {"mean_ns": 1e8, "deviation_ns": 2e7, "least_ns": 1000}


@pytest.mark.parametrize("seed", [1, 2])
def test_compiled_code_draws_the_same_and_leaves_the_generator_the_same(seed):
    """A million numbers: thousands of them from the tails, which take another way."""
    compiled, plain = Generator(PCG64(seed)), Generator(PCG64(seed))
    for count in (1, 7, 500_000, 500_000):
        found = normals.draw_ns(compiled, count, compile_it=True, **LAW)
        assert (found == normals.draw_ns(plain, count, compile_it=False, **LAW)).all()
    assert compiled.bit_generator.state == plain.bit_generator.state


def test_interpreted_it_draws_the_same():
    loop, plain = Generator(PCG64(3)), Generator(PCG64(3))
    found = np.empty(2000, np.int64)
    normals.fill(loop, found, *LAW.values())
    assert (found == normals.draw_ns(plain, 2000, compile_it=False, **LAW)).all()


def test_delays_are_at_least_the_least():
    law = {**LAW, "mean_ns": 0.0}
    for compile_it in (False, True):
        found = normals.draw_ns(Generator(PCG64(4)), 1000, compile_it=compile_it, **law)
        assert found.min() == LAW["least_ns"]
        assert found.max() > LAW["least_ns"]
