"""Protocols in plain Python: one object for each process, with lists, sets and dicts.

A module with a class ``Process`` that derives from the one here is a protocol. Override
``broadcast`` and ``receive``, and other handlers as needed; request actions with ``send``,
``send_all``, ``deliver``, ``drop`` and ``set_timer``. It runs wherever a compiled protocol runs:
in the simulator, under the audit and in live groups, but interpreted only. ``adapt`` turns it into
a protocol of ``precedes.contract``.

Rules
    1. A process keeps its state in ``self``, and draws from ``self.random`` in its handlers.
    2. The fields of a message are set in ``broadcast`` and do not change afterwards: in a
       simulation all receivers share one object.
    3. A process has delivered its own message by broadcasting it.
    4. Each message that arrives is delivered or dropped once, at once or later. It can be sent on
       until then; ``keep`` makes that possible until ``release``.
"""

from __future__ import annotations

import functools
import inspect
import random
import traceback
import typing
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

import numpy as np

from precedes import compiled, contract
from precedes.contract import MESSAGE, NUMBER, RECORD, Capacity, Group, Host, grow
from precedes.errors import UserError
from precedes.model import EventKind

# Tags of items: a message, or a record as a header and the numbers that follow it.
DATA: Final = 0
BEGIN: Final = 1
WORD: Final = 2

# Maximum numbers of a record, and of the fields of a message in a live group; more is an error.
RECORD_NUMBERS_MAX: Final = 4000
FIELD_NUMBERS_MAX: Final = 512  # and two for each member
NUMBER_MAX: Final = 2**63 - 1


class Message:
    """A broadcast message.

    A protocol's own class annotates the fields that travel with it, with types as those of a
    record; ``source`` and ``sequence`` name the message.
    """

    source: int
    sequence: int  # from 1
    _slot: int
    _is_sent: bool

    def __init__(self, slot: int, source: int, sequence: int) -> None:
        self.__dict__.update(_slot=slot, source=source, sequence=sequence, _is_sent=False)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_sent:
            raise AttributeError(f"{name} of message {self} cannot change: it has been sent")
        self.__dict__[name] = value

    def __repr__(self) -> str:
        return f"{self.source}:{self.sequence}"


