"""Detection of mutants: by the verdict of an oracle, for the reason that the mistake has.

An oracle raises ``Convicted`` with a reason, or is the package's own suite, whose ``Breach`` has a
kind. Any other error is not a verdict: a mutant that does not run proves nothing, and
its test fails. Where the mistake is an error of its own, such as an index out of range, the mutant
names that error and its words (``Raises``).
"""

import re
from typing import NamedTuple

from precedes.testing import Breach


class Convicted(AssertionError):
    """The verdict of an oracle."""

    def __init__(self, reason, details=""):
        super().__init__(f"{reason}: {details}" if details else reason)
        self.reason = reason


class Raises(NamedTuple):
    """The error that a mutant must die by."""

    error: type
    words: str

    def __str__(self):
        return f"{self.error.__name__} with {self.words!r}"


def hold(condition, reason, details=""):
    """Convict for this reason unless the condition holds."""
    if not condition:
        raise Convicted(str(reason), details)


class Unproven(AssertionError):
    """A mutant that does not run, or is convicted for a reason that is not its own."""


def reason_of(error):
    """The reason of a verdict, or None if the error is none."""
    if isinstance(error, Convicted):
        return error.reason
    return str(error.kind) if isinstance(error, Breach) else None


def _is_for(error, reason):
    if isinstance(reason, Raises):
        return type(error) is reason.error and bool(re.search(reason.words, str(error)))
    return reason_of(error) == reason


def conviction(trials, *reasons):
    """The verdict of the first failing trial, which must have this reason, or one of these.

    ``trials`` are functions that judge a mutant, in order. None if none of them convicts.
    """
    for trial in trials:
        try:
            trial()
        except Exception as error:
            if any(_is_for(error, reason) for reason in reasons):
                return f"{type(error).__name__}: {error}"
            found = reason_of(error)
            if found is None:
                raise Unproven(f"a mutant that does not run proves nothing: {error!r}") from error
            expected = " or ".join(map(str, reasons)) or "nothing"
            raise Unproven(f"convicted for {found}, not for {expected}: {error}") from error
    return None


def assert_convicted(mistake, trials, *reasons):
    """The mutant of this mistake is convicted, for its own reason and no other."""
    found = conviction(trials, *reasons)
    print(f"{mistake}: {found}")
    assert found, f"{mistake}: nobody noticed"
