"""Protocols in plain Python: in the simulator, in live groups, and when they make mistakes."""

import textwrap

import pytest

from precedes import Scenario, registry, simulate
from precedes.errors import UserError
from precedes.live.member.node import Node, Settings
from precedes.testing import Kind, conformance, observe
from tests.support import commands
from tests.support.network import Network, out_of_order
from tests.support.places import ROOT

FIFO = str(ROOT / "examples/fifo_plain.py")

# Sends a record of numbers for each message that arrives, and checks that it comes back whole.
ECHO = '''
"""A protocol that talks about its messages."""
from typing import NamedTuple
from precedes import plain

GUARANTEE = "none"
ASSUMES = ()

class Seen(NamedTuple):
    source: int
    is_even: bool
    pairs: tuple[tuple[int, ...], ...]
    rest: list[int]

class Message(plain.Message):
    weight: int
    many: list[int]

class Process(plain.Process):
    messages = Message
    records = (Seen,)

    def init(self):
        self.delivered, self.seen = set(), 0

    def broadcast(self, m):
        m.weight, m.many = 7 * m.sequence, [m.sequence, -1, 2**62]
        self.send_all(m)

    def receive(self, sender, packet):
        for item in packet:
            if isinstance(item, Seen):
                assert item == self.about(item.source, item.rest[0]), item
                self.seen += 1
                continue
            assert (item.weight, item.many[0]) == (7 * item.sequence, item.sequence)
            if (item.source, item.sequence) in self.delivered:
                self.drop(item)
                continue
            self.delivered.add((item.source, item.sequence))
            self.deliver(item)
            self.send(item.source, *[self.about(item.source, item.sequence)] * 3)

    def about(self, source, sequence):
        return Seen(source, sequence % 2 == 0, ((1, 2), (), (3,)), [sequence] * 20)

    def extra(self):
        return {"seen": self.seen}

    def admits(self, sender, item):
        if isinstance(item, Seen):
            return item.source == self.me and len(item.rest) == 20
        return item.source == sender and len(item.many) == 3
'''


def write(directory, text, name="mine"):
    path = directory / f"{name}.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def small(directory, methods, *, head=""):
    """The smallest protocol, with these methods too."""
    lines = f'''
"""The smallest protocol."""
from typing import NamedTuple
from precedes import plain
GUARANTEE = "none"
ASSUMES = ()

class Note(NamedTuple):
    value: int

class Process(plain.Process):
    records = (Note,)

    def broadcast(self, m):
        self.send_all(m)

    def receive(self, sender, packet):
        for item in packet:
            if not isinstance(item, Note):
                self.deliver(item)

    def admits(self, sender, m):
        return True

{textwrap.indent(textwrap.dedent(methods), "    ")}
'''
    return write(directory, lines)


def run(name, **settings):
    given = {"nodes": 4, "messages": 20, "rate": 100.0} | settings
    return observe(Scenario(protocol=name, **given))


# In the simulator ---------------------------------------------------------------------------------


def test_the_example_conforms_and_is_the_compiled_one():
    compiled_one = str(ROOT / "examples/fifo_broadcast.py")
    assert conformance(FIFO, schedules=10).failures == ()
    assert conformance(compiled_one, schedules=20, compiled=False, same_as=FIFO).failures == ()


def test_what_differs_is_shown(tmp_path):
    """A twin that delivers at once differs from the one that waits."""
    found = conformance(small(tmp_path, ""), schedules=20, compiled=False, same_as=FIFO)
    assert {failure.kind for failure in found.failures} == {Kind.DIFFERENT}
    assert "deliver" in found.failures[0].text
    assert f"--same-as {FIFO}" in found.failures[0].text


@pytest.mark.parametrize("mtu_bytes", [0, 100, 400])
def test_records_arrive_whole(tmp_path, mtu_bytes):
    """Whatever the MTU, and although packets are lost and repeated."""
    echo = write(tmp_path, ECHO)
    network = {"loss": 0.2, "duplication": 0.2, "mtu_bytes": mtu_bytes, "payload_bytes": 10}
    seen = run(echo, messages=30, **network)
    assert seen.result.extra["seen"] > seen.result.deliveries


