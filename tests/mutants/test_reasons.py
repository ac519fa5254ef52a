"""A mutant proves something only if it runs, and is convicted for the reason of its mistake."""

import functools

import pytest

from precedes.testing import Kind, check_scenario, random_scenario
from tests.support.convictions import Raises, Unproven, assert_convicted
from tests.support.edited import protocol

READY = "clocks.covers(clock, need)"


def trials(directory, new):
    """Schedules on which ``vector`` is judged with one condition of it replaced."""
    mutant = protocol(directory, "vector", ("receive", READY, new))
    for seed in range(1, 8):
        yield functools.partial(check_scenario, random_scenario(mutant, seed), compiled=False)


@pytest.mark.parametrize(
    ("new", "error"),
    [
        ("clocks.covers(clock, nead)", "NameError"),
        ("clock[10**6] or True", "IndexError"),
    ],
)
def test_a_mutant_that_does_not_run_convicts_nobody(tmp_path, new, error):
    with pytest.raises(Unproven, match=f"proves nothing: {error}"):
        assert_convicted("a slip", trials(tmp_path, new), Kind.ORDER)


def test_another_reason_is_not_the_reason(tmp_path):
    judged = list(trials(tmp_path, "True"))[3:]
    assert_convicted("out of order", judged, Kind.ORDER)
    with pytest.raises(Unproven, match="convicted for order, not for lost"):
        assert_convicted("out of order", judged, Kind.LOST)


def test_who_does_nothing_wrong_is_not_convicted(tmp_path):
    with pytest.raises(AssertionError, match="nobody noticed"):
        assert_convicted("nothing", trials(tmp_path, READY), Kind.ORDER)


def test_an_error_is_a_reason_by_its_class_and_its_words():
    def fall():
        raise IndexError("index 9 is out of bounds")

    assert_convicted("a fall", [fall], Raises(IndexError, "out of bounds"))
    for other in (Raises(IndexError, "pop from"), Raises(LookupError, "out of bounds"), "lost"):
        with pytest.raises(Unproven, match="proves nothing: IndexError"):
            assert_convicted("a fall", [fall], other)
