"""Every protocol keeps the contract, and a file that breaks a rule gets an error that names it."""

import ast
from pathlib import Path

import pytest

from precedes import simulate, sources
from precedes.errors import InternalError, UserError
from precedes.machine import RESERVE
from precedes.registry import ContractError, linked, load, names
from precedes.sim import Scenario
from precedes.sim.engine import loop
from precedes.testing import Kind, assert_conforms, conformance
from tests.support import edited
from tests.support.places import BATCHES


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", linked())
def test_conforms(name):
    found = assert_conforms(name, schedules=20, seed=1)
    print(found)
    assert found.deliveries > 1000
    if load(name).guarantee == "none":
        assert found.violations > 0, "the negative control was not convicted"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", linked())
def test_keeps_the_rules_on_networks_it_does_not_assume(name):
    assert_conforms(name, schedules=15, seed=1, hostile=True)


@pytest.mark.usefixtures("engine")
def test_everything_a_handler_may_ask_for():
    """Timers, kept messages, packets of many items, names, notes and crashes, compiled too."""
    assert_conforms(BATCHES, schedules=25, seed=1)


def test_adding_a_file_adds_the_protocol():
    folder = edited.FOLDER
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    texts |= {path.parent.name: path.read_text() for path in folder.glob("*/__init__.py")}
    assert set(names()) == {stem for stem, text in texts.items() if "\nGUARANTEE: " in text}
    for name in names():
        assert load(name).name == name
        assert len(load(name).summary) > 20


# What is wrong with a file, as edits of ``unordered``, and the error for its author.
REFUSED = {
    "state": (("", "", "del State"), "State"),
    "parameters": (("", "", "del Parameters"), "Parameters"),
    "items": (("", "", "del ITEMS"), "ITEMS is missing"),
    "message fields": (("", "", "del MESSAGE_FIELDS"), "MESSAGE_FIELDS is missing"),
    "guarantee": (("", "", "del GUARANTEE"), "GUARANTEE is missing"),
    "assumes": (("", "", "del ASSUMES"), "ASSUMES is missing"),
    "allocate": (("", "", "del allocate"), r"allocate\(.*\) is missing"),
    "wrong guarantee": (
        ("", "", "GUARANTEE = 'total order'"),
        "GUARANTEE must be one of causal, probable, none, not 'total order'",
    ),
    "wrong assumption": (
        ("", "", "ASSUMES = frozenset({'lossless'})"),
        r"ASSUMES may name reliable, unique, fifo, not \['lossless'\]",
    ),
    "first item": (("", "", "ITEMS = (2, MESSAGE)"), r"ITEMS\[0\] must be MESSAGE"),
    "no items": (("", "", "ITEMS = ()"), r"ITEMS\[0\] must be MESSAGE"),
    "no broadcast": (
        ("broadcast", "handler(State)", "lambda body: body"),
        "no broadcast is registered for its State",
    ),
    "no receive": (
        ("receive", "handler(State)", "lambda body: body"),
        "no receive is registered for its State",
    ),
    "no size": (
        ("message_bytes", "handler(State)", "lambda body: body"),
        "no message_bytes is registered for its State",
    ),
    "no dataclass": (("", "dataclass(...)", "lambda one: one"), "Parameters must be a dataclass"),
    "no default": (
        ("Parameters", "", "size: int"),
        "Parameters must have a default for every field",
    ),
    "another state": (
        ("allocate", "State(...)", "(1, 2)"),
        "allocate returns tuple, not its State",
    ),
    "field without rows": (
        ("", "", "MESSAGE_FIELDS = ('hosted',)"),
        "MESSAGE_FIELDS names 'hosted', which has not one row per slot",
    ),
    "field that is not there": (
        ("", "", "MESSAGE_FIELDS = ('clock',)"),
        "MESSAGE_FIELDS names 'clock', which has not one row per slot",
    ),
    "import": (
        ("", "import numpy as np", "import numpy_of_another_name as np"),
        "cannot be imported",
    ),
    "a program's end": (("", "", "raise SystemExit(0)"), "cannot be imported: it ends the program"),
}


