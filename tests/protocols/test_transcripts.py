"""The examples of the papers as transcripts: a change of a protocol is read as a change of these.

``pytest tests/protocols/test_transcripts.py --rewrite-transcripts`` rewrites them.
"""

import pytest

from precedes.protocols.dcs.state import CARRIES, INCREMENTS
from precedes.protocols.flooding import machines, reno
from precedes.protocols.mobile import host
from precedes.protocols.vcube.state import ENTRIES, FIRST_ENTRY, NODE_BITS, NODE_MASK
from tests.support.edited import protocol
from tests.support.places import ROOT
from tests.support.transcripts import Machines, Processes

FOLDER = ROOT / "tests/transcripts"


def vector(name="vector"):
    """Birman, Schiper, Stephenson 1991: m1 precedes m2, and node 2 receives m2 first. It waits."""
    group = Processes(name, 3)

    def needs(slot):
        return f"needs {group.state.need[slot, :3].tolist()}"

    group.broadcast(0, "m1", needs)
    group.receive(1, 0)
    group.broadcast(1, "m2", needs)
    group.receive(2, 1)
    group.receive(2, 0)
    group.receive(0, 1)
    return group


def vcube_group(name, nodes, **parameters):
    def ended(value):
        return f"{value & NODE_MASK}, has {value >> NODE_BITS}"

    tags = ("DIRECT", "RELAY", "ENDED", "ACKNOWLEDGED", "RELAYED")
    group = Processes(name, nodes, tags=tags, numbers={3: ended}, **parameters)

    def changed(slot):
        stamp = group.state.stamp[slot]
        pairs = range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2)
        return "changed " + (", ".join(f"{stamp[i]}:{stamp[i + 1]}" for i in pairs) or "nothing")

    return group, changed


def vcube(name="vcube"):
    """de Araujo et al. 2018, section 4.3, Figure 5: m2 -> m1 -> m0. Node 4 receives m0 first and
    sends it to 6, but not to 5, which is to get m2 by node 4 too; then both in one packet,
    without m1.
    """
    group, changed = vcube_group(name, 8, tolerant=False)
    group.broadcast(2, "m2", changed)
    group.receive(3, 2)
    group.receive(0, 2)
    group.receive(1, 0)
    group.broadcast(1, "m1", changed)
    group.receive(0, 1)
    group.broadcast(0, "m0", changed)
    group.receive(4, 0)
    group.receive(6, 4)
    group.receive(6, 2)
    group.receive(4, 6)
    group.receive(5, 4)
    group.receive(5, 1)
    group.receive(4, 5)
    return group


def vcube_sequence(name="vcube"):
    """de Araujo et al. 2018, section 5: node 4 lacks the second message of node 2. It sends the
    first to 5; when the second comes, all that waited goes to 5 in one packet. Node 6 gets m0.1
    at once.
    """
    group, changed = vcube_group(name, 8, tolerant=False)
    for i in (1, 2, 3):
        group.broadcast(2, f"m2.{i}", changed)
    with group.unwritten():
        for _ in range(3):
            group.receive(0, 2)
            group.receive(6, 2)
    group.broadcast(0, "m0.1", changed)
    group.receive(4, 6)
    late = group.packets[6, 4].popleft()
    group.receive(4, 6)
    group.receive(4, 0)
    group.packets[6, 4].append(late)
    group.receive(4, 6)
    return group


def vcube_crash(name="vcube"):
    """Node 0 crashes between two packets of its broadcast (the paper has no crashes; see
    recovery.py). Survivors relay m0, acknowledge it, end with the crash, and broadcast directly
    meanwhile.
    """
    group, changed = vcube_group(name, 4)
    group.broadcast(0, "m0", changed)
    group.lose(0, 2)
    group.receive(1, 0)
    for node in (1, 2, 3):
        group.crash(node, 0)
    group.broadcast(1, "m1", changed)
    group.settle()
    group.broadcast(1, "m1'", changed)
    return group


def bundled(name="bundled"):
    """Rodrigues et al. 2018, section 4.1, Figure 2: the trees of 0 and 8 overlap below 0. Node 0
    sends m0 and m8 to 1, 2 and 4 in one bundle each; ACKs travel back in bundles, too.
    """
    group = Processes(name, 16, tags=("ACK",))
    group.broadcast(8, "m8")
    group.wait(2)
    for _ in range(4):
        group.expire(8)
    group.broadcast(0, "m0")
    group.receive(0, 8)
    group.wait(2)
    for _ in range(4):
        group.expire(0)
    group.receive(1, 0)
    group.wait(2)
    group.expire(1)
    group.receive(0, 1)
    return group


