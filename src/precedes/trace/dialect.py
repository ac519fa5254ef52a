"""What a person says about a log that the log itself does not say, and what its reader found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote

from precedes.errors import UserError, meant
from precedes.stores import Address
from precedes.trace.rows import JUDGED, KINDS

ANY: Final = "*"
IGNORE: Final = "ignore"
PICTURED: Final = ("receive", "discard")

# The columns that a table may have, by the names that --columns gives other ones for.
COLUMNS: Final = ("run_id", "node", "local_seq", "time_us", "kind", "message", "source", "seq")

# What tells to whom a message goes; without, it goes to everybody.
RECEIVERS: Final = "to"

ONE_RUN: Final = "0"  # name of the run in a log that names none
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def refuse_receivers(present: Iterable[str], *, title: str) -> None:
    """Raise if a table says to whom messages go: who was left out would seem to lack them."""
    if RECEIVERS in present:
        raise UserError(
            f"{title} has a column {RECEIVERS!r}, and messages to some nodes alone cannot be "
            "judged: leave it out if all go to everybody"
        )


def refuse_twins(present: Iterable[str], chosen: Iterable[str], *, title: str) -> None:
    """Raise if a column that is to be read is there twice."""
    names = list(present)
    for name in chosen:
        if names.count(name) > 1:
            raise UserError(f"{title} has two columns {name!r}: rename one")


def folder_columns(log: Address) -> dict[str, str | None]:
    """Columns in a file's path, as Hive and Spark name folders: ``run_id=1/part-0.parquet``."""
    parts = [part.partition("=") for part in log.absolute().parent.path.split("/")]
    return {
        unquote(name): None if value == HIVE_NULL else unquote(value)
        for name, _, value in parts
        if name and value
    }


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a foreign log says what the common rows say; each format reads what concerns it."""

    parser: str | None = None  # shiviz: the expression of an event
    delimiter: str | None = None  # shiviz: what stands between runs; csv: between cells
    columns: Mapping[str, str] = field(default_factory=dict)  # ours -> the table's
    kinds: Mapping[str, str] = field(default_factory=dict)  # the log's -> ours, or IGNORE
    node_by: tuple[str, ...] = ()  # otel: the attributes that make a node
    complete: bool = False  # the log ended by itself: what was not delivered is lost
    pictured: bool = False  # arrivals and drops are read too, which no verdict depends on
    folders: Mapping[str, str | None] = field(default_factory=dict)  # columns that the path names

    def __post_init__(self) -> None:
        """Refuse what no format could mean."""
        for name in self.columns:
            if name not in COLUMNS:
                raise UserError(
                    f"`columns` names {name!r}{meant(name, COLUMNS)}: ours are {', '.join(COLUMNS)}"
                )
        for kind in self.kinds.values():
            if kind not in (*self.taken, IGNORE):
                known = (*self.taken, IGNORE)
                raise UserError(
                    f"`kinds` names {kind!r}{meant(kind, known)}: ours are {', '.join(known)}"
                )

    @property
    def taken(self) -> tuple[str, ...]:
        """The kinds whose rows are read."""
        return (*JUDGED, *PICTURED) if self.pictured else (*JUDGED,)

    @property
    def one_run(self) -> str:
        """Name of the run of rows that name none."""
        return self.folders.get(self.columns.get("run_id", "run_id")) or ONE_RUN

    def at(self, log: Address) -> Dialect:
        """The same for a file, whose folders may name columns."""
        return replace(self, folders=folder_columns(log))

    def kind_of(self, text: str) -> str | None:
        """Our name of a kind, None if its rows are ignored; a ValueError says why there is none."""
        found = self.kinds.get(text) or (text if text in KINDS else self.kinds.get(ANY))
        if found is None:
            hint = meant(text, [*self.kinds, *KINDS])
            raise ValueError(
                f"unknown kind {text!r}{hint}; known are {', '.join(KINDS)}; `kinds` says what "
                "others mean"
            )
        return found if found in self.taken else None


def by_local_seq(node: str, local_seq: int) -> str:
    """The place of a row that has a ``local_seq`` of its own."""
    return f"node {node}, local_seq {local_seq}"


@dataclass
class Found:
    """What the reader of a log tells beside its rows; whole when they have all been read."""

    skipped: Counter[str] = field(default_factory=Counter)  # run -> lines or records
    notes: dict[str, list[str]] = field(default_factory=dict)  # run -> what is doubtful
    place: Callable[[str, int], str] = by_local_seq  # what people call the place of a row
    rows: int = 0  # of the files before, if several are one log
    has_order: bool | None = None  # rows have a local_seq, or (False) their place is their order

    def note(self, run_id: str, text: str) -> None:
        """Something that had to be decided."""
        self.notes.setdefault(run_id, []).append(text)

    def note_order(self, has_order: bool, where: str) -> None:
        """Record whether rows have a ``local_seq``; a log in which only some do is refused."""
        if self.has_order not in (None, has_order):
            wrong = "has a local_seq, which rows before lack"
            if not has_order:
                wrong = "lacks a local_seq, which rows before have"
            raise UserError(f"{where} {wrong}: number all events of a log, or none")
        self.has_order = has_order


def by_line(node: str, local_seq: int) -> str:
    """The place of a row whose local_seq is the number of its line."""
    return f"line {local_seq}"


def by_row(node: str, local_seq: int) -> str:
    """The place of a row whose local_seq is its number in a table, from 0."""
    return f"row {local_seq}"