def check_refused(path, match):
    with pytest.raises(ContractError, match=match) as raised:
        load(path)
    assert path in str(raised.value)
    with pytest.raises(ContractError, match=match):
        conformance(path, schedules=1)


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_at_import(rule, tmp_path):
    edit, match = REFUSED[rule]
    check_refused(edited.protocol(tmp_path, "unordered", edit), match)


@pytest.mark.parametrize(
    ("first", "last", "match"),
    [("0\n", "", "no docstring"), ("", "class class", "cannot be imported")],
)
def test_text_that_is_refused(tmp_path, first, last, match):
    path = tmp_path / "edited.py"
    text = (edited.FOLDER / "unordered.py").read_text()
    path.write_text(first + text.replace("from __future__ import annotations", "") + last)
    check_refused(str(path), match)


TWICE = ("receive", "host.deliver(...)", "host.deliver(...); host.deliver(...)")
CAUSAL = ("", "", "GUARANTEE = 'causal'")
ENTRY_BYTES = "ENTRY_BYTES: Final = ..."


def sends(instead):
    """``unordered`` with a broadcast that does this instead of sending, or also."""
    return "broadcast(state, here, slot, host)", "host.send_all(...)", instead


# Rules that only a run can show, as edits of a protocol, and what the suite says about them.
BROKEN = {
    "delivers twice": (
        "unordered", [TWICE], "delivers message .* without holding a reference"
    ),
    "never delivers": (
        "unordered", [("receive", "host.deliver(...)", "")], "deliveries are missing"
    ),
    "drops everything": (
        "unordered", [("receive", "host.deliver(...)", "host.drop(...)")], "deliveries are missing"
    ),
    "never ends a reference": (
        "vector",
        [("receive(state)", "host.drop(...)", "")],
        "neither delivered nor dropped a reference",
    ),
    "drops without a reference": (
        "unordered",
        [sends("host.send_all(...); host.drop(slot)")],
        "broadcast at node .* drops message .* without holding",
    ),
    "delivers its own": (
        "unordered",
        [sends("host.send_all(...); host.deliver(slot)")],
        "which it delivered by broadcasting it",
    ),
    "changes what it sent": (
        "vector",
        [("receive(state)", "host.deliver(slot)", "host.deliver(slot); state.need[slot, 0] += 1")],
        "fields of message .* changed after it had been sent",
    ),
    "too many effects": (
        "unordered",
        [sends("while host.registers[2] == 0: host.send_all(DATA, slot)")],
        "InternalError: .* requested effects of more than .* words",
    ),
    "forwards after the end": (
        "unordered",
        [
            (
                "receive(state, here, sender)",
                "host.deliver(value_of(inbox, i))",
                "host.deliver(value_of(inbox, i))\n"
                "if sender == host.source_of(value_of(inbox, i)):\n"
                "    host.send_all(DATA, value_of(inbox, i))",
            ),
        ],
        "receive at node .* sends message .* without holding a reference",
    ),
    "sends to itself": (
        "unordered", [sends("host.send(here, DATA, slot)")], "sends to node"
    ),
    "sends to nobody": (
        "unordered", [sends("host.send(12, DATA, slot)")], "sends to node 12 of"
    ),
    "sends nothing": (
        "unordered",
        [sends("host.send_all(...); host.open_packet(1 - min(here, 1))")],
        "sends a packet without items",
    ),
    "sends what it did not declare": (
        "unordered",
        [sends("host.send_all(...); host.send_all(3, slot)")],
        "sends an item of tag 3, which is not in ITEMS",
    ),
    "notes what nobody knows": (
        "unordered",
        [sends("host.send_all(...); host.note(99, slot)")],
        "notes an unknown kind 99",
    ),
    "has a secret": (
        "unordered",
        [
            ("message_bytes(state, slot)", "", "SECRET.append(slot); return len(SECRET)"),
            ("", "", "SECRET = []"),
        ],
        "the same seed gave another result the second time",
    ),
    "promises too much": ("unordered", [CAUSAL], "causal order was broken: .* precedes"),
    "assumes too little": (
        "unordered",
        [("", "", "ASSUMES = frozenset({'reliable'})")],
        "a message was delivered twice",
    ),
    "fails": ("unordered", [("broadcast", "", "raise ZeroDivisionError")], "ZeroDivisionError"),
}  # fmt: skip


