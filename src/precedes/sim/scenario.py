"""A scenario: everything that determines a run, checked before anything starts."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from precedes import catalogue
from precedes.errors import UserError, meant
from precedes.model import DELAY_MS_MAX, NODES_MAX
from precedes.stores import Address, Place

# The names that a scenario file may use, by section; the first is the top level.
NEEDED: Final = {"protocol": 'protocol = "vector"', "nodes": "nodes = 20"}
TOP: Final = ("protocol", "nodes", "seed", "oracle", "horizon_s", "memory_max_bytes")
# The scope of a drawn delay: every packet, or once for each of these.
PER: Final = ("use", "link", "message", "node")
WORKLOAD: Final = ("kind", "rate", "messages", "duration_s", "skew", "gap_ms")
NETWORK: Final = (
    "delay",
    "per",
    "loss",
    "duplication",
    "fifo",
    "processing_ms",
    "transmission_ms",
    "bandwidth_bytes_per_s",
    "packet_bytes",
    "payload_bytes",
    "mtu_bytes",
)
FAULT_KINDS: Final = ("crash", "pause", "cut")


@dataclass(frozen=True)
class Fault:
    """A fault at a time, or after a number of packets.

    - ``crash``: ``node`` stops permanently, ``at_s`` or after its ``after_sends``-th packet; the
      others learn it after a delay drawn between the two ``detection_ms``;
    - ``pause``: ``node`` is suspended for ``for_s`` seconds; packets for it wait;
    - ``cut``: packets from ``nodes`` to ``others`` (and back) are lost for ``for_s`` seconds, or
      with ``holds`` wait for the end of the cut.
    """

    kind: str
    node: int = -1
    at_s: float = 0.0
    for_s: float = 0.0
    after_sends: int = 0
    detection_ms: tuple[float, float] = (0.0, 0.0)
    nodes: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    both_ways: bool = True
    holds: bool = False

    def __post_init__(self) -> None:
        _check_types(self)
        if len(self.detection_ms) != 2:
            raise UserError("detection_ms is a pair of delays, the smaller first")


@dataclass(frozen=True)
class Scenario:
    """One run of one protocol. Times in the unit their names end with; rates per second."""

    protocol: str
    nodes: int
    messages: int | None = None
    duration_s: float | None = None
    rate: float = 100.0  # broadcasts per second of the whole group
    workload: str = "poisson"
    skew: float = 0.0  # exponent of a Zipf law over senders; 0: uniform
    gap_ms: float = 1.0  # replay: a node's pause before an event of its own
    delay: str = "normal:100:20"
    per: str = "use"  # "use": drawn for every packet; "link": once for every link
    loss: float = 0.0
    duplication: float = 0.0
    fifo: bool = False
    processing_ms: float = 0.0
    transmission_ms: float = 0.0
    bandwidth_bytes_per_s: float = 0.0  # 0: unlimited
    packet_bytes: int = 20
    payload_bytes: int = 50
    mtu_bytes: int = 0  # 0: packets are never cut
    faults: tuple[Fault, ...] = ()
    seed: int = 1
    parameters: dict[str, Any] = field(default_factory=dict)
    oracle: bool = True
    horizon_s: float | None = None  # stop here even if not quiescent
    memory_max_bytes: int | None = None  # refuse to grow beyond this; None: the run's share

    def __post_init__(self) -> None:
        _check_types(self)
        _check_protocol(self.protocol)
        _check_group(self)
        _check_network(self)
        for number, fault in enumerate(self.faults):
            with _at_fault(number):
                _check_fault(fault, self.nodes)

    def replace(self, **changes: Any) -> Scenario:
        """The same scenario with some fields changed."""
        return dataclasses.replace(self, **changes)

    def echo(self) -> dict[str, Any]:
        """Every field, as it goes into results and traces."""
        return dataclasses.asdict(self)

    def unusual(self) -> dict[str, Any]:
        """The fields that differ from their defaults, so that a new field changes no digest."""
        usual = {item.name: item.default for item in dataclasses.fields(self)}
        return {name: value for name, value in self.echo().items() if value != usual[name]}


class LoadFields(TypedDict, total=False):
    """The fields of a scenario that make its load, without its protocol and the size of the group.

    For type checkers: ``Scenario`` has the defaults, and a test compares the two.
    """

    messages: int | None
    duration_s: float | None
    rate: float
    workload: str
    skew: float
    gap_ms: float
    delay: str
    per: str
    loss: float
    duplication: float
    fifo: bool
    processing_ms: float
    transmission_ms: float
    bandwidth_bytes_per_s: float
    packet_bytes: int
    payload_bytes: int
    mtu_bytes: int
    faults: Sequence[Fault]
    oracle: bool
    horizon_s: float | None
    memory_max_bytes: int | None


class RunFields(LoadFields, total=False):
    """The other fields."""

    seed: int
    parameters: dict[str, Any]


def _check_types(instance: Scenario | Fault) -> None:
    """Compare every field with its annotation: files and callers may pass anything."""
    for item in dataclasses.fields(instance):
        value = getattr(instance, item.name)
        names = str(item.type).split(" | ")
        if isinstance(value, list) and names[0].startswith("tuple["):
            value = tuple(value)
            object.__setattr__(instance, item.name, value)
        if "None" in names and value is None:
            continue
        kind = names[0].removeprefix("tuple[").split(",")[0].rstrip("]")
        values = value if names[0].startswith("tuple[") else (value,)
        fits = isinstance(values, tuple) and all(_fits(one, kind) for one in values)
        if not fits:
            expected = "a list of " if names[0].startswith("tuple[") else ""
            expected += (
                "a smaller number" if kind == "float" and _fits(value, "int") else _MEANING[kind]
            )
            raise at_key(item.name, f"{item.name} takes {expected}, not {value!r:.60}")
        if kind == "float":  # 50 and 50.0 are one scenario, also to a digest
            floats = tuple(map(float, values))
            object.__setattr__(instance, item.name, floats if value is values else floats[0])


_MEANING: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "dict[str": "a table",
    "Fault": "faults",
}


def _fits(value: Any, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "float":
        if isinstance(value, float):
            return math.isfinite(value)
        return _fits(value, "int") and abs(value) < 1e300  # it may be too large for a float
    return isinstance(value, {"str": str, "dict[str": dict, "Fault": Fault}[kind])


def _check_protocol(name: str) -> None:
    try:
        catalogue.check(name)
    except UserError as error:
        raise at_key("protocol", str(error)) from None


def _check_group(scenario: Scenario) -> None:
    if scenario.nodes < 2:
        raise at_key("nodes", f"a group has at least 2 nodes, not {scenario.nodes}")
    if scenario.nodes > NODES_MAX:
        text = f"at most {NODES_MAX} nodes can be simulated, not {scenario.nodes}"
        raise at_key("nodes", text)
    if scenario.rate <= 0:
        text = f"rate must be above 0 broadcasts per second, not {scenario.rate:g}"
        raise at_key("rate", text)
    _check_range(scenario, "rate", 1e-6, 1e9)
    if scenario.messages is not None and scenario.messages < 0:
        raise at_key("messages", f"messages must not be negative, but is {scenario.messages}")
    _check_range(scenario, "messages", 0, 10**12)
    if scenario.duration_s is not None and not 0 < scenario.duration_s <= 1e7:
        text = f"duration must be above 0 and at most 1e7 s, not {scenario.duration_s:g}"
        raise at_key("duration_s", text)
    _check_range(scenario, "skew", 0, 10)
    if not 0 <= scenario.seed < 1 << 63:
        raise at_key("seed", f"seed must be between 0 and 2^63 - 1, not {scenario.seed}")
    if scenario.horizon_s is not None and not 0 < scenario.horizon_s <= 1e7:
        text = f"horizon_s must be above 0 and at most 1e7, not {scenario.horizon_s:g}"
        raise at_key("horizon_s", text)


def _check_network(scenario: Scenario) -> None:
    for name in ("loss", "duplication"):
        value = getattr(scenario, name)
        if not 0 <= value < 1:
            raise at_key(name, f"{name} is a probability below 1, not {value:g}")
    for name in ("processing_ms", "transmission_ms", "bandwidth_bytes_per_s", "gap_ms"):
        value = getattr(scenario, name)
        if value < 0:
            raise at_key(name, f"{name} must not be negative, but is {value:g}")
    for name in ("processing_ms", "transmission_ms", "gap_ms"):
        _check_range(scenario, name, 0, DELAY_MS_MAX)
    for name in ("packet_bytes", "payload_bytes", "mtu_bytes"):
        value = getattr(scenario, name)
        if not 0 <= value <= 1 << 30:
            raise at_key(name, f"{name} must be between 0 and 2^30, not {value}")
    least = scenario.packet_bytes + scenario.payload_bytes
    if 0 < scenario.mtu_bytes < least:
        text = (
            f"an MTU of {scenario.mtu_bytes} bytes holds no message: packet_bytes and "
            f"payload_bytes alone are {least}; raise mtu_bytes, or use 0 for no limit"
        )
        raise at_key("mtu_bytes", text)
    speed = scenario.bandwidth_bytes_per_s
    if 0 < speed < (scenario.packet_bytes + scenario.payload_bytes + NODES_MAX) / 1e5:
        text = f"a bandwidth of {speed:g} bytes per second keeps a packet for more than a day"
        raise at_key("bandwidth_bytes_per_s", text)
    if scenario.per not in PER:
        raise at_key("per", f"per is one of {', '.join(PER)}, not {scenario.per!r:.40}")


def _check_range(scenario: Scenario, name: str, low: float, high: float) -> None:
    value = getattr(scenario, name)
    if value is not None and not low <= value <= high:
        raise at_key(name, f"{name} must be between {low:g} and {high:g}, not {value!r:.40}")


def _check_fault(fault: Fault, nodes: int) -> None:
    if fault.kind not in FAULT_KINDS:
        hint = meant(fault.kind, FAULT_KINDS)
        raise UserError(f"a fault is one of {', '.join(FAULT_KINDS)}, not {fault.kind!r}{hint}")
    members = (*fault.nodes, *fault.others) if fault.kind == "cut" else (fault.node,)
    for node in members:
        if not 0 <= node < nodes:
            raise UserError(f"a {fault.kind} names node {node}, but nodes are 0..{nodes - 1}")
    if fault.kind == "cut" and not (fault.nodes and fault.others):
        raise UserError("a cut needs both nodes and others: the two sides of the links")
    if fault.kind != "crash" and fault.for_s <= 0:
        raise UserError(f"a {fault.kind} needs for_s above 0, not {fault.for_s:g}")
    counts = 0 <= fault.after_sends <= 10**12
    if not 0 <= fault.at_s <= 1e7 or not fault.for_s <= 1e7 or not counts:
        raise UserError(f"a {fault.kind} has a time or count out of range")
    low, high = fault.detection_ms
    if not 0 <= low <= high <= DELAY_MS_MAX:
        raise UserError("detection_ms is a pair of delays, the smaller first")


def from_echo(values: Mapping[str, Any]) -> Scenario:
    """The scenario that ``Scenario.echo`` gave, also after a way through JSON or a result."""
    faults = []
    for fault in values["faults"]:
        lists: dict[str, Any] = {k: tuple(v) for k, v in fault.items() if isinstance(v, list)}
        faults.append(Fault(**{**fault, **lists}))
    names = [item.name for item in dataclasses.fields(Scenario)]
    return Scenario(**{**{name: values[name] for name in names}, "faults": tuple(faults)})


def from_toml(path: Place) -> Scenario:
    """The scenario in a file; an error names the file and, if known, the line.

    A ``[sweep]`` table, which makes the file an experiment, is ignored.
    """
    with reading(Address.of(path)) as table:
        return from_table({name: value for name, value in table.items() if name != "sweep"})


@contextlib.contextmanager
def reading(path: Address) -> Iterator[dict[str, Any]]:
    """Context manager for the tables of a TOML file: errors name the file and the line."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: {error}") from None
    try:
        yield table
    except UserError as error:
        line = _line_of(text, getattr(error, "key", None), getattr(error, "fault", None))
        raise UserError(f"{path}{line}: {error}") from None


