"""A live member without sockets or a clock: bytes in, bytes and deliveries out.

``Node`` collects input (frames of peers, own broadcasts, evictions, what the application took)
and handles all of it in one call of the compiled step. Time is an argument; timers are kept here
and ``next_timer_ns`` says when ``run`` has to be called at the latest. The same input at the same
times gives the same output, byte by byte.
"""

from __future__ import annotations

import heapq
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from precedes import contract, registry
from precedes.compiled import tiers
from precedes.compiled.recipes import Work
from precedes.compiled.tiers import Compilation
from precedes.contract import Capacity, grow
from precedes.errors import InternalError, UserError
from precedes.live.member import allocate, arrays, records, step, store, view
from precedes.live.member.arrays import Member
from precedes.live.member.output import FEW, ROW_BYTES, Batch, Output
from precedes.machine import reserve_bytes
from precedes.model import NODES_MAX
from precedes.parts import pool, tester
from precedes.parts.pool import NONE

# What a step has left once that was taken.
NOTHING: Final = np.zeros(arrays.ROWS + 1 - arrays.COMMON_BYTES, np.int64).data

# The body of a frame that says farewell: the others go on at once.
FAREWELL: Final = bytes([records.LEAVE])

SEGMENT: Final = struct.Struct(f"{arrays.SEGMENT_WORDS}q")
WORD_BYTES: Final = 8
TRACE_ROW_BYTES: Final = 2 * WORD_BYTES

# What a compiler process is told.
RECIPE: Final = "precedes.live.member.node:work"

# Timers that run out at once, such as the news of a crash, are handled in the same call, in at
# most so many rounds; one that sets itself for ever is a defect.
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
        if not 2 <= self.members <= min(allocate.MEMBERS_MAX, NODES_MAX):
            raise UserError(f"a group has 2 to {allocate.MEMBERS_MAX} members, not {self.members}")
        if not 0 <= self.member < self.members:
            raise UserError(f"there is no member {self.member} in a group of {self.members}")
        if not 1 <= self.window <= allocate.WINDOW_MAX:
            raise UserError(
                f"window must be between 1 and {allocate.WINDOW_MAX}, not {self.window}"
            )
        if self.window_bytes < 1:
            raise UserError(f"window_bytes must be at least 1, not {self.window_bytes}")
        if not 0 <= self.payload_max_bytes <= allocate.PAYLOAD_BYTES_MAX:
            raise UserError(
                f"payload_max_bytes must be between 0 and {allocate.PAYLOAD_BYTES_MAX}, not "
                f"{self.payload_max_bytes}"
            )


