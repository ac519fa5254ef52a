"""Partial results of an audit, so that the same command resumes after it was stopped.

A work folder (a path, or the address of one in a store) holds ``plan.json``: the logs with their
versions, the options, and the version of the code. Each run has a folder of its own, by number:

    ranges.json               the ranges of nodes, which a resumption keeps on any machine
    order, a/, prune/, table, b/    parts (``dump_part``), each whole or not there

Parts are written aside and then put in place. A damaged part is made again. If the logs, the
options or the code differ from the plan, the folder is refused: its parts are of
another audit. A lease gives it to one process at a time.
"""

from __future__ import annotations

import contextlib
import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, files
from precedes.audit import judge, order, pasts, table
from precedes.audit.judge import Facts, Judged
from precedes.audit.order import Order
from precedes.audit.pasts import Pasts
from precedes.audit.stages import Runner, Span
from precedes.audit.table import Places, Pruned, Table
from precedes.errors import UserError
from precedes.stores import Address, Lease, Place, StoreError, lease
from precedes.trace import arrays
from precedes.trace.rows import Rows

Part = TypeVar("Part", bound=tuple[Any, ...])

PLAN: Final = "plan.json"
RANGES: Final = "ranges.json"
FOLDERS: Final = ("a", "a-again", "prune", "b")
LEFT_BY_A_LEASE: Final = (".lock", ".lease")


def code_version() -> str:
    """A version that changes when parts may come out differently."""
    entries = (order.COLLECT, pasts.FIND_PASTS, table.PRUNE, table.CYCLES, judge.JUDGE)
    paths = {path for entry in entries for path in entry.parts(None, ())}
    return f"{arrays.MAGIC.decode()} {compiled.sources_digest(tuple(sorted(paths)))}"


def input_version(place: Place) -> str:
    """A version that changes with a log, a file or a folder of them."""
    address = Address.of(place)
    if address.is_folder():
        rows = [entry for entry in address.entries(deep=True) if not entry.name.startswith(".")]
        return json.dumps([[row.name, row.size_bytes, row.mtime_ns] for row in rows])
    try:
        return address.version()
    except FileNotFoundError:
        raise UserError(f"there is no log {address}: check the path") from None


class Work:
    """An open work folder."""

    def __init__(self, folder: Address, held: Lease) -> None:
        self._folder = folder
        self._lease = held

    def run(self, name: str) -> PartStore:
        """The folder of the parts of one run."""
        return PartStore(self._folder / name, self._lease)


@contextlib.contextmanager
def open_work(place: Place, plan: Mapping[str, Any], *, fresh: bool) -> Iterator[Work]:
    """Open a work folder for this plan; ``fresh`` deletes the parts of another."""
    folder = Address.of(place)
    with _errors_as_advice(folder):
        folder.make_folder()
        with lease(folder) as held:
            names = [name for name in folder.names() if name not in LEFT_BY_A_LEASE]
            if names and PLAN not in names:
                raise UserError(
                    f"{folder} holds other files than an audit's: name a new folder for `work`"
                )
            if names and fresh:
                _clear(folder, names)
            elif names:
                _compare(folder, _read_plan(folder), plan)
            held.check()
            (folder / PLAN).put(json.dumps(plan, indent=2, sort_keys=True).encode())
            yield Work(folder, held)


def _clear(folder: Address, names: Sequence[str]) -> None:
    for name in sorted(names, key=lambda name: name != PLAN, reverse=True):
        if (folder / name).is_folder():
            (folder / name).remove_folder()
        else:
            (folder / name).remove()


def _read_plan(folder: Address) -> dict[str, Any]:
    try:
        plan = json.loads((folder / PLAN).read_bytes())
    except ValueError:
        plan = None
    if not isinstance(plan, dict):
        raise UserError(f"{folder / PLAN} is damaged: `fresh` starts over")
    return plan


def _compare(folder: Address, existing: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Raise unless the folder has this plan."""
    wanted = json.loads(json.dumps(plan))
    if existing == wanted:
        return
    reason = "was begun with other options"
    if existing.get("code") != wanted["code"]:
        reason = "was begun by another version of precedes"
    elif existing.get("inputs") != wanted["inputs"]:
        reason = "is of other logs"
        before = dict(existing.get("inputs") or [])
        changed = [
            name for name, version in wanted["inputs"] if before.get(name, version) != version
        ]
        if changed and set(before) == {name for name, _ in wanted["inputs"]}:
            reason = f"was begun before {changed[0]} changed"
    raise UserError(f"the audit in {folder} {reason}: `fresh` starts over")


@contextlib.contextmanager
def _errors_as_advice(folder: Address) -> Iterator[None]:
    """Turn errors of the machine's own files into UserErrors that say what to do."""
    try:
        yield
    except (UserError, NotImplementedError):
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"cannot keep parts in {folder}: {reason}; choose another folder for `work`"
        ) from None


def dump_part(part: tuple[Any, ...]) -> bytes:
    """Serialise a named tuple of arrays; equal ones give equal bytes."""
    columns = part._asdict()  # type: ignore[attr-defined]
    return arrays.dump(columns, {"kind": type(part).__name__})


