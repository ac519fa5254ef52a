"""Student's t against published tables and against its own density."""

import math

import numpy as np
import pytest

from precedes.intervals import SUMMED_MAX, student_t, wilson

# Two-sided 95 %: NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
PUBLISHED = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 20: 2.086, 29: 2.045, 30: 2.042,
    31: 2.040, 35: 2.030, 40: 2.021, 50: 2.009, 60: 2.000, 80: 1.990, 99: 1.984, 100: 1.984,
}  # fmt: skip
# Abramowitz and Stegun, table 26.10.
FURTHER = {120: 1.980, 10**9: 1.960}


@pytest.mark.parametrize(("degrees", "quantile"), [*PUBLISHED.items(), *FURTHER.items()])
def test_the_quantiles_are_those_of_the_tables(degrees, quantile):
    assert round(student_t(degrees), 3) == quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 10, 30, 31, 100, 101, 1000, 99_999])
def test_the_density_between_them_is_95_percent(degrees):
    t = student_t(degrees)
    x = np.linspace(-t, t, 200_001)
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    density = (1 + x * x / degrees) ** (-(degrees + 1) / 2)
    share = np.trapezoid(density, x) * scale / math.sqrt(degrees * math.pi)
    assert share == pytest.approx(0.95, abs=1e-8)


def test_the_two_ways_meet():
    """Quantiles fall evenly, also where the sums end and the series begins."""
    found = [student_t(degrees) for degrees in range(SUMMED_MAX - 3, SUMMED_MAX + 4)]
    steps = np.diff(found)
    assert (steps < 0).all()
    assert (np.diff(steps) > 0).all()
    assert student_t.__wrapped__(10**5) == pytest.approx(1.959987, abs=1e-6)


def test_wilson():
    # Agresti and Coull (1998): with none of 10 seen, 0 to 0.2775.
    assert wilson(0, 10) == (0.0, pytest.approx(0.27753, abs=1e-4))
    low, high = wilson(5, 10)
    assert low + high == pytest.approx(1)
    assert (low, high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(10, 10)[1] == 1.0