def test_an_mtu_cuts_between_records(tmp_path):
    """Each packet of three records becomes two or three of them, and none more."""
    echo = write(tmp_path, ECHO)
    size_bytes = 8 * (2 + 2 + 7 + 21)  # header and kind, two numbers, pairs, the rest
    header_bytes = 100  # less than a record
    limits = (0, 2 * size_bytes + header_bytes, size_bytes + header_bytes, 60)
    found = [run(echo, mtu_bytes=mtu, payload_bytes=0).result for mtu in limits]
    messages = found[0].deliveries
    assert [one.packets - messages for one in found] == [k * messages for k in (1, 2, 3, 3)]


DRAWING = """
def start(self):
    self.set_timer(self.random.randrange(1, 10**9), self.random.choice("ab"))

def on_timer(self, key):
    assert key in ("a", "b")
    assert 0 <= self.random.random() < 1
    self.send_all(Note(self.random.getrandbits(62)))
    if self.now_ns < 10**9:
        self.start()
"""


def test_random_numbers_are_drawn_from_the_seed(tmp_path):
    mine = small(tmp_path, DRAWING)
    assert run(mine).result.packets == run(mine).result.packets
    packets = {run(mine, seed=seed).result.packets for seed in range(1, 6)}
    assert len(packets) > 1, "the seed decides"


def test_a_kept_message_can_be_sent_again(tmp_path):
    resends = """
    def broadcast(self, m):
        self.keep(m)
        self.send_all(m)
        self.set_timer(10**9, m)

    def receive(self, sender, packet):
        for m in packet:
            self.deliver(m)

    def on_timer(self, m):
        self.send_all(m)
        self.release(m)
    """
    seen = run(small(tmp_path, resends))
    assert seen.report.duplicates == seen.report.deliveries // 2 > 0


# In live groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["vector.spec", "vcube.spec"])
def test_members_deliver_in_causal_order(protocol):
    network = Network(protocol, 4, 1)
    network.random_run(150)
    network.settle()
    assert network.lacking() == []
    assert out_of_order(network.order) == []
    assert network.refused == []


@pytest.mark.parametrize(
    "lie", ["item.source == 99", "len(item.many) == 4", "item.none", "[][1]", "int('x')"]
)
def test_what_is_not_admitted_is_refused(tmp_path, lie):
    """A message that ``admits`` rejects, or fails on, is its sender's mistake."""
    text = ECHO.replace("item.source == sender and len(item.many) == 3", lie)
    network = Network(write(tmp_path, text), 2, 1)
    if lie == "item.none":
        with pytest.raises(AttributeError):  # not what a peer can cause: the protocol's own mistake
            network.random_run(10)
        return
    network.broadcast(0)
    network.settle(rounds=5)
    assert network.refused[0][:2] == (1, 0)
    assert network.delivered[1] == []


def test_half_a_record_reaches_nobody(tmp_path):
    """Records that are cut, too long, unknown, or numbers without one; honest peers go on."""
    path = write(tmp_path, ECHO)
    number = lambda tag, value: bytes([tag]) + value.to_bytes(8, "little", signed=True)  # noqa: E731
    packets = {
        "cut": [number(1, 5), number(2, 0)],
        "empty": [number(1, 0)],
        "too long": [number(1, 10**6), number(2, 0)],
        "unknown": [number(1, 1), number(2, 7)],
        "no header": [number(2, 7)],
        "a length of its own": [number(1, 5), *(number(2, n) for n in (0, 0, 1, 10**9, 0))],
        "more behind it": [number(1, 6), *(number(2, n) for n in (0, 0, 1, 0, 0, 9))],
    }
    for name, items in packets.items():
        node = Node(Settings(member=0, members=3, protocol=path))
        node.start()
        node.run(1)
        node.receive(1, bytes([1]) + len(items).to_bytes(2, "little") + b"".join(items))
        malformed = node.run(2).malformed
        assert bool(malformed) == (name != "cut"), name
        assert node.state.process[0].seen == 0
        # A record of a correct member is admitted right after it.
        network = Network(path, 3, 1)
        network.broadcast(0)
        network.settle(rounds=3)
        node.broadcast(b"x")
        node.run(3)
        (body,) = [body for source, target, body in network.frames if (source, target) == (2, 0)][
            :1
        ]
        node.receive(2, body)
        assert node.run(4).malformed == [], name
        assert node.state.process[0].seen == 3, name


