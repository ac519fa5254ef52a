"""How papers are named and cited; each paper package states its own ``REFERENCE``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A paper: who wrote it, where it appeared, and which protocols here come from it.

    What the text that is followed here does not tell is empty, and None for the year.
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
