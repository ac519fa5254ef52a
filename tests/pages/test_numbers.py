"""Numbers for reading: columns in one notation, none lost and none with false digits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.pages.numbers import grouped, notation, places_of

SIZES = st.floats(1e-9, 1e9)


def read(text):
    """The number that a text stands for."""
    text = text.replace(",", "").replace("\N{MINUS SIGN}", "-")
    digits, _, power = text.partition("\N{MULTIPLICATION SIGN}10")
    raised = "\u2070\xb9\xb2\xb3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
    exponent = power.translate(str.maketrans(raised, "0123456789-"))
    return float(digits) * 10.0 ** int(exponent or 0)


@given(st.lists(SIZES, min_size=1, max_size=6))
def test_a_column_has_one_notation_and_loses_no_number(values):
    write = notation(values)
    texts = [write(value) for value in values]
    assert len({text.count("\N{MULTIPLICATION SIGN}") for text in texts}) == 1
    assert len({len(text.partition(".")[2].partition("\xd7")[0]) for text in texts}) == 1
    for value, text in zip(values, texts, strict=True):
        assert math.isclose(read(text), value, rel_tol=0.34)
    assert write(-values[0]).startswith("\N{MINUS SIGN}")


@pytest.mark.parametrize(
    ("values", "places", "texts"),
    [
        ([240, 1047552], 0, ["240", "1,047,552"]),
        ([8, 1024], 0, ["8", "1024"]),
        ([66.5, 230.5], 1, ["66.5", "230.5"]),
        ([54.921, 0.013], 2, ["54.92", "0.01"]),
        ([0.2, 0.1389], 1, ["0.200", "0.139"]),
        ([0.000168, 7.5e-8], 0, ["1.68\xd710\u207b\u2074", "7.50\xd710\u207b\u2078"]),
        ([0, 0], 0, ["0", "0"]),
        ([], 0, []),
    ],
)
def test_columns(values, places, texts):
    assert [notation(values, places=places)(value) for value in values] == texts


def test_a_number_alone():
    assert [grouped(value) for value in (2095104, 1024, -12.2, 0, 1.5e-7, 28.79)] == [
        "2,095,104", "1024", "\N{MINUS SIGN}12.2", "0", "1.50\xd710\u207b\u2077", "28.79",
    ]  # fmt: skip
    assert [places_of(value) for value in (28.79, 3.0, 5 / 507 * 100, 0.0001)] == [2, 0, 0, 4]
