"""Numbers for reading: one alone, and columns of them in one notation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

MINUS: Final = "\N{MINUS SIGN}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"
_RAISED_DIGITS: Final = "\u2070\xb9\xb2\xb3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
RAISED: Final = str.maketrans("0123456789-", _RAISED_DIGITS)
COMMAS_FROM: Final = 10_000
PLACES_MAX: Final = 6  # with more, a number is easier to read as a power of ten


def number(value: float) -> str:
    """A number for reading: whole and large ones without decimals, others with four digits."""
    if abs(value) >= 1000 or value == round(value):
        return str(round(value)) if abs(value) < 1e15 else f"{value:.4g}"
    if abs(value) >= 0.001:
        return f"{value:.4g}"
    digits, _, power = f"{value:.3e}".partition("e")
    return f"{digits}e{int(power)}"


def with_commas(value: float) -> str:
    """The same with commas between thousands."""
    text = number(value)
    is_long = text.lstrip("-").isdecimal() and abs(value) >= COMMAS_FROM
    return f"{round(value):,}" if is_long else text


def grouped(value: float) -> str:
    """The same for a page: with a true minus, powers of ten, and commas between thousands."""
    text = with_commas(value)
    return power(value) if "e" in text else text.replace("-", MINUS)


def power(value: float, places: int = 2) -> str:
    """As a power of ten, such as 2.32 times ten to the minus five."""
    digits, _, exponent = f"{value:.{places}e}".partition("e")
    return f"{digits}{TIMES}".replace("-", MINUS) + ten_to(int(exponent))


def ten_to(exponent: int) -> str:
    """A power of ten alone, with a raised exponent."""
    return "10" + str(exponent).translate(RAISED)


def places_of(value: float) -> int:
    """The decimals of a published number; 0 for one that was computed and has no end."""
    places = len(f"{value:.10f}".rstrip("0").partition(".")[2])
    return places if places <= PLACES_MAX else 0


def notation(values: Iterable[float], *, places: int = 0) -> Callable[[float], str]:
    """The notation of a column: all whole, all with as many places, or all powers.

    The smallest keeps two digits as long as the largest has no more than six; where one of them
    would be lost, all are powers of ten. ``places`` are those of published values: numbers from 10
    on have just as many, smaller ones at least.
    """
    sizes = [abs(value) for value in values if value]
    largest = max(sizes, default=0.0)
    if not places and all(size == round(size) for size in sizes) and largest < 1e12:
        return lambda value: _fixed(value, 0, largest)
    if not sizes:
        return lambda value: _fixed(value, places, largest)
    small, large = (math.floor(math.log10(size)) for size in (min(sizes), largest))
    if places and 1 <= large <= 11:
        return lambda value: _fixed(value, places, largest)
    places = max(places, min(max(1 - small, 2 - large, 0), max(2 - large, 0) + 3))
    if small < -places or places > PLACES_MAX or large > 11:
        return lambda value: power(value) if value else "0"
    return lambda value: _fixed(value, places, largest)


def _fixed(value: float, places: int, largest: float) -> str:
    comma = "," if largest >= COMMAS_FROM else ""
    text = f"{value:{comma}.{places}f}"
    return text.replace("-", MINUS)
