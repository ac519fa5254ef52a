"""Options for reading a log, and notes of its reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import unquote

from precedes.errors import UserError, meant
from precedes.stores import Address
from precedes.trace.rows import JUDGED, KINDS

ANY: Final = "*"
IGNORE: Final = "ignore"
PICTURED: Final = ("receive", "discard")

# The columns of a table, under the names that --columns maps others to.
COLUMNS: Final = (
    *("run_id", "node", "local_seq", "time_us", "kind", "message", "source", "seq"),
    "text",  # for a picture only
)

# Columns that name the receivers of a message; without them, it goes to all.
RECEIVERS: Final = "to"

ONE_RUN: Final = "0"  # name of the run in a log without run ids
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def refuse_receivers(present: Iterable[str], *, title: str) -> None:
    """Raise if a table names receivers: the audit would count the others as lacking the message."""
    if RECEIVERS in present:
        raise UserError(
            f"{title} has a column {RECEIVERS!r}, and messages to some nodes alone cannot be "
            "judged: leave it out if every message goes to all nodes"
        )


def refuse_twins(present: Iterable[str], chosen: Iterable[str], *, title: str) -> None:
    """Raise if a column to be read occurs twice."""
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
    """The mapping of a foreign log to the common rows; each format uses the options it needs."""

    parser: str | None = None  # shiviz: the expression of an event
    delimiter: str | None = None  # shiviz: the separator of runs; csv: of cells
    columns: Mapping[str, str] = field(default_factory=dict)  # ours -> the table's
    kinds: Mapping[str, str] = field(default_factory=dict)  # the log's -> ours, or IGNORE
    node_by: tuple[str, ...] = ()  # otel: the attributes that make a node
    complete: bool = False  # the log ended by itself: undelivered messages are lost
    pictured: bool = False  # arrivals and drops are read too, which no verdict depends on
    drawn: bool = False  # rows are those of a picture, ``schema.DRAWN``
    folders: Mapping[str, str | None] = field(default_factory=dict)  # columns that the path names

    def __post_init__(self) -> None:
        """Raise UserError for options that no format accepts."""
        for name in self.columns:
            if name not in COLUMNS:
                raise UserError(
                    f"`columns` names {name!r}{meant(name, COLUMNS)}: it takes {', '.join(COLUMNS)}"
                )
        for kind in self.kinds.values():
            if kind not in (*self.kinds_read, IGNORE):
                known = (*self.kinds_read, IGNORE)
                raise UserError(
                    f"`kinds` names {kind!r}{meant(kind, known)}: it takes {', '.join(known)}"
                )

    @classmethod
    def from_texts(
        cls, *, columns: Iterable[str] = (), kinds: Iterable[str] = (), **others: Any
    ) -> Self:
        """A dialect whose columns and kinds are texts like ``OURS=THEIRS,OURS=THEIRS``."""
        theirs: dict[str, str] = {}
        for name, column in _renamed(columns, "columns"):
            if theirs.setdefault(name, column) != column:
                raise UserError(f"`columns` names two for {name}: choose one")
        ours: dict[str, str] = {}
        for name, kind in _renamed(kinds, "kinds"):
            if ours.setdefault(kind, name) != name:
                raise UserError(f"`kinds` maps {kind!r} to {ours[kind]} and {name}: choose one")
        return cls(columns=theirs, kinds=ours, **others)

    @property
    def kinds_read(self) -> tuple[str, ...]:
        """The kinds whose rows are read."""
        return (*JUDGED, *PICTURED) if self.pictured else (*JUDGED,)

    @property
    def one_run(self) -> str:
        """Name of the run of rows without one."""
        return self.folders.get(self.key("run_id")) or ONE_RUN

    def key(self, name: str) -> str:
        """The log's name of one of our columns."""
        return self.columns.get(name, name)

    def at(self, log: Address) -> Dialect:
        """The same for a file, whose folders may name columns."""
        return replace(self, folders=folder_columns(log))

    def kind_of(self, text: str) -> str | None:
        """Our name of a kind, None if its rows are ignored; ValueError if it is unknown."""
        kind = self.kinds.get(text) or (text if text in KINDS else self.kinds.get(ANY))
        if kind is None:
            hint = meant(text, [*self.kinds, *KINDS])
            raise ValueError(
                f"unknown kind {text!r}{hint}; known are {', '.join(KINDS)}; `kinds` maps others"
            )
        return kind if kind in self.kinds_read else None


def _renamed(texts: Iterable[str], argument: str) -> Iterator[tuple[str, str]]:
    for part in (part for text in texts for part in text.split(",")):
        ours, _, theirs = part.partition("=")
        if not ours or not theirs:
            raise UserError(f"`{argument}` takes OURS=THEIRS, not {part!r}")
        yield ours.strip(), theirs.strip()


def by_local_seq(node: str, local_seq: int) -> str:
    """The place of a row that has a ``local_seq`` of its own."""
    return f"node {node}, local_seq {local_seq}"


@dataclass
class Notes:
    """Notes of a log's reader; complete when all rows have been read."""

    skipped: Counter[str] = field(default_factory=Counter)  # run -> lines or records
    doubts: dict[str, list[str]] = field(default_factory=dict)  # by run
    place: Callable[[str, int], str] = by_local_seq  # describes the place of a row
    rows: int = 0  # of the files before, if several are one log
    has_order: bool | None = None  # rows have a local_seq, or (False) the order of lines

    def note(self, run_id: str, text: str) -> None:
        """Add a note about a decision of the reader."""
        self.doubts.setdefault(run_id, []).append(text)

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
