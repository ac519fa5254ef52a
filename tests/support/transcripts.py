"""Steps of processes, one line each: handlers called directly, without a network.

An example moves each packet itself, and what a handler asks of its host is written below what it
was called for:

    node 4: receive from 0: m0
      send 6: m0

References that a process takes to a message, and their ends, are left out.
"""

import contextlib
from collections import Counter, defaultdict, deque

import numpy as np

from precedes import contract, registry
from precedes.contract import Capacity, Group, machines
from precedes.model import NANOSECONDS_PER_MS, EventKind

SLOTS = 32
METHODS = {"receive_wired": "receive", "on_timer": "timer"}


class Transcript:
    """Lines, and a way to do things that nobody needs to read."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        """A line of the example's own."""
        self.lines.append(f"# {line}")

    @contextlib.contextmanager
    def unwritten(self):
        """Steps in the block leave no lines."""
        kept = list(self.lines)
        yield
        self.lines = kept

    def text(self):
        """All lines."""
        return "".join(f"{line}\n" for line in self.lines)


class Processes(Transcript):
    """The processes of a protocol on links, all in one state."""

    def __init__(self, protocol, nodes, *, tags=(), numbers=None, seed=1, **parameters):
        super().__init__()
        self.protocol = registry.load(str(protocol))
        self.tags = ("", *tags)  # what to call the items of each tag
        self.numbers = numbers or {}  # tag -> how to write a number
        capacity = Capacity(slots=SLOTS, reserve_bytes=1 << 20)
        group = Group(nodes=nodes, hosted=np.arange(nodes, dtype=np.int32), seed=seed)
        made = self.protocol.make_parameters(parameters)
        self.state = self.protocol.allocate(made, group, capacity)
        self.host = contract.allocate_host(capacity, seed=seed)
        self.labels = []  # slot -> what the message is called
        self.sent = [0] * nodes
        self.packets = defaultdict(deque)  # source, target -> lists of items
        self.timers = defaultdict(deque)  # node -> keys
        self.kept = Counter()  # node, slot -> references that it has taken

    def start(self, node):
        """A node begins."""
        self.lines.append(f"node {node}: start")
        self._call(node, contract.start)

    def broadcast(self, node, label, stamp=None):
        """A node broadcasts a message; ``stamp`` tells from state and slot what travels with it."""
        slot = len(self.labels)
        self.labels.append(label)
        self.sent[node] += 1
        self.host.name[2 * slot : 2 * slot + 2] = node, self.sent[node]
        self.lines.append(f"node {node}: broadcast {label}")
        self._call(node, contract.broadcast, slot, stamp=stamp and (lambda: stamp(slot)))

    def receive(self, node, sender):
        """The oldest packet from a sender that has not arrived yet."""
        items = self.packets[sender, node].popleft()
        shown = ", ".join(self._item(*item) for item in items)
        self.lines.append(f"node {node}: receive from {sender}: {shown}")
        inbox = np.array(items, np.int64).ravel()
        self._call(node, contract.receive, sender, inbox, len(items))

    def settle(self):
        """All packets under way arrive, and what they lead to, link by link."""
        while under_way := sorted(link for link, queue in self.packets.items() if queue):
            sender, node = under_way[0]
            self.receive(node, sender)

    def lose(self, sender, node):
        """A packet is lost with its sender."""
        items = self.packets[sender, node].popleft()
        shown = ", ".join(self._item(*item) for item in items)
        self.lines.append(f"# node {sender} crashes before it sends {shown} to {node}")

    def crash(self, node, crashed):
        """The failure detector speaks."""
        self.lines.append(f"node {node}: notified that {crashed} has crashed")
        self._call(node, contract.on_crash, crashed)

    def wait(self, wait_ms):
        """Time passes."""
        self.host.registers[contract.NOW_NS] += wait_ms * NANOSECONDS_PER_MS

    def expire(self, node):
        """The oldest timer of a node runs out."""
        self.lines.append(f"node {node}: timer")
        self._call(node, contract.on_timer, self.timers[node].popleft())

    def _item(self, tag, value):
        if self.protocol.items[tag] == contract.NUMBER:
            shown = self.numbers.get(tag, str)(value)
        else:
            shown = self.labels[value]
        return f"{self.tags[tag]} {shown}".strip()

    def _call(self, node, handler, *arguments, stamp=None):
        host = self.host
        host.registers[contract.LENGTH] = 0
        handler(self.state, node, *arguments, host)
        assert not host.registers[contract.OVERFLOW]
        if stamp:
            self.lines.append(f"  {stamp()}")
        words = host.effects[: host.registers[contract.LENGTH]].tolist()
        at = 0
        while at < len(words):
            following = contract.next_effect(words, at)
            self._write_effect(node, *words[at:following])
            at = following

    def _write_effect(self, node, code, first, second=0, *items):
        say = self.lines.append
        if code == contract.DELIVER:
            say(f"  deliver {self.labels[first]}")
        elif code == contract.KEEP:
            self.kept[node, first] += 1
        elif code == contract.DROP and self.kept[node, first] > 0:
            self.kept[node, first] -= 1
        elif code == contract.DROP:
            say(f"  drop {self.labels[first]}")
        elif code == contract.NOTE:
            say(f"  note {EventKind(first).name.lower()} {self.labels[second]}")
        elif code == contract.SET_TIMER:
            say(f"  timer in {second / NANOSECONDS_PER_MS:g} ms")
            self.timers[node].append(first)
        elif code == contract.SEND_ALL:
            say(f"  send all: {self._item(first, second)}")
            for target in range(len(self.sent)):
                if target != node:
                    self.packets[node, target].append([(first, second)])
        elif code in (contract.SEND, contract.SEND_ASIDE):
            pairs = list(zip(items[::2], items[1::2], strict=True))
            say(f"  send {first}: {', '.join(self._item(*pair) for pair in pairs)}")
            self.packets[node, first].append(pairs)


