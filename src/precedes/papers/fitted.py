"""What was chosen by a look at print, and the runs and readers that depend on it.

A value that agrees because a parameter was chosen for it shows less than one that agrees by itself.
A paper lists such parameters as ``FITTED`` in its experiments; every run whose scenario has one of
these values is marked, and every claim that a marked run takes part in says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from precedes.papers.measured import MARKS, ORIGIN, Origin, Read, Results, Run, field


class Fitted(NamedTuple):
    """A field of a scenario or parameter of a protocol, and what its value was chosen by.

    What is no field, such as the law of the faults of a run, belongs to ``experiments`` instead.
    """

    field: str
    value: Any
    chosen_by: str  # "Table 1"
    experiments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.field} {self.value}, by {self.chosen_by}"

    def takes_part(self, experiment: str, run: Run) -> bool:
        """Whether a run of an experiment depends on it."""
        if self.experiments:
            return experiment in self.experiments
        return bool(field(run, self.field) == self.value)


def marked(results: Results, chosen: Sequence[Fitted]) -> dict[str, list[Run]]:
    """The runs, each with where it comes from and what was fitted of all that it depends on."""
    return {
        name: [
            {
                **run,
                MARKS: [str(one) for one in chosen if one.takes_part(name, run)],
                ORIGIN: Origin(name, run.get("run", ""), run["seed"]),
            }
            for run in runs
        ]
        for name, runs in results.items()
    }


def fitted_reader(mark: str) -> Callable[[Read], Read]:
    """A reader that counts with a number that was chosen by a look at print."""

    def decorate(read: Read) -> Read:
        setattr(read, MARKS, (mark,))
        return read

    return decorate
