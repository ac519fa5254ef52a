"""Axes of charts: positions of values, and the places and labels of ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from precedes.pages.numbers import MINUS, grouped, ten_to

FONT: Final = 13.0
# A bound on the width of a character, as a share of the size of the font, to keep labels apart.
CHARACTER: Final = 0.6
# Maximum number of places on an axis that are ticks of their own.
TICKS_OF_DATA_MAX: Final = 10
# Maximum factor by which an interval may lengthen a logarithmic axis; longer bars are cut.
STRETCH_MAX: Final = 4.0


def width_of(text: str, size: float = FONT) -> float:
    """A bound on the width of a text."""
    return len(text) * CHARACTER * size


@dataclass(frozen=True)
class Axis:
    """A mapping of values from ``low`` to ``high`` to positions from ``start`` to ``end``.

    On a logarithmic axis values that are not above 0 are at ``zero``, apart from the rest.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool
    ticks: tuple[float, ...]
    zero: float | None = None

    def at(self, value: float) -> float:
        """The position of a value; values beyond an end are a little behind it."""
        if self.is_log:
            if value <= 0:
                return self.start if self.zero is None else self.zero
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        share = min(max(share, -0.02), 1.02)
        return self.start + share * (self.end - self.start)

    def labels(self) -> list[tuple[float, str]]:
        """Places and texts of the ticks, in one notation."""
        labels = [(self.at(tick), text) for tick, text in _labelled(self.ticks)]
        return labels if self.zero is None else [(self.zero, "0"), *labels]


def linear(values: Sequence[float], start: float, end: float, *, from_zero: bool) -> Axis:
    """A plain axis; ``from_zero`` it shows 0 as well."""
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (low - 1, high + 1) if not low else (min(low, 0.0), max(high, 0.0))
    step = _step((high - low) / 5)
    if from_zero:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    else:
        low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = tuple(round(place * step, 12) for place in range(first, last + 1))
    return Axis(low, high, start, end, False, ticks)


def logarithmic(
    values: Sequence[float],
    bounds: Sequence[float],
    start: float,
    end: float,
    *,
    zero: float | None,
) -> Axis:
    """A logarithmic axis for values, of which some may be 0, and the bounds around them."""
    above = [value for value in values if value > 0] or [1.0]
    around = [bound for bound in bounds if bound > 0]
    low = min(above)
    low = min(low, max(min(around, default=low), low / STRETCH_MAX)) / 1.15
    high = max(above)
    high = max(high, min(max(around, default=high), high * STRETCH_MAX)) * 1.15
    ticks = _log_ticks(low, high)
    return Axis(low, high, start, end, True, ticks, zero)


def at_data(axis: Axis, values: Sequence[float]) -> Axis:
    """The same axis with ticks at the data, if these are few; else with its own."""
    places = tuple(sorted({value for value in values if value > 0 or not axis.is_log}))
    if len(places) > TICKS_OF_DATA_MAX:
        return axis
    return Axis(axis.low, axis.high, axis.start, axis.end, axis.is_log, places, axis.zero)


def thinned(labels: Sequence[tuple[float, str]], *, room: float = 8.0) -> list[tuple[float, str]]:
    """The labels that do not overlap: the last always, others from it on down."""
    kept: list[tuple[float, str]] = []
    for place, text in sorted(labels, reverse=True):
        half = width_of(text) / 2
        if not kept or place + half + room <= kept[-1][0] - width_of(kept[-1][1]) / 2:
            kept.append((place, text))
    return kept[::-1]


def _step(least: float) -> float:
    scale = 10.0 ** math.floor(math.log10(least))
    return next(scale * times for times in (1, 2, 5, 10) if scale * times >= least * (1 - 1e-9))


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    decades = math.log10(high / low)
    steps: tuple[float, ...] = (1, 2, 5) if decades < 2.5 else (1,)
    if decades < 0.7:
        steps = (1, 1.5, 2, 3, 4, 5, 6, 8)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 7))
    ticks = [
        10.0**exponent * step
        for exponent in range(first, last + 1)
        if exponent % every == 0
        for step in steps
    ]
    return tuple(tick for tick in ticks if low <= tick * 1.0001 and tick <= high * 1.0001)


def _labelled(ticks: Sequence[float]) -> list[tuple[float, str]]:
    """Powers of ten where one is tiny or huge, plain numbers else."""
    if not ticks:
        return []
    sizes = [abs(tick) for tick in ticks if tick]
    if sizes and (min(sizes) < 1e-3 or max(sizes) >= 1e6):
        return [(tick, _power(tick)) for tick in ticks]
    return [(tick, grouped(tick)) for tick in ticks]


def _power(tick: float) -> str:
    if not tick:
        return "0"
    exponent = math.floor(math.log10(abs(tick)) + 1e-9)
    digits = tick / 10.0**exponent
    if math.isclose(digits, 1):
        return ten_to(exponent)
    return f"{digits:g}\N{MULTIPLICATION SIGN}{ten_to(exponent)}".replace("-", MINUS)
