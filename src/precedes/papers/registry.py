"""Finding papers, and checking that their packages keep the contract (docs/papers.md).

A package ``pNNN`` of this folder is a paper. It is asked for by its number, or by a protocol that
it describes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from precedes.errors import UserError
from precedes.papers.bibliography import Reference
from precedes.papers.claims import Claim
from precedes.papers.fitted import Fitted
from precedes.papers.headlines import Headlines
from precedes.papers.measured import Results
from precedes.papers.shown import Figure, Table

if TYPE_CHECKING:
    from precedes.sim.experiment import Experiment

SCALES: Final = ("quick", "full")
# What a package exports, and in which of its files.
EXPORTS: Final = {
    "PAPER": "__init__",
    "REFERENCE": "__init__",
    "PUBLISHED": "published",
    "FITTED": "experiments",
    "experiments": "experiments",
    "claims": "claims",
    "HEADLINES": "headlines",
    "tables": "shown",
    "figures": "shown",
}
FUNCTIONS: Final = {
    "experiments": "scale",
    "claims": "results",
    "tables": "results",
    "figures": "results",
}
# An experiment's name becomes a part of file names.
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class PaperError(UserError):
    """A paper does not export what the contract asks for."""


@dataclass(frozen=True)
class Paper:
    """A paper as the rest of the package sees it."""

    number: str
    reference: Reference
    published: Mapping[str, Any]
    fitted: Sequence[Fitted]
    experiments: Callable[[str], list[Experiment]]
    claims: Callable[[Results], list[Claim]]
    headlines: Headlines
    tables: Callable[[Results], list[Table]]
    figures: Callable[[Results], list[Figure]]


@functools.cache
def papers() -> tuple[str, ...]:
    """The numbers of all papers of the package, in order."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name[1:] for name in found if re.fullmatch("p[0-9]{3}", name)))


@functools.cache
def references() -> dict[str, Reference]:
    """Which paper is which: number -> reference; runs nothing and loads no experiment."""
    return {
        number: importlib.import_module(f"precedes.papers.p{number}").REFERENCE
        for number in papers()
    }


def number_of(name: str) -> str:
    """The number of a paper from itself or from a protocol: ``vcube`` is ``000``."""
    for number, reference in references().items():
        if name == number or name in reference.protocols:
            return number
    known = ", ".join(f"{n} ({' or '.join(one.protocols)})" for n, one in references().items())
    raise UserError(f"paper {name!r:.40} is not here: choose from {known}")


@functools.cache
def load(name: str) -> Paper:
    """The paper of that number or protocol."""
    number = number_of(name)
    exports = SimpleNamespace()
    for export, file in EXPORTS.items():
        inside = "" if file == "__init__" else f".{file}"
        module = importlib.import_module(f"precedes.papers.p{number}{inside}")
        if hasattr(module, export):
            setattr(exports, export, getattr(module, export))
    return check(exports, number=number)


def check(exports: SimpleNamespace, *, number: str) -> Paper:
    """The paper that exports make, or a PaperError that says what is missing."""

    def fail(what: str) -> PaperError:
        return PaperError(f"paper {number!r} (precedes.papers.p{number}): {what}")

    for export, file in EXPORTS.items():
        if not hasattr(exports, export):
            raise fail(f"{export} is missing in {file}.py; see 'precedes docs papers'")
    if not re.fullmatch("[0-9]{3}", number) or number != exports.PAPER:
        raise fail(f"PAPER must be the three digits of the folder's name, not {exports.PAPER!r}")
    if not isinstance(exports.REFERENCE, Reference) or not exports.REFERENCE.title.strip():
        raise fail("REFERENCE must be a Reference with a title")
    if not isinstance(exports.PUBLISHED, dict) or not exports.PUBLISHED:
        raise fail("PUBLISHED must be a dict of the printed values, by table and figure")
    for path, leaf in leaves(exports.PUBLISHED):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, float, str)):
            raise fail(f"PUBLISHED holds numbers and text in dicts and lists, not {leaf!r} {path}")
    if not all(isinstance(one, Fitted) for one in exports.FITTED):
        raise fail("FITTED must hold a Fitted for each parameter chosen by a look at print")
    if not isinstance(exports.HEADLINES, Headlines) or not exports.HEADLINES.statements:
        raise fail("HEADLINES must be Headlines with a statement")
    for name, parameter in FUNCTIONS.items():
        function = getattr(exports, name)
        if not callable(function) or list(inspect.signature(function).parameters) != [parameter]:
            raise fail(f"{name} must be a function of one argument, {parameter}")
    for scale in SCALES:
        _check_experiments(exports.experiments(scale), scale, fail)
    return Paper(
        number=number,
        reference=exports.REFERENCE,
        published=exports.PUBLISHED,
        fitted=exports.FITTED,
        experiments=exports.experiments,
        claims=exports.claims,
        headlines=exports.HEADLINES,
        tables=exports.tables,
        figures=exports.figures,
    )


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Every value in nested dicts, lists and tuples, with the keys that lead to it."""
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, (list, tuple)):
        items = list(enumerate(data))
    else:
        return [(path, data)]
    return [found for key, inner in items for found in leaves(inner, (*path, key))]


def _check_experiments(found: Any, scale: str, fail: Callable[[str], PaperError]) -> None:
    from precedes.sim.experiment import Experiment

    where = f"experiments({scale!r})"
    if not isinstance(found, list) or not found:
        raise fail(f"{where} must return a list of Experiment, and not an empty one")
    for experiment in found:
        if not isinstance(experiment, Experiment):
            raise fail(f"{where} must return Experiment, not {type(experiment).__name__}")
        if not NAME.fullmatch(experiment.name):
            raise fail(f"{where}: a name is lower case, like 'table-1', not {experiment.name!r}")
        if not experiment.scenarios:
            raise fail(f"{where}: {experiment.name} has no scenarios")
    names = [experiment.name for experiment in found]
    if len(set(names)) < len(names):
        raise fail(f"{where} names two experiments alike: {', '.join(names)}")
