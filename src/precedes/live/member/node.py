"""A live member without sockets or a clock: bytes in, bytes and deliveries out.

``Node`` collects input (frames of peers, own broadcasts, crashes, messages consumed by the
application) and handles all of it in one call of the compiled step. Time is an argument; timers are
kept here and ``next_timer_ns`` is when ``run`` has to be called at the latest. The same input at
the same times gives the same output, byte by byte.
"""

from __future__ import annotations

import heapq
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from precedes import contract, registry
from precedes.compiled import compiler
from precedes.compiled.compiler import Code, Work
from precedes.contract import Capacity, Int32s, grow
from precedes.errors import InternalError, UserError
from precedes.live.member import arrays, records, step, store, view
from precedes.live.member.arrays import Free, Member
from precedes.live.member.effects import FRAME_BYTES, PIECE_BYTES
from precedes.live.member.output import FEW, ROW_BYTES, Batch, Output
from precedes.machine import reserve_bytes
from precedes.model import NODES_MAX
from precedes.parts import pool, tester, topology
from precedes.parts.pool import NONE

# A member keeps some arrays of members x members; 1024 take 16 MB, and are far more than a
# group with one window for everybody is good for.
MEMBERS_MAX: Final = 1024
WINDOW_MAX: Final = 1 << 16
PAYLOAD_BYTES_MAX: Final = 1 << 26
ITEMS_MAX: Final = 4096
REPORTS: Final = 64
TIMERS: Final = 256
DELIVERIES: Final = 4096
# Most bytes of a message in a frame in addition to its fields and its payload.
OVERHEAD_BYTES: Final = 64

# Output registers of a step, after it was drained.
NOTHING: Final = np.zeros(arrays.ROWS + 1 - arrays.COMMON_BYTES, np.int64).data

SEGMENT: Final = struct.Struct(f"{arrays.SEGMENT_WORDS}q")
WORD_BYTES: Final = 8
TRACE_ROW_BYTES: Final = 2 * WORD_BYTES

