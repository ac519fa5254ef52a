"""Finding paper modules and checking that they keep the contract (docs/papers.md)."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from precedes.model import UserError
from precedes.papers.claims import Claim
from precedes.papers.measured import Results
from precedes.papers.shown import Figure, Table
from precedes.sim.experiment import Experiment

SCALES: Final = ("quick", "full")
FUNCTIONS: Final = {
    "experiments": "scale",
    "claims": "results",
    "tables": "results",
    "figures": "results",
}
# An experiment's name becomes a part of file names.
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class PaperError(UserError):
    """A paper module does not export what the contract asks for."""


@dataclass(frozen=True)
class Paper:
    """A paper as the rest of the package sees it."""

    number: str
    title: str
    published: Mapping[str, Any]
    experiments: Callable[[str], list[Experiment]]
    claims: Callable[[Results], list[Claim]]
    tables: Callable[[Results], list[Table]]
    figures: Callable[[Results], list[Figure]]


@functools.cache
def papers() -> tuple[str, ...]:
    """The numbers of all papers of the package, in order."""
    folder = [str(Path(__file__).parent)]
    found = (module.name for module in pkgutil.iter_modules(folder))
    return tuple(sorted(name[1:] for name in found if re.fullmatch("p[0-9]{3}", name)))


@functools.cache
def load(number: str) -> Paper:
    """The paper of that number."""
    if number not in papers():
        known = ", ".join(papers())
        raise UserError(f"paper {number!r:.40} is not here: choose from {known}")
    module = importlib.import_module(f"precedes.papers.p{number}.claims")
    return check(module, number=number)


def check(module: ModuleType, *, number: str) -> Paper:
    """The paper that a module defines, or a PaperError that says what is missing."""

    def fail(what: str) -> PaperError:
        return PaperError(f"paper {number!r} ({module.__file__}): {what}")

    for export in ("PAPER", "TITLE", "PUBLISHED"):
        if not hasattr(module, export):
            raise fail(f"{export} is missing; see docs/papers.md")
    if not re.fullmatch("[0-9]{3}", number) or number != module.PAPER:
        raise fail(f"PAPER must be the three digits of the folder's name, not {module.PAPER!r}")
    if not isinstance(module.TITLE, str) or not module.TITLE.strip():
        raise fail("TITLE must be text")
    if not isinstance(module.PUBLISHED, dict) or not module.PUBLISHED:
        raise fail("PUBLISHED must be a dict of the printed values, by table and figure")
    for path, leaf in leaves(module.PUBLISHED):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, float, str)):
            raise fail(f"PUBLISHED holds numbers and text in dicts and lists, not {leaf!r} {path}")
    for name, parameter in FUNCTIONS.items():
        function = getattr(module, name, None)
        if not callable(function):
            raise fail(f"{name}({parameter}) is missing")
        if list(inspect.signature(function).parameters) != [parameter]:
            raise fail(f"{name} must take one argument, {parameter}")
    for scale in SCALES:
        _check_experiments(module.experiments(scale), scale, fail)
    return Paper(
        number=number,
        title=module.TITLE,
        published=module.PUBLISHED,
        experiments=module.experiments,
        claims=module.claims,
        tables=module.tables,
        figures=module.figures,
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