class Node:
    """One member of a group; see the module.

    As the last ``run`` has left it: ``own_stable``, how many own messages all are known to have
    taken; ``is_all_stable``, whether those are all; ``has_untold_progress``, whether others do not
    know yet all that was taken here.
    """

    own_stable: int
    is_all_stable: bool
    has_untold_progress: bool

    def __init__(self, settings: Settings, *, recording: bool = False, entropy: int = 1) -> None:
        self.settings = settings
        self.protocol = registry.load_live(settings.protocol)
        self.parameters = self.protocol.make_parameters(settings.parameters)
        self.capacity = Capacity(slots=allocate.SLOTS_FIRST, reserve_bytes=reserve_bytes())
        self.group = contract.Group(
            nodes=settings.members,
            hosted=np.array([settings.member], np.int32),
            seed=settings.key,
            window=settings.window,
        )
        self.state = self._allocate_state()
        self.member: Member = allocate.make_member(
            settings, self.protocol, self.state, self.capacity, entropy=entropy
        )
        self._body: Callable[..., int] = step.run
        self._map_arrays()
        self.registers[arrays.RECORDING] = recording
        self._segments = 0  # to be handled
        self._filled = 0  # bytes of them in the input
        self._broadcasts: list[bytes] = []
        self._timers: list[tuple[int, int, int, int]] = []
        self._promised = 0  # own messages, broadcast or about to be
        self._promised_max = 0  # how many there may be of them now
        # Own messages that are not stable, by the calls that broadcast them: the last sequence
        # number of each, and its bytes; then the sum of these.
        self._unstable: deque[tuple[int, int]] = deque()
        self._unstable_bytes = 0
        self._beside_payload_bytes = records.message_bytes_max(self.member)
        self.waiting_bytes = 0  # what the broadcasts until the next run will take, about
        self._no_bound = np.zeros(self.member.bound.size, np.int64).data.cast("B").cast("q")
        # Who passes a message on to most others gets it first: in a tree the farthest by number.
        self._order = sorted(range(settings.members), key=lambda who: -(who ^ settings.member))
        self._serial = 0
        view.place_in_view(self.member)
        self._count_credit()

    def prepare(self) -> None:
        """Use the compiled step: loaded from the cache, or compiled, which takes some seconds."""
        state, sources = self.protocol.state, self.protocol.sources
        self.use(step.ENTRY.prepare(state, sources, self.member, self.state))

    @property
    def compilation(self) -> Compilation[[Member, Any], int]:
        """The compiled step of this member's protocol: there, being made, or not wanted."""
        return tiers.compilation(
            step.ENTRY,
            self.protocol.state,
            self.protocol.sources,
            recipe=RECIPE,
            subject=self.settings.protocol,
        )

    def load(self) -> Callable[[Member, Any], int] | None:
        """The compiled step, if it is there; a thread may do this while the node runs."""
        return self.compilation.load(self.member, self.state)

    def use(self, body: Callable[..., int]) -> None:
        """Take the steps from the next turn on with this body, compiled or not.

        It goes on with the same arrays, and leaves the same bytes in them.
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
        """Begin: the protocol's own start, and at a given time the first tests for crashes."""
        self._add(arrays.START)
        if tests_at_ns is not None:
            self._set_timer(tests_at_ns, owner=1, key=0)

    def _set_timer(self, due_ns: int, *, owner: int, key: int) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (due_ns, self._serial, owner, key))

    def receive(self, peer: int, body: bytes | memoryview) -> None:
        """The body of a frame has come from a peer."""
        self._add(arrays.FRAME, peer, body)

    def _add(self, kind: int, who: int = 0, body: bytes | memoryview = b"") -> None:
        """One more segment for the step."""
        begin, at = self._filled, self._segments
        end = self._filled = begin + len(body)
        self._segments = at + 1
        if end > len(self._input):
            self.member = allocate.with_input(self.member, size_bytes=end)
            self._map_arrays()
        if SEGMENT.size * at == len(self._segment):
            self.member = allocate.with_segments(self.member)
            self._map_arrays()
        if body:
            self._input[begin:end] = body
        SEGMENT.pack_into(self._segment, SEGMENT.size * at, kind, who, begin, end)

    def broadcast(self, payload: bytes) -> int:
        """Broadcast a message; its sequence number. The caller has asked for ``credit``."""
        if self._promised >= self._promised_max:
            raise InternalError("a broadcast without credit")
        self._broadcasts += (len(payload).to_bytes(4, "little"), payload)
        self.waiting_bytes += arrays.BLOCK_BYTES + len(payload)
        return self._promise(1, len(payload))

    def _promise(self, count: int, size_bytes: int) -> int:
        """Count messages that the next ``run`` sends; the sequence number of the last."""
        self._promised += count
        self._unstable.append((self._promised, size_bytes))
        self._unstable_bytes += size_bytes
        return self._promised

    def broadcast_many(self, payloads: Sequence[bytes]) -> int:
        """Broadcast messages; the sequence number of the last. There is credit for all."""
        if len(payloads) > self.credit:
            raise InternalError("broadcasts without credit")
        sizes = set(map(len, payloads))
        if len(sizes) == 1:
            length = sizes.pop().to_bytes(4, "little")
            joined = length.join(payloads)
            self._broadcasts += (length, joined)
            self.waiting_bytes += arrays.BLOCK_BYTES * len(payloads) + len(joined)
            self._promise(len(payloads), len(payloads) * len(payloads[0]))
        else:
            for payload in payloads:
                self.broadcast(payload)
        return self._promised

    def evict(self, who: int) -> None:
        """Take a member out of the view."""
        self._add(arrays.EVICT, who)

    def take(self, source: int, count: int) -> None:
        """The application has taken so many messages of a source."""
        self._known[source * arrays.KNOWN_WORDS + arrays.CONSUMED] += count

    def take_batch(self, batch: Batch) -> None:
        """The application has taken a whole batch."""
        if len(batch) > FEW:
            self.member.known[:, arrays.CONSUMED] += batch.counts(self.settings.members)
            return
        for message in batch:
            self._known[message.sender * arrays.KNOWN_WORDS + arrays.CONSUMED] += 1

    def close(self) -> None:
        """Nothing more will be broadcast here."""
        self.registers[arrays.CLOSING] = 1

    # State ----------------------------------------------------------------------------------

    @property
    def credit(self) -> int:
        """How many more messages may be broadcast now; the last may exceed ``window_bytes``."""
        if self._unstable_bytes >= self.settings.window_bytes:
            return 0
        return self._promised_max - self._promised

    @property
    def is_spent(self) -> bool:
        """Whether all numbers are used that a message may have."""
        return self._promised >= records.SEQUENCE_MAX

    def _count_credit(self) -> None:
        registers = self.registers
        stable = self.own_stable = registers[arrays.OWN_STABLE]
        self.is_all_stable = stable == registers[arrays.OWN_SEQUENCE]
        self.has_untold_progress = registers[arrays.UNTOLD] != 0
        self._promised_max = min(stable + self.settings.window, records.SEQUENCE_MAX)
        while self._unstable and self._unstable[0][0] <= stable:
            self._unstable_bytes -= self._unstable.popleft()[1]

    @property
    def broadcasts(self) -> int:
        """How many messages were broadcast, those included that the next ``run`` sends."""
        return self._promised

    @property
    def next_timer_ns(self) -> int | None:
        """When ``run`` has to be called at the latest."""
        return self._timers[0][0] if self._timers else None

    @property
    def is_fenced(self) -> bool:
        """Whether the others have taken this member for crashed."""
        return bool(self.member.detector.process.fenced[0])

    @property
    def largest_message_bytes(self) -> int:
        """The most that a message has taken on the wire so far."""
        return self.registers[arrays.LARGEST_BYTES] + self._beside_payload_bytes

    @property
    def eager(self) -> int:
        """How many messages taken and untold are told at once."""
        return int(self.member.setting[arrays.EAGER])

    # The others -----------------------------------------------------------------------------

    def is_gone(self, who: int) -> bool:
        """Whether a member is out of the view."""
        return self._known[who * arrays.KNOWN_WORDS + arrays.GONE] != 0

    @property
    def view(self) -> list[int]:
        """The members that take part, this one included."""
        return [who for who in range(self.settings.members) if not self.is_gone(who)]

    @property
    def lost(self) -> list[int]:
        """The members that are out of the view, whether they were evicted or have left."""
        return [who for who in range(self.settings.members) if self.is_gone(who)]

    def neighbours(self) -> list[int]:
        """The members in the view that this one has a link with."""
        return view.neighbours(self.member)

    @property
    def laggard(self) -> int:
        """Who has taken the fewest of the own messages, as far as is known."""
        return self._known[self.settings.member * arrays.KNOWN_WORDS + arrays.LAGGARD]

    def stable(self, source: int) -> int:
        """How many messages of a member all are known to have taken."""
        return self._known[source * arrays.KNOWN_WORDS + arrays.STABLE]

    @property
    def is_taken_by_all(self) -> bool:
        """Whether it was closed, and all in the view are known to have taken its messages."""
        return self._known[self.settings.member * arrays.KNOWN_WORDS + arrays.FINISHED] != 0

    @property
    def is_finished(self) -> bool:
        """Whether that holds for all in the view: there is nothing more to deliver."""
        known = self.member.known
        ended = known[:, arrays.FINISHED] | known[:, arrays.GONE]
        return self.is_taken_by_all and bool(ended.all())

    # Running --------------------------------------------------------------------------------

    def run(self, now_ns: int, *, force: bool = False) -> Output:
        """Handle all input and the timers that have run out."""
        output = Output()
        output.broadcasts = bool(self._broadcasts)
        self.registers[contract.NOW_NS] = now_ns
        self.registers[arrays.FORCED] = force
        for _ in range(ROUNDS_MAX):
            evictions = self.registers[arrays.EVICTIONS]
            self._load(now_ns)
            while (found := self._run_step()) != arrays.DONE:
                if not self._drain(output) and found == arrays.FLUSH:
                    raise InternalError("what is to be sent or delivered is larger than its buffer")
                self._make_room(found)
            self._drain(output)
            if self.registers[arrays.EVICTIONS] != evictions:
                # What the others have taken now counts anew.
                view.place_in_view(self.member)
            elif not self._timers or self._timers[0][0] > now_ns:
                self._count_credit()
                return output
        raise InternalError(f"protocol {self.protocol.name}: a timer sets itself without end")

    def overdue(self, now_ns: int) -> int | None:
        """The member that ``run`` would suspect at this time, because its reply has not come."""
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
        """After a pause of this process, await the replies of others anew."""
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
        """Give the step what it has stopped for; what it had to give away is taken."""
        if found == arrays.GROW_SLOTS:
            self._grow_slots()
        elif found == arrays.GROW_BLOCKS:
            self.member = allocate.with_blocks(self.member)
            self._map_arrays()
        elif found != arrays.FLUSH:
            raise InternalError(
                f"protocol {self.protocol.name}: one call of a handler asked for effects of more "
                f"than {self.member.host.effects.size:,} words ({found})"
            )

    def _run_step(self) -> int:
        try:
            return self._step()
        except MemoryError:
            pool.check_end(self.state)
            raise

    def _grow_slots(self) -> None:
        self.capacity = self.capacity._replace(slots=2 * self.capacity.slots)
        self.state = grow(self.state, self._allocate_state())
        self.member = allocate.with_slots(self.member, self.protocol, self.state, self.capacity)
        self._map_arrays()

    def _drain(self, output: Output) -> bool:
        """Take what the step has left; whether there was anything."""
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
            for what, about, reason in member.report[:reports].tolist():
                if what == arrays.EVICTED:
                    output.evicted.append(about)
                elif what == arrays.LEFT:
                    output.left.append(about)
                else:
                    output.malformed.append((about, reason))
        self.registers[arrays.COMMON_BYTES : arrays.ROWS + 1] = NOTHING
        return bool(rows or common_bytes or packets or deliveries or timers or reports)

    def _take_packets(self) -> tuple[dict[int, bytes], dict[int, int]]:
        """What is for single members, and how many bytes of it are messages."""
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

    # What people ask ------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """What has been counted since the start, and what is held now."""
        return arrays.counts(self.member)

    def oldest_waiting_ns(self) -> int | None:
        """Since when the message waits here that has waited longest."""
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
        """Messages that wait here: sender, sequence, since when, and what is missing of each."""
        member, found = self.member, []
        words = member.message
        waits = (words[:, arrays.REFERENCES] > 0) & (words[:, arrays.WAITING] > 0)
        for slot in np.flatnonzero(waits):
            source, sequence = member.host.name[2 * slot : 2 * slot + 2].tolist()
            missing = self.protocol.missing(self.state, int(slot)) if self.protocol.missing else []
            found.append((source, sequence, int(words[slot, arrays.SINCE_NS]), missing))
        return found


def work(protocol: str) -> Work:
    """The step for a protocol, for a compiler process: the types of any member's arrays."""
    node = Node(Settings(member=0, members=2, protocol=protocol))
    state, sources = node.protocol.state, node.protocol.sources
    return Work(step.ENTRY, state, sources, (node.member, node.state))
