"""Papers: their references, how they are found, and the contract that their packages keep.

A package ``pNNN`` of this folder is a paper (docs/papers.md). It is selected by its number, or by
a protocol that it describes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from precedes.errors import UserError
from precedes_papers.measured import Fitted, Results
from precedes_papers.rules import Claim
from precedes_papers.shown import Claims, Figure, Headlines, Table

if TYPE_CHECKING:
    from precedes.sim.experiment import Experiment

SCALES: Final = ("quick", "full")
# What a package exports, and in which of its files.
EXPORTS: Final = {
    "REFERENCE": "__init__",
    "PUBLISHED": "__init__",
    "FITTED": "experiments",
    "experiments": "experiments",
    "claims": "items",
    "HEADLINES": "items",
    "shown": "items",
}
_PARAMETERS: Final = {
    "experiments": ["scale"],
    "claims": ["results"],
    "shown": ["results", "claims"],
}
# An experiment's name becomes a part of file names.
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Reference:
    """A paper: its authors, venue, and the protocols here that come from it.

    Fields that its text does not give are empty; the year is None.
    """

    authors: tuple[str, ...]  # "de Araujo, João Paulo"
    title: str
    short_title: str  # stands in prose for unknown authors and year
    year: int | None
    venue: str
    protocols: tuple[str, ...]  # the paper can be asked for by each of them
    hal: str = ""
    doi: str = ""

    @property
    def citation(self) -> str:
        """The paper in prose: ``de Araujo et al. 2018``."""
        if not self.authors or self.year is None:
            return f'"{self.short_title}"'
        family = self.authors[0].partition(",")[0]
        return f"{family}{' et al.' if len(self.authors) > 1 else ''} {self.year}"

    def __str__(self) -> str:
        """The whole entry, as docs/bibliography.md and the report have it."""
        names = (" ".join(reversed(name.split(", "))) for name in self.authors)
        parts = [
            ", ".join(names) or "Authors not named",
            self.title,
            self.venue,
            str(self.year or "Not dated"),
            f"HAL {self.hal}" if self.hal else "",
            f"doi:{self.doi}" if self.doi else "",
        ]
        return ". ".join(part for part in parts if part) + "."


class PaperError(UserError):
    """A paper does not export what the contract asks for."""


@dataclass(frozen=True)
class Paper:
    """A paper as the rest of the package sees it; fields are named after the exports."""

    number: str
    reference: Reference
    published: Mapping[str, Any]
    fitted: Sequence[Fitted]
    experiments: Callable[[str], list[Experiment]]
    claims: Callable[[Results], Iterable[Claim]]
    headlines: Headlines
    shown: Callable[[Results, Claims], Iterable[Table | Figure]]


@functools.cache
def papers() -> tuple[str, ...]:
    """The numbers of all papers of the package, in order."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name[1:] for name in names if re.fullmatch("p[0-9]{3}", name)))


@functools.cache
def references() -> dict[str, Reference]:
    """References of the papers by number; runs nothing and loads no experiment."""
    return {
        number: importlib.import_module(f"precedes_papers.p{number}").REFERENCE
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
        module = importlib.import_module(f"precedes_papers.p{number}{inside}")
        if hasattr(module, export):
            setattr(exports, export, getattr(module, export))
    return check(exports, number=number)


def check(exports: SimpleNamespace, *, number: str) -> Paper:
    """The paper with these exports, or a PaperError that names what is missing."""
    for fault in _faults(exports, number):
        raise PaperError(f"paper {number!r} (precedes_papers.p{number}): {fault}")
    fields = {name.lower(): getattr(exports, name) for name in EXPORTS}
    return Paper(number=number, **fields)


def _faults(exports: SimpleNamespace, number: str) -> Iterable[str]:
    """Violations of the contract; a fault is reported before what depends on it is read."""
    for export, file in EXPORTS.items():
        if not hasattr(exports, export):
            yield f"{export} is missing in {file}.py; see 'precedes docs papers'"
    if not isinstance(exports.REFERENCE, Reference) or not exports.REFERENCE.title.strip():
        yield "REFERENCE must be a Reference with a title"
    if not isinstance(exports.PUBLISHED, dict) or not exports.PUBLISHED:
        yield "PUBLISHED must be a dict of the published values, by table and figure"
    for path, leaf in leaves(exports.PUBLISHED):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, float, str)):
            yield f"PUBLISHED holds numbers and text in dicts and lists, not {leaf!r} {path}"
    if not all(isinstance(one, Fitted) for one in exports.FITTED):
        yield "FITTED must hold a Fitted for each fitted parameter"
    if not isinstance(exports.HEADLINES, Headlines) or not exports.HEADLINES.statements:
        yield "HEADLINES must be Headlines with a statement"
    for name, parameters in _PARAMETERS.items():
        function = getattr(exports, name)
        if not callable(function) or list(inspect.signature(function).parameters) != parameters:
            yield f"{name} must be a function of {' and '.join(parameters)}"
    for scale in SCALES:
        yield from _experiment_faults(exports.experiments(scale), f"experiments({scale!r})")


def _experiment_faults(experiments: Any, where: str) -> Iterable[str]:
    from precedes.sim.experiment import Experiment

    if not isinstance(experiments, list) or not experiments:
        yield f"{where} must return a list of Experiment, and not an empty one"
    for experiment in experiments:
        if not isinstance(experiment, Experiment):
            yield f"{where} must return Experiment, not {type(experiment).__name__}"
        if not _NAME.fullmatch(experiment.name):
            yield f"{where}: a name is lower case, like 'table-1', not {experiment.name!r}"
        if not experiment.scenarios:
            yield f"{where}: {experiment.name} has no scenarios"
    names = [experiment.name for experiment in experiments]
    if len(set(names)) < len(names):
        yield f"{where} names two experiments alike: {', '.join(names)}"


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Every value in nested dicts, lists and tuples, with the keys that lead to it."""
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, (list, tuple)):
        items = list(enumerate(data))
    else:
        return [(path, data)]
    return [leaf for key, inner in items for leaf in leaves(inner, (*path, key))]
