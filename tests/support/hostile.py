"""A member of a small group that receives malformed input.

Malformed items are real bodies of a group with one thing changed, systematically: every item,
every word of a clock, every number, at values just beyond the bounds and far beyond. Before each
of them the victim is as it was before the last one. Interpreted, its arrays refuse negative
indices, which NumPy and compiled code would take for places at the end.
"""

import copy
import itertools
from dataclasses import dataclass, replace

import numpy as np

from precedes.errors import InternalError
from precedes.live.member import arrays, records
from precedes.live.member.node import Node
from precedes.parts import pool
from precedes.registry import load_live
from tests.support import bodies
from tests.support.bodies import Item, Record
from tests.support.byzantine import PARAMETERS
from tests.support.convictions import hold
from tests.support.network import Network

VICTIM, HONEST, BYZANTINE, LOST = range(4)
MEMBERS = 4
WINDOW = 4
FAR = 1 << 20
# Number of bodies of the byzantine member that are changed, and of words of a field.
FEW = {"changed": 1, "words": 5}
ALL = {"changed": 99, "words": 99}
NUMBERS = (-(2**63), -1, 0, 1, 5, 2**16 - 1, 2**31 - 1, 2**31, 2**48 - 1, 2**62, 2**63 - 1)
BITS = (0, 2, 16, 31, 32, 40, 47, 48, 49, 62)
SEQUENCES = (0, 2**30 - 1, 2**32 - 1)
# Fields whose words are counts: values far beyond all counts are not a clock.
COUNTS = {"need", "stamp"}
# A clock of several components, whose arrays are soon copied.
SMALL = {"dcs": {"component_entries": 2, "components": 2, "components_max": 4}}
# What a defect of the checks may end in, arithmetic beyond its range among it; anything else is a
# mistake of the test.
FALLS = (IndexError, OverflowError, RuntimeWarning, InternalError)


class Checked(np.ndarray):
    """An array without places before its first."""

    def __getitem__(self, key):
        _look(key)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        _look(key)
        super().__setitem__(key, value)


def _look(key):
    for part in key if isinstance(key, tuple) else (key,):
        ends = (part.start, part.stop) if isinstance(part, slice) else (part,)
        for end in ends:
            if isinstance(end, int | np.integer) and end < 0:
                raise IndexError(f"index {end} is negative")


RESERVE_BYTES = 1 << 18  # of a table, so that all of it can be copied


def checked(value):
    """The same arrays, checked."""
    if isinstance(value, int):
        return value
    if isinstance(value, np.ndarray):
        return value.view(Checked)
    parts = map(checked, value)
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


class Watched(Node):
    """A node whose arrays are checked."""

    def __init__(self, settings):
        super().__init__(settings, recording=True)
        self.member = checked(self.member)
        self._map_arrays()

    def _allocate_state(self):
        self.capacity = self.capacity._replace(reserve_bytes=RESERVE_BYTES)
        return checked(super()._allocate_state())


@dataclass
class Lie:
    """``must`` says whether a member has to refuse it, by the rules that hold for all protocols."""

    name: str
    bodies: list[bytes]
    must: bool = False