def failure_detector(name="failure_detector"):
    """Rodrigues et al. 2018, section 3.1: node 0 of 16 tests 1, 2, 4 and 8. Node 1 has crashed and
    does not reply in time; a crash is a timer without delay. Node 2 tests node 0 and learns of it:
    a reply carries the state counters above 0, and an odd one means faulty.
    """

    def counter(value):
        return f"{value & 0xFFFF}:{value >> 16}"

    group = Processes(name, 16, tags=("TEST", "REPLY", "COUNTER"), numbers={3: counter})
    group.start(0)
    for tested in (2, 4, 8):
        group.receive(tested, 0)
        group.receive(0, tested)
    group.wait(1000)
    group.expire(0)
    group.expire(0)
    group.start(2)
    group.receive(0, 2)
    group.receive(2, 0)
    return group


def figure_1(name, **parameters):
    """Processes with the entries of Figure 1, and a fourth one with those of the first."""
    tags = ("REQUEST", "ANNOUNCE", "DEPENDENCY")
    numbers = {2: lambda value: f"{value & 0xFFFF} of message {value >> 49}"}
    numbers[3] = lambda value: f"{value >> 32 & 0xFFFF}:{value & 0xFFFF} of message {value >> 49}"
    group = Processes(name, 4, tags=tags, numbers=numbers, entries=3, **parameters)
    group.state.own[:] = [[0, 1], [0, 2], [1, 2], [0, 1]]

    def needs(slot):
        return f"needs {group.state.need[slot, :3].tolist()}"

    return group, needs


def probabilistic(name="probabilistic"):
    """Wilhelm et al. 2023, section II, Figure 1: m precedes m', and node 2 receives m' first. It
    waits, for its entries 0 and 1 are lower than those of m'.
    """
    group, needs = figure_1(name, detector="mostefaoui")
    group.broadcast(0, "m", needs)
    group.receive(1, 0)
    group.broadcast(1, "m'", needs)
    group.receive(2, 1)
    group.receive(2, 0)
    return group


def probabilistic_error(name="probabilistic"):
    """Wilhelm et al. 2023, section II: n, concurrent to m and on the same entries, covers them, so
    m' is delivered before m, which precedes it. The detector tags m, which comes too late.
    """
    group, needs = figure_1(name, detector="mostefaoui")
    group.broadcast(0, "m", needs)
    group.receive(1, 0)
    group.broadcast(1, "m'", needs)
    group.broadcast(3, "n", needs)
    group.receive(2, 3)
    group.receive(2, 1)
    group.receive(2, 0)
    return group


def hashed(name="hashed"):
    """Improving accuracy of probabilistic-based causal broadcast, Algorithm 2: n covers the entries
    of m, so the clock would let m' pass before m. The hash does not fit: m' is suspect, its sender
    is asked, and m' waits for m.
    """
    group, needs = figure_1(name)
    group.broadcast(0, "m", needs)
    group.receive(1, 0)
    group.broadcast(1, "m'", needs)
    group.broadcast(3, "n", needs)
    group.receive(2, 3)
    group.receive(2, 1)
    group.wait(100)
    group.expire(2)
    group.receive(1, 2)
    group.receive(2, 1)
    group.receive(2, 0)
    return group


def dcs(name="dcs"):
    """Wilhelm et al. 2023, Figure 4: node 0 adds a component and increments it. Node 1 delivers m'
    and m, and adds it too; node 2 receives m'' first, which waits for m. (Loads are set by
    hand.)
    """
    shape = {"component_entries": 1, "components_max": 4, "spread": 1}
    group = Processes(name, 3, seed=1_000_000, **shape)

    def stamp(slot):
        carries = int(group.state.stamp[slot, CARRIES])
        clock = group.state.need[slot, :carries].tolist()
        return f"carries {clock}, increments component {group.state.stamp[slot, INCREMENTS]}"

    group.state.dcs.load.width[0] = 2
    group.broadcast(0, "m", stamp)
    group.broadcast(2, "m'", stamp)
    group.receive(1, 2)
    group.receive(1, 0)
    group.state.dcs.load.width[1] = 2
    group.broadcast(1, "m''", stamp)
    group.receive(2, 1)
    group.receive(2, 0)
    return group


