"""The contract between a protocol and its host.

A **protocol** is one file: a state and handlers that change only that state and tell the host
what to do. A **host** (the simulator, a live node) owns time, randomness, the network, payloads,
message names, timers and disks. The handlers run compiled or interpreted, many processes or one.

Words
    node     a process of the group, named 0..N-1
    here     the row of the state that belongs to the process a handler runs for; in the
             simulator row and node are the same, a live node hosts row 0 alone
    slot     a message, as a small number; ``source_of`` and ``sequence_of`` name it, the state's
             message fields hold what travels with it, the host keeps its payload
    item     a (tag, value) pair; a packet is a list of items. The protocol's ``ITEMS`` say what
             a tag carries: a whole message, a reference to one, a number, or the number of items
             that follow, from which no MTU may part it. Tag 0 is a message

Handlers (functions of these names, each under ``@handler(State)``)
    broadcast(state, here, slot, host)                fill the slot's message fields, send it
    receive(state, here, sender, inbox, count, host)  a packet of ``count`` items has arrived:
                                                      ``inbox[2 * i]`` and ``inbox[2 * i + 1]``
    message_bytes(state, slot)                        size of the message's own header on the wire
    start(state, here, host)                          optional: the process begins
    on_timer(state, here, key, host)                  optional: a timer set here has expired
    on_crash(state, here, crashed, host)              optional: the failure detector reports a crash
    expect(state, here)                               optional: prefetch what ``receive`` reads
                                                      first
    admits(state, here, sender, tag, value, host)     for live groups: whether a correct process may
                                                      send this item. Handlers trust an index or a
                                                      count, as a simulation may; a live host calls
                                                      this first, and rejects protocols without it

Rules
    1. A handler reads nothing but its arguments and keeps nothing but ``state``. It allocates
       nothing, so that it compiles without reference counts.
    2. A message's fields never change once it has been sent: all receivers in a simulation share
       one copy, live ones get their own.
    3. A node has delivered its own message by broadcasting it; ``deliver`` is for the others.
    4. Every MESSAGE item that arrives is one *reference*, handed to the receiver, which ends it
       with ``deliver`` or ``drop``, at once or later; ``keep`` takes one more, for a message that
       may have to be sent again. ``retain`` takes one that does not count as pending, for a
       message kept only in case it is needed, and ``release`` ends it. The host reuses a slot
       when its last reference has ended.
    5. A handler never runs out of room: what may grow with the run is reserved
       (``parts.pool.reserve``), and takes memory as it is used. The host ends a run that comes to
       the end of a reserve, or to EFFECTS_WORDS in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

# Effects of one call of a handler: address space, of which the first pages alone are used.
EFFECTS_WORDS: Final = 1 << 24

# The meaning of an item's value.
MESSAGE: Final = 0  # a slot whose fields and payload travel
REFERENCE: Final = 1  # a slot of which only the name (source, sequence) travels
NUMBER: Final = 2  # an integer of 64 bits
RECORD: Final = 3  # number of NUMBER items that follow it and stay in the same packet

# Effects, as written into ``host.effects``: the code, then its arguments.
DELIVER: Final = 1  # slot
DROP: Final = 2  # slot
KEEP: Final = 3  # slot
RELEASE: Final = 4  # slot: a retained reference, or the host's own to a message being broadcast
SEND_ALL: Final = 5  # tag, value
SEND: Final = 6  # target, count, then count times tag, value
SET_TIMER: Final = 7  # key, delay in ns
NOTE: Final = 8  # event kind, slot
RETAIN: Final = 9  # slot, 0
SEND_ASIDE: Final = 10  # as SEND, on the node's second channel

# Places in ``host.registers``.
LENGTH: Final = 0  # words written to ``effects``
PACKET: Final = 1  # where the count of the packet being built is
OVERFLOW: Final = 2  # set when an effect did not fit
NOW_NS: Final = 3
WINDOW: Final = 4  # of a live host; 0 in a simulation
REGISTERS: Final = 5

# Words of a name in ``host.name``, two each.
SOURCE: Final = 0
SEQUENCE: Final = 1


@compiled.methods(apart=("random_bits",))
class Host(NamedTuple):
    """The input of a handler, and the buffer for its effects."""

    name: Int32s
    effects: Int64s
    registers: Int64s
    entropy: NDArray[np.uint64]

    def now_ns(self) -> int:
        """The host's clock in nanoseconds."""
        return self.registers[NOW_NS]

    def window(self) -> int:
        """Maximum messages of a process that a live member may not have consumed, for ``admits``.

        In an epoch a member sends no more than that beyond what all members have consumed, and this
        one has delivered all that it has consumed: so no member has delivered more of any source
        than are delivered here, plus a window. Records of other epochs do not reach the protocol.
        """
        return self.registers[WINDOW]

    def source_of(self, slot: int) -> int:
        """The node that broadcast the message."""
        return self.name[2 * slot + SOURCE]

    def sequence_of(self, slot: int) -> int:
        """The message's sequence number at its source, from 1."""
        return self.name[2 * slot + SEQUENCE]

    def random_bits(self) -> np.uint64:
        """64 random bits from the host's seed (xorshift: the same compiled and interpreted)."""
        x = self.entropy[0]
        x = x ^ (x << np.uint64(13))
        x = x ^ (x >> np.uint64(7))
        x = x ^ (x << np.uint64(17))
        self.entropy[0] = x
        return x

    def deliver(self, slot: int) -> None:
        """Hand the message to the application and end one reference to it."""
        self._effect(DELIVER, slot, 0, 2)

    def drop(self, slot: int) -> None:
        """End one reference without delivering: a duplicate, or a message kept long enough."""
        self._effect(DROP, slot, 0, 2)

    def keep(self, slot: int) -> None:
        """Take one more reference, to be ended by a later ``drop``."""
        self._effect(KEEP, slot, 0, 2)

    def retain(self, slot: int) -> None:
        """Take one more reference that does not count as pending, to be ended by ``release``."""
        self._effect(RETAIN, slot, 0, 3)

    def release(self, slot: int) -> None:
        """End a reference taken with ``retain``; a host ends its own to a broadcast message so."""
        self._effect(RELEASE, slot, 0, 2)

    def send_all(self, tag: int, value: int) -> None:
        """Send a packet of one item to every other node."""
        self._effect(SEND_ALL, tag, value, 3)

    def send(self, target: int, tag: int, value: int) -> None:
        """Send a packet of one item to one node."""
        self.open_packet(target)
        self.put(tag, value)

    def open_packet(self, target: int) -> None:
        """Begin a packet; the ``put`` calls that follow fill it. The host cuts it at its MTU."""
        self._effect(SEND, target, 0, 3)
        self.registers[PACKET] = self.registers[LENGTH] - 1

    def open_packet_aside(self, target: int) -> None:
        """``open_packet`` on a second channel, which does not wait for the first."""
        self._effect(SEND_ASIDE, target, 0, 3)
        self.registers[PACKET] = self.registers[LENGTH] - 1

    def put(self, tag: int, value: int) -> None:
        """Add an item to the packet begun last."""
        length = self.registers[LENGTH]
        if length + 2 > self.effects.size or self.registers[OVERFLOW] != 0:
            self.registers[OVERFLOW] = 1
            return
        self.effects[length] = tag
        self.effects[length + 1] = value
        self.registers[LENGTH] = length + 2
        self.effects[self.registers[PACKET]] += 1

    def set_timer(self, key: int, delay_ns: int) -> None:
        """Have ``on_timer`` called with this key after the delay."""
        self._effect(SET_TIMER, key, delay_ns, 3)

    def note(self, kind: int, slot: int) -> None:
        """Record an event of the protocol's own (``model.EventKind``) in the trace."""
        self._effect(NOTE, kind, slot, 3)

    def _effect(self, code: int, first: int, second: int, words: int) -> None:
        length = self.registers[LENGTH]
        if length + 3 > self.effects.size:
            self.registers[OVERFLOW] = 1
            return
        self.effects[length] = code
        self.effects[length + 1] = first
        self.effects[length + 2] = second
        self.registers[LENGTH] = length + words