# Timers that expire at once, such as that of a detected crash, are handled in the same call, in
# this number of rounds at most; a timer that always sets itself again is a defect.
ROUNDS_MAX: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a member; all of a group agree on all but member, window_bytes and echo."""

    member: int
    members: int
    protocol: str = "vector"
    parameters: dict[str, Any] = field(default_factory=dict)
    window: int = 512
    window_bytes: int = 1 << 24
    payload_max_bytes: int = 1 << 20
    key: int = 1
    test_interval_ms: float = 500.0
    patience_ms: float = 5000.0
    echo: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.members <= min(MEMBERS_MAX, NODES_MAX):
            raise UserError(f"a group has 1 to {MEMBERS_MAX} members, not {self.members}")
        if not 0 <= self.member < self.members:
            raise UserError(f"there is no member {self.member} in a group of {self.members}")
        if not 1 <= self.window <= WINDOW_MAX:
            raise UserError(f"window must be between 1 and {WINDOW_MAX}, not {self.window}")
        if self.window_bytes < 1:
            raise UserError(f"window_bytes must be at least 1, not {self.window_bytes}")
        if not 0 <= self.payload_max_bytes <= PAYLOAD_BYTES_MAX:
            raise UserError(
                f"payload_max_bytes must be between 0 and {PAYLOAD_BYTES_MAX}, not "
                f"{self.payload_max_bytes}"
            )


class Room(NamedTuple):
    """Initial sizes of arrays; all but the last two grow."""

    slots: int = 1024
    blocks: int = 2048
    input_bytes: int = 1 << 18
    segments: int = 256
    trace_rows: int = 4096
    packets: int = 8192  # small ones fill a frame: with fewer it would be cut early


DEFAULT_ROOM: Final = Room()


class Node:
    """One member of a group; see the module.

    After each ``run``: ``own_stable``, the number of own messages that all are known to have
    consumed; ``is_all_stable``, whether those are all; ``owes_acknowledgement``, whether others do
    not know yet all that was consumed here.
    """

    own_stable: int
    is_all_stable: bool
    owes_acknowledgement: bool

    def __init__(
        self,
        settings: Settings,
        *,
        recording: bool = False,
        room: Room = DEFAULT_ROOM,
    ) -> None:
        self.settings = settings
        self.protocol = registry.load_live(settings.protocol)
        parameters = {**settings.parameters, **self.protocol.in_views}
        self.parameters = self.protocol.make_parameters(parameters)
        self.capacity = Capacity(slots=room.slots, reserve_bytes=reserve_bytes())
        self.group = contract.Group(
            nodes=settings.members,
            hosted=np.array([settings.member], np.int32),
            seed=settings.key,
            window=settings.window,
        )
        self.state = self._allocate_state()
        self.member: Member = self._make_member(room)
        self._body: Callable[..., int] = step.run
        self._map_arrays()
        self.registers[arrays.RECORDING] = recording
        self._segments = 0  # to be handled
        self._filled = 0  # bytes of them in the input
        self._broadcasts: list[bytes] = []
        self._timers: list[tuple[int, int, int, int]] = []
        self._numbered = 0  # own messages, broadcast or about to be
        self._numbered_max = 0  # their number that credit allows now
        # Own messages that are not stable, by the calls that broadcast them: the last sequence
        # number of each, its bytes and its payloads; then the sum of the bytes.
        self._unstable: deque[tuple[int, int, Sequence[bytes]]] = deque()
        self._unstable_bytes = 0
        self._overhead_bytes = records.message_bytes_max(self.member)
        self.waiting_bytes = 0  # approximate size of the broadcasts until the next run
        self._no_bound = np.zeros(self.member.bound.size, np.int64).data.cast("B").cast("q")
        # The member that forwards a message to most others gets it first: the farthest in a tree.
        self._order = sorted(range(settings.members), key=lambda peer: -(peer ^ settings.member))
        self._serial = 0
        view.place_in_view(self.member)
        self._count_credit()

    def _make_member(self, room: Room) -> Member:
        """The arrays of a member in its initial state."""
        settings, protocol, slots = self.settings, self.protocol, self.capacity.slots
        n, window = settings.members, settings.window
        route = arrays.ROUTES[protocol.route]
        branches = topology.dimension(n) if route == arrays.TREE else n
        setting = np.zeros(arrays.SETTINGS, np.int64)
        setting[[arrays.NODES, arrays.ME, arrays.ROUTE]] = n, settings.member, route
        setting[[arrays.WINDOW, arrays.EAGER]] = window, max(window // 8, 1)
        setting[[arrays.PAYLOAD_MAX, arrays.ITEMS_MAX]] = settings.payload_max_bytes, ITEMS_MAX
        setting[[arrays.BRANCHES, arrays.ECHO]] = branches, settings.echo
        fields = self._fields_of(slots)
        widest_bytes = (
            settings.payload_max_bytes + records.fields_bytes_max(fields) + OVERHEAD_BYTES
        )
        packets = n * (n + 1) + n * (1 + branches) + room.packets
        out_bytes = max(FRAME_BYTES, PIECE_BYTES + widest_bytes + records.UP_BYTES * packets)
        host = contract.allocate_host(self.capacity, seed=1, registers=arrays.REGISTERS)
        host.registers[contract.WINDOW] = window
        return Member(
            host=host,
            message=np.zeros((slots, arrays.WORDS), np.int64),
            slots=_make_free(slots - 1),  # the last slot is for fields that are discarded
            field=fields,
            block=np.zeros(room.blocks * arrays.BLOCK_BYTES, np.uint8),
            blocks=_make_free(room.blocks),
            name=store.allocate_names(slots),
            inbox=np.zeros(2 * ITEMS_MAX, np.int64),
            item_class=np.array([*protocol.items, *tester.ITEMS], np.int64),
            setting=setting,
            input=np.zeros(room.input_bytes, np.uint8),
            segment=np.zeros((room.segments, arrays.SEGMENT_WORDS), np.int64),
            common=np.zeros(max(FRAME_BYTES, widest_bytes), np.uint8),
            out=np.zeros(out_bytes, np.uint8),
            packet=np.zeros((packets, arrays.PACKET_WORDS), np.int64),
            routed=np.zeros(out_bytes, np.uint8),
            bound=np.zeros((n, arrays.BOUND_WORDS), np.int64),
            delivered=np.zeros(max(1 << 18, 2 * widest_bytes), np.uint8),
            delivery=np.zeros((DELIVERIES, arrays.DELIVERY_WORDS), np.int64),
            timer=np.zeros((TIMERS, arrays.TIMER_WORDS), np.int64),
            report=np.zeros((REPORTS, arrays.REPORT_WORDS), np.int64),
            trace=np.zeros((room.trace_rows + 2 * ITEMS_MAX, 2), np.int64),
            known=np.zeros((n, arrays.KNOWN_WORDS), np.int64),
            kept=np.full((n, 2 * window), NONE, np.int32),
            consumed_behind=np.zeros((n, n), np.int32),
            lag=np.repeat(np.arange(n, dtype=np.int32)[:, None], n, axis=1).copy(),
            last_sent=np.zeros((n, n), np.int32),
            behind=np.zeros((branches, n), np.int32),
            branch=np.full(branches, NONE, np.int32),
            serves=np.zeros((n, branches), np.uint8),
            detector=tester.make_detector(
                group=self.group,
                interval_ms=settings.test_interval_ms,
                timeout_ms=settings.patience_ms,
                rounds=0,
                first_tag=len(protocol.items),
                own_channel=True,
            ),
        )

    def _fields_of(self, slots: int) -> tuple[Int32s, ...]:
        """The message fields of the state as rows of 32-bit words, sharing its memory."""
        fields = []
        for name in self.protocol.message_fields:
            array = getattr(self.state, name)
            itemsize, kind = array.dtype.itemsize, array.dtype.kind
            if itemsize % 4 or kind not in "iu" or not array.flags.c_contiguous:
                raise UserError(
                    f"the message field {name!r} cannot travel: it must be an array of 32- or "
                    "64-bit integers"
                )
            fields.append(array.reshape(len(array), -1).view(np.int32))
        return tuple(fields) or (np.zeros((slots, 0), np.int32),)

    def prepare(self) -> None:
        """Load the compiled step; if necessary wait for the compiler, which takes seconds."""
        self.use(self.code.wait(self.member, self.state))

    @property
    def code(self) -> Code[[Member, Any], int]:
        """The machine code of this member's step."""
        protocol, name = self.protocol, self.settings.protocol
        return compiler.code_of(step.ENTRY, protocol.state, protocol.sources, subject=name)

    def load(self) -> Callable[[Member, Any], int] | None:
        """The compiled step, if it is available; a thread may call this while the node runs."""
        return self.code.load(self.member, self.state)

    def use(self, body: Callable[..., int]) -> None:
        """Run the steps from the next turn on with this body, compiled or not.

        It works on the same arrays, and leaves the same bytes in them.
        """
        self._body = body
        self._map_arrays()

    def _map_arrays(self) -> None:
        """Map the arrays as memoryviews: access costs a third of NumPy's."""
        member = self.member
        self._step = step.ENTRY.bind(self._body, member, self.state)
        self.registers = member.host.registers.data
        self._known = member.known.data.cast("B").cast("q")
        self._input = member.input.data
        self._segment = member.segment.data.cast("B")
        self._common = member.common.data
        self._routed = member.routed.data
        self._bound = member.bound.data.cast("B").cast("q")
        self._delivered = member.delivered.data
        self._delivery = member.delivery.data.cast("B")
        self._trace = member.trace.data.cast("B")

    def _allocate_state(self) -> Any:
        return self.protocol.allocate(self.parameters, self.group, self.capacity)

    # Input ----------------------------------------------------------------------------------

    def start(self, *, tests_at_ns: int | None = None) -> None:
        """Start the protocol, and at a given time the first tests for crashes."""
        self._add(arrays.START)
        if tests_at_ns is not None:
            self._set_timer(tests_at_ns, owner=1, key=0)

    def _set_timer(self, due_ns: int, *, owner: int, key: int) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (due_ns, self._serial, owner, key))

    def receive(self, peer: int, body: bytes | memoryview) -> None:
        """Add the body of a frame from a peer."""
        self._add(arrays.FRAME, peer, body)

    def _add(self, kind: int, who: int = 0, body: bytes | memoryview = b"") -> None:
        """Add a segment for the step."""
        begin, at = self._filled, self._segments
        end = self._filled = begin + len(body)
        self._segments = at + 1
        if end > len(self._input):
            # A batch is as large as what the links had in one turn of the loop.
            larger = grow(self.member.input, np.zeros(2 * end, np.uint8))
            self.member = self.member._replace(input=larger)
            self._map_arrays()
        if SEGMENT.size * at == len(self._segment):
            segments = np.zeros((2 * at, arrays.SEGMENT_WORDS), np.int64)
            self.member = self.member._replace(segment=grow(self.member.segment, segments))
            self._map_arrays()
        if body:
            self._input[begin:end] = body
        SEGMENT.pack_into(self._segment, SEGMENT.size * at, kind, who, begin, end)

    def broadcast(self, payload: bytes) -> int:
        """Broadcast a message; return its sequence number. The caller has checked ``credit``."""
        if self._numbered >= self._numbered_max:
            raise InternalError("a broadcast without credit")
        self._broadcasts += (len(payload).to_bytes(4, "little"), payload)
        self.waiting_bytes += arrays.BLOCK_BYTES + len(payload)
        return self._number((payload,), len(payload))

    def _number(self, payloads: Sequence[bytes], size_bytes: int) -> int:
        """Count messages that the next ``run`` sends; return the sequence number of the last."""
        self._numbered += len(payloads)
        self._unstable.append((self._numbered, size_bytes, payloads))
        self._unstable_bytes += size_bytes
        return self._numbered

    def broadcast_many(self, payloads: Sequence[bytes]) -> int:
        """Broadcast messages; return the sequence number of the last. There is credit for all."""
        if len(payloads) > self.credit:
            raise InternalError("broadcasts without credit")
        sizes = set(map(len, payloads))
        if len(sizes) == 1:
            length = sizes.pop().to_bytes(4, "little")
            joined = length.join(payloads)
            self._broadcasts += (length, joined)
            self.waiting_bytes += arrays.BLOCK_BYTES * len(payloads) + len(joined)
            self._number(payloads, len(payloads) * len(payloads[0]))
        else:
            for payload in payloads:
                self.broadcast(payload)
        return self._numbered

    def crash(self, who: int) -> None:
        """Go on without a member that has crashed, in this epoch."""
        self._add(arrays.CRASH, who)

    def consume(self, source: int, count: int) -> None:
        """Count consumed messages of a source."""
        self._known[source * arrays.KNOWN_WORDS + arrays.CONSUMED] += count

    def consume_batch(self, batch: Batch) -> None:
        """Count a whole batch as consumed."""
        # After the first epoch the names of messages are not positions.
        if len(batch) > FEW or (batch.epoch is not None and not batch.epoch.is_first):
            self.member.known[:, arrays.CONSUMED] += batch.counts(self.settings.members)
            return
        for message in batch:
            self._known[message.sender * arrays.KNOWN_WORDS + arrays.CONSUMED] += 1

    def close(self) -> None:
        """Close: nothing more will be broadcast here."""
        self.registers[arrays.CLOSING] = 1

    # State ----------------------------------------------------------------------------------

    @property
    def credit(self) -> int:
        """Number of messages that may be broadcast now; the last may exceed ``window_bytes``."""
        if self._unstable_bytes >= self.settings.window_bytes:
            return 0
        return self._numbered_max - self._numbered

    @property
    def is_spent(self) -> bool:
        """Return whether all sequence numbers are used up."""
        return self._numbered >= records.SEQUENCE_MAX

    def _count_credit(self) -> None:
        registers = self.registers
        stable = self.own_stable = registers[arrays.OWN_STABLE]
        self.is_all_stable = stable == registers[arrays.OWN_SEQUENCE]
        self.owes_acknowledgement = registers[arrays.UNACKNOWLEDGED] != 0
        self._numbered_max = min(stable + self.settings.window, records.SEQUENCE_MAX)
        while self._unstable and self._unstable[0][0] <= stable:
            self._unstable_bytes -= self._unstable.popleft()[1]

    def unstable(self) -> Iterator[tuple[int, bytes]]:
        """Own messages that some member may not have consumed: sequence numbers and payloads."""
        for last, _, payloads in self._unstable:
            for number, payload in enumerate(payloads, last - len(payloads) + 1):
                if number > self.own_stable:
                    yield number, payload

    @property
    def broadcasts(self) -> int:
        """Number of broadcasts, including those that the next ``run`` sends."""
        return self._numbered

    @property
    def next_timer_ns(self) -> int | None:
        """The time at which ``run`` has to be called at the latest."""
        return self._timers[0][0] if self._timers else None

    @property
    def largest_message_bytes(self) -> int:
        """The largest size of a message on the wire so far."""
        return self.registers[arrays.LARGEST_BYTES] + self._overhead_bytes

    @property
    def eager(self) -> int:
        """Number of consumed messages from which on they are acknowledged at once."""
        return int(self.member.setting[arrays.EAGER])

    # The others -----------------------------------------------------------------------------

    def is_gone(self, who: int) -> bool:
        """Return whether a member has crashed in this epoch."""
        return self._known[who * arrays.KNOWN_WORDS + arrays.GONE] != 0

    @property
    def laggard(self) -> int:
        """The member that has consumed the fewest own messages, as far as is known."""
        return self._known[self.settings.member * arrays.KNOWN_WORDS + arrays.LAGGARD]

    def stable(self, source: int) -> int:
        """The number of messages of a member that all are known to have consumed."""
        return self._known[source * arrays.KNOWN_WORDS + arrays.STABLE]

    @property
    def is_consumed_by_all(self) -> bool:
        """Return whether it was closed, and all members have consumed its messages."""
        return self._known[self.settings.member * arrays.KNOWN_WORDS + arrays.FINISHED] != 0

    @property
    def is_finished(self) -> bool:
        """Return whether that holds for all members: there is nothing more to deliver."""
        known = self.member.known
        ended = known[:, arrays.FINISHED] | known[:, arrays.GONE]
        return self.is_consumed_by_all and bool(ended.all())

    # Running --------------------------------------------------------------------------------

    def run(self, now_ns: int, *, force: bool = False) -> Output:
        """Handle all input and the expired timers."""
        output = Output()
        output.broadcasts = bool(self._broadcasts)
        self.registers[contract.NOW_NS] = now_ns
        self.registers[arrays.FORCED] = force
        for _ in range(ROUNDS_MAX):
            crashes = self.registers[arrays.CRASHES]
            self._load(now_ns)
            while (status := self._run_step()) != arrays.DONE:
                if not self._drain(output) and status == arrays.FLUSH:
                    raise InternalError("what is to be sent or delivered is larger than its buffer")
                self._make_room(status)
            self._drain(output)
            if self.registers[arrays.CRASHES] != crashes:
                # Messages that the others have consumed now count as credit.
                view.place_in_view(self.member)
            elif not self._timers or self._timers[0][0] > now_ns:
                self._count_credit()
                return output
        raise InternalError(f"protocol {self.protocol.name}: a timer sets itself without end")

    def overdue(self, now_ns: int) -> int | None:
        """The member that ``run`` would suspect at this time, because its reply is missing."""
        if not self._timers or self._timers[0][0] > now_ns:
            return None
        detector = self.member.detector
        awaited = detector.process.awaited[0]
        key = tester.KEYS + int(detector.process.generation[0])
        is_due = any(timer[0] <= now_ns and timer[2:] == (1, key) for timer in self._timers)
        if not is_due or awaited == detector.process.tests[0]:
            return None
        return int(detector.test[0, awaited])

    def vouch_for(self, who: int) -> None:
        """Count another sign of life of a member as its reply in this round of tests."""
        detector = self.member.detector
        detector.replied[0, who] = detector.process.round[0]

    def forgive(self, late_ns: int) -> None:
        """After a pause of this process, restart the waits for replies of others."""
        self._timers = [
            (due_ns + late_ns * owner, serial, owner, key)
            for due_ns, serial, owner, key in self._timers
        ]
        heapq.heapify(self._timers)

    def _load(self, now_ns: int) -> None:
        """Put all input into the arrays of the step."""
        if self._broadcasts:
            self._add(arrays.BROADCAST, 0, b"".join(self._broadcasts))
            self._broadcasts, self.waiting_bytes = [], 0
        while self._timers and self._timers[0][0] <= now_ns:
            _, _, owner, key = heapq.heappop(self._timers)
            self._add(arrays.TEST_TIMER if owner else arrays.TIMER, key)
        registers = self.registers
        registers[arrays.SEGMENTS] = self._segments
        registers[arrays.SEGMENT] = registers[arrays.POSITION] = 0
        self._segments = self._filled = 0

    def _make_room(self, found: int) -> None:
        """Grow the array for which the step has stopped; its output was drained."""
        if found == arrays.GROW_SLOTS:
            self.capacity = self.capacity._replace(slots=2 * self.capacity.slots)
            self.state = grow(self.state, self._allocate_state())
            member, slots = self.member, self.capacity.slots
            host = contract.allocate_host(self.capacity, seed=1, registers=arrays.REGISTERS)
            self.member = member._replace(
                host=grow(member.host, host),
                message=grow(member.message, np.zeros((slots, arrays.WORDS), np.int64)),
                slots=grow(member.slots, _make_free(slots - 1)),
                name=store.larger_names(member.name, slots),
                field=self._fields_of(slots),
            )
            self._map_arrays()
        elif found == arrays.GROW_BLOCKS:
            # Windows bound how often this can happen.
            member, blocks = self.member, 2 * self.member.blocks.link.size
            self.member = member._replace(
                block=grow(member.block, np.zeros(blocks * arrays.BLOCK_BYTES, np.uint8)),
                blocks=grow(member.blocks, _make_free(blocks)),
            )
            self._map_arrays()
        elif found != arrays.FLUSH:
            raise InternalError(
                f"protocol {self.protocol.name}: one call of a handler requested effects of more "
                f"than {self.member.host.effects.size:,} words ({found})"
            )

    def _run_step(self) -> int:
        try:
            return self._step()
        except MemoryError:
            pool.check_end(self.state)
            raise

    def _drain(self, output: Output) -> bool:
        """Move the output of the step to ``output``; return whether there was any."""
        member = self.member
        common_bytes, _, packets, deliveries, delivered_bytes, timers, reports, rows = (
            self.registers[arrays.COMMON_BYTES : arrays.ROWS + 1]
        )
        if rows:
            output.trace.append(self._trace[: TRACE_ROW_BYTES * rows].tobytes())
        if common_bytes or packets:
            own, messages_bytes = self._take_packets() if packets else ({}, {})
            output.frames.append((self._common[:common_bytes].tobytes(), own, messages_bytes))
        if deliveries:
            table = self._delivery[: ROW_BYTES * deliveries]
            data = self._delivered[:delivered_bytes]
            output.deliveries.append(Batch(table, data))
        if timers:
            for key, due_ns, owner in member.timer[:timers].tolist():
                self._set_timer(due_ns, owner=owner, key=key)
        if reports:
            for kind, about, reason in member.report[:reports].tolist():
                if kind == arrays.SUSPECTED:
                    output.suspected.append(about)
                else:
                    output.malformed.append((about, reason))
        self.registers[arrays.COMMON_BYTES : arrays.ROWS + 1] = NOTHING
        return bool(rows or common_bytes or packets or deliveries or timers or reports)

    def _take_packets(self) -> tuple[dict[int, bytes], dict[int, int]]:
        """Bytes for single members, and how many of them are messages."""
        own: dict[int, bytes] = {}
        messages_bytes: dict[int, int] = {}
        bound = self._bound
        for target in self._order:
            at = arrays.BOUND_WORDS * target
            first, last = bound[at + arrays.FIRST], bound[at + arrays.LAST]
            if last > first:
                own[target] = self._routed[first:last].tobytes()
                if messages := bound[at + arrays.OF_MESSAGES]:
                    messages_bytes[target] = messages
        bound[:] = self._no_bound  # as they are without packets
        return own, messages_bytes

    # Queries --------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Counters since the start, and current sizes."""
        counts = {name: int(self.registers[place]) for name, place in arrays.COUNTS.items()}
        return {**counts, "messages_kept": int(self.member.slots.mark[pool.COUNT])}

    def oldest_waiting_ns(self) -> int | None:
        """Arrival time of the message that has waited longest."""
        words = self.member.message
        waits = (words[:, arrays.REFERENCES] > 0) & (words[:, arrays.WAITING] > 0)
        return int(words[waits, arrays.SINCE_NS].min()) if waits.any() else None

    def happened_before(self, first: tuple[int, int], second: tuple[int, int]) -> bool | None:
        """Return whether a message is in the past of another; None if that one is not in memory.

        Only for a protocol that has ``happened_before``.
        """
        slot = store.find(self.member.name, store.name_of(*second))
        if slot == NONE or self.protocol.happened_before is None:
            return None
        return self.protocol.happened_before(self.state, *first, int(slot))

    def waiting(self) -> list[tuple[int, int, int, list[tuple[int, int]]]]:
        """Waiting messages: sender, sequence, since when, and each source's missing messages."""
        member, messages = self.member, []
        words = member.message
        waits = (words[:, arrays.REFERENCES] > 0) & (words[:, arrays.WAITING] > 0)
        for slot in np.flatnonzero(waits):
            source, sequence = member.host.name[2 * slot : 2 * slot + 2].tolist()
            missing = self.protocol.missing(self.state, int(slot)) if self.protocol.missing else []
            messages.append((source, sequence, int(words[slot, arrays.SINCE_NS]), missing))
        return messages


def _make_free(rows: int) -> Free:
    return pool.reserve(Free, np.dtype(np.int32).itemsize * rows)


def work(protocol: str) -> Work:
    """The step for a protocol, for a compiler: the types of any member's arrays."""
    node = Node(Settings(member=0, members=2, protocol=protocol))
    state, sources = node.protocol.state, node.protocol.sources
    return Work(step.ENTRY, state, sources, (node.member, node.state))