def _part(kind: type[Part], content: Any, *, check: bool) -> Part:
    columns, about = arrays.parse(content, check=check)
    if about["kind"] != kind.__name__:
        raise arrays.Damaged("it is of another kind")
    return kind(**columns)


class PartStore:
    """The parts of one run, by name.

    ``tidy`` removes files that killed processes left, which concurrent tasks must not.
    """

    def __init__(self, folder: Address, held: Lease | None = None, *, tidy: bool = True) -> None:
        self.folder = folder
        self._lease = held
        if not tidy:
            return
        with _errors_as_advice(folder):
            for inside in (folder, *(folder / name for name in FOLDERS)):
                inside.make_folder()
                # Unfinished files of a killed process; those of stores are not here.
                for left in files.asides_in(inside.local) if inside.is_local else ():
                    left.unlink(missing_ok=True)

    def ranges(self, make: Callable[[], list[Span]]) -> list[Span]:
        """The ranges that were chosen first."""
        file = self.folder / RANGES
        with _errors_as_advice(self.folder):
            if file.is_file():
                with contextlib.suppress(ValueError):
                    return [(first, last) for first, last in json.loads(file.read_bytes())]
            made = make()
            self.put(RANGES, json.dumps(made).encode())
            return made

    def put(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        if self._lease is not None:
            self._lease.check()
        with _errors_as_advice(self.folder):
            (self.folder / name).put(content)

    def load(self, name: str, kind: type[Part], *, check: bool = True) -> Part | None:
        """A part, if it exists whole; on this machine it is mapped, not read."""
        file = self.folder / name
        try:
            if not file.is_local:
                return _part(kind, bytearray(file.read_bytes()), check=check)
            with file.open() as opened:
                # Copy-on-write, since compiled code treats read-only arrays as another type.
                mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
            return _part(kind, mapped, check=check)
        except (FileNotFoundError, arrays.Damaged, TypeError, ValueError):
            return None

    def save(self, name: str, part: Part) -> Part:
        """Store a part; return it as stored."""
        self.put(name, dump_part(part))
        return self.load(name, type(part), check=False) or part

    def keep(self, name: str, kind: type[Part], make: Callable[[], Part]) -> Part:
        """The part of this name, made if it does not exist."""
        part = self.load(name, kind)
        return self.save(name, make()) if part is None else part


class Kept(Runner):
    """A runner that stores parts: those that exist whole are not made again."""

    def __init__(self, store: PartStore, on_rows: Callable[[int], None] | None = None) -> None:
        super().__init__(on_rows=on_rows)
        self._store = store
        self._passes = 0

    def order(self, rows: Rows) -> Order:
        """See ``Runner``."""
        return self._store.keep("order", Order, lambda: super(Kept, self).order(rows))

    def find_pasts(
        self, rows: Rows, spans: Sequence[Span], order: Order, bound: NDArray[np.int64]
    ) -> Sequence[Pasts]:
        """See ``Runner``."""
        self._passes += 1
        folder = "a" if self._passes == 1 else "a-again"
        make = super().find_pasts
        return [
            self._found(folder, Pasts, rows, span)
            or self._store.save(f"{folder}/{name_of(span)}", *make(rows, [span], order, bound))
            for span in spans
        ]

    def prune(
        self, pasts: Sequence[Pasts], places: Places, prefixes: NDArray[np.int32]
    ) -> Sequence[Pruned]:
        """See ``Runner``."""
        names = [f"prune/{name_of(part.span.tolist())}" for part in pasts]
        make = super().prune
        return [
            self._store.load(name, Pruned)
            or self._store.save(name, *make([part], places, prefixes))
            for name, part in zip(names, pasts, strict=True)
        ]

    def table(self, make: Callable[[], Table]) -> Table:
        """See ``Runner``."""
        return self._store.keep("table", Table, make)

    def judge(
        self,
        rows: Rows,
        spans: Sequence[Span],
        table: Table,
        facts: Facts,
        violations_max: int,
    ) -> Sequence[Judged]:
        """See ``Runner``."""
        make = super().judge
        return [
            self._found("b", Judged, rows, span)
            or self._store.save(
                f"b/{name_of(span)}", *make(rows, [span], table, facts, violations_max)
            )
            for span in spans
        ]

    def _found(self, folder: str, kind: type[Part], rows: Rows, span: Span) -> Part | None:
        """An existing part of a range, whose rows need not be read."""
        part = self._store.load(f"{folder}/{name_of(span)}", kind)
        if part is not None and self._on_rows is not None:
            self._on_rows(int(rows.counts[span[0] : span[1]].sum()))
        return part


def name_of(span: Sequence[int]) -> str:
    """The name of the part of a range, on any machine."""
    return f"{span[0]}-{span[1]}"


__all__ = [
    "Kept",
    "Part",
    "PartStore",
    "StoreError",
    "Work",
    "code_version",
    "dump_part",
    "input_version",
    "name_of",
    "open_work",
]
