"""The diagram as a value of Python: shown by a notebook, saved as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from precedes.errors import UserError
from precedes.stores import Place
from precedes.trace import Dialect
from precedes.trace.opening import Readable
from precedes.viewer.view import View, write
from precedes.viewer.view import view as view_of
from precedes.viewer.window import EVENTS, Asked

HEIGHT_PX = 640


@dataclass(frozen=True, repr=False)
class Diagram:
    """The space-time diagram of a log; a notebook shows it in an ``iframe``."""

    page: View
    height_px: int = HEIGHT_PX

    def save(self, path: Place) -> None:
        """Write the standalone page, whole or not at all."""
        write(path, self.page.text)

    def __repr__(self) -> str:
        summaries = [f"{trace['title']}: {trace['summary']}" for trace in self.page.traces]
        return f"Diagram({'; '.join(summaries)})"

    def _repr_html_(self) -> str:
        # Scripts may run, and reach nothing of the notebook.
        return (
            f'<iframe title="space-time diagram" sandbox="allow-scripts" '
            f'style="width: 100%; height: {self.height_px}px; border: 1px solid #8888" '
            f'srcdoc="{escape(self.page.text)}"></iframe>'
        )


def view(
    trace: Readable | Sequence[Readable],
    other: Readable | None = None,
    *,
    around: str | None = None,
    violation: int | None = None,
    from_ms: float | None = None,
    to_ms: float | None = None,
    nodes: Sequence[str | int] = (),
    events: int = EVENTS,
    run: str | int | None = None,
    format: str = "auto",
    dialect: Dialect | None = None,
    height_px: int = HEIGHT_PX,
) -> Diagram:
    """The space-time diagram of a log, or of two of one scenario in lockstep.

    A log is whatever ``precedes.load`` takes; two may also be a list. The diagram opens on the
    message ``around``, on a ``violation`` (from 1) or on a window of time, by default on the first
    violation or where most happens. Of more than ``events`` events it holds those nearby, and says
    so; each thousand adds some 10 kB to a notebook. ``nodes`` are the names of those that are
    shown.
    """
    if not 100 <= height_px <= 10_000:
        raise UserError(f"`height_px` is between 100 and 10,000, not {height_px}")
    asked = Asked(
        around=around,
        violation=violation,
        from_us=None if from_ms is None else round(from_ms * 1000),
        to_us=None if to_ms is None else round(to_ms * 1000),
        nodes=tuple(map(str, nodes)),
        events=events,
        run=None if run is None else str(run),
    )
    logs: list[Any] = [*trace] if isinstance(trace, list | tuple) else [trace]
    if other is not None:
        logs.append(other)
    return Diagram(view_of(logs, asked, format=format, dialect=dialect), height_px)