class Process:
    """One process; ``parameters`` are those of the protocol, ``seed`` is that of the group."""

    me: int
    nodes: int
    seed: int
    parameters: Any
    random: random.Random
    messages: ClassVar[type[Message]] = Message
    # Items other than messages: NamedTuples of integers, booleans, other such
    # tuples, and lists or tuples of one type of these, so annotated.
    records: ClassVar[tuple[type, ...]] = ()

    # Handlers -----------------------------------------------------------------------------------

    def init(self) -> None:
        """Set up the initial state; nothing can be sent yet."""

    def start(self) -> None:
        """The process begins: timers can be set here."""

    def broadcast(self, m: Any) -> None:
        """The application broadcasts a message: set its fields and send it."""
        raise NotImplementedError

    def receive(self, sender: int, packet: list[Any]) -> None:
        """A packet of messages and records has arrived."""
        raise NotImplementedError

    def on_timer(self, key: Any) -> None:
        """A timer has expired."""

    def on_crash(self, crashed: int) -> None:
        """The failure detector reports that a process has stopped for good."""

    def message_bytes(self, m: Any) -> int:
        """Bytes that the protocol adds to the payload of a message on the wire."""
        return 8

    def admits(self, sender: int, item: Any) -> bool:
        """For live groups, which need one: return whether a correct process may send this now.

        It is called with whatever a peer sends. If it fails with an IndexError, TypeError or
        ValueError, the item is refused and the process continues.
        """
        raise NotImplementedError

    def extra(self) -> dict[str, int]:
        """The protocol's counters; the sums over all processes are part of a result."""
        return {}

    # Actions -------------------------------------------------------------------------------------

    def send(self, target: int, *items: Any) -> None:
        """Send a packet of messages and records to one process."""
        body = [number for item in items for number in self._encoded(item)]
        self._effects += (contract.SEND, target, len(body) // 2, *body)

    def send_all(self, item: Any) -> None:
        """Send a message or a record to every other process, in a packet of its own."""
        if isinstance(item, Message):
            self._effects += (contract.SEND_ALL, DATA, item._slot)
        else:
            for other in range(self.nodes):
                if other != self.me:
                    self.send(other, item)

    def deliver(self, m: Message) -> None:
        """Hand a message that has arrived to the application."""
        self._effects += (contract.DELIVER, m._slot)

    def drop(self, m: Message) -> None:
        """Discard a message that has arrived, for instance a duplicate."""
        self._effects += (contract.DROP, m._slot)

    def keep(self, m: Message) -> None:
        """Keep a message that may have to be sent again, after it was broadcast or delivered."""
        self._effects += (contract.RETAIN, m._slot, 0)

    def release(self, m: Message) -> None:
        """Release a message that was kept."""
        self._effects += (contract.RELEASE, m._slot)

    def set_timer(self, delay_ns: int, key: Any) -> None:
        """Have ``on_timer`` called with this key after the delay; a timer cannot be cancelled."""
        self._serial += 1
        self._timers[self._serial] = key
        self._effects += (contract.SET_TIMER, self._serial, delay_ns)

    def note(self, kind: EventKind, m: Message) -> None:
        """Record an event of the protocol's own about a message in the trace."""
        self._effects += (contract.NOTE, int(kind), m._slot)

    @property
    def now_ns(self) -> int:
        """The host's clock."""
        return int(self._host.registers[contract.NOW_NS])

    @property
    def window(self) -> int:
        """Maximum messages of a process that some live member may lack, for ``admits``."""
        return int(self._host.registers[contract.WINDOW])

    # Adapter to the contract ---------------------------------------------------------------------

    def __init__(self, parameters: Any, me: int, group: Group) -> None:
        self.parameters, self.me = parameters, me
        self.nodes, self.seed = group.nodes, group.seed
        self.random = _Random(self)
        self._effects: list[int] = []
        self._timers: dict[int, Any] = {}
        self._serial = 0
        self._host: Any = None
        self.init()

    def _encoded(self, item: Any) -> list[int]:
        """The items of a packet that carry this."""
        if isinstance(item, Message):
            return [DATA, item._slot]
        if type(item) not in self.records:
            raise TypeError(f"{type(item).__name__} is not among the protocol's records")
        words = [self.records.index(type(item)), *_numbers(item)]
        if len(words) > RECORD_NUMBERS_MAX:
            raise ValueError(
                f"a record of {len(words)} numbers; the maximum is {RECORD_NUMBERS_MAX}"
            )
        return [BEGIN, len(words), *(part for word in words for part in (WORD, word))]


class _Random(random.Random):
    """Random numbers of the host, the same for a protocol that is compiled."""

    def __init__(self, process: Process) -> None:
        super().__init__(0)
        self._process = process

    def getrandbits(self, k: int) -> int:
        """This number of random bits, up to 64 of them from one draw."""
        bits = 0
        for _ in range(-(-k // 64)):
            bits = bits << 64 | int(self._process._host.random_bits())
        return bits >> (-k % 64)

    def random(self) -> float:
        """A number from 0 up to, but not including, 1."""
        return self.getrandbits(53) / (1 << 53)


def _numbers(value: Any) -> list[int]:
    """A value as integers; the length of a sequence comes before its elements."""
    if isinstance(value, int):
        if not -NUMBER_MAX <= value <= NUMBER_MAX:
            raise OverflowError(f"{value} does not fit into 64 bits")
        return [int(value)]
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{value!r} is neither a whole number nor a list or tuple")
    numbers = [] if hasattr(value, "_fields") else [len(value)]
    for part in value:
        numbers += _numbers(part)
    return numbers


def _value(kind: Any, numbers: list[int]) -> Any:
    """The reverse for a type; pops its numbers from the end of a reversed list."""
    if kind in (int, bool):
        return kind(numbers.pop())
    if hasattr(kind, "_fields"):
        return kind(*(_value(inner, numbers) for inner in _hints(kind).values()))
    count = numbers.pop()
    if not 0 <= count <= len(numbers):
        raise ValueError("a length that is none")
    inner, container = typing.get_args(kind)[0], typing.get_origin(kind)
    return container(_value(inner, numbers) for _ in range(count))


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    """Names and types of the fields of a message other than its name and its payload."""
    return {name: type for name, type in _hints(kind).items() if name not in _hints(Message)}


def _record(kinds: tuple[type, ...], words: list[int]) -> Any:
    """A record from its numbers; IndexError, TypeError or ValueError if they form none."""
    numbers = words[::-1]
    kind = numbers.pop()
    if not 0 <= kind < len(kinds):
        raise ValueError("an unknown kind of record")
    record = _value(kinds[kind], numbers)
    if numbers:
        raise ValueError("numbers behind the record")
    return record


class State:
    """The processes that a host runs, and the messages that they know."""

    def __init__(
        self, module: ModuleType, parameters: Any, group: Group, capacity: Capacity
    ) -> None:
        self.process: list[Process] = [
            module.Process(parameters, int(node), group) for node in group.hosted
        ]
        self.kind: Any = module.Process.messages
        self.message: dict[int, Any] = {}
        self.is_live = group.window > 0
        # Of a live member: the fields of messages as they travel.
        travels = self.is_live and bool(_fields(self.kind))
        width = 2 * (FIELD_NUMBERS_MAX + 2 * group.nodes) if travels else 0
        self.wire = np.zeros((capacity.slots, width), np.int32)
        self.words: list[int] = []  # of a record whose items are being admitted,
        self.words_left = 0  # and the number of those still to come

    def grown(self, larger: State) -> State:
        """The same with more room."""
        self.wire = grow(self.wire, larger.wire)
        return self

    def at(self, slot: int, host: Host) -> Any:
        """The message in a slot."""
        source = int(host.name[2 * slot + contract.SOURCE])
        sequence = int(host.name[2 * slot + contract.SEQUENCE])
        m = self.message.get(slot)
        if m is None or m.sequence != sequence or m.source != source:
            m = self.message[slot] = self.kind(slot, source, sequence)
            if self.is_live:
                numbers = self.wire[slot].view(np.int64)[::-1].tolist()
                for name, kind in _fields(self.kind).items():
                    setattr(m, name, _value(kind, numbers))
                m.__dict__["_is_sent"] = True
        return m

    def seal(self, slot: int, m: Any) -> None:
        """Fix the fields of a message that has been broadcast."""
        m.__dict__["_is_sent"] = True
        if not self.is_live:
            return
        unknown = vars(m).keys() - _hints(self.kind).keys()
        if unknown:
            raise TypeError(f"m.{min(unknown)} cannot travel: annotate it in the class of messages")
        numbers = [part for name in _fields(self.kind) for part in _numbers(getattr(m, name))]
        row = self.wire[slot].view(np.int64)
        if len(numbers) > row.size:
            raise ValueError(f"a message with {len(numbers)} numbers; the maximum is {row.size}")
        row[: len(numbers)] = numbers


def _run(state: State, here: int, host: Host, handler: str, *arguments: Any) -> None:
    """Call a handler and pass on its effects."""
    process = state.process[here]
    process._host, process._effects = host, []
    try:
        getattr(process, handler)(*arguments)
        if handler == "broadcast":
            state.seal(arguments[0]._slot, arguments[0])
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [one for one in frames if one.filename == inspect.getfile(type(process))]
        where = (own or frames)[-1]
        raise UserError(
            f"{handler} of process {process.me} failed: {type(error).__name__}: {error} "
            f"({where.filename}, line {where.lineno})"
        ) from error
    begin = int(host.registers[contract.LENGTH])
    end = begin + len(process._effects)
    if end + 4 > host.effects.size:  # a host may add one of its own
        host.registers[contract.OVERFLOW] = 1
        return
    host.effects[begin:end] = process._effects
    host.registers[contract.LENGTH] = end


def _start(state: State, here: int, host: Host) -> None:
    _run(state, here, host, "start")


def _broadcast(state: State, here: int, slot: int, host: Host) -> None:
    source, sequence = int(host.source_of(slot)), int(host.sequence_of(slot))
    m = state.message[slot] = state.kind(slot, source, sequence)
    _run(state, here, host, "broadcast", m)


def _receive(state: State, here: int, sender: int, inbox: Any, count: int, host: Host) -> None:
    packet: list[Any] = []
    numbers = inbox[: 2 * count].tolist()
    for i, tag in enumerate(numbers[::2]):
        value = numbers[2 * i + 1]
        if tag == DATA:
            packet.append(state.at(value, host))
        elif tag == BEGIN:
            body = numbers[2 * i + 2 : 2 * (i + value) + 2]
            # A peer may have sent half a record, which no check has seen.
            if body[::2] == [WORD] * value:
                packet.append(_record(state.process[here].records, body[1::2]))
    _run(state, here, host, "receive", int(sender), packet)


def _on_timer(state: State, here: int, key: int, host: Host) -> None:
    _run(state, here, host, "on_timer", state.process[here]._timers.pop(int(key)))


def _on_crash(state: State, here: int, crashed: int, host: Host) -> None:
    _run(state, here, host, "on_crash", int(crashed))


def _message_bytes(state: State, slot: int) -> int:
    return int(state.process[0].message_bytes(state.message[slot]))


def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    """Items are checked one after the other, a record with the last of its numbers.

    Nothing of a packet that was refused halfway reaches the next one: no correct process begins a
    packet with a WORD.
    """
    process = state.process[here]
    process._host = host
    if tag == BEGIN:
        state.words, state.words_left = [], int(value)
        return 0 < value <= RECORD_NUMBERS_MAX
    try:
        if tag == DATA:
            state.words_left = 0
            return bool(process.admits(int(sender), state.at(int(value), host)))
        if state.words_left == 0:
            return False
        state.words.append(int(value))
        state.words_left -= 1
        if state.words_left:
            return True
        return bool(process.admits(int(sender), _record(process.records, state.words)))
    except (IndexError, TypeError, ValueError):
        if tag == DATA:
            state.message.pop(int(value), None)
        return False


@dataclass(frozen=True)
class NoParameters:
    """A protocol without parameters."""


def is_plain(module: ModuleType) -> bool:
    """Return whether a module defines a protocol in plain Python."""
    kind = getattr(module, "Process", None)
    return isinstance(kind, type) and issubclass(kind, Process)


def adapt(module: Any) -> str | None:
    """Add what the contract requires to a module with a ``Process``; return what it lacks."""
    process = module.Process
    for method in ("broadcast", "receive"):
        if getattr(process, method) is getattr(Process, method):
            return f"its Process has no {method}"
    if getattr(getattr(module, "State", None), "__module__", "") == module.__name__:
        return None  # done before; a State of another module may have been imported with *
    own = type("State", (State,), {"__module__": module.__name__})
    bodies: dict[Any, Any] = {
        contract.broadcast: _broadcast,
        contract.receive: _receive,
        contract.on_timer: _on_timer,
        contract.on_crash: _on_crash,
        contract.message_bytes: _message_bytes,
    }
    if process.start is not Process.start:
        bodies[contract.start] = _start
    if process.admits is not Process.admits:
        bodies[contract.admits] = _admits
    for handler, body in bodies.items():
        compiled.register(handler, own)(body)
    module.State = own
    module.ITEMS = (MESSAGE, RECORD, NUMBER)
    module.MESSAGE_FIELDS = ("wire",)
    module.Parameters = getattr(module, "Parameters", NoParameters)
    module.ASSUMES = frozenset(getattr(module, "ASSUMES", ()))
    module.allocate = functools.partial(own, module)
    module.extra = _extra
    return None


def _extra(state: State) -> dict[str, float]:
    """The sums of the processes' counters."""
    sums: dict[str, float] = {}
    for process in state.process:
        for name, value in process.extra().items():
            sums[name] = sums.get(name, 0) + value
    return sums