KINDS = {
    "drops everything": Kind.LOST,
    "never delivers": Kind.LOST,
    "delivers twice": Kind.REFERENCE,
    "never ends a reference": Kind.REFERENCE,
    "drops without a reference": Kind.REFERENCE,
    "delivers its own": Kind.OWN,
    "changes what it sent": Kind.FIELDS,
    "too many effects": Kind.RAISED,
    "forwards after the end": Kind.REFERENCE,
    "has a secret": Kind.DIFFERENT,
    "promises too much": Kind.ORDER,
    "assumes too little": Kind.TWICE,
    "fails": Kind.RAISED,
}  # of the others: EFFECT


@pytest.fixture
def little_room(monkeypatch):
    """Tables and effects of 1 MiB: their end is reached at once."""
    monkeypatch.setenv(RESERVE, "1")


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("rule", BROKEN)
def test_broken_in_a_run(rule, tmp_path):
    name, edits, match = BROKEN[rule]
    path = edited.protocol(tmp_path, name, *edits)
    with pytest.raises(AssertionError, match=match) as raised:
        assert_conforms(path, schedules=12, seed=1, compiled=False)
    assert f"python -m precedes.testing {path} --seed " in str(raised.value)
    (failure,) = conformance(path, schedules=12, seed=1, compiled=False, failures_max=1).failures
    assert failure.kind == KINDS.get(rule, Kind.EFFECT)
    assert bool(failure.raised) == (failure.kind == Kind.RAISED)


def test_a_failure_repeats_from_its_seed(tmp_path):
    path = edited.protocol(tmp_path, "unordered", CAUSAL)
    failures = conformance(path, schedules=12, seed=1, compiled=False).failures
    assert len(failures) > 1
    last = failures[-1]
    assert (last.kind, last.raised) == (Kind.ORDER, "")
    assert conformance(path, schedules=1, seed=last.seed, compiled=False).failures == (last,)


SMALL = {"nodes": 4, "messages": 40, "delay": "uniform:1:90"}


@pytest.mark.usefixtures("little_room")
def test_the_simulator_itself_notices(tmp_path):
    """Without the suite, a run that cannot be trusted ends in an error, not in a result."""
    twice = edited.protocol(tmp_path, "unordered", TWICE, rename="twice")
    with pytest.raises(InternalError, match=r"twice broke the contract: node .* more than it had"):
        simulate(Scenario(protocol=twice, **SMALL), tier="interpreted")
    _, edits, _ = BROKEN["too many effects"]
    much = edited.protocol(tmp_path, "unordered", *edits, rename="much")
    with pytest.raises(InternalError, match=r"protocol much: one call .* requested effects"):
        simulate(Scenario(protocol=much, **SMALL), tier="interpreted")


def test_a_users_own_file(tmp_path):
    """Every other message is dropped: the simplest protocol that nobody else has."""
    path = edited.protocol(
        tmp_path,
        "unordered",
        (
            "receive",
            "host.deliver(value_of(inbox, i))",
            "if host.sequence_of(value_of(inbox, i)) % 2: host.deliver(value_of(inbox, i))\n"
            "else: host.drop(value_of(inbox, i))",
        ),
        rename="every_other",
    )
    result = simulate(Scenario(protocol=path, **SMALL), tier="interpreted")
    ours = simulate(Scenario(protocol="unordered", **SMALL), tier="interpreted")
    assert result.protocol == "every_other"
    assert result.broadcasts == ours.broadcasts == 40
    assert 0 < result.deliveries < ours.deliveries == 120
    assert result.deliveries + result.extra["dropped"] == 120
    assert result.lost == result.extra["dropped"]