def joined(name, *, cells, asks, answer):
    """Hosts that have joined, each in its cell of two; nothing is under way."""
    stage = Machines(name, hosts=len(cells), stations=2)
    for number, station in enumerate(cells):
        stage.attach(f"h{number}", station)
        with stage.unwritten():
            stage.receive(station, asks)
            stage.receive(f"h{number}", answer)
            while links := [link for link, queue in stage.wires.items() if queue]:
                stage.wired(*links[0])
    return stage


def mobile(name="mobile"):
    """Wilhelm et al. 2020, Figure 5, cells 1 and 2 being s0 and s1: h0 has delivered m1 in s0,
    which keeps m2; s1 has discarded m2 and keeps m1; m3 comes during the handoff. h0 gets m2,
    skips m1, gets m3.
    """
    stage = joined(name, cells=("s0", "s0", "s1"), asks="Join", answer="InitAck")
    with stage.unwritten():
        stage.broadcast("h1", "m1")
        stage.receive("s0", "FromHost")
        stage.broadcast("h2", "m2")
        stage.receive("s1", "FromHost")
        for who in ("h0", "h1"):
            stage.receive(who, "FromStation")
            stage.expire(who, host.ACK)
            stage.receive("s0", "HostAck")
        stage.receive("h2", "FromStation")
        stage.expire("h2", host.ACK)
        stage.receive("s1", "HostAck")
        stage.wired("s0", "s1")
        stage.wired("s1", "s0")
    stage.call("h0", "move", 1)
    stage.receive("s1", "Init")
    stage.wired("s1", "s0")
    stage.broadcast("h2", "m3")
    stage.receive("s1", "FromHost")
    stage.wired("s1", "s0")
    stage.wired("s0", "s1")
    stage.wired("s0", "s1")
    stage.wired("s1", "s0")
    stage.wired("s0", "s1")
    stage.receive("h0", "InitAck")
    stage.receive("h0", "CatchUp")
    stage.receive("h0", "FromStation")
    return stage


def flooding(name="flooding"):
    """Wilhelm et al. 2020, Figure 4, over TCP: h0 broadcasts m1, and h1 m2 after it has delivered
    m1. Links are FIFO, so m2 is behind m1 wherever it comes.
    """
    stage = joined(name, cells=("s0", "s1"), asks="Open", answer="Opened")
    with stage.unwritten():
        for station in ("s0", "s1"):
            stage.receive(station, "Segment")
    stage.broadcast("h0", "m1")
    stage.receive("s0", "Segment")
    stage.wired("s0", "s1")
    stage.expire("s1", machines.SPACED)
    stage.receive("h1", "Segment")
    stage.broadcast("h1", "m2")
    stage.receive("s1", "Segment")
    stage.wired("s1", "s0")
    stage.expire("s0", machines.SPACED)
    stage.expire("s0", machines.SPACED)
    stage.receive("h0", "Segment")
    stage.expire("h0", reno.DELAYED_ACK)
    stage.receive("s0", "Segment")
    stage.receive("h0", "Segment")
    return stage


EXAMPLES = {
    example.__name__: example
    for example in (
        *(vector, vcube, vcube_sequence, vcube_crash, bundled, hashed, dcs),
        *(probabilistic, probabilistic_error, failure_detector, mobile, flooding),
    )
}


def transcript(example, *arguments):
    head = "".join(f"# {line.strip()}\n" for line in example.__doc__.strip().splitlines())
    return head + example(*arguments).text()


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_transcript_of_an_example(example, request):
    file = FOLDER / f"{example}.txt"
    now = transcript(EXAMPLES[example])
    if request.config.getoption("rewrite_transcripts"):
        file.write_text(now)
    assert now == file.read_text(), "read the difference; --rewrite-transcripts takes it over"


def test_each_transcript_has_an_example():
    assert {file.stem for file in FOLDER.glob("*")} == set(EXAMPLES)


EDITS = {
    "vcube": (
        "_send_chosen",
        "rows.blocked[row] < s <= rows.unserved[row]",
        "s <= rows.unserved[row]",
    ),
    "vector": ("receive", "clocks.covers(...)", "True"),
    "mobile": ("_on_handover", "{*record.undelivered, *message.since}", "{*record.undelivered}"),
}


@pytest.mark.parametrize("example", EDITS)
def test_an_edited_protocol_changes_its_transcript(example, tmp_path):
    mutant = protocol(tmp_path, example, EDITS[example])
    assert transcript(EXAMPLES[example], mutant) != (FOLDER / f"{example}.txt").read_text()