class Scene:
    """A group at work, with bodies of a byzantine and of an honest member for the victim.

    Where the protocol goes on without a member, one was lost before; everybody tests for crashes.
    """

    def __init__(self, protocol, like, *, seed=1, compiled=False, **parameters):
        self.protocol = load_live(protocol)
        self.like = like  # the protocol of the package that it is, or was before it was edited
        self.layout = bodies.Layout(self.protocol)
        given = {**PARAMETERS.get(like, {}), **SMALL.get(like, {}), **parameters}
        self.network = network = Network(
            protocol, MEMBERS, seed, window=WINDOW, payload_max_bytes=256, parameters=given,
            tests_at_ns=1_000_000, test_interval_ms=30.0,
        )  # fmt: skip
        settings = network.nodes[VICTIM].settings
        self.victim = network.nodes[VICTIM] = (
            Node(settings, recording=True) if compiled else Watched(settings)
        )
        if compiled:
            self.victim.prepare()
        self.victim.start(tests_at_ns=1_000_000)
        goes_on = self.protocol.on_loss == "crash"
        network.random_run(70, victims=[LOST] if goes_on else [])
        self.before = len(network.delivered[VICTIM])
        for _ in range(3):
            for sender in (HONEST, BYZANTINE):
                network.broadcast(sender)
                network.step(sender)
        for _ in range(6):  # bundles wait for a while
            network.step(BYZANTINE)
            network.step(HONEST)
        self.true = network.links.pop((BYZANTINE, VICTIM))
        self.honest = network.links.pop((HONEST, VICTIM))
        self.parsed = [self.layout.parse(body) for body in self.true]
        self._keep()

    # The victim as it was -------------------------------------------------------------------

    def _keep(self):
        self._attributes = {
            name: copy.copy(value)
            for name, value in vars(self.victim).items()
            if isinstance(value, int | float | list) or name in ("member", "state", "capacity")
        }
        self._arrays = [
            (array, array.copy()) for array in _arrays((self.victim.member, self.victim.state))
        ]

    def restore(self):
        for name, value in self._attributes.items():
            setattr(self.victim, name, copy.copy(value))
        for array, content in self._arrays:
            array[...] = content
        self.victim._map_arrays()

    def tell(self, reported):
        """Output of the victim for these bodies, as (sender, body)."""
        for sender, body in reported:
            self.victim.receive(sender, body)
        return self.victim.run(self.network.now_ns)

    # Judging --------------------------------------------------------------------------------

    def judge(self, *, much=FEW):
        """Fail if malformed input changes the state, is accepted, or is blamed on another member.

        After rejected input, messages of a correct member are processed as without it.
        Returns how many lies were refused.
        """
        self.restore()
        expected = _delivered(self.tell([(HONEST, body) for body in self.honest]))
        assert expected, "nobody honest says anything"
        self.restore()
        hold(
            not self.tell([(BYZANTINE, body) for body in self.true]).malformed,
            "blamed",
            "the truth",
        )
        refused = 0
        for lie in self.lies(**much):
            self.restore()
            refused += self._judge(lie, expected)
        self.restore()
        return refused

    def _judge(self, lie, expected):
        try:
            output = self.tell([(BYZANTINE, body) for body in lie.bodies])
            found = output.malformed
            names = [name for name, _ in _delivered(output)]
            hold(len(names) == len(set(names)), "twice", lie.name)
            check_arrays(self.victim, lie.name)
            hold({who for who, _ in found} <= {BYZANTINE}, "blamed", f"{lie.name}: {found}")
            hold(all(reason in records.REASONS for _, reason in found), "reason", lie.name)
            hold(found or not lie.must, "believed", lie.name)
            after = self.tell([(HONEST, body) for body in self.honest])
            hold(not after.malformed, "blamed", f"{lie.name}: then {after.malformed}")
            if found:
                heard = [*_delivered(output), *_delivered(after)]
                lacking = [one for one in expected if one not in heard]
                hold(not lacking, "deaf", f"{lie.name}: {lacking} never came")
        except FALLS as error:
            hold(False, "fell", f"{lie.name}: {error!r}")
        return bool(found)

    def stack(self, lies):
        """Convict the victim of what several lies do to it, one upon the other."""
        self.restore()
        names = []
        for lie in lies:
            try:
                output = self.tell([(BYZANTINE, body) for body in lie.bodies])
            except FALLS as error:
                hold(False, "fell", f"{lie.name}: {error!r}")
            names += [name for name, _ in _delivered(output)]
            hold(len(names) == len(set(names)), "twice", lie.name)
            hold({who for who, _ in output.malformed} <= {BYZANTINE}, "blamed", lie.name)
            check_arrays(self.victim, lie.name)

    # Lies -----------------------------------------------------------------------------------

    def lies(self, *, changed, words):
        """All of them, in an order that does not change."""
        self.words = words
        for k, parsed in enumerate(self.parsed[:changed]):
            before = self.true[:k]
            for at, record in enumerate(parsed):
                for name, instead, must in self._changed(record):
                    body = self.layout.build([*parsed[:at], *instead, *parsed[at + 1 :]])
                    yield Lie(f"{k}.{at} {name}", [*before, body], must)
            whole = self.true[k]
            for cut in sorted({1, 2, len(whole) // 2, len(whole) - 1} & set(range(len(whole)))):
                yield Lie(f"{k} cut at {cut}", [*before, whole[:cut]])
        messages = [
            item
            for parsed in self.parsed
            for record in parsed
            for item in record.items or []
            if record.kind == bodies.PACKET and item.fields is not None
        ]
        yield Lie("all messages in one", [self.layout.build([Record(bodies.PACKET, (), messages)])])
        many = [*messages, *(replace(messages[0], sequence=s) for s in range(5, 300))]
        yield Lie("too many in one", [self.layout.build([Record(bodies.PACKET, (), many)])])
        for name, record, must in self._invented(messages[0]):
            yield Lie(name, [self.layout.build([record])], must)
        for name, item in OWN_LIES.get(self.like, lambda message: ())(messages[0]):
            record = Record(bodies.PACKET, (), [item])
            yield Lie(f"{self.like}: {name}", [self.layout.build([record])], True)

    def _changed(self, record):
        yield "twice", [record, record], False
        if record.items is None:
            for place, value in itertools.product(range(len(record.values)), (0, 3, 4, 65535)):
                values = [*record.values]
                values[place] = value % 256 if record.kind == bodies.DOWN and place == 2 else value
                must = place == 0 and value >= MEMBERS
                yield f"value {place} is {value}", [replace(record, values=tuple(values))], must
            return
        for i, item in enumerate(record.items):
            for name, changed, must in self._changed_items(item):
                items = [*record.items[:i], *changed, *record.items[i + 1 :]]
                yield f"item {i} {name}", [replace(record, items=items)], must

    def _changed_items(self, item):
        classes = self.layout.classes
        yield "twice", [item, item], item.fields is not None and self.is_direct
        for tag in {*range(len(classes) + 1), 255} - {item.tag}:
            same = tag < len(classes) and classes[tag] == classes[item.tag]
            if same or tag >= len(classes):
                yield f"tag {tag}", [replace(item, tag=tag)], tag >= len(classes)
        if item.number is not None:
            for number in (*NUMBERS, *(item.number ^ 1 << bit for bit in BITS)):
                yield f"number {number}", [replace(item, number=number)], number < 0
            return
        is_message = item.fields is not None
        for source in (VICTIM, HONEST, LOST, MEMBERS, 65535):
            must = source >= MEMBERS or (is_message and (self.is_direct or source == VICTIM))
            yield f"source {source}", [replace(item, source=source)], must
        for sequence in (*SEQUENCES, item.sequence + 1, item.sequence + WINDOW + 9):
            must = is_message and sequence != item.sequence + 1
            must = must or sequence in (0, 2**32 - 1) or (is_message and self.is_direct)
            yield f"sequence {sequence}", [replace(item, sequence=sequence)], must
        for f, words in enumerate(item.fields or []):
            field = (*self.protocol.message_fields, "none")[f]
            for name, changed, must in _changed_words(field, words, self.words):
                fields = [*item.fields[:f], changed, *item.fields[f + 1 :]]
                yield f"{field} {name}", [replace(item, fields=fields)], must

    @property
    def is_direct(self):
        return self.protocol.route == "direct"

    def _invented(self, message):
        """Records that nobody sent: every number, and words about others."""
        for tag, kind in enumerate(self.layout.classes):
            if kind == bodies.NUMBER:
                rounds = itertools.product((0, 1, 2), (0, 1, 255), (1, 2, 255))
                values = {*NUMBERS, *(1 << bit for bit in BITS), 3 << 16, 99 | 1 << 16}
                values |= {k << 48 | low << 40 | high << 32 | 7 for k, low, high in rounds}
                for number in sorted(values):
                    record = Record(bodies.PACKET, (), [Item(tag, number)])
                    yield f"a number {number} of tag {tag}", record, number < 0
                for number in (0, 7, 2**62):
                    items = [Item(tag, number), message]
                    yield f"and a message {number}, {tag}", Record(bodies.PACKET, (), items), False
            elif kind == bodies.REFERENCE:
                for source, sequence in itertools.product((0, 1, 3, 4), (0, 1, 2, 2**30 - 1)):
                    item = Item(tag, source=source, sequence=sequence)
                    must = source >= MEMBERS or sequence == 0
                    yield (
                        f"a reference {source}:{sequence}",
                        Record(bodies.PACKET, (), [item]),
                        must,
                    )
        for source in range(MEMBERS):
            for sequence in (0, 1, FAR):
                down = Record(bodies.DOWN, (source, sequence, 1))
                must = source == VICTIM or (self.protocol.route != "tree" and source != BYZANTINE)
                yield f"down of {source}: {sequence}", down, must or sequence == FAR
                up = Record(bodies.UP, (source, sequence, VICTIM))
                yield f"up of {source}: {sequence}", up, sequence == FAR and source == VICTIM
        for kind in (0, 4, 255):
            yield f"record {kind}", Record(kind), True


def _lies_of_vector(message):
    """Of its own messages it needs those before, and of ours none that there is not."""
    (need,) = message.fields
    for name, who, more in (("own", BYZANTINE, 1), ("own", BYZANTINE, -1), ("ours", VICTIM, 1)):
        changed = [word + more * (place == who) for place, word in enumerate(need)]
        yield f"{name} {more:+}", replace(message, fields=[changed])


def _lies_of_vcube(message):
    """Words of the recovery, which live groups do not have."""
    yield "ended", Item(3, LOST)
    yield "direct", replace(message, tag=1)


# What only one protocol's numbers can mean.
OWN_LIES = {"vector": _lies_of_vector, "vcube": _lies_of_vcube}


def _changed_words(field, words, count):
    """One word changed at a time, then too many of them, then none."""
    for place, word in [*enumerate(words)][:count]:
        values = {-1, -(2**31), word + 1, word + WINDOW + 1, FAR, 2**31 - 1}
        for value in sorted(values - {word}):
            changed = [*words[:place], value, *words[place + 1 :]]
            must = field in COUNTS and value < 0
            must = must or (field == "need" and value >= FAR)
            must = must or (field == "stamp" and place == 0 and value >= FAR)
            yield f"word {place} is {value}", changed, must
    if field == "past":
        for high in (1 << 30, -1):
            yield f"beyond the hash {high}", [*words[:1], *[0] * (not words), high], True
    if field in COUNTS:
        yield "at the first", [FAR, *words[1:]], True
        yield "below nothing", [-1, *words[1:]], True
    yield "too long", [*words, *[1] * 3000], True
    yield "none", [], False


def _arrays(value):
    if isinstance(value, np.ndarray):
        yield value
    elif not isinstance(value, int):
        for part in value:
            yield from _arrays(part)


def _delivered(output):
    return [
        ((message.sender, message.sequence), bytes(message.payload))
        for batch in output.deliveries
        for message in batch
    ]


def check_arrays(node, name):
    """Whatever came, the arrays agree with each other, and windows bound them."""
    registers, member = node.registers, node.member
    words = np.asarray(member.message)
    used = words[words[:, arrays.REFERENCES] > 0]
    hold((words[:, arrays.REFERENCES] >= 0).all(), "references", name)
    count = member.slots.mark[pool.COUNT]
    hold(len(used) == count == (member.name[:, 0] != 0).sum(), "slots", name)
    hold((used[:, arrays.WAITING] >= 0).all(), "waiting", name)
    hold(used[:, arrays.WAITING].sum() == registers[arrays.PENDING], "pending", name)
    blocks = -(-used[:, arrays.PAYLOAD_BYTES] // arrays.BLOCK_BYTES)
    hold(blocks.sum() == member.blocks.mark[pool.COUNT], "blocks", name)