def allocate_host(capacity: Capacity, *, seed: int, registers: int = REGISTERS) -> Host:
    """A host's side of the contract; registers from REGISTERS on are the host's own."""
    return Host(
        name=np.zeros(2 * capacity.slots, np.int32),
        effects=np.zeros(min(EFFECTS_WORDS, capacity.reserve_bytes // 8), np.int64),
        registers=np.zeros(registers, np.int64),
        # An odd seed keeps the random bits from standing still.
        entropy=np.array([seed | 1], np.uint64),
    )


class Capacity(NamedTuple):
    """The capacity of a state: rows of message fields, and the address space of a reserve."""

    slots: int
    reserve_bytes: int


class Group(NamedTuple):
    """The members, and those of them that this state hosts (row ``i`` is ``hosted[i]``)."""

    nodes: int
    hosted: Int32s
    seed: int
    window: int = 0  # of a live group: messages of a member that may be in flight


def check_range(low: int | float, high: int | float, **values: int | float) -> None:
    """Raise UserError unless each of these parameters lies in the range."""
    for name, value in values.items():
        if not low <= value <= high:
            ends = f"{_shown(low)} and {_shown(high)}".replace("e+0", "e")
            raise UserError(f"{name} must be between {ends}, not {_shown(value)}")


def _shown(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def handler(state_class: type) -> Callable[[F], F]:
    """Register a handler of the contract for a state class, under the name of the function."""

    def decorate(body: F) -> F:
        return compiled.register(HANDLERS[body.__name__], state_class)(body)

    return decorate


def grow(old: Any, new: Any) -> Any:
    """The new, larger arrays with the old contents in their leading corners.

    An array that has not grown stays as it is: two names of one column remain one column.
    """
    if isinstance(old, tuple):
        pairs = zip(old, new, strict=True)
        return type(old)(*(grow(before, after) for before, after in pairs))
    if hasattr(old, "grown"):
        return old.grown(new)  # a state of plain Python
    if isinstance(old, int) or old.shape == new.shape:
        return old
    new[tuple(slice(0, length) for length in old.shape)] = old
    return new


@compiled.generic()
def broadcast(state: Any, here: int, slot: int, host: Host) -> None:
    """The application broadcasts the message in ``slot``."""


@compiled.generic()
def receive(state: Any, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    """A packet of ``count`` items from ``sender`` has arrived."""


@compiled.generic()
def message_bytes(state: Any, slot: int) -> int:
    """Bytes that the protocol adds to the payload of this message."""
    return 0


@compiled.generic(optional=True)
def start(state: Any, here: int, host: Host) -> None:
    """The process begins: set the first timers here."""


@compiled.generic(optional=True)
def on_timer(state: Any, here: int, key: int, host: Host) -> None:
    """A timer has expired. Timers are never cancelled: put a generation into the key."""


@compiled.generic(optional=True)
def on_crash(state: Any, here: int, crashed: int, host: Host) -> None:
    """The failure detector reports that ``crashed`` has stopped for good."""


@compiled.generic(optional=True)
def expect(state: Any, here: int) -> None:
    """A message will soon arrive here: ``prefetch`` what ``receive`` reads first, no more."""


@compiled.generic()
def admits(state: Any, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    """Return whether a correct process may send this item now; called for items from a network."""
    return False


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    body.__name__: body
    for body in (broadcast, receive, message_bytes, start, on_timer, on_crash, expect, admits)
}


@compiled.function()
def tag_of(inbox: Int64s, i: int) -> int:
    """The tag of the i-th item of a packet."""
    return inbox[2 * i]


@compiled.function()
def value_of(inbox: Int64s, i: int) -> int:
    """The value of the i-th item of a packet: a slot or a number, as its tag says."""
    return inbox[2 * i + 1]


@compiled.function()
def next_effect(effects: Int64s, at: int) -> int:
    """The position of the next effect, for a host that carries them out."""
    code = effects[at]
    if code == SEND_ASIDE or code == SEND:  # noqa: SIM109 - a tuple costs compile time
        return at + 3 + 2 * effects[at + 2]
    if code <= RELEASE:
        return at + 2
    return at + 3


@compiled.function(inline=False)
def ends(effects: Int64s, length: int, slot: int) -> bool:
    """Return whether effects of this length deliver or drop a message."""
    at = 0
    while at < length:
        code = effects[at]
        if (code == DELIVER or code == DROP) and effects[at + 1] == slot:  # noqa: SIM109
            return True
        at = next_effect(effects, at)
    return False