def test_an_edited_file_is_another_protocol(tmp_path):
    """Also within one process, as in a notebook."""
    scenario = Scenario(protocol=edited.protocol(tmp_path, "unordered"), **SMALL)
    before = simulate(scenario, tier="interpreted")
    edited.protocol(tmp_path, "unordered", ("message_bytes", "8", "9"))
    after = simulate(scenario, tier="interpreted")
    assert after.bytes_sent == before.bytes_sent + before.packets


def test_an_edited_helper_is_another_protocol(tmp_path):
    helper = tmp_path / "header_size.py"
    helper.write_text("BYTES = 8\n")
    path = edited.protocol(
        tmp_path,
        "unordered",
        ("message_bytes", "8", "header_size.BYTES"),
        (
            "",
            "",
            f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
            "import header_size\ndel sys.path[0]",
        ),
    )
    scenario = Scenario(protocol=path, **SMALL)
    before = simulate(scenario, tier="interpreted")
    helper.write_text("BYTES = 9\n")
    after = simulate(scenario, tier="interpreted")
    assert after.bytes_sent == before.bytes_sent + before.packets


def test_a_users_own_folder(tmp_path):
    """A package with relative imports: all its files count, and two versions run side by side."""
    path = edited.protocol(tmp_path, "vcube", rename="mine")
    scenario = Scenario(protocol=path, parameters={"tolerant": False}, **SMALL)
    first = load(path)
    ours = simulate(scenario.replace(protocol="vcube"), tier="interpreted")
    before = simulate(scenario, tier="interpreted")
    assert before.protocol == "mine"
    assert (before.bytes_sent, before.packets) == (ours.bytes_sent, ours.packets)
    parts = loop.ENTRY.parts(first.state, first.sources)
    assert set(Path(path).glob("*.py")) == set(first.sources) <= set(parts)

    compiled_from = sources.digest(parts)
    edited.change(Path(path), ("", ENTRY_BYTES, ENTRY_BYTES.replace("...", "5")))
    assert sources.digest(parts) != compiled_from
    after = simulate(scenario, tier="interpreted")
    assert after.bytes_sent > before.bytes_sent
    assert load(path).state is not first.state


def test_no_such_folder(tmp_path):
    with pytest.raises(UserError, match=r"there is no protocol file .*absent/__init__\.py"):
        load(str(tmp_path / "absent"))


def test_a_folder_that_fails_to_import(tmp_path):
    path = edited.protocol(
        tmp_path, "vcube", ("", ENTRY_BYTES, ENTRY_BYTES.replace("...", "absent"))
    )
    with pytest.raises(ContractError, match="cannot be imported"):
        load(path)
    edited.change(Path(path), ("", ENTRY_BYTES, ENTRY_BYTES.replace("...", "4")))
    assert load(path).guarantee == "causal"


def users_of_parts():
    """Each file of ``precedes.parts``, and the protocols and other rooms that import it."""
    folder = sources.PACKAGE / "parts"
    users = {f"precedes.parts.{dotted(file, folder)}": set() for file in folder.rglob("[!_]*.py")}
    for file in sources.files():
        room, *inner = file.relative_to(sources.PACKAGE).with_suffix("").parts
        if room == "parts":
            continue
        user = inner[0] if room == "protocols" else room
        for name in sources.imports(ast.parse(file.read_bytes())):
            for part in {name, name.rpartition(".")[0]} & set(users):
                users[part].add(user)
    return users


def dotted(file, folder):
    return ".".join(file.relative_to(folder).with_suffix("").parts)


def test_parts_are_shared():
    """Code that only one protocol uses belongs to it, not to ``precedes.parts``."""
    users = users_of_parts()
    assert {"precedes.parts.pool", "precedes.parts.hash_check.queue"} <= set(users)
    assert {part: found for part, found in users.items() if len(found) < 2} == {}
