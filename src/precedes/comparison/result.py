"""The result of a comparison: ranked and excluded protocols, the recommendation, its outputs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from precedes import frames
from precedes.comparison import tables
from precedes.comparison.candidates import Excluded
from precedes.comparison.load import Load
from precedes.comparison.page import page, table
from precedes.comparison.ranking import Recommendation, Standing
from precedes.comparison.rows import Row
from precedes.pipeline.directory import make_folder, write_aside
from precedes.stores import Address, Place

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

FORMAT: Final = 1
INDEX: Final = "index.html"
VIEWS: Final = "views"
# A diagram shows the most relevant part; the whole trace is in ``runs``.
VIEW_EVENTS: Final = 10_000


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
        """The object that ``precedes compare --json`` prints."""
        places = zip(self.rows, self.standings, strict=True)
        return {
            "precedes": dict(self.made_by),
            "format": FORMAT,
            "load": self.load.as_dict(),
            "recommendation": asdict(self.recommendation),
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
        """Write a page, tables and diagrams into a directory; return the path of the page.

        Each file is written atomically.
        """
        folder = Address.of(out)
        make_folder(folder)
        links = self._write_views(folder, command)
        sizes = [
            {"protocol": row.label, **asdict(point)} for row in self.rows for point in row.points
        ]
        latency = [
            {"protocol": row.label, "low_us": low, "high_us": high, "deliveries": count}
            for row in self.rows
            for low, high, count in row.histogram
        ]
        texts = {
            "comparison.json": json.dumps(self.as_dict(), indent=1) + "\n",
            "table.md": self.to_markdown(),
            "table.tex": self.to_latex(),
            "table.csv": _csv(tables.flat(self)),
            "sizes.csv": _csv(sizes),
            "latency.csv": _csv(latency),
            INDEX: page(self, links=links, command=command),  # last: its links must exist
        }
        for name, text in texts.items():
            write_aside(folder / name, text.encode())
        return folder / INDEX

    def _write_views(self, folder: Address, command: str) -> dict[str, str]:
        """Write a diagram of one run of each row; return their paths by label."""
        from precedes.viewer import write_view

        make_folder(folder / VIEWS)
        links = {}
        for row in self.rows:
            if row.trace is None or row.deliveries == 0:
                continue
            name = f"{VIEWS}/{re.sub(r'[^A-Za-z0-9+.-]+', '-', row.label).strip('-')}.html"
            write_view(Address.of(row.trace), folder / name, events=VIEW_EVENTS, command=command)
            links[row.label] = name
        return links

    def to_arrow(self) -> pa.Table:
        """A row a protocol, numbers as numbers."""
        import pyarrow as pa

        return pa.Table.from_pylist(tables.flat(self))

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a DataFrame of pandas."""
        return frames.pandas_of(self.to_arrow())

    def _repr_html_(self) -> str:
        words = escape(self.recommendation.sentence)
        return frames.shown(f"<p><strong>{words}</strong></p>", frames.framed(table(self)))


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
