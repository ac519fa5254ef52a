"""A comparison: rows in their order, who was left out, what is recommended, in every form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from precedes import frames
from precedes.comparison import tables
from precedes.comparison.candidates import Excluded
from precedes.comparison.load import Load
from precedes.comparison.ranking import Recommendation, Standing
from precedes.comparison.rows import Row
from precedes.stores import Address, Place

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

FORMAT = 1


@dataclass(frozen=True)
class Comparison:
    """Protocols under one load, ranked; ``str`` is what the command prints."""

    load: Load
    rows: tuple[Row, ...]  # the recommended one first, those that do not serve the load last
    standings: tuple[Standing, ...]  # of the rows
    excluded: tuple[Excluded, ...]
    recommendation: Recommendation
    made_by: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """What ``precedes compare --json`` prints."""
        places = zip(self.rows, self.standings, strict=True)
        return {
            "precedes": dict(self.made_by),
            "format": FORMAT,
            "load": self.load.as_dict(),
            "recommendation": self.recommendation.as_dict(),
            "rows": [{**asdict(place), **row.as_dict()} for row, place in places],
            "excluded": [asdict(one) for one in self.excluded],
        }

    def __str__(self) -> str:
        return tables.to_text(self)

    def to_markdown(self) -> str:
        """The table for a page in Markdown."""
        return tables.to_markdown(self)

    def to_latex(self) -> str:
        """The table for a paper, with the rules of booktabs."""
        return tables.to_latex(self)

    def write(self, out: Place, *, command: str = "") -> Address:
        """Write a page, tables and diagrams into a directory; where the page is."""
        from precedes.comparison.files import write_files

        return write_files(self, out, command=command)

    def to_arrow(self) -> pa.Table:
        """A row a protocol, numbers as numbers."""
        import pyarrow as pa

        return pa.Table.from_pylist(tables.flat(self))

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a frame of pandas."""
        return frames.pandas_of(self.to_arrow())

    def _repr_html_(self) -> str:
        words = escape(self.recommendation.sentence)
        return frames.shown(f"<p><strong>{words}</strong></p>", frames.framed(tables.to_html(self)))
