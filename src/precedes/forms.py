"""Parser of texts such as ``normal:100:20``: one of several laws, and its numbers.

A law is a frozen dataclass. Its fields are the numbers of the text, in this order; its ``FORMS``
are the accepted spellings, used by both the help and the parser. Nothing here imports NumPy:
a command lists the laws before it knows whether it will draw from one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from precedes.errors import UserError, meant

NUMBER_MAX: Final = 1e12


class Law(Protocol):
    """Base of values written as a name and what follows it: numbers, or the name of a file."""

    FORMS: ClassVar[tuple[str, ...]]


L = TypeVar("L", bound=Law)


def name_of(law: type[Law]) -> str:
    """The prefix of texts of this law."""
    return law.FORMS[0].partition(":")[0]


@dataclass(frozen=True)
class Laws(Generic[L]):
    """The laws that a setting may name."""

    setting: str
    laws: tuple[type[L], ...]

    @property
    def help(self) -> str:
        """All accepted spellings."""
        forms = [form for law in self.laws for form in law.FORMS]
        return f"{', '.join(forms[:-1])} or {forms[-1]}"

    def law_of(self, text: str) -> type[L]:
        """The law that a text names, whatever follows the name."""
        name = text.partition(":")[0]
        known = {name_of(law): law for law in self.laws}
        if name not in known:
            raise self._not_understood(text, meant(name, known))
        return known[name]

    def names(self, text: str, law: type[L]) -> bool:
        """Return whether a text names this law, whether it is well-formed or not."""
        name, colon, _ = text.partition(":")
        return name == name_of(law) and bool(colon) == (":" in law.FORMS[0])

    def read(self, text: str) -> L:
        """The law with its numbers, or with its file."""
        law = self.law_of(text)
        rest = text.partition(":")[2]
        if ":FILE" in law.FORMS[0]:
            return law(Path(rest))  # type: ignore[call-arg]
        try:
            numbers = [float(part) for part in text.split(":")[1:]]
        except ValueError:
            raise self._not_understood(text) from None
        counts = [form.count(":") for form in law.FORMS]
        if len(numbers) not in counts or not all(0 <= x < NUMBER_MAX for x in numbers):
            raise self._not_understood(text)
        return law(*numbers)

    def _not_understood(self, text: str, hint: str = "") -> UserError:
        return UserError(f"{self.setting} {text!r} is not understood{hint}: use {self.help}")