class Machines(Transcript):
    """Hosts h0, h1, .. and stations s0, s1, .. of a protocol on a radio.

    Station 0 is the neighbour of all others. Nothing is random: jitter is 0.
    """

    def __init__(self, protocol, *, hosts, stations, **parameters):
        super().__init__()
        protocol = registry.load(str(protocol))
        made = protocol.make_parameters(parameters)
        self.machines = {}
        for number in range(hosts):
            around = machines.Environment(lambda: 0.0)
            self.machines[f"h{number}"] = protocol.make_host(number, made, around, None)
        for number in range(stations):
            neighbours = (0,) if number else tuple(range(1, stations))
            routes = tuple(0 if number else other for other in range(stations))
            around = machines.Environment(lambda: 0.0)
            station = protocol.make_station(number, neighbours, routes, made, around)
            self.machines[f"s{number}"] = station
        self.labels = {}  # name of a message -> what it is called
        self.air = []  # senders and datagrams
        self.wires = defaultdict(deque)  # source, target -> messages
        self.timers = defaultdict(deque)  # who -> keys

    def attach(self, host, cell):
        """A host joins at a station: unwritten."""
        with self.unwritten():
            self.call(host, "move", int(cell[1:]))
            self.call(host, "join")

    def broadcast(self, host, label):
        """A host broadcasts a message."""
        self.call(host, "broadcast", label)

    def receive(self, who, kind):
        """The last datagram of a kind that others have sent in the cell."""
        machine = self.machines[who]
        cell = machine.cell if who[0] == "h" else machine.station
        heard = [
            datagram
            for sender, datagram in self.air
            if type(datagram).__name__ == kind and datagram.cell == cell and sender != who
        ]
        self.call(who, "receive", heard[-1], shown=self._show(heard[-1]))

    def wired(self, source, target):
        """The next message of a link arrives."""
        message = self.wires[source, target].popleft()
        shown = f"from {source}: {self._show(message)}"
        self.call(target, "receive_wired", int(source[1:]), message, shown=shown)

    def expire(self, who, kind):
        """The first timer of a kind runs out."""
        key = next(key for key in self.timers[who] if key[0] == kind)
        self.timers[who].remove(key)
        self.call(who, "on_timer", key, shown="")

    def call(self, who, method, *arguments, shown=None):
        """Call a machine and write down its effects."""
        shown = " ".join(map(str, arguments)) if shown is None else shown
        self.lines.append(f"{who}: {METHODS.get(method, method)} {shown}".strip())
        machine = self.machines[who]
        getattr(machine, method)(*arguments)
        effects, machine.environment.effects = machine.environment.effects, []
        for effect in effects:
            self._write_effect(who, *effect)

    def _write_effect(self, who, code, *arguments):
        say = self.lines.append
        if code == machines.RADIO:
            say(f"  radio {self._show(arguments[0])}")
            self.air.append((who, arguments[0]))
        elif code == machines.WIRE:
            say(f"  wire s{arguments[0]}: {self._show(arguments[1])}")
            self.wires[who, f"s{arguments[0]}"].append(arguments[1])
        elif code == machines.TIMER:
            say(f"  timer in {arguments[0] / NANOSECONDS_PER_MS:g} ms")
            self.timers[who].append(arguments[1])
        elif code == machines.DELIVER:
            say(f"  deliver {self._show(arguments[0])}")
        elif code == machines.STAMPED:
            say(f"  stamp {self.labels[arguments[0]]}")
        elif code == machines.PERSIST:
            say("  persist")
        elif code == machines.JOINED:
            say("  joined")

    def _show(self, value):
        """A message by its data, anything else by its fields."""
        if isinstance(value, machines.Message):
            self.labels[value.name] = value.data
            return value.data
        if hasattr(value, "data"):
            self.labels[value.host, value.number] = value.data
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = zip(value._fields, value, strict=True)
            shown = (f"{name} {self._show(field)}" for name, field in fields)
            return f"{type(value).__name__}({', '.join(shown)})"
        if isinstance(value, tuple):
            if value in self.labels:
                return self.labels[value]
            return f"[{', '.join(map(self._show, value))}]"
        return str(value)