def from_table(table: dict[str, Any]) -> Scenario:
    """The scenario that the tables of a file describe."""
    values: dict[str, Any] = {}
    sections = {"workload": WORKLOAD, "network": NETWORK}
    for name, value in table.items():
        if name in sections:
            _section(values, value, name, sections[name])
        elif name == "faults":
            rows = value if isinstance(value, list) else [value]
            values["faults"] = tuple(_fault(row, number) for number, row in enumerate(rows))
        elif name == "parameters" or name in TOP:
            values[name] = value
        else:
            raise _unknown(name, "a scenario", (*TOP, *sections, "parameters", "faults"))
    for needed, example in NEEDED.items():
        if needed not in values:
            raise UserError(f"{needed} is missing: add it at the top, as {example}")
    return Scenario(**values)


def _section(values: dict[str, Any], table: Any, section: str, known: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise at_key(section, f"{section} must be a table, [{section}]")
    for name, value in table.items():
        if name not in known:
            raise _unknown(name, f"[{section}]", known)
        values["workload" if name == "kind" else name] = value


def _fault(row: Any, number: int) -> Fault:
    with _at_fault(number):
        if not isinstance(row, dict):
            raise UserError(f"a fault is a table, [[faults]], not {row!r}")
        known = sorted(item.name for item in dataclasses.fields(Fault))
        for name in row:
            if name not in known:
                raise _unknown(name, "a fault", known)
        if "kind" not in row:
            raise UserError("a fault needs a kind")
        lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
        return Fault(**{**row, **lists})


def _unknown(name: str, table: str, known: Sequence[str]) -> UserError:
    hint = meant(name, known)
    return at_key(name, f"unknown name {name!r}{hint}; {table} has {', '.join(known)}")


def at_key(key: str, text: str) -> UserError:
    """An error at a name of the file."""
    error = UserError(text)
    error.key = key  # type: ignore[attr-defined]
    return error


@contextlib.contextmanager
def _at_fault(number: int) -> Iterator[None]:
    """Add the number of the fault to errors."""
    try:
        yield
    except UserError as error:
        error.fault = number  # type: ignore[attr-defined]
        error.key = getattr(error, "key", "faults")  # type: ignore[attr-defined]
        raise


def _line_of(text: str, key: str | None, fault: int | None) -> str:
    """The line of a name in a file, or in its n-th fault, as ``:LINE``; or nothing."""
    lines = text.split("\n")
    headers = [number for number, line in enumerate(lines) if line.strip() == "[[faults]]"]
    first = headers[fault] if fault is not None and fault < len(headers) else 0
    for number, line in enumerate(lines[first:], first + 1):
        if key is not None and line.split("=")[0].strip().strip('[]"') == key:
            return f":{number}"
    return ""
