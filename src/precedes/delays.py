"""Laws of delay: the travel time of a packet, as text and as a value.

Numbers are in milliseconds unless a field says otherwise. ``sim.inputs.network`` draws from
them.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import ClassVar, Final

from precedes.errors import UserError
from precedes.forms import Laws
from precedes.model import DELAY_MS_MAX


@dataclass(frozen=True)
class Delay:
    """Base of all laws of delay."""

    FORMS: ClassVar[tuple[str, ...]]

    def check(self, text: str) -> None:
        """Raise UserError for numbers that contradict each other."""


@dataclass(frozen=True)
class Constant(Delay):
    """Always the same."""

    FORMS = ("constant:MS",)
    always_ms: float


@dataclass(frozen=True)
class Uniform(Delay):
    """Uniform between two bounds."""

    FORMS = ("uniform:LOW:HIGH",)
    low_ms: float
    high_ms: float

    def check(self, text: str) -> None:
        """Raise UserError unless the lower bound is lower."""
        if self.high_ms < self.low_ms:
            raise UserError(f"delay {text!r}: the lower bound comes first")


@dataclass(frozen=True)
class LogUniform(Uniform):
    """The logarithm is uniform: all scales alike."""

    FORMS = ("loguniform:LOW:HIGH",)

    def check(self, text: str) -> None:
        """Raise UserError for a bound of 0, which has no logarithm."""
        if self.low_ms <= 0:
            raise UserError("the lower bound of a loguniform delay must be above 0")
        super().check(text)


@dataclass(frozen=True)
class Normal(Delay):
    """Normal; samples below the shortest delay are raised to it."""

    FORMS = ("normal:MEAN:SD",)
    mean_ms: float
    deviation_ms: float


@dataclass(frozen=True)
class LogNormal(Delay):
    """Lognormal, with the standard deviation of the logarithm."""

    FORMS = ("lognormal:MEDIAN:SIGMA",)
    median_ms: float
    sigma: float

    def check(self, text: str) -> None:
        """Raise UserError for a mean of 0, which has no logarithm."""
        if self.median_ms <= 0:
            raise UserError("the median of a lognormal delay must be above 0")


@dataclass(frozen=True)
class Exponential(Delay):
    """Exponential."""

    FORMS = ("exponential:MEAN",)
    mean_ms: float


@dataclass(frozen=True)
class Spiky(Delay):
    """Constant, except for a share of packets that take the peak."""

    FORMS = ("spiky:MS:PEAK",)
    usual_ms: float
    peak_ms: float


@dataclass(frozen=True)
class Matrix(Delay):
    """Half of measured round trips, from a table."""

    FORMS = ("matrix:FILE (in ms)",)
    UNIT_MS: ClassVar[float] = 1.0
    path: Path


@dataclass(frozen=True)
class MatrixInSeconds(Matrix):
    """The same from a table in seconds."""

    FORMS = ("matrix_s:FILE (in s)",)
    UNIT_MS = 1000.0


LAWS: Final = Laws[Delay](
    "delay",
    (
        *(Constant, Uniform, LogUniform, Normal, LogNormal, Exponential, Spiky),
        *(Matrix, MatrixInSeconds),
    ),
)
DELAY_HELP: Final = LAWS.help


def read(text: str) -> Delay:
    """The law that a text describes, checked."""
    law = LAWS.read(text)
    if isinstance(law, Matrix):
        return law
    if max(astuple(law)) > DELAY_MS_MAX:
        raise UserError(f"delay {text!r} is too long: at most {DELAY_MS_MAX:g} ms")
    law.check(text)
    return law


def is_constant(text: str) -> bool:
    """Return whether packets arrive in the order they were sent, also if the text has mistakes."""
    return LAWS.names(text, Constant)


def is_matrix(text: str) -> bool:
    """Return whether delays are read from a table, also if the text has mistakes."""
    return LAWS.names(text, Matrix) or LAWS.names(text, MatrixInSeconds)