def test_a_field_that_is_not_declared(tmp_path):
    adds = """
    def broadcast(self, m):
        m.colour = 1
        self.send_all(m)
    """
    mine = small(tmp_path, adds)
    assert run(mine).result.deliveries == 60, "in a simulation objects travel"
    network = Network(mine, 2, 1)
    network.broadcast(0)
    with pytest.raises(UserError, match=r"m\.colour cannot travel: annotate it in the class"):
        network.settle()


def test_it_needs_admits(tmp_path):
    text = (tmp_path / small(tmp_path, "")).read_text().replace("def admits", "def admitted")
    with pytest.raises(UserError, match="has no admits"):
        Node(Settings(member=0, members=2, protocol=write(tmp_path, text)))


# Mistakes -----------------------------------------------------------------------------------------

MISTAKES = {
    "raise KeyError('no')": r"receive of process \d failed: KeyError: 'no' \(.*mine.py, line 26\)",
    "packet[0].source = 3": "source of message .* cannot change: it has been sent",
    "self.send(0, 'text')": "TypeError: str is not among the protocol's records",
    "self.send(0, Note(2**63))": "OverflowError: 9223372036854775808 does not fit into 64 bits",
    "self.send(0, Note('x'))": "TypeError: 'x' is neither a whole number nor a list or tuple",
    "self.send(0, Note([1] * 4000))": "ValueError: a record of 4002 numbers; the maximum is 4000",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_handler_that_fails_is_named_with_its_line(tmp_path, line):
    mine = small(tmp_path, f"def receive(self, sender, packet):\n    {line}")
    with pytest.raises(UserError, match=MISTAKES[line]):
        run(mine)


def test_a_class_without_handlers(tmp_path):
    text = '''
        """None."""
        from precedes import plain
        GUARANTEE = "none"
        class Process(plain.Process): ...
        '''
    with pytest.raises(UserError, match="its Process has no broadcast"):
        run(write(tmp_path, text))


def test_it_is_never_compiled(tmp_path):
    with pytest.raises(UserError, match="fifo_plain is plain Python, which is not compiled"):
        simulate(Scenario(protocol=FIFO, nodes=2, messages=1), tier="compiled")
    done = commands.run("compile", FIFO)
    assert (done.returncode, done.stderr) == (0, "")
    assert "plain Python" in done.stdout


def test_memory_is_bounded(tmp_path):
    hoards = """
    def receive(self, sender, packet):
        for m in packet:
            self.deliver(m)
        self.hoard = [*getattr(self, "hoard", ()), bytes(1 << 20)]
        for block in self.hoard[-1:]:
            self.touched = sum(block[::4096])
    """
    scenario = {"messages": 2000, "memory_max_bytes": 64 << 20}
    with pytest.raises(UserError, match="more than memory_max_bytes"):
        run(small(tmp_path, hoards), **scenario)
    assert run(small(tmp_path, ""), **scenario).result.lost == 0


def test_a_spec_is_found_by_name_and_not_listed():
    assert registry.load("vcube.spec").is_plain
    assert not registry.load("vcube").is_plain
    assert not [name for name in registry.linked() if name.endswith("spec")]
    with pytest.raises(UserError, match=r"there is no protocol 'unordered\.spec'"):
        registry.load("unordered.spec")
