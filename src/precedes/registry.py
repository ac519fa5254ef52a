"""Loader of protocols, files or package folders, which checks that they keep the contract."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final, cast

import numpy as np

from precedes import catalogue, compiled, contract, plain
from precedes.catalogue import names
from precedes.compiled import tiers
from precedes.contract import Capacity, Group
from precedes.errors import UserError, meant
from precedes.sources import PACKAGE, digest, imports

GUARANTEES: Final = ("causal", "probable", "none")
ASSUMPTIONS: Final = ("reliable", "unique", "fifo")
# How messages travel, for live groups: in ways that only the protocol knows; from their source
# alone; or over the trees of VCube.
ROUTES: Final = ("any", "direct", "tree")
# How a live group goes on without a member: with fresh state in the next view, which takes that
# every member delivers a prefix of each sender's messages; by ``on_crash``; or not at all.
ON_LOSS: Final = ("view", "crash", "end")
# Maximum time of ``allocate`` for a tiny group, which should take microseconds.
ALLOCATE_S: Final = 10.0
REQUIRED: Final = (contract.broadcast, contract.receive, contract.message_bytes)


class ContractError(UserError):
    """A protocol file does not export a name that the contract requires."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Protocol:
    """A protocol as the hosts see it."""

    name: str
    summary: str
    state: type
    parameters: type
    items: tuple[int, ...]
    message_fields: tuple[str, ...]
    guarantee: str
    assumes: frozenset[str]
    allocate: Callable[[Any, Group, Capacity], Any]
    extra: Callable[[Any], dict[str, float]]
    series: Callable[[Any], dict[str, list[float]]]
    sources: tuple[Path, ...]
    route: str = "any"
    missing: Callable[[Any, int], list[tuple[int, int]]] | None = None
    happened_before: Callable[[Any, int, int, int], bool] | None = None
    survives_crashes: bool = True
    on_loss: str = "end"
    in_views: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # parameters there
    is_plain: bool = False  # written in plain Python, which is never compiled
    network: ClassVar[str] = "links"

    def resolve_tier(self, tier: str) -> tiers.Tier:
        """The tier to run with, for a requested one."""
        choice = tiers.resolve(tier)
        if not self.is_plain:
            return choice
        if tier == "compiled":
            raise UserError(f"{self.name} is plain Python, which is not compiled: leave tier out")
        return "interpreted"

    def make_parameters(self, given: dict[str, Any]) -> Any:
        """The protocol's parameters from names and values; text is parsed as the field's type."""
        known = {field.name: field for field in dataclasses.fields(self.parameters)}
        values = {}
        for name, value in given.items():
            if name not in known:
                hint = f"it has {', '.join(known)}" if known else "it has none"
                raise UserError(
                    f"{self.name} has no parameter {name!r}{meant(name, known)}: {hint}"
                )
            values[name] = _read_value(name, value, known[name].default)
        return self.parameters(**values)

    def parameter_help(self) -> list[dict[str, Any]]:
        """Name, default and meaning of every parameter."""
        return [
            {"name": f.name, "default": f.default, "help": f.metadata.get("help", "")}
            for f in dataclasses.fields(self.parameters)
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachineProtocol(Protocol):
    """A protocol of two roles on a radio, whose machines are plain Python with state of their own.

    It has no state of arrays: ``state`` only identifies it.
    """

    make_host: Callable[..., Any]
    make_station: Callable[..., Any]
    air_bytes: Callable[[Any, Any], int]
    wire_bytes: Callable[[Any, Any], int]
    control_bytes: Callable[[Any], int]
    messages_in: Callable[[Any], int]  # application messages that a datagram carries
    network: ClassVar[str] = "radio"


def _read_value(name: str, value: Any, default: Any) -> Any:
    """Parse a parameter given as text or from a file, as the type of its default."""
    kind = type(default)
    wrong = UserError(f"{name} takes {_type_name(kind)}, not {value!r}")
    if kind is bool:
        if isinstance(value, str):
            value = {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
        if not isinstance(value, bool):
            raise wrong
        return value
    if isinstance(value, bool) or (kind is int and isinstance(value, float)):
        raise wrong
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise wrong from None


def _type_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")


def linked() -> tuple[str, ...]:
    """The names of protocols that run on links, in the compiled engine."""
    protocols = []
    for name in names():
        with contextlib.suppress(ContractError):  # of another package, and broken
            if load(name).network == "links":
                protocols.append(name)
    return tuple(protocols)


def load_live(name: str) -> Protocol:
    """``load`` for a live group; refuses protocols that need a radio or admit everything."""
    protocol = load(name)
    if protocol.network != "links":
        raise UserError(f"{name} runs on a simulated radio alone; elsewhere: {', '.join(linked())}")
    if not compiled.registered(contract.admits, protocol.state):
        raise ContractError(
            f"protocol {name!r} has no admits, so a live group would pass its handlers whatever a "
            "peer sends: register one, as 'precedes docs adding-a-protocol' shows"
        )
    return protocol


def load(name: str) -> Protocol:
    """The protocol of that name, or of a user's own file (``.py``) or package folder.

    Those are reloaded when they have changed, or a module next to them that they import.
    """
    return _load_own(Path(name).resolve()) if catalogue.is_path(name) else _load_name(name)


@functools.cache
def _load_name(name: str) -> Protocol:
    catalogue.check(name)
    if name in catalogue.ours() or catalogue.is_spec(name):
        return check(importlib.import_module(f"precedes.protocols.{name}"), name=name)
    entry, *others = catalogue.installed()[name]
    if others:
        packages = " and ".join(sorted(_package(one) for one in (entry, *others)))
        raise ContractError(f"{packages} both bring a protocol {name!r}: uninstall one")
    try:
        module = importlib.import_module(entry.module)
    except (Exception, SystemExit) as error:
        text = f"protocol {name!r} of {_package(entry)} cannot be imported: {error}"
        raise ContractError(text) from error
    return check(module, name=name, sources=_sources_of(module))


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _sources_of(module: ModuleType) -> tuple[Path, ...]:
    """The files of the package that a module belongs to: the sources of its machine code."""
    first = Path(module.__file__ or "").resolve()
    top = getattr(sys.modules[module.__name__.partition(".")[0]], "__file__", None)
    folder = Path(top or first).resolve().parent
    is_package = first.name == "__init__.py" or "." in module.__name__
    return (first, *sorted(set(folder.rglob("*.py")) - {first})) if is_package else (first,)


# File or folder -> the texts of its sources when they were loaded, and the protocol they make.
_own: Final[dict[Path, tuple[dict[Path, bytes], Protocol]]] = {}


def _load_own(path: Path) -> Protocol:
    """A protocol from a user's own file or folder; its text takes part in the cache key."""
    files = _files_of(path)
    if not files[0].is_file():
        raise UserError(f"there is no protocol file {files[0]}")
    if path in _own:
        texts, protocol = _own[path]
        if texts == _texts({*files, *protocol.sources}):
            return protocol
        _forget(set(protocol.sources) - set(files))
    # Without bytecode, which Python validates by size and second, not by content.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module = _import_own(path, files)
    finally:
        sys.dont_write_bytecode = writes
    sources = (*files, *_helpers(files))
    protocol = check(module, name=path.stem, sources=sources)
    _own[path] = _texts(set(sources)), protocol
    return protocol


def _files_of(path: Path) -> tuple[Path, ...]:
    """The file itself, or all files of a package folder, of which the first is the protocol."""
    if path.suffix == ".py":
        return (path,)
    first = path / "__init__.py"
    return (first, *sorted(set(path.rglob("*.py")) - {first}))


def _texts(sources: set[Path]) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in sources}


def _import_own(path: Path, files: tuple[Path, ...]) -> ModuleType:
    # The digest in the name keeps two versions apart within one process, with all their modules.
    module_name = f"precedes_file_{path.stem}_{digest(files)}"
    folder = [str(path)] if len(files) > 1 or files[0] != path else None
    spec = importlib.util.spec_from_file_location(
        module_name, files[0], submodule_search_locations=folder
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        exec(compile(files[0].read_bytes(), files[0], "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        for name in [name for name in sys.modules if name.startswith(module_name)]:
            del sys.modules[name]
        if isinstance(error, UserError):
            raise
        reason = "it ends the program" if isinstance(error, SystemExit) else error
        raise ContractError(f"{path}: cannot be imported: {reason}") from error
    return module


def _helpers(files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Modules next to the user's files that they import, directly or not: sources as well."""
    helpers: list[Path] = []
    unread = list(files)
    while unread:
        named = set(imports(ast.parse(unread.pop().read_bytes())))
        for name in sorted(named | {name.rpartition(".")[0] for name in named}):
            file = getattr(sys.modules.get(name), "__file__", None)
            helper = Path(file).resolve() if file else files[0]
            if helper not in (*files, *helpers) and _is_own_helper(helper, files[0]):
                helpers.append(helper)
                unread.append(helper)
    return tuple(helpers)


def _is_own_helper(helper: Path, path: Path) -> bool:
    """Return whether a module is the user's: in the folder of the file, not an installed one."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    places = [PACKAGE, *map(Path, installed)]
    return helper.is_relative_to(path.parent) and not any(map(helper.is_relative_to, places))


def _forget(helpers: set[Path]) -> None:
    """Unload these modules, so that the next import reads them again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve() in helpers:
            del sys.modules[name]


def check(
    module: ModuleType,
    *,
    name: str,
    sources: tuple[Path, ...] = (),
    allocate_s: float = ALLOCATE_S,
) -> Protocol:
    """The protocol that a module defines; ContractError if something is missing.

    An ``allocate`` that has not returned after ``allocate_s`` is refused.
    """

    def fail(what: str) -> ContractError:
        return ContractError(f"protocol {name!r} ({module.__file__}): {what}")

    summary = (module.__doc__ or "").strip().split("\n")[0]
    if not summary:
        raise fail("the file has no docstring; its first line is the protocol's summary")
    if getattr(module, "NETWORK", "links") == "radio":
        return _check_machines(module, name, summary, sources, fail)
    if plain.is_plain(module) and (what := plain.adapt(module)):
        raise fail(what)
    for export in ("State", "Parameters", "ITEMS", "MESSAGE_FIELDS", "GUARANTEE", "ASSUMES"):
        if not hasattr(module, export):
            raise fail(f"{export} is missing; see precedes.contract")
    if not callable(getattr(module, "allocate", None)):
        raise fail("allocate(parameters, group, capacity) is missing")
    if not dataclasses.is_dataclass(module.Parameters):
        raise fail("Parameters must be a dataclass whose fields all have defaults")
    for handler in REQUIRED:
        if not compiled.registered(handler, module.State):
            raise fail(f"no {handler.__name__} is registered for its State")
    on_loss = getattr(module, "ON_LOSS", "view" if module.GUARANTEE == "causal" else "end")
    if on_loss not in ON_LOSS:
        raise fail(f"ON_LOSS must be one of {', '.join(ON_LOSS)}, not {on_loss!r}")
    if module.GUARANTEE not in GUARANTEES:
        raise fail(f"GUARANTEE must be one of {', '.join(GUARANTEES)}, not {module.GUARANTEE!r}")
    if not set(module.ASSUMES) <= set(ASSUMPTIONS):
        raise fail(f"ASSUMES may name {', '.join(ASSUMPTIONS)}, not {sorted(module.ASSUMES)}")
    if not module.ITEMS or module.ITEMS[0] != contract.MESSAGE:
        raise fail("ITEMS[0] must be MESSAGE: tag 0 is a message")
    protocol = Protocol(
        name=name,
        summary=summary.rstrip("."),
        state=module.State,
        parameters=cast(type, module.Parameters),
        items=tuple(module.ITEMS),
        message_fields=tuple(module.MESSAGE_FIELDS),
        guarantee=module.GUARANTEE,
        assumes=frozenset(module.ASSUMES),
        allocate=module.allocate,
        extra=getattr(module, "extra", lambda state: {}),
        series=getattr(module, "series", lambda state: {}),
        sources=sources,
        route=getattr(module, "ROUTE", "any"),
        missing=getattr(module, "missing", None),
        happened_before=getattr(module, "happened_before", None),
        survives_crashes=getattr(module, "SURVIVES_CRASHES", True),
        on_loss=on_loss,
        in_views=getattr(module, "IN_VIEWS", {}),
        is_plain=plain.is_plain(module),
    )
    _check_state(protocol, fail, allocate_s)
    return protocol


def _check_machines(
    module: ModuleType,
    name: str,
    summary: str,
    sources: tuple[Path, ...],
    fail: Callable[[str], ContractError],
) -> MachineProtocol:
    """The protocol of a module whose roles run on a radio."""
    sizes = ("air_bytes", "wire_bytes", "control_bytes", "messages_in")
    functions = ("make_host", "make_station", *sizes)
    for export in ("Parameters", "GUARANTEE", "ASSUMES", *functions):
        if not hasattr(module, export):
            raise fail(f"{export} is missing; see precedes.protocols.mobile")
    return MachineProtocol(
        name=name,
        summary=summary.rstrip("."),
        state=cast(type, module.Parameters),
        parameters=cast(type, module.Parameters),
        items=(),
        message_fields=(),
        guarantee=module.GUARANTEE,
        assumes=frozenset(module.ASSUMES),
        allocate=lambda parameters, group, capacity: None,
        extra=lambda state: {},
        series=lambda state: {},
        sources=sources,
        **{function: getattr(module, function) for function in functions},
    )


def _check_state(
    protocol: Protocol, fail: Callable[[str], ContractError], allocate_s: float
) -> None:
    """Allocate a tiny state and check its fields."""
    if protocol.route not in ROUTES:
        raise fail(f"ROUTE must be one of {', '.join(ROUTES)}, not {protocol.route!r}")
    try:
        parameters = protocol.parameters()
    except TypeError as error:
        raise fail(f"Parameters must have a default for every field: {error}") from None
    capacity = Capacity(slots=3, reserve_bytes=1)
    group = Group(nodes=4, hosted=np.arange(4, dtype=np.int32), seed=1)
    state: Any = None
    failure: BaseException | None = None

    def allocate() -> None:
        nonlocal state, failure
        try:
            state = protocol.allocate(parameters, group, capacity)
        except BaseException as error:
            failure = error

    # In a thread, since nothing else bounds Python code in whatever thread loads a protocol; one
    # that never returns ends with the process.
    thread = threading.Thread(target=allocate, name="allocate", daemon=True)
    thread.start()
    thread.join(allocate_s)
    if thread.is_alive():
        raise fail(f"allocate has not returned after {allocate_s:g} s for 4 nodes: does it loop?")
    if failure is not None:
        raise fail(f"allocate(parameters, group, capacity) fails: {failure}") from failure
    if type(state) is not protocol.state:
        raise fail(f"allocate returns {type(state).__name__}, not its State")
    for name in _not_arrays(state):
        raise fail(
            f"the state's field {name!r} is not a NumPy array, an int, or a NamedTuple of them"
        )
    for name in protocol.message_fields:
        array = getattr(state, name, None)
        if not isinstance(array, np.ndarray) or array.shape[:1] != (capacity.slots,):
            raise fail(f"MESSAGE_FIELDS names {name!r}, which has not one row per slot")


def _not_arrays(state: Any) -> list[str]:
    """Fields that cannot be compiled; a state of plain Python (no NamedTuple) may hold anything."""
    if not isinstance(state, tuple):
        return []
    fields = []
    for name, value in zip(type(state)._fields, state, strict=True):  # type: ignore[attr-defined]
        if isinstance(value, tuple):
            fields += [f"{name}.{inner}" for inner in _not_arrays(value)]
        elif not isinstance(value, np.ndarray | int):
            fields.append(name)
    return fields
